"""Litmus tests: small programs of a few threads whose orders forbid some result, run very often; and locks.

A test of litmus_tests.txt has its name, the result that the memory model of C++ forbids, and a line of what each thread does. The
threads of one run meet first, so that they race. A GPU runs half a million of each; the CPU stream runs them too, on as many
processors as there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import golden_pages
import numpy as np
import pytest
from ir_helpers import define

import cuda_device as device
from cuda_device import int32

# Each location has 128 bytes to itself.
STRIDE = 32


@dataclass(frozen=True)
class Litmus:
    """`threads` are the lines of each thread, of the atomics x and y, the plain location `data[at]`, and the results r0 to r3."""

    name: str
    forbidden: str
    threads: tuple[str, ...]


ORDERS = {order: order for order in ("relaxed", "acquire", "release", "seq_cst")}
TESTS = [
    Litmus(*title.split(": "), tuple(text.splitlines()))
    for title, text in golden_pages.texts_in(Path(__file__).with_name("litmus_tests.txt")).items()
]


def kernel_of(litmus, scope, apart):
    """The kernel: threads of different blocks, or of different warps of a block, play the parts."""
    count = len(litmus.threads)
    parts = ""
    for i, lines in enumerate(litmus.threads):
        parts += f"        {'if' if i == 0 else 'elif'} part == {i}:\n"
        parts += "".join(f"            {line}\n" for line in lines.split("; "))
    unit, size = (
        ("device.block_idx.x", "device.block_dim.x") if apart == "blocks" else ("device.thread_idx.x // 32", "32")
    )
    more = "" if apart == "blocks" else f" + device.block_idx.x * (device.block_dim.x // 32 // {count})"
    # A thread's partners have other places in their warps than it has in its own.
    source = f"""@device.kernel
def k(flags, data, wides, ready, results, runs):
    unit, size = {unit}, {size}
    part = unit % {count}
    group = unit // {count}{more}
    member = (device.thread_idx.x + part * 17) % size
    for turn in range(runs):
        run = (group * runs + turn) * size + member
        x, y = device.atomic_ref(flags, (run, 0, 0)), device.atomic_ref(flags, (run, 1, 0))
        wide, at = device.atomic_ref(wides, run * {STRIDE // 4}), run * {STRIDE}
        all_here = device.atomic_ref(ready, run)
        all_here.add(1, "relaxed", SCOPE)
        while all_here.load("relaxed", SCOPE) < {count}:
            pass
        r0 = r1 = r2 = r3 = int32(-1)
{parts}
        if r0 >= 0:
            results[0, run] = r0
        if r1 >= 0:
            results[1, run] = r1
        if r2 >= 0:
            results[2, run] = r2
        if r3 >= 0:
            results[3, run] = r3
"""
    return define(source, file=f"<{litmus.name} {scope} {apart}>", SCOPE=scope, int32=int32, **ORDERS)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("scope, apart", [("device", "blocks"), ("system", "blocks"), ("block", "warps")])
@pytest.mark.parametrize("litmus", TESTS, ids=lambda litmus: litmus.name)
def test_nothing_forbidden_is_seen(stream, litmus, scope, apart):
    count = len(litmus.threads)
    gpu = stream.kind == "gpu"
    if apart == "blocks":
        # All blocks have to run at once: there are not more than there are multiprocessors.
        groups, size, runs = (60 // count, 128, 128) if gpu else (4, 4, 200)
        grid, block = groups * count, size
    else:
        size, runs = 32, 128 if gpu else 3
        grid, block = 16 if gpu else 2, 32 * count * (4 if gpu else 1)
        groups = grid * (block // 32 // count)
    total = groups * size * runs
    flags = stream.array(np.zeros((total, 2, STRIDE), np.int32))
    data, ready = stream.array(np.zeros(total * STRIDE, np.int32)), stream.array(np.zeros(total, np.int32))
    wides = stream.array(np.zeros(total * STRIDE // 4, device.numpy_dtype(device.int32x4)))
    results = stream.array(np.full((4, total), -1, np.int32))
    kernel = kernel_of(litmus, scope, apart)
    stream.launch(kernel, flags, data, wides, ready, results, runs, grid=grid, block=block)
    seen = stream.numpy(results)
    assert (stream.numpy(ready) == count).all()
    used = [row for row in seen if (row != -1).any()]
    assert used and all(((row == 0) | (row == 1) | (row == 5)).all() for row in used)
    assert np.count_nonzero(eval(litmus.forbidden, dict(zip(("r0", "r1", "r2", "r3"), seen, strict=True)))) == 0


# Locks: what they guard is plain memory


@device.struct
class SpinLock:
    taken: device.Atomic(int32)

    def lock(self):
        while self.taken.exch(1, "acquire", "device"):
            pass

    def unlock(self):
        self.taken.store(0, "release", "device")


@device.struct
class TicketMutex:
    line: device.Atomic(int32, align=16)
    current: device.Atomic(int32, align=16)

    def lock(self):
        my = self.line.add(1)
        while True:
            now = self.current.load()
            if now == my:
                break
            self.current.wait(now)

    def unlock(self):
        self.current.add(1)
        self.current.notify_all()


@device.kernel
def add_under_a_lock(locks, counters, rounds):
    for turn in range(rounds):
        which = (device.block_idx.x + turn) % len(locks)
        # One thread of a block at a time.
        for thread in range(4):
            if device.thread_idx.x == thread * 32:
                lock = locks[which]
                lock.lock()
                for i in range(counters.shape[1]):
                    counters[which, i] += i + 1
                lock.unlock()
            device.syncthreads()


@pytest.mark.parametrize("struct", [SpinLock, TicketMutex], ids=lambda struct: struct.__name__)
def test_locks_guard_plain_memory(stream, struct):
    grid, rounds = (1000, 20) if stream.kind == "gpu" else (60, 3)
    locks = stream.array(np.zeros(2, device.numpy_dtype(struct)))
    counters = stream.array(np.zeros((2, 40), np.int64))
    stream.launch(add_under_a_lock, locks, counters, rounds, grid=grid, block=128)
    often = [
        sum((block + turn) % 2 == which for block in range(grid) for turn in range(rounds)) * 4 for which in (0, 1)
    ]
    assert stream.numpy(counters).tolist() == [[count * (i + 1) for i in range(40)] for count in often]
