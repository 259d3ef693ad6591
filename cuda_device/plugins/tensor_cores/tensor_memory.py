"""Tensor memory of sm_100, which holds the accumulators of `tcgen05_mma`. Compile only: CPU streams do not emulate it.

    memory = shared_array(1, TensorMemory(256))                 256 of the 512 columns
    if warp == 0:
        tcgen05_alloc(memory)                                   by a whole warp
    tcgen05_fence_before_sync()
    syncthreads()
    tcgen05_fence_after_sync()
    d = memory[0].tile(0, (128, 256), float32)
    …                                                           tcgen05_mma(d, a, b), tcgen05_commit(bar), bar.wait(0)
    tcgen05_fence_after_sync()
    x = tcgen05_wait_ld(tcgen05_ld(d.part(0, 64)))              64 columns of this thread's row

A block has 128 lanes and 512 columns of 32 bits. An address has the lane in its upper 16 bits, and the column in its lower ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cuda_device import CompileError, DeviceOnlyError, sm100f, struct, uint32
from cuda_device.extend import Known, constant_of, dataclass, layout, model, ops, replace, specialised, type_argument
from cuda_device.plugins.tensor_cores.shared_operands import TYPES
from cuda_device.plugins.tensor_cores.single_instructions import check_integer, instruction, single
from cuda_device.plugins.tensor_cores.swizzling import array_of


def TensorMemory(columns: int, blocks: int = 1) -> Any:  # noqa: N802 - it makes a type
    """The type of handles of `columns` columns of tensor memory: a power of two from 32 to 512. Compile only.

    `memory = shared_array(1, TensorMemory(512))` holds a handle, which `tcgen05_alloc(memory)` writes. With `blocks=2`, two
    blocks of a cluster multiply together, of which the first one has an even rank, and each has such a handle.

    `memory[0].tile(column, shape, dtype)` is a tile of the shape (rows, columns), a constant, from a column of 32 bits on. A tile
    of 128 rows has one in each lane, and a tile of 64 rows 16 in the first lanes of each warp. Accumulators are float32 or int32.
    Tiles of 128 rows with elements of 8 or 16 bits, four or two in a column, are operands `a` of `tcgen05_mma`. Tiles have
    `shape` and `part(start, count)`, the tile of `count` columns, a constant, from the column `start` of the tile on.

    Raises `ValueError` for other numbers of columns and blocks, and `CompileError` for other tiles. Source: PTX, "Tensor Memory".
    """
    if columns not in (32, 64, 128, 256, 512) or blocks not in (1, 2):
        raise ValueError(f"TensorMemory({columns}, {blocks}): give 32, 64, 128, 256 or 512 columns, and 1 or 2 blocks")
    return _memory_class(int(columns), int(blocks))


def tcgen05_alloc(memory: Any) -> None:
    """Allocates tensor memory, and writes its handle to `memory[0]`, an array of a type `TensorMemory(…)` in shared memory.

    A whole warp calls it (with two blocks, a warp in each), and waits while other blocks have the columns. A barrier follows,
    between `tcgen05_fence_before_sync` and `tcgen05_fence_after_sync`. Compile only, for sm_100a, sm_103a and the
    other `a` and `f` variants of their family. Raises `CompileError` for other arrays. PTX: tcgen05.alloc.
    """
    raise DeviceOnlyError.of("tcgen05_alloc")


def tcgen05_dealloc(memory: Any) -> None:
    """Frees the tensor memory of a handle, `memory[0]`, by a whole warp, which each block does before it ends.

    Compile only, like `tcgen05_alloc`. PTX: tcgen05.dealloc.
    """
    raise DeviceOnlyError.of("tcgen05_dealloc")


def tcgen05_relinquish_permit(blocks: int = 1) -> None:
    """Says, by a whole warp, that this block allocates no more tensor memory, so that others may begin to.

    Compile only, like `tcgen05_alloc`. PTX: tcgen05.relinquish_alloc_permit.
    """
    raise DeviceOnlyError.of("tcgen05_relinquish_permit")


def tcgen05_fence_before_sync() -> None:
    """Orders this thread's earlier `tcgen05_…` before a barrier that follows. PTX: tcgen05.fence::before_thread_sync."""
    raise DeviceOnlyError.of("tcgen05_fence_before_sync")


def tcgen05_fence_after_sync() -> None:
    """Orders this thread's later `tcgen05_…` after a barrier that precedes. PTX: tcgen05.fence::after_thread_sync."""
    raise DeviceOnlyError.of("tcgen05_fence_after_sync")


# Handles and tiles


@dataclass(frozen=True)
class TensorTile:
    """The type of a tile of tensor memory. Its columns are those of the matrix, and `words` the columns of 32 bits."""

    element: Any
    rows: int
    columns: int
    blocks: int

    @property
    def words(self) -> int:
        """The columns of tensor memory."""
        return self.columns * layout.size_of(self.element) // 4

    @property
    def registers(self) -> int:
        """The registers of each of 128 threads."""
        return self.words * self.rows // 128

    def __str__(self) -> str:
        return f"a tile of {self.rows} x {self.columns} {self.element} in tensor memory"


def _tile(self: Any, column: Any, shape: Any, dtype: Any) -> Any:
    """A tile of the memory from a column on."""
    raise DeviceOnlyError.of("TensorMemory.tile")


def _part(self: Any, start: Any, count: Any) -> Any:
    """Some columns of a tile."""
    raise DeviceOnlyError.of("part of a tile of tensor memory")


@functools.cache
def _memory_class(columns: int, blocks: int) -> Any:
    return _handle_class(f"TensorMemory_{columns}_of_{blocks}", columns=columns, blocks=blocks, tile=_tile)


@functools.cache
def _tile_class(tile: TensorTile) -> Any:
    return _handle_class("tensor_tile", type=tile, shape=(tile.rows, tile.columns), part=_part)


def _handle_class(name: str, **attributes: Any) -> Any:
    """A struct of an address."""
    return struct(type(name, (), {"__annotations__": {"address": uint32}, "__module__": __name__, **attributes}))


@specialised(_tile)
def _(memory: Known, column: Known, shape: Known, dtype: Known) -> Callable[..., Any]:
    element, lengths, host = type_argument(dtype, "dtype"), constant_of(shape, "shape"), _host_of(memory.type)
    if not isinstance(lengths, tuple) or len(lengths) != 2 or lengths[0] not in (64, 128):
        raise CompileError(f"tensor memory has tiles of 64 or 128 rows, not of {lengths}", help="write (128, 256), say")
    if element not in (*TYPES, model.INT32) or (lengths[0] == 64 and element not in SUMS):
        raise CompileError(
            f"a tile of tensor memory with {lengths[0]} rows has no elements of {element}",
            help="accumulators are float32 or int32; an operand a has 128 rows of a type that tcgen05_mma multiplies",
        )
    return _placed(TensorTile(element, *lengths, host.blocks), column, 4, host.columns)


@specialised(_part)
def _(tile: Known, start: Known, count: Known) -> Callable[..., Any]:
    whole = tensor_tile_of(tile, "part")
    columns: Any = constant_of(count, "count")
    return _placed(replace(whole, columns=columns), start, layout.size_of(whole.element), whole.words)


SUMS = (model.FLOAT32, model.INT32)
"""The types of accumulators."""


def _placed(tile: TensorTile, start: Known, size: int, words: int) -> Callable[..., Any]:
    """Chooses the function that makes a tile `start` times `size` bytes into the `words` columns of 32 bits of another one."""
    check_integer(start, "the first column")
    first = start.value * size if isinstance(start.value, int) else 0
    nbytes = tile.columns * layout.size_of(tile.element) if isinstance(tile.columns, int) else 0
    if nbytes <= 0 or nbytes % 4 or first % 4 or not 0 <= first <= 4 * words - nbytes:
        where = f" from {start.value} on" if isinstance(start.value, int) else ""
        raise CompileError(
            f"there are {words} columns of 32 bits, and not {tile.columns} of {tile.element}{where}",
            help="give columns that are there, and begin and end at multiples of 32 bits",
        )
    return _maker(tile, size)


@functools.cache
def _maker(tile: TensorTile, size: int) -> Callable[..., Any]:
    cls = _tile_class(tile)
    return lambda other, start, *_: cls(other.address + uint32(start) * size // 4)


def _host_of(type: Any) -> Any:
    """The class of a struct or of one behind a reference, or None."""
    return getattr(getattr(type, "pointee", type), "host", None)


def tensor_tile(known: Known) -> TensorTile | None:
    """Describes the tile of tensor memory that a value is, or None for other values."""
    tile = getattr(_host_of(known.type), "type", None)
    return tile if isinstance(tile, TensorTile) else None


def tensor_tile_of(known: Known, entity: str) -> TensorTile:
    """Describes the tile of tensor memory that an argument is. Raises `CompileError` for other values."""
    tile = tensor_tile(known)
    if tile is None:
        raise CompileError(f"{entity} takes a tile of tensor memory, not {known}", help="write memory[0].tile(…)")
    return tile


def address_of(handle: Any) -> Any:
    """The address of a handle or a tile."""
    return handle.address


# Instructions


def _on_cpu(*_: Any) -> Any:
    """Refuses tensor memory on CPU streams."""
    raise DeviceOnlyError.of("tensor memory")


ON_CPU: Callable[..., Any] = _on_cpu
"""The `host` of the instructions."""


@specialised(_on_cpu)
def _(*_: Known) -> Callable[..., Any]:
    raise CompileError(
        "CPU streams do not emulate tensor memory",
        help="compile the kernel, device.compile(…, target='sm_100a'), and launch it on such a GPU",
    )


_BLOCKS: dict[Callable[..., Any], int] = {}
"""The number of blocks that instructions are for."""


def _check_blocks(module: Any, chosen: Mapping[str, Callable[..., Any]], _: Any) -> None:
    """Refuses programs with instructions for one block and others for two, which the hardware does not run."""
    calls = [op for op in module.ops() if op.code is ops.CALL and op.attributes["callee"] in chosen]
    counts = [_BLOCKS[chosen[op.attributes["callee"]]] for op in calls]
    if len({*counts}) > 1:
        raise CompileError(
            "a kernel uses tensor memory for one block and for two",
            calls[next(i for i, count in enumerate(counts) if count != counts[0])].location,
            "write blocks=2 everywhere, in TensorMemory(…), tcgen05_commit and tcgen05_relinquish_permit, or nowhere",
        )


Choice = TypeVar("Choice", bound=Callable[..., Any])


def entity(function: Callable[..., Any], **options: Any) -> Callable[[Choice], Choice]:
    """`specialised` for the entities of tensor memory."""
    instead = "multiply by wgmma or mma_sync; CPU streams do not emulate tensor memory"
    decorate: Callable[[Any], Any] = specialised(function, since=sm100f, otherwise=instead, **options)
    return decorate


def of_blocks(function: Callable[..., Any]) -> Callable[[Choice], Choice]:
    """The same for entities of which all in a kernel are for one block, or all for two."""
    return entity(function, check=_check_blocks)


def instruction_of(blocks: int, text: str, *operands: Any) -> Callable[..., Any]:
    """Returns the device function that executes `text`, which is for so many blocks."""
    function = instruction(text, ON_CPU, *operands)
    _BLOCKS[function] = blocks
    return function


single(tcgen05_fence_before_sync, "tcgen05.fence::before_thread_sync;", sm100f, ON_CPU)
single(tcgen05_fence_after_sync, "tcgen05.fence::after_thread_sync;", sm100f, ON_CPU)


@of_blocks(tcgen05_alloc)
def _(memory: Known) -> Callable[..., Any]:
    type = memory.type
    is_shared = isinstance(type, model.Array) and type.space is model.Space.SHARED and type.layout is model.Layout.C
    host = _host_of(getattr(type, "dtype", None))
    if not is_shared or getattr(host, "tile", None) is not _tile:
        raise CompileError(
            f"tcgen05_alloc takes a shared array of handles, not {memory}",
            help="write shared_array(1, TensorMemory(512))",
        )
    text = f"tcgen05.alloc.cta_group::{host.blocks}.sync.aligned.shared::cta.b32 [$0], {host.columns};"
    return instruction_of(host.blocks, text, array_of)


@of_blocks(tcgen05_dealloc)
def _(memory: Known) -> Callable[..., Any]:
    host = _host_of(memory.type)
    if getattr(host, "tile", None) is not _tile:
        raise CompileError(f"tcgen05_dealloc takes a handle of tensor memory, not {memory}", help="write memory[0]")
    text = f"tcgen05.dealloc.cta_group::{host.blocks}.sync.aligned.b32 $0, {host.columns};"
    return instruction_of(host.blocks, text, address_of)


@of_blocks(tcgen05_relinquish_permit)
def _(blocks: Known) -> Callable[..., Any]:
    count = blocks_of(blocks)
    return instruction_of(count, f"tcgen05.relinquish_alloc_permit.cta_group::{count}.sync.aligned;")


def blocks_of(known: Known) -> int:
    """The number of blocks that an argument is. Raises `CompileError` for others than one and two."""
    blocks = constant_of(known, "blocks")
    if blocks not in (1, 2):
        raise CompileError(f"blocks={blocks!r}, but one or two blocks multiply together", help="write 1 or 2")
    return blocks
