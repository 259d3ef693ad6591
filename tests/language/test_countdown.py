"""Loops with a step that count their iterations down have the iterations of Python's, and are unrolled."""

import re

import numpy as np
import pytest
from ir_helpers import ptx_of

import cuda_device as device


@device.kernel
def add_up(x, sums):
    """In steps of the grid."""
    total = 0
    for i in range(device.tid(1), x.shape[0], device.grid_size(1)):
        total += x[i]
    sums[device.tid(1)] = total


@device.kernel
def add_blocks(x, sums):
    """In steps of the number of blocks."""
    total = 0
    for i in range(int(device.block_idx.x), x.shape[0], int(device.grid_dim.x)):
        total += x[i]
    sums[device.block_idx.x] = total


@device.kernel
def copy_tile(x, y):
    """At most four iterations."""
    for k in range(int(device.thread_idx.x), 32, 8):
        if k % 3:
            y[k] = x[k]


def small(*shape):
    return np.random.default_rng(len(shape)).integers(-1000, 1000, shape)


@pytest.mark.parametrize(("grid", "block"), [(1, 1), (3, 32), (4, 64)])
@pytest.mark.parametrize("size", [1, 3, 64, 95, 96, 97, 1000, 4099])
def test_steps_of_a_grid(stream, size, grid, block):
    x, sums = small(size), stream.empty(grid * block, np.int64)
    stream.launch(add_up, stream.array(x), sums, grid=grid, block=block)
    expected = [x[thread :: grid * block].sum() for thread in range(grid * block)]
    assert stream.numpy(sums).tolist() == expected


@pytest.mark.parametrize("size", [1, 6, 7, 8, 100])
def test_steps_of_blocks(stream, size):
    x, sums = small(size), stream.empty(7, np.int64)
    stream.launch(add_blocks, stream.array(x), sums, grid=7, block=1)
    assert stream.numpy(sums).tolist() == [x[block::7].sum() for block in range(7)]


@pytest.mark.parametrize("block", [1, 8, 9, 24, 31, 32, 33, 200])
def test_a_few_passes(stream, block):
    x, y = small(32), stream.array(np.full(32, 7777))
    stream.launch(copy_tile, stream.array(x), y, grid=1, block=block)
    expected = np.full(32, 7777)
    for thread in range(block):
        for k in range(thread, 32, 8):
            if k % 3:
                expected[k] = x[k]
    assert np.array_equal(stream.numpy(y), expected)


def test_loops_through_a_grid_are_unrolled():
    """One division computes the number of iterations, and several loads wait for memory at the same time."""
    ptx = ptx_of(add_up, small(64), small(64))
    assert len(re.findall(r"\bdiv\.u32\b", ptx)) == 1
    loops = re.findall(r"^(\$L\w+):\n(?:(?!\$L).*\n)*?\t@%p\d+ bra \t\1;", ptx, re.M)
    bodies = [ptx[ptx.index(f"{label}:") : ptx.index(f"bra \t{label};")] for label in loops]
    assert max(body.count("ld.global") for body in bodies) >= 4


def test_few_passes_have_no_branch_out_between_them():
    """Each of four unrolled iterations has the branch around its copy, and none leaves the loop."""
    ptx = ptx_of(copy_tile, small(64), small(64))
    assert "mov.b32 %" in ptx
    body = ptx[ptx.rindex("ld.global", 0, ptx.rindex("ld.global")) :]
    assert ptx.count("ld.global") == 7  # three that may be left, and four
    assert body.count("bra") <= 3


def test_steps_that_only_the_caller_knows_are_not_divided_by():
    @device.kernel
    def kernel(x, y, step):
        for i in range(device.tid(1), x.shape[0], step):
            y[i] = x[i]

    assert "div" not in ptx_of(kernel, small(64), small(64), 3)
