"""Bitonic sort: a network of comparisons for a power of two elements; others are filled up with the greatest value."""

import numpy as np

import cuda_device as device

BLOCK = 256
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def compare_and_swap(x, size, distance):
    """One layer: puts each pair of elements that are `distance` apart in the order of its half of `size` elements."""
    i = device.tid(1)
    partner = i ^ distance
    if i < partner and partner < len(x):
        upwards = i & size == 0
        a, b = x[i], x[partner]
        if (a > b) == upwards:
            x[i] = b
            x[partner] = a


def run(stream, x):
    """The sorted elements."""
    size = 1 << (x.size - 1).bit_length()
    padded = np.full(size, np.inf, x.dtype)
    padded[: x.size] = x
    there = device.array(padded, stream=stream)
    length = 2
    while length <= size:
        distance = length // 2
        while distance > 0:
            device.launch(compare_and_swap, there, length, distance, grid=-(-size // BLOCK), block=BLOCK, stream=stream)
            distance //= 2
        length *= 2
    return there.numpy()[: x.size]


def expect(x):
    """By NumPy."""
    return np.sort(x)


def cases(random):
    """Powers of two and others."""
    for count in (1, 2, 3, 64, 100, 1025):
        yield (random.standard_normal(count).astype(np.float32),)
