"""The order of the events of a launch, for the race detector: what each thread, and each asynchronous copy, comes after.

    knows(view, access)      whether an access happened before what the owner of the view does now

An ordinary vector clock has an entry for each thread, which for a block would take the square of its size at each barrier. A
`VectorClock` therefore also has entries for blocks, which count barriers. A barrier creates one view for all threads of its
block, and `syncwarp` one for the threads of its mask.

An asynchronous copy has a view of its own: that of its thread when it began. What it does enters no other view until a thread
waits for its group, or acquires what the copy has released. The copies of one kind that a thread begins are a *series*, and a
view has one bit for the reads and one for the other accesses of each copy of a series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from cuda_device.cpu.records import MAXIMUM_THREADS, WARP_SIZE
from cuda_device.cpu.traces import Event, TracePoint
from cuda_device.errors import NOWHERE
from cuda_device.extend import dataclass, field

BLOCK = MAXIMUM_THREADS

_TOGETHER = {"wgmma": 128}
"""How many consecutive threads begin a copy of a kind together: whoever waits for it has waited for the parts of all of them."""
_BITS, _BOTH = 2, 3
"""A view has two bits for each copy: the lower one is that of its reads."""

Series = tuple[str, int]
"""The kind of the copies, and the number of the thread, or of the threads that begin them together."""


@dataclass(frozen=True, slots=True)
class VectorClock:
    """What happened before the next event of its owner: all that blocks and threads did before these counts."""

    blocks: Mapping[int, int] = field(default_factory=dict)
    threads: Mapping[int, int] = field(default_factory=dict)
    copies: Mapping[Series, int] = field(default_factory=dict)
    """And what the copies of a series did, in bits."""

    def including(self, series: Series, bits: int) -> VectorClock:
        """The view with the accesses of copies."""
        return VectorClock(self.blocks, self.threads, {**self.copies, series: self.copies.get(series, 0) | bits})


NOTHING = VectorClock()


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of an event of a thread: the numbers of barriers of its block and of its own ticks before it.

    The event of a copy has the number of the thread that began it.
    """

    thread: int
    barriers: int
    ticks: int
    copy: Copy | None = None

    @property
    def actor(self) -> int:
        """The number of the thread or of the copy."""
        return self.thread if self.copy is None else self.copy.number

    @property
    def block(self) -> int:
        """The number of the thread's block in the grid."""
        return self.thread // BLOCK

    @property
    def warp(self) -> int:
        """The number of the thread's warp in the grid."""
        return self.thread // WARP_SIZE


def knows(view: VectorClock, stamp: Stamp, writes: bool = True) -> bool:
    """Whether an event at `stamp` happened before the next event of the view's owner."""
    if stamp.copy is not None:
        return bool(view.copies.get(stamp.copy.series, 0) >> (_BITS * stamp.copy.index + writes) & 1)
    return view.blocks.get(stamp.block, 0) > stamp.barriers or view.threads.get(stamp.thread, 0) > stamp.ticks


def joined(views: Iterable[VectorClock]) -> VectorClock:
    """The union of views."""
    distinct = list({id(view): view for view in views if view is not NOTHING}.values())
    if len(distinct) < 2:
        return distinct[0] if distinct else NOTHING
    return VectorClock(
        _most([view.blocks for view in distinct]),
        _most([view.threads for view in distinct]),
        _all([view.copies for view in distinct]),
    )


def _most(counts: list[Mapping[int, int]]) -> Mapping[int, int]:
    some = [counted for counted in counts if counted]
    if len(some) < 2:
        return some[0] if some else {}
    merged = dict(some[0])
    for counted in some[1:]:
        for key, value in counted.items():
            if merged.get(key, 0) < value:
                merged[key] = value
    return merged


def _all(copies: list[Mapping[Series, int]]) -> Mapping[Series, int]:
    some = [bits for bits in {id(bits): bits for bits in copies}.values() if bits]
    if len(some) < 2:
        return some[0] if some else {}
    merged = dict(some[0])
    for bits in some[1:]:
        for series, more in bits.items():
            merged[series] = merged.get(series, 0) | more
    return merged


@dataclass(slots=True)
class Groups:
    """The copies of one kind that a thread has begun, as bits: those of each group, and those that belong to none."""

    series: Series
    begun: int = 0
    """The number of copies."""
    committed: list[int] = field(default_factory=list)
    open: int = 0


@dataclass(slots=True, eq=False)
class Thread:
    """A thread: its view, the time of its next event, and the effects of its fences."""

    number: int
    view: VectorClock = NOTHING
    stamp: Stamp = Stamp(0, 0, 0)
    fenced: dict[int, VectorClock] = field(default_factory=dict)
    """The view at its last releasing fence, which later relaxed stores publish, for each of `races._reached`."""
    seen: dict[int, VectorClock] = field(default_factory=dict)
    """The views that its relaxed loads read, for a later acquiring fence."""
    woken: bool = False
    """Whether another thread left the wait first, and so updated this thread."""
    copy: Copy | None = None
    """The copy whose accesses it makes now."""
    copies: dict[str, Groups] = field(default_factory=dict)
    """Its copies, by their kinds."""
    fences: list[tuple[Stamp, VectorClock]] = field(default_factory=list)
    """The times of its proxy fences, and its views then."""


@dataclass(slots=True, eq=False)
class Copy(Thread):
    """An asynchronous copy. Its number is negative."""

    series: Series = ("", 0)
    index: int = 0
    """Its number in the series."""
    start: TracePoint = TracePoint(Event.COPY_BEGIN, NOWHERE)
    released: bool = False
    """Whether it has released, so that those who acquire come after it."""

    @property
    def bits(self) -> int:
        """Its bits in the views that include all its accesses."""
        return _BOTH << _BITS * self.index


class Clocks:
    """The threads of a launch, and the order of their events."""

    def __init__(self) -> None:
        self.threads: dict[int, Thread] = {}
        self._barriers: defaultdict[int, int] = defaultdict(int)
        self._waiting: defaultdict[tuple[int, int | None], list[Thread]] = defaultdict(list)
        self._copies = 0

    def thread(self, block: int, linear: int) -> Thread:
        """The thread. Threads are known from their first event."""
        number = block * BLOCK + linear
        if number not in self.threads:
            self.threads[number] = Thread(number)
            self._restamp(self.threads[number], 0)
        return self.threads[number]

    def _restamp(self, thread: Thread, ticks: int) -> None:
        thread.stamp = Stamp(thread.number, self._barriers[thread.number // BLOCK], ticks)

    def publish(self, thread: Thread) -> VectorClock:
        """The view that a release by this thread or copy publishes. It does not include what a thread does later."""
        if isinstance(thread, Copy):
            thread.released = True
            return thread.view.including(thread.series, thread.bits)
        ticks = thread.stamp.ticks + 1
        view = VectorClock(thread.view.blocks, {**thread.view.threads, thread.number: ticks}, thread.view.copies)
        self._restamp(thread, ticks)
        return view

    def arrive(self, thread: Thread, mask: int | None = None) -> None:
        """The thread waits for its block, or for the lanes of `mask`."""
        self._waiting[_group(thread, mask)].append(thread)

    def leave(self, thread: Thread, mask: int | None = None) -> None:
        """The thread continues after it has waited. The first one that does so shows that all have arrived."""
        if thread.woken:
            thread.woken = False
            return
        come = self._waiting.pop(_group(thread, mask))
        block, known = thread.stamp.block, joined(arrived.view for arrived in come)
        if mask is None:
            self._barriers[block] += 1
            others = {number: n for number, n in known.threads.items() if number // BLOCK != block}
            view = VectorClock({**known.blocks, block: self._barriers[block]}, others, known.copies)
        else:
            ticks = {arrived.number: arrived.stamp.ticks + 1 for arrived in come}
            view = VectorClock(known.blocks, {**known.threads, **ticks}, known.copies)
        for arrived in come:
            arrived.view, arrived.woken = view, arrived is not thread
            self._restamp(arrived, arrived.stamp.ticks + (mask is not None))

    # Asynchronous copies

    def follow_copies(self, thread: Thread, point: TracePoint, pending: int) -> None:
        """Follows an event of the asynchronous copies of a thread."""
        actor = thread.copy or thread
        match point.event:
            case Event.COPY_BEGIN:
                self._begin_copy(thread, point)
            case Event.COPY_END:
                _end_copy(thread)
            case Event.COPY_COMMIT:
                _commit_copies(_groups(thread, point.kind))
            case Event.COPY_AWAIT:
                _await_copies(actor, point, pending)
            case Event.PROXY_FENCE:
                actor.fences.append((actor.stamp, actor.view))

    def _begin_copy(self, thread: Thread, start: TracePoint) -> None:
        groups = _groups(thread, start.kind)
        self._copies += 1
        copy = Copy(-self._copies, self.publish(thread), fences=thread.fences, copies=thread.copies)
        copy.series, copy.index, copy.start = groups.series, groups.begun, start
        copy.stamp = Stamp(thread.number, 0, 0, copy)
        groups.begun += 1
        thread.copy = copy


def _end_copy(thread: Thread) -> None:
    copy, thread.copy = thread.copy, None
    if copy is not None and not copy.released:
        _groups(thread, copy.start.kind).open |= copy.bits


def _commit_copies(groups: Groups) -> None:
    groups.committed.append(groups.open)
    groups.open = 0


def _await_copies(actor: Thread, point: TracePoint, pending: int) -> None:
    """A thread or copy waits for all groups but the last `pending`; or for all copies, if the point says so."""
    groups = _groups(actor, point.kind)
    count = len(groups.committed) if point.open else max(0, len(groups.committed) - pending)
    bits = groups.open if point.open else 0
    for group in groups.committed[:count]:
        bits |= group
    if point.only_reads:
        bits &= (1 << _BITS * groups.begun) // _BOTH
    elif not isinstance(actor, Copy):
        del groups.committed[:count]
    if bits:
        actor.view = actor.view.including(groups.series, bits)


def _groups(thread: Thread, kind: str) -> Groups:
    """The copies of a kind that a thread, or the thread that makes a copy, has begun."""
    if kind not in thread.copies:
        thread.copies[kind] = Groups((kind, thread.stamp.thread // _TOGETHER.get(kind, 1)))
    return thread.copies[kind]


def _group(thread: Thread, mask: int | None) -> tuple[int, int | None]:
    """The threads that a thread waits for."""
    return (thread.stamp.block if mask is None else thread.stamp.warp), mask
