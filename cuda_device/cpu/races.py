"""The race detector: finds two accesses to one location that nothing orders, and reports them.

    device.launch(kernel, x, grid=1, block=64, stream=device.cpu_stream(races=True))

    race on x[3]: two threads access it, one writes, and nothing orders them
      thread (3, 0, 0) of block (0, 0, 0) writes at kernel.py:5
      thread (2, 0, 0) of block (0, 0, 0) reads at kernel.py:6
      help: put syncthreads() between the two

Accesses are ordered as in the memory model: by the sequence within a thread, by `syncthreads` and its variants, by `syncwarp`,
and by an acquire that reads the value of a release, if the scope of each includes the other thread. Shuffles and votes order
nothing. Two atomic operations race only if the scope of one does not include the other's thread. A race is therefore found
even if the two accesses did not happen at the same time in this run.

If only block-wide barriers order the threads of a kernel, its machine code checks each access itself
(`cpu.shadow_memory`) and records only the races. The threads of other kernels record every event, and `cpu.clocks`
determines how the events are ordered.

An asynchronous copy is done at once here, but its accesses are its own, and race with those of all threads that do not wait for
it, also with those of the thread that began it. A copy through the asynchronous proxy that reads what a thread has stored to
shared memory is also reported if that thread has called no proxy fence in between.
"""

from __future__ import annotations

import ctypes
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cuda_device import KernelError
from cuda_device.cpu import shadow_memory, traces
from cuda_device.cpu.clocks import BLOCK, NOTHING, Clocks, Stamp, Thread, VectorClock, joined, knows
from cuda_device.cpu.records import EVENT, LOG
from cuda_device.cpu.traces import Event, TracePoint
from cuda_device.errors import Index
from cuda_device.extend import Argument, dataclass, field, parameters_of
from cuda_device.ir.ops import Order, Scope
from cuda_device.types.model import Array, Pointer, Ref, Struct, Tuple, Type

if TYPE_CHECKING:
    from cuda_device.cpu.cpu_executor import Execution
    from cuda_device.extend import Work

# Races in a launch on the CPU stream

CAPACITY = 1 << 14
"""The number of events that the log has room for."""
_MOST = 8
"""The maximum number of races, at different places in the program, that a message describes."""
_WIDEST = 16
_ANYWHERE = -1
_IN_SHARED_MEMORY = " of shared memory"

_ACQUIRES = (Order.ACQUIRE, Order.CONSUME, Order.ACQ_REL, Order.SEQ_CST)
_RELEASES = (Order.RELEASE, Order.ACQ_REL, Order.SEQ_CST)


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A thread's access of a location: when, and where in the program."""

    stamp: Stamp
    point: TracePoint
    writes: bool
    same: bool = False
    """Whether it stores a number that was in memory already."""
    fences: int = 0
    """The number of proxy fences that its thread had called."""

    @property
    def atomic(self) -> bool:
        """Whether it is an atomic operation."""
        return self.point.event not in (Event.LOAD, Event.STORE, Event.COPY_READ)

    @property
    def through_proxy(self) -> bool:
        """Whether a copy makes it through the asynchronous proxy."""
        return self.stamp.copy is not None and self.stamp.copy.start.proxy

    @property
    def kind(self) -> str:
        """The kind of the copy that makes it, or nothing."""
        return "" if self.stamp.copy is None else self.stamp.copy.start.kind

    @property
    def what(self) -> str:
        """What a message calls the copy."""
        return "product" if self.kind == "wgmma" else "copy"

    @property
    def statement(self) -> TracePoint:
        """The place in the program of the statement that makes it, or begins the copy that does."""
        return self.point if self.stamp.copy is None else self.stamp.copy.start


@dataclass(slots=True, eq=False)
class ShadowCell:
    """The last plain write to a location and, since then, each thread's last read and last atomic operation of each kind.

    `count` locations share the cell: those of ranges, such as asynchronous copies access, have the same history.
    """

    write: MemoryAccess | None = None
    reads: dict[int, MemoryAccess] = field(default_factory=dict)
    atomics: dict[tuple[int, bool, Scope], MemoryAccess] = field(default_factory=dict)
    scopes: frozenset[Scope] = frozenset()
    """The scopes of the atomic operations."""
    blocks: frozenset[int] = frozenset()
    """The blocks of their threads."""
    released: dict[int, VectorClock] = field(default_factory=dict)
    """The views that an acquiring load of this location joins, for each of `_reached`."""
    count: int = 1

    def taken(self, count: int) -> ShadowCell:
        """The cell of so many of its locations alone."""
        if count == self.count:
            return self
        self.count -= count
        reads, atomics, released = dict(self.reads), dict(self.atomics), dict(self.released)
        return ShadowCell(self.write, reads, atomics, self.scopes, self.blocks, released, count)


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses of one location."""

    where: str
    first: MemoryAccess
    second: MemoryAccess
    unfenced: bool = False
    """Whether they are ordered, but not for the asynchronous proxy, through which a copy reads what was stored."""

    @property
    def array(self) -> str:
        """The name of the array; shared memory counts as one."""
        return "" if self.is_in_shared_memory else self.where.rpartition("[")[0]

    @property
    def is_in_shared_memory(self) -> bool:
        """Whether the location is in shared memory."""
        return self.where.endswith(_IN_SHARED_MEMORY)

    @property
    def is_of_writes(self) -> bool:
        """Whether both are writes that are not atomic."""
        return all(access.writes and not access.atomic for access in (self.first, self.second))

    @property
    def is_of_equal_stores(self) -> bool:
        """Whether both store the same number."""
        return self.is_of_writes and self.second.same


@dataclass(frozen=True, slots=True)
class Region:
    """The memory of an argument. The strides are in bytes."""

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    def element(self, address: int) -> str | None:
        """The name of the element at an address; None for an address elsewhere."""
        axes = range(len(self.shape))
        lowest = self.address + sum(min(self.strides[axis], 0) * (self.shape[axis] - 1) for axis in axes)
        rest, indices = address - lowest, [0] * len(self.shape)
        for axis in sorted(axes, key=lambda axis: -abs(self.strides[axis])):
            stride, last = self.strides[axis], self.shape[axis] - 1
            if stride and last > 0:
                step = min(max(rest // abs(stride), 0), last)
                indices[axis] = step if stride > 0 else last - step
                rest -= step * abs(stride)
        if not 0 <= rest < self.itemsize:
            return None
        return f"{self.name}[{', '.join(map(str, indices)) if indices else '()'}]"


@dataclass(frozen=True, slots=True)
class Overrun:
    """An access to the shared memory of a block that may not have begun, or may have ended."""

    where: str
    block: int
    access: MemoryAccess
    early: bool

    @property
    def is_remote(self) -> bool:
        """Whether another block makes it."""
        return self.access.stamp.block != self.block


class RaceDetector:
    """Finds the races of one launch. `address` is the address of the log of its threads."""

    def __init__(self, points: Mapping[int, TracePoint], block: Index, grid: Index, regions: Sequence[Region]) -> None:
        self.points, self.block, self.grid, self.regions = points, block, grid, regions
        self.clocks = Clocks()
        self.races: dict[tuple[TracePoint, TracePoint], Race] = {}
        self.overruns: dict[TracePoint, Overrun] = {}
        self._begun: set[tuple[int, int]] = set()
        """Threads, and other blocks that have begun before what they do now."""
        self._last: dict[tuple[int, int, bool], tuple[int, MemoryAccess]] = {}
        """The last read and write of a thread or copy in the shared memory of a block, which has not ended before."""
        self._cells: dict[int, ShadowCell] = {}
        self._units = units(points.values(), regions)
        self._events = np.zeros(CAPACITY, EVENT.dtype)
        self._failure: BaseException | None = None
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: self._full())
        self.log = np.zeros(1, LOG.dtype)
        log = self.log[0]
        log["capacity"], log["events"] = CAPACITY, self._events.ctypes.data
        log["full"] = ctypes.cast(self._callback, ctypes.c_void_p).value
        self.shadow = ShadowPages(log, points, self._units) if traces.ordered_by_barriers(points.values()) else None
        """None if the threads record all events."""
        self.address = self.log.ctypes.data

    def finish(self) -> None:
        """Processes the rest of the log, and raises a `KernelError` if there are races."""
        self._full()
        failure = self._failure or (self.shadow and self.shadow.failure)
        if failure:
            raise failure
        self._check_ends()
        if self.races or self.overruns:
            raise self._error()

    def explain(self, error: KernelError) -> None:
        """Adds the races before an error, which may be its cause, to the message."""
        self._full()
        if self.races:
            error.args = (f"{error}\nbefore it, a {self._error()}",)

    def _full(self) -> None:
        # Nothing can be raised through machine code.
        log = self.log[0]
        count, log["count"] = int(log["count"]), 0
        if self._failure is None:
            try:
                events = self._events[:count].tolist()
                if self.shadow is None:
                    self._follow(events)
                else:
                    self._take_races(events)
            except BaseException as failure:
                self._failure = failure

    def _follow(self, events: list[tuple[int, ...]]) -> None:
        clocks, points = self.clocks, self.points
        for block, linear, place, value, done in events:
            thread, point = clocks.thread(block, linear), points[place]
            actor = thread.copy or thread
            match point.event:
                case Event.LOAD | Event.STORE:
                    same = point.compares and bool(done)
                    self._access(actor, point, value, point.bytes, point.event is Event.STORE, same)
                case Event.ARRIVE:
                    clocks.arrive(thread)
                case Event.LEAVE:
                    clocks.leave(thread)
                case Event.WARP_ARRIVE:
                    clocks.arrive(thread, value)
                case Event.WARP_LEAVE:
                    clocks.leave(thread, value)
                case Event.FENCE:
                    self._fence(actor, point)
                case Event.COPY_READ:
                    self._access(actor, point, value, done)
                case _ if point.of_copies:
                    clocks.follow_copies(thread, point, value)
                case _:
                    self._atomic(actor, point, value, point.event is not Event.ATOMIC_LOAD and bool(done))

    def _take_races(self, events: list[tuple[int, ...]]) -> None:
        """Keeps the races that the machine code found. Each consists of two events."""
        for first, second in zip(events[::2], events[1::2], strict=True):
            self._keep(second[3], self._access_of(first), self._access_of(second))

    def _access_of(self, event: tuple[int, ...]) -> MemoryAccess:
        block, linear, place, _, done = event
        point, stamp = self.points[place], Stamp(block * BLOCK + linear, 0, 0)
        return MemoryAccess(stamp, point, bool(done), point.compares and bool(done & shadow_memory.SAME))

    def _keep(self, start: int, first: MemoryAccess, second: MemoryAccess, unfenced: bool = False) -> None:
        key = first.statement, second.statement
        known = self.races.get(key) or self.races.get(key[::-1])
        if known is None:
            self.races[key] = Race(self._name(start), first, second, unfenced)
        elif known.is_of_equal_stores and not second.same:  # of all such races, one whose numbers differ is reported
            self.races[known.first.statement, known.second.statement] = Race(self._name(start), first, second)

    # Accesses

    def _access(
        self, thread: Thread, point: TracePoint, address: int, nbytes: int, writes: bool = False, same: bool = False
    ) -> None:
        access = MemoryAccess(thread.stamp, point, writes, same, len(thread.fences))
        locations = self._locations(thread, point, address, nbytes)
        self._check_begin(locations.start, access, thread.view)
        for start, cell in self._cells_of(locations):
            self._check(start, cell, access, thread.view)
            if not writes:
                cell.reads[access.stamp.actor] = access
                if start < 0 and access.through_proxy:
                    self._check_proxy(start, cell, access, thread.view)
        if writes:
            self._cells.update(dict.fromkeys(locations, ShadowCell(access, count=len(locations))))

    def _atomic(self, thread: Thread, point: TracePoint, address: int, writes: bool) -> None:
        access = MemoryAccess(thread.stamp, point, writes, False, len(thread.fences))
        locations = self._locations(thread, point, address, point.bytes)
        self._check_begin(locations.start, access, thread.view)
        cells = [cell for location in locations for cell in self._cells_of((location,))]
        # The first cell keeps what the atomic operation publishes.
        first = cells[0][1]
        if point.event is not Event.ATOMIC_STORE:
            self._acquire(thread, point, first)
        for start, cell in cells:
            self._check(start, cell, access, thread.view)
            cell.atomics[thread.number, writes, point.scope] = access
            cell.scopes |= {point.scope}
            cell.blocks |= {access.stamp.block}
        if writes:
            self._release(thread, point, first)

    def _check(self, start: int, cell: ShadowCell, access: MemoryAccess, view: VectorClock) -> None:
        others = [] if cell.write is None else [cell.write]
        others += cell.reads.values() if access.writes else ()
        if access.atomic:
            scopes = cell.scopes | {access.point.scope}
            if Scope.THREAD in scopes or (Scope.BLOCK in scopes and cell.blocks != {access.stamp.block}):
                others += (a for a in cell.atomics.values() if (a.writes or access.writes) and not _reach(a, access))
        else:
            others += (a for a in cell.atomics.values() if a.writes or access.writes)
        for other in others:
            if other.stamp.actor != access.stamp.actor and not knows(view, other.stamp, other.writes):
                self._keep(start, other, access)
                return

    def _check_proxy(self, start: int, cell: ShadowCell, access: MemoryAccess, view: VectorClock) -> None:
        """Reports a store that a copy reads through the asynchronous proxy, unless its thread has called a proxy fence since."""
        stores = [cell.write] if cell.write is not None else []
        for store in (*stores, *(atomic for atomic in cell.atomics.values() if atomic.writes)):
            ordered = knows(view, store.stamp)
            if ordered and not store.through_proxy and not self._is_fenced(store, view):
                self._keep(start, store, access, unfenced=True)
                return

    def _is_fenced(self, store: MemoryAccess, view: VectorClock) -> bool:
        """Whether the view includes a proxy fence that the thread of a store has called after it."""
        for stamp, before in self.clocks.threads[store.stamp.thread].fences[store.fences :]:
            if not knows(view, stamp):
                return False
            if store.stamp.copy is None or knows(before, store.stamp):
                return True
        return False

    # Shared memory exists from the beginning of its block to the end

    def _check_begin(self, start: int, access: MemoryAccess, view: VectorClock) -> None:
        """Follows an access to shared memory by another block or a copy."""
        if start >= 0 or (access.point.shared and access.stamp.copy is None):
            return
        block, stamp = -(start // shadow_memory.BELOW) - 1, access.stamp
        if block != stamp.block and (stamp.thread, block) not in self._begun:
            if block in view.blocks or any(number // BLOCK == block for number in view.threads):
                self._begun.add((stamp.thread, block))
            else:
                self.overruns.setdefault(access.statement, Overrun(self._name(start), block, access, early=True))
        self._last[stamp.actor, block, access.writes] = start, access

    def _check_ends(self) -> None:
        """Reports what may happen after the end of a block: the accesses that none of its threads has waited for."""
        views: defaultdict[int, list[VectorClock]] = defaultdict(list)
        for thread in self.clocks.threads.values():
            views[thread.stamp.block].append(thread.view)
        known = {block: joined(of_block) for block, of_block in views.items()}
        reported = {access.statement for race in self.races.values() for access in (race.first, race.second)}
        for (_, block, writes), (start, access) in self._last.items():
            if access.statement not in reported and not knows(known.get(block, NOTHING), access.stamp, writes):
                self.overruns.setdefault(access.statement, Overrun(self._name(start), block, access, early=False))

    # Order

    def _acquire(self, thread: Thread, point: TracePoint, cell: ShadowCell) -> None:
        for number in _reached(thread, point):
            view = cell.released.get(number, NOTHING)
            if point.memory in _ACQUIRES:
                thread.view = joined((thread.view, view))
            else:
                thread.seen[number] = joined((thread.seen.get(number, view), view))

    def _release(self, thread: Thread, point: TracePoint, cell: ShadowCell) -> None:
        if point.event is Event.ATOMIC_STORE:
            # A store heads a new release sequence; a read-modify-write carries on the old one.
            cell.released = {}
        now = self.clocks.publish(thread) if point.memory in _RELEASES else None
        for number in _reached(thread, point):
            view = now or thread.fenced.get(number, NOTHING)
            cell.released[number] = joined((cell.released.get(number, view), view))

    def _fence(self, thread: Thread, point: TracePoint) -> None:
        reached = _reached(thread, point)
        if point.memory in _ACQUIRES:
            thread.view = joined((thread.view, *(thread.seen.get(number, NOTHING) for number in reached)))
        if point.memory in _RELEASES:
            thread.fenced |= dict.fromkeys(reached, self.clocks.publish(thread))

    # Locations

    def _locations(self, thread: Thread, point: TracePoint, address: int, nbytes: int) -> range:
        """The locations of an access. Shared memory, of which each block has its own, lies below 0."""
        start = address - (thread.stamp.block + 1) * shadow_memory.BELOW if point.shared else address
        return range(start, start + nbytes, self._units[start < 0])

    def _cells_of(self, locations: Sequence[int]) -> list[tuple[int, ShadowCell]]:
        """The cells that these locations, and no others, have; each with its first location."""
        by_cell: dict[ShadowCell | None, list[int]] = {}
        for location in locations:
            by_cell.setdefault(self._cells.get(location), []).append(location)
        cells = []
        for cell, its in by_cell.items():
            own = ShadowCell(count=len(its)) if cell is None else cell.taken(len(its))
            if own is not cell:
                self._cells.update(dict.fromkeys(its, own))
            cells.append((its[0], own))
        return cells

    def _name(self, start: int) -> str:
        if start < 0:
            return f"byte {start % shadow_memory.BELOW}{_IN_SHARED_MEMORY}"
        named = (region.element(start) for region in self.regions)
        return next((name for name in named if name), f"address {start:#x}")

    # The message

    def _error(self) -> KernelError:
        races, overruns = list(self.races.values()), list(self.overruns.values())
        texts = [*map(self._text, races[:_MOST]), *map(self._text_of_overrun, overruns[:_MOST])]
        more = max(len(races) - _MOST, 0) + max(len(overruns) - _MOST, 0)
        if more:
            texts.append(f"and races at {more} more places")
        last = races[0].second if races else overruns[0].access
        block, thread = self._indices(last.stamp)
        return KernelError("\n".join(texts), block, thread, last.statement.location)

    def _text_of_overrun(self, overrun: Overrun) -> str:
        access, block = overrun.access, _position(overrun.block, self.grid)
        when = "may not have begun yet" if overrun.early else "may have ended by then"
        lines = [f"race on {overrun.where} of block {block}, which {when}"]
        lines += [self._line(access), access.statement.location.excerpt(), f"  help: {overrun_remedy(overrun)}"]
        return "\n".join(line for line in lines if line)

    def _text(self, race: Race) -> str:
        what = _UNFENCED % race.second.what if race.unfenced else "nothing orders these two accesses"
        lines = [f"race on {race.where}: {what}"]
        for access in (race.first, race.second):
            lines += [self._line(access), access.statement.location.excerpt()]
        remedy = copy_remedy(race) or self._atomic_remedy(race) or _remedy(race, self.points.values())
        lines.append(f"  help: {remedy}")
        return "\n".join(line for line in lines if line)

    def _line(self, access: MemoryAccess) -> str:
        """Who accesses the memory, and where."""
        block, thread = self._indices(access.stamp)
        location, what = access.statement.location, access.what
        if access.stamp.copy is None:
            return f"  thread {thread} of block {block} {_verb(access)} at {location}"
        return f"  the {what} that thread {thread} of block {block} started at {location} {_verb(access)}"

    def _atomic_remedy(self, race: Race) -> str:
        """The remedy if threads write one element by one statement, such as `c[0] += 1`, which no barrier can order."""
        if race.first.atomic or race.second.atomic:
            return ""
        here = [other for other in self.races.values() if other.array == race.array]
        same = [other for other in here if other.is_of_writes and _line(other.first) == _line(other.second)]
        if not {_line(race.first), _line(race.second)} <= {_line(other.first) for other in same}:
            return ""
        name, _, index = race.where.removesuffix("]").rpartition("[")
        element = (
            f"atomic_ref({name}, {f'({index})' if ', ' in index else index})" if name else "atomic_ref(array, index)"
        )
        line = _line(race.first)
        reads = any(
            _line(access) == line and not access.writes for other in here for access in (other.first, other.second)
        )
        if not reads and all(other.is_of_equal_stores for other in same if _line(other.first) == line):
            return f"many threads store the same value here: write {element}.store(…), or let one of them do it"
        return f"many threads write this element: write {element}.add(…) or another atomic, or let one of them do it"

    def _indices(self, stamp: Stamp) -> tuple[Index, Index]:
        return _position(stamp.block, self.grid), _position(stamp.thread % BLOCK, self.block)


_KINDS = {
    Event.LOAD: shadow_memory.READ,
    Event.STORE: shadow_memory.WRITE,
    Event.ATOMIC_LOAD: shadow_memory.ATOMIC_READ,
    Event.ATOMIC_STORE: shadow_memory.ATOMIC,
    Event.ATOMIC_UPDATE: shadow_memory.ATOMIC,
}


class ShadowPages:
    """The shadow memory of one launch, which `shadow_memory` uses. Pages are allocated at the first access."""

    def __init__(self, log: Any, points: Mapping[int, TracePoint], units: tuple[int, int]) -> None:
        self.log = log
        self.failure: BaseException | None = None
        unit, shared_unit = units
        kinds = np.zeros(max(points, default=0) + 1, np.int64)
        for place, point in points.items():
            kind = shadow_memory.CAS if point.may_fail else _KINDS[point.event]
            kinds[place] = shadow_memory.kind_of(kind, point.bytes, shared=point.shared)
        self._bytes = shadow_memory.PAGE // unit * shadow_memory.CELL_BYTES
        # If there is no memory for another page, the launch continues with this one, and fails at its end.
        self._kept: list[Any] = [kinds, np.zeros(self._bytes, np.uint8)]
        self._shadows: dict[int, int] = {}
        self._table = np.zeros(2 * shadow_memory.ENTRIES, np.int64)
        self._fetch = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: self._enter(int(log["missing"])))
        log["kinds"], log["shift"], log["pages"] = kinds.ctypes.data, unit.bit_length() - 1, self._table.ctypes.data
        log["shared_shift"] = shared_unit.bit_length() - 1
        log["fetch"] = ctypes.cast(self._fetch, ctypes.c_void_p).value

    def _enter(self, page: int) -> None:
        """Makes the entry for a page, in the place of another page's if they share it."""
        try:
            if page not in self._shadows:
                self._kept.append(np.zeros(self._bytes, np.uint8))
                self._shadows[page] = self._kept[-1].ctypes.data
        except BaseException as failure:
            self.failure = self.failure or failure
            self._shadows[page] = self._kept[1].ctypes.data
        entry = shadow_memory.entry_of(page)
        self._table[entry : entry + 2] = page, self._shadows[page]


def units(points: Iterable[TracePoint], regions: Iterable[Region]) -> tuple[int, int]:
    """The number of bytes of a location in shared memory (the second number) and elsewhere: a power of two, at most 16.

    Each access is to whole locations. Generic pointers may point to both memories.
    """
    far, near = _WIDEST, _WIDEST
    for region in regions:
        far = math.gcd(far, region.address, *region.strides)
    for point in points:
        if point.shared or point.generic:
            near = math.gcd(near, point.bytes, point.align)
        if not point.shared:
            far = math.gcd(far, point.bytes, point.align)
    return far, near


def _reached(thread: Thread, point: TracePoint) -> tuple[int, ...]:
    """What the scope of an operation includes: the number of the thread's block, and `_ANYWHERE` for all blocks."""
    if point.scope is Scope.THREAD:
        return ()
    return (thread.stamp.block,) if point.scope is Scope.BLOCK else (thread.stamp.block, _ANYWHERE)


def _reach(a: MemoryAccess, b: MemoryAccess) -> bool:
    """Whether the scope of each of two atomic operations includes the thread of the other."""
    if Scope.THREAD in (a.point.scope, b.point.scope):
        return False
    return a.stamp.block == b.stamp.block or Scope.BLOCK not in (a.point.scope, b.point.scope)


def _verb(access: MemoryAccess) -> str:
    how = "atomically " if access.atomic else ""
    return how + ("writes" if access.writes else "reads")


def _line(access: MemoryAccess) -> tuple[str, int]:
    return access.statement.location.file, access.statement.location.line


_UNFENCED = "without fence_proxy_async by the thread that stores, the %s may read what was there before the store"
_WAITS = {
    "cp_async": "cp_async_commit() and cp_async_wait()",
    "bulk": "bulk_commit() and bulk_wait()",
    "wgmma": "wgmma_wait(…)",
}
"""How the thread that has started copies waits for them, by their kinds."""
_STARTS = {"wgmma": "warpgroup"}
_BARRIER_WAIT = "wait(parity) of the barrier whose bytes it completes"
"""How threads wait for copies of other kinds."""


def copy_remedy(race: Race) -> str:
    """The remedy if one of the accesses is that of an asynchronous copy; otherwise nothing."""
    if race.unfenced:
        wait = f", when it has waited: {_wait_for(race.first, True)}" if race.first.stamp.copy is not None else ""
        return (
            f"call fence_proxy_async() after the store, in each thread that stores{wait}, "
            f"and then the barrier before the {race.second.what} starts"
        )
    copies = [access for access in (race.first, race.second) if access.stamp.copy is not None]
    if not copies:
        return ""
    access, wait = copies[0], _wait_for(copies[0], race.is_in_shared_memory)
    if len(copies) > 1:
        other = copies[1]
        if access.what == other.what:
            return f"wait for the first {access.what} before the second {other.what} starts: {wait}"
        return (
            f"wait for the {access.what} before the {other.what} starts: {wait}; "
            f"or for the {other.what} before the {access.what} starts: {_wait_for(other, race.is_in_shared_memory)}"
        )
    if race.first.stamp.thread == race.second.stamp.thread:
        return f"wait for the {access.what} before the access: {wait}"
    who = (
        "" if wait == _BARRIER_WAIT else f" in the {_STARTS.get(access.kind, 'thread')} that starts it, then a barrier"
    )
    first = f"if the access is to come first, put a barrier before the {access.what}"
    return f"wait for the {access.what} before the access: {wait}{who}; {first}"


def overrun_remedy(overrun: Overrun) -> str:
    """The remedy if the block to whose shared memory an access is may not have begun, or may have ended."""
    if overrun.early:
        return "call cluster_sync() before the first access to the shared memory of another block"
    if overrun.is_remote:
        return "call cluster_sync() after the last access to the shared memory of another block"
    access = overrun.access
    return f"wait for the {access.what} before the block ends: {_wait_for(access, in_shared_memory=True)}"


def _wait_for(copy: MemoryAccess, in_shared_memory: bool) -> str:
    """How a program waits for a copy, one of whose accesses is a race or too late."""
    if copy.kind == "bulk" and in_shared_memory:
        return _BARRIER_WAIT if copy.writes else "bulk_commit() and bulk_wait(read=True)"
    return _WAITS.get(copy.kind, _BARRIER_WAIT)


def _remedy(race: Race, points: Iterable[TracePoint]) -> str:
    a, b = race.first, race.second
    if a.atomic and b.atomic:
        return "scope='block' or 'thread' does not reach the other thread: write scope='device'"
    if a.atomic or b.atomic:
        return "make both accesses atomic (atomic_ref), or put a barrier between them"
    if a.stamp.warp == b.stamp.warp:
        return (
            "put syncthreads() between the two, or syncwarp(0xFFFFFFFF) if only threads of one warp access the memory"
        )
    if a.stamp.block == b.stamp.block:
        return "put syncthreads() between the two"
    if race.is_in_shared_memory:
        return "put cluster_sync() between the two, or the wait for an MBarrier of the cluster"
    if any(point.event.startswith("atomic") and point.memory is Order.RELAXED for point in points):
        return (
            "a relaxed atomic orders nothing by itself: call threadfence() before the one that announces the write and after the "
            "one that sees it, or give them the orders release and acquire"
        )
    return "blocks are not ordered: use atomics with release and acquire, or two launches"


def _position(number: int, size: Index) -> Index:
    return number % size[0], number // size[0] % size[1], number // (size[0] * size[1])


def watched(work: Work, execution: Execution) -> Callable[..., None]:
    """A function that launches a kernel like `execution`, and raises a `KernelError` if there are races."""
    points, names = traces.points(work["inlined"]), parameters_of(work.job.function).names

    def launch(parameters: Any, arguments: Sequence[Argument], stopped: Callable[[], bool] | None = None) -> None:
        # An array is named by its own parameter rather than by that of a map of it.
        named = sorted(zip(names, arguments, strict=True), key=lambda pair: isinstance(pair[1].known.type, Ref))
        memory = [
            region for name, argument in named for region in regions(name, argument.known.type, iter(argument.views))
        ]
        detector = RaceDetector(points, execution.shape.block, execution.shape.grid, memory)
        try:
            execution(parameters, arguments, stopped, detector.address)
        except KernelError as error:
            detector.explain(error)
            raise
        detector.finish()

    return launch


def regions(name: str, type: Type, views: Iterator[Any]) -> Iterator[Region]:
    """The memory of the arrays in a kernel's argument, by their names in the program: `g.rows`, `pair[1]`."""
    match type:
        case Tuple(elements):
            for i, element in enumerate(elements):
                yield from regions(f"{name}[{i}]", element, views)
        case Struct(fields=fields):
            for field in fields:
                yield from regions(f"{name}.{field.name}", field.type, views)
        case Array() | Pointer() | Ref():  # a reference to a description of an array
            view = next(views)
            yield Region(name, view.data, tuple(view.shape), tuple(view.strides), view.itemsize)
