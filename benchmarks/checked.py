"""What checked mode costs on the CPU stream: each kernel of the suite with its checks and without, in turns.

    python benchmarks/checked.py [name …] [--scale 0.003]

Times are the least of several runs each. On CPU streams kernels are checked unless `checked=False` says otherwise.
"""

from __future__ import annotations

import argparse
import math

from cpu import least
from suite import SUITE, Row

import cuda_device as device


def seconds(row: Row, scale: float) -> tuple[float, float]:
    """The least times of a kernel, unchecked and checked."""
    problem = row.problem(scale)
    grid, block, shared, stream = problem.grid, problem.block, problem.shared, device.cpu_stream()
    launches = [
        device.prepare(
            device.kernel(checked=checked)(row.kernel.underlying),
            *problem.ours,
            grid=grid,
            block=block,
            shared=shared,
            stream=stream,
        )
        for checked in (False, True)
    ]
    rounds = [[least(launch, 0.1) for launch in launches] for _ in range(3)]
    plain, checked = (min(times) for times in zip(*rounds, strict=True))
    return plain, checked


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="parts of kernels' names; none: all")
    parser.add_argument("--scale", type=float, default=0.003, help="how large the problems are; 1 is meant for a GPU")
    options = parser.parse_args()
    print(f"{'milliseconds':28}{'unchecked':>10}{'checked':>10}{'ratio':>8}")
    ratios = []
    for row in SUITE:
        if options.names and not any(name in row.name for name in options.names):
            continue
        plain, checked = seconds(row, options.scale)
        ratios.append(checked / plain)
        print(f"{row.name:28}{1e3 * plain:10.3f}{1e3 * checked:10.3f}{ratios[-1]:8.2f}", flush=True)
    print(f"geometric mean: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
