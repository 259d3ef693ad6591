"""What a product does with its elements before it stores them: sums with a residual, SwiGLU, scales of quantised operands.

Each function takes a register tile of A @ B, the row and column of its first element, and what the launch passes. They compose:

    def epilogue(acc, row, column, scale_a, scale_b, residual):
        return add(scaled(acc, row, column, scale_a, scale_b), row, column, residual)
"""

import math

from cuda_device import float32, tiles


def add(acc, row, column, residual):
    """A @ B + residual, of which `residual` is an array of C's shape."""
    others = tiles.load_from_array(residual, row, column, 2 * len(acc))
    return tuple([x + y for x, y in zip(acc, others, strict=True)])


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
