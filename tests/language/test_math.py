"""Functions of `math` in every float type against a wider reference, with a bound in units in the last place for each."""

import contextlib
import math

import against_python
import ml_dtypes
import numpy as np
import pytest
import reference as ref
from conftest import poison
from ir_helpers import define
from scipy import special

import cuda_device as device

WIDE = np.longdouble


def by_python(function):
    """A reference by CPython, in doubles; its errors are what IEEE 754 has instead."""

    def one(*arguments):
        try:
            return function(*map(float, arguments))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, arguments[0])

    return np.vectorize(one, otypes=[np.float64])


def gamma(x):
    """Infinite at 0, with its sign; NaN at negative integers."""
    return np.where(x == 0, np.copysign(np.inf, x), by_python(math.gamma)(x))


def lgamma(x):
    """SciPy's, but for the smallest numbers, where it is the logarithm of their inverse."""
    x = np.asarray(x, np.float64)
    return np.where(np.isinf(x), np.inf, np.where(np.abs(x) < 1e-300, -np.log(np.abs(x)), special.gammaln(x)))


# Function: a reference in wider arithmetic, and the bounds for float32 and float64. They are those of CUDA's documentation
# (C++ Programming Guide, "Mathematical Functions"), which glibc keeps, too, but for cbrt (4) and log10 (2). float16 computes
# in float32: 1.
UNARY = {
    "acos": (np.arccos, 2, 2), "acosh": (np.arccosh, 4, 3), "asin": (np.arcsin, 2, 2), "asinh": (np.arcsinh, 3, 3),
    "atan": (np.arctan, 2, 2), "atanh": (np.arctanh, 3, 2), "cbrt": (np.cbrt, 1, 4), "cos": (np.cos, 2, 2),
    "cosh": (np.cosh, 2, 2), "erf": (by_python(math.erf), 2, 2), "erfc": (by_python(math.erfc), 4, 5), "exp": (np.exp, 2, 1),
    "exp2": (np.exp2, 2, 1), "expm1": (np.expm1, 1, 1), "fabs": (np.fabs, 0, 0), "gamma": (gamma, 5, 10),
    "lgamma": (lgamma, 6, 4), "log": (np.log, 1, 1), "log10": (np.log10, 2, 2), "log1p": (np.log1p, 1, 1),
    "log2": (np.log2, 1, 1), "sin": (np.sin, 2, 2), "sinh": (np.sinh, 3, 2), "sqrt": (np.sqrt, 0, 0), "tan": (np.tan, 4, 2),
    "tanh": (np.tanh, 2, 2), "degrees": (np.degrees, 2, 2), "radians": (np.radians, 2, 2),
}  # fmt: skip
BINARY = {
    "atan2": (np.arctan2, 3, 2), "copysign": (np.copysign, 0, 0), "fmod": (np.fmod, 0, 0), "hypot": (np.hypot, 3, 2),
    "log": (lambda x, base: np.log(x) / np.log(base), 3, 3), "nextafter": (None, 0, 0), "pow": (np.power, 4, 2),
    "remainder": (by_python(math.remainder), 0, 0),
}  # fmt: skip
FUNCTIONS = tuple(getattr(math, name) for name in UNARY)
TO_INTEGER = ("floor", "ceil", "trunc")
TESTS = ("isnan", "isinf", "isfinite")
# The references of these are doubles themselves, and may be as wrong as this.
DOUBLE_REFERENCES = {"erf": 1, "erfc": 1, "gamma": 10, "lgamma": 20}


def samples(name, rng, count=600):
    """Edge values, numbers of every size, numbers near those where functions change, and random bits."""
    dtype = np.dtype(name)
    info = np.finfo(dtype)
    low, high = math.log2(float(info.smallest_subnormal)), math.log2(float(info.max))
    sizes = np.exp2(rng.uniform(low, high, count)) * rng.choice([-1, 1], count)
    near = np.concatenate([rng.uniform(-scale, scale, count) for scale in (1.0, 1.5, 10.0, 40.0, 200.0)])
    special_values = [n / 2 for n in range(-12, 13)] + [math.pi * n / 4 for n in range(-8, 9)] + [math.e, 1 / math.e]
    special_values += [1 + s * float(info.eps) * k for s in (-1, 1) for k in (1, 2, 10)] + [
        float(info.max) / 2,
        700.0,
        88.0,
    ]
    raw = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    with np.errstate(all="ignore"):
        values = np.concatenate([ref.edges(name), sizes, near, special_values, raw]).astype(dtype)
    return values


def ulp_errors(name, got, exact):
    """The errors of `got` in units in the last place of `exact`; where one is NaN or infinite the other must be, too."""
    dtype = np.dtype(name).type
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        finite = np.isfinite(rounded) & np.isfinite(got)
        unit = np.spacing(np.where(finite, np.abs(rounded), dtype(1)))
        # Next to a power of two a unit below is half of one above.
        errors = np.abs(np.where(finite, got.astype(WIDE) - exact, 0)) / unit.astype(WIDE)
    same = (rounded == got) | (np.isnan(rounded) & np.isnan(got))
    at_the_end = np.isinf(rounded) != np.isinf(got)  # the greatest number may be what an overflow nearly was
    greatest = np.finfo(dtype).max
    at_the_end &= (np.abs(got) == greatest) | (np.abs(rounded) == greatest)
    errors = np.where(finite, errors, np.where(same | at_the_end, 0, np.inf))
    zeros = (got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded))
    return np.where(zeros, np.inf, errors).astype(np.float64)


@device.kernel
def unary(x, out, integers, tests):
    i = device.tid(1)
    if i < len(x):
        v = x[i]
        k = 0
        for function in FUNCTIONS:
            out[k, i] = function(v)
            k += 1
        k = 0
        for function in (math.floor, math.ceil, math.trunc):
            integers[k, i] = function(v)
            k += 1
        k = 0
        for function in (math.isnan, math.isinf, math.isfinite):
            tests[k, i] = function(v)
            k += 1


def check(stream, name, functions, got, arguments, seen):
    wrong = []
    wide = [argument.astype(WIDE) for argument in arguments]
    for values, (function, (reference, *bounds)) in zip(got, functions.items(), strict=True):
        with np.errstate(all="ignore"):
            exact = np.asarray(reference(*(wide if function not in DOUBLE_REFERENCES else arguments)), WIDE)
        bound = {"float16": min(1, bounds[0]), "float32": bounds[0], "float64": bounds[1]}[name]
        if function in ("degrees", "radians", "log") and name == "float16" and bound:
            bound = bounds[0]
        allowed = np.full(exact.shape, float(bound) or 0.5)
        if bound and stream.kind == "gpu":
            allowed += 0.5  # CUDA's bounds are distances from the correctly rounded result
        if name == "float64":
            allowed += DOUBLE_REFERENCES.get(function, 0)
        errors = ulp_errors(name, values, exact)
        if function == "copysign" and name == "float16" and stream.kind == "gpu":
            errors[np.isnan(arguments[1])] = 0  # whose conversions give NaN no sign
        if function == "gamma":  # where it underflows it has no useful sign
            errors[(values == 0) & (exact.astype(name) == 0)] = 0
        if function == "lgamma":  # near its zeros only the absolute error has a bound
            near = ((arguments[0] > -10.1) & (arguments[0] < -2) | (np.abs(exact) < 0.1)) & np.isfinite(exact)
            unit = 64 * float(np.finfo(name).eps) * np.maximum(1, np.abs(exact))
            with np.errstate(all="ignore"):
                errors = np.where(near, np.abs(values - exact) / unit, errors)
        for n in np.flatnonzero(~(errors <= allowed))[:3]:
            shown = ", ".join(repr(float(argument[n])) for argument in arguments)
            wrong.append(
                f"{name} {function}({shown}) is {float(values[n])!r}, not {float(exact[n])!r}: {errors[n]:.2f} ulp"
            )
        seen.append(int(np.isfinite(values).sum()))
    return wrong


@pytest.mark.parametrize("name", ref.FLOATS)
def test_functions_of_one_float(stream, name):
    x = samples(name, np.random.default_rng(1))
    out, integers = stream.empty((len(UNARY), len(x)), name), stream.empty((3, len(x)), np.int32)
    tests = stream.empty((3, len(x)), np.uint8)
    stream.launch(unary, stream.array(x), out, integers, tests, grid=-(-len(x) // 128), block=128)
    seen = []
    wrong = check(stream, name, UNARY, stream.numpy(out), [x], seen)
    assert not wrong, "\n".join(wrong)
    assert min(seen) > 300  # each function was tried where it is finite
    inside = np.abs(x) < 2.0**31 - 1
    for row, function in zip(stream.numpy(integers), TO_INTEGER, strict=True):
        assert row[inside].tolist() == [getattr(math, function)(v) for v in x[inside].tolist()], function
    for row, function in zip(stream.numpy(tests), TESTS, strict=True):
        assert row.tolist() == [int(getattr(math, function)(v)) for v in x.tolist()], function


@device.kernel
def binary(x, y, out):
    i = device.tid(1)
    if i < len(x):
        a, b = x[i], y[i]
        out[0, i] = math.atan2(a, b)
        out[1, i] = math.copysign(a, b)
        out[2, i] = math.fmod(a, b)
        out[3, i] = math.hypot(a, b)
        out[4, i] = math.log(a, b)
        out[5, i] = math.nextafter(a, b) if x.dtype != device.float16 else a
        out[6, i] = math.pow(a, b)
        out[7, i] = math.remainder(a, b)


@pytest.mark.parametrize("name", ref.FLOATS)
def test_functions_of_two_floats(stream, name):
    rng = np.random.default_rng(2)
    edges = np.array(ref.edges(name), name)
    x = np.concatenate(
        [np.repeat(edges, len(edges)), rng.permutation(samples(name, rng, 200)), rng.uniform(0, 30, 500)]
    )
    y = np.concatenate([np.tile(edges, len(edges)), rng.permutation(samples(name, rng, 200)), rng.uniform(-5, 5, 500)])
    x, y = x.astype(name), y.astype(name)
    functions = {**BINARY, "nextafter": (lambda a, b: np.nextafter(x, y) if name != "float16" else x, 0, 0)}
    out = stream.run(binary, x, y, poison((len(functions), len(x)), name), grid=-(-len(x) // 128), block=128)[-1]
    seen = []
    wrong = check(stream, name, functions, out, [x, y], seen)
    assert not wrong, "\n".join(wrong)
    assert min(seen) > 300


@device.kernel
def roots_and_quotients(x, y, roots, quotients):
    i = device.tid(1)
    if i < len(x):
        roots[i] = math.sqrt(x[i])
        quotients[i] = x[i] / y[i]


@pytest.mark.parametrize("name", ref.FLOATS)
def test_square_roots_and_quotients_are_correctly_rounded(stream, name):
    rng = np.random.default_rng(3)
    dtype = np.dtype(name)
    count = 65536 if name == "float16" else 20000
    x, y = (rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype) for _ in range(2))
    if name == "float16":
        x = np.arange(65536, dtype=np.uint16).view(np.float16)
    roots, quotients = stream.empty(count, name), stream.empty(count, name)
    stream.launch(
        roots_and_quotients, stream.array(x), stream.array(y), roots, quotients, grid=-(-count // 256), block=256
    )
    with np.errstate(all="ignore"):
        for got, right in ((stream.numpy(roots), np.sqrt(x)), (stream.numpy(quotients), x / y)):
            assert np.array_equal(got, right, equal_nan=True)
            assert np.array_equal(np.signbit(got)[~np.isnan(right)], np.signbit(right)[~np.isnan(right)])


# Arguments of other types


@device.kernel
def of_integers(x, out):
    i = device.tid(1)
    if i < len(x):
        out[0, i] = math.sin(x[i])
        out[1, i] = math.sqrt(x[i])
        out[2, i] = math.atan2(x[i], 3)
        out[3, i] = math.log(x[i], 2)
        out[4, i] = math.hypot(x[i], x[i])


@pytest.mark.parametrize("name", ["bool", *ref.SIGNED, *ref.UNSIGNED])
def test_integers_compute_in_the_float_they_convert_to(stream, name):
    real = "float64" if ref.bits(name) == 64 else "float32"
    x = np.array(ref.edges(name), name)
    out = stream.run(of_integers, x, poison((5, len(x)), real), block=64)[-1]
    functions = {
        "sin": UNARY["sin"], "sqrt": UNARY["sqrt"], "atan2": (lambda v: np.arctan2(v, WIDE(3)), 3, 2),
        "log": (lambda v: np.log(v) / np.log(WIDE(2)), 3, 3), "hypot": (lambda v: np.hypot(v, v), 3, 2),
    }  # fmt: skip
    wrong = check(stream, real, functions, out, [x.astype(real)], [])
    assert not wrong, "\n".join(wrong)


@device.kernel
def narrow_and_wide(x, y, results):
    i, j = device.block_idx.x, device.thread_idx.x
    a, b = x[i], y[j]
    powers, angles, lengths, values = results
    powers[i, j], angles[i, j], lengths[i, j] = a**b, math.atan2(a, b), math.hypot(a, b)
    for k, function in enumerate(FUNCTIONS):
        values[k, i] = function(a)


@pytest.mark.parametrize("dtype", [device.bfloat16, device.float8e4m3, device.float8e5m2])
def test_narrow_floats_compute_in_float32(stream, dtype):
    """Their functions are those of float32, whose results are rounded. Degrees and radians are products in their own type."""
    x = np.array([0.0, -0.0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, -0.5, -1, -2.5, math.inf, math.nan], dtype)
    shapes = [(len(x), len(x))] * 3 + [(len(FUNCTIONS), len(x))]
    found = []
    for type in (dtype, np.float32):
        given = stream.array(x.astype(type))
        results = tuple(stream.empty(shape, type) for shape in shapes)
        stream.launch(narrow_and_wide, given, given, results, grid=len(x), block=len(x))
        found.append([stream.numpy(result).astype(dtype).astype(np.float32) for result in results])
    for narrow, wide in zip(*found, strict=True):
        np.testing.assert_array_equal(narrow[:-2], wide[:-2])
        np.testing.assert_allclose(narrow[-2:], wide[-2:], rtol=float(ml_dtypes.finfo(dtype).eps))


def test_types_of_results():
    @device.func
    def function(i1, i8, u8, f2, f4, f8, flag, number, real, x):
        a = math.sin(i1), math.sin(i8), math.exp(u8), math.cos(f2), math.cos(f4), math.cos(f8), math.sin(flag)
        b = math.sin(number), math.sin(real), math.sqrt(len(x)), math.atan2(f4, f8), math.pow(f2, 2), math.pow(2.5, f8)
        c = math.floor(f4), math.ceil(f8), math.trunc(f2), math.floor(i8), math.ceil(u8), math.floor(len(x))
        d = (
            math.isnan(f2),
            math.isfinite(i8),
            math.degrees(f8),
            math.log(f4, 10),
            math.hypot(f4, 1),
            math.copysign(f2, -1.0),
        )
        return a, b, c, d

    names = "int8 int64 uint64 float16 float32 float64".split()
    arguments = [getattr(device, name) for name in names] + [bool, int, float, device.ArrayType(device.int8, 1)]
    text = str(device.compile(function, *arguments, output="ir"))
    a = "tuple<float32, float64, float64, float16, float32, float64, float>"
    b = "tuple<float, float, float, float64, float16, float64>"
    c = "tuple<int, int, int, int64, uint64, index>"
    d = "tuple<bool, bool, float64, float32, float32, float16>"
    assert f" -> tuple<{a}, {b}, {c}, {d}> typed" in text


def test_constants_are_computed_in_double(stream):
    @device.kernel
    def kernel(one, out):
        out[0] = math.sin(1) * one[0]
        out[1] = math.pi + one[0] - 1
        out[2] = math.log(8, 2) * one[0]
        out[3] = math.sqrt(2) * math.e * one[0]
        out[4] = math.floor(-2.5) + math.ceil(2.5) + math.trunc(-2.5)
        out[5] = math.sqrt(-1.0)
        out[6] = math.log(0.0)
        out[7] = math.isnan(math.nan) + math.isinf(-math.inf)
        out[8] = math.exp(1000)

    out = stream.empty(9, np.float64)
    stream.launch(kernel, stream.array(np.array([1.0])), out, grid=1, block=1)
    got = stream.numpy(out).tolist()
    assert got[:5] == [math.sin(1), math.pi, 3.0, math.sqrt(2) * math.e, -3 + 3 - 2]
    assert math.isnan(got[5]) and got[6] == -math.inf and got[7] == 2 and got[8] == math.inf


@device.kernel
def of_whole_numbers(x, y, out):
    i = device.tid(1)
    if i < len(x):
        a, b = x[i], y[i]
        out[0, i] = math.gcd(a, b)
        out[1, i] = math.lcm(a, b)
        out[2, i] = math.isqrt(abs(a))
        out[3, i] = math.factorial(abs(b) % 13)
        out[4, i] = math.comb(a, b) if a >= 0 and b >= 0 else 0
        out[5, i] = math.perm(a, b) if a >= 0 and b >= 0 else 0
        out[6, i] = math.gcd(a, b, a + b)
        out[7, i] = math.comb(33, abs(b) % 34)


@pytest.mark.parametrize("name", ["int32", "int64"])
def test_functions_of_integers(stream, name):
    numbers = [*range(-6, 34), 1000, 65535, 2**31 - 1, 46340, 12345]
    pairs = [(a, b) for a in numbers for b in (*range(-2, 20), 33, 2**16, 46341)]
    low, high = ref.limits(name)

    def or_zero(function, *arguments):
        """What CPython gives; 0 for negative numbers; None where the type has no room for it or for a step on the way."""
        value = function(*arguments) if min(arguments) >= 0 else 0
        return value if low <= value <= high and abs(value) * max(map(abs, arguments)) <= 2**31 - 1 else None

    def expected(a, b):
        yield math.gcd(a, b)
        yield math.lcm(a, b) if math.lcm(a, b) <= high else None
        yield math.isqrt(abs(a))
        yield math.factorial(abs(b) % 13)
        yield or_zero(math.comb, a, b)
        yield or_zero(math.perm, a, b)
        yield math.gcd(a, b, a + b) if a + b <= high else None
        yield math.comb(33, abs(b) % 34)  # all have room in 32 bits

    x, y = (np.array(column, name) for column in zip(*pairs, strict=True))
    out = stream.run(of_whole_numbers, x, y, poison((8, len(pairs)), name), grid=-(-len(pairs) // 128), block=128)[-1]
    names = ("gcd", "lcm", "isqrt", "factorial", "comb", "perm", "gcd of three", "comb of 33")
    for n, (a, b) in enumerate(pairs):
        for what, got, right in zip(names, out[:, n].tolist(), expected(a, b), strict=True):
            assert right is None or got == right, f"{what}({a}, {b})"


@pytest.mark.parametrize("name", ref.SIGNED)
def test_divisors_of_the_least_integer(stream, name):
    @device.kernel
    def kernel(x, out):
        for k in range(len(x)):
            out[k] = math.gcd(x[0], x[k])

    low = ref.limits(name)[0]
    values = [low, 1, -1, 16, -48, low + 1, 7]
    out = stream.empty(len(values), name)
    stream.launch(kernel, stream.array(np.array(values, name)), out, grid=1, block=1)
    assert stream.numpy(out).tolist()[1:] == [math.gcd(low, value) for value in values[1:]]


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
)
def test_frexp_of_every_exponent(stream, dtype):
    @device.kernel
    def kernel(x, mantissas, exponents):
        i = device.tid(1)
        if i < len(x):
            mantissas[i], exponents[i] = math.frexp(x[i])

    info = ml_dtypes.finfo(dtype)
    powers = np.ldexp(1.25, np.arange(info.minexp - info.nmant, info.maxexp)).astype(dtype)
    x = np.concatenate([powers, -powers])
    mantissas, exponents = stream.empty(len(x), dtype), stream.empty(len(x), np.int32)
    stream.launch(kernel, stream.array(x), mantissas, exponents, grid=-(-len(x) // 128), block=128)
    expected = np.frexp(x.astype(np.float64))
    assert np.array_equal(stream.numpy(mantissas).astype(np.float64), expected[0]) and np.array_equal(
        stream.numpy(exponents), expected[1]
    )


def test_every_function_of_math_is_there_or_refused():
    arguments = {"float64": device.float64, "int32": device.int32, "pair": tuple[device.float64, device.float64]}
    counts = 1, 2, 3
    functions = [getattr(math, name) for name in dir(math) if not name.startswith("_")]
    for function in filter(callable, functions):
        for argument in arguments.values():
            for count in counts:
                # A CompileError says what is wrong; anything else is a bug.
                with contextlib.suppress(device.CompileError):
                    device.compile(called(function, count), argument, output="ir")


def called(function, count):
    @device.func
    def uses(x):
        if count == 1:
            return function(x)
        return function(x, x) if count == 2 else function(x, x, x)

    return uses


def test_nextafter_of_float16_is_right_or_refused(stream):
    @device.kernel
    def kernel(x, out):
        i = device.tid(1)
        out[i] = math.nextafter(x[i], x[0])

    x = np.array([1.0, 0.0, -0.0, 2.0, 65504, -1], np.float16)
    out = stream.empty(len(x), np.float16)
    try:
        stream.launch(kernel, stream.array(x), out, grid=1, block=len(x))
    except device.CompileError as error:
        assert "nextafter" in error.reason and error.help
    else:
        assert stream.numpy(out).tolist() == np.nextafter(x, x[0]).tolist()


def of_constants(i, x):
    total = math.factorial(300) // math.factorial(299) + math.comb(300, 150) % 7 + math.factorial(25) % 1000003
    total += math.perm(40, 20) % 1009 + math.gcd(2**200, 6**100) % 1009 + math.comb(10**6, 999998) % 10007
    return total + math.lcm(*range(1, 60)) % 1009 + math.isqrt(10**60) % 1009 + math.factorial(True) * i


def test_functions_of_constant_integers_are_exact(stream):
    against_python.check(stream, of_constants, np.arange(8.0))


@pytest.mark.parametrize(
    "text", ["math.factorial(10**9)", "math.perm(10**6)", "math.comb(10**6, 10**5)", "math.lcm(2**5000, 3)"]
)
def test_constants_of_thousands_of_bits_are_refused(text):
    against_python.refused(
        define(f"def f(n):\n    return {text} % 7 + n", "f", math=math), int, match="thousands of bits"
    )
