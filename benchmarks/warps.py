"""What a warp's operations cost on the CPU stream: nanoseconds for each lane at each operation.

    python benchmarks/warps.py

A kernel in LLVM text does one operation a thousand times over, and keeps its result.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from cuda_device.codegen.cpu import cpu_dialect
from cuda_device.codegen.cpu.cpu_dialect import runner
from cuda_device.codegen.cpu.machine_code import Native, compile_native
from cuda_device.codegen.cpu.records import Suspension
from cuda_device.runtime.cpu_executor import execute

TURNS = 1000
GOAL = 40.0


def exchange(kind: Suspension, result: str, **brought: str) -> str:
    """The text of a meeting of a warp or block."""
    return cpu_dialect.exchange(kind, 1, "after", result, **brought)


OPERATIONS = {
    "barrier": cpu_dialect.barrier(1, "after"),
    "barrier, count": exchange(Suspension.COUNT, "i32 %got", value="i1 %flag"),
    "syncwarp": exchange(Suspension.SYNC, "", mask="i32 -1"),
    "ballot": exchange(Suspension.BALLOT, "i32 %got", mask="i32 -1", value="i1 %flag"),
    "shuffle, 32 bits": exchange(Suspension.XOR, "i32 %got", mask="i32 -1", value="i32 %old", lane="i32 1"),
    "shuffle, 64 bits": exchange(Suspension.XOR, "i64 %got.wide", mask="i32 -1", value="i64 %old.wide", lane="i32 1"),
    "match, all different": exchange(Suspension.MATCH_ANY, "i32 %got", mask="i32 -1", value="i32 %lane_id"),
    "match, all the same": exchange(Suspension.MATCH_ANY, "i32 %got", mask="i32 -1", value="i32 7"),
    "activemask": exchange(Suspension.ACTIVE, "i32 %got"),
    "yield, now": cpu_dialect.yield_now(1, "after"),
    "yield, sometimes": cpu_dialect.yield_sometimes(1, "after"),
}


def module(operation: str) -> str:
    """The kernel, its coroutine and its runner."""
    body = (
        cpu_dialect.special_register("lane_id", "%lane_id")
        + cpu_dialect.special_register("linear_thread", "%thread.number")
        + cpu_dialect.special_register("shared", "%shared")
        + "  %mine = getelementptr i32, ptr %shared, i32 %thread.number\n"
        + "  store i32 %lane_id, ptr %mine\n"
        + f"  br label %ask\nask:\n  %some = icmp sgt i32 %turns, 0\n  br i1 %some, label %turn, label %{cpu_dialect.RETURNED}\n"
        + "turn:\n  %k = phi i32 [0, %ask], [%k.next, %after]\n"
        + "  %old = load i32, ptr %mine\n  %old.wide = zext i32 %old to i64\n  %flag = icmp sgt i32 %old, 7\n"
        + operation
        + ("  %got = trunc i64 %got.wide to i32\n" if "%got.wide =" in operation else "")
        + ("  store i32 %got, ptr %mine\n" if "%got =" in operation or "%got.wide =" in operation else "")
        + "  %k.next = add i32 %k, 1\n  %again = icmp slt i32 %k.next, %turns\n"
        + f"  br i1 %again, label %turn, label %{cpu_dialect.RETURNED}\n"
    )
    head = cpu_dialect.declarations() + cpu_dialect.kernel_signature("kernel", "i32 %turns", suspends=True)
    kernel = head + cpu_dialect.prologue() + body + cpu_dialect.epilogue() + "}\n"
    return kernel + runner("kernel", ["i32"], suspends=True, shared_bytes=4096)


def best(call: Callable[[], object], times: int = 5) -> float:
    """The least of several times of `call`, in seconds."""
    least = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def cost(code: Native, threads: int) -> float:
    """Nanoseconds for a lane and an operation, on one worker; what starting the threads costs is taken off."""

    def launch(turns: int) -> None:
        execute(code, (8, 1, 1), (threads, 1, 1), struct.pack("@i", turns), workers=1)

    launch(1)
    whole = best(lambda: launch(TURNS)) - best(lambda: launch(0))
    return 1e9 * whole / (8 * threads * TURNS)


def main() -> None:
    """Prints the table."""
    for name, operation in OPERATIONS.items():
        code = compile_native(module(operation))
        costs = [cost(code, threads) for threads in (32, 256, 1024)]
        shown = "  ".join(f"{each:6.2f}" for each in costs)
        print(
            f"{name:22} {shown}  ns a lane, in blocks of 32, 256, 1024{'' if max(costs) <= GOAL else ': over the goal'}"
        )


if __name__ == "__main__":
    main()
