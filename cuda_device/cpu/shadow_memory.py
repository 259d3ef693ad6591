"""The race detector's shadow memory on the CPU, which checks accesses as they happen; written in Python like `scheduler`.

    trace(thread, place, value, done, flags)    records an event of a thread in the log, or checks it here

If only barriers order the threads of a kernel, each access is checked immediately against a cell of the shadow, as in FastTrack.
An access is represented by two numbers: its `actor`, which is the thread, and its `time`, which is a moment and the place in the
program. A moment is the execution of a block from one barrier to the next. A cell has slots for the last write and, since then,
two reads, two atomic operations and two atomic loads. These suffice: a later access that races with one that was dropped also
races with one that was kept. The log then contains only races: two events, the first access and the second.

    cell    the actors of slot 0 (write), 1 and 2 (reads), 3 and 4 (atomic operations), 5 and 6 (atomic loads); then their times

A shadow is an array of cells. Each page of memory has one, and each block has one for its shared memory. Several blocks use that
memory one after the other. In its cells, all threads count as threads of block 0, so only those of one moment race.
"""

from __future__ import annotations

from typing import Any

from numpy import int64, uint32, uint64

from cuda_device.cpu.host_code import allocate, call, free
from cuda_device.cpu.records import (
    BLOCK,
    CLUSTER_WORDS,
    EVENT,
    GENERIC,
    HUSHES,
    LOG,
    MAXIMUM_THREADS,
    SKIPPED,
    THREAD,
    WAKES,
    WATCH,
)
from cuda_device.device.memory import array_at

Block, Event, Log, Thread, Watch = (record.dtype for record in (BLOCK, EVENT, LOG, THREAD, WATCH))

_QUIET = WATCH.offset("quiet")
# A cell: the actors of all slots, then their times. An empty slot has actor 0.
LAST_WRITE, READS, ATOMICS, ATOMIC_READS = 0, 1, 3, 5
SLOTS = 7
CELL_BYTES = 2 * SLOTS * 8
# An actor: the number of the block, a one, the number of the thread in its block. A time: the number of the moment, that of the
# place in the program.
_BLOCK_SHIFT = 11
_PRESENT = 1024
_MOMENT_SHIFT = 24
_PLACE_MASK = (1 << _MOMENT_SHIFT) - 1

PAGE = 4096
"""The number of bytes of memory with one shadow."""
ENTRIES = 1 << 16
"""The number of entries of the table of pages: the number of a page, and the address of its shadow."""
_HASH, _HASH_SHIFT = 0x9E3779B97F4A7C1, 20
BELOW = 1 << 32
"""More than the size of shared memory. Events have an offset in shared memory less this, which is below 0, as the address."""

READ, WRITE, ATOMIC, ATOMIC_READ, CAS = range(5)
"""The kinds of places. The number of a place consists of its kind (3 bits), its memory (1 bit) and the size of the access."""
_KIND_MASK, _SHARED, _BYTES_SHIFT = 7, 8, 4
WROTE, SAME = 1, 2
"""The bits of `done` in the second event of a race: it wrote; it stored what was in memory already."""


def entry_of(page: int) -> int:
    """The place in the table of the entry for a page, which other pages may need as well."""
    return 2 * (page * _HASH >> _HASH_SHIFT & (ENTRIES - 1))


def kind_of(kind: int, size: int, *, shared: bool) -> int:
    """The number of a place."""
    return kind | _SHARED * shared | size << _BYTES_SHIFT


# The records of blocks


def watch_of(log: Any, shared_bytes: Any) -> Any:
    """Allocates the detector's record of a block, with the shadow of its shared memory if accesses are checked here.

    Returns 0 if the launch has no log.
    """
    if log == 0:
        return int64(0)
    address = allocate(Watch.itemsize)
    watch, kinds = array_at(Watch, address), array_at(Log, log)[0].kinds
    watch[0].log, watch[0].cells, watch[0].unit = log, int64(0), int64(0)
    quiet = array_at(uint32, address + _QUIET)
    for i in range(MAXIMUM_THREADS):
        quiet[i] = uint32(0)
    if kinds != 0:
        shift = array_at(Log, log)[0].shared_shift & 63
        count = (int64(shared_bytes) >> shift) + 1
        watch[0].cells, watch[0].unit = allocate(CELL_BYTES * count), int64(1) << shift
        words = array_at(int64, watch[0].cells)
        for i in range(CELL_BYTES // 8 * count):
            words[i] = int64(0)
    return address


def free_watch(address: Any) -> None:
    """Frees the detector's record of a block, if there is one."""
    if address != 0:
        free(array_at(Watch, address)[0].cells)
        free(address)


def begin_moment(block: Any) -> None:
    """A new moment of a block begins."""
    address = array_at(Block, block)[0].watch
    if address != 0:
        watch = array_at(Watch, address)
        log = array_at(Log, watch[0].log)
        log[0].moments += 1
        watch[0].moment = log[0].moments


def number_of(block: Any) -> Any:
    """The number of a block in the grid, counted along x first."""
    record = array_at(Block, block)
    plane = int64(record[0].index.z) * record[0].grid.y + record[0].index.y
    return plane * record[0].grid.x + record[0].index.x


# Events


def trace(thread: Any, place: Any, value: Any, done: Any, flags: Any) -> None:
    """Reports an event of a thread to the race detector. The launch has one worker, so this needs no atomic operations."""
    record = array_at(Thread, thread)
    block = array_at(Block, record[0].block)
    watch = array_at(Watch, block[0].watch)
    log = array_at(Log, watch[0].log)
    if log[0].kinds == 0:
        quiet = array_at(uint32, block[0].watch + _QUIET)
        if flags & (HUSHES | WAKES) != 0:
            quiet[record[0].linear] = flags & HUSHES
        if flags & SKIPPED == 0 or quiet[record[0].linear] == 0:
            address = in_shared_memory(record[0].block, value) if flags & GENERIC != 0 else value
            append(watch[0].log, number_of(record[0].block), record[0].linear, place, address, done)
        return
    number = array_at(int64, log[0].kinds)[place]
    kind, size, shared = number & _KIND_MASK, number >> _BYTES_SHIFT, number & _SHARED != 0
    if kind == CAS:
        kind = int64(ATOMIC) if done != 0 else int64(ATOMIC_READ)
    owner = int64(0) if shared else number_of(record[0].block)
    actor = owner << _BLOCK_SHIFT | _PRESENT | int64(record[0].linear)
    time, end = watch[0].moment << _MOMENT_SHIFT | int64(place), value + size
    while value < end:
        cell, unit = cell_of(block[0].watch, value, shared)
        check_access(record[0].block, cell, value - BELOW if shared else value, actor, time, kind, done)
        value += unit


def in_shared_memory(block: Any, address: Any) -> Any:
    """An address that may be in the shared memory of a block of the cluster, as the number that races has for it."""
    record = array_at(Block, block)
    size = record[0].dynamic + record[0].dynamic_bytes - record[0].shared
    if record[0].shared <= address < record[0].shared + size:
        return address - record[0].shared - (number_of(block) + 1) * BELOW
    if record[0].cluster != 0:
        wide, high, deep = record[0].cluster_dim
        begins = array_at(int64, record[0].cluster)
        for rank in range(wide * high * deep):
            begin = begins[CLUSTER_WORDS + rank]
            if begin <= address < begin + size:
                x = int64(record[0].cluster_idx.x * wide + rank % wide)
                y = int64(record[0].cluster_idx.y * high + rank // wide % high)
                z = int64(record[0].cluster_idx.z * deep + rank // wide // high)
                number = (z * record[0].grid.y + y) * record[0].grid.x + x
                return address - begin - (number + 1) * BELOW
    return address


def append(log_address: Any, block: Any, thread: Any, place: Any, value: Any, done: Any) -> None:
    """Appends an event to the log. `block` and `thread` are numbers."""
    log = array_at(Log, log_address)
    events, count = array_at(Event, log[0].events), log[0].count
    events[count].block, events[count].thread, events[count].place = block, thread, place
    events[count].value, events[count].done = value, done
    log[0].count = count + 1
    if count + 1 == log[0].capacity:
        call(log[0].full, log_address)


def append_access(block: Any, address: Any, actor: Any, time: Any, done: Any) -> None:
    """Appends one of two racing accesses to the log. An address in shared memory is negative."""
    number = number_of(block) if address < 0 else actor >> _BLOCK_SHIFT
    thread, place = uint32(actor & (_PRESENT - 1)), uint32(time & _PLACE_MASK)
    watch = array_at(Watch, array_at(Block, block)[0].watch)
    append(watch[0].log, number, thread, place, address, int64(done))


# Cells


def cell_of(watch_address: Any, value: Any, shared: Any) -> Any:
    """The address of the cell of a location, and the number of bytes that it stands for.

    An address in shared memory counts from where that of the block begins.
    """
    watch = array_at(Watch, watch_address)
    log = array_at(Log, watch[0].log)
    if shared:
        return watch[0].cells + CELL_BYTES * (value >> (log[0].shared_shift & 63)), watch[0].unit
    shift, page = log[0].shift & 63, value // PAGE
    pages, entry = array_at(int64, log[0].pages), uint64(entry_of(page))
    if pages[entry] != page:
        log[0].missing = page
        call(log[0].fetch, watch[0].log)
    return pages[entry + 1] + CELL_BYTES * ((value & (PAGE - 1)) >> shift), int64(1) << shift


def check_access(block: Any, cell_address: Any, address: Any, actor: Any, time: Any, kind: Any, done: Any) -> None:
    """Reports a race of an access with one in a cell, and adds the access to the cell."""
    cell = array_at(int64, cell_address)
    slot = racing_slot(cell, actor, time, kind)
    if slot >= 0:
        wrote = int64(slot in (LAST_WRITE, ATOMICS, ATOMICS + 1))
        append_access(block, address, cell[slot], cell[slot + SLOTS], wrote)
        same = SAME if kind == WRITE and done != 0 else 0
        append_access(block, address, actor, time, WROTE | same if kind in (WRITE, ATOMIC) else 0)
    if kind == WRITE:
        cell[LAST_WRITE], cell[LAST_WRITE + SLOTS] = actor, time
        for other in range(READS, SLOTS):
            cell[other] = int64(0)
    else:
        remember(cell, READS if kind == READ else ATOMICS if kind == ATOMIC else ATOMIC_READS, actor, time)


def racing_slot(cell: Any, actor: Any, time: Any, kind: Any) -> Any:
    """The slot of an access that races with this one; -1 if there is none."""
    if races(cell, LAST_WRITE, actor, time):
        return LAST_WRITE
    slot = racing_of_two(cell, READS, actor, time) if kind in (WRITE, ATOMIC) else -1
    if slot < 0 and kind in (WRITE, READ):
        slot = racing_of_two(cell, ATOMICS, actor, time)
    if slot < 0 and kind == WRITE:
        slot = racing_of_two(cell, ATOMIC_READS, actor, time)
    return slot


def racing_of_two(cell: Any, first: Any, actor: Any, time: Any) -> Any:
    """The one of the two slots of a kind whose access races with this one; -1 if there is none."""
    if races(cell, first, actor, time):
        return first
    return first + 1 if races(cell, first + 1, actor, time) else -1


def races(cell: Any, slot: Any, actor: Any, time: Any) -> Any:
    """Whether an earlier access is unordered: that of another thread, in another block or in the same moment."""
    other = cell[slot]
    same_block = other >> _BLOCK_SHIFT == actor >> _BLOCK_SHIFT
    same_moment = cell[slot + SLOTS] >> _MOMENT_SHIFT == time >> _MOMENT_SHIFT
    return other != 0 and other != actor and (not same_block or same_moment)


def remember(cell: Any, first: Any, actor: Any, time: Any) -> None:
    """Keeps a read or an atomic operation unless the two in the cell represent it: those of two blocks, or of one moment."""
    second = first + 1
    block, moment = actor >> _BLOCK_SHIFT, time >> _MOMENT_SHIFT
    block_of_first, block_of_second = cell[first] >> _BLOCK_SHIFT, cell[second] >> _BLOCK_SHIFT
    first_is_old = block_of_first == block and cell[first + SLOTS] >> _MOMENT_SHIFT < moment
    second_is_old = block_of_second == block and cell[second + SLOTS] >> _MOMENT_SHIFT < moment
    if cell[first] == 0 or cell[first] == actor:
        cell[first], cell[first + SLOTS] = actor, time
    elif cell[second] == 0 or cell[second] == actor:
        cell[second], cell[second + SLOTS] = actor, time
    elif first_is_old:
        cell[first], cell[first + SLOTS] = actor, time
    elif second_is_old or (block_of_first != block and block_of_second == block_of_first):
        cell[second], cell[second + SLOTS] = actor, time
