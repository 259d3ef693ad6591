"""What Python itself can express of complex arithmetic: quotients, powers, magnitudes. Compiled like a user's functions.

They compute in the precision of their arguments: `isinstance(x, np.float64)` is decided while compiling, and builtin floats are
float32 in device code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_INFINITY = math.inf


def complex_of(real: Any, imaginary: Any) -> Any:
    """The complex number with these parts, of their type. In device code a row of the device table."""
    return complex(real, imaginary)


def magnitude(z: Any, /) -> Any:
    """`abs(z)`: without overflow on the way."""
    return math.hypot(z.real, z.imag)


def quotient(numerator: Any, denominator: Any) -> Any:
    """`numerator / denominator` without overflow or underflow on the way (Baudin and Smith, 2012).

    Infinities and zeros are those of C's Annex G: what is not zero is infinite when it is divided by 0.
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
    """(a + b * ratio) / bottom, where ratio is d / c: in another order if a product underflows."""
    top = a + d * (b / c) if ratio == 0 else a + b * ratio
    return top / bottom


def _special_quotient(a: Any, b: Any, c: Any, d: Any) -> Any:
    """(a + bi) / (c + di), when the plain way gives NaN for both parts."""
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
    """1 for an infinity, else 0, with the sign of x."""
    return math.copysign(1.0 if math.isinf(x) else 0.0, x)


def integer_power(z: Any, exponent: Any) -> Any:
    """`z ** exponent` of an integer, by squaring."""
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
