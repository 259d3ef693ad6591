"""The floats of 8 bits: every value, every pair of values, every conversion, against exact rounding by search."""

import math
import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import StreamUnderTest, poison, thinned
from ir_helpers import define

import cuda_device as device

FLOATS8 = (device.float8e4m3, device.float8e5m2)
OTHERS = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, ml_dtypes.bfloat16,
    np.float32, np.float64,
)  # fmt: skip
each_float8 = pytest.mark.parametrize("dtype", FLOATS8)
each_other = pytest.mark.parametrize("other", OTHERS)
TOO_LARGE = {device.float8e4m3: 0x7F, device.float8e5m2: 0x7C}
MANTISSA = {device.float8e4m3: 3, device.float8e5m2: 2}


def every(dtype: Any) -> np.ndarray[Any, Any]:
    """All 256 values."""
    return np.arange(256, dtype=np.uint8).view(dtype)


def ladder(dtype: Any) -> np.ndarray[Any, Any]:
    """The finite values that are not negative, by their bits, and what the next one would be: from the format's definition."""
    mantissa = MANTISSA[dtype]
    bias = 2 ** (6 - mantissa) - 1
    steps = []
    for code in range(TOO_LARGE[dtype] + 1):
        exponent, fraction = divmod(code, 1 << mantissa)
        whole = fraction + (exponent > 0) * (1 << mantissa)
        steps.append(math.ldexp(whole, max(exponent, 1) - bias - mantissa))
    return np.array(steps)


def rounded(values: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """The bits of the nearest values, ties to the even one: found by search among exact midpoints. NaN is 0x7F or 0x7E."""
    values = np.asarray(values).astype(np.float64)
    steps = ladder(dtype)
    middles = (steps[:-1] + steps[1:]) / 2
    size = np.abs(values)
    code = np.searchsorted(middles, size, side="left")
    tie = np.append(middles, np.nan)[code] == size
    code = np.where(tie & (code % 2 == 1), code + 1, code)
    code = np.where(np.isnan(values), 0x7F if dtype is device.float8e4m3 else 0x7E, code)
    return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


def values_of(bits: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """What bits stand for, as float64."""
    bits = np.asarray(bits).astype(np.int64)
    size = bits & 0x7F
    ends = TOO_LARGE[dtype]
    beyond = np.where((size == ends) & (dtype is device.float8e5m2), np.inf, np.nan)
    found = np.where(size < ends, np.append(ladder(dtype), np.zeros(8))[np.minimum(size, ends)], beyond)
    return np.where(bits & 0x80, -found, found)


def same(found: np.ndarray[Any, Any], bits: np.ndarray[Any, Any], dtype: Any) -> bool:
    """Whether bits agree, where any NaN is as good as another."""
    nan = np.isnan(values_of(bits, dtype))
    found = found.view(np.uint8)
    return bool(np.all((found == bits) | (nan & np.isnan(values_of(found, dtype)))))


@device.kernel
def convert(x: Any, y: Any) -> None:
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i]


def converted(stream: StreamUnderTest, x: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    return stream.run(convert, x, poison(len(x), dtype), grid=-(-len(x) // 128), block=128)[-1]


# The oracle itself


@each_float8
def test_the_search_agrees_with_the_host(dtype: Any) -> None:
    assert np.array_equal(values_of(np.arange(256), dtype), every(dtype).astype(np.float64), equal_nan=True)
    random = np.random.default_rng(1).normal(size=4096).astype(np.float32) * 64
    assert np.array_equal(rounded(random, dtype), random.astype(dtype).view(np.uint8))


# Conversions


def interesting(dtype: Any, other: Any) -> np.ndarray[Any, Any]:
    """Every value, every middle between two, their neighbours in the other type, its extremes, and random ones."""
    if other is np.bool_:
        return np.array([False, True])
    steps = ladder(dtype)
    points = np.concatenate([steps, (steps[:-1] + steps[1:]) / 2, steps[-1:] * 4])
    points = np.concatenate([points, -points])
    random = np.random.default_rng(2)
    if np.issubdtype(other, np.integer):
        limits = np.iinfo(other)
        wide = [int(p) + d for p in points for d in (-1, 0, 1)] + [limits.min, limits.max, limits.max // 3]
        wide += [int(n) for n in random.integers(-70000, 70000, 500)]
        return np.array([n for n in wide if limits.min <= n <= limits.max], other)
    with np.errstate(all="ignore"):
        there = points.astype(other)
        near = [there]
        if other is not ml_dtypes.bfloat16:
            near += [np.nextafter(there, other(np.inf)), np.nextafter(there, other(-np.inf))]
        specials = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30]).astype(other)
        return np.concatenate([*near, specials, random.normal(size=500).astype(other) * other(32)]).astype(other)


@pytest.mark.parametrize("dtype, other", thinned(FLOATS8, OTHERS, one_in=2))
def test_rounding_to_8_bits(stream: StreamUnderTest, dtype: Any, other: Any) -> None:
    x = interesting(dtype, other)
    found = converted(stream, x, dtype)
    expected = rounded(x, dtype)
    if stream.kind == "gpu":  # whose conversions give NaN no sign
        nan = np.isnan(expected.view(dtype).astype(np.float32))
        assert np.isnan(found[nan].astype(np.float32)).all()
        found, expected = found[~nan], expected[~nan]
    assert np.array_equal(found.view(np.uint8), expected)  # NaN, too, with its sign


@pytest.mark.parametrize("dtype, other", thinned(FLOATS8, OTHERS, one_in=2))
def test_widening_from_8_bits(stream: StreamUnderTest, dtype: Any, other: Any) -> None:
    found = converted(stream, every(dtype), other)
    exact = values_of(np.arange(256), dtype)
    if other is np.bool_:
        expected = exact != 0
    elif np.issubdtype(other, np.integer):
        limits = np.iinfo(other)
        whole = np.trunc(np.nan_to_num(exact, nan=0.0, posinf=1e30, neginf=-1e30))
        expected = np.array([min(max(int(n), limits.min), limits.max) for n in whole], other)
    else:
        expected = exact.astype(other)
    assert np.array_equal(found, expected, equal_nan=expected.dtype.kind != "b")
    assert other is np.bool_ or np.array_equal(np.signbit(found[exact == 0]), np.signbit(expected[exact == 0]))


@pytest.mark.parametrize(("source", "target"), [FLOATS8, FLOATS8[::-1]])
def test_from_one_format_to_the_other(stream: StreamUnderTest, source: Any, target: Any) -> None:
    found = converted(stream, every(source), target)
    assert same(found, rounded(values_of(np.arange(256), source), target), target)


@each_float8
def test_copies_keep_every_bit(stream: StreamUnderTest, dtype: Any) -> None:
    assert np.array_equal(converted(stream, every(dtype), dtype).view(np.uint8), np.arange(256, dtype=np.uint8))


def test_integers_round_once_to_bfloat16(stream: StreamUnderTest) -> None:
    for dtype in (np.int32, np.uint32, np.int64, np.uint64):
        limits = np.iinfo(dtype)
        numbers = [(257 << shift) + d for shift in range(1, limits.bits - 10) for d in (-1, 0, 1)]
        numbers += [-n for n in numbers if limits.min < 0] + [limits.max, limits.min, 0, 1]
        found = converted(stream, np.array(numbers, dtype), ml_dtypes.bfloat16).astype(np.float64)
        for number, near in zip(numbers, found, strict=True):
            unit = 2 ** max(0, abs(number).bit_length() - 8)
            half = abs(number) // unit * unit
            up = 2 * (abs(number) - half) > unit or (2 * (abs(number) - half) == unit and half // unit % 2)
            assert near == math.copysign(half + unit * up, number), (dtype, number)


# Arithmetic: float32 holds every sum, difference and product, and enough of every quotient


@device.kernel
def arithmetic(x: Any, total: Any, difference: Any, product: Any, quotient: Any, low: Any, high: Any) -> None:
    i, j = device.block_idx.x, device.thread_idx.x
    a, b = x[i], x[j]
    total[i, j] = a + b
    difference[i, j] = a - b
    product[i, j] = a * b
    quotient[i, j] = a / b
    low[i, j] = min(a, b)
    high[i, j] = max(a, b)


@each_float8
def test_every_pair(stream: StreamUnderTest, dtype: Any) -> None:
    results = [stream.empty((256, 256), dtype) for _ in range(6)]
    stream.launch(arithmetic, stream.array(every(dtype)), *results, grid=256, block=256)
    exact = values_of(np.arange(256), dtype)
    a, b = exact[:, None], exact[None, :]
    with np.errstate(all="ignore"):
        expected = [a + b, a - b, a * b, a / b, np.where(b < a, b, a), np.where(b > a, b, a)]
    for found, wanted in zip(results, expected, strict=True):
        assert same(stream.numpy(found), rounded(np.broadcast_to(wanted, (256, 256)), dtype), dtype)


@device.kernel
def floors(x: Any, quotient: Any, rest: Any) -> None:
    i, j = device.block_idx.x, device.thread_idx.x
    quotient[i, j] = x[i] // x[j]
    rest[i, j] = x[i] % x[j]


@each_float8
def test_floor_division_of_every_pair(stream: StreamUnderTest, dtype: Any) -> None:
    results = [stream.empty((256, 256), dtype) for _ in range(2)]
    stream.launch(floors, stream.array(every(dtype)), *results, grid=256, block=256)
    exact = values_of(np.arange(256), dtype)
    usual = np.isfinite(exact)[:, None] & np.isfinite(exact)[None, :] & (exact != 0)[None, :]
    first, second = np.broadcast_arrays(exact[:, None], exact[None, :])
    for found, operate in zip(results, (operator.floordiv, operator.mod), strict=True):
        wanted = [operate(a, b) for a, b in zip(first[usual].tolist(), second[usual].tolist(), strict=True)]
        assert same(stream.numpy(found)[usual], rounded(wanted, dtype), dtype)


@device.kernel
def comparisons(x: Any, results: Any) -> None:
    i, j = device.block_idx.x, device.thread_idx.x
    a, b = x[i], x[j]
    results[0, i, j] = a < b
    results[1, i, j] = a <= b
    results[2, i, j] = a == b
    results[3, i, j] = a != b
    results[4, i, j] = a > b
    results[5, i, j] = a >= b


@each_float8
def test_comparisons_of_every_pair(stream: StreamUnderTest, dtype: Any) -> None:
    results = stream.run(comparisons, every(dtype), poison((6, 256, 256), np.uint8), grid=256, block=256)[-1]
    exact = values_of(np.arange(256), dtype)
    signs = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
    for found, compare in zip(results, signs, strict=True):
        assert np.array_equal(found, compare(exact[:, None], exact[None, :]))


@device.kernel
def unary(x: Any, same: Any, tests: Any, numbers: Any) -> None:
    i = device.tid(1)
    a = x[i]
    same[0, i], same[1, i], same[2, i], same[3, i] = -a, abs(a), math.sqrt(a), device.fma(a, a, a)
    same[4, i], same[5, i] = +a, a * a + a
    tests[0, i], tests[1, i], tests[2, i] = math.isnan(a), math.isinf(a), math.isfinite(a)
    tests[3, i], tests[4, i] = bool(a), not a
    numbers[0, i], numbers[1, i], numbers[2, i] = int(a), round(a), math.floor(a)


@each_float8
def test_functions_of_every_value(stream: StreamUnderTest, dtype: Any) -> None:
    own, tests = stream.empty((6, 256), dtype), stream.empty((5, 256), np.uint8)
    numbers = stream.empty((3, 256), np.int32)
    stream.launch(unary, stream.array(every(dtype)), own, tests, numbers, grid=2, block=128)
    x = values_of(np.arange(256), dtype)
    with np.errstate(all="ignore"):
        twice = values_of(rounded(x * x, dtype), dtype) + x
        expected = [-x, np.abs(x), np.sqrt(x), x * x + x, x, twice]
    for found, wanted in zip(stream.numpy(own), expected, strict=True):
        assert same(found, rounded(wanted, dtype), dtype)
    assert np.array_equal(stream.numpy(tests), [np.isnan(x), np.isinf(x), np.isfinite(x), x != 0, x == 0])
    finite = np.isfinite(x)
    wholes = [np.trunc(x[finite]), np.rint(x[finite]), np.floor(x[finite])]
    assert np.array_equal(stream.numpy(numbers)[:, finite], wholes)


@device.kernel
def fused(x: Any, y: Any) -> None:
    y[0] = device.fma(x[0], x[0], x[1])


def test_fma_of_a_tie_and_a_little_more(stream: StreamUnderTest) -> None:
    """Float32 has no room for 9 * 2**12 and 2**-16: rounded there first, the sum would be a tie, and go down to 32768."""
    x, y = np.array([192.0, 2.0**-16]).astype(device.float8e5m2), stream.empty(1, device.float8e5m2)
    stream.launch(fused, stream.array(x), y, grid=1, block=1)
    assert float(stream.numpy(y)[0]) == 40960


def test_fma_on_the_host() -> None:
    a, b = device.float8e5m2(192), device.float8e5m2(2.0**-16)
    assert device.fma(a, a, b) == 40960 and type(device.fma(a, a, b)) is device.float8e5m2
    assert device.fma(device.bfloat16(3), device.bfloat16(4), device.bfloat16(5)) == 17


# Elsewhere


@device.struct
class Scaled:
    value: device.float8e4m3
    scale: device.float32
    pair: device.float8e5m2x2

    @device.func
    def real(self) -> Any:
        return self.value * self.scale


HALF = device.float8e4m3(0.5)


@device.kernel
def places(a: Any, t: Any, s: Any, v: Any, out: Any) -> None:
    out[0] = a
    out[1] = t[0] + t[1][0]
    out[2] = s.real()
    out[3] = s.pair.x
    out[4] = v.w
    out[5] = HALF * 3
    out[6] = device.float8e4m3(0.1)
    best = device.float8e4m3(0)
    for i in range(4):
        best = best + 1.5 if i % 2 else best
    out[7] = best
    tile = device.shared_array(4, device.float8e4m3)
    tile[1] = 2.5
    out[8] = tile[1]
    total = 0
    for element in (a, a, a):
        total += element
    out[9] = total


def test_arguments_members_constants_and_joins(stream: StreamUnderTest) -> None:
    e4m3 = device.float8e4m3
    out = stream.empty(10, np.float32)
    struct = Scaled(e4m3(1.5), 3.0, device.float8e5m2x2(7, 8))
    vector = device.float8e4m3x4(1, 2, 3, 4)
    stream.launch(places, e4m3(1.25), (e4m3(3), (e4m3(4),)), struct, vector, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [1.25, 7, 4.5, 7, 4, 1.5, 0.1015625, 3, 2.5, 3.75]


@device.kernel
def double_vectors(x: Any, y: Any) -> None:
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i] * 2 + x[i]


@each_float8
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_vectors(stream: StreamUnderTest, dtype: Any, size: int) -> None:
    family = "float8e4m3" if dtype is device.float8e4m3 else "float8e5m2"
    kind = getattr(device, f"{family}x{size}")
    assert (kind.__name__, kind.dtype, device.sizeof(kind)) == (f"{family}x{size}", dtype, size)
    assert device.alignof(kind) == (size if size in (2, 4) else 1)
    layout = device.numpy_dtype(kind)
    assert layout.itemsize == size and [layout[i] for i in range(size)] == [np.dtype(dtype)] * size
    assert repr(kind(*range(size))) == f"{family}x{size}({', '.join(str(n) for n in range(size))})"
    x = np.arange(1, 1 + 6 * size).astype(dtype)
    y = stream.run(double_vectors, x.view(layout), poison(6, layout), block=32)[-1]
    twice = rounded(x.astype(np.float64) * 2, dtype)
    expected = rounded(values_of(twice, dtype) + x.astype(np.float64), dtype)
    assert np.array_equal(y.view(np.uint8), expected)


@device.kernel
def exchange(x: Any, y: Any) -> None:
    i = device.tid(1)
    y[i] = device.shfl_xor_sync(-1, x[i], 1)
    if i == 0:
        y[32] = device.atomic_ref(x, 0).exch(device.float8e4m3(9))
        y[33] = device.atomic_ref(x, 0).load()


def test_shuffles_and_atomics(stream: StreamUnderTest) -> None:
    x, y = np.arange(1, 33).astype(device.float8e4m3), stream.empty(34, device.float8e4m3)
    stream.launch(exchange, stream.array(x), y, grid=1, block=32)
    assert np.array_equal(stream.numpy(y)[:32], x.reshape(16, 2)[:, ::-1].ravel())
    assert stream.numpy(y)[32:].astype(int).tolist() == [1, 9]


def test_too_large_a_constant() -> None:
    @device.kernel
    def shift(x: Any) -> None:
        x[0] = x[0] + 465.0

    with pytest.raises(device.CompileError, match="the constant 465.0 does not fit float8e4m3"):
        device.compile(shift, device.ArrayType(device.float8e4m3, 1))
    device.compile(shift, device.ArrayType(device.float8e5m2, 1), output="ptx")


def test_instructions() -> None:
    types = (device.ArrayType(device.float32, 1), device.ArrayType(device.float8e4m3, 1))
    for target, there in (("sm_80", False), ("sm_89", True), ("sm_90", True), ("sm_100", True)):
        rounding = device.compile(convert, *types, target=target, output="ptx").code
        widening = device.compile(convert, *types[::-1], target=target, output="ptx").code
        assert ("cvt.rn.satfinite.e4m3x2.f32" in rounding) == there
        assert ("cvt.rn.f16x2.e4m3x2" in widening) == there
        device.compile(convert, *types, target=target)
        device.compile(convert, *types[::-1], target=target)


@pytest.mark.parametrize("name", ["float8e4m3", "float8e5m2", "bfloat16"])
def test_a_constant_that_is_no_number(stream: StreamUnderTest, name: str) -> None:
    fill = define(f"def k(x):\n    x[0] = device.{name}(math.nan)\n    x[1] = math.nan\n", device=device, math=math)
    assert np.isnan(stream.run(device.kernel(fill), poison(2, getattr(device, name))).astype(np.float32)).all()
