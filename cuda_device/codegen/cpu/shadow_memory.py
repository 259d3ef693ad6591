"""The race detector's shadow memory on the CPU, which checks accesses as they happen; written in Python like `scheduler`.

    trace(thread, place, value, done)        records an event of a thread in the log, or checks it here

If only barriers order the threads of a kernel, each access is checked immediately against a shadow cell, as in FastTrack. An
epoch consists of two numbers: the thread; and the moment, with the place in the program. A moment is the execution of a block
from one barrier to the next. A cell stores the last write and, since then, two reads, two atomic operations and two atomic loads.
These suffice: a later access that races with one that was dropped also races with one that was kept. The log then contains only
races: two events, the first access and the second.

    cell    0 write, 2 and 4 reads, 6 and 8 atomic operations, 10 and 12 atomic loads: two numbers each

Most accesses repeat others. For each location, a word identifies the accesses that would change nothing and race with nothing.

    WRITTEN      one thread wrote: its reads, and its writes at the same place in the program
    READ_ONCE    one thread read: its reads at the same place
    READ_TWICE   two threads read and none wrote: reads of other threads and, unless the place is `NOWHERE`, all reads there

A shadow is an array of words followed by an array of cells. Each page of memory has one, and each block has one for its shared
memory. A block's accesses to its shared memory in earlier moments happened before everything that follows. There the word alone
records the first accesses of a moment, and the cell is updated only when it is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import int64, uint32, uint64

from cuda_device.codegen.cpu.host_code import allocate, call
from cuda_device.codegen.cpu.records import BLOCK, EVENT, LOG, THREAD
from cuda_device.device.memory import array_at

Block, Event, Log, Thread = (record.dtype for record in (BLOCK, EVENT, LOG, THREAD))
Word = np.dtype([("when", int64), ("first", uint32), ("second", uint32)])
"""When, with a state, and the one or two threads that accessed the location."""

CELL_BYTES = 14 * 8
WORD_BYTES = Word.itemsize
PAGE = 4096
"""The number of bytes of memory with one shadow."""
HASH = 0x9E3779B97F4A7C1
"""The hash of a page is its number times this, without the low bits."""
HASH_SHIFT = 20
READ, WRITE, ATOMIC, ATOMIC_READ, CAS, NOTHING = range(6)
"""The kinds of places. The number of a place consists of its kind (3 bits), its memory (2 bits) and the size of the access."""
_SHARED, _GENERIC = 8, 16
_BYTES_SHIFT = 5
BELOW = 1 << 32
"""More than the size of shared memory. Events have an offset in shared memory less this, which is below 0, as the address."""
WRITTEN, READ_ONCE, READ_TWICE, MIXED = range(4)
"""The states of words."""
# Who: the number of a block, a one, the number of a thread in its block. When: the number of a moment, two bits for the state in
# words, the number of a place.
_BLOCK_SHIFT = 11
_PRESENT = 1024
STATE_SHIFT, WHEN_SHIFT = 24, 26
PLACE_MASK = (1 << STATE_SHIFT) - 1
NOWHERE = PLACE_MASK
"""The place of a word whose two reads are at different places."""


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
    if kind <= WRITE:
        word, _, unit = shadow_of(own[0].block, value, shared)
        when = of[0].moment << WHEN_SHIFT | int64(place)
        if bytes == unit and passes(word, kind, when, own[0].linear, shared):
            return
    if kind != NOTHING:
        if kind == CAS:
            kind = int64(ATOMIC) if done != 0 else int64(ATOMIC_READ)
        follow(thread, place, value, value + bytes, kind, shared)


def passes(at: Any, kind: Any, when: Any, linear: Any, shared: Any) -> Any:
    """Whether a word shows that an access changes nothing, or records it, as the words of a block's `shared` memory do."""
    word = array_at(Word, at)
    known = word[0].when - (when & ~PLACE_MASK)
    state, here = known >> STATE_SHIFT, known & PLACE_MASK == when & PLACE_MASK
    own = state >= 0 and word[0].first == linear
    if kind == READ:
        if state == READ_TWICE:
            return here or not (own or word[0].second == linear)
        if shared and state == READ_ONCE and here and not own:
            word[0].when, word[0].second = when | READ_TWICE << STATE_SHIFT, linear
            return True
        if shared and (state < 0 or (own and state == READ_ONCE)):
            word[0].when, word[0].first = when | READ_ONCE << STATE_SHIFT, linear
            return True
        return own and (state == WRITTEN or (state == READ_ONCE and here))
    if shared and (state < 0 or (own and state <= READ_ONCE)):
        word[0].when, word[0].first = when | WRITTEN << STATE_SHIFT, linear
        return True
    return own and state == WRITTEN and here


def follow(thread: Any, place: Any, value: Any, end: Any, kind: Any, shared: Any) -> None:
    """Checks an access to each of the locations from `value` to `end`."""
    own = array_at(Thread, thread)
    of = array_at(Block, own[0].block)
    who = number_of(own[0].block) << _BLOCK_SHIFT | _PRESENT | int64(own[0].linear)
    when = of[0].moment << WHEN_SHIFT | int64(place)
    while value < end:
        word, cell, unit = shadow_of(own[0].block, value, shared)
        if shared:
            bring(word, cell, who, when)
        check(of[0].log, word, cell, value - BELOW if shared else value, who, when, kind)
        value += unit


def shadow_of(block: Any, value: Any, shared: Any) -> Any:
    """The addresses of the word and the cell of a location, and the number of bytes that they stand for.

    An address in shared memory counts from where that of the block begins.
    """
    of = array_at(Block, block)
    to = array_at(Log, of[0].log)
    if shared:
        index = value >> (to[0].shared_shift & 63)
        return of[0].words + WORD_BYTES * index, of[0].cells + CELL_BYTES * index, of[0].unit
    shift, page = to[0].shift & 63, value // PAGE
    at = 2 * uint64(page * HASH >> HASH_SHIFT & to[0].mask)
    pages = array_at(int64, to[0].pages)
    words = pages[at + 1] if pages[at] == page else search(of[0].log, page)
    index = (value & (PAGE - 1)) >> shift
    return words + WORD_BYTES * index, words + WORD_BYTES * (PAGE >> shift) + CELL_BYTES * index, int64(1) << shift


def number_of(block: Any) -> Any:
    """The number of a block in the grid, counted along x first."""
    of = array_at(Block, block)
    plane = int64(of[0].index_z) * of[0].grid_y + of[0].index_y
    return plane * of[0].grid_x + of[0].index_x


def prepare(block: Any, size: Any) -> None:
    """Gives a block the shadow of its `size` bytes of shared memory, if its accesses are checked here."""
    of = array_at(Block, block)
    of[0].words, of[0].cells, of[0].unit = int64(0), int64(0), int64(0)
    if of[0].log != 0:
        to = array_at(Log, of[0].log)
        if to[0].kinds != 0:
            shift = to[0].shared_shift & 63
            count = (int64(size) >> shift) + 1
            of[0].words, of[0].unit = allocate((WORD_BYTES + CELL_BYTES) * count), int64(1) << shift
            of[0].cells = of[0].words + WORD_BYTES * count
            words = array_at(Word, of[0].words)
            for i in range(count):
                words[i].when = int64(0)


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


def bring(at: Any, shadow: Any, who: Any, when: Any) -> None:
    """Brings the cell of a location in a block's shared memory up to date with its word, unless only the cell knows more."""
    word, cell, block = array_at(Word, at), array_at(int64, shadow), who & ~int64(_PRESENT - 1)
    known, then = word[0].when - (when & ~PLACE_MASK), word[0].when & ~(int64(MIXED) << STATE_SHIFT)
    state = known >> STATE_SHIFT
    if state == MIXED or (state == READ_TWICE and known & PLACE_MASK == NOWHERE):
        return
    cell[0] = int64(0)
    forget(cell)
    if state >= 0:
        one = 0 if state == WRITTEN else 2
        cell[one], cell[one + 1] = block | word[0].first, then
    if state == READ_TWICE:
        cell[4], cell[5] = block | word[0].second, then


def check(log: Any, at: Any, shadow: Any, address: Any, who: Any, when: Any, kind: Any) -> None:
    """Reports a race of an access with one in the cell at `shadow`, and updates that cell and the word at `at`."""
    word, cell, first = array_at(Word, at), array_at(int64, shadow), who
    state, place = int64(MIXED), when & PLACE_MASK
    other = conflict(cell, who, when, kind)
    if other >= 0:
        tell_access(log, address, cell[other], cell[other + 1], other in (0, 6, 8))
        tell_access(log, address, who, when, kind in (WRITE, ATOMIC))
    if kind == WRITE:
        cell[0], cell[1] = who, when
        forget(cell)
        state = int64(WRITTEN)
    elif kind == READ:
        remember(cell, 2, who, when)
        if is_only_read(cell, when):
            state = int64(READ_ONCE)
            if is_of(cell, 2, when) and is_of(cell, 4, when):
                state, first = int64(READ_TWICE), cell[2]
                place = place if cell[3] == cell[5] else int64(NOWHERE)
                word[0].second = uint32(cell[4] & (_PRESENT - 1))
    else:
        remember(cell, 6 if kind == ATOMIC else 10, who, when)
    word[0].first = uint32(first & (_PRESENT - 1))
    word[0].when = when & ~PLACE_MASK | (state if other < 0 else int64(MIXED)) << STATE_SHIFT | place


def forget(cell: Any) -> None:
    """Empties a cell except for the write."""
    none = int64(0)
    cell[2], cell[4], cell[6] = none, none, none
    cell[8], cell[10], cell[12] = none, none, none


def conflict(cell: Any, who: Any, when: Any, kind: Any) -> Any:
    """The position in a cell of an access that races with this one; -1 if there is none."""
    if races(cell[0], cell[1], who, when):
        return 0
    at = racing(cell, 2, who, when) if kind in (WRITE, ATOMIC) else -1
    if at < 0 and kind in (WRITE, READ):
        at = racing(cell, 6, who, when)
    if at < 0 and kind == WRITE:
        at = racing(cell, 10, who, when)
    return at


def is_of(cell: Any, one: Any, when: Any) -> Any:
    """Whether an access in a cell was made in this moment."""
    return cell[one] != 0 and cell[one + 1] >> WHEN_SHIFT == when >> WHEN_SHIFT


def is_only_read(cell: Any, when: Any) -> Any:
    """Whether a location was neither written nor accessed atomically in this moment."""
    once = is_of(cell, 0, when) or is_of(cell, 6, when) or is_of(cell, 8, when)
    return not (once or is_of(cell, 10, when) or is_of(cell, 12, when))


def racing(cell: Any, one: Any, who: Any, when: Any) -> Any:
    """The position of one of two accesses of a kind that races with this one; -1 if there is none."""
    if races(cell[one], cell[one + 1], who, when):
        return one
    return one + 2 if races(cell[one + 2], cell[one + 3], who, when) else -1


def remember(cell: Any, one: Any, who: Any, when: Any) -> None:
    """Keeps a read or an atomic operation unless the two in the cell represent it: those of two blocks, or of one moment."""
    two = one + 2
    block, moment = who >> _BLOCK_SHIFT, when >> WHEN_SHIFT
    first, second = cell[one] >> _BLOCK_SHIFT, cell[two] >> _BLOCK_SHIFT
    if cell[one] == 0 or cell[one] == who:
        cell[one], cell[one + 1] = who, when
    elif cell[two] == 0 or cell[two] == who:
        cell[two], cell[two + 1] = who, when
    elif first == block and cell[one + 1] >> WHEN_SHIFT < moment:
        cell[one], cell[one + 1] = who, when
    elif (second == block and cell[two + 1] >> WHEN_SHIFT < moment) or (first != block and second == first):
        cell[two], cell[two + 1] = who, when


def races(first: Any, then: Any, who: Any, when: Any) -> Any:
    """Whether an earlier access is unordered: that of another thread, in another block or in the same moment."""
    return (
        first != 0
        and first != who
        and (first >> _BLOCK_SHIFT != who >> _BLOCK_SHIFT or then >> WHEN_SHIFT == when >> WHEN_SHIFT)
    )


def tell_access(log: Any, address: Any, who: Any, when: Any, writes: Any) -> None:
    """Appends one of two racing accesses to the log."""
    tell(log, who >> _BLOCK_SHIFT, uint32(who & (_PRESENT - 1)), uint32(when & PLACE_MASK), address, int64(writes))
