"""`tcgen05_mma`: products of matrices on sm_100, which one thread starts, into tensor memory. Compile only.

if thread_idx.x == 0:
    tcgen05_mma(d, a, b, accumulate=False)      d is a tile of tensor memory; a and b are swizzled tiles of shared memory
    tcgen05_commit(bar)                         arrives when the product is there
bar.wait(0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda_device import CompileError, DeviceOnlyError, int32, sm100a, uint16
from cuda_device.extend import Known, model
from cuda_device.plugins.tensor_cores.mbarriers import check_barrier
from cuda_device.plugins.tensor_cores.shared_operands import (
    TYPES,
    accumulates,
    check_types,
    descriptors,
    operand_of,
    steps_of,
)
from cuda_device.plugins.tensor_cores.single_instructions import needing
from cuda_device.plugins.tensor_cores.swizzling import Tile, array_of
from cuda_device.plugins.tensor_cores.tensor_memory import (
    TensorTile,
    address_of,
    blocks_of,
    instruction_of,
    of_blocks,
    tensor_tile,
    tensor_tile_of,
)


def tcgen05_mma(d: Any, a: Any, b: Any, accumulate: Any = True) -> None:
    """Starts d + a @ b.T over the whole depth of the tiles, or a @ b.T with a false `accumulate`, which is written to `d`.

    One thread calls it. `d` is a tile of tensor memory, (64, n) or (128, n), of float32, or int32 for 8-bit integers. `a` has as
    many rows: a swizzled tile of shared memory, or a tile of tensor memory with 128 rows. `b` is a swizzled tile (n, k). Both may
    be `.T` of swizzled tiles of 8- or 16-bit elements. n is a multiple of 8 for 64 rows, and of 16 for 128 rows or integers,
    which also have 8 columns for 64 rows, up to 256. The types are those of `wgmma`; integers need sm_100a.

    With two blocks, a thread of the block of even rank calls it. Each block has 128 rows of `d` and `a`, and half of the rows of
    `b`, for its half of the columns of `d`; n is a multiple of 32.

    Products and copies of a thread are in order. `tcgen05_commit` says when they end. Compile only, for the architectures of
    `tcgen05_alloc`. Raises `CompileError` for other types and shapes. PTX: tcgen05.mma, kinds f16, tf32, f8f6f4 and i8.
    """
    raise DeviceOnlyError.of("tcgen05_mma")


def tcgen05_commit(bar: Any, multicast: Any = None, blocks: int = 1) -> None:
    """Makes the end of all products and copies that this thread has started arrive once at `bar`, an `MBarrier` of the block.

    With `multicast`, a mask of the blocks of the cluster, it arrives at the same barrier of each of them. A thread that has
    waited calls `tcgen05_fence_after_sync` next. Compile only, like `tcgen05_mma`. PTX: tcgen05.commit.
    """
    raise DeviceOnlyError.of("tcgen05_commit")


def tcgen05_cp(d: Any, src: Any) -> None:
    """Starts to copy a swizzled tile (128, k) of shared memory to a tile of tensor memory of the same type and shape.

    Compile only, like `tcgen05_mma`. PTX: tcgen05.cp.128x256b.
    """
    raise DeviceOnlyError.of("tcgen05_cp")


@of_blocks(tcgen05_mma)
def _(d: Known, a: Known, b: Known, accumulate: Known) -> Callable[..., Any]:
    sums, held, right = tensor_tile_of(d, "tcgen05_mma"), tensor_tile(a), _operand(b, "b")
    left = _operand(a, "a") if held is None else _held(held)
    check_types(left, right, "tcgen05_mma")
    _check_result(sums, left, right)
    adds = accumulates(accumulate)
    flag = "$3" if adds is None else str(int(adds))
    operands: list[Any] = [address_of, array_of if held is None else address_of, array_of]
    if sums.element == model.INT32:
        operands[0] = needing(sm100a, "tcgen05_mma of integers", address_of, "convert the elements to another type")
    if adds is None:
        operands.append(int32)
    return instruction_of(sums.blocks, _product(sums, left, right, held is not None, flag), *operands)


def _operand(known: Known, name: str) -> Tile:
    return operand_of(known, name, "tcgen05_mma", transposed=(1, 2))


def _held(a: TensorTile) -> Tile:
    """The operand A in tensor memory, as a tile."""
    if a.rows != 128 or a.element not in TYPES or a.words % 8:
        raise CompileError(f"tcgen05_mma does not read {a} as a", help="give it 128 rows of a multiple of 32 bytes")
    return Tile(a.element, (a.rows, a.columns))


def _check_result(d: TensorTile, a: Tile, b: Tile) -> None:
    """Refuses shapes and types that do not fit together, or that the hardware does not have."""
    n, result = b.shape[0] * d.blocks, model.INT32 if b.element.is_integer else model.FLOAT32
    if (d.element, d.rows, d.columns) != (result, a.shape[0], n):
        half = ", half of the columns" * (d.blocks - 1)
        raise CompileError(f"d is {d}, but a is {a}, and b {b}{half}", help=f"give it {a.shape[0]} x {n} {result}")
    if d.blocks == 2 and d.rows == 64:
        raise CompileError("two blocks multiply 128 rows each, not 64", help="give tiles of 128 rows, or use one block")
    unit = 32 if d.blocks == 2 else 8 if d.rows == 64 and (result == model.FLOAT32 or n == 8) else 16
    if n % unit or n > 256:
        raise CompileError(
            f"tcgen05_mma does not have the {n} columns of {d}", help=f"give a multiple of {unit} up to 256"
        )


_KINDS = {
    "bf16": ("f16", 1), "f16": ("f16", 0), "tf32": ("tf32", 2), "e4m3": ("f8f6f4", 0), "e5m2": ("f8f6f4", 1),
    "s8": ("i8", 1), "u8": ("i8", 0),
}  # fmt: skip
"""The kind of the instruction for each type, and its number in the instruction's descriptor."""


def _product(d: TensorTile, a: Tile, b: Tile, is_held: bool, flag: str) -> str:
    """The PTX: one instruction for each 32 bytes of depth. `$0`, `$1` and `$2` are d, a and b."""
    kind = _KINDS[TYPES[b.element]][0]
    lines = ["{", ".reg .pred first, others;", f"setp.ne.b32 first, {flag}, 0;", "setp.eq.b32 others, 0, 0;"]
    lines += [".reg .b32 types;", f"mov.b32 types, {_types_and_shape(d, a, b):#x};"]
    lines += [*descriptors("b", "$2", b, version=1), *([] if is_held else descriptors("a", "$1", a, version=1))]
    for k in range(steps_of(b)):
        left, enabled = f"[$1+{8 * k}]" if is_held else f"a{k}", "others" if k else "first"
        lines += [f"tcgen05.mma.cta_group::{d.blocks}.kind::{kind} [$0], {left}, b{k}, types, {enabled};"]
    return "\n".join([*lines, "}"])


def _types_and_shape(d: TensorTile, a: Tile, b: Tile) -> int:
    """The instruction's descriptor. Source: PTX, "Instruction descriptor".

    It has the type of D from bit 4 on, those of A and B from 7 and 10 on, whether these are transposed in the bits 15 and 16,
    n / 8 from 17 on, and m / 16 from 24 on.
    """
    types = (2 if d.element == model.INT32 else 1) << 4 | _number(a) << 7 | _number(b) << 10
    return types | a.transposed << 15 | b.transposed << 16 | d.columns // 8 << 17 | d.rows * d.blocks // 16 << 24


def _number(tile: Tile) -> int:
    return _KINDS[TYPES[tile.element]][1]


@of_blocks(tcgen05_commit)
def _(bar: Known, multicast: Known, blocks: Known) -> Callable[..., Any]:
    check_barrier(bar, "tcgen05_commit")
    count, is_one = blocks_of(blocks), isinstance(multicast.type, model.NoneType)
    if not is_one and not model.is_index(multicast.type):
        raise CompileError(f"multicast is a mask of blocks, not {multicast}", help="write 3 for the blocks 0 and 1")
    text = f"tcgen05.commit.cta_group::{count}.mbarrier::arrive::one.shared::cluster"
    if is_one:
        return instruction_of(count, f"{text}.b64 [$0];", None)
    return instruction_of(count, f"{text}.multicast::cluster.b64 [$0], $1;", None, uint16)


@of_blocks(tcgen05_cp)
def _(d: Known, src: Known) -> Callable[..., Any]:
    tile, source = tensor_tile_of(d, "tcgen05_cp"), operand_of(src, "src", "tcgen05_cp", transposed=())
    if (tile.element, (tile.rows, tile.columns)) != (source.element, source.shape) or tile.rows != 128:
        raise CompileError(
            f"tcgen05_cp does not copy {source} to {tile}", help="give tiles of 128 rows and one type and shape"
        )
    lines = descriptors("s", "$1", source, version=1)
    lines += [f"tcgen05.cp.cta_group::{tile.blocks}.128x256b [$0+{8 * k}], s{k};" for k in range(steps_of(source))]
    return instruction_of(tile.blocks, "\n".join(["{", *lines, "}"]), address_of, array_of)
