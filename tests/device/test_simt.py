"""Threads together: positions, shared memory, barriers, the classic kernels, and what happens where threads disagree."""

import re

import numpy as np
import pytest
from conftest import poison

import cuda_device as device

# Positions


@device.kernel
def positions(out):
    t, b, d, g = device.thread_idx, device.block_idx, device.block_dim, device.grid_dim
    x = b.x * d.x + t.x
    y = b.y * d.y + t.y
    z = b.z * d.z + t.z
    row = (z * (g.y * d.y) + y) * (g.x * d.x) + x
    k = 0
    for vector in (t, b, d, g):
        for value in (vector.x, vector.y, vector.z):
            out[row, k] = value
            k += 1
    for value in device.tid(3):
        out[row, k] = value
        k += 1
    for value in device.grid_size(3):
        out[row, k] = value
        k += 1
    x2, y2 = device.tid(2)
    w2, h2 = device.grid_size(2)
    for value in (x2, y2, w2, h2, device.tid(1), device.grid_size(1)):
        out[row, k] = value
        k += 1


@pytest.mark.parametrize(
    "grid, block",
    [
        (1, 1), (3, 5), ((3,), (5,)), ((2, 3), (4, 2)), ((2, 3, 4), (3, 2, 2)), ((1, 1, 3), (1, 1, 64)), (7, (2, 3, 4)),
        ((2, 2, 2), 33), ([2, 2], [3, 3]), (np.int64(2), (np.int32(4), 2)),
    ],
)  # fmt: skip
def test_positions(stream, grid, block):
    def three(value):
        return (*(int(v) for v in (value if isinstance(value, (tuple, list)) else (value,))), 1, 1)[:3]

    (gx, gy, gz), (bx, by, bz) = three(grid), three(block)
    count = gx * gy * gz * bx * by * bz
    out = stream.run(positions, poison((count, 24), np.int64), grid=grid, block=block)
    w, h = gx * bx, gy * by
    expected = []
    for z in range(gz * bz):
        for y in range(h):
            for x in range(w):
                thread, blocks = (x % bx, y % by, z % bz), (x // bx, y // by, z // bz)
                sizes = (bx, by, bz), (gx, gy, gz)
                expected.append([*thread, *blocks, *sizes[0], *sizes[1], x, y, z, w, h, gz * bz, x, y, w, h, x, w])
    assert out.tolist() == expected


def test_types_of_positions():
    @device.func
    def function():
        x, _ = device.tid(2)
        t = device.thread_idx
        a, _, _ = device.grid_dim
        return device.tid(1), x, device.grid_size(3)[2], t.x, device.block_dim[1], a, t.x - 1, device.tid(1) - 5

    text = str(device.compile(function, output="ir"))
    assert f" -> tuple<{', '.join(['int32'] * 3 + ['uint32'] * 4 + ['int32'])}> typed" in text


def test_a_grid_stride_loop(stream):
    @device.kernel
    def kernel(x, out):
        for i in range(device.tid(1), len(x), device.grid_size(1)):
            out[i] = x[i] * 2

    x = np.arange(1000, dtype=np.float32)
    for grid, block in ((1, 1), (3, 7), (4, 256), (100, 32)):
        out = stream.empty(1000)
        stream.launch(kernel, stream.array(x), out, grid=grid, block=block)
        assert stream.numpy(out).tolist() == (x * 2).tolist()


@pytest.mark.parametrize("ndims", [0, 4, -1, 1.0, True, None])
@pytest.mark.parametrize("function", [device.tid, device.grid_size])
def test_the_number_of_axes_is_checked(function, ndims):
    @device.func
    def uses(x):
        return function(ndims)

    with pytest.raises(device.CompileError, match="ndims"):
        device.compile(uses, int, output="ir")

    @device.func
    def unknown(n):
        return function(n)

    with pytest.raises(device.CompileError, match="constant"):
        device.compile(unknown, int, output="ir")


# Shared memory


def sum_of_block(value):
    """Called from kernels: barriers in a function, in a loop."""
    tile = device.shared_array(1024, value.dtype)
    t = device.thread_idx.x
    tile[t] = value
    device.syncthreads()
    active = device.block_dim.x
    while active > 1:
        half = (active + 1) // 2
        if t < active // 2:
            tile[t] += tile[t + half]
        device.syncthreads()
        active = half
    total = tile[0]
    device.syncthreads()
    return total


@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.uint8, np.int64, np.float16])
def test_reduction_of_a_block(stream, dtype):
    @device.kernel
    def kernel(x, out):
        i = device.tid(1)
        total = sum_of_block(x[i])
        again = sum_of_block(x[i] * x.dtype(2))  # the same shared memory: one place in the text
        if device.thread_idx.x == 0:
            out[device.block_idx.x, 0] = total
            out[device.block_idx.x, 1] = again

    rng = np.random.default_rng(4)
    for block in (1, 2, 3, 32, 50, 256, 1024):
        x = rng.integers(0, 7, block * 3).astype(dtype)
        if dtype is np.float16:
            x[:] = 1
        out = stream.empty((3, 2), dtype)
        stream.launch(kernel, stream.array(x), out, grid=3, block=block)
        sums = x.reshape(3, block).sum(axis=1, dtype=dtype)
        assert stream.numpy(out).tolist() == np.stack([sums, (sums * dtype(2)).astype(dtype)], axis=1).tolist()


def test_shared_arrays_of_every_shape_order_and_type(stream):
    @device.kernel
    def kernel(out, strides):
        one = device.shared_array(32, bool)
        two = device.shared_array((4, 8), device.int16, order="F")
        three = device.shared_array((2, 4, 4), device.float64, "C", 64)
        four = device.shared_array(shape=(32,), dtype=device.float16, align=16)
        five = device.shared_array((1, 32), int)
        nothing = device.shared_array(0, device.int8)
        scalar = device.shared_array((), device.int8)
        t = device.thread_idx.x
        one[t] = t % 3 == 0
        two[t % 4, t // 4] = t * 10
        three[t // 16, t // 4 % 4, t % 4] = t + 0.5
        four[-1 - int(t)] = t
        five[0, t] = t * t
        if t == 3:
            scalar[()] = 7
        device.syncthreads()
        u = 31 - t
        out[t, 0] = one[u]
        out[t, 1] = two[u % 4, u // 4]
        out[t, 2] = three[u // 16, u // 4 % 4, u % 4]
        out[t, 3] = four[t]
        out[t, 4] = five[-1, u]
        out[t, 5] = len(nothing) + nothing.size + one.size + two.size + three.ndim + len(three) + scalar[()]
        if t == 0:
            k = 0
            for array in (one, two, three, four, five):
                for stride in array.strides:
                    strides[k] = stride
                    k += 1

    out, strides = stream.empty((32, 6), np.float64), stream.empty(9, np.int32)
    stream.launch(kernel, out, strides, grid=1, block=32)
    got = stream.numpy(out).tolist()
    for t in range(32):
        u = 31 - t
        assert got[t] == [u % 3 == 0, u * 10, u + 0.5, u, u * u, 0 + 0 + 32 + 32 + 3 + 2 + 7], t
    assert stream.numpy(strides).tolist() == [1, 2, 8, 128, 32, 8, 2, 128, 4]


def test_a_shared_array_is_one_for_each_place_in_the_text(stream):
    def place(value):
        cell = device.shared_array(1, device.int32)
        if value >= 0:
            cell[0] = value
        return cell[0]

    def other_place(value):
        cell = device.shared_array(1, device.int32)
        if value >= 0:
            cell[0] = value
        return cell[0]

    @device.kernel
    def kernel(out, n):
        out[0] = place(n + 5)
        out[1] = other_place(n + 6)
        out[2] = place(n - 1)  # what the first call wrote
        out[3] = other_place(n - 1)
        for i in range(3):
            cell = device.shared_array(1, device.int32)
            if i == 0:
                cell[0] = 40
            cell[0] += 1
        out[4] = cell[0]

    out = stream.empty(5, np.int32)
    stream.launch(kernel, out, 0, grid=1, block=1)
    assert stream.numpy(out).tolist() == [5, 6, 5, 6, 43]


def test_a_shared_array_is_aligned(stream):
    @device.kernel
    def kernel(out):
        one = device.shared_array(3, device.int8)
        two = device.shared_array(2, device.float64)
        one[0] = 1
        two[0], two[1] = 2.5, 3.5
        three = device.shared_array(1, device.int8)
        three[0] = 4
        four = device.shared_array(1, device.int64)
        four[0] = 2**40
        device.syncthreads()
        out[0], out[1], out[2], out[3], out[4] = one[0], two[0], two[1], three[0], four[0]

    out = stream.empty(5, np.float64)
    stream.launch(kernel, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [1, 2.5, 3.5, 4, 2.0**40]


# Barriers


def test_barriers_in_loops_that_all_threads_take_alike(stream):
    @device.kernel
    def kernel(rounds, out):
        ring = device.shared_array(96, device.int32)
        t, n = device.thread_idx.x, device.block_dim.x
        ring[t] = t
        for i in range(rounds[device.block_idx.x]):  # another number of rounds in each block
            device.syncthreads()
            value = ring[(t + 1) % n]
            device.syncthreads()
            ring[t] = value + i
        out[device.tid(1)] = ring[t]

    rounds = np.array([0, 1, 5, 100], np.int32)
    out = stream.empty(4 * 96, np.int32)
    stream.launch(kernel, stream.array(rounds), out, grid=4, block=96)
    got = stream.numpy(out).reshape(4, 96)
    for row, n in zip(got, rounds.tolist(), strict=True):
        assert row.tolist() == [(t + n) % 96 + n * (n - 1) // 2 for t in range(96)]


def test_barriers_in_branches_that_all_threads_of_a_block_take(stream):
    def exchange(cells, t, value):
        cells[t] = value
        device.syncthreads()
        result = cells[device.block_dim.x - 1 - t]
        device.syncthreads()
        return result

    @device.kernel
    def kernel(choice, out):
        cells = device.shared_array(64, device.int32)
        t = device.thread_idx.x
        which = choice[device.block_idx.x]
        value = t
        if which == 1:
            value = exchange(cells, t, value + 1000)
        elif which == 2:
            value = exchange(cells, t, exchange(cells, t, value) * 2)
            if t == 5:
                value = -1
        else:
            if which < 0:
                out[device.tid(1)] = 77
                return
            while value < 100:
                value = exchange(cells, t, value) + 200
        out[device.tid(1)] = exchange(cells, t, value)

    choice = np.array([1, 2, 3, -1], np.int32)
    out = stream.empty(4 * 64, np.int32)
    stream.launch(kernel, stream.array(choice), out, grid=4, block=64)
    got = stream.numpy(out).reshape(4, 64)
    assert got[0].tolist() == [t + 1000 for t in range(64)]
    assert got[1].tolist() == [-1 if t == 58 else (63 - t) * 2 for t in range(64)]
    assert got[2].tolist() == [t + 200 for t in range(64)]
    assert got[3].tolist() == [77] * 64


@pytest.mark.usefixtures("unchecked")
def test_threads_that_have_returned_no_longer_count(stream):
    @device.kernel
    def kernel(out, n):
        cells = device.shared_array(128, device.int32)
        t = device.thread_idx.x
        if t >= n:  # whole warps, and part of one
            out[t] = -1
            return
        cells[t] = t
        device.syncthreads()
        out[t] = cells[n - 1 - t]

    for n in (128, 96, 64, 40, 1):
        out = stream.empty(128, np.int32)
        stream.launch(kernel, out, n, grid=1, block=128)
        assert stream.numpy(out).tolist() == [n - 1 - t if t < n else -1 for t in range(128)]


def test_values_that_live_across_barriers(stream):
    """Many variables of many types, arrays and tuples, inside a loop that is inside a branch."""

    @device.kernel
    def kernel(x, out):
        cells = device.shared_array(64, device.float64)
        t = device.thread_idx.x
        a, b, c, d = device.int8(t), device.float16(t) / 2, t * device.int64(2**33), t % 2 == 0
        pair = (t, (b, x))
        total = 0.0
        for i in range(3):
            cells[t] = a + b + i
            device.syncthreads()
            total += cells[63 - t]
            j = i * 2
            device.syncthreads()
            a, d = a + j, not d
        out[t, 0], out[t, 1], out[t, 2], out[t, 3] = a, b, c, d
        out[t, 4] = total
        out[t, 5] = pair[1][1][pair[0]] + pair[1][0]

    x = np.arange(64, dtype=np.float32)
    out = stream.empty((64, 6), np.float64)
    stream.launch(kernel, stream.array(x), out, grid=1, block=64)
    got = stream.numpy(out)
    for t in range(64):
        u = 63 - t
        total = sum(u + (0, 0, 2)[i] + u / 2 + i for i in range(3))
        assert got[t].tolist() == [t + 6, t / 2, t * 2.0**33, t % 2 == 1, total, t + t / 2], t


# Opaque branches: always true, but only the argument array knows


@device.kernel
def plain_exchange(x, out, one):
    cells = device.shared_array(256, device.float32)
    t, n = device.thread_idx.x, device.block_dim.x
    i = device.tid(1)
    value = x[i]
    for k in range(8):
        cells[t] = value
        device.syncthreads()
        value = cells[(t * 5 + k) % n] + cells[n - 1 - t]
        device.syncthreads()
    step = n // 2
    cells[t] = value
    device.syncthreads()
    while step > 0:
        if t < step:
            cells[t] += cells[t + step]
        device.syncthreads()
        step //= 2
    out[i] = value + cells[0]


@device.kernel
def opaque_exchange(x, out, one):
    cells = device.shared_array(256, device.float32)
    t, n = device.thread_idx.x, device.block_dim.x
    i = device.tid(1)
    value = x[i]
    for k in range(8):
        if one[t] == 1:
            cells[t] = value
        if one[k] > 0:
            device.syncthreads()
        if one[t] == 1:
            value = cells[(t * 5 + k) % n]
            if one[n - 1 - t] == 1:
                value = value + cells[n - 1 - t]
            else:
                value = -1000.0
        else:
            value = x[t] * 3
        if one[t] == one[k]:
            device.syncthreads()
        else:
            cells[t] = 5
            device.syncthreads()
    step = n // 2
    if one[t] != 0:
        cells[t] = value
    if one[t] + one[0] == 2:
        device.syncthreads()
    while step > 0 and one[step - 1] == 1:
        if one[t] == 1:
            if t < step:
                if one[t + step] == 1:
                    cells[t] += cells[t + step]
        if one[t] == 0:
            value = 7
        else:
            device.syncthreads()
        step //= 2
    if one[t] == 1:
        out[i] = value + cells[0]
    else:
        out[i] = cells[t]


@device.func
def scaled(x, i):
    return x[i] * i


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize(
    ("together", "operation"),
    [
        (lambda before: device.syncthreads_count(before > 0), r"bar\S*\.red\."),
        (lambda before: device.shfl_sync(-1, before, 3), r"shfl\.sync"),
    ],
)
def test_no_call_takes_what_stands_before_it_into_a_branch(together, operation, target):
    @device.kernel
    def kernel(x):
        i = device.tid(1)
        if i == 0:
            x[0] = 1
        else:
            x[1] = i
        x[i] = together(scaled(x, i)) + scaled(x, i)

    ptx = str(device.compile(kernel, device.ArrayType(device.int32, 1), target=target, output="ptx"))
    assert len(re.findall(operation, ptx)) == 1


def test_opaque_branches_around_barriers_change_nothing(stream):
    x = np.random.default_rng(7).integers(-4, 5, 256 * 4).astype(np.float32)
    one = stream.array(np.ones(256, np.int32))
    results = []
    for kernel in (plain_exchange, opaque_exchange):
        out = stream.empty(len(x))
        stream.launch(kernel, stream.array(x), out, one, grid=4, block=256)
        results.append(stream.numpy(out).tolist())
    expected = []
    for block in x.reshape(4, 256):
        value, t = block, np.arange(256)
        for k in range(8):
            value = value[(t * 5 + k) % 256] + value[::-1]
        expected += (value + value.sum()).tolist()
    assert results[0] == expected
    assert results[1] == expected


@pytest.mark.parametrize("level", [0, 3])
def test_barriers_stay_where_they_are_on_a_gpu(level):
    """As many barriers as in the text or more: none is merged with one in another branch."""
    arguments = (
        device.ArrayType(device.float32, 1),
        device.ArrayType(device.float32, 1),
        device.ArrayType(device.int32, 1),
    )
    plain = str(device.compile(plain_exchange, *arguments, output="ptx", level=level))
    opaque = str(device.compile(opaque_exchange, *arguments, output="ptx", level=level))
    barrier = re.compile(r"bar(rier)?\.(cta\.)?sync")
    assert len(barrier.findall(plain)) >= 4 and len(barrier.findall(opaque)) >= 5


# Threads that disagree


@device.kernel
def waits_for_a_loop(out):
    t = device.thread_idx.x
    for i in range(t % 2 + 1):
        out[t] = i
        device.syncthreads()


def test_a_deadlock_in_one_block_of_many_names_it(stream):
    if stream.kind == "gpu":
        pytest.skip("a GPU knows no deadlock")

    @device.kernel
    def kernel(out):
        x, y = device.tid(2)
        t = device.thread_idx
        if device.block_idx.x == 3 and device.block_idx.y == 1 and t.x % 2 == 1:
            device.syncthreads()
        else:
            device.syncthreads()
        out[y, x] = 1

    with pytest.raises(device.KernelError, match=re.escape("block (3, 1, 0)")) as caught:
        stream.launch(kernel, stream.empty((16, 40), np.int32), grid=(5, 2), block=(8, 8))
    assert "(1, 0..7, 0)" in str(caught.value)


@pytest.mark.usefixtures("unchecked")
def test_threads_of_a_warp_that_loop_differently(stream):
    """Threads that have ended no longer count, so that the others may go on alone."""
    assert stream.run(waits_for_a_loop, poison(32, np.int32), block=32).tolist() == [t % 2 for t in range(32)]


def test_a_deadlock_in_a_called_function_names_its_line(stream):
    if stream.kind == "gpu":
        pytest.skip("a GPU knows no deadlock")

    def wait(cells, t):
        cells[t] = 1
        device.syncthreads()
        return cells[0]

    @device.kernel
    def kernel(out):
        cells = device.shared_array(32, device.int32)
        t = device.thread_idx.x
        if t == 7:
            out[t] = wait(cells, t)
        else:
            device.syncthreads()

    with pytest.raises(device.KernelError) as caught:
        stream.launch(kernel, stream.empty(32, np.int32), grid=1, block=32)
    text = str(caught.value)
    assert f"(7, 0, 0) at {__file__}:{wait.__code__.co_firstlineno + 2}" in text
    assert f"(0..6, 0, 0), (8..31, 0, 0) wait at {__file__}:{kernel.underlying.__code__.co_firstlineno + 7}" in text


def test_a_recursive_function_that_waits(stream):
    def waits(n):
        if n > 0:
            device.syncthreads()
            return waits(n - 1) + 1
        return 0

    @device.kernel
    def kernel(out, n):
        out[device.thread_idx.x] = waits(n)

    out = stream.empty(4, np.int32)
    if stream.kind == "cpu":
        with pytest.raises(device.CompileError, match="calls itself"):
            stream.launch(kernel, out, 3, grid=1, block=4)
    else:
        stream.launch(kernel, out, 3, grid=1, block=4)
        assert stream.numpy(out).tolist() == [3] * 4


# Many threads


def test_many_blocks(stream):
    @device.kernel
    def kernel(out):
        cell = device.shared_array(1, device.int32)
        if device.thread_idx.x == 0:
            cell[0] = device.block_idx.x
        device.syncthreads()
        out[device.tid(1)] = cell[0] + device.thread_idx.x

    blocks, block = 20_000, 40
    out = stream.empty(blocks * block, np.int32)
    stream.launch(kernel, out, grid=blocks, block=block)
    n = np.arange(blocks * block)
    assert np.array_equal(stream.numpy(out), n // block + n % block)


def test_a_large_grid_without_barriers(stream):
    if stream.emulated:
        pytest.skip("a hundred million threads take minutes")

    @device.kernel
    def kernel(out):
        x, y = device.tid(2)
        if x % 1000 == 7 and y % 100 == 3:
            out[y // 100, x // 1000] = x + y

    out = stream.empty((10, 100), np.int32)
    stream.launch(kernel, out, grid=(1000, 100), block=(100, 10))
    expected = [[x * 1000 + 7 + y * 100 + 3 for x in range(100)] for y in range(10)]
    assert stream.numpy(out).tolist() == expected


@pytest.mark.parametrize("block", [(1024, 1, 1), (32, 32, 1), (2, 512, 1), (4, 4, 64), (1, 1024, 1)])
def test_blocks_of_1024_threads(stream, block):
    @device.kernel
    def kernel(out):
        cells = device.shared_array(1024, device.int32)
        t, d = device.thread_idx, device.block_dim
        n = (t.z * d.y + t.y) * d.x + t.x
        cells[n] = n * 3
        device.syncthreads()
        out[device.block_idx.x, n] = cells[1023 - n]

    out = stream.empty((3, 1024), np.int32)
    stream.launch(kernel, out, grid=3, block=block)
    assert stream.numpy(out).tolist() == [[(1023 - n) * 3 for n in range(1024)]] * 3


@pytest.mark.parametrize("grid", [(2**31 - 1, 1, 1), (1, 65535, 1), (1, 1, 65535)])
def test_the_largest_grids_are_taken(stream, grid):
    @device.kernel
    def kernel(out, limit):
        b = device.block_idx
        if b.x >= limit:  # on the CPU each block costs some time
            return
        if b.y == device.grid_dim.y - 1 and b.z == device.grid_dim.z - 1:
            out[0] = device.grid_dim.x + device.grid_dim.y + device.grid_dim.z

    if (stream.kind == "cpu" or stream.emulated) and grid[0] > 65535:
        pytest.skip("two thousand million blocks take seconds on the CPU")
    out = stream.empty(1, np.int64)
    stream.launch(kernel, out, 10, grid=grid, block=1)
    assert stream.numpy(out).tolist() == [sum(grid)]


@pytest.mark.parametrize(
    "grid, block",
    [
        (0, 1), (1, 0), (-1, 1), (1, -5), (1, 1025), (1, (33, 32)), (1, (1, 1, 65)), (1, (1, 1025)), ((1, 65536), 1),
        ((1, 1, 65536), 1), (2**31, 1), (1, (2, 0)), ((2, 2, 2, 2), 1), ((), 1), (1, ()), (1.5, 1), (1, "8"), (None, 1),
        (1, (8, None)), (1, 2**40),
    ],
)  # fmt: skip
def test_grids_and_blocks_beyond_the_limits_are_refused(stream, grid, block):
    out = stream.empty(1, np.int32)
    with pytest.raises(device.LaunchError) as caught:
        stream.launch(waits_for_a_loop, out, grid=grid, block=block)
    assert isinstance(caught.value, ValueError)
    assert ("block" if grid == 1 else "grid") in str(caught.value)
    assert stream.numpy(out).tolist() == np.full(4, 0xA5, np.uint8).view(np.int32).tolist()
