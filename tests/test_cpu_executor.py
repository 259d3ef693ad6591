"""Kernels on the CPU below the compiler: LLVM text put through the real generators, linked and executed."""

import _thread
import math
import os
import re
import signal
import struct
import threading
import time

import numpy as np
import pytest
from at_once import at_once
from cpu_kernels import POISON, REVERSAL, module, places, registers, run_reversal

from cuda_device.codegen.cpu import cpu_dialect
from cuda_device.codegen.cpu.machine_code import compile_native
from cuda_device.codegen.cpu.processor import worker_count
from cuda_device.codegen.emit.dialect import Status
from cuda_device.errors import KernelError, Location
from cuda_device.instrument.outline import ReportPlace
from cuda_device.runtime import cpu_executor
from cuda_device.runtime.cpu_executor import execute
from cuda_device.runtime.gpu.report_message import ranges


@pytest.fixture(scope="module")
def reversal():
    return compile_native(module(REVERSAL, ["ptr", "i32"], ["out", "n"], suspends=True, shared=4096))


@pytest.mark.parametrize(
    "block", [(1, 1, 1), (7, 1, 1), (32, 1, 1), (33, 1, 1), (256, 1, 1), (8, 4, 3), (5, 7, 3), (1024, 1, 1)]
)
def test_threads_exchange_through_shared_memory_between_barriers(reversal, block):
    for grid in ((1, 1, 1), (5, 1, 1), (3, 4, 5)):
        run_reversal(reversal, grid, block)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_block_runs_once_whatever_the_number_of_workers(reversal, workers):
    run_reversal(reversal, (301, 3, 2), (40, 1, 1), workers=workers)


def test_concurrent_launches_of_one_kernel(reversal):
    def many():
        for _ in range(20):
            run_reversal(reversal, (11, 1, 1), (64, 1, 1), workers=2)

    at_once([many] * 8)


@pytest.mark.parametrize("suspends", [False, True])
def test_special_registers(suspends):
    names = [f"{group}.{axis}" for group in ("thread_idx", "block_idx", "block_dim", "grid_dim") for axis in "xyz"]
    names += ["linear_thread", "lane_id", "dynamic_shared_bytes"]
    body = registers(*names, "shared", "dynamic_shared")
    if suspends:
        body += cpu_dialect.barrier(1, "after")
    body += "  %record = atomicrmw add ptr %counter, i32 1 monotonic\n"
    body += "  %low = ptrtoint ptr %shared to i64\n  %high = ptrtoint ptr %dynamic_shared to i64\n"
    body += "  %far = sub i64 %high, %low\n  %far.short = trunc i64 %far to i32\n"
    for i, name in enumerate([*names, "far.short"]):
        body += (
            f"  %at.{i} = getelementptr [16 x i32], ptr %out, i32 %record, i32 {i}\n  store i32 %{name}, ptr %at.{i}\n"
        )
    body += "  br label %coro.finish\n"
    code = compile_native(module(body, ["ptr", "ptr"], ["counter", "out"], suspends, shared=200))
    grid, block = (3, 2, 2), (5, 4, 3)
    counter = np.zeros(1, np.int32)
    out = np.full((math.prod(grid) * math.prod(block), 16), POISON, np.int32)
    execute(code, grid, block, struct.pack("@PP", counter.ctypes.data, out.ctypes.data), dynamic_shared=1000)
    expected = {
        (x, y, z, a, b, c, *block, *grid, linear := x + 5 * (y + 4 * z), linear % 32, 1000, 256)
        for x in range(5) for y in range(4) for z in range(3) for a in range(3) for b in range(2) for c in range(2)
    }  # fmt: skip
    assert {tuple(row) for row in out.tolist()} == expected


# if tid >= n: return; barrier; out[tid] = shared[n - 1 - tid], where shared[tid] was tid
EARLY = (
    registers("linear_thread", "shared")
    + """\
  %inside = icmp slt i32 %linear_thread, %n
  br i1 %inside, label %work, label %coro.finish
work:
  %mine = getelementptr i32, ptr %shared, i32 %linear_thread
  store i32 %linear_thread, ptr %mine
"""
    + cpu_dialect.barrier(1, "after")
    + """\
  %last = sub i32 %n, 1
  %mirror = sub i32 %last, %linear_thread
  %theirs = getelementptr i32, ptr %shared, i32 %mirror
  %got = load i32, ptr %theirs
  %slot = getelementptr i32, ptr %out, i32 %linear_thread
  store i32 %got, ptr %slot
  br label %coro.finish
"""
)


def test_threads_that_returned_do_not_count_at_barriers():
    code = compile_native(module(EARLY, ["ptr", "i32"], ["out", "n"], suspends=True, shared=4096))
    for n in (0, 1, 31, 32, 50, 100):
        out = np.full(100, POISON, np.int32)
        parameters = struct.pack("@Pi", out.ctypes.data, n)
        execute(code, (1, 1, 1), (100, 1, 1), parameters)
        assert out.tolist() == [n - 1 - i if i < n else POISON for i in range(100)]
        if 0 < n < 100:
            with pytest.raises(
                KernelError, match=rf"divergent barrier in block \(0, 0, 0\).*and .*\({n}..99, 0, 0\) have returned"
            ):
                execute(code, (1, 1, 1), (100, 1, 1), parameters, checked=True, places=places(p1=4))
        else:
            execute(code, (1, 1, 1), (100, 1, 1), parameters, checked=True)


# if tid < split: barrier 1 else: barrier 2
SPLIT = (
    registers("linear_thread")
    + """\
  %low = icmp slt i32 %linear_thread, %split
  br i1 %low, label %one, label %two
one:
"""
    + cpu_dialect.barrier(1, "one.after")
    + "  br label %join\ntwo:\n"
    + cpu_dialect.barrier(2, "two.after")
    + """\
  br label %join
join:
  %slot = getelementptr i32, ptr %out, i32 %linear_thread
  store i32 1, ptr %slot
  br label %coro.finish
"""
)


@pytest.fixture(scope="module")
def split():
    return compile_native(module(SPLIT, ["ptr", "i32"], ["out", "split"], suspends=True))


def run_split(code, where, block, **options):
    out = np.full(math.prod(block), POISON, np.int32)
    parameters = struct.pack("@Pi", out.ctypes.data, where)
    execute(code, (1, 1, 1), block, parameters, places=places(p1=10, p2=12), **options)
    return out


def test_a_warp_torn_between_two_barriers_is_a_deadlock(split):
    with pytest.raises(KernelError) as caught:
        run_split(split, 16, (32, 1, 1))
    first, help = str(caught.value).splitlines()
    assert first == (
        "deadlock in block (0, 0, 0): "
        "threads (0..15, 0, 0) wait at kernel.py:10 and threads (16..31, 0, 0) at kernel.py:12"
    )
    assert help.startswith("  help: ")
    assert caught.value.block == (0, 0, 0)


@pytest.mark.parametrize(
    ("where", "block", "low", "high"),
    [
        (36, (40, 1, 1), "(0..35, 0, 0)", "(36..39, 0, 0)"),
        (1, (2, 1, 1), "(0, 0, 0)", "(1, 0, 0)"),
        (8, (4, 2, 3), "(0..3, 0..1, 0)", "(0..3, 0..1, 1..2)"),
        (10, (4, 2, 3), "(0..3, 0..1, 0), (0..1, 0, 1)", "(2..3, 0, 1), (0..3, 1, 1), (0..3, 0..1, 2)"),
        (1000, (1024, 1, 1), "(0..999, 0, 0)", "(1000..1023, 0, 0)"),
    ],
)
def test_a_deadlock_names_the_threads(split, where, block, low, high):
    with pytest.raises(KernelError, match=r"^deadlock") as caught:
        run_split(split, where, block)
    expected = f"threads {low} wait at kernel.py:10 and threads {high} at kernel.py:12\n"
    assert expected in str(caught.value)


def test_warps_may_wait_at_different_places_unless_checked(split):
    assert (run_split(split, 32, (96, 1, 1)) == 1).all()
    with pytest.raises(
        KernelError, match=r"^divergent barrier .* \(0..31, 0, 0\) wait .* \(32..95, 0, 0\) at kernel.py:12"
    ):
        run_split(split, 32, (96, 1, 1), checked=True)
    assert (run_split(split, 96, (96, 1, 1), checked=True) == 1).all()


def test_a_launch_after_a_deadlock_works(split):
    for _ in range(3):
        with pytest.raises(KernelError):
            run_split(split, 3, (32, 1, 1))
        assert (run_split(split, 32, (32, 1, 1)) == 1).all()


def test_ranges():
    size = (4, 3, 2)
    for chosen in ([0], [0, 1, 2, 3], list(range(24)), [0, 4, 8], [1, 2, 5, 6, 13, 14, 17, 18]):
        text = ranges(chosen, size)
        covered = set()
        for box in re.findall(r"\(([^)]*)\)", text):
            spans = [[int(n) for n in part.split("..")] for part in box.split(", ")]
            x, y, z = ([*range(s[0], s[-1] + 1)] for s in spans)
            covered |= {a + 4 * (b + 3 * c) for a in x for b in y for c in z}
        assert covered == set(chosen)
    assert ranges(range(0, 24, 2), size) == "(0, 0..2, 0..1), (2, 0..2, 0..1)"
    assert ranges(range(0, 64, 2), (64, 1, 1)).endswith("and 28 more groups")


# Thread 3 of the block `bad` reports.
REPORT = (
    registers("thread_idx.x", "block_idx.x")
    + """\
  %odd = icmp eq i32 %thread_idx.x, 3
  %here = icmp eq i32 %block_idx.x, %bad
  %both = and i1 %odd, %here
  br i1 %both, label %fail, label %fine
fail:
"""
    + cpu_dialect.report(Status.CHECK, 9, "-8", "%n")
    + """\
  br label %coro.finish
fine:
"""
)


@pytest.mark.parametrize("suspends", [False, True])
def test_a_report_names_thread_block_place_and_values(suspends):
    body = REPORT + (cpu_dialect.barrier(1, "after") if suspends else "") + "  br label %coro.finish\n"
    code = compile_native(module(body, ["i32", "i64"], ["bad", "n"], suspends))
    table = {
        9: ReportPlace(
            Location("kernel.py", 21), "index {0} is out of bounds for {1} elements", "check the index", True
        )
    }
    with pytest.raises(KernelError) as caught:
        execute(code, (8, 1, 1), (32, 1, 1), struct.pack("@iq", 5, 1 << 40), places=table)
    assert str(caught.value).splitlines() == [
        "index -8 is out of bounds for 1099511627776 elements",
        "  at kernel.py:21, in thread (3, 0, 0) of block (5, 0, 0)",
        "  help: check the index",
    ]
    assert (caught.value.block, caught.value.thread) == ((5, 0, 0), (3, 0, 0))
    execute(code, (8, 1, 1), (32, 1, 1), struct.pack("@iq", 9, 0), places=table)


@pytest.mark.parametrize("suspends", [False, True])
def test_the_first_report_wins(suspends):
    body = cpu_dialect.report(Status.ASSERTION, 2) + "  br label %coro.finish\n"
    code = compile_native(module(body, suspends=suspends))
    for _ in range(3):
        with pytest.raises(KernelError, match=r"thread \(0, 0, 0\) of block \(0, 0, 0\)"):
            execute(code, (100, 1, 1), (32, 1, 1), b"", workers=1)


def test_a_report_stops_threads_that_wait_for_ever():
    body = REPORT + "  br label %again\nagain:\n" + cpu_dialect.barrier(1, "after") + "  br label %again\n"
    code = compile_native(
        module(body.replace("i32 %thread_idx.x, 3", "i32 %thread_idx.x, 31"), ["i32", "i64"], ["bad", "n"], True)
    )
    with pytest.raises(KernelError, match="of block \\(1, "):
        execute(code, (2, 1, 1), (32, 1, 1), struct.pack("@iq", 1, 0), workers=2)


def test_an_interrupt_stops_threads_that_meet_for_ever():
    code = compile_native(
        module("  br label %again\nagain:\n" + cpu_dialect.barrier(0, "after") + "  br label %again\n", suspends=True)
    )
    for how in (ctrl_c, _thread.interrupt_main):
        assert interrupted(lambda: execute(code, (4, 1, 1), (32, 1, 1), b""), how) < 1
        assert cpu_executor._POOL.busy == 0


def test_a_report_stops_the_largest_grid():
    body = REPORT + "  br label %coro.finish\n"
    code = compile_native(module(body, ["i32", "i64"], ["bad", "n"]))
    with pytest.raises(KernelError, match="of block \\(0, "):
        execute(code, (2**31 - 1, 65535, 65535), (32, 1, 1), struct.pack("@iq", 0, 0))


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def interrupted(call, interrupt=ctrl_c, after=0.2):
    """Runs `call` and interrupts it meanwhile, as Ctrl-C does; the time that KeyboardInterrupt took to arrive."""
    sent = []

    def send():
        sent.append(time.monotonic())
        interrupt()

    timer = threading.Timer(after, send)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in a shell's background ignores it
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        return time.monotonic() - sent[0]
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_stops_a_launch(reversal, workers):
    out = np.full(64, POISON, np.int32)
    # Every block writes its slot at a wrapped index: n = 0 keeps all of them within `out`.
    parameters = struct.pack("@Pi", out.ctypes.data, 0)
    grid = (1 << 30, 1, 1)
    before = cpu_executor._POOL.busy
    assert interrupted(lambda: execute(reversal, grid, (1, 1, 1), parameters, workers=workers)) < 1
    assert cpu_executor._POOL.busy == before
    run_reversal(reversal, (5, 1, 1), (32, 1, 1))


def test_an_interrupt_leaves_an_endless_thread_behind():
    body = """\
  br label %spin
spin:
  %go = load volatile i32, ptr %flag
  %on = icmp eq i32 %go, 0
  br i1 %on, label %spin, label %coro.finish
"""
    code = compile_native(module(body, ["ptr"], ["flag"]))
    flag = np.zeros(1, np.int32)
    parameters = struct.pack("@P", flag.ctypes.data)
    try:
        assert interrupted(lambda: execute(code, (1, 1, 1), (1, 1, 1), parameters, keep=flag)) < 2
        other = np.ones(1, np.int32)
        execute(code, (1, 1, 1), (1, 1, 1), struct.pack("@P", other.ctypes.data))
    finally:
        flag[:] = 1
    deadline = time.monotonic() + 5
    while not cpu_executor._POOL.idle and time.monotonic() < deadline:
        time.sleep(0.01)
    assert cpu_executor._POOL.busy == 0


def test_no_memory_for_frames_is_reported():
    allocas = f"  %local = alloca [{1 << 52} x i8]\n"
    body = registers("linear_thread") + "  %at = getelementptr i8, ptr %local, i32 %linear_thread\n"
    body += "  store volatile i8 1, ptr %at\n" + cpu_dialect.barrier(1, "after") + "  %x = load volatile i8, ptr %at\n"
    code = compile_native(module(body + "  br label %coro.finish\n", suspends=True, allocas=allocas))
    with pytest.raises(KernelError, match="no memory"):
        execute(code, (4, 1, 1), (64, 1, 1), b"")


def test_workers_follow_the_environment(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CPU_THREADS", "3")
    assert worker_count.__wrapped__() == 3
    monkeypatch.setenv("CUDA_DEVICE_CPU_THREADS", "none")
    assert worker_count.__wrapped__() >= 1


def test_launches_give_their_memory_back(reversal):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("no /proc")
    for _ in range(50):
        run_reversal(reversal, (2, 1, 1), (1024, 1, 1))
    before = resident()
    for _ in range(300):
        run_reversal(reversal, (2, 1, 1), (1024, 1, 1))
    assert resident() - before < 4096, "grew by more than 16 MB in 300 launches"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_can_launch(reversal):
    run_reversal(reversal, (4, 1, 1), (32, 1, 1))
    child = os.fork()
    if child == 0:
        try:
            run_reversal(reversal, (4, 1, 1), (32, 1, 1))
            os._exit(0)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")
