"""Time in device code: counters, and pauses.

begin = device.clock64()
…
cycles[i] = device.clock64() - begin
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from cuda_device.device.entities import Integer
from cuda_device.device.lowering import Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed, number_of
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.model import INT64, UINT32, UINT64, Number


def clock64() -> np.int64:
    """A counter of clock cycles of the multiprocessor, an int64: CUDA's `clock64`.

    Differences within a thread say how long something took. Accesses to memory stay before or after it. On the CPU stream and on
    the host it counts the nanoseconds of a clock that never goes back.
    """
    return np.int64(time.monotonic_ns())


def globaltimer() -> np.uint64:
    """The time in nanoseconds, a uint64: PTX's `%globaltimer`. GPUs update it once a microsecond or less often.

    On the CPU stream and on the host it is the time since 1970.
    """
    return np.uint64(time.time_ns())


def nanosleep(ns: Integer) -> None:
    """Suspends the thread for about `ns` nanoseconds, from 0 to twice as long: CUDA's `__nanosleep`.

    `ns` becomes a uint32; a GPU sleeps a millisecond at most. On the CPU stream other threads run instead. Works on host and
    device.
    """
    time.sleep(int(ns) * 1e-9)


def _timer(entity: Callable[[], object], type: Number) -> Intrinsic:
    name = entity.__name__

    def lower(build: Lowering, _: Sequence[Tree], __: Typed) -> Tree:
        return build.op(ops.TIMER, type, name=name)

    return Intrinsic(entity, name, lambda _: Typed(of_type(type)), lower, effects=ops.TIMER.effects)


def _infer_sleep(arguments: Sequence[Known]) -> Typed:
    if not number_of(arguments[0], "nanosleep").is_integer:
        raise CompileError(f"nanosleep takes an integer, not {arguments[0]}", help="convert it: int(…)")
    return Typed(constant(None), ((0, UINT32),))


def _lower_sleep(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
    build.effect(ops.PAUSE, *(operand for operand in operands if isinstance(operand, Value)))
    build.effect(ops.YIELD, now=True)
    return ()


ROWS = (
    _timer(clock64, INT64),
    _timer(globaltimer, UINT64),
    Intrinsic(nanosleep, "nanosleep", _infer_sleep, _lower_sleep, effects=ops.PAUSE.effects | ops.YIELD.effects),
)
