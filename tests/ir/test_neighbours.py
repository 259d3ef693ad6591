"""Elements whose indices differ by constants have addresses that differ by what all threads share."""

import re

import numpy as np
import pytest
from ir_helpers import ptx_of

import cuda_device as device

N = 7
GUARD = 12345.0


@device.kernel
def corners(x, y):
    """Each neighbour with a weight of its own."""
    j, i = device.tid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        total = 0.0
        for a in (0, 1, 2):
            for b in (0, 1, 2):
                total += (3 * a + b + 1) * x[i + (a - 1), j + (b - 1)]
        y[i, j] = total


@device.kernel
def seven(x, y):
    k, j, i = device.tid(3)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1 and 0 < k < x.shape[2] - 1:
        total = x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k] + x[i, j, k - 1] + x[i, j, k + 1]
        y[i, j, k] = total - 6 * x[i, j, k]


@device.kernel
def in_a_tile(x, y):
    tile = device.shared_array((N, N + 1), device.float32)
    j, i = device.thread_idx.x, device.thread_idx.y
    if i < N and j < N + 1:
        tile[i, j] = x[i, j]
    device.syncthreads()
    if 0 < i < N - 1 and 1 < j < N:
        y[i, j] = tile[i - 1, j] + 2 * tile[i + 1, j - 2] + 4 * tile[i, j + 1]


@device.kernel
def two_rows_up(x, y):
    j, i = device.tid(2)
    if 2 <= i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i - 2, j] + 2 * x[i - 1, j]


@device.kernel
def move(x):
    """What is written beside what is read."""
    j = device.tid(1)
    for i in range(1, x.shape[0]):
        if j < x.shape[1]:
            x[i, j] += x[i - 1, j]


def made(stream, shape, layout, dtype):
    """Distinct integers, in the layout, with places between the elements if it is strided."""
    values = np.random.default_rng(3).integers(-99, 99, shape).astype(dtype)
    if layout == "strided":
        wide = stream.array(np.zeros((*shape[:-1], 2 * shape[-1]), dtype))
        wide[..., ::2] = values
        return values, wide[..., ::2]
    return values, stream.array(np.asarray(values, order=layout))


LAYOUTS = pytest.mark.parametrize("layout", ["C", "F"])
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])


@LAYOUTS
@DTYPES
def test_eight_neighbours(stream, layout, dtype):
    values, x = made(stream, (6, 37), layout, dtype)
    y = stream.array(np.full((6, 37), GUARD))
    stream.launch(corners, x, y, grid=(2, 2), block=(32, 4))
    expected = np.full((6, 37), GUARD)
    for i in range(1, 5):
        for j in range(1, 36):
            weights = np.arange(1, 10).reshape(3, 3)
            expected[i, j] = (weights * values[i - 1 : i + 2, j - 1 : j + 2]).sum()
    assert np.array_equal(stream.numpy(y), expected)


def test_a_tile(stream):
    values, x = made(stream, (N, N + 1), "C", np.float32)
    y = stream.array(np.full((N, N + 1), GUARD, np.float32))
    stream.launch(in_a_tile, x, y, grid=1, block=(8, 8))
    expected = np.full((N, N + 1), GUARD, np.float32)
    inside = slice(1, N - 1), slice(2, N)
    expected[inside] = values[: N - 2, 2:N] + 2 * values[2:, : N - 2] + 4 * values[1 : N - 1, 3:]
    assert np.array_equal(stream.numpy(y), expected)


@pytest.mark.parametrize("shape", [(3, 1), (5, 40), (1, 64), (2, 2)])
def test_rows_above(stream, shape):
    values, x = made(stream, shape, "C", np.float32)
    y = stream.array(np.full(shape, GUARD, np.float32))
    stream.launch(two_rows_up, x, y, grid=(2, 2), block=(32, 4))
    expected = np.full(shape, GUARD, np.float32)
    expected[2:] = values[:-2] + 2 * values[1:-1] if shape[0] > 2 else expected[2:]
    assert np.array_equal(stream.numpy(y), expected)


def test_rows_that_depend_on_each_other(stream):
    values, x = made(stream, (9, 33), "C", np.float32)
    stream.launch(move, x, grid=2, block=32)
    assert np.array_equal(stream.numpy(x), np.cumsum(values, 0))


def test_neighbours_share_an_address():
    """Three products are the thread's indices, two the place in each array, and one the size of a plane."""
    x = np.zeros((9, 9, 9), np.float32)
    assert len(re.findall(r"\tm(?:ul|ad)\.lo\.s32", ptx_of(seven, x, x))) == 8
    assert ptx_of(corners, x[0], x[0]).count("mad.lo.s32") + ptx_of(corners, x[0], x[0]).count("mul.lo.s32") == 4


def test_thirty_two_bits_have_room_for_one_row():
    """The place of x[i, j] may be 3 * (2**30 - 2**16) where that of x[i - 2, j] is the last; an int32 has no room for that."""
    x = np.zeros((9, 9), np.float32)
    assert "add.s32" in (ptx := ptx_of(two_rows_up, x, x))
    assert re.search(r"add\.s32 \t%r\d+, %r\d+, -2;", ptx)
    assert not re.search(r", -1;", ptx)
