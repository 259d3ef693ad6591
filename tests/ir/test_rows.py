"""Loop-invariant parts of addresses are hoisted, and loops have pointer induction variables, also behind branches."""

import re

import numpy as np
import pytest
from ir_helpers import define, read

import cuda_device as device
from cuda_device.ir.dominance import innermost, natural_loops


@device.kernel
def along(a, b, table, row, y):
    """Behind a branch, with an ascending and a descending index."""
    t = device.thread_idx.x
    total = 0
    for i in range(int(t), len(a), int(device.block_dim.x)):
        j = len(a) - i
        if i % 3 == 0 or j == 1:
            total += a[i] * b[j - 1] + table[row, i]
    y[t] = total


@device.kernel
def nested(x, y, keep):
    """The outer loop changes the invariants of the inner one."""
    j = int(device.thread_idx.x)
    for k in range(x.shape[0]):
        for i in range(x.shape[1] - 1, -1, -1):
            if keep[i, k]:
                y[k, j, i] = x[k, i, j] + 10 * x[x.shape[0] - 1 - k, i, j]


@device.kernel
def turning(x, order, y):
    """An index from memory in a row that does not change, and one that is no induction variable."""
    row, total = int(device.block_idx.x), 0
    place = 1
    while place < x.shape[1]:
        if x[row, place] >= 0:
            total += x[row, order[place]]
        place = 2 * place + 1
    y[row] = total


@pytest.mark.parametrize("size", [1, 2, 7, 40, 65])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_up_and_down(stream, size, dtype):
    random = np.random.default_rng(size)
    a, b = random.integers(-9, 9, (2, size)).astype(dtype)
    table = random.integers(-9, 9, (3, size)).astype(dtype)
    y = stream.array(np.full(8, -12345, dtype))
    stream.launch(along, *map(stream.array, (a, b, table)), 2, y, grid=1, block=8)
    taken = [[i for i in range(t, size, 8) if i % 3 == 0 or size - i == 1] for t in range(8)]
    assert stream.numpy(y).tolist() == [sum(a[i] * b[size - i - 1] + table[2, i] for i in some) for some in taken]


@pytest.mark.parametrize("order", ["C", "F"])
def test_loops_in_loops(stream, order):
    random = np.random.default_rng(5)
    x = np.asarray(random.integers(-99, 99, (3, 5, 4)).astype(np.int32), order=order)
    keep = random.random((5, 3)) < 0.6
    _, y, _ = stream.run(nested, x, np.full((3, 4, 5), -12345, np.int32), keep, block=4)
    expected = np.where(keep.T[:, None, :], (x + 10 * x[::-1]).transpose(0, 2, 1), -12345)
    assert np.array_equal(y, expected)


def test_other_ways_through_a_row(stream):
    random = np.random.default_rng(6)
    x, order = random.integers(-5, 9, (4, 33)).astype(np.int32), random.permutation(33).astype(np.int32)
    assert stream.run(turning, x, order, np.full(4, -12345, np.int32), grid=4)[-1].tolist() == [
        sum(row[order[place]] for place in (1, 3, 7, 15, 31) if row[place] >= 0) for row in x
    ]


def test_pointers_go_along():
    """Behind the branch, there are no products, only loads and at most one sum for each pointer."""
    x = np.zeros(9, np.int32)
    arguments = x, x, np.zeros((3, 9), np.int32), 2, np.zeros(8, np.int32)
    ptx = device.compile(along, *arguments, target="sm_90", output="ptx", launch_facts=True).code
    loads = [part for part in re.split(r"^\$\w+:", ptx, flags=re.M) if part.count("ld.global") >= 3]
    assert loads
    assert all("mul.wide" not in part and "cvt.s64" not in part for part in loads), loads


@pytest.mark.parametrize("operator", ["+", "*"])
def test_long_chains(operator):
    """The chain is longer than Python's limit of recursion."""
    chain = "".join(f"        v = v {operator} {1 + j % 3}\n" for j in range(1500))
    kernel = define(
        f"@device.kernel\ndef k(x, y):\n    for i in range(len(y)):\n        v = i\n{chain}        y[i] = x[v % 8]\n"
    )
    x, y = np.arange(8, dtype=np.int32), np.full(9, -1, np.int32)
    device.launch(kernel, x, y, grid=1, block=1, stream=device.cpu_stream())
    assert y.tolist() == [wrapped(operator, i) % 8 for i in range(9)]


def wrapped(operator: str, start: int) -> int:
    for j in range(1500):
        start = start + 1 + j % 3 if operator == "+" else start * (1 + j % 3)
    return start


def test_unrolled_passes_share_a_pointer():
    """Four unrolled iterations of a loop over a row have one pointer for each array."""

    @device.kernel
    def scale(x, y):
        row = device.block_idx.x
        for i in range(int(device.thread_idx.x), x.shape[1], 128):
            y[row, i] = 2 * x[row, i]

    x = np.zeros((4, 512), np.float32)
    ptx = device.compile(scale, x, x.copy(), target="sm_90", output="ptx", launch_facts=True).code
    loops = re.findall(r"^(\$L\w+):\n((?:(?!\$L).*\n)*?\t@%p\d+ bra \t\1;)", ptx, re.M)
    assert max(body.count("ld.global") for _, body in loops) == 4
    for _, body in loops:
        assert len(set(re.findall(r"\[(%rd\d+)", body))) == 2
        assert len(re.findall(r"\tadd\.s64", body)) == 2


LOOPS = """
func @f -> none kernel device {
^0(%0: int32, %1: bool):
  jump ^1(%0)
^1(%2: int32):
  branch %1 ^2() ^5()
^2():
  branch %1 ^3() ^4()
^3():
  jump ^2()
^4():
  jump ^1(%2)
^5():
  return
}
"""


def test_each_block_has_its_innermost_loop():
    function = read(LOOPS).main
    blocks, loops = function.blocks, innermost(natural_loops(function.blocks))
    assert {number for number, block in enumerate(blocks) if block in loops} == {1, 2, 3, 4}
    assert loops[blocks[1]].blocks == loops[blocks[4]].blocks == {*blocks[1:5]}
    assert loops[blocks[2]].blocks == loops[blocks[3]].blocks == {*blocks[2:4]}
    runs = [loops[blocks[number]].always_runs(blocks[number]) for number in (1, 2, 3, 4)]
    assert runs == [True, True, True, True]
    assert not loops[blocks[1]].always_runs(blocks[3])
    assert loops[blocks[1]].always_runs(blocks[2])
