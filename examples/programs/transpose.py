"""Transposing a matrix through shared memory, so that reads and writes are both of neighbouring elements."""

import numpy as np

import cuda_device as device

TILE = 32
ROWS = 8
BLOCK = (TILE, ROWS)
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def transpose(x, y):
    """y = x.T; a column of padding keeps the columns of the tile in different banks."""
    tile = device.shared_array((TILE, TILE + 1), x.dtype)
    height, width = x.shape
    column, row = int(device.thread_idx.x), int(device.thread_idx.y)
    left, top = int(device.block_idx.x) * TILE, int(device.block_idx.y) * TILE
    for k in range(row, TILE, ROWS):
        if top + k < height and left + column < width:
            tile[k, column] = x[top + k, left + column]
    device.syncthreads()
    for k in range(row, TILE, ROWS):
        if left + k < width and top + column < height:
            y[left + k, top + column] = tile[column, k]


def run(stream, x):
    """The transpose."""
    y = device.empty(x.shape[::-1], x.dtype, stream=stream)
    grid = -(-x.shape[1] // TILE), -(-x.shape[0] // TILE)
    device.launch(transpose, device.array(x, stream=stream), y, grid=grid, block=BLOCK, stream=stream)
    return y.numpy()


def expect(x):
    """By NumPy."""
    return x.T


def cases(random):
    """Ragged and tiny, elements of 1 to 8 bytes."""
    for shape in ((1, 1), (1, 40), (32, 32), (33, 65), (100, 7)):
        for dtype in (np.float32, np.float64, np.int8):
            yield ((100 * random.standard_normal(shape)).astype(dtype),)
