"""Nested functions, lambdas, and the variables that they capture."""

from __future__ import annotations

import numpy as np
import pytest
from against_python import check, refused

import cuda_device as device

X = np.arange(8.0) + 0.5


def apply(f, x):
    return f(x)


def count(predicate, n):
    total = 0
    for _ in range(n):
        if predicate():
            total += 1
    return total


def scale_by(k):
    return lambda v: v * k


def reads_captured_variables_when_called(i, a, b):
    limit = b * 2
    above = lambda v: v > limit  # noqa: E731
    limit = limit + i
    return 1 if above(a) else 0


def takes_defaults_and_keywords(i, a, b):
    def add(v, w=b, *, z=1.5):
        return v + w * z + i

    return add(a) + add(a, 2.0) + add(1.0, z=3.0)


def defaults_are_evaluated_once(i, a, b):
    k = i

    def f(v, k=k):
        return v + k

    k = 100
    return f(a) + k


def lambdas_are_arguments(i, a, b):
    return apply(lambda v: v * i + b, a) + apply(lambda v: v + 1, 2)


def recursion(i, a, b):
    def factorial(n):
        if n <= 1:
            return 1
        return n * factorial(n - 1)

    return factorial(i % 5)


def recursion_with_a_captured_number(i, a, b):
    def climb(n):
        return a if n <= 0 else b + climb(n - 1)

    return climb(i)


def mutual_recursion(i, a, b):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    return 1 if even(i) else 0


def captured_loop_variable(i, a, b):
    total = 0.0
    for j in range(4):
        f = lambda: j * a  # noqa: E731, B023
        total += f()
    return total + f()


def functions_are_returned(i, a, b):
    f, g = scale_by(i), scale_by(b)
    return f(a) + g(a)


def functions_are_in_tuples(i, a, b):
    functions = (lambda v: v + i, lambda v: v * b)
    total = 0.0
    for f in functions:
        total = total * 2 + f(a)
    first, second = functions
    return total + first(1.0) - functions[1](second(2.0))


def two_levels(i, a, b):
    def outer(x):
        def inner(y):
            return x + y * i

        return inner

    return outer(a)(b)


def three_levels(i, a, b):
    def one():
        def two():
            def three():
                return a * i + b

            return three() + i

        return two() * 2

    return one()


def function_of_a_function(i, a, b):
    twice = lambda f: lambda v: f(f(v))  # noqa: E731
    return twice(twice(lambda v: v * 2 + i))(a)


def parameters_are_captured(i, a, b):
    def f(n):
        g = lambda: n * i  # noqa: E731
        n = n + 1
        return g()

    return f(a)


def captured_functions_capture(i, a, b):
    f = lambda v: v + i  # noqa: E731
    g = lambda v: f(v) * b  # noqa: E731
    return apply(g, a)


def functions_live_through_loops_and_branches(i, a, b):
    f = lambda v: v * 2 + i  # noqa: E731
    g = f
    total = 0.0
    for j in range(i):
        if j % 2:
            total += g(a)
        else:
            total += f(b)
    return total


def any_number_of_arguments(i, a, b):
    f = lambda *v, k=1: sum(v) * k  # noqa: E731
    return f() + f(a) + f(a, b, i, k=2)


@pytest.mark.parametrize(
    "function",
    [
        reads_captured_variables_when_called,
        takes_defaults_and_keywords,
        defaults_are_evaluated_once,
        lambdas_are_arguments,
        recursion,
        recursion_with_a_captured_number,
        mutual_recursion,
        captured_loop_variable,
        functions_are_returned,
        functions_are_in_tuples,
        two_levels,
        three_levels,
        function_of_a_function,
        parameters_are_captured,
        captured_functions_capture,
        functions_live_through_loops_and_branches,
        any_number_of_arguments,
    ],
)
def test_closures_are_pythons(stream, function):
    check(stream, function, 2.5, 1.5)


def predicate(i, x, limit):
    return count(lambda: x[i] > limit, 3)


def captured_array(i, x, limit):
    at = lambda k: x[k % len(x)]  # noqa: E731
    return at(i) + at(i + 1) * limit


def test_arrays_are_captured(stream):
    check(stream, predicate, X, 3.0)
    check(stream, captured_array, X, 3.0)


def test_nested_functions_write_to_captured_arrays(stream):
    @device.kernel
    def k(x, out):
        i = device.tid(1)

        def put(v):
            out[i] = v

        put(x[i] * 2)
        if i > 3:
            put(-1.0)

    out = stream.empty(8, np.float64)
    stream.launch(k, stream.array(X), out, grid=1, block=8)
    assert stream.numpy(out).tolist() == [*(X[:4] * 2), -1, -1, -1, -1]


def test_a_nested_function_waits_for_the_block(stream):
    @device.kernel
    def k(x, out):
        tile = device.shared_array(8, device.float64)
        i = device.tid(1)

        def exchange(v, place):
            tile[i] = v
            device.syncthreads()
            return tile[place]

        out[i] = exchange(x[i], 7 - i)

    out = stream.empty(8, np.float64)
    stream.launch(k, stream.array(X), out, grid=1, block=8)
    assert stream.numpy(out).tolist() == X[::-1].tolist()


def differs_at_a_join(x):
    f = (lambda: 1) if x > 0 else (lambda: 2)
    return f()


def comes_back_old(x):
    k = 1

    def f():
        return lambda: k + x

    h = f()
    k = 5
    return h()


def captures_nothing_yet(x):
    f = lambda: y + x  # noqa: E731
    result = f()
    y = 1
    return result + y


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (differs_at_a_join, "on one way"),
        (comes_back_old, "assigned more than once"),
        (captures_nothing_yet, "'y' of the enclosing function has no value yet"),
        (lambda x: (lambda a: a)(x, x), "takes 1 argument, not 2"),
        (lambda x: (lambda a, b: a)(x), "lacks an argument for 'b'"),
        (lambda x: (lambda a: a)(b=x), "no keyword parameter 'b'"),
    ],
)
def test_what_cannot_be_is_refused(function, match):
    refused(function, int, match=match)
