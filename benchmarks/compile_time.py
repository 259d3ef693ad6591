"""What compiling a small kernel costs, by stage: from the Python function to a cubin, and to code for this CPU.

    python benchmarks/compile_time.py [--count 30] [--target sm_90] [--largest 1600]

Each kernel is a new function with code of its own, so that nothing is taken from a cache. The first one of a process also
pays for loading LLVM, the assembler and libdevice. The last table is of kernels that are twice as long each time, up to the
`--largest`: of statements, of loops, and of functions.
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
from cuda_device.types.architectures import parse
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
    work = compiler.run(compiler.Job(function, ARGUMENTS, True, target), afresh=True)
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


def statements(count: int) -> str:
    """So many statements, each with the result of the one before."""
    lines = (f"    v{i} = v{i - 1} * 1.5 + x[{i % 7}]\n" for i in range(1, count))
    return f"def k_{{number}}(x, y, n):\n    v0 = x[n]\n{''.join(lines)}    y[n] = v{count - 1}\n"


def loops(count: int) -> str:
    """Loops of two statements, one after the other."""
    lines = (f"    for i in range(n):\n        v = v * {i}.5 + x[i]\n" for i in range(count // 2))
    return f"def k_{{number}}(x, y, n):\n    v = x[n]\n{''.join(lines)}    y[n] = v\n"


def functions(count: int) -> str:
    """Functions of two statements, which the kernel calls one after the other."""
    made = (f"def f{i}(v):\n    w = v * {i}.5 + 1.0\n    return w * v\n" for i in range(count // 2))
    calls = (f"    v = f{i}(v)\n" for i in range(count // 2))
    return f"def k_{{number}}(x, y, n):\n    v = x[n]\n{''.join(calls)}    y[n] = v\n{''.join(made)}"


def chain(count: int) -> str:
    """Functions of two statements, each of which calls the next one."""
    last = count // 2
    made = (f"def f{i}(v):\n    w = v * {i}.5 + 1.0\n    return f{i + 1}(w)\n" for i in range(last))
    return f"def k_{{number}}(x, y, n):\n    y[n] = f0(x[n])\n{''.join(made)}def f{last}(v):\n    return v\n"


GROUPS = {"front end": ("python", "typed", "device", "llvm"), "LLVM": ("optimised", "ptx"), "assembler": ("cubin",)}
SIZES = {
    "statements": statements,
    "statements of loops": loops,
    "statements of functions": functions,
    "of one function in another": chain,
}


def lengths(target: compiler.Target, largest: int) -> None:
    """Prints how the times of longer and longer kernels go."""
    print(f"\n{'milliseconds':<32}" + "".join(f"{name:>11}" for name in (*GROUPS, "whole")) + f"{'µs each':>11}")
    for title, make in SIZES.items():
        count = 100
        while count <= largest:
            best = min((compile_once(make(count), target) for _ in range(3)), key=lambda run: run["whole"])
            parts = [sum(best[stage] for stage in stages) for stages in GROUPS.values()]
            shown = "".join(f"{each:11.1f}" for each in (*parts, best["whole"], 1000 * best["whole"] / count))
            print(f"{f'{count} {title}':<32}{shown}", flush=True)
            count *= 2


def main() -> None:
    """Prints all tables."""
    parser = argparse.ArgumentParser(description="What compiling a small kernel costs, by stage.")
    parser.add_argument("--count", type=int, default=30, help="how many kernels, after the first")
    parser.add_argument("--target", default="sm_90", help="the GPU to compile for")
    parser.add_argument("--largest", type=int, default=1600, help="statements of the longest kernel")
    options = parser.parse_args()
    gpu = compiler.Target(parse(options.target))
    cpu = compiler.Target(parse(options.target), "cpu")
    measure(f"{options.target}: y[i] = x[i] * a + y[i]", PLAIN, gpu, options.count)
    measure("CPU: y[i] = x[i] * a + y[i]", PLAIN, cpu, options.count)
    measure(f"{options.target}: y[i] = math.exp(x[i] * a) + y[i]", WITH_MATH, gpu, options.count)
    measure("CPU: y[i] = math.exp(x[i] * a) + y[i]", WITH_MATH, cpu, options.count)
    lengths(gpu, options.largest)


if __name__ == "__main__":
    main()
