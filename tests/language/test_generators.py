"""Iterators that are used up once, and generators: `iter`, `next`, kept `map` and `zip`, `yield`, `yield from`.

Each function folds what it gets in order (`total * 2 + v`), so that a value that is lost, repeated or out of place shows.
"""

from __future__ import annotations

import numpy as np
import pytest
from against_python import check, programs, refused

import cuda_device as device
from cuda_device import float64

X = np.arange(8.0) * 1.5 + 0.5


# Generators


def squares(n):
    for i in range(n):
        yield i * i


def above(x, limit):
    for v in x:
        if v > limit:
            yield v


def numbers_from(start):
    while True:
        yield start
        start += 1


def several(x):
    yield 1
    yield 2.5
    for v in x:
        yield v
        yield -v
    yield x[0]


def one_after_the_other(first, second):
    yield from first
    yield from second


def ends_early(x, n):
    for v in x:
        if v > n:
            return
        yield v


def has_a_while(n):
    i = 0
    while i < n:
        i += 1
        if i == 2:
            continue
        if i == 7:
            break
        yield i
        i += 1
    else:
        yield 100


def has_parameters(x, *rest, start=2, **more):
    yield start
    for r in rest:
        yield r * more["scale"]
    yield x[0]


def pairs_of(iterator):
    for first in iterator:
        yield first, next(iterator)


def fibonacci():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b


def sent(n):
    total = 0
    for i in range(n):
        got = yield total
        if got is None:
            total += i


def fold(values):
    total = 0.0
    for v in values:
        total = total * 2 + v
    return total


def loops(i, x):
    total = 0.0
    for v in squares(i):
        total = total * 2 + v
    for v in above(x, i):
        total = total * 2 + v
    for n, v in zip(range(i + 3), numbers_from(2)):  # noqa: B905
        total = total * 2 + n * v
    for v in several(x):
        total = total / 2 + v
    return total


def loops_end(i, x):
    total = 0.0
    for v in numbers_from(i):
        if v > 9:
            break
        if v == 5:
            continue
        total = total * 2 + v
    else:
        total = -1.0
    for v in squares(3):
        total += v
    else:
        total += 100
    return total


def delegates(i, x):
    total = fold(one_after_the_other(x, range(i)))
    total += fold(one_after_the_other((1, 2.5, i), squares(i)))
    return total + fold(one_after_the_other(one_after_the_other((i,), x), ()))


def returns_and_whiles(i, x):
    return fold(ends_early(x, i)) + fold(has_a_while(i)) + fold(has_a_while(9)) + fold(sent(i + 2))


def arguments(i, x):
    return fold(has_parameters(x, 4, i, scale=3)) + fold(has_parameters(x, start=i))


def nested(i, x):
    def scaled(values, by):
        for v in values:
            yield v * by * x[i]

    total = 0.0
    for u in scaled(x, 2):
        for v in (w for w in x if w > u):
            total = total / 2 + v
    for v in (a + b for a in squares(3) for b in above(x, i)):
        total = total / 2 + v
    return total


def pipelines(i, x):
    total = 0.0
    for v in filter(lambda v: v > 2, map(lambda a, b: a + b, above(x, i), squares(6))):
        total = total * 2 + v
    total += sum(filter(None, map(lambda a: a - 1, above(x, i))))
    for n, (a, b) in enumerate(pairs_of(iter(x))):
        total = total / 2 + n * a * b
    for _, v in zip(range(i), fibonacci()):  # noqa: B905
        total += v
    return total


def mixed_tuples(i, x):
    total = 0.0
    for f in (g for g in (abs, lambda v: v * 3)):
        total = total * 2 + f(x[i])
    for v in (u for u in (1, 2.5, (3, 4))):
        total += v[1] if isinstance(v, tuple) else v
    return total


# Iterators that variables keep


def kept(i, x):
    total = 0.0
    m = map(lambda v: v + 1, x)
    for v in m:
        total = total * 2 + v
        if v > i:
            break
    for v in m:
        total = total * 2 - v
    for _ in m:
        total += 1000
    z = zip(x, range(i))  # noqa: B905
    return total + fold(a * b for a, b in z) + sum(1 for _ in z)


def steps(i, x):
    e = enumerate(x)
    n, v = next(e)
    total = n + v
    for n, v in e:
        total = total * 2 + n * v
    it = iter(x)
    total += next(it) * 3 + next(it)
    total += sum(it)
    return total + next(it, -1.0) + next(it, i)


def steps_of_tuples(i, x):
    it = iter((1, 2.5, (i, 3)))
    total = next(it) + next(it) * 10
    total += next(it)[1]
    return total + next(it, i)


def two_names(i, x):
    a = iter(x)
    b = a
    total = next(a) + 2 * next(b) + 4 * next(a)
    t = (b, iter(range(3)))
    total = total * 2 + next(t[0]) + next(t[1])
    return total + fold(t[1]) + next(a)


def in_pairs(i, x):
    it = iter(x)
    total = 0.0
    for a, b in zip(it, it):  # noqa: B905
        total = total * 2 + a * 3 + b
    return total


def of_unequal_lengths(i, x):
    longer, shorter = iter(x), iter(range(i))
    total = fold(a * b for a, b in zip(longer, shorter))  # noqa: B905
    return total + next(longer, -1.0)  # the zip has taken one more of it than of the other


def changes_behind_a_value(first, i):
    if i > 2:
        yield 0
        first[1] = 9
    yield 2
    yield 3


def changes_two(first, second, i):
    if i > 2:
        yield 0
        first[1] = 9
    if i % 2:
        yield 1
        second[1] = first[1]
    yield 2
    second[1] -= 1
    yield 3
    first[0] += 1


def each_of(those, i):
    yield those[2]
    if i % 2:
        yield from changes_two(those, those, i)
        yield those[0]


def added(those, n):
    for j in range(n):
        those[0] += j + 1
        yield those[0]
    those[1] -= 1


def a_list_changes_behind_a_value(i, x):
    a, total = [i, 1], 0
    for v in changes_behind_a_value(a, i):
        total = total * 3 + v + a[0] + a[1] * 10
    return total


def the_caller_changes_it_too(i, x):
    a, total = [i, 1], 0
    steps = changes_behind_a_value(a, i)
    total += next(steps) + a[0] * 10 + a[1]
    if i % 2:
        total += next(steps, -1) + a[1] * 100
        a[1] = 100
    for _ in range(3):
        total = total * 2 + next(steps, -1) + a[0] * 10 + a[1]
        a[0] += 1
    return total


def one_list_is_in_another(i, x):
    a, total = [i, 1], 0
    b = [a, 2]
    for v in changes_two(a, b, i):
        a[1] += 10
        total = total * 3 + v + a[0] + b[0][1] + b[1]
    return total + a[0]


def generators_in_generators(i, x):
    a, b, total = [i, 1, 2], [2, i, 3], 0
    steps = each_of(a, i)
    if i > 3:
        total += next(steps, -1)
    total += next(steps, -1) * 10 + a[1]
    for v in steps:
        total = total * 3 + v + a[0] + b[1]
        b[1] += 1
    return total


def zips_leave_what_they_changed(i, x):
    a, b, total = [i, 1, 2], {0: 1, 1: i, 2: 3}, 0
    for v, w in zip(added(a, i), added(b, 3)):  # noqa: B905
        total = total * 3 + v + w + a[0] * b[0]
    total = total * 3 + a[0] + a[1] * 7 + b[0] * 3 + b[1]
    for v, w in zip(each_of(a, i), range(2)):  # noqa: B905
        total += v * w
    first = added(a, i % 3)
    for v, w, u in zip(range(1, 4), first, added(a, 2)):  # noqa: B905
        total = total * 2 + v + w - u
    there, few = iter(x), iter(x[: i % 4])
    for v, w in zip(there, (1, i)):  # noqa: B905
        total = total * 2 + v * w
    for v, w in zip(few, (1, i)):  # noqa: B905
        total = total * 2 + v * w
    return total + a[0] * 10 + a[1] + next(first, -5) + next(there) + next(few, -7)


def take(iterator, n):
    total = 0.0
    for _ in range(n):
        total = total * 2 + next(iterator)
    return total


def passed_on(i, x):
    it = iter(x)
    return take(it, 3) - take(it, i % 3) + 10 * sum(it)


def made_in_a_loop(i, x):
    total = 0.0
    before = iter(x)
    for _ in range(4):
        it = iter(x)
        total = total * 2 + next(it) + next(before)
        before = it
        total += next(it)
    return total


def on_two_ways(i, x):
    total = 0.0
    for a, b in zip(x, range(8)) if i % 2 else zip(x[1:], range(7)):  # noqa: B905
        total = total * 2 + a * b
    it = iter(x)
    for n in range(8):
        if n % 3 == i % 3:
            total = total * 2 + next(it)
    g = squares(9)
    for n in range(8):
        if n % 3 == i % 3:
            total = total * 2 + next(g)
    return total + next(it) + next(g)


def captured(i, x):
    it = iter(x)

    def step():
        return next(it)

    total = step() + 2 * step()
    total = total * 2 + next(it)
    return total + sum(next(it) for _ in range(2)) + sum([next(it) for _ in range(2)])


def partly_used(i, x):
    it = iter(x)
    total = 1.0 if 3.5 in it else 0.0
    total += next(it)
    g = above(x, i)
    total = total * 2 + any(v > 5 for v in g)
    return total * 2 + sum(g) + sum(g)


def with_a_walrus(i, x):
    it = iter(x)
    total = 0.0
    while (v := next(it, -1.0)) >= 0 and v < i + 2:
        total = total * 2 + v
    return total


def backwards(i, x):
    r = reversed((1, 2, i))
    total = next(r)
    total = total * 2 + fold(r) + fold(reversed(x))
    r = reversed(range(i + 1))
    return total + next(r) * 3 + sum(r)


def late(i, x):
    factor = 0.0
    for v in x[: i + 1]:
        factor += v
    total = sum(v * factor for v in (1, 2, 3)) + sum(map(lambda v: v * factor, x))
    return total


# Kept and passed on


def parts(a, b, c):
    yield from a
    for v in b:
        yield v * 2
    yield from c


def advanced(i, x):
    it = iter((1, 2, 3, i, 5))
    total = next(it)
    if i > 3:
        total += next(it)
    total += 10 * next(it)
    xs = [1, 2, 3, i]
    over = iter(xs)
    if i > 4:
        total += next(over)
    xs[3] = 7
    total += 100 * next(over)
    for v in over:
        total = total * 2 + v
    return total + sum(it)


def gone_on(it, n):
    for v in it:
        yield v
        if v > n:
            break
    yield 0
    yield 5


def shared(i, x):
    it, xs = iter(x), [1, 2, i]
    total = 0.0
    for v in gone_on(it, i):
        total = total / 2 + v
    for v in gone_on(xs, i):
        total = total / 2 + v
        xs[0] += 1
    return total + next(it, -1.0) + xs[0]


@pytest.mark.parametrize("function", programs(globals(), "i", "x"))
def test_generators_are_pythons(stream, function):
    check(stream, function, X, exact=False)


# Methods, barriers


@device.struct
class Span:
    low: float64
    high: float64

    def __iter__(self):
        v = self.low
        while v < self.high:
            yield v
            v += 1


def test_iter_of_a_struct_may_be_a_generator(stream):
    check(stream, lambda i, x: sum(Span(float64(i), 9.5)) + fold(Span(0.5, x[i])), X, exact=False)


def rounds(tile, i):
    """The sums of a scan, one step at a time: all threads wait at each."""
    step = 1
    while step < 64:
        mine = tile[i - step] if i >= step else 0
        device.syncthreads()
        tile[i] += mine
        device.syncthreads()
        yield step
        step *= 2


def test_threads_may_wait_in_a_generator(stream):
    @device.kernel
    def scan(x, steps):
        tile = device.shared_array(64, device.int32)
        i = device.tid(1)
        tile[i] = x[i]
        device.syncthreads()
        for step in rounds(tile, i):
            steps[i] += step
        x[i] = tile[i]

    given = np.arange(64, dtype=np.int32) % 7
    x, steps = stream.array(given), stream.array(np.zeros(64, np.int32))
    stream.launch(scan, x, steps, grid=1, block=64)
    np.testing.assert_array_equal(stream.numpy(x), np.cumsum(given))
    np.testing.assert_array_equal(stream.numpy(steps), [63] * 64)


# What is refused, and reports


def runs_through_itself(n):
    if n > 0:
        yield from runs_through_itself(n - 1)
        yield n


def gives_a_value():
    yield 1
    return 5


def of_two_kinds(n):
    yield n
    yield (n, n)


def keeps_two(n):
    a, b = iter((n, 1)), iter((n, 2))
    c = a if n > 0 else b
    return next(c) + next(a)


def parts_at_run_time(n):
    total = 0
    for v in parts(range(n), (n, 5), (2,)):
        total = total * 2 + v
    return total


def loops_over_two_kinds(n):
    total = 0
    for v in of_two_kinds(n):
        total += v
    return total


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (loops_over_two_kinds, "int . tuple<int, int> is not defined"),
        (lambda n: sum(runs_through_itself(n)), "iterates over itself"),
        (lambda n: sum(gives_a_value()), "a generator that returns a value"),
        (lambda n: [v for v in numbers_from(n)], "is not known at compile time|must be known|on one path"),  # noqa: C416
        (lambda n: next((n, 1)), "next takes an iterator, not tuple"),
        (lambda n: next([n, 1]), "next takes an iterator, not a list"),
        (keeps_two, "on one path here"),
        (lambda n: sum(v for v in (n, 2, 3) if v > 1), "(?s)on one path here.*test items in the loop"),
        (lambda n: sum(v + w for v, w in zip(numbers_from(n), (1, 2))), "zip cannot take a tuple or list beside"),  # noqa: B905
        (
            parts_at_run_time,
            "(?s)an iterator of a tuple or list on one path here.*the position of a tuple's iterator must be known",
        ),
    ],
)
def test_what_is_refused(function, match):
    refused(function, int, match=match)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda i, x: next(iter(x[:i])), "StopIteration"),
        (lambda i, x: min(v for v in x[:i]), r"ValueError: min\(\)"),
        (lambda i, x: max(above(x, 20 - 20 * i)), r"ValueError: max\(\)"),
    ],
)
def test_what_has_no_values_is_reported_where_it_is_asked_for(stream, function, message):
    if stream.kind == "gpu":
        pytest.skip("an error ends the use of a GPU")
    with pytest.raises(device.KernelError, match=message) as caught:
        check(stream, function, X)
    assert "test_generators.py" in str(caught.value)


def test_a_loop_over_a_generator_is_unrolled_as_other_loops_are():
    """LLVM sees through the step of a generator: loads of several values wait for memory together."""

    @device.kernel
    def sums(x, y):
        i = device.tid(1)
        y[i] = sum(x[j] * x[j] for j in range(i))

    floats = device.ArrayType(float64, 1)
    ptx = device.compile(sums, floats, floats, output="ptx").code
    assert ptx.count("ld.global") > 4
    assert ptx.count("bra") < 9


@pytest.mark.parametrize(("start", "stop", "step"), [(10, 0, -3), (10, -1, -3), (5, 0, -2), (10, 1, -3), (2, -1, -1)])
def test_ranges_that_count_down(stream, start, stop, step):
    @device.kernel
    def kernel(out):
        for i in (i for i in range(start, stop, step)):
            out[0] += i
            out[1] += 1
            if out[1] > 20:
                break

    out = stream.array(np.zeros(2, np.int32))
    stream.launch(kernel, out, grid=1, block=1)
    items = range(start, stop, step)
    assert stream.numpy(out).tolist() == [sum(items), len(items)]
