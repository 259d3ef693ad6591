"""Kernels that wait, on the CPU: lanes compute the same in loops and one by one, whatever lives across a wait."""

import numpy as np
import pytest
from conftest import thinned
from numpy import float32, int32

import cuda_device as device
from cuda_device.cpu import regions, strided_loops


@device.struct
class Pair:
    a: device.float32x2
    b: device.int8


@device.kernel
def tiled(x, y):
    """Values of every kind live across barriers in a loop."""
    tile = device.shared_array((8, 16), float32)
    i, j = device.tid(2)
    tx, ty = device.thread_idx.x, device.thread_idx.y
    total, count, seen, wide = float32(0), 0, False, device.float32x4(0, 0, 0, 0)
    part, halves = Pair(device.float32x2(0, 0), device.int8(0)), device.float16(1)
    for k in range(0, 64, 16):
        tile[ty, tx] = x[j % 64, (k + tx) % 64]
        device.syncthreads()
        for m in range(16):
            total += tile[ty, m]
        seen = seen or total > 9
        wide += device.float32x4(total, tx, ty, k)
        part = Pair(part.a + device.float32x2(tx, k), device.int8(part.b + 1))
        halves = halves + device.float16(0.5)
        count += 1
        device.syncthreads()
    y[j, i] = total + count + (100 if seen else 0) + wide.x + wide.w + part.a.y + part.b + halves


@device.kernel
def with_own_arrays(x, y):
    mine = device.local_array(6, float32)
    i = device.tid(1)
    for k in range(6):
        mine[k] = x[(i + k) % 64, k]
    device.syncthreads()
    part = mine[1:5]
    device.syncwarp(0xFFFFFFFF)
    for k in range(4):
        part[k] += mine[k]
        device.syncthreads()
    y[0, i] = mine[0] + 2 * mine[2] + 3 * mine[4] + part[3]


@device.kernel
def some_leave(x, y):
    """Threads of a block end before others wait."""
    i = device.tid(1)
    if i % 3 == 1:
        y[0, i] = -1
        return
    value = x[i % 64, 0]
    for k in range(i % 3 + 2):
        value += device.syncthreads_count(True) if i % 3 > 3 else float32(k)
        device.syncwarp(device.activemask())
    y[0, i] = value


@device.kernel
def lanes(x, y):
    """Meetings of lanes that have gone different ways."""
    i = device.tid(1)
    value = x[i % 64, i % 5]
    if device.lane_id % 2 == 0:
        mask = device.activemask()
        value += device.shfl_xor_sync(0x55555555, value, 2)
        value += device.popc(mask)
    else:
        for k in (16, 8, 4):
            value = max(value, device.shfl_down_sync(0xAAAAAAAA, value, k))
    device.syncwarp(0xFFFFFFFF)
    votes = device.ballot_sync(0xFFFFFFFF, value > 0.5)
    same = device.match_any_sync(0xFFFFFFFF, int32(i % 4))
    y[0, i] = value + device.popc(votes) + device.popc(same) + device.any_sync(0xFFFFFFFF, i == 3)


@device.kernel
def turns(x, y):
    """A lock that threads hand on, and prints in their order."""
    next_one = device.shared_array(1, int32)
    i = device.thread_idx.x
    if i == 0:
        next_one[0] = 0
    device.syncthreads()
    place = device.atomic_ref(next_one, 0)
    while place.load("acquire", "block") != i:
        pass
    y[0, i] = x[0, 0] + i
    place.store(i + 1, "release", "block")
    if i % 16 == 0:
        print("thread", i)


@device.kernel
def halves(x, y):
    """Ranges of threads of every kind between barriers in a loop."""
    s = device.shared_array(64, float32)
    i, j = device.thread_idx.x, device.thread_idx.y
    at = i + 16 * j
    s[at] = x[device.block_idx.x, at]
    device.syncthreads()
    k, total = 8, float32(0)
    while k > 0:
        if i < k:
            s[at] += s[at + k]
        if k <= i + 1:
            total += 1
        device.syncthreads()
        if i >= k:
            total += s[at - k]
        if i > 2 * k and j > 0:
            total += 3
        device.syncthreads()
        if i == k:
            s[at] = total
        if not i != k + 1:
            total -= 1
        if i // 3 == 2 or i < 3:
            total += 5
        if i // 3 == 1:
            total += 7
        if i >> 2 > 2:
            total -= 2
        if i // 5 <= -1:
            total = float32(0)
        device.syncthreads()
        k //= 2
    if device.syncthreads_or(total > 100) or device.syncthreads_count(i == 3) != 4:
        total = float32(-1)
    y[device.block_idx.x, at] = total + s[at]


@device.kernel
def moved(x, y):
    """Shuffles by distances that all threads share, of numbers of 32 and 64 bits, and such that do not."""
    i, n = device.thread_idx.x, device.block_idx.x
    value, wide = x[n, i % 64], device.float64(x[i % 64, n])
    for k in (16, 8, 3, 1):
        value += device.shfl_down_sync(0xFFFFFFFF, value, k)
        wide -= device.shfl_up_sync(0xFFFFFFFF, wide, k) / 3
    k = 16
    while k > 0:
        value = max(value, device.shfl_xor_sync(0xFFFFFFFF, value, k))
        wide += device.shfl_down_sync(0xFFFFFFFF, wide, k + n)
        k //= 2
    for k in (1, 2, 4, 16, 5):
        wide += 2 * device.shfl_xor_sync(0xFFFFFFFF, wide, k)
    value += device.shfl_sync(0xFFFFFFFF, value, n) + device.shfl_sync(0xFFFFFFFF, value, (i + 1) % 32)
    votes = device.ballot_sync(0xFFFFFFFF, value > 4) + device.any_sync(0xFFFFFFFF, i == 33)
    most = device.reduce_max_sync(0xFFFFFFFF, int32(value))
    device.syncwarp(0xFFFFFFFF)
    y[0, device.tid(1)] = value + wide + device.popc(votes) + most


@device.kernel
def whole_warps(x, y):
    """Warp operations in ranges of whole warps, with ranges and loops in them."""
    s = device.shared_array(128, float32)
    i, j = device.thread_idx.x, device.thread_idx.y
    at = i + device.block_dim.x * j
    value = x[device.block_idx.x, at % 64]
    s[at] = value
    device.syncthreads()
    if i < 32:
        part = s[at] if i < 8 else float32(0)
        for k in (16, 8, 4, 2, 1):
            part += device.shfl_down_sync(0xFFFFFFFF, part, k)
        k = 2
        while k > 0:
            part += device.popc(device.ballot_sync(0xFFFFFFFF, part > k))
            if i > k:
                part += float32(k)
            k //= 2
        if i < 3:
            s[at] = part
    device.syncthreads()
    if i // 32 == 0:
        s[at] -= device.shfl_xor_sync(0xFFFFFFFF, value, 3)
    if i >> 5 < 2:
        s[at] += device.reduce_add_sync(0xFFFFFFFF, int32(8 * value))
    if 64 > i:
        value += device.shfl_sync(0xFFFFFFFF, s[at], i % 32)
        y[0, at + 2 * 64 * device.block_idx.x] = value


@device.kernel
def strides(x, y):
    """Threads that take turns over elements, with what they hand from pass to pass."""
    i, step = device.tid(1), device.grid_size(1)
    total, count, last = float32(0), 0, False
    flat = x[3]
    for k in range(i, 61, step):
        total += flat[k]
        if k % 5 == 2:
            continue
        count, last = count + k, total > 1
    for k in range(i, 3, step):
        for m in range(count % 3):
            total += flat[k + m]
    most = device.shared_array(1, int32)
    if device.thread_idx.x == 0:
        most[0] = 0
    device.syncthreads()
    for k in range(i, 200, step):
        device.atomic_ref(most, 0).max(k, "relaxed", "block")
    device.syncthreads()
    y[0, i] = total + count + last + most[0]


@device.kernel
def alike(x, y):
    """Loops that all threads of a row run alike, one within another, without waiting."""
    i, j = device.tid(2)
    if i >= y.shape[1] or j >= y.shape[0]:
        return
    total, other = float32(0), float32(1)
    for k in range(j, x.shape[0]):
        total += x[k, i] * x[j, k] - other
        other = total * float32(0.5)
        for m in range(j % 3):
            other += x[m, i]
        if i > k:
            total -= 1
    y[j, i] = total + other


@device.kernel
def alike_with_own_arrays(x, y):
    """Such a loop while the thread has memory of its own."""
    i = device.tid(1)
    if i >= y.shape[1]:
        return
    part = device.local_array(4, float32)
    for k in range(4):
        part[(k + i) % 4] = x[k, i]
    total = float32(0)
    for k in range(x.shape[0]):
        total += x[k, i]
    for k in range(4):
        y[0, i] += part[k] * total + part[i % 4]


LAUNCHES = (
    (tiled, (3, 5), (16, 8), (40, 48)),
    (with_own_arrays, 3, 64, (1, 192)),
    (some_leave, 3, (16, 5), (1, 240)),
    (lanes, 3, 64, (1, 192)),
    (turns, 1, 40, (1, 40)),
    (halves, 3, (16, 4), (3, 64)),
    (moved, 2, 72, (1, 144)),
    (moved, 2, 64, (1, 128)),
    (moved, 2, (32, 3), (1, 64)),
    (moved, 2, (24, 4), (1, 48)),
    (whole_warps, 2, (64, 2), (1, 256)),
    (strides, 3, 8, (1, 24)),
    (alike, (2, 3), (24, 4), (11, 45)),
    (alike_with_own_arrays, 2, 24, (1, 45)),
)


@pytest.fixture
def afresh(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "")
    made = []
    split = regions.split
    monkeypatch.setattr(regions, "split", lambda *given: (made.append(split(*given)), made[-1])[1])
    return made


def computed(kernel, grid, block, shape, checked, capsys):
    x, y = np.random.default_rng(5).random((64, 64), float32), np.zeros(shape, float32)
    again = device.kernel(checked=checked)(kernel.underlying)
    device.launch(again, x, y, grid=grid, block=block, stream=device.cpu_stream())
    return y, capsys.readouterr().out


@pytest.mark.parametrize(
    ("launch", "checked"),
    thinned(LAUNCHES, [False, True], one_in=2),
    ids=lambda each: f"checked={each}" if isinstance(each, bool) else f"{each[0].underlying.__name__} {each[2]}",
)
def test_lanes_compute_the_same_in_loops_and_one_by_one(launch, checked, afresh, monkeypatch, capsys):
    kernel = launch[0]
    found, printed = computed(*launch, checked, capsys)
    monkeypatch.setattr(regions, "LARGEST", 0)
    expected, others = computed(*launch, checked, capsys)
    waits = kernel not in (alike, alike_with_own_arrays)
    assert [made is not None and made.in_loops for _, made in afresh] == [True, False]
    assert not waits or afresh[0][1].together == (kernel not in (some_leave, lanes, turns))
    assert np.array_equal(found, expected) and printed == others
    assert found.any()


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
