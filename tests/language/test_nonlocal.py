"""Variables that nested functions assign to: `nonlocal`, and `:=` in comprehensions and generator expressions."""

from __future__ import annotations

import numpy as np
import pytest
from against_python import check, refused
from conftest import poison

import cuda_device as device

X = np.arange(8) * 1.5 - 3
A = np.array([5, 3, -2, 7, 0, 11, -9, 4], np.int32)


def sums(i, x, a):
    total = 0  # becomes a float

    def add(k):
        nonlocal total
        total += k

    for j in range(i):
        add(x[j])
    return total


def results(i, x, a):
    state = 1

    def draw():
        nonlocal state
        state = (state * 1103 + 12345) % 10007
        return state

    return draw() + 3 * draw() + state


def of_a_function_outside_the_outer(i, x, a):
    count = 0

    def outer():
        own = 10

        def inner():
            nonlocal count, own
            count += i
            own += 1

        for _ in range(3):
            inner()
        return own

    result = outer()
    return result * 100 + count


def read_by_others(i, x, a):
    count = 0
    now = lambda: count * 2  # noqa: E731

    def up():
        nonlocal count
        count += i

    up()
    first = now()
    up()
    return first * 100 + now()


def given_to_a_function(i, x, a):
    best = -100

    def see(k):
        nonlocal best
        best = max(best, k)

    def each(f, items):
        for item in items:
            f(item)

    each(see, a)
    each(see, (i, 20 - i))
    return best


def counter(start):
    count = start

    def up(k):
        nonlocal count
        count += k
        return count

    return up


def that_outlive_their_function(i, x, a):
    first, second = counter(0), counter(0.5)
    for j in range(i):
        first(a[j])
        second(1)
    return first(0) * 100 + second(0)


def in_recursion(i, x, a):
    calls = 0

    def fib(k):
        nonlocal calls
        calls += 1
        return k if k < 2 else fib(k - 1) + fib(k - 2)

    result = fib(i)
    return result * 1000 + calls


def in_a_generator(i, x, a):
    total = 0

    def running():
        nonlocal total
        for j in range(i):
            total += a[j]
            yield total

    result = 0
    for v in running():
        result = 2 * result + v
    return result + total


def of_a_generator(i, x, a):
    def steps():
        count = 0

        def up():
            nonlocal count
            count += i

        for _ in range(4):
            up()
            yield count

    result = 0
    for v in steps():
        result = result * 2 + v
    return result


def a_parameter(i, x, a):
    def twice(k):
        def up():
            nonlocal k
            k += 1

        up()
        up()
        return k

    return twice(i) + twice(3.5)


def an_iterator_and_an_array(i, x, a):
    items, rest = iter(a), x

    def following():
        nonlocal rest
        rest = rest[1:]
        return next(items) + rest[0]

    return following() * 100 + following()


def without_a_value_at_first(i, x, a):
    def see():
        nonlocal value
        value = a[i]

    see()
    result = value  # noqa: F821
    value = 3
    return result + value


def walrus_in_a_sum(i, x, a):
    total = sum((last := k * i) for k in range(4))
    return total * 100 + last


def walrus_in_a_list(i, x, a):
    items = [last := k * i for k in range(4)]
    return sum(items) * 100 + last


def walrus_in_any(i, x, a):
    if any((found := k) > i + 3 for k in a):
        return found
    return -1


def walrus_in_a_loop(i, x, a):
    total = bound = 0
    while any((last := k) > bound for k in a):
        total += last
        bound += 3
    return total


FUNCTIONS = [
    sums, results, of_a_function_outside_the_outer, read_by_others, given_to_a_function,
    that_outlive_their_function, in_recursion, in_a_generator, of_a_generator, a_parameter, an_iterator_and_an_array,
    without_a_value_at_first, walrus_in_a_sum, walrus_in_a_list, walrus_in_any,
    walrus_in_a_loop,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nested_functions_assign_as_python_does(stream, function):
    check(stream, function, X, A)


def not_assigned(x):
    def see():
        nonlocal value
        value = x

    result = value  # noqa: F821
    value = 1
    see()
    return result


def deleted(x):
    value = x

    def forget():
        nonlocal value
        del value

    forget()
    return value


def of_two_types(x):
    value = x

    def see():
        nonlocal value
        value = math_of

    if x > 3:
        see()
    return value


def math_of(x):
    return x


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (not_assigned, "'value' is used before it has a value"),
        (deleted, "'value' is used before it has a value"),
        (of_two_types, "is int on one path here and math_of on another"),
    ],
)
def test_what_has_no_value_or_two_is_refused(function, match):
    refused(function, int, match=match)


def test_a_variable_of_the_host_stays_as_it_is():
    count = 0

    def up(x):
        nonlocal count
        count += 1
        return x

    refused(up, int, match="cannot assign to 'count', a variable of a host function")
    assert count == 0


@device.kernel
def with_a_barrier(x, out):
    tile = device.shared_array(8, device.float64)
    i = device.tid(1)
    round_number = 0

    def exchange(v):
        nonlocal round_number
        round_number += 1
        tile[i] = v
        device.syncthreads()
        v = tile[(i + round_number) % 8]
        device.syncthreads()
        return v

    out[i] = exchange(exchange(x[i]))


def test_functions_that_wait_assign_too(stream):
    assert stream.run(with_a_barrier, X, poison(8, np.float64), block=8)[-1].tolist() == np.roll(X, -3).tolist()
