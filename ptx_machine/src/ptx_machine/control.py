"""Instructions as steps: what the machine calls, with the group of threads that is there.

A step returns where the group goes on, or None if its threads now stand in different places, wait, or have ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptx_machine import accesses, printing
from ptx_machine.arithmetic import Rule, high, rule
from ptx_machine.collectives import active, barrier, warp_operation
from ptx_machine.conversions import conversion
from ptx_machine.memory import LAUNCH_FAILED, Fault
from ptx_machine.operands import TYPES, Get, Put, Scope, is_register, pairs, reader, writer
from ptx_machine.reader import Instruction, Unsupported

Values = np.ndarray
Run = Callable[[Any, int], "int | None"]


@dataclass(slots=True)
class Step:
    """An instruction; `operation` is the barrier or operation of warps that it is."""

    text: str
    run: Run
    operation: Any = None


def step(instruction: Instruction, scope: Scope, start: int) -> Step:
    """The step of an instruction in a function whose first step is `start`. What is not supported fails where it is reached."""
    try:
        if operation := warp_operation(instruction, scope) or barrier(instruction, scope):
            return _waiting(instruction, operation)
        make = _CONTROL.get(instruction.opcode[0])
        if make is not None:
            return Step(instruction.text, make(instruction, scope, start))
        return Step(instruction.text, _plain(_action(instruction, scope), _guard(instruction, scope)))
    except Unsupported as reason:
        return Step(instruction.text, _refuse(f"{reason}: {instruction.text}"))


def _refuse(why: str) -> Run:
    def run(group: Any, pc: int) -> None:
        raise Unsupported(why)

    return run


def _guard(instruction: Instruction, scope: Scope) -> Callable[[Any], Values] | None:
    if instruction.guard is None:
        return None
    name, negated = instruction.guard
    get = reader(name, "pred", scope)
    return (lambda group: ~get(group)) if negated else get


def _plain(act: Callable[[Any], Any], guard: Callable[[Any], Values] | None) -> Run:
    """A step that goes on to the next one."""
    if guard is None:

        def run(group: Any, pc: int) -> int:
            act(group)
            return pc + 1

        return run

    def run_guarded(group: Any, pc: int) -> int:
        which = np.flatnonzero(guard(group))
        if len(which):
            act(group.only(which))
        return pc + 1

    return run_guarded


def _action(instruction: Instruction, scope: Scope) -> Callable[[Any], Any]:
    opcode = instruction.opcode
    name = opcode[0]
    if name in _ACTIONS:
        return _ACTIONS[name](instruction, scope)
    if name in ("addc", "subc", "madc") or "cc" in opcode:
        return _with_carry(instruction, scope)
    found = conversion(opcode) if name == "cvt" else rule(opcode)
    if found is None:
        raise Unsupported(name)
    target, *sources = instruction.operands
    if len(sources) != len(found.sources):
        raise Unsupported("operands")
    gets = [reader(operand, kind, scope) for operand, kind in zip(sources, found.sources, strict=True)]
    if isinstance(target, tuple):
        return _comparing(target, found, gets, scope)
    return _computing(writer(target, found.result, scope), found.compute, gets)


def _comparing(targets: tuple[str, ...], found: Rule, gets: list[Get], scope: Scope) -> Callable[[Any], Any]:
    """`setp` with two results: one for each number of a pair, or the comparison and its opposite."""
    first, second = (writer(target, "pred", scope) for target in targets)

    def run(group: Any) -> None:
        result = np.asarray(found.compute(*(get(group) for get in gets)))
        packed = pairs(found.sources[0])
        first(group, result[:, 0] if packed else result)
        second(group, result[:, 1] if packed else ~result)

    return run


def _computing(put: Put, compute: Callable[..., Values], gets: list[Get]) -> Callable[[Any], Any]:
    """Written out for few operands, because most of the machine's time passes here."""
    match gets:
        case [a]:
            return lambda group: put(group, compute(a(group)))
        case [a, b]:
            return lambda group: put(group, compute(a(group), b(group)))
        case [a, b, c]:
            return lambda group: put(group, compute(a(group), b(group), c(group)))
    return lambda group: put(group, compute(*(get(group) for get in gets)))


# ---- Moves and carries


def _move(instruction: Instruction, scope: Scope) -> Callable[[Any], Any]:
    target, source = instruction.operands
    kind = instruction.opcode[-1]
    if isinstance(target, tuple):
        return _unpack(target, source, kind, scope)
    if isinstance(source, tuple):
        return _pack(target, source, kind, scope)
    kind = kind if kind == "pred" else f"b{8 * TYPES[kind].itemsize}"
    get, put = reader(source, kind, scope), writer(target, kind, scope)
    return lambda group: put(group, get(group))


def _part(count: int, kind: str) -> str:
    return f"b{8 * TYPES[kind].itemsize // count}"


def _unpack(targets: tuple[str, ...], source: str, kind: str, scope: Scope) -> Callable[[Any], Any]:
    part = _part(len(targets), kind)
    get, puts = reader(source, kind, scope), [writer(target, part, scope) for target in targets]

    def run(group: Any) -> None:
        values = np.ascontiguousarray(np.broadcast_to(get(group), (group.count,)))
        parts = values.view(TYPES[part]).reshape(group.count, -1)
        for i, put in enumerate(puts):
            put(group, parts[:, i].copy())

    return run


def _pack(target: str, sources: tuple[str, ...], kind: str, scope: Scope) -> Callable[[Any], Any]:
    part = _part(len(sources), kind)
    gets, put = [reader(source, part, scope) for source in sources], writer(target, kind, scope)

    def run(group: Any) -> None:
        parts = [np.broadcast_to(get(group), (group.count,)) for get in gets]
        put(group, np.stack(parts, axis=-1).view(TYPES[kind]).reshape(-1))

    return run


def _with_carry(instruction: Instruction, scope: Scope) -> Callable[[Any], Any]:
    """Arithmetic that hands a carry from one instruction to the next."""
    opcode, (target, *sources) = instruction.opcode, instruction.operands
    name, kind = opcode[0], opcode[-1]
    unsigned = f"u{kind[1:]}"
    bits = 8 * TYPES[kind].itemsize
    takes, gives = name.endswith("c"), "cc" in opcode
    gets, put = [reader(source, unsigned, scope) for source in sources], writer(target, unsigned, scope)

    def run(group: Any) -> None:
        values = [np.broadcast_to(get(group), (group.count,)) for get in gets]
        carry = group.frame["%carry"][group.index].astype(object) if takes else 0
        if name.startswith("mad"):
            a, b, addend = values
            product = high(a, b, kind) if "hi" in opcode else a * b
            total = product.astype(TYPES[unsigned]).astype(object) + addend.astype(object) + carry
        elif name.startswith("add"):
            total = values[0].astype(object) + values[1].astype(object) + carry
        else:
            total = values[0].astype(object) - values[1].astype(object) - carry
        if gives:
            group.frame["%carry"][group.index] = (total < 0) | (total >= 1 << bits)
        put(group, (total % (1 << bits)).astype(TYPES[unsigned]))

    return run


def _nothing(instruction: Instruction, scope: Scope) -> Callable[[Any], Any]:
    return lambda group: None


_ACTIONS = {
    "mov": _move, "ld": accesses.load, "st": accesses.store, "atom": accesses.atomic, "red": accesses.atomic,
    "cvta": accesses.convert_address, "isspacep": accesses.in_space, "activemask": active,
    "fence": _nothing, "membar": _nothing, "nanosleep": _nothing, "prefetch": _nothing, "discard": _nothing,
}  # fmt: skip
"""What is not arithmetic and goes on to the next step."""


# ---- Branches, calls, ends


def _branch(instruction: Instruction, scope: Scope, start: int) -> Run:
    target = start + scope.function.labels[instruction.operands[0]]
    guard = _guard(instruction, scope)
    if guard is None:
        return lambda group, pc: target

    def run(group: Any, pc: int) -> int | None:
        taken = guard(group)
        if taken.all():
            return target
        if not taken.any():
            return pc + 1
        group.machine.pc[group.index] = np.where(taken, target, pc + 1)
        return None

    return run


def _branch_by_table(instruction: Instruction, scope: Scope, start: int) -> Run:
    index, table = instruction.operands
    targets = np.array([start + scope.function.labels[name] for name in scope.function.tables[table]])
    get = reader(index, "u32", scope)

    def run(group: Any, pc: int) -> None:
        group.machine.pc[group.index] = targets[np.broadcast_to(get(group), (group.count,))]

    return run


def _call(instruction: Instruction, scope: Scope, start: int) -> Run:
    operands = list(instruction.operands)
    results = operands.pop(0) if isinstance(operands[0], tuple) else ()
    name = operands.pop(0)
    arguments = operands.pop(0) if operands else ()
    if is_register(name, scope):
        raise Unsupported("a call through a pointer")
    if name == "vprintf":
        return printing.call(results, arguments)

    def run(group: Any, pc: int) -> None:
        machine = group.machine
        callee = machine.module.program.functions[name]
        frame = machine.frame(group.depth + 1, name)
        for parameter, argument in zip(callee.parameters, arguments, strict=True):
            rows = group.frame.parameter(argument)[group.index]
            frame.parameter(parameter.name)[group.index, : parameter.size] = rows[:, : parameter.size]
        frame.stack[group.index] = group.frame.stack[group.index] + np.uint64(
            machine.module.stack_bytes[scope.function.name]
        )
        machine.depth[group.index] = group.depth + 1
        machine.pc[group.index] = machine.module.entries[name]
        back = machine.return_to.setdefault(group.depth + 1, np.zeros(len(machine.numbers), np.int64))
        back[group.index] = pc
        return None

    run.results = results
    return run


def _return(instruction: Instruction, scope: Scope, start: int) -> Run:
    leaves = _leave(scope)
    guard = _guard(instruction, scope)
    if guard is None:
        return leaves

    def run(group: Any, pc: int) -> None:
        which = guard(group)
        group.machine.pc[group.index] = pc + 1
        if which.any():
            leaves(group.only(np.flatnonzero(which)), pc)

    return run


def _leave(scope: Scope) -> Run:
    function = scope.function

    def run(group: Any, pc: int) -> None:
        machine = group.machine
        if group.depth == 0:
            machine.end(group)
            return
        calls = machine.return_to[group.depth][group.index]
        for call in np.unique(calls):
            part = group.only(np.flatnonzero(calls == call))
            caller = machine.frame(group.depth - 1, machine.module.functions[call].name)
            for result, name in zip(function.results, machine.module.steps[call].run.results, strict=False):
                rows = group.frame.parameter(result.name)[part.index]
                caller.parameter(name)[part.index, : rows.shape[1]] = rows
            machine.pc[part.index] = call + 1
            machine.depth[part.index] = group.depth - 1

    return run


def _exit(instruction: Instruction, scope: Scope, start: int) -> Run:
    guard = _guard(instruction, scope)

    def run(group: Any, pc: int) -> None:
        group.machine.pc[group.index] = pc + 1
        which = np.arange(group.count) if guard is None else np.flatnonzero(guard(group))
        if len(which):
            group.machine.end(group.only(which))

    return run


def _trap(instruction: Instruction, scope: Scope, start: int) -> Run:
    guard = _guard(instruction, scope)

    def run(group: Any, pc: int) -> int:
        if guard is None or guard(group).any():
            raise Fault("trap", LAUNCH_FAILED)
        return pc + 1

    return run


_CONTROL = {
    "bra": _branch, "brx": _branch_by_table, "call": _call, "ret": _return, "exit": _exit, "trap": _trap,
}  # fmt: skip


def _waiting(instruction: Instruction, operation: Any) -> Step:
    if instruction.guard is not None:
        raise Unsupported("a barrier for some")
    if hasattr(operation, "finish"):

        def run_block(group: Any, pc: int) -> None:
            group.machine.wait_for_block(group, pc)

        return Step(instruction.text, run_block, operation)

    def run_warp(group: Any, pc: int) -> None:
        group.machine.wait_for_warp(group, pc, operation)

    return Step(instruction.text, run_warp, operation)
