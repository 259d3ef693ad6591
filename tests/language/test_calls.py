"""Calls: `*args`, `**` of known keywords, keyword-only parameters, partial functions, functions and types as arguments."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from against_python import check, programs, refused

import cuda_device as device


@device.func
def total(*values, factor=1):
    result = 0.0
    for value in values:
        result += value * factor
    return result


@device.func
def first_and_rest(first, *rest):
    return first * 100 + len(rest) * 10 + sum(rest)


@device.func
def keyword_only(a, *, b, c=3):
    return a + b * 10 + c * 100


def positional_only(a, b=2, /, c=3):
    return a + b * 10 + c * 100


def twice(f, *args):
    return f(*args) * 2


def any_number(i, a, b):
    return total() + total(i) + total(i, a, b, factor=3) + first_and_rest(i) + first_and_rest(i, a, b)


def stars(i, a, b):
    t = (i, a)
    return (
        total(*t) + total(b, *t, *(1, 2)) + keyword_only(*(i,), b=a) + total(*t, factor=b) + total(*[1, i], *range(3))
    )


def known_keywords(i, a, b):
    return keyword_only(i, **{"b": a}) + keyword_only(*(i,), b=1, **{"c": b}) + positional_only(i, c=a)  # noqa: PIE804


def partials(i, a, b):
    f = functools.partial(keyword_only, i, b=2)
    g = functools.partial(f, c=a)
    return f() + f(c=b) + g() + twice(functools.partial(total, a), i, b)


def functions_as_arguments(i, a, b):
    return twice(lambda x, y: x * y + b, i, a) + twice(first_and_rest, 1, i) + twice(abs, -a) + twice(max, i, 3)


def types_as_arguments(i, a, b):
    convert = lambda kind, x: kind(x)  # noqa: E731
    return convert(int, a) + convert(float, i)


def generators_are_spread(i, a, b):
    return total(*(v * 2 for v in (i, a)), *[b])


def passes_on(*values):
    return first_and_rest(*values) + total(*values)


def star_to_star(i, a, b):
    return passes_on(i, a) + passes_on(b)


SCALED = functools.partial(keyword_only, b=5)


def global_partials(i, a, b):
    return SCALED(i) + SCALED(a, c=b)


@pytest.mark.parametrize("function", programs(globals(), "i", "a", "b"))
def test_calls_are_pythons(stream, function):
    check(stream, function, 2.5, 1.5)


class Holder:
    factor = 3

    def __call__(self, x):
        return x

    def __getitem__(self, i):
        return i

    def scale(self, x):
        return x * self.factor


HOLDER = Holder()


def test_bound_methods_of_constants(stream):
    check(stream, lambda i: HOLDER.scale(i) + HOLDER.factor)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda x: HOLDER(x), "object of the class Holder cannot be called"),
        (lambda x: HOLDER[x], "object of the class Holder cannot be indexed"),
        (lambda x: x in HOLDER, "cannot take an object of the class Holder"),
        (lambda x: keyword_only(x), "keyword_only: missing a required .*'b'"),
        (lambda x: keyword_only(x, 2), "keyword_only: too many positional arguments"),
        (lambda x: keyword_only(x, b=1, d=2), "keyword_only: got an unexpected keyword argument 'd'"),
        (lambda x: positional_only(x, b=1), "positional_only: .*keyword"),
        (lambda x: total(*x), "cannot take int"),
        (lambda x: total(x, x=1), "total: got an unexpected keyword argument 'x'"),
        (lambda x: keyword_only(*(1,), a=x, b=1), "keyword_only: multiple values for argument 'a'"),
        (lambda x: x(1), "int cannot be called"),
    ],
)
def test_wrong_calls_are_refused(function, match):
    refused(function, int, match=match)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: device.launch(x, grid=1, block=1),
        lambda x: device.zeros(3),
        lambda x: device.kernel(x),
        lambda x: device.struct(x),
        pytest.param(lambda x: device.cpu_stream(), marks=pytest.mark.needs("cpu")),
        lambda x: device.compile(x),
        lambda x: device.ArrayType(device.int32, 1),
    ],
)
def test_our_own_functions_for_the_host(function):
    refused(function, int, match=r"^device code cannot call \w+: it can only run on the host\n  at .*test_calls.py")


def test_asserts_that_pytest_has_rewritten(stream):
    """In a module of tests, pytest has replaced every `assert` by what explains it."""

    def checked(i, limit):
        assert i < limit
        assert i >= 0 and limit in (8, 3), "message"  # noqa: PT018
        return i

    check(stream, checked, 8)
    with pytest.raises(device.KernelError, match=r"the assertion does not hold\n(.|\n)*assert i < limit"):
        check(stream, checked, 3)


@device.func
def height(left, right, i):
    return 0 if i < 0 else 1 + max(height(left, right, left[i]), height(left, right, right[i]))


def test_bounds_of_recursive_results_do_not_rise_for_ever(stream):
    @device.kernel
    def kernel(left, right, out):
        out[0] = height(left, right, 0)

    left, right = np.array([1, 3, -1, -1], np.int32), np.array([2, -1, -1, -1], np.int32)
    out = stream.empty(1, np.int32)
    stream.launch(kernel, stream.array(left), stream.array(right), out, grid=1, block=1)
    assert stream.numpy(out)[0] == 3


def one(x, items, k):
    x[k] += 1
    items.append(x[k] * 2)
    return x[k]


def two(x, items, k):
    items[0] += 10
    return one(x, items, k) + one(x, items, k + 1)


def three(x, items, k):
    return two(x, items, k) - len(items)


@device.kernel
def many_kinds(x, y):
    """What stands between the calls in one block is done once, in order, however often inference looks at it."""
    items = [5]
    a = one(x, items, 0)
    x[1] += a
    items.append(x[1])
    b = two(x, items, 1)
    point = (a, b)
    x[2] += point[1] + items[0]
    c, items[1] = three(x, items, 2), 7
    x[3] -= c
    y[0], y[1], y[2], y[3] = a, b, c, len(items)
    y[4] = sum(items)


def test_what_stands_between_calls_is_done_once(stream):
    x, y = np.arange(10, 16), np.zeros(5, np.int64)
    there = stream.array(x.copy()), stream.array(y.copy())
    stream.launch(many_kinds, *there, grid=1, block=1)
    many_kinds.underlying(x, y)
    assert stream.numpy(there[0]).tolist() == x.tolist()
    assert stream.numpy(there[1]).tolist() == y.tolist()
