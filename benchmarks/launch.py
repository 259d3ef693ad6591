"""What a launch costs the host: microseconds from the call to its return, beside CuPy and Numba where they are installed.

    python benchmarks/launch.py

The kernel scales 32 numbers. On the CPU stream a launch includes running it; on a GPU stream it only queues it, and all that
was queued is waited for after the clock has stopped. The rivals are measured in the same run, on the same GPU and memory.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cuda_device as device

LAUNCHES = 1000
ROUNDS = 7


@device.kernel
def scale(a, x, y, n):
    """Each thread scales a number."""
    i = device.tid(1)
    if i < n:
        y[i] = a * x[i]


def cost(launch: Callable[[], object], wait: Callable[[], object]) -> float:
    """The median of several rounds, in microseconds a launch."""
    launch()
    wait()
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            launch()
        rounds.append(time.perf_counter() - start)
        wait()
    return 1e6 * statistics.median(rounds) / LAUNCHES


def ours(stream: Any, prepared: bool = False) -> float:
    """A launch on `stream`, or the start of one that was prepared."""
    x, y = device.array(np.ones(32, np.float32), stream=stream), device.zeros(32, stream=stream)

    def launch() -> None:
        device.launch(scale, 2.0, x, y, 32, grid=1, block=32, stream=stream)

    if prepared:
        launch = device.prepare(scale, 2.0, x, y, 32, grid=1, block=32, stream=stream)
    result = cost(launch, stream.synchronize)
    assert (y.numpy() == 2).all()
    return result


def cupy() -> float:
    """A launch of the same kernel, written in CUDA C++, by CuPy."""
    cp = importlib.import_module("cupy")
    text = """
        extern "C" __global__ void k(float a, const float* x, float* y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = a * x[i];
        }
    """
    kernel = cp.RawKernel(text, "k")
    x, y = cp.ones(32, np.float32), cp.zeros(32, np.float32)
    a, n = np.float32(2), np.int32(32)
    return cost(lambda: kernel((1,), (32,), (a, x, y, n)), cp.cuda.Device().synchronize)


def numba() -> float:
    """A launch of the same kernel by Numba."""
    cuda = importlib.import_module("numba.cuda")

    @cuda.jit  # type: ignore[untyped-decorator]
    def kernel(a: Any, x: Any, y: Any, n: Any) -> None:
        i = cuda.grid(1)
        if i < n:
            y[i] = a * x[i]

    x, y = cuda.to_device(np.ones(32, np.float32)), cuda.to_device(np.zeros(32, np.float32))
    started = kernel[1, 32]
    return cost(lambda: started(np.float32(2), x, y, 32), cuda.synchronize)


def main() -> None:
    """Prints the table."""
    print(f"CPU stream     {ours(device.cpu_stream()):7.1f} us a launch")
    print(f"  prepared     {ours(device.cpu_stream(), prepared=True):7.1f} us a launch")
    stream = device.default_stream()
    if isinstance(stream, device.CpuStream):
        print("no GPU here: nothing to compare with")
        return
    mine = ours(stream)
    print(f"GPU stream     {mine:7.1f} us a launch")
    print(f"  prepared     {ours(stream, prepared=True):7.1f} us a launch")
    for name, measure in (("CuPy", cupy), ("Numba", numba)):
        try:
            theirs = measure()
        except ImportError:
            print(f"{name:14} is not installed")
        else:
            print(f"{name:14} {theirs:7.1f} us a launch, {theirs / mine:.1f} times ours")


if __name__ == "__main__":
    main()
