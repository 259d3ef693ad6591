"""What happened before what, as each thread of a launch knows it: clocks for barriers, warps and single threads.

    knowledge.knows(view, stamp)      whether what a thread did at `stamp` happened before what the view's owner does now

A clock for each pair of threads would be as large as the square of a block at each barrier. So a `VectorClock` counts in three
units: up to which barrier it knows a whole block, up to which `syncwarp` a whole warp, and up to which tick a single
thread. A barrier makes one view for all threads of its block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cuda_device.lazy_dataclasses import dataclass, field

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
