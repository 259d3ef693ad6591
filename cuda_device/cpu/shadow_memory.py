"""The race detector's shadow memory on the CPU, which checks accesses as they happen; written in Python like `scheduler`.

    trace(thread, place, value, done)        records an event of a thread in the log, or checks it here

If only barriers order the threads of a kernel, each access is checked immediately against a shadow cell, as in FastTrack. An
epoch consists of two numbers: the thread; and the moment, with the place in the program. A moment is the execution of a block
from one barrier to the next. A cell stores the epochs of the last write and, since then, of two reads, two atomic operations and
two atomic loads. These suffice: a later access that races with one that was dropped also races with one that was kept. The log
then contains only races: two events, the first access and the second.

    cell    threads of 0 write, 1 and 2 reads, 3 and 4 atomic operations, 5 and 6 atomic loads; 7 to 13 their moments and places

A shadow is an array of cells. Each page of memory has one, and each block has one for its shared memory. Several blocks use that
memory one after the other. In its cells, all threads count as threads of block 0, so only those of one moment race.
"""

from __future__ import annotations

from typing import Any

from numpy import int64, uint32, uint64

from cuda_device.cpu.host_code import allocate, call
from cuda_device.cpu.records import BLOCK, EVENT, LOG, THREAD
from cuda_device.device.memory import array_at

Block, Event, Log, Thread = (record.dtype for record in (BLOCK, EVENT, LOG, THREAD))
WHEN = 7
"""The distance of the two numbers of an epoch in a cell."""
CELL_BYTES = 2 * WHEN * 8
PAGE = 4096
"""The number of bytes of memory with one shadow."""
HASH = 0x9E3779B97F4A7C1
"""The hash of a page is its number times this, without the low bits."""
HASH_SHIFT = 20
READ, WRITE, ATOMIC, ATOMIC_READ, CAS, NOTHING = range(6)
"""The kinds of places. The number of a place consists of its kind (3 bits), its memory (2 bits) and the size of the access."""
WROTE, SAME = 1, 2
_SHARED, _GENERIC = 8, 16
_BYTES_SHIFT = 5
BELOW = 1 << 32
"""More than the size of shared memory. Events have an offset in shared memory less this, which is below 0, as the address."""
# Who: the number of a block, a one, the number of a thread in its block. When: the number of a moment, that of a place.
_BLOCK_SHIFT = 11
_PRESENT = 1024
WHEN_SHIFT = 24
PLACE_MASK = (1 << WHEN_SHIFT) - 1


def kind_of(kind: int, size: int, *, shared: bool, generic: bool) -> int:
    """The number of a place."""
    return kind | _SHARED * shared | _GENERIC * generic | size << _BYTES_SHIFT


def trace(thread: Any, place: Any, value: Any, done: Any) -> None:
    """Reports an event of a thread to the race detector. The launch has one worker, so this needs no atomic operations."""
    own = array_at(Thread, thread)
    of = array_at(Block, own[0].block)
    to = array_at(Log, of[0].log)
    if to[0].kinds == 0:
        tell(of[0].log, number_of(own[0].block), own[0].linear, place, value, done)
        return
    number = array_at(int64, to[0].kinds)[place]
    kind, bytes, shared = number & 7, number >> _BYTES_SHIFT, number & _SHARED != 0
    if number & _GENERIC != 0 and of[0].shared <= value < of[0].dynamic + of[0].dynamic_bytes:
        value, shared = value - of[0].shared, True
    if kind == CAS:
        kind = int64(ATOMIC) if done != 0 else int64(ATOMIC_READ)
    if kind != NOTHING:
        block = int64(0) if shared else number_of(own[0].block)
        who = block << _BLOCK_SHIFT | _PRESENT | int64(own[0].linear)
        when, end = of[0].moment << WHEN_SHIFT | int64(place), value + bytes
        while value < end:
            cell, unit = shadow_of(own[0].block, value, shared)
            check(own[0].block, cell, value - BELOW if shared else value, who, when, kind, done)
            value += unit


def shadow_of(block: Any, value: Any, shared: Any) -> Any:
    """The address of the cell of a location, and the number of bytes that it stands for.

    An address in shared memory counts from where that of the block begins.
    """
    of = array_at(Block, block)
    to = array_at(Log, of[0].log)
    if shared:
        return of[0].cells + CELL_BYTES * (value >> (to[0].shared_shift & 63)), of[0].unit
    shift, page = to[0].shift & 63, value // PAGE
    at = 2 * uint64(page * HASH >> HASH_SHIFT & to[0].mask)
    pages = array_at(int64, to[0].pages)
    cells = pages[at + 1] if pages[at] == page else search(of[0].log, page)
    return cells + CELL_BYTES * ((value & (PAGE - 1)) >> shift), int64(1) << shift


def number_of(block: Any) -> Any:
    """The number of a block in the grid, counted along x first."""
    of = array_at(Block, block)
    plane = int64(of[0].index_z) * of[0].grid_y + of[0].index_y
    return plane * of[0].grid_x + of[0].index_x


def prepare(block: Any, size: Any) -> None:
    """Gives a block the shadow of its `size` bytes of shared memory, if its accesses are checked here."""
    of = array_at(Block, block)
    of[0].cells, of[0].unit = int64(0), int64(0)
    if of[0].log != 0:
        to = array_at(Log, of[0].log)
        if to[0].kinds != 0:
            shift = to[0].shared_shift & 63
            count = (int64(size) >> shift) + 1
            of[0].cells, of[0].unit = allocate(CELL_BYTES * count), int64(1) << shift
            cells = array_at(int64, of[0].cells)
            for i in range(CELL_BYTES // 8 * count):
                cells[i] = int64(0)


def tick(block: Any) -> None:
    """A new moment of a block begins."""
    of = array_at(Block, block)
    if of[0].log != 0:
        to = array_at(Log, of[0].log)
        to[0].moments += 1
        of[0].moment = to[0].moments


def tell(log: Any, block: Any, linear: Any, place: Any, value: Any, done: Any) -> None:
    """Appends an event to the log."""
    to = array_at(Log, log)
    events, at = array_at(Event, to[0].events), to[0].count
    events[at].block, events[at].thread, events[at].place = block, linear, place
    events[at].value, events[at].done = value, done
    to[0].count = at + 1
    if at + 1 == to[0].capacity:
        call(to[0].full, log)


def search(log: Any, page: Any) -> Any:
    """The shadow of a page that is not at the place of its hash, or does not exist yet."""
    to = array_at(Log, log)
    at = page * HASH >> HASH_SHIFT & to[0].mask
    pages = array_at(int64, to[0].pages)
    while pages[2 * at] != page:
        if pages[2 * at] == 0:
            to[0].missing = page
            call(to[0].grow, log)
            pages = array_at(int64, to[0].pages)
            at = page * HASH >> HASH_SHIFT & to[0].mask
        else:
            at = at + 1 & to[0].mask
    return pages[2 * at + 1]


def check(block: Any, shadow: Any, address: Any, who: Any, when: Any, kind: Any, done: Any) -> None:
    """Reports a race of an access with one in the cell at `shadow`, and adds the access to the cell.

    In the second of the two events, `done` is 0 for a read, `WROTE`, or `WROTE | SAME` for a store that changes nothing.
    """
    cell = array_at(int64, shadow)
    other = conflict(cell, who, when, kind)
    if other >= 0:
        tell_access(block, address, cell[other], cell[other + WHEN], int64(other in (0, 3, 4)))
        same = SAME if kind == WRITE and done != 0 else 0
        tell_access(block, address, who, when, WROTE | same if kind in (WRITE, ATOMIC) else 0)
    if kind == WRITE:
        cell[0], cell[WHEN] = who, when
        for one in range(1, WHEN):
            cell[one] = int64(0)
    else:
        remember(cell, 1 if kind == READ else 3 if kind == ATOMIC else 5, who, when)


def conflict(cell: Any, who: Any, when: Any, kind: Any) -> Any:
    """The position in a cell of an access that races with this one; -1 if there is none."""
    if races(cell, 0, who, when):
        return 0
    at = racing(cell, 1, who, when) if kind in (WRITE, ATOMIC) else -1
    if at < 0 and kind in (WRITE, READ):
        at = racing(cell, 3, who, when)
    if at < 0 and kind == WRITE:
        at = racing(cell, 5, who, when)
    return at


def racing(cell: Any, one: Any, who: Any, when: Any) -> Any:
    """The position of one of two accesses of a kind that races with this one; -1 if there is none."""
    if races(cell, one, who, when):
        return one
    return one + 1 if races(cell, one + 1, who, when) else -1


def remember(cell: Any, one: Any, who: Any, when: Any) -> None:
    """Keeps a read or an atomic operation unless the two in the cell represent it: those of two blocks, or of one moment."""
    two = one + 1
    block, moment = who >> _BLOCK_SHIFT, when >> WHEN_SHIFT
    first, second = cell[one] >> _BLOCK_SHIFT, cell[two] >> _BLOCK_SHIFT
    if cell[one] == 0 or cell[one] == who:
        cell[one], cell[one + WHEN] = who, when
    elif cell[two] == 0 or cell[two] == who:
        cell[two], cell[two + WHEN] = who, when
    elif first == block and cell[one + WHEN] >> WHEN_SHIFT < moment:
        cell[one], cell[one + WHEN] = who, when
    elif (second == block and cell[two + WHEN] >> WHEN_SHIFT < moment) or (first != block and second == first):
        cell[two], cell[two + WHEN] = who, when


def races(cell: Any, one: Any, who: Any, when: Any) -> Any:
    """Whether an earlier access is unordered: that of another thread, in another block or in the same moment."""
    first = cell[one]
    return (
        first != 0
        and first != who
        and (first >> _BLOCK_SHIFT != who >> _BLOCK_SHIFT or cell[one + WHEN] >> WHEN_SHIFT == when >> WHEN_SHIFT)
    )


def tell_access(block: Any, address: Any, who: Any, when: Any, done: Any) -> None:
    """Appends one of two racing accesses to the log. An address in shared memory is negative."""
    number = number_of(block) if address < 0 else who >> _BLOCK_SHIFT
    linear, place = uint32(who & (_PRESENT - 1)), uint32(when & PLACE_MASK)
    tell(array_at(Block, block)[0].log, number, linear, place, address, int64(done))
