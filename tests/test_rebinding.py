"""What a program exchanges between two launches, beside globals and closures, is seen by the second; what stays costs nothing."""

from __future__ import annotations

import enum
import functools
import logging

import numpy as np
import pytest

import cuda_device as device


def results(stream, kernel):
    out = stream.empty(4, np.float64)
    stream.launch(kernel, out, grid=1, block=4)
    return stream.numpy(out).tolist()


def compiled(kernel):
    """The newest variant's work, which is another object when the kernel was compiled again."""
    return next(reversed(kernel.variants.values())).work


def kernel_of(value):
    """A kernel that writes what `value` gives for each thread's index."""

    @device.kernel
    def kernel(out):
        i = device.tid(1)
        out[i] = value(i)

    return kernel


def test_the_code_of_a_function(stream):
    def helper(v):
        return v + 1

    def other(v):
        return v * 3

    kernel = kernel_of(lambda i: helper(i))
    assert results(stream, kernel) == [1, 2, 3, 4]
    helper.__code__ = other.__code__
    assert results(stream, kernel) == [0, 3, 6, 9]


def test_the_code_of_a_kernel(stream):
    @device.kernel
    def kernel(out):
        out[device.tid(1)] = 1

    def other(result):
        result[device.tid(1)] = 2

    assert results(stream, kernel) == [1] * 4
    kernel.underlying.__code__ = other.__code__
    assert results(stream, kernel) == [2] * 4
    out = stream.empty(4)
    stream.launch(kernel, result=out, grid=1, block=4)
    assert stream.numpy(out).tolist() == [2] * 4


def test_defaults(stream):
    def helper(v, a=1, *, b=10):
        return v + a + b

    kernel = kernel_of(lambda i: helper(i))
    given = kernel_of(lambda i: helper(i, 1, b=10))
    assert results(stream, kernel) == results(stream, given) == [11, 12, 13, 14]
    before = compiled(given)
    helper.__defaults__ = (2,)
    assert results(stream, kernel) == [12, 13, 14, 15]
    helper.__kwdefaults__ = {"b": 20}
    assert results(stream, kernel) == [22, 23, 24, 25]
    assert results(stream, given) == [11, 12, 13, 14]
    assert compiled(given) is before


@device.struct
class Pair:
    x: device.int32
    y: device.int32 = 5
    scale = 2

    @device.func
    def value(self):
        return self.x * self.scale

    def __add__(self, other):
        return Pair(self.x + other.x, 0)


@pytest.mark.parametrize(
    ("name", "use", "new", "before", "after"),
    [
        ("value", lambda i: Pair(i).value(), lambda self: self.y, [0, 2, 4, 6], [5] * 4),
        ("scale", lambda i: Pair(i).value(), 3, [0, 2, 4, 6], [0, 3, 6, 9]),
        ("scale", lambda i: Pair.scale, 3, [2] * 4, [3] * 4),
        ("__add__", lambda i: (Pair(i) + Pair(1)).x, lambda a, b: Pair(a.x - b.x), [1, 2, 3, 4], [-1, 0, 1, 2]),
        ("__sub__", lambda i: (Pair(i) - Pair(1)).x, lambda a, b: Pair(a.x - b.x), None, [-1, 0, 1, 2]),
        ("__eq__", lambda i: 1 if Pair(i) == Pair(1) else 0, lambda a, b: a.x > b.x, [0, 1, 0, 0], [0, 0, 1, 1]),
    ],
    ids=["method", "attribute by an object", "attribute by the class", "operator", "new operator", "comparison"],
)
def test_the_methods_of_a_struct(stream, monkeypatch, name, use, new, before, after):
    kernel = kernel_of(use)
    if before is None:
        with pytest.raises(device.CompileError):
            results(stream, kernel)
    else:
        assert results(stream, kernel) == before
    with monkeypatch.context() as patch:
        patch.setattr(Pair, name, new, raising=False)
        assert results(stream, kernel) == after
    if before is not None:
        assert results(stream, kernel) == before


def test_what_stays_is_not_compiled_again(stream):
    class Colour(enum.IntEnum):
        RED = 3

    class Tools:
        @staticmethod
        def plain(v):
            return v + 1

        class Inner:
            n = 7

    def helper(v, a=Tools.Inner.n):
        return v + a

    shifted = functools.partial(helper, a=2)

    def value(i):
        return (
            Tools.plain(i)
            + Tools.Inner.n
            + helper(i)
            + shifted(i)
            + Colour.RED
            + Pair(i).value()
            + (Pair(1) + Pair(i)).x
        )

    kernel = kernel_of(value)
    first = results(stream, kernel)
    work = compiled(kernel)
    assert results(stream, kernel) == first == [float(value(i)) for i in range(4)]
    assert compiled(kernel) is work


def test_names_that_change_all_the_time_are_warned_of_once(stream, caplog):
    limit = 0
    kernel = kernel_of(lambda i: i + limit)
    with caplog.at_level(logging.WARNING, "cuda_device"):
        for limit in range(40):  # noqa: B007
            assert results(stream, kernel) == [limit, limit + 1, limit + 2, limit + 3]
    assert caplog.text.count("pass them as arguments") == 1
    assert "(limit)" in caplog.text
