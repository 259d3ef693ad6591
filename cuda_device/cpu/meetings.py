"""Warp operations on the CPU: resumes the lanes of a warp, and exchanges values between them.

    go_on(block, number)        repeats, until no lane is ready:
                                    for each set of lanes that wait at one operation with one mask:
                                        if all live lanes of the mask are among them: exchange their operands; they are ready
                                    if none is ready: those that wait at the first `activemask` of the program are
                                    resume the ready lanes

The operands are in the warp's record, where `cpu_dialect` stores them. Lanes outside a mask are ignored, so disjoint groups
continue independently. The remaining lanes wait for a barrier of the block, for their next turn, or forever, which the scheduler
detects. The code is written in Python, like `scheduler`.
"""

from __future__ import annotations

from typing import Any

from numpy import int32, int64, uint8, uint16, uint32, uint64

from cuda_device import atomic_ref, ffs, local_array
from cuda_device.cpu.host_code import lanes_between, resume
from cuda_device.cpu.records import (
    BLOCK,
    CONTROL,
    FIRST_MASKED,
    KIND_SHIFT,
    PLACE_MASK,
    THREAD,
    WARP,
    WARP_SIZE,
    WIDE,
    Suspension,
)
from cuda_device.device.memory import array_at
from cuda_device.instrument.outline import Status

# Reports. A launch stops after the first.

Block, Control, Thread = (record.dtype for record in (BLOCK, CONTROL, THREAD))


def stopped(control: Any) -> Any:
    """Whether the launch must stop."""
    return atomic_ref(array_at(Control, control)["stop"], 0).load("relaxed") != 0


def claim(control: Any) -> Any:
    """Claims the record for a report; False if there is another report."""
    return atomic_ref(array_at(Control, control)["status"], 0).cas(uint32(0), uint32(Status.CLAIMED), "acq_rel") == 0


def publish(control: Any, status: Any) -> None:
    """Ends a report: stores the status, and then the flag that stops all workers."""
    atomic_ref(array_at(Control, control)["status"], 0).store(uint32(status), "release")
    atomic_ref(array_at(Control, control)["stop"], 0).store(uint32(1), "release")


def keep(control: Any, block: Any, thread: Any, status: Any, place: Any, first: Any, second: Any) -> None:
    """Writes the report of a thread, with two numbers for its message. `block` and `thread` are indices."""
    if claim(control):
        launch = array_at(Control, control)
        launch[0].report_block, launch[0].report_thread, launch[0].place = block, thread, place
        launch[0].values[0], launch[0].values[1] = first, second
        publish(control, status)


WORDS, MASKS, SOURCES, LOWS, HIGHS = (WARP.offset(name) for name in ("words", "masks", "sources", "lows", "highs"))
WARP_BYTES = WARP.dtype.itemsize
ALL = 0xFFFFFFFF


# Lanes. A row is an array with an entry for each lane; a set of lanes is a word with a bit for each.


def row(warp: Any, offset: Any) -> Any:
    """One of a warp's arrays."""
    return array_at(uint32, warp + offset)


def blend(values: Any, lanes: Any, value: Any) -> None:
    """Sets the entries of some lanes to one value."""
    for lane in range(WARP_SIZE):
        values[lane] = value if lanes >> lane & 1 else values[lane]


def most(values: Any) -> Any:
    """The greatest value."""
    greatest = uint32(0)
    for lane in range(WARP_SIZE):
        greatest = max(greatest, values[lane])
    return greatest


def first(lanes: Any) -> Any:
    """The first of some lanes."""
    return uint32(ffs(lanes) - 1)


def resume_lanes(block: Any, number: Any, lanes: Any) -> None:
    """Resumes some lanes of a warp until they wait again."""
    if lanes != 0:
        resume(array_at(Block, block)[0].resume, block, int64(number), uint32(lanes))


def wide(warp: Any, low: Any, high: Any, lane: Any) -> Any:
    """The 64 bits whose halves a lane has in two of the warp's arrays."""
    return uint64(row(warp, high)[lane]) << 32 | uint64(row(warp, low)[lane])


def awaited(warp: Any, lane: Any) -> Any:
    """The address of the number in memory for which a lane waits."""
    return int64(wide(warp, MASKS, SOURCES, lane))


def number_at(address: Any, kind: Any) -> Any:
    """The number at an address, whose size is that of a kind of wait."""
    if kind == Suspension.WORD8:
        return uint64(atomic_ref(array_at(uint8, address), 0).load("acquire"))
    if kind == Suspension.WORD16:
        return uint64(atomic_ref(array_at(uint16, address), 0).load("acquire"))
    if kind == Suspension.WORD32:
        return uint64(atomic_ref(array_at(uint32, address), 0).load("acquire"))
    return atomic_ref(array_at(uint64, address), 0).load("acquire")


def changed(warp: Any, lanes: Any) -> Any:
    """Those of some lanes that wait for a number in memory which has changed."""
    ready, left = uint32(0), lanes
    while left != 0:
        lane = first(left)
        left &= left - 1
        if number_at(awaited(warp, lane), row(warp, WORDS)[lane] >> KIND_SHIFT) != wide(warp, LOWS, HIGHS, lane):
            ready |= uint32(1) << lane
    return ready


# Steps


def go_on(block: Any, number: Any) -> Any:
    """Resumes the lanes of a warp that can continue; returns whether there were any."""
    control = array_at(Block, block)[0].control
    warp = array_at(Block, block)[0].warps + WARP_BYTES * int64(number)
    words, masks = row(warp, WORDS), row(warp, MASKS)
    progress = False
    while not stopped(control):
        live, masked = lanes_between(warp + WORDS, 1, ALL), lanes_between(warp + WORDS, FIRST_MASKED << KIND_SHIFT, ALL)
        ready, rest = uint32(0), masked
        while rest != 0:
            lane = first(rest)
            word, mask = words[lane], masks[lane]
            kind = word >> KIND_SHIFT
            low, high = word, word
            if kind == Suspension.SYNC:  # lanes may wait for each other at different places
                low, high = kind << KIND_SHIFT, kind << KIND_SHIFT | PLACE_MASK
            there = lanes_between(warp + WORDS, low, high) & lanes_between(warp + MASKS, mask, mask)
            if there & ~mask:
                outside(block, warp, first(there & ~mask))
                return True
            if mask & live & ~there == 0:
                exchange(warp, there, lane, kind)
                ready |= there
            rest &= ~there
        if ready == 0:
            active = lanes_between(warp + WORDS, Suspension.ACTIVE << KIND_SHIFT, ALL) & ~masked
            if active == 0:
                break
            earliest = uint32(ALL)
            for lane in range(WARP_SIZE):
                earliest = min(earliest, words[lane] if active >> lane & 1 else earliest)
            ready = lanes_between(warp + WORDS, earliest, earliest)
            blend(row(warp, LOWS), ready, ready)
        resume_lanes(block, number, ready)
        progress = True
    return progress


def exchange(warp: Any, group: Any, lane: Any, kind: Any) -> None:
    """Replaces the operands of the lanes of a group by the results of their operation; `lane` is one of them."""
    if Suspension.ALL <= kind <= Suspension.BALLOT:
        vote(warp, group, kind)
    elif Suspension.INDEX <= kind <= Suspension.XOR:
        shuffle(warp, group, kind, row(warp, SOURCES)[lane] & WIDE)
    elif kind == Suspension.MATCH_ANY or kind == Suspension.MATCH_ALL:
        match(warp, group, kind)
    elif kind >= Suspension.REDUCE_ADD:
        blend(row(warp, LOWS), group, combined(row(warp, LOWS), group, kind))


def vote(warp: Any, group: Any, kind: Any) -> None:
    """`all`, `any`, `eq` and `ballot`."""
    ballot = lanes_between(warp + LOWS, 1, ALL) & group
    if kind == Suspension.BALLOT:
        result = ballot
    elif kind == Suspension.ALL:
        result = uint32(ballot == group)
    elif kind == Suspension.ANY:
        result = uint32(ballot != 0)
    else:
        result = uint32(ballot == group or ballot == 0)
    blend(row(warp, LOWS), group, result)


def shuffle(warp: Any, group: Any, kind: Any, wide: Any) -> None:
    """Shuffles. A lane keeps its value if its source is outside of the group or of the warp."""
    source = local_array(WARP_SIZE, uint32)
    sources = row(warp, SOURCES)
    for lane in range(WARP_SIZE):
        near = sources[lane] & (WARP_SIZE - 1)
        partner = near
        if kind == Suspension.UP:
            partner = lane - near
        elif kind == Suspension.DOWN:
            partner = lane + near
        elif kind == Suspension.XOR:
            partner = lane ^ near
        gives = partner < WARP_SIZE and group >> (partner & (WARP_SIZE - 1)) & 1 != 0
        source[lane] = partner if gives else uint32(lane)
    move(row(warp, LOWS), group, source)
    if wide:
        move(row(warp, HIGHS), group, source)


def move(values: Any, group: Any, source: Any) -> None:
    """Replaces the value of each lane of the group by that of its source."""
    old = local_array(WARP_SIZE, uint32)
    for lane in range(WARP_SIZE):
        old[lane] = values[lane]
    for lane in range(WARP_SIZE):
        if group >> lane & 1:
            values[lane] = old[source[lane]]


def match(warp: Any, group: Any, kind: Any) -> None:
    """For each lane, the lanes of the group with the same value; for `MATCH_ALL` 0 unless all have the same."""
    lows, highs = row(warp, LOWS), row(warp, HIGHS)
    results = local_array(WARP_SIZE, uint32)
    left = group
    while left != 0:
        lane = first(left)
        members = (
            lanes_between(warp + LOWS, lows[lane], lows[lane])
            & lanes_between(warp + HIGHS, highs[lane], highs[lane])
            & group
        )
        result = members
        if kind == Suspension.MATCH_ALL and members != group:
            result = uint32(0)
        left &= ~members
        while members != 0:
            results[first(members)] = result
            members &= members - 1
    for lane in range(WARP_SIZE):
        lows[lane] = results[lane] if group >> lane & 1 else lows[lane]


def combined(values: Any, group: Any, kind: Any) -> Any:
    """The reduction of the values of a group."""
    result = values[first(group)]
    left, signed = group & (group - 1), kind == Suspension.REDUCE_MIN or kind == Suspension.REDUCE_MAX
    while left != 0:
        value = values[first(left)]
        is_less = int32(value) < int32(result) if signed else value < result
        if kind == Suspension.REDUCE_ADD:
            result += value
        elif kind == Suspension.REDUCE_AND:
            result &= value
        elif kind == Suspension.REDUCE_OR:
            result |= value
        elif kind == Suspension.REDUCE_XOR:
            result ^= value
        elif is_less == (kind <= Suspension.REDUCE_UMIN):  # a minimum, or else a maximum
            result = value
        left &= left - 1
    return result


def outside(block: Any, warp: Any, lane: Any) -> None:
    """Reports a lane that waits at an operation whose mask does not contain it."""
    record = array_at(Block, block)
    linear = (warp - record[0].warps) // WARP_BYTES * WARP_SIZE + lane
    thread = array_at(Thread, record[0].threads + Thread.itemsize * linear)
    place, mask = row(warp, WORDS)[lane] & PLACE_MASK, row(warp, MASKS)[lane]
    keep(
        record[0].control,
        record[0].index,
        thread[0].index,
        uint32(Status.OUTSIDE_MASK),
        place,
        int64(mask),
        int64(lane),
    )
