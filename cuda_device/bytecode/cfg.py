"""Builds the control-flow graph: divides instructions into spans (basic blocks) and finds the live variables.

A variable is live at the start of a span if some path from there loads it before storing to it. Only live variables become block
parameters.

    while i < n: i += 1         span 0: LOAD i, LOAD n, COMPARE, JUMP_IF_FALSE → 1, 2    live in: i, n
    return i                    span 1: LOAD i, CONST 1, BINARY, STORE i, JUMP → 0       live in: i, n
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.bytecode.instructions import TERMINATORS, Instruction, Opcode
from cuda_device.bytecode.scopes import CELL
from cuda_device.ir.dominance import topological
from cuda_device.lazy_dataclasses import dataclass, field

_CONDITIONAL = frozenset((Opcode.JUMP_IF_TRUE, Opcode.JUMP_IF_FALSE, Opcode.FOR_ITER))
# Execution of a generator continues behind its `yield`.
_ENDS = TERMINATORS | {Opcode.YIELD}


@dataclass(slots=True, eq=False)
class Span:
    """Instructions `start` to `stop` (exclusive). `successors` are starts of spans: the fall-through first, then the target."""

    start: int
    stop: int
    successors: tuple[int, ...]
    live: frozenset[str] = field(default_factory=frozenset)


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


def spans(instructions: Sequence[Instruction], cells: frozenset[str] = frozenset()) -> dict[int, Span]:
    """The reachable spans, by their start, in reverse postorder. `cells` are the function's own cell variables."""
    cut = _cut(instructions)
    reached = {start: cut[start] for start in topological(0, lambda start: cut[start].successors)}
    _find_live(instructions, reached, cells)
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
    found = {}
    for start, stop in zip(starts, [*starts[1:], len(instructions)], strict=True):
        last = instructions[stop - 1]
        jumps = () if last.target is None else (last.target,)
        found[start] = Span(start, stop, jumps if last.opcode in TERMINATORS else (stop, *jumps))
    return found


def _find_live(instructions: Sequence[Instruction], reached: dict[int, Span], cells: frozenset[str]) -> None:
    """Backward data flow: live = loaded first, or live after and not stored."""
    loaded: dict[int, set[str]] = {}
    stored: dict[int, set[str]] = {}
    every_cell = {f"{CELL}{cell}" for cell in cells}
    for start, span in reached.items():
        first, written = loaded[start], stored[start] = set[str](), set[str]()
        for instruction in instructions[start : span.stop]:
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
    changed = True
    while changed:
        changed = False
        for start in reversed(list(reached)):
            span = reached[start]
            after = frozenset().union(*(reached[s].live for s in span.successors))
            live = loaded[start] | (after - stored[start])
            changed |= live != span.live
            span.live = frozenset(live)
