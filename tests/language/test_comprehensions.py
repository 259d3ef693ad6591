"""Iteration: enumerate, zip, reversed, arrays; comprehensions and generator expressions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from against_python import check, programs, refused

X = np.arange(8.0) * 1.5 + 0.5


def enumerates(i, x, b):
    total = 0.0
    for n, v in enumerate((b, i, 2)):
        total = total * 2 + n * v
    for n, v in enumerate(range(i), start=3):
        total = total + n * v
    for n, v in enumerate(x, 1):
        total += n * v
    return total


def zips(i, x, b):
    total = 0.0
    for v, w in zip(x, range(i)):  # noqa: B905
        total = total * 0.5 + v * w
    for v, w, u in zip((1, b, 3), range(2, 20, 5), (i, 4, 5, 6)):  # noqa: B905
        total += v * w * u
    for n, (v, w) in enumerate(zip(x, x)):  # noqa: B905
        total += n * v * w
    for _ in zip():  # noqa: B905
        total = -1.0
    return total


def goes_backwards(i, x, b):
    total = 0.0
    for v in reversed(range(1, i * 3, 2)):
        total = total * 0.5 + v
    for v in reversed((1, b, i)):
        total = total * 3 + v
    for v in reversed(x):
        total = total * 0.25 + v
    for n, v in enumerate(reversed(range(i, 0, -2))):
        total += n * v
    return total


def runs_over_arrays(i, x, b):
    total = 0.0
    for v in x:
        if v > 6 and i > 3:
            break
        total += v * b
    else:
        total += 1000
    for v in x:
        for w in x:
            if v < w:
                continue
            total += v * w
    return total


def lists(i, x, b):
    t = (b, i, 2)
    doubled = [v * 2 for v in t]
    nested = [p * q for p in t for q in (1, i) if True]
    return sum(doubled) + doubled[-1] + len(nested) + nested[3] + sum([x[k] for k in range(3)])


def tuples(i, x, b):
    t = tuple(v * i for v in (1, 2, b))
    a, _, c = (v + 1 for v in t)
    return t[1] + a + c + len(tuple(range(2, 9, 3))) + sum(tuple(enumerate(t))[2])


def sums(i, x, b):
    return sum(v * v for v in range(i)) + sum(x[k] for k in range(i) if k % 2 == 0) + sum(v for v in (b, i))


def any_and_all(i, x, b):
    found = any(v == 3 for v in range(i))
    small = all(v < 3 for v in range(i))
    guarded = any(k >= 8 or x[k] > 5 for k in range(20))
    return found * 1 + small * 2 + guarded * 4 + any(()) * 8 + all(()) * 16 + any(x) * 32 + all((i, b)) * 64


def extremes(i, x, b):
    return max(x[k] * (-1) ** k for k in range(i + 1)) + min(v % 3 for v in (b, i, 7)) + min(x) + max((b, i)) * 3


def nested_generators(i, x, b):
    return sum(sum(p * q for q in (1, 2, i)) for p in (3, b)) + max(
        sum(x[j] for j in range(k)) for k in range(1, i + 2)
    )


def lambdas_in_comprehensions(i, x, b):
    late = [lambda: j for j in (1, 2, 3)]  # noqa: B023
    early = [lambda j=j: j + i for j in (1, 2, 3)]
    return sum([f() for f in late]) * 100 + sum(f() for f in early)


def captured_variables_of_one_name(i, x, b):
    k = i
    outer = lambda: k  # noqa: E731
    inner = [k * 10 + (lambda: k)() for k in (1, 2, 3)]  # noqa: B023
    return sum(inner) * 100 + outer() * 10 + k


def comprehensions_capture(i, x, b):
    k = i * 2
    return sum([v * k + b for v in (1, 2)]) + sum(v * k for v in range(i))


def comprehension_variables_are_their_own(i, x, b):
    v = 7
    t = [v * 2 for v in (1, i)]
    return v + t[0] + t[1]


def dicts(i, x, b):
    squares = {k: x[k] * k for k in range(3)}
    named = {name: n * i for n, name in enumerate(("zero", "one", "two"))}
    few = {k: b for k in (1, 2, 3) if k != 2}
    last = {k % 2: k * b for k in range(5)}
    table = {(p, q): p * i + q for p in (0, 1) for q in (2, 3)}
    return (
        squares[2]
        + named["two"]
        + len(few) * few[3]
        + (2 in few)
        + last[1]
        - last[0]
        + sum(table.values())
        + table[1, 3]
    )


def products(i, x, b):
    none = math.prod(v for v in () if v)
    return math.prod(x[k] for k in range(i)) + math.prod((v + k for k, v in enumerate((b, i))), start=b) + none


def float_sums(i, x, b):
    return math.fsum(x[k] * 0.1 for k in range(i)) + math.fsum(1e16 * (-1) ** k + x[k] for k in range(i))


def ranked(i, x, b):
    best = max((k for k in range(i + 1)), key=lambda k: -abs(x[k] - b))
    first = min((k % 3 for k in range(i + 2)), key=lambda v: v > 0)
    nothing = min((v for v in range(i) if v > 5), default=-b)
    both = max(((k, x[k]) for k in range(i)), key=lambda pair: pair[1], default=(0, b))
    return best * 100 + first * 10 + nothing + both[0] + both[1] + max((v for v in (i, b)), key=None)


def pairs(i, x, b):
    return (
        max((x[k] % 2, -k) for k in range(i + 1))[1]
        + min((k // 2, x[k]) for k in range(i, 8))[1]
        + max((i, b), (3, x[i]))[1]
    )


def firsts(i, x, b):
    place = next((k for k in range(len(x)) if x[k] > i), -1)
    even = next(v for v in range(i, i + 5) if v % 2 == 0)
    return place * 100 + even + next((v for v in (i, b) if v > 3), 77)


def filters(i, x, b):
    limit = i + 1
    total = sum(filter(lambda v: v > limit, x)) + max(filter(lambda v: v < limit, range(20)), default=3)
    return total + any(filter(None, (i, 0))) + next(filter(lambda k: x[k] > b, range(8)), -1)


def gives_a_generator(i, x, b):
    def mean(values, count):
        return sum(values) / count

    return mean((x[k] for k in range(i)), i + 1)


def loops_in_comprehensions(i, x, b):
    """Before CPython 3.12 each is a function of its own, whose inner loops are none of its first iterator."""
    items = [v * i + k for v in (1, b) for k in range(3)]
    chosen = {k: v for k in (1, 2) for v in (3, i) if v != 7}
    return items[5] * 100 + len(items) + chosen[2] * 10 + len([v for v in (i, b) for _ in range(2)])


def accumulates_in_a_loop(i, x, b):
    total = 0.0
    for k in range(3):
        total += sum(x[j] * k for j in range(i))
    return total


def generators_read_what_changes(i, x, b):
    limit = b
    limit += i
    found = sum(v for v in x if v < limit) + 100 * all(limit > v for v in (1, 2))
    for k in range(3):
        if any(limit <= v for v in (5, 6, 9)):
            break
        limit = limit + k
        found += sum(max(limit, v) for v in (1, b))
    return found + tuple(limit * v for v in (1, 2))[1]


@pytest.mark.parametrize("function", programs(globals(), "i", "x", "b"))
def test_iteration_is_pythons(stream, function):
    check(stream, function, X, 2.5, exact=False)


def test_an_array_without_elements(stream):
    def total(i, x):
        result = 1.0
        for n, v in enumerate(x):
            result += n + v
        return result + sum(x) + any(x) + all(x)

    check(stream, total, np.zeros(0))


def test_an_any_that_is_found_looks_no_further(stream):
    def first(i, x):
        return any(x[k] > 2 for k in range(10**9))

    check(stream, lambda i, x: 1 if first(i, x) else 0, np.array([0.0, 9.0]))


def endless(n):
    while True:
        yield n


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda n: [k for k in range(n)], "length of a list or tuple must be known"),  # noqa: C416
        (lambda n: tuple(k for k in range(n)), "length of a list or tuple must be known"),
        (lambda n: sum([k for k in (n, 2) if k > n]), "on one path"),
        (lambda n: len([k for k in range(10**6)]), "too long"),  # noqa: C416
        (lambda n: len([*endless(n)]), "must be known at compile time, and at most 1024"),
        (lambda n: {k for k in (n, 1)}, "set"),  # noqa: C416
        (lambda n: {k: 1 for k in (n, 1)}, "the keys of a dict must be constants"),  # noqa: C420
        (lambda n: len({k: 1 for k in range(n)}), "length of a list or tuple must be known"),  # noqa: C420
        (lambda n: len({k: 1 for k in (1, 2) if k > n}), "on one path"),
        (lambda n: [v for v in n], "cannot iterate over"),  # noqa: C416
    ],
)
def test_what_has_no_length_is_refused(function, match):
    refused(function, int, match=match)
