"""`grid_sync`: threads of all blocks wait for each other, and see what the others have written."""

from __future__ import annotations

import numpy as np
import pytest
from fake_driver import CONTEXT, Result, installed

import cuda_device as device

BLOCK = 64
COOPERATIVE = (2, 1, 0, 0)  # the attribute of a launch, and three words of its value


@device.kernel
def reverse(x, turns):
    """Reverses an array in place, several times; each turn reads what other blocks wrote in the one before."""
    i = device.tid(1)
    for _ in range(turns):
        value = x[len(x) - 1 - i] if i < len(x) else x.dtype(0)
        device.grid_sync()
        if i < len(x):
            x[i] = value + 1
        device.grid_sync()


@pytest.mark.parametrize("blocks", [1, 2, 7, 64])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_all_threads_see_what_others_wrote(stream, blocks, turns):
    numbers = np.arange(blocks * BLOCK - 5, dtype=np.int32)
    x = stream.array(numbers)
    device.launch(reverse, x, turns, grid=blocks, block=BLOCK, stream=stream.stream)
    expected = numbers[::-1] if turns % 2 else numbers
    assert (stream.numpy(x) == expected + turns).all()


def test_grids_and_blocks_of_several_axes(stream):
    @device.kernel
    def k(x, total):
        i, j, n = device.tid(3)
        device.atomic_ref(x, 0).add(1)
        device.grid_sync()
        if i == 3 and j == 2 and n == 1:
            total[0] = x[0]

    x, total = stream.array(np.zeros(1, np.int32)), stream.array(np.zeros(1, np.int32))
    for _ in range(3):  # the barrier is as good as new
        device.launch(k, x, total, grid=(2, 3, 2), block=(4, 2, 3), stream=stream.stream)
    assert stream.numpy(total)[0] == 3 * 12 * 24


def test_launches_at_once_have_barriers_of_their_own(stream):
    if isinstance(stream.stream, device.CpuStream):
        streams = [device.cpu_stream() for _ in range(3)]
    else:
        streams = [stream.stream] * 3
    arrays = [device.array(np.arange(4 * BLOCK, dtype=np.int32), stream=each) for each in streams]
    for _ in range(4):
        for x, each in zip(arrays, streams, strict=True):
            device.launch(reverse, x, 1, grid=4, block=BLOCK, stream=each)
    for x in arrays:
        assert (x.numpy() == np.arange(4 * BLOCK) + 4).all()


def test_a_grid_that_cannot_run_at_once(stream):
    x = stream.array(np.zeros(8, np.int32))
    with pytest.raises(
        device.LaunchError,
        match=r"reverse calls grid_sync, which needs all blocks to run at the same time, but .* can run only \d+ blocks of",
    ) as caught:
        device.launch(reverse, x, 1, grid=1 << 20, block=BLOCK, stream=stream.stream)
    assert "let each thread loop in steps of grid_size(1)" in str(caught.value)
    device.launch(reverse, x, 1, grid=1, block=BLOCK, stream=stream.stream)
    assert stream.numpy(x).tolist() == [1] * 8


@pytest.mark.needs("bound_kernels")
def test_prepared_and_bound_launches(stream):
    x = stream.array(np.arange(100, dtype=np.int32))
    step = device.prepare(reverse, x, 1, grid=2, block=BLOCK, stream=stream.stream)
    for _ in range(12):
        step()
    reverse.bind(threads=lambda x, turns: len(x), block=BLOCK)(x, 2, stream=stream.stream)
    assert (stream.numpy(x) == np.arange(100) + 14).all()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_blocks_in_any_order(seed):
    x = np.arange(4 * BLOCK, dtype=np.int32)
    device.launch(reverse, x, 3, grid=4, block=BLOCK, stream=device.cpu_stream(schedule=seed))
    assert (x == np.arange(4 * BLOCK)[::-1] + 3).all()


@device.kernel
def unordered(x, synchronised: device.ConstExpr[bool]):
    x[device.tid(1)] = device.tid(1)
    if synchronised:
        device.grid_sync()
    x[device.grid_size(1) - 1 - device.tid(1)] += 1


def test_races():
    """It orders what threads of different blocks do."""
    stream = device.cpu_stream(races=True)
    device.launch(unordered, np.zeros(64, np.int32), True, grid=2, block=32, stream=stream)
    with pytest.raises(device.KernelError, match="race"):
        device.launch(unordered, np.zeros(64, np.int32), False, grid=2, block=32, stream=stream)


def test_the_driver_is_told():
    with installed() as driver:
        driver.stack[-1] = CONTEXT
        stream = device.GpuStream(0x77, 0, context=CONTEXT)
        x = device.zeros(8, np.int32, stream=stream)
        fresh = device.kernel(reverse.underlying)
        for _ in range(12):  # also when others are machine code's
            device.launch(fresh, x, 1, grid=3, block=BLOCK, stream=stream)
        names, attributes = driver.names(), driver.attributes_of_launches
        assert names.count("cuLaunchCooperativeKernel") + len(attributes) == 12
        assert attributes == [[COOPERATIVE]] * names.count("cuLaunchKernel")
        driver.blocks_at_once = 0
        driver.failing["cuLaunchKernel"] = Result.CUDA_ERROR_INVALID_VALUE
        with pytest.raises(
            device.LaunchError, match="this GPU can run only 0 blocks of block=.*\n  help: launch smaller blocks"
        ):
            device.launch(fresh, x, 1, grid=3, block=BLOCK, stream=stream)


def test_it_is_for_device_code():
    with pytest.raises(device.DeviceOnlyError):
        device.grid_sync()
