"""`benchmark`: measures how long a call takes on its stream.

timing = device.benchmark(lambda: device.launch(step, x, y, grid=4096, block=256))
print(timing)                               # 143.2 µs (142.9 to 143.8 µs), 698 calls
timing.median                               # 0.0001432, in seconds
ours, theirs = device.benchmark([run_ours, run_theirs])                # in turn
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, overload

from cuda_device import GpuStream
from cuda_device.extend import as_stream, dataclass, driver

_FIRST = 5
"""The number of calls from which the number of calls in the given time is estimated."""
_FEWEST = 10
_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


@dataclass(frozen=True, slots=True)
class Timing:
    """The result of `benchmark` in seconds: the median of `count` calls, and the 20th and 80th percentiles."""

    median: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        unit, scale = next((row for row in _UNITS if self.median >= row[1]), _UNITS[-1])
        low, median, high = (f"{seconds / scale:.1f}" for seconds in (self.low, self.median, self.high))
        return f"{median} {unit} ({low} to {high} {unit}), {self.count} calls"


@overload
def benchmark(
    function: Callable[[], Any],
    *,
    stream: Any = None,
    warmup: float = 0.025,
    duration: float = 0.1,
    cold: bool = True,
    setup: Callable[[], Any] | None = None,
) -> Timing: ...
@overload
def benchmark(
    function: Sequence[Callable[[], Any]],
    *,
    stream: Any = None,
    warmup: float = 0.025,
    duration: float = 0.1,
    cold: bool = True,
    setup: Callable[[], Any] | None = None,
) -> list[Timing]: ...
def benchmark(
    function: Callable[[], Any] | Sequence[Callable[[], Any]],
    *,
    stream: Any = None,
    warmup: float = 0.025,
    duration: float = 0.1,
    cold: bool = True,
    setup: Callable[[], Any] | None = None,
) -> Timing | list[Timing]:
    """Measures how long a call of `function` takes.

    Calls it for about `warmup` seconds without timing, then for about `duration` seconds, and times each of these calls.
    On a GPU, it measures the time between two events on `stream` (None: `default_stream()`), to which `function` must submit
    its work. With `cold`, the GPU clears memory of twice the size of its L2 cache before each call, so that no call finds its
    data there; this time is not measured. On a CPU stream, it measures the time until `function` returns, and `cold` has no
    effect. At least ten calls are timed. `setup` is called before each call, and is not measured.

    Of a list of functions, it calls one after the other in each round, so that changes of the clock rate meet all of them
    alike, and returns a `Timing` for each; `warmup` and `duration` are the seconds for each function. Raises what the functions
    raise, and `ValueError` for times that are not positive.
    """
    if not (warmup >= 0 and duration > 0):
        raise ValueError(f"warmup={warmup}, duration={duration}: give seconds; duration must be greater than 0")
    functions = [function] if callable(function) else list(function)
    where, prepare = as_stream(stream), setup or _nothing

    def rounds(count: int) -> None:
        for _ in range(count):
            for one in functions:
                prepare()
                one()

    rounds(1)  # compiles the kernels
    where.synchronize()
    start = time.perf_counter()
    rounds(_FIRST)
    where.synchronize()
    per_call = max((time.perf_counter() - start) / _FIRST / max(1, len(functions)), 1e-9)
    rounds(int(warmup / per_call))
    count = max(_FEWEST, int(duration / per_call))
    if isinstance(where, GpuStream):
        seconds = _on_gpu(functions, where, count, cold, prepare)
    else:
        seconds = _on_cpu(functions, count, prepare)
    timings = [*map(_timing, seconds)]
    return timings[0] if callable(function) else timings


def _nothing() -> None: ...


def _timing(seconds: Sequence[float]) -> Timing:
    low, *_, high = statistics.quantiles(seconds, n=5, method="inclusive")
    return Timing(statistics.median(seconds), low, high, len(seconds))


_Functions = Sequence[Callable[[], Any]]


def _on_cpu(functions: _Functions, count: int, setup: Callable[[], Any]) -> list[list[float]]:
    """The seconds of `count` calls of each function."""
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(count):
        for function, of_function in zip(functions, seconds, strict=True):
            setup()
            start = time.perf_counter()
            function()
            of_function.append(time.perf_counter() - start)
    return seconds


def _on_gpu(
    functions: _Functions, stream: GpuStream, count: int, cold: bool, setup: Callable[[], Any]
) -> list[list[float]]:
    """The seconds of `count` calls of each function."""
    nbytes = 2 * driver.properties(stream.ordinal).l2_cache if cold else 0
    calls = len(functions) * count
    with stream.using():
        events = [(driver.create_event(timing=True), driver.create_event(timing=True)) for _ in range(calls)]
        memory = driver.allocate(nbytes, stream.handle, stream.ordinal) if nbytes else 0
        try:
            for (before, after), function in zip(events, [*functions] * count, strict=True):
                setup()
                driver.fill_zero(memory, nbytes, stream.handle)
                driver.record_event(before, stream.handle)
                function()
                driver.record_event(after, stream.handle)
            stream.synchronize()
            seconds = [driver.seconds_between(before, after) for before, after in events]
            return [seconds[i :: len(functions)] for i in range(len(functions))]
        finally:
            if memory:
                driver.free(memory, stream.handle, stream.ordinal)
            for pair in events:
                for event in pair:
                    driver.destroy_event(event)
