"""`python examples/programs [name …] [--cpu]`: runs the programs on all their cases and compares with NumPy."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import cuda_device as device
import programs


def main() -> int:
    """Runs the programs; returns the exit status."""
    parser = argparse.ArgumentParser(
        description="Runs programs on all their cases and compares the results with NumPy's."
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(programs.NAMES)}; none: all")
    parser.add_argument("--cpu", action="store_true", help="use the CPU even where there is a GPU")
    options = parser.parse_intermixed_args()
    unknown = set(options.names) - set(programs.NAMES)
    if unknown:
        parser.error(f"no program is called {', '.join(sorted(unknown))}")
    stream = device.cpu_stream() if options.cpu else device.default_stream()
    print(f"Running on {stream.device_name}")
    wrong = 0
    for name in options.names or programs.NAMES:
        program, start, cases = programs.load(name), time.perf_counter(), 0
        try:
            for case in program.cases(np.random.default_rng(1)):
                cases += 1
                programs.check(program, program.run(stream, *case), program.expect(*case))
            said = "right"
        except AssertionError as error:
            wrong += 1
            said = f"WRONG: {error}"
        except device.CompileError as error:
            if not hasattr(program, "CAPABILITY"):
                raise
            said = f"cannot run here: {error.reason}"
        print(f"{name:<16}{cases:3} cases {time.perf_counter() - start:7.2f} s  {said}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
