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

from cuda_device import GpuStream, Stream, globaltimer, int64, kernel, prepare
from cuda_device.extend import as_stream, dataclass, driver

_FIRST = 5
"""The number of calls from which the times of a call and of its submission are estimated."""
_FEWEST = 10
_MARGIN = 20e-6
"""The seconds that the host needs for the events of a call, with a margin."""
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
    its work. Before each call, the GPU is kept busy for longer than the host needs to submit the call, so that the host's time
    does not count, unless the function itself waits for the GPU. With `cold`, the GPU also clears memory of twice the size of
    its L2 cache before each call, so that no call finds its data there. Neither is measured. On a CPU stream, it measures the
    time until `function` returns, and `cold` has no effect. At least ten calls are timed. `setup` is called before each call,
    and is not measured.

    Of a list of functions, it calls one after the other in each round, so that changes of the clock rate meet all of them
    alike, and returns a `Timing` for each; `warmup` and `duration` are the seconds for each function. Raises what the functions
    raise, and `ValueError` for times that are not positive.
    """
    if not (warmup >= 0 and duration > 0):
        raise ValueError(f"warmup={warmup}, duration={duration}: give seconds; duration must be greater than 0")
    functions = [function] if callable(function) else list(function)
    where, setup = as_stream(stream), setup or _nothing

    def rounds(count: int) -> None:
        for _ in range(count):
            for one in functions:
                setup()
                one()

    rounds(1)  # compiles the kernels
    per_call, submissions = _estimated(functions, where, setup)
    rounds(int(warmup / per_call))
    count = max(_FEWEST, int(duration / per_call))
    if isinstance(where, GpuStream):
        seconds = _on_gpu(functions, submissions, where, count, cold, setup)
    else:
        seconds = _on_cpu(functions, count, setup)
    timings = [*map(_timing, seconds)]
    return timings[0] if callable(function) else timings


def _nothing() -> None: ...


def _timing(seconds: Sequence[float]) -> Timing:
    low, *_, high = statistics.quantiles(seconds, n=5, method="inclusive")
    return Timing(statistics.median(seconds), low, high, len(seconds))


_Functions = Sequence[Callable[[], Any]]


def _estimated(functions: _Functions, stream: Stream, setup: Callable[[], Any]) -> tuple[float, list[float]]:
    """The seconds of a call of any of the functions with its setup, and those until the host has submitted each of them."""
    submissions: list[list[float]] = [[] for _ in functions]
    stream.synchronize()
    start = time.perf_counter()
    for _ in range(_FIRST):
        for function, of_function in zip(functions, submissions, strict=True):
            setup()
            stream.synchronize()  # a full queue would delay the host
            before = time.perf_counter()
            function()
            of_function.append(time.perf_counter() - before)
    stream.synchronize()
    total = time.perf_counter() - start
    return max(total / _FIRST / max(1, len(functions)), 1e-9), [*map(statistics.median, submissions)]


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
    functions: _Functions,
    submissions: Sequence[float],
    stream: GpuStream,
    count: int,
    cold: bool,
    setup: Callable[[], Any],
) -> list[list[float]]:
    """The seconds of `count` calls of each function, of which the host needs the seconds in `submissions` to submit one."""
    nbytes = 2 * driver.properties(stream.ordinal).l2_cache if cold else 0
    calls = len(functions) * count
    with stream.using():
        pauses = [_pause(submission, stream) for submission in submissions]
        events = [(driver.create_event(timing=True), driver.create_event(timing=True)) for _ in range(calls)]
        memory = driver.allocate(nbytes, stream.handle, stream.ordinal) if nbytes else 0
        try:
            for (before, after), function, pause in zip(events, [*functions] * count, pauses * count, strict=True):
                setup()
                driver.fill_zero(memory, nbytes, stream.handle)
                pause()
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


def _pause(seconds: float, stream: GpuStream) -> Callable[[], None]:
    """A launch that keeps the GPU busy until the host has submitted a call, for which it needs so many seconds."""
    return prepare(_wait, int64((_MARGIN + 1.5 * seconds) * 1e9), grid=1, block=1, stream=stream)


@kernel
def _wait(nanoseconds: int64) -> None:
    start = int64(globaltimer())
    while int64(globaltimer()) - start < nanoseconds:
        pass
