"""Streams: the queues, on the CPU or on a GPU, to which launches are submitted.

`as_stream` converts the stream objects of all libraries to those of this package. A `GpuStream` keeps the arguments of its
launches alive until the GPU has finished with them, because Python may delete an array while a kernel still reads it.

    stream = as_stream(torch.cuda.current_stream())     # or cpu_stream(), a cuda.core.Stream, a CuPy stream, a handle, None
    ...launch...
    stream.retain(x, y)                                 # released some time after the kernel has ended
"""

from __future__ import annotations

import contextlib
import functools
import re
import struct
import time
from _thread import RLock
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from cuda_device import hooks, logs
from cuda_device.errors import LaunchError, PluginError
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.runtime.gpu import driver

MOST_RETAINED = 1024
"""The length of the driver's own queue: waiting for the oldest of more launches costs nothing."""
_WORDS = struct.Struct("=QQQ")


class Stream:
    """A queue of launches that run one after the other: a `CpuStream` or a `GpuStream`."""

    __slots__ = ()

    @property
    def handle(self) -> int | None:
        """The driver's handle of the stream, never 0; None on the CPU."""
        return None

    @property
    def consumer(self) -> int | None:
        """The stream that is passed to producers of arrays as their consumer."""
        return None

    @property
    def device_name(self) -> str:
        """The name of the device, such as "NVIDIA H200" or "CPU, 8 threads"."""
        return "no device"

    def synchronize(self) -> None:
        """Waits until all launches on the stream have finished."""

    def sync(self) -> None:
        """Same as `synchronize`, under the name that `cuda.core` uses."""
        self.synchronize()

    def retain(self, *objects: object) -> None:
        """Keeps `objects` alive until the launches made so far have ended."""

    @property
    def is_captured(self) -> bool:
        """Whether work submitted to the stream is captured into a graph instead of being run."""
        return False

    def record_launch(self, variant: Any, shape: Any, buffer: Any, arguments: Any) -> bool:
        """Whether the current launch is being recorded into a graph."""
        return False

    @property
    def priority(self) -> int:
        """The stream's priority: 0 is the lowest; smaller numbers are higher."""
        return 0

    def record(self, event: Any = None) -> Any:
        """Records `event`, or a new one without timing, after the work submitted so far; returns the event."""
        raise NotImplementedError

    def wait(self, event_or_stream: Any) -> None:
        """Makes later work wait for an event, or for the work submitted so far to another stream."""
        raise NotImplementedError

    def close(self) -> None:
        """Releases the stream. A stream that this package did not create stays open for its other users."""


# The work of a CPU stream has finished before an event is recorded, so all events are done, and waiting for them does nothing.


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


@dataclass(frozen=True, slots=True)
class CpuStream(Stream):
    """A stream whose launches run on this machine's CPU and have finished when `launch` returns.

    `target` is the GPU architecture that the kernels see, such as "sm_90a". With `races`, each launch looks for data races.
    `schedule` selects the order in which blocks and warps run.
    """

    target: str = "sm_90a"
    races: bool = False
    schedule: int | None = None

    @property
    def device_name(self) -> str:
        """The CPU, with the number of threads that run a launch."""
        return f"CPU, {hooks.target('cpu').worker_count()} threads"

    @property
    def _options(self) -> tuple[str, ...]:
        """What the stream asks the target for (`jobs.Target`)."""
        return ("races",) * self.races + ("permuted",) * (self.schedule is not None)

    def record(self, event: CpuEvent | None = None) -> CpuEvent:
        """Records `event`, or a new one without timing; returns the event. All earlier launches have finished.

        Raises `TypeError` for an event of a GPU, and `RuntimeError` for a closed one.
        """
        recorded = CpuEvent() if event is None else event
        if not isinstance(recorded, CpuEvent):
            raise TypeError(f"{_describe(event)} is not an event of a CPU stream: pass CpuEvent(timing=…), or nothing")
        recorded._record(self.is_captured)
        return recorded

    def wait(self, event_or_stream: Any) -> None:
        """Waits for an event or for another stream. The work of CPU streams has always finished.

        Raises `LaunchError` for anything else.
        """
        if hasattr(event_or_stream, "is_done"):
            event_or_stream.sync()
        elif event_or_stream is not None:
            as_stream(event_or_stream).synchronize()
        else:
            raise LaunchError("wait needs an event or a stream, not None", "pass an event or a stream")


@dataclass(slots=True)  # which machine code reads
class Retained:
    """The objects that launches on a stream use. It outlives the `GpuStream` objects of the stream."""

    # Pairs of an event, recorded after a launch, and the arguments of that launch; oldest first.
    pending: deque[tuple[int, tuple[object, ...]]] = field(default_factory=deque)
    releasing: bool = False
    # Reentrant, because destructors of arguments can run any code.
    lock: RLock = field(default_factory=RLock)


captured: list[tuple[object, ...]] = []
"""The arguments of launches that were captured into graphs. They are never released, because graphs may run at any time."""

# By context and handle. All threads share one entry for the per-thread stream, because events work for any of them.
_retained: dict[tuple[int, int], Retained] = {}
_retained_lock = RLock()


# The legacy default streams, by context.
_defaults: dict[int, GpuStream] = {}


class GpuStream(Stream):
    """A stream of a GPU. It keeps `owner`, the object that it was made from, alive.

    `ordered` says whether launches are ordered with the streams on which their arrays are produced.
    """

    __slots__ = ("_handle", "_retained", "_words", "context", "ordered", "ordinal", "owner")

    def __init__(
        self, handle: int, ordinal: int, owner: object = None, *, context: int | None = None, ordered: bool = True
    ) -> None:
        self.ordered = ordered
        self._handle = handle or driver.LEGACY_STREAM
        self.ordinal = ordinal
        self.owner = owner
        self.context = driver.context_of(ordinal) if context is None else context
        self._words = _WORDS.pack(self._handle, self.context, ordered)
        """For launchers in machine code: handle, context, and whether launches are ordered with other streams."""
        with _retained_lock:
            self._retained = _retained.setdefault((self.context, self._handle), Retained())

    @property
    def handle(self) -> int:
        """The driver's handle. 1 is the legacy default stream, 2 the per-thread default stream."""
        return self._handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """cuda.core's protocol, by which other libraries take the stream: its version, and the handle."""
        return 0, self._handle

    @property
    def core(self) -> Any:
        """A `cuda.core.Stream` with this handle, valid while this object exists. Its context must be current for the defaults."""
        return driver.cuda_core().Stream.from_handle(self._handle)

    @property
    def priority(self) -> int:
        """The stream's priority: 0 is the lowest; smaller numbers are higher."""
        with self.using():
            return int(self.core.priority)

    def record(self, event: Any = None) -> Any:
        """Records a `cuda.core.Event`, or a new one without timing, after the work submitted so far; returns the event."""
        with self.using():
            return self.core.record(event)

    def wait(self, event_or_stream: Any) -> None:
        """Makes later work wait, on the GPU, for a `cuda.core.Event`, or for the work submitted so far to another stream."""
        with self.using():
            self.core.wait(event_or_stream)

    @property
    def consumer(self) -> int:
        """The stream that is passed to producers of arrays: the handle, or -1 for no ordering."""
        return self._handle if self.ordered else -1

    @property
    def device_name(self) -> str:
        """The GPU's name."""
        return driver.properties(self.ordinal).name

    @property
    def is_captured(self) -> bool:
        """Whether work submitted to the stream is captured into a graph instead of being run."""
        with self.using():
            return driver.is_capturing(self._handle)

    def using(self) -> driver.Using:
        """Returns a context manager that makes the stream's context current, as calls of the driver require."""
        return driver.using(self.context)

    def synchronize(self) -> None:
        """Waits for the stream, and releases what its launches used. Raises `KernelError` if a kernel reported an error."""
        with self.using():
            driver.synchronize_stream(self._handle)
            self.release_finished()
            driver.raise_report(self.context)

    def retain(self, *objects: object) -> None:
        """Keeps `objects` alive until the launches made so far have ended. Call it after a launch.

        The objects are released in a later call of `retain` or `synchronize`. If the launches are being captured into a
        graph, the objects are never released, because the graph can be started at any time.
        """
        if not objects:
            return
        kept = (*objects, self.owner)
        with self.using():
            if driver.is_capturing(self._handle):
                captured.append(kept)
                return
            try:
                event = driver.take_event(self.context)
                driver.record_event(event, self._handle)
            except Exception:
                # The launch may be running: never release its arguments.
                captured.append(kept)
                raise
            self._retained.pending.append((event, kept))
            self.release_finished()
            while len(self._retained.pending) > MOST_RETAINED:
                with self._retained.lock, contextlib.suppress(IndexError):  # another thread may have emptied the queue
                    driver.synchronize_event(self._retained.pending[0][0])
                self.release_finished()

    def release_finished(self) -> None:
        """Releases the objects used by launches that have finished."""
        _release(self._retained, self.context)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GpuStream) and (self._handle, self.context) == (other._handle, other.context)

    def __hash__(self) -> int:
        return hash((self._handle, self.context))

    def __repr__(self) -> str:
        names = {driver.LEGACY_STREAM: "legacy default", driver.PER_THREAD_STREAM: "per-thread default"}
        return f"GpuStream({names.get(self._handle, hex(self._handle))}, device {self.ordinal})"


def _release(retained: Retained, context: int) -> None:
    """Releases the arguments of launches that have ended; the context of their stream is current."""
    finished: list[tuple[object, ...]] = []
    pending = retained.pending
    with retained.lock:
        # A destructor may run at any point and call this. Other threads only append.
        if retained.releasing:
            return
        retained.releasing = True
        try:
            count = len(pending)
            all_done = count > 1 and driver.event_done(pending[count - 1][0])  # then the older ones are, too
            for _ in range(count):
                event, objects = pending[0]
                if not (all_done or driver.event_done(event)):
                    break
                pending.popleft()
                finished.append(objects)
                driver.give_event(event, context)
        finally:
            retained.releasing = False
    finished.clear()  # outside the lock, because it runs destructors


def join(streams: Iterable[Stream]) -> None:
    """Makes later work of each GPU stream wait for the current work of all of them. Does not block."""
    on_gpu = list(dict.fromkeys(stream for stream in streams if isinstance(stream, GpuStream)))
    if len(on_gpu) < 2:
        return
    events: list[tuple[GpuStream, int]] = []
    try:
        for stream in on_gpu:
            with stream.using():
                events.append((stream, driver.take_event(stream.context)))
                driver.record_event(events[-1][1], stream.handle)
        for stream in on_gpu:
            with stream.using():
                for other, event in events:
                    if other is not stream:
                        driver.wait_event(stream.handle, event)
    finally:
        for stream, event in events:
            driver.give_event(event, stream.context)


def release_finished_everywhere(context: int) -> None:
    """Releases the arguments of launches that have ended on any stream of `context`, which is current."""
    for (owner, _), retained in list(_retained.items()):
        if owner == context:
            _release(retained, context)


def cpu_stream(*, target: str = "sm_90a", races: bool = False, schedule: int | None = None) -> CpuStream:
    """Returns a stream whose launches run on this machine's CPU; needs neither a GPU nor a driver.

    `target` is the GPU architecture that kernels see. With `races=True`, a launch raises a `KernelError` if two threads access
    the same location, at least one of them writes, and nothing orders the two accesses: no barrier, no `syncwarp`, and no
    atomic that acquires what another one releases. An asynchronous copy counts as a thread until the program waits for it.
    The error names both threads and both lines. Detection takes from some nanoseconds to microseconds for each access, so use
    it in tests, with little data. With a `schedule`, an int, blocks and
    the warps of a block run in another order on one host thread, and wait for others before some atomics; the same number
    always gives the same order. Use it to find results that depend on the order. Raises `ValueError` for a target that is not
    of the form "sm_90", and for a `schedule` that is not an int, and `PluginError` if the CPU target is not installed.
    """
    hooks.target("cpu")
    if not isinstance(target, str) or not re.fullmatch(r"sm_\d{2,3}[af]?", target):
        raise ValueError(f"target={target!r} is not a GPU architecture: give its name, as in 'sm_90'")
    if schedule is not None and (not isinstance(schedule, int) or isinstance(schedule, bool)):
        raise ValueError(f"schedule={schedule!r} must be None or an int, the number of an order")
    return CpuStream(target, bool(races), schedule)


def unordered(stream: Any = None) -> Stream:
    """Returns a stream like `stream` whose launches neither wait for other streams nor make them wait.

    By default a launch waits, on the GPU, for the streams on which libraries produce the arrays that are passed, and those
    streams wait for the launch. Use this if the order is established otherwise. A CPU stream is returned unchanged.
    """
    original = as_stream(stream)
    if not isinstance(original, GpuStream):
        return original
    return GpuStream(original.handle, original.ordinal, original.owner, context=original.context, ordered=False)


def default_stream() -> Stream:
    """Returns the legacy default stream of the current device if a GPU is usable, and otherwise `cpu_stream()`.

    The choice is logged once to the logger "cuda_device", at level INFO. Raises `PluginError` if there is neither a GPU nor the
    CPU target.
    """
    if not driver.available():
        without = f"no GPU is usable ({driver.unavailable_reason()})"
        try:
            on_cpu = cpu_stream()
        except PluginError as error:
            raise PluginError(f"{without}, and {error}") from None
        _log_once(f"{without}: the default stream is the CPU's")
        return on_cpu
    context = driver.ensure_context()
    stream = _defaults.get(context)
    if stream is None:
        stream = _defaults[context] = GpuStream(driver.LEGACY_STREAM, driver.current_ordinal(), context=context)
        _log_once(f"the default stream is the legacy default stream of GPU {stream.ordinal}")
    return stream


@functools.cache
def _log_once(message: str) -> None:
    logs.say(logs.INFO, message)


def as_stream(obj: Any) -> Stream:
    """Converts an object to a stream.

    Accepts streams of this package, None (`default_stream()`), objects with `__cuda_stream__` (cuda.core's protocol: torch, CuPy,
    cuda.core), torch's streams (`cuda_stream`), CuPy's (`ptr`), and integer handles (0 and 1: the legacy default stream, 2: the
    per-thread one). Raises `LaunchError` for any other object, and for a GPU stream if no GPU is usable.
    """
    if isinstance(obj, Stream):
        return obj
    if obj is None:
        return default_stream()
    handle = _handle_of(obj)
    if handle is None:
        raise LaunchError(
            f"{_describe(obj)} is not a stream",
            "pass None, cpu_stream(), an object with __cuda_stream__ (of cuda.core, torch or CuPy), or a stream's handle as "
            "an int",
        )
    driver.require()
    handle = handle or driver.LEGACY_STREAM
    ordinal = _ordinal_hint(obj)
    if handle in (driver.LEGACY_STREAM, driver.PER_THREAD_STREAM):
        return GpuStream(handle, driver.current_ordinal() if ordinal is None else ordinal, obj)
    context = driver.stream_context(handle)
    with driver.using(context):
        return GpuStream(handle, driver.current_ordinal(), obj, context=context)


def _handle_of(obj: Any) -> int | None:
    """The handle of a foreign stream, or None if `obj` is not one."""
    if isinstance(obj, (bool, type)):
        return None
    # CUstream and cudaStream_t of cuda.bindings convert to int.
    if isinstance(obj, (int, np.integer)) or type(obj).__name__ in ("CUstream", "cudaStream_t"):
        return _checked(int(obj), obj)
    protocol = getattr(obj, "__cuda_stream__", None)
    if protocol is not None:
        answer = protocol() if callable(protocol) else protocol
        try:
            version, handle = map(int, answer)
        except (TypeError, ValueError):
            version = handle = -1
        if version == 0:  # the only version that there is
            return _checked(handle, obj)
        raise LaunchError(
            f"__cuda_stream__ of {_describe(obj)} gave {answer!r} instead of (0, handle)",
            "pass the stream's handle as an int",
        )
    for name in ("cuda_stream", "ptr"):
        attribute = getattr(obj, name, None)
        if isinstance(attribute, int) and not isinstance(attribute, bool):
            return _checked(attribute, obj)
    return None


def _checked(handle: int, obj: Any) -> int:
    if not 0 <= handle < 1 << 64:
        raise LaunchError(
            f"{_describe(obj)} has the stream handle {handle}, which is not an address",
            "pass the handle of an existing stream",
        )
    return handle


def _ordinal_hint(obj: Any) -> int | None:
    """The device of a foreign stream: torch's `device_index`, or CuPy's `device_id`, of which -1 is the current device."""
    for name in ("device_index", "device_id"):
        ordinal = getattr(obj, name, None)
        if isinstance(ordinal, int) and not isinstance(ordinal, bool) and ordinal >= 0:
            return ordinal
    return None


def _describe(obj: Any) -> str:
    return f"{obj!r}" if isinstance(obj, (int, str)) else f"an object of type {type(obj).__qualname__}"
