"""Kernels that wait, on the CPU: lanes compute the same in loops and one by one, whatever lives across a wait.

The programs are the bodies of kernels in region_programs.txt, which take `x`, 64 rows of 64 random numbers, and write to `y`;
behind a name are its launches: the grid, the block, and the shape of `y`.
"""

from pathlib import Path

import numpy as np
import pytest
from conftest import thinned
from ir_helpers import counted, define, programs_in, stage
from numpy import float32, int32

import cuda_device as device
from cuda_device.cpu import regions, strided_loops


@device.struct
class Pair:
    a: device.float32x2
    b: device.int8


PROGRAMS = programs_in(
    Path(__file__).with_name("region_programs.txt"), "def k(x, y):", float32=float32, int32=int32, Pair=Pair
)
APART = ("some_leave", "lanes", "turns")
"""The programs whose threads do not wait together."""


@pytest.fixture
def afresh(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "")
    made = []
    split = regions.split
    monkeypatch.setattr(regions, "split", lambda *given: (made.append(split(*given)), made[-1])[1])
    return made


def computed(program, checked, capsys):
    """What each launch of a program writes to `y`, and what all of them print."""
    kernel, results = device.kernel(checked=checked)(program.function), []
    for grid, block, shape in program.fields["launches"]:
        x, y = np.random.default_rng(5).random((64, 64), float32), np.zeros(shape, float32)
        device.launch(kernel, x, y, grid=grid, block=block, stream=device.cpu_stream())
        results.append(y)
    return results, capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "checked"),
    thinned(PROGRAMS, [False, True], one_in=2),
    ids=lambda each: f"checked={each}" if isinstance(each, bool) else each.name,
)
def test_lanes_compute_the_same_in_loops_and_one_by_one(program, checked, afresh, monkeypatch, capsys):
    found, printed = computed(program, checked, capsys)
    monkeypatch.setattr(regions, "LARGEST", 0)
    expected, others = computed(program, checked, capsys)
    assert [made is not None and made.in_loops for _, made in afresh] == [True, False]
    assert program.name.startswith("alike") or afresh[0][1].together == (program.name not in APART)
    assert all(map(np.array_equal, found, expected)) and printed == others
    assert all(map(np.any, found))


@pytest.mark.parametrize("block", [1, 7, 8, (3, 5), (33, 2), (9, 2, 3)])
def test_rows_of_any_length_loop_alike(block):
    @device.kernel(checked=False)
    def kernel(x, y, z):
        at, size = device.thread_idx, device.block_dim
        i = at.x + size.x * (at.y + size.y * (at.z + size.z * device.block_idx.x))
        total = int32(i)
        for k in range(x.shape[0]):
            total = total * 3 + x[k]
        y[i] = total
        for k in range(device.tid(1), len(z), device.grid_size(1)):
            z[k] += x[k % x.shape[0]]

    sizes = (*(block if isinstance(block, tuple) else (block,)), 1, 1)[:3]
    threads, rows = 2 * sizes[0] * sizes[1] * sizes[2], sizes[1] * sizes[2]
    x, y, z = np.arange(5, dtype=np.int32), np.zeros(threads, np.int32), np.zeros(101, np.int32)
    device.launch(kernel, x, y, z, grid=2, block=block, stream=device.cpu_stream())
    assert y.tolist() == [i * 3**5 + sum(k * 3 ** (4 - k) for k in range(5)) for i in range(threads)]
    assert z.tolist() == [rows * (k % 5) for k in range(101)]


def test_what_needs_no_memory_has_none(afresh, capsys):
    """A thread's index, and what is a few operations away, is computed again; parameters are there anyhow."""

    @device.kernel(checked=False)
    def kernel(x, y, n):
        i = device.tid(1)
        j = 3 * i + n
        y[0, i] = x[0, i]
        device.syncthreads()
        y[0, i] = y[0, j % 64] + j

    device.launch(
        kernel, np.zeros((1, 64), float32), np.zeros((1, 64), float32), 5, grid=1, block=64, stream=device.cpu_stream()
    )
    assert afresh[0][1].slots == []


def test_loops_that_stride_leave_no_division(afresh):
    """LLVM vectorises no loops of a module with divisions (see `native`)."""

    @device.kernel(checked=False)
    def kernel(x, y):
        for k in range(device.tid(1), len(x), device.grid_size(1)):
            y[k] += x[k]

    x, y = np.arange(100, dtype=float32), np.zeros(100, float32)
    device.launch(kernel, x, y, grid=2, block=16, stream=device.cpu_stream())
    assert np.array_equal(x, y) and "quotient" not in {op.code.name for op in afresh[0][0].main.ops()}


def counted_after(x, y, n):
    k, step, stop = device.uint32(device.thread_idx.x), device.uint32(device.grid_dim.y), device.uint32(n) & 1023
    while True:
        if k < stop:
            x[k] += 1
            k += step
        else:
            break
    y[device.thread_idx.x] = k


def counted_in_the_header(x, y, n):
    k, step, stop = device.uint32(device.thread_idx.x), device.uint32(device.grid_dim.y), device.uint32(n) & 1023
    while True:
        x[k] += 1
        if k < stop:
            k += step
        else:
            break


def counted_in_a_branch(x, y, n):
    k, step, stop = device.uint32(device.thread_idx.x), device.uint32(device.grid_dim.y), device.uint32(n) & 1023
    if y[k] == 0:
        while True:
            if k < stop:
                x[k] += 1
                k += step
            else:
                break


@pytest.mark.parametrize("function", [counted_after, counted_in_the_header, counted_in_a_branch])
def test_loops_that_look_like_ranges(function, monkeypatch):
    """`while` loops with the shape of a loop over a range."""

    def computed():
        x, y = np.zeros(80, int32), np.arange(32, dtype=int32) % 3
        kernel, stream = device.kernel(checked=False)(function), device.cpu_stream()
        device.launch(kernel, x, y, np.uint16(30), grid=(1, 9), block=32, stream=stream)
        return x.tolist(), y.tolist()

    monkeypatch.setenv("CUDA_DEVICE_CACHE", "")
    found = computed()
    monkeypatch.setattr(strided_loops, "rewrite", lambda function: set())
    assert found == computed()


def test_debuggers_see_one_lane_after_the_other(afresh):
    @device.kernel(debug=True)
    def kernel(x):
        device.syncthreads()
        x[0, device.tid(1)] = 1

    x = np.zeros((1, 32), float32)
    device.launch(kernel, x, grid=1, block=32, stream=device.cpu_stream())
    assert not afresh[0][1].in_loops and x.all()


@pytest.mark.parametrize("largest", [0, 6000], ids=["one by one", "in loops"])
def test_parameters_and_arrays_of_all_kinds(largest, monkeypatch):
    """A bool that crosses the boundary of a kernel as a byte, and arrays whose alignment is not that of a frame."""
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "")
    monkeypatch.setattr(regions, "LARGEST", largest)

    @device.kernel
    def kernel(x, flag: bool):
        i = device.thread_idx.x
        wide, odd = device.local_array(3, int32, align=256), device.local_array(3, int32, align=16)
        for k in range(3):
            wide[k], odd[k] = i + k, i - k
        device.syncthreads()
        x[i] = (wide[2] * 100 + odd[2]) * (1 if flag else -1)

    for flag in (True, False):
        x = np.zeros(48, np.int32)
        device.launch(kernel, x, flag, grid=1, block=48, stream=device.cpu_stream())
        assert x.tolist() == [(101 * i + 198) * (1 if flag else -1) for i in range(48)]


def test_a_kernel_may_call_what_the_loops_of_regions_call(afresh):
    """LLVM takes each declaration once."""

    @device.kernel
    def kernel(x):
        i = device.tid(1)
        before = device.ffs(x[i]) + min(device.uint32(x[i]), device.uint32(5))
        device.syncthreads()
        x[i] = before

    x = np.arange(32, dtype=np.int32)
    device.launch(kernel, x, grid=1, block=32, stream=device.cpu_stream())
    assert x.tolist() == [(i & -i).bit_length() + min(i, 5) for i in range(32)]
    assert afresh[0][1] is not None


def test_the_work_for_a_large_kernel_grows_with_it(monkeypatch):
    """Loops that wait, with results that are live across all that follow."""
    monkeypatch.setattr(regions, "LARGEST", 50)
    monkeypatch.setenv("CUDA_DEVICE_VERIFY", "0")

    def work_for(count):
        loops = [
            f"    v{i} = x[{i}]\n    for j in range(n):\n        v{i} += device.shfl_sync(-1, x[j], {i})\n"
            for i in range(count)
        ]
        sums = [f"    x[{i}] = v{i}\n" for i in range(count)]
        kernel = define("@device.kernel(checked=False)\ndef k(x, n):\n" + "".join(loops + sums))
        steps, llvm = counted(lambda: stage("llvm", kernel, np.zeros(32, float32), 3, on_cpu=True))
        return steps, len(llvm.text)

    work_for(2)
    (steps, size), (more_steps, more_size) = work_for(8), work_for(32)
    assert more_steps <= 4.6 * steps
    assert more_size <= 4.6 * size
