"""Product of a sparse matrix (compressed rows) with a vector: a warp for each row, which adds up with shuffles."""

import numpy as np

import cuda_device as device

BLOCK = 128
ALL = 0xFFFFFFFF
TOLERANCE = {"rtol": 1e-5, "atol": 1e-4}  # float32, sums of up to a few hundred products


@device.kernel
def multiply(starts, columns, values, x, y):
    """y = A @ x."""
    row = device.tid(1) // 32
    lane = device.tid(1) % 32
    if row < len(y):
        total = 0.0
        for k in range(starts[row] + lane, starts[row + 1], 32):
            total += values[k] * x[columns[k]]
        distance = 16
        while distance > 0:
            total += device.shfl_down_sync(ALL, total, distance)
            distance //= 2
        if lane == 0:
            y[row] = total


def run(stream, starts, columns, values, x):
    """The product."""
    y = device.empty(starts.size - 1, values.dtype, stream=stream)
    inputs = (device.array(a, stream=stream) for a in (starts, columns, values, x))
    device.launch(multiply, *inputs, y, grid=-(-y.size * 32 // BLOCK), block=BLOCK, stream=stream)
    return y.numpy()


def expect(starts, columns, values, x):
    """By SciPy, in double precision."""
    from scipy.sparse import csr_array

    matrix = csr_array((values.astype(np.float64), columns, starts), (starts.size - 1, x.size))
    return matrix @ x.astype(np.float64)


def matrix(random, rows, width, density):
    """A random matrix in compressed rows."""
    full = random.random((rows, width)) < density
    starts = np.concatenate(([0], np.cumsum(full.sum(1)))).astype(np.int32)
    columns = np.nonzero(full)[1].astype(np.int32)
    return starts, columns, random.standard_normal(columns.size).astype(np.float32)


def cases(random):
    """Empty rows, short ones, and some longer than a warp."""
    for rows, width, density in ((1, 1, 1.0), (3, 5, 0.0), (7, 33, 0.5), (100, 200, 0.02), (50, 500, 0.9)):
        yield *matrix(random, rows, width, density), random.standard_normal(width).astype(np.float32)
