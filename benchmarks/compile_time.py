"""What compiling a small kernel costs, by stage: from the Python function to a cubin, and to code for this CPU.

    python benchmarks/compile_time.py [--count 30] [--target sm_90] [--largest 1600]
    python benchmarks/compile_time.py --growth          only the last table

Each kernel is a new function with code of its own, so that nothing is taken from a cache. The first one of a process also
pays for loading LLVM, the assembler and libdevice. The third table is of kernels that are twice as long each time, up to the
`--largest`: of statements, of loops, and of functions. The last one compares four families of kernels of 100 to 800 statements
with NVRTC, in processor time from bytecode or C++ to PTX: at 400, the goal is at most 3 times NVRTC's time, and at most 2.5 times
our own for twice as many statements.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import math
import statistics
import time
from collections.abc import Callable
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


Lines = tuple[str, str, str]
"""The lines before the statements, a statement, and the lines after them."""

FAMILIES: dict[str, tuple[Lines, Lines]] = {
    "straight lines": (
        ("v = x[n]", "v = v * 1.5 + x[{k}]", "y[n] = v"),
        ("float v = x[n];", "v = v * 1.5f + x[{k}];", "y[n] = v;"),
    ),
    "ifs": (
        ("v = x[n]", "if v < {i}.0:\n        v = v * 1.5 + x[{k}]", "y[n] = v"),
        ("float v = x[n];", "if (v < {i}.0f) v = v * 1.5f + x[{k}];", "y[n] = v;"),
    ),
    "as many variables as ifs": (
        ("v{i} = x[{i}]", "if v{i} < v{j}:\n        v{i} = v{i} * 1.5 + {i}.0", "y[{i}] = v{i}"),
        ("float v{i} = x[{i}];", "if (v{i} < v{j}) v{i} = v{i} * 1.5f + {i}.0f;", "y[{i}] = v{i};"),
    ),
    "loops": (
        ("v = x[n]", "for i in range(n):\n        v = v * {i}.5 + x[i]", "y[n] = v"),
        ("float v = x[n];", "for (long long i = 0; i < n; i++) v = v * {i}.5f + x[i];", "y[n] = v;"),
    ),
}
"""Kernels of any number of statements, in Python and in C++."""


def written(lines: Lines, count: int) -> str:
    """The body of a kernel of so many statements. Lines that do not depend on the number of the statement stand once."""
    every = (
        line.format(i=i, j=(i + 1) % count, k=i % 7)
        for number, line in enumerate(lines)
        for i in range(count if "{" in line or number == 1 else 1)
    )
    return "".join(f"    {line}\n" for line in every)


def processor_seconds(call: Callable[[], object]) -> float:
    """The least processor time of two calls."""
    times = []
    for _ in range(2):
        gc.collect()
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def compile_ptx(source: str, target: compiler.Target) -> None:
    """Compiles a new kernel to PTX."""
    compiler.run(compiler.Job(new_function(source), ARGUMENTS, True, target), "ptx", afresh=True)


def growth(target: compiler.Target, name: str) -> None:
    """Prints the processor time of long kernels beside NVRTC's, and the growth with each doubling."""
    from nvrtc import compile_code, version

    numbers = itertools.count()
    print(f"\nprocessor time to PTX, seconds, NVRTC {version()}")
    print(f"{'':<32}{'ours':>11}{'NVRTC':>11}{'ratio':>11}{'growth':>11}")
    for title, (python, cuda) in FAMILIES.items():
        before = None
        for count in (100, 200, 400, 800):
            source = f"def k_{{number}}(x, y, n):\n{written(python, count)}"
            other = (
                f'extern "C" __global__ void k(const float *x, float *y, long long n) {{\n{written(cuda, count)}}}\n'
            )
            ours = processor_seconds(lambda: compile_ptx(source, target))  # noqa: B023
            theirs = processor_seconds(lambda: compile_code(f"// {next(numbers)}\n{other}", name, "PTX"))  # noqa: B023
            grown = f"{ours / before:11.2f}" if before else f"{'':>11}"
            print(f"{f'{count} {title}':<32}{ours:11.2f}{theirs:11.2f}{ours / theirs:11.2f}{grown}", flush=True)
            before = ours


def main() -> None:
    """Prints all tables."""
    parser = argparse.ArgumentParser(description="What compiling a small kernel costs, by stage.")
    parser.add_argument("--count", type=int, default=30, help="how many kernels, after the first")
    parser.add_argument("--target", default="sm_90", help="the GPU to compile for")
    parser.add_argument("--largest", type=int, default=1600, help="statements of the longest kernel")
    parser.add_argument("--growth", action="store_true", help="only compare long kernels with NVRTC")
    options = parser.parse_args()
    gpu = compiler.Target(parse(options.target))
    if options.growth:
        growth(gpu, options.target)
        return
    cpu = compiler.Target(parse(options.target), "cpu")
    measure(f"{options.target}: y[i] = x[i] * a + y[i]", PLAIN, gpu, options.count)
    measure("CPU: y[i] = x[i] * a + y[i]", PLAIN, cpu, options.count)
    measure(f"{options.target}: y[i] = math.exp(x[i] * a) + y[i]", WITH_MATH, gpu, options.count)
    measure("CPU: y[i] = math.exp(x[i] * a) + y[i]", WITH_MATH, cpu, options.count)
    lengths(gpu, options.largest)
    growth(gpu, options.target)


if __name__ == "__main__":
    main()
