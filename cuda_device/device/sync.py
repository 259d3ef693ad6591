"""How the threads of a block wait for each other: the specification's 'Thread Block Synchronization'."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import DeviceOnlyError
from ..ir import ops
from ..types.known import Known, constant
from .lowering import Lowering, Tree
from .rows import Intrinsic, Typed


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
