"""Builds the control-flow graph: divides instructions into spans (basic blocks), and finds the live variables.

A variable is live at the start of a span if some path from there loads it before storing to it. Only live variables become block
parameters.

    while i < n: i += 1         span 0: LOAD i, LOAD n, COMPARE, JUMP_IF_FALSE → 1, 2    live in: i, n
    return i                    span 1: LOAD i, CONST 1, BINARY, STORE i, JUMP → 0       live in: i, n
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.bytecode.instructions import TERMINATORS, Instruction, Opcode
from cuda_device.ir.dominance import topological
from cuda_device.lazy_dataclasses import dataclass, field

_CONDITIONAL = frozenset((Opcode.JUMP_IF_TRUE, Opcode.JUMP_IF_FALSE, Opcode.FOR_ITER))
# A generator goes on behind its `yield`.
_ENDS = TERMINATORS | {Opcode.YIELD}


@dataclass(slots=True, eq=False)
class Span:
    """Instructions `start` to `stop` (exclusive). `successors` are starts of spans: where to fall through, then where to jump."""

    start: int
    stop: int
    successors: tuple[int, ...]
    live: frozenset[str] = field(default_factory=frozenset)


# Cells are variables, too: `&x` is the cell variable that is called x. What may call a nested function may read any.
CELL = "&"
_CELL_LOADS = frozenset((Opcode.LOAD_CELL, Opcode.DELETE_CELL))
_CELL_STORES = frozenset((Opcode.STORE_CELL, Opcode.DELETE_CELL))
# So may what steps an iterator, which may be a generator or a `map`.
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
    instructions: Sequence[Instruction], cells: frozenset[str] = frozenset(), boxed: frozenset[str] = frozenset()
) -> dict[int, Span]:
    """The spans that can be reached, by their start, in reverse postorder.

    `cells` are the function's own cell variables; to assign to one that is `boxed` takes its box.
    """
    cut = _cut(instructions)
    reached = {start: cut[start] for start in topological(0, lambda start: cut[start].successors)}
    _find_live(instructions, reached, cells, boxed)
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


def _find_live(
    instructions: Sequence[Instruction], reached: dict[int, Span], cells: frozenset[str], boxed: frozenset[str]
) -> None:
    """Backward data flow: live = loaded first, or live after and not stored."""
    loaded: dict[int, frozenset[str]] = {}
    stored: dict[int, frozenset[str]] = {}
    for start, span in reached.items():
        first: set[str] = set()
        written: set[str] = set()
        for instruction in instructions[start : span.stop]:
            loads, stores = _variables(instruction, cells, boxed)
            first |= loads - written
            written |= stores
        loaded[start], stored[start] = frozenset(first), frozenset(written)
    changed = True
    while changed:
        changed = False
        for start in reversed(list(reached)):
            span = reached[start]
            after = frozenset().union(*(reached[s].live for s in span.successors))
            live = loaded[start] | (after - stored[start])
            changed |= live != span.live
            span.live = live


def _variables(instruction: Instruction, cells: frozenset[str], boxed: frozenset[str]) -> tuple[set[str], set[str]]:
    """The variables that an instruction reads, and those that it writes."""
    code, name = instruction.opcode, instruction.argument
    loads, stores = set(), set()
    if code in (Opcode.LOAD, Opcode.LOAD_AND_CLEAR, Opcode.DELETE):
        loads.add(str(name))
    if code in (Opcode.STORE, Opcode.LOAD_AND_CLEAR, Opcode.DELETE):
        stores.add(str(name))
    if (code in _CELL_LOADS and name in cells) or (code in _CELL_STORES and name in boxed):
        loads.add(f"{CELL}{name}")
    if (code in _CELL_STORES and name in cells - boxed) or code is Opcode.SAVE_CELL:
        stores.add(f"{CELL}{name}")
    if code in READS_CELLS:
        loads |= {f"{CELL}{cell}" for cell in cells}
    return loads, stores
