"""Kernels with barriers on the CPU stream: in regions, with lanes one by one, and beside numba's parallel loops.

    python benchmarks/regions.py          milliseconds, and what the others take over the time of regions, in one run

numba (pip install numba) does the tasks as its users write them for a CPU, in parallel loops without blocks; it is left out where
it is not installed. Kernels are unchecked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cuda_device as device
from cuda_device.codegen.cpu import regions

TILE, COUNT = 16, 1 << 20


@device.kernel(checked=False)
def product(a: Any, b: Any, c: Any, n: Any) -> None:
    """A product of square matrices, by tiles."""
    x = device.shared_array((TILE, TILE), device.float32)
    y = device.shared_array((TILE, TILE), device.float32)
    i, j = device.tid(2)
    tx, ty = device.thread_idx.x, device.thread_idx.y
    total = device.float32(0)
    for k in range(0, n, TILE):
        x[ty, tx] = a[j, k + tx]
        y[ty, tx] = b[k + ty, i]
        device.syncthreads()
        for m in range(TILE):
            total += x[ty, m] * y[m, tx]
        device.syncthreads()
    c[j, i] = total


@device.kernel(checked=False)
def tree(x: Any, out: Any) -> None:
    """The sum of each block, by halves."""
    s = device.shared_array(256, device.float32)
    i = device.thread_idx.x
    s[i] = x[device.tid(1)]
    device.syncthreads()
    k = 128
    while k > 0:
        if i < k:
            s[i] += s[i + k]
        device.syncthreads()
        k //= 2
    if i == 0:
        out[device.block_idx.x] = s[0]


@device.kernel(checked=False)
def shuffles(x: Any, out: Any) -> None:
    """The sum of each warp, by shuffles."""
    v = x[device.tid(1)]
    for k in (16, 8, 4, 2, 1):
        v += device.shfl_down_sync(0xFFFFFFFF, v, k)
    if device.lane_id == 0:
        out[device.tid(1) // 32] = v


@device.kernel(checked=False)
def histogram(x: Any, counts: Any) -> None:
    """How often each byte occurs, counted by block first."""
    s = device.shared_array(256, device.int32)
    i = device.thread_idx.x
    s[i] = 0
    device.syncthreads()
    for k in range(device.tid(1), len(x), device.grid_size(1)):
        device.atomic_ref(s, x[k]).add(1, "relaxed", "block")
    device.syncthreads()
    device.atomic_ref(counts, i).add(s[i], "relaxed", "device")


@device.kernel(checked=False)
def transpose(a: Any, b: Any) -> None:
    """A transposed matrix, by tiles."""
    t = device.shared_array((32, 33), device.float32)
    tx, ty = device.thread_idx.x, device.thread_idx.y
    i, j = device.block_idx.x * 32, device.block_idx.y * 32
    for k in range(0, 32, 8):
        t[ty + k, tx] = a[j + ty + k, i + tx]
    device.syncthreads()
    for k in range(0, 32, 8):
        b[i + ty + k, j + tx] = t[tx, ty + k]


Runs = dict[str, tuple[Callable[[], object], Callable[[], np.ndarray]]]
"""By task: what runs it, and what gives its result."""

random = np.random.default_rng(1)
A, B = random.random((2, 512, 512), np.float32)
X = random.random(COUNT, np.float32)
Y = random.integers(0, 256, COUNT).astype(np.uint8)
LARGE = random.random((2048, 2048), np.float32)
EXPECTED = {
    "product": A @ B,
    "tree": X.reshape(-1, 256).sum(1),
    "shuffles": X.reshape(-1, 32).sum(1),
    "histogram": np.bincount(Y, minlength=256),
    "transpose": LARGE.T,
}


def ours() -> Runs:
    """On the CPU stream."""
    stream = device.cpu_stream()
    c, sums, warps = np.zeros_like(A), np.zeros(COUNT // 256, np.float32), np.zeros(COUNT // 32, np.float32)
    counts, turned = np.zeros(256, np.int32), np.zeros_like(LARGE)
    kernels = [
        device.kernel(checked=False)(each.underlying) for each in (product, tree, shuffles, histogram, transpose)
    ]

    def count() -> None:
        counts[:] = 0
        device.launch(kernels[3], Y, counts, grid=64, block=256, stream=stream)

    return {
        "product": (
            lambda: device.launch(kernels[0], A, B, c, 512, grid=(32, 32), block=(TILE, TILE), stream=stream),
            lambda: c,
        ),
        "tree": (lambda: device.launch(kernels[1], X, sums, grid=4096, block=256, stream=stream), lambda: sums),
        "shuffles": (lambda: device.launch(kernels[2], X, warps, grid=4096, block=256, stream=stream), lambda: warps),
        "histogram": (count, lambda: counts),
        "transpose": (
            lambda: device.launch(kernels[4], LARGE, turned, grid=(64, 64), block=(32, 8), stream=stream),
            lambda: turned,
        ),
    }


def numba() -> Runs:  # noqa: C901
    """In parallel loops."""
    from numba import get_num_threads, njit, prange

    c, sums, warps = np.zeros_like(A), np.zeros(COUNT // 256, np.float32), np.zeros(COUNT // 32, np.float32)
    counts, turned = np.zeros((get_num_threads(), 256), np.int32), np.zeros_like(LARGE)

    def multiply(a: Any, b: Any, c: Any) -> None:
        for i in prange(len(a)):
            c[i] = 0
            for k in range(len(b)):
                for j in range(len(c)):
                    c[i, j] += a[i, k] * b[k, j]

    def add(x: Any, out: Any) -> None:
        size = len(x) // len(out)
        for i in prange(len(out)):
            total = np.float32(0)
            for k in range(size):
                total += x[i * size + k]
            out[i] = total

    def count(x: Any, counts: Any) -> None:
        share = -(-len(x) // len(counts))
        for i in prange(len(counts)):
            counts[i] = 0
            for k in range(i * share, min(len(x), (i + 1) * share)):
                counts[i, x[k]] += 1

    def turn(a: Any, b: Any) -> None:
        for i in prange(len(a)):
            for j in range(len(a)):
                b[j, i] = a[i, j]

    parallel: Any = njit(parallel=True, fastmath=True)
    quick_multiply, quick_add, quick_count, quick_turn = map(parallel, (multiply, add, count, turn))
    return {
        "product": (lambda: quick_multiply(A, B, c), lambda: c),
        "tree": (lambda: quick_add(X, sums), lambda: sums),
        "shuffles": (lambda: quick_add(X, warps), lambda: warps),
        "histogram": (lambda: quick_count(Y, counts), lambda: counts.sum(0)),
        "transpose": (lambda: quick_turn(LARGE, turned), lambda: turned),
    }


def least(run: Callable[[], object], seconds: float = 0.5) -> float:
    """The least of several times, in seconds."""
    run()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """The command."""
    os.environ["CUDA_DEVICE_CACHE"] = ""
    largest = regions.LARGEST
    columns: dict[str, dict[str, float]] = {}
    for name, make in (("regions", ours), ("one by one", ours), ("numba", numba)):
        vars(regions)["LARGEST"] = largest if name == "regions" else 0
        try:
            runs = make()
        except ImportError:
            continue
        columns[name] = {}
        for task, (run, result) in runs.items():
            columns[name][task] = least(run)
            assert np.allclose(result(), EXPECTED[task], rtol=1e-3), (name, task)
    print(f"{'':12}" + "".join(f"{name:>22}" for name in columns))
    for task in EXPECTED:
        base = columns["regions"][task]
        cells = (columns[name].get(task) for name in columns)
        shown = ("" if cell is None else f"{cell * 1e3:10.2f} ms {cell / base:7.2f}" for cell in cells)
        print(f"{task:12}" + "".join(f"{cell:>22}" for cell in shown))


if __name__ == "__main__":
    main()
