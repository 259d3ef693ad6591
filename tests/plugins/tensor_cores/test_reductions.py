"""`red_add` and `elect_one` against NumPy, their instructions on each architecture, and refusals."""

import re

import numpy as np
import pytest

import cuda_device as device
from cuda_device import (
    bfloat16,
    bfloat16x2,
    float16,
    float16x2,
    float32,
    float32x2,
    float32x4,
    float64,
    int8,
    int32,
    uint64,
)

# by type, the instructions from sm_90 on, and on sm_75
INSTRUCTIONS = {
    float16: ("red.relaxed.gpu.global.add.noftz.f16 ", "red.relaxed.gpu.global.add.noftz.f16 "),
    bfloat16: ("red.relaxed.gpu.global.add.noftz.bf16 ", "cas.b32"),
    float16x2: ("red.relaxed.gpu.global.add.noftz.f16x2 ", "red.relaxed.gpu.global.add.noftz.f16x2 "),
    bfloat16x2: ("red.relaxed.gpu.global.add.noftz.bf16x2 ", "cas.b32"),
    float32x2: ("red.relaxed.gpu.global.add.v2.f32 ", "add.f32 "),
    float32x4: ("red.relaxed.gpu.global.add.v4.f32 ", "add.f32 "),
    float32: ("red.relaxed.gpu.global.add.f32 ", "red.relaxed.gpu.global.add.f32 "),
    float64: ("red.relaxed.gpu.global.add.f64 ", "red.relaxed.gpu.global.add.f64 "),
    int32: ("red.relaxed.gpu.global.add.u32 ", "red.relaxed.gpu.global.add.u32 "),
    uint64: ("red.relaxed.gpu.global.add.u64 ", "red.relaxed.gpu.global.add.u64 "),
    int8: ("cas.b32", "cas.b32"),
}


@pytest.fixture(autouse=True)
def _not_emulated(request):
    if "stream" in request.fixturenames and request.getfixturevalue("stream").emulated:
        pytest.skip("ptx_machine has no such instructions")


def count_of(element):
    """The numbers in an element."""
    return int(getattr(element, "size", 1)) if element in (float16x2, bfloat16x2, float32x2, float32x4) else 1


def kernel(element):
    """All threads add to elements of a matrix in global memory, and of an array in shared memory."""
    count = count_of(element)

    @device.kernel
    def adds(x, y):
        sums, t = device.shared_array(2, element), device.thread_idx.x
        if t < 2:
            sums[t] = element(*(0, 0, 0, 0)[:count])
        device.syncthreads()
        device.red_add(x, (t % 3, -1), element(*(1, 2, 3, 4)[:count]))
        device.red_add(sums, t % 2, element(*(4, 3, 2, 1)[:count]))
        device.syncthreads()
        if t < 2:
            y[t] = sums[t]

    return adds


@pytest.mark.parametrize("element", INSTRUCTIONS)
def test_sums(stream, element):
    count = count_of(element)
    dtype = device.numpy_dtype(element)
    number = (dtype.fields["x"][0] if dtype.fields else dtype) if count > 1 else dtype
    x, y = np.zeros((3, 2), dtype), np.zeros(2, dtype)
    x.view(number).reshape(3, 2, count)[:, 1] = 5
    x, y = stream.run(kernel(element), x, y, block=24)
    sums, totals = x.view(number).reshape(3, 2, count).astype(float64), y.view(number).reshape(2, count).astype(float64)
    assert (sums[:, 0] == 0).all()
    assert (sums[:, 1] == 8 * np.arange(1, count + 1) + 5).all()
    assert (totals == 12 * np.arange(4, 4 - count, -1)).all()


@pytest.mark.parametrize(("element", "expected"), INSTRUCTIONS.items())
def test_the_instructions(element, expected):
    types = device.ArrayType(element, 2), device.ArrayType(element, 1)
    for target, instruction in zip(("sm_90", "sm_75"), expected, strict=True):
        assert instruction in device.compile(kernel(element), *types, target=target, output="ptx").code
        assert device.compile(kernel(element), *types, target=target).code


def test_nan_and_zeros_of_both_signs_end_the_loop(stream):
    @device.kernel
    def adds(x, value: float32):
        device.red_add(x, 0, bfloat16x2(value, 1))
        device.red_add(x, 1, bfloat16x2(0, 0))

    x = np.array([np.nan, 1, -0.0, -0.0], bfloat16).view(device.numpy_dtype(bfloat16x2))
    out = stream.run(adds, x, np.nan, block=2).view(bfloat16).astype(float32)
    assert np.isnan(out[0])
    assert out[1:].tolist() == [3, 0, 0]


@device.kernel
def elects(out, first):
    t = device.thread_idx.x
    if t % 32 >= first:  # the other lanes return
        if device.elect_one():
            out[t] += 1


def test_one_lane_of_each_warp_is_elected(stream):
    out = stream.run(elects, np.zeros(96, int32), 0, block=96)
    assert out.reshape(3, 32).sum(axis=1).tolist() == [1, 1, 1]
    if stream.kind == "cpu":
        assert out.nonzero()[0].tolist() == [0, 32, 64]
        assert stream.run(elects, np.zeros(64, int32), 5, block=64).nonzero()[0].tolist() == [5, 37]


def test_the_instruction_of_an_election():
    types = device.ArrayType(int32, 1), int32
    ptx = device.compile(elects, *types, target="sm_90", output="ptx").code
    assert ptx.count("elect.sync _|elected, 0xffffffff;") == 1
    assert device.compile(elects, *types, target="sm_90").code
    with pytest.raises(
        device.CompileError, match="elect_one needs sm_90 or later, and this is compiled for sm_89"
    ) as raised:
        device.compile(elects, *types, target="sm_89", output="ptx")
    assert "if device.elect_one():" in str(raised.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: device.red_add(x[0], 0, 1),
            "red_add needs a writable array in global or shared memory, not float32",
        ),
        (lambda x: device.red_add(x, 0, 1j), "red_add adds a real number, not complex"),
        (lambda x: device.red_add(x, 0.5, 1), "index must be an integer"),
        (lambda x: device.red_add(x.view(float32x2), 0, 1), "the array has float32x2, and the value is int 1"),
        (lambda x: device.red_add(x.view(device.int32x2), 0, 1), "red_add does not add int32x2"),
        (lambda x: device.red_add(x.view(device.complex64), 0, 1), "red_add does not add complex64"),
    ],
)
def test_refusals(call, message):
    @device.kernel
    def wrong(x):
        call(x)

    with pytest.raises(device.CompileError, match=re.escape(message)) as raised:
        device.launch(wrong, np.zeros(4, float32), grid=1, block=1, stream=device.cpu_stream())
    assert raised.value.help
    assert ": device.red_add(" in str(raised.value)
    with pytest.raises(device.DeviceOnlyError):
        device.red_add(0, 0, 0)
