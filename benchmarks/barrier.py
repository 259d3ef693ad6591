"""What a barrier costs on the CPU stream: nanoseconds for each thread at each barrier; and what a launch costs.

    python benchmarks/barrier.py

Every thread of a block adds to its element of shared memory and waits for the others, a thousand times over. What starting
the threads costs is measured with no barrier and taken off. Uses one processor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

os.environ["CUDA_DEVICE_CPU_THREADS"] = "1"

import numpy as np

import cuda_device as device

BARRIERS = 1000
BLOCKS = 8
GOAL = 20.0  # nanoseconds


@device.kernel
def count_turns(out, turns):
    """Counts in shared memory, with a barrier after each step."""
    counts = device.shared_array(1024, device.int32)
    i = device.thread_idx.x
    counts[i] = 0
    for _ in range(turns):
        counts[i] += 1
        device.syncthreads()
    out[device.tid(1)] = counts[i]


def best(call: Callable[[], object], times: int = 5) -> float:
    """The least of several times of `call`, in seconds."""
    least = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def barrier_cost(threads: int) -> float:
    """Nanoseconds for a thread and a barrier, in blocks of so many threads."""
    stream = device.cpu_stream()
    out = np.empty(BLOCKS * threads, np.int32)

    def launch(turns: int) -> None:
        device.launch(count_turns, out, turns, grid=BLOCKS, block=threads, stream=stream)
        assert (out == turns).all()

    launch(1)
    whole = best(lambda: launch(BARRIERS)) - best(lambda: launch(0))
    return 1e9 * whole / (BLOCKS * threads * BARRIERS)


def launch_cost(blocks: int) -> float:
    """Microseconds for a launch of `blocks` blocks of 32 threads that meet at one barrier."""
    stream = device.cpu_stream()
    out = np.empty(32 * blocks, np.int32)

    def many() -> None:
        for _ in range(100):
            device.launch(count_turns, out, 1, grid=blocks, block=32, stream=stream)

    many()
    return 1e6 * best(many) / 100


def main() -> None:
    """Prints the table."""
    costs = {threads: barrier_cost(threads) for threads in (32, 64, 128, 256, 512, 1024)}
    for threads, cost in costs.items():
        print(f"a barrier, block of {threads:4} threads   {cost:6.2f} ns a thread")
    print(f"goal: at most {GOAL:.0f} ns: {'met' if max(costs.values()) <= GOAL else 'MISSED'}")
    for blocks in (1, 100):
        print(f"a launch of {blocks:3} blocks of 32 threads   {launch_cost(blocks):6.1f} us")


if __name__ == "__main__":
    main()
