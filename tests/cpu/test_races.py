"""The race detector of the CPU stream: programs with and without what orders their accesses, and random histories.

The programs are the bodies of kernels in race_programs.txt, which take `x` and `flag`: true where the program is right.
"""

import contextlib
import random
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import thinned
from ir_helpers import define, programs_in

import cuda_device as device
from cuda_device import atomic_ref, int32, thread_idx, tid
from cuda_device.cpu import shadow_memory, traces
from cuda_device.cpu.races import RaceDetector, Region, units
from cuda_device.cpu.traces import Event, TracePoint
from cuda_device.errors import Location
from cuda_device.extend import replace
from cuda_device.ir.ops import Order, Scope

STREAM = device.cpu_stream(races=True)


def run(kernel, *args, grid=1, block=64, shared=0):
    device.launch(kernel, *args, grid=grid, block=block, stream=STREAM, shared=shared)


def zeros(n=64, dtype=np.int32):
    return np.zeros(n, dtype)


# Programs


NAMES = {name: getattr(device, name) for name in ("ConstExpr", "atomic_ref", "int32", "lane_id", "thread_idx", "tid")}
PROGRAMS = programs_in(
    Path(__file__).with_name("race_programs.txt"), "@device.kernel\ndef k(x, flag: ConstExpr[bool]):", **NAMES
)
KERNELS = SimpleNamespace(**{program.name: program.function for program in PROGRAMS})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_and_its_wrong_twin(program):
    """`flag` is a constant expression, so that the wrong variant is another kernel."""
    run(program.function, zeros(256), True, shared=256, **program.fields)
    with pytest.raises(device.KernelError, match="nothing orders these two accesses"):
        run(program.function, zeros(256), False, shared=256, **program.fields)


@pytest.mark.parametrize(("kernel", "flag", "reads"), [
    (KERNELS.reverses, True, 0), (KERNELS.reverses, False, 1), (KERNELS.writes_before_reads, True, 0),
    (KERNELS.writes_before_reads, False, 1),
    (KERNELS.writes_in_a_function, True, 0), (KERNELS.writes_in_a_function, False, 1), (KERNELS.syncs_half_the_warp, True, 0),
    (KERNELS.goes_through_a_generic_pointer, True, 1),
])  # fmt: skip
def test_reads_that_barriers_separate_from_writes_are_not_followed(kernel, flag, reads):
    again = device.kernel(kernel.underlying, checked=False)
    with contextlib.nullcontext() if flag else pytest.raises(device.KernelError):
        run(again, zeros(256), flag)
    ((variant),) = again.variants.values()
    points = traces.points(variant.work["inlined"]).values()
    assert sum(point.event is Event.LOAD and point.shared for point in points) == reads


def test_the_first_of_many_places_are_told():
    lines = "".join(f"    x[{i}] = tid(1)\n" for i in range(12))
    kernel = define(f"@device.kernel\ndef k(x):\n{lines}", tid=tid)
    with pytest.raises(device.KernelError) as caught:
        run(kernel, zeros(), grid=1, block=2)
    message = str(caught.value)
    assert [f"race on x[{i}]" in message for i in range(12)] == [True] * 8 + [False] * 4
    assert "and races at 4 more places" in message


def test_results_are_those_of_a_plain_launch():
    x = np.arange(64, dtype=np.int32)
    run(KERNELS.reverses, x, True)
    assert x.tolist() == list(range(63, -1, -1))
    x = zeros()
    run(KERNELS.takes_a_ticket, x, True, grid=3, block=33)
    assert x[:3].tolist() == [99, 99, 99]


def test_a_plain_stream_does_not_look():
    device.launch(KERNELS.adds, zeros(), False, grid=2, block=64, stream=device.cpu_stream())


def test_more_events_than_the_log_holds():
    @device.kernel
    def many(x, n):
        i = tid(1)
        for step in range(n):
            x[i] += step
        if i == 63:
            x[0] = 1

    with pytest.raises(device.KernelError, match=r"race on x\[0\]"):
        run(many, zeros(), 1000)


def test_the_report_names_threads_lines_and_elements():
    x = zeros(64).reshape(4, 16)

    @device.kernel
    def neighbours(pair):
        i = thread_idx.x
        pair[1][2, i] = i
        pair[1][2, i ^ 1] += 1

    with pytest.raises(device.KernelError) as caught:
        run(neighbours, (np.float32(1), x[::-1]), grid=(1, 2), block=(2, 1, 1))
    text = str(caught.value)
    assert "race on pair[1][2, 0]: nothing orders these two accesses" in text
    assert "thread (0, 0, 0) of block (0, 0, 0) writes at" in text
    assert "pair[1][2, i] = i" in text and "pair[1][2, i ^ 1] += 1" in text
    assert "help: put syncthreads() between the two, or syncwarp(0xFFFFFFFF) if only threads of one warp" in text


@pytest.mark.parametrize("kernel, remedy", [
    (KERNELS.reverses, "put syncthreads\\(\\)"), (KERNELS.syncs_the_warp, "or syncwarp\\(0xFFFFFFFF\\)"),
    (KERNELS.sums_and_reads, "make both accesses atomic"),
    (KERNELS.passes_a_message_near, "blocks are not ordered"), (KERNELS.adds, r"atomic_ref\(x, 0\).add\("),
])  # fmt: skip
def test_the_remedy_fits(kernel, remedy):
    blocks = {"grid": 2, "block": 1} if kernel is KERNELS.passes_a_message_near else {}
    with pytest.raises(device.KernelError, match=remedy):
        run(kernel, zeros(256), False, **blocks)


def stores(function, recorded):
    """A kernel whose threads store `function(i)` to one element."""

    @device.kernel
    def kernel(x, flag, n):
        i = thread_idx.x
        if recorded:  # all events are recorded, and not only the races
            device.syncwarp(0xFFFFFFFF)
        if i != n:
            flag[0] = function(i)
        x[i] = i

    return kernel


STORE, ANOTHER = (
    r"write atomic_ref\(flag, 0\)\.store\(…\), or let one",
    r"write atomic_ref\(flag, 0\)\.add\(…\) or another",
)


STORED = [np.int32, np.uint8, np.bool_, np.float32, np.float16, np.float64, np.int64]


@pytest.mark.parametrize("dtype, recorded", thinned(STORED, [False, True], one_in=2))
def test_equal_stores_need_no_sum(dtype, recorded):
    for function, remedy in ((lambda i: 1, STORE), (lambda i: i - i, STORE), (lambda i: i // 32, ANOTHER)):
        with pytest.raises(device.KernelError, match=remedy):
            run(stores(function, recorded), zeros(64), np.ones(2).astype(dtype), 3)


@pytest.mark.parametrize(
    "statement", ["flag[0] |= 1", "flag[0] = max(flag[0], 1)", "flag[0] += 1", "flag[0] = flag[0]"]
)
def test_a_number_that_is_read_first_needs_more_than_a_store(statement):
    namespace = {}
    exec(f"def update(flag):\n    {statement}", namespace)
    with pytest.raises(device.KernelError, match=ANOTHER):
        run(device.kernel(namespace["update"]), zeros(2))


@device.struct
class Rows:
    read: device.ArrayType(int32, 1)
    sums: device.ArrayType(int32, 2)


@device.kernel
def adds_to_a_member(g, pair):
    t = thread_idx.x
    g.sums[0, 1] += 1; pair[0][t] = pair[0][t ^ 1]; pair[1].read[0] += 1  # noqa: E702  # fmt: skip


def test_arrays_in_structs_and_tuples_have_their_names_in_the_program():
    g = Rows(zeros(), zeros(2).reshape(1, 2))
    with pytest.raises(device.KernelError) as caught:
        run(adds_to_a_member, g, (zeros(2), Rows(zeros(), zeros(2).reshape(1, 2))), block=2)
    remedies = dict(re.findall(r"race on (\S+\]):.*?help: (.*?)(?:\n|$)", str(caught.value).replace(", ", ","), re.S))
    assert "write atomic_ref(g.sums,(0,1)).add(" in remedies["g.sums[0,1]"]
    assert "write atomic_ref(pair[1].read,0).add(" in remedies["pair[1].read[0]"]
    assert remedies["pair[0][0]"].startswith("put syncthreads()")


def test_a_race_on_shared_memory_gets_no_remedy_of_another_array():
    @device.kernel
    def reduces(c):
        s = device.shared_array(32, int32)
        t = thread_idx.x
        s[t] = 1; c[0] += s[31 - t]  # noqa: E702  # fmt: skip

    with pytest.raises(device.KernelError) as caught:
        run(reduces, zeros(), block=32)
    remedies = dict(re.findall(r"race on (\w+).*?help: (.*?)(?:\n|$)", str(caught.value), re.S))
    assert remedies["byte"].startswith("put sync") and "atomic_ref(c, 0).add(" in remedies["c"]


@pytest.mark.parametrize(("fences", "order"), [(0, "relaxed"), (1, "relaxed"), (2, "relaxed"), (0, "acq_rel")])
def test_the_last_block_is_told_of_threadfence(fences, order):
    @device.kernel
    def sums(x, part):
        part[device.block_idx.x] = 1
        if fences:
            device.threadfence()
        if atomic_ref(x, 0).add(1, order, "device") == 3:
            if fences > 1:
                device.threadfence()
            for i in range(4):
                x[1] += part[i]

    part = zeros(4)
    if fences > 1 or order == "acq_rel":
        run(sums, zeros(4), part, grid=4, block=1)
        return
    with pytest.raises(device.KernelError, match=r"threadfence\(\) before .* and after"):
        run(sums, zeros(4), part, grid=4, block=1)


def test_a_narrow_scope_has_a_remedy_of_its_own():
    with pytest.raises(device.KernelError, match="write scope='device'"):
        run(KERNELS.adds_within_the_block, zeros(), False, grid=2)


def test_the_same_kernel_runs_again_after_a_race():
    with pytest.raises(device.KernelError):
        run(KERNELS.reverses, zeros(), False)
    run(KERNELS.reverses, zeros(), True)


def test_what_our_own_python_does_stands_where_it_was_called():
    @device.kernel
    def largest(x):
        atomic_ref(x, 0).max(1.5, "relaxed")
        x[0] = 2.0

    with pytest.raises(device.KernelError) as caught:
        run(largest, np.zeros(4, np.float32))
    assert 'atomic_ref(x, 0).max(1.5, "relaxed")' in str(caught.value) and "atomic_loops" not in str(caught.value)


def test_an_assertion_is_still_told():
    @device.kernel
    def fails(x):
        x[tid(1)] = 1
        assert x[0] > 1, "too small"

    with pytest.raises(device.KernelError, match=r"(?s)too small.*before it, a race on x\[0\]"):
        run(fails, zeros())


def test_shared_memory_of_other_blocks_is_followed():
    @device.kernel
    def swaps(x, flag: device.ConstExpr[bool]):
        tile = device.shared_array(32, int32)
        device.cluster_sync()
        device.cluster_shared(tile, 1 - int32(device.block_rank))[thread_idx.x] = 1
        if flag:
            device.cluster_sync()
        x[tid(1)] = tile[thread_idx.x]

    for flag in (True, False):
        with contextlib.nullcontext() if flag else pytest.raises(device.KernelError, match="race on byte"):
            device.launch(swaps, zeros(), flag, grid=2, block=32, cluster=2, stream=STREAM)


def test_shared_memory_of_a_block_that_has_not_begun_or_has_ended():
    @device.kernel
    def stores(x, begin: device.ConstExpr[bool], end: device.ConstExpr[bool]):
        tile = device.shared_array(32, int32)
        there = device.cluster_shared(tile, 1 - int32(device.block_rank))  # the address alone is no access
        if begin:
            device.cluster_sync()
        there[thread_idx.x] = 1
        if end:
            device.cluster_sync()
        x[tid(1)] = 1

    for begin, end, what in (
        (True, True, ""),
        (False, True, "not have begun yet"),
        (True, False, "have ended by then"),
        (False, False, "not have begun yet"),
    ):
        expected = rf"race on byte \d+ of shared memory of block \(\d, 0, 0\), which may {what}\n  thread .* writes"
        with pytest.raises(device.KernelError, match=expected) if what else contextlib.nullcontext():
            device.launch(stores, zeros(), begin, end, grid=2, block=32, cluster=2, stream=STREAM)


def test_elements_of_arguments():
    region = Region("a", 1000, (3, 4), (-32, 8), 4)
    assert region.element(1000) == "a[0, 0]" and region.element(1000 - 64 + 24) == "a[2, 3]"
    assert region.element(1000 - 64 + 3) == "a[2, 0]"
    assert region.element(1004) is None and region.element(999 - 64) is None and region.element(1032) is None
    assert Region("n", 8, (), (), 4).element(8) == "n[()]"


# Random histories, against the definition: an order that is computed pair by pair


@dataclass
class Did:
    """One event, in an order in which threads may have run."""

    thread: int
    kind: Event
    location: int = 0
    memory: Order = Order.RELAXED
    scope: Scope = Scope.DEVICE
    mask: int = 0
    meeting: int = -1
    copy: int = 0
    """The number of the asynchronous copy that does it; 0 if the thread does."""
    awaited: tuple[int, ...] = ()
    """The copies for which it waits."""
    only_reads: bool = False
    pending: int = 0

    @property
    def actor(self):
        """The thread or copy."""
        return self.thread, self.copy


THREADS, LANES = 6, 3  # two blocks of three threads, each one warp


def history(seed):
    """Events of a few threads. A wait is one `arrive` of each that waits, then one `leave` of each."""
    rng = random.Random(seed)
    events, meetings = [], 0
    for _ in range(rng.randrange(5, 40)):
        thread = rng.randrange(THREADS)
        block = thread // LANES
        kind = rng.choices(
            [Event.LOAD, Event.STORE, Event.ATOMIC_LOAD, Event.ATOMIC_STORE, Event.ATOMIC_UPDATE, Event.FENCE,
             Event.ARRIVE, Event.WARP_ARRIVE],
            [4, 3, 6, 3, 3, 3, 1, 2],
        )[0]  # fmt: skip
        memory = rng.choice(list(Order))
        scope = rng.choices(list(Scope), [4, 4, 4, 1])[0]
        if kind in (Event.ARRIVE, Event.WARP_ARRIVE):
            mates = [block * LANES + lane for lane in range(LANES)]
            if kind is Event.WARP_ARRIVE:
                mates = sorted(rng.sample(mates, rng.randrange(1, LANES + 1)))
            mask = sum(1 << mate % LANES for mate in mates)
            leave = Event.LEAVE if kind is Event.ARRIVE else Event.WARP_LEAVE
            for each in (kind, leave):
                rng.shuffle(mates)
                events += [Did(mate, each, mask=mask, meeting=meetings) for mate in mates]
            meetings += 1
        else:
            # Some locations are only accessed plainly, some only atomically, one both ways.
            location = rng.choice([2, 3, 4, 5]) if kind in (Event.LOAD, Event.STORE) else rng.choice([0, 1, 2])
            events.append(Did(thread, kind, location, memory, scope))
    return events


ACQUIRES = {Order.ACQUIRE, Order.CONSUME, Order.ACQ_REL, Order.SEQ_CST}
RELEASES = {Order.RELEASE, Order.ACQ_REL, Order.SEQ_CST}
WRITES = {Event.STORE, Event.ATOMIC_STORE, Event.ATOMIC_UPDATE}
ATOMICS = {Event.ATOMIC_LOAD, Event.ATOMIC_STORE, Event.ATOMIC_UPDATE}


def reaches(a, b):
    """Whether the scope of event `a` holds the thread of event `b`."""
    if a.scope is Scope.THREAD:
        return a.thread == b.thread
    return a.scope is not Scope.BLOCK or a.thread // LANES == b.thread // LANES


def happens_before(events):
    """The matrix of C++'s order for these events, by its definition: edges, then their transitive closure."""
    n = len(events)
    before = np.zeros((n, n), bool)
    for i, a in enumerate(events):
        for j, b in enumerate(events):
            if i < j and (precedes(a, b) or is_awaited(a, b)):
                before[i, j] = True
            if a.meeting >= 0 and a.meeting == b.meeting and a.kind != b.kind and i < j:
                before[i, j] = True
    for j, load in enumerate(events):
        if load.kind in (Event.ATOMIC_LOAD, Event.ATOMIC_UPDATE):
            for head in sequence(events, j):
                for i in releasing(events, head):
                    for k in acquiring(events, j):
                        if all(reaches(x, y) for x, y in ((events[i], load), (events[head], load), (load, events[i]),
                                                          (events[k], events[i]))):  # fmt: skip
                            before[i, k] = True
    while True:
        more = before | (before.astype(int) @ before.astype(int) > 0)
        if (more == before).all():
            return before
        before = more


def precedes(a, b):
    """Whether the earlier event comes first because of who does them. All that a copy does comes before its release."""
    return (
        a.thread == b.thread and a.copy in (0, b.copy) and (b.copy == a.copy == 0 or a.copy == 0 or b.kind in ATOMICS)
    )


def is_awaited(a, b):
    """Whether an event is the wait for the copy that does the other."""
    return a.copy in b.awaited and a.copy != 0 and (a.kind is Event.LOAD or not b.only_reads)


def sequence(events, load):
    """The writes whose release sequences the load reads: back over read-modify-writes to a store."""
    for i in range(load - 1, -1, -1):
        event = events[i]
        if event.location == events[load].location and event.kind in WRITES:
            if event.kind is Event.STORE:
                return
            yield i
            if event.kind is Event.ATOMIC_STORE:
                return


def releasing(events, write):
    """The events that a write publishes: itself, and the last releasing fences of its thread before it."""
    if events[write].memory in RELEASES:
        yield write
    for i in range(write):
        if events[i].kind is Event.FENCE and events[i].thread == events[write].thread and events[i].memory in RELEASES:
            yield i


def acquiring(events, load):
    """The events that take what a load found: itself, and the acquiring fences of its thread after it."""
    if events[load].memory in ACQUIRES:
        yield load
    for k in range(load + 1, len(events)):
        if events[k].kind is Event.FENCE and events[k].actor == events[load].actor and events[k].memory in ACQUIRES:
            yield k


def races(events):
    """The locations of all pairs of events that race."""
    before = happens_before(events)
    found = set()
    for j, b in enumerate(events):
        for i, a in enumerate(events[:j]):
            if not {a.kind, b.kind} <= ATOMICS | {Event.LOAD, Event.STORE}:
                continue
            if a.location != b.location or a.actor == b.actor or not {a.kind, b.kind} & WRITES or before[i, j]:
                continue
            if not ({a.kind, b.kind} <= ATOMICS and reaches(a, b) and reaches(b, a)):
                found.add(f"a[{a.location}]")
    return found


def detected(events):
    points, rows = {}, []
    for place, event in enumerate(events):
        point = TracePoint(event.kind, Location("history", place + 1), 4, False, event.memory, event.scope)
        points[place] = replace(point, kind="bulk", only_reads=event.only_reads)
        value = event.mask if event.meeting >= 0 else event.pending if point.of_copies else 4096 + 4 * event.location
        rows.append((event.thread // LANES, event.thread % LANES, place, value, 1))
    region = Region("a", 4096, (6,), (4,), 4)
    detector = RaceDetector(points, (LANES, 1, 1), (THREADS // LANES, 1, 1), [region])
    found = set()
    detector._keep = lambda start, *_: found.add(detector._name(start))  # it keeps one race for each pair of statements
    detector._follow(rows)
    return found


def with_copies(events, seed):
    """The history with asynchronous copies, their groups, and waits for groups."""
    rng, count, more = random.Random(seed), 0, []
    groups: dict[int, list[list[int]]] = {}
    for event in events:
        more.append(event)
        thread = rng.randrange(THREADS)
        last = [each.kind for each in more if each.thread == thread][-1:]
        if rng.random() < 0.4 or last in ([Event.ARRIVE], [Event.WARP_ARRIVE]):
            continue
        *committed, open_copies = groups.setdefault(thread, [[]])
        kind = rng.choice([Event.COPY_BEGIN, Event.COPY_BEGIN, Event.COPY_COMMIT, Event.COPY_AWAIT])
        if kind is Event.COPY_AWAIT:
            pending = rng.randrange(3)
            awaited = committed[: max(0, len(committed) - pending)]
            copies = tuple(copy for group in awaited for copy in group)
            more.append(Did(thread, kind, awaited=copies, only_reads=rng.random() < 0.3, pending=pending))
        elif kind is Event.COPY_COMMIT:
            more.append(Did(thread, kind))
            groups[thread].append([])
        else:
            count += 1
            more.append(Did(thread, kind))
            for _ in range(rng.randrange(3)):
                more.append(Did(thread, rng.choice([Event.LOAD, Event.STORE]), rng.choice([2, 3, 4, 5]), copy=count))
            if rng.random() < 0.4:
                more.append(Did(thread, Event.ATOMIC_UPDATE, rng.choice([0, 1]), Order.RELEASE, copy=count))
            else:
                open_copies.append(count)
            more.append(Did(thread, Event.COPY_END))
    return more


@pytest.mark.parametrize("copies, count", [(False, 1000), (True, 400)])
def test_random_histories(copies, count):
    found = []
    for seed in range(count):
        events = with_copies(history(seed), seed) if copies else history(seed)
        expected = races(events)
        assert detected(events) == expected, (seed, events)
        found += expected
    # None of the locations always races, and none never does.
    assert all(count < 40 * found.count(f"a[{location}]") < 39 * count for location in range(6))


def races_of_ranges(seed):
    """The races of a history with ranges, such as copies read, and of one with their elements one after the other."""
    rng, found = random.Random(seed), []
    kinds = [(Event.COPY_READ, 4), (Event.STORE, 4), (Event.STORE, 8), (Event.STORE, 16), (Event.LOAD, 16)]
    points = {n: TracePoint(kind, Location("k", n + 1), size) for n, (kind, size) in enumerate(kinds)}
    points[9] = TracePoint(Event.LOAD, Location("k", 10), 4)
    history = [(rng.randrange(6), rng.randrange(5), 16 * rng.randrange(4), 4 * rng.randrange(9)) for _ in range(8)]
    for step in (64, 4):
        detector = RaceDetector(points, (64, 1, 1), (1, 1, 1), [Region("a", 4096, (32,), (4,), 4)])
        races = set()
        detector._keep = lambda start, *both, add=races.add: add((start, *(access.point for access in both)))
        for thread, place, start, length in history:
            if thread == 5:  # all threads wait for each other
                for event in (detector.clocks.arrive, detector.clocks.leave):
                    [event(detector.clocks.thread(0, number)) for number in range(5)]
                continue
            actor, point = detector.clocks.thread(0, thread), points[place]
            size = length if point.event is Event.COPY_READ else point.bytes
            for part in range(start, start + size, step):
                detector._access(actor, point, 4096 + part, min(step, size), point.event is Event.STORE)
        found.append(races)
    return found


def test_a_range_races_where_its_elements_do():
    """Of the elements with one history, the first is reported."""
    found = [races_of_ranges(seed) for seed in range(200)]
    assert all(ranges <= elements for ranges, elements in found)
    assert all({race[1:] for race in ranges} == {race[1:] for race in elements} for ranges, elements in found)
    assert 20 < sum(ranges < elements for ranges, elements in found) < 180


# The check in machine code, against the one that works orders out from all events


def random_kernel(seed, turns=1, more=()):
    """A loop of plain accesses, barriers and relaxed atomic operations, and of `more`, for 2 blocks of 4 threads."""
    rng = random.Random(seed)
    lines = ["tile = device.shared_array(8, int32)", "i = thread_idx.x", "b = device.block_idx.x"]
    lines.append(f"for _ in range({turns}):")
    for _ in range(rng.randrange(2, 12)):
        array = rng.choice(["x", "x", "tile"])
        index = rng.choice(["i", "i ^ 1", "i + 4", "4 * b + i", "4 * b + (i ^ 2)", "b", str(rng.randrange(8))])
        guard = rng.choice(["", "", "if i == 1: ", "if i > 1: ", "if b == 1: "])
        does = rng.choice([
            f"{array}[{index}] = 1", f"{array}[{index}] += 1", f"y[8 * b + i] += {array}[{index}]",
            f"y[8 * b + i] += {array}[{index}]", f'atomic_ref({array}, {index}).add(1, "relaxed", "device")',
            f"for k in range(3): y[8 * b + i] += {array}[i ^ k]",
            "device.syncthreads()", "device.syncthreads()", *(each.replace("INDEX", index) for each in more),
        ])  # fmt: skip
        guard = "" if does.startswith(("device", "for")) else guard
        lines.append(f"    {guard}{does}")
    body = "".join(f"    {line}\n" for line in lines)
    return define(f"@device.kernel(checked=False)\ndef k(x, y):\n{body}", device=device, int32=int32, thread_idx=thread_idx,
                  atomic_ref=atomic_ref)  # fmt: skip


def report(kernel):
    try:
        run(kernel, zeros(16), zeros(16), grid=2, block=4)
    except device.KernelError as error:
        return str(error)
    return ""


SOME_OR_ALL = pytest.mark.parametrize("count", [12, pytest.param(60, marks=pytest.mark.long)])


@SOME_OR_ALL
def test_random_programs_are_reported_alike(monkeypatch, count):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "")
    fast = [report(random_kernel(seed)) for seed in range(count)]
    monkeypatch.setattr("cuda_device.cpu.traces.ordered_by_barriers", lambda points: False)
    slow = [report(random_kernel(seed)) for seed in range(count)]
    assert fast == slow
    assert count / 12 < fast.count("") < count * 11 / 12


READS_ATOMICALLY = (
    'y[8 * b + i] += atomic_ref(x, INDEX).load("relaxed", "device")',
    'y[8 * b + i] += atomic_ref(x, INDEX).cas(0, 1, "relaxed", "device")',
    'y[8 * b + i] += atomic_ref(x, INDEX).cas(2, 1, "relaxed", "device")',
)


@SOME_OR_ALL
def test_random_loops_that_read_atomically(monkeypatch, count):
    """Of several accesses that race with one, the two ways may report different ones."""

    def reports():
        seeds = range(100, 100 + count)
        return [report(random_kernel(seed, 1 + seed % 2, READS_ATOMICALLY)) != "" for seed in seeds]

    monkeypatch.setenv("CUDA_DEVICE_CACHE", "")
    fast = reports()
    monkeypatch.setattr("cuda_device.cpu.traces.ordered_by_barriers", lambda points: False)
    assert fast == reports()
    assert count / 12 < sum(fast) < count * 11 / 12


@pytest.mark.parametrize(("sizes", "generic", "expected"), [
    ([(4, False), (8, True)], False, (4, 8)), ([(4, False), (8, True)], True, (4, 4)), ([(8, False)], False, (4, 16)),
])  # fmt: skip
def test_sizes_of_locations(sizes, generic, expected):
    points = [TracePoint(Event.LOAD, Location("k", 1), size, shared, generic=generic) for size, shared in sizes]
    assert units(points, [Region("x", 64, (4, 3), (12, 4), 4)]) == expected


def test_a_large_grid_without_barriers_needs_no_memory_for_each_thread():
    points = {0: TracePoint(Event.LOAD, Location("k", 1), 4)}
    detector = RaceDetector(points, (1024, 1, 1), (2**31 - 1, 65535, 65535), [])
    assert detector.shadow is not None
    detector.finish()


def test_pages_that_share_an_entry_of_the_table_keep_their_shadows():
    x = zeros(3_000 * shadow_memory.PAGE, np.uint8)
    first, pages = -(-x.ctypes.data // shadow_memory.PAGE), dict[int, int]()
    for page in range(first, first + 2_900):
        other = pages.setdefault(shadow_memory.entry_of(page), page)
        if other != page:
            break
    here, there = (number * shadow_memory.PAGE - x.ctypes.data for number in (other, page))
    kernel = define(
        "@device.kernel\ndef k(x, here, there):\n    x[here] = 1\n    x[there + thread_idx.x] = 2\n",
        thread_idx=thread_idx,
    )
    with pytest.raises(device.KernelError, match=rf"^race on x\[{here}\]"):
        run(kernel, x, here, there, block=2)
