"""Complex arithmetic and the functions of `cmath` and NumPy, written in Python and compiled like users' code.

`FUNCTIONS` maps each function of `cmath` to the one that device code calls. They compute in the precision of their argument, have
`cmath`'s branch cuts, and follow C (Annex G) for zeros, infinities and NaN, as `cmath` does since CPython 3.14: if it raises
`ValueError` or `OverflowError`, they return NaN or an infinity. Arguments are complex, except for those of `rect`.

    sin(z) = -i sinh(iz)      cos(z) = cosh(iz)      tan(z) = -i tanh(iz)       and likewise their inverses

`isinstance(x, np.float64)` is evaluated at compile time; builtin floats are float32 in device code.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuda_device.device import entities
from cuda_device.device.lowering import Lowering, Tree, flatten
from cuda_device.device.rows import Intrinsic, Typed, any_number_of, entered
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.library import numbers, prelude
from cuda_device.types import model
from cuda_device.types.known import Known, of_type
from cuda_device.types.promote import promote, to_complex

# Arithmetic

_INFINITY = math.inf


def complex_of(real: Any, imaginary: Any) -> Any:
    """Makes a complex number of the parts' precision. In device code, this is a row of the device table."""
    return complex(real, imaginary)


def magnitude(z: Any, /) -> Any:
    """`abs(z)`, without intermediate overflow."""
    return math.hypot(z.real, z.imag)


def quotient(numerator: Any, denominator: Any) -> Any:
    """`numerator / denominator`, without intermediate overflow or underflow (Baudin and Smith, 2012).

    Infinities and zeros follow Annex G of C: a nonzero number divided by 0 is infinite.
    """
    a, b, c, d = numerator.real, numerator.imag, denominator.real, denominator.imag
    double = isinstance(a, np.float64)
    huge = 2.0**1022 if double else 2.0**126
    tiny = 2.0**-968 if double else 2.0**-101
    up = 2.0**106 if double else 2.0**48
    scale = 1.0
    upper, lower = max(abs(a), abs(b)), max(abs(c), abs(d))
    if upper >= huge:
        a, b, scale = a * 0.5, b * 0.5, 2.0
    elif upper <= tiny:
        a, b, scale = a * up, b * up, 1 / up
    if lower >= huge:
        c, d, scale = c * 0.5, d * 0.5, scale * 0.5
    elif lower <= tiny:
        c, d, scale = c * up, d * up, scale * up
    if abs(d) <= abs(c):
        ratio = d / c
        bottom = c + d * ratio
        real = _part(a, b, c, d, ratio, bottom)
        imaginary = _part(b, -a, c, d, ratio, bottom)
    else:
        ratio = c / d
        bottom = d + c * ratio
        real = _part(b, a, d, c, ratio, bottom)
        imaginary = _part(-a, b, d, c, ratio, bottom)
    if real != real and imaginary != imaginary:
        return _special_quotient(a, b, c, d)
    return complex_of(real * scale, imaginary * scale)


def _part(a: Any, b: Any, c: Any, d: Any, ratio: Any, bottom: Any) -> Any:
    """Computes `(a + b * ratio) / bottom`, where `ratio` is `d / c`, in another order if a product underflows."""
    top = a + d * (b / c) if ratio == 0 else a + b * ratio
    return top / bottom


def _special_quotient(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Computes (a + bi) / (c + di) where the general algorithm gives NaN for both parts."""
    if c == 0 and d == 0:
        infinity = math.copysign(_INFINITY, c)
        real, imaginary = infinity * a, infinity * b
    else:
        factor = 1.0
        if (math.isinf(a) or math.isinf(b)) and math.isfinite(c) and math.isfinite(d):
            a, b, factor = _direction(a), _direction(b), _INFINITY
        elif (math.isinf(c) or math.isinf(d)) and math.isfinite(a) and math.isfinite(b):
            c, d, factor = _direction(c), _direction(d), 0.0
        real, imaginary = factor * (a * c + b * d), factor * (b * c - a * d)
    return complex_of(real, imaginary)


def _direction(x: Any) -> Any:
    """Returns 1 for an infinity, otherwise 0, with the sign of x."""
    return math.copysign(1.0 if math.isinf(x) else 0.0, x)


def integer_power(z: Any, exponent: Any) -> Any:
    """`z ** exponent` for an integer exponent, by squaring."""
    if exponent == 0:
        return 1
    left = -exponent if exponent < 0 else exponent
    while left & 1 == 0:
        z = z * z
        left >>= 1
    result = z
    left >>= 1
    while left > 0:
        z = z * z
        if left & 1:
            result = result * z
        left >>= 1
    return 1 / result if exponent < 0 else result


def power(z: Any, exponent: Any) -> Any:
    """`z ** exponent`, the principal value. 0 to a power with a positive real part is 0, and anything to the power 0 is 1."""
    if exponent == 0:
        return 1
    if z == 0 and exponent.real > 0:
        return 0
    size, angle = math.hypot(z.real, z.imag), math.atan2(z.imag, z.real)
    length, turn = math.pow(size, exponent.real), angle * exponent.real
    if exponent.imag != 0:
        length = length * math.exp(-angle * exponent.imag)
        turn = turn + exponent.imag * math.log(size)
    return complex_of(length * math.cos(turn), length * math.sin(turn))


# `cmath`, and NumPy's functions of complex numbers

_LN2 = math.log(2)
_LOG10_E = 1 / math.log(10)
_LOG2_E = 1 / math.log(2)
_HALF_PI = math.pi / 2

# Parts


def phase(z: Any, /) -> Any:
    """`cmath.phase(z)`."""
    return math.atan2(z.imag, z.real)


def polar(z: Any, /) -> Any:
    """`cmath.polar(z)`."""
    return abs(z), math.atan2(z.imag, z.real)


def rect(r: Any, phi: Any, /) -> Any:
    """`cmath.rect(r, phi)`, for floats of one type."""
    real, imaginary = r * math.cos(phi), r * math.sin(phi)
    if phi == 0:
        real, imaginary = r, math.copysign(phi, r) * math.copysign(1.0, phi)
    elif not math.isfinite(phi) and (r == 0 or math.isinf(r)):
        real = abs(r)
        if r == 0:
            imaginary = real
    return complex_of(real, imaginary)


def isnan(z: Any, /) -> Any:
    """`cmath.isnan(z)`."""
    return math.isnan(z.real) or math.isnan(z.imag)


def isinf(z: Any, /) -> Any:
    """`cmath.isinf(z)`."""
    return math.isinf(z.real) or math.isinf(z.imag)


def isfinite(z: Any, /) -> Any:
    """`cmath.isfinite(z)`."""
    return math.isfinite(z.real) and math.isfinite(z.imag)


# Roots, exponentials and logarithms


def _limits(x: Any) -> Any:
    """Returns the numbers above or below which a sum of squares may overflow or underflow, for the type of x."""
    return (2.0**1020, 2.0**-960) if isinstance(x, np.float64) else (2.0**124, 2.0**-90)


def sqrt(z: Any, /) -> Any:
    """`cmath.sqrt(z)`: the root whose real part is not negative."""
    x, y = z.real, z.imag
    width, height = abs(x), abs(y)
    if math.isinf(height):
        return complex_of(height, y)
    if width == 0 and height == 0:
        return complex_of(width, y)
    # Scales by a power of 4 where the sum below could overflow or underflow.
    huge, tiny = _limits(x)
    scale = 1.0
    if width > huge or height > huge:
        width, height, scale = width * 2.0**-4, height * 2.0**-4, 2.0**2
    elif width < tiny and height < tiny:
        width, height, scale = width * 2.0**108, height * 2.0**108, 2.0**-54
    larger = math.sqrt((width + math.hypot(width, height)) * 0.5)
    smaller = height / (larger * 2)
    larger, smaller = larger * scale, smaller * scale
    if x >= 0:
        return complex_of(larger, math.copysign(smaller, y))
    return complex_of(smaller, math.copysign(larger, y))


def exp(z: Any, /) -> Any:
    """`cmath.exp(z)`."""
    x, y = z.real, z.imag
    size = math.exp(x)
    if y == 0:
        return complex_of(size, y)
    if math.isinf(x) and not math.isfinite(y):
        return complex_of(x, y - y) if x > 0 else complex_of(size, size)
    cosine, sine = math.cos(y), math.sin(y)
    real, imaginary = size * cosine, size * sine
    if x > (709.0 if isinstance(x, np.float64) else 88.0):
        half = math.exp(x * 0.5)
        real, imaginary = half * cosine * half, half * sine * half
    return complex_of(real, imaginary)


def expm1(z: Any, /) -> Any:
    """`np.expm1(z)`: exp(z) - 1 without cancellation."""
    x, y = z.real, z.imag
    half = math.sin(y * 0.5)
    return complex_of(math.expm1(x) * math.cos(y) - 2 * half * half, exp(z).imag)


def exp2(z: Any, /) -> Any:
    """`np.exp2(z)`."""
    size, angle = math.exp2(z.real), z.imag * _LN2
    if z.imag == 0:
        return complex_of(size, z.imag)
    return complex_of(size * math.cos(angle), size * math.sin(angle))


def log(z: Any, base: Any = None, /) -> Any:
    """`cmath.log(z)` and `cmath.log(z, base)`."""
    logarithm = complex_of(_log_of_magnitude(z.real, z.imag), math.atan2(z.imag, z.real))
    return logarithm if base is None else logarithm / log(base)


def log10(z: Any, /) -> Any:
    """`cmath.log10(z)`."""
    return log(z) * _LOG10_E


def log2(z: Any, /) -> Any:
    """`np.log2(z)`."""
    return log(z) * _LOG2_E


def log1p(z: Any, /) -> Any:
    """`np.log1p(z)`: log(1 + z) without cancellation."""
    x, y = z.real, z.imag
    real = _log_of_magnitude(1 + x, y)
    if abs(x) < 0.5 and abs(y) < 0.5:
        real = math.log1p(x * (2 + x) + y * y) * 0.5
    return complex_of(real, math.atan2(y, 1 + x))


def _log_of_magnitude(x: Any, y: Any) -> Any:
    """Computes log(hypot(x, y)) accurately, also where hypot overflows, underflows or is close to 1."""
    width, height = abs(x), abs(y)
    huge, tiny = _limits(x)
    size = math.hypot(width, height)
    if width > huge or height > huge:
        return math.log(math.hypot(width * 0.5, height * 0.5)) + _LN2
    if width < tiny and height < tiny:
        return math.log(math.hypot(width * 2.0**108, height * 2.0**108)) - 108 * _LN2
    if 0.71 <= size <= 1.73:
        larger, smaller = max(width, height), min(width, height)
        return math.log1p((larger - 1) * (larger + 1) + smaller * smaller) * 0.5
    return math.log(size)


# Hyperbolic functions


def sinh(z: Any, /) -> Any:
    """`cmath.sinh(z)`."""
    x, y = z.real, z.imag
    size = abs(x)
    cosine, sine = math.cos(y), math.sin(y)
    real, imaginary = math.sinh(x) * cosine, math.cosh(x) * sine
    if size > (709.0 if isinstance(x, np.float64) else 88.0):
        half = math.exp(size * 0.5)
        real, imaginary = math.copysign(half * 0.5, x) * cosine * half, half * 0.5 * sine * half
    if y == 0:
        imaginary = y
    if not math.isfinite(y) and (x == 0 or math.isinf(x)):
        real = size if y != y else x
    return complex_of(real, imaginary)


def cosh(z: Any, /) -> Any:
    """`cmath.cosh(z)`."""
    x, y = z.real, z.imag
    size = abs(x)
    cosine, sine = math.cos(y), math.sin(y)
    real, imaginary = math.cosh(x) * cosine, math.sinh(x) * sine
    if size > (709.0 if isinstance(x, np.float64) else 88.0):
        half = math.exp(size * 0.5)
        real, imaginary = half * 0.5 * cosine * half, math.copysign(half * 0.5, x) * sine * half
    if y == 0:
        imaginary = math.copysign(1.0, x) * y
    elif not math.isfinite(y):
        if x == 0:
            imaginary = abs(x)
        elif math.isinf(x):
            real = size
    return complex_of(real, imaginary)


def tanh(z: Any, /) -> Any:
    """`cmath.tanh(z)`."""
    x, y = z.real, z.imag
    size = abs(x)
    if size > (350.0 if isinstance(x, np.float64) else 40.0) and (math.isfinite(y) or math.isinf(x)):
        if math.isinf(x) and not math.isfinite(y):
            return complex_of(math.copysign(1.0, x), 0.0)
        shrunk = math.exp(-size)
        return complex_of(math.copysign(1.0, x), 4 * math.sin(y) * math.cos(y) * shrunk * shrunk)
    if y == 0:
        return complex_of(math.tanh(x), y)
    t, u, c = math.tanh(x), math.tan(y), 1 / math.cosh(x)
    product = t * u
    bottom = 1 + product * product
    return complex_of(x if x == 0 else t * (1 + u * u) / bottom, u / bottom * c * c)


# Their inverses


def asinh(z: Any, /) -> Any:
    """`cmath.asinh(z)`."""
    x, y = z.real, z.imag
    largest = 2.0**1021 if isinstance(x, np.float64) else 2.0**125
    if abs(x) > largest or abs(y) > largest:
        size = _log_of_twice(x, y)
        return complex_of(size if x != x else math.copysign(size, x), math.atan2(y, abs(x)))
    if x != x and y == 0:
        return z
    a, b = sqrt(complex_of(1 + y, -x)), sqrt(complex_of(1 - y, x))
    real = math.asinh(a.real * b.imag - b.real * a.imag)
    return complex_of(real, math.atan2(y, a.real * b.real - a.imag * b.imag))


def acosh(z: Any, /) -> Any:
    """`cmath.acosh(z)`."""
    x, y = z.real, z.imag
    largest = 2.0**1021 if isinstance(x, np.float64) else 2.0**125
    if abs(x) > largest or abs(y) > largest:
        return complex_of(_log_of_twice(x, y), math.atan2(y, x))
    a, b = sqrt(complex_of(x - 1, y)), sqrt(complex_of(x + 1, y))
    real = math.asinh(a.real * b.real + a.imag * b.imag)
    return complex_of(real, _HALF_PI if x == 0 and y != y else math.atan2(a.imag, b.real) * 2)


def atanh(z: Any, /) -> Any:
    """`cmath.atanh(z)`."""
    half = _upper_atanh(abs(z.real), z.imag * math.copysign(1.0, z.real))
    return half if math.copysign(1.0, z.real) > 0 else -half


def _upper_atanh(x: Any, y: Any) -> Any:
    """Computes atanh of a number with a non-negative real part."""
    double = isinstance(x, np.float64)
    largest = 2.0**510 if double else 2.0**62
    height = abs(y)
    ordered = (x == x and y == y) or math.isinf(x) or math.isinf(y)
    if ordered and (x > largest or height > largest):
        size = math.hypot(x * 0.5, y * 0.5)
        real = 0.0 if math.isinf(size) else x * 0.25 / size / size
        imaginary = y if y != y else math.copysign(_HALF_PI, y)
    elif x == 1 and height < (2.0**-510 if double else 2.0**-62):
        real = -math.log(math.sqrt(height) / math.sqrt(math.hypot(height, 2.0)))
        imaginary = y if y == 0 else math.copysign(math.atan2(2.0, -height) * 0.5, y)
    else:
        rest = 1 - x
        real = x if x == 0 else math.log1p(4 * x / (rest * rest + height * height)) * 0.25
        imaginary = -math.atan2(-2 * y, rest * (1 + x) - height * height) * 0.5
    return complex_of(real, imaginary)


def _log_of_twice(x: Any, y: Any) -> Any:
    """Computes log(2 * hypot(x, y)) of large numbers."""
    return math.log(math.hypot(x * 0.5, y * 0.5)) + 2 * _LN2


# Trigonometric functions, by hyperbolic functions of i * z


def _turned(hyperbolic: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The trigonometric function `-i * hyperbolic(i * z)`."""

    def function(z: Any, /) -> Any:
        turned = hyperbolic(complex_of(-z.imag, z.real))
        return complex_of(turned.imag, -turned.real)

    function.__name__ = hyperbolic.__name__.removesuffix("h")
    return function


sin, tan, asin, atan = map(_turned, (sinh, tanh, asinh, atanh))


def cos(z: Any, /) -> Any:
    """`cmath.cos(z)`."""
    return cosh(complex_of(-z.imag, z.real))


def acos(z: Any, /) -> Any:
    """`cmath.acos(z)`."""
    turned = acosh(z)
    if z.imag == z.imag:
        return complex_of(abs(turned.imag), math.copysign(turned.real, -z.imag))
    return complex_of(abs(turned.imag), turned.real)


# NumPy's other functions of numbers, complex or not


def angle(z: Any, deg: Any = False) -> Any:
    """`np.angle(z)`."""
    turn = math.atan2(z.imag, z.real)
    return math.degrees(turn) if deg else turn


def conjugate(z: Any) -> Any:
    """`np.conjugate(z)`."""
    return z.conjugate()


def sign(z: Any) -> Any:
    """`np.sign(z)`: z / abs(z), or 0."""
    return z / abs(z) if z != 0 else z


# NumPy orders complex numbers by their real parts and, if these are equal, by the imaginary parts.


def less(a: Any, b: Any) -> Any:
    """`np.less(a, b)`."""
    decided = a.real < b.real and a.imag == a.imag and b.imag == b.imag
    return decided or (a.real == b.real and a.imag < b.imag)


def less_equal(a: Any, b: Any) -> Any:
    """`np.less_equal(a, b)`."""
    return less(a, b) or a == b


_ORDERED = {
    operator.lt: less,
    operator.le: less_equal,
    operator.gt: lambda a, b: less(b, a),
    operator.ge: lambda a, b: less_equal(b, a),
    prelude.minimum: lambda a, b: a if a != a or less_equal(a, b) else b,
    prelude.maximum: lambda a, b: a if a != a or less_equal(b, a) else b,
    numbers.OF_NUMPY[np.fmin]: lambda a, b: a if b != b or less_equal(a, b) else b,
    numbers.OF_NUMPY[np.fmax]: lambda a, b: a if b != b or less_equal(b, a) else b,
}

_ROOTS = (sqrt, exp, log10, sinh, cosh, tanh, asinh, acosh, atanh, sin, cos, tan, asin, acos, atan)


def rounded(x: Any, decimals: Any = 0) -> Any:
    """`np.round`: a float for a float; rounds both parts of a complex number."""
    if isinstance(x, (complex, np.complexfloating)):
        return complex_of(rounded(x.real, decimals), rounded(x.imag, decimals))
    if decimals == 0:
        return entities.float_round(x) if isinstance(x, (float, np.floating)) else x
    return round(x, decimals)


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    **{
        getattr(cmath, function.__name__): function for function in (*_ROOTS, phase, polar, isnan, isinf, isfinite, log)
    },
    cmath.rect: rect,
    cmath.isclose: numbers.isclose,
}
"""By function of `cmath`, the function that computes it."""
OF_NUMPY: dict[Callable[..., Any], Callable[..., Any]] = {
    **{
        getattr(math, function.__name__): function
        for function in (*_ROOTS, log, log1p, log2, expm1, exp2, isnan, isinf, isfinite)
    },
    **_ORDERED,
    numbers.sign: sign,
}
"""By function that computes one of NumPy's for real numbers, the function for complex ones if it is another one."""


# Constructors


def _complex_constructor(entity: type, name: str, number: model.Number) -> Intrinsic:
    """`complex(a, b)` is `a + b * 1j`, also where a or b are complex."""

    def infer(arguments: Sequence[Known]) -> Typed:
        if not arguments:
            return Typed(Known(number, 0j))
        types = [any_number_of(argument, name) for argument in arguments]
        handed = (_handed_over(known, type, number) for known, type in zip(arguments, types, strict=True))
        return Typed(of_type(number), tuple(enumerate(handed)))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        first, *second = (build.convert_tree(operand, number) for operand in operands)
        if not second:
            return first
        (a, b), (c, d) = tuple(flatten(first)), tuple(flatten(second[0]))
        # The missing part of a real operand is not added, which would change signed zeros.
        real = a if _is_real(operands[1]) else build.sum(ops.SUB, a, d)
        return real, c if _is_real(operands[0]) else build.sum(ops.ADD, b, c)

    return Intrinsic(entity, name, infer, lower, (0, 2), folds=True, only_for=() if entity is complex else None)


def _handed_over(known: Known, type: model.Number, target: model.Number) -> model.Number:
    """The type in which an argument is passed to a constructor: for a constant, that of the result, so that it loses nothing."""
    if not known.constant:
        return type
    return target if type.is_complex else target.part


def _is_real(operand: Tree) -> bool:
    return len(tuple(flatten(operand))) == 1


def _infer_complex_of(arguments: Sequence[Known]) -> Typed:
    real, imaginary = (any_number_of(argument, "complex") for argument in arguments)
    type = promote(to_complex(real), to_complex(imaginary))
    if type is None or real.is_complex or imaginary.is_complex:
        raise CompileError(
            "the parts of a complex number are floats", help="write complex(x, y) with real numbers x and y"
        )
    return Typed(of_type(type), ((0, type.part), (1, type.part)))


ROWS = entered(
    _complex_constructor(complex, "complex", model.COMPLEX),
    _complex_constructor(np.complex64, "complex64", model.COMPLEX64),
    _complex_constructor(np.complex128, "complex128", model.COMPLEX128),
    Intrinsic(complex_of, "complex_of", _infer_complex_of, lambda _, operands, __: tuple(operands)),
)
