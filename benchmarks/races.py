"""What race detection costs on the CPU stream: each kernel of the suite on a plain stream and with `races=True`, in turns.

    python benchmarks/races.py [name …] [--scale 0.0001] [--events]

Times are the least of several runs each, launches included. Launches with race detection run on one thread: their times are
processor times, which other programs disturb less. With `--events` a third column makes the detector work
all orders out from the log of events, as it does for kernels whose threads are ordered by more than barriers.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from typing import Any
from unittest import mock

from cpu import least
from suite import SUITE, Row

import cuda_device as device
from cuda_device.cpu import traces


def seconds(row: Row, scale: float, *, events: bool) -> list[float]:
    """The least times of a kernel: plain, with races, and with races and nothing checked in machine code."""
    problem = row.problem(scale)
    kernel, recording = (device.kernel(checked=False)(row.kernel.underlying) for _ in range(2))

    def once(stream: object, kernel: Any = kernel) -> None:
        device.launch(
            kernel, *problem.ours, grid=problem.grid, block=problem.block, shared=problem.shared, stream=stream
        )

    plain, watched = device.cpu_stream(), device.cpu_stream(races=True)
    ways = ((plain, time.perf_counter), (watched, time.process_time))
    times = [min(least(lambda stream=stream: once(stream), 0.05, clock) for _ in range(3)) for stream, clock in ways]
    if events:
        with mock.patch.object(traces, "ordered_by_barriers", return_value=False):
            times.append(least(lambda: once(watched, recording), 0.01, time.process_time))
    return times


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="parts of kernels' names; none: all")
    parser.add_argument("--scale", type=float, default=0.0001, help="how large the problems are; 1 is meant for a GPU")
    parser.add_argument("--events", action="store_true", help="also without the check in machine code")
    options = parser.parse_args()
    os.environ["CUDA_DEVICE_CACHE"] = ""
    print(f"{'milliseconds':28}{'plain':>10}{'races':>10}{'ratio':>8}{'events':>12}{'ratio':>8}")
    ratios = []
    for row in SUITE:
        if options.names and not any(name in row.name for name in options.names):
            continue
        try:
            plain, *watched = seconds(row, options.scale, events=options.events)
        except device.KernelError as error:
            print(f"{row.name:28}{str(error).splitlines()[0]}", flush=True)
            continue
        ratios.append(watched[0] / plain)
        cells = "".join(f"{1e3 * t:{width}.3f}{t / plain:8.0f}" for t, width in zip(watched, (10, 12), strict=False))
        print(f"{row.name:28}{1e3 * plain:10.3f}{cells}", flush=True)
    print(f"geometric mean: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.1f}, most: {max(ratios):.0f}")


if __name__ == "__main__":
    main()
