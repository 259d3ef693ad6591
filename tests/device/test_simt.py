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
