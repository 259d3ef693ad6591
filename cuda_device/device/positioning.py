"""Positions of threads, blocks and clusters ('Thread Positioning' in the specification), and the shared memory of clusters.

i = device.tid(1)                      the thread's place in a 1-D grid
x, y = device.tid(2)
step = device.grid_size(1)

tile = device.shared_array(256, device.float32)
device.cluster_sync()
other = device.cluster_shared(tile, device.block_rank ^ 1)        the tile of the other block of a cluster of two
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from cuda_device.device.entities import device_value
from cuda_device.device.rows import Intrinsic, Typed, constant_of, entered
from cuda_device.device.target import needing, sm90
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.known import Known, between, of_type
from cuda_device.types.model import INT32, UINT32, Array, Number, Ref, Space, Tuple, Vector
from cuda_device.types.vector_classes import Dim3

if TYPE_CHECKING:
    from cuda_device.device.lowering import Lowering, Tree
    from cuda_device.ir.nodes import Value

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


def _read(build: Lowering, name: str, axis: str, type: Number = UINT32) -> Value:
    """A register. Launches guarantee that an int32 is large enough where it is read as one (`Outline.positions`)."""
    return build.op(ops.REGISTER, type, nonneg=True, name=f"{name}.{axis}")


def vector_row(entity: object, name: str, most: int) -> Intrinsic:
    """The row of a vector whose elements are at most `most` by CUDA's limits."""

    def infer(_: Sequence[Known]) -> Typed:
        return Typed(of_type(Vector(UINT32, 3), high=most))

    def lower(build: Lowering, _: Sequence[Tree], __: Typed) -> Tree:
        return tuple(_read(build, name, axis) for axis in AXES)

    return Intrinsic(entity, name, infer, lower, is_value=True)


def register_row(entity: object, name: str, type: Number = INT32, is_value: bool = True) -> Intrinsic:
    """The row of a number of 32 bits in a special register; a value is not negative."""

    def lower(build: Lowering, _: Sequence[Tree], __: Typed) -> Tree:
        return build.op(ops.REGISTER, INT32, nonneg=is_value, name=name)

    return Intrinsic(entity, name, lambda _: Typed(of_type(type, nonneg=is_value)), lower, is_value=is_value)


def _infer_axes(least: int, arguments: Sequence[Known]) -> Typed:
    """Infers `tid` and `grid_size`: an int32 or a tuple of them, which are at least `least`."""
    ndims = constant_of(arguments[0], "ndims")
    if not isinstance(ndims, int) or isinstance(ndims, bool) or ndims not in (1, 2, 3):
        raise CompileError(
            f"ndims must be 1, 2 or 3, not {ndims!r}", help="write tid(1) for one integer, tid(2) or tid(3) for a tuple"
        )
    axis = between(INT32, least, INT32.high)
    result = axis if ndims == 1 else Known(Tuple((INT32,) * ndims), items=(axis,) * ndims)
    return Typed(result, settings=(ndims,))


def _position(build: Lowering, axis: str) -> Value:
    block, size, thread = [_read(build, name, axis, INT32) for name in ("block_idx", "block_dim", "thread_idx")]
    return build.sum(ops.ADD, build.sum(ops.MUL, block, size, exact=True), thread, exact=True)


def _extent(build: Lowering, axis: str) -> Value:
    blocks, size = [_read(build, name, axis, INT32) for name in ("grid_dim", "block_dim")]
    return build.sum(ops.MUL, blocks, size, exact=True)


def _row(entity: object, name: str, least: int, read_axis: Callable[[Lowering, str], Value]) -> Intrinsic:
    def lower(build: Lowering, _: Sequence[Tree], typed: Typed) -> Tree:
        (ndims,) = typed.settings
        return read_axis(build, AXES[0]) if ndims == 1 else tuple(read_axis(build, axis) for axis in AXES[:ndims])

    return Intrinsic(entity, name, partial(_infer_axes, least), lower)


# Clusters, for sm_90 and later


_MOST_IN_CLUSTER = 16
"""The largest cluster that a GPU can be configured for; 8 is the portable limit."""

cluster_idx: Dim3 = device_value(
    "cluster_idx", "The indices of the block's cluster in the grid of clusters: `Dim3` of uint32. For sm_90 and later."
)
cluster_dim: Dim3 = device_value(
    "cluster_dim", "The number of blocks in a cluster along each axis: `Dim3` of uint32. For sm_90 and later."
)
block_rank: np.int32 = device_value(
    "block_rank",
    "The block's number in its cluster, counted along x first: int32; 0 without clusters. For sm_90 and later.",
)


def cluster_shared(array: Any, rank: Any) -> Any:
    """Returns the shared array of another block of the cluster that corresponds to `array`: PTX's `mapa`.

    `array` may also be an element with atomic members, as in `locks[i]`; the result is that of the other block. `rank` is the
    `block_rank` of that block, an integer. Call `cluster_sync` before the first access, so that the other block has started, and
    after the last one, so that it has not yet ended. All atomics on such an array need the scope "device", including those of the
    block that owns it. Device code only, for sm_90 and later. Raises `CompileError` if `array` is not a shared array. Checked
    mode reports a rank that no block has.
    """
    raise DeviceOnlyError.of("cluster_shared")


def _infer_shared(arguments: Sequence[Known]) -> Typed:
    known, rank = arguments
    array = known.type
    if not isinstance(array, (Array, Ref)) or array.space is not Space.SHARED:
        raise CompileError(f"cluster_shared takes a shared array, not {known}", help="pass what shared_array returned")
    if not isinstance(rank.type, Number) or not rank.type.is_integer:
        raise CompileError(
            f"rank must be the number of a block, an integer, not {rank}", help="pass 0, or block_rank ^ 1, for example"
        )
    return Typed(of_type(replace(array, space=Space.GENERIC)), ((0, array), (1, INT32)))


def _lower_shared(build: Lowering, operands: Sequence[Any], typed: Typed) -> Tree:
    array, rank = operands
    if build.checked:
        count = build.number(UINT32, 1)
        for axis in AXES:
            count = build.binary(ops.MUL, count, _read(build, "cluster_dim", axis))
        unsigned = build.convert(rank, UINT32)
        build.check(
            build.compare("<", unsigned, count),
            "the cluster has no block {0}: it has {1}",
            rank,
            count,
            help="take the rank modulo the number of blocks of a cluster",
        )
    is_element = isinstance(typed.result.type, Ref)
    data = array if is_element else array.data
    moved = build.op(ops.IN_CLUSTER, replace(data.type, space=Space.GENERIC), data, rank)
    return moved if is_element else replace(array, data=moved)


INSTEAD_OF_CLUSTERS = "synchronise the blocks through global memory on other targets"
_of_clusters = partial(needing, sm90, INSTEAD_OF_CLUSTERS)


ROWS = entered(
    *map(vector_row, (thread_idx, block_idx, block_dim, grid_dim), _LIMITS, _LIMITS.values()),
    _row(tid, "tid", 0, _position),
    _row(grid_size, "grid_size", 1, _extent),
    _of_clusters(vector_row(cluster_idx, "cluster_idx", INT32.high - 1)),
    _of_clusters(vector_row(cluster_dim, "cluster_dim", _MOST_IN_CLUSTER)),
    _of_clusters(register_row(block_rank, "block_rank")),
    _of_clusters(Intrinsic(cluster_shared, "cluster_shared", _infer_shared, _lower_shared)),
)
