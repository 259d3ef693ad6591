"""How the threads of a block wait for each other: the specification's 'Thread Block Synchronization'.

    device.syncthreads()
    many = device.syncthreads_count(lambda: x[i] > 0)

Every thread of the block must call the same one; threads that have returned no longer count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuda_device.device.lowering import Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed
from cuda_device.device.warp import Predicate
from cuda_device.errors import DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.model import BOOL, INT32


def syncthreads() -> None:
    """Waits until every thread of the block has come here; what each wrote before is visible to all after.

    Every thread of the block must call it; threads that have returned no longer count. Specification: 'Thread Block
    Synchronization'.
    """
    raise DeviceOnlyError.of("syncthreads")


def syncthreads_count(pred: Predicate) -> np.int32:
    """As `syncthreads`; the number of the block's threads in which `pred()` is true, an int32.

    `pred` is a function without parameters, called before the threads wait; a bool does as well. Specification: 'Thread
    Block Synchronization'.
    """
    raise DeviceOnlyError.of("syncthreads_count")


def syncthreads_and(pred: Predicate) -> bool:
    """As `syncthreads`; whether `pred()` is true in all of the block's threads, a bool.

    `pred` is a function without parameters, called before the threads wait; a bool does as well. Specification: 'Thread
    Block Synchronization'.
    """
    raise DeviceOnlyError.of("syncthreads_and")


def syncthreads_or(pred: Predicate) -> bool:
    """As `syncthreads`; whether `pred()` is true in any of the block's threads, a bool.

    `pred` is a function without parameters, called before the threads wait; a bool does as well. Specification: 'Thread
    Block Synchronization'.
    """
    raise DeviceOnlyError.of("syncthreads_or")


def _infer_barrier(_: Sequence[Known]) -> Typed:
    return Typed(constant(None))


def _lower_barrier(build: Lowering, _: Sequence[Tree], __: Typed) -> Tree:
    build.effect(ops.BARRIER)
    return ()


def _reduction(entity: object, name: str, kind: str) -> Intrinsic:
    result = INT32 if kind == "count" else BOOL

    def infer(_: Sequence[Known]) -> Typed:
        return Typed(of_type(result, nonneg=True), ((0, BOOL),))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        (flag,) = operands
        assert isinstance(flag, Value)
        return build.op(ops.BARRIER_REDUCE, result, flag, nonneg=True, kind=kind)

    return Intrinsic(entity, name, infer, lower, effects=ops.BARRIER_REDUCE.effects, predicates=("pred",))


ROWS = (
    Intrinsic(syncthreads, "syncthreads", _infer_barrier, _lower_barrier, effects=ops.BARRIER.effects),
    _reduction(syncthreads_count, "syncthreads_count", "count"),
    _reduction(syncthreads_and, "syncthreads_and", "and"),
    _reduction(syncthreads_or, "syncthreads_or", "or"),
)
