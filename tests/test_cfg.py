"""Spans and liveness: golden texts on one version of Python, what must hold on all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import golden_pages
import pytest
from decoding import programs
from golden_pages import Golden
from ir_helpers import underlying
from ir_programs import IDS, PROGRAMS

from cuda_device.bytecode.cfg import Span, spans
from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.instructions import TERMINATORS, Instruction, Opcode

# Bytecode changes with each version; texts are compared for the one on which they were written.
CONDITIONAL = (Opcode.JUMP_IF_TRUE, Opcode.JUMP_IF_FALSE, Opcode.FOR_ITER)
USES = (Opcode.LOAD, Opcode.LOAD_AND_CLEAR, Opcode.DELETE)
KILLS = (Opcode.STORE, Opcode.LOAD_AND_CLEAR, Opcode.DELETE)


def straight(x):
    y = x + 1
    return y * x


def loop(n):
    i = 0
    while i < n:
        i += 1
    return i


def early_return(x, n):
    if n > 0:
        return x
    x = 2
    return x


def short_circuit(a, b, c):
    return (a and b) or c


def for_with_break(xs, y):
    for x in xs:
        if x == y:
            found = x
            break
    else:
        found = y
    return found


def nested(n, m):
    total = 0
    for i in range(n):
        for j in range(m):
            if i == j:
                continue
            total += i * j
    return total


def defined_on_one_way(flag):
    if flag:
        x = 1
    return x


def ternary(a, b):
    return min(b, a)


def deleted(x):
    y = x
    del x
    return y


def endless(n):
    while True:
        n += 1


SMALL = [
    straight,
    loop,
    early_return,
    short_circuit,
    for_with_break,
    nested,
    defined_on_one_way,
    ternary,
    deleted,
    endless,
]


def text(instructions: Sequence[Instruction], found: dict[int, Span]) -> str:
    """The spans, with their instructions."""
    lines = []
    for span in found.values():
        ways = ", ".join(map(str, span.successors)) or "nowhere"
        lines.append(f"span {span.start}, live: {', '.join(sorted(span.live)) or 'nothing'}")
        lines += [f"    {instruction}" for instruction in instructions[span.start : span.stop]]
        lines.append(f"    to {ways}")
    return "\n".join(lines) + "\n"


@golden_pages.recorded
@pytest.mark.parametrize("function", SMALL, ids=lambda function: function.__name__)
def test_spans(function: Any, golden: Golden) -> None:
    instructions = decode(function.__code__)
    golden(function.__name__, text(instructions, spans(instructions)))


ALL = [*SMALL, *(function for function, _ in programs.PROGRAMS), *(underlying(program) for program, _ in PROGRAMS)]
every = pytest.mark.parametrize(
    "function", ALL, ids=[f.__name__ for f in SMALL] + [f.__name__ for f, _ in programs.PROGRAMS] + IDS
)


@every
def test_spans_are_the_reachable_instructions_once(function: Any) -> None:
    instructions = decode(function.__code__)
    found = spans(instructions)
    assert next(iter(found)) == 0
    covered: list[int] = []
    for start, span in found.items():
        assert span.start == start < span.stop <= len(instructions)
        covered += range(span.start, span.stop)
        assert set(span.successors) <= set(found)
        assert all(
            i.opcode not in TERMINATORS and i.opcode not in CONDITIONAL for i in instructions[start : span.stop - 1]
        )
    assert len(covered) == len(set(covered))
    assert set(covered) == _reachable(instructions)


@every
def test_successors_are_where_execution_goes(function: Any) -> None:
    instructions = decode(function.__code__)
    for span in spans(instructions).values():
        last = span.stop - 1
        assert set(span.successors) == set(_after(instructions, last))
        if instructions[last].opcode in CONDITIONAL:
            assert span.successors == (span.stop, instructions[last].target)


@every
def test_spans_come_after_those_that_lead_to_them(function: Any) -> None:
    """Reverse postorder: only the way back to a loop's beginning leads to an earlier span."""
    found = spans(decode(function.__code__))
    place = {start: i for i, start in enumerate(found)}
    leading: dict[int, set[int]] = {start: set() for start in found}
    for start, span in found.items():
        for successor in span.successors:
            leading[successor].add(start)
    for start in list(found)[1:]:
        assert any(place[before] < place[start] for before in leading[start])
    for start, span in found.items():
        for successor in span.successors:
            if place[successor] <= place[start]:
                assert _leads_to(found, successor, start)  # a loop


@every
def test_live_variables_are_those_that_some_way_loads_first(function: Any) -> None:
    instructions = decode(function.__code__)
    names = {str(i.argument) for i in instructions if i.opcode in (*USES, *KILLS)}
    where = {name: _loaded_from(instructions, name) for name in names}
    for span in spans(instructions).values():
        assert span.live == {name for name in names if span.start in where[name]}


def _after(instructions: Sequence[Instruction], at: int) -> list[int]:
    instruction = instructions[at]
    ways = [] if instruction.target is None else [instruction.target]
    return ways if instruction.opcode in TERMINATORS else [at + 1, *ways]


def _reachable(instructions: Sequence[Instruction]) -> set[int]:
    seen, todo = set(), [0]
    while todo:
        at = todo.pop()
        if at not in seen:
            seen.add(at)
            todo += _after(instructions, at)
    return seen


def _leads_to(found: dict[int, Span], start: int, goal: int) -> bool:
    seen, todo = set(), [start]
    while todo:
        at = todo.pop()
        if at == goal:
            return True
        if at not in seen:
            seen.add(at)
            todo += found[at].successors
    return False


def _loaded_from(instructions: Sequence[Instruction], name: str) -> set[int]:
    """The instructions from which some way leads to a load of the variable and to no store before it."""
    before: dict[int, list[int]] = {}
    for at in _reachable(instructions):
        for after in _after(instructions, at):
            before.setdefault(after, []).append(at)
    kills = {at for at, i in enumerate(instructions) if i.argument == name and i.opcode in KILLS}
    todo = [at for at, i in enumerate(instructions) if i.argument == name and i.opcode in USES]
    found = set(todo)
    while todo:
        for at in before.get(todo.pop(), ()):
            if at not in found and at not in kills:
                found.add(at)
                todo.append(at)
    return found
