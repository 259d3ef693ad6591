"""Matrix product on the tensor cores of Ampere and later GPUs: each warp multiplies with `mma_sync`, while copies bring more.

A block of four warps makes a tile of C. All of its threads copy tiles of A and B to a ring of stages in shared memory by
`cp_async`, two stages ahead of the products. `ldmatrix` reads the fragments of the warps from swizzled tiles without bank
conflicts.
"""

import ml_dtypes
import numpy as np

import cuda_device as device
from cuda_device import bfloat16, float32, float32x4, uint32

DEPTH = 64  # of a stage
THREADS = 128
PATTERN, PANEL = 128, 64  # bytes and elements of a row of a swizzled tile
CHUNK = 8  # elements of a copy
GROUP = 8  # tiles below each other whose columns of B are used together, while they are in the L2 cache
SHAPE = (16, 8, 16)  # of the product of a warp
HALVES = (0, 1)
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}  # the result is rounded to bfloat16


def place(m, n, rows, columns):
    """The first row and column of a block's tile: in groups of rows that share columns of B."""
    number, across, down = int(device.block_idx.x), -(-n // columns), -(-m // rows)
    first = number // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    rest = number - first * across
    return (first + rest % height) * rows, rest // height * columns


def copy(tile, x, row, column):
    """Starts to copy a tile of `x` to a swizzled tile of the same shape. What lies outside of `x` is zero."""
    rows, chunks = tile.shape
    wide, first = x.view(float32x4), column // CHUNK
    for start in range(0, rows * chunks, THREADS):
        number = start + int(device.thread_idx.x)
        i, j = number // chunks, number % chunks
        inside = row + i < wide.shape[0] and first + j < wide.shape[1]
        device.cp_async(tile, (i, j), wide, (row + i, first + j), inside)


def multiplier(rows, columns):
    """Makes the functions of a warp: its zeros, its products of a stage, and its stores."""
    height, width = rows // 2, columns // 2  # of its part of the block's tile of C
    down, across = tuple(range(height // 16)), tuple(range(width // 8))  # loops over tuples are unrolled
    pairs = across[::2]

    def corner():
        """The first row and column of the warp's part."""
        warp = int(device.thread_idx.x) // 32
        return warp // 2 * height, warp % 2 * width

    def multiply(acc, a_tile, b_tile):
        (top, left), lane = corner(), int(device.lane_id)
        for k in range(0, DEPTH, 16):
            a_parts = [device.ldmatrix(a_tile, top + 16 * i + lane % 16, k + lane // 16 * 8) for i in down]
            for j in pairs:
                at = left + 8 * j + lane // 16 * 8
                b0, b1, b2, b3 = device.ldmatrix(b_tile, k + lane % 16, at, trans=True)
                for i in down:
                    here = i * len(across) + j
                    acc[here] = device.mma_sync(a_parts[i], (b0, b1), acc[here], SHAPE, bfloat16)
                    acc[here + 1] = device.mma_sync(a_parts[i], (b2, b3), acc[here + 1], SHAPE, bfloat16)

    def store(acc, c, row, column):
        (top, left), lane = corner(), int(device.lane_id)
        for i in down:
            for j in across:
                for half in HALVES:
                    x, y = row + top + 16 * i + 8 * half + lane // 4, column + left + 8 * j + lane % 4 * 2
                    if x < c.shape[0] and y < c.shape[1]:
                        part = acc[i * len(across) + j]
                        c.view(uint32)[x, y // 2] = device.pack(part[2 * half], part[2 * half + 1], dtype=bfloat16)

    return multiply, store, len(down) * len(across)


def make(rows=128, columns=128, stages=3):
    """Makes a kernel for tiles of C of this shape, for matrices of which each row has a multiple of 16 bytes."""
    multiply, store, count = multiplier(rows, columns)

    @device.kernel(max_threads=THREADS)
    def gemm(a, b, c):
        a_tiles = device.shared_array((stages, rows, DEPTH), bfloat16)
        b_tiles = device.shared_array((stages, columns // PANEL, DEPTH, PANEL), bfloat16)
        row, column = place(c.shape[0], c.shape[1], rows, columns)
        steps = -(-a.shape[1] // DEPTH)

        def load(step):
            stage = step % stages
            copy(device.swizzled(a_tiles[stage].view(float32x4), PATTERN), a, row, step * DEPTH)
            copy(device.swizzled(b_tiles[stage].view(float32x4), PATTERN), b, step * DEPTH, column)

        for step in range(stages - 1):
            load(step)
            device.cp_async_commit()
        acc = [(float32(0),) * 4 for _ in range(count)]
        for step in range(steps):
            device.cp_async_wait(stages - 2)
            device.syncthreads()  # the stage is there for all, and all have read the one that is filled next
            if step + stages - 1 < steps:
                load(step + stages - 1)
            device.cp_async_commit()
            stage = step % stages
            multiply(acc, device.swizzled(a_tiles[stage], PATTERN), device.swizzled(b_tiles[stage], PATTERN))
        store(acc, c, row, column)

    return gemm


ROWS, COLUMNS = 64, 64
gemm = make(ROWS, COLUMNS)


def run(stream, a, b):
    """The product in bfloat16."""
    a, b = device.array(a, stream=stream), device.array(b, stream=stream)
    c = device.empty((a.shape[0], b.shape[1]), bfloat16, stream=stream)
    tiles = -(-c.shape[0] // ROWS) * -(-c.shape[1] // COLUMNS)
    device.launch(gemm, a, b, c, grid=tiles, block=THREADS, stream=stream)
    return c.numpy().astype(np.float32)


def expect(a, b):
    """By NumPy, in double precision."""
    return a.astype(np.float64) @ b.astype(np.float64)


def cases(random):
    """One tile, several, and edges."""
    for m, k, n in ((128, 64, 128), (256, 256, 256), (136, 72, 40)):
        yield tuple((random.standard_normal(shape) / 8).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
