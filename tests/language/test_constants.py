"""Constant expressions: exact until they meet a typed value, refused where they have no room, folded with their branches."""

import numpy as np
import pytest
import reference as ref
from against_python import refused
from ir_helpers import refusal

import cuda_device as device

GLOBAL_INT = 5
GLOBAL_FLOAT = 0.1


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
def test_narrow_floats_meet_ints_of_thousands_of_bits(dtype):
    for number in (dtype(1), np.float64(1)):
        reason = refusal(device.func(lambda number=number: number < 2**2000)).reason
        assert "does not fit" in reason, reason


STEPS = range(10, 2, -3)

# What constants hold


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
