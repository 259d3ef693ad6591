"""CPU streams with a schedule: blocks and warps run in another order, the same for the same number, and results stay."""

import numpy as np
import pytest

import cuda_device as device


@device.kernel
def ranks(blocks, warps, count):
    """When each block began, and each warp of block 0 came past its barrier."""
    if device.thread_idx.x == 0:
        blocks[device.block_idx.x] = device.atomic_ref(count, 0).add(1)
    device.syncthreads()
    if device.block_idx.x == 0 and device.lane_id == 0:
        warps[device.thread_idx.x // 32] = device.atomic_ref(count, 1).add(1)


def order(schedule, grid=10):
    blocks, warps, count = np.zeros(grid, np.int32), np.zeros(8, np.int32), np.zeros(2, np.int32)
    stream = device.cpu_stream(schedule=schedule)
    device.launch(ranks, blocks, warps, count, grid=grid, block=256, stream=stream)
    assert sorted(blocks) == [*range(grid)]
    assert sorted(warps) == [*range(8)]
    return tuple(blocks), tuple(warps)


def test_a_number_is_an_order():
    found = [order(schedule) for schedule in range(12)]
    assert found == [order(schedule) for schedule in range(12)]
    assert len({blocks for blocks, _ in found}) > 6
    assert len({warps for _, warps in found}) > 4
    assert any(blocks != tuple(range(10)) for blocks, _ in found)


@device.kernel
def totals(x, out):
    tile = device.shared_array(128, device.float32)
    t, i = int(device.thread_idx.x), device.tid(1)
    tile[t] = x[i]
    device.syncthreads()
    step = 64
    while step:
        if t < step:
            tile[t] += tile[t + step]
        device.syncthreads()
        step //= 2
    if t == 0:
        device.atomic_ref(out, 0).add(tile[0])
    warp = device.reduce_add_sync(-1, device.int32(1))
    if device.lane_id == 0:
        device.atomic_ref(out, 1).add(device.float32(warp))


@pytest.mark.parametrize("schedule", [0, 2, -5])
@pytest.mark.parametrize("races", [False, True])
def test_results_stay(schedule, races):
    x, out = np.arange(6 * 128, dtype=np.float32), np.zeros(2, np.float32)
    stream = device.cpu_stream(schedule=schedule, races=races)
    device.launch(totals, x, out, grid=6, block=128, stream=stream)
    assert out.tolist() == [x.sum(), 6 * 128]


@device.kernel
def spins(flags, out):
    """Each block waits for the one before it."""
    b = int(device.block_idx.x)
    if b > 0:
        device.atomic_ref(flags, b - 1).wait(0)
    out[b] = b
    device.atomic_ref(flags, b).store(1)


def test_blocks_may_still_wait_for_each_other():
    for schedule in range(4):
        flags, out = np.zeros(40, np.int32), np.zeros(40, np.int32)
        device.launch(spins, flags, out, grid=40, block=1, stream=device.cpu_stream(schedule=schedule))
        assert out.tolist() == [*range(40)]


def test_what_is_no_schedule():
    for wrong in ("random", 1.5, True):
        with pytest.raises(ValueError, match="must be None or an int"):
            device.cpu_stream(schedule=wrong)


@device.kernel
def counts_by_two_steps(x, count):
    """Only the second step is atomic, and not the one that matters."""
    if device.lane_id == 0:
        v = x[0]
        device.atomic_ref(count, 0).add(1)
        x[0] = v + 1


@pytest.mark.parametrize("grid, block", [(2, 1), (1, 64)])
def test_a_thread_is_held_up_at_an_atomic(grid, block):
    def lost(schedule):
        x, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
        stream = device.cpu_stream(schedule=schedule)
        device.launch(counts_by_two_steps, x, count, grid=grid, block=block, stream=stream)
        assert count[0] == 2
        return x[0] == 1

    found = [lost(schedule) for schedule in range(60)]
    assert found == [lost(schedule) for schedule in range(60)]
    assert sum(found) > 5
