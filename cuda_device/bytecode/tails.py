"""Ends of a function that CPython wrote several times become one again.

Since 3.12 its compiler copies what is short and ends in a `return` to the places that jump there. A choice that is returned, or
is an argument of what is returned, would then be no choice of a value, whose types join, but one of ways, each with its own type.

    return f(x if c else y)      LOAD c, JUMP_IF_FALSE → 4      LOAD c, JUMP_IF_FALSE → 4
                                 LOAD x, CALL f, RETURN    →    LOAD x, JUMP → 5
                                 LOAD y, CALL f, RETURN         LOAD y, CALL f, RETURN

Copies are known by their places in the source, which they share; so columns have to be known, which Python can be told to leave
out (`-X no_debug_ranges`).
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.bytecode.instructions import Instruction, Opcode
from cuda_device.lazy_dataclasses import replace

_LAST = frozenset((Opcode.RETURN, Opcode.RAISE))


def merge(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The same program, in which each such end is there once: where it was last."""
    targets = {instruction.target for instruction in instructions}
    ends: dict[tuple[object, ...], int] = {}
    jumps: dict[int, int] = {}
    dropped: set[int] = set()
    for index in reversed(range(len(instructions))):
        instruction = instructions[index]
        if instruction.opcode not in _LAST or instruction.location.column < 0:
            continue
        end = ends.setdefault(_place(instruction), index)
        if end != index:
            length = _common(instructions, targets, index, end)
            jumps[index - length + 1] = end - length + 1
            dropped.update(range(index - length + 2, index + 1))
    if not jumps:
        return tuple(instructions)
    numbers, count = [], 0
    for index in range(len(instructions)):
        numbers.append(count)
        count += index not in dropped
    return tuple(
        _renumbered(_jump(instruction, jumps[index]) if index in jumps else instruction, numbers)
        for index, instruction in enumerate(instructions)
        if index not in dropped
    )


def _common(instructions: Sequence[Instruction], targets: set[int | None], one: int, other: int) -> int:
    """How many instructions are the same up to these two, which are. Jumps lead to none but the first of them."""
    length = 1
    while one >= length and not {one - length + 1, other - length + 1} & targets:
        a, b = instructions[one - length], instructions[other - length]
        if a.target is not None or a.argument != b.argument or _place(a) != _place(b):
            break
        length += 1
    return length


def _place(instruction: Instruction) -> tuple[object, ...]:
    """What copies have in common, beside their arguments."""
    at = instruction.location
    return instruction.opcode, at.line, at.end_line, at.column, at.end_column


def _jump(instruction: Instruction, target: int) -> Instruction:
    return replace(instruction, opcode=Opcode.JUMP, argument=None, target=target)


def _renumbered(instruction: Instruction, numbers: Sequence[int]) -> Instruction:
    return instruction if instruction.target is None else replace(instruction, target=numbers[instruction.target])
