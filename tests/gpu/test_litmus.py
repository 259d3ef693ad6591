"""Litmus tests: small programs of a few threads whose orders forbid some result, run very often; and locks.

A row of `TESTS` has what each thread does, and the result that the memory model of C++ forbids. The threads of one run meet
first, so that they race. A GPU runs half a million of each; the CPU stream runs them too, on as many processors as there are.

    message passing     x = 1; y.store(1, release)   |   r0 = y.load(acquire); r1 = x     never r0 == 1 and r1 == 0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    threads: tuple[str, ...]
    forbidden: Callable[..., np.ndarray]


def _load(order):
    return f"load({order!r}, SCOPE)"


def _store(order):
    return f"store(1, {order!r}, SCOPE)"


def _fence(order):
    return f"device.threadfence({order!r}, SCOPE)"


FREE, TAKE, GIVE, ALL = "relaxed", "acquire", "release", "seq_cst"


def _stale(r0, r1, *_):
    return (r0 == 1) & (r1 == 0)


TESTS = [
    Litmus(
        "message passing",
        (f"x.{_store(FREE)}; y.{_store(GIVE)}", f"r0 = y.{_load(TAKE)}; r1 = x.{_load(FREE)}"),
        _stale,
    ),
    Litmus(
        "message passing of plain data",
        (f"data[at] = 1; y.{_store(GIVE)}", f"r0 = y.{_load(TAKE)}; r1 = data[at] if r0 else 1"),
        _stale,
    ),
    Litmus(
        "message passing by fences",
        (
            f"data[at] = 1; {_fence(GIVE)}; y.{_store(FREE)}",
            f"r0 = y.{_load(FREE)}; {_fence(TAKE)}; r1 = data[at] if r0 else 1",
        ),
        _stale,
    ),
    Litmus(
        "message passing by read-modify-writes",
        (
            f"data[at] = 1; y.add(1, {GIVE!r}, SCOPE)",
            f"r0 = y.exch(5, {TAKE!r}, SCOPE); r1 = data[at] if r0 == 1 else 1",
        ),
        _stale,
    ),
    Litmus(
        "message passing of sixteen bytes",
        (
            f"wide.store(device.int32x4(1, 1, 1, 1), {FREE!r}, SCOPE); y.{_store(GIVE)}",
            f"r0 = y.{_load(TAKE)}; v = wide.{_load(FREE)}; r1 = v.w if v.x == v.y == v.z == v.w else 0; r0 = max(r0, v.x)",
        ),
        _stale,
    ),
    Litmus(
        "store buffering",
        (f"x.{_store(ALL)}; r0 = y.{_load(ALL)}", f"y.{_store(ALL)}; r1 = x.{_load(ALL)}"),
        lambda r0, r1, *_: (r0 == 0) & (r1 == 0),
    ),
    Litmus(
        "store buffering by fences",
        (
            f"x.{_store(FREE)}; {_fence(ALL)}; r0 = y.{_load(FREE)}",
            f"y.{_store(FREE)}; {_fence(ALL)}; r1 = x.{_load(FREE)}",
        ),
        lambda r0, r1, *_: (r0 == 0) & (r1 == 0),
    ),
    Litmus(
        "store buffering by read-modify-writes",
        (f"x.exch(1, {ALL!r}, SCOPE); r0 = y.{_load(ALL)}", f"y.add(1, {ALL!r}, SCOPE); r1 = x.{_load(ALL)}"),
        lambda r0, r1, *_: (r0 == 0) & (r1 == 0),
    ),
    Litmus(
        "load buffering",
        (f"r0 = x.{_load(TAKE)}; y.{_store(GIVE)}", f"r1 = y.{_load(TAKE)}; x.{_store(GIVE)}"),
        lambda r0, r1, *_: (r0 == 1) & (r1 == 1),
    ),
    Litmus(
        "independent reads of independent writes",
        (
            f"x.{_store(ALL)}",
            f"y.{_store(ALL)}",
            f"r0 = x.{_load(ALL)}; r1 = y.{_load(ALL)}",
            f"r2 = y.{_load(ALL)}; r3 = x.{_load(ALL)}",
        ),
        lambda r0, r1, r2, r3: (r0 == 1) & (r1 == 0) & (r2 == 1) & (r3 == 0),
    ),
    Litmus(
        "causality through a third thread",
        (
            f"x.{_store(FREE)}",
            f"r0 = x.{_load(FREE)}; y.{_store(GIVE)}",
            f"r1 = y.{_load(TAKE)}; r2 = x.{_load(FREE)}",
        ),
        lambda r0, r1, r2, _: (r0 == 1) & (r1 == 1) & (r2 == 0),
    ),
    Litmus(
        "one location has one order",
        (f"x.{_store(FREE)}", f"r0 = x.{_load(FREE)}; r1 = x.{_load(FREE)}"),
        _stale,
    ),
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
    return define(source, file=f"<{litmus.name} {scope} {apart}>", SCOPE=scope, int32=int32)


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
    assert np.count_nonzero(litmus.forbidden(*seen)) == 0


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
