"""Softmax of each row: a block finds the row's greatest element, adds up the exponentials, and divides."""

import math

import numpy as np

import cuda_device as device

BLOCK = 128
ALL = 0xFFFFFFFF
TOLERANCE = {"rtol": 1e-5, "atol": 1e-7}


@device.func
def over_block(value, combine, nothing):
    """What `combine` makes of the values of all threads of the block; every thread gets it."""
    shared = device.shared_array(32, device.float32)
    thread = int(device.thread_idx.x)
    for distance in (16, 8, 4, 2, 1):
        value = combine(value, device.shfl_xor_sync(ALL, value, distance))
    if thread % 32 == 0:
        shared[thread // 32] = value
    device.syncthreads()
    value = shared[thread % 32] if thread % 32 < BLOCK // 32 else device.float32(nothing)
    for distance in (16, 8, 4, 2, 1):
        value = combine(value, device.shfl_xor_sync(ALL, value, distance))
    device.syncthreads()  # before `shared` is written again
    return value


@device.kernel
def softmax(x, y):
    """y[i] = exp(x[i] - max(x[i])) / sum(…)."""
    row, thread = int(device.block_idx.x), int(device.thread_idx.x)
    width = x.shape[1]
    greatest = -math.inf
    for j in range(thread, width, BLOCK):
        greatest = max(greatest, x[row, j])
    greatest = over_block(greatest, max, -math.inf)
    total = 0.0
    for j in range(thread, width, BLOCK):
        total += math.exp(x[row, j] - greatest)
    total = over_block(total, lambda a, b: a + b, 0.0)
    for j in range(thread, width, BLOCK):
        y[row, j] = math.exp(x[row, j] - greatest) / total


def run(stream, x):
    """The softmax of each row."""
    y = device.empty(x.shape, stream=stream)
    device.launch(softmax, device.array(x, stream=stream), y, grid=len(x), block=BLOCK, stream=stream)
    return y.numpy()


def expect(x):
    """By SciPy, in double precision."""
    from scipy.special import softmax

    return softmax(x.astype(np.float64), axis=1)


def cases(random):
    """Rows shorter and longer than a block; exponents that would overflow."""
    for shape in ((1, 1), (3, 5), (4, 128), (2, 129), (5, 1000)):
        yield ((30 * random.standard_normal(shape)).astype(np.float32),)
    yield (np.full((2, 40), 1e30, np.float32),)
