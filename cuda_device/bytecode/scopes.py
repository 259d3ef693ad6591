"""Finds a function's cell variables and comprehensions before its instructions are translated.

A comprehension that is inlined into its function (3.12) may have a cell variable with the same name as one of the function's.
SAVE_CELL and RESTORE_CELL then enclose the comprehension. Here its variable gets another name, so nothing needs to be saved.
Cells of the function that need no box become variables like the others.

    [(lambda: x) for x in t]      SAVE_CELL 'x' … STORE_CELL 'x' … CLOSURE 'x' … RESTORE_CELL 'x'
                              →   SAVE_CELL 'x.1' … STORE_CELL 'x.1' … CLOSURE 'x.1' … POP

The length of a comprehension's result must be known, so its loops are unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType

from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.instructions import Instruction, Opcode
from cuda_device.device.parameters import parameter_names
from cuda_device.lazy_dataclasses import dataclass, replace

_NAMES_CELLS = frozenset((Opcode.LOAD_CELL, Opcode.STORE_CELL, Opcode.DELETE_CELL, Opcode.CLOSURE))
_PLAIN = {Opcode.LOAD_CELL: Opcode.LOAD, Opcode.STORE_CELL: Opcode.STORE, Opcode.DELETE_CELL: Opcode.DELETE}
"""The instructions for cells of the function that need no box, which are like its other variables."""
CELL = "&"
"""The prefix of the name of a cell variable among the variables of its function."""
OF_KNOWN_LENGTH = ("<listcomp>", "<dictcomp>")
"""The names of comprehensions' own functions (until 3.11) whose loops are unrolled."""
ITERATOR = ".0"
"""The parameter of a comprehension's or generator expression's own function: its outermost iterator."""


@dataclass(frozen=True, slots=True)
class Scopes:
    """The instructions with a unique name for each cell variable, the function's own cells, and the ITERs to unroll.

    `boxed` are the cells whose value changes after their capture: nested functions assign to them (`nonlocal`, `:=` in a
    generator expression), or they are assigned twice or in a loop.
    """

    instructions: tuple[Instruction, ...]
    cells: frozenset[str]
    boxed: frozenset[str]
    unrolled: frozenset[int]


def is_of_comprehension(name: str) -> bool:
    """Whether a cell variable belongs to a comprehension, which creates it with SAVE_CELL."""
    return "." in name


def scopes(code: CodeType, instructions: Sequence[Instruction]) -> Scopes:
    """The scopes of a function with these instructions."""
    renamed: dict[str, list[str]] = {}
    cells = set(code.co_cellvars).difference(code.co_freevars)  # a comprehension may hide what its function captured
    result = []
    for instruction in instructions:
        name = instruction.argument if isinstance(instruction.argument, str) else ""
        if instruction.opcode is Opcode.SAVE_CELL:
            fresh = f"{name}.{len(cells)}"
            cells.add(fresh)
            renamed.setdefault(name, []).append(fresh)
            result.append(replace(instruction, argument=fresh))
        elif instruction.opcode is Opcode.RESTORE_CELL:
            renamed[name].pop()
            result.append(replace(instruction, opcode=Opcode.POP, argument=None))
        elif instruction.opcode in _NAMES_CELLS and renamed.get(name):
            result.append(replace(instruction, argument=renamed[name][-1]))
        else:
            result.append(instruction)
    boxed = (_assigned_inside(code) | _changing(code, result)).intersection(cells) if cells else frozenset[str]()
    plain = cells - boxed
    for index, instruction in enumerate(result):
        if instruction.opcode in _PLAIN and instruction.argument in plain:
            name = f"{CELL}{instruction.argument}"
            result[index] = replace(instruction, opcode=_PLAIN[instruction.opcode], argument=name)
    return Scopes(tuple(result), frozenset(cells), boxed, _unrolled(code, instructions))


def _assigned_inside(code: CodeType) -> frozenset[str]:
    """The variables of enclosing functions that nested functions assign to."""
    names: set[str] = set()
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and inner.co_freevars:
            assigned = {str(i.argument) for i in decode(inner) if i.opcode in (Opcode.STORE_CELL, Opcode.DELETE_CELL)}
            names |= (assigned | _assigned_inside(inner)).intersection(inner.co_freevars)
    return frozenset(names)


def _changing(code: CodeType, instructions: Sequence[Instruction]) -> set[str]:
    """The cell variables that are assigned more than once, or in a loop."""
    loops = [(i.target, index) for index, i in enumerate(instructions) if i.target is not None and i.target <= index]
    stored = [name for name in parameter_names(code) if name in code.co_cellvars]
    names = set()
    for index, instruction in enumerate(instructions):
        if instruction.opcode is Opcode.STORE_CELL:
            name = str(instruction.argument)
            if name in stored or any(start <= index <= end for start, end in loops):
                names.add(name)
            stored.append(name)
    return names


def _unrolled(code: CodeType, instructions: Sequence[Instruction]) -> frozenset[int]:
    """The indices of ITERs whose loops belong to comprehensions.

    The loop of a `for` statement follows its ITER directly. That of a comprehension does so since 3.15, where a SWAP with the
    empty result comes before ITER.
    """
    indices = set()
    end = len(instructions) if code.co_name in OF_KNOWN_LENGTH else 0
    for index, instruction in enumerate(instructions):
        if instruction.opcode is not Opcode.ITER:
            continue
        before, following = instructions[index - 1].opcode, instructions[index + 1].opcode
        if following is Opcode.CONST and instructions[index + 2].opcode is Opcode.POP:  # yield from
            continue
        if following is Opcode.CALL:  # the argument of a generator expression or of a comprehension's own function
            continue
        if following is not Opcode.FOR_ITER or before is Opcode.SWAP or index < end:
            indices.add(index)
            # An unsupported construct, such as a set, has no FOR_ITER.
            loops = (candidate for candidate in instructions[index:] if candidate.opcode is Opcode.FOR_ITER)
            end = max(end, next((loop.target or 0 for loop in loops), 0))
    return frozenset(indices)


# Merging the copies of a function's end
#
# Since 3.12, CPython copies a short end of a function to the places that jump there. In a conditional expression that is
# returned, or is part of the returned value, the types of both values would then not join.
#
#     return f(x if c else y)      LOAD c, JUMP_IF_FALSE → 4      LOAD c, JUMP_IF_FALSE → 4
#                                  LOAD x, CALL f, RETURN    →    LOAD x, JUMP → 5
#                                  LOAD y, CALL f, RETURN         LOAD y, CALL f, RETURN
#
# Copies have the same place in the source. Without columns (`-X no_debug_ranges`), nothing is merged.


_LAST = frozenset((Opcode.RETURN, Opcode.RAISE))


def merge(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The program with only the last copy of each end."""
    targets = {instruction.target for instruction in instructions}
    ends: dict[tuple[object, ...], int] = {}
    jumps: dict[int, int] = {}
    dropped: set[int] = set()
    for index in reversed(range(len(instructions))):
        instruction = instructions[index]
        if instruction.opcode not in _LAST or instruction.location.column < 0:
            continue
        end = ends.setdefault(_identity(instruction), index)
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
    merged = []
    for index, kept in enumerate(instructions):
        target = jumps.get(index, kept.target)
        destination = None if target is None else numbers[target]
        if index in jumps:
            merged.append(replace(kept, opcode=Opcode.JUMP, argument=None, target=destination))
        elif index not in dropped:
            merged.append(kept if destination is None else replace(kept, target=destination))
    return tuple(merged)


def _common(instructions: Sequence[Instruction], targets: set[int | None], first: int, second: int) -> int:
    """The number of equal instructions that end at these two; a jump may lead only to the first of them."""
    length = 1
    while first >= length and not {first - length + 1, second - length + 1} & targets:
        a, b = instructions[first - length], instructions[second - length]
        if a.target is not None or a.argument != b.argument or _identity(a) != _identity(b):
            break
        length += 1
    return length


def _identity(instruction: Instruction) -> tuple[object, ...]:
    """The opcode and location, which copies have in common."""
    location = instruction.location
    return instruction.opcode, location.line, location.end_line, location.column, location.end_column
