"""Blurs a photograph, finds its edges and measures its brightness with four small kernels.

    python examples/photo.py [--output photo.png]

The photograph comes with matplotlib. Every result is compared with what NumPy and SciPy compute, and the picture that is
written shows the original, the blurred one and the edges beside each other. The kernels run on the GPU, or on the CPU where
there is none. Exits with status 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cuda_device as device

BLOCK = 16  # threads of a block along x and along y
RADIUS = 2  # how far the blur reaches
TILE = BLOCK + 2 * RADIUS  # what a block reads: its own pixels and a border around them
WEIGHTS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
LUMINANCE = (0.2126, 0.7152, 0.0722)


# The kernels. What `launch` starts runs in every thread of the grid at once; `tid(2)` says which thread this one is.


@device.kernel
def to_grey(colour, grey):
    """Turns red, green and blue bytes into one brightness from 0 to 1."""
    x, y = device.tid(2)
    height, width = grey.shape
    if x < width and y < height:
        red, green, blue = LUMINANCE
        grey[y, x] = (red * colour[y, x, 0] + green * colour[y, x, 1] + blue * colour[y, x, 2]) / 255


@device.func
def clamp(i, size):
    """The index `i`, or the nearest one that is inside."""
    return min(max(i, 0), size - 1)


@device.kernel
def blur(image, blurred):
    """Weighs each pixel with its neighbours. The block reads its part of the image, and a border around it, only once."""
    tile = device.shared_array((TILE, TILE), device.float32)
    height, width = image.shape
    column, row = int(device.thread_idx.x), int(device.thread_idx.y)
    x, y = device.tid(2)

    top, left = y - row - RADIUS, x - column - RADIUS
    for i in range(row, TILE, BLOCK):
        for j in range(column, TILE, BLOCK):
            tile[i, j] = image[clamp(top + i, height), clamp(left + j, width)]
    device.syncthreads()  # until the whole tile is there

    if x < width and y < height:
        total = 0.0
        i = row
        for vertical in WEIGHTS:
            j = column
            for horizontal in WEIGHTS:
                total += vertical * horizontal * tile[i, j]
                j += 1
            i += 1
        blurred[y, x] = total


@device.kernel
def find_edges(image, edges):
    """Sobel's operator: how steeply brightness changes around each pixel."""
    x, y = device.tid(2)
    height, width = image.shape
    if x < width and y < height:
        above, below = clamp(y - 1, height), clamp(y + 1, height)
        left, right = clamp(x - 1, width), clamp(x + 1, width)
        across = image[above, right] + 2 * image[y, right] + image[below, right]
        across -= image[above, left] + 2 * image[y, left] + image[below, left]
        down = image[below, left] + 2 * image[below, x] + image[below, right]
        down -= image[above, left] + 2 * image[above, x] + image[above, right]
        edges[y, x] = math.sqrt(across * across + down * down)


@device.kernel
def add_up(values, sums):
    """Adds all `values`: each block writes the sum of its share to its place in `sums`."""
    partial = device.shared_array(BLOCK * BLOCK, device.float32)
    height, width = values.shape
    x, y = device.tid(2)
    columns, rows = device.grid_size(2)

    total = 0.0
    for i in range(y, height, rows):
        for j in range(x, width, columns):
            total += values[i, j]
    thread = int(device.thread_idx.y) * BLOCK + int(device.thread_idx.x)
    partial[thread] = total
    device.syncthreads()

    half = BLOCK * BLOCK // 2
    while half > 0:
        if thread < half:
            partial[thread] += partial[thread + half]
        device.syncthreads()
        half //= 2
    if thread == 0:
        sums[device.block_idx.y, device.block_idx.x] = partial[0]
