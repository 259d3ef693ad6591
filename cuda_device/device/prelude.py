"""Operators that Python itself can express: compiled like any function that a user writes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def float_modulo(a: Any, b: Any) -> Any:
    """`a % b` of floats: the divisor's sign."""
    remainder = math.fmod(a, b)
    if remainder != 0:
        if (remainder < 0) != (b < 0):
            remainder += b
    else:
        remainder = math.copysign(remainder, b)
    return remainder


def float_floor_divide(a: Any, b: Any) -> Any:
    """`a // b` of floats: the floor of the exact quotient, rounded once."""
    if b == 0:
        return a / b
    remainder = math.fmod(a, b)
    quotient = (a - remainder) / b
    if remainder != 0 and (remainder < 0) != (b < 0):
        quotient -= 1
    if quotient == 0:
        return math.copysign(quotient, a / b)
    nearest = float_floor(quotient)
    if quotient - nearest > 0.5:
        nearest += 1
    return nearest


def float_floor(x: Any) -> Any:
    """The floor of a float, as a float (`math.floor` is an int). In device code a row of the device table."""
    return float(math.floor(x)) if math.isfinite(x) else x


def divide_and_modulo(a: Any, b: Any) -> Any:
    """`divmod(a, b)`."""
    return a // b, a % b


def integer_power(base: Any, exponent: Any) -> Any:
    """`base ** exponent` of integers; a negative exponent gives 0 (but 1 and -1 keep their powers)."""
    if exponent < 0:
        if base == 1 or (base == -1 and exponent & 1 == 0):
            return base * base
        return base if base == -1 else base * 0
    result = base * 0 + 1
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


REPLACEMENTS: dict[object, Callable[..., Any]] = {divmod: divide_and_modulo}
"""Builtins that are written in Python for device code."""
