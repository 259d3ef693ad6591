"""Functions that are one instruction of a GPU: on each stream what Python computes on the host, and that one instruction."""

import inspect
import re

import numpy as np
import pytest

import cuda_device as device
from cuda_device.device.machine_functions import FUNCTIONS

INSTRUCTIONS = {
    "byte_perm": r"prmt\.b32", "dp4a": r"dp4a\.[su]32\.[su]32", "mulhi": r"mul\.hi\.[su](?:32|64)",
    "funnelshift_l": r"shf\.l\.wrap\.b32", "funnelshift_lc": r"shf\.l\.clamp\.b32",
    "funnelshift_r": r"shf\.r\.wrap\.b32", "funnelshift_rc": r"shf\.r\.clamp\.b32",
}  # fmt: skip
ROWS = pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: f"{row.function.__name__}-{row.result}")
NAMES = list(dict.fromkeys(row.function.__name__ for row in FUNCTIONS))


def kernel_of(name):
    """A kernel that calls the function with elements of as many arrays as it has parameters."""
    function = getattr(device, name)
    count = len(inspect.signature(function).parameters)

    def one(x, out):
        i = device.tid(1)
        out[i] = function(x[i])

    def two(x, y, out):
        i = device.tid(1)
        out[i] = function(x[i], y[i])

    def three(x, y, z, out):
        i = device.tid(1)
        out[i] = function(x[i], y[i], z[i])

    return device.kernel((one, two, three)[count - 1])


@ROWS
def test_each_stream_computes_what_the_host_computes(stream, row):
    random = np.random.default_rng(5)
    words = [random.integers(type.low, type.high, 256, str(type), endpoint=True) for type in row.parameters]
    words = [np.where(random.random(256) < 0.1, random.choice([type.low, type.high, 0, 1, 31, 32, 33], 256).astype(str(type)), x)
             for type, x in zip(row.parameters, words, strict=True)]  # fmt: skip
    out = stream.array(np.zeros(256, str(row.result)))
    stream.launch(kernel_of(row.function.__name__), *map(stream.array, words), out, grid=2, block=128)
    expected = [row.function(*each) for each in zip(*words, strict=True)]
    assert {each.dtype.type for each in expected} == {stream.numpy(out).dtype.type}
    assert stream.numpy(out).tolist() == expected


@pytest.mark.needs("ltoir")
@ROWS
def test_a_gpu_has_one_instruction(row):
    kernel = kernel_of(row.function.__name__)
    arrays = [np.zeros(256, str(type)) for type in (*row.parameters, row.result)]
    text = device.compile(kernel, *arrays, target="sm_90", output="ptx").code
    assert len(re.findall(INSTRUCTIONS[row.function.__name__], text)) == 1
    assert device.compile(kernel, *arrays, target="sm_90").code[:4] == b"\x7fELF"
    assert device.compile(kernel, *arrays, target="sm_80", output="ltoir").code


@pytest.mark.parametrize("name", NAMES)
def test_integers_alone(name):
    kernel = kernel_of(name)
    arrays = [np.zeros(256, np.float32)] * len(inspect.signature(kernel.underlying).parameters)
    with pytest.raises(device.CompileError, match=f"{name} takes integers, not float32"):
        device.compile(kernel, *arrays, target="sm_90", output="llvm")

    with pytest.raises(TypeError, match=f"{name} takes integers, not float"):
        getattr(device, name)(*[1.5] * (len(arrays) - 1))


def test_overloads():
    """The type that the arguments promote to chooses, on the host and in device code."""
    kernel = kernel_of("mulhi")
    for types, word in {("int8", "uint16"): "s32", ("uint8", "uint32"): "u32", ("int32", "uint32"): "s64"}.items():
        arrays = [np.zeros(4, each) for each in (*types, "int64")]
        assert f"mul.hi.{word}" in device.compile(kernel, *arrays, output="ptx").code
        result = device.mulhi(*(np.dtype(each).type(1) for each in types))
        assert result.dtype.kind + str(8 * result.itemsize) == word.replace("s", "i")
    mixed = [np.zeros(4, each) for each in ("int64", "uint64", "int64")]
    with pytest.raises(device.CompileError, match="mulhi has no common type for int64, uint64"):
        device.compile(kernel, *mixed)
    with pytest.raises(device.CompileError, match="dp4a takes integers of 32 bits, not int64, int64, int64"):
        device.compile(kernel_of("dp4a"), *[np.zeros(4, np.int64)] * 4)


def test_the_host_computes_what_cuda_documents():
    assert device.mulhi(np.int32(-1), np.int32(1)) == -1
    assert device.mulhi(1 << 20, 1 << 20) == 1 << 8
    top = np.uint64((1 << 64) - 1)
    assert device.mulhi(top, top) == (1 << 64) - 2
    assert device.mulhi(np.int64(-(1 << 63)), np.int64(-(1 << 63))) == 1 << 62
    assert device.dp4a(np.int32(0x01FF0203), np.int32(0x02020202), np.int32(10)) == 10 + 2 - 2 + 4 + 6
    assert device.dp4a(np.uint32(0x01FF0203), np.uint32(0x02020202), np.uint32(10)) == 10 + 2 + 510 + 4 + 6
    words = np.uint32(0x89ABCDEF), np.uint32(0x01234567)
    assert device.funnelshift_l(*words, 8) == device.funnelshift_l(*words, 40) == 0x23456789
    assert device.funnelshift_r(*words, 8) == device.funnelshift_r(*words, 40) == 0x6789ABCD
    assert (device.funnelshift_lc(*words, 40), device.funnelshift_rc(*words, 32)) == words


@pytest.mark.parametrize(
    ("selector", "expected"),
    [(0x3210, 0x33221100), (0x7654, 0xFFEE5544), (0x0123, 0x00112233), (0x7531, 0xFF553311), (0xF000, 0xFF000000)],
)
def test_byte_perm(selector, expected):
    assert device.byte_perm(np.uint32(0x33221100), np.uint32(0xFFEE5544), np.uint32(selector)) == expected
    assert device.byte_perm(0x33221100, 0xFFEE5544, selector) == expected
