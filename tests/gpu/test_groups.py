"""Groups of real GPUs: peer access, waiting in device code, the speed of reading a peer's memory; host functions in a stream."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from conftest import GPUS

import cuda_device as device
from cuda_device import DeviceArrayGroup, DeviceGroup, group_barrier, int32, launch_group
from cuda_device.runtime.gpu import driver

two = pytest.mark.skipif(GPUS < 2, reason="not two GPUs")
one = pytest.mark.skipif(GPUS < 1, reason="no GPU")
N = 1 << 20


@pytest.fixture
def group():
    return DeviceGroup(range(GPUS), timeout=60)


@device.kernel
def reduce_and_spread(x, out, flags):
    """The part of each device is summed by it, and then read from it by all."""
    first, step = device.tid(1), device.grid_size(1)
    part = x.shape[0] // x.n_devices
    for i in range(first, part, step):
        total = x[0][x.rank * part + i]
        for rank in range(1, x.n_devices):
            total += x[rank][x.rank * part + i]
        out.own[x.rank * part + i] = total
    group_barrier(flags)
    for rank in range(x.n_devices):
        for i in range(first, part, step):
            out.own[rank * part + i] = out[rank][rank * part + i]


@two
def test_all_reduce_with_a_barrier(group):
    blocks, size = 32, N - N % len(group)
    x = DeviceArrayGroup.of(
        [device.array(np.full(size, rank + 1, np.float32), stream=stream) for rank, stream in enumerate(group.streams)],
        group,
    )
    out, flags = group.arrays(size), group.arrays((blocks, len(group)), int32)
    for _ in range(3):
        launch_group(group, reduce_and_spread, x, out, flags, grid=blocks, block=256)
    group.synchronize()
    expected = len(group) * (len(group) + 1) / 2
    assert all((out.local(rank).numpy() == expected).all() for rank in range(len(group)))


@two
def test_a_missing_rank_is_named_and_the_group_stays_usable(group):
    @device.kernel
    def k(flags, absent):
        if flags.rank != absent:
            group_barrier(flags, timeout=0.5)

    launch_group(group, k, group.arrays((1, len(group)), int32), 1, grid=1, block=32)
    with pytest.raises(device.GroupError, match="rank 0") as caught:
        group.synchronize()
    assert "rank 1 has not reached the barrier where rank 0 waits" in str(caught.value.exceptions[0])
    launch_group(group, k, group.arrays((1, len(group)), int32), -1, grid=1, block=32)
    group.synchronize()


@two
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_arrays_of_a_library(group, library):
    module = pytest.importorskip(library)

    def new(rank, value):
        if library == "torch":
            return module.full((1000,), float(value), device=f"cuda:{rank}")
        with module.cuda.Device(rank):
            return module.full((1000,), value, "f4")

    size = len(group)
    ours, theirs = ([new(rank, value(rank)) for rank in range(size)] for value in (float, lambda rank: 0.0))
    x, out = (DeviceArrayGroup.of(arrays, group) for arrays in (ours, theirs))
    launch_group(group, pull, x, out, grid=4, block=256)
    group.synchronize()
    for rank, array in enumerate(theirs):
        found = array.cpu() if library == "torch" else array.get()
        assert (found == (rank + 1) % size).all(), "their memory is what kernels write"
    with pytest.raises(device.LaunchError, match=r"arrays\[0\].*GPU 1"):
        DeviceArrayGroup.of([*ours[1:], ours[0]], group)


@two
def test_assignment_between_gpus(group):
    """It is ordered with kernels on both sides, without a word."""
    x, y = group.arrays(1 << 24), group.arrays(1 << 24)

    @device.kernel
    def add(x, value):
        for i in range(device.tid(1), len(x), device.grid_size(1)):
            x[i] += value

    for turn in range(1, 4):
        for rank in range(len(group)):
            source, target = x.local(rank), y.local((rank + 1) % len(group))
            device.launch(add, source, 1.0, grid=132, block=256, stream=source.stream)
            target[...] = source
            device.launch(add, source, 100.0, grid=132, block=256, stream=source.stream)
            source[...] = target
            assert (target[-3:].numpy() == turn).all()
    assert (x.local(0).numpy() == 3).all()


@device.kernel
def pull(x, out):
    for i in range(device.tid(1), x.shape[0], device.grid_size(1)):
        out.own[i] = x[(x.rank + 1) % x.n_devices][i]


@two
@pytest.mark.skipif(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1, reason="other tests use the GPUs, too")
def test_reading_a_peers_memory_is_about_as_fast_as_copying_it(group):
    size, repeats = 1 << 26, 10
    x, out = group.arrays(size), group.arrays(size)
    vectors = [g.group.arrays(size // 4, device.float32x4) for g in (x, out)]

    def seconds(work):
        for _ in range(repeats):  # machine code for launches is made after some of them
            work()
        group.synchronize()
        begin = time.perf_counter()
        for _ in range(repeats):
            work()
        group.synchronize()
        return (time.perf_counter() - begin) / repeats

    def copy():
        for rank, stream in enumerate(group.streams):
            source = x.local((rank + 1) % len(group))
            with stream.using():
                driver.copy(out.local(rank)._view.data, source._view.data, out.local(rank).nbytes, stream.handle)

    by_copy = seconds(copy)
    by_kernel = seconds(lambda: launch_group(group, pull, *vectors, grid=132 * 8, block=512))
    print(f"copies {4 * size / by_copy / 1e9:.0f} GB/s, reads {4 * size / by_kernel / 1e9:.0f} GB/s a device")
    assert by_kernel < 1.5 * by_copy


@one
def test_a_host_function_runs_in_the_order_of_its_stream():
    @device.kernel
    def slow(x):
        begin = device.globaltimer()
        while device.globaltimer() - begin < device.uint64(50_000_000):
            device.nanosleep(1000)
        x[0] = 1

    seen = []
    note = device.host_function(lambda value: seen.append(value))
    x = device.zeros(1, stream=device.default_stream())
    device.launch(slow, x, grid=1, block=1)
    future = note(5, stream=x.stream)
    assert not future.done()
    x.stream.synchronize()
    future.result(10)
    assert seen == [5] and x.item() == 1
