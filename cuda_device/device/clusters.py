"""Thread block clusters: positions, barriers, and access to the shared memory of other blocks; for sm_90 and later.

tile = device.shared_array(256, device.float32)
…
device.cluster_sync()
other = device.cluster_shared(tile, device.block_rank ^ 1)        # the tile of the other block of two
device.launch(kernel, x, grid=64, block=256, cluster=2)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuda_device.device.entities import device_value
from cuda_device.device.lowering import ArrayTree, Lowering, Tree
from cuda_device.device.positioning import vector_row
from cuda_device.device.rows import Intrinsic, Typed
from cuda_device.device.target import require, sm90
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.known import Known, of_type
from cuda_device.types.model import INT32, INT64, UINT32, Array, Number, Ref, Space
from cuda_device.types.vector_classes import Dim3

_MOST = 16
"""A GPU can be asked for clusters of more blocks than 8."""

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

    `rank` is the `block_rank` of that block, an integer. Call `cluster_sync` before the first access, so that the other block
    has started, and after the last one, so that it has not yet ended. All atomics on such an array need the scope "device",
    including those of the block that owns it. The race detector treats the two arrays as different memory. Device code only,
    for sm_90 and later. Raises `CompileError` if `array` is not a shared array. Checked mode reports a rank that no block has.
    """
    raise DeviceOnlyError.of("cluster_shared")


def _infer_shared(arguments: Sequence[Known]) -> Typed:
    known, rank = arguments
    array = known.type
    if not isinstance(array, Array) or array.space is not Space.SHARED:
        raise CompileError(f"cluster_shared takes a shared array, not {known}", help="pass what shared_array returned")
    if not isinstance(rank.type, Number) or not rank.type.is_integer:
        raise CompileError(
            f"rank must be the number of a block, an integer, not {rank}", help="pass 0, or block_rank ^ 1, for example"
        )
    return Typed(of_type(replace(array, space=Space.GENERIC)), ((0, array), (1, INT32)))


def _lower_shared(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    array, rank = operands
    assert isinstance(array, ArrayTree) and isinstance(rank, Value) and isinstance(array.data.type, Ref)
    if build.checked:
        count = build.number(UINT32, 1)
        for axis in "xyz":
            size = build.op(ops.REGISTER, UINT32, nonneg=True, name=f"cluster_dim.{axis}")
            count = build.binary(ops.MUL, count, size)
        unsigned = build.convert(rank, UINT32)
        build.check(
            build.compare("<", unsigned, count),
            "the cluster has no block {0}: it has {1}",
            rank,
            count,
            help="take the rank modulo the number of blocks of a cluster",
        )
    data = build.op(ops.IN_CLUSTER, replace(array.data.type, space=Space.GENERIC), array.data, rank)
    return ArrayTree(data, array.extents, array.strides)


def cluster_word() -> Any:
    """An array of one uint32 that all threads of a cluster share, on the CPU; it begins as 0, but for the highest bit."""
    raise DeviceOnlyError.of("cluster_word")


def _lower_word(build: Lowering, _: Sequence[Tree], __: Typed) -> Tree:
    return ArrayTree(build.op(ops.GRID_WORD, Ref(Space.GLOBAL, UINT32), cluster=True), (build.const(INT64, 1),))


def _of_clusters(row: Intrinsic) -> Intrinsic:
    """The row, refused on targets that have no clusters."""

    def infer(arguments: Sequence[Known]) -> Typed:
        *given, machine = arguments
        require(row.name, machine, sm90, "synchronise the blocks through global memory on other targets")
        return row.infer(given)

    return replace(row, infer=infer, asks_target=True)


def _lower_rank(build: Lowering, _: Sequence[Tree], __: Typed) -> Tree:
    return build.op(ops.REGISTER, INT32, nonneg=True, name="block_rank")


ROWS = (
    _of_clusters(vector_row(cluster_idx, "cluster_idx", INT32.high - 1)),
    _of_clusters(vector_row(cluster_dim, "cluster_dim", _MOST)),
    _of_clusters(
        Intrinsic(block_rank, "block_rank", lambda _: Typed(of_type(INT32, nonneg=True)), _lower_rank, is_value=True)
    ),
    _of_clusters(Intrinsic(cluster_shared, "cluster_shared", _infer_shared, _lower_shared)),
    Intrinsic(cluster_word, "cluster_word", lambda _: Typed(Known(Array(UINT32, 1))), _lower_word),
)
