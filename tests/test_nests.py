"""Loops within loops are written in the shorter of two ways: with LLVM's "loop strength reduction" and without it."""

import concurrent.futures

import numpy as np
import pytest

import cuda_device as device
from cuda_device.codegen.gpu import nests
from cuda_device.codegen.gpu.nvptx import emit_ptx
from cuda_device.types.architectures import parse

SM_90 = parse("sm_90")
HEAD = ".visible .entry k()\n{\n"
INNER = "$L__BB0_2:\n\tadd.s32 \t%r1, %r1, 1;\nMORE\t@%p1 bra \t$L__BB0_2;\n"
OUTER = "$L__BB0_1:\n\tmov.b32 \t%r1, %r2;\nINNER\tbra.uni \t$L__BB0_1;\n"
TEXT = HEAD + OUTER.replace("INNER", INNER.replace("MORE", "")) + "\tret;\n}\n"
LOAD = "\t@%p2 ld.global.b32 \t%r3, [%rd1];\n"


@pytest.mark.parametrize(
    ("text", "nested"),
    [
        (TEXT, True),
        (HEAD + INNER.replace("MORE", ""), False),
        (HEAD + OUTER.replace("INNER", ""), False),
        (HEAD + OUTER.replace("INNER", "") + INNER.replace("MORE", ""), False),
        (TEXT.replace("bra \t$L__BB0_2", "bra \t$L__BB0_3"), False),  # forwards, to a label behind
        (HEAD + INNER + HEAD + OUTER.replace("INNER", ""), False),  # of two functions
        ("", False),
    ],
)
def test_loops_in_loops(text, nested):
    assert nests.has_nests(text) == nested


def test_what_is_shorter():
    """One instruction more in the inner loop is more than seven in the outer one; there it is more than seven outside."""
    inside = TEXT.replace("\tadd", LOAD + "\tadd")
    around = TEXT.replace("\tmov", 7 * LOAD + "\tmov")
    outside = TEXT.replace("\tret", 7 * LOAD + "\tret")
    assert (
        nests.is_shorter(TEXT, outside) is nests.is_shorter(outside, around) is nests.is_shorter(around, inside) is True
    )
    assert not nests.is_shorter(inside, around)
    assert not nests.is_shorter(TEXT, TEXT)
    assert not nests.is_shorter(TEXT, TEXT.replace("\tret", "\tadd.s32 \t%r9, %r9, 1;\n\tret"))  # not clearly
    assert not nests.is_shorter(
        TEXT, TEXT.replace("\tadd", 9 * "\tmov.b32 \t%r8, %r9;\n" + "\tadd")
    )  # which cost nothing


@device.kernel
def diagonals(x, y):
    """What the inner loop begins with changes with the outer one, in many ways."""
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
def test_both_ways_compute_the_same(stream, size):
    x = np.random.default_rng(size).integers(-9, 9, size).astype(np.int32)
    y = stream.array(np.zeros(size, np.int32))
    stream.launch(diagonals, stream.array(x), y, grid=1, block=32)
    assert stream.numpy(y).tolist() == expected(x)


def ptx_of(kernel, *arguments):
    return device.compile(kernel, *arguments, target="sm_90", output="ptx", launch_facts=True).code


def test_the_outer_loop_counts_once():
    """Without it, there are five more numbers that go along with the outer loop."""
    ptx = ptx_of(diagonals, np.zeros(9, np.int32), np.zeros(9, np.int32))
    last = ptx.index("bar.sync")
    assert ptx[last : ptx.index("bra", last)].count("add.") <= 2


@device.kernel
def along(x, y, n):
    """What LLVM makes shorter: four passes are one, and share what they have of an address."""
    total = 0.0
    for i in range(n):
        total += x[i, device.thread_idx.x]
    y[device.thread_idx.x] = total


def test_threads_that_compile_at_once_do_not_disturb_one_another():
    """What is said to LLVM for one module is said for the whole process."""
    x, y = np.zeros((9, 9), np.float32), np.zeros(9, np.float32)
    jobs = [(along, x, y, 9), (diagonals, x[0].astype(np.int32), y.astype(np.int32))]
    texts = [device.compile(*job, target="sm_90", output="llvm", launch_facts=True).code for job in jobs]
    alone = [emit_ptx(text, SM_90).text for text in texts]
    assert "bar.sync" in alone[1]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: emit_ptx(text, SM_90).text, 8 * texts)) == 8 * alone
