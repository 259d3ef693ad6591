"""What threads do together: barriers of a block, and the operations of warps.

A thread that comes to one waits. Where all have come whom it wants, `run` computes the results for all of them at once, from
matrices with a row for each warp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptx_machine.memory import Fault
from ptx_machine.operands import TYPES, Scope, reader, writer
from ptx_machine.reader import Instruction, Unsupported

Values = np.ndarray
WARP = 32
_LANES = np.arange(WARP, dtype=np.uint32)
POISON = 0xDEADBEEF


@dataclass
class WarpOperation:
    """`mask` gives who takes part; `run` gets all threads, and which of them have come together, at any of its `places`."""

    mask: Callable[[Any], Values]
    run: Callable[[Any, Values], None]
    places: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Barrier:
    """`number` is the block's barrier; `reduce` turns a predicate of each thread into what all get."""

    number: int
    aligned: bool
    finish: Callable[[Any, Values], None]


def warp_operation(instruction: Instruction, scope: Scope) -> WarpOperation | None:
    """The operation of warps that an instruction is, if it is one."""
    opcode = instruction.opcode
    make = _OPERATIONS.get(opcode[0])
    if make is None or (opcode[0] in ("bar", "barrier") and "warp" not in opcode):
        return None
    mask = reader(instruction.operands[-1], "u32", scope)
    return WarpOperation(lambda group: np.broadcast_to(mask(group), (group.count,)), make(instruction, scope))


def bits(flags: Values) -> Values:
    """Rows of flags as masks of 32 bits, one for each row."""
    return (flags.astype(np.uint32) << _LANES).sum(axis=1, dtype=np.uint32)


def members(masks: Values) -> Values:
    """Masks as flags: [thread, lane]."""
    return (masks[:, None] >> _LANES & np.uint32(1)).astype(bool)


def _rows(values: Values, everyone: Any) -> Values:
    """Values of all threads with a row for each warp."""
    return np.broadcast_to(values, (everyone.count,)).reshape(-1, WARP)


def _each(everyone: Any, rows: Values) -> Values:
    """A row of its warp for each thread: [thread, lane]."""
    return np.repeat(rows, WARP, axis=0)


def _shuffle(instruction: Instruction, scope: Scope) -> Callable[[Any, Values], None]:
    mode = instruction.opcode[2]
    target, source, by, clamp, _ = instruction.operands
    names = target if isinstance(target, tuple) else (target, "_")
    get, get_by, get_clamp = (reader(operand, "u32", scope) for operand in (source, by, clamp))
    put, put_inside = writer(names[0], "u32", scope), writer(names[1], "pred", scope)

    def run(everyone: Any, together: Values) -> None:
        values = np.broadcast_to(get(everyone), (everyone.count,))
        lane = np.tile(_LANES, everyone.count // WARP).astype(np.int64)
        distance = (np.broadcast_to(get_by(everyone), lane.shape) & 31).astype(np.int64)
        limits = np.broadcast_to(get_clamp(everyone), lane.shape).astype(np.int64)
        segment, limit = limits >> 8 & 31, limits & 31
        last, first = (lane & segment) | (limit & ~segment), lane & segment
        other = {
            "up": lane - distance, "down": lane + distance, "bfly": lane ^ distance, "idx": first | (distance & ~segment),
        }[mode]  # fmt: skip
        inside = other >= last if mode == "up" else other <= last
        other = np.where(inside, other, lane)
        source = np.arange(everyone.count) - lane + other
        found = np.where(together[source], values[source], np.uint32(POISON))
        chosen = everyone.only(np.flatnonzero(together))
        put(chosen, found[together])
        put_inside(chosen, inside[together])

    return run


def _vote(instruction: Instruction, scope: Scope) -> Callable[[Any, Values], None]:
    mode = instruction.opcode[2]
    target, source, mask = instruction.operands
    negated = source.startswith("!")
    get, get_mask = reader(source.lstrip("!"), "pred", scope), reader(mask, "u32", scope)
    put = writer(target, "u32" if mode == "ballot" else "pred", scope)

    def run(everyone: Any, together: Values) -> None:
        flags = _rows(get(everyone) ^ negated, everyone)
        masks = np.broadcast_to(get_mask(everyone), (everyone.count,))
        said = np.repeat(bits(flags & together.reshape(-1, WARP)), WARP) & masks
        present = np.repeat(bits(together.reshape(-1, WARP)), WARP) & masks
        result = {
            "ballot": said, "any": said != 0, "all": said == present, "uni": (said == 0) | (said == present),
        }[mode]  # fmt: skip
        put(everyone.only(np.flatnonzero(together)), result[together])

    return run


def _match(instruction: Instruction, scope: Scope) -> Callable[[Any, Values], None]:
    mode, kind = instruction.opcode[1], instruction.opcode[-1]
    target, source, mask = instruction.operands
    names = target if isinstance(target, tuple) else (target, "_")
    get, get_mask = reader(source, kind, scope), reader(mask, "u32", scope)
    put, put_all = writer(names[0], "u32", scope), writer(names[1], "pred", scope)

    def run(everyone: Any, together: Values) -> None:
        rows = _rows(get(everyone), everyone)
        masks = np.broadcast_to(get_mask(everyone), (everyone.count,))
        taking_part = members(masks) & _each(everyone, together.reshape(-1, WARP))
        equal = (rows[:, :, None] == rows[:, None, :]).reshape(-1, WARP) & taking_part
        same = bits(equal)
        chosen = everyone.only(np.flatnonzero(together))
        if mode == "any":
            put(chosen, same[together])
            return
        present = bits(taking_part)
        put(chosen, np.where(same == present, masks, 0)[together])
        put_all(chosen, (same == present)[together])

    return run


def _reduce(instruction: Instruction, scope: Scope) -> Callable[[Any, Values], None]:
    operation, kind = instruction.opcode[2], instruction.opcode[-1]
    target, source, mask = instruction.operands
    get, get_mask = reader(source, kind, scope), reader(mask, "u32", scope)
    put = writer(target, kind, scope)
    compute = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[operation]  # fmt: skip

    def run(everyone: Any, together: Values) -> None:
        values = np.broadcast_to(get(everyone), (everyone.count,))
        masks = np.broadcast_to(get_mask(everyone), (everyone.count,))
        result = np.zeros(everyone.count, TYPES[kind])
        for thread in np.flatnonzero(together):
            first = thread - thread % WARP
            lanes = [first + i for i in range(WARP) if masks[thread] >> np.uint32(i) & 1 and together[first + i]]
            result[thread] = compute.reduce(values[lanes], dtype=TYPES[kind])
        put(everyone.only(np.flatnonzero(together)), result[together])

    return run


def _nothing(instruction: Instruction, scope: Scope) -> Callable[[Any, Values], None]:
    return lambda everyone, together: None


_OPERATIONS = {
    "shfl": _shuffle, "vote": _vote, "match": _match, "redux": _reduce, "bar": _nothing, "barrier": _nothing,
}  # fmt: skip


def active(instruction: Instruction, scope: Scope) -> Callable[[Any], None]:
    """`activemask`: the threads of the warp that are here now."""
    put = writer(instruction.operands[0], "u32", scope)

    def run(group: Any) -> None:
        flags = np.zeros(len(group.machine.numbers), bool)
        flags[group.index] = True
        put(group, np.repeat(bits(flags.reshape(-1, WARP)), WARP)[group.index])

    return run


def barrier(instruction: Instruction, scope: Scope) -> Barrier | None:
    """The barrier that an instruction is, if it is one."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode[0] not in ("bar", "barrier") or "warp" in opcode:
        return None
    aligned = opcode[0] == "bar" or "aligned" in opcode
    if "sync" in opcode and len(operands) == 1 and operands[0].isdigit():
        return Barrier(int(operands[0]), aligned, lambda everyone, threads: None)
    if "red" not in opcode or len(operands) != 3:
        raise Unsupported(instruction.text)
    target, number, source = operands
    negated = source.startswith("!")
    get = reader(source.lstrip("!"), "pred", scope)
    put = writer(target, "u32" if "popc" in opcode else "pred", scope)
    reduce = np.sum if "popc" in opcode else np.all if "and" in opcode else np.any

    def finish(everyone: Any, threads: Values) -> None:
        flags = np.broadcast_to(get(everyone), (everyone.count,)) ^ negated
        put(everyone.only(threads), np.full(len(threads), reduce(flags[threads])))

    return Barrier(int(number), aligned, finish)


def check_members(masks: Values, lanes: Values, where: str) -> None:
    """A `Fault` where a lane is not in its own mask."""
    outside = (masks >> lanes.astype(np.uint32) & np.uint32(1)) == 0
    if outside.any():
        i = int(np.flatnonzero(outside)[0])
        raise Fault(f"lane {lanes[i]} is not in its own mask {int(masks[i]):#010x}: {where}", 715)
