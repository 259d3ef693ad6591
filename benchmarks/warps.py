"""What a warp's operations cost on the CPU stream: nanoseconds for each lane at each operation.

    python benchmarks/warps.py

A kernel does one operation a thousand times over, and keeps its result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cuda_device as device

TURNS = 1000
GOAL = 40.0
ALL = 0xFFFFFFFF


def _barrier(old: Any) -> Any:
    device.syncthreads()
    return old


def _syncwarp(old: Any) -> Any:
    device.syncwarp(ALL)
    return old


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "barrier": _barrier,
    "barrier, count": lambda old: device.syncthreads_count(old > 7),
    "syncwarp": _syncwarp,
    "ballot": lambda old: device.ballot_sync(ALL, old > 7),
    "shuffle, 32 bits": lambda old: device.shfl_xor_sync(ALL, old, 1),
    "shuffle, 64 bits": lambda old: device.int32(device.shfl_xor_sync(ALL, device.int64(old), 1)),
    "match, all different": lambda old: device.match_any_sync(ALL, device.lane_id),
    "match, all the same": lambda old: device.match_any_sync(ALL, device.int32(7)),
    "activemask": lambda old: device.activemask(),
}


def kernel_of(operation: Callable[[Any], Any]) -> Any:
    """A kernel that does an operation so many times."""

    @device.kernel(checked=False)
    def kernel(turns: Any, out: Any) -> None:
        mine = device.shared_array(1024, device.int32)
        i = device.thread_idx.x
        mine[i] = device.lane_id
        for _ in range(turns):
            mine[i] = operation(mine[i])
        out[i] = mine[i]

    return kernel


def best(call: Callable[[], object], times: int = 5) -> float:
    """The least of several times of `call`, in seconds."""
    least = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def cost(kernel: Any, threads: int) -> float:
    """Nanoseconds for a lane and an operation, on one worker; what starting the threads costs is taken off."""
    out = np.zeros(1024, np.int32)

    def launch(turns: int) -> None:
        device.launch(kernel, turns, out, grid=8, block=threads, stream=device.cpu_stream())

    launch(1)
    whole = best(lambda: launch(TURNS)) - best(lambda: launch(0))
    return 1e9 * whole / (8 * threads * TURNS)


def main() -> None:
    """Prints the table."""
    os.environ["CUDA_DEVICE_CPU_THREADS"] = "1"
    for name, operation in OPERATIONS.items():
        costs = [cost(kernel_of(operation), threads) for threads in (32, 256, 1024)]
        shown = "  ".join(f"{each:6.2f}" for each in costs)
        print(
            f"{name:22} {shown}  ns a lane, in blocks of 32, 256, 1024{'' if max(costs) <= GOAL else ': over the goal'}"
        )


if __name__ == "__main__":
    main()
