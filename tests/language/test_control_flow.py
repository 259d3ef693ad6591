"""Control flow: branches, loops, returns, joins and unpacking, most of them against the same function run by CPython."""

import contextlib
import inspect
import itertools
import linecache
import math

import numpy as np
import pytest
import reference as ref
from decoding.programs import INTEGER_FUNCTIONS
from ir_helpers import refusal

import cuda_device as device

SMALL = [-7, -1, 0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 20, 25, 36, 101, 144]


def kernel_of(function):
    count = len(inspect.signature(function).parameters)

    @device.kernel
    def kernel(cases, out):
        i = device.tid(1)
        if i < len(out):
            if count == 1:
                out[i] = function(cases[i, 0])
            elif count == 2:
                out[i] = function(cases[i, 0], cases[i, 1])
            else:
                out[i] = function(cases[i, 0], cases[i, 1], cases[i, 2])

    return kernel


@pytest.mark.parametrize("function", INTEGER_FUNCTIONS, ids=lambda function: function.__name__)
def test_as_cpython_runs_it(stream, function):
    count = len(inspect.signature(function).parameters)
    cases = list(itertools.product(SMALL if count < 3 else SMALL[1:9], repeat=count))
    out = stream.empty(len(cases), np.int32)
    stream.launch(
        kernel_of(function), stream.array(np.array(cases, np.int32)), out, grid=-(-len(cases) // 64), block=64
    )
    for case, got in zip(cases, stream.numpy(out).tolist(), strict=True):
        assert got == int(function(*case)), f"{function.__name__}{case}"


# Ranges

STEPS = [1, -1, 2, -2, 3, -3, 7, -100]


def range_with(step=None):
    """What a range of a constant step, or of those of an array, gives."""

    @device.kernel
    def kernel(starts, stops, steps, out):
        i = device.tid(1)
        if i < len(starts):
            count = 0
            first = last = starts[i]
            for n in range(starts[i], stops[i], steps[i] if step is None else step):
                if count == 0:
                    first = n
                last = n
                count += 1
                if count == 300:
                    break
            out[i, 0], out[i, 1], out[i, 2] = count, first, last

    return kernel


def expected_ranges(cases):
    result = []
    for start, stop, step in cases:
        taken = range(start, stop, step)[:300] if step else ()  # an error in Python, which must not be a loop for ever
        result.append([len(taken), taken[0] if taken else start, taken[-1] if taken else start])
    return result


def bounds(name):
    low, high = ref.limits(name)
    near = {0, 1, 2, 5, 10, low, low + 1, low + 6, low + 200, high - 200, high - 6, high - 1, high}
    return sorted(n for n in near | ({-1, -5, -10} if low else set()) if low <= n <= high)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_ranges_with_constant_steps(stream, name):
    pairs = list(itertools.product(bounds(name), repeat=2))
    starts, stops = (stream.array(np.array(column, name)) for column in zip(*pairs, strict=True))
    low, high = ref.limits(name)
    for step in [*STEPS, high, low] if low else [1, 2, 3, 7, 100, high]:
        out = stream.empty((len(pairs), 3), np.uint64 if name == "uint64" else np.int64)
        stream.launch(range_with(step), starts, stops, starts, out, grid=-(-len(pairs) // 64), block=64)
        expected = expected_ranges([(start, stop, step) for start, stop in pairs])
        for pair, got, right in zip(pairs, stream.numpy(out).tolist(), expected, strict=True):
            assert got == right, f"range{(*pair, step)} of {name}"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_ranges_with_run_time_steps(stream, name):
    low, high = ref.limits(name)
    steps = [s for s in {0, 1, 2, 3, 7, 100, high, -1, -2, -3, -7, -100, low} if low <= s]
    cases = list(itertools.product(bounds(name), bounds(name), steps))
    columns = (stream.array(np.array(column, name)) for column in zip(*cases, strict=True))
    out = stream.empty((len(cases), 3), np.uint64 if name == "uint64" else np.int64)
    stream.launch(range_with(), *columns, out, grid=-(-len(cases) // 64), block=64)
    for case, got, right in zip(cases, stream.numpy(out).tolist(), expected_ranges(cases), strict=True):
        assert got == right, f"range{case} of {name}"


@pytest.mark.usefixtures("unchecked")
def test_a_way_in_steps_of_nothing_ends(stream):
    """Such a step makes every kind of counter stand still: of indices, of a part of the grid, of a number from zero up."""

    @device.kernel
    def kernel(x, out, n):
        for i in range(device.tid(1), x.shape[0], device.grid_size(1) * n):
            out[i] = 1
        for i in range(device.thread_idx.x, x.shape[0], device.block_dim.x * np.uint32(n)):
            out[i] = 1
        for i in range(x.shape[0] - 1, -1, -n):
            out[i] = 1
        for i in range(1, 5, abs(n)):
            out[i] = 1
        for i in reversed(range(5, n, n)):
            out[i] = 1
        out[0] = len(range(1, 5, n)) + (3 in range(0, 5, n))

    out = stream.empty(8, np.int32)
    untouched = stream.numpy(out)[1:].tolist()
    stream.launch(kernel, stream.array(np.zeros(8, np.float32)), out, 0, grid=1, block=1)
    assert stream.numpy(out).tolist() == [0, *untouched]
    stream.launch(kernel, stream.array(np.zeros(8, np.float32)), out, 1, grid=1, block=1)
    assert stream.numpy(out).tolist() == [5] + [1] * 7


def test_ranges_of_builtin_ints_at_the_limits(stream):
    @device.kernel
    def kernel(out, low, high):
        k = 0
        for i in range(high - 2, high):
            out[k] = i
            k += 1
        for i in range(low + 2, low, -1):
            out[k] = i
            k += 1
        for i in range(2147483646, 2147483647):
            out[k] = i
            k += 1
        for i in range(low, high, 2000000000):
            out[k] = i
            k += 1
        for i in range(high, low, -2000000000):
            out[k] = i
            k += 1
        for i in range(5, 5):
            out[k] = i
            k += 1
        for i in range(high, low):
            out[k] = i
            k += 1
        for i in range(-3):
            out[k] = i
            k += 1
        out[k] = 77

    low, high = -(2**31), 2**31 - 1
    expected = [
        *range(high - 2, high), *range(low + 2, low, -1), 2147483646, *range(low, high, 2000000000),
        *range(high, low, -2000000000), 77,
    ]  # fmt: skip
    out = stream.empty(len(expected) + 4, np.int64)
    stream.launch(kernel, out, low, high, grid=1, block=1)
    assert stream.numpy(out).tolist()[: len(expected)] == expected


def test_a_range_whose_type_widens(stream):
    @device.kernel
    def kernel(x, out):
        n = total = 0
        for i in range(len(x)):
            for j in range(n):  # an int at first, then what x has
                total += 1
            n = x[i]
        out[0] = total
        if x[0] > 1:
            numbers = range(x[0])
        else:
            numbers = range(5)
        for k in numbers:
            total += k
        out[1] = total

    for name in ("int8", "int32", "int64", "uint8", "uint64"):
        out = stream.empty(2, np.int64)
        stream.launch(kernel, stream.array(np.array([3, 4, 100], name)), out, grid=1, block=1)
        assert stream.numpy(out).tolist() == [7, 10]


def test_the_type_of_a_range():
    @device.func
    def function(a, x):
        # A loop variable may have no value, so each joins a number of a type that does not change it.
        i = j = k = m = device.int8(0)
        for i in range(a):
            pass
        for j in range(device.int8(1), device.uint8(9)):
            pass
        for k in range(3, a, device.uint16(2)):
            pass
        n = 0
        for n in range(len(x)):
            pass
        p = 0
        for p in range(4):
            pass
        for m in range(True, device.int8(3)):
            pass
        return i, j, k, n, p, m

    text = str(device.compile(function, device.int64, device.ArrayType(device.int8, 1), output="ir"))
    assert " -> tuple<int64, int16, int64, index, int, int8> typed" in text


def test_a_range_has_one_type():
    @device.func
    def function():
        for _ in range(device.uint8(200), 0, -1):
            pass

    assert "-1" in refusal(function).reason


# Where ways meet


@pytest.mark.parametrize("name", ref.FIXED)
def test_an_accumulator_takes_the_type_of_what_it_adds(stream, name):
    @device.kernel(checked=False)  # which would report that they wrap
    def kernel(x, out, out_of_products):
        total = 0
        product = 1
        for i in range(len(x)):
            total += x[i]
            product *= x[i]
        out[0] = total
        out_of_products[0] = product

    values = [100, 27, 3, 120, 111] if ref.bits(name) == 8 else [ref.limits(name)[1], 3, 2, 77, 5]
    if ref.is_float(name):
        values = [0.1, 2.5, 1024.0, 3e-3, 0.7]
    x = np.array(values, name)
    out, products = stream.empty(1, np.float64 if ref.is_float(name) else name), stream.empty(1, name)
    stream.launch(kernel, stream.array(x), out, products, grid=1, block=1)
    total, product = 0, 1
    for value in x.tolist():
        total, product = ref.binary("+", name, total, name, value), ref.binary("*", name, product, name, value)
    assert stream.numpy(out).tolist() == [total] and stream.numpy(products).tolist() == [product]


def joined_types(function, *arguments):
    return str(device.compile(function, *arguments, output="ir")).split(" -> ")[1].split(" typed")[0]


@pytest.mark.parametrize(
    "a, b, result",
    [
        ("int", "float", "float"), ("bool", "int", "int"), ("bool", "bool", "bool"), ("bool", "float", "float"),
        ("int", "int8", "int8"), ("int8", "uint8", "int16"), ("uint32", "int16", "int64"), ("float", "float16", "float16"),
        ("float", "int32", "float32"), ("float", "int64", "float64"), ("int64", "float32", "float32"),
        ("float16", "float64", "float64"), ("bool", "uint8", "uint8"), ("int", "uint64", "uint64"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("swapped", [False, True])
def test_the_type_where_two_ways_meet(a, b, result, swapped):
    types = {"bool": bool, "int": int, "float": float}
    a, b = (b, a) if swapped else (a, b)

    @device.func
    def branches(c, x, y):
        if c:
            z = x
        else:
            z = y
        return z

    @device.func
    def expression(c, x, y):
        return x if c else y

    @device.func
    def returns(c, x, y):
        if c:
            return x
        return y

    @device.func
    def loop(c, x, y):
        z = x
        while c:
            z = y
        return z

    for function in (branches, expression, returns, loop):
        arguments = (types.get(name) or getattr(device, name) for name in (a, b))
        assert joined_types(function, bool, *arguments) == result


@pytest.mark.parametrize(
    ("types", "result"),
    [
        *((types, "int16") for types in itertools.permutations(["int8", "int16", "300"])),
        *((types, "float64") for types in itertools.permutations(["int32", "uint32", "float"])),
    ],
)
def test_three_ways_meet_in_any_order(types, result):
    """The type is the one that holds all, whichever two meet first."""
    arguments = [{"300": 300, "float": float}.get(name) or getattr(device, name) for name in types]

    def constant(x):
        return 300

    def itself(x):
        return x

    first, second, third = (constant if name == "300" else itself for name in types)

    @device.func
    def function(n, x, y, z):
        value = first(x)
        for i in range(n):
            if i == 0:
                value = second(y)
            else:
                value = third(z)
        pair = (value, n)
        return pair[0]

    assert joined_types(function, int, *arguments) == result


@pytest.mark.parametrize("types", list(itertools.permutations(["float32", "int64", "uint64"])))
def test_nested_ternaries_meet_in_any_order(types):
    """CPython makes one meeting of the two: what has a type by the rules has one all the same."""

    @device.func
    def function(a, b, x, y, z):
        pair = (x if b else y) if a else z
        return pair + 1

    arguments = [getattr(device, name) for name in types]
    if ref.promote(types[0], types[1]) is None:
        with contextlib.suppress(device.CompileError):  # so may be refused, as its inner part alone would be
            assert joined_types(function, bool, bool, *arguments) == "float32"
    else:
        assert joined_types(function, bool, bool, *arguments) == "float32"


def test_an_index_stays_one_where_it_joins():
    @device.func
    def function(c, x, y):
        a = 0
        if c:
            a = len(x)
        b = y
        if c:
            b = len(x)
        total = 0
        for i in range(len(x)):
            total += i
        return a, b, total

    types = bool, device.ArrayType(device.int8, 1)
    assert joined_types(function, *types, device.int16) == "tuple<index, index, index>"
    assert joined_types(function, *types, device.int64) == "tuple<index, int64, index>"
    assert joined_types(function, *types, device.float32) == "tuple<index, float32, index>"


def test_types_widen_around_a_loop(stream):
    @device.kernel
    def kernel(n, small, out):
        a = 1  # int, then int8, then float32
        b = small
        c = True
        for i in range(n):
            if i == 1:
                a = a + small
            if i == 2:
                a = a * 0.5
            b = b * 100 + i  # i is an int32: so is b
            c = c + 1
        out[0], out[1], out[2] = a, b, c
        x, y = 1, 0.5
        for i in range(n):
            x, y = y, x  # both become floats
        out[3], out[4] = x, y
        p, q, r = 1, device.int16(2), device.float64(0.1)
        for i in range(n):
            p, q, r = q, r, p
        out[5], out[6], out[7] = p, q, r

    out = stream.empty(8, np.float64)
    stream.launch(kernel, np.int32(4), np.int8(3), out, grid=1, block=1)
    b = 3
    for i in range(4):
        b = b * 100 + i
    assert stream.numpy(out).tolist() == [2.0, b, 5, 1, 0.5, 2, 0.1, 1]


def test_a_constant_that_changes_in_a_loop_is_forgotten(stream):
    @device.kernel
    def kernel(n, out):
        k, flag, scale = 3, False, 2.5
        for i in range(n):
            if flag:
                scale = 0.5
            if k == 0:
                flag = True
            k -= 1
        out[0], out[1], out[2] = k, flag, scale

    out = stream.empty(3, np.float32)
    for n in (0, 3, 4, 5):
        stream.launch(kernel, n, out, grid=1, block=1)
        assert stream.numpy(out).tolist() == [3 - n, n >= 4, 0.5 if n >= 5 else 2.5]


def test_variables_with_a_value_on_some_ways_only(stream):
    @device.kernel
    def kernel(x, out, flag):
        i = device.tid(1)
        if i < len(x):
            v = x[i]
            pair = (v, 1)
            array = x
        device.syncthreads()
        if i < len(x):
            out[i] = v * 2 + pair[0] + pair[1] + array[i]
        for j in range(flag):
            last = j
        if flag > 0:
            out[len(x)] = last
        if flag == 7:
            del v
            never = 5.5
        if flag == 7:
            out[len(x) + 1] = never

    x = np.arange(5, dtype=np.float32)
    for flag in (3, 7):
        out = stream.empty(7, np.float32)
        stream.launch(kernel, stream.array(x), out, flag, grid=1, block=8)
        got = stream.numpy(out).tolist()
        assert got[:6] == [*(4 * x + 1).tolist(), flag - 1]
        assert got[6] == 5.5 if flag == 7 else math.isnan(got[6])


def line_of(function, text):
    lines, first = inspect.getsourcelines(function.underlying)
    return first + next(n for n, line in enumerate(lines) if text in line)


def test_a_deleted_variable_has_no_value():
    @device.func
    def deletes(x):
        y = x
        del y
        return y  # noqa: F821

    assert "'y'" in refusal(deletes, int).reason


@pytest.mark.parametrize(
    "first, second",
    [
        (lambda x: None, lambda x: 1),
        (lambda x: (1, x), lambda x: x),
        (lambda x: (1, 2, 3), lambda x: (1, 2)),
        (lambda x: math.sin, lambda x: math.cos),
        (lambda x: x, lambda x: device.uint64(1)),
        (lambda x: "a", lambda x: "b"),
        (lambda x: device.int8, lambda x: device.int16),
    ],
)
def test_a_conflict_is_an_error_only_if_it_is_used(first, second):
    @device.func
    def unused(c, x):
        value = 0
        if c:
            value = first(x)
        else:
            value = second(x)
        if c:
            value = first(x)
        value = 5
        return value

    assert joined_types(unused, bool, device.int64) == "int"

    @device.func
    def used(c, x):
        if c:
            value = first(x)
        else:
            value = second(x)
        pair = (value, c)
        return pair[1] or c

    error = refusal(used, bool, device.int64)
    assert "'value'" in error.reason and error.location.line == line_of(used, "pair = (value")

    @device.func
    def looped(c, x):
        value = first(x)
        while c:
            value = second(x)
        pair = (value, c)
        return pair[1] or c

    assert "'value'" in refusal(looped, bool, device.int64).reason


# Tuples


def test_tuples_are_built_joined_and_unpacked(stream):
    @device.kernel
    def kernel(x, t, out):
        a, b = t
        (c, (d, e)) = (a, (b, x[0]))
        pair = (c, d) + (e,)
        if x[0] > 1:
            pair = (1, 2, 3)  # joins (int, float, int32)
        out[0], out[1], out[2] = pair
        out[3] = len(pair) + len(t + ())
        empty = ()
        out[4] = len(empty)
        nested = ((a, b), (b, (a,)))
        out[5] = nested[1][1][0] + nested[0][1]
        i, out[i + 6] = 1, 8.0
        out[6] = (a, b)[0]

    for first, pair in ((1, [4, 0.5, 1]), (2, [1, 2, 3])):
        out = stream.empty(8, np.float32)
        stream.launch(kernel, stream.array(np.array([first], np.int32)), (4, 0.5), out, grid=1, block=1)
        assert stream.numpy(out).tolist() == [*pair, 5, 0, 4.5, 4, 8]


# Large programs


def compiled(text, name="kernel"):
    namespace = {"device": device, "math": math}
    exec(text, namespace)
    return namespace[name]


def test_loops_nested_as_deep_as_python_allows(stream):
    depth = 18
    lines = ["def function(n):", "    total = 0"]
    for k in range(depth):
        lines.append("    " * (k + 1) + f"for i{k} in range({'n' if k % 6 == 0 else 1}):")
    lines.append("    " * (depth + 1) + "total += 1 + " + " * ".join(f"(i{k} + 1)" for k in range(depth)))
    for k in reversed(range(1, depth)):
        lines += ["    " * (k + 1) + f"if total > {10**6 + k}:", "    " * (k + 2) + "break"]
    lines.append("    return total")
    function = compiled("\n".join(lines), "function")
    out = stream.empty(4, np.int32)
    stream.launch(kernel_of(function), stream.array(np.arange(4, dtype=np.int32).reshape(-1, 1)), out, grid=1, block=4)
    assert stream.numpy(out).tolist() == [function(n) for n in range(4)]


# What device code does not have


def test_unsupported_python_that_is_not_reached_is_no_error(stream):
    debug = False

    @device.kernel
    def kernel(x):
        if debug:
            print([x, {1: 2}], sep="")
            try:
                x[0] = 1
            finally:
                x[0] = 2
        x[0] = 3

    x = stream.array(np.zeros(1, np.int32))
    stream.launch(kernel, x, grid=1, block=1)
    assert stream.numpy(x).tolist() == [3]


@pytest.mark.parametrize("order", ["nwf", "nfw", "wnf", "wfn", "fnw", "fwn"])
def test_builtin_numbers_of_many_ways_meet_before_the_others(stream, order):
    """An int8, a length and a float are a float32 in every order; a quotient by an int64 says that it is no builtin float."""

    @device.kernel
    def kernel(out, n, x):
        i = device.tid(1)
        w, f = len(out), float(x)
        n = n[0]
        ways = {"n": n, "w": w, "f": f}
        if i == 0:
            value = ways[order[0]]
        elif i == 1:
            value = ways[order[1]]
        else:
            value = ways[order[2]]
        out[i] = value / device.int64(5)

    out = stream.empty(3, np.float64)
    stream.launch(kernel, out, stream.array(np.array([16], np.int8)), np.float32(16), grid=1, block=3)
    expected = {"n": 16, "w": 3, "f": 16}
    assert stream.numpy(out).tolist() == [float(np.float32(expected[each] / 5)) for each in order]


@pytest.mark.usefixtures("unchecked")
def test_a_first_look_at_a_loop_that_fails_is_not_the_last(stream):
    """`-count` is -1 at first, which a uint16 has no room for; but it is no constant."""

    @device.kernel
    def kernel(out, x, n):
        value = x[0]
        count = 0
        while count < n:
            count += 1
            value = value + (-count)
        out[0] = value

    out = stream.empty(1, np.int32)
    stream.launch(kernel, out, stream.array(np.array([2], np.uint16)), 3, grid=1, block=1)
    assert stream.numpy(out)[0] == 2**16 - 4


@pytest.mark.parametrize(
    "loop",
    [
        "pass",
        "for _ in range(2): total = total * one",
        "for _ in range(n): seen = seen * one",
        "for _ in range(n):\n        for _ in range(2): seen = seen * one",
        "for _ in range(n):\n        for _ in reversed((a[1] and a[0], 2.0)): pass\n        one = one + seen * 0",
        "while n > 0:\n        n -= 1\n        if n == 1: continue\n        seen, total = total, seen",
    ],
)
@pytest.mark.parametrize(
    ("name", "type"), [("uint64", "device.uint64"), ("float16", "device.float16"), ("int8", "int")]
)
def test_what_a_variable_seemed_to_be_leaves_no_trace(stream, loop, name, type):
    """`number` is an int32 at first sight, and an index when its loop has been seen: no conflict with a uint64, no float32."""
    text = f"""
def kernel(a, b, out, n):
    number = a[0]
    for _ in range(n):
        number = number + len(a)
    one = b[1]
    seen = b[0] if a[1] else number
    total = seen
    {loop}
    out[0] = seen
    out[1] = total
    out[2] = isinstance(seen, {type}) and isinstance(total, {type})
"""
    scope = {"device": device}
    linecache.cache["<loop>"] = (len(text), None, text.splitlines(keepends=True), "<loop>")
    exec(compile(text, "<loop>", "exec"), scope)
    out = stream.empty(3, np.float64)
    a, b = np.array([3, 0], np.int32), np.array([9, 1], name)
    stream.launch(device.kernel(scope["kernel"]), stream.array(a), stream.array(b), out, 2, grid=1, block=1)
    assert stream.numpy(out).tolist() == [7, 7, 1]


def test_types_of_a_loop_begin_with_those_before_it(stream):
    """`x` is a uint32 at first sight, and an int64 when the first loop has been seen: its quotients are float64."""

    @device.kernel
    def kernel(out, a, n):
        x = device.uint32(5)
        for _ in range(n):
            x = x + a[0]
        y = a[1]
        for _ in range(n):
            for _ in range(1):
                x = x / a[1]
                y = y / x
        out[0] = x
        out[1] = y

    out = stream.empty(2, np.float64)
    stream.launch(kernel, out, stream.array(np.array([1, 3], np.int8)), 2, grid=1, block=1)
    x, y = 7.0, 3.0
    for _ in range(2):
        x = x / 3
        y = y / x
    assert stream.numpy(out).tolist() == [x, y]


@pytest.mark.parametrize(
    "change", ["seen = b", "if a[0]:\n            seen = b", "if a[1]:\n            continue\n        seen = b"]
)
def test_conflicts_in_loops_stay(change):
    text = f"""
def kernel(a, b, out):
    seen = a[0]
    for _ in range(len(a)):
        {change}
    out[0] = seen
"""
    scope = {}
    exec(text, scope)
    a = np.zeros(2, np.int32)
    with pytest.raises(device.CompileError, match="int32 on one path here and array<int32, 1, C> on another"):
        device.launch(
            device.kernel(scope["kernel"]), a, a.copy(), a.copy(), grid=1, block=1, stream=device.cpu_stream()
        )


def test_shifts_by_the_items_of_empty_ranges(stream):
    """Nothing is known of an item that does not exist; in particular not that a shift by it is negative."""

    @device.kernel
    def kernel(out, n):
        for j in range(0):
            out[0] = (device.tid(1) >> (j & 15)) // max(j, 1)
        for j in range(n & 3, (n & 3) + 0):
            out[0] = j >> (j & 7)

    out = stream.array(np.array([5]))
    stream.launch(kernel, out, 3, grid=1, block=1)
    assert stream.numpy(out)[0] == 5
