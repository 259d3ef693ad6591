"""Products of a warpgroup: all types, patterns and orders of operands against NumPy; accumulators in flight; what is refused."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import can_assemble
from ir_helpers import assembled

import cuda_device as device
from cuda_device import (
    CompileError,
    bfloat16,
    fence_proxy_async,
    float8e4m3,
    float8e5m2,
    float16,
    float32,
    int8,
    int32,
    rows,
    shared_array,
    swizzled,
    syncthreads,
    thread_idx,
    uint8,
    uint32,
    wgmma,
    wgmma_wait,
)


def size_of(dtype):
    return np.dtype(device.numpy_dtype(dtype)).itemsize


@dataclass(frozen=True)
class Case:
    """A product: types, shape, the pattern of A (0: registers) and B, whether they are transposed, and how sums begin."""

    a: object
    b: object
    n: int
    k: int
    patterns: tuple[int, int] = (128, 128)
    transposed: tuple[bool, bool] = (False, False)
    start: object = None
    """None, or the type of the accumulators, which are 1 at first; `uint32`: two float16."""

    @property
    def instruction(self):
        names = {bfloat16: "bf16", float16: "f16", float32: "tf32", float8e4m3: "e4m3", float8e5m2: "e5m2", int8: "s8"}
        a, b = (names.get(each, "u8") for each in (self.a, self.b))
        result = "f16" if self.start is uint32 else "s32" if self.b in (int8, uint8) else "f32"
        return f"wgmma.mma_async.sync.aligned.m64n{self.n}k{32 // size_of(self.b)}.{result}.{a}.{b} "


CASES = [
    Case(bfloat16, bfloat16, 8, 64),
    Case(bfloat16, bfloat16, 64, 128, start=float32),
    Case(bfloat16, bfloat16, 256, 32, (64, 64)),
    Case(float16, float16, 16, 32, (32, 32), (True, True)),
    Case(float16, float16, 128, 16, (128, 128), (True, True), start=float32),
    Case(bfloat16, bfloat16, 96, 64, (64, 64), (True, True)),
    Case(float16, float16, 24, 128, (64, 128), start=uint32),
    Case(float32, float32, 40, 64),
    Case(float8e4m3, float8e5m2, 32, 128, start=float32),
    Case(float8e5m2, float8e5m2, 16, 64, (64, 64), start=uint32),
    Case(int8, int8, 24, 256, start=int32),
    Case(uint8, int8, 48, 64, (32, 64)),
    Case(bfloat16, bfloat16, 64, 64, (0, 128), (False, True), start=float32),
    Case(float32, float32, 16, 32, (0, 128)),
    Case(float8e4m3, float8e4m3, 8, 128, (0, 128)),
    Case(uint8, uint8, 16, 64, (0, 64)),
]


def tiles_of(dtype, shape, pattern, transposed):
    """The function that makes a swizzled tile of a logical shape, in panels."""
    length, depth = reversed(shape) if transposed else shape
    width = pattern // size_of(dtype)

    def tile():
        panels = shared_array((depth // width, length, width), dtype, align=1024)
        whole = swizzled(panels if depth > width else panels[0], pattern)
        return whole.T if transposed else whole

    return tile


def product(case):
    """A kernel of one warpgroup."""
    in_registers, start = not case.patterns[0], case.start
    left = None if in_registers else tiles_of(case.a, (64, case.k), case.patterns[0], case.transposed[0])
    right = tiles_of(case.b, (case.n, case.k), case.patterns[1], case.transposed[1])
    steps = tuple(range(case.k * size_of(case.b) // 32))
    register = float32 if case.a is float32 else uint32
    count = case.n // 4 if start is uint32 else case.n // 2
    one = uint32(0x3C003C00) if start is uint32 else start and start(1)
    numbers = tuple(range(count))

    @device.kernel(max_threads=128)
    def kernel(a, b, out):
        t = thread_idx.x
        row, y = t // 32 * 16 + t % 32 // 4, right()
        for i in range(t, y.shape[0] * y.shape[1], 128):
            y[i // y.shape[1], i % y.shape[1]] = b[i // y.shape[1], i % y.shape[1]]
        if in_registers:
            words = a.view(register)
            x = tuple(words[row + i % 2 * 8, 8 * s + i // 2 * 4 + t % 4] for s in steps for i in (0, 1, 2, 3))
        else:
            x = left()
            for i in range(t, x.shape[0] * x.shape[1], 128):
                x[i // x.shape[1], i % x.shape[1]] = a[i // x.shape[1], i % x.shape[1]]
        fence_proxy_async()
        syncthreads()
        acc = wgmma_wait(0, wgmma(None if start is None else (one,) * count, x, y))
        for i in numbers:
            out[t, i] = acc[i]

    return kernel


def numbers_of(dtype, shape, seed):
    """Numbers with few digits, so that all sums are exact in float32, and in float16 if there are few."""
    random = np.random.default_rng(seed)
    low = 0 if dtype is uint8 else -4
    return random.integers(low, 5, shape).astype(device.numpy_dtype(dtype))


def in_order(result):
    """The accumulators of the 128 threads, from the matrix."""
    thread, i = np.ogrid[:128, : result.shape[1] // 2]
    return result[thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + thread % 4 * 2 + i % 2]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_product(warpgroups, case):
    a, b = numbers_of(case.a, (64, case.k), 1), numbers_of(case.b, (case.n, case.k), 2)
    right = in_order(a.astype(np.float64) @ b.astype(np.float64).T + (case.start is not None))
    dtype = np.int32 if case.b in (int8, uint8) else np.float32
    out = np.zeros((128, case.n // 4), np.uint32) if case.start is uint32 else np.zeros((128, case.n // 2), dtype)
    kernel = product(case)
    result = warpgroups.run(kernel, a, b, out, block=128)[-1]
    assert ((result.view(np.float16) if case.start is uint32 else result) == right).all()
    text = assembled(kernel, a, b, out, target="sm_90a")
    assert text.count(case.instruction) == case.k * size_of(case.b) // 32


def test_tf32_has_ten_digits(warpgroups):
    """Of float32, the hardware does not read the lowest 13 bits."""
    case = Case(float32, float32, 8, 32)
    a, b, out = np.full((64, 32), 1 + 2**-10 + 2**-11), np.ones((8, 32)), np.zeros((128, 4), np.float32)
    a, b, out = (warpgroups.array(each.astype(np.float32)) for each in (a, b, out))
    warpgroups.launch(product(case), a, b, out, grid=1, block=128)
    assert (warpgroups.numpy(out) == 32 * (1 + 2**-10)).all()


@device.kernel(max_threads=256)
def pipelined(a, b, out, count: int32, first: int32):
    """Two warpgroups, each with a part of A; sums over stages, beginning at `first`, of products in flight."""
    left, right = shared_array((2, 128, 64), bfloat16, align=1024), shared_array((2, 16, 64), bfloat16, align=1024)
    t = int32(thread_idx.x)
    for s in range(2):
        x, y = swizzled(left[s], 128), swizzled(right[s], 128)
        for i in range(t, 128 * 64, 256):
            x[i // 64, i % 64] = a[s, i // 64, i % 64]
        for i in range(t, 16 * 64, 256):
            y[i // 64, i % 64] = b[s, i // 64, i % 64]
    fence_proxy_async()
    syncthreads()
    acc = other = (float32(1),) * 8
    for s in range(count):
        x, y = rows(swizzled(left[s % 2], 128), t // 128 * 64, 64), swizzled(right[s % 2], 128)
        acc = wgmma(acc, x, y, accumulate=s != first)
        wgmma_wait(1)
    if count > 2:
        other = wgmma(acc, rows(swizzled(left[0], 128), t // 128 * 64, 64), swizzled(right[0], 128), accumulate=False)
        acc, other = wgmma_wait(0, acc, other)
    else:
        acc = wgmma_wait(0, acc)
    for i in (0, 1, 2, 3, 4, 5, 6, 7):
        out[0, t, i], out[1, t, i] = acc[i], other[i]


@pytest.mark.parametrize(("count", "first"), [(2, 0), (3, -1), (3, 2), (0, 0)])
def test_products_in_flight_in_a_loop(warpgroups, count, first):
    a, b = numbers_of(bfloat16, (2, 128, 64), 3), numbers_of(bfloat16, (2, 16, 64), 4)
    out = warpgroups.array(np.zeros((2, 256, 8), np.float32))
    warpgroups.launch(pipelined, warpgroups.array(a), warpgroups.array(b), out, count, first, grid=1, block=256)
    products = [x.astype(np.float32) @ y.astype(np.float32).T for x, y in zip(a, b, strict=True)]
    right = np.ones((128, 16), np.float32)
    for s in range(count):
        right = products[s % 2] + (0 if s == first else right)
    others = products[0] if count > 2 else np.ones((128, 16))
    for result, matrix in zip(warpgroups.numpy(out), (right, others), strict=True):
        assert (result == np.vstack([in_order(matrix[:64]), in_order(matrix[64:])])).all()


@device.kernel(max_threads=256)
def overwriting(out, last: int32):
    """Each warpgroup multiplies ones, and its first warp overwrites them with zeros at once. Warps from `last` on return."""
    left, right = shared_array((2, 64, 64), bfloat16, align=1024), shared_array((2, 8, 64), bfloat16, align=1024)
    t = int32(thread_idx.x)
    x, y = swizzled(left[t // 128], 128), swizzled(right[t // 128], 128)
    for i in range(t % 128, 64 * 64, 128):
        x[i // 64, i % 64] = y[i // 64 % 8, i % 64] = bfloat16(1)
    fence_proxy_async()
    syncthreads()
    if t // 32 < last:
        acc = wgmma_wait(0, wgmma(None, x, y))
        if t % 128 < 32:
            for i in range(t % 32, 64 * 64, 32):
                x[i // 64, i % 64] = y[i // 64 % 8, i % 64] = bfloat16(0)
        for i in (0, 1, 2, 3):
            out[t, i] = acc[i]


def test_the_threads_meet(warpgroups):
    out = warpgroups.array(np.zeros((256, 4), np.float32))
    warpgroups.launch(overwriting, out, 8, grid=1, block=256)
    assert (warpgroups.numpy(out) == 64).all()


def test_a_warp_that_does_not_come_is_reported():
    stream, out = device.cpu_stream(target="sm_90a"), np.zeros((256, 4), np.float32)
    with pytest.raises(device.KernelError, match=r"^deadlock(.|\n)*wgmma: 3 of the 4 warps of the warpgroup have come"):
        device.launch(overwriting, out, 7, grid=1, block=256, stream=stream)
    device.launch(overwriting, out, 8, grid=1, block=256, stream=stream)
    assert (out == 64).all()


def test_instructions():
    """Products of a loop are not serialised, and a constant `accumulate` takes no register."""
    array, matrix = device.ArrayType(bfloat16, 3), device.ArrayType(float32, 3)
    text = device.compile(pipelined, array, array, matrix, int32, int32, target="sm_90a", output="ptx").code
    assert text.count("wgmma.fence.sync.aligned") == text.count("wgmma.commit_group.sync.aligned") == 2
    assert "wgmma.wait_group.sync.aligned 1;" in text and "wgmma.wait_group.sync.aligned 0;" in text
    assert "setp.ne.b32 p, 0, 0;" in text and re.search(r"setp.ne.b32 p, %r\d+, 0;", text)
    if can_assemble("sm_90a"):
        assert device.compile(pipelined, array, array, matrix, int32, int32, target="sm_90a").local == 0


REFUSED = {
    "wgmma(None, plain, y)": "wgmma reads swizzled tiles, and a is a tile of 64 x 64 bfloat16",
    "wgmma(None, x, plain)": "wgmma reads swizzled tiles, and b is a tile of 64 x 64 bfloat16",
    "wgmma(None, out, y)": "wgmma takes a tile, a two-dimensional array in shared memory, not array",
    "wgmma(None, x, swizzled(shared_array((64, 16), float64), 128))": "wgmma does not multiply float64, of which b is",
    "wgmma(None, x, swizzled(shared_array((64, 64), float16), 128))": "wgmma does not multiply bfloat16 by float16",
    "wgmma(None, swizzled(shared_array((32, 64), int8), 64).T, y)": "wgmma reads transposed tiles only of 16-bit elements",
    "wgmma(None, rows(x, 0, 32), y)": "the 64 rows of a warpgroup are multiplied",
    "wgmma(None, x, swizzled(shared_array((64, 32), bfloat16), 64))": "their depths differ",
    "wgmma(None, x, rows(y, 0, 4))": "wgmma does not have 4 columns",
    "wgmma(None, z, rows(z, 0, 40))": "wgmma does not have 40 columns",
    "wgmma(None, (uint32(0),) * 8, y)": "but the registers for a tile of 64 x 64 bfloat16, swizzled by 128 bytes are 16 uint32",
    "wgmma((0.0,) * 8, x, y)": "the accumulator is a tuple of 8 float, but for a tile of 64 x 64 bfloat16",
    "wgmma((int32(0),) * 32, x, y)": "the accumulator is a tuple of 32 int32, but for a tile of 64 x 64 bfloat16",
    "wgmma(out, x, y)": "the accumulator is array<float32, 1, C>, but for",
    "wgmma([0.0] * 32, x, y)": "the accumulator is a list, but for",
    "wgmma(None, x, y, out)": "accumulate is a bool, not array<float32, 1, C>",
    "wgmma(None, acc, y)": "a is an accumulator that `wgmma` may still be writing",
    "wgmma_wait(n, acc)": "pending must be a constant expression",
    "wgmma_wait(-1, acc)": "pending is int -1, not an int from 0 to 7",
    "wgmma_wait(0, n)": "wgmma_wait takes accumulators, not int32",
    "wgmma_wait(1, acc)": "this is the accumulator of the last product, for which wgmma_wait(1) does not wait",
    "wgmma_wait(2, acc, wgmma(None, x, y))": "this is the accumulator of one of the last 2 products",
    "acc[0]": "an accumulator in flight cannot be indexed",
    "acc + acc": "an accumulator in flight + an accumulator in flight is not defined",
    "acc == x": "an accumulator in flight == struct<swizzled128",
    "(0.0,) * 32 != acc": "!= an accumulator in flight is not defined",
    "sum(acc)": "cannot iterate over an accumulator in flight",
    "float32(acc)": "float32 takes a number, not an accumulator in flight",
    "[*acc]": "cannot iterate over an accumulator in flight",
    "print(acc)": "an accumulator in flight cannot be printed",
    "out.__setitem__(0, acc)": "an element of array<float32, 1, C> cannot be set to an accumulator in flight",
}


def refused(expression):
    body = "out[0] = acc" if "__setitem__" in expression else f"value = {expression}"
    source = f"""
def kernel(out, n: int32):
    plain = shared_array((64, 64), bfloat16)
    x, y, z = swizzled(plain, 128), swizzled(plain, 128), swizzled(shared_array((64, 128), int8), 128)
    acc = wgmma((float32(n),) * 32, x, y)
    {body}
"""
    return device.compile(
        source,
        device.ArrayType(float32, 1),
        int32,
        target="sm_90a",
        output="ptx",
        globals={**globals(), "float64": np.float64},
    )


@pytest.mark.needs("generated")
@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_refused_says_what_to_do(expression):
    with pytest.raises(CompileError) as raised:
        refused(expression)
    error = raised.value
    assert REFUSED[expression] in error.reason and error.help and error.location.line == 6
    if "in flight" in error.reason:
        assert error.help == "wait for it first: acc = wgmma_wait(0, acc), or tiles.wait"


def test_an_accumulator_that_begins_as_none():
    @device.kernel(max_threads=128)
    def k(out, n: int32):
        x, acc = swizzled(shared_array((64, 64), bfloat16), 128), None
        for _ in range(n):
            acc = wgmma(acc, x, x)
        out[0] = wgmma_wait(0, acc)[0]

    with pytest.raises(CompileError, match="'acc' is None on one path here and an accumulator in flight") as raised:
        device.compile(k, device.ArrayType(float32, 1), int32, target="sm_90a")
    assert raised.value.help == "begin with a tuple of zeros, or make the first result before the loop"


@pytest.mark.parametrize("target", ["sm_90", "sm_100a"])
def test_other_architectures_are_refused(target):
    array = device.ArrayType(bfloat16, 2)
    with pytest.raises(CompileError, match=f"wgmma needs sm_90a, and this is compiled for {target}"):
        device.compile(product(CASES[0]), array, array, device.ArrayType(float32, 2), target=target, output="ptx")


@pytest.mark.parametrize("first", [(0,) * 4, (0.0,) * 4, (0, 0.0) * 2])
def test_accumulators_may_begin_as_numbers_of_python(first):
    @device.kernel
    def k(out, n: int32):
        x, y = swizzled(shared_array((64, 64), bfloat16), 128), swizzled(shared_array((8, 64), bfloat16), 128)
        for i in range(device.thread_idx.x, 72 * 64, 128):
            if i < 64 * 64:
                x[i // 64, i % 64] = bfloat16(0.5)
            else:
                y[i // 64 - 64, i % 64] = bfloat16(1)
        device.fence_proxy_async()
        device.syncthreads()
        acc = first
        for _ in range(n):
            acc = wgmma(acc, x, y)
        out[device.thread_idx.x] = wgmma_wait(0, acc)[3]

    out = np.ones(128, np.float32)
    for n in (0, 3):
        device.launch(k, out, n, grid=1, block=128, stream=device.cpu_stream(races=True))
        assert (out == 32 * n).all()
