"""Fast Fourier transform (Stockham's, radix 2) of rows whose length is a power of two, in shared memory.

Complex numbers are pairs, `float32x2`: one block transforms one row, each thread two points a step.
"""

import math

import numpy as np

import cuda_device as device
from cuda_device import float32x2

LARGEST = 1024
# Rounding errors grow with the logarithm of the length; the results are of the size of the root of the length.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-4}


@device.func
def times(a, b):
    """The product of two complex numbers."""
    return float32x2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x)


@device.kernel
def transform(rows, out, sign):
    """Transforms each row: forwards with `sign` -1, backwards (not divided by the length) with 1."""
    points = device.shared_array((2, LARGEST), float32x2)
    length = rows.shape[1]
    half = length // 2
    row, thread = int(device.block_idx.x), int(device.thread_idx.x)
    threads = int(device.block_dim.x)
    for i in range(thread, length, threads):
        points[0, i] = rows[row, i]
    device.syncthreads()

    here = 0
    span = 1
    while span < length:
        for i in range(thread, half, threads):
            k = i % span
            angle = sign * math.pi * k / span
            a = points[here, i]
            b = times(points[here, i + half], float32x2(math.cos(angle), math.sin(angle)))
            j = 2 * i - k
            points[1 - here, j] = a + b
            points[1 - here, j + span] = a - b
        device.syncthreads()
        here = 1 - here
        span *= 2
    for i in range(thread, length, threads):
        out[row, i] = points[here, i]


def run(stream, rows):
    """The transforms of all rows, and what transforming them back gives."""
    pairs = rows.view(device.numpy_dtype(float32x2))
    there = device.array(pairs, stream=stream)
    spectrum, back = (device.empty(pairs.shape, pairs.dtype, stream=stream) for _ in range(2))
    threads = min(256, max(1, rows.shape[1] // 2))
    device.launch(transform, there, spectrum, -1.0, grid=len(rows), block=threads, stream=stream)
    device.launch(transform, spectrum, back, 1.0, grid=len(rows), block=threads, stream=stream)
    return spectrum.numpy().view(np.complex64), back.numpy().view(np.complex64) / rows.shape[1]


def expect(rows):
    """By NumPy, in double precision."""
    return np.fft.fft(rows.astype(np.complex128)), rows


def cases(random):
    """Lengths from 1 to the largest."""
    for count, length in ((1, 1), (3, 2), (2, 4), (5, 64), (2, 1024)):
        real, imaginary = random.standard_normal((2, count, length))
        yield ((real + 1j * imaginary).astype(np.complex64),)
