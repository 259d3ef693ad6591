"""Matrix product: naively, and through tiles in shared memory; matrices of any shape, edges included.

The naive kernel reads a row and a column for each element. The tiled one brings square tiles to shared memory, so that each
element of `a` and `b` is read once for each tile rather than once for each element of `c`.
"""

import numpy as np

import cuda_device as device

TILE = 16
BLOCK = (TILE, TILE)
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}  # sums of up to 100 products of numbers around 1, in float32


@device.kernel
def multiply(a, b, c):
    """One element of `c` for each thread."""
    j, i = device.tid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = a.dtype(0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


@device.kernel
def multiply_tiled(a, b, c):
    """One tile of `c` for each block. What lies beyond the edges counts as zero."""
    a_tile = device.shared_array((TILE, TILE), a.dtype)
    b_tile = device.shared_array((TILE, TILE), b.dtype)
    column, row = int(device.thread_idx.x), int(device.thread_idx.y)
    j, i = device.tid(2)
    total = a.dtype(0)
    for start in range(0, a.shape[1], TILE):
        in_a = i < a.shape[0] and start + column < a.shape[1]
        in_b = start + row < b.shape[0] and j < b.shape[1]
        a_tile[row, column] = a[i, start + column] if in_a else 0
        b_tile[row, column] = b[start + row, j] if in_b else 0
        device.syncthreads()
        for k in range(TILE):
            total += a_tile[row, k] * b_tile[k, column]
        device.syncthreads()
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = total


def run(stream, a, b):
    """Both products."""
    a, b = device.array(a, stream=stream), device.array(b, stream=stream)
    grid = -(-b.shape[1] // TILE), -(-a.shape[0] // TILE)
    results = []
    for kernel in (multiply, multiply_tiled):
        c = device.empty((a.shape[0], b.shape[1]), a.dtype, stream=stream)
        device.launch(kernel, a, b, c, grid=grid, block=BLOCK, stream=stream)
        results.append(c.numpy())
    return tuple(results)


def expect(a, b):
    """By NumPy, in double precision."""
    c = a.astype(np.float64) @ b.astype(np.float64)
    return c, c


def cases(random):
    """Square and ragged, smaller than a tile, one element."""
    for rows, inner, columns in ((1, 1, 1), (3, 2, 5), (16, 16, 16), (33, 17, 49), (40, 100, 24)):
        for dtype in (np.float32, np.float64):
            yield (
                random.standard_normal((rows, inner)).astype(dtype),
                random.standard_normal((inner, columns)).astype(dtype),
            )
