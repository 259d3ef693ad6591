"""What threads on the CPU tell the race detector, and the check of plain kernels' accesses, in our own Python, as `scheduler`.

    trace(thread, place, value, done)        what a thread does: an event in the log, or a check here

Where barriers alone order the threads of a kernel, each access is checked at once against a shadow cell, as FastTrack does. An
epoch is two numbers: who it was, and how many barriers the thread had passed, with the place in the program. A cell keeps the
last write and, since then, two reads and two atomic operations: enough that any later access which races with one that was
dropped races with one that was kept. The log then gets races alone: two events, the first of the accesses and the second.

    cell    0 write, 2 and 4 reads, 6 and 8 atomic operations: two numbers each; 10 the block that last used shared memory
"""

from __future__ import annotations

from typing import Any

from numpy import int64, uint32

from cuda_device.codegen.cpu.host_code import call
from cuda_device.codegen.cpu.records import BLOCK, CONTROL, EVENT, LOG, THREAD
from cuda_device.device.memory import array_at

Block, Control, Event, Log, Thread = (record.dtype for record in (BLOCK, CONTROL, EVENT, LOG, THREAD))

CELL_WORDS = 11
"""So many numbers of 64 bits are a cell."""
PAGE = 4096
"""A page of the shadow stands for so many bytes."""
HASH = 0x9E3779B97F4A7C1
"""A page is looked for first at the place in the hash table that its number times this gives, without the low bits."""
HASH_SHIFT = 20
READ, WRITE, ATOMIC, LEAVE, NOTHING = range(5)
"""The kinds of places, the low 3 bits of their numbers; then a bit for shared memory, then how many bytes are accessed."""
_SHARED = 8
_BYTES_SHIFT = 4
# Who: the number of a block, a one, the number of a thread in its block.
_BLOCK_SHIFT = 11
_PRESENT = 1024
# When: the number of barriers, the number of a place.
_BARRIERS_SHIFT = 32


def kind_of(kind: int, size: int, *, shared: bool) -> int:
    """The number of a place."""
    return kind | _SHARED * shared | size << _BYTES_SHIFT


def trace(thread: Any, place: Any, value: Any, done: Any) -> None:
    """Tells the race detector what a thread does. Such a launch has one worker: nobody else writes.

    The blocks of the grid are numbered as they are taken, x fastest.
    """
    own = array_at(Thread, thread)
    of = array_at(Block, own[0].block)
    plane = int64(of[0].index_z) * of[0].grid_y + of[0].index_y
    block = plane * of[0].grid_x + of[0].index_x
    log = array_at(Control, of[0].control)[0].log
    to = array_at(Log, log)
    if to[0].kinds == 0:
        tell(log, block, own[0].linear, place, value, done)
        return
    number = array_at(int64, to[0].kinds)[place]
    kind = number & 7
    if kind == NOTHING:
        return
    when = int64(place)
    if to[0].barriers != 0:
        passed = array_at(uint32, to[0].barriers + 4 * (block * of[0].count + own[0].linear))
        if kind == LEAVE:
            passed[0] += 1
            return
        when |= int64(passed[0]) << _BARRIERS_SHIFT
    who = block << _BLOCK_SHIFT | _PRESENT | int64(own[0].linear)
    # Addresses in shared memory count from where that of the block begins.
    base = of[0].shared if number & _SHARED != 0 else int64(0)
    offset = int64(0)
    while offset == 0 or offset < number >> _BYTES_SHIFT:
        check(log, cell_of(log, base + value + offset), value + offset, who, when, number)
        offset += to[0].unit


def tell(log: Any, block: Any, linear: Any, place: Any, value: Any, done: Any) -> None:
    """An event in the log."""
    to = array_at(Log, log)
    events, at = array_at(Event, to[0].events), to[0].count
    events[at].block, events[at].thread, events[at].place = block, linear, place
    events[at].value, events[at].done = value, done
    to[0].count = at + 1
    if at + 1 == to[0].capacity:
        call(to[0].full, log)


def cell_of(log: Any, address: Any) -> Any:
    """The address of a location's shadow cell."""
    to = array_at(Log, log)
    page = address // PAGE
    at = page * HASH >> HASH_SHIFT & to[0].mask
    pages = array_at(int64, to[0].pages)
    shadow = pages[2 * at + 1] if pages[2 * at] == page else search(log, page)
    return shadow + 8 * CELL_WORDS * ((address & (PAGE - 1)) >> to[0].unit_shift)


def search(log: Any, page: Any) -> Any:
    """The shadow of a page that is not at its first place in the table, or not yet made."""
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


def check(log: Any, shadow: Any, address: Any, who: Any, when: Any, number: Any) -> None:
    """Looks for a race of an access with those in the cell at `shadow`, and puts the access there."""
    kind, block = number & 7, who >> _BLOCK_SHIFT
    cell = array_at(int64, shadow)
    if number & _SHARED != 0 and cell[10] != block + 1:
        cell[0], cell[2], cell[4], cell[6], cell[8] = int64(0), int64(0), int64(0), int64(0), int64(0)
        cell[10] = block + 1
    at = -1
    if races(cell[0], cell[1], who, when):
        at = 0
    if at < 0 and kind != READ:
        at = racing(cell, 2, who, when)
    if at < 0 and kind != ATOMIC:
        at = racing(cell, 6, who, when)
    if at >= 0:
        tell_access(log, address, cell[at], cell[at + 1])
        tell_access(log, address, who, when)
    if kind == WRITE:
        cell[0], cell[1] = who, when
        cell[2], cell[4], cell[6], cell[8] = int64(0), int64(0), int64(0), int64(0)
    else:
        remember(cell, 2 if kind == READ else 6, who, when)


def racing(cell: Any, one: Any, who: Any, when: Any) -> Any:
    """Which of two accesses of a kind in a cell races with this one; -1 if neither does."""
    if races(cell[one], cell[one + 1], who, when):
        return one
    return one + 2 if races(cell[one + 2], cell[one + 3], who, when) else -1


def remember(cell: Any, one: Any, who: Any, when: Any) -> None:
    """Keeps a read or an atomic operation, if the two in the cell do not stand for it: of two blocks, or of one epoch."""
    two = one + 2
    block, epoch = who >> _BLOCK_SHIFT, when >> _BARRIERS_SHIFT
    first, second = cell[one] >> _BLOCK_SHIFT, cell[two] >> _BLOCK_SHIFT
    if cell[one] == 0 or cell[one] == who:
        cell[one], cell[one + 1] = who, when
    elif cell[two] == 0 or cell[two] == who:
        cell[two], cell[two + 1] = who, when
    elif first == block and cell[one + 1] >> _BARRIERS_SHIFT < epoch:
        cell[one], cell[one + 1] = who, when
    elif (second == block and cell[two + 1] >> _BARRIERS_SHIFT < epoch) or (first != block and second == first):
        cell[two], cell[two + 1] = who, when


def races(first: Any, then: Any, who: Any, when: Any) -> Any:
    """Whether nothing orders an earlier access and this one: another thread's, of another block or after the last barrier."""
    return (
        first != 0
        and first != who
        and (first >> _BLOCK_SHIFT != who >> _BLOCK_SHIFT or then >> _BARRIERS_SHIFT >= when >> _BARRIERS_SHIFT)
    )


def tell_access(log: Any, address: Any, who: Any, when: Any) -> None:
    """An access that races: `done` of its event is the number of barriers."""
    place, barriers = uint32(when & 0xFFFFFFFF), when >> _BARRIERS_SHIFT
    tell(log, who >> _BLOCK_SHIFT, uint32(who & (_PRESENT - 1)), place, address, barriers)
