"""Builtins and functions of `math` and `operator` that Python itself can express: compiled like a user's functions.

`REPLACEMENTS` maps each to the function that device code runs instead. They work on whatever their operators work on:
`sum` adds the elements of a tuple (unrolled) or of an array or range (a loop).
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

from cuda_device.device import prelude

# Of several values


def add_all(items: Any, /, start: Any = 0) -> Any:
    """`sum(items, start)`."""
    for item in items:
        start = start + item
    return start


def any_of(items: Any, /) -> Any:
    """`any(items)`."""
    for item in items:  # noqa: SIM110
        if item:
            return True
    return False


def all_of(items: Any, /) -> Any:
    """`all(items)`."""
    for item in items:  # noqa: SIM110
        if not item:
            return False
    return True


def least(items: Any, /) -> Any:
    """`min(items)`; unspecified for an array or range without elements."""
    some = False
    for item in items:
        best = min(best, item) if some else item  # type: ignore[has-type]  # noqa: F821
        some = True
    return best


def greatest(items: Any, /) -> Any:
    """`max(items)`; unspecified for an array or range without elements."""
    some = False
    for item in items:
        best = max(best, item) if some else item  # type: ignore[has-type]  # noqa: F821
        some = True
    return best


def product(items: Any, /, *, start: Any = 1) -> Any:
    """`math.prod(items, start=start)`."""
    for item in items:
        start = start * item
    return start


def float_sum(items: Any, /) -> Any:
    """`math.fsum(items)`: the sum with what each addition rounds away added at the end (Neumaier's algorithm)."""
    total = 0.0
    lost = 0.0
    for item in items:
        after = total + item
        lost += (total - after) + item if abs(total) >= abs(item) else (item - after) + total
        total = after
    return total + lost if math.isfinite(total) else total


def distance(p: Any, q: Any, /) -> Any:
    """`math.dist(p, q)` of two tuples."""
    return math.sqrt(sum((a - b) * (a - b) for a, b in zip(p, q)))  # noqa: B905


def sum_of_products(p: Any, q: Any, /) -> Any:
    """`math.sumprod(p, q)`."""
    total = 0
    for a, b in zip(p, q):  # noqa: B905
        total = total + a * b
    return total


# Ranges and arrays


def reversed_range(start: Any, stop: Any, step: Any) -> Any:
    """`reversed(range(start, stop, step))`."""
    count = length_of_range(start, stop, step)
    return range(start + (count - 1) * step, start - step, -step)


def length_of_range(start: Any, stop: Any, step: Any) -> Any:
    """`len(range(start, stop, step))`."""
    if step > 0:
        return (stop - start + step - 1) // step if start < stop else 0
    return (start - stop - step - 1) // -step if stop < start else 0


def range_contains(value: Any, start: Any, stop: Any, step: Any) -> Any:
    """`value in range(start, stop, step)`."""
    inside = start <= value < stop if step > 0 else stop < value <= start
    return inside and (value - start) % step == 0


def element_if(items: Any, index: Any, wanted: Any) -> Any:
    """`items[index]` if it is wanted: what a loop over an array reads."""
    if wanted:
        item = items[index]
    return item


# Integers


def greatest_common_divisor(*numbers: Any) -> Any:
    """`math.gcd`."""
    result = 0
    for number in numbers:
        result, other = abs(number), result
        while other != 0:
            result, other = other, result % other
    return result


def least_common_multiple(*numbers: Any) -> Any:
    """`math.lcm`."""
    result = 1
    for number in numbers:
        divisor = math.gcd(result, number)
        result = abs(result // divisor * number) if divisor != 0 else number
    return result


def integer_square_root(n: Any, /) -> Any:
    """`math.isqrt`: the floor of the square root."""
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
    result = n * 0 + 1
    for i in range(2, n + 1):
        result *= i
    return result


def combinations(n: Any, k: Any, /) -> Any:
    """`math.comb`."""
    if k > n or k < 0:
        return (n + k) * 0
    result = (n + k) * 0 + 1
    for i in range(min(k, n - k)):
        # Divided first, so that nothing on the way is larger than the result.
        quotient, remainder = divmod(result, i + 1)
        result = quotient * (n - i) + remainder * (n - i) // (i + 1)
    return result


def permutations(n: Any, k: Any = None, /) -> Any:
    """`math.perm`."""
    if k is None:
        return math.factorial(n)
    if k > n or k < 0:
        return (n + k) * 0
    result = (n + k) * 0 + 1
    for i in range(k):
        result *= n - i
    return result


# Floats


def is_close(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    """`math.isclose`."""
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    difference = abs(b - a)
    return difference <= abs(rel_tol * b) or difference <= abs(rel_tol * a) or difference <= abs_tol


def parts(x: Any, /) -> Any:
    """`math.modf`: the fractional and the integral part."""
    if math.isinf(x):
        return math.copysign(0.0, x), x
    whole = math.copysign(prelude.float_trunc(x), x)
    return math.copysign(x - whole, x), whole


def float_ceil(x: Any) -> Any:
    """The least whole number that is not below a float, as a float."""
    return -prelude.float_floor(-x)


def minimum(a: Any, b: Any) -> Any:
    """`np.minimum`: NaN wins."""
    return b if a == a and (b < a or b != b) else a


def maximum(a: Any, b: Any) -> Any:
    """`np.maximum`: NaN wins."""
    return b if a == a and (b > a or b != b) else a


def minimum_number(a: Any, b: Any) -> Any:
    """`np.fmin`: a number wins over NaN."""
    return b if b < a or a != a else a


def maximum_number(a: Any, b: Any) -> Any:
    """`np.fmax`: a number wins over NaN."""
    return b if b > a or a != a else a


def sign(x: Any) -> Any:
    """`np.sign`: -1, 0 or 1 of x's type; NaN stays."""
    result = x
    if x > 0:
        result = 1
    elif x < 0:
        result = -1
    return result


def square(x: Any) -> Any:
    """`np.square`."""
    return x * x


def reciprocal(x: Any) -> Any:
    """`np.reciprocal`."""
    return 1 / x


def truth(a: Any) -> Any:
    """`operator.truth(a)`."""
    return bool(a)


def logical_and(a: Any, b: Any) -> Any:
    """`np.logical_and`."""
    return bool(a) and bool(b)


def logical_or(a: Any, b: Any) -> Any:
    """`np.logical_or`."""
    return bool(a) or bool(b)


def power(base: Any, exponent: Any, modulus: Any = None) -> Any:
    """`pow(base, exponent)`, and of integers `pow(base, exponent, modulus)`."""
    if modulus is None:
        return base**exponent
    result = 1 % modulus
    base = base % modulus
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


def round_to(x: Any, digits: Any) -> Any:
    """`round(x, digits)` of a float: correct up to the last bit of the scaled number."""
    scale = 10.0**digits
    scaled = x * scale
    return prelude.float_round(scaled) / scale if math.isfinite(scaled) else x


REPLACEMENTS: dict[object, Callable[..., Any]] = {
    sum: add_all,
    any: any_of,
    all: all_of,
    pow: power,
    math.prod: product,
    math.fsum: float_sum,
    math.dist: distance,
    math.gcd: greatest_common_divisor,
    math.lcm: least_common_multiple,
    math.isqrt: integer_square_root,
    math.factorial: factorial,
    math.comb: combinations,
    math.perm: permutations,
    math.isclose: is_close,
    math.modf: parts,
    operator.add: lambda a, b: a + b,
    operator.sub: lambda a, b: a - b,
    operator.mul: lambda a, b: a * b,
    operator.truediv: lambda a, b: a / b,
    operator.floordiv: lambda a, b: a // b,
    operator.mod: lambda a, b: a % b,
    operator.pow: lambda a, b: a**b,
    operator.lshift: lambda a, b: a << b,
    operator.rshift: lambda a, b: a >> b,
    operator.and_: lambda a, b: a & b,
    operator.or_: lambda a, b: a | b,
    operator.xor: lambda a, b: a ^ b,
    operator.eq: lambda a, b: a == b,
    operator.ne: lambda a, b: a != b,
    operator.lt: lambda a, b: a < b,
    operator.le: lambda a, b: a <= b,
    operator.gt: lambda a, b: a > b,
    operator.ge: lambda a, b: a >= b,
    operator.neg: lambda a: -a,
    operator.pos: lambda a: +a,
    operator.invert: lambda a: ~a,
    operator.not_: lambda a: not a,
    operator.truth: truth,
    operator.abs: lambda a: +abs(a),
    operator.is_: lambda a, b: a is b,
    operator.is_not: lambda a, b: a is not b,
    operator.contains: lambda a, b: b in a,
    operator.getitem: lambda a, b: a[b],
    operator.index: lambda a: a,
}
if hasattr(math, "sumprod"):
    REPLACEMENTS[math.sumprod] = sum_of_products
ONE_ARGUMENT: dict[object, Callable[..., Any]] = {builtins.min: least, builtins.max: greatest}
"""Functions that take many arguments, or one thing with many elements: then these."""
