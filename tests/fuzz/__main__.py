"""python -m tests.fuzz --programs 200000 --seed 1 [--state FILE] [--batch 24]

Runs programs `seed * 10**9` and on, writes how far it has come to a file, and goes on from there when it is started again.
Failures are made small and printed; the exit status is 1 if there were any.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("CUDA_DEVICE_CACHE", "0")

import cuda_device as device  # noqa: E402
from cuda_device.runtime import driver  # noqa: E402
from fuzz.generate import inputs, program  # noqa: E402
from fuzz.reduce import reduce  # noqa: E402
from fuzz.run import check  # noqa: E402


def main() -> int:
    """Runs, and returns the exit status."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").splitlines()[0])
    options.add_argument("--programs", type=int, default=2000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--batch", type=int, default=24, help="programs in one kernel")
    options.add_argument("--state", type=Path, default=None, help="a file that remembers how far the run has come")
    options.add_argument("--reduce", type=float, default=60, help="seconds for making a failure small")
    given = options.parse_args()
    state = json.loads(given.state.read_text()) if given.state and given.state.exists() else {"done": 0, "failures": []}
    streams = [device.cpu_stream(), *([device.default_stream()] if driver.available() else [])]
    start, first = time.monotonic(), state["done"]
    while state["done"] < given.programs:
        begin = given.seed * 10**9 + state["done"]
        values = inputs(begin)
        batch = [program(begin + k, values) for k in range(min(given.batch, given.programs - state["done"]))]
        failures = list(check(batch, values, streams))
        for number in dict.fromkeys(failure.program.number for failure in failures):
            failure = next(each for each in failures if each.program.number == number)
            small = reduce(failure, values, streams, given.reduce)
            print(f"inputs({begin}): {small}", flush=True)
            state["failures"].append(number)
        state["done"] += len(batch)
        if given.state:
            given.state.write_text(json.dumps(state))
        if (state["done"] // given.batch) % 40 == 0:
            rate = (state["done"] - first) / (time.monotonic() - start)
            print(f"{state['done']} programs, {len(state['failures'])} failures, {rate:.0f} a second", flush=True)
    print(f"{state['done']} programs, {len(state['failures'])} failures")
    return 1 if state["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
