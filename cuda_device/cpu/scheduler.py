"""The block scheduler of the CPU, written in Python and compiled by this compiler (`host_code`).

    blocks(control, function, static, frame)    runs a worker's share of a launch whose threads take no turns: calls `function`
                                                for rows of blocks; each block needs `frame` bytes
    crew(control, resume, static, frame)        the same for threads that wait and take turns: `resume` resumes lanes of a
                                                warp, and `frame` is the number of bytes that each warp needs

These functions are device code that does not belong to any thread. Workers take chunks of blocks from a counter in the control
record. If all threads of a block wait for other blocks, the block is put aside, and the next one starts in its own memory. Up to
`INTERLEAVED` blocks of a worker may wait for each other, whereas a kernel whose blocks do not wait has only one in memory. The
blocks that were put aside get a turn whenever their number is a power of two, and when no more blocks can be started.

Within a block, the lanes of each warp continue as far as they can (`meetings`). Then the threads that yielded get a turn, and if
all live threads are at one barrier, they continue. A thread stores in a word where it waits, so the scheduler compares 32 words
at a time, which LLVM vectorises. If no thread can continue, the scheduler reports a deadlock with the place of each thread, so no
launch hangs. In checked mode all threads of the block must reach a barrier, not only the live ones.

Addresses are int64 here. Records are arrays of one element: `array_at(Block, block)[0].count`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from numpy import int64, uint32, uint64

from cuda_device import atomic_ref, local_array, popc, uint32x3
from cuda_device.cpu import host_code, meetings, shadow_memory
from cuda_device.cpu.host_code import (
    ALIGNMENT,
    SHARED_ALIGNMENT,
    allocate,
    ask,
    call_row,
    frame_address,
    free,
    lanes_between,
    nanoseconds,
    sched_yield,
)
from cuda_device.cpu.meetings import (
    ALL,
    LOWS,
    WARP_BYTES,
    WORDS,
    Block,
    Control,
    Thread,
    claim,
    most,
    publish,
    resume_lanes,
    row,
    stopped,
)
from cuda_device.cpu.records import (
    CLUSTER_WORDS,
    CONTROL,
    FUEL,
    INTERLEAVED,
    KIND_SHIFT,
    PLACE_MASK,
    WARP_SIZE,
    Suspension,
)
from cuda_device.device.memory import BLOCK_WORDS, array_at
from cuda_device.extend import type_of_hint
from cuda_device.instrument.outline import Status
from cuda_device.types.model import INT64, UINT32, Type

_PATIENCE = 4
"""The number of rounds after which a block is put aside, if the same number of threads yield and nothing else happens."""
_WAITING = CONTROL.offset("waiting")
_RECORD_BYTES, _WORDS_BYTES = Block.itemsize + 7 & -8, 4 * BLOCK_WORDS
_SECOND = 1_000_000_000
_VISITS = 1000
"""The number of visits for which a worker leaves the report of a deadlock to others, whose blocks explain more."""


class Turn(enum.IntEnum):
    """The result of `schedule`: all threads have returned, some may go on later, or none until a number in memory changes."""

    OVER = 0
    GOING = 1
    STUCK = 2


class Reach(enum.IntEnum):
    """Who may write to memory: the threads of the block, those of the launch, or others."""

    BLOCK = 0
    LAUNCH = 1
    OTHERS = 2


class Verdict(enum.IntEnum):
    """The result of `settle`: all threads have returned, all live threads are at a barrier, or neither."""

    OVER = 0
    TOGETHER = 1
    MIXED = 2


# Taking blocks


def blocks(control: Any, function: Any, static: Any, frame: Any) -> None:
    """Runs blocks until none is left or the launch must stop, a row of blocks per call if possible."""
    launch, block = array_at(Control, control), opened(control, static)
    if frame != 0:
        with_warps(block, frame)
    alone = launch[0].log != 0 or launch[0].clusters != 0
    left, run, index = int64(0), int64(1), uint32x3(0, 0, 0)
    while not stopped(control):
        left, index = advance(control, left, run, index)
        if left <= 0:
            break
        run = int64(1) if alone else min(left, int64(launch[0].grid.x) - index.x)
        begin(block, index)
        call_row(function, block, run)
        leave_cluster(block)
    dismiss(block)


def crew(control: Any, resume: Any, static: Any, frame: Any) -> None:
    """The same for threads that wait and take turns."""
    aside, rest = local_array(INTERLEAVED, int64), local_array(4, int64)
    waiting = 0
    block = with_threads(opened(control, static), resume, frame)
    left, index = int64(0), uint32x3(0, 0, 0)
    rest[0] = rest[1] = -1
    count(control, 1)
    active = True
    while not stopped(control):
        visits = waiting == INTERLEAVED
        if not visits:
            left, index = advance(control, left, 1, index)
            if left > 0:
                active = True
                begin(block, index)
                start(block, frame)
                if schedule(block) == Turn.OVER:
                    leave_cluster(block)
                else:
                    aside[waiting] = block
                    waiting += 1
                    block = with_threads(opened(control, static), resume, frame)
                    visits = popc(waiting) == 1
            elif waiting == 0:
                break
            else:
                visits = True
        if visits:
            epoch = epoch_of(control)
            waiting, moved = visit(aside, waiting)
            active |= moved
            if active and (left <= 0 or waiting == INTERLEAVED):
                count(control, 0)
                active = moved
            elif not active:
                agree(control, aside, waiting, left, epoch, rest)
    count(control, -1)
    for i in range(waiting):
        dismiss(aside[i])
    dismiss(block)


def visit(aside: Any, waiting: Any) -> Any:
    """Runs each block that was put aside; returns how many are left, and whether any thread has run."""
    left, moved = waiting, False
    for i in range(waiting - 1, -1, -1):
        turn = schedule(aside[i])
        moved |= turn != Turn.STUCK
        if turn == Turn.OVER:
            dismiss(aside[i])
            left -= 1
            aside[i] = aside[left]
    if left == waiting:
        sched_yield()
    return left, moved


def advance(control: Any, left: Any, run: Any, index: Any) -> Any:
    """Moves on by `run` blocks, or to a new chunk; returns how many are left, or 0 or less, and the index of the first."""
    launch = array_at(Control, control)
    if left > run:
        x, y, z = index.x + uint32(run), index.y, index.z
        if x == launch[0].grid.x:
            x = uint32(0)
            y += 1
            if y == launch[0].grid.y:
                y = uint32(0)
                z += 1
        return left - run, uint32x3(x, y, z)
    first = atomic_ref(launch["next"], 0).add(launch[0].chunk, "relaxed")
    if launch[0].clusters != 0 and first < launch[0].blocks:
        return int64(1), in_cluster(control, first)
    linear = uint64(permuted(control, first, launch[0].blocks, 0))
    line = linear // launch[0].grid.x
    plane = line // launch[0].grid.y
    left = min(launch[0].blocks - first, launch[0].chunk)
    return left, uint32x3(uint32(linear % launch[0].grid.x), uint32(line % launch[0].grid.y), uint32(plane))


def in_cluster(control: Any, position: Any) -> Any:
    """The index of a block by its position in an order in which the blocks of a cluster are consecutive."""
    launch = array_at(Control, control)
    wide, high, deep = launch[0].cluster_dim
    size = int64(wide * high * deep)
    rank = uint32(position % size)
    number = uint64(permuted(control, position // size, launch[0].blocks // size, 0))
    across, down = launch[0].grid.x // wide, launch[0].grid.y // high
    line = number // across
    return uint32x3(
        uint32(number % across) * wide + rank % wide,
        uint32(line % down) * high + rank // wide % high,
        uint32(line // down) * deep + rank // wide // high,
    )


def permuted(control: Any, position: Any, count: Any, turn: Any) -> Any:
    """The block or warp, of `count`, at a position in the launch's order, which is permuted if the launch has a step."""
    launch = array_at(Control, control)
    if launch[0].step == 0 or position >= count:
        return int64(position)
    return int64((uint64(position) * uint64(launch[0].step) + uint64(launch[0].seed) + uint64(turn)) % uint64(count))


# Blocks in memory


def opened(control: Any, static: Any) -> Any:
    """Allocates the record of one block, and shared memory with `static` bytes of static arrays, which clusters have instead."""
    block = allocate(_RECORD_BYTES + _WORDS_BYTES)
    record, launch = array_at(Block, block), array_at(Control, control)
    record[0].grid, record[0].size, record[0].cluster_dim = launch[0].grid, launch[0].size, launch[0].cluster_dim
    record[0].dynamic_bytes, record[0].parameters = launch[0].dynamic_bytes, launch[0].parameters
    record[0].block_rank, record[0].cluster = uint32(0), int64(0)
    record[0].warps, record[0].threads, record[0].frames = int64(0), int64(0), int64(0)
    record[0].control = control
    record[0].count = launch[0].size.x * launch[0].size.y * launch[0].size.z
    fixed = static + (ALIGNMENT - 1) & -ALIGNMENT
    record[0].shared, record[0].shared_bytes = int64(0), fixed + launch[0].dynamic_bytes
    if launch[0].clusters == 0:
        record[0].shared = allocate(record[0].shared_bytes, SHARED_ALIGNMENT)
    record[0].words = block + _RECORD_BYTES
    record[0].dynamic = record[0].shared + fixed
    record[0].base = frame_address()
    record[0].watch = shadow_memory.watch_of(launch[0].log, fixed + launch[0].dynamic_bytes)
    return block


def with_warps(block: Any, bytes: Any) -> None:
    """Allocates the records of a block's warps, and its frames. The launch stops if there is not enough memory."""
    record = array_at(Block, block)
    record[0].warps, record[0].frames = allocate(WARP_BYTES * warps_of(block)), allocate(bytes)
    words = array_at(uint32, record[0].warps)
    for i in range(WARP_BYTES // 4 * warps_of(block)):
        words[i] = uint32(0)
    if record[0].frames == 0:
        deadlock(block, Status.OUT_OF_MEMORY)


def with_threads(block: Any, resume: Any, frame: Any) -> Any:
    """Allocates the records of a block's threads and warps, and a frame for each warp, whose size is given."""
    record = array_at(Block, block)
    with_warps(block, frame * warps_of(block))
    count, warps = record[0].count, record[0].warps
    first = allocate(Thread.itemsize * int64(count))
    record[0].threads, record[0].resume = first, resume
    threads = array_at(Thread, first)
    for linear in range(count):
        line = linear // record[0].size.x
        threads[linear].index = uint32x3(linear % record[0].size.x, line % record[0].size.y, line // record[0].size.y)
        threads[linear].linear = linear
        threads[linear].lane = linear % WARP_SIZE
        threads[linear].lanes = min(count - linear // WARP_SIZE * WARP_SIZE, WARP_SIZE)
        threads[linear].block = block
        threads[linear].state = warps + WARP_BYTES * int64(linear // WARP_SIZE) + 4 * int64(linear % WARP_SIZE)
        threads[linear].fuel = uint32(FUEL)
    return block


def begin(block: Any, index: Any) -> None:
    """Sets the index of a block, which joins its cluster."""
    record = array_at(Block, block)
    record[0].index, record[0].cluster_idx = index, index
    shadow_memory.begin_moment(block)
    clusters = array_at(Control, record[0].control)[0].clusters
    if clusters != 0:
        size = record[0].cluster_dim
        cluster = uint32x3(index.x // size.x, index.y // size.y, index.z // size.z)
        rank = index.x % size.x + size.x * (index.y % size.y + size.y * (index.z % size.z))
        line = cluster.y + record[0].grid.y // size.y * cluster.z
        number = int64(cluster.x) + int64(record[0].grid.x // size.x) * int64(line)
        record[0].cluster_idx, record[0].block_rank = cluster, rank
        record[0].cluster = clusters + 8 * number * (CLUSTER_WORDS + size.x * size.y * size.z)
        join_cluster(block)


def join_cluster(block: Any) -> None:
    """Takes the shared memory of a block from its cluster. The first block allocates that of all, whose addresses any may ask."""
    record = array_at(Block, block)
    words, static = array_at(int64, record[0].cluster), record[0].shared_bytes - record[0].dynamic_bytes
    for other in range(record[0].cluster_dim.x * record[0].cluster_dim.y * record[0].cluster_dim.z):
        address = atomic_ref(words, CLUSTER_WORDS + other)
        if address.load("acquire") == 0:
            memory = allocate(record[0].shared_bytes, SHARED_ALIGNMENT)
            if address.cas(int64(0), memory, "acq_rel") != 0:
                free(memory)
    record[0].shared = words[CLUSTER_WORDS + record[0].block_rank]
    record[0].dynamic = record[0].shared + static


def leave_cluster(block: Any) -> None:
    """Ends a block of a cluster, if it is in one. The last block frees the shared memory of all, which others may have read."""
    record = array_at(Block, block)
    if record[0].cluster != 0:
        words = array_at(int64, record[0].cluster)
        size = record[0].cluster_dim.x * record[0].cluster_dim.y * record[0].cluster_dim.z
        if atomic_ref(words, 1).add(int64(1), "acq_rel") == size - 1:
            for other in range(size):
                free(words[CLUSTER_WORDS + other])
        record[0].cluster, record[0].shared = int64(0), int64(0)


def start(block: Any, frame: Any) -> None:
    """Starts all threads of a block. The words at the start of a warp's frame are the regions where its lanes continue."""
    record = array_at(Block, block)
    words = array_at(uint32, record[0].words)
    for i in range(BLOCK_WORDS):
        words[i] = uint32(0)
    for w in range(warps_of(block)):
        points = array_at(uint32, record[0].frames + frame * w)
        for lane in range(WARP_SIZE):
            points[lane] = uint32(0)
        resume_lanes(block, w, lanes_of(block, w))


def dismiss(block: Any) -> None:
    """Frees the memory of a block."""
    record = array_at(Block, block)
    leave_cluster(block)
    free(record[0].warps)
    free(record[0].threads)
    free(record[0].frames)
    free(record[0].shared)
    shadow_memory.free_watch(record[0].watch)
    free(block)


# Turns


def warps_of(block: Any) -> Any:
    """The number of warps of a block."""
    return int64(array_at(Block, block)[0].count + (WARP_SIZE - 1)) // WARP_SIZE


def lanes_of(block: Any, warp: Any) -> Any:
    """The lanes of a warp that exist."""
    return uint32(ALL) >> (WARP_SIZE - min(WARP_SIZE, int(array_at(Block, block)[0].count) - WARP_SIZE * int(warp)))


def schedule(block: Any) -> Any:
    """Runs a block until all its threads have returned, or those that are left seem to wait for another block: a `Turn`."""
    record = array_at(Block, block)
    control, warps, warp_count = record[0].control, record[0].warps, warps_of(block)
    most = _PATIENCE if array_at(Control, control)[0].step == 0 else 1
    patience, before, turn, moved = most, -1, int64(0), False
    while not stopped(control):
        turn += 1
        verdict = settle(block)
        if verdict == Verdict.OVER:
            break
        if verdict == Verdict.TOGETHER:
            shadow_memory.begin_moment(block)
            for position in range(warp_count):
                w = permuted(control, position, warp_count, turn)
                resume_lanes(block, w, lanes_between(warps + WARP_BYTES * w + WORDS, 1, ALL))
            patience, before, moved = most, -1, True
            continue
        progress = False
        for position in range(warp_count):
            progress |= meetings.go_on(block, permuted(control, position, warp_count, turn))
        yields, changes = turns(block, warps, warp_count, turn)
        progress |= changes
        moved |= progress or yields != 0
        if yields == 0 and not progress:
            if farthest(block) != Reach.BLOCK:
                return Turn.GOING if moved else Turn.STUCK
            deadlock(block, Status.DEADLOCK)
            break
        patience = most if progress or yields != before else patience - 1
        before = yields
        if patience == 0:
            return Turn.GOING
    return Turn.OVER


def settle(block: Any) -> Any:
    """Looks for a barrier at which all live threads wait, those of each warp at one place; joins the flags that they bring."""
    record = array_at(Block, block)
    warps, warp_count = record[0].warps, warps_of(block)
    common = uint32(0)
    threads: Any = 0
    flags: Any = 0
    for w in range(warp_count):
        warp = warps + WARP_BYTES * w
        greatest = most(row(warp, WORDS))
        if greatest != 0:
            live, kind = lanes_between(warp + WORDS, 1, ALL), greatest >> KIND_SHIFT
            agree = live == lanes_between(warp + WORDS, greatest, greatest)
            if not agree or kind > Suspension.OR or (common != 0 and common != kind):
                return Verdict.MIXED
            common = kind
            flags += popc(lanes_between(warp + LOWS, 1, ALL) & live)
            threads += popc(live)
    if common == 0:
        return Verdict.OVER
    if array_at(Control, record[0].control)[0].checked != 0 and not together(block):
        deadlock(block, Status.DIVERGENT_BARRIER)
        return Verdict.MIXED
    if common != Suspension.BARRIER:
        result = flags
        if common != Suspension.COUNT:
            result = int(flags == threads) if common == Suspension.AND else int(flags != 0)
        for w in range(warp_count):
            lows = row(warps + WARP_BYTES * w, LOWS)
            for lane in range(WARP_SIZE):
                lows[lane] = result
    return Verdict.TOGETHER


def exchange(block: Any, kind: Any) -> None:
    """Exchanges the operands of the lanes of each warp, all of which wait at one operation."""
    record = array_at(Block, block)
    for w in range(warps_of(block)):
        meetings.exchange(record[0].warps + WARP_BYTES * w, lanes_of(block, w), uint32(0), kind)


def together(block: Any) -> Any:
    """Whether all threads of the block wait at the same place; none has returned then."""
    record = array_at(Block, block)
    warps = record[0].warps
    word, same = array_at(uint32, warps)[0], True
    for i in range(record[0].count):
        same &= word_of(warps, i) == word
    return same


def word_of(warps: Any, thread: Any) -> Any:
    """The word of a thread."""
    return row(warps + WARP_BYTES * int64(thread // WARP_SIZE), WORDS)[thread % WARP_SIZE]


def turns(block: Any, warps: Any, warp_count: Any, turn: Any) -> Any:
    """Resumes each thread that has yielded, or whose number in memory has changed; returns how many have yielded, and the latter.

    A thread runs once, unless the launch's schedule delays its warp.
    """
    total: Any = 0
    changes = False
    control = array_at(Block, block)[0].control
    for position in range(warp_count):
        w = permuted(control, position, warp_count, turn)
        warp = warps + WARP_BYTES * w
        ready = lanes_between(warp + WORDS, _YIELDED, _YIELDED | PLACE_MASK)
        total += popc(ready)
        waiting = lanes_between(warp + WORDS, _FIRST_WORD, _LAST_WORD)
        if waiting != 0:
            changed = meetings.changed(warp, waiting)
            changes |= changed != 0
            ready |= changed
        if not delays(control):
            resume_lanes(block, w, ready)
    return total, changes


_YIELDED = Suspension.YIELD << KIND_SHIFT
_FIRST_WORD, _LAST_WORD = Suspension.WORD8 << KIND_SHIFT, Suspension.WORD64 << KIND_SHIFT | PLACE_MASK


def delays(control: Any) -> Any:
    """Whether a schedule delays a warp, as it does half of the time."""
    launch = array_at(Control, control)
    if launch[0].step == 0:
        return False
    launch[0].turns += 1
    number = uint64(launch[0].turns) * uint64(launch[0].step) + uint64(launch[0].seed)
    return (number ^ number >> 9) & 1 == 1


# Waits that nothing can end
#
# A block whose threads all wait for each other, or for numbers in its own shared memory, is a deadlock at once. Others are put
# aside. The workers that can only visit such blocks agree on a deadlock: each of them has seen, since the last activity of any,
# that no number has changed. If the numbers are in memory to which others than the launch may write, it agrees after a second,
# and if `judge`, a function of the host, knows nobody who could write there.


def farthest(block: Any) -> Any:
    """Who may write to the numbers for which the threads of a block wait: the most of them, a `Reach`."""
    record = array_at(Block, block)
    result = int(Reach.BLOCK)
    for w in range(warps_of(block)):
        warp = record[0].warps + WARP_BYTES * w
        waiting = lanes_between(warp + WORDS, _FIRST_WORD, _LAST_WORD)
        while waiting != 0:
            result = max(result, reach(block, meetings.awaited(warp, meetings.first(waiting))))
            waiting &= waiting - 1
    return result


def reach(block: Any, address: Any) -> Any:
    """Who may write to an address for which a thread of a block waits."""
    record = array_at(Block, block)
    control, cluster = record[0].control, record[0].cluster
    launch = array_at(Control, control)
    size = int64(record[0].cluster_dim.x * record[0].cluster_dim.y * record[0].cluster_dim.z)
    if within(address, block, _RECORD_BYTES + _WORDS_BYTES):
        return int(Reach.BLOCK)
    if within(address, record[0].shared, record[0].shared_bytes):
        return int(Reach.BLOCK) if cluster == 0 else int(Reach.LAUNCH)
    if within(address, control, Control.itemsize):
        return int(Reach.LAUNCH)
    if cluster != 0:
        if within(address, launch[0].clusters, launch[0].blocks // size * (size + CLUSTER_WORDS) * 8):
            return int(Reach.LAUNCH)
        for rank in range(size):
            if within(address, array_at(int64, cluster)[CLUSTER_WORDS + rank], record[0].shared_bytes):
                return int(Reach.LAUNCH)
    return int(Reach.OTHERS)


def within(address: Any, first: Any, bytes: Any) -> Any:
    """Whether an address is in a range."""
    return first <= address < first + bytes


def epoch_of(control: Any) -> Any:
    """The number of the workers' activities."""
    return atomic_ref(array_at(Control, control)["epoch"], 0).load("acquire")


def count(control: Any, workers: Any) -> None:
    """Counts an activity: a worker has begun, has ended, or has run threads."""
    launch = array_at(Control, control)
    atomic_ref(launch["present"], 0).add(workers, "acq_rel")
    atomic_ref(launch["epoch"], 0).add(1, "acq_rel")


def agree(control: Any, aside: Any, waiting: Any, left: Any, epoch: Any, rest: Any) -> None:
    """Agrees that nothing can end the waits of the blocks that were put aside, and reports a deadlock if all workers agree.

    `rest` has the epoch in which this worker has agreed, that in which it began to wait, the time then, and the number of visits
    since all workers have agreed.
    """
    launch = array_at(Control, control)
    agreed = atomic_ref(launch["agreed"], 0)
    if rest[0] != epoch:
        if not is_hopeless(control, aside, waiting, left, epoch, rest):
            return
        rest[0], rest[3] = epoch, 0
        old = agreed.load("acquire")
        while True:
            new = old + 1 if old >> 16 == epoch else epoch << 16 | 1
            before = agreed.cas(old, new, "acq_rel")
            if before == old:
                break
            old = before
    workers = atomic_ref(launch["present"], 0).load("acquire")
    if agreed.load("acquire") == epoch << 16 | workers and epoch_of(control) == epoch:
        # The block that explains most waits for a number in its shared memory; another worker may have one.
        chosen = 0
        while chosen < waiting and not waits_for_own(aside[chosen]):
            chosen += 1
        rest[3] += 1
        if chosen < waiting or rest[3] > _VISITS:
            deadlock(aside[chosen % waiting], Status.DEADLOCK)


def waits_for_own(block: Any) -> Any:
    """Whether a thread of a block waits for a number in the block's own shared memory."""
    record = array_at(Block, block)
    result = False
    for w in range(warps_of(block)):
        warp = record[0].warps + WARP_BYTES * w
        waiting = lanes_between(warp + WORDS, _FIRST_WORD, _LAST_WORD)
        while waiting != 0:
            result |= within(meetings.awaited(warp, meetings.first(waiting)), record[0].shared, record[0].shared_bytes)
            waiting &= waiting - 1
    return result


def is_hopeless(control: Any, aside: Any, waiting: Any, left: Any, epoch: Any, rest: Any) -> Any:
    """Whether only other threads of the launch could end the waits of the blocks that were put aside."""
    widest = int(Reach.OTHERS) if left > 0 else int(Reach.BLOCK)
    for i in range(waiting):
        widest = max(widest, farthest(aside[i]))
    if widest < Reach.OTHERS:
        return True
    now = nanoseconds()
    if rest[1] != epoch:
        rest[1], rest[2] = epoch, now
    if now - rest[2] < _SECOND:
        return False
    rest[2] = now
    open_to_others = False
    for i in range(waiting):
        open_to_others |= is_open(aside[i])
    return not open_to_others


def is_open(block: Any) -> Any:
    """Whether others than the launch may write to a number for which a thread of the block waits."""
    record = array_at(Block, block)
    judge = array_at(Control, record[0].control)[0].judge
    last, answer = int64(0), False
    for w in range(warps_of(block)):
        warp = record[0].warps + WARP_BYTES * w
        waiting = lanes_between(warp + WORDS, _FIRST_WORD, _LAST_WORD)
        while waiting != 0:
            address = meetings.awaited(warp, meetings.first(waiting))
            waiting &= waiting - 1
            if address != last and reach(block, address) == Reach.OTHERS:
                answer |= ask(judge, address) != 0
            last = address
    return answer


def deadlock(block: Any, status: Any) -> None:
    """Reports a block: its index, where each of its threads waits, and for which number in memory."""
    record = array_at(Block, block)
    control, threads = record[0].control, int64(record[0].count)
    if claim(control):
        launch = array_at(Control, control)
        launch[0].report_block = record[0].index
        waiting = array_at(uint32, control + _WAITING)
        numbers = allocate(16 * threads) if status == Status.DEADLOCK else int64(0)
        launch[0].numbers = numbers
        for i in range(threads):
            word = word_of(record[0].warps, i)
            waiting[i] = word
            if numbers != 0 and _FIRST_WORD <= word <= _LAST_WORD:
                address = meetings.awaited(record[0].warps + WARP_BYTES * (i // WARP_SIZE), i % WARP_SIZE)
                array_at(uint64, numbers)[i] = meetings.number_at(address, word >> KIND_SHIFT)
                array_at(int64, numbers)[threads + i] = address
        publish(control, status)


_ENTRIES: dict[str, tuple[Callable[..., Any], tuple[Type, ...]]] = {
    "blocks": (blocks, (INT64,) * 4),
    "crew": (crew, (INT64,) * 4),
    "settle": (settle, (INT64,)),
    "exchange": (exchange, (INT64, UINT32)),
    "keep": (meetings.keep, (INT64, *(type_of_hint(uint32x3),) * 2, UINT32, UINT32, INT64, INT64)),
    "trace": (shadow_memory.trace, (INT64, UINT32, INT64, INT64, UINT32)),
}


def scheduler_text(symbol: str) -> str:
    """LLVM IR of a function that kernels call, such as `cuda_device.crew`."""
    return host_code.function_text(*_ENTRIES[symbol.removeprefix("cuda_device.")], symbol)
