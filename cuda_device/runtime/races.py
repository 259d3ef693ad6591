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
(`codegen.cpu.shadow_memory`) and records only the races. The threads of other kernels record every event, and this module
determines how the events are ordered.
"""

from __future__ import annotations

import ctypes
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cuda_device.codegen.cpu import shadow_memory
from cuda_device.codegen.cpu.records import EVENT, LOG, READ, WRITE
from cuda_device.errors import Index, KernelError
from cuda_device.instrument.traces import Event, TracePoint
from cuda_device.ir.ops import Order, Scope
from cuda_device.lazy_dataclasses import dataclass, field

# What happened before what, as each thread of a launch knows it: clocks for barriers, warps and single threads.
#
#     knowledge.knows(view, stamp)      whether what a thread did at `stamp` happened before what the view's owner does now
#
# A clock for each pair of threads would be as large as the square of a block at each barrier. So a `VectorClock` counts in three
# units: up to which barrier it knows a whole block, up to which `syncwarp` a whole warp, and up to which tick a single
# thread. A barrier makes one view for all threads of its block.


WARP = 32
BLOCK = 1024


@dataclass(frozen=True, slots=True)
class VectorClock:
    """How far its owner knows blocks, warps and threads: all that they did before these counts."""

    blocks: Mapping[int, int] = field(default_factory=dict)
    warps: Mapping[int, int] = field(default_factory=dict)
    threads: Mapping[int, int] = field(default_factory=dict)


NOTHING = VectorClock()


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a thread did something: after how many barriers of its block, syncs of its warp, ticks of its own."""

    thread: int
    barriers: int
    syncs: int
    ticks: int

    @property
    def block(self) -> int:
        """The number of the thread's block in the grid."""
        return self.thread // BLOCK

    @property
    def warp(self) -> int:
        """The number of the thread's warp in the grid."""
        return self.thread // WARP


def knows(view: VectorClock, stamp: Stamp) -> bool:
    """Whether the view's owner knows what was done at `stamp`."""
    thread = stamp.thread
    return (
        view.blocks.get(thread // BLOCK, 0) > stamp.barriers
        or view.warps.get(thread // WARP, 0) > stamp.syncs
        or view.threads.get(thread, 0) > stamp.ticks
    )


def joined(views: Iterable[VectorClock]) -> VectorClock:
    """What all of these together know."""
    distinct = list({id(view): view for view in views if view is not NOTHING}.values())
    if len(distinct) < 2:
        return distinct[0] if distinct else NOTHING
    return VectorClock(
        _most([view.blocks for view in distinct]),
        _most([view.warps for view in distinct]),
        _most([view.threads for view in distinct]),
    )


def _most(counts: list[Mapping[int, int]]) -> Mapping[int, int]:
    some = [each for each in counts if each]
    if len(some) < 2:
        return some[0] if some else {}
    merged = dict(some[0])
    for each in some[1:]:
        for key, value in each.items():
            if merged.get(key, 0) < value:
                merged[key] = value
    return merged


@dataclass(slots=True)
class Thread:
    """One thread: what it knows, when it is, what its fences hold ready."""

    number: int
    view: VectorClock = NOTHING
    stamp: Stamp = Stamp(0, 0, 0, 0)
    fenced: dict[bool, VectorClock] = field(default_factory=dict)
    """What its last releasing fence saw, which later relaxed stores publish: to other blocks (True), to its own (False)."""
    seen: dict[bool, VectorClock] = field(default_factory=dict)
    """What its relaxed loads found published, which an acquiring fence takes: by other blocks (True), by its own (False)."""
    woken: bool = False
    """Whether the wait that it leaves next has been counted."""


class Clocks:
    """The threads of a launch, and what orders them."""

    def __init__(self, block_threads: int) -> None:
        self.size = block_threads
        self.threads: dict[int, Thread] = {}
        self._barriers: dict[int, int] = {}
        self._syncs: dict[int, int] = {}
        self._at_barrier: dict[int, list[Thread]] = {}
        self._at_sync: dict[tuple[int, int], list[Thread]] = {}

    def thread(self, block: int, linear: int) -> Thread:
        """The thread, made when it first does something."""
        number = block * BLOCK + linear
        found = self.threads.get(number)
        if found is None:
            found = self.threads[number] = Thread(number, stamp=Stamp(number, 0, 0, 0))
            self._restamp(found, 0)
        return found

    def _restamp(self, thread: Thread, ticks: int) -> None:
        number = thread.number
        block, warp = number // BLOCK, number // WARP
        thread.stamp = Stamp(number, self._barriers.get(block, 0), self._syncs.get(warp, 0), ticks)

    def publish(self, thread: Thread) -> VectorClock:
        """What another thread knows that acquires from this one now. What it does later is not in it."""
        ticks = thread.stamp.ticks + 1
        view = VectorClock(thread.view.blocks, thread.view.warps, {**thread.view.threads, thread.number: ticks})
        self._restamp(thread, ticks)
        return view

    def arrive(self, thread: Thread) -> None:
        """The thread waits for its block."""
        self._at_barrier.setdefault(thread.stamp.block, []).append(thread)

    def leave(self, thread: Thread) -> None:
        """The thread goes on behind a barrier; the first one that does shows that all have come."""
        if thread.woken:
            thread.woken = False
            return
        block = thread.stamp.block
        come = self._at_barrier.pop(block)
        count = self._barriers[block] = self._barriers.get(block, 0) + 1
        known = joined(each.view for each in come)
        view = VectorClock(
            {**known.blocks, block: count},
            {warp: n for warp, n in known.warps.items() if warp * WARP // BLOCK != block},
            {number: n for number, n in known.threads.items() if number // BLOCK != block},
        )
        self._wake(come, view, thread)

    def arrive_warp(self, thread: Thread, mask: int) -> None:
        """The thread waits for the lanes of `mask`."""
        self._at_sync.setdefault((thread.stamp.warp, mask), []).append(thread)

    def leave_warp(self, thread: Thread, mask: int) -> None:
        """The thread goes on behind `syncwarp`."""
        if thread.woken:
            thread.woken = False
            return
        warp = thread.stamp.warp
        come = self._at_sync.pop((warp, mask))
        known = joined(each.view for each in come)
        lanes = min(WARP, self.size - warp * WARP % BLOCK)
        if len(come) == lanes:
            count = self._syncs[warp] = self._syncs.get(warp, 0) + 1
            view = VectorClock(known.blocks, {**known.warps, warp: count}, known.threads)
        else:
            ticks = {each.number: each.stamp.ticks + 1 for each in come}
            view = VectorClock(known.blocks, known.warps, {**known.threads, **ticks})
        self._wake(come, view, thread, ticking=len(come) != lanes)

    def _wake(self, come: list[Thread], view: VectorClock, first: Thread, *, ticking: bool = False) -> None:
        for each in come:
            each.view = view
            each.woken = each is not first
            self._restamp(each, each.stamp.ticks + ticking)


# Finds races in a launch on the CPU stream: two accesses of one location that nothing orders, one of them a write.


# So many events are handed over at a time.
CAPACITY = 1 << 14
# So many races, at different places in the program, are told of.
_MOST = 8
_WIDEST = 16
_ANYWHERE = -1
# More than the shared memory of any block.
_SHARED_BYTES = 1 << 32

_ACQUIRES = (Order.ACQUIRE, Order.CONSUME, Order.ACQ_REL, Order.SEQ_CST)
_RELEASES = (Order.RELEASE, Order.ACQ_REL, Order.SEQ_CST)


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A thread's access of a location: when, and where in the program."""

    stamp: Stamp
    point: TracePoint
    writes: bool

    @property
    def atomic(self) -> bool:
        """Whether it is an atomic operation."""
        return self.point.event not in (Event.LOAD, Event.STORE)


@dataclass(slots=True)
class ShadowCell:
    """One location: its last plain write, and since then the last read, and atomic operation of a kind, of each thread."""

    write: MemoryAccess | None = None
    reads: dict[int, MemoryAccess] = field(default_factory=dict)
    atomics: dict[tuple[int, bool, Scope], MemoryAccess] = field(default_factory=dict)
    scopes: set[Scope] = field(default_factory=set)
    """The scopes of the atomic operations."""
    blocks: set[int] = field(default_factory=set)
    """The blocks that have made them."""
    released: dict[int, VectorClock] = field(default_factory=dict)
    """What an acquire finds that reads this location: by block, what concerns that block; what all may know at `_ANYWHERE`."""


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses of one location."""

    where: str
    first: MemoryAccess
    second: MemoryAccess

    @property
    def array(self) -> str:
        """The name of the array; shared memory counts as one."""
        return "" if self.second.point.shared else self.where.partition("[")[0]

    @property
    def is_of_writes(self) -> bool:
        """Whether both are writes that are not atomic."""
        return all(access.writes and not access.atomic for access in (self.first, self.second))


@dataclass(frozen=True, slots=True)
class Region:
    """The memory of an argument: `name[i, j]` lies at `address` plus the strides, in bytes."""

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


class RaceDetector:
    """Follows one launch. `address` is that of the log where its threads tell what they do."""

    def __init__(self, points: Mapping[int, TracePoint], block: Index, grid: Index, regions: Sequence[Region]) -> None:
        self.points, self.block, self.grid, self.regions = points, block, grid, regions
        self.clocks = Clocks(block[0] * block[1] * block[2])
        self.races: dict[tuple[TracePoint, TracePoint], Race] = {}
        self._cells: defaultdict[int, ShadowCell] = defaultdict(ShadowCell)
        self._units = units(points.values(), regions)
        self._events = np.zeros(CAPACITY, EVENT.dtype)
        self._failure: BaseException | None = None
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: self._full())
        self.log = np.zeros(1, LOG.dtype)
        log = self.log[0]
        log["capacity"], log["events"] = CAPACITY, self._events.ctypes.data
        log["full"] = ctypes.cast(self._callback, ctypes.c_void_p).value
        self.shadow = ShadowPages(log, points, self._units) if ordered_by_barriers(points.values()) else None
        """Where the machine code checks accesses itself."""
        self.address = self.log.ctypes.data
        """Where the record is that tells the launch's threads of the log."""

    def finish(self) -> None:
        """Looks at what is left in the log; raises the `KernelError` that tells of the races."""
        self._full()
        failure = self._failure or (self.shadow and self.shadow.failure)
        if failure:
            raise failure
        if self.races:
            raise self._error()

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
            match point.event:
                case Event.LOAD | Event.STORE:
                    self._access(thread, point, value, point.event is Event.STORE)
                case Event.ARRIVE:
                    clocks.arrive(thread)
                case Event.LEAVE:
                    clocks.leave(thread)
                case Event.WARP_ARRIVE:
                    clocks.arrive_warp(thread, value)
                case Event.WARP_LEAVE:
                    clocks.leave_warp(thread, value)
                case Event.FENCE:
                    self._fence(thread, point)
                case _:
                    self._atomic(thread, point, value, point.event is not Event.ATOMIC_LOAD and bool(done))

    def _take_races(self, events: list[tuple[int, ...]]) -> None:
        """Keeps what the machine code found: the first and the second access of each race."""
        for first, second in zip(events[::2], events[1::2], strict=True):
            key = self.points[first[2]], self.points[second[2]]
            if key not in self.races and key[::-1] not in self.races:
                start = second[3] - (second[0] + 1) * _SHARED_BYTES if key[1].shared else second[3]
                self.races[key] = Race(self._name(start, key[1]), *map(self._access_of, (first, second)))

    def _access_of(self, event: tuple[int, ...]) -> MemoryAccess:
        block, linear, place, _, writes = event
        return MemoryAccess(Stamp(block * BLOCK + linear, 0, 0, 0), self.points[place], bool(writes))

    # Accesses

    def _access(self, thread: Thread, point: TracePoint, address: int, writes: bool) -> None:
        access = MemoryAccess(thread.stamp, point, writes)
        for start, cell in self._cells_of(thread, point, address):
            self._check(start, cell, access, thread.view)
            if writes:
                self._cells[start] = ShadowCell(access)
            else:
                cell.reads[access.stamp.thread] = access

    def _atomic(self, thread: Thread, point: TracePoint, address: int, writes: bool) -> None:
        access = MemoryAccess(thread.stamp, point, writes)
        cells = list(self._cells_of(thread, point, address))
        # A location that an atomic operation accesses is one cell: what it publishes is kept with its first.
        first = cells[0][1]
        if point.event is not Event.ATOMIC_STORE:
            self._acquire(thread, point, first)
        for start, cell in cells:
            self._check(start, cell, access, thread.view)
            cell.atomics[thread.number, writes, point.scope] = access
            cell.scopes.add(point.scope)
            cell.blocks.add(access.stamp.block)
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
            if other.stamp.thread != access.stamp.thread and not knows(view, other.stamp):
                key = (other.point, access.point)
                if key not in self.races and key[::-1] not in self.races:
                    self.races[key] = Race(self._name(start, access.point), other, access)
                return

    # What orders them

    def _acquire(self, thread: Thread, point: TracePoint, cell: ShadowCell) -> None:
        if point.scope is Scope.THREAD:
            return
        for far, source in ((False, thread.stamp.block), (True, _ANYWHERE)):
            view = cell.released.get(source)
            if view is None or (far and point.scope is Scope.BLOCK):
                continue
            if point.memory in _ACQUIRES:
                thread.view = joined((thread.view, view))
            else:
                thread.seen[far] = joined((thread.seen.get(far, view), view))

    def _release(self, thread: Thread, point: TracePoint, cell: ShadowCell) -> None:
        if point.event is Event.ATOMIC_STORE:
            # A store heads a new release sequence; a read-modify-write carries on the old one.
            cell.released = {}
        if point.scope is Scope.THREAD:
            return
        now = self.clocks.publish(thread) if point.memory in _RELEASES else None
        for far, target in ((False, thread.stamp.block), (True, _ANYWHERE)):
            view = now or thread.fenced.get(far)
            if view is not None and not (far and point.scope is Scope.BLOCK):
                cell.released[target] = joined((cell.released.get(target, view), view))

    def _fence(self, thread: Thread, point: TracePoint) -> None:
        if point.scope is Scope.THREAD:
            return
        reached = (False,) if point.scope is Scope.BLOCK else (False, True)
        if point.memory in _ACQUIRES:
            thread.view = joined((thread.view, *(thread.seen[far] for far in reached if far in thread.seen)))
        if point.memory in _RELEASES:
            thread.fenced |= dict.fromkeys(reached, self.clocks.publish(thread))

    # Locations

    def _cells_of(self, thread: Thread, point: TracePoint, address: int) -> Iterator[tuple[int, ShadowCell]]:
        """The cells of an access. Shared memory, of which each block has its own, lies below 0."""
        start = address - (thread.stamp.block + 1) * _SHARED_BYTES if point.shared else address
        for part in range(start, start + point.bytes, self._units[point.shared]):
            yield part, self._cells[part]

    def _name(self, start: int, point: TracePoint) -> str:
        if point.shared:
            return f"byte {start % _SHARED_BYTES} of shared memory"
        named = (region.element(start) for region in self.regions)
        return next((name for name in named if name), f"address {start:#x}")

    # What is told

    def _error(self) -> KernelError:
        races = list(self.races.values())
        texts = [self._text(race) for race in races[:_MOST]]
        if len(races) > _MOST:
            texts.append(f"and races at {len(races) - _MOST} more places")
        second = races[0].second
        block, thread = self._indices(second.stamp)
        return KernelError("\n".join(texts), block, thread, second.point.location)

    def _text(self, race: Race) -> str:
        lines = [f"race on {race.where}: nothing orders these two accesses"]
        for access in (race.first, race.second):
            block, thread = self._indices(access.stamp)
            lines.append(f"  thread {thread} of block {block} {_verb(access)} at {access.point.location}")
            lines.append(access.point.location.excerpt())
        lines.append(f"  help: {self._atomic_remedy(race) or _remedy(race, self.points.values())}")
        return "\n".join(line for line in lines if line)

    def _atomic_remedy(self, race: Race) -> str:
        """The remedy where threads write one element by the same statement, as `c[0] += 1` does: no barrier orders that."""
        if race.first.atomic or race.second.atomic:
            return ""
        same = [each for each in self.races.values() if each.array == race.array and each.is_of_writes]
        lines = {_line(each.first) for each in same if _line(each.first) == _line(each.second)}
        if not {_line(race.first), _line(race.second)} <= lines:
            return ""
        name, _, index = race.where.removesuffix("]").partition("[")
        element = (
            f"atomic_ref({name}, {f'({index})' if ', ' in index else index})" if index else "atomic_ref(array, index)"
        )
        return f"many threads write this element: write {element}.add(…) or another atomic, or let one of them do it"

    def _indices(self, stamp: Stamp) -> tuple[Index, Index]:
        return _position(stamp.block, self.grid), _position(stamp.thread % BLOCK, self.block)


_KINDS = {
    Event.LOAD: READ,
    Event.STORE: WRITE,
    Event.ATOMIC_LOAD: shadow_memory.ATOMIC_READ,
    Event.ATOMIC_STORE: shadow_memory.ATOMIC,
    Event.ATOMIC_UPDATE: shadow_memory.ATOMIC,
    Event.LEAVE: shadow_memory.NOTHING,
    Event.ARRIVE: shadow_memory.NOTHING,
}
_ATOMIC = (Event.ATOMIC_LOAD, Event.ATOMIC_STORE, Event.ATOMIC_UPDATE)


def ordered_by_barriers(points: Iterable[TracePoint]) -> bool:
    """Whether barriers of blocks are all that orders threads: the atomic operations are relaxed, and reach everyone."""
    return all(
        point.event in _KINDS
        and (
            point.event not in _ATOMIC
            or (
                point.memory is Order.RELAXED
                and (point.scope in (Scope.DEVICE, Scope.SYSTEM) or (point.shared and point.scope is Scope.BLOCK))
            )
        )
        for point in points
    )


class ShadowPages:
    """The shadow memory of one launch, which `shadow_memory` works on. Pages are made when they are first wanted."""

    def __init__(self, log: Any, points: Mapping[int, TracePoint], units: tuple[int, int]) -> None:
        self.log = log
        self.failure: BaseException | None = None
        unit, shared_unit = units
        kinds = np.zeros(max(points, default=0) + 1, np.int64)
        for place, point in points.items():
            kind = shadow_memory.CAS if point.may_fail else _KINDS[point.event]
            kinds[place] = shadow_memory.kind_of(kind, point.bytes, shared=point.shared)
        self._bytes = shadow_memory.PAGE // unit * (shadow_memory.WORD_BYTES + shadow_memory.CELL_BYTES)
        # Where there is no memory for another page, the launch goes on with this one, and fails at its end.
        self._kept: list[Any] = [kinds, np.zeros(self._bytes, np.uint8)]
        self._pages: dict[int, int] = {}
        self._grow = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: self._add())
        log["kinds"], log["shift"] = kinds.ctypes.data, unit.bit_length() - 1
        is_by_address = any(point.generic for point in points.values())
        log["shared_shift"] = -1 if is_by_address else shared_unit.bit_length() - 1
        log["grow"] = ctypes.cast(self._grow, ctypes.c_void_p).value
        self._table = np.zeros(0, np.int64)
        self._rebuild(1 << 8)

    def _add(self) -> None:
        page = int(self.log["missing"])
        try:
            shadow = np.zeros(self._bytes, np.uint8)
            self._kept.append(shadow)
            self._pages[page] = shadow.ctypes.data
        except BaseException as failure:
            self.failure = self.failure or failure
            self._pages[page] = self._kept[1].ctypes.data
        if 2 * len(self._pages) > self.log["mask"]:
            self._rebuild(4 * (int(self.log["mask"]) + 1))
        else:
            self._insert(page)

    def _rebuild(self, size: int) -> None:
        self._table = np.zeros(2 * size, np.int64)
        self.log["pages"], self.log["mask"] = self._table.ctypes.data, size - 1
        for page in self._pages:
            self._insert(page)

    def _insert(self, page: int) -> None:
        mask = int(self.log["mask"])
        at = (page * shadow_memory.HASH & (1 << 64) - 1) >> shadow_memory.HASH_SHIFT & mask
        while self._table[2 * at]:
            at = at + 1 & mask
        self._table[2 * at : 2 * at + 2] = page, self._pages[page]


def units(points: Collection[TracePoint], regions: Iterable[Region]) -> tuple[int, int]:
    """The number of bytes of a location in shared memory (the second number) and elsewhere: a power of two, at most 16.

    Each access is to whole locations. Generic pointers may point to both memories.
    """
    far = [_WIDEST, *(number for region in regions for number in (region.address, *region.strides))]
    near = [_WIDEST]
    for point in points:
        (near if point.shared else far).extend((point.bytes, point.align))
    if any(point.generic for point in points):
        far = near = far + near
    return math.gcd(*far), math.gcd(*near)


def _reach(a: MemoryAccess, b: MemoryAccess) -> bool:
    """Whether the scope of each of two atomic operations holds the other's thread."""
    if Scope.THREAD in (a.point.scope, b.point.scope):
        return False
    return a.stamp.block == b.stamp.block or Scope.BLOCK not in (a.point.scope, b.point.scope)


def _verb(access: MemoryAccess) -> str:
    how = "atomically " if access.atomic else ""
    return how + ("writes" if access.writes else "reads")


def _line(access: MemoryAccess) -> tuple[str, int]:
    return access.point.location.file, access.point.location.line


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
    if any(point.event.startswith("atomic") and point.memory is Order.RELAXED for point in points):
        return (
            "a relaxed atomic orders nothing by itself: call threadfence() before the one that announces the write and after the "
            "one that sees it, or give them the orders release and acquire"
        )
    return "blocks are not ordered: use atomics with release and acquire, or two launches"


def _position(number: int, size: Index) -> Index:
    return number % size[0], number // size[0] % size[1], number // (size[0] * size[1])


def regions(name: str, views: Sequence[Any]) -> Iterator[Region]:
    """The memory of a kernel's argument: `name`, or where it holds several arrays, `name` with a number."""
    for i, view in enumerate(views):
        label = name if len(views) == 1 else f"{name}[{i}]"
        yield Region(label, view.data, tuple(view.shape), tuple(view.strides), view.itemsize)
