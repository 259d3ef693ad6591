"""Monte Carlo: pi from random points, with random numbers of two kinds.

`philox4x32` needs no state: the numbers of a place in the sequence are computed from the place.
`xorshift` is Marsaglia's, with a state of 32 bits for each thread. Integers count the points, so the result is exact.
"""

import numpy as np

import cuda_device as device
from cuda_device import uint32, uint64

BLOCK = 128
ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEYS = 0x9E3779B9, 0xBB67AE85
TOLERANCE = {"rtol": 0, "atol": 0}


@device.func
def inside(x, y):
    """Whether the point with these coordinates (of 16 bits each) is in the quarter of a circle."""
    a, b = uint64(x >> 16), uint64(y >> 16)
    return a * a + b * b < uint64(1) << 32


@device.kernel
def count_philox(hits, points, seed):
    """Each thread counts its points in the circle; two of them from each four numbers."""
    i = device.tid(1)
    if i < len(hits):
        count = 0
        for place in range(points // 2):
            a, b, c, d = device.philox4x32((place, 0, i, 0), (seed, 0))
            count += int(inside(a, b)) + int(inside(c, d))
        hits[i] = count


@device.func
def xorshift(state):
    """The state after this one; it is the random number, too."""
    state ^= state << 13
    state ^= state >> 17
    return state ^ (state << 5)


@device.kernel
def count_xorshift(hits, points, seed):
    """The same with a generator that has a state."""
    i = device.tid(1)
    if i < len(hits):
        state = uint32(seed) + uint32(i) * uint32(2654435761)
        count = 0
        for _ in range(points):
            x = xorshift(state)
            state = xorshift(x)
            if inside(x, state):
                count += 1
        hits[i] = count


def run(stream, threads, points, seed):
    """The points in the circle, for each thread, by both generators."""
    results = []
    for kernel in (count_philox, count_xorshift):
        hits = device.empty(threads, np.int32, stream=stream)
        device.launch(kernel, hits, points, seed, grid=-(-threads // BLOCK), block=BLOCK, stream=stream)
        results.append(hits.numpy())
    return tuple(results)


def expect(threads, points, seed):
    """By NumPy's integers."""
    place, thread = (grid.astype(np.uint64) for grid in np.meshgrid(np.arange(points // 2), np.arange(threads)))
    low = np.uint64(0xFFFFFFFF)
    a, b, c, d = place, place * 0, thread, thread * 0
    first, second = np.uint64(seed), np.uint64(0)
    for _ in range(ROUNDS):
        pa, pc = a * np.uint64(MULTIPLIERS[0]), c * np.uint64(MULTIPLIERS[1])
        a, b, c, d = (pc >> np.uint64(32)) ^ b ^ first, pc & low, (pa >> np.uint64(32)) ^ d ^ second, pa & low
        first, second = (first + np.uint64(KEYS[0])) & low, (second + np.uint64(KEYS[1])) & low
    by_philox = (_inside(a, b).sum(1) + _inside(c, d).sum(1)).astype(np.int32)

    state = np.uint32(seed) + np.arange(threads, dtype=np.uint32) * np.uint32(2654435761)
    by_xorshift = np.zeros(threads, np.int32)
    for _ in range(points):
        x = _xorshift(state)
        state = _xorshift(x)
        by_xorshift += _inside(x.astype(np.uint64), state.astype(np.uint64))
    return by_philox, by_xorshift


def _inside(x, y):
    shift = np.uint64(16)
    return (x >> shift) ** 2 + (y >> shift) ** 2 < np.uint64(1) << np.uint64(32)


def _xorshift(state):
    state = state ^ (state << np.uint32(13))
    state = state ^ (state >> np.uint32(17))
    return state ^ (state << np.uint32(5))


def cases(_):
    """One thread to several blocks."""
    for threads, points in ((1, 2), (33, 10), (300, 100)):
        yield threads, points, 12345
