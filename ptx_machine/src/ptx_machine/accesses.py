"""Loads, stores, atomic operations, and addresses from one space to another."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ptx_machine.memory import LOCAL, SHARED, Bytes, check_aligned
from ptx_machine.operands import TYPES, Get, Scope, is_register, pairs, reader, writer
from ptx_machine.reader import Instruction, Unsupported

Values = np.ndarray
Step = Callable[[Any], Any]
_SPACES = ("global", "shared", "local", "param", "const")
_ADDRESS = re.compile(r"\[\s*([%$\w]+)\s*(?:\+\s*(-?\d+))?\s*\]")


def _space(opcode: tuple[str, ...]) -> str:
    """The space that an opcode names, or generic."""
    return next((part.partition("::")[0] for part in opcode if part.partition("::")[0] in _SPACES), "generic")


def _address(operand: str, scope: Scope) -> Get:
    """How to compute an address, as 64 bits for each thread."""
    match = _ADDRESS.fullmatch(operand)
    if match is None:
        raise Unsupported(f"address {operand!r}")
    name, offset = match[1], np.uint64(int(match[2] or 0) % (1 << 64))
    narrow = is_register(name, scope) and scope.bits_of(name).itemsize == 4
    base = reader(name, "u32" if narrow else "u64", scope)

    def address(group: Any) -> Values:
        found = np.broadcast_to(base(group), (group.count,)).astype(np.uint64) + offset
        return found & np.uint64(0xFFFFFFFF) if narrow else found

    return address


def locate(group: Any, space: str, addresses: Values, size: int) -> list[tuple[Bytes, Values, Values | slice]]:
    """Where the words are: memory, offsets there, and which of the group's threads these are."""
    machine = group.machine
    if space in ("global", "const", "param"):
        return [(machine.arena.bytes, machine.arena.offsets(addresses, size), slice(None))]
    if space == "shared":
        return [
            (machine.shared.bytes, machine.shared.offsets(addresses, size, machine.block_of[group.index]), slice(None))
        ]
    if space == "local":
        return [(machine.local.bytes, machine.local.offsets(addresses, size, group.threads), slice(None))]
    window = addresses >> np.uint64(56)
    found: list[tuple[Bytes, Values, Values | slice]] = []
    for number, named, start in ((0, "global", 0), (1, "shared", SHARED), (2, "local", LOCAL)):
        which = np.flatnonzero(window == number)
        if len(which):
            part = group.only(which)
            ((memory, offsets, _),) = locate(part, named, addresses[which] - np.uint64(start), size)
            found.append((memory, offsets, which))
    if sum(len(which) for _, _, which in found) != len(addresses):
        machine.arena.offsets(addresses, size)  # which faults
    return found


def load(instruction: Instruction, scope: Scope) -> Step:
    """`ld`."""
    opcode, space = instruction.opcode, _space(instruction.opcode)
    kind, (target, source) = opcode[-1], instruction.operands
    targets = target if isinstance(target, tuple) else (target,)
    word = TYPES[f"b{8 * TYPES[kind].itemsize}"]
    held = kind if kind[0] == "s" else f"b{8 * word.itemsize}"  # what is signed is extended so
    dtype, puts = TYPES[held], [writer(name, held, scope) for name in targets]
    if space == "param" and (at := _parameter(source, scope)):
        name, offset = at

        def run_parameter(group: Any) -> None:
            rows = group.frame.parameters[name][group.index]
            for i, put in enumerate(puts):
                start = offset + i * word.itemsize
                put(
                    group,
                    np.ascontiguousarray(rows[:, start : start + word.itemsize]).view(word).reshape(-1).view(dtype),
                )

        return run_parameter
    address, size = _address(source, scope), dtype.itemsize

    def run(group: Any) -> None:
        addresses = address(group)
        check_aligned(addresses, size * len(puts))
        loaded = []
        for i in range(len(puts)):
            values = np.empty(group.count, word)
            for memory, offsets, which in locate(group, space, addresses + np.uint64(i * size), size):
                values[which] = memory.load(offsets, size)
            loaded.append(values)
        for put, values in zip(puts, loaded, strict=True):
            put(group, values.view(dtype))

    return run


def store(instruction: Instruction, scope: Scope) -> Step:
    """`st`."""
    opcode, space = instruction.opcode, _space(instruction.opcode)
    target, source = instruction.operands
    sources = source if isinstance(source, tuple) else (source,)
    size = TYPES[opcode[-1]].itemsize
    kind = f"b{8 * size}"
    word = TYPES[kind]
    # Of `_` nothing is stored.
    gets = [None if name == "_" else reader(name, kind, scope) for name in sources]
    if space == "param":
        name, offset = _parameter(target, scope)

        def run_parameter(group: Any) -> None:
            rows = group.frame.parameter(name)
            for i, get in enumerate(gets):
                values = np.ascontiguousarray(np.broadcast_to(get(group), (group.count,)), word)
                start = offset + i * size
                rows[group.index, start : start + size] = values.view(np.uint8).reshape(-1, size)

        return run_parameter
    address = _address(target, scope)

    def run(group: Any) -> None:
        addresses = address(group)
        check_aligned(addresses, size * len(gets))
        for i, get in enumerate(gets):
            if get is None:
                continue
            values = np.broadcast_to(np.asarray(get(group), word), (group.count,))
            for memory, offsets, which in locate(group, space, addresses + np.uint64(i * size), size):
                memory.store(offsets, size, values[which])

    return run


def _parameter(operand: str, scope: Scope) -> tuple[str, int] | None:
    """The name and offset of a function's parameter; None for a kernel's, which has an address."""
    match = _ADDRESS.fullmatch(operand)
    if match is None or match[1] in scope.symbols or is_register(match[1], scope):
        return None
    return match[1], int(match[2] or 0)


def convert_address(instruction: Instruction, scope: Scope) -> Step:
    """`cvta`: between the addresses of a space and generic ones."""
    opcode = instruction.opcode
    start = np.uint64({"shared": SHARED, "local": LOCAL}.get(_space(opcode), 0))
    kind = opcode[-1]
    target, source = instruction.operands
    get, put = reader(source, kind, scope), writer(target, kind, scope)
    if "to" in opcode:
        return lambda group: put(group, get(group) - start)
    return lambda group: put(group, get(group) + start)


def in_space(instruction: Instruction, scope: Scope) -> Step:
    """`isspacep`."""
    number = {"global": 0, "const": 0, "param": 0, "shared": 1, "local": 2}[_space(instruction.opcode)]
    target, source = instruction.operands
    get, put = reader(source, "u64", scope), writer(target, "pred", scope)
    return lambda group: put(group, (get(group) >> np.uint64(56)) == number)


# ---- Atomic operations

_UPDATES: dict[str, Callable[..., Any]] = {
    "add": lambda old, b: old + b,
    "min": min,
    "max": max,
    "and": lambda old, b: old & b,
    "or": lambda old, b: old | b,
    "xor": lambda old, b: old ^ b,
    "exch": lambda old, b: b,
    "cas": lambda old, b, c: c if old == b else old,
    "inc": lambda old, b: type(b)(0) if old >= b else old + type(b)(1),
    "dec": lambda old, b: b if old == 0 or old > b else old - type(b)(1),
}


def atomic(instruction: Instruction, scope: Scope) -> Step:
    """`atom` and `red`: threads one after the other, in any order."""
    opcode, space = instruction.opcode, _space(instruction.opcode)
    operation = next(part for part in opcode if part in _UPDATES)
    kind, update = opcode[-1], _UPDATES[operation]
    operands = instruction.operands
    target, (source, *others) = (operands[0], operands[1:]) if opcode[0] == "atom" else ("_", operands)
    if isinstance(others[0], tuple):
        raise Unsupported(instruction.text)
    dtype, packed = TYPES[kind], pairs(kind)
    size = 4 if packed else dtype.itemsize
    address, gets = _address(source, scope), [reader(name, kind, scope) for name in others]
    put = writer(target, kind, scope)
    word = TYPES[f"b{8 * size}"]

    def run(group: Any) -> None:
        addresses = address(group)
        check_aligned(addresses, size)
        shape = (group.count, 2) if packed else (group.count,)
        values = [np.broadcast_to(get(group), shape) for get in gets]
        olds = np.empty(shape, dtype)
        for memory, offsets, which in locate(group, space, addresses, size):
            cells = memory.of[size]
            numbers = np.arange(group.count)[which]
            for i in group.machine.random.permutation(len(numbers)):
                number, cell = numbers[i], offsets[i] // size
                old = cells[cell : cell + 1].view(dtype)
                old = old.copy() if packed else old[0]
                olds[number] = old
                new = update(old, *(value[number] for value in values))
                cells[cell] = np.asarray(new, dtype).reshape(-1).view(word)[0]
        put(group, olds)

    return run
