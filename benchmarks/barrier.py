"""What a barrier costs on the CPU stream: nanoseconds for each thread at each barrier, and what a launch costs.

    python benchmarks/barrier.py

A kernel in LLVM text increments its element of shared memory and waits, a thousand times over.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import numpy as np

from cuda_device.codegen import cpu
from cuda_device.codegen.cpu_runner import runner
from cuda_device.codegen.native import Native, compile_native
from cuda_device.runtime.cpu_executor import execute, worker_count

BARRIERS = 1000
GOAL = 20.0

BODY = (
    cpu.special_register("linear_thread", "%thread.number")
    + cpu.special_register("shared", "%shared")
    + """\
  %mine = getelementptr i32, ptr %shared, i32 %thread.number
  br label %turn
turn:
  %k = phi i32 [0, %coro.start], [%k.next, %after]
  %old = load i32, ptr %mine
  %new = add i32 %old, 1
  store i32 %new, ptr %mine
"""
    + cpu.barrier(1, "after")
    + """\
  %k.next = add i32 %k, 1
  %again = icmp slt i32 %k.next, %barriers
  br i1 %again, label %turn, label %coro.finish
"""
)


def module() -> str:
    """The kernel, its coroutine and its runner."""
    head = cpu.declarations() + cpu.kernel_signature("kernel", "i32 %barriers", suspends=True)
    kernel = head + cpu.prologue() + BODY + cpu.epilogue() + "}\n"
    return kernel + runner("kernel", ["i32"], suspends=True, shared_bytes=4096)


def best(call: Callable[[], object], times: int = 5) -> float:
    """The least of several times of `call`, in seconds."""
    least = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def barrier_cost(code: Native, threads: int) -> float:
    """Nanoseconds for a thread and a barrier, on one worker; what starting the threads costs is taken off."""

    def launch(barriers: int) -> None:
        execute(code, (8, 1, 1), (threads, 1, 1), struct.pack("@i", barriers), workers=1)

    launch(1)
    whole = best(lambda: launch(BARRIERS)) - best(lambda: launch(0))
    return 1e9 * whole / (8 * threads * BARRIERS)


def launch_cost(code: Native, blocks: int, may_run_long: bool) -> float:
    """Microseconds for a launch of `blocks` blocks of 32 threads that meet at one barrier."""
    parameters = np.ones(1, np.int32)

    def many() -> None:
        for _ in range(200):
            execute(code, (blocks, 1, 1), (32, 1, 1), parameters, may_run_long=may_run_long)

    return 1e6 * best(many) / 200


def main() -> None:
    """Prints the table."""
    ir = module()
    first = best(lambda: compile_native(ir), 1)
    again = best(lambda: compile_native(ir))
    print(f"compile: {1e3 * first:.1f} ms the first time in a process, then {1e3 * again:.1f} ms")
    code = compile_native(ir)
    for threads in (32, 64, 128, 256, 512, 1024):
        cost = barrier_cost(code, threads)
        print(f"{threads:5} threads: {cost:5.2f} ns a thread and barrier{'' if cost <= GOAL else '   over the goal'}")
    print(f"launch on the calling thread: {launch_cost(code, 1, may_run_long=False):.1f} us")
    print(f"launch on one worker: {launch_cost(code, 1, may_run_long=True):.1f} us")
    print(f"launch on up to {worker_count()} workers: {launch_cost(code, 64, may_run_long=True):.1f} us (64 blocks)")


if __name__ == "__main__":
    main()
