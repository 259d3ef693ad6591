"""What a product does with its elements before it stores them: sums with a residual, SwiGLU, scales of quantised operands.

Each function takes a register tile of A @ B, the row and column of its first element, and what the launch passes. They compose:

    def epilogue(acc, row, column, scale_a, scale_b, residual):
        return add(scaled(acc, row, column, scale_a, scale_b), row, column, residual)
"""

import math

import cuda_device as device
from cuda_device import bfloat16, float32, int32, tiles, uint32x4


def add(acc, row, column, residual):
    """A @ B + residual, of which `residual` is an array of C's shape."""
    others = tiles.load_from_array(residual, row, column, 2 * len(acc))
    return tuple([x + y for x, y in zip(acc, others, strict=True)])


def load_chunks(acc, row, column, residual):
    """What `gemm` takes as `before` for `add_chunks`: the elements of a residual in bfloat16, 16 bytes at a time.

    Of four chunks beside each other in a row, each of the four threads that share it loads one. Those outside are not used.
    """
    chunks, lane = residual.view(uint32x4), int32(device.thread_idx.x) & 3
    height, width = chunks.shape
    rows = min(row + tiles.row_of(0), height - 1), min(row + tiles.row_of(1), height - 1)
    columns = [min((column >> 3) + 4 * i + lane, width - 1) for i in tuple(range(len(acc) // 16))]
    return (tuple([chunks[r, c] for r in rows for c in columns]),)


def add_chunks(acc, row, column, chunks):
    """A @ B + residual, of which `load_chunks` has loaded `chunks`."""
    words, count = tuple([over_quad(chunk) for chunk in chunks]), len(chunks) // 2
    pairs = [words[i // 2 % 2 * count + i // 16][i // 4 % 4] for i in tuple(range(0, len(acc), 2))]
    others = tuple([device.unpack(pair, bfloat16) for pair in pairs])
    return tuple([x + float32(others[i // 2][i % 2]) for i, x in enumerate(acc)])


def over_quad(chunk):
    """The words that the four threads of a quad hold for each other: thread q gets the word q of each, in their order."""
    odd, high = (device.thread_idx.x & 1) == 1, (device.thread_idx.x & 2) == 2
    a, b, c, d = chunk.x, chunk.y, chunk.z, chunk.w
    a, c = exchanged(a, c, high, 2)
    b, d = exchanged(b, d, high, 2)
    a, b = exchanged(a, b, odd, 1)
    c, d = exchanged(c, d, odd, 1)
    return a, b, c, d


def exchanged(x, y, second, distance):
    """Two words of two threads, as the columns of the matrix of which each held a row; `second` in the second thread."""
    other = device.shfl_xor_sync(0xFFFFFFFF, x if second else y, distance)
    return (other if second else x), (y if second else other)


def swiglu(acc, row, column):
    """silu(gate) * up, in half the columns (`ratio` 2): B has eight columns of the gate, the eight of up for them, and so on.

    For B.T: `np.stack([gate.reshape(-1, 8, k), up.reshape(-1, 8, k)], 1).reshape(-1, k)`.
    """
    return tuple([silu(x) * acc[i + 4] for i, x in enumerate(acc) if i % 8 < 4])


def silu(x):
    """x / (1 + exp(-x))."""
    return x / (1 + math.exp2(x * float32(-math.log2(math.e))))


def scaled(acc, row, column, scale_a, scale_b):
    """A @ B * scale_a[:, None] * scale_b, of float32 arrays with a scale for each row and for each column, as float32."""
    of_rows = (
        scale_a[min(row + tiles.row_of(0), len(scale_a) - 1)],
        scale_a[min(row + tiles.row_of(1), len(scale_a) - 1)],
    )
    sums = tiles.map_rows(lambda x, scale: float32(x) * scale, acc, of_rows)
    return tuple([x * scale_b[min(column + tiles.column_of(i), len(scale_b) - 1)] for i, x in enumerate(sums)])
