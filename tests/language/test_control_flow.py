"""Control flow: branches, loops, returns, joins and unpacking, most of them against the same function run by CPython."""

import contextlib
import inspect
import itertools
import linecache
import math

import numpy as np
import pytest
import reference as ref
from conftest import thinned
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


def line_of(function, text):
    lines, first = inspect.getsourcelines(function.underlying)
    return first + next(n for n, line in enumerate(lines) if text in line)


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


LOOPS = [
    "pass",
    "for _ in range(2): total = total * one",
    "for _ in range(n): seen = seen * one",
    "for _ in range(n):\n        for _ in range(2): seen = seen * one",
    "for _ in range(n):\n        for _ in reversed((a[1] and a[0], 2.0)): pass\n        one = one + seen * 0",
    "while n > 0:\n        n -= 1\n        if n == 1: continue\n        seen, total = total, seen",
]
TYPES = [("uint64", "device.uint64"), ("float16", "device.float16"), ("int8", "int")]


@pytest.mark.parametrize("loop, types", thinned(LOOPS, TYPES, one_in=3))
def test_what_a_variable_seemed_to_be_leaves_no_trace(stream, loop, types):
    """`number` is an int32 at first sight, and an index when its loop has been seen: no conflict with a uint64, no float32."""
    name, type = types
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
