"""Python's builtins, `math`, `operator` and NumPy's functions on scalars, against Python itself."""

from __future__ import annotations

import enum
import functools
import math
import operator
from typing import NamedTuple

import numpy as np
import pytest
from against_python import check, programs, refused

import cuda_device as device

X = np.arange(8.0) * 1.5 - 3.25


class Color(enum.IntEnum):
    RED = 1
    GREEN = 2


class Mode(enum.Enum):
    FAST = "fast"
    EXACT = "exact"


def sequences(i, x, b):
    t = (b, i, 2)
    return sum(t) + max(t) * 2 + min(t) * 3 + len(t) + bool(t) + sum((), 5) + sum(t, 1) + max(i, 3) + sum(range(i))


def integers(i, x, b):
    total = math.gcd(i, 12) + math.gcd(i, 4, 6) + math.lcm(i, 4) + math.isqrt(i * i + 3) + math.factorial(i % 6)
    return total + math.comb(6, i) + math.perm(6, i % 7) + math.perm(i % 5) + pow(2, i) + pow(i, 3, 5)


def floats(i, x, b):
    fraction, whole = math.modf(x[i])
    total = fraction + whole * 2 + math.dist((x[i], b), (1.0, 2.0)) + math.fsum((x[i], b, 1e-3))
    return total + math.prod((x[i], b, 2)) + math.isclose(x[i], -0.25) + round(x[i]) + round(x[i] * 1.2345, 2)


def conversions(i, x, b):
    return bool(x[i]) + bool(()) * 2 + bool((0,)) * 4 + bool([]) * 8 + bool() + int(x[i]) + round(x[i], None)


def operators(i, x, b):
    total = operator.add(x[i], b) + operator.mul(i, 2) + operator.neg(b) + operator.floordiv(i, 3)
    return total + operator.lt(i, 3) + x[i] + functools.partial(operator.sub, b)(i) + operator.not_(i)


def numpy_functions(i, x, b):
    a = abs(x[i])
    total = np.sqrt(a) + np.sin(b) + np.abs(x[i]) + np.minimum(x[i], b) + np.maximum(x[i], 1.0) + np.square(b)
    total += np.floor(x[i]) + np.ceil(x[i]) * 2 + np.trunc(x[i]) * 3 + np.rint(x[i]) * 5 + np.sign(x[i]) * 7
    total += np.arctan2(x[i], b) + np.hypot(x[i], b) + np.power(a, 1.5) + np.fmin(x[i], np.nan) + np.exp(b) / np.log(b)
    return total + np.float64(i) + np.isnan(np.maximum(x[i], math.nan)) + np.logical_and(i, 1) + np.mod(x[i], 2)


def enumerations(i, x, b):
    color = Color.RED if i < 4 else Color.GREEN
    mode = Mode.EXACT
    total = (color == Color.GREEN) * 10 + color + (mode is Mode.EXACT) * 100 + (mode == Mode.FAST) * 1000
    return total + Color.RED.value + (Color.GREEN is Color.GREEN) * 7 + len(mode.value)


def membership(i, x, b):
    total = (i in (1, 2, 5)) + (i not in (1, 2)) * 2 + (3 in (1, 3)) * 4 + (i in range(1, 7, 2)) * 8
    nothing = ()
    total += (i in [3, 4]) * 16 + ("a" in "abc") * 32 + ("z" not in "abc") * 64 + (i in nothing) * 128
    return (
        total + ((i, 1) in ((1, 1), (2, 2), (3, 1))) * 256 + (None in (1, None)) * 512 + (i in range(6, 0, -3)) * 1024
    )


def assignments(i, x, b):
    y = z = i * 2.0
    if (w := y + z) > 4:
        y += w
    del z
    a, *middle, c = (1, i, y, 4)
    *first, last = (b, i)
    (p, *q), r = (1, 2, 3), i
    return y + a + c + sum(middle) + len(first) + last + p + sum(q) + r


def tuples(i, x, b):
    t = (1, b) + (i,)
    return t[-1] + t[1:][0] * 10 + len(t[::-1]) + t[::-1][0] * 100 + sum((0, *t, 5)) + (t[:2] == (1, b)) + (t != (1, 2))


def lists(i, x, b):
    a = [i, b, *(1, 2)]
    return a[0] + a[-1] + len(a) + sum(a[1:3]) + (5 in a) + ([i, 1] == [i, 1]) + (a == [1]) * 100


def strings(i, x, b):
    name = "fast"
    return (
        (name == "fast")
        + (name != "slow") * 2
        + len(name)
        + (f"{name}-{2:03d}" == "fast-002") * 10
        + ("a" + "b" == "ab")
    )


@pytest.mark.parametrize("function", programs(globals(), "i", "x", "b"))
def test_builtins_are_pythons(stream, function):
    check(stream, function, X, 2.5, exact=False)


def types(i, a, b):
    number = 1 if isinstance(a, float) else 2
    number += 10 if isinstance(b, int) else 20
    number += 100 if isinstance(b, (float, int)) else 200
    number += 1000 if type(a) is float else 2000
    number += 10000 if isinstance((a, b), tuple) and not isinstance(a, tuple) else 20000
    return number + (100000 if type(None) is type(None) and isinstance(True, int) is not None else 0)


def test_types_are_known_while_compiling(stream):
    check(stream, types, 2.5, 3)


def test_types_of_elements(stream):
    def kinds(i, x, n):
        return (type(x[i]) is device.float32) + 2 * isinstance(n, np.int64) + 4 * (type(n) is int)

    check(stream, kinds, np.ones(8, np.float32), np.int64(3))


@device.struct
class Pair:
    a: device.int8
    b: device.float64


def sizes(i, a, b):
    room = device.sizeof(Pair) + 100 * device.alignof(device.float32x4) + 10_000 * device.sizeof(tuple[int, Pair])
    return room + issubclass(device.float64, float) + callable(len) + ord("a") + (not callable(3))


def test_functions_of_constants_are_called_while_compiling(stream):
    check(stream, sizes, 2.5, 3)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.sizeof(n)", "each argument of sizeof must be a constant expression"),
        ("device.sizeof(3)", "sizeof raised TypeError"),
        ("ord('ab')", "ord raised TypeError"),
        ("callable(f=3)", "callable\\(\\) takes no keyword arguments"),
    ],
)
def test_functions_of_constants_refuse_what_is_none(expression, message):
    names = {"device": device}
    exec(f"def k(x, n):\n    x[0] = {expression}", names)
    with pytest.raises(device.CompileError, match=message):
        device.compile(device.kernel(names["k"]), device.ArrayType(device.float32, 1), device.int32, output="ir")


def test_a_dead_branch_of_isinstance_is_not_typed(stream):
    def pick(i, a):
        if isinstance(a, tuple):
            return a[0]
        return a + 1

    check(stream, lambda i, a: pick(i, a) + pick(i, (a, 2)), 5)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64, np.float32, np.float64])
def test_sums_and_products_keep_types(stream, dtype):
    @device.kernel
    def k(x, out):
        out[0] = sum(x)
        out[1] = math.prod(x)
        out[2] = max(x)
        out[3] = min(x)

    x = np.array([1, 2, 3, 4, 5], dtype)
    out = stream.empty(4, dtype)
    stream.launch(k, stream.array(x), out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [15, 120, 5, 1]


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda x: sorted(range(x)), "sorted cannot be called in device code"),
        (lambda x: max(x), "max of one argument takes a tuple"),
        (lambda x: (1, 2)[x:], "the bounds of a tuple's slice must be constant integers"),
        (lambda x: zip((x,), (1, 2), strict=True), "strict=True"),
        (lambda x: round(None, 1), "round takes a number, not None"),  # type: ignore[call-overload]
        (lambda x: round([x], 1), "round takes a number, not a list"),  # type: ignore[call-overload]
        (lambda x: round(1 + 2j, 1), "round takes a real number, not complex"),  # type: ignore[call-overload]
        (lambda x: round(2.5, 2.5), "the digits of round must be an integer, not float 2.5"),  # type: ignore[call-overload]
        (lambda x: device.bfloat16("abc"), "bfloat16 takes a number, not 'abc'"),
        (lambda x: device.float8e4m3("abc"), "float8e4m3 takes a number, not 'abc'"),
    ],
)
def test_what_is_not_there_is_refused(function, match):
    refused(function, int, match=match)


class Job(NamedTuple):
    """What has a priority."""

    priority: int
    deadline: float


def test_min_and_max_of_tuples(stream):
    def best(i, x):
        first, second = Job(i % 3, x[i]), Job(1, x[3])
        ordered = max(first, second).deadline + min((i % 2, 1), (i // 4, 0), (x[i], 2))[1]
        return ordered + max([i, 2], [3, 1])[0]

    check(stream, best, np.arange(8.0) * 1.5)


def test_bytes_contain_numbers(stream):
    def kinds(i, text):
        return (text[i] in b" \t\n") + 2 * (text[i] not in b"abc") + 4 * (97 in b"abc")

    check(stream, kinds, np.frombuffer(b"a b\nxc\tz", np.uint8).copy())


def test_digits_of_32_bits_do_not_narrow_what_is_rounded(stream):
    @device.kernel
    def kernel(x, digits, out):
        i = device.tid(1)
        out[i] = round(x[i], digits[i])

    x, digits = np.array([1.2345678987654321e-15, 0.98765432109876, 1234567.891]), np.int32([22, 12, 2])
    out = stream.empty(3, np.float64)
    stream.launch(kernel, stream.array(x), stream.array(digits), out, grid=1, block=3)
    assert stream.numpy(out).tolist() == [round(a, int(b)) for a, b in zip(x, digits, strict=True)]
