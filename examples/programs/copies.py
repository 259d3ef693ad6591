"""Copies that do not read one element after the other: with a step between them, and from places that another array has."""

import numpy as np

import cuda_device as device

BLOCK = 256
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def copy_strided(x, out, step):
    """Every step-th element of `x`."""
    i = device.tid(1)
    if i < len(out):
        out[i] = x[i * step]


@device.kernel
def gather(x, places, out):
    """The elements of `x` at `places`, which count from the end where they are negative."""
    i = device.tid(1)
    if i < len(out):
        out[i] = x[places[i]]


def run(stream, x, step, places):
    """Both copies."""
    source = device.array(x, stream=stream)
    strided = device.empty(-(-x.size // step), x.dtype, stream=stream)
    grid = -(-strided.size // BLOCK)
    device.launch(copy_strided, source, strided, step, grid=grid, block=BLOCK, stream=stream)
    gathered = device.empty(places.size, x.dtype, stream=stream)
    where = device.array(places, stream=stream)
    device.launch(gather, source, where, gathered, grid=-(-places.size // BLOCK), block=BLOCK, stream=stream)
    return strided.numpy(), gathered.numpy()


def expect(x, step, places):
    """By NumPy."""
    return x[::step], x[places]


def cases(random):
    """One element, steps that do and do not divide the length, places from the end."""
    for size, step, count in ((1, 1, 1), (100, 7, 300), (1000, 4, 999)):
        yield (
            random.standard_normal(size).astype(np.float32),
            step,
            random.integers(-size, size, count).astype(np.int32),
        )
