"""Groups of devices, for which CPU streams stand: arrays that kernels on all of them reach."""

from __future__ import annotations

import pickle

import fake_driver
import numpy as np
import pytest

import cuda_device as device
from cuda_device import ArrayType, DeviceArrayGroup, DeviceGroup, float32, int32


def cpu_group(count, timeout=60):
    return DeviceGroup([device.cpu_stream() for _ in range(count)], timeout=timeout)


@device.kernel
def rotate(source, target):
    i = device.tid(1)
    if i < source.shape[0]:
        target[(target.rank + 1) % target.n_devices][i] = source.own[i] + source[source.rank][i]


def launch_on_each(group, kernel, *args, **sizes):
    for rank, stream in enumerate(group.streams):
        given = [arg.on(rank) if isinstance(arg, DeviceArrayGroup) else arg for arg in args]
        device.launch(kernel, *given, stream=stream, **sizes)


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_kernels_reach_the_arrays_of_all_devices(count):
    group = cpu_group(count)
    source = DeviceArrayGroup.of([np.arange(40, dtype=np.float32) + 100 * rank for rank in range(count)], group)
    target = group.arrays(40, float32)
    launch_on_each(group, rotate, source, target, grid=2, block=32)
    for rank in range(count):
        expected = 2 * (np.arange(40) + 100 * ((rank - 1) % count))
        assert target.local(rank).numpy().tolist() == expected.tolist()


@device.struct
class Point:
    """Of 12 bytes, so that arrays are no whole number of elements apart."""

    x: float32
    y: int32
    z: int32


def test_arrays_of_structs_with_several_axes():
    @device.kernel
    def k(g):
        i, j = device.thread_idx.y, device.thread_idx.x
        for rank in range(len(g)):
            g[rank][i, j].y += 10 * g.rank + int32(g[rank][i, j].x) + g.shape[1]
        g[-1][i, j].x += 1

    group = cpu_group(2)
    g = group.arrays((2, 3), Point)
    assert (len(g), g.shape, g.dtype) == (2, (2, 3), device.numpy_dtype(Point))
    launch_on_each(group, k, g, grid=1, block=(3, 2))
    for rank, x, y in ((0, 0, 16), (1, 2, 17)):
        assert g.local(rank).numpy().tolist() == [[(x, y, 0)] * 3] * 2


@device.struct
class Globals:
    g: DeviceArrayGroup.part(float32)
    x: ArrayType(float32, 1)
    scale: float32

    def grid(self):
        return len(self.x)


@device.kernel
def exchange(globals: Globals):
    g, x, i = globals.g, globals.x, device.block_idx.x
    g[1 - g.rank][i] = globals.scale * x[i]


def test_a_group_is_a_member_of_globals():
    group = cpu_group(2)
    g, x = group.arrays(3), [np.full(3, value, np.float32) for value in (1, 2)]
    parts = Globals.of(g, x, scale=2.0)
    assert [part.g.rank for part in parts] == [0, 1]
    device.launch_group(group, exchange.bind(grid=Globals.grid, block=1), parts)
    assert [g.local(rank).numpy().tolist() for rank in range(2)] == [[4] * 3, [2] * 3]
    device.launch_group(group, exchange.bind(grid=Globals.grid, block=1), (g, x, 3.0))  # a tuple for the hint
    assert [g.local(rank).numpy().tolist() for rank in range(2)] == [[6] * 3, [3] * 3]
    with pytest.raises(device.LaunchError, match="x is a list of 1 items for 2 devices"):
        Globals.of(g, x[:1], scale=2.0)


def test_memory_is_shared_and_kept():
    arrays = [np.zeros(4), np.zeros(4)]
    group = cpu_group(2)
    g = DeviceArrayGroup.of(arrays, group)
    g.local(1)[2] = 5
    assert arrays[1].tolist() == [0, 0, 5, 0]
    part = group.arrays(1 << 16).on(1)  # the only one left of its group
    assert part.own._view.keep_alive[0].nbytes == 2 * 4 << 16


def test_another_argument_may_be_one_of_the_arrays():
    """Then the kernel may not count on it that they are apart."""

    @device.kernel
    def k(g, x):
        for i in range(len(x) - 1):
            g[1][i + 1] = x[i] + 1

    group = cpu_group(2)
    g = group.arrays(64, int32)
    device.launch(k, g.on(0), g.local(1), grid=1, block=1, stream=group.streams[0])
    assert g.local(1).numpy().tolist() == list(range(64))


def test_ranks_are_checked():
    @device.kernel
    def k(g, rank):
        g[rank][0] = 1

    group = cpu_group(2)
    g = group.arrays(4)
    with pytest.raises(device.KernelError, match="index 2 is out of bounds for axis 0 of size 2"):
        device.launch(k, g.on(0), 2, grid=1, block=1, stream=group.streams[0])
    with pytest.raises(device.KernelError, match="index -3 is out of bounds"):
        device.launch(k, g.on(0), -3, grid=1, block=1, stream=group.streams[0])


@pytest.mark.parametrize(
    ("message", "arrays"),
    [
        ("1 arrays for 2 devices\n  help: give one array for each rank", [np.zeros(3)]),
        (r"arrays\[1\] for rank 1 \(CPU\) is \(4,\) of .*, and arrays\[0\] is \(3,\)", [np.zeros(3), np.zeros(4)]),
        (r"arrays\[1\] for rank 1 \(CPU\) is \(3,\) of array<float32", [np.zeros(3), np.zeros(3, np.float32)]),
        (r"the array 'arrays\[1\]' of shape \(3,\) .* not those of a contiguous", [np.zeros(3), np.zeros(6)[::2]]),
        (r"'arrays\[0\]' is of type int, which is not an array", [3, np.zeros(3)]),
    ],
)
def test_arrays_that_differ_are_refused(message, arrays):
    with pytest.raises(device.LaunchError, match=message):
        DeviceArrayGroup.of(arrays, cpu_group(2))


def test_a_launch_takes_the_side_of_one_device():
    with pytest.raises(
        device.LaunchError, match=r"help: start the kernel with launch_group\(group, …\), or pass .* g\.on\(rank\)"
    ):
        device.launch(rotate, cpu_group(2).arrays(3), None, grid=1, block=1, stream=device.cpu_stream())


def test_what_is_no_group():
    for wrong, message in (
        ([], "a group needs at least one device"),
        (["no"], "'no' is not a stream"),
        (2, r"a group is made of a list of devices, not of 2\n  help: write DeviceGroup\(\[0, 1\]\)"),
        (None, "not of None"),
        ("01", "not of '01'"),
    ):
        with pytest.raises(device.LaunchError, match=message):
            DeviceGroup(wrong)
    with fake_driver.installed(devices=2):
        with pytest.raises(device.LaunchError, match="there is no GPU 2\n  help: GPUs 0 to 1 exist"):
            DeviceGroup([0, 2])
        with pytest.raises(device.LaunchError, match=r"not of both: rank 0 \(GPU 0\), rank 1 \(CPU\)"):
            DeviceGroup([0, device.cpu_stream()])
        with pytest.raises(device.LaunchError, match=r"streams= are on \[1, 0\], not on the devices \[0, 1\]"):
            DeviceGroup([0, 1], [device.GpuStream(7, 1), device.GpuStream(8, 0)])
    with fake_driver.no_gpu(), pytest.raises(device.LaunchError, match="no GPU is usable here"):
        DeviceGroup([0])


@pytest.mark.parametrize("timeout", ["x", -1, float("nan")])
def test_what_is_no_timeout(timeout):
    with pytest.raises(TypeError, match="is not a number of seconds"):
        DeviceGroup([device.cpu_stream()], timeout=timeout)


def test_ranks_that_are_not_there():
    g = cpu_group(2).arrays(3)
    assert g.local(-1) is g.local(1)
    for take in (g.local, g.on):
        for rank in (2, -3):
            with pytest.raises(IndexError, match=f"there is no rank {rank} among 2"):
                take(rank)


def test_a_group_is_no_array_and_does_not_leave_its_process():
    group = cpu_group(2)
    g = DeviceArrayGroup.of((np.zeros(3) for _ in range(2)), group)
    with pytest.raises(TypeError, match=r"use np.asarray\(g.local\(rank\)\)"):
        np.asarray(g)
    for each in (g, group):
        with pytest.raises(TypeError, match="belongs to its process"):
            pickle.dumps(each)


def test_all_arrays_are_filled():
    g = cpu_group(2).arrays(3)
    g.fill(7)
    assert [g.local(rank).numpy().tolist() for rank in range(2)] == [[7] * 3] * 2


def test_it_prints():
    group = cpu_group(2)
    assert repr(group) == "<DeviceGroup of rank 0 (CPU), rank 1 (CPU)>"
    assert repr(group.arrays(3)) == "<DeviceArrayGroup of 2 arrays, shape=(3,) dtype=float32>"
    assert group.reachable == ((True, True), (True, True)) and len(group) == 2


def test_gpus_get_access_to_each_other_once():
    with fake_driver.installed(devices=3) as gpu:
        for _ in range(2):
            group = DeviceGroup([0, 2], streams=[device.GpuStream(7, 0), device.GpuStream(8, 2)])
        contexts = [fake_driver.CONTEXT, fake_driver.CONTEXT + 2]
        assert gpu.peers == {tuple(contexts), tuple(contexts[::-1])}
        assert gpu.names().count("cuCtxEnablePeerAccess") == 2
        opened = {entry[1:] for entry in gpu.log if entry[0] == "cuMemPoolSetAccess"}
        assert opened == {(0xB2, 1, 0, 3), (0xB0, 1, 2, 3)}  # the pool of GPU 2 for GPU 0, and the other way round
        assert gpu.stack == [fake_driver.CONTEXT]  # GPU 0 is the current one
        g = group.arrays(8)
        assert [g.local(rank).stream.ordinal for rank in range(2)] == [0, 2]
        apart = g.local(1)._view.data - g.local(0)._view.data
        assert g.on(0).offsets.numpy().tolist() == [0, apart]
        assert g.on(1).offsets.numpy().tolist() == [-apart, 0]
        group.synchronize()
        assert {entry for entry in gpu.log if entry[0] == "cuStreamSynchronize"} >= {
            ("cuStreamSynchronize", 7), ("cuStreamSynchronize", 8),
        }  # fmt: skip


def test_an_unreachable_pair_is_named():
    with fake_driver.installed(devices=3) as gpu:
        gpu.unreachable = {(2, 1)}
        with pytest.raises(
            device.LaunchError, match=r"GPU 2 cannot reach the memory of GPU 1: rank 2 \(GPU 2\), rank 1 \(GPU 1\)"
        ):
            DeviceGroup([0, 1, 2])
        assert DeviceGroup([0, 1]).reachable == ((True, True), (True, True))
        DeviceGroup([1, 1])  # which is one GPU


def test_later_work_of_each_stream_comes_after_the_present_work_of_all():
    with fake_driver.installed(devices=2) as gpu:
        group = DeviceGroup([device.GpuStream(7, 0), device.GpuStream(8, 1)])
        gpu.log.clear()
        group.join()
        done = [entry for entry in gpu.log if "Event" in entry[0]]
        records = [entry[1:] for entry in done if entry[0] == "cuEventRecord"]
        waits = [entry[1:] for entry in done if entry[0] == "cuStreamWaitEvent"]
        assert [stream for _, stream in records] == [7, 8]
        assert waits == [(7, records[1][0]), (8, records[0][0])]
