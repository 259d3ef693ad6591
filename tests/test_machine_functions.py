"""Functions that are one instruction of a GPU: on each stream what Python computes on the host, and that one instruction."""

import inspect
import re

import numpy as np
import pytest

import cuda_device as device
from cuda_device.device.machine_functions import FUNCTIONS

INSTRUCTIONS = {"byte_perm": r"prmt\.b32"}
NAMES = [row.function.__name__ for row in FUNCTIONS]


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


@pytest.mark.parametrize("row", FUNCTIONS, ids=NAMES)
def test_each_stream_computes_what_the_host_computes(stream, row):
    random = np.random.default_rng(5)
    words = [random.integers(0, 1 << type.bits, 256, f"uint{type.bits}") for type in row.parameters]
    out = stream.array(np.zeros(256, f"uint{row.result.bits}"))
    stream.launch(kernel_of(row.function.__name__), *map(stream.array, words), out, grid=2, block=128)
    assert stream.numpy(out).tolist() == [int(row.function(*each)) for each in zip(*words, strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_has_one_instruction(name):
    kernel = kernel_of(name)
    arrays = [np.zeros(256, np.uint32)] * len(inspect.signature(kernel.underlying).parameters)
    text = device.compile(kernel, *arrays, target="sm_90", output="ptx").code
    assert len(re.findall(INSTRUCTIONS[name], text)) == 1
    assert device.compile(kernel, *arrays, target="sm_90").code[:4] == b"\x7fELF"


@pytest.mark.parametrize("name", NAMES)
def test_integers_alone(name):
    kernel = kernel_of(name)
    arrays = [np.zeros(256, np.float32)] * len(inspect.signature(kernel.underlying).parameters)
    with pytest.raises(device.CompileError, match=f"{name} takes integers, not float32"):
        device.compile(kernel, *arrays, target="sm_90", output="llvm")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [(0x3210, 0x33221100), (0x7654, 0xFFEE5544), (0x0123, 0x00112233), (0x7531, 0xFF553311), (0xF000, 0xFF000000)],
)
def test_byte_perm(selector, expected):
    assert device.byte_perm(np.uint32(0x33221100), np.uint32(0xFFEE5544), np.uint32(selector)) == expected
    assert device.byte_perm(0x33221100, 0xFFEE5544, selector) == expected
