"""A product of few rows, X @ W.T: several blocks share the depth of each tile, and the last one that arrives adds up their sums.

Few tiles would occupy few multiprocessors, which read W slowly. The last block adds in the order of the parts, not in that of the
arrivals, so that each launch gives the same result.
"""

import numpy as np

import cuda_device as device

WARPS, PARTS = 4, 3
ALL = 0xFFFFFFFF
TOLERANCE = {"rtol": 1e-5, "atol": 1e-4}  # float32, sums of up to a thousand products


@device.kernel
def multiply(x, w, sums, arrived, c):
    """C = X @ W.T: block (j, p) computes part p of the depth for tile j, WARPS columns of C.

    `sums` (parts, rows, columns) is for what the blocks compute, and `arrived` counts the blocks of each tile: zeros, at the
    start of the kernel and at its end.
    """
    tile, part = int(device.block_idx.x), int(device.block_idx.y)
    parts, rows, columns = sums.shape
    t, lane = int(device.thread_idx.x), device.lane_id
    column, depth = tile * WARPS + t // 32, x.shape[1]
    if column < columns:
        for row in range(rows):
            total = 0.0
            for k in range(depth * part // parts + lane, depth * (part + 1) // parts, 32):
                total += x[row, k] * w[column, k]
            distance = 16
            while distance > 0:
                total += device.shfl_down_sync(ALL, total, distance)
                distance //= 2
            if lane == 0:
                sums[part, row, column] = total
    device.syncthreads()  # the sums of all warps belong to the arrival
    last = False
    if t == 0:
        last = device.atomic_ref(arrived, tile).add(1, "acq_rel", "device") == parts - 1
    if device.syncthreads_or(last):
        for row in range(t // WARPS, rows, 32):
            column = tile * WARPS + t % WARPS
            if column < columns:
                total = 0.0
                for p in range(parts):
                    total += sums[p, row, column]
                c[row, column] = total
        if t == 0:
            arrived[tile] = 0


def run(stream, x, w):
    """The product, of the second of two launches that use the same memory."""
    (rows, _), columns = x.shape, len(w)
    tiles = -(-columns // WARPS)
    inputs = device.array(x, stream=stream), device.array(w, stream=stream)
    sums = device.empty((PARTS, rows, columns), np.float32, stream=stream)
    arrived = device.zeros(tiles, np.int32, stream=stream)
    c = device.empty((rows, columns), np.float32, stream=stream)
    for _ in range(2):
        device.launch(multiply, *inputs, sums, arrived, c, grid=(tiles, PARTS), block=32 * WARPS, stream=stream)
    return c.numpy()


def expect(x, w):
    """By NumPy, in double precision."""
    return x.astype(np.float64) @ w.astype(np.float64).T


def cases(random):
    """Depths shorter than the parts, columns that fill no tile, and more rows than a block stores at once."""
    for rows, columns, depth in ((1, 1, 1), (2, 6, 50), (3, 9, 2), (40, 8, 200), (5, 30, 1000)):
        yield tuple(random.standard_normal((n, depth)).astype(np.float32) for n in (rows, columns))
