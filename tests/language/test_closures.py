"""Nested functions, lambdas, and the variables that they capture."""

from __future__ import annotations

import numpy as np
import pytest
from against_python import check, programs, refused

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


def function_of_a_function(i, a, b):
    twice = lambda f: lambda v: f(f(v))  # noqa: E731
    return twice(twice(lambda v: v * 2 + i))(a)


def parameters_are_captured(i, a, b):
    def f(n):
        g = lambda: n * i  # noqa: E731
        n = n + 1
        return g()

    return f(a)


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


def call_with(f, functions):
    return f() + functions[1](2)


def put_and_call(f, functions):
    f(functions)
    return functions[0](3)


def makers(a):
    inner = lambda w: w + a  # noqa: E731

    def put(functions):
        functions[0] = inner

    def use(functions, other):
        put(functions)
        first = functions[0](0)
        other(functions)
        return functions[0](0) + 100 * first

    return put, use


def functions_of_a_list_call_each_other(i, a, b):
    functions = [lambda n: functions[1](n) * 3, lambda n: n + i]

    def f():
        return functions[0](4)

    return f()


def a_list_gets_functions_of_several(i, a, b):
    m = 2 + i
    functions = [abs, abs]

    def outer():
        return functions[0](1) + m

    def f():
        m = 5.5
        functions[0] = lambda w: w * m
        return outer() + m

    return f()


def variables_of_one_name_are_several(i, a, b):
    m = i
    functions = [abs, lambda w: w * m]

    def f():
        m = 100

        def g():
            return functions[1](7) + m

        return g() + functions[1](a)

    return f()


def a_function_between_has_no_such_variable(i, a, b):
    m = i
    functions = [abs, lambda w: w * m]

    def f():
        def g():
            functions[0] = lambda w: w + m
            return functions[1](7)

        return g() + functions[0](1)

    return f() + functions[0](b)


def a_list_of_functions_is_an_argument(i, a, b):
    m = i + 1
    functions = [abs, lambda w: w * m]

    def f():
        return functions[1](10)

    return call_with(f, functions) + put_and_call(lambda g: f(), functions)


def functions_are_put_into_a_list_elsewhere(i, a, b):
    m, z = 2, i
    functions = [abs, abs]

    def f(those):
        those[0] = lambda w: w * m + z

    def g(_):
        z = 9.5
        functions[1] = lambda w: w - m + z

    return put_and_call(f, functions) + put_and_call(g, functions) * 10 + functions[1](a) * 100 + functions[0](b)


def calls_of_one_function_have_variables_of_their_own(i, a, b):
    functions = [lambda w: w]
    _, use = makers(a)
    put, _ = makers(i)
    return use(functions, put) + functions[0](b)


def functions_in_tuples_and_lists_capture_each_other(i, a, b):
    m = 1 + i

    def down(n):
        return m if n == 0 else up(n - 1) + m

    def up(n):
        return 2 if n == 0 else down(n - 1) * 2

    pair, functions = (down, up), [up, down]

    def f():
        return pair[0](4) + functions[0](3)

    return f() + pair[1](2) + functions[1](1)


def functions_that_count_are_in_a_list(i, a, b):
    n = 0

    def more():
        nonlocal n
        n += 1 + i
        return n

    functions = [more, lambda: more() + 10]

    def f(j):
        return functions[j]() + functions[1 - j]() * 100

    return f(0) + f(1) + n


def a_map_waits_with_its_function(i, a, b):
    m = i
    results = map(lambda w: w * m, (1, 2, a))

    def f():
        m = 50
        return next(results) + m

    return f() + f() * 10 + next(results)


def itself(f):
    return f


def what_comes_back_reads_later_values(i, a, b):
    k = 1

    def make():
        return lambda: k + i

    f, g = make(), itself(lambda: k * a)
    total = f() + g()
    k = 5
    return total * 100 + f() + g()


def loops_change_what_was_captured(i, a, b):
    total = 0
    for j in range(i):
        if j == 0:
            f = itself(lambda: j + a)  # noqa: B023
        total = total * 2 + f()
    g, k = itself(lambda: k), 0
    while k < i:
        k += 1
        total += g() * 3
    return total


def functions_of_comprehensions_share_a_variable(i, a, b):
    first = [itself(lambda: v + i) for v in (1, 2, 3)]  # noqa: B023
    total = 0
    for j in range(2):
        again = {v: itself(lambda: v * j) for v in (1, 2)}  # noqa: B023
        total = total * 10 + first[0]() + again[1]() * 100
    functions = ()
    for w in (1, a, 2):
        functions = (*functions, itself(lambda: w))  # noqa: B023
    return total * 10 + sum(f() for f in functions)


def calls_have_variables_of_their_own(i, a, b):
    k = 0

    def count_from(start):
        k = start

        def f():
            return k

        k += 1
        return f

    first, second = count_from(i), count_from(a)
    k = 100
    return first() + second() * 2 + k


def generators_change_what_was_captured(i, a, b):
    functions = [abs]

    def steps():
        k = i
        f = lambda: k  # noqa: E731
        functions[0] = itself(lambda: k * a)
        yield f()
        k = 5
        yield f()
        for k in range(2):
            yield f() + functions[0]()

    total = 0
    for v in steps():
        total = total * 7 + v + functions[0]()
    return total


def a_comprehension_hides_what_it_captured(i, a, b):
    v = i

    def f():
        return sum([(lambda: v + 1)() for v in (1, v)]) * 100 + v

    return f() + v


def lists_of_functions_that_read_them_are_passed_on(i, a, b):
    functions = [lambda n: functions[1](n) * 3, lambda n: n + i]
    others = [abs, abs]

    def put(f):
        others[0] = f

    put(lambda n: others[1](n) + a)
    return apply(lambda f: f[0](2), functions) + others[0](b)


def calls_itself_or(other, k):
    inner = lambda w: w + k  # noqa: E731

    def use(f):
        return f(1) * 10 + inner(1)

    return use if other is None else other(inner) + use(lambda w: w * k)


def a_function_that_outlived_its_call_takes_one_of_a_later_call(i, a, b):
    first = calls_itself_or(None, i)
    return calls_itself_or(first, a) + first(lambda w: w - b)


def functions_go_through_generators(i, a, b):
    k = i

    def each(f, n):
        for j in range(n):
            yield f(j) + k

    def total(values, g):
        return sum(g(v) for v in values)

    result = total(each(lambda j: j * a, 3), lambda v: v * k)
    k = 7
    return result * 100 + total(map(lambda v: v + k, each(lambda j: j + k, 2)), itself(lambda v: v - b))


@pytest.mark.parametrize("function", programs(globals(), "i", "a", "b"))
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


def captures_nothing_yet(x):
    f = lambda: y + x  # noqa: E731
    result = f()
    y = 1
    return result + y


def a_list_that_holds_itself_is_returned(x):
    def make():
        functions = [lambda n: functions[1](n) * 3, lambda n: n + x]
        return functions

    return make()[0](2)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (a_list_that_holds_itself_is_returned, "a list cannot contain itself or a function that captured it"),
        (differs_at_a_join, "on one path"),
        (captures_nothing_yet, "'y' of the enclosing function has no value yet"),
        (lambda x: (lambda a: a)(x, x), "too many positional arguments"),
        (lambda x: (lambda a, b: a)(x), "missing a required argument: 'b'"),
        (lambda x: (lambda a=1: a)(b=x), "got an unexpected keyword argument 'b'"),
    ],
)
def test_what_cannot_be_is_refused(function, match):
    refused(function, int, match=match)
