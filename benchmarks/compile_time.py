"""What compiling a small kernel costs, by stage: from the Python function to a cubin, and to code for this CPU.

    python benchmarks/compile_time.py [--count 30] [--target sm_90]

Each kernel is a new function with code of its own, so that nothing is taken from a cache. The first one of a process also
pays for loading LLVM, the assembler and libdevice.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import math
import statistics
import time
from types import FunctionType

import cuda_device as device
from cuda_device import compiler
from cuda_device.codegen.architectures import parse
from cuda_device.types.known import Known, of_type
from cuda_device.types.model import FLOAT32, INT, Array

PLAIN = """
def plain_{number}(x, y, n):
    i = device.tid(1)
    if i < n:
        y[i] = x[i] * {number}.5 + y[i]
"""
WITH_MATH = """
def with_math_{number}(x, y, n):
    i = device.tid(1)
    if i < n:
        y[i] = math.exp(x[i] * {number}.5) + y[i]
"""
ARGUMENTS: tuple[Known, ...] = (of_type(Array(FLOAT32, 1)), of_type(Array(FLOAT32, 1)), of_type(INT))
GOALS = {"cubin": 30.0, "native": 50.0}  # milliseconds for a small kernel, not the first


_numbers = itertools.count()


def new_function(source: str) -> FunctionType:
    """A function unlike any that has been compiled before."""
    names: dict[str, object] = {"device": device, "math": math}
    exec(source.format(number=next(_numbers)), names)
    return next(value for value in names.values() if isinstance(value, FunctionType))


def compile_once(source: str, target: compiler.Target) -> dict[str, float]:
    """Milliseconds of each stage for a new kernel, and of the whole."""
    function = new_function(source)
    start = time.perf_counter()
    work = compiler.run(compiler.Job(function, ARGUMENTS, True, target))
    whole = time.perf_counter() - start
    return {stage: 1000 * seconds for stage, seconds in {**work.seconds, "whole": whole}.items()}


def measure(title: str, source: str, target: compiler.Target, count: int) -> None:
    """Prints the table of one kind of kernel and one target."""
    first = compile_once(source, target)
    gc.collect()
    runs = [compile_once(source, target) for _ in range(count)]
    print(f"\n{title}\n{'milliseconds':<14}{'first':>9}{'median':>9}{'least':>9}")
    for stage in first:
        times = [run[stage] for run in runs]
        print(f"{stage:<14}{first[stage]:9.2f}{statistics.median(times):9.2f}{min(times):9.2f}")
    goal = GOALS["native" if target.on_cpu else "cubin"]
    whole = statistics.median(run["whole"] for run in runs)
    print(f"goal: {goal:.0f} ms, {'met' if whole <= goal else 'MISSED'}")


def main() -> None:
    """Prints all tables."""
    parser = argparse.ArgumentParser(description="What compiling a small kernel costs, by stage.")
    parser.add_argument("--count", type=int, default=30, help="how many kernels, after the first")
    parser.add_argument("--target", default="sm_90", help="the GPU to compile for")
    options = parser.parse_args()
    gpu = compiler.Target(parse(options.target))
    cpu = compiler.Target(parse(options.target), on_cpu=True)
    measure(f"{options.target}: y[i] = x[i] * a + y[i]", PLAIN, gpu, options.count)
    measure("CPU: y[i] = x[i] * a + y[i]", PLAIN, cpu, options.count)
    measure(f"{options.target}: y[i] = math.exp(x[i] * a) + y[i]", WITH_MATH, gpu, options.count)
    measure("CPU: y[i] = math.exp(x[i] * a) + y[i]", WITH_MATH, cpu, options.count)


if __name__ == "__main__":
    main()
