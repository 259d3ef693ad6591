"""Whether arguments live long enough, and no longer: a million launches whose arguments are dropped at once.

    python benchmarks/lifetimes.py [--launches 1000000]

Each launch adds a new array to a total and drops the array; the memory of one that died too early would be given to the next, and
the total be wrong. The totals are integers, and compared exactly. The memory of the process and of the GPU is read ten times a
row: after the first tenth it must not grow by more than 16 MiB. Where the arrays come from, and on which streams, differs from
row to row; without a GPU the CPU stream is what is measured. The exit status is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cuda_device as device
from cuda_device.runtime.gpu import driver

N = 1024
MOST_GROWTH = 16 << 20
PARTS = 10


@device.kernel
def add(x, total):
    """Adds an array to another."""
    i = device.tid(1)
    if i < len(total):
        total[i] += x[i]


@dataclass(frozen=True)
class Row:
    """Where arrays come from: `make` gives one that is full of a number, `wait` waits for all of them."""

    name: str
    share: float
    stream: Any
    make: Callable[[int], Any]
    wait: Callable[[], object]
    read: Callable[[Any], np.ndarray[Any, Any]] = np.asarray


def rows() -> list[Row]:
    """What is measured here."""
    if not driver.available():
        return [Row("NumPy", 1.0, device.cpu_stream(), lambda value: np.full(N, value, np.int64), lambda: None)]
    stream, wait = device.default_stream(), driver.synchronize_context
    sources = [np.full(N, value, np.int64) for value in range(7)]

    def ours(value: int) -> Any:
        return device.array(sources[value], stream=stream)

    found = [Row("ours", 0.1, stream, ours, wait, lambda total: total.numpy())]
    for make in (torch_rows, cupy_rows):
        try:
            found += make()
        except Exception as error:
            print(f"left out: {type(error).__name__}: {error}")
    return found


def torch_rows() -> list[Row]:
    """Tensors that are used on their own stream, and on another one."""
    torch = importlib.import_module("torch")
    here, there = torch.cuda.current_stream(), torch.cuda.Stream()

    def make(value: int) -> Any:
        return torch.full((N,), value, dtype=torch.int64, device="cuda")

    def read(total: Any) -> Any:
        return total.cpu().numpy()

    wait = torch.cuda.synchronize
    return [Row("torch", 0.5, here, make, wait, read), Row("torch, other stream", 0.15, there, make, wait, read)]


def cupy_rows() -> list[Row]:
    """CuPy's arrays, in the same two ways."""
    cupy = importlib.import_module("cupy")
    here, there = cupy.cuda.get_current_stream(), cupy.cuda.Stream(non_blocking=True)

    def make(value: int) -> Any:
        return cupy.full(N, value, np.int64)

    wait = cupy.cuda.Device().synchronize
    return [
        Row("CuPy", 0.15, here, make, wait, cupy.asnumpy),
        Row("CuPy, other stream", 0.1, there, make, wait, cupy.asnumpy),
    ]


def memory() -> tuple[int, int]:
    """The bytes that the process has now, and those that are taken of the GPU."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    if not driver.available():
        return pages * resource.getpagesize(), 0
    free, whole = driver.check(driver.bindings().cuMemGetInfo())
    return pages * resource.getpagesize(), whole - free


def measure(row: Row, launches: int) -> bool:
    """Prints a row; whether all was right."""
    total = row.make(0)
    row.wait()
    seen = []
    start, expected = time.perf_counter(), 0
    for _ in range(PARTS):
        for number in range(launches // PARTS):
            device.launch(add, row.make(number % 7), total, grid=N // 256, block=256, stream=row.stream)
            expected += number % 7
        row.wait()
        gc.collect()
        seen.append(memory())
    seconds = time.perf_counter() - start
    device.synchronize(row.stream)
    right = bool((row.read(total) == expected).all())
    host, gpu = (max(found) - found[0] for found in zip(*seen, strict=True))
    flat = max(host, gpu) <= MOST_GROWTH
    print(
        f"{row.name:<22}{launches:>9} launches {1e6 * seconds / launches:8.2f} us each   "
        f"host +{host / 2**20:.1f} MiB, GPU +{gpu / 2**20:.1f} MiB   {'right' if right else 'WRONG'}, "
        f"{'flat' if flat else 'GROWING: ' + ' '.join(f'{h >> 20}/{g >> 20}' for h, g in seen)}",
        flush=True,
    )
    return right and flat


def main() -> int:
    """Prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(description="Launches whose arguments are dropped at once.")
    parser.add_argument("--launches", type=int, default=1_000_000, help="how many, of all rows together")
    launches = parser.parse_args().launches
    good = [measure(row, round(launches * row.share)) for row in rows()]
    print(f"{launches} launches: {'all right' if all(good) else 'NOT all right'}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
