"""What a start costs: milliseconds from the import to the first result of saxpy, in new processes, cold and warm.

    python benchmarks/start.py [--count 7] [--at-once 64]

Each row is the median of several processes. On a GPU, CuPy's RawKernel does the same beside it; where there is no GPU, the tests'
stand-in for the driver takes part in all but running the kernel. A second specialisation follows the first, of float64. The
parts of the first launch stand behind: importing the compiler, its stages, loading, and what is left for the launch itself. At
last so many processes start at once on an empty cache.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent / "tests"
GOALS = {"warm": ("first", 10.0), "cold": ("next", 15.0)}

OURS = """
import contextlib, importlib, json, sys, time
clock = time.perf_counter
start = clock()
import numpy as np
marks = {"numpy": clock()}
import cuda_device as device
marks["import"] = clock()
device.kernel, device.launch, device.tid
marks["names"] = clock()

@device.kernel
def saxpy(a, x, y):
    i = device.tid(1)
    if i < len(y):
        y[i] = a * x[i] + y[i]

where, cold = sys.argv[1], sys.argv[2] == "cold"
seconds = {}
with contextlib.ExitStack() as stack:
    if where == "fake":
        from fake_driver import installed
        stack.enter_context(installed())
    stream = device.cpu_stream() if where == "cpu" else device.default_stream()
    pairs = [[device.array(np.ones(1000, t), stream=stream) for _ in range(2)] for t in (np.float32, np.float64)]
    from cuda_device.runtime import kernels
    genuine = kernels.load_library
    def load(code):
        begin = clock()
        try:
            return genuine(code)
        finally:
            seconds["load"] = seconds.get("load", 0.0) + clock() - begin
    kernels.load_library = load
    marks["arrays"] = before = clock()
    if cold:  # so that its import and its stages are told apart
        names = ["codegen.native"] if where == "cpu" else ["codegen.nvptx", "codegen.cubin"]
        for name in ["bytecode.to_ir", "passes.infer", "passes.specials", "passes.lower", "codegen.to_llvm", *names]:
            importlib.import_module(f"cuda_device.{name}")
        seconds["compiler"] = clock() - before
    device.launch(saxpy, 2.0, *pairs[0], grid=4, block=256, stream=stream)
    device.synchronize(stream)
    marks["first"] = clock()
    stages = saxpy.timings() | seconds
    device.launch(saxpy, 2.0, *pairs[1], grid=4, block=256, stream=stream)
    device.synchronize(stream)
    marks["next"] = clock()
    assert where == "fake" or all((y.numpy() == 3).all() for _, y in pairs)
ends = [start, *marks.values()]
parts = dict(zip(marks, (b - a for a, b in zip(ends, ends[1:]))))
stages["launch"] = parts["first"] - sum(stages.values())
info = device.cache_info()
print(json.dumps({"parts": parts, "stages": stages, "found": [info.hits, info.direct, info.misses]}))
"""

CUPY = """
import json, time
clock = time.perf_counter
start = clock()
import numpy as np
marks = {"numpy": clock()}
import cupy
marks["import"] = marks["names"] = clock()
pairs = [[cupy.ones(1000, t) for _ in range(2)] for t in (np.float32, np.float64)]
cupy.cuda.runtime.deviceSynchronize()
marks["arrays"] = clock()
for name, kind, pair in (("first", "float", pairs[0]), ("next", "double", pairs[1])):
    code = ('extern "C" __global__ void saxpy(T a, const T* x, T* y, int n) '
            '{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }').replace("T ", kind + " ")
    code = code.replace("T*", kind + "*") + UNIQUE
    kernel = cupy.RawKernel(code, "saxpy")
    kernel((4,), (256,), (pair[0].dtype.type(2), *pair, np.int32(1000)))
    cupy.cuda.runtime.deviceSynchronize()
    marks[name] = clock()
assert all((y == 3).all() for _, y in pairs)
ends = [start, *marks.values()]
parts = dict(zip(marks, (b - a for a, b in zip(ends, ends[1:]))))
print(json.dumps({"parts": parts, "stages": {}, "found": []}))
"""


def once(script: str, *arguments: str, cache: str = "0") -> dict[str, Any]:
    """What one process measures."""
    environment = {**os.environ, "CUDA_DEVICE_CACHE": cache, "PYTHONDONTWRITEBYTECODE": ""}
    environment["PYTHONPATH"] = os.pathsep.join((str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")))
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row(name: str, runs: list[dict[str, Any]]) -> dict[str, float]:
    """Prints the medians, and gives them."""
    parts, stages = (
        {part: 1000 * statistics.median(run[kind].get(part, 0.0) for run in runs) for part in runs[0][kind]}
        for kind in ("parts", "stages")
    )
    parts["all"] = 1000 * statistics.median(sum(run["parts"].values()) for run in runs)
    print(f"{name:<18}" + "".join(f"{parts[part]:8.1f}" for part in COLUMNS), end="   ")
    print(" ".join(f"{part} {value:.1f}" for part, value in stages.items() if value >= 0.1))
    return parts


COLUMNS = ("numpy", "import", "names", "arrays", "first", "next", "all")


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A cache that is empty."""
    with tempfile.TemporaryDirectory() as made:
        yield made


def ours(where: str, count: int) -> None:
    """The rows of a place: on a new cache each time, and on one that has been filled."""
    cold = []
    for _ in range(count):
        with folder() as cache:
            cold.append(once(OURS, where, "cold", cache=cache))
    with folder() as cache:
        once(OURS, where, "warm", cache=cache)
        warm = [once(OURS, where, "warm", cache=cache) for _ in range(count)]
    assert all(run["found"] == [0, 0, 2] for run in cold)
    assert all(run["found"] == [2, 2, 0] for run in warm)
    for state, runs in (("cold", cold), ("warm", warm)):
        found = row(f"{where}, {state}", runs)
        part, goal = GOALS[state]
        print(f"{'':<18}{part}: goal {goal:.0f} ms, {'met' if found[part] <= goal else 'MISSED'}")


def cupys(count: int) -> None:
    """CuPy's rows: a text that it has not seen, and one that it has."""
    fresh = [once(CUPY.replace("UNIQUE", f"'// {time.time_ns()}'")) for _ in range(count)]
    once(CUPY.replace("UNIQUE", "''"))
    row("cupy, cold", fresh)
    row("cupy, warm", [once(CUPY.replace("UNIQUE", "''")) for _ in range(count)])


def at_once(count: int) -> None:
    """Starts `count` processes on one empty cache; each of them checks its result."""
    with folder() as cache:
        start = time.perf_counter()
        environment = {**os.environ, "CUDA_DEVICE_CACHE": cache, "PYTHONPATH": str(TESTS.parent)}
        command = [sys.executable, "-c", OURS, "cpu", "warm"]
        running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        found = [json.loads(process.communicate()[0])["found"] for process in running]
        assert all(process.returncode == 0 for process in running)
        seconds = time.perf_counter() - start
        assert once(OURS, "cpu", "warm", cache=cache)["found"] == [2, 2, 0]
    print(
        f"{count} at once: {seconds:.1f} s, all results right, {sum(hits for hits, _, _ in found)} found in the cache"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="What a start costs.")
    parser.add_argument("--count", type=int, default=7, help="how many processes a row")
    parser.add_argument("--at-once", type=int, default=64, help="how many processes start at once")
    options = parser.parse_args()
    from cuda_device.runtime import driver

    once(OURS, "cpu", "warm")  # writes the bytecode files
    print(f"{'milliseconds':<18}" + "".join(f"{part:>8}" for part in COLUMNS) + "   of the first: its parts")
    ours("cpu", options.count)
    ours("gpu" if driver.available() else "fake", options.count)
    if driver.available():
        with contextlib.suppress(ImportError):
            print(f"CuPy {importlib.import_module('cupy').__version__}")
            cupys(options.count)
    at_once(options.at_once)


if __name__ == "__main__":
    main()
