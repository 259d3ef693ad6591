"""Named tuples: as arguments of launches, with their methods and properties, and as values."""

from __future__ import annotations

import collections
import typing

import numpy as np
import pytest
from against_python import check, refused

import cuda_device as device


class Point(typing.NamedTuple):
    x: float
    y: float = 1.5

    scale = 3

    def norm(self, factor=1):
        return (self.x * self.x + self.y * self.y) * factor

    @property
    def double(self):
        return Point(2 * self.x, 2 * self.y)

    @classmethod
    def diagonal(cls, x):
        return cls(x, x)

    @staticmethod
    def half(x):
        return x / 2

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def __neg__(self):
        return Point(-self.x, -self.y)


Pair = collections.namedtuple("Pair", "a b", defaults=(4,))  # noqa: PYI024
Work = collections.namedtuple("Work", "data origin sizes")  # noqa: PYI024


@device.kernel
def move(work, out):
    i = device.tid(1)
    if i < len(work.data):
        point = Point(work.data[i], work.origin.y)
        out[i] = point.norm(work.sizes[1]) + work[1][0] + len(work) + work.origin.double.x


@pytest.mark.parametrize("times", [1, 12])
def test_arguments_keep_their_names(stream, times):
    x = np.arange(8.0)
    work = Work(stream.array(x), Point(2.0), (3, 4))
    out = stream.empty(8, np.float64)
    for _ in range(times):
        stream.launch(move, work, out, grid=1, block=8)
    np.testing.assert_allclose(stream.numpy(out), (x * x + 1.5**2) * 4 + 2 + 3 + 4)
    stream.launch(move, Work(work.data, Point(0.0, 0.0), (1, 1)), out, grid=1, block=8)
    np.testing.assert_allclose(stream.numpy(out), x * x + 3)


def test_tuples_with_other_names_are_other_arguments(stream):
    @device.kernel
    def difference(p, out):
        out[0] = p.a - p.b

    out = stream.empty(1)
    for names, expected in (("a b", 3), ("b a", -3), ("a b", 3)):
        cls = collections.namedtuple("P", names)  # noqa: PYI024
        stream.launch(difference, cls(5, 2), out, grid=1, block=1)
        assert stream.numpy(out)[0] == expected
    with pytest.raises(device.CompileError, match="has no attribute 'a'"):
        stream.launch(difference, (5, 2), out, grid=1, block=1)


FUNCTIONS = [
    lambda i, x: Point(x[i]).norm() + Point(i, 2).norm(factor=3),
    lambda i, x: Point(x[i]).double.y + Point.diagonal(i).x + Point.half(i) + Point(i).scale,
    lambda i, x: (Point(i) + Point(x[i], 2.5)).x + (-Point(i)).y,
    lambda i, x: Point(i)._replace(y=x[i]).y + len(Point(i)._asdict()) + Point(i)._asdict()["x"],
    lambda i, x: Pair._make((i, 3)).b * 10 + Pair(i).b + Pair(b=i, a=2).a,
    lambda i, x: sum(Pair(i, 3)) + Pair(i, 3).index(3) + Pair(i, i).count(i) + len(Pair._fields) + max(Pair(i, 3)),
    lambda i, x: 1 if isinstance(Pair(i), Pair) and isinstance(Pair(i), tuple) and Pair(i) == (i, 4) else 2,
]


def matched(i, x):
    match Pair(i, 3):
        case Pair(a=2):
            return 1
        case Pair(k, b=3) if k > 4:
            return k * 10
        case Pair(k):
            return k
    return 7


def unpacked(i, x):
    a, b = Pair(i)
    first, *rest = Pair(i, 3)
    return a + b * 10 + first + rest[0]


def joined(i, x):
    p, q = Pair(i, 3), Pair(2)
    both = p + q + (i, 9) + (5,) * 2
    return sum(a * 2**k for k, a in enumerate((*both, *p * 2, *p[::-1], *p[1:]))) + 7 * (p < q) + 9 * (p >= (2, 4))


class Special(typing.NamedTuple):
    """What its class says goes before what tuples do."""

    a: float
    b: float

    def __lt__(self, other):
        return self.b < other.b

    def __eq__(self, other):
        return self.a == other.a

    def __ne__(self, other):
        return self.a != other.a

    def __bool__(self):
        return bool(self.a > 0)

    def __len__(self):
        return 7

    def __contains__(self, value):
        return value == 99

    def __getitem__(self, k):
        return k * 10

    def __abs__(self):
        return abs(self.a)

    def __call__(self, k):
        return self.a * k

    def __iter__(self):
        return iter((1, 2, 3))


def special(i, x):
    p, q = Special(x[i], 1.0), Special(x[0], 2.0)
    total = sum(v * 2 for v in p) + (1 if p else 2) * 10 + (1 if not q else 2) * 100 + len(p) * 1000 + p(3) + abs(q) * 7
    return total + (p < q) + 2 * (q > p) + 4 * (p == q) + 8 * (p != q) + 16 * (99 in p) + 32 * (5 in q) + p[i] * 1e5


class Limit(typing.NamedTuple):
    """What numbers are compared with, which know nothing of it."""

    a: float

    def __lt__(self, number):
        return self.a < number

    def __gt__(self, number):
        return self.a > number

    def __eq__(self, number):
        return self.a + 1 == number


def reflected(i, x):
    return (float(x[i]) < Limit(2.0)) + 2 * (float(x[i]) > Limit(1.0)) + 4 * (i == Limit(2.0)) + 8 * (i > Limit(x[i]))


def chosen(i, x):
    """An index that only run time knows."""
    pairs = [Pair(i), Pair(2, 7), Pair(x[i], 3)]
    pair = pairs[i % 3]
    pairs[1] = Pair(9, i)
    return pair.a + pair.b * 10 + (Pair(1), Pair(5, 2))[i % 2].b * 100 + pairs[(i + 1) % 3].a * 1000


@pytest.mark.parametrize("function", [*FUNCTIONS, matched, unpacked, joined, special, reflected, chosen])
def test_values(stream, function):
    check(stream, function, np.arange(8.0) - 2)


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        ("Point(x).z", "a Point has no attribute 'z'"),
        ("Point(x)._replace(z=1).x", "Point cannot take 'z'"),
        ("Point._make((x,)).y + Point._make((x, 1, 2)).x", "Point has 2 members, not 3"),
        ("Point(x)._asdict(1)", "_asdict takes 0 arguments"),
    ],
)
def test_what_named_tuples_have_not(expression, match):
    scope: dict = {"Point": Point}
    exec(f"def f(x):\n    return {expression}", scope)
    refused(scope["f"], float, match=match)
