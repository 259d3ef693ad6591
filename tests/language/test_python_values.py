"""Tuples, ranges, dicts, enumerations, named tuples and objects of the host, used as Python programs use them."""

from __future__ import annotations

import ctypes
import enum
import math
import numbers
import operator
import typing

import numpy as np
import pytest
from against_python import check, refused

import cuda_device as device

ARRAY = np.arange(8) * 1.5 - 3


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 4


class Flag(enum.Flag):
    X = 1
    Y = 2


class IntFlag(enum.IntFlag):
    X = 1
    Y = 2


class Settings:
    def __init__(self):
        self.width = 4
        self.height = 3

    def area(self):
        return self.width * self.height

    @property
    def next(self):
        return self.width + 1


class Pair(typing.NamedTuple):
    a: int
    b: float = 2.5


class Weights:
    first = 3
    rest = (1, 2)

    @staticmethod
    def double(x):
        return x * 2

    @classmethod
    def scale(cls, x):
        return x * cls.first


WIDTH = 20
SETTINGS, PAIR, NUMBERS, TABLE = Settings(), Pair(3), [1, 2, 3], {"a": 1, 2: 5}
OPERATORS = {"+": operator.add, "-": operator.sub}
PAIRS = ((1, 2), (3, 4))


def any_keywords(a, *args, b=2, **more):
    return a + sum(args) + b * 10 + more.get("c", 5)


def passes_on(*args, **kwargs):
    return any_keywords(*args, **kwargs)


def counted(**kwargs):
    total = len(kwargs) + kwargs["a"]
    for name, value in kwargs.items():
        total += value * (3 if name == "a" else 1)
    return total + sum(kwargs.values()) + ("b" in kwargs) + len(kwargs.keys())


def three(a, b, c):
    return a + b * 10 + c * 100


def range_of_either(i):
    r = range(5) if i > 3 else range(i, 0, -1)
    total = 0
    for j in r:
        total = total * 7 + j
    return total


def every_range(i):
    total = 0
    for start in (-7, 0, 9):
        for stop in (-8, 1, i):
            for step in (-3, -1, 2, i - 9):
                for v in range(start, stop, step):
                    total = (total * 5 + v) % 10007
    return total


def map_of_two(i):
    a, b = map(lambda v, w: v * 2 - w, (5, i), (1, 2))  # noqa: C417
    return a * 10 + b


def map_in_loop(i, x):
    total = 0.0
    for v in map(abs, x):
        total += v
    return total


def of_parts(i):
    (a, b, _), *rest = ((i, 2), 3, (4, 5)), 6, i
    c, *d = rest
    return a[0] + a[1] + b + c + d[0]


@pytest.mark.parametrize(
    "function",
    [
        # Tuples
        lambda i: (5, i, 7)[i % 3],
        lambda i: (1.5, i, 7)[-1 - i % 3],
        lambda i: PAIRS[i % 2][1],
        lambda i: (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5)[i] * 0.5,
        lambda i: NUMBERS[1] + NUMBERS[i % 3] + len(NUMBERS) + sum(NUMBERS) + max(NUMBERS),
        lambda i: (i, 2) < (3, 1),
        lambda i: ((i, 5) <= (i, 5)) + ((i, 1, 2) > (i, 1)) * 2 + ((i,) >= (3,)) * 4 + (() < (i,)) * 8,
        lambda i: ((i, 1.5), 2) < ((3, 1.0), 3),
        lambda i: ((i, 2) * 3)[4] + sum(3 * (i,)) + len([i] * 4) + len((i,) * 0),
        lambda i: (5, 7, 9).index(7) + (5, i + 3, 0, 1, 2, 3, 4, 6, 7).index(i),
        lambda i: (5, i, 5.0).count(5) + [1, i].count(i),
        lambda i: i in (1, 4) or i not in [1, 2, i],
        of_parts,
        # min, max, map
        lambda i: min((5, i, -3), key=lambda v: abs(v - 2)) + max(5, i, key=lambda v: -v),
        lambda i: min((), default=4) + max(range(3, i), default=-1) + min(range(i, 9)),
        map_of_two,
        lambda i: sum(map(lambda v: v * i, range(i))),  # noqa: C417
        lambda i: sum(a * b for a, b in zip((1, 2), (5, i), strict=True)),
        # Ranges as values
        lambda i: len(range(2, 9, 2)) + len(range(i)) + (i in range(1, 5, 2)) + (i not in range(5)) * 2,
        lambda i: range(1, i, 2).start + range(1, i, 2).stop * 10 + range(1, i, 2).step * 100,
        lambda i: sum(range(2, 8, 2)) + sum(range(i, 10)) + sum(range(9, -1, -3)) + bool(range(i)),
        range_of_either,
        every_range,
        # Dicts
        lambda i: {"a": i, 2: 5}["a"] + {"a": i, 2: 5}[2] + TABLE["a"] + TABLE[2] + TABLE.get("b", i),
        lambda i: OPERATORS["-"](i, 5) + len(TABLE) + ("a" in TABLE) + sum(TABLE.values()) + len({**TABLE, "c": 1}),
        lambda i: any_keywords(1, 2, 3, c=i) + any_keywords(1) + passes_on(i, b=3) + passes_on(a=1, b=5),
        lambda i: counted(a=i, b=3) + any_keywords(a=i, b=1),
        # Enumerations
        lambda i: Colour.BLUE.value + i + (Colour.RED is Colour.RED) + (Colour(2) == Colour.BLUE) + len(Colour),
        lambda i: sum(c.value for c in Colour) + (Colour.RED.name == "RED") + Colour["BLUE"].value,
        lambda i: Level.LOW + i + (i == Level.LOW) * 10 + (Level.HIGH > i) + Level(3),
        lambda i: (Flag.X | Flag.Y).value + (Flag.X in (Flag.X | Flag.Y)) + bool(Flag.X & Flag.Y),
        lambda i: (IntFlag.X | IntFlag.Y) + (i & IntFlag.Y),
        # Objects of the host
        lambda i: SETTINGS.width * i + SETTINGS.area() + SETTINGS.next,
        lambda i: Weights.first + Weights.rest[1] + Weights.double(i) + Weights.scale(i),
        lambda i: PAIR.a + PAIR.b + PAIR[0] + len(PAIR) + Pair(i, 1.5).b + Pair(i).a + Pair(a=i)[1] + sum(Pair(i)),
        lambda i: getattr(SETTINGS, "width") + getattr(SETTINGS, "depth", i) + hasattr(SETTINGS, "height"),  # noqa: B009
        lambda i: len("a b") + ord("abc"[1]) + i,
        lambda i: len("ab" * WIDTH) + len((WIDTH + 1) * "-") + len("x" * -WIDTH) + i,
        lambda i: b"abc"[1] + b"abc"[i % 3] + int("abc" in "xabcx"),
        # Numbers
        lambda i: ((3).__class__ is int) + 2 * ((2.5).__class__ is float) + 4 * ((1, i).__class__ is tuple) + i,
        lambda i: i.bit_count() + (1000 - i).bit_count() + (-i).bit_length() + (1 << 20 + i).bit_length(),
        lambda i: (i * 0.5).is_integer() + (i + 0.0).is_integer() * 2,
        lambda i: isinstance(i, numbers.Integral) + isinstance(2.5, (int, numbers.Real)) * 2 + (i == None) * 4,  # noqa: E711
        lambda i: round(1250, -2) + pow(3, -1, 7 + i * 9),
        lambda i: typing.cast(int, i),
    ],
)
def test_is_pythons(stream, function):
    check(stream, function)


@pytest.mark.parametrize(
    "function",
    [
        lambda i, x: sum(x, 0.0) + min(x) + max(x, key=lambda v: -abs(v)),
        lambda i, x: 1.5 in x,
        lambda i, x: i - 3 in x,
        map_in_loop,
        lambda i, x: sum(a * b for a, b in zip(x, x[::-1], strict=True)),
    ],
)
def test_of_arrays_is_pythons(stream, function):
    check(stream, function, ARRAY)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda i: (1, (2,))[i], "no common type"),
        (lambda i: (1, 2) * i, "not known at compile time"),
        (lambda i: (1, 2) * 10**6, "too long"),
        (lambda i: len("ab" * 10**9), r"'ab' \* int 1000000000 is not defined"),
        (lambda i: print("-" * i), r"'-' \* int is not defined"),
        (lambda i: {1: 1, 2: "b"}[i], "the key of a dict must be a constant expression"),
        (lambda i: {"a": i}["b"], "no key 'b'"),
        (lambda i: TABLE["c"], "no key 'c'"),
        (lambda i: Flag(i), "must be a constant"),
        (lambda i: Pair(1, 2, 3), "has 2 members, not 3"),
        (lambda i: Pair(b=i), "is missing a value for 'a'"),
        (lambda i: Pair(1, c=i), "has no member 'c'"),
        (lambda i: min(()), "of an empty sequence has no value"),
        (lambda i: min(i, 2, default=3), "only with a single argument"),
        (lambda i: max((1, i), cmp=3), "max: got an unexpected keyword argument 'cmp'"),
        (lambda i: any_keywords(i, a=2), "any_keywords: multiple values for argument 'a'"),
        (lambda i: (i,) * 2000, "too long"),
        (lambda i: zip((i,), (1, 2), strict=True), "different lengths"),
        (lambda i: getattr(SETTINGS, "depth"), "no attribute 'depth'"),  # noqa: B009
        (lambda i: (1, i).__eq__((1, i)), "no attribute '__eq__'"),
        (lambda i: ctypes.memset(i, 0, 1), "cannot be called"),  # it has no hash
    ],
)
def test_what_is_no_program_is_refused(function, match):
    refused(function, int, match=match)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda i: min(range(i)), r"min\(\) iterable argument is empty"),
        (lambda i: max(range(i, 0), key=lambda v: -v), r"max\(\) iterable argument is empty"),
        (lambda i: (1, i + 5).index(i + 2), "is not among the items"),
        (lambda i: pow(i + 2, -1, 4), "not invertible"),
        (lambda i: sum(a for a, _ in zip(range(i + 1), range(3), strict=True)), "different lengths"),
        (lambda i: next(a for a in range(i)), "no next item"),
        (lambda i: [1, 2, 3].index(i + 9), "is not among the items"),
        (lambda i: math.factorial(i - 1), "not defined for negative values"),
        (lambda i: math.comb(5, i - 1), "must be non-negative"),
        (lambda i: math.perm(i - 1, 2), "must be non-negative"),
        (lambda i: math.isqrt(i - 1), "must be nonnegative"),
    ],
)
def test_what_python_raises_is_reported(stream, function, message):
    @device.kernel
    def kernel(out, n):
        out[0] = function(n)

    with pytest.raises(device.KernelError, match=rf"{message}[^~]*\n  help: \w"):
        stream.launch(kernel, stream.empty(1), 0, grid=1, block=1)


def test_min_of_an_array_without_elements_is_reported(stream):
    @device.kernel
    def kernel(out, x):
        out[0] = min(x)

    with pytest.raises(device.KernelError, match="empty"):
        stream.launch(kernel, stream.empty(1), stream.array(np.zeros(0, np.float32)), grid=1, block=1)
