"""What LLVM does to loops: strength reduction, and the unrolling of loops whose trip count is not known."""

import concurrent.futures

import numpy as np
import pytest
from ir_helpers import define, job, ptx_of, stage

import cuda_device as device
from cuda_device.codegen.gpu import nvptx
from cuda_device.optimise import loop_addresses

SM_90 = job(lambda: None, target="sm_90").target.architecture


@device.kernel
def diagonals(x, y):
    """The inner loop starts from several values that the outer one changes."""
    t, threads, n = int(device.thread_idx.x), int(device.block_dim.x), len(x)
    rows = device.shared_array((3, 64), device.int32)
    for d in range(2 * n - 1):
        for i in range(max(0, d - n + 1) + t, min(d + 1, n), threads):
            value = x[i] * x[d - i]
            if i > 0 and d > i:
                value += rows[(d + 1) % 3, i - 1]
            rows[d % 3, i] = value
        device.syncthreads()
    for i in range(t, n, threads):
        y[i] = rows[(i + n - 1) % 3, i]


def expected(x):
    n = len(x)
    table = np.zeros((2 * n - 1, n), np.int64)
    for d in range(2 * n - 1):
        for i in range(max(0, d - n + 1), min(d + 1, n)):
            table[d, i] = x[i] * x[d - i] + (table[d - 2, i - 1] if i > 0 and d > i else 0)
    rows = {}
    for d in range(2 * n - 1):
        for i in range(max(0, d - n + 1), min(d + 1, n)):
            rows[d % 3, i] = table[d, i]
    return [rows[(i + n - 1) % 3, i] for i in range(n)]


@pytest.mark.parametrize("size", [1, 2, 9, 40])
def test_diagonals(stream, size):
    x = np.random.default_rng(size).integers(-9, 9, size).astype(np.int32)
    assert stream.run(diagonals, x, np.zeros(size, np.int32), block=32)[-1].tolist() == expected(x)


def test_the_outer_loop_counts_once():
    """With strength reduction, the outer loop would have five more induction variables."""
    ptx = ptx_of(diagonals, np.zeros(9, np.int32), np.zeros(9, np.int32))
    last = ptx.index("bar.sync")
    assert ptx[last : ptx.index("bra", last)].count("add.") <= 2


@device.kernel
def along(x, y, n):
    """The addresses of four unrolled iterations share their invariant part."""
    total = 0.0
    for i in range(n):
        total += x[i, device.thread_idx.x]
    y[device.thread_idx.x] = total


@device.kernel
def squares(x, y):
    """The inner loop starts from 0 and ends at the counter of the outer one."""
    for i in range(len(x)):
        total = 0
        for j in range(i):
            total += x[j]
        y[i] = total


@device.kernel
def triangle(x, y):
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            y[j] += x[i]


@device.kernel
def runs(x, y, starts):
    """The inner loop starts from a value in memory."""
    for i in range(len(starts) - 1):
        for j in range(starts[i], starts[i + 1]):
            y[i] += x[j]


@pytest.mark.parametrize(
    ("kernel", "count", "reduces"), [(along, 3, True), (squares, 2, True), (triangle, 2, False), (runs, 3, False)]
)
def test_which_loops_llvm_reduces(kernel, count, reduces):
    arguments = [np.zeros((9, 9)), np.zeros(9), 9] if kernel is along else [np.zeros(9, int)] * count
    assert loop_addresses.wants_strength_reduction(stage("device", kernel, *arguments)) is reduces


@device.kernel
def several(x, y, n):
    """Three loops of unknown trip counts, and a loop of three iterations over a local array."""
    total, parts = x[n], device.local_array(3, device.float32)
    for i in range(n):
        total = total * 0.5 + x[i]
    for i in range(n):
        total = total * 1.5 + x[i]
    for i in range(n):
        total = total * 2.5 + x[i]
    for j in range(3):
        parts[j] = total * j
    y[n] = parts[0] + parts[1] * parts[2]


@pytest.mark.parametrize(("most", "loads"), [(9, 1 + 3 * 7), (3, 1 + 3)])
def test_many_loops_are_unrolled_only_if_their_trip_count_is_known(most, loads, monkeypatch):
    """Otherwise LLVM unrolls them by four, with three iterations after the loop."""
    monkeypatch.setattr(loop_addresses, "_MANY", most)
    arguments = np.zeros(9, np.float32), np.zeros(9, np.float32), 5
    assert loop_addresses.has_many_loops(stage("device", several, *arguments)) is (most == 3)
    ptx = stage("ptx", several, *arguments)
    assert ptx.count("ld.global") == loads
    assert ".local" not in ptx


def test_branches_are_not_loops():
    kernel = define("def k(x):\n" + 200 * "    if x[0]: x[0] = x[1]\n")
    module = stage("device", kernel, np.zeros(9))
    assert len(module.main.blocks) > 128
    assert not loop_addresses.has_many_loops(module)


def emitted(text, reduce):
    module = nvptx.parse(text)
    nvptx.optimise(module, SM_90)
    return nvptx.emit(module, SM_90, reduce=reduce)


def test_threads_that_compile_at_once_do_not_disturb_one_another():
    """LLVM's option is one of the whole process."""
    x, y = np.zeros((9, 9), np.float32), np.zeros(9, np.float32)
    jobs = [(along, x, y, 9), (diagonals, x[0].astype(np.int32), y.astype(np.int32))]
    texts = [device.compile(*job, target="sm_90", output="llvm", launch_facts=True).code for job in jobs]
    ways = [(text, reduce) for text in texts for reduce in (True, False)]
    alone = [emitted(*way) for way in ways]
    assert alone[0] != alone[1] and alone[2] != alone[3]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda way: emitted(*way), 4 * ways)) == 4 * alone
