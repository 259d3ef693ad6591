"""The events of CPU streams, with the methods of `cuda.core.Event`.

    begin, end = event(timing=True), event(timing=True)     # without a GPU
    stream.record(begin)
    ...launch...
    stream.record(end)
    end - begin                                             # milliseconds

The work of a CPU stream has finished before an event is recorded, so all events are done, and waiting for them does nothing.
"""

from __future__ import annotations

import time


class CpuEvent:
    """A point in the work of a CPU stream; created by `event`, or by `CpuStream.record`.

    The methods are those of `cuda.core.Event`. As there, the difference of two events is a time in milliseconds, and a closed
    event raises `RuntimeError`.
    """

    __slots__ = ("_is_closed", "_nanoseconds", "timing")

    def __init__(self, timing: bool = False) -> None:
        self.timing = timing
        """Whether the event can be subtracted from others."""
        self._nanoseconds: int | None = None
        self._is_closed = False

    @property
    def is_done(self) -> bool:
        """Whether the work before the event has finished: always True."""
        self._check_open()
        return True

    def sync(self) -> None:
        """Waits for the work before the event, which has finished."""
        self._check_open()

    def close(self) -> None:
        """Releases the event, which cannot be used afterwards."""
        self._is_closed = True

    def _record(self, captured: bool) -> None:
        """Takes the time; a `captured` event belongs to a graph, and has none."""
        self._check_open()
        self._nanoseconds = None if captured else time.perf_counter_ns()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the event is closed: create another one with event()")

    def __sub__(self, other: object) -> float:
        """The milliseconds from `other` to this event. Raises `RuntimeError` unless both have timing and were recorded."""
        if not isinstance(other, CpuEvent):
            return NotImplemented
        self._check_open()
        other._check_open()
        if not (self.timing and other.timing):
            raise RuntimeError("only events with timing can be subtracted: create both with event(timing=True)")
        if self._nanoseconds is None or other._nanoseconds is None:
            raise RuntimeError("only recorded events can be subtracted: record both, outside of graphs")
        return (self._nanoseconds - other._nanoseconds) * 1e-6


__all__ = ["CpuEvent"]
