"""`cmath`, and NumPy's functions of complex numbers, in device code: values, branch cuts, infinities and NaN."""

import cmath
import itertools
import math
import re
import sys

import numpy as np
import pytest
from against_python import refused
from conftest import thinned
from test_complex import apply

import cuda_device as device

inf, nan = math.inf, math.nan
DTYPES = pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=["complex64", "complex128"])
UNIT = {np.complex64: 2.0**-24, np.complex128: 2.0**-53}

# How far off a result may be, as a distance in the plane, in units of the result's magnitude times half an epsilon. What is
# compared with is CPython's, computed in doubles, whose own error counts for complex128.
BOUNDS = {
    "sqrt": 4, "exp": 6, "log": 6, "log10": 6, "sinh": 6, "cosh": 6, "tanh": 12, "asinh": 8, "acosh": 8, "atanh": 6,
    "sin": 6, "cos": 6, "tan": 12, "asin": 8, "acos": 8, "atan": 6,
}  # fmt: skip
MAGNITUDES = {
    np.complex64: (
        0, 1e-42, 1e-30, 1e-10, 1e-3, 0.5, 0.99999, 1, 1.00001, 1.5, 2, 3, 20, 80, 88.5, 1e4, 1e10, 1e20, 3e38,
    ),
    np.complex128: (
        0, 1e-320, 1e-200, 1e-10, 1e-3, 0.5, 0.99999, 1, 1.00001, 2, 3, 20, 88, 709.5, 1e10, 1e154, 1e200, 1.7e308,
    ),
}  # fmt: skip


def points(dtype):
    """A grid of all magnitudes, with zeros of both signs, infinities and NaN; and some at random."""
    axis = [sign * magnitude for magnitude in MAGNITUDES[dtype] for sign in (1.0, -1.0)] + [inf, -inf, nan]
    generator = np.random.default_rng(7)
    scattered = 2 * generator.normal(size=1000) + 2j * generator.normal(size=1000)
    return np.array([*itertools.starmap(complex, itertools.product(axis, axis)), *scattered]).astype(dtype)


def alike(found, expected, signs=True):
    """Whether NaN, infinities and, if they count, the signs of zeros are the same; beside a NaN, a sign is arbitrary."""
    pairs = [(found.real, expected.real), (found.imag, expected.imag)]
    if any(math.isnan(a) != math.isnan(b) or math.isinf(a) != math.isinf(b) for a, b in pairs):
        return False
    if any(math.isinf(a) and a != b for a, b in pairs):
        return False
    zeros = [(a, b) for a, b in pairs if a == b == 0]
    return not signs or cmath.isnan(expected) or all(math.copysign(1, a) == math.copysign(1, b) for a, b in zeros)


def by_cpython(function, z):
    """The result in doubles; None where CPython raises an error."""
    if sys.version_info < (3, 14) and (z.real == 0 or z.imag == 0) and cmath.isnan(z):  # where it does not follow C
        if (function is cmath.tanh and z.real == 0) or (function is cmath.tan and z.imag == 0):
            return z
        if function is cmath.acosh and z.real == 0:
            return complex(nan, math.pi / 2)
    try:
        return function(z)
    except (ValueError, OverflowError):
        return None


@pytest.mark.parametrize("dtype, name", thinned(UNIT, BOUNDS, one_in=2))
def test_against_cpython(stream, dtype, name):
    function = getattr(cmath, name)
    z = points(dtype)
    found = apply(stream, function, z).tolist()
    tiny = float(np.finfo(dtype).tiny)
    compared = 0
    for point, result in zip(z.tolist(), found, strict=True):
        exact = by_cpython(function, point)
        if exact is None:
            continue
        with np.errstate(all="ignore"):
            expected = complex(dtype(exact))
        assert alike(result, expected, signs=not cmath.isnan(point)), (point, result, exact)
        if cmath.isfinite(expected):
            # Scaled, since a distance may overflow.
            distance, size = abs(result / 4 - exact / 4), max(abs(exact / 4), tiny)
            assert distance <= BOUNDS[name] * UNIT[dtype] * size, (point, result, exact)
        compared += 1
    assert compared > len(z) * 3 // 4


@DTYPES
def test_errors_of_cpython_are_infinities_and_nan(stream, dtype):
    """Where `cmath` raises, C's Annex G says what comes out."""
    z = np.array([0, complex(-0.0, -0.0), complex(inf, inf), complex(5, inf), complex(0, -inf)], dtype)
    logarithms = apply(stream, cmath.log, z[:2]).tolist()
    assert logarithms == [complex(-inf, 0), complex(-inf, -math.pi if dtype is np.complex128 else -np.float32(math.pi))]
    exponentials = apply(stream, cmath.exp, z).tolist()
    assert exponentials[2].real == inf and math.isnan(exponentials[2].imag)
    assert all(math.isnan(each.real) and math.isnan(each.imag) for each in exponentials[3:])
    ones = apply(stream, cmath.atanh, np.array([1, -1], dtype)).tolist()
    assert [each.real for each in ones] == [inf, -inf]
    large = apply(stream, cmath.exp, np.array([1e4, 1e4 + 1j], dtype)).tolist()
    assert large == [complex(inf, 0), complex(inf, inf)]


@DTYPES
def test_both_sides_of_the_branch_cuts(stream, dtype):
    """The sign of a zero says from where the cut is reached."""
    real = np.array([complex(x, y) for x in (-3.0, -1.5, 1.5, 3.0) for y in (0.0, -0.0)], dtype)
    imaginary = np.array([complex(x, y) for y in (-3.0, -1.5, 1.5, 3.0) for x in (0.0, -0.0)], dtype)
    for name, z in (
        ("sqrt", real), ("log", real), ("asin", real), ("acos", real), ("acosh", real), ("atanh", real),
        ("asinh", imaginary), ("atan", imaginary),
    ):  # fmt: skip
        function = getattr(cmath, name)
        found = apply(stream, function, z)
        np.testing.assert_allclose(found, [function(each) for each in z.tolist()], rtol=16 * UNIT[dtype], err_msg=name)


def test_parts_in_polar_coordinates(stream):
    @device.kernel
    def kernel(out, z, w, r):
        out[0] = cmath.phase(z)
        out[1], out[2] = cmath.polar(z)
        out[3] = cmath.phase(-1.0)
        out[4] = cmath.phase(w)
        out[5] = abs(cmath.rect(*cmath.polar(z)) - z)
        out[6] = cmath.rect(r, 1).real
        out[7] = cmath.rect(2, r).imag

    z = 3 - 4j
    out = stream.empty(8, np.float64)
    stream.launch(kernel, out, np.complex128(z), complex(-1.0, -0.0), np.float64(2), grid=1, block=1)
    expected = [cmath.phase(z), *cmath.polar(z), math.pi, -math.pi, 0, 2 * math.cos(1), 2 * math.sin(2)]
    np.testing.assert_allclose(stream.numpy(out), expected, rtol=1e-7, atol=1e-15)


def test_rect_of_zeros_infinities_and_nan(stream):
    axis = [0.0, -0.0, 2.0, -2.0, inf, -inf, nan]
    pairs = list(itertools.product(axis, axis))
    r, phi = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    found = apply(stream, cmath.rect, r, phi, dtype=np.complex128).tolist()
    for (a, b), result in zip(pairs, found, strict=True):
        try:
            expected = cmath.rect(a, b)
        except ValueError:
            continue
        assert alike(result, expected), (a, b, result)
        assert cmath.isnan(expected) or cmath.isclose(result, expected), (a, b, result)


@DTYPES
def test_kinds_of_numbers(stream, dtype):
    z = points(dtype)
    for function in (cmath.isnan, cmath.isinf, cmath.isfinite):
        assert apply(stream, function, z, dtype=bool).tolist() == [function(each) for each in z.tolist()]


def test_is_close(stream):
    pairs = [
        (1 + 1j, 1 + 1j), (1 + 1j, 1 + 1.0000000001j), (1 + 1j, 1 + 1.1j), (complex(inf, 1), complex(inf, 2)), (1e-12j, 0),
        (complex(inf, 1), complex(inf, 1)), (complex(nan, 1), complex(nan, 1)), (complex(inf, 1), 5),
    ]  # fmt: skip
    a, b = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    assert apply(stream, cmath.isclose, a, b, dtype=bool).tolist() == [cmath.isclose(x, y) for x, y in pairs]
    loose = apply(stream, lambda x, y: cmath.isclose(x, y, rel_tol=0.2, abs_tol=1e-6), a, b, dtype=bool)
    assert loose.tolist() == [cmath.isclose(x, y, rel_tol=0.2, abs_tol=1e-6) for x, y in pairs]


@DTYPES
def test_logarithms_to_a_base(stream, dtype):
    z = np.array([3 + 4j, -2, 0.5j, 1e-3 - 1j], dtype)
    for base in (2, 10.0, 1 + 1j):
        found = apply(stream, lambda z: cmath.log(z, base), z)  # noqa: B023
        np.testing.assert_allclose(found, [cmath.log(each, base) for each in z.tolist()], rtol=16 * UNIT[dtype])


@pytest.mark.parametrize(
    ("argument", "result"),
    [
        (device.float32, np.complex64), (device.float64, np.complex128), (device.float16, np.complex64),
        (device.int32, np.complex64), (device.int64, np.complex128), (device.uint8, np.complex64),
    ],
)  # fmt: skip
def test_real_arguments(stream, argument, result):
    @device.kernel
    def kernel(out, same, x):
        root = cmath.sqrt(x)
        out[0] = root
        out[1] = cmath.exp(x)
        same[0] = isinstance(root, result)

    out, same = stream.empty(2, result), stream.array(np.zeros(1, bool))
    stream.launch(kernel, out, same, argument(4), grid=1, block=1)
    assert stream.numpy(same)[0]
    np.testing.assert_allclose(stream.numpy(out), [2, math.exp(4)], rtol=4 * UNIT[result])


def test_constants(stream):
    @device.kernel
    def kernel(out, kinds, x):
        out[0] = cmath.pi + cmath.e * 1j
        out[1] = cmath.tau * cmath.sqrt(-1)
        out[2] = cmath.infj
        out[3] = cmath.nanj
        out[4] = cmath.exp(1j * math.pi) * x
        kinds[0] = cmath.inf == math.inf and cmath.nan != cmath.nan
        kinds[1] = type(cmath.sqrt(x)) is np.complex128 and type(cmath.sqrt(2)) is complex

    out, kinds = stream.empty(5, np.complex128), stream.array(np.zeros(2, bool))
    stream.launch(kernel, out, kinds, np.float64(2), grid=1, block=1)
    found = stream.numpy(out).tolist()
    assert found[:3] == [complex(math.pi, math.e), complex(0, math.tau), cmath.infj]
    assert found[3].real == 0 and math.isnan(found[3].imag)
    assert found[4] == 2 * cmath.exp(1j * math.pi)
    assert stream.numpy(kinds).tolist() == [True, True]


UFUNCS = (
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin",
    "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "square", "reciprocal", "sign", "conjugate", "negative", "positive",
)  # fmt: skip


@pytest.mark.parametrize("dtype, name", thinned(UNIT, UFUNCS, one_in=2))
def test_numpys_functions(stream, dtype, name):
    function = getattr(np, name)
    generator = np.random.default_rng(3)
    z = (generator.normal(size=64) + 1j * generator.normal(size=64)).astype(dtype)
    np.testing.assert_allclose(apply(stream, function, z), function(z.astype(np.complex128)), rtol=32 * UNIT[dtype])


@DTYPES
def test_numpys_functions_of_parts(stream, dtype):
    z = np.array([3 - 4j, 0, complex(nan, 1), complex(1, -inf), -2j], dtype)
    part = z.real.dtype
    for function in (np.abs, np.absolute, np.real, np.imag, np.angle):
        np.testing.assert_allclose(apply(stream, function, z, dtype=part), function(z), rtol=4 * UNIT[dtype])
    degrees = apply(stream, lambda z: np.angle(z, True), z, dtype=part)
    np.testing.assert_allclose(degrees, np.angle(z, True), rtol=8 * UNIT[dtype])
    for function in (np.isnan, np.isinf, np.isfinite, np.logical_not):
        assert apply(stream, function, z, dtype=bool).tolist() == function(z).tolist()
    for function in (np.add, np.subtract, np.multiply, np.divide, np.power):
        found = apply(stream, lambda z: function(z, 2 + 1j), z)[[0, 4]]  # noqa: B023
        np.testing.assert_allclose(found, function(z[[0, 4]].astype("c16"), 2 + 1j), rtol=32 * UNIT[dtype])
    real = np.array([-1.5, 2], part)
    for function in (np.real, np.imag, np.angle, np.conj):
        np.testing.assert_allclose(apply(stream, function, real), function(real), rtol=1e-6)


def test_small_arguments_are_not_cancelled(stream):
    z = np.array([1e-6 + 1e-6j, -1e-7 + 2e-6j, 1e-12j], np.complex64)
    np.testing.assert_allclose(apply(stream, np.expm1, z), np.expm1(z.astype("c16")), rtol=1e-6)
    np.testing.assert_allclose(apply(stream, np.log1p, z), np.log1p(z.astype("c16")), rtol=1e-6)


@pytest.mark.parametrize(("dtype", "huge"), [("c8", 1e30), ("c16", 1e200)])
def test_one_small_part_beside_a_huge_one_does_not_overflow(stream, dtype, huge):
    z = np.array([0.25 + huge * 1j, huge + 0.25j, -0.25 - huge * 1j], dtype)
    wide = np.log(np.abs(z).astype("f8")) + 1j * np.angle(z.astype("c16"))
    np.testing.assert_allclose(apply(stream, np.log1p, z), wide, rtol=1e-6 if dtype == "c8" else 1e-15)


@pytest.mark.parametrize("name", BOUNDS)
def test_complex64_computes_in_float32(name):
    """A double costs a consumer's GPU 64 times as much."""
    function = getattr(cmath, name)

    @device.kernel
    def kernel(x, y):
        y[0] = function(x[0]) ** 1.5 / x[1]

    text = device.compile(kernel, *[device.ArrayType(device.complex64, 1)] * 2, output="ptx").code
    # libdevice reduces large angles in integers, and scales the result by one product of doubles.
    assert not re.search(r"(add|sub|div|fma|sqrt)\.(rn\.)?f64", text)


def test_mistakes():
    array = device.ArrayType(np.complex64, 1)
    assert "index" in refused(lambda z: cmath.sqrt(z), array, match="cmath.sqrt takes a number, not array").help
    refused(lambda z: cmath.rect(z[0], 1), array, match="cmath.rect takes a real number, not complex64")
    refused(lambda z: cmath.log(z[0], 2, 3), array, match="log: too many positional arguments")
    refused(lambda z: np.hypot(z[0], 1), array, match="math.hypot takes a real number")
