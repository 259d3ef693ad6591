"""The intrinsics of numbers that work on the host, too: `fma`, `cbrt`, and those of bits; against fractions and texts of bits.

And how many arguments functions of Python and NumPy take.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from types import FunctionType
from typing import Any

import ml_dtypes
import numpy as np

import cuda_device as device
from cuda_device.device import table
from fuzz.own import Check
from fuzz.own_numbers import number

INTEGERS = tuple(np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64))
FLOATS: tuple[Any, ...] = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16, float)
_WIDE = {float: np.float64}


def fma(choose: random.Random) -> str | None:
    """A product and a sum, rounded once: to the nearest of the type's numbers, and of two to the even one."""
    for _ in range(60):
        type = choose.choice(FLOATS)
        given = [_float(choose, type) for _ in range(3)]
        if choose.random() < 0.3:  # nearly nothing is left
            given[2] = type(-float(given[0]) * float(given[1]))
        found, wanted = device.fma(*given), _exact(type, *map(float, given))
        if wanted is not None and (not _alike(found, wanted) or _kind(found) is not type):
            return f"fma of {given} of {type.__name__} is {found!r}, not {wanted!r}"
    return _mixed(choose)


def _kind(value: Any) -> Any:
    return type(value)


def _mixed(choose: random.Random) -> str | None:
    """Of several types it is of the one that they promote to."""
    types = [choose.choice((np.float16, np.float32, np.float64)) for _ in range(3)]
    found = device.fma(*(type(choose.randint(-9, 9)) for type in types))
    wanted = np.result_type(*types)
    if type(found) is not wanted.type:
        return f"fma of {types} is of {type(found)}, not {wanted}"
    return _refused(lambda: device.fma(1.0, 2, 3.0), TypeError) or _refused(lambda: device.cbrt(8), TypeError)  # type: ignore[arg-type]


def _float(choose: random.Random, type: Any) -> Any:
    if choose.random() < 0.4:
        return type(choose.randint(-64, 64) / choose.choice((1, 2, 8, 64)))
    wide: Any = number(choose, np.float64 if type is float else np.float32)
    return type(wide)


def _exact(type: Any, a: float, b: float, c: float) -> Any:
    """What the sum is; None where that is a matter of signs of zeros, or larger than numbers are."""
    if math.isfinite(a) and math.isfinite(b) and not math.isfinite(c):
        return type(c)
    if not all(map(math.isfinite, (a, b, c))):
        return type(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    info = ml_dtypes.finfo(_WIDE.get(type, type))
    if exact == 0 or abs(exact) >= Fraction(float(info.max)):
        return None
    if abs(exact) < Fraction(float(info.tiny)):
        unit = Fraction(float(info.smallest_subnormal))
    else:
        top = math.floor(math.log2(abs(exact.numerator)) - math.log2(exact.denominator))
        top += (abs(exact) >= Fraction(2) ** (top + 1)) - (abs(exact) < Fraction(2) ** top)
        unit = Fraction(2) ** (top - info.nmant)
    return type(math.copysign(float(round(exact / unit) * unit), exact))


def _alike(found: Any, wanted: Any) -> bool:
    a, b = float(found), float(wanted)
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def cbrt(choose: random.Random) -> str | None:
    """Roots of cubes, and of other numbers nearly."""
    for type in FLOATS[:3]:
        root = choose.randint(-12, 12)
        found = device.cbrt(type(root**3))
        near = type(choose.uniform(-99, 99))
        other = device.cbrt(near)
        close = abs(float(other) ** 3 - float(near)) <= 16 * float(ml_dtypes.finfo(type).eps) * abs(float(near))
        if float(found) != root or not close or _kind(other) is not type:
            return f"cbrt of {type.__name__} {root**3} is {found!r}, and of {near!r} {other!r}"
    return None


def bits(choose: random.Random) -> str | None:
    """What the texts of the bits say."""
    for kind in (*INTEGERS, int):
        info = np.iinfo(np.int32 if kind is int else kind)
        size, value = info.bits, choose.choice((info.min, info.max, 0, 1, choose.randint(int(info.min), int(info.max))))
        text = f"{int(value) & ((1 << size) - 1):0{size}b}"
        reverse = int(text[::-1], 2)
        wanted = {
            "popc": text.count("1"), "clz": len(text) - len(text.lstrip("0")), "ffs": (text[::-1].find("1") + 1),
            "brev": reverse - (1 << size) if reverse > info.max else reverse,
        }  # fmt: skip
        for name, expected in wanted.items():
            found = getattr(device, name)(kind(value))
            if int(found) != expected or _kind(found) is not (kind if name == "brev" else np.int32):
                return f"{name} of {kind.__name__} {value} is {found!r}, not {expected}"
    large = choose.choice((1 << 31, -(1 << 31) - 1, 1 << 63))
    return _refused(lambda: device.clz(large), OverflowError, "uint64(" if large >> 63 == 1 else "int64(") or _refused(
        lambda: device.popc(1.5),
        TypeError,  # type: ignore[arg-type]
    )


def _refused(run: Any, kind: type[Exception], word: str = "") -> str | None:
    try:
        run()
    except kind as error:
        return None if word in str(error) else f"{word} is not in {error}"
    return "what is none of its numbers is taken"


def arities(choose: random.Random) -> str | None:
    """A function of Python's or NumPy's takes as many arguments as there; numbers and vectors need some."""
    for row in table.ALL:
        if isinstance(row.entity, FunctionType) or row.named or row.is_value or row.entity in (min, max):
            continue
        low, high = row.arity
        taken = {count for count in range(high + 2) if _takes(row.entity, count)}
        ours = set(range(low, high + 1))
        if not ours <= taken or (taken - ours - {0} and row.entity not in _MORE):
            return f"{row.name} takes {low} to {high} arguments, not {taken}"
    return None


_MORE = (int, round, math.hypot)
"""These take more in Python: a base, digits, any number of them."""


def _takes(entity: Any, count: int) -> bool:
    """Whether it takes so many, of one of some kinds."""
    for each in (1, (1,), 1.5, "a", int):
        try:
            entity(*[each] * count)
        except TypeError:
            continue
        except Exception:
            return True
        return True
    return False


CHECKS: tuple[Check, ...] = (fma, cbrt, bits, arities)
