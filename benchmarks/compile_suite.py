"""What compiling each kernel of the suite costs, by stage, beside NVRTC, numba-cuda and Triton where they are installed; no GPU.

    python benchmarks/compile_suite.py [name …] [--count 3] [--target sm_90] [--json compile_suite.json]

The least of several runs in one process that has compiled before, in milliseconds, with caches out of the way. Ours and NVRTC end
with a cubin, Triton too; numba-cuda ends with PTX, which is what it makes without a driver. The front end is everything before
LLVM. Warp compiles whole modules, with NVRTC, and has no row.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import triton_kernels
from cpu import processor
from numba_kernels import NUMBA
from nvrtc import compile_cubin
from nvrtc import version as nvrtc_version
from suite import SUITE, Problem, Row
from triton_kernels import TRITON

from cuda_device import compiler
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.launch.compile_job import job_of

STAGES = {"front end": ("python", "typed", "device", "llvm"), "LLVM": ("optimised", "ptx"), "assembler": ("cubin",)}
PEERS = ("NVRTC", "numba-cuda", "Triton")


def ours(row: Row, problem: Problem, target: str) -> dict[str, float]:
    """The seconds of each group of stages."""
    job = job_of(row.kernel, problem.ours, target)
    job = replace(job, options=replace(job.options, launch_facts=True))
    seconds = compiler.run(job, afresh=True).seconds
    return {title: sum(seconds[stage] for stage in stages) for title, stages in STAGES.items()}


_numbers = itertools.count()


def nvrtc(row: Row, target: str) -> None:
    """Compiles the C++ kernel; a comment makes it a text that has not been compiled before."""
    compile_cubin(f"// {next(_numbers)}\n{row.cuda_source()}", target)


def numba_ptx(kernel: Any, problem: Problem, target: str) -> None:
    """Compiles numba's kernel for the types of the problem's arguments."""
    from numba import cuda, typeof

    capability = divmod(int(target.removeprefix("sm_").rstrip("af")), 10)
    cuda.compile_ptx(kernel.py_func, tuple(typeof(x) for x in problem.cuda), cc=capability)


def triton_cubin(row: triton_kernels.TritonKernel, problem: Problem, target: str) -> None:
    """Compiles Triton's kernel with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        triton_kernels.compile(row, problem, target)


def seconds_of(call: Callable[[], object], count: int) -> float:
    """The least time of several calls."""
    best = math.inf
    for _ in range(count):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def peers(row: Row, problem: Problem, target: str, count: int) -> dict[str, float]:
    """The seconds of each peer that has the kernel and compiles it here: numba-cuda wants a driver where functions are called."""
    calls: dict[str, Callable[[], object]] = {"NVRTC": lambda: nvrtc(row, target)}
    if row.name in NUMBA:
        calls["numba-cuda"] = lambda: numba_ptx(NUMBA[row.name], problem, target)
    if row.name in TRITON:
        calls["Triton"] = lambda: triton_cubin(TRITON[row.name], problem, target)
    found = {}
    for name, call in calls.items():
        try:
            found[name] = seconds_of(call, count)
        except Exception as error:  # of any kind: the others are measured
            said = str(error).strip().splitlines()
            print(
                f"{row.name}: {name} cannot compile it: {type(error).__name__}: {said[0] if said else ''}", flush=True
            )
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="parts of kernels' names; none: all")
    parser.add_argument("--count", type=int, default=3, help="how often each is compiled")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--json", type=Path, help="a file for the results, of which plot.py makes a plot")
    options = parser.parse_args()
    rows = [row for row in SUITE if not options.names or any(name in row.name for name in options.names)]
    print(f"NVRTC {nvrtc_version()}; milliseconds, for {options.target}")
    print(f"{'':24}" + "".join(f"{title:>11}" for title in (*STAGES, "whole", *PEERS)))
    ratios: dict[str, list[float]] = {peer: [] for peer in PEERS}
    results: list[dict[str, Any]] = []
    first = rows[0]
    ours(first, first.problem(0), options.target)  # loads LLVM, the assembler and libdevice
    peers(first, first.problem(0), options.target, 1)
    for row in rows:
        problem = row.problem(0)
        runs = [ours(row, problem, options.target) for _ in range(options.count)]
        best = {title: min(run[title] for run in runs) for title in STAGES}
        whole = min(sum(run.values()) for run in runs)
        others = peers(row, problem, options.target, options.count)
        shown = [*best.values(), whole, *(others.get(peer) for peer in PEERS)]
        print(f"{row.name:24}" + "".join(f"{'-':>11}" if t is None else f"{1e3 * t:11.1f}" for t in shown), flush=True)
        for peer, seconds in others.items():
            ratios[peer].append(whole / seconds)
        times = {"cuda_device": whole, **others}
        results += [
            {"kernel": row.name, "contender": name, "seconds": round(seconds, 5), "right": True}
            for name, seconds in times.items()
        ]
    means = (f"{peer} {math.exp(np.mean(np.log(some))):.2f}" for peer, some in ratios.items() if some)
    print(f"geometric mean of our time over a peer's: {', '.join(means)}")
    if options.json:
        machine = f"Compiling for {options.target}: NVRTC {nvrtc_version()}, {processor()}, no GPU, {datetime.now(UTC).date()}"
        lines = ",\n".join(json.dumps(result) for result in results)
        options.json.write_text(f'{{"machine": {json.dumps(machine)}, "results": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
