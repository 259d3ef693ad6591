"""Constant expressions: exact until they meet a typed value, refused where they have no room, folded with their branches."""

import enum
import math

import ml_dtypes
import numpy as np
import pytest
import reference as ref
from against_python import refused
from conftest import poison
from ir_helpers import refusal

import cuda_device as device

GLOBAL_INT = 5
GLOBAL_FLOAT = 0.1
GLOBAL_TYPED = np.float64(0.1)


def ir(function, *arguments):
    return str(device.compile(function, *arguments, output="ir"))


# Values


@device.kernel
def with_constants(x, out):
    i = device.tid(1)
    if i < len(x):
        v = x[i]
        (a, b, c, d, e, f) = out
        a[i] = v + 1
        b[i] = v * 3
        c[i] = 100 - v
        d[i] = v + True
        e[i] = v * 2.5
        f[i] = v * 0.1


@pytest.mark.parametrize("name", [*ref.FIXED])
def test_a_builtin_constant_takes_the_type_it_meets(stream, name):
    numbers = ref.edges(name)
    types = [name] * 4 + [ref.promote(name, "float")] * 2
    out = tuple(stream.empty(len(numbers), t) for t in types)
    stream.launch(with_constants, stream.array(np.array(numbers, name)), out, grid=1, block=64)
    operands = [("+", 1), ("*", 3), ("-", 100), ("+", 1), ("*", 2.5), ("*", 0.1)]
    for type, (op, constant), output in zip(types, operands, out, strict=True):
        for number, got in zip(numbers, stream.numpy(output).tolist(), strict=True):
            # The constant is exact until here: it is rounded once, to the type of the result.
            x, y = (number, constant) if op != "-" else (constant, number)
            x, y = ref.convert(type, x), ref.convert(type, y)
            right = ref.binary(op, type, x, type, y)
            assert ref.same(type, got, right), f"{name} {number!r} {op} {constant}: {got!r}, should be {right!r}"


@pytest.mark.parametrize("name", [*ref.FIXED])
def test_types_beside_constants(name):
    @device.func
    def function(x):
        return x + 1, 1 + x, x * 2.5, x / 2, x // 2, x - True, x**2, x + GLOBAL_INT, x * GLOBAL_FLOAT

    real = ref.promote(name, "float")
    half = ref.result_type("/", name, "int")
    expected = [name, name, real, half, name, name, name, name, real]
    assert f" -> tuple<{', '.join(expected)}> typed" in ir(function, getattr(device, name))


def test_constants_of_numpy_types_are_typed(stream):
    wide, narrow, half = np.int64(7), np.uint8(200), np.float16(0.1)

    @device.func
    def types():
        return wide + 1, narrow + 1, half * 2, narrow + wide, GLOBAL_TYPED * 2, wide / 2, -wide, half + 1.5

    expected = ["int64", "uint8", "float16", "int64", "float64", "float64", "int64", "float16"]
    assert f" -> tuple<{', '.join(expected)}> typed" in ir(types)

    @device.kernel
    def kernel(out):
        out[0] = narrow + 100  # wraps
        out[1] = half
        out[2] = wide * 1_000_000_000_000
        out[3] = narrow * narrow

    out = stream.empty(4, np.float64)
    stream.launch(kernel, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [44, float(half), 7e12, 200 * 200 % 256]


@pytest.mark.parametrize("name", ref.FLOATS)
def test_float_constants_at_the_ends_of_a_type(stream, name):
    greatest = {"float16": 65519.0, "float32": 3.4028235677e38, "float64": 1.7976931348623157e308}[name]

    @device.kernel
    def kernel(x, out):
        out[0] = x[0] * math.inf
        out[1] = x[0] + math.nan
        out[2] = x[0] * 1e-50
        out[3] = -0.0
        out[4] = x[0] * greatest
        out[5] = -math.inf
        out[6] = 1e-7

    out = stream.empty(7, name)
    stream.launch(kernel, stream.array(np.array([1.0], name)), out, grid=1, block=1)
    got = stream.numpy(out).tolist()
    assert got[0] == math.inf and math.isnan(got[1]) and got[2] == (1e-50 if name == "float64" else 0.0)
    assert got[3] == 0 and math.copysign(1, got[3]) == -1
    assert got[4] == float(np.finfo(name).max) and got[5] == -math.inf and got[6] == ref.round_to(name, 1e-7)


@pytest.mark.parametrize(
    "name, beyond", [("float16", 65520.0), ("float32", 3.40282358e38), ("float32", -1e39), ("float16", 70000)]
)
def test_a_float_constant_without_room_is_refused(name, beyond):
    error = refusal(device.func(lambda x: x * beyond), getattr(device, name))
    assert name in error.reason and str(beyond) in error.reason and error.help


# Errors


@pytest.mark.parametrize("name", [*ref.SIGNED, *ref.UNSIGNED])
@pytest.mark.parametrize("side", ["low", "high"])
def test_a_constant_that_does_not_fit_is_refused(name, side):
    low, high = ref.limits(name)
    fits = {"low": low, "high": high}[side]
    beyond = {"low": low - 1, "high": high + 1}[side]
    type = getattr(device, name)

    def sums(constant):
        return device.func(lambda x: x + constant)

    assert f" -> {name} typed" in ir(sums(fits), type)
    error = refusal(sums(beyond), type)
    assert name in error.reason and str(beyond) in error.reason and error.help
    assert error.location.line == sums.__code__.co_firstlineno + 1
    assert str(beyond) in refusal(device.func(lambda x: beyond * x), type).reason


@pytest.mark.parametrize("name", ["bool", *ref.SIGNED, *ref.UNSIGNED])
def test_storing_a_constant_that_does_not_fit_is_refused(name):
    low, high = ref.limits(name)

    def stores(constant):
        @device.kernel
        def kernel(x):
            x[0] = constant

        return kernel

    dtype = bool if name == "bool" else getattr(device, name)
    for constant in (low, high):
        assert "py.setitem" in ir(stores(constant), device.ArrayType(dtype, 1))
    if name != "bool":  # bool(2) is True
        for constant in (low - 1, high + 1):
            assert str(constant) in refusal(stores(constant), device.ArrayType(dtype, 1)).reason


@pytest.mark.parametrize("name", [*ref.SIGNED, *ref.UNSIGNED])
def test_constructing_from_a_constant_that_does_not_fit_is_refused(name):
    type = getattr(device, name)

    def makes(constant):
        return device.func(lambda: type(constant))

    low, high = ref.limits(name)
    text = ir(makes(low))
    assert f"%0: {name}" in text and f"const {{value={low}}}" in text  # nothing is left for run time
    for constant in (low - 1, high + 1):
        assert str(constant) in refusal(makes(constant)).reason


def test_a_compiled_function_returns_its_constant():
    ptx = device.compile(device.func(lambda x: (x.ndim, 2.5)), device.ArrayType(device.int8, 3), output="ptx").code
    assert "[func_retval0], 3;" in ptx and "[func_retval0+4], 1075838976;" in ptx  # the bits of 2.5
    assert "5000000000 does not fit int" in refusal(device.func(lambda: 5_000_000_000)).reason


# Branches that constants decide


def test_a_constant_branch_leaves_no_trace():
    @device.func
    def function(x):
        y = 3
        if y > 2:
            return x
        return x * 2.5

    text = ir(function, device.int32)
    assert "branch" not in text and "py.binary" not in text and " -> int32 typed" in text


def test_const_expr_parameters_must_be_constants():
    def power(x, n: device.ConstExpr):
        result = x
        if n > 1:
            result = x * power(x, n - 1)
        return result

    @device.func
    def good(x):
        return power(x, 4)

    assert "branch" not in ir(good, device.float32)

    @device.func
    def bad(x, n):
        return power(x, n)

    error = refusal(bad, device.float32, int)
    assert "'n'" in error.reason and "constant expression" in error.reason and error.help


@pytest.mark.parametrize("dtype", [device.bfloat16, device.float8e5m2])
def test_narrow_floats_meet_ints_of_more_than_64_bits(stream, dtype):
    large = np.uint64(2**63)

    @device.kernel
    def kernel(out):
        out[0] = 1 if dtype(1) < 2**15 else undefined  # noqa: F821
        out[1] = 1 if device.bfloat16(1) < large and device.bfloat16(2**64) > 2**63 else undefined  # noqa: F821
        out[2] = device.float32(dtype(2**15)) + device.float32(dtype(-(2**80)))

    out = stream.empty(3, np.float32)
    stream.launch(kernel, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [1, 1, 2.0**15 + float(dtype(-(2.0**80)))]
    for number in (dtype(1), np.float64(1)):
        reason = refusal(device.func(lambda number=number: number < 2**2000)).reason
        assert "does not fit" in reason, reason


# What constants hold


class Colour(enum.IntEnum):
    RED = 3


@device.struct
class Pair:
    first: int
    second: device.float8e4m3


HELD = (
    1,
    (np.float64(2.5), ml_dtypes.bfloat16(3)),
    device.float32x2(4, 5),
    Pair(6, 7),
    Colour.RED,
    (np.uint64(2**63),),
)


def read_held(out, held, k):
    out[0] = held[1][0] + held[1][1]
    out[1] = (held[2] * 2).y
    out[2] = held[3].first + held[3].second
    out[3] = held[4] + held[0]
    out[4] = held[5][0]
    out[5] = sum(held[1]) + held[1][k]


@device.kernel
def of_globals(out, k):
    read_held(out, HELD, k)
    out[6] = 1 if HELD[1][1].dtype == device.bfloat16 and HELD[5][0].dtype == device.uint64 else 0


@device.kernel
def of_parameters(out, held: device.ConstExpr, v: device.ConstExpr, colour: device.ConstExpr, k):
    read_held(out, held, k)
    out[3] = colour + held[0]
    out[6] = (v * v).x


EXPECTED = [5.5, 10, 13, 4, 2.0**63, 8.0]


def test_tuples_hold_numbers_vectors_and_structs_of_the_host(stream):
    assert stream.run(of_globals, poison(7, np.float64), 0).tolist() == [*EXPECTED, 1]


def test_so_do_constant_parameters(stream):
    out = stream.run(of_parameters, poison(7, np.float64), HELD, device.int16x2(5, 6), Colour.RED, 0)
    assert out.tolist() == [*EXPECTED, 25]


STEPS, NOTHING = range(10, 2, -3), range(0)
COUNT = 3


def of_ranges(x, out, inner, given):
    for i in STEPS:
        out[0] += x[i]
    for k, i in enumerate(inner):
        out[k + 1] = x[i]
    for i, j in zip(STEPS, reversed(given)):  # noqa: B905
        out[4] += i * j
    for _ in NOTHING:
        out[5] = 1
    a, b, c = STEPS
    out[6], out[7] = len(STEPS) + len(NOTHING), a + b + c
    out[8] = 1 if x[7] in STEPS and x[6] not in STEPS and STEPS and not NOTHING else 0
    out[9] = STEPS.start + STEPS[1] + STEPS[-1] + max(STEPS) + sum(STEPS[1:])
    out[10] = sum([i * COUNT for i in given])


def by_default(x, out, inner, given=range(3)):
    of_ranges(x, out, inner, given)


def test_ranges_of_the_host_are_those_of_device_code(stream):
    inner = range(3)

    @device.kernel
    def kernel(x, out, given: device.ConstExpr):
        of_ranges(x, out, inner, given)

    @device.kernel
    def default(x, out):
        by_default(x, out, inner)

    x, expected = np.arange(12), np.zeros(11)
    of_ranges(x, expected, inner, range(3))
    for launched, *given in ((kernel, range(3)), (default,)):
        out = stream.array(np.zeros(11))
        stream.launch(launched, stream.array(x), out, *given, grid=1, block=1)
        assert stream.numpy(out).tolist() == expected.tolist()


def test_a_range_that_is_rebound_is_read_again(stream):
    bounds = range(3)

    @device.kernel
    def kernel(out):
        for i in bounds:
            out[i] += 1

    out = stream.array(np.zeros(3))
    stream.launch(kernel, out, grid=1, block=1)
    bounds = range(1)
    stream.launch(kernel, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [2, 1, 1]


def test_ranges_that_device_code_cannot_hold_are_refused():
    wide = range(3_000_000_000, 3_000_000_002)

    def too_wide(x):
        for _ in wide:
            x[0] = 1

    refused(too_wide, device.ArrayType(device.float32, 1), match="the constant 3000000000 does not fit int")
    refused(lambda i: STEPS[i], int, match=r"range<int> cannot be indexed(.|\n)*help: compute the number")
    with pytest.raises(
        device.LaunchError, match="'x' is of type range.*\n  help: give the parameter the type hint Const"
    ):
        device.launch(device.kernel(too_wide), range(3), grid=1, block=1, stream=device.cpu_stream())


@device.func
def typed(n: device.ConstExpr[device.int8]):
    return n if n.dtype == device.int8 else 99


@device.kernel
def typed_constants(out, a: device.ConstExpr[device.float16], b: device.ConstExpr[float]):
    out[0] = a if a.dtype == device.float16 else 99
    out[1] = b / 2
    out[2] = typed(3)
    out[3] = typed(np.int8(-4))
    out[4] = typed(True)


def test_builtin_constants_become_the_type_that_is_asked_for(stream):
    out = stream.empty(5, np.float64)
    stream.launch(typed_constants, out, 3, 5, grid=1, block=1)
    assert stream.numpy(out).tolist() == [3, 2.5, 3, -4, 1]
    with pytest.raises(device.LaunchError, match="'a' is a constant float16, not np.float64"):
        stream.launch(typed_constants, out, np.float64(3), 5, grid=1, block=1)
    with pytest.raises(TypeError, match="'b' is a constant float, not 1j"):
        device.compile(typed_constants, device.ArrayType(device.float64, 1), 1, 1j)


@pytest.mark.parametrize("value", ["300", "2.5", "np.int16(3)", "None"])
def test_constants_of_other_types_are_refused(value):
    scope = {"typed": typed, "np": np}
    exec(f"def k(out):\n    out[0] = typed({value})\n", scope)
    error = refusal(device.kernel(scope["k"]), device.ArrayType(device.float32, 1))
    assert "is of type int8, not" in str(error) and "help: pass a constant int8" in str(error)
