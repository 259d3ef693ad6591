"""`stream` and `event`: streams and events of `cuda.core` on a GPU, and those of the CPU without one.

compute, copy = device.stream(), device.stream(priority=-1)
begin, end = device.event(timing=True), device.event(timing=True)
compute.record(begin)
device.launch(f, x, grid=64, block=256, stream=compute)
compute.record(end)
copy.wait(end)                  # what follows on `copy` waits for the launch
end.sync()
print(end - begin)              # milliseconds
"""

from __future__ import annotations

import operator
from typing import Any

from cuda_device.errors import LaunchError
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import CpuEvent, CpuStream


class _CreatedCpuStream(CpuStream):
    """A CPU stream that `stream()` creates. It equals no other one, has a priority without effect, and can be closed."""

    __slots__ = ("_is_closed", "_priority")
    _is_closed: bool
    _priority: int

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self) -> Any:
        return _create, (self._priority,)

    def __repr__(self) -> str:
        return f"<CPU stream {id(self):#x}>"

    @property
    def priority(self) -> int:
        return self._priority

    def close(self) -> None:
        """Releases the stream: later launches, events and waits raise `LaunchError`."""
        object.__setattr__(self, "_is_closed", True)

    def _check_open(self) -> None:
        if self._is_closed:
            raise LaunchError("the stream is closed", "create another one with stream()")

    def synchronize(self) -> None:
        self._check_open()

    def record(self, event: CpuEvent | None = None) -> CpuEvent:
        self._check_open()
        return CpuStream.record(self, event)

    def wait(self, event_or_stream: Any) -> None:
        self._check_open()
        CpuStream.wait(self, event_or_stream)

    def record_launch(self, variant: Any, shape: Any, buffer: Any, arguments: Any) -> bool:
        self._check_open()
        return False


def _create(priority: int) -> _CreatedCpuStream:
    created = _CreatedCpuStream()
    object.__setattr__(created, "_priority", priority)
    object.__setattr__(created, "_is_closed", False)
    return created


def stream(priority: int | None = None) -> Any:
    """Creates a stream on the current GPU, a `cuda.core.Stream`. Without a GPU, the stream is a `CpuStream` with its methods.

    `priority` is that of CUDA: 0, the default, is the lowest; smaller numbers are higher. It has no effect on the CPU. The
    stream is non-blocking: it is not ordered with the default stream, but launches wait for the streams of their arrays. Both
    kinds of stream have `sync()`, `record(event=None)`, which returns the event, `wait(event_or_stream)`, `close()`, `handle`
    (None on the CPU) and `priority`. Raises `TypeError` for a priority that is not an int, and on a GPU `ValueError` for one
    that the GPU does not have.
    """
    chosen = None if priority is None else operator.index(priority)
    if not driver.available():
        return _create(chosen or 0)
    core = driver.cuda_core()
    return current_device(core).create_stream(options=core.StreamOptions(priority=chosen))


def event(timing: bool = False) -> Any:
    """Creates an event on the current GPU, a `cuda.core.Event`. Without a GPU, the event is a `CpuEvent` with its methods.

    `stream.record(event)` records it, and `other.wait(event)` makes another stream wait for it. Both kinds of event have
    `sync()`, `is_done` and `close()`. If two events are created with `timing` and have completed, `later - earlier` is the time
    between them in milliseconds; otherwise it raises `RuntimeError`.
    """
    if not driver.available():
        return CpuEvent(bool(timing))
    core = driver.cuda_core()
    return current_device(core).create_event(core.EventOptions(timing_enabled=bool(timing)))


def current_device(core: Any) -> Any:
    """The current GPU, a `Device` of the module `core`, `cuda.core`. It is initialised in this thread, as its methods require."""
    ordinal = driver.current_ordinal()
    gpu = core.Device(ordinal)
    with driver.using(driver.primary_context(ordinal)):  # which set_current makes current
        gpu.set_current()
    return gpu


__all__ = ["event", "stream"]
