"""`mma_sync`: every product against NumPy, its instruction on its least architecture, and refusals."""

import re

import numpy as np
import pytest
from ir_helpers import assembled

import cuda_device as device
from cuda_device import bfloat16, float8e4m3, float8e5m2, float16, float32, float64, int8, int32, uint8, uint32

# dtype of A and B, shape, dtype of C, the first architecture, and the types in the instruction
PRODUCTS = [
    (float16, (16, 8, 8), float32, "sm_75", "f32.f16.f16.f32"),
    (float16, (16, 8, 8), float16, "sm_75", "f16.f16.f16.f16"),
    (float16, (16, 8, 16), float32, "sm_80", "f32.f16.f16.f32"),
    (float16, (16, 8, 16), float16, "sm_80", "f16.f16.f16.f16"),
    (bfloat16, (16, 8, 8), float32, "sm_80", "f32.bf16.bf16.f32"),
    (bfloat16, (16, 8, 16), float32, "sm_80", "f32.bf16.bf16.f32"),
    ("tf32", (16, 8, 4), float32, "sm_80", "f32.tf32.tf32.f32"),
    ("tf32", (16, 8, 8), float32, "sm_80", "f32.tf32.tf32.f32"),
    (float64, (8, 8, 4), float64, "sm_80", "f64.f64.f64.f64"),
    *[(float64, (16, 8, k), float64, "sm_90", "f64.f64.f64.f64") for k in (4, 8, 16)],
    *[
        (dtype, (16, 8, k), int32, "sm_80", f"s32.{types}.s32")
        for dtype, types in [(int8, "s8.s8"), (uint8, "u8.u8"), ((int8, uint8), "s8.u8"), ((uint8, int8), "u8.s8")]
        for k in (16, 32)
    ],
    (float8e4m3, (16, 8, 32), float32, "sm_89", "f32.e4m3.e4m3.f32"),
    (float8e5m2, (16, 8, 32), float32, "sm_89", "f32.e5m2.e5m2.f32"),
    ((float8e4m3, float8e5m2), (16, 8, 32), float32, "sm_89", "f32.e4m3.e5m2.f32"),
    ((float8e5m2, float8e4m3), (16, 8, 32), float32, "sm_89", "f32.e5m2.e4m3.f32"),
]
EARLIER = {"sm_75": "", "sm_80": "sm_75", "sm_89": "sm_80", "sm_90": "sm_89"}


def elements(dtype):
    """The types of the elements of A and B in memory."""
    pair = dtype if isinstance(dtype, tuple) else (dtype, dtype)
    return tuple(float32 if element == "tf32" else element for element in pair)


def kernel(dtype, shape, accumulator):
    """Each lane loads its elements of A, B and C one by one, and stores those of D."""
    m, n, k = shape
    in_word = max(1, 4 // np.dtype(elements(dtype)[0]).itemsize)
    in_accumulator = 2 if accumulator == float16 else 1

    def loaded(x, operand, count, width):
        registers = []
        for first in tuple(range(0, count, width)):
            items = [x[device.fragment_place(operand, shape, dtype, first + i)] for i in tuple(range(width))]
            registers.append(items[0] if width == 1 else device.pack(*items, dtype=x.dtype))
        return tuple(registers)

    @device.kernel
    def product(a, b, c, d):
        sums = device.mma_sync(
            loaded(a, "a", m * k // 32, in_word),
            loaded(b, "b", k * n // 32, in_word),
            loaded(c, "c", m * n // 32, in_accumulator),
            shape,
            dtype,
        )
        if in_accumulator == 2:
            sums = [x for word in sums for x in device.unpack(word, float16)]
        for i, x in enumerate(sums):
            d[device.fragment_place("c", shape, dtype, i)] = x

    return product


def types(dtype, accumulator):
    return [device.ArrayType(type, 2) for type in (*elements(dtype), accumulator, accumulator)]


def matrix(rng, shape, dtype):
    if np.dtype(dtype).kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("dtype", "shape", "accumulator", "since", "kinds"), PRODUCTS)
def test_products_are_those_of_numpy(stream, dtype, shape, accumulator, since, kinds):
    if stream.emulated:
        pytest.skip("ptx_machine has no mma")
    m, n, k = shape
    rng, of_c = np.random.default_rng(5), accumulator
    a, b, c = map(matrix, [rng] * 3, ((m, k), (k, n), (m, n)), (*elements(dtype), of_c))
    *_, d = stream.run(kernel(dtype, shape, of_c), a, b, c, np.zeros((m, n), of_c), block=32)
    if of_c == int32:
        assert (d == a.astype(int32) @ b.astype(int32) + c).all()
        return
    if dtype == "tf32":  # the 13 lowest bits are ignored
        a, b = ((x.view(uint32) & uint32(0xFFFFE000)).view(float32) for x in (a, b))
    a, b, c, d = (x.astype(float64) for x in (a, b, c, d))
    # GPUs add products of 8-bit floats with fewer bits.
    precision = 2.0**-13 if stream.kind == "gpu" and "sm_89" in since else k * np.finfo(of_c).eps
    assert (np.abs(a @ b + c - d) <= precision * (np.abs(a) @ np.abs(b) + np.abs(c))).all()


@pytest.mark.parametrize(("dtype", "shape", "accumulator", "since", "kinds"), PRODUCTS)
def test_each_product_is_an_instruction(dtype, shape, accumulator, since, kinds):
    m, n, k = shape
    compiled, signature = kernel(dtype, shape, accumulator), types(dtype, accumulator)
    ptx = assembled(compiled, *signature, target=since)
    assert ptx.count(f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{kinds} ") == 1
    if not EARLIER[since]:
        return
    with pytest.raises(device.CompileError) as raised:
        device.compile(compiled, *signature, target=EARLIER[since], output="ptx")
    assert f"in the shape {shape} needs {since} or later, and this is compiled for {EARLIER[since]}" in str(
        raised.value
    )
    assert "sums = device.mma_sync(" in str(raised.value)


@device.kernel
def of_numbers(a, b, out):
    t = device.lane_id
    d = device.mma_sync(a[t // 4, t % 4], b[t % 4, t // 4], (0.0, 0), (8, 8, 4), float64)
    out[t // 4, t % 4 * 2], out[t // 4, t % 4 * 2 + 1] = d
    e = device.mma_sync((0x3F80, 0), 0x3F80, (1, 2, 3, 4), (16, 8, 8), bfloat16)
    for i, x in enumerate(e):
        out[8 + i, t % 8] = x


def test_single_registers_and_pythons_numbers(stream):
    if stream.emulated:
        pytest.skip("ptx_machine has no mma")
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((8, 4)), rng.standard_normal((4, 8))
    *_, out = stream.run(of_numbers, a, b, np.zeros((12, 8)), block=32)
    assert np.allclose(out[:8], a @ b, rtol=1e-14)
    assert out[8:].tolist() == [[5.0] * 8, [6.0] * 8, [3.0] * 8, [4.0] * 8]


@device.kernel
def in_a_branch(x, out):
    t = device.lane_id
    d = device.mma_sync((x[t], x[t]), x[t + 32], (0.0,) * 4, (16, 8, 8), float16)
    if x[t + 64] > 7:
        out[t] = d[0]


def test_lanes_meet_outside_of_the_branch_that_uses_the_product():
    ptx = device.compile(in_a_branch, device.ArrayType(uint32, 1), device.ArrayType(float32, 1), output="ptx").code
    assert re.search(r"mma\.sync.*\bbra\b", ptx, re.DOTALL)
    llvm = device.compile(in_a_branch, device.ArrayType(uint32, 1), device.ArrayType(float32, 1), output="llvm").code
    (call,) = re.findall(r"(?m)^.*asm.*mma\.sync.*$", llvm)
    assert "convergent" in call


A4, B2, C4 = (uint32(0),) * 4, (uint32(0),) * 2, (float32(0),) * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((A4, B2, C4, (16, 8, 12), float16), "mma_sync has no shape (16, 8, 12) for float16"),
        ((A4, B2, C4, (16, 8, 8), float32), "mma_sync has no elements of float32"),
        ((A4, B2, C4, (16, 8, 16), (float16, bfloat16)), "mma_sync has no product of float16 and bfloat16"),
        ((A4, B2, C4, (16, 8, 16), (float16,) * 3), "mma_sync has no 3 operands"),
        ((A4[:3], B2, C4, (16, 8, 16), float16), "takes 4 uint32 as a, not 3 uint32"),
        ((A4, (1.5, 1), C4, (16, 8, 16), float16), "takes 2 uint32 as b, not tuple<float, int>"),
        ((C4, B2, C4, (16, 8, 16), float16), "takes 4 uint32 as a, not 4 float32"),
        ((A4, B2, A4, (16, 8, 8), "tf32"), "takes 4 float32 as c, not 4 uint32"),
        ((A4, B2, C4[:3], (16, 8, 16), float16), "takes 4 float32 or 2 uint32 as c, not 3 float32"),
        ((A4, B2, B2, (16, 8, 16), bfloat16), "takes 4 float32 as c, not 2 uint32"),
        ((A4, B2, (0.5,) * 4, (16, 8, 32), int8), "takes 4 int32 as c, not 4 float"),
    ],
)
def test_refusals(arguments, message):
    a, b, c, shape, dtype = arguments

    @device.kernel
    def wrong(out):
        out[0] = device.mma_sync(a, b, c, shape, dtype)[0]

    with pytest.raises(device.CompileError, match=re.escape(message)) as raised:
        device.launch(wrong, np.zeros(1), grid=1, block=32, stream=device.cpu_stream())
    assert raised.value.help
    assert "out[0] = device.mma_sync" in str(raised.value)
    with pytest.raises(device.DeviceOnlyError):
        device.mma_sync(*arguments)


def test_tiles_are_no_registers():
    @device.kernel
    def wrong(out):
        tile = device.swizzled(device.shared_array((16, 16), float16), 32)
        out[0] = device.mma_sync(tile, B2, C4, (16, 8, 16), float16)[0]

    message = "takes 4 uint32 as a, not a tile of 16 x 16 float16, swizzled by 32 bytes"
    with pytest.raises(device.CompileError, match=message) as raised:
        device.launch(wrong, np.zeros(1), grid=1, block=32, stream=device.cpu_stream())
    assert "ldmatrix" in raised.value.help


@pytest.mark.parametrize("name", ["mma_sync", "ldmatrix", "stmatrix", "movmatrix"])
def test_a_part_of_a_warp_is_reported(name):
    @device.kernel
    def wrong(out):
        tile = device.shared_array((16, 16), float16)
        if device.thread_idx.x < 16:
            if name == "mma_sync":
                out[0] = device.mma_sync(A4, B2, C4, (16, 8, 16), float16)[0]
            elif name == "ldmatrix":
                out[0] = device.ldmatrix(tile, 0, 0)[0]
            elif name == "stmatrix":
                device.stmatrix(tile, 0, 0, A4)
            else:
                out[0] = device.movmatrix(uint32(0))

    with pytest.raises(device.KernelError, match=f"only some lanes of the warp call {name}"):
        device.launch(wrong, np.zeros(1), grid=1, block=32, stream=device.cpu_stream())
