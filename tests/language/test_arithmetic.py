"""Arithmetic of numbers: every operator with every pair of types gives the type and the values that `reference` gives."""

import itertools
import math
import re

import numpy as np
import pytest
import reference as ref
from conftest import long, poison, thinned

import cuda_device as device

# Values at the ends of every type: what checks report is the point of many of these tests.
pytestmark = pytest.mark.usefixtures("unchecked")

# The bound for float ** float in units in the last place: CUDA states 4 for powf, 2 for pow; float16 computes in float32.
POWER_ULPS = {"float16": 1, "float32": 4, "float": 4, "float64": 2}


# Operands of each type: arrays hold fixed-format numbers, so builtin ones are made in the kernel


@device.func
def as_stored(value, nothing):
    return value


@device.func
def as_int(value, nothing):
    return int(value)


@device.func
def as_float(value, nothing):
    return float(value)


@device.func
def as_index(value, nothing):
    high = len(nothing) + int(value >> 32)  # the length of an array is an index
    return (high * 65536 + int((value >> 16) & 0xFFFF)) * 65536 + int(value & 0xFFFF)


MAKERS = {"int": as_int, "float": as_float, "index": as_index}


def maker(name):
    """The function that makes a number of a type of an array's element."""
    return MAKERS.get(name, as_stored)


def example(name):
    """What `compile` takes for an argument of a type (an index is the length of an array), and the function that gets it."""
    if name == "index":
        return device.ArrayType(device.int8, 1), len
    return {"bool": bool, "int": int, "float": float}.get(name) or getattr(device, name), _itself


def _itself(value):
    return value


def result_types(function, *arguments):
    """The types that a function returns in a tuple, as our IR writes them."""
    text = str(device.compile(function, *arguments, output="ir"))
    result = re.search(r" -> (.*) typed", text).group(1)
    return re.fullmatch(r"tuple<(.*)>", result).group(1).split(", ")


# Functions of two numbers


def plus(x, y):
    x += y
    return x


def minus(x, y):
    x -= y
    return x


def times(x, y):
    x *= y
    return x


ONE_OPERATOR = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "**": lambda x, y: x**y,
    "<<": lambda x, y: x << y,
    ">>": lambda x, y: x >> y,
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}
OF_ASSIGNMENT = {"+=": "+", "-=": "-", "*=": "*"}
EXTREMES = {"min": min, "max": max, "min of three": lambda x, y: min(y, x, y)}
FUNCTIONS = ONE_OPERATOR | {"+=": plus, "-=": minus, "*=": times} | EXTREMES


def result_type(function, a, b):
    """The type of one of `FUNCTIONS` of two numbers; None if it does not take them."""
    if function in EXTREMES:
        return "bool" if a == b == "bool" else ref.promote(a, b)
    return ref.result_type(OF_ASSIGNMENT.get(function, function), a, b)


def result_of(function, a, x, b, y):
    if function in EXTREMES:
        return EXTREMES[function](*(ref.convert(result_type(function, a, b), value) for value in (x, y)))
    return ref.binary(OF_ASSIGNMENT.get(function, function), a, x, b, y)


def of_two(functions, make_a, make_b):
    @device.kernel
    def kernel(a, b, nothing, results):
        i = device.tid(1)
        if i < len(a):
            x, y = make_a(a[i], nothing), make_b(b[i], nothing)
            for function, result in zip(functions, results, strict=True):
                result[i] = function(x, y)

    return kernel


def operands(a, b):
    """Arrays of all pairs of edge values of two types, and the pairs."""
    pairs = list(itertools.product(ref.edges(a), ref.edges(b)))
    return np.array([x for x, _ in pairs], ref.storage(a)), np.array([y for _, y in pairs], ref.storage(b)), pairs


def mismatches(function, a, b, pairs, got):
    """What to show of the results that are not as expected."""
    type = result_type(function, a, b)
    wrong = []
    for (x, y), value in zip(pairs, got.tolist(), strict=True):
        right = result_of(function, a, x, b, y)
        if right is ref.UNSPECIFIED or ref.same(type, value, right):
            continue
        if function == "**" and ref.is_float(type) and ref.ulps(type, value, right) <= POWER_ULPS[type]:
            continue
        wrong.append(f"{a} {x!r} {function} {b} {y!r} is {value!r}, should be {right!r}")
    return wrong


ALL = [pytest.param(a, 1, marks=long(n)) for n, a in enumerate(ref.NUMBERS)]


@pytest.mark.parametrize("a, one_in", [*((a, 12) for a in ref.NUMBERS), *ALL])
def test_values_of_functions_of_every_pair_of_types(stream, a, one_in):
    """All with two numbers of one type; with two types one in so many, which are others for the next type.

    Where not all are asked for, two types meet in one order.
    """
    nothing = stream.array(np.zeros(0, np.int8))
    wrong = []
    for turn, b in enumerate(ref.NUMBERS, first := ref.NUMBERS.index(a)):
        if one_in > 1 and a != b and (turn < 2 * first) == turn % 2:
            continue
        names = [name for n, name in enumerate(FUNCTIONS, turn) if a == b or n % one_in == 0]
        names = [name for name in names if result_type(name, a, b)]
        left, right, pairs = operands(a, b)
        outputs = tuple(stream.empty(len(pairs), ref.storage(result_type(name, a, b))) for name in names)
        kernel = of_two(tuple(FUNCTIONS[name] for name in names), maker(a), maker(b))
        arguments = stream.array(left), stream.array(right), nothing, outputs
        stream.launch(kernel, *arguments, grid=-(-len(pairs) // 256), block=256)
        for name, output in zip(names, outputs, strict=True):
            wrong += mismatches(name, a, b, pairs, stream.numpy(output))[:5]
    assert not wrong, "\n".join(wrong)


# Unary operators, and the functions that work on numbers


def unary(make):
    @device.kernel
    def kernel(a, nothing, negatives, positives, negations, sizes):
        i = device.tid(1)
        if i < len(a):
            x = make(a[i], nothing)
            negatives[i] = -x
            positives[i] = +x
            negations[i] = not x
            sizes[i] = abs(x)

    return kernel


def inverted(make):
    @device.kernel
    def kernel(a, nothing, inversions):
        i = device.tid(1)
        if i < len(a):
            inversions[i] = ~make(a[i], nothing)

    return kernel


def unary_type(op, a):
    return ref.unary_type("+" if op == "abs" else op, a)


@pytest.mark.parametrize("a", ref.NUMBERS)
def test_unary_operators(stream, a):
    values = ref.edges(a)
    nothing, array = stream.array(np.zeros(0, np.int8)), stream.array(np.array(values, ref.storage(a)))
    operators = ["-", "+", "not", "abs"]
    outputs = [stream.empty(len(values), ref.storage(unary_type(op, a))) for op in operators]
    stream.launch(unary(maker(a)), array, nothing, *outputs, grid=1, block=64)
    if not ref.is_float(a):
        operators.append("~")
        outputs.append(stream.empty(len(values), ref.storage(ref.unary_type("~", a))))
        stream.launch(inverted(maker(a)), array, nothing, outputs[-1], grid=1, block=64)
    wrong = []
    for op, output in zip(operators, outputs, strict=True):
        for value, got in zip(values, stream.numpy(output).tolist(), strict=True):
            right = ref.unary("-" if op == "abs" and math.copysign(1, value) < 0 else op.replace("abs", "+"), a, value)
            if right is not ref.UNSPECIFIED and not ref.same(unary_type(op, a), got, right):
                wrong.append(f"{op} {a} {value!r} is {got!r}, should be {right!r}")
    assert not wrong, "\n".join(wrong)


@device.kernel
def divmods(a, b, floors, remainders):
    i = device.tid(1)
    if i < len(a):
        floors[i], remainders[i] = divmod(a[i], b[i])


@pytest.mark.parametrize(
    "a, b", [(t, t) for t in ref.FIXED] + [("int8", "uint8"), ("uint32", "int16"), ("int32", "float64")]
)
def test_divmod(stream, a, b):
    left, right, pairs = operands(a, b)
    type = ref.promote(a, b)
    outputs = [stream.empty(len(pairs), type) for _ in range(2)]
    stream.launch(divmods, stream.array(left), stream.array(right), *outputs, grid=-(-len(pairs) // 64), block=64)
    wrong = []
    for op, output in zip(("//", "%"), outputs, strict=True):
        wrong += mismatches(op, a, b, pairs, stream.numpy(output))
    assert not wrong, "\n".join(wrong[:20])


@device.kernel
def rounds(x, out):
    i = device.tid(1)
    if i < len(x):
        out[i] = round(x[i])


@pytest.mark.parametrize("name", ref.FLOATS)
def test_round_is_half_even(stream, name):
    values = [n + f for n in range(-6, 7) for f in (0.0, 0.25, 0.5, 0.75)] + [2047.5, 1024.5, -0.0, 0.49975586]
    values += [ref.round_to(name, v) for v in (0.49999999999999994, 8388607.5, -2147483.5) if ref.bits(name) > 16]
    x = np.array(values, name)
    out = stream.run(rounds, x, poison(len(x), np.int32), grid=2, block=64)[-1]
    assert out.tolist() == [round(v) for v in x.tolist()]


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_round_to_digits_is_that_of_numpy(stream, name):
    def kernel(x, digits, out):
        i = device.tid(1)
        if i < len(x):
            out[i] = round(x[i], digits)

    x = np.array([0.3425, 2.5, 0.125, -0.375, -1055.5, 1250, 50005, -0.0, 35, math.inf, math.nan], name)
    for digits in (-5, -3, -2, -1, 0, 1, 2, 3):
        out = stream.empty(len(x), name)
        stream.launch(device.kernel(kernel), stream.array(x), digits, out, grid=1, block=32)
        with np.errstate(all="ignore"):
            expected = np.round(x, digits)
        same = np.isfinite(expected)
        assert np.array_equal(stream.numpy(out)[same], expected[same]), digits


@pytest.mark.parametrize("name", ["bool", *ref.SIGNED, *ref.UNSIGNED])
def test_round_of_an_integer_is_itself(stream, name):
    x = np.array(ref.edges(name), name)
    out = stream.run(rounds, x, poison(len(x), "int64" if name == "bool" else name), block=64)[-1]
    assert out.tolist() == x.tolist()


# Conversions

CONSTRUCTORS = ("bool", "int", "float", *ref.FIXED)


@device.kernel
def constructed(x, out):
    i = device.tid(1)
    if i < len(x):
        (as_bool, as_int, as_float, i1, i2, i4, i8, u1, u2, u4, u8, f2, f4, f8) = out
        as_bool[i] = bool(x[i])
        as_int[i] = int(x[i])
        as_float[i] = float(x[i])
        i1[i] = device.int8(x[i])
        i2[i] = device.int16(x[i])
        i4[i] = device.int32(x[i])
        i8[i] = device.int64(x[i])
        u1[i] = device.uint8(x[i])
        u2[i] = device.uint16(x[i])
        u4[i] = device.uint32(x[i])
        u8[i] = device.uint64(x[i])
        f2[i] = device.float16(x[i])
        f4[i] = device.float32(x[i])
        f8[i] = device.float64(x[i])


@device.kernel
def stored(x, out):
    i = device.tid(1)
    if i < len(x):
        for array in out:
            array[i] = x[i]


def conversion_values(name):
    """Edge values, and floats around the limits of every integer type."""
    values = list(ref.edges(name))
    if ref.is_float(name):
        for limit in (2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64)):
            near = [ref.round_to(name, s * (limit + d)) for s in (1, -1) for d in (-1, -0.75, 0, 0.75, 1)]
            values += [v for v in near if math.isfinite(v)]
        values += [-0.99, 0.99, -1.01] if name != "float16" else []
        values = [ref.round_to(name, v) for v in values]
    elif ref.bits(name) > 16:
        # Halfway between two floats, and just beside: rounded twice, these come out wrong.
        for base in (2049, 2**24 + 1, 2**24 + 3, 2**53 + 1, 2**54 + 2**30 + 1, 65519, 65520, 65521):
            values += [s * v for v in (base - 1, base, base + 1) for s in (1, -1)]
        values = [v for v in values if ref.limits(name)[0] <= v <= ref.limits(name)[1]]
    return values


@pytest.mark.parametrize("kernel, name", thinned([constructed, stored], ["bool", *ref.FIXED], one_in=2))
def test_conversions(stream, kernel, name):
    values = conversion_values(name)
    outputs = tuple(stream.empty(len(values), ref.storage(target)) for target in CONSTRUCTORS)
    stream.launch(kernel, stream.array(np.array(values, name)), outputs, grid=1, block=256)
    wrong = []
    for target, output in zip(CONSTRUCTORS, outputs, strict=True):
        for value, got in zip(values, stream.numpy(output).tolist(), strict=True):
            right = ref.convert(target, value)
            if not ref.same(target, got, right):
                wrong.append(f"{target}({name} {value!r}) is {got!r}, should be {right!r}")
    assert not wrong, "\n".join(wrong[:20])


def converted(constructor):
    @device.func
    def function(x):
        return constructor(x), 0

    return function


@pytest.mark.parametrize("name", ["bool", *ref.FIXED])
def test_types_of_constructors(name):
    argument, _ = example(name)
    for target in CONSTRUCTORS:
        constructor = {"bool": bool, "int": int, "float": float}.get(target) or getattr(device, target)

        assert result_types(converted(constructor), argument) == [target, "int"]


def test_int_of_an_index_is_an_index():
    @device.func
    def function(x):
        return int(len(x)), float(len(x)), bool(len(x)), device.int32(len(x)), abs(len(x)), round(len(x)), -len(x)

    types = result_types(function, device.ArrayType(device.int8, 1))
    assert types == ["index", "float", "bool", "int32", "index", "index", "index"]


# What must not happen


@device.kernel
def divides(a, b, floors, remainders, quotients, after):
    i = device.tid(1)
    if i < len(a):
        floors[i] = a[i] // b[i]
        remainders[i] = a[i] % b[i]
        quotients[i] = a[i] / b[i]
        after[i] = i


@pytest.mark.parametrize("name", [*ref.SIGNED, *ref.UNSIGNED])
def test_integer_division_by_zero_does_not_fault(stream, name):
    low, high = ref.limits(name)
    a = np.array([0, 1, low, high] * 3, name)
    b = np.array([0, 0, 0, 0, 1, 1, -1 if low else 1, 1, 0, 7, 0, 7], name)
    after = stream.empty(len(a), np.int32)
    outputs = [stream.empty(len(a), t) for t in (name, name, ref.result_type("/", name, name))]
    stream.launch(divides, stream.array(a), stream.array(b), *outputs, after, grid=1, block=32)
    assert stream.numpy(after).tolist() == list(range(len(a)))
    floors, remainders, quotients = (stream.numpy(output).tolist() for output in outputs)
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        if y:
            assert (floors[i], remainders[i]) == (ref.convert(name, x // y), x % y)
        else:  # the quotient is a float, which has infinities
            assert math.isnan(quotients[i]) if x == 0 else quotients[i] == math.copysign(math.inf, x)


# Constant operands, which take ways of their own through the compiler


def with_constants(op, constants):
    apply = ONE_OPERATOR[op]

    @device.kernel
    def kernel(x, after, before):
        i = device.tid(1)
        if i < len(x):
            k = 0
            for constant in constants:
                after[k, i] = apply(x[i], constant)
                before[k, i] = apply(constant, x[i])
                k += 1

    return kernel


FIXED_INTEGERS = [*ref.SIGNED, *ref.UNSIGNED]
ALL_CONSTANTS = [pytest.param(name, 1, marks=long(n)) for n, name in enumerate(FIXED_INTEGERS)]


@pytest.mark.parametrize("name, one_in", [*((name, 2) for name in FIXED_INTEGERS), *ALL_CONSTANTS])
def test_constant_operands(stream, name, one_in):
    """Of each type with one operator in so many, which are others for the next type."""
    low, high = ref.limits(name)
    values, width = ref.edges(name), ref.bits(name)
    x = stream.array(np.array(values, name))
    cases = {op: (0, 1, width - 1, width, width + 1, 200) for op in ref.SHIFTS}
    cases |= {op: tuple(n for n in (1, 2, 7, 64, high, -1, -2, -7, low) if low <= n and n) for op in ("//", "%")}
    cases |= {"**": (0, 1, 2, 3, 5)} | {op: (0, 1, 100, high) for op in ("&", "|", "^", "*", "-")}
    wrong = []
    for op, constants in [*cases.items()][ref.INTEGERS.index(name) % one_in :: one_in]:
        # An int before a shift stays an int; elsewhere it takes the type it meets.
        left = "int" if op in ref.SHIFTS else name
        after, before = (stream.empty((len(constants), len(x)), ref.storage(t)) for t in (name, left))
        stream.launch(with_constants(op, constants), x, after, before, grid=1, block=64)
        after, before = stream.numpy(after), stream.numpy(before)
        for (k, constant), (i, value) in itertools.product(enumerate(constants), enumerate(values)):
            for got, right, shown in (
                (after[k, i], ref.binary(op, name, value, name, constant), f"{name} {value} {op} {constant}"),
                (before[k, i], ref.binary(op, left, constant, name, value), f"{constant} {op} {name} {value}"),
            ):
                if right is not ref.UNSPECIFIED and got != right:
                    wrong.append(f"{shown} is {got}, should be {right}")
    assert not wrong, "\n".join(wrong[:20])
