"""Named tuples: as arguments of launches, and as values."""

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


Pair = collections.namedtuple("Pair", "a b", defaults=(4,))  # noqa: PYI024
Work = collections.namedtuple("Work", "data origin sizes")  # noqa: PYI024


@device.kernel
def move(work, out):
    i = device.tid(1)
    if i < len(work.data):
        point = Point(work.data[i], work.origin.y)
        out[i] = (point.x * point.x + point.y * point.y) * work.sizes[1] + work[1][0] + len(work) + 2 * work.origin.x


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
    lambda i, x: sum(Pair(i, 3)) + Pair(i, 3).index(3) + Pair(i, i).count(i) + len(Pair._fields) + max(Pair(i, 3)),
    lambda i, x: 1 if isinstance(Pair(i), Pair) and isinstance(Pair(i), tuple) and Pair(i) == (i, 4) else 2,
]


def unpacked(i, x):
    a, b = Pair(i)
    first, *rest = Pair(i, 3)
    return a + b * 10 + first + rest[0]


def joined(i, x):
    p, q = Pair(i, 3), Pair(2)
    both = p + q + (i, 9) + (5,) * 2
    return sum(a * 2**k for k, a in enumerate((*both, *p * 2, *p[::-1], *p[1:]))) + 7 * (p < q) + 9 * (p >= (2, 4))


def chosen(i, x):
    """An index that only run time knows."""
    pairs = [Pair(i), Pair(2, 7), Pair(x[i], 3)]
    pair = pairs[i % 3]
    pairs[1] = Pair(9, i)
    return pair.a + pair.b * 10 + (Pair(1), Pair(5, 2))[i % 2].b * 100 + pairs[(i + 1) % 3].a * 1000


@pytest.mark.parametrize("function", [*FUNCTIONS, unpacked, joined, chosen])
def test_values(stream, function):
    check(stream, function, np.arange(8.0) - 2)


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        ("Point(x).z", "a Point has no attribute 'z'"),
        ("Point(x).norm()", "a Point has no methods in device code"),
        ("Point(x)._replace(x=1)", "a Point has no methods in device code"),
    ],
)
def test_what_named_tuples_have_not(expression, match):
    scope: dict = {"Point": Point}
    exec(f"def f(x):\n    return {expression}", scope)
    refused(scope["f"], float, match=match)
