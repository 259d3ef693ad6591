"""Fast Fourier transform (Stockham's, radix 2) of rows whose length is a power of two, in shared memory.

One block transforms one row, each thread two points a step.
"""

import math

import numpy as np

import cuda_device as device

LARGEST = 1024
# Rounding errors grow with the logarithm of the length; the results are of the size of the root of the length.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-4}


@device.kernel
def transform(rows, out, sign):
    """Transforms each row: forwards with `sign` -1, backwards (not divided by the length) with 1."""
    points = device.shared_array((2, LARGEST), device.complex64)
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
            b = points[here, i + half] * complex(math.cos(angle), math.sin(angle))
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
    there = device.array(rows, stream=stream)
    spectrum, back = (device.empty(rows.shape, rows.dtype, stream=stream) for _ in range(2))
    threads = min(256, max(1, rows.shape[1] // 2))
    device.launch(transform, there, spectrum, -1.0, grid=len(rows), block=threads, stream=stream)
    device.launch(transform, spectrum, back, 1.0, grid=len(rows), block=threads, stream=stream)
    return spectrum.numpy(), back.numpy() / rows.shape[1]


def expect(rows):
    """By NumPy, in double precision."""
    return np.fft.fft(rows.astype(np.complex128)), rows


def cases(random):
    """Lengths from 1 to the largest."""
    for count, length in ((1, 1), (3, 2), (2, 4), (5, 64), (2, 1024)):
        real, imaginary = random.standard_normal((2, count, length))
        yield ((real + 1j * imaginary).astype(np.complex64),)
