"""Barriers in shared memory that nothing can end: what reports on CPU streams say, and that nothing else is reported."""

import re

import numpy as np
import pytest

import cuda_device as device
from cuda_device import KernelError, MBarrier
from cuda_device.plugins.tensor_cores.mbarriers import complete_bytes

BLOCK = 64


@device.kernel
def exchange(x, y, arrivals: device.int32, expected: device.int32, completed: device.int32, parity: device.int32):
    """A warp copies to shared memory for another one. The correct numbers are 1, 128, 128 and 0."""
    tile = device.shared_array(32, x.dtype)
    full, done = device.shared_array(1, MBarrier)[0], device.shared_array(1, MBarrier)[0]
    t = device.thread_idx.x
    if t == 0:
        full.init(1)
        done.init(32)
    device.syncthreads()
    if t < 32:
        tile[t] = x[t]
        device.syncwarp(-1)
        if t == 0:
            if expected > 0:
                full.expect_tx(expected)
            device.ptx("", full, completed, host=complete_bytes)
            if arrivals > 0:
                full.arrive(arrivals)
        done.wait(0)
    else:
        full.wait(parity)
        y[t - 32] = tile[t - 32]
        done.arrive()


def run(*numbers, grid=1, **options):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    device.launch(exchange, x, y, *numbers, grid=grid, block=BLOCK, stream=device.cpu_stream(**options))
    return y


MISTAKES = {
    "a missing arrival": ((0, 128, 128, 0), "phase 0: 0 of 1 arrived, 128 of 128 bytes"),
    "too few bytes completed": ((1, 128, 112, 0), "phase 0: 1 of 1 arrived, 112 of 128 bytes"),
    "too few bytes expected": ((1, 120, 128, 0), "phase 0: 1 of 1 arrived, 128 of 120 bytes"),
    "no bytes expected": ((1, 0, 128, 0), "phase 0: 1 of 1 arrived, 128 of 0 bytes"),
}


def place(text):
    """The place of the line with a text, as a pattern."""
    with open(__file__) as file:
        return re.escape(f"{__file__}:{next(n for n, line in enumerate(file, 1) if text in line)}:")


@pytest.mark.parametrize("grid", [1, 200])
@pytest.mark.parametrize(("numbers", "state"), MISTAKES.values(), ids=MISTAKES)
def test_a_deadlock_says_who_waits_where_and_for_what(numbers, state, grid):
    with pytest.raises(KernelError) as raised:
        run(*numbers, grid=grid)
    message = str(raised.value)
    consumers = rf"threads \(32\.\.63, 0, 0\) at {place('full.wait(parity)')}\d+ for an mbarrier in {state}"
    producers = (
        rf"threads \(0\.\.31, 0, 0\) wait at {place('done.wait(0)')}\d+ for an mbarrier in phase 0: 0 of 32 arrived"
    )
    assert re.match(rf"deadlock in block \(\d+, 0, 0\): {producers}, 0 of 0 bytes and {consumers}\n", message), message
    assert "help: all threads that could end the waits wait themselves" in message
    assert raised.value.block is not None
    assert (run(1, 128, 128, 0) == np.arange(32)).all()  # the next launch works


@pytest.mark.parametrize("options", [{}, {"races": True}, {"schedule": 3}])
def test_correct_numbers_are_not_reported(options):
    assert (run(1, 128, 128, 0, grid=1 if "races" in options else 200, **options) == np.arange(32)).all()


@device.kernel
def in_stages(out, first: device.int32):
    """Two threads pass a turn to each other; the parity of one of them is wrong if `first` is 1."""
    bars = device.shared_array(2, MBarrier)
    t = device.thread_idx.x
    if t < 2:
        bars[t].init(1)
    device.syncthreads()
    if t == 0:
        for i in range(6):
            bars[0].arrive()
            bars[1].wait(i & 1)
            out[0] = i
    elif t == 1:
        for i in range(6):
            bars[0].wait(i & 1 ^ first)
            bars[1].arrive()


def test_a_wrong_parity():
    out = np.zeros(1, np.int32)
    device.launch(in_stages, out, 0, grid=1, block=32, stream=device.cpu_stream())
    assert out == [5]
    with pytest.raises(KernelError) as raised:
        device.launch(in_stages, out, 1, grid=1, block=32, stream=device.cpu_stream())
    message = str(raised.value)
    assert message.startswith("deadlock in block (0, 0, 0): threads (")
    assert "for an mbarrier in phase 1: 0 of 1 arrived" in message and "have returned" in message


def test_blocks_of_a_cluster_wait_for_each_other():
    """The arrivals of one block are missing: the blocks that run agree that nothing can come."""

    @device.kernel
    def ring(out, missing: device.int32):
        bar = device.shared_array(1, MBarrier)[0]
        rank = device.block_rank
        if device.thread_idx.x == 0:
            bar.init(1)
            device.fence_mbarrier_init()
        device.cluster_sync()
        if device.thread_idx.x == 0:
            if device.block_idx.x != missing:
                bar.arrive(rank=(rank + 1) % 4)
            bar.wait(0)
            device.atomic_ref(out, 0).add(1)
        device.cluster_sync()

    out = np.zeros(1, np.int32)
    device.launch(ring, out, -1, grid=40, block=32, cluster=4, stream=device.cpu_stream())
    assert out == [40]
    with pytest.raises(
        KernelError, match=r"^deadlock in block .* for an mbarrier in phase 0: 0 of 1 arrived"
    ) as raised:
        device.launch(ring, out, 13, grid=40, block=32, cluster=4, stream=device.cpu_stream())
    assert raised.value.block == (14, 0, 0) and re.search(rf"wait at {place('bar.wait(0)')}", str(raised.value))


@device.kernel
def products(a, b, out, missing: device.int32):
    """A producer gives tiles to a warpgroup, one thread of which says that they may be overwritten."""
    tile_a = device.shared_array((64, 64), device.float16)
    tile_b = device.shared_array((8, 64), device.float16)
    full, empty = device.shared_array(1, MBarrier)[0], device.shared_array(1, MBarrier)[0]
    t = device.thread_idx.x
    if t == 0:
        full.init(32)
        empty.init(1)
    device.syncthreads()
    if t >= 128:
        for i in range(3):
            empty.wait(i & 1 ^ 1)
            for j in range(t - 128, 64 * 64, 32):
                device.swizzled(tile_a, 128)[j // 64, j % 64] = a[i, j // 64, j % 64]
            for j in range(t - 128, 8 * 64, 32):
                device.swizzled(tile_b, 128)[j // 64, j % 64] = b[i, j // 64, j % 64]
            device.fence_proxy_async()
            full.arrive()
    elif t // 32 != missing:
        acc = (device.float32(0),) * 4
        for i in range(3):
            full.wait(i & 1)
            acc = device.wgmma(acc, device.swizzled(tile_a, 128), device.swizzled(tile_b, 128))
            acc = device.wgmma_wait(0, acc)
            if t == 127:
                empty.arrive()
        out[t] = acc[0]


def test_the_threads_of_a_warpgroup_meet_in_wgmma():
    a, b = (np.random.default_rng(0).integers(-3, 4, (3, n, 64)).astype(np.float16) for n in (64, 8))
    expected = sum(x.astype(np.float32) @ y.astype(np.float32).T for x, y in zip(a, b, strict=True))
    for races in (False, True):
        out = np.zeros(128, np.float32)
        stream = device.cpu_stream(target="sm_90a", races=races)
        device.launch(products, a, b, out, -1, grid=1, block=160, stream=stream)
        t = np.arange(128)
        assert (out == expected[t // 32 * 16 + t % 32 // 4, t % 4 * 2]).all()
    with pytest.raises(KernelError) as raised:
        device.launch(products, a, b, out, 2, grid=1, block=160, stream=device.cpu_stream(target="sm_90a"))
    state = "for wgmma: 3 of the 4 warps of the warpgroup have come"
    assert re.search(rf"{place('acc = device.wgmma(acc')}\d+ {state} and threads", str(raised.value)), raised.value
