"""`pack`, `unpack` and `to_tf32` against NumPy and ml_dtypes, their instructions, and refusals."""

import re

import numpy as np
import pytest
from conftest import thinned
from ir_helpers import assembled

import cuda_device as device
from cuda_device import (
    bfloat16,
    float8e4m3,
    float8e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    uint8,
    uint16,
    uint32,
)

LARGEST = {float16: 65504, bfloat16: 0xFF << 120, float8e4m3: 448, float8e5m2: 57344}
INTEGERS = (int8, uint8, int16, uint16)
WIDE, NARROW = (float32, float64, int32, np.int64, uint32), (float32, float16, bfloat16, int8, uint8)
"""The types of numbers that are packed."""


@pytest.fixture(autouse=True)
def _not_emulated(request):
    if "stream" in request.fixturenames and request.getfixturevalue("stream").emulated:
        pytest.skip("ptx_machine has no conversions of two numbers at once")


def numbers(dtype):
    """Numbers of all sizes, 512 of them: ties, subnormal numbers, and those beyond the largest of other types."""
    rng = np.random.default_rng(7)
    if np.dtype(dtype).kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        near = rng.integers(max(low, -300), min(high, 300), 256, dtype, endpoint=True)
        return np.concatenate([near, rng.integers(low, high, 254, dtype, endpoint=True), np.array([low, high], dtype)])
    with np.errstate(over="ignore"):
        sizes = np.exp2(rng.uniform(-24, 24, 380)) * rng.choice([-1, 1], 380)
        ties = np.arange(-60, 60) / 16 + 2.0**-4 / 2
        special = [np.inf, -np.inf, 0.0, -0.0, 3.4e38, -3.4e38, 448, 464, 480, 57344, 65504, 65519]
        return np.concatenate([sizes, ties, special]).astype(dtype)


def kernel(count, dtype, saturate):
    if count == 2:

        @device.kernel
        def packs(x, out):
            i = device.tid(1)
            out[i] = device.pack(x[i, 0], x[i, 1], dtype=dtype, saturate=saturate)

    else:

        @device.kernel
        def packs(x, out):
            i = device.tid(1)
            out[i] = device.pack(x[i, 0], x[i, 1], x[i, 2], x[i, 3], dtype=dtype, saturate=saturate)

    return packs


def converted(x, dtype, saturate):
    """What each number becomes."""
    wide = x.astype(float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype in LARGEST:
            limit = LARGEST[dtype]
            return np.clip(wide, -limit, limit).astype(dtype) if saturate else x.astype(dtype)
        if saturate or x.dtype.kind != "i" and x.dtype.kind != "u":
            info = np.iinfo(dtype)
            return np.clip(np.trunc(wide), info.min, info.max).astype(dtype)
        return x.astype(dtype)


@pytest.mark.parametrize(
    "dtype, saturate, sources", thinned([*LARGEST, *INTEGERS], [False, True], [WIDE, NARROW], one_in=2)
)
def test_packed_numbers_are_those_of_numpy(stream, dtype, saturate, sources):
    count = 4 // np.dtype(dtype).itemsize
    packs = kernel(count, dtype, saturate)
    for source in sources:
        x = numbers(source).reshape(-1, count)
        _, words = stream.run(packs, x, np.zeros(len(x), uint32), block=len(x))
        right = converted(x, dtype, saturate)
        values = words.view(dtype).reshape(x.shape)
        same = (values == right) | ((values != values) & (right != right))
        assert same.all(), (source, x[~same], values[~same], right[~same])
        assert (np.signbit(values.astype(float32)) == np.signbit(right.astype(float32)))[values == values].all()


@device.kernel
def mixed(x: float32, n: int32, words, elements, rounded):
    words[0] = device.pack(1, x, bfloat16)
    words[1] = device.pack(n, 2.5, True, x, dtype=int8)
    elements[0], elements[1] = device.unpack(words[0], bfloat16)
    for value in device.unpack(int32(words[1]), int8):
        rounded[0] += value


def test_numbers_of_several_types(stream):
    words, elements, total = stream.run(
        mixed, 3.0, 300, np.zeros(2, uint32), np.zeros(2, bfloat16), np.zeros(1, int32), block=1
    )
    assert elements.tolist() == [1, 3]
    assert words.view(int8)[4:].tolist() == [44, 2, 1, 3]
    assert total[0] == 50


def test_nan_stays_nan(stream):
    @device.kernel
    def nans(x: float32, out):
        a, b = device.unpack(device.pack(x, -x, dtype=float16, saturate=True), float16)
        out[0], out[1], out[2] = a, b, device.to_tf32(x)
        for i, y in enumerate(device.unpack(device.pack(x, 1.0, x, x, dtype=float8e4m3, saturate=True), float8e4m3)):
            out[3 + i] = y

    assert np.isnan(stream.run(nans, np.nan, np.zeros(7, float32))).tolist() == [True] * 4 + [False] + [True] * 2


@device.kernel
def rounds(x, out):
    i = device.tid(1)
    out[i] = device.to_tf32(x[i])


def test_to_tf32_rounds_ties_away_from_zero(stream):
    bits = np.random.default_rng(3).integers(0, 1 << 32, 512, uint32)
    bits[::4] = bits[::4] & 0xFFFFE000 | 0x1000  # ties
    x = bits.view(float32)
    x = np.where(np.isnan(x), float32(1), x)
    right = ((x.view(uint32) + uint32(0x1000)) & uint32(0xFFFFE000)).view(float32)
    _, out = stream.run(rounds, x, np.zeros(512, float32), block=512)
    assert (out.view(uint32) == right.view(uint32)).all()


INSTRUCTIONS = {
    (float16, False): "sm_80 cvt.rn.f16x2.f32",
    (float16, True): "sm_80 cvt.rn.satfinite.f16x2.f32",
    (bfloat16, False): "sm_80 cvt.rn.bf16x2.f32",
    (bfloat16, True): "sm_80 cvt.rn.satfinite.bf16x2.f32",
    (float8e4m3, True): "sm_89 cvt.rn.satfinite.e4m3x2.f32",
    (float8e5m2, True): "sm_89 cvt.rn.satfinite.e5m2x2.f32",
    (int8, False): "sm_75 cvt.pack.sat.s8.s32.b32",
    (uint8, True): "sm_75 cvt.pack.sat.u8.s32.b32",
    (int16, False): "sm_75 cvt.pack.sat.s16.s32",
    (uint16, True): "sm_75 cvt.pack.sat.u16.s32",
}


@pytest.mark.parametrize(("case", "expected"), INSTRUCTIONS.items())
def test_the_instructions(case, expected):
    dtype, saturate = case
    machine, instruction = expected.split()
    packs = kernel(4 // np.dtype(dtype).itemsize, dtype, saturate)
    types = device.ArrayType(float32, 2), device.ArrayType(uint32, 1)
    for target in {"sm_75", machine}:
        ptx = assembled(packs, *types, target=target)
        assert (instruction in ptx) == (target == machine)
    assert "cvt.rna.tf32.f32" in device.compile(rounds, *[device.ArrayType(float32, 1)] * 2, output="ptx").code


@pytest.mark.parametrize(
    ("call", "message", "help"),
    [
        (
            lambda x: device.pack(x, dtype=float16),
            "pack takes 2 numbers for float16, not 1",
            "write pack(a, b, dtype=float16)",
        ),
        (
            lambda x: device.pack(x, x, dtype=int8),
            "pack takes 4 numbers for int8, not 2",
            "write pack(a, b, c, d, dtype=int8)",
        ),
        (
            lambda x: device.pack(x, x, dtype=float32),
            "pack has no elements of float32",
            "dtype is one of float16, bfloat16",
        ),
        (lambda x: device.pack(x, x), "pack needs the type of the elements", "write pack(x, y, dtype=float16)"),
        (lambda x: device.pack(x, x, dtype=7), "dtype: 7 is not a type", "name a type"),
        (
            lambda x: device.pack((x, x), x, float16),
            "pack takes real numbers, not tuple<float32, float32>",
            "pass its elements",
        ),
        (lambda x: device.pack(x, x, dtype=float16, saturate=x > 0), "saturate must be a constant", "use a literal"),
        (lambda x: device.unpack(x, float16), "unpack takes an integer of 32 bits, not float32", "convert it"),
        (lambda x: device.unpack(uint32(x), float64), "unpack has no elements of float64", "dtype is one of"),
        (lambda x: device.to_tf32(1j), "to_tf32 takes real numbers, not complex", "pass its elements"),
    ],
)
def test_refusals(call, message, help):
    @device.kernel
    def wrong(x: float32):
        call(x)

    with pytest.raises(device.CompileError, match=re.escape(message)) as raised:
        device.launch(wrong, 1.0, grid=1, block=1, stream=device.cpu_stream())
    assert raised.value.help.startswith(help)
    assert "lambda x: device." in str(raised.value)


def test_to_tf32_needs_its_architecture():
    types = [device.ArrayType(float32, 1)] * 2
    with pytest.raises(device.CompileError, match="to_tf32 needs sm_80 or later, and this is compiled for sm_75"):
        device.compile(rounds, *types, target="sm_75", output="ptx")
    with pytest.raises(device.DeviceOnlyError):
        device.pack(1, 2, dtype=float16)
