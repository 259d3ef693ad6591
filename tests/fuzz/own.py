"""Functions of Python and NumPy that the compiler has in Python, run in plain Python: what they compute is what Python computes.

    complex_functions.asinh(np.complex64(…))      cmath.asinh(…)

Numbers are NumPy's scalars, so that each step rounds as on a device; `math` is C's, which gives NaN or an infinity for an error.
Thousands of calls take less time than one kernel. Of special values those parts are expected that CPython and the C library,
which NumPy asks, agree on.
"""

from __future__ import annotations

import cmath
import contextlib
import math
import random
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from cuda_device.library import complex_functions, complex_numbers, numbers, prelude

inf, nan = math.inf, math.nan
Check = Callable[[random.Random], str | None]

_IN_C = {
    "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "asin": "arcsin", "acos": "arccos",
    "atan": "arctan", "pow": "power",
}  # fmt: skip
_FLOATS = (
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "hypot",
    "copysign", "isinf", "isnan", "isfinite", "fmod", "fabs", "floor", "trunc", "nextafter", "degrees",
)  # fmt: skip
C = types.SimpleNamespace(
    **vars(math)
    | {name: getattr(np, name) for name in _FLOATS}
    | {name: getattr(np, other) for name, other in _IN_C.items()}
)
"""`math` as C has it, in the precision of its arguments."""
MODULES = (complex_functions, complex_numbers, numbers, prelude)


def complex_of(real: Any, imaginary: Any) -> Any:
    """The complex number of two floats."""
    single = isinstance(real, np.float32) or isinstance(imaginary, np.float32)
    return (np.complex64 if single else np.complex128)(complex(real, imaginary))


@contextlib.contextmanager
def in_c() -> Iterator[None]:
    """The compiler's functions have C's `math` meanwhile, and complex numbers of fixed formats."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(np.errstate(all="ignore"))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        for module in MODULES:
            stack.enter_context(mock.patch.object(module, "math", C))
        for module in MODULES[:2]:
            stack.enter_context(mock.patch.object(module, "complex_of", complex_of))
        yield


# Complex numbers


@dataclass(frozen=True)
class Complex:
    """A function of complex numbers: by how many units in the last place each part, or the whole, may be off."""

    name: str
    ulps: float = 16.0
    whole: bool = False
    least: float = -1020.0
    """Magnitudes of arguments, as powers of two."""
    most: float = 1020.0
    special: bool = True

    def ours(self) -> Callable[..., Any]:
        """The compiler's."""
        return getattr(complex_functions, self.name)  # type: ignore[no-any-return]

    def theirs(self, z: complex, type: Any) -> tuple[complex | None, complex]:
        """What CPython says, which may be nothing, and what C does."""
        name = _IN_C.get(self.name, self.name)
        wide = np.clongdouble(z) if cmath.isfinite(z) else type(z)
        try:
            return getattr(cmath, self.name)(z), complex(getattr(np, name)(wide))
        except (ValueError, OverflowError, AttributeError):
            return None, complex(getattr(np, name)(wide))


COMPLEX = (
    *map(Complex, ("sqrt", "exp", "asinh", "acosh", "atanh", "sin", "cos", "asin", "acos", "atan", "sinh", "cosh")),
    *map(Complex, ("tanh", "tan")),
    Complex("log", whole=True),
    Complex("log10", whole=True, special=False),
    Complex("log2", whole=True, special=False),
    Complex("log1p", whole=True, least=-9, most=100, special=False),
    Complex("expm1", whole=True, least=-9, most=9, special=False),
    Complex("exp2", 64, whole=True, least=-9, most=4, special=False),
)
SPECIAL = (0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 2.5, -0.7)
# Where C leaves a sign open, or says more than the functions promise.
_OPEN = {
    "sinh": lambda z: math.isinf(z.real) and math.isinf(z.imag),
    "sin": lambda z: math.isinf(z.real) and math.isinf(z.imag),
    "tanh": lambda z: z.real == 0 and math.isinf(z.imag),
    "tan": lambda z: z.imag == 0 and math.isinf(z.real),
    "cos": lambda z: z.real == 0 and z.imag != z.imag,
}  # fmt: skip
_EPSILON = {np.complex64: 2.0**-23, np.complex128: 2.0**-52}
_RANGE = {np.complex64: 1 / 8, np.complex128: 1.0}
_LARGEST = {np.complex64: 2.0**126, np.complex128: 2.0**1022}


def _point(choose: random.Random, row: Complex, type: Any) -> complex:
    """An argument: of one size, of any size, near the axes, the circle around zero and where branches begin, or special."""

    def number() -> float:
        part = _RANGE[type]
        return choose.choice((1, -1)) * 2.0 ** choose.uniform(max(row.least * part, row.least), row.most * part)

    match choose.randrange(8):
        case 0 if row.special:
            return complex(choose.choice(SPECIAL), choose.choice(SPECIAL))
        case 1 | 2:
            return complex(number(), number())
        case 3:
            return complex(choose.choice((1, -1, 0.5)) * (1 + choose.uniform(-0.01, 0.01)), choose.uniform(-1, 1) ** 9)
        case 4:
            return cmath.rect(1 + choose.uniform(-1, 1) ** 5 / 9, choose.uniform(-4, 4))
        case 5 if row.special:
            pair = [choose.choice(SPECIAL), number()]
            choose.shuffle(pair)
            return complex(*pair)
        case 6:
            size = number()
            return complex(size, size * choose.uniform(-4, 4))
    return complex(choose.uniform(-4, 4), choose.uniform(-4, 4))


def complex_check(row: Complex) -> Check:
    """The function at many points, of both types."""

    def check(choose: random.Random) -> str | None:
        function = row.ours()
        for type in (np.complex64, np.complex128):
            for _ in range(120):
                z = complex(type(_point(choose, row, type)))
                python, c = row.theirs(z, type)
                found = complex(function(type(z)))
                if z in (1, -1) or _is_open(row, z) or not (row.special or cmath.isfinite(z)):
                    continue
                if not _as_expected(row, type, z, found, c, python):
                    return f"{row.name}({type.__name__}({z})) is {found}, not {c}, or {python}"
        return None

    return check


def _is_open(row: Complex, z: complex) -> bool:
    return row.name in _OPEN and _OPEN[row.name](z)


def _as_expected(row: Complex, type: Any, z: complex, found: complex, c: complex, python: complex | None) -> bool:
    size = max(abs(part) for part in (c.real, c.imag, 0.0) if abs(part) < _LARGEST[type])
    others = (None, None) if python is None else (python.real, python.imag)
    for got, want, other in zip((found.real, found.imag), (c.real, c.imag), others, strict=True):
        if other is not None and not _alike(want, other):
            continue
        if abs(want) > _LARGEST[type] or want != want:
            if want != want and got == got and cmath.isfinite(z):
                return False
            if math.isfinite(got) and want == want and abs(got) < _LARGEST[type]:
                return False
            if (want != want) != (got != got) and not cmath.isfinite(z) and other is not None:
                return False
            if abs(want) > _LARGEST[type] and got * want < 0:
                return False
        elif not math.isfinite(got):
            return False
        elif want == 0 and row.special and (got != 0 or math.copysign(1, got) != math.copysign(1, want)):
            return False
        elif not abs(got - want) <= _room(row, type, size if row.whole else abs(want)):
            return False
    return True


def _alike(a: float, b: float) -> bool:
    """Whether two oracles agree, as far as they are no plain numbers."""
    if math.isfinite(a) and math.isfinite(b) and a != 0 != b:
        return True
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def _room(row: Complex, type: Any, size: float) -> float:
    return float(max(row.ulps * _EPSILON[type] * size, 64 / _LARGEST[type]))
