"""The kernels of the suite on the CPU stream, beside NumPy (or SciPy) doing the same on the same machine.

    python benchmarks/cpu.py [name …] [--scale 0.01]

Times are the least of several runs, after one that compiles. A ratio above 1 means that the kernel takes longer than NumPy.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import llvmlite
import numpy as np
from suite import SUITE

import cuda_device as device


def least(call: Callable[[], object], seconds: float = 0.5, clock: Callable[[], float] = time.perf_counter) -> float:
    """The least of several times of `call`, in seconds, by a clock, which advances by about `seconds` altogether."""
    call()
    best, end = float("inf"), clock() + seconds
    while True:
        start = clock()
        call()
        now = clock()
        best = min(best, now - start)
        if now > end:
            return best


def processor() -> str:
    """The processor's name."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="parts of kernels' names; none: all")
    parser.add_argument("--scale", type=float, default=0.01, help="how large the problems are; 1 is meant for a GPU")
    options = parser.parse_args()
    threads = os.environ.get("CUDA_DEVICE_CPU_THREADS") or len(os.sched_getaffinity(0))
    print(f"{processor()}, {threads} threads; Python {platform.python_version()}, NumPy {np.__version__}, ", end="")
    print(f"llvmlite {llvmlite.__version__}, cuda_device {device.__version__}; scale {options.scale}")
    print(f"{'milliseconds':24}{'kernel':>10}{'NumPy':>10}{'ratio':>8}{'GB/s':>8}{'GFLOP/s':>9}")
    stream = device.cpu_stream()
    for row in SUITE:
        if options.names and not any(name in row.name for name in options.names):
            continue
        problem = row.problem(options.scale)
        launch = device.prepare(
            row.kernel,
            *problem.ours,
            grid=problem.grid,
            block=problem.block,
            shared=problem.shared,
            stream=stream,
        )
        ours = least(launch)
        peer = least(problem.numpy) if problem.numpy else float("nan")
        compared = f"{1e3 * peer:10.3f}{ours / peer:8.2f}" if problem.numpy else f"{'-':>10}{'-':>8}"
        rates = f"{problem.bytes / ours / 1e9:8.1f}{problem.flops / ours / 1e9:9.1f}"
        print(f"{row.name:24}{1e3 * ours:10.3f}{compared}{rates}", flush=True)


if __name__ == "__main__":
    main()
