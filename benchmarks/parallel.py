"""Kernels without barriers on the CPU stream, beside numba's parallel loops over the same functions of one element.

    python benchmarks/parallel.py [name …]

numba (pip install numba) compiles each function into a `prange` loop over all elements, rows in parallel where there are two
axes. Both run without `fastmath`, then with all of LLVM's flags. Kernels are unchecked. Times are the least of runs that take
turns, launches included; a ratio above 1 means that the kernel takes longer than numba. On a machine that others use, set
CUDA_DEVICE_CPU_THREADS=1 and NUMBA_NUM_THREADS=1.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, prange

import cuda_device as device
from cuda_device.device.options import LLVM_FLAGS

ONE, TWO, HALF, FOUR, EIGHTH = map(np.float32, (1, 2, 0.5, 4, 0.125))
RATE, VOLATILITY, ROOT_HALF, SOFTENING = map(np.float32, (0.02, 0.3, math.sqrt(0.5), 1e-3))


def copy(i: Any, a: Any, b: Any) -> None:
    """A copy."""
    b[i] = a[i]


def triad(i: Any, a: Any, b: Any, c: Any) -> None:
    """A sum with a multiple."""
    c[i] = a[i] + HALF * b[i]


def gather(i: Any, order: Any, a: Any, b: Any) -> None:
    """A copy in another order."""
    b[i] = a[order[i]]


def waves(i: Any, a: Any, b: Any) -> None:
    """A sine and an exponential."""
    b[i] = math.sin(a[i]) * math.exp(-a[i])


def bends(i: Any, a: Any, b: Any) -> None:
    """A hyperbolic tangent."""
    b[i] = math.tanh(a[i])


def option(i: Any, price: Any, strike: Any, years: Any, call: Any) -> None:
    """The price of a call by Black and Scholes."""
    root = VOLATILITY * math.sqrt(years[i])
    d = (math.log(price[i] / strike[i]) + (RATE + HALF * VOLATILITY * VOLATILITY) * years[i]) / root
    near, far = HALF * math.erfc(-d * ROOT_HALF), HALF * math.erfc((root - d) * ROOT_HALF)
    call[i] = price[i] * near - strike[i] * math.exp(-RATE * years[i]) * far


def row(i: Any, starts: Any, columns: Any, values: Any, x: Any, y: Any) -> None:
    """A row of a sparse matrix times a vector."""
    total = np.float32(0)
    for k in range(starts[i], starts[i + 1]):
        total += values[k] * x[columns[k]]
    y[i] = total


def pull(i: Any, x: Any, y: Any, z: Any, force: Any) -> None:
    """The force of all bodies on one, along x."""
    total = np.float32(0)
    for k in range(len(x)):
        dx, dy, dz = x[k] - x[i], y[k] - y[i], z[k] - z[i]
        square = dx * dx + dy * dy + dz * dz + SOFTENING
        total += dx / (square * math.sqrt(square))
    force[i] = total


def five(j: Any, i: Any, a: Any, b: Any) -> None:
    """A stencil of five points."""
    if 0 < j < a.shape[0] - 1 and 0 < i < a.shape[1] - 1:
        b[j, i] = HALF * a[j, i] + EIGHTH * (a[j - 1, i] + a[j + 1, i] + a[j, i - 1] + a[j, i + 1])


def turn(j: Any, i: Any, a: Any, b: Any) -> None:
    """A transposed matrix."""
    b[i, j] = a[j, i]


def product(j: Any, i: Any, a: Any, b: Any, c: Any) -> None:
    """A product of matrices."""
    total = np.float32(0)
    for k in range(a.shape[1]):
        total += a[j, k] * b[k, i]
    c[j, i] = total


def escape(j: Any, i: Any, counts: Any) -> None:
    """The steps until a point of the Mandelbrot set's plane escapes."""
    x, y = np.float32(i) * np.float32(3 / 512) - TWO, np.float32(j) * np.float32(2 / 512) - ONE
    a, b, n = x, y, 0
    while n < 100 and a * a + b * b < FOUR:
        a, b = a * a - b * b + x, TWO * a * b + y
        n += 1
    counts[j, i] = n


@dataclass(frozen=True)
class Task:
    """A function of one element, and its arrays, of which the last is written: its shape is that of the loops."""

    function: Callable[..., None]
    arrays: tuple[Any, ...]

    def made(self, head: str, **names: object) -> Any:
        """A function with the arrays as parameters, which calls that of one element behind these lines."""
        count, axes = len(self.arrays), self.arrays[-1].ndim
        parameters = ", ".join(f"x{k}" for k in range(count))
        lines = head.replace("OUT", f"x{count - 1}").splitlines()
        indices = "i" if axes == 1 else "j, i"
        text = "\n".join((f"def made({parameters}):", *lines, f"{lines[-1][: -len(lines[-1].lstrip())]}    "))
        exec(f"{text}function({indices}, {parameters})", names)
        return names["made"]

    def ours(self, fastmath: bool) -> Callable[[], object]:
        """What launches it on the CPU stream."""
        shape = self.arrays[-1].shape
        head = " i = device.tid(1)\n if i < OUT.shape[0]:"
        if len(shape) == 2:
            head = " i, j = device.tid(2)\n if i < OUT.shape[1] and j < OUT.shape[0]:"
        made = self.made(head, device=device, function=self.function)
        kernel = device.kernel(checked=False, fastmath=LLVM_FLAGS if fastmath else False)(made)
        block, stream = 256 if len(shape) == 1 else (32, 8), device.cpu_stream()
        return lambda: device.launch(kernel, *self.arrays, threads=shape[::-1], block=block, stream=stream)

    def numbas(self, fastmath: bool) -> Callable[[], object]:
        """What runs numba's loops."""
        head = " for i in prange(OUT.shape[0]):"
        if self.arrays[-1].ndim == 2:
            head = " for j in prange(OUT.shape[0]):\n  for i in range(OUT.shape[1]):"
        flags = set(LLVM_FLAGS) if fastmath else False
        function = njit(self.function, fastmath=flags)
        loop = njit(self.made(head, prange=prange, function=function), parallel=True, fastmath=flags)
        return lambda: loop(*self.arrays)


def tasks() -> list[Task]:
    """All of them."""
    random, n = np.random.default_rng(1), 1 << 20
    a, b, c = random.random((3, n), np.float32) + ONE
    rows, width = 1 << 15, 32
    starts = np.arange(rows + 1, dtype=np.int32) * width
    columns = random.integers(0, rows, rows * width).astype(np.int32)
    image, other, square = np.empty((3, 1024, 1024), np.float32)
    image[:] = random.random((1024, 1024), np.float32)
    x, y, z, force = random.random((4, 2048), np.float32)
    left, right, made = random.random((3, 384, 384), np.float32)
    out = np.empty_like(a)
    return [
        Task(copy, (a, out)),
        Task(triad, (a, b, out)),
        Task(gather, (random.permutation(n).astype(np.int32), a, out)),
        Task(waves, (a, out)),
        Task(bends, (a, out)),
        Task(option, (a, b, c, out)),
        Task(row, (starts, columns, a[: rows * width], a[:rows].copy(), np.empty(rows, np.float32))),
        Task(pull, (x, y, z, force)),
        Task(five, (image, other)),
        Task(turn, (image, square)),
        Task(product, (left, right, made)),
        Task(escape, (np.empty((512, 512), np.int32),)),
    ]


def least(runs: list[Callable[[], object]], seconds: float = 1.0) -> list[float]:
    """The least times of several functions, which take turns, in seconds."""
    best, end = [math.inf] * len(runs), time.perf_counter() + seconds
    for run in runs:
        run()
    while time.perf_counter() < end:
        for k, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def main() -> None:
    """Prints the table."""
    print(f"{'milliseconds':14}{'ours':>9}{'numba':>9}{'ratio':>7}{'fast':>9}{'numba':>9}{'ratio':>7}")
    ratios: list[list[float]] = [[], []]
    for task in tasks():
        name = task.function.__name__
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        cells = ""
        for fastmath in (False, True):
            ours, numbas = task.ours(fastmath), task.numbas(fastmath)
            ours()
            result = task.arrays[-1].copy()
            numbas()
            # Where rounding differs, a point may escape a step later.
            assert np.isclose(result, task.arrays[-1], rtol=1e-3, atol=1e-4).mean() > 0.99, name
            here, there = least([ours, numbas])
            ratios[fastmath].append(here / there)
            cells += f"{1e3 * here:9.3f}{1e3 * there:9.3f}{here / there:7.2f}"
        print(f"{name:14}{cells}", flush=True)
    means = [math.exp(sum(map(math.log, found)) / len(found)) for found in ratios]
    print(f"geometric means {means[0]:.2f} and {means[1]:.2f}, most {max(ratios[0]):.2f} and {max(ratios[1]):.2f}")


if __name__ == "__main__":
    main()
