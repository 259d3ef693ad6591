"""Complex numbers: their types, how they lie in memory and travel, and arithmetic against NumPy and CPython."""

from __future__ import annotations

import builtins
import cmath
import itertools
import math
import operator
import re

import numpy as np
import pytest
import reference as ref
from against_python import refused
from conftest import thinned
from ir_helpers import define

import cuda_device as device
from cuda_device import complex64, complex128, float32, float64

DTYPES = pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=["complex64", "complex128"])
EPSILON = {np.complex64: 2.0**-23, np.complex128: 2.0**-52}
inf, nan = math.inf, math.nan

# Types


@pytest.mark.parametrize(("other", "name"), thinned(ref.EVERY, ref.COMPLEXES, one_in=len(ref.COMPLEXES)))
def test_promotion(other, name):
    x, a = ("len(x)", device.ArrayType(device.float32, 1)) if other == "index" else ("x", type_of(other))
    for text in (f"{x} * y", f"y * {x}", f"{x} / y", f"y / {x}"):
        made = device.compile(device.func(define(f"def f(x, y): return {text}", "f")), a, type_of(name), output="ir")
        assert made.result == ref.promote(other, name)


def type_of(name):
    return getattr(builtins, name, None) or getattr(device, name)


def test_layout_is_that_of_cuda_cpp():
    assert [device.sizeof(T) for T in (complex, complex64, complex128)] == [8, 8, 16]
    assert [device.alignof(T) for T in (complex, complex64, complex128)] == [8, 8, 16]
    assert [device.numpy_dtype(T) for T in (complex, complex64, complex128)] == [
        np.complex64,
        np.complex64,
        np.complex128,
    ]

    @device.struct
    class Sample:
        weight: float32
        value: complex128
        tag: device.int8
        phase: complex64

    dtype = device.numpy_dtype(Sample)
    assert [dtype.fields[name][1] for name in dtype.names] == [0, 16, 32, 40] and dtype.itemsize == 48
    assert device.alignof(Sample) == 16 and device.numpy_dtype(tuple[float, complex]).fields["_1"][1] == 8


# Arguments and memory


@DTYPES
def test_memory_that_is_less_aligned(dtype):
    """NumPy's complex numbers need no more than the alignment of their parts: they are read in two accesses."""

    @device.kernel
    def kernel(x, out, through):
        i = device.tid(1)
        z = x[i]
        through[i] = z
        out[i] = through[i] * 2

    part = np.dtype(dtype).itemsize // 2
    memory = np.zeros(64 * 2 * part, np.uint8)
    offset = part if memory.ctypes.data % (2 * part) == 0 else 0
    x, out = (memory[at : at + 16 * 2 * part].view(dtype) for at in (offset, offset + 32 * 2 * part))
    x[:] = np.arange(16) * (2 - 1j)
    through = np.zeros(16, dtype)
    assert x.ctypes.data % (2 * part) == part
    device.launch(kernel, x, out, through, grid=1, block=16, stream=device.cpu_stream())
    np.testing.assert_array_equal(out, x * 2)
    text = device.compile(kernel, x, out, through, output="ptx").code
    bits = 8 * part
    accesses = re.findall(r"(?:ld|st)\.global[\w.]*", text)
    assert accesses.count(f"ld.global.b{bits}") == 2 and accesses.count(f"st.global.v2.b{bits}") == 1


def test_members_of_structs_of_the_host():
    wave = device.struct(
        type("Wave", (), {"__annotations__": {"amplitude": complex64, "shift": complex128}, "shift": 1j})
    )
    assert wave(1).amplitude.dtype == np.complex64 and wave(2j).shift == 1j
    with pytest.raises(TypeError, match="complex64"):
        wave(complex128(1))


def test_arrays_of_the_host():
    stream = device.cpu_stream()
    assert device.array([1, 2.5, 1j], stream=stream).dtype == np.complex64
    assert device.zeros(3, complex, stream=stream).dtype == np.complex64
    assert device.array([1j], complex128, stream=stream).numpy().tolist() == [1j]
    assert device.array(np.ones(2, np.float32), complex128, stream=stream).numpy().tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [complex64, complex128])
def test_a_complex_number_is_one_access(dtype):
    @device.kernel
    def kernel(x, y):
        i = device.tid(1)
        y[i] = x[i]

    text = device.compile(kernel, *[device.ArrayType(dtype, 1)] * 2, output="ptx").code
    bits = 32 if dtype is complex64 else 64
    assert re.findall(r"(?:ld|st)\.global[\w.]*", text) == [f"ld.global.v2.b{bits}", f"st.global.v2.b{bits}"]


# Arithmetic

BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
}  # fmt: skip


def random_numbers(dtype, count=64, seed=0):
    generator = np.random.default_rng(seed)
    return (generator.normal(size=count) + 1j * generator.normal(size=count)).astype(dtype)


def apply(stream, function, *arrays, dtype=None):
    """`function` of the elements of arrays, in device code."""

    @device.kernel
    def kernel(out, arguments):
        i = device.tid(1)
        if i < len(out):
            out[i] = function(*tuple(array[i] for array in arguments))

    out = stream.empty(len(arrays[0]), dtype or arrays[0].dtype)
    stream.launch(kernel, out, tuple(map(stream.array, arrays)), grid=-(-len(out) // 64), block=64)
    return stream.numpy(out)


@DTYPES
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_against_numpy(stream, dtype, name):
    function = BINARY[name]
    a, b = random_numbers(dtype), random_numbers(dtype, seed=1)
    for x, y in ((a, b), (a, b.real), (a.real, b)):
        found, expected = apply(stream, function, x, y, dtype=dtype), function(x.astype("c16"), y.astype("c16"))
        assert np.max(np.abs(found - expected) / np.abs(expected)) < 3 * EPSILON[dtype]


@DTYPES
def test_unary_operations(stream, dtype):
    z = random_numbers(dtype)
    np.testing.assert_array_equal(apply(stream, lambda z: -z, z), -z)
    np.testing.assert_array_equal(apply(stream, lambda z: +z, z), z)
    np.testing.assert_array_equal(apply(stream, lambda z: z.conjugate(), z), z.conj())
    np.testing.assert_array_equal(apply(stream, lambda z: z.imag, z, dtype=z.real.dtype), z.imag)
    np.testing.assert_allclose(apply(stream, abs, z, dtype=z.real.dtype), abs(z), rtol=2 * EPSILON[dtype])


SPECIAL = [0.0, -0.0, 1.5, -2.0, inf, -inf, nan]
POINTS = [complex(x, y) for x in SPECIAL for y in SPECIAL]


def same(found: complex, expected: complex) -> bool:
    """Whether two complex numbers are the same, signs of zeros included; one NaN is like another."""
    return all(
        (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
        for a, b in ((found.real, expected.real), (found.imag, expected.imag))
    )


MIXED = {
    "z + x": (lambda z, x: z + x, lambda z, x: complex(z.real + x, z.imag)),
    "x + z": (lambda z, x: x + z, lambda z, x: complex(x + z.real, z.imag)),
    "z - x": (lambda z, x: z - x, lambda z, x: complex(z.real - x, z.imag)),
    "x - z": (lambda z, x: x - z, lambda z, x: complex(x - z.real, -z.imag)),
    "z * x": (lambda z, x: z * x, lambda z, x: complex(z.real * x, z.imag * x)),
    "x * z": (lambda z, x: x * z, lambda z, x: complex(z.real * x, z.imag * x)),
}


@DTYPES
@pytest.mark.parametrize("name", MIXED)
def test_a_real_operand_stays_real(stream, dtype, name):
    """No part of it is 0: signs of zeros survive, and infinities make no NaN."""
    function, by_parts = MIXED[name]
    pairs = list(itertools.product(POINTS, SPECIAL))
    z, x = np.array([z for z, _ in pairs], dtype), np.array([x for _, x in pairs], dtype(0).real.dtype)
    found = apply(stream, function, z, x)
    for (z_, x_), result in zip(pairs, found.tolist(), strict=True):
        assert same(result, by_parts(z_, x_)), (z_, x_, result)


def test_division_by_a_real_number_is_by_parts(stream):
    pairs = list(itertools.product(POINTS, SPECIAL))
    z, x = np.array([z for z, _ in pairs]), np.array([x for _, x in pairs])
    with np.errstate(all="ignore"):
        expected = [complex(a, b) for a, b in zip(z.real / x, z.imag / x, strict=True)]
    found = apply(stream, lambda z, x: z / x, z, x)
    for pair, result, wanted in zip(pairs, found.tolist(), expected, strict=True):
        assert same(result, wanted), (pair, result)


def test_products_are_the_textbook_formula(stream):
    """As NumPy's: an infinity beside a zero gives NaN."""
    pairs = list(itertools.product(POINTS, POINTS))
    a, b = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    with np.errstate(all="ignore"):
        real, imaginary = a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real
    found = apply(stream, operator.mul, a, b)
    for pair, result, x, y in zip(pairs, found.tolist(), real.tolist(), imaginary.tolist(), strict=True):
        assert same(result, complex(x, y)), (pair, result)


QUOTIENTS = [
    (1 + 1j, 0, complex(inf, inf)),
    (-1 + 2j, 0, complex(-inf, inf)),
    (1 + 1j, complex(-0.0, 0.0), complex(-inf, -inf)),
    (0, 0, complex(nan, nan)),
    (complex(inf, 1), 1 + 1j, complex(inf, -inf)),
    (complex(inf, nan), 2, complex(inf, nan)),
    (complex(-inf, 3), complex(1, 0), complex(-inf, nan)),
    (1 + 1j, complex(inf, inf), 0),
    (1 + 1j, complex(inf, nan), complex(0, 0)),
    (1 + 1j, complex(-inf, 2), complex(-0.0, -0.0)),
    (complex(nan, 1), 1, complex(nan, nan)),
]


@DTYPES
def test_quotients_of_infinities_and_zeros(stream, dtype):
    """C's Annex G: what is not zero by zero is infinite, what is finite by an infinity is zero."""
    a, b, _ = (np.array([row[i] for row in QUOTIENTS], dtype) for i in range(3))
    found = apply(stream, operator.truediv, a, b).tolist()
    for (x, y, expected), result in zip(QUOTIENTS, found, strict=True):
        if cmath.isnan(expected):
            assert cmath.isnan(result) and cmath.isinf(result) == cmath.isinf(expected), (x, y, result)
        else:
            assert result == expected or (cmath.isinf(expected) and cmath.isinf(result)), (x, y, result)


@DTYPES
def test_signs_of_zeros_in_quotients(stream, dtype):
    """As NumPy's, for zeros of either sign in every place."""
    parts = [0.0, -0.0, 1.5, -2.0, 0.25]
    a, b = (each.ravel() for each in np.meshgrid(*2 * [np.array([complex(x, y) for x in parts for y in parts], dtype)]))
    a, b = a[b != 0], b[b != 0]
    found, expected = apply(stream, operator.truediv, a, b), a / b
    assert np.array_equal(np.signbit(found.real), np.signbit(expected.real))
    assert np.array_equal(np.signbit(found.imag), np.signbit(expected.imag))


@DTYPES
def test_quotients_do_not_overflow_on_the_way(stream, dtype):
    limits = np.finfo(dtype)
    big, small, tiny = float(limits.max), float(limits.tiny), float(limits.smallest_subnormal)
    rows = [
        (complex(big, big), complex(big, big), 1), (complex(big, -big), complex(big, big), -1j),
        (complex(big, big) / 2, 1 + 1j, big / 2), (complex(small, small), complex(small, small), 1),
        (complex(tiny, tiny), complex(tiny, 0), 1 + 1j), (complex(big, 1), complex(big, 1), 1),
        (complex(1, big / 4), complex(small * 8, big / 4), 1), (complex(big, small), complex(2, 0), complex(big / 2, small / 2)),
        (1, complex(big / 2, big / 2), complex(1, -1) / big),
        (complex(1, 1), complex(0, small * 4), complex(1, -1) / (small * 4)),
    ]  # fmt: skip
    a, b = (np.array([row[i] for row in rows], dtype) for i in (0, 1))
    found = apply(stream, operator.truediv, a, b).tolist()
    for (x, y, expected), result in zip(rows, found, strict=True):
        assert abs(result - expected) <= 4 * EPSILON[dtype] * abs(expected), (x, y, result)


@DTYPES
def test_comparisons_and_truth(stream, dtype):
    pairs = [
        (1 + 2j, 1 + 2j),
        (1 + 2j, 1 - 2j),
        (1, 2),
        (0, -0.0),
        (complex(nan, 0), complex(nan, 0)),
        (complex(0, nan), 0),
    ]
    a, b = (np.array([pair[i] for pair in pairs], dtype) for i in (0, 1))
    for function in (operator.eq, operator.ne):
        assert apply(stream, function, a, b, dtype=bool).tolist() == [function(x, y) for x, y in pairs]
        assert apply(stream, function, a, b.real, dtype=bool).tolist() == [function(x, y.real) for x, y in pairs]
        assert apply(stream, lambda z: function(z, 1), a, dtype=bool).tolist() == [function(x, 1) for x, _ in pairs]  # noqa: B023
    z = np.array([0, -0.0, 1, 1j, complex(0, nan)], dtype)
    for function in (bool, lambda z: not not z, lambda z: True if z else False, np.bool_):  # noqa: SIM210, SIM208
        assert apply(stream, function, z, dtype=bool).tolist() == [False, False, True, True, True]


def test_comparisons_are_of_values_not_of_roundings(stream):
    """complex64 beside float64: the double is not rounded first."""
    z, x = np.array([0.1, 0.5], np.complex64), np.array([0.1, 0.5])
    assert apply(stream, operator.eq, z, x, dtype=bool).tolist() == [False, True]


EXPONENTS = [0, 1, 2, 3, 7, 13, -1, -2, -5, 2.0, -3.0, 2 + 0j]


@pytest.mark.parametrize("dtype, exponent", thinned(EPSILON, EXPONENTS, one_in=2))
def test_powers_of_constant_integers(stream, dtype, exponent):
    z = random_numbers(dtype)
    found = apply(stream, lambda z: z**exponent, z)
    expected = z.astype("c16") ** exponent
    np.testing.assert_allclose(found, expected, rtol=16 * EPSILON[dtype])


@DTYPES
def test_powers(stream, dtype):
    z, w, n = random_numbers(dtype), random_numbers(dtype, seed=1), np.arange(64, dtype=np.int32) - 32
    wide = z.astype("c16")
    np.testing.assert_allclose(apply(stream, pow, z, w), wide ** w.astype("c16"), rtol=32 * EPSILON[dtype])
    np.testing.assert_allclose(apply(stream, pow, z, w.real), wide ** w.real.astype("f8"), rtol=32 * EPSILON[dtype])
    real = np.abs(w.real)
    np.testing.assert_allclose(
        apply(stream, pow, real, w, dtype=dtype), real.astype("f8") ** w.astype("c16"), rtol=32 * EPSILON[dtype]
    )
    np.testing.assert_allclose(apply(stream, pow, z, n), wide ** n.astype("f8"), rtol=128 * EPSILON[dtype])
    zero = np.zeros(3, dtype)
    assert apply(stream, pow, zero, np.array([0, 2, 1 + 1j], dtype)).tolist() == [1, 0, 0]
    assert all(map(cmath.isinf, apply(stream, lambda z: z**-1, zero).tolist()))


def test_magnitudes_do_not_overflow_on_the_way(stream):
    z = np.array(
        [3e38 + 1j, 3e-45 + 4e-45j, 3e20 + 4e20j, complex(inf, nan), complex(nan, -inf), complex(nan, 1)], np.complex64
    )
    found = apply(stream, abs, z, dtype=np.float32)
    np.testing.assert_allclose(found[:5], [3e38, np.hypot(z[1].real, z[1].imag), 5e20, inf, inf], rtol=1e-6)
    assert math.isnan(found[5])


# Beside other constructs and types


@pytest.mark.parametrize(
    ("number", "result"),
    [
        (device.float16(1.5), complex64), (device.bfloat16(1.5), complex64), (device.float8e4m3(1.5), complex64),
        (device.float8e5m2(1.5), complex64), (device.uint64(2**40), complex128), (device.int8(-3), complex64),
        (np.bool_(True), complex), (7, complex), (1.5, complex), (device.float64(0.1), complex128),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_every_number_beside_a_complex_one(stream, number, result):
    @device.kernel
    def kernel(out, same, x):
        out[0] = x * 1j
        out[1] = 1j + x
        out[2] = complex128(x) * 2
        out[3] = 1j / x
        same[0] = type(x * 1j) is result and type(1j - x) is result and type(x / 1j) is result

    out, same = stream.empty(4, np.complex128), stream.array(np.zeros(1, bool))
    stream.launch(kernel, out, same, number, grid=1, block=1)
    x = float(number)
    np.testing.assert_allclose(stream.numpy(out), [x * 1j, x + 1j, 2 * x, 1j / x], rtol=1e-7)
    assert stream.numpy(same)[0]


# Constructors


def test_constructors(stream):
    @device.kernel
    def kernel(out, x, z, n, negative):
        out[0] = complex(x, n)
        out[1] = complex64(x)
        out[2] = complex(z, z)
        out[3] = complex128(2, negative)
        out[4] = complex(negative, negative)
        out[5] = complex()
        out[6] = complex(True, x > 0)
        out[7] = complex128(z)
        out[8] = complex(2, 3) * complex64(0, 1)
        out[9] = 1e300 * complex128(1, -1)
        out[10] = complex(real=x) + complex(imag=n) + complex(10, imag=x)

    out = stream.empty(11, np.complex128)
    stream.launch(kernel, out, 1.5, complex64(1 + 2j), 7, -0.0, grid=1, block=1)
    z = 1 + 2j
    expected = [
        1.5 + 7j, 1.5, z + z * 1j, complex(2, -0.0), complex(-0.0, -0.0), 0, 1 + 1j, z, -3 + 2j, 1e300 - 1e300j,
        11.5 + 8.5j,
    ]  # fmt: skip
    assert all(map(same, stream.numpy(out).tolist(), map(complex, expected)))


# Mistakes

Z, X = device.ArrayType(complex64, 1), device.ArrayType(float32, 1)


def mistakes():
    yield lambda z, x: z[0] < z[1], "complex numbers have no order"
    yield lambda z, x: z[0] >= 1, "complex numbers have no order"
    yield lambda z, x: z[0] // 2, "operator // takes real numbers"
    yield lambda z, x: 2 % z[0], "operator % takes real numbers"
    yield lambda z, x: divmod(z[0], 2), "operator // takes real numbers"
    yield lambda z, x: z[0] & 1, "operator & takes integers"
    yield lambda z, x: z[0] << 1, "operator << takes integers"
    yield lambda z, x: ~z[0], "~ takes an integer"
    yield lambda z, x: float(z[0]), "float takes a real number, not complex64"
    yield lambda z, x: int(z[0]), "int takes a real number"
    yield lambda z, x: float64(z[0]), "float64 takes a real number"
    yield lambda z, x: round(z[0]), "round takes a real number"
    yield lambda z, x: min(z[0], z[1]), "min takes a real number"
    yield lambda z, x: math.sqrt(z[0]), "math.sqrt takes a real number"
    yield lambda z, x: math.atan2(x[0], z[0]), "math.atan2 takes a real number"
    yield lambda z, x: range(z[0]), "range takes a real number"
    yield lambda z, x: x[z[0]], "an index must be an integer"
    yield lambda z, x: x.__setitem__(0, z[0]) if False else device.float32x2(z[0], 1), "takes a real number"
    yield lambda z, x: device.float32x2(1, 2) * z[0], "no vectors of complex numbers"
    yield lambda z, x: z[0].conjugate(1), "conjugate: too many positional arguments"
    yield lambda z, x: device.popc(z[0]), "popc takes a real number"
    yield lambda z, x: complex(z), "complex takes a number, not array"
    yield lambda z, x: complex(1, real=3), "complex: multiple values for argument 'real'"
    yield lambda z, x: complex(1, imaginary=3), "complex: got an unexpected keyword argument 'imaginary'"


@pytest.mark.parametrize(
    ("function", "message"), list(mistakes()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_complex_numbers_cannot_do(function, message):
    refused(function, Z, X, match=message)


@device.kernel
def compared(x, y, orders, extremes):
    i = device.tid(1)
    a, b = x[i], y[i]
    orders[0, i], orders[1, i] = np.less(a, b), np.less_equal(a, b)
    orders[2, i], orders[3, i] = np.greater(a, b), np.greater_equal(a, b)
    extremes[0, i], extremes[1, i] = np.minimum(a, b), np.maximum(a, b)
    extremes[2, i], extremes[3, i] = np.fmin(a, b), np.fmax(a, b)


@DTYPES
def test_functions_of_numpy_order_complex_numbers(stream, dtype):
    parts = (-1.0, 0.0, 2.0, inf, nan)
    numbers = np.array([complex(re, im) for re in parts for im in parts], dtype)
    x, y = (np.ascontiguousarray(each.reshape(-1)) for each in np.meshgrid(numbers, numbers))
    orders, extremes = stream.array(np.zeros((4, x.size), np.bool_)), stream.array(np.zeros((4, x.size), dtype))
    stream.launch(compared, stream.array(x), stream.array(y), orders, extremes, grid=25, block=25)
    with np.errstate(invalid="ignore"):
        expected = [f(x, y) for f in (np.less, np.less_equal, np.greater, np.greater_equal)]
        chosen = [f(x, y) for f in (np.minimum, np.maximum, np.fmin, np.fmax)]
    assert (stream.numpy(orders) == expected).all()
    np.testing.assert_array_equal(stream.numpy(extremes), chosen)
