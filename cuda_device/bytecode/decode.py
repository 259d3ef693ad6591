"""Decodes a code object of the running CPython into version-independent instructions.

    >>> [str(instruction) for instruction in decode((lambda x: x.size + 1).__code__)]
    ["LOAD 'x'", "ATTR 'size'", 'CONST 1', "BINARY '+'", 'RETURN']

The decoder follows the paths that execution can take, and translates every raw instruction by a row of the table in `versions`.
It tracks the raw stack, but only which slots hold ordinary values and which hold CPython's own markers (`Slot`). This tells it
what a raw `CALL 0` means (a call without arguments, or with one argument in the place of `self`), which slots to drop because
they are not values, and how to correct the positions of COPY and SWAP.

Exception handlers can only be reached by raising, so the decoder never visits one. It stops with `UNSUPPORTED` at the beginning
of a region that one of the user's handlers protects. Handlers that CPython adds to restore the variables of a comprehension are
not needed in code that cannot catch exceptions.

Unknown versions of CPython raise an error.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType

from cuda_device.bytecode.instructions import TERMINATORS, Instruction, Opcode
from cuda_device.bytecode.translate import Cursor, Raw, Row, Slot, Step, Steps
from cuda_device.bytecode.versions import ADDED_ROWS, FUSED, IGNORED, UNSUPPORTED
from cuda_device.errors import CompileError, CompilerBug, Location
from cuda_device.lazy_dataclasses import replace

VERSION = sys.version_info[:2]

ROWS: dict[str, Row] = {
    name: row for version in sorted(ADDED_ROWS) if version <= VERSION for name, row in ADDED_ROWS[version].items()
}
"""The rows of the running version: where an older version has the same instruction, the newer row counts."""

JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)


# `dis` prints constants, and Python refuses to print integers that are much larger than this.
_MOST_BITS = 10_000


def decode(code: CodeType) -> tuple[Instruction, ...]:
    """The reachable instructions of `code`, in the order of the bytecode.

    Raises `CompileError` if this version of CPython is not supported.
    """
    location = Location(code.co_filename, code.co_firstlineno, function=code.co_qualname)
    if VERSION not in ADDED_ROWS:
        here, oldest, newest = (".".join(map(str, v)) for v in (VERSION, min(ADDED_ROWS), max(ADDED_ROWS)))
        raise CompileError(
            f"this compiler cannot read the bytecode of Python {here}",
            location,
            help=f"use Python {oldest} to {newest}",
        )
    for constant in code.co_consts:
        if isinstance(constant, int) and constant.bit_length() > _MOST_BITS:
            reason = f"a constant of {constant.bit_length()} bits"
            raise CompileError(reason, location, help="no type is wider than 64 bits")
    # Code objects compare equal if only their file and qualified name differ.
    return _decoded(code, code.co_filename, code.co_qualname)


@lru_cache(maxsize=256)
def _decoded(code: CodeType, _file: str, _name: str) -> tuple[Instruction, ...]:
    raws = _read(code)
    return _assemble(raws, _walk(code, raws))


# Reading the instructions that `dis` lists


def _read(code: CodeType) -> list[Raw]:
    """The raw instructions that have an effect, with fused ones divided, and targets and protected regions resolved."""
    raws: list[Raw] = []
    index_of: dict[int, int] = {}
    targets: list[tuple[Raw, int]] = []
    tries: dict[int, Location] = {}
    for source in dis.get_instructions(code):
        index_of[source.offset] = len(raws)
        line, end_line, column, end_column = source.positions or (None,) * 4
        location = Location(
            file=code.co_filename,
            line=line or 0,
            end_line=end_line or 0,
            column=-1 if column is None else column,
            end_column=-1 if end_column is None else end_column,
            function=code.co_qualname,
            offset=source.offset,
        )
        if source.opname == "NOP":
            tries[source.offset + 2] = location
        if source.opname in IGNORED:
            continue
        if source.opname in FUSED:
            parts = zip(FUSED[source.opname], source.argval, strict=True)
            raws += [Raw(name, 0, name_of_variable, "", location, 0) for name, name_of_variable in parts]
            continue
        effect = dis.stack_effect(source.opcode, source.arg, jump=False)
        raws.append(Raw(source.opname, source.arg or 0, source.argval, source.argrepr, location, effect))
        if source.opcode in JUMPS:
            targets.append((raws[-1], source.argval))
    for raw, offset in targets:
        raw.target = index_of[offset]
    _mark_protected(code, raws, index_of, tries)
    return raws


def _mark_protected(
    code: CodeType, raws: list[Raw], index_of: Mapping[int, int], tries: Mapping[int, Location]
) -> None:
    """Sets `protection`. Handlers of a user's statement begin with PUSH_EXC_INFO; CPython's own ones never do.

    Protected instructions get the location of the word `try`, which is a NOP; `tries` has these, by the offset behind them.
    """
    for entry in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]  # since 3.11
        start, first = entry.start, index_of[entry.target]
        if raws[first].name != "PUSH_EXC_INFO":
            continue
        names = [raw.name for raw in raws[first:]]
        handler_names = names[: names.index("RERAISE")] if "RERAISE" in names else names
        catches = {"CHECK_EXC_MATCH", "CHECK_EG_MATCH", "POP_EXCEPT"}.intersection(handler_names)
        protection = "with" if names[1] == "WITH_EXCEPT_START" else "try" if catches else "try with finally"
        for raw in raws:
            if start <= raw.location.offset < entry.end:
                raw.protection = protection
                if protection != "with" and start in tries:
                    location = tries[start]
                    end = location.column + len("try") if location.column >= 0 else -1
                    raw.location = replace(location, end_line=location.line, end_column=end, offset=raw.location.offset)


# Walking: every path once


def _walk(code: CodeType, raws: list[Raw]) -> dict[int, Steps]:
    """Translates every reachable raw instruction; returns our instructions by the index of the raw one."""
    steps_of: dict[int, Steps] = {}
    known: dict[int, list[Slot]] = {}
    pending: list[tuple[int, list[Slot]]] = [(0, [])]
    while pending:
        index, slots = pending.pop()
        if index in known:
            if known[index] != slots:
                raise CompilerBug(f"the stack differs between two paths to offset {raws[index].location.offset}")
            continue
        known[index] = slots
        raw = raws[index]
        cursor = Cursor(code, raws, raw, index, slots.copy())
        if raw.protection or raw.name not in ROWS:
            construct = raw.protection or UNSUPPORTED.get(raw.name, f"the bytecode instruction {raw.name}")
            steps: Steps = (Step(Opcode.UNSUPPORTED, construct),)
        else:
            steps = ROWS[raw.name](cursor)
        steps_of[index] = steps
        at_target = cursor.slots if cursor.slots_at_target is None else cursor.slots_at_target
        for step in steps:
            if step.target >= 0:
                pending.append((step.target, at_target))  # noqa: PERF401  # a comprehension would be a call
        if not steps or steps[-1].opcode not in TERMINATORS:
            pending.append((index + 1, cursor.slots))
    return steps_of


def _assemble(raws: list[Raw], steps_of: Mapping[int, Steps]) -> tuple[Instruction, ...]:
    """All instructions in order. A jump to a raw instruction that has none goes to the next."""
    start_of, length = [], 0
    for index in range(len(raws)):
        start_of.append(length)
        length += len(steps_of.get(index, ()))
    assembled = [
        Instruction(step.opcode, step.argument, start_of[step.target] if step.target >= 0 else None, raw.location)
        for index, raw in enumerate(raws)
        for step in steps_of.get(index, ())
    ]
    return tuple(assembled)
