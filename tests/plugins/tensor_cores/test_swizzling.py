"""Swizzled tiles: where their elements are, in any number of panels, for all types; parts of tiles; and what is refused."""

import numpy as np
import pytest

import cuda_device as device
from cuda_device import bfloat16, float16, float32, float64, rows, shared_array, swizzled, uint8

PANELS, ROWS = 3, 16
CASES = [(dtype, pattern) for dtype in (uint8, float16, float32, float64) for pattern in (32, 64, 128)]
CASES += [(device.float8e4m3, 64), (bfloat16, 128)]
"""All patterns for one type of each size."""


def addresses(pattern, size):
    """By panel, row and byte of the row: the offset in memory, which the hardware computes from the offset without a pattern.

    It combines bits 4 to 6 (or fewer) with bits 7 to 9.
    """
    plain = np.arange(PANELS * ROWS * pattern).reshape(PANELS, ROWS, pattern)
    offsets = plain ^ (plain >> 3 & (pattern // 16 - 1) << 4)
    return offsets[..., ::size] // size


def copies(dtype, pattern, panels):
    """A kernel that writes x to a tile, and copies the memory, and what it reads, to `memory` and `again`."""
    size = np.dtype(device.numpy_dtype(dtype)).itemsize
    width = pattern // size
    shape = (PANELS, ROWS, width) if panels else (ROWS, width)

    @device.kernel
    def kernel(x, memory, again):
        array = shared_array(shape, dtype, align=1024)
        tile = swizzled(array, pattern)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                tile[i, j] = x[i, j]
        last = tile.shape[0] - 1, tile.shape[1] - 1
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                again[i, j] = tile.T[j, i] if j & 1 else tile[i - tile.shape[0], j - tile.T.shape[0]]
        flat = array.reshape(-1)
        for i in range(tile.nbytes // array.itemsize):
            memory[i] = flat[i]
        assert (
            tile.size == x.shape[0] * x.shape[1]
            and tile.dtype is dtype
            and last == (ROWS - 1, (PANELS if panels else 1) * width - 1)
        )

    return kernel


@pytest.mark.parametrize("panels", [False, True])
@pytest.mark.parametrize("dtype, pattern", CASES)
def test_elements_are_where_the_hardware_has_them(stream, dtype, pattern, panels):
    numpy = np.dtype(device.numpy_dtype(dtype))
    width, count = pattern // numpy.itemsize, PANELS if panels else 1
    x = np.random.default_rng(1).integers(0, 64, (ROWS, count * width)).astype(numpy)
    memory, again = stream.array(np.zeros(x.size, numpy)), stream.array(np.zeros_like(x))
    stream.launch(copies(dtype, pattern, panels), stream.array(x), memory, again, grid=1, block=1)
    where = addresses(pattern, numpy.itemsize)[:count]
    right = np.zeros(x.size, numpy)
    right[where] = x.reshape(ROWS, count, width).swapaxes(0, 1)
    assert (stream.numpy(memory) == right).all()
    assert (stream.numpy(again) == x).all()


@device.kernel
def parts(x, out, first: device.int32):
    stages = shared_array((2, 2, 32, 16), bfloat16, align=1024)
    plain = shared_array((32, 16), float32)
    t = swizzled(stages[1], 32)
    for i in range(32):
        for j in range(16):
            plain[i, j] = x[i, j]
        for j in range(32):
            t[i, j] = x[i, j]
    part, inner = rows(t, first, 24), rows(rows(t, first, 24), 8, 4)
    few = rows(plain, first, 8)
    for i in range(4):
        for j in range(16):
            out[0, i, j], out[1, i, j], out[2, i, j] = part[i - 24, j + 16], inner[i, j], few[i, j]
    out[3, 0, 0], out[3, 0, 1], out[3, 0, 2] = part.nbytes, inner.shape[0], few.shape[0]


def test_rows(stream):
    x = np.arange(1024, dtype=np.float32).reshape(32, 32) % 251
    out = stream.array(np.zeros((4, 4, 16), np.float32))
    stream.launch(parts, stream.array(x), out, 8, grid=1, block=1)
    out = stream.numpy(out)
    assert (out[0] == x[8:12, 16:]).all() and (out[1] == x[16:20, :16]).all() and (out[2] == x[8:12, :16]).all()
    assert out[3, 0, :3].tolist() == [24 * 32 * 2, 4, 8]


@device.kernel
def views(x, out):
    t = swizzled(shared_array((2, 16, 16), float32, align=512), 64)
    quads, halves = rows(t, 8, 8).view(device.float32x4), t.view(bfloat16)
    for i in range(16):
        for j in range(32):
            t[i, j] = x[i, j]
    for i in range(8):
        for j in range(8):
            quad = quads[i, j]
            out[i, 4 * j], out[i, 4 * j + 1], out[i, 4 * j + 2], out[i, 4 * j + 3] = quad.x, quad.y, quad.z, quad.w
        for j in range(32):
            out[8 + i, j] = halves[i, 2 * j + 1]
    out[16, 0], out[16, 1], out[16, 2] = quads.shape[0], quads.shape[1], halves.shape[1]


def test_views(stream):
    """The upper half of the bits of a float32 is a bfloat16."""
    x = np.arange(512, dtype=np.float32).reshape(16, 32) % 251
    out = stream.array(np.zeros((17, 32), np.float32))
    stream.launch(views, stream.array(x), out, grid=1, block=1)
    out = stream.numpy(out)
    assert (out[:8] == x[8:]).all() and (out[8:16] == x[:8]).all()
    assert out[16, :3].tolist() == [8, 8, 64]


@device.kernel
def element(start: device.int32, column: device.int32, out):
    tile = swizzled(shared_array((2, 32, 32), float32, align=1024), 128)
    out[0] = rows(tile, start, 16)[0, column]


@pytest.mark.parametrize(
    ("start", "column", "message"),
    [
        (4, 0, "the first row of rows(…) is 4"),
        (24, 0, "the first row of rows(…) is 24"),
        (-8, 0, "the first row of rows(…) is -8"),
        (8, 64, "index"),
        (8, -65, "index"),
    ],
)
def test_elements_that_a_tile_does_not_have_are_reported(start, column, message):
    with pytest.raises(device.KernelError) as raised:
        device.launch(element, start, column, np.zeros(1, np.float32), grid=1, block=1, stream=device.cpu_stream())
    assert message in str(raised.value) and "out[0] = rows(tile, start, 16)[0, column]" in str(raised.value)


def using(make):
    @device.kernel
    def kernel(out):
        out[0] = make(shared_array((64, 64), bfloat16), out)

    return kernel


REFUSED = [
    (lambda t, _: swizzled(t, 16).shape[0], "the hardware has no pattern of 16 bytes"),
    (lambda t, _: swizzled(t, 64).shape[0], "a row of the tile has 128 bytes, and the pattern 64"),
    (lambda _, x: swizzled(x, 128).shape[0], "swizzled takes a contiguous array"),
    (lambda t, _: swizzled(t.T, 128).shape[0], "swizzled takes a contiguous array"),
    (lambda t, _: swizzled(t.reshape(16, 4, 64), 128).shape[0], "a panel has 4 rows, but the pattern repeats after 8"),
    (lambda t, _: swizzled(t, 128)[0], "the index of a swizzled tile is a row and a column, not"),
    (lambda t, _: rows(t, 0, 72).shape[0], "a tile of 64 x 64 bfloat16 does not have 72 rows"),
    (lambda t, _: rows(t, 4, 8).shape[0], "8 rows of a tile of 64 x 64 bfloat16 cannot begin at the row 4"),
    (lambda t, _: rows(swizzled(t, 128).T, 0, 8).shape[0], "rows takes a tile, not a transposed one"),
    (lambda t, _: swizzled(t, 128).T.view(float32).shape[0], "view takes a tile, not a transposed one"),
    (lambda t, _: swizzled(t, 128).view(device.float64x4).shape[0], "a swizzled tile has no elements of 32 bytes"),
    (lambda _, x: rows(x, 0, 8).shape[0], "rows takes a tile, a two-dimensional array in shared memory, not"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_is_refused_says_what_to_write(make, message):
    with pytest.raises(device.CompileError) as raised:
        device.compile(using(make), device.ArrayType(float32, 2), output="ptx", target="sm_90")
    assert str(raised.value).startswith(message) and "help:" in str(raised.value) and "    (lambda" in str(raised.value)


@pytest.mark.parametrize("take", [lambda t: swizzled(t, 128), lambda t: rows(t, 0, 8)])
def test_slices_have_no_constant_shape(take):
    with pytest.raises(device.CompileError) as raised:
        device.compile(using(lambda t, _: take(t[:32]).shape[0]), device.ArrayType(float32, 2), output="ptx")
    assert raised.value.help.startswith("a slice has no constant shape: write rows(tile, start, count)")
