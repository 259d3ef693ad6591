"""Kernels with barriers on the CPU stream, compared with PoCL, numba and Warp in one run.

    python benchmarks/regions.py [seconds]      milliseconds, and our time relative to that of each other system

PoCL (pip install pyopencl pocl-binary-distribution) runs the same kernels in OpenCL C with the same block sizes. numba and Warp
(pip install numba warp-lang) do the same tasks as their users write them for a CPU: in parallel loops without blocks, and as
kernels without barriers, which Warp runs on one thread. A system that is not installed is left out. Kernels are unchecked. The
systems take turns for `seconds` (3) at each task, and each figure is the least time. Set the numbers of threads with
CUDA_DEVICE_CPU_THREADS, POCL_MAX_PTHREAD_COUNT and NUMBA_NUM_THREADS.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cuda_device as device

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


OPENCL = """
#define TILE 16
kernel void product(global const float *a, global const float *b, global float *c, int n) {
    local float x[TILE][TILE], y[TILE][TILE];
    int i = get_global_id(0), j = get_global_id(1), tx = get_local_id(0), ty = get_local_id(1);
    float total = 0;
    for (int k = 0; k < n; k += TILE) {
        x[ty][tx] = a[j * n + k + tx];
        y[ty][tx] = b[(k + ty) * n + i];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int m = 0; m < TILE; m++) total += x[ty][m] * y[m][tx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[j * n + i] = total;
}
kernel void tree(global const float *x, global float *out) {
    local float s[256];
    int i = get_local_id(0);
    s[i] = x[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 128; k > 0; k /= 2) {
        if (i < k) s[i] += s[i + k];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i == 0) out[get_group_id(0)] = s[0];
}
kernel void shuffles(global const float *x, global float *out) {
    local float s[256 + 16];
    int i = get_local_id(0);
    float v = x[get_global_id(0)];
    for (int k = 16; k > 0; k /= 2) {
        s[i] = v;
        barrier(CLK_LOCAL_MEM_FENCE);
        v += s[i + k];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i % 32 == 0) out[get_global_id(0) / 32] = v;
}
kernel void histogram(global const uchar *x, global int *counts, int n) {
    local int s[256];
    int i = get_local_id(0);
    s[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = get_global_id(0); k < n; k += get_global_size(0)) atomic_inc(s + x[k]);
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(counts + i, s[i]);
}
kernel void transpose(global const float *a, global float *b, int n) {
    local float t[32][33];
    int tx = get_local_id(0), ty = get_local_id(1), i = get_group_id(0) * 32, j = get_group_id(1) * 32;
    for (int k = 0; k < 32; k += 8) t[ty + k][tx] = a[(j + ty + k) * n + i + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 32; k += 8) b[(i + ty + k) * n + j + tx] = t[tx][ty + k];
}
"""
"""The same kernels. PoCL has no shuffles: they go through local memory."""


def pocl() -> Runs:
    """On PoCL's device for the CPU."""
    cl: Any = importlib.import_module("pyopencl")
    platform = next(each for each in cl.get_platforms() if "Portable" in each.name)
    context = cl.Context(platform.get_devices())
    queue, program = cl.CommandQueue(context), cl.Program(context, OPENCL).build()
    used = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR

    def task(name: str, size: Any, group: Any, arrays: Any, *rest: Any) -> tuple[Callable[[], object], Any]:
        kernel, buffers = cl.Kernel(program, name), [cl.Buffer(context, used, hostbuf=array) for array in arrays]
        kernel.set_args(*buffers, *map(np.int32, rest))

        def run() -> None:
            if name == "histogram":
                cl.enqueue_fill_buffer(queue, buffers[-1], np.int32(0), 0, arrays[-1].nbytes)
            cl.enqueue_nd_range_kernel(queue, kernel, size, group)
            queue.finish()

        def result() -> np.ndarray:
            cl.enqueue_copy(queue, arrays[-1], buffers[-1])
            return np.asarray(arrays[-1])

        return run, result

    sums, warps = np.zeros(COUNT // 256, np.float32), np.zeros(COUNT // 32, np.float32)
    counts, turned = np.zeros(256, np.int32), np.zeros_like(LARGE)
    return {
        "product": task("product", A.shape, (TILE, TILE), (A, B, np.zeros_like(A)), len(A)),
        "tree": task("tree", (COUNT,), (256,), (X, sums)),
        "shuffles": task("shuffles", (COUNT,), (256,), (X, warps)),
        "histogram": task("histogram", (64 * 256,), (256,), (Y, counts), COUNT),
        "transpose": task("transpose", (2048, 512), (32, 8), (LARGE, turned), len(LARGE)),
    }


def warp() -> Runs:
    """As kernels without barriers, with a thread for each result, or for each byte of the histogram."""
    wp: Any = importlib.import_module("warp")

    def multiply(a: Any, b: Any, c: Any) -> None:
        j, i = wp.tid()
        total = wp.float32(0)
        for k in range(a.shape[1]):
            total += a[j, k] * b[k, i]
        c[j, i] = total

    def add(x: Any, out: Any) -> None:
        i = wp.tid()
        size = x.shape[0] // out.shape[0]
        total = wp.float32(0)
        for k in range(size):
            total += x[i * size + k]
        out[i] = total

    def count(x: Any, counts: Any) -> None:
        wp.atomic_add(counts, int(x[wp.tid()]), 1)

    def turn(a: Any, b: Any) -> None:
        j, i = wp.tid()
        b[i, j] = a[j, i]

    def task(function: Any, shape: Any, *arrays: np.ndarray) -> tuple[Callable[[], object], Callable[[], np.ndarray]]:
        inputs = [wp.array(array, device="cpu", copy=False) for array in arrays]
        types = (wp.array(dtype=each.dtype, ndim=each.ndim) for each in inputs)
        function.__annotations__ = dict(zip(function.__code__.co_varnames, types, strict=False))
        kernel = wp.Kernel(function, module=wp.get_module(function.__name__))

        def run() -> None:
            if arrays[-1] is counts:
                counts[:] = 0
            wp.launch(kernel, dim=shape, inputs=inputs, device="cpu")

        return run, lambda: arrays[-1]

    c, sums, warps = np.zeros_like(A), np.zeros(COUNT // 256, np.float32), np.zeros(COUNT // 32, np.float32)
    counts, turned = np.zeros(256, np.int32), np.zeros_like(LARGE)
    return {
        "product": task(multiply, A.shape, A, B, c),
        "tree": task(add, len(sums), X, sums),
        "shuffles": task(add, len(warps), X, warps),
        "histogram": task(count, len(Y), Y, counts),
        "transpose": task(turn, LARGE.shape, LARGE, turned),
    }


def least(runs: list[Callable[[], object]], seconds: float) -> list[float]:
    """The least times of several functions, which take turns, in seconds."""
    for run in runs:
        run()
    best, end = [math.inf] * len(runs), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for k, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def main() -> None:
    """The command."""
    os.environ["CUDA_DEVICE_CACHE"] = ""
    systems: dict[str, Runs] = {}
    for make in (ours, pocl, numba, warp):
        try:
            systems[make.__name__] = make()
        except ImportError:
            continue
    ratios: dict[str, list[float]] = {name: [] for name in systems}
    print(f"{'milliseconds':12}" + "".join(f"{name:>9}{'' if name == 'ours' else '  ratio'}" for name in systems))
    for task, expected in EXPECTED.items():
        times = least([runs[task][0] for runs in systems.values()], float((*sys.argv, "3")[1]))
        cells = ""
        for (name, runs), seconds in zip(systems.items(), times, strict=True):
            assert np.allclose(runs[task][1](), expected, rtol=1e-3), (name, task)
            ratios[name].append(times[0] / seconds)
            cells += f"{seconds * 1e3:9.2f}" + ("" if name == "ours" else f"{times[0] / seconds:7.2f}")
        print(f"{task:12}{cells}", flush=True)
    means = {name: math.exp(sum(map(math.log, found)) / len(found)) for name, found in ratios.items() if name != "ours"}
    print("geometric means of the ratios: " + ", ".join(f"{name} {mean:.2f}" for name, mean in means.items()))


if __name__ == "__main__":
    main()
