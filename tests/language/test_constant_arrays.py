"""NumPy arrays of the host as constants, in constant memory. `test_contents` changes them."""

from __future__ import annotations

import numpy as np
import pytest
from against_python import check, refused
from conftest import HAS_GPU, poison

import cuda_device as device

WEIGHTS = np.array([1.5, 2.5, -3.5], np.float32)
GRID = np.arange(6, dtype=np.int32).reshape(2, 3)
COLUMNS = np.asfortranarray(np.arange(12.0).reshape(3, 4))
STEPS = np.arange(20, dtype=np.int64)[::3]
FLAGS = np.array([True, False, True])
HALVES = np.array([0.5, 1.5], np.float16)
EMPTY = np.zeros((0, 3))
SCALAR = np.array(2.5)


def loop(i):
    total = 0.0
    for weight in WEIGHTS:
        total = total * 2 + weight
    for j, row in enumerate(GRID):
        for element in row:
            total += element * (j + 1)
    return total


def unpacked(i):
    a, b, c = WEIGHTS
    d, *e = GRID[1]
    return a + b * 10 + c * 100 + d + e[1]


def passed(i):
    def dot(a, b):
        total = 0.0
        for j in range(len(a)):
            total += a[j] * b[j]
        return total

    return dot(WEIGHTS, WEIGHTS[::-1]) + dot(GRID[0], WEIGHTS)


@pytest.mark.parametrize(
    "function",
    [
        lambda i: WEIGHTS[i % 3] + WEIGHTS[1] + WEIGHTS[-1] + WEIGHTS[-1 - i % 3],
        lambda i: GRID[i % 2, i % 3] + GRID[1][i % 3] + GRID[i % 2][2] + GRID[1, 2] + GRID[i % 2, 1:][1],
        lambda i: COLUMNS[i % 3, 2] + COLUMNS.T[2, i % 3] + COLUMNS[:, i % 4].size,
        lambda i: STEPS[i % 7] + FLAGS[i % 3] + HALVES[i % 2],
        lambda i: len(WEIGHTS) + GRID.shape[1] + GRID.size + GRID.ndim + len(EMPTY),
        lambda i: sum(WEIGHTS) + max(WEIGHTS) + min(GRID[0]) + SCALAR[()] + WEIGHTS.reshape(3, 1)[i % 3, 0],
        lambda i: (2.5 in WEIGHTS) + (i in GRID[0]) + any(FLAGS) * 2 + all(FLAGS) * 4,
        lambda i: sum(a * b for a, b in zip(WEIGHTS, GRID[1])),  # noqa: B905
        lambda i: sum(v for row in GRID for v in reversed(row)),
        loop,
        unpacked,
        passed,
    ],
)
def test_is_numpys(stream, function):
    check(stream, function)


@device.kernel
def copies(out):
    table = device.shared_array((2, 3), device.int32)
    table[:] = GRID
    out[:3], out[3:6], out[6:] = WEIGHTS, table[1], COLUMNS[1, ::-1]
    table[0] = GRID[1]
    out[0] += table[0, 2]


def test_slices_take_them(stream):
    assert stream.run(copies, poison(10, np.float32)).tolist() == [6.5, 2.5, -3.5, 3, 4, 5, 7, 6, 5, 4]


def test_rows_are_unpacked(stream):
    table = np.arange(6, dtype=np.int16).reshape(2, 3)

    def rows(i):
        first, second = table
        return (lambda head, *others: head[i % 3] + others[0][1])(*table) + first[0] * second[2]

    check(stream, rows)


def test_properties_are_constants(stream):
    @device.kernel
    def kernel(out):
        tile = device.shared_array(WEIGHTS.shape, WEIGHTS.dtype)
        tile[device.thread_idx.x] = WEIGHTS[device.thread_idx.x]
        device.syncthreads()
        out[device.thread_idx.x] = tile[len(WEIGHTS) - 1 - device.thread_idx.x]

    out = stream.empty(3)
    stream.launch(kernel, out, grid=1, block=3)
    assert stream.numpy(out).tolist() == [-3.5, 2.5, 1.5]


def test_vectors_and_structs(stream):
    @device.struct
    class Point:
        x: device.float32
        y: device.int32

    points = np.zeros(3, device.numpy_dtype(Point))
    points["x"], points["y"] = (1, 2, 3), (4, 5, 6)
    vectors = np.arange(8, dtype=np.float32).view(device.numpy_dtype(device.float32x4))

    @device.kernel
    def kernel(out, i):
        out[0] = points[i].x * points[i].y + vectors[i - 1].w

    out = stream.empty(1)
    stream.launch(kernel, out, 2, grid=1, block=1)
    assert stream.numpy(out)[0] == 3 * 6 + 7


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda i: WEIGHTS[5], "index 5 is out of bounds"),
        (lambda i: WEIGHTS[i].nothing, "no attribute 'nothing'"),
        (lambda i: WEIGHTS + 1, "is not defined"),
        (lambda i: np.zeros(1 << 22)[i], "cannot be called"),
        (lambda i: NAMES[i], "not a type of device code"),
        (lambda i: LARGE[i], "the limit is"),
        (lambda i: WEIGHTS.sort(), "cannot be called"),
    ],
)
def test_what_cannot_be_is_refused(function, match):
    refused(function, int, match=match)


NAMES = np.array(["a", "b"])
LARGE = np.zeros((1 << 22) + 1)


def test_a_constant_cannot_be_written():
    def function(i):
        WEIGHTS[i] = 1

    refused(function, int, match="cannot be changed|read-only")


def ptx(function, *arguments):
    return str(device.compile(function, *arguments, target="sm_90", output="ptx"))


def test_lies_in_constant_memory_and_once():
    @device.kernel
    def kernel(out, i):
        out[i] = WEIGHTS[i] + WEIGHTS[i + 1]

    text = ptx(kernel, device.ArrayType(device.float32, 1), int)
    assert text.count(".const .align 16 .b8 constant_") == 1
    assert text.count("ld.const") == 2


def test_a_large_one_lies_in_global_memory():
    table = np.arange(1 << 15, dtype=np.float32)

    @device.kernel
    def kernel(out, i):
        out[i] = table[i]

    text = ptx(kernel, device.ArrayType(device.float32, 1), int)
    assert ".const" not in text and ".global .align 16 .b8 constant_" in text
    if HAS_GPU or device.compile(kernel, device.ArrayType(device.float32, 1), int, output="cubin").code:
        assert "ld.global" in text


def test_a_long_tuple_of_numbers_is_a_table():
    table = tuple(range(100, 0, -1))

    @device.kernel
    def kernel(out, i):
        out[i] = table[i]

    text = ptx(kernel, device.ArrayType(device.float32, 1), int)
    assert "ld.const" in text and text.count("selp") < 5
