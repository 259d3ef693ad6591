"""Numeric intrinsics: every integer and float type, device code against the host, the host against exact arithmetic."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from conftest import poison

import cuda_device as device

INTEGERS = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")]
FLOATS = ["float16", "float32", "float64"]
FORMATS = {"float16": np.uint16, "float32": np.uint32, "float64": np.uint64}


def integers(name):
    """Edges, single bits, and random numbers of an integer type."""
    info = np.iinfo(name)
    bits = info.bits
    patterns = {0, 1, 2, (1 << bits) - 1, (1 << bits) - 2, 1 << (bits - 1)} | {1 << i for i in range(bits)}
    generator = random.Random(bits)
    patterns |= {generator.getrandbits(bits) >> generator.randrange(bits) for _ in range(150)}
    unsigned = np.array(sorted(patterns), f"uint{bits}")
    return unsigned.view(name)


def pattern(value):
    return int(value) & ((1 << 8 * value.dtype.itemsize) - 1)


@device.kernel
def bits_of(x, count, reverse, zeros, first):
    i = device.tid(1)
    if i < len(x):
        count[i] = device.popc(x[i])
        reverse[i] = device.brev(x[i])
        zeros[i] = device.clz(x[i])
        first[i] = device.ffs(x[i])


@pytest.mark.parametrize("name", INTEGERS)
def test_bits(stream, name):
    x = integers(name)
    count, zeros, first = (stream.empty(len(x), np.int32) for _ in range(3))
    reverse = stream.empty(len(x), name)
    stream.launch(bits_of, stream.array(x), count, reverse, zeros, first, grid=4, block=128)
    width = np.iinfo(name).bits
    results = zip(x, *map(stream.numpy, (count, reverse, zeros, first)), strict=True)
    for value, set_bits, reversed_bits, leading, lowest in results:
        text = f"{pattern(value):0{width}b}"
        assert set_bits == text.count("1") == device.popc(value)
        assert pattern(reversed_bits) == int(text[::-1], 2) == pattern(device.brev(value))
        assert leading == len(text) - len(text.lstrip("0")) == device.clz(value)
        right = 0 if "1" not in text else len(text) - text.rindex("1")
        assert lowest == right == device.ffs(value)
        assert type(device.brev(value)) is type(value)
        assert {type(f(value)) for f in (device.popc, device.clz, device.ffs)} == {np.int32}


def test_a_python_int_has_32_bits_on_the_host():
    assert device.popc(-1) == 32
    assert device.clz(1) == 31
    assert device.ffs(-8) == 4
    assert device.brev(1) == -(1 << 31)
    assert type(device.brev(1)) is int
    for function in (device.popc, device.brev, device.clz, device.ffs):
        with pytest.raises(OverflowError, match="int64"):
            function(1 << 31)
        with pytest.raises(OverflowError, match="uint64"):
            function(1 << 63)


def ir(source, *arguments):
    return str(device.compile(source, *arguments, output="ir"))


@pytest.mark.parametrize("name", INTEGERS)
def test_types_of_results(name):
    @device.func
    def f(x):
        return device.popc(x), device.brev(x), device.clz(x), device.ffs(x)

    assert f"-> tuple<int32, {name}, int32, int32> typed" in ir(f, getattr(device, name))
    assert "-> tuple<int32, int, int32, int32> typed" in ir(f, int)


def test_ptx_has_the_instructions():
    @device.kernel
    def k(x, out):
        out[0] = device.popc(x[0]) + device.clz(x[1]) + device.ffs(x[2])
        x[3] = device.brev(x[3])

    for name in INTEGERS:
        width = "b64" if "64" in name else "b32"
        arguments = device.ArrayType(name, 1), device.ArrayType(np.int32, 1)
        text = str(device.compile(k, *arguments, output="ptx"))
        assert text.count(f"brev.{width}") in (1, 2), text
        assert f"popc.{width}" in text
        assert f"clz.{width}" in text


# Floats


def exact(a, b, c, name):
    """a * b + c of finite numbers, rounded once: found by searching the format for the two nearest numbers."""
    right = Fraction(a) * Fraction(b) + Fraction(c)
    with np.errstate(all="ignore"):
        guess = np.array([float(right)]).astype(name)[0]
        if not np.isfinite(guess):
            guess = np.copysign(np.finfo(name).max, guess)
    up, down = np.nextafter(guess, np.array(np.inf, name)), np.nextafter(guess, np.array(-np.inf, name))

    def distance(candidate):
        last = int(np.array(candidate).view(FORMATS[name])) & 1
        return abs(Fraction(float(candidate)) - right), last

    return min((x for x in (down, guess, up) if np.isfinite(x)), key=distance)


def triples(name):
    """Numbers whose products and sums are near the middle between two numbers, and the ends of the format."""
    generator = random.Random(5)
    info = np.finfo(name)
    found = []
    for _ in range(400):
        a, b = (np.array(1 + generator.random(), name) for _ in range(2))
        product = Fraction(float(a)) * Fraction(float(b))
        kind = generator.randrange(4)
        if kind == 0:
            c = np.array(-float(product), name)
        elif kind == 1:
            c = np.array(generator.choice((-1, 1)) * 2.0 ** generator.randrange(-info.nmant - 2, info.nmant + 2), name)
        elif kind == 2:
            c = np.array(generator.uniform(-4, 4), name)
        else:
            scale = 2.0 ** generator.randrange(int(info.minexp) // 2 - 2, int(info.maxexp) // 2 - 1)
            a, c = np.array(float(a) * scale, name), np.array(generator.random() * float(info.smallest_subnormal), name)
        found.append((a, b, c))
    # A product in the middle between two numbers, which an addend far below decides: what rounding twice gets wrong.
    one, ulp = Fraction(1), Fraction(2) ** -info.nmant
    for sign in (-1, 1):
        for small in (info.smallest_subnormal, info.tiny):
            a, b = one + ulp * 2 ** (info.nmant // 2), one + ulp * 2 ** (info.nmant - info.nmant // 2 - 1)
            found.append(tuple(np.array(float(x), name) for x in (a, b, sign * Fraction(float(small)))))
    return np.array(found, name)


@device.kernel
def fused(a, b, c, out):
    i = device.tid(1)
    if i < len(out):
        out[i] = device.fma(a[i], b[i], c[i])


@pytest.mark.parametrize("name", FLOATS)
def test_fma_is_rounded_once(stream, name):
    a, b, c = triples(name).T
    out = stream.empty(len(a), name)
    stream.launch(fused, *(stream.array(np.ascontiguousarray(x)) for x in (a, b, c)), out, grid=4, block=128)
    twice = 0
    for x, y, z, got in zip(a, b, c, stream.numpy(out), strict=True):
        right = exact(float(x), float(y), float(z), name)
        host = device.fma(x, y, z)
        assert (got, host) == (right, right), (x, y, z)
        assert type(host) is np.dtype(name).type
        twice += right != x * y + z
    assert twice > 20  # the test would see it


def test_fma_of_the_specials(stream):
    special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 6e4, -6e4]
    rows = np.array([(x, y, z) for x in special for y in special for z in special])
    for name in FLOATS:
        a, b, c = np.ascontiguousarray(rows.T).astype(name)
        out = stream.empty(len(a), name)
        stream.launch(fused, *map(stream.array, (a, b, c)), out, grid=8, block=128)
        for x, y, z, got in zip(a, b, c, stream.numpy(out), strict=True):
            host = device.fma(x, y, z)
            wide = np.float64(x) * np.float64(y) + np.float64(z)  # exact for these numbers
            with np.errstate(all="ignore"):
                right = np.dtype(name).type(wide)
            for each in (got, host):
                assert (np.isnan(each) and np.isnan(right)) or (
                    each == right and np.signbit(each) == np.signbit(right)
                ), (name, x, y, z, each)


@device.kernel
def roots(x, out):
    i = device.tid(1)
    if i < len(x):
        out[i] = device.cbrt(x[i])


@pytest.mark.parametrize("name", FLOATS)
def test_cbrt(stream, name):
    top = 30 if name == "float16" else 1000
    numbers = [(i / 7) ** 3 for i in range(-top // 2, top // 2)]
    x = np.array([*numbers, 0.0, -0.0, math.inf, -math.inf, math.nan, float(np.finfo(name).tiny)], name)
    out = stream.run(roots, x, poison(len(x), name), grid=8, block=128)[-1]
    right = np.cbrt(x.astype(np.longdouble))
    for got in (out, np.array([device.cbrt(each) for each in x])):
        assert got.dtype == np.dtype(name)
        assert np.array_equal(np.isnan(got), np.isnan(right))
        assert np.array_equal(np.signbit(got), np.signbit(x))
        finite = np.isfinite(right)
        assert np.array_equal(got[~finite & ~np.isnan(right)], right[~finite & ~np.isnan(right)])
        error = np.abs(got[finite] - right[finite]) / np.spacing(np.abs(got[finite]))
        assert error.max() <= 4
    assert device.cbrt(-8.0) == -2
    assert type(device.cbrt(27.0)) is float
    for scalar in (np.float32, np.float64, float):
        assert [device.cbrt(scalar(n**3)) for n in range(100)] == [*range(100)]


@pytest.mark.parametrize("name", FLOATS)
def test_rsqrt(stream, name):
    @device.kernel
    def k(x, out):
        i = device.tid(1)
        if i < len(x):
            out[i] = device.rsqrt(x[i])

    x = np.array([*((i / 7) ** 3 for i in range(1, 31)), 0.0, math.inf, -1.0, math.nan], name)
    out = stream.empty(len(x), name)
    stream.launch(k, stream.array(x), out, grid=1, block=64)
    right = 1 / np.sqrt(x.astype(np.longdouble))
    for got in (stream.numpy(out), np.array([device.rsqrt(each) for each in x])):
        assert got.dtype == np.dtype(name)
        assert np.array_equal(got[30:], right[30:].astype(name), equal_nan=True)
        assert (np.abs(got[:30] - right[:30]) / np.spacing(got[:30])).max() <= 2
    assert device.rsqrt(0.25) == 2.0
    text = device.compile(k, x, x, output="ptx").code
    assert ("rsqrt.approx.f32" in text) == (name != "float64")


def test_fma_on_the_host_may_be_larger_than_any_number():
    assert device.fma(1e200, 1e200, 0.0) == device.fma(np.float32(3e38), np.float32(2), np.float32(1)) == np.inf
    assert device.fma(-1e300, 1e300, 1e300) == -np.inf
    assert np.signbit(device.fma(-1e-300, 1e-300, 0.0)) and device.fma(1e-300, 1e-300, 0.0) == 0


def test_types_of_fma():
    @device.func
    def f(x, y):
        return device.fma(x, y, x), device.fma(x, 2.5, x), device.fma(2.5, 0.5, y), device.fma(2.0, 0.5, 1.0)

    for a in FLOATS:
        for b in FLOATS:
            both = max(a, b, key=FLOATS.index)
            text = ir(f, getattr(device, a), getattr(device, b))
            assert f"-> tuple<{both}, {a}, {b}, float> typed" in text
            x, y = np.dtype(a).type(1.5), np.dtype(b).type(0.25)
            assert [type(z).__name__ for z in f(x, y)] == [both, a, b, "float"]


def test_wrong_types_on_the_host():
    for function in (device.popc, device.brev, device.clz, device.ffs):
        for wrong in (1.5, np.float32(1), True, np.True_, "1", None):
            with pytest.raises(TypeError, match=f"{function.__name__} takes an integer"):
                function(wrong)
    for wrong in (1, np.int32(1), True, "1"):
        with pytest.raises(TypeError, match="cbrt takes floating point numbers"):
            device.cbrt(wrong)
        with pytest.raises(TypeError, match="rsqrt takes floating point numbers"):
            device.rsqrt(wrong)
        with pytest.raises(TypeError, match="fma takes floating point numbers"):
            device.fma(1.0, wrong, 1.0)


def test_wrong_types_in_device_code():
    @device.func
    def count(x):
        return device.popc(x)

    @device.func
    def multiply(x):
        return device.fma(x, 2.0, 1.0)

    def refusal(function, *arguments):
        with pytest.raises(device.CompileError) as caught:
            ir(function, *arguments)
        return str(caught.value)

    assert "popc takes an integer, not float32" in refusal(count, device.float32)
    assert "popc takes an integer, not bool" in refusal(count, bool)
    assert "fma takes floating point numbers, not int32" in refusal(multiply, device.int32)
    assert "popc takes a number, not array" in refusal(count, device.ArrayType(np.int32, 1))


def test_constants_are_exact_on_the_way():
    @device.func
    def f(x):
        return x + device.fma(0.1, 10.0, -1.0), x + device.popc(0x7FFFFFFF), x + device.brev(2)

    text = ir(f, device.float64)
    assert f"value={device.fma(0.1, 10.0, -1.0)!r}" in text
    assert "value=31" in text
    assert device.fma(0.1, 10.0, -1.0) != 0.1 * 10.0 - 1.0

    @device.func
    def wide():
        return device.popc(0xFFFFFFFF)

    with pytest.raises(device.CompileError, match="the constant 4294967295 does not fit"):
        ir(wide)
