"""Prefix sums of an array of any length: each block scans its share, the blocks' totals are scanned in turn and added.

A block scans by warps: shuffles within each warp, then the first warp scans what the warps found.
"""

import numpy as np

import cuda_device as device

BLOCK = 256
WARPS = BLOCK // 32
ALL = 0xFFFFFFFF
TOLERANCE = {"rtol": 0, "atol": 0}  # integers


@device.func
def scan_warp(value):
    """The sum of this lane's value and those of the lanes before it."""
    lane = device.lane_id
    distance = 1
    while distance < 32:
        before = device.shfl_up_sync(ALL, value, distance)
        if lane >= distance:
            value += before
        distance *= 2
    return value


@device.func
def scan_block(value):
    """The sum of this thread's value and those of the threads of the block before it."""
    totals = device.shared_array(32, value.dtype)
    thread = int(device.thread_idx.x)
    warp, lane = thread // 32, thread % 32
    value = scan_warp(value)
    if lane == 31:
        totals[warp] = value
    device.syncthreads()
    if warp == 0:
        totals[lane] = scan_warp(totals[lane] if lane < WARPS else value.dtype(0))
    device.syncthreads()
    if warp > 0:
        value += totals[warp - 1]
    return value


@device.kernel
def scan_shares(x, sums, totals):
    """Scans the share of each block, and writes its total."""
    i = device.tid(1)
    value = x[i] if i < len(x) else x.dtype(0)
    value = scan_block(value)
    if i < len(x):
        sums[i] = value
    if device.thread_idx.x == BLOCK - 1:
        totals[device.block_idx.x] = value


@device.kernel
def add_totals(sums, scanned):
    """Adds what came before each block."""
    i = device.tid(1)
    if device.block_idx.x > 0 and i < len(sums):
        sums[i] += scanned[device.block_idx.x - 1]


def scan(x, stream):
    """The inclusive prefix sums of a device array."""
    blocks = -(-x.size // BLOCK)
    sums, totals = device.empty(x.size, x.dtype, stream=stream), device.empty(blocks, x.dtype, stream=stream)
    device.launch(scan_shares, x, sums, totals, grid=blocks, block=BLOCK, stream=stream)
    if blocks > 1:
        device.launch(add_totals, sums, scan(totals, stream), grid=blocks, block=BLOCK, stream=stream)
    return sums


def run(stream, x):
    """The prefix sums."""
    return scan(device.array(x, stream=stream), stream).numpy()


def expect(x):
    """By NumPy."""
    return np.cumsum(x, dtype=x.dtype)


def cases(random):
    """One element to three levels of blocks; sums that wrap."""
    for count in (1, 2, 31, 32, 33, 255, 256, 257, 1000, 70000):
        yield (random.integers(0, 100, count).astype(np.int32),)
    yield (random.integers(0, 2**32, 999).astype(np.uint32),)
    yield (random.integers(-(2**60), 2**60, 3000),)
