"""Convolution of an image with a small odd square kernel; what lies outside counts as zero.

A block brings its part of the image and the border around it to dynamic shared memory, whose size the launch gives.
"""

import numpy as np

import cuda_device as device

BLOCK = (16, 16)
TOLERANCE = {"rtol": 1e-5, "atol": 1e-4}


@device.kernel
def convolve(image, weights, out):
    """Convolves `image` with `weights`."""
    height, width = image.shape
    radius = weights.shape[0] // 2
    rows, columns = int(device.block_dim.y) + 2 * radius, int(device.block_dim.x) + 2 * radius
    tile = device.dynamic_shared_array().view(device.float32).reshape(rows, columns)
    column, row = int(device.thread_idx.x), int(device.thread_idx.y)
    x, y = device.tid(2)
    for i in range(row, rows, int(device.block_dim.y)):
        for j in range(column, columns, int(device.block_dim.x)):
            v, u = y - row + i - radius, x - column + j - radius
            tile[i, j] = image[v, u] if 0 <= v < height and 0 <= u < width else 0
    device.syncthreads()
    if x < width and y < height:
        total = 0.0
        for i in range(2 * radius + 1):
            for j in range(2 * radius + 1):
                total += weights[2 * radius - i, 2 * radius - j] * tile[row + i, column + j]
        out[y, x] = total


def run(stream, image, weights):
    """The convolved image."""
    out = device.empty(image.shape, stream=stream)
    border = weights.shape[0] - 1
    shared = 4 * (BLOCK[0] + border) * (BLOCK[1] + border)
    grid = tuple(-(-size // threads) for size, threads in zip(image.shape[::-1], BLOCK, strict=True))
    inputs = device.array(image, stream=stream), device.array(weights, stream=stream)
    device.launch(convolve, *inputs, out, grid=grid, block=BLOCK, stream=stream, shared=shared)
    return out.numpy()


def expect(image, weights):
    """By SciPy, in double precision."""
    from scipy.ndimage import convolve

    return convolve(image.astype(np.float64), weights.astype(np.float64), mode="constant")


def cases(random):
    """Images smaller than the kernel, ragged ones; kernels of one to seven."""
    for shape, size in (((1, 1), 1), ((2, 3), 5), ((16, 16), 3), ((37, 21), 7)):
        yield random.standard_normal(shape).astype(np.float32), random.standard_normal((size, size)).astype(np.float32)
