"""Functions of `math` and NumPy and methods of `int` and `float`, written in Python.

`FUNCTIONS`, `OF_NUMPY` and `METHODS` map the functions of Python and NumPy and the names of methods to them. They are compiled
like users' functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cuda_device.device import entities, numeric
from cuda_device.library import prelude

# Integers


def gcd(*numbers: Any) -> Any:
    """`math.gcd`."""
    result = 0
    for number in numbers:
        result, other = number, result
        while other != 0:
            result, other = other, result % other
    return abs(result)  # not earlier, because abs of the least integer wraps


def lcm(*numbers: Any) -> Any:
    """`math.lcm`."""
    result = 1
    for number in numbers:
        divisor = math.gcd(result, number)
        result = abs(result // divisor * number) if divisor != 0 else number
    return result


_NONNEGATIVE = "call it with numbers of 0 or more, as in max(n, 0)"


def isqrt(n: Any, /) -> Any:
    """`math.isqrt`: the floor of the square root."""
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative", _NONNEGATIVE)
    result = n * 0
    bit = result + 1
    while bit <= n // 4:
        bit *= 4
    while bit != 0:
        if n >= result + bit:
            n -= result + bit
            result = result // 2 + bit
        else:
            result //= 2
        bit //= 4
    return result


def factorial(n: Any, /) -> Any:
    """`math.factorial`."""
    if n < 0:
        raise ValueError("factorial() not defined for negative values", _NONNEGATIVE)
    result = n * 0 + 1
    for i in range(2, n + 1):
        result *= i
    return result


def comb(n: Any, k: Any, /) -> Any:
    """`math.comb`."""
    if n < 0 or k < 0:
        raise ValueError("comb() arguments must be non-negative integers", _NONNEGATIVE)
    if k > n:
        return (n + k) * 0
    result = (n + k) * 0 + 1
    for i in range(min(k, n - k)):
        # Dividing first keeps intermediate results no larger than the final one.
        quotient, remainder = divmod(result, i + 1)
        result = quotient * (n - i) + remainder * (n - i) // (i + 1)
    return result


def perm(n: Any, k: Any = None, /) -> Any:
    """`math.perm`."""
    if k is None:
        return math.factorial(n)
    if n < 0 or k < 0:
        raise ValueError("perm() arguments must be non-negative integers", _NONNEGATIVE)
    if k > n:
        return (n + k) * 0
    result = (n + k) * 0 + 1
    for i in range(k):
        result *= n - i
    return result


def bit_count(x: Any) -> Any:
    """`x.bit_count()`."""
    return int(numeric.popc(abs(x)))


def bit_length(x: Any) -> Any:
    """`x.bit_length()`."""
    size = abs(x)
    return int(numeric.clz(size * 0) - numeric.clz(size))


def is_integer(x: Any) -> Any:
    """`x.is_integer()`."""
    return math.isfinite(x) and entities.float_floor(x) == x if isinstance(x, (float, np.floating)) else True


# Floats


def frexp(x: Any, /) -> Any:
    """`math.frexp`: (m, e) with x == m * 2**e and 0.5 <= abs(m) < 1."""
    x = as_float(x)
    kind, double, is_wide = type(x), isinstance(x, np.float64), isinstance(x, (np.float32, np.float64))
    if not is_wide:
        mantissa, exponent = math.frexp(np.float32(x))
        return kind(mantissa), exponent
    if x == 0 or not math.isfinite(x):
        return x, 0
    is_small = abs(x) < (2.0**-1022 if double else 2.0**-126)  # a subnormal number
    word, digits, middle = (np.uint64, 52, 1022) if double else (np.uint32, 23, 126)
    bits = (x * 2.0**64 if is_small else x).view(word)
    exponent = int(bits >> digits & (2 * middle + 3)) - middle
    return kind((bits - (word(exponent) << digits)).view(kind)), exponent - (64 if is_small else 0)


def ldexp(x: Any, exponent: Any, /) -> Any:
    """`math.ldexp`: `x * 2**exponent`, rounded once."""
    x = as_float(x)
    if isinstance(x, np.float64):
        return _scaled(x, exponent, 1023, 53)
    if isinstance(x, np.float16):
        return np.float16(_scaled(np.float32(x), exponent, 127, 24))
    return _scaled(x, exponent, 127, 24)


def _scaled(x: Any, exponent: Any, most: Any, digits: Any) -> Any:
    """Scales in steps while the exponent is out of range. Downward steps keep all digits, so that only the last one rounds."""
    if not math.isfinite(x):
        return x
    for _ in range(2):
        if exponent > most:
            x *= 2.0**most
            exponent -= most
        elif exponent < 1 - most:
            x *= 2.0 ** (1 - most + digits)
            exponent += most - 1 - digits
    word = np.uint64 if digits == 53 else np.uint32
    power = word(np.int32(max(1 - most, min(most, exponent))) + most) << (digits - 1)
    return x * power.view(type(x))


def ulp(x: Any, /) -> Any:
    """`math.ulp`: the distance to the next float away from zero, or, for the largest float, to the previous one."""
    x = abs(as_float(x))
    if not math.isfinite(x):
        return x
    after = math.nextafter(x, math.inf)
    return after - x if math.isfinite(after) else x - math.nextafter(x, 0.0)


def as_float(x: Any) -> Any:
    """Converts an integer to the float type in which functions of it compute."""
    return math.fabs(x) * 0 + x if isinstance(x, (int, np.integer)) else x


def difference(a: Any, b: Any) -> Any:
    """`a - b`, and of integers, whose difference may wrap, the float in which functions of them compute."""
    if not isinstance(a, (int, np.integer)) or not isinstance(b, (int, np.integer)):
        return a - b
    exact = np.float64(a) - np.float64(b)
    if isinstance(a, (np.int64, np.uint64)) or isinstance(b, (np.int64, np.uint64)):
        return exact
    return np.float32(exact) if isinstance(a, np.integer) or isinstance(b, np.integer) else float(exact)


def dist(p: Any, q: Any, /) -> Any:
    """`math.dist`, of two tuples."""
    return math.hypot(*(difference(a, b) for a, b in zip(p, q)))  # noqa: B905


def length_of(*coordinates: Any) -> Any:
    """`math.hypot` of any number of coordinates."""
    result = 0.0
    for coordinate in coordinates:
        result = math.hypot(result, coordinate)
    return result


def isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    """`math.isclose`, and of complex numbers `cmath.isclose`."""
    if a == b:
        return True
    if abs(a) == math.inf or abs(b) == math.inf:
        return False
    distance = abs(difference(a, b))
    return distance <= rel_tol * abs(b) or distance <= rel_tol * abs(a) or distance <= abs_tol


def modf(x: Any, /) -> Any:
    """`math.modf`: the fractional and the integral part."""
    if math.isinf(x):
        return math.copysign(0.0, x), x
    whole = math.copysign(entities.float_trunc(x), x)
    return math.copysign(x - whole, x), whole


def logaddexp(a: Any, b: Any) -> Any:
    """`np.logaddexp`: log(exp(a) + exp(b))."""
    if a == b:
        return a + math.log(2.0)
    return max(a, b) + math.log1p(math.exp(-abs(difference(a, b))))


def logaddexp2(a: Any, b: Any) -> Any:
    """`np.logaddexp2`: log2(2**a + 2**b)."""
    if a == b:
        return a + 1.0
    return max(a, b) + math.log1p(math.exp2(-abs(difference(a, b)))) * _LOG2_OF_E


_LOG2_OF_E = math.log2(math.e)


def spacing(x: Any) -> Any:
    """`np.spacing`: the distance to the next float away from zero, with the sign of x."""
    away = math.nextafter(x, -math.inf if x < 0 else math.inf)
    return away - x


def clip(x: Any, low: Any, high: Any) -> Any:
    """`np.clip`: x limited to the range from low to high."""
    return prelude.minimum(prelude.maximum(x, low), high)


def where(condition: Any, a: Any, b: Any) -> Any:
    """`np.where` of numbers."""
    return prelude.as_both(a if condition else b, a, b)


def are_close(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08) -> Any:
    """`np.isclose`."""
    if a == b:
        return True
    return math.isfinite(a) and math.isfinite(b) and abs(difference(a, b)) <= atol + rtol * abs(as_float(b))


def sign(x: Any) -> Any:
    """`np.sign`: -1, 0 or 1 in the type of x; NaN for NaN."""
    return x if x != x else type(x)(x > 0) - type(x)(x < 0)


def truth(a: Any) -> Any:
    """`bool(a)`."""
    return bool(a)


def divide_and_modulo(a: Any, b: Any) -> Any:
    """`divmod(a, b)`."""
    return a // b, a % b


def power(base: Any, exponent: Any, modulus: Any = None) -> Any:
    """`pow(base, exponent)`, and of integers `pow(base, exponent, modulus)`."""
    if modulus is None:
        return base**exponent
    if exponent < 0:
        base, exponent = inverse_modulo(base, modulus), -exponent
    result = 1 % modulus
    base = base % modulus
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


def inverse_modulo(base: Any, modulus: Any) -> Any:
    """Returns the number whose product with `base` is 1 modulo `modulus`, or reports an error if there is none."""
    rest, divisor = base % modulus, modulus
    before, after = base * 0 + 1, base * 0
    while divisor != 0:
        quotient = rest // divisor
        rest, divisor = divisor, rest - quotient * divisor
        before, after = after, before - quotient * after
    if rest != 1 and rest != -1:
        raise ValueError(
            "base is not invertible for the given modulus", "use a base and a modulus with no common divisor"
        )
    return before * rest


def round_to(x: Any, digits: Any) -> Any:
    """`round(x, digits)` of a float. Scaling may round, as in NumPy, so the last bit may differ from Python's."""
    ten = np.float64(10) if isinstance(x, np.float64) else 10.0  # so that an int32 `digits` does not narrow it
    scale = ten ** abs(digits)
    scaled = x / scale if digits < 0 else x * scale
    if not math.isfinite(scaled):
        return x
    rounded = entities.float_round(scaled)
    return rounded / scale if digits >= 0 else rounded * scale if rounded else rounded  # the scale may be infinite


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    getattr(math, function.__name__): function
    for function in (gcd, lcm, isqrt, factorial, comb, perm, isclose, dist, modf, frexp, ldexp, ulp)
} | {pow: power, divmod: divide_and_modulo}
"""By a function of Python, the one that device code runs instead."""
METHODS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (bit_count, bit_length, is_integer)
}
"""By method of a number, the function that computes it."""
_WHOLE = (int, np.integer, np.bool_)
OF_NUMPY: dict[Callable[..., Any], Callable[..., Any]] = {
    **{getattr(np, function.__name__): function for function in (logaddexp, logaddexp2, sign, spacing)},
    np.ceil: lambda x: x if isinstance(x, _WHOLE) else -entities.float_floor(-x),
    np.floor: lambda x: x if isinstance(x, _WHOLE) else entities.float_floor(x),
    np.float_power: lambda a, b: math.pow(np.float64(a), np.float64(b)),
    np.fmax: lambda a, b: prelude.as_both(b if b > a or a != a else a, a, b),
    np.fmin: lambda a, b: prelude.as_both(b if b < a or a != a else a, a, b),
    np.heaviside: lambda x, at_zero: x if x != x else at_zero if x == 0 else 0.0 if x < 0 else 1.0,
    np.invert: lambda x: not x if isinstance(x, (bool, np.bool_)) else ~x,
    np.logical_and: lambda a, b: bool(a) and bool(b),
    np.logical_or: lambda a, b: bool(a) or bool(b),
    np.logical_xor: lambda a, b: bool(a) != bool(b),
    np.reciprocal: lambda x: 1 / x,
    np.signbit: lambda x: math.copysign(1.0, x) < 0,
    np.square: lambda x: x * x,
    np.trunc: lambda x: x if isinstance(x, _WHOLE) else entities.float_trunc(x),
}
"""By a function of NumPy, the one that device code runs instead."""
