"""`tcgen05_ld` and `tcgen05_st`: tiles of tensor memory to and from registers. Compile only.

x = tcgen05_wait_ld(tcgen05_ld(d.part(0, 64)))      64 columns of this thread's row
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cuda_device import CompileError, DeviceOnlyError, ptx, sm100f, uint32
from cuda_device.extend import Known, constant_of, host_type, model
from cuda_device.plugins.tensor_cores.fragments import linear_thread
from cuda_device.plugins.tensor_cores.single_instructions import single, vector
from cuda_device.plugins.tensor_cores.tensor_memory import ON_CPU, SUMS, TensorTile, entity, tensor_tile_of
from cuda_device.plugins.tensor_cores.warpgroup_matrices import is_in_flight, through


def tcgen05_ld(tile: Any, shape: str | None = None) -> Any:
    """Starts to load a tile of tensor memory to registers: a tuple in flight, which `tcgen05_wait_ld` gives back.

    Four whole warps, from a multiple of four on, load a quarter of the rows each. Of 128 rows, a thread gets its own, column by
    column (`shape` "32x32b"). Of 64 rows, it gets the elements that `fragment_place("c", (64, n, k), …)` names, a register tile
    of `cuda_device.tiles` ("16x256b"). The shapes "16x64b", "16x128b" and "16x256b" of 128 rows give the registers of the
    first 16 rows of each warp, then those of the others. The items are float32, int32, or uint32 with two or four elements; at
    most 128. Compile only, like `tcgen05_alloc`. Raises `CompileError` for other tiles and shapes. PTX: tcgen05.ld.
    """
    raise DeviceOnlyError.of("tcgen05_ld")


def tcgen05_wait_ld(*registers: Any) -> Any:
    """Waits for the loads of this thread. Returns the tuples that are named: one as itself, several as a tuple.

    Compile only, like `tcgen05_alloc`. PTX: tcgen05.wait::ld.
    """
    raise DeviceOnlyError.of("tcgen05_wait_ld")


def tcgen05_st(tile: Any, registers: Any, shape: str | None = None) -> None:
    """Starts to store a tuple of registers to a tile of tensor memory, in the order of `tcgen05_ld`, by the same threads.

    Compile only, like `tcgen05_alloc`. PTX: tcgen05.st.
    """
    raise DeviceOnlyError.of("tcgen05_st")


def tcgen05_wait_st() -> None:
    """Waits for the stores of this thread to tensor memory. Compile only, like `tcgen05_alloc`. PTX: tcgen05.wait::st."""
    raise DeviceOnlyError.of("tcgen05_wait_st")


def _register_type(tile: TensorTile) -> model.Number:
    """The type of a register with elements of a tile."""
    return tile.element if tile.element in SUMS else model.UINT32


_SHAPES = {"32x32b": (32, 1, 1), "16x64b": (16, 2, 1), "16x128b": (16, 4, 2), "16x256b": (16, 8, 4)}
"""The lanes, and for each repetition of an instruction the columns and the registers."""
_MOST_REGISTERS = 128


@entity(tcgen05_ld, seals=("a tuple in flight", "wait for it first: x = tcgen05_wait_ld(x)"))
def _(tile: Known, shape: Known) -> Callable[..., Any]:
    source = tensor_tile_of(tile, "tcgen05_ld")
    text = "tcgen05.ld.sync.aligned.{0}.b32 {1}, {2};"
    type: Any = host_type(_register_type(source))
    return _loader(_moves(source, shape, 0, f"${source.registers}", text), type, source.registers)


@functools.cache
def _loader(text: str, type: Any, count: int) -> Callable[..., Any]:
    types = (type,) * count
    return lambda tile, _: ptx(text, _address_in_warp(tile), result=types, host=ON_CPU)


@entity(tcgen05_wait_ld, opens=True)
def _(*registers: Known) -> Callable[..., Any]:
    for known in registers:
        if not isinstance(known.type, model.Tuple) and not is_in_flight(known):
            raise CompileError(f"tcgen05_wait_ld takes tuples, not {known}", help="name what tcgen05_ld has returned")
    return _wait(tuple(len(known.items) for known in registers))


@functools.cache
def _wait(sizes: tuple[int, ...]) -> Callable[..., Any]:
    return through("tcgen05.wait::ld.sync.aligned;", sizes, ON_CPU)


single(tcgen05_wait_st, "tcgen05.wait::st.sync.aligned;", sm100f, ON_CPU)


@entity(tcgen05_st)
def _(tile: Known, registers: Known, shape: Known) -> Callable[..., Any]:
    target = tensor_tile_of(tile, "tcgen05_st")
    type = _register_type(target)
    if [item.type for item in registers.items] != [type] * target.registers:
        reason = f"tcgen05_st stores {target.registers} registers of {type} to {target}, not {registers}"
        raise CompileError(reason, help="give a tuple like the one that tcgen05_ld loads")
    return _storer(_moves(target, shape, 1, "$0", "tcgen05.st.sync.aligned.{0}.b32 {2}, {1};"))


@functools.cache
def _storer(text: str) -> Callable[..., Any]:
    def store(tile: Any, registers: Any, _: Any) -> None:
        ptx(text, _address_in_warp(tile), *registers, host=ON_CPU)

    return store


def _moves(tile: TensorTile, shape: Known, first: int, address: str, text: str) -> str:
    """The instructions that move a tile, each a power of two of repetitions, to or from the registers $`first`, …."""
    name = _shape_of(tile, shape)
    lanes, columns, registers = _SHAPES[name]
    lines = []
    for lane in (0, 16)[: 1 if lanes == 32 else tile.rows // 64]:
        column = 0
        while column < tile.words:
            count = 1 << ((tile.words - column) // columns).bit_length() - 1
            operands = vector(first, count * registers)
            lines.append(text.format(f"{name}.x{count}", operands, f"[{address}+{(lane << 16) + column}]"))
            first, column = first + count * registers, column + count * columns
    return "\n".join(lines)


def _shape_of(tile: TensorTile, known: Known) -> Any:
    """The shape of the instructions that move a tile. Raises `CompileError` for others than the hardware has."""
    name = constant_of(known, "shape") or ("32x32b" if tile.rows == 128 else "16x256b")
    fitting = [
        each
        for each, (lanes, columns, _) in _SHAPES.items()
        if (lanes == 16 or tile.rows == 128) and tile.words % columns == 0
    ]
    if name not in fitting:
        raise CompileError(f"{tile} is not moved by the shape {name!r}", help=f"it is one of {', '.join(fitting)}")
    if tile.registers > _MOST_REGISTERS:
        reason = f"{tile} has {tile.registers} registers for each thread, more than {_MOST_REGISTERS}"
        raise CompileError(reason, help="move parts of it, as in d.part(0, 64)")
    return name


def _address_in_warp(tile: Any) -> Any:
    """The address of a tile in the lanes of this warp."""
    return tile.address + ((uint32(linear_thread()) >> 5 & 3) << 21)
