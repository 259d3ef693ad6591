"""Adding up an array: within warps by shuffles, within a block through shared memory, and between blocks by an atomic."""

import numpy as np

import cuda_device as device

BLOCK = 256
ALL = 0xFFFFFFFF
TOLERANCE = {"rtol": 1e-5, "atol": 1e-3}  # sums of up to 100000 numbers below 1, in float32, in any order


@device.func
def sum_of_warp(value):
    """The sum of the values of a warp, in its first lane."""
    for distance in (16, 8, 4, 2, 1):
        value += device.shfl_down_sync(ALL, value, distance)
    return value


@device.kernel
def add_up(x, total):
    """Adds the sum of `x` to `total[0]`."""
    partial = device.shared_array(BLOCK // 32, x.dtype)
    thread = int(device.thread_idx.x)
    value = x.dtype(0)
    for i in range(device.tid(1), len(x), device.grid_size(1)):
        value += x[i]
    value = sum_of_warp(value)
    if thread % 32 == 0:
        partial[thread // 32] = value
    device.syncthreads()
    if thread < 32:
        value = sum_of_warp(partial[thread] if thread < BLOCK // 32 else x.dtype(0))
        if thread == 0:
            device.atomic_ref(total, 0).add(value, memory="relaxed", scope="device")


@device.kernel
def sums_of_blocks(x, sums):
    """The textbook's tree in shared memory: the sum of each block's share."""
    tree = device.shared_array(BLOCK, x.dtype)
    thread, i = int(device.thread_idx.x), device.tid(1)
    tree[thread] = x[i] if i < len(x) else 0
    device.syncthreads()
    half = BLOCK // 2
    while half > 0:
        if thread < half:
            tree[thread] += tree[thread + half]
        device.syncthreads()
        half //= 2
    if thread == 0:
        sums[device.block_idx.x] = tree[0]


def run(stream, x):
    """The sum, in two ways."""
    there = device.array(x, stream=stream)
    total = device.zeros(1, x.dtype, stream=stream)
    device.launch(add_up, there, total, grid=min(32, -(-x.size // BLOCK)), block=BLOCK, stream=stream)
    while there.size > 1:
        blocks = -(-there.size // BLOCK)
        sums = device.empty(blocks, x.dtype, stream=stream)
        device.launch(sums_of_blocks, there, sums, grid=blocks, block=BLOCK, stream=stream)
        there = sums
    return total.numpy(), there.numpy()


def expect(x):
    """By NumPy; integers wrap."""
    total = x.sum(dtype=np.float64 if x.dtype.kind == "f" else x.dtype)[None]
    return total, total


def cases(random):
    """One element to three levels of blocks."""
    for count in (1, 2, 31, 32, 257, 1000, 100000):
        yield (random.random(count).astype(np.float32),)
    yield (random.integers(-(2**31), 2**31, 3000).astype(np.int32),)
    yield (random.random(777),)
