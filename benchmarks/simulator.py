"""The kernels of the suite on the CPU stream, beside numba's CUDA simulator running the same on the same machine.

    python benchmarks/simulator.py [name …] [--scale 0.00001]

The simulator runs each thread of a block as a thread of Python, and takes the same arrays. It runs once, ours several times after
a run that compiles (`tests/repository/test_peers.py` compares results). A ratio of 100 means that the simulator takes 100 times
as long. Needs numba-cuda; kernels that its simulator cannot run, or not in a minute, are left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

from cpu import least, processor
from numba_kernels import BEYOND_THE_SIMULATOR, NUMBA
from suite import SUITE, Problem, Row

import cuda_device as device

GOAL = 100


def ours(row: Row, problem: Problem) -> float:
    """The seconds of a launch on the CPU stream."""
    shape = {"grid": problem.grid, "block": problem.block, "shared": problem.shared}
    return float(least(device.prepare(row.kernel, *problem.ours, **shape, stream=device.cpu_stream()), 0.2))


def simulated(row: Row, problem: Problem) -> float:
    """The seconds of the simulator."""
    configured = NUMBA[row.name][problem.grid, problem.block, 0, problem.shared]
    start = time.perf_counter()
    configured(*problem.cuda)
    return time.perf_counter() - start


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="parts of kernels' names; none: all")
    parser.add_argument("--scale", type=float, default=0.00001, help="how large the problems are; 1 is meant for a GPU")
    options = parser.parse_args()
    print(f"{processor()}; scale {options.scale}")
    print(f"{'milliseconds':24}{'kernel':>10}{'simulator':>12}{'ratio':>8}")
    ratios = {}
    for row in SUITE:
        wanted = not options.names or any(name in row.name for name in options.names)
        if row.name not in NUMBA or row.name in BEYOND_THE_SIMULATOR or not wanted:
            continue
        problem = row.problem(options.scale)
        peer = simulated(row, problem)
        mine = ours(row, problem)
        ratios[row.name] = peer / mine
        print(f"{row.name:24}{1e3 * mine:10.3f}{1e3 * peer:12.1f}{peer / mine:8.0f}", flush=True)
    if ratios:
        print(f"geometric mean {statistics.geometric_mean(ratios.values()):.0f}, least {min(ratios.values()):.0f}")
        if slow := [name for name, ratio in ratios.items() if ratio < GOAL]:
            print(f"below {GOAL}: {', '.join(slow)}")


if __name__ == "__main__":
    main()
