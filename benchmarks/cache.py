"""What the cache on disk saves: milliseconds from the import to the first result, in new processes, without and with it.

    python benchmarks/cache.py [--count 7] [--at-once 64]

On the CPU stream a saxpy is compiled, linked and run. For a GPU, `compile` makes a cubin of it for sm_90, on any machine; where
there is a GPU, the first launch on it is measured, too. Each row is the median of several processes, with its parts. At last so
many processes start at once on an empty cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SCRIPT = """
import json, sys, time
start = time.perf_counter()
import numpy as np
after_numpy = time.perf_counter()
import cuda_device as device
device.kernel
after_import = time.perf_counter()

@device.kernel
def saxpy(a, x, y):
    i = device.tid(1)
    if i < len(y):
        y[i] = a * x[i] + y[i]

where = sys.argv[1]
if where == "compile":
    F32 = device.ArrayType(device.float32, 1)
    assert device.compile(saxpy, float, F32, F32).code
else:
    stream = device.cpu_stream() if where == "cpu" else device.default_stream()
    x, y = (device.array(np.ones(1000, np.float32), stream=stream) for _ in range(2))
    before = time.perf_counter()
    device.launch(saxpy, 2.0, x, y, grid=4, block=256, stream=stream)
    assert (y.numpy() == 3).all()
end = time.perf_counter()
parts = {"numpy": after_numpy - start, "import": after_import - after_numpy, "first": end - after_import, "all": end - start}
print(json.dumps({**parts, "stages": saxpy.timings(), "hits": device.cache_info().hits}))
"""


def once(where: str, cache: str) -> dict[str, float]:
    """The parts of a run, in milliseconds."""
    environment = {**os.environ, "CUDA_DEVICE_CACHE": cache}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, where], env=environment, check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    stages = found.pop("stages")
    return {name: 1000 * value for name, value in {**found, **stages}.items() if name != "hits"} | {
        "hits": found["hits"]
    }


def row(name: str, runs: list[dict[str, float]]) -> None:
    """Prints the medians."""
    middle = {part: statistics.median(run[part] for run in runs) for part in runs[0]}
    print(f"{name:<22}" + "".join(f"{middle[part]:9.1f}" for part in ("numpy", "import", "first", "all")), end="   ")
    print(" ".join(f"{part} {value:.1f}" for part, value in middle.items() if part not in _COLUMNS and value >= 0.1))


def at_once(count: int) -> None:
    """Starts `count` processes on one empty cache; each of them checks its result."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "CUDA_DEVICE_CACHE": cache}
        start = time.perf_counter()
        command = [sys.executable, "-c", SCRIPT, "cpu"]
        pipe = subprocess.PIPE
        running = [subprocess.Popen(command, env=environment, stdout=pipe, text=True) for _ in range(count)]
        found = [json.loads(process.communicate()[0]) for process in running]
        assert all(process.returncode == 0 for process in running)
        seconds = time.perf_counter() - start
        assert once("cpu", cache)["hits"] == 1
    print(
        f"{count} at once: {seconds:.1f} s, all results right, {sum(run['hits'] for run in found)} found in the cache"
    )


_COLUMNS = ("numpy", "import", "first", "all", "hits")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="What the cache on disk saves.")
    parser.add_argument("--count", type=int, default=7, help="how many processes a row")
    parser.add_argument("--at-once", type=int, default=64, help="how many processes start at once")
    options = parser.parse_args()
    import cuda_device as device

    places = ["cpu", "compile"] + ([] if isinstance(device.default_stream(), device.CpuStream) else ["gpu"])
    print(f"{'milliseconds':<22}{'numpy':>9}{'import':>9}{'first':>9}{'all':>9}   of the first: stages")
    for where in places:
        with tempfile.TemporaryDirectory() as cache:
            once(where, cache)  # writes the bytecode files, and fills the cache
            row(f"{where}, no cache", [once(where, "0") for _ in range(options.count)])
            warm = [once(where, cache) for _ in range(options.count)]
            assert all(run["hits"] == 1 for run in warm)
            row(f"{where}, warm cache", warm)
    at_once(options.at_once)


if __name__ == "__main__":
    main()
