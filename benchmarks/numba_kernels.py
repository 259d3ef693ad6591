"""Kernels of the suite for numba-cuda, where it is installed: those that it says in the same words.

`NUMBA` maps names of the suite to functions of buffers and a stream that return a launcher; it is empty without numba-cuda.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NUMBA: dict[str, Callable[[Any, Any], Callable[[int], None]]] = {}

try:
    from numba import cuda
except Exception:  # not installed, or not for this NumPy
    cuda = None


def _row(name: str, jitted: Any) -> None:
    def prepare(buffers: Any, stream: Any) -> Callable[[int], None]:
        problem, queue = buffers.problem, cuda.external_stream(stream.handle)

        def launch(n: int) -> None:
            arrays = [cuda.as_cuda_array(x) for x in buffers.replaced(problem.ours, n)]
            jitted[problem.grid, problem.block, queue, problem.shared](*arrays)

        return launch

    NUMBA[name] = prepare


def _define_stream() -> None:
    @cuda.jit
    def copy(a, c):
        i = cuda.grid(1)
        if i < a.size:
            c[i] = a[i]

    @cuda.jit
    def scale(b, c):
        i = cuda.grid(1)
        if i < b.size:
            b[i] = 0.4 * c[i]

    @cuda.jit
    def add(a, b, c):
        i = cuda.grid(1)
        if i < a.size:
            c[i] = a[i] + b[i]

    @cuda.jit
    def triad(a, b, c):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = b[i] + 0.4 * c[i]

    rows = {"copy": copy, "scale": scale, "add": add, "triad": triad}
    for name, jitted in rows.items():
        _row(f"stream {name}", jitted)


def _define_products() -> None:
    @cuda.jit
    def multiply(a, b, c):
        j, i = cuda.grid(2)
        if i < c.shape[0] and j < c.shape[1]:
            total = a[0, 0] - a[0, 0]
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total

    _row("matmul float32", multiply)
    _row("matmul float64", multiply)


if cuda is not None:
    _define_stream()
    _define_products()
