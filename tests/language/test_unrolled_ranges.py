"""Loops over constant ranges are unrolled where their bodies need the number as a constant, and only there."""

import re

import numpy as np
import pytest
from ir_helpers import define

import cuda_device as device
from cuda_device import CompileError


@device.func
def chosen(values, i: device.ConstExpr):
    return values[i] * (i + 1)


@device.kernel
def unrolls(x, out, n):
    i = device.tid(1)
    sums = [0.0] * 96
    for k in range(n):
        for a in range(8):
            for b in range(95, 83, -1):
                sums[a * 12 + b - 84] += x[i] + a + k
    mixed, total = (1, 2.5, x), 0.0
    for j in range(2):
        total += mixed[j]
    for j in range(0, 3, 2):
        total += chosen((10.0, 20.0, 30.0), j)
        if total > 1e6:
            break
    out[i, 0], out[i, 1] = total, sum(sums)


def test_bodies_that_need_constants_are_unrolled(stream):
    x = np.arange(32, dtype=np.float32)
    _, out = stream.run(unrolls, x, np.zeros((32, 2), np.float32), 3, block=32)
    assert (out[:, 0] == 3.5 + 10 + 90).all()
    assert (out[:, 1] == 3 * 96 * x + 3 * 12 * sum(range(8)) + 96 * (0 + 1 + 2)).all()


def test_registers_stay_registers():
    text = device.compile(unrolls, np.zeros(1, np.float32), np.zeros((1, 2), np.float32), int, output="ptx").code
    assert ".local" not in text


@device.kernel
def grows(x, out):
    i = device.tid(1)
    rows, flat = [], ()
    for a in range(3):
        row = []
        for b in range(2):
            row.append(x[i] * (2 * a + b))
        rows.append(row)
        flat += (row[1],)
    for a, (row, last) in enumerate(zip(rows, flat, strict=True)):
        rows[a] = [*row, last]  # the number is a constant, too
    for a, row in enumerate(rows):
        for b in range(3):
            out[i, 3 * a + b] = row[b]


def test_lists_and_tuples_grow_in_loops(stream):
    x = np.arange(32, dtype=np.float32)
    _, out = stream.run(grows, x, np.zeros((32, 9), np.float32), block=32)
    assert (out == np.multiply.outer(x, [0, 1, 1, 2, 3, 3, 4, 5, 5])).all()


def test_a_list_of_run_time_length_is_refused():
    @device.kernel
    def k(x, n):
        rows = []
        for i in range(n):
            rows.append(x[i])
        x[0] = rows[0]

    with pytest.raises(CompileError, match="a list of 0 items on one path here and a list of 1 item on another"):
        device.compile(k, np.zeros(4), int, output="ptx")


def test_constants_that_many_calls_share_stay_constants(stream):
    """The function is not compiled for each of its 64 numbers, but for its shape, which it captured."""
    shape = 4, 2

    @device.kernel
    def k(out):
        def number(i):
            return device.local_array(shape, device.int32).shape[0] * i

        numbers = [number(i) for i in range(64)]
        for i in range(64):
            out[i] = numbers[i]

    assert (stream.run(k, np.zeros(64, np.int32), block=1) == 4 * np.arange(64)).all()


@device.kernel
def walks(x, out, n):
    i = device.tid(1)
    sums = [x[i] * k for k in range(12)]
    for a in range(3):
        for b in (0, 1):
            for k in range(n):
                sums[2 * a + b] += x[k]
    for a in range(0, 12, 4):
        first, second = sums[a : a + 2]
        sums[a + 2] -= first * second
        if first > 100:
            break
    for a in range(12):
        out[i, a] = sums[11 - a]


def test_loops_that_walk_through_a_list_are_unrolled(stream):
    x = np.arange(32, dtype=np.float32)
    _, out = stream.run(walks, x, np.zeros((32, 12), np.float32), 5, block=32)
    sums = np.multiply.outer(np.arange(12.0), x)
    sums[:6] += sum(range(5))
    going = np.full(32, True)
    for a in range(0, 12, 4):
        sums[a + 2] -= np.where(going, sums[a] * sums[a + 1], 0)
        going &= sums[a] <= 100
    assert (out.T == sums[::-1]).all()


def test_loops_that_walk_through_a_list_select_nothing():
    text = device.compile(walks, np.zeros(1, np.float32), np.zeros((1, 2), np.float32), int, output="ptx").code
    assert "selp" not in text and ".local" not in text


SELECTIONS = {
    "more iterations than items": "for i in range(500): t[i % 12] += x[i]",
    "too many copies": "for i in range(12):\n  for j in range(12):\n   for k in range(12): t[i] += t[j] * t[k]",
    "an index that stays unknown": "for i in range(n):\n  for j in range(12): t[(i + j) % 12] += x[j]",
    "few items": "for i in range(4):\n  for j in range(n): s[i] += x[j]",
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_loops_that_gain_nothing_stay_loops(name, stream):
    source = (
        f"def k(x, n):\n t, s = [x[v] for v in range(12)], [1, 2, 3, 4]\n {SELECTIONS[name]}\n x[0] = sum(t) + sum(s)\n"
    )
    x, expected = np.linspace(0, 0.1, 500), np.linspace(0, 0.1, 500)
    define(source)(expected, 3)
    assert np.allclose(stream.run(device.kernel(define(source)), x, 3, block=1), expected)
    marked = source.replace("+=", '+= device.ptx("mov.u32 $0, %smid; // here", result=device.uint32) * 0 +')
    kernel = device.kernel(define(marked))
    assert device.compile(kernel, x, int, output="llvm", target="sm_90").code.count("// here") == 1


def test_other_loops_stay_loops():
    @device.kernel
    def k(out):
        for i in range(1000):
            device.ptx("mov.u32 $0, %smid; // here", result=device.uint32)
            out[i] = i

    assert device.compile(k, np.zeros(4), output="ptx", target="sm_90").code.count("// here") <= 8


@pytest.mark.parametrize(
    ("source", "reason", "help"),
    [
        ("for i in range(n): a[i] = 1.0", "a list of 100 items is too long", "a range with constant bounds"),
        ("for i in range(2000): a[i % 100] = 1.0", "a list of 100 items is too long", "a range with constant bounds"),
        ("for i in range(n): x[0] = (1, 2.5, x)[i]", "the index of tuple", "loop over the tuple"),
    ],
)
def test_what_is_not_unrolled_says_what_to_write(source, reason, help):
    space = {}
    exec(f"def kernel(x, n):\n    a = [0.0] * 100\n    {source}\n    x[0] = a[3]\n", space)
    with pytest.raises(CompileError, match=re.escape(reason)) as caught:
        device.compile(device.kernel(space["kernel"]), np.zeros(4, np.float32), int, output="ptx")
    assert help in caught.value.help
    assert caught.value.location.line == 3
