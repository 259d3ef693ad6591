"""Typed access to operands: registers, constants, special registers, addresses of variables.

    get = reader("%r1", "f32", scope)          get(group) -> float32 of each thread of the group
    put = writer("%r2", "u16", scope)          put(group, values)

Registers hold bits: unsigned words, one for each thread. A type of fewer bits reads the low ones; a result of fewer bits is
extended with its sign, or zeros.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ptx_machine.memory import PAIR
from ptx_machine.reader import Function, Unsupported

Values = np.ndarray
Get = Callable[[Any], Values]
Put = Callable[[Any, Values], None]

BITS = {8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32), 64: np.dtype(np.uint64), 128: PAIR}
TYPES: dict[str, np.dtype] = {
    "pred": np.dtype(bool), "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    **{f"{kind}{bits}": BITS[bits] for kind in "bu" for bits in BITS},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
}  # fmt: skip
for _name in ("f16", "bf16", "s16", "u16", "e4m3", "e5m2"):
    TYPES[f"{_name}x2"] = TYPES[_name]


@dataclass
class Scope:
    """Where names of one function are looked up: registers, and the addresses of variables."""

    function: Function
    symbols: dict[str, tuple[str, int]]  # space and address there; of a kernel's parameters the offset

    def bits_of(self, register: str) -> np.dtype:
        """The words that a register holds."""
        kind = self.function.registers.get(register) or self.function.registers.get(register.rstrip("0123456789"))
        if kind is None:
            raise Unsupported(f"register {register!r} in {self.function.name}")
        return TYPES[kind] if kind == "pred" else BITS[int(re.sub(r"\D", "", kind))]


def is_register(operand: str, scope: Scope) -> bool:
    """Whether an operand names a register."""
    registers = scope.function.registers
    return operand in registers or operand.rstrip("0123456789") in registers


def pairs(kind: str) -> bool:
    """Whether the type is two numbers in one register."""
    return kind.endswith("x2")


def reader(operand: str, kind: str, scope: Scope) -> Get:
    """How to read an operand as numbers of the type `kind`; packed types give two columns."""
    dtype = TYPES[kind]
    if is_register(operand, scope):
        return _from_register(operand, dtype, scope, pairs(kind))
    if operand.startswith("%"):
        return lambda group: group.machine.special(operand)[group.index].astype(dtype)
    if operand.lstrip("-")[:1].isdigit():
        constant = literal(operand, kind)
        return lambda group: constant
    return _address(operand, scope)


def _from_register(name: str, dtype: np.dtype, scope: Scope, packed: bool) -> Get:
    held = scope.bits_of(name)
    if packed:
        return lambda group: np.ascontiguousarray(group.frame[name][group.index]).view(dtype).reshape(-1, 2)
    if held.itemsize == dtype.itemsize:
        return lambda group: group.frame[name][group.index].view(dtype)
    if held.itemsize < dtype.itemsize:
        raise Unsupported(f"{name} of {held} read as {dtype}")
    low = BITS[8 * dtype.itemsize]
    return lambda group: group.frame[name][group.index].astype(low).view(dtype)


def _address(operand: str, scope: Scope) -> Get:
    name, _, plus = operand.partition("+")
    if name not in scope.symbols:
        raise Unsupported(f"operand {operand!r} in {scope.function.name}")
    space, address = scope.symbols[name]
    offset = int(plus or 0)
    if space == "local":
        return lambda group: group.frame.stack[group.index] + np.uint64(address + offset)
    if space == "param":
        return lambda group: np.uint64(group.machine.parameters + address + offset)
    constant = np.uint64(address + offset)
    return lambda group: constant


def literal(text: str, kind: str) -> Values:
    """A constant as a number of the type `kind`."""
    dtype = TYPES[kind]
    if match := re.fullmatch(r"0([fFdD])([0-9a-fA-F]+)", text):
        raw = np.uint32 if match[1] in "fF" else np.uint64
        number = np.array(int(match[2], 16), raw).view(np.float32 if match[1] in "fF" else np.float64)
        if dtype.kind == "f" and number.dtype == dtype:
            return number[()]
        return number.view(raw).astype(BITS[8 * dtype.itemsize]).view(dtype)[()]
    if dtype.kind == "b":
        return np.bool_(int(text, 0))
    word = np.array(int(text.rstrip("U"), 0) % (1 << 8 * dtype.itemsize if not pairs(kind) else 1 << 32), np.uint64)
    if pairs(kind):
        return word.astype(np.uint32).reshape(1).view(dtype).reshape(1, 2)
    return word.astype(BITS[8 * dtype.itemsize]).view(dtype)[()]


def writer(operand: str, kind: str, scope: Scope) -> Put:
    """How to write numbers of the type `kind` to a register."""
    if operand == "_":
        return lambda group, values: None
    held, dtype = scope.bits_of(operand), TYPES[kind]
    if pairs(kind):

        def put_pairs(group: Any, values: Values) -> None:
            group.frame[operand][group.index] = np.ascontiguousarray(values.astype(dtype)).view(held).reshape(-1)

        return put_pairs
    if held == dtype:

        def put(group: Any, values: Values) -> None:
            group.frame[operand][group.index] = values

        return put

    same = held.itemsize == dtype.itemsize

    def put_bits(group: Any, values: Values) -> None:
        values = np.asarray(values, dtype)
        group.frame[operand][group.index] = values.view(held) if same else _extended(values, held)

    return put_bits


def _extended(values: Values, held: np.dtype) -> Values:
    if values.dtype.kind not in "iub":
        values = values.view(BITS[8 * values.dtype.itemsize])
    return values.astype(held)
