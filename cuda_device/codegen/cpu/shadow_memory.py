"""The race detector's shadow memory on the CPU, which checks accesses as they happen; written in Python like `scheduler`.

    trace(thread, place, value, done)        records an event of a thread in the log, or checks it here

If only barriers order the threads of a kernel, each access is checked immediately against a shadow cell, as in FastTrack. An
epoch consists of two numbers: the thread; and the moment, with the place in the program. A moment is the execution of a block
from one barrier to the next. A cell stores the last write and, since then, two reads, two atomic operations and two atomic loads.
These suffice: a later access that races with one that was dropped also races with one that was kept. The log then contains only
races: two events, the first access and the second.

    cell    0 write, 2 and 4 reads, 6 and 8 atomic operations, 10 and 12 atomic loads: two numbers each; 14 the last moment

Most accesses repeat others. For each location, a word identifies the accesses that would change nothing and race with nothing. In
a moment in which one thread wrote to the location, these are that thread's reads, and its writes at the same place in the
program. In a moment in which two threads read it and none wrote, these are further reads. A block's accesses to its shared memory
in earlier moments happened before everything that follows. There the word alone records the first accesses of a moment, and the
cell is updated only when another thread comes. Generic pointers bypass these words, so a kernel with generic pointers checks each
access in the cell.

    word    the moment; the kind of accesses; the place and thread of the write or of the only read, or the threads of two reads

Kernels test the words of their shared memory themselves before they call `trace` (`cpu_dialect`).
"""

from __future__ import annotations

from typing import Any

from numpy import int64, uint32, uint64

from cuda_device.codegen.cpu.host_code import allocate, call
from cuda_device.codegen.cpu.records import (
    BLOCK,
    EVENT,
    FIRST_MASK,
    LOG,
    MIXED,
    MOMENT_SHIFT,
    READ_ONCE,
    READ_TWICE,
    SECOND_SHIFT,
    THREAD,
    WRITTEN,
)
from cuda_device.device.memory import array_at

Block, Event, Log, Thread = (record.dtype for record in (BLOCK, EVENT, LOG, THREAD))

CELL_WORDS = 15
"""So many numbers of 64 bits are a cell."""
PAGE = 4096
"""A page of the shadow stands for so many bytes: first comes a word for each cell, then the cells."""
HASH = 0x9E3779B97F4A7C1
"""A page is looked for first at the place in the hash table that its number times this gives, without the low bits."""
HASH_SHIFT = 20
READ, WRITE, ATOMIC, ATOMIC_READ, CAS, NOTHING = range(6)
"""The kinds of places, the low 3 bits of their numbers; then a bit for shared memory, then how many bytes are accessed."""
_SHARED = 8
_BYTES_SHIFT = 4
# Who: the number of a block, a one, the number of a thread in its block.
_BLOCK_SHIFT = 11
_PRESENT = 1024
# When: the number of a moment, the number of a place.
_WHEN_SHIFT = 24
_PLACE_MASK = (1 << _WHEN_SHIFT) - 1
_LAST = 14
_PAIR = WRITTEN - 1


def kind_of(kind: int, size: int, *, shared: bool) -> int:
    """The number of a place."""
    return kind | _SHARED * shared | size << _BYTES_SHIFT


def trace(thread: Any, place: Any, value: Any, done: Any) -> None:
    """Tells the race detector what a thread does. Such a launch has one worker: nobody else writes."""
    own = array_at(Thread, thread)
    of = array_at(Block, own[0].block)
    to = array_at(Log, of[0].log)
    if to[0].kinds == 0:
        tell(of[0].log, number_of(own[0].block), own[0].linear, place, value, done)
        return
    number, linear = array_at(int64, to[0].kinds)[place], int64(own[0].linear)
    moment, here = of[0].moment << MOMENT_SHIFT, int64(place) << SECOND_SHIFT | linear
    kind = number & 7
    if number >> _BYTES_SHIFT == of[0].unit and place <= FIRST_MASK:
        page, pages = value // PAGE, array_at(int64, to[0].pages)
        at = 2 * uint64(page * HASH >> HASH_SHIFT & to[0].mask)
        if number & _SHARED != 0:
            words = array_at(int64, of[0].words + 8 * (value >> (to[0].unit_shift & 63)))
            state = words[0] - moment
            if kind <= WRITE and (state < 0 or (state < MIXED and state >= WRITTEN and state & FIRST_MASK == linear)):
                if kind == WRITE:
                    words[0] = moment + (WRITTEN | here)
                elif state < 0 or state >= READ_ONCE:
                    words[0] = moment + (READ_ONCE | here)
                return
        elif pages[at] == page:
            state = array_at(int64, pages[at + 1])[(value & (PAGE - 1)) >> (to[0].unit_shift & 63)] - moment
            first, second = state & FIRST_MASK, state >> SECOND_SHIFT
            if kind == READ:
                if (state & ~_PAIR == WRITTEN and first == linear) or (
                    second >= 0 and second <= FIRST_MASK and first != linear and second != linear
                ):
                    return
            elif state == (WRITTEN | here):
                return
    follow(thread, place, value, number, done)


def follow(thread: Any, place: Any, value: Any, number: Any, done: Any) -> None:
    """Checks an access of each of its locations."""
    own = array_at(Thread, thread)
    of = array_at(Block, own[0].block)
    who = number_of(own[0].block) << _BLOCK_SHIFT | _PRESENT | int64(own[0].linear)
    when = of[0].moment << _WHEN_SHIFT | int64(place)
    kind = number & 7
    if kind == NOTHING:
        return
    if kind == CAS:
        kind = int64(ATOMIC) if done != 0 else int64(ATOMIC_READ)
    # Addresses in shared memory count from where that of the block begins.
    shared, to, end = number & _SHARED != 0, array_at(Log, of[0].log), value + (number >> _BYTES_SHIFT)
    while value < end:
        address = value + of[0].shared if shared else value
        shift, shadow = to[0].unit_shift & 63, shadow_of(of[0].log, address)
        index = (address & (PAGE - 1)) >> shift
        cell = shadow + 8 * (int64(PAGE) >> shift) + 8 * CELL_WORDS * index
        word = of[0].words + 8 * (value >> shift) if shared else shadow + 8 * index
        if shared:
            bring(of, array_at(int64, cell), array_at(int64, word)[0], who & ~int64(FIRST_MASK))
        check(of[0].log, word, cell, value, who, when, kind)
        value += to[0].unit


def number_of(block: Any) -> Any:
    """The number of a block. They are counted as they are taken, x fastest."""
    of = array_at(Block, block)
    plane = int64(of[0].index_z) * of[0].grid_y + of[0].index_y
    return plane * of[0].grid_x + of[0].index_x


def prepare(block: Any, size: Any) -> None:
    """Gives a block the words of its `size` bytes of shared memory, if its accesses are checked here."""
    of = array_at(Block, block)
    of[0].words, of[0].unit = int64(0), int64(0)
    if of[0].log != 0:
        to = array_at(Log, of[0].log)
        if to[0].kinds != 0:
            count = (int64(size) >> to[0].unit_shift) + 1
            of[0].words, of[0].unit = allocate(8 * count), to[0].word_bytes
            words = array_at(int64, of[0].words)
            for i in range(count):
                words[i] = int64(0)


def begin(block: Any) -> None:
    """The first moment of a block begins."""
    tick(block)
    array_at(Block, block)[0].first = array_at(Block, block)[0].moment


def tick(block: Any) -> None:
    """A new moment of a block begins."""
    of = array_at(Block, block)
    if of[0].log != 0:
        to = array_at(Log, of[0].log)
        to[0].moments += 1
        of[0].moment = to[0].moments


def tell(log: Any, block: Any, linear: Any, place: Any, value: Any, done: Any) -> None:
    """An event in the log."""
    to = array_at(Log, log)
    events, at = array_at(Event, to[0].events), to[0].count
    events[at].block, events[at].thread, events[at].place = block, linear, place
    events[at].value, events[at].done = value, done
    to[0].count = at + 1
    if at + 1 == to[0].capacity:
        call(to[0].full, log)


def shadow_of(log: Any, address: Any) -> Any:
    """The shadow of the page of an address."""
    to = array_at(Log, log)
    page = address // PAGE
    at = 2 * uint64(page * HASH >> HASH_SHIFT & to[0].mask)
    pages = array_at(int64, to[0].pages)
    return pages[at + 1] if pages[at] == page else search(log, page)


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


def bring(of: Any, cell: Any, word: Any, who: Any) -> None:
    """Brings the cell of a location in shared memory up to date: it forgets earlier moments, and hears what the word says."""
    moment = of[0].moment
    state = word - (moment << MOMENT_SHIFT)
    told = of[0].unit > 0 and state >= WRITTEN and state < MIXED
    if told or cell[_LAST] < (moment if of[0].unit > 0 else of[0].first):
        cell[0] = int64(0)
        forget(cell)
    if told:
        one = 0 if state < READ_ONCE else 2
        cell[one] = who | (state & FIRST_MASK)
        cell[one + 1] = moment << _WHEN_SHIFT | (state >> SECOND_SHIFT & FIRST_MASK)
    cell[_LAST] = moment


def check(log: Any, word: Any, shadow: Any, address: Any, who: Any, when: Any, kind: Any) -> None:
    """Looks for a race of an access with those in the cell at `shadow`, and puts the access there, and the word at `word`."""
    cell, moment, known = array_at(int64, shadow), when >> _WHEN_SHIFT, int64(MIXED)
    at = conflict(cell, who, when, kind)
    if at >= 0:
        tell_access(log, address, cell[at], cell[at + 1], at in (0, 6, 8))
        tell_access(log, address, who, when, kind in (WRITE, ATOMIC))
    if kind == WRITE:
        cell[0], cell[1] = who, when
        forget(cell)
        if when & _PLACE_MASK <= FIRST_MASK:
            known = WRITTEN + ((when & _PLACE_MASK) << SECOND_SHIFT) + (who & FIRST_MASK)
    elif kind == READ:
        remember(cell, 2, who, when)
        both = is_of(cell, 2, moment) and is_of(cell, 4, moment)
        if both and not (is_of(cell, 0, moment) or is_of(cell, 6, moment) or is_of(cell, 8, moment)):
            known = READ_TWICE + ((cell[4] & FIRST_MASK) << SECOND_SHIFT) + (cell[2] & FIRST_MASK)
    else:
        remember(cell, 6 if kind == ATOMIC else 10, who, when)
    array_at(int64, word)[0] = (moment << MOMENT_SHIFT) + (known if at < 0 else int64(MIXED))


def forget(cell: Any) -> None:
    """Empties a cell, but for the write."""
    none = int64(0)
    cell[2], cell[4], cell[6] = none, none, none
    cell[8], cell[10], cell[12] = none, none, none


def conflict(cell: Any, who: Any, when: Any, kind: Any) -> Any:
    """Which access in a cell races with this one; -1 if none does."""
    if races(cell[0], cell[1], who, when):
        return 0
    at = racing(cell, 2, who, when) if kind in (WRITE, ATOMIC) else -1
    if at < 0 and kind in (WRITE, READ):
        at = racing(cell, 6, who, when)
    if at < 0 and kind == WRITE:
        at = racing(cell, 10, who, when)
    return at


def is_of(cell: Any, one: Any, moment: Any) -> Any:
    """Whether an access in a cell was made in this moment."""
    return cell[one] != 0 and cell[one + 1] >> _WHEN_SHIFT == moment


def racing(cell: Any, one: Any, who: Any, when: Any) -> Any:
    """Which of two accesses of a kind in a cell races with this one; -1 if neither does."""
    if races(cell[one], cell[one + 1], who, when):
        return one
    return one + 2 if races(cell[one + 2], cell[one + 3], who, when) else -1


def remember(cell: Any, one: Any, who: Any, when: Any) -> None:
    """Keeps a read or an atomic operation, if the two in the cell do not stand for it: of two blocks, or of one moment."""
    two = one + 2
    block, moment = who >> _BLOCK_SHIFT, when >> _WHEN_SHIFT
    first, second = cell[one] >> _BLOCK_SHIFT, cell[two] >> _BLOCK_SHIFT
    if cell[one] == 0 or cell[one] == who:
        cell[one], cell[one + 1] = who, when
    elif cell[two] == 0 or cell[two] == who:
        cell[two], cell[two + 1] = who, when
    elif first == block and cell[one + 1] >> _WHEN_SHIFT < moment:
        cell[one], cell[one + 1] = who, when
    elif (second == block and cell[two + 1] >> _WHEN_SHIFT < moment) or (first != block and second == first):
        cell[two], cell[two + 1] = who, when


def races(first: Any, then: Any, who: Any, when: Any) -> Any:
    """Whether nothing orders an earlier access and this one: another thread's, of another block or in the same moment."""
    return (
        first != 0
        and first != who
        and (first >> _BLOCK_SHIFT != who >> _BLOCK_SHIFT or then >> _WHEN_SHIFT == when >> _WHEN_SHIFT)
    )


def tell_access(log: Any, address: Any, who: Any, when: Any, writes: Any) -> None:
    """An access that races."""
    tell(log, who >> _BLOCK_SHIFT, uint32(who & (_PRESENT - 1)), uint32(when & _PLACE_MASK), address, int64(writes))
