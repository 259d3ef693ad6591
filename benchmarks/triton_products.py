"""A product of matrices in Triton, with some configurations of which it takes the fastest, where Triton is installed.

multiply(a, b, c)                   tensors of torch; C = A B, in 16-bit floats
"""

# Not `from __future__ import annotations`: Triton reads the annotations of kernels.

from typing import Any

try:
    import triton
    import triton.language as tl
except Exception:  # not installed
    triton = None  # type: ignore[assignment]

# Rows and columns of a tile, depth, stages, warps.
_CONFIGS = (
    (128, 256, 64, 3, 8),
    (128, 256, 64, 4, 8),
    (256, 128, 64, 3, 8),
    (128, 128, 64, 4, 4),
    (128, 128, 64, 4, 8),
    (64, 256, 64, 4, 4),
    (128, 128, 32, 4, 4),
)

if triton is not None:

    def _configs() -> list[Any]:
        return [
            triton.Config({"ROWS": rows, "COLUMNS": columns, "DEPTH": depth}, num_stages=stages, num_warps=warps)
            for rows, columns, depth, stages, warps in _CONFIGS
        ]

    def _measured(call: Any, quantiles: Any) -> Any:
        return triton.testing.do_bench(call, warmup=5, rep=30, quantiles=quantiles)

    @triton.autotune(configs=_configs(), key=["m", "n", "k"], do_bench=_measured)
    @triton.jit
    def _product(
        a,
        b,
        c,
        m,
        n,
        k,
        ROWS: tl.constexpr,  # noqa: N803 - as Triton's programs have them
        COLUMNS: tl.constexpr,  # noqa: N803
        DEPTH: tl.constexpr,  # noqa: N803
    ) -> None:
        """A tile of C, of contiguous matrices; eight tiles below each other come one after the other."""
        number, down, across = tl.program_id(0), tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
        group = number // (8 * across)
        height = min(down - 8 * group, 8)
        within = number % (8 * across)
        row, column = 8 * group + within % height, within // height
        i, j, x = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
        rows, columns = (row * ROWS + i) % m, (column * COLUMNS + j) % n
        left, right = a + rows[:, None] * k + x[None, :], b + x[:, None] * n + columns[None, :]
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for step in range(tl.cdiv(k, DEPTH)):
            rest = k - step * DEPTH
            at = tl.load(left, mask=x[None, :] < rest, other=0.0)
            bt = tl.load(right, mask=x[:, None] < rest, other=0.0)
            total = tl.dot(at, bt, total)
            left += DEPTH
            right += DEPTH * n
        rows, columns = row * ROWS + i, column * COLUMNS + j
        inside = (rows[:, None] < m) & (columns[None, :] < n)
        tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), mask=inside)

    def _grid(config: Any, m: int, n: int) -> tuple[int]:
        return (triton.cdiv(m, config["ROWS"]) * triton.cdiv(n, config["COLUMNS"]),)

    def multiply(a: Any, b: Any, c: Any) -> None:
        """Computes C = A B on torch's current stream."""
        m, n, k = *c.shape, a.shape[1]
        _product[lambda config: _grid(config, m, n)](a, b, c, m, n, k)
