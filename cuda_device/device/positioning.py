"""Thread positions: `tid`, `thread_idx`, `block_idx` and others ('Thread Positioning' in the specification).

i = device.tid(1)                      the thread's place in a 1-D grid
x, y = device.tid(2)
step = device.grid_size(1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, overload

import numpy as np

from cuda_device.device.entities import device_value
from cuda_device.device.lowering import Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed, constant_of
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.types.known import Known, between, of_type
from cuda_device.types.model import INT32, INT64, UINT32, Number, Tuple, Vector
from cuda_device.types.vector_classes import Dim3

AXES = "xyz"

thread_idx: Dim3 = device_value(
    "thread_idx", "The thread's indices in its block: `Dim3` of uint32, with `.x < block_dim.x` and so on."
)
block_idx: Dim3 = device_value(
    "block_idx", "The block's indices in the grid: `Dim3` of uint32, with `.x < grid_dim.x` and so on."
)
block_dim: Dim3 = device_value("block_dim", "The number of threads in a block along each axis: `Dim3` of uint32.")
grid_dim: Dim3 = device_value("grid_dim", "The number of blocks in the grid along each axis: `Dim3` of uint32.")


@overload
def tid(ndims: Literal[1]) -> np.int32: ...
@overload
def tid(ndims: Literal[2]) -> tuple[np.int32, np.int32]: ...
@overload
def tid(ndims: Literal[3]) -> tuple[np.int32, np.int32, np.int32]: ...
def tid(ndims: int) -> np.int32 | tuple[np.int32, ...]:
    """Returns the thread's position in the grid: an int32 if `ndims` is 1, or a tuple (x, y) or (x, y, z) of int32.

    `ndims` must be a constant expression. Specification: 'Thread Positioning'.
    """
    raise DeviceOnlyError.of("tid")


@overload
def grid_size(ndims: Literal[1]) -> np.int32: ...
@overload
def grid_size(ndims: Literal[2]) -> tuple[np.int32, np.int32]: ...
@overload
def grid_size(ndims: Literal[3]) -> tuple[np.int32, np.int32, np.int32]: ...
def grid_size(ndims: int) -> np.int32 | tuple[np.int32, ...]:
    """Returns the number of threads of the grid along x, an int32, if `ndims` is 1, or along each axis, a tuple.

    `ndims` must be a constant expression. Specification: 'Thread Positioning'.
    """
    raise DeviceOnlyError.of("grid_size")


_LIMITS = {"thread_idx": 1023, "block_idx": INT32.high - 1, "block_dim": 1024, "grid_dim": INT32.high}
SIGNED = tuple(
    device_value(name, f"`{name}` with elements of int64: a difference may be negative.") for name in _LIMITS
)
"""What `numba_compat` has in their places."""


def _register(name: str) -> tuple[str, str, str]:
    return tuple(f"{name}.{axis}" for axis in AXES)  # type: ignore[return-value]


def _read(build: Lowering, name: str) -> Value:
    return build.op(ops.REGISTER, UINT32, nonneg=True, name=name)


def vector_row(entity: object, name: str, most: int, type: Number = UINT32) -> Intrinsic:
    """The row of a vector whose elements CUDA's limits keep from growing above `most`."""

    def infer(_: Sequence[Known]) -> Typed:
        return Typed(of_type(Vector(type, 3), high=most))

    def lower(build: Lowering, _: Sequence[Tree], __: Typed) -> Tree:
        return tuple(build.convert(_read(build, register), type) for register in _register(name))

    return Intrinsic(entity, name if type == UINT32 else f"{name} of {type}", infer, lower, is_value=True)


def _infer_axes(least: int, arguments: Sequence[Known]) -> Typed:
    """Shared by `tid` and `grid_size`: ndims → an int32 or a tuple of them, none of which is below `least`."""
    ndims = constant_of(arguments[0], "ndims")
    if not isinstance(ndims, int) or isinstance(ndims, bool) or ndims not in (1, 2, 3):
        raise CompileError(
            f"ndims must be 1, 2 or 3, not {ndims!r}", help="write tid(1) for one integer, tid(2) or tid(3) for a tuple"
        )
    axis = between(INT32, least, INT32.high)
    result = axis if ndims == 1 else Known(Tuple((INT32,) * ndims), items=(axis,) * ndims)
    return Typed(result, settings=(ndims,))


def _read_signed(build: Lowering, name: str) -> Value:
    """A register as an int32. Launches see to it that positions have room there (`Outline.positions`)."""
    return build.op(ops.REGISTER, INT32, nonneg=True, name=name)


def _position(build: Lowering, axis: str) -> Value:
    block, size, thread = (_read_signed(build, f"{name}.{axis}") for name in ("block_idx", "block_dim", "thread_idx"))
    return build.sum(ops.ADD, build.sum(ops.MUL, block, size, exact=True), thread, exact=True)


def _extent(build: Lowering, axis: str) -> Value:
    blocks, size = (_read_signed(build, f"{name}.{axis}") for name in ("grid_dim", "block_dim"))
    return build.sum(ops.MUL, blocks, size, exact=True)


def _row(entity: object, name: str, least: int, one: Callable[[Lowering, str], Value]) -> Intrinsic:
    def lower(build: Lowering, _: Sequence[Tree], typed: Typed) -> Tree:
        (ndims,) = typed.settings
        assert isinstance(ndims, int)
        values = tuple(one(build, axis) for axis in AXES[:ndims])
        return values[0] if ndims == 1 else values

    return Intrinsic(entity, name, partial(_infer_axes, least), lower)


ROWS = (
    *map(vector_row, (thread_idx, block_idx, block_dim, grid_dim), _LIMITS, _LIMITS.values()),
    *(vector_row(entity, *limit, INT64) for entity, limit in zip(SIGNED, _LIMITS.items(), strict=True)),
    _row(tid, "tid", 0, _position),
    _row(grid_size, "grid_size", 1, _extent),
)
