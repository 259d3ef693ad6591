"""What `own_numbers` calls: functions of the compiler, what gives the same, and arguments for both."""

from __future__ import annotations

import cmath
import itertools
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from cuda_device.library import complex_functions, complex_numbers, numbers, prelude, standard
from fuzz.own import Check
from fuzz.own_numbers import (
    FLOATS,
    Row,
    any_complex,
    check_of,
    finite,
    floats,
    natural,
    number,
    of,
    powers,
    quotients,
    special_complex,
    upto,
    whole,
)


def _power(z: Any, exponent: Any) -> Any:
    return complex(z) ** (exponent if isinstance(exponent, int) else complex(exponent))


def _frexp(x: Any) -> Any:
    fraction, exponent = np.frexp(x)
    return fraction, int(exponent)


def _round(x: int, digits: int) -> int:
    return round(x, digits)


def _slice(start: Any, stop: Any, step: int, length: int) -> tuple[int, int]:
    places = range(length)[start:stop:step]
    return (places.start, len(places)) if len(places) else (-1, 0)


def _our_slice(*arguments: Any) -> tuple[int, int]:
    first, count = prelude.slice_bounds(*arguments)
    return (first, count) if count else (-1, 0)


def _bound(choose: random.Random) -> int | None:
    return choose.choice((None, choose.randint(-12, 12), choose.randint(-3, 3)))


def _step(choose: random.Random) -> int:
    return choose.choice((1, 1, 2, 3, 5, -1, -2, -4))


def _stays(shape: tuple[int, ...], steps: tuple[int, ...], lengths: tuple[int, ...]) -> bool:
    """Whether NumPy makes no copy."""
    base = np.zeros(4096, np.int8)
    view = np.lib.stride_tricks.as_strided(base[2048:], shape, steps)
    try:
        return view.size == math.prod(lengths) and np.shares_memory(view.reshape(lengths, copy=False), base)
    except ValueError:
        return False


def reshaping(choose: random.Random) -> tuple[Any, ...]:
    """A shape, the steps of a view, and another shape of as many elements."""
    lengths = [choose.choice((1, 2, 3, 4)) for _ in range(choose.randint(1, 4))]
    steps = [0] * len(lengths)
    step = choose.choice((1, 2, 4))
    for axis in reversed(range(len(lengths))):
        steps[axis] = step
        step *= lengths[axis] if choose.random() < 0.8 else lengths[axis] + 1
    count, others = math.prod(lengths), []
    while count > 1:
        factor = choose.choice([n for n in range(2, count + 1) if count % n == 0])
        others.append(factor)
        count //= factor
    return tuple(lengths), tuple(steps), tuple(others) or (1,)


def _place(place: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> int:
    return sum(int(i) * step for i, step in zip(np.unravel_index(place % math.prod(shape), shape), steps, strict=True))


def _digits(number: int, base: int) -> int:
    return len(np.base_repr(number, base))


def _binary(number: int, columns: int, first: int, most: int) -> int:
    """The place of a text of zeros and ones in a list of all, the short ones first."""
    texts = [""]
    for count in range(1, most + 1):
        texts += ["".join(each) for each in itertools.product("01", repeat=count)]
    shown = f"{number:0{columns}b}"
    end = len(shown) - first
    return texts.index(shown[max(end - most, 0) : end] if end > 0 else "")


def _looks_whole(x: Any, powers: Any) -> bool:
    """Whether so many digits of it that are shown have none behind the point."""
    return float(f"{x:.{len(powers)}g}").is_integer()


def _raises(function: Callable[..., Any]) -> Callable[..., Any]:
    """The error in place of a result."""

    def run(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (ValueError, KeyError, IndexError, TypeError, ZeroDivisionError) as error:
            return type(error).__name__

    return run


def _power_of_integers(base: int, exponent: int) -> int:
    if exponent >= 0:
        return base**exponent
    return base ** (exponent & 1 or 2) if base in (1, -1) else 0


FEW, FOUR = upto(-4, 4), upto(-4, 3)
ROWS = (
    Row("gcd", numbers.greatest_common_divisor, math.gcd, of(whole, whole, whole)),
    Row("lcm", numbers.least_common_multiple, math.lcm, of(upto(-99, 99), upto(-99, 99), FEW)),
    Row("isqrt", numbers.integer_square_root, math.isqrt, of(natural)),
    Row(
        "isqrt of squares",
        numbers.integer_square_root,
        math.isqrt,
        lambda c: (c.randint(0, 9999) ** 2 - c.randint(0, 1) & 2**62,),
    ),
    Row("factorial", numbers.factorial, math.factorial, of(upto(0, 20))),
    Row("comb", numbers.combinations, lambda n, k: math.comb(n, k) if k >= 0 else 0, of(upto(0, 30), upto(-2, 33))),
    Row("perm", numbers.permutations, lambda n, k: math.perm(n, k) if k >= 0 else 0, of(upto(0, 12), upto(-2, 14))),
    Row("perm of all", numbers.permutations, math.perm, of(upto(0, 12))),
    Row("numerator", numbers.numerator, lambda n: n.numerator, of(whole)),
    Row("denominator", numbers.denominator, lambda n: n.denominator, of(whole)),
    Row("is_integer", numbers.is_integer, lambda x: float(x).is_integer(), floats(1)),
    Row("is_integer of integers", numbers.is_integer, lambda n: True, of(whole)),
    Row("frexp", numbers.mantissa_and_exponent, _frexp, floats(1)),
    Row("ldexp", numbers.times_power, np.ldexp, floats(1, upto(-2200, 2200))),
    Row("ldexp nearby", numbers.times_power, np.ldexp, floats(1, upto(-150, 150))),
    Row(
        "ulp",
        numbers.last_place,
        lambda x: (
            abs(x)
            if not math.isfinite(x)
            else abs(np.spacing(abs(x)))
            if abs(x) < np.finfo(type(x)).max
            else abs(x) - np.nextafter(abs(x), type(x)(0))
        ),
        floats(1),
    ),
    Row("spacing", numbers.spacing, np.spacing, finite(1)),
    Row("hypot", numbers.length_of, lambda *x: np.sqrt(sum(each * each for each in x)), finite(3), 4),
    Row(
        "isclose",
        numbers.is_close,
        lambda a, b: math.isclose(float(a), float(b)),
        lambda c: (
            x := number(c, np.float64),
            c.choice((x, x * (1 + 2e-9), x * (1 + 5e-10), x * (1 - 5e-10), number(c, np.float64))),
        ),
    ),
    Row(
        "isclose within",
        lambda a, b, r, s: numbers.is_close(a, b, rel_tol=r, abs_tol=s),
        lambda a, b, r, s: math.isclose(float(a), float(b), rel_tol=r, abs_tol=s),
        lambda c: (*finite(2)(c), c.choice((0.0, 0.1, 0.5)), c.choice((0.0, 0.5, 3.0))),
    ),
    Row(
        "np.isclose",
        numbers.are_close,
        lambda a, b: bool(np.isclose(a, b)),
        lambda c: (
            x := number(c, np.float64),
            c.choice((x, x * (1 + 2e-5), x * (1 + 5e-6), x + 5e-9, number(c, np.float64))),
        ),
    ),
    Row(
        "np.isclose within",
        numbers.are_close,
        lambda a, b, r, s: bool(np.isclose(a, b, r, s)),
        lambda c: (*finite(2)(c), c.choice((0.0, 0.1, 0.5)), c.choice((0.0, 0.5, 3.0))),
    ),
    Row("modf", numbers.parts, lambda x: tuple(map(type(x), np.modf(x))), floats(1)),
    Row("ceil", numbers.float_ceil, np.ceil, floats(1)),
    Row("floor", prelude.float_floor, np.floor, floats(1)),
    Row("trunc", prelude.float_trunc, np.trunc, floats(1)),
    Row("rint", prelude.float_round, np.rint, floats(1)),
    Row(
        "signbit",
        numbers.sign_bit,
        np.signbit,
        lambda c: (x,) if (x := number(c, np.float64)) == x else (np.float64(0),),
    ),
    Row("logical_xor", numbers.logical_xor, np.logical_xor, of(FEW, FEW)),
    Row("logical_and", numbers.logical_and, np.logical_and, of(FEW, FEW)),
    Row("logical_or", numbers.logical_or, np.logical_or, of(FEW, FEW)),
    Row("heaviside", numbers.heaviside, np.heaviside, floats(2)),
    Row(
        "logaddexp",
        lambda a, b: type(a)(numbers.add_exponentials(a, b)) + 1,
        lambda a, b: np.logaddexp(a, b) + 1,
        finite(2),
        16,
    ),
    Row("logaddexp2", lambda a, b: numbers.add_powers(a, b) + 1, lambda a, b: np.logaddexp2(a, b) + 1, finite(2), 16),
    Row("clip", lambda *x: numbers.clip(*x) + 0.0, lambda x, a, b: np.minimum(np.maximum(x, a), b) + 0.0, floats(3)),
    Row("where", numbers.where, lambda c, a, b: a if c else b, of(upto(0, 1), whole, whole)),
    Row("round", numbers.rounded, np.round, floats(1)),
    Row(
        "round to",
        numbers.round_to,
        lambda x, n: float(np.round(x, n)),
        lambda c: (c.uniform(-99, 99), c.randint(0, 4)),
    ),
    Row("round integers", numbers.round_integer, _round, of(whole, upto(-6, -1))),
    Row("round halves", numbers.round_integer, _round, lambda c: (c.randint(-99, 99) * 5, -1)),
    Row("minimum", lambda *x: numbers.minimum(*x) + 0.0, lambda *x: np.minimum(*x) + 0.0, floats(2)),
    Row("maximum", lambda *x: numbers.maximum(*x) + 0.0, lambda *x: np.maximum(*x) + 0.0, floats(2)),
    Row("fmin", lambda *x: numbers.minimum_number(*x) + 0.0, lambda *x: np.fmin(*x) + 0.0, floats(2)),
    Row("fmax", lambda *x: numbers.maximum_number(*x) + 0.0, lambda *x: np.fmax(*x) + 0.0, floats(2)),
    Row("sign", numbers.sign, np.sign, floats(1)),
    Row("sign of integers", numbers.sign, np.sign, of(lambda c: np.int32(whole(c)))),
    Row("float_power", numbers.float_power, np.float_power, finite(2), 4),
    Row(
        "invert",
        numbers.inverted,
        lambda n: not n if isinstance(n, bool) else ~n,
        lambda c: (c.choice((True, False, whole(c))),),
    ),
    Row("square", numbers.square, np.square, floats(1)),
    Row("reciprocal", numbers.reciprocal, np.reciprocal, floats(1)),
    Row("truth", numbers.truth, bool, of(FEW)),
    Row("pow", numbers.power, pow, of(FEW, upto(0, 9))),
    Row(
        "pow modulo",
        _raises(numbers.power),
        _raises(pow),
        of(upto(-99, 99), upto(-9, 40), lambda c: c.choice((c.randint(1, 99), c.randint(-99, -1)))),
    ),
    Row("as_float", numbers.as_float, float, of(whole)),
    Row("phase", complex_functions.phase, lambda z: np.angle(z), of(any_complex), 4),
    Row("angle", complex_functions.angle, lambda z: np.angle(z), of(any_complex), 4),
    Row(
        "angle in degrees",
        lambda z: complex_functions.angle(z, True),
        lambda z: np.angle(z, deg=True),
        of(any_complex),
        8,
    ),
    Row("polar", complex_functions.polar, lambda z: (np.abs(z), np.angle(z)), of(any_complex), 4),
    Row(
        "rect",
        lambda r, p: complex(complex_functions.rect(r, p)),
        _raises(lambda r, p: cmath.rect(r, p)),
        lambda c: (number(c, np.float64), c.choice((0.0, -0.0, c.uniform(-4, 4), c.uniform(-99, 99)))),
        4,
    ),
    Row(
        "rect of what is infinite",
        lambda r, p: complex(complex_functions.rect(r, p)),
        _raises(lambda r, p: cmath.rect(r, p)),
        lambda c: tuple(np.float64(c.choice((0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan))) for _ in range(2)),
    ),
    Row("cmath.isnan", complex_functions.isnan, cmath.isnan, of(any_complex)),
    Row("cmath.isinf", complex_functions.isinf, cmath.isinf, of(any_complex)),
    Row("cmath.isfinite", complex_functions.isfinite, cmath.isfinite, of(any_complex)),
    Row(
        "cmath.isclose",
        complex_functions.is_close,
        cmath.isclose,
        lambda c: (
            z := np.complex128(any_complex(c)),
            c.choice((z, z * (1 + 5e-10), z * (1 + 2e-9), np.complex128(any_complex(c)))),
        ),
    ),
    Row("cmath.isclose of what is special", complex_functions.is_close, cmath.isclose, special_complex),
    Row("real", complex_functions.real, np.real, of(any_complex)),
    Row("imag", complex_functions.imag, np.imag, of(any_complex)),
    Row("conjugate", complex_functions.conjugate, np.conjugate, of(lambda c: any_complex(c, False))),
    Row(
        "complex sign",
        lambda z: complex(complex_functions.sign(z)),
        lambda z: complex(z / abs(z)) if z else 0j,
        lambda c: (c.choice((np.complex128(0), any_complex(c, False))),),
        8,
    ),
    Row("magnitude", complex_numbers.magnitude, abs, of(any_complex), 2),
    Row(
        "complex integer power",
        lambda z, n: complex(complex_numbers.integer_power(z, n)),
        _power,
        lambda c: (np.complex128(any_complex(c, False)), c.randint(-9, 9)),
        99,
    ),
    Row("complex power", lambda z, w: complex(complex_numbers.power(z, w)), _power, powers, 999),
    Row(
        "float modulo",
        prelude.float_modulo,
        np.mod,
        lambda c: tuple(t(c.choice((-1, 1)) * c.uniform(0.1, 99)) for t in (c.choice(FLOATS),) * 2),
    ),
    Row(
        "float modulo of wholes",
        prelude.float_modulo,
        np.mod,
        lambda c: (np.float64(c.randint(-9, 9)), np.float64(c.choice((-3, -2, 2, 3)))),
    ),
    Row(
        "float floor",
        prelude.float_floor_divide,
        lambda a, b: np.float64(math.floor(Fraction(float(a)) / Fraction(float(b)))),
        lambda c: (np.float64(c.uniform(-99, 99)), np.float64(c.choice((-1, 1)) * c.uniform(0.5, 9))),
    ),
    Row(
        "float floor of wholes",
        prelude.float_floor_divide,
        np.floor_divide,
        lambda c: (np.float64(c.randint(-9, 9)), np.float64(c.choice((-3, -2, 0, 1, 2, 3)))),
    ),
    Row("place", prelude.place, lambda i, n: range(n)[i], lambda c: (c.randint(-(n := c.randint(1, 9)), n - 1), n)),
    Row("slice", _our_slice, _slice, of(_bound, _bound, _step, upto(0, 9))),
    Row(
        "looks_whole",
        prelude.looks_whole,
        _looks_whole,
        lambda c: (
            float(
                c.choice(
                    (
                        c.randint(0, 9),
                        c.randint(-999, 999) / 8,
                        c.uniform(-2, 2),
                        c.uniform(0, 9) * 10 ** c.randint(-4, 2),
                    )
                )
            ),
            (10.0, 100.0, 1000.0, 10000.0),
        ),
    ),
    Row(
        "before_point",
        prelude.before_point,
        lambda w, whole, left: w if not whole else 0 if left else max(0, w - 2),
        of(upto(0, 9), upto(0, 1), upto(0, 1)),
    ),
    Row(
        "behind_point",
        prelude.behind_point,
        lambda x, w, whole, sign: whole and max(0, w - len(f"{x:+.1f}" if sign else f"{x:.1f}")),
        lambda c: (float(c.randint(-1100, 1100)), c.randint(0, 12), c.randint(0, 1), c.choice((True, False))),
    ),
    Row("digits_of", prelude.digits_of, _digits, of(natural, lambda c: c.choice((2, 8, 10, 16)))),
    Row("integer magnitude", prelude.magnitude, abs, of(whole)),
    Row(
        "columns_left",
        prelude.columns_left,
        lambda n, neg, w, base: max(0, w - neg - _digits(n, base)),
        of(natural, upto(0, 1), upto(0, 40), lambda c: c.choice((2, 8, 10, 16))),
    ),
    Row("binary_digits", prelude.binary_digits, _binary, of(upto(0, 300), upto(1, 12), upto(0, 12), upto(1, 4))),
    Row("is_beyond", prelude.is_beyond, lambda a, b: a > b, of(FEW, FEW)),
    Row("without_sign", prelude.without_sign, lambda w, neg: w - neg, of(FEW, upto(0, 1))),
    Row("is_negative", prelude.is_negative, lambda n: n < 0, of(FEW)),
    Row("is_within", prelude.is_within, lambda i, n: i in range(-n, n), of(FEW, upto(0, 4))),
    Row("is_length", prelude.is_length, lambda n: n >= 0, of(FEW)),
    Row("is_equal", prelude.is_equal, lambda a, b: a == b, of(FEW, FEW)),
    Row("is_lane", prelude.is_lane, lambda n: n in range(32), of(lambda c: c.choice((-1, 0, 1, 30, 31, 32, 33)))),
    Row("is_multiple", prelude.is_multiple, lambda n, m: m > 0 and n % m == 0, of(upto(0, 12), FEW)),
    Row("has_place", prelude.has_place, _stays, reshaping),
    Row(
        "bytes_before",
        prelude.bytes_before,
        _place,
        lambda c: (c.randint(0, math.prod((given := reshaping(c))[0]) - 1), *given[:2]),
    ),
    Row("fits", prelude.fits, lambda a, b: a == b or a == 1, of(upto(0, 3), upto(0, 3))),
    Row("has_power", prelude.has_power, lambda b, e: _raises(pow)(b, e) != "ZeroDivisionError", of(FEW, FEW)),
    Row(
        "place_in_rows",
        prelude.place_in_rows,
        lambda i, j, n, m: int(np.arange(n * m).reshape(n, m)[i, j]),
        lambda c: (c.randint(-3, 2), c.randint(-4, 3), 3, 4),
    ),
    Row(
        "mask_with",
        prelude.mask_with,
        lambda m, i, v: m | 1 << i if v else m & ~(1 << i),
        of(natural, upto(0, 30), upto(0, 1)),
    ),
    Row("lane_of_mask", prelude.lane_of_mask, lambda m, i: bool(m & 1 << i), of(natural, upto(0, 30))),
    Row("divmod", prelude.REPLACEMENTS[divmod], divmod, of(whole, lambda c: c.choice((-7, -2, 3, 10)))),
    Row("integer power", prelude.integer_power, _power_of_integers, of(FEW, upto(-4, 9))),
    Row(
        "with_element",
        prelude.with_element,
        lambda t, i, v: (*t[: i % 4], v, *t[i % 4 + 1 :]),
        of(lambda c: (3, 1, 4, 1), FOUR, FEW),
    ),
    Row("element", prelude.element, lambda t, i: t[i], of(lambda c: (3, 1, 4, 5), FOUR)),
    Row(
        "one_if_at",
        prelude.one_if_at,
        lambda i, p, n, a, b: a if i % 4 == p else b,
        of(FOUR, upto(0, 3), lambda c: 4, lambda c: (1, 2), lambda c: (3, 4)),
    ),
    Row(
        "call_one",
        _raises(prelude.call_one),
        _raises(lambda t, i, given: t[i](*given)),
        of(lambda c: (min, max, divmod), upto(-5, 4), lambda c: (9, 4)),
    ),
    Row(
        "place_of_key",
        prelude.place_of_key,
        lambda t, k: t.index(k) if k in t else -1,
        of(lambda c: (3, 1, 4, 5), upto(0, 5)),
    ),
    Row(
        "known key",
        _raises(prelude.place_of_known_key),
        _raises(lambda t, k: dict(zip(t, range(4), strict=True))[k]),
        of(lambda c: (3, 1, 4, 5), upto(0, 5)),
    ),
    Row(
        "new value",
        _raises(prelude.place_of_new_value),
        _raises(lambda t, k: dict(zip(t, range(4), strict=True))[k]),
        of(lambda c: (3, 1, 4, 5), upto(0, 5)),
    ),
    Row(
        "element_or",
        prelude.element_or,
        lambda t, i, d: t[i] if i >= 0 else d,
        of(lambda c: (3, 1, 4, 5), upto(-1, 3), FEW),
    ),
    Row("is_one_of", prelude.is_one_of, lambda n, t: n in t, of(FEW, lambda c: (1, 3))),
    Row(
        "whole strides",
        prelude.has_whole_strides,
        lambda x, n: not any(s % n for s in x.strides),
        lambda c: (np.zeros((3, 4), np.int8)[:: c.randint(1, 2), :: c.choice((1, 2, 4))], c.choice((1, 2, 4, 8))),
    ),
    Row("length_of_range", standard.length_of_range, lambda *r: len(range(*r)), of(upto(-9, 9), upto(-9, 9), _step)),
)


CHECKS: tuple[Check, ...] = (*map(check_of, ROWS), quotients, quotients)
