"""How the threads of a block wait for each other: the specification's 'Thread Block Synchronization'."""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.device.lowering import Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed
from cuda_device.errors import DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.types.known import Known, constant


def syncthreads() -> None:
    """Waits until every thread of the block has come here; what each wrote before is visible to all after.

    Every thread of the block must call it; threads that have returned no longer count. Specification: 'Thread Block
    Synchronization'.
    """
    raise DeviceOnlyError.of("syncthreads")


def _infer_barrier(_: Sequence[Known]) -> Typed:
    return Typed(constant(None))


def _lower_barrier(build: Lowering, _: Sequence[Tree], __: Typed) -> Tree:
    build.effect(ops.BARRIER)
    return ()


ROWS = (Intrinsic(syncthreads, "syncthreads", _infer_barrier, _lower_barrier, effects=ops.BARRIER.effects),)
