"""Builds the control-flow graph: divides instructions into spans (basic blocks), and finds the variables that become parameters.

A variable is live at the start of a span if some path from there loads it before storing to it. A live variable becomes a
parameter where two of its definitions meet, which is in the iterated dominance frontier of its definitions. Everywhere else, its
value is that at the end of the immediate dominator.

    while i < n: i += 1         span 0: LOAD i, LOAD n, COMPARE, JUMP_IF_FALSE → 1, 2    live: i, n    parameter: i
    return i                    span 1: LOAD i, CONST 1, BINARY, STORE i, JUMP → 0       live: i, n

A comparison also defines the variables that its span loads, in the spans to which it leads, because their bounds differ there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda_device.bytecode.instructions import TERMINATORS, Instruction, Opcode
from cuda_device.bytecode.scopes import CELL
from cuda_device.ir.dominance import immediate_dominators, topological
from cuda_device.lazy_dataclasses import dataclass, field

_TESTS = frozenset((Opcode.JUMP_IF_TRUE, Opcode.JUMP_IF_FALSE))
_CONDITIONAL = _TESTS | {Opcode.FOR_ITER}
# Execution of a generator continues behind its `yield`.
_ENDS = TERMINATORS | {Opcode.YIELD}


ENTRY = -1
"""In place of the start of a span: the entry, which defines the function's parameters."""


@dataclass(slots=True, eq=False)
class Span:
    """Instructions `start` to `stop` (exclusive). `successors` are starts of spans: the fall-through first, then the target."""

    start: int
    stop: int
    successors: tuple[int, ...]
    live: frozenset[str] = frozenset()
    params: set[str] = field(default_factory=set)
    """The variables that are parameters."""
    inside: range = range(1)
    """The positions, in an order of the dominator tree, of this span and those that it dominates."""
    loaded: set[str] = field(default_factory=set)
    """The variables that are loaded before they are stored to, and those that are stored to."""
    stored: set[str] = field(default_factory=set)


_LOADS = frozenset((Opcode.LOAD, Opcode.LOAD_AND_CLEAR, Opcode.DELETE))
_STORES = frozenset((Opcode.STORE, Opcode.LOAD_AND_CLEAR, Opcode.DELETE))
# An access to a variable in a box reads the box.
_READS_BOX = frozenset((Opcode.LOAD_CELL, Opcode.STORE_CELL, Opcode.DELETE_CELL))
# Instructions that may call a nested function, also by advancing an iterator, may read any cell.
READS_CELLS = frozenset(
    (
        Opcode.CALL,
        Opcode.CALL_KW,
        Opcode.CALL_EX,
        Opcode.RETURN,
        Opcode.YIELD,
        Opcode.UNPACK,
        Opcode.UNPACK_EX,
        Opcode.LIST_EXTEND,
        Opcode.CONTAINS,
        Opcode.FOR_ITER,
    )
)


def spans(
    instructions: Sequence[Instruction], cells: frozenset[str] = frozenset(), pass_all: bool = False
) -> dict[int, Span]:
    """The reachable spans, by their start, in reverse postorder. `cells` are the function's own cell variables.

    With `pass_all`, all live variables are parameters.
    """
    cut = _cut(instructions)
    reached = {start: cut[start] for start in topological(0, lambda start: cut[start].successors)}
    for span in reached.values():
        _find_uses(instructions[span.start : span.stop], span, cells)
    _find_live(reached)
    if pass_all:
        for span in reached.values():
            span.params, span.inside = set(span.live), range(span.start, span.start + 1)
    elif reached[0].successors:  # there is more than one span
        _find_params(instructions, reached)
    return reached


def _cut(instructions: Sequence[Instruction]) -> dict[int, Span]:
    leaders = {0}
    for index, instruction in enumerate(instructions):
        if instruction.target is not None:
            leaders.add(instruction.target)
        if instruction.opcode in _CONDITIONAL or instruction.opcode in _ENDS:
            leaders.add(index + 1)
    leaders.discard(len(instructions))
    starts = sorted(leaders)
    span_at = {}
    for start, stop in zip(starts, [*starts[1:], len(instructions)], strict=True):
        last = instructions[stop - 1]
        jumps = () if last.target is None else (last.target,)
        span_at[start] = Span(start, stop, jumps if last.opcode in TERMINATORS else (stop, *jumps))
    return span_at


def _find_uses(instructions: Sequence[Instruction], span: Span, cells: frozenset[str]) -> None:
    first, written = span.loaded, span.stored
    every_cell = {f"{CELL}{cell}" for cell in cells}
    for instruction in instructions:
        code, name = instruction.opcode, instruction.argument
        if code in _LOADS and name not in written:
            first.add(name)
        if code in _READS_BOX and name in cells:
            first |= {f"{CELL}{name}"} - written
        if code in READS_CELLS:
            first |= every_cell - written
        if code in _STORES:
            written.add(name)
        if code is Opcode.SAVE_CELL:
            written.add(f"{CELL}{name}")


def _find_live(reached: dict[int, Span]) -> None:
    """Backward data flow: live = loaded first, or live after and not stored."""
    changed = True
    while changed:
        changed = False
        for span in reversed(reached.values()):
            live = span.loaded.union(frozenset().union(*(reached[s].live for s in span.successors)) - span.stored)
            changed |= live != span.live
            span.live = frozenset(live)


def _find_params(instructions: Sequence[Instruction], reached: dict[int, Span]) -> None:
    """Places parameters: each variable's definitions, and the spans in which they meet, and so on."""
    before: dict[int, list[int]] = {start: [] for start in (ENTRY, *reached)}
    before[0].append(ENTRY)
    for start, span in reached.items():
        for following in span.successors:
            before[following].append(start)
    above = immediate_dominators([ENTRY, *reached], before)
    _number(reached, above)
    frontiers = _frontiers(before, above)
    compared: dict[int, set[str]] = {}
    todo = []
    for start, span in reached.items():
        todo += [(name, meeting) for meeting in frontiers[start] for name in span.stored]
        names = compared[start] = _compared(instructions, span)
        if len(before[start]) == 1 and _is_chained(instructions, reached.get(before[start][0])):
            names |= compared[before[start][0]]
        todo += [(name, following) for following in span.successors for name in names]
    while todo:
        name, start = todo.pop()
        span = reached[start]
        if name in span.live and name not in span.params:
            span.params.add(name)
            todo += [(name, meeting) for meeting in frontiers[start]]


def _number(reached: dict[int, Span], above: Mapping[int, int]) -> None:
    """Numbers the spans in an order of the dominator tree, in which `above` has their parents."""
    below: dict[int, list[int]] = {start: [] for start in (ENTRY, *reached)}
    for start in reached:
        below[above[start]].append(start)
    order = topological(ENTRY, below.__getitem__)
    sizes = dict.fromkeys(order, 1)
    for position, start in reversed([*enumerate(order)][1:]):
        reached[start].inside = range(position, position + sizes[start])
        sizes[above[start]] += sizes[start]


def _frontiers(before: Mapping[int, Sequence[int]], above: Mapping[int, int]) -> dict[int, set[int]]:
    """The dominance frontier of each span: where a span that it dominates leads to one that it does not strictly dominate."""
    frontiers: dict[int, set[int]] = {start: set() for start in before}
    for start, predecessors in before.items():
        for node in predecessors if len(predecessors) > 1 else ():
            while node != above[start] and start not in frontiers[node]:
                frontiers[node].add(start)
                node = above[node]  # noqa: PLW2901
    return frontiers


def _compared(instructions: Sequence[Instruction], span: Span) -> set[str]:
    """The variables whose bounds the end of a span may imply."""
    body = instructions[span.start : span.stop]
    is_test = body[-1].opcode in _TESTS and any(instruction.opcode is Opcode.COMPARE for instruction in body)
    return span.loaded | span.stored if is_test else set()


def _is_chained(instructions: Sequence[Instruction], span: Span | None) -> bool:
    """Whether a span ends with a comparison whose right operand the next span compares, as in `a < b < c`."""
    return span is not None and span.stop - span.start > 2 and instructions[span.stop - 3].opcode is Opcode.COPY
