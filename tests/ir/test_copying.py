"""Assignment to slices of what lies in the same memory: as NumPy does it, as if the right side were copied first."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conftest import poison, thinned

import cuda_device as device

SIZE = 9
SLICES = [(i, j, k) for k in (1, 2, 3, -1, -2) for i in range(SIZE) for j in range(-1, SIZE + 1)]


def places(part):
    """The indices that a slice selects, if its step is used."""
    start, stop, step = part
    return tuple(range(SIZE)[slice(start, None if stop < 0 else stop, step)])


PAIRS = [
    (a, b)
    for a, b in itertools.product({places(part) for part in SLICES if len(places(part)) > 1}, repeat=2)
    if len(a) == len(b) and set(a) & set(b) and a[1] - a[0] == b[1] - b[0]
]


@device.kernel
def move(arrays, bounds):
    i = device.tid(1)
    if i < len(arrays):
        a = arrays[i]
        start, stop, step, other_start, other_stop, other_step = bounds[i]
        a[start:stop:step] = a[other_start:other_stop:other_step]


def bounds_of(indices):
    """A slice with a start and a stop that count from the end where that is needed."""
    step = indices[1] - indices[0]
    stop = indices[-1] + step
    return indices[0], stop if stop >= 0 else stop - SIZE, step


@pytest.mark.parametrize("checked", [False, True])
def test_every_pair_of_overlapping_slices(stream, checked):
    arrays = np.tile(np.arange(SIZE, dtype=np.float32), (len(PAIRS), 1))
    bounds = np.array([[*bounds_of(a), *bounds_of(b)] for a, b in PAIRS], np.int32)
    found = stream.array(arrays)
    kernel = device.kernel(checked=checked)(move.underlying)
    stream.launch(kernel, found, stream.array(bounds), grid=-(-len(PAIRS) // 64), block=64)
    expected = arrays.copy()
    for row, (a, b) in zip(expected, PAIRS, strict=True):
        row[list(a)] = row[list(b)]
    assert len(PAIRS) > 300
    np.testing.assert_array_equal(stream.numpy(found), expected)


STATEMENTS = [
    "a[1:] = a[:-1]",
    "a[:-1] = a[1:]",
    "a[2:, 1:] = a[:-2, :-1]",
    "a[:-2, 1:] = a[2:, :-1]",
    "a[1:, :-1] = a[:-1, 1:]",
    "a[:, 1:] = a[:, :-1]",
    "a[:, :-1] = a[:, 1:]",
    "a[:] = a[2]",
    "a[::2] = a[1]",
    "a[:, 0] = a[::-1, 1]",
    "a[::2, 4] = a[::-2, 1]",
    "a[::3, 1:] = a[1, :-1]",
    "a[1:] = a[:1]",
    "a[::-1][1:] = a[::-1][:-1]",
    "a.T[1:] = a.T[:-1]",
    "a.T[2:, 1:] = a.T[:-2, :-1]",
    "a[1::2] = a[::2]",
    "a[...] = a",
]


@pytest.mark.parametrize(("statement", "order", "checked"), thinned(STATEMENTS, ["C", "F"], [False, True], one_in=4))
def test_rows_that_overlap(stream, statement, order, checked):
    scope: dict = {}
    exec(f"def f(a):\n    {statement}", scope)
    a = np.array(np.arange(36, dtype=np.int32).reshape(6, 6), order=order)
    found = stream.run(device.kernel(checked=checked)(scope["f"]), a)
    scope["f"](a)
    np.testing.assert_array_equal(found, a)


@pytest.mark.parametrize(
    "statement",
    ["a[:] = a[:, 0]", "a[:, 1:] = a[0, :-1]", "a[:] = a[::-1]", "a[:] = a.T", "a[0] = a[0, ::-1]", "a[:2] = a[::3]"],
)
def test_what_would_need_a_copy_is_reported(stream, statement):
    scope: dict = {}
    exec(f"def f(a):\n    {statement}", scope)
    with pytest.raises(device.KernelError, match="overlaps it in another order"):
        stream.launch(device.kernel(checked=True)(scope["f"]), stream.array(np.eye(4)), grid=1, block=1)


@device.kernel
def in_other_memory(x, out):
    tile = device.shared_array(8, device.float32)
    own = device.local_array((2, 4), device.float32)
    tile[::2] = x[:4]
    tile[1::2] = x[4:]
    tile[3:] = tile[:-3]
    own[0], own[1] = tile[:4], tile[4:]
    own[:] = own[:1]
    out[:4] = own[1]
    out[4:] = tile[4:]


def test_memory_of_other_kinds(stream):
    x = np.arange(8, dtype=np.float32)
    out = stream.run(in_other_memory, x, poison(8))[-1]
    tile = x.reshape(2, 4).T.reshape(-1).copy()
    tile[3:] = tile[:-3].copy()
    np.testing.assert_array_equal(out, np.concatenate([tile[:4], tile[4:]]))


def test_copies_to_other_memory_are_one_loop():
    def copies(x):
        tile = device.shared_array(64, device.float32)
        tile[1:] = x[1:64]
        device.syncthreads()
        x[1:64] = tile[1:]

    text = device.compile(device.kernel(copies), device.ArrayType(device.float32, 1), output="ir").code
    assert "move_elements" not in text
    assert "copy_elements" in text
