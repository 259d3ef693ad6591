"""Constants of numbers: folding, conversion to the types that they are combined with, and remedies for those that do not fit.

x[i] + 300      of an array of uint8: the constant 300 does not fit uint8
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from contextlib import suppress

from cuda_device.errors import CompileError
from cuda_device.types import model
from cuda_device.types.known import Known, show
from cuda_device.types.layout import DIVISIONS
from cuda_device.types.promote import divide, promote

FOLDS: dict[str, Callable[..., object]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
UNARY: dict[str, Callable[..., object]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_,
}  # fmt: skip
"""Python's operators by their signs."""
METHODS = {sign: function.__name__.strip("_") for sign, function in {**FOLDS, "@": operator.matmul}.items()}
UNARY_METHODS = {sign: function.__name__ for sign, function in UNARY.items() if sign != "not"}
"""The special methods of operators, without underscores."""
REAL_REMEDY = "use its .real, or abs(…)"
"""The remedy for a complex number where a real one is needed."""


def fit(known: Known, type: model.Number, wraps: bool = False) -> bool | int | float | complex:
    """The constant as a value of `type`; a `CompileError` if it does not fit. `wraps`: 64-bit integers wrap."""
    value = known.value
    assert isinstance(value, (bool, int, float, complex)), known
    if type.is_complex:
        if isinstance(value, complex):
            return complex(_fit_float(value.real, type.part), _fit_float(value.imag, type.part))
        return complex(_fit_float(value, type.part))
    if isinstance(value, complex):
        raise CompileError(f"the constant {show(value)} does not fit {type}", help=REAL_REMEDY)
    if type.is_float:
        return _fit_float(value, type)
    if isinstance(value, float):
        raise CompileError(f"{value} is not an integer", help=f"write {type}({value})")
    if type.kind == 0:
        return bool(value)
    if not type.low <= value <= type.high and (type.builtin or not (wraps and -1 << 63 <= value < 1 << 64)):
        raise CompileError(f"the constant {show(value)} does not fit {type}", help=room_for(int(value), type))
    return (value - type.low) % (1 << type.bits) + type.low


_LARGEST = {
    model.FLOAT16: 65520.0,
    model.FLOAT32: 2.0**128 - 2.0**103,
    model.FLOAT64: math.inf,
    **{
        number: math.nextafter(DIVISIONS[number.format].last, math.inf)
        for number in (model.BFLOAT16, model.FLOAT8E4M3, model.FLOAT8E5M2)
    },
}
"""The least positive number that rounds to infinity, or that is too large for a type without infinity."""


def _fit_float(value: bool | float, type: model.Number) -> float:
    exact = None
    with suppress(OverflowError):
        exact = float(value)
    lacks_infinity = type.format == model.Format.E4M3
    if exact is None or (abs(exact) >= _LARGEST[type.machine] and (lacks_infinity or math.isfinite(exact))):
        remedy = (
            f"the largest {type} is 448, and it has no infinity" if lacks_infinity else "write math.inf for infinity"
        )
        raise CompileError(f"the constant {show(value)} does not fit {type}", help=remedy)
    return exact


def room_for(value: int, type: model.Number) -> str:
    """The remedy for a constant that does not fit."""
    if type == model.INT:
        if 0 <= value < 1 << 32:
            return f"a Python int is 32 bits wide in device code: write uint32({value}) or int64({value})"
        wide = "int64" if -(1 << 63) <= value < 1 << 63 else "uint64" if 0 <= value < 1 << 64 else ""
        return (
            f"a Python int is 32 bits wide in device code: write {wide}({value})"
            if wide
            else "no integer type is that wide"
        )
    wider = ", or a wider type" if type.bits < 64 else ""
    return f"use a constant from {type.low} to {type.high}{wider}"


def no_room(constant: Known, other: Known) -> str:
    """The remedy if `constant` does not fit the type of `other`; empty otherwise."""
    value, type = constant.value, other.type
    if not constant.constant or not isinstance(value, int) or not isinstance(type, model.Number) or not type.is_integer:
        return ""
    if type.low <= value <= type.high:
        return ""
    return f"{show(value)} does not fit {type}: convert the other one to a wider type, or {room_for(value, type)}"


LARGEST_BITS = 4096
"""About the size of the largest constant that is computed."""


def too_large() -> CompileError:
    """The error for a larger constant."""
    return CompileError(
        "a constant of thousands of bits is too large for device code",
        help="compute it outside of the kernel, and use the result",
    )


def operation_type(sign: str, a: Known, b: Known) -> model.Number:
    """The type in which an operator on two numbers computes."""
    x, y = a.type, b.type
    assert isinstance(x, model.Number) and isinstance(y, model.Number)
    type = divide(x, y) if sign == "/" else promote(x, y)
    if type is None:
        wide, other = (x, y) if x.bits == 64 and not x.signed else (y, x)
        raise CompileError(
            f"{a} {sign} {b}: no integer type holds both {wide} and {other}",
            help=f"convert one of them: int64(…) or {wide}(…)",
        )
    if sign in ("&", "|", "^"):
        if type.is_float:
            raise only_integers(sign, a, b)
        if x == model.BOOL and y == model.BOOL:
            return model.BOOL
    return type


def only_integers(sign: str, a: Known, b: Known) -> CompileError:
    """The error for other operands of an operator on integers."""
    return CompileError(
        f"the operator {sign} takes integers, not {a} and {b}",
        help="convert them: int(…), or x.view(uint32) for the bits of a number",
    )
