"""Runs a compiled kernel over a grid on the CPU, and shows the text that it prints.

    saxpy = Execution(native, Shape((1024, 1, 1), (256, 1, 1), 0), places={7: ReportPlace(location)})
    saxpy(parameters)

`parameters` are the kernel's leaves, packed as a C structure. Worker threads of the host take chunks of blocks from a counter
until none are left. No object is created for a block, so a grid may be as large as CUDA allows. Each launch has its own control
record, so any number of launches may run at the same time. An error that a kernel reports is raised here as a `KernelError`.

The caller waits on a lock while the workers run. Ctrl-C tells them to stop and raises `KeyboardInterrupt`, whether they stop or
not. In a launch that is certain to end soon, the calling thread is one of the workers; in a small launch it is the only one,
because waking another thread would take longer.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import random
import resource
import struct
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any

from cuda_device import KernelError
from cuda_device.cpu.processor import worker_count
from cuda_device.cpu.records import (
    CLUSTER_WORDS,
    CONTROL,
    FIRST_MASKED,
    INDEX,
    KIND_SHIFT,
    PLACE_MASK,
    RUN,
    Record,
    Suspension,
)
from cuda_device.errors import NOWHERE, Index
from cuda_device.extend import Shape, kernel_error
from cuda_device.instrument.outline import Print, ReportPlace, Status
from cuda_device.runtime.gpu.report_message import ALL_AT_BARRIER, Waiting, waiting_report

if TYPE_CHECKING:
    from cuda_device.cpu.machine_code import Native

_SMALL = 1 << 13
"""The number of threads up to which the caller runs a grid without loops alone: it ends before a worker would wake."""
_BRIEF = 1 << 20
"""The number of threads up to which the caller may be one of the workers, because Ctrl-C need not wait long."""
_CHUNKS = 16
"""The number of chunks of blocks for each worker, so that blocks of different length are distributed evenly."""
_STEPS = (374761393, 668265263, 2246822519, 2654435761, 3266489917)
"""Prime numbers, whose multiples modulo the number of blocks or warps are a permutation of them."""
_PATIENCE = 0.2
"""The seconds for which an interrupted launch waits for its workers."""
_LOOK = 0.1
"""The seconds between checks for an interrupt that is not a signal, such as `_thread.interrupt_main`."""

_HELP = {
    Status.DEADLOCK: "every thread of a block must reach the same syncthreads(): move it out of the branch",
    Status.DIVERGENT_BARRIER: ALL_AT_BARRIER,
}
_FOR_NUMBERS = range(Suspension.WORD8, Suspension.ACTIVE)
_NUMBERS_HELP = (
    "all threads that could end the waits wait themselves, or have returned: look for a wrong parity, count or number of bytes, "
    "a barrier that is not initialised, or threads that do not come"
)
_LANES_HELP = "all lanes of a mask, except those that have returned, must reach the same operation with the same mask"
_WHAT = {Status.DEADLOCK: "deadlock", Status.DIVERGENT_BARRIER: "divergent barrier"}


def _structure(record: Record) -> type[ctypes.Structure]:
    """The same record for Python."""
    word = ctypes.c_uint32
    types: dict[str, Any] = {"i32": word, "i64": ctypes.c_int64, "ptr": ctypes.c_void_p, INDEX: word * 3}

    def type_of(text: str) -> Any:
        count, _, element = text.strip("[]").partition(" x ")
        return types[element] * int(count) if element else types[text]

    fields = [(name, type_of(text)) for name, text in record.fields.items()]
    return type(record.name.strip("%"), (ctypes.Structure,), {"_fields_": fields})


_Control: Any = _structure(CONTROL)


class Execution:
    """A kernel and the size of its launches. A call is one launch.

    `places` are the places of the kernel's reports and barriers, and `prints` those of its `print` calls. `checked` also reports
    barriers that some threads do not reach. `may_run_long=False` promises that each thread ends soon. `workers` overrides
    `worker_count()`. With a `schedule`, a number, one worker runs blocks and warps in the order of that number.
    """

    def __init__(
        self,
        code: Native,
        shape: Shape,
        *,
        places: Mapping[int, ReportPlace] | None = None,
        prints: Mapping[int, Print] | None = None,
        checked: bool = False,
        may_run_long: bool = True,
        workers: int | None = None,
        schedule: int | None = None,
    ) -> None:
        self.code, self.shape, self.places, self.prints = code, shape, places or {}, prints
        self.run: Callable[[int], None] = _FUNCTION(code.address(RUN))
        """Runs a worker's share of the launch whose control record is at an address. ctypes releases the GIL."""
        blocks, size, in_cluster = map(math.prod, (shape.grid, shape.block, shape.cluster))
        self.limit = 1 if schedule is not None else workers or worker_count()
        self.count = min(self.limit, blocks)
        # The blocks of a cluster are taken one by one, wherever they are in the grid.
        one_by_one = schedule is not None or in_cluster > 1
        control = _Control(
            blocks=blocks,
            chunk=1 if one_by_one else max(1, blocks // (self.count * _CHUNKS)) if self.count > 1 else blocks,
            dynamic_bytes=shape.dynamic,
            checked=checked,
            stack=_stack_bytes(),
            grid=shape.grid,
            size=shape.block,
            cluster_dim=shape.cluster,
            judge=ctypes.cast(_JUDGE, ctypes.c_void_p),
        )
        if schedule is not None:
            chance = random.Random(schedule)
            control.step, control.seed = chance.choice(_STEPS), chance.getrandbits(31)
        self.control = bytes(control)
        """The control record at the start of each launch."""
        self.records = (
            ctypes.c_int64 * (blocks // in_cluster * (in_cluster + CLUSTER_WORDS)) if in_cluster > 1 else None
        )
        self.brief = not may_run_long and blocks * size <= _BRIEF
        self.alone = self.brief and (blocks * size <= _SMALL or self.count == 1)

    def __call__(
        self, parameters: Any, keep: object = None, stopped: Callable[[], bool] | None = None, log: int | None = None
    ) -> None:
        """Runs all blocks of the grid, and raises the `KernelError` that one of them reported.

        `parameters` is a ctypes object with the packed leaves. `keep`, the owner of the memory that the kernel uses, is kept
        alive until the last worker has returned, also after Ctrl-C. When `stopped()` returns true, the launch ends with an
        `InterruptedError`. `log` is the address of the race detector's log, to which one worker writes.
        """
        control = _Control.from_buffer_copy(self.control)
        control.parameters, control.log = ctypes.addressof(parameters), log
        kept = [self.code, parameters, keep]
        if self.records is not None:
            kept.append(records := self.records())
            control.clusters = ctypes.addressof(records)
        output = Output(self.prints) if self.prints else None
        if output is not None:
            kept.append(output)
            control.print = output.address
        try:
            if self.alone or (self.count == 1 and not _is_interruptible(stopped)):
                self.run(ctypes.addressof(control))
            else:
                _Launch(self.run, control, kept).run_on_workers(self.count, self.limit, stopped, works=self.brief)
        finally:
            if output is not None:
                output.write()
        if control.status:
            raise _error(control, self.shape.block, self.places)


_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _is_interruptible(stopped: Callable[[], bool] | None) -> bool:
    """Whether a launch may have to end early. Only the main thread receives Ctrl-C, and only while it runs Python."""
    return stopped is not None or threading.current_thread() is threading.main_thread()


@functools.cache
def _stack_bytes() -> int:
    """The bytes of a host thread's stack that a kernel's functions may use in checked mode: half of its size."""
    size = threading.stack_size()
    if not size:
        size = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return (size if 0 < size < 1 << 40 else 2 << 20) // 2


class _Launch:
    """The state of a launch, which each of its workers keeps alive, with everything that the kernel uses."""

    def __init__(self, run: Callable[[int], None], control: Any, keep: object) -> None:
        self.run, self.control, self.keep = run, control, keep
        self.left = self.coming = 0
        """The number of workers that have not finished, and the number of those that have not started."""
        self.over = self.abandoned = False
        self.ended = threading.Lock()
        """Held until the last worker has finished."""

    def run_on_workers(
        self, count: int, limit: int, stopped: Callable[[], bool] | None = None, *, works: bool = False
    ) -> None:
        """Returns when all workers have finished. If it is interrupted or `stopped`, it stops them and waits only briefly.

        The calling thread is one of the workers if it `works`.
        """
        self.ended.acquire()
        try:
            _POOL.start(self, count - works, limit)
            if works:
                self.run(ctypes.addressof(self.control))
                if _POOL.is_over(self):
                    return
            while not self.ended.acquire(timeout=_LOOK):
                if stopped is not None and stopped():
                    raise InterruptedError("the launch was stopped")
        except BaseException:
            self.control.stop = 1
            if not self.ended.acquire(timeout=_PATIENCE):
                _POOL.abandon(self)
            raise


class _Pool:
    """Host threads that wait for launches. At most `worker_count()` of them run at once, but each launch gets at least one.

    A thread that does not return, because of an interrupted endless loop, is replaced.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: list[SimpleQueue[_Launch]] = []
        self.members: set[int] = set()
        """The identifiers of the threads."""
        self.busy = 0

    def start(self, launch: _Launch, count: int, limit: int) -> None:
        """Gives `launch` up to `count` workers, but at least one, so that at most `limit` run at once."""
        # A worker that finishes immediately waits for the lock, and sees the final count.
        with self.lock:
            for _ in range(max(1, min(count, limit - self.busy))):
                inbox = self.idle.pop() if self.idle else self._worker()
                launch.left += 1
                launch.coming += 1
                self.busy += 1
                inbox.put(launch)

    def is_over(self, launch: _Launch) -> bool:
        """Whether no worker runs a block of `launch`, of which no block is left; those that have not started do not count."""
        with self.lock:
            launch.over = True
            launch.left -= launch.coming
            return launch.left == 0

    def abandon(self, launch: _Launch) -> None:
        """Replaces the workers that still run `launch`."""
        with self.lock:
            launch.abandoned = True
            self.busy -= launch.left

    def _worker(self) -> SimpleQueue[_Launch]:
        inbox: SimpleQueue[_Launch] = SimpleQueue()
        threading.Thread(target=self._serve, args=(inbox,), name="cuda_device worker", daemon=True).start()
        return inbox

    def _serve(self, inbox: SimpleQueue[_Launch]) -> None:
        self.members.add(threading.get_ident())
        while True:
            launch = inbox.get()
            with self.lock:
                launch.coming -= 1
                late = launch.over
            if not late:
                launch.run(ctypes.addressof(launch.control))
            self._finish(launch, inbox, late)
            del launch  # so that an idle worker keeps no arrays alive

    def _finish(self, launch: _Launch, inbox: SimpleQueue[_Launch], late: bool) -> None:
        with self.lock:
            self.idle.append(inbox)
            launch.left -= not late
            self.busy -= late or not launch.abandoned
            last = not late and launch.left == 0
        if last:
            launch.ended.release()


_POOL = _Pool()
# Threads do not survive a fork.
os.register_at_fork(after_in_child=_POOL.__init__)  # type: ignore[misc]


def _error(control: Any, size: Index, places: Mapping[int, ReportPlace]) -> KernelError:
    """The report in a control record, as an exception."""
    status = control.status
    block, thread = tuple(control.report_block), tuple(control.report_thread)
    if status == Status.OUT_OF_MEMORY:
        return KernelError(f"no memory for the local variables of the {size} threads of a block", block)
    if status in _WHAT:
        waiting, numbers = control.waiting[: math.prod(size)], _numbers(control, math.prod(size))
        # A thread that has returned has the word 0.
        kinds = {word >> KIND_SHIFT for word in waiting}
        help = _LANES_HELP if max(kinds) >= FIRST_MASKED else _HELP[status]
        if not kinds.isdisjoint(_FOR_NUMBERS):
            help = _NUMBERS_HELP
        return waiting_report(_WHAT[status], help, block, size, _waiting(waiting, numbers), places)
    place = places.get(control.place, ReportPlace(NOWHERE))
    if status == Status.OUTSIDE_MASK:
        message = "the mask {0:#010x} does not include the lane {1}, which passes it"
        place = ReportPlace(place.location, message, "a lane that calls a warp operation must be in its own mask", True)
    return kernel_error(place, tuple(control.values), block, thread)


def _numbers(control: Any, count: int) -> list[tuple[int, int]]:
    """For each thread of a report, the number in memory for which it waits, if it does, and its address."""
    if not control.numbers:
        return [(0, 0)] * count
    values = (ctypes.c_int64 * (2 * count)).from_address(control.numbers)[:]
    _FREE(control.numbers)
    return list(zip(values[:count], values[count:], strict=True))


_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(("free", ctypes.CDLL(None)))


def _waiting(words: Sequence[int], numbers: Sequence[tuple[int, int]]) -> list[Waiting]:
    """The threads by the place where they wait, and the number for which they do; those that have returned last."""
    groups: dict[tuple[int | None, tuple[int, int] | None], list[int]] = {}
    for thread, (word, number) in enumerate(zip(words, numbers, strict=True)):
        key = word & PLACE_MASK if word else None, number if word >> KIND_SHIFT in _FOR_NUMBERS else None
        groups.setdefault(key, []).append(thread)
    return [
        Waiting(place, tuple(threads), number and number[0])
        for (place, number), threads in sorted(groups.items(), key=lambda item: item[0][0] is None)
    ]


# Who else could write to memory for which threads wait


def _judge(address: int) -> int:
    """Whether others than a launch may write to memory for which all of its threads wait, as far as this process knows.

    Other threads of Python may, and GPUs and other processes if they share the memory.
    """
    return int(_runs_elsewhere() or _is_mapped_by_others(address))


def _runs_elsewhere() -> bool:
    """Whether several threads, without our workers, may run the user's code or a launch."""
    timers = {thread.ident for thread in threading.enumerate() if isinstance(thread, threading.Timer)}
    frames = [(thread, frame) for thread, frame in sys._current_frames().items() if thread not in _POOL.members]
    return sum(thread in timers or any(map(_may_write, _files(frame))) for thread, frame in frames) > 1


def _may_write(file: str) -> bool:
    """Whether a file may contain code of the user: not if it belongs to Python or to an installed package other than this one.

    Event loops call the user's code later.
    """
    is_installed = file.startswith(("<frozen", *sysconfig.get_paths().values()))
    return file.startswith(_PACKAGE) or not is_installed or "asyncio" in file


def _files(frame: FrameType | None) -> Iterator[str]:
    """The files of the functions on a thread's stack."""
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


def _is_mapped_by_others(address: int) -> bool:
    """Whether the memory at an address is shared with other processes or devices, as pinned and managed memory is."""
    try:
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, permissions, *_ = line.split(maxsplit=2)
                first, _, end = span.partition("-")
                if int(first, 16) <= address < int(end, 16):
                    return permissions.endswith("s")
    except OSError:
        pass
    return True


_JUDGE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(_judge)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# Printing: the host formats the values as printf does, and writes to `sys.stdout`, at the latest when the launch ends. The text
# of a call is not interrupted, and the calls of a thread stay in order.


_TAKE = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p)
_KEPT = 1000
"""The number of calls that are buffered, so that the output of a long launch appears early."""


class Output:
    """The output of one launch. `prints` has the formats of the kernel's `print` calls, by the numbers of their places."""

    def __init__(self, prints: Mapping[int, Print]) -> None:
        self._texts: list[str] = []
        self._lock = threading.Lock()
        self._formats = {place: _formatter(printed) for place, printed in prints.items()}
        self._function = _TAKE(self._take)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value
        """The function that the kernel calls."""

    def _take(self, place: int, values: int | None) -> None:
        text = self._formats[place](values or 0)
        with self._lock:
            self._texts.append(text)
            many = len(self._texts) >= _KEPT
        if many:
            self.write()

    def write(self) -> None:
        """Writes the buffered text."""
        with self._lock:
            texts, self._texts = self._texts, []
            if texts and sys.stdout is not None:
                sys.stdout.write("".join(texts))


def _formatter(printed: Print) -> Callable[[int], str]:
    """The function that formats the values at an address."""
    kinds = [value if isinstance(value, str) else "?7x" for value in printed.values]
    record = struct.Struct("<" + "".join(kinds))

    def formatted(address: int) -> str:
        values: tuple[Any, ...] = record.unpack(ctypes.string_at(address, record.size)) if printed.values else ()
        return printed.format % tuple(map(_chosen, values, printed.values))

    return formatted


def _chosen(value: Any, kind: str | tuple[str, ...]) -> Any:
    """A number, or the text that it selects: true selects the first."""
    return value if isinstance(kind, str) else kind[not value]
