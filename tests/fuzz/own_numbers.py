"""Functions of numbers that the compiler has in Python, against CPython's and NumPy's: `own` says how they are run.

numbers.times_power(np.float32(3e-40), 140)      np.ldexp(np.float32(3e-40), 140)
"""

from __future__ import annotations

import cmath
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from cuda_device.library import complex_numbers
from fuzz.own import Check, complex_of

Given = Callable[[random.Random], tuple[Any, ...]]


@dataclass(frozen=True)
class Row:
    """A function, what gives the same, and arguments for both; floats may be off by some units in the last place."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    given: Given
    ulps: float = 0.0


# Arguments

FLOATS = (np.float32, np.float64)


def whole(choose: random.Random) -> int:
    """An integer of any size up to 31 bits, either sign."""
    bits = choose.randint(0, 31)
    return choose.choice((1, -1)) * (choose.getrandbits(bits) if bits else 0)


def natural(choose: random.Random) -> int:
    """One from zero up."""
    return abs(whole(choose))


def number(choose: random.Random, type: Any) -> Any:
    """A float of any size, or a special one."""
    info = np.finfo(type)
    match choose.randrange(5):
        case 0:
            edges = (
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                1.5,
                2.5,
                math.inf,
                -math.inf,
                math.nan,
                info.max,
                info.tiny,
                info.smallest_subnormal,
            )
            return type(choose.choice(edges))
        case 1:
            size = choose.uniform(1, 2) * choose.choice((1, -1))
            return type(math.ldexp(size, choose.randint(info.minexp - info.nmant, info.maxexp - 1)))
        case 2:
            return type(choose.randint(-9, 9) / choose.choice((1, 2, 4)))
    return type(choose.uniform(-9, 9))


def floats(count: int, *more: Callable[[random.Random], Any]) -> Given:
    """So many floats of one type, and other arguments."""

    def given(choose: random.Random) -> tuple[Any, ...]:
        type = choose.choice(FLOATS)
        return *(number(choose, type) for _ in range(count)), *(each(choose) for each in more)

    return given


def finite(count: int) -> Given:
    """So many plain floats of one type, which are neither huge nor tiny."""

    def given(choose: random.Random) -> tuple[Any, ...]:
        type = choose.choice(FLOATS)
        return tuple(type(choose.choice((choose.uniform(-9, 9), choose.randint(-9, 9)))) for _ in range(count))

    return given


def of(*parts: Callable[[random.Random], Any]) -> Given:
    """One argument of each."""
    return lambda choose: tuple(part(choose) for part in parts)


def upto(low: int, high: int) -> Callable[[random.Random], int]:
    """An integer within bounds."""
    return lambda choose: choose.randint(low, high)


def any_complex(choose: random.Random, special: bool = True) -> Any:
    """A complex number of either type."""
    type = choose.choice(FLOATS)
    parts = [number(choose, type) if special else type(choose.uniform(-9, 9)) for _ in range(2)]
    return complex_of(*parts)


def two_complex(choose: random.Random) -> tuple[Any, ...]:
    """Two of one type, of any size, but neither special nor so far apart that a quotient has none."""
    type, bits = choose.choice(((np.complex64, 123), (np.complex128, 1019)))
    size = choose.choice((0, 0, choose.randint(-bits, bits)))

    def part() -> float:
        return math.ldexp(
            choose.uniform(-9, 9), max(-bits, min(bits, size + choose.randint(-9, 9) * choose.randint(0, 3)))
        )

    return tuple(type(complex(part(), choose.choice((part(), part(), 0.0)))) for _ in range(2))


def special_complex(choose: random.Random) -> tuple[Any, ...]:
    """Two, one or both of which have infinities, zeros or NaN."""
    few = (0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan)
    return tuple(np.complex128(complex(choose.choice(few), choose.choice(few))) for _ in range(2))


def powers(choose: random.Random) -> tuple[Any, ...]:
    """A complex number and an exponent; of zero one that has a power."""
    base = choose.choice((0, 1, any_complex(choose, False), any_complex(choose, False)))
    exponents = (0, 2, 0.5, *([complex(choose.uniform(0.1, 2), choose.uniform(-2, 2))] * 2 if base else ()))
    return np.complex128(base), np.complex128(choose.choice(exponents))


# What gives the same


def _quotient(a: Any, b: Any) -> Any:
    """The exact quotient of two complex numbers."""
    p, q, r, s = (Fraction(float(part)) for part in (a.real, a.imag, b.real, b.imag))
    size = r * r + s * s
    return (p * r + q * s) / size, (q * r - p * s) / size


def near_quotient(a: Any, b: Any) -> str | None:
    """Whether the quotient is near the exact one, as far as that is a number of the type."""
    found = complex_numbers.quotient(a, b)
    info = np.finfo(type(a))
    if b == 0 or not cmath.isfinite(a):
        return None
    exact = _quotient(a, b)
    size = max(map(abs, exact))
    if not info.tiny * 2**30 < size < Fraction(float(info.max)) / 4:
        return None
    for got, want in zip((found.real, found.imag), exact, strict=True):
        if not math.isfinite(got) or abs(Fraction(float(got)) - want) > size * 8 * Fraction(float(info.eps)):
            return f"{a} / {b} is {found}, not {tuple(map(float, exact))}"
    return None


def apart_complex(choose: random.Random) -> tuple[Any, Any]:
    """Two whose parts are far from each other; those of the second perhaps so far that the quotient of both is zero."""
    type, bits = choose.choice(((np.complex64, 123), (np.complex128, 1019)))

    def part(low: float, high: float) -> float:
        return choose.choice((1, -1)) * math.ldexp(choose.uniform(1, 2), int(bits * choose.uniform(low, high)))

    if choose.random() < 0.5:
        parts = [choose.choice((part(-0.45, 0.45), part(-0.45, 0.45), 0.0)) for _ in range(3)]
        return type(complex(*parts[:2])), type(complex(*choose.sample((parts[2], part(-0.45, 0.45)), 2)))
    size = choose.uniform(0.3, 0.68)
    pair = choose.sample((part(size, size), part(size - 1.3, size - 1.27)), 2)
    return type(complex(*choose.sample((part(0.6, 1), choose.choice((0.0, part(-1, -0.5)))), 2))), type(complex(*pair))


def near_parts(a: Any, b: Any) -> str | None:
    """Whether each part of the quotient is near, of which nothing cancels, where nothing on the way to it leaves the numbers."""
    info, found = np.finfo(type(a)), complex_numbers.quotient(a, b)
    p, q, r, s = (Fraction(float(part)) for part in (a.real, a.imag, b.real, b.imag))
    low, high = Fraction(float(info.tiny)) * 4, Fraction(float(info.max)) / 4
    large, little = (r, s) if abs(r) > abs(s) else (s, r)
    steps = [x for part in (p, q) for x in (part / large, part / large * little)]
    if not all(low < abs(x) < high for x in (*steps, *_quotient(a, b)) if x):
        return None
    rows = ((found.real, _quotient(a, b)[0], p * r * q * s), (found.imag, _quotient(a, b)[1], -q * r * p * s))
    for got, want, agreement in rows:
        if agreement >= 0 and not abs(Fraction(float(got)) - want) <= abs(want) * 4 * Fraction(float(info.eps)):
            return f"{a} / {b} is {found}, not {tuple(map(float, _quotient(a, b)))}"
    return None


def quotient_class(a: Any, b: Any) -> str | None:
    """What Annex G of C demands of quotients of what is infinite or zero."""
    found = complex_numbers.quotient(a, b)
    infinite = [cmath.isinf(z) for z in (a, b)]
    zero, is_nan = [z == 0 for z in (a, b)], [cmath.isnan(z) and not cmath.isinf(z) for z in (a, b)]
    wrong = None
    if infinite[0] and not infinite[1] and not is_nan[1]:
        signs = [bool(np.signbit(part)) for part in _direction(a, b)]
        wrong = None if cmath.isinf(found) and (zero[1] or _points(found, signs)) else "infinite"
    elif not any(is_nan) and not infinite[0] and infinite[1]:
        wrong = None if found == 0 else "zero"
    elif zero[1] and not zero[0] and not is_nan[0]:
        wrong = None if cmath.isinf(found) else "infinite"
    return f"{a} / {b} is {found}, not {wrong}" if wrong else None


def _direction(a: Any, b: Any) -> tuple[float, float]:
    """Where the quotient of an infinity points to."""
    (p, q) = (math.copysign(math.isinf(part), part) for part in (a.real, a.imag))
    return p * b.real + q * b.imag, q * b.real - p * b.imag


def _points(found: Any, signs: list[bool]) -> bool:
    """Whether the infinite parts have these signs."""
    return all(
        not np.isinf(part) or bool(np.signbit(part)) == sign
        for part, sign in zip((found.real, found.imag), signs, strict=True)
    )


def check_of(row: Row) -> Check:
    """The row at many arguments."""

    def check(choose: random.Random) -> str | None:
        for _ in range(40):
            given = row.given(choose)
            found, expected = row.ours(*given), row.theirs(*given)
            if not _same(found, expected, row.ulps):
                return f"{row.name} of {given} is {found!r}, not {expected!r}"
        return None

    return check


def quotients(choose: random.Random) -> str | None:
    """Quotients of complex numbers."""
    for _ in range(150):
        wrong = near_quotient(*two_complex(choose)) or quotient_class(*special_complex(choose))
        if wrong:
            return wrong
    return next(filter(None, (near_parts(*apart_complex(choose)) for _ in range(50))), None)


def _same(found: Any, expected: Any, ulps: float) -> bool:
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(_same(a, b, ulps) for a, b in zip(found, expected, strict=True))
    if isinstance(expected, str):
        return expected in ("ValueError", "OverflowError") and not isinstance(found, str) or found == expected
    if isinstance(expected, complex) and not isinstance(expected, np.generic):
        if not cmath.isfinite(expected):
            return not cmath.isfinite(found)
        near = abs(found - expected) <= ulps * 2**-52 * abs(expected)
        return near and all(
            p or q == p for p, q in ((expected.real, found.real), (expected.imag, found.imag)) if not ulps
        )
    if isinstance(expected, (float, np.floating)):
        if expected != expected or found != found:
            return bool(expected != expected and found != found)
        if isinstance(found, np.floating) and isinstance(expected, np.floating) and type(found) is not type(expected):
            return False
        if found == expected:
            return bool(expected != 0 or np.signbit(found) == np.signbit(expected))
        return bool(ulps and abs(found - expected) <= ulps * np.spacing(abs(expected)))
    return bool(found == expected)
