"""`launch_group`: a launch on each device, for which CPU streams stand; what goes wrong on one, and the group afterwards."""

from __future__ import annotations

import _thread
import gc
import re
import sys
import weakref

import fake_driver
import numpy as np
import pytest
from at_once import at_once
from conftest import LAUNCHES
from producers import Torch
from test_cpu_executor import interrupted
from test_groups import cpu_group

import cuda_device as device
from cuda_device import DeviceGroup, float32, int32, launch_group
from cuda_device.plugins.groups import device_group
from cuda_device.runtime.gpu.streams import MOST_RETAINED


@device.struct
class Scale:
    factor: float32


@device.kernel
def scale(g, x, scale, offset, pair=(0, None)):
    i = device.tid(1)
    if i < len(x):
        g.own[i] = x[i] * scale.factor + offset + pair[0]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_device_gets_its_share(count):
    group = cpu_group(count)
    g, x = group.arrays(40), [np.full(40, rank + 1, np.float32) for rank in range(count)]
    launch_group(group, scale, g, x, Scale(2), offset=list(range(count)), pair=(100, None), grid=2, block=32)
    for rank in range(count):
        assert g.local(rank).numpy().tolist() == [2 * (rank + 1) + rank + 100] * 40
    launch_group(group, scale, g, x, Scale(2), 0, grid=lambda g, x, *rest: (len(x) + 7) // 8, block=8)
    assert g.local(count - 1).numpy().tolist() == [2 * count] * 40
    launch_group(group, scale, g, x, Scale(3), 0, threads=40)
    assert g.local(count - 1).numpy().tolist() == [3 * count] * 40


@device.kernel
def meet(g, absent):
    """Every device waits for a sign of all others, but for one that does not come."""
    if g.rank != absent:
        for rank in range(g.n_devices):
            device.atomic_ref(g[rank], g.rank).store(1, "release", "system")
        for rank in range(g.n_devices):
            device.atomic_ref(g.own, rank).wait(0, "acquire", "system")


@pytest.mark.parametrize("count", [2, 5])
def test_the_launches_run_at_once(count):
    group = cpu_group(count, timeout=60)
    g = group.arrays(count, int32)
    launch_group(group, meet, g, -1, grid=1, block=1)
    assert g.local(0).numpy().tolist() == [1] * count


def test_several_threads_launch_on_one_group():
    group = cpu_group(4, timeout=20)

    def many():
        for _ in range(10):
            launch_group(group, meet, group.arrays(4, int32), -1, grid=1, block=1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        at_once([many] * 8)
    finally:
        sys.setswitchinterval(interval)


def test_a_device_that_does_not_come_back_is_named():
    group = cpu_group(3, timeout=0.3)
    with pytest.raises(device.GroupError) as caught:
        launch_group(group, meet, group.arrays(3, int32), 1, grid=1, block=1)
    assert "launching meet failed on rank 0 (CPU), rank 2 (CPU)" in str(caught.value)
    assert caught.value.ranks == [0, 2]
    for error in caught.value.exceptions:
        assert isinstance(error, TimeoutError)
        assert re.match(r"rank [02] \(CPU\) has not returned from launching meet after 0\.3 seconds", str(error))
    group.timeout = 60
    launch_group(group, meet, group.arrays(3, int32), -1, grid=1, block=1)
    group.synchronize()


def test_what_waits_for_one_that_failed_is_stopped(monkeypatch):
    @device.kernel
    def fails_on(g, rank):
        if g.rank == rank:
            raise ValueError(f"rank {rank} gives up")
        device.atomic_ref(g.own, 0).wait(0)

    monkeypatch.setattr(device_group, "_GRACE", 0.2)
    group = cpu_group(3)
    with pytest.raises(device.GroupError) as caught:
        launch_group(group, fails_on, group.arrays(3, int32), 1, grid=1, block=1)
    errors = dict(zip(caught.value.ranks, caught.value.exceptions, strict=True))
    assert {rank: type(error) for rank, error in errors.items()} == {
        0: TimeoutError, 1: device.KernelError, 2: TimeoutError,
    }  # fmt: skip
    assert "rank 1 gives up" in str(errors[1]) and errors[1].__notes__ == ["on rank 1 (CPU)"]
    assert "rank 0 (CPU) has not returned from launching fails_on after another one had failed" in str(errors[0])
    launch_group(group, meet, group.arrays(3, int32), -1, grid=1, block=1)


def test_all_that_fail_are_collected():
    @device.kernel
    def fails(g):
        assert g.rank == 1, "not rank 1"

    group = cpu_group(3)
    with pytest.raises(device.GroupError) as caught:
        launch_group(group, fails, group.arrays(1), grid=1, block=1)
    assert caught.value.ranks == [0, 2]
    with pytest.raises(ExceptionGroup):
        launch_group(group, fails, group.arrays(1), grid=1, block=1)


def test_an_interrupt_ends_the_waiting():
    group = cpu_group(2)
    # Compiled before, so that the interrupt finds it waiting.
    launch_group(group, meet, group.arrays(2, int32), -1, grid=1, block=1)
    arrays = group.arrays(2, int32)
    assert interrupted(lambda: launch_group(group, meet, arrays, 1, grid=1, block=1), _thread.interrupt_main) < 10
    launch_group(group, meet, group.arrays(2, int32), -1, grid=1, block=1)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        (r"rank 0 \(CPU\): argument 1 is a list of 3 items for 2 devices", {"x": [1, 2, 3]}),
        (r"rank 1 \(CPU\): the argument 'x' is of type set", {"x": [np.zeros(4, np.float32), {1}]}),
        (r"rank 0 \(CPU\): the argument 'x' is of type list", {"x": [[1, 2], [3, 4]]}),
        (r"rank 1 \(CPU\): block=.*2000 threads along x", {"block": [[4, 1], [2000, 1]]}),
        (
            r"rank 0 \(CPU\): argument 0 belongs to <DeviceGroup of rank 0 \(CPU\)>, not to",
            {"g": cpu_group(1).arrays(4)},
        ),
        (r"rank 0 \(CPU\): block=2000", {"block": 2000}),
        (r"rank 1 \(CPU\): block=2000", {"block": [4, 2000]}),
        (r"rank 0 \(CPU\): block is a list of 3 items for 2 devices", {"block": [4, 4, 4]}),
        (r"rank 0 \(CPU\): scale is missing an argument for 'offset'", {"offset": None}),
    ],
)
def test_what_cannot_be_launched_is_named_with_its_rank(message, arguments):
    group = cpu_group(2)
    given = {"g": group.arrays(4), "x": np.zeros(4, np.float32), "scale": Scale(1), "offset": 0, "block": 4} | arguments
    block = given.pop("block")
    with pytest.raises(device.LaunchError, match=message):
        launch_group(group, scale, *filter(lambda value: value is not None, given.values()), grid=1, block=block)
    with pytest.raises(device.LaunchError, match="launch needs a kernel, not the function"):
        launch_group(group, scale.underlying, grid=1, block=1)
    with pytest.raises(TypeError, match=r"launch_group takes a DeviceGroup, not \[0, 1\]"):
        launch_group([0, 1], scale, grid=1, block=1)
    with pytest.raises(ZeroDivisionError) as caught:
        launch_group(group, scale, group.arrays(1), group.arrays(1), Scale(1), 0, grid=lambda *_: 1 // 0, block=1)
    assert caught.value.__notes__ == ["on rank 0 (CPU)"]


@device.kernel
def tell_size(g):
    g.own[0], g.own[1], g.own[2] = device.grid_dim.x, device.block_dim.x, device.cluster_dim.x


def test_sizes_by_rank_and_clusters():
    group = cpu_group(2)
    g = group.arrays(3, int32)
    launch_group(group, tell_size, g, grid=[4, 8], block=[1, (2,)], cluster=2)
    assert [g.local(rank).numpy().tolist() for rank in range(2)] == [[4, 1, 2], [8, 2, 2]]
    with pytest.raises(
        device.LaunchError, match=r"rank 1 \(CPU\): grid=\(3, 1, 1\) is not a multiple of cluster=\(2, 1, 1\)"
    ):
        launch_group(group, tell_size, g, grid=[4, 3], block=1, cluster=2)


def test_a_bound_kernel():
    group = cpu_group(2)
    g = group.arrays(3, int32)
    bound = tell_size.bind(grid=lambda g: 2 * (g.rank + 1), block=3, cluster=2)
    launch_group(group, bound, g)
    assert [g.local(rank).numpy().tolist() for rank in range(2)] == [[2, 3, 2], [4, 3, 2]]
    launch_group(group, bound, g, block=5, cluster=1)
    assert g.local(0).numpy().tolist() == [2, 5, 1]


def test_code_is_compiled_once():
    fresh = device.kernel(meet.underlying)
    for count in (1, 4):
        group = cpu_group(count)
        launch_group(group, fresh, group.arrays(4, int32), -1, grid=1, block=1)
    assert len(fresh.variants) == 1


def test_machine_code_launches_on_all_gpus_or_on_none(monkeypatch):
    with fake_driver.installed(devices=2) as gpu:
        group, kernel = DeviceGroup([0, 1]), device.kernel(scale.underlying)
        made, x = [group.arrays(40)], [device.zeros(40, stream=stream) for stream in group.streams]

        def run(x=x, **options):
            before = len(gpu.launched)
            launch_group(options.get("group", group), kernel, *made, x, Scale(2), [0, 1], grid=2, block=lambda *_: 32)
            return len(gpu.launched) - before

        def by_machine_code(**options):
            gpu.by_address = 0
            assert run(**options) == 2
            return gpu.by_address

        for _ in range(LAUNCHES):
            run()
        with monkeypatch.context() as patch:
            patch.setattr(DeviceGroup, "run", None)  # it needs no other thread
            assert by_machine_code() == 2
        assert by_machine_code(group=DeviceGroup([0, 1], timeout=5)) == 0  # a thread can be given up
        before = len(gpu.launched)
        with pytest.raises(device.LaunchError, match="rank 1"):
            run([x[0], x[0]])
        assert len(gpu.launched) == before
        gpu.failing["cuLaunchKernel"] = fake_driver.Result.CUDA_ERROR_INVALID_VALUE
        with pytest.raises(device.GroupError) as caught:
            run()
        assert [error.__notes__ for error in caught.value.exceptions] == [["on rank 0 (GPU 0)"], ["on rank 1 (GPU 1)"]]
        gpu.failing.clear()
        for _ in range(2 * MOST_RETAINED):
            run()
        assert all(len(stream._retained.pending) <= MOST_RETAINED for stream in group.streams)
        group.synchronize()
        gpu.done = False
        assert by_machine_code() == 2
        dead = [weakref.ref(made[0].local(rank)._memory) for rank in range(2)]
        made.clear()
        del caught
        gc.collect()
        assert None not in [reference() for reference in dead]  # each kernel may access all of them
        gpu.finish()
        group.synchronize()
        gc.collect()
        assert [reference() for reference in dead] == [None, None]


def test_gpus_launch_after_the_earlier_work_of_all_and_before_their_later_work():
    with fake_driver.installed(devices=2) as gpu:
        group = DeviceGroup([device.GpuStream(7, 0), device.GpuStream(8, 1)])
        g = group.arrays(40)
        x = [device.zeros(40, stream=stream) for stream in group.streams]
        gpu.log.clear()
        launch_group(group, scale, g, x, Scale(2), 0, grid=2, block=32)
        calls = [
            (entry[0], entry[-1])
            for entry in gpu.log
            if entry[0] in ("cuLaunchKernel", "cuStreamWaitEvent", "cuLibraryLoadData")
        ]
        names = [name for name, _ in calls]
        begin, end = names.index("cuLaunchKernel"), len(names) - names[::-1].index("cuLaunchKernel")
        assert names[:2] == names[-2:] == ["cuStreamWaitEvent"] * 2
        assert "cuLibraryLoadData" not in names[begin:end]
        assert sorted(stream for name, stream in calls if name == "cuLaunchKernel") == [7, 8]
        with pytest.raises(
            device.LaunchError, match=r"rank 1 \(GPU 1\): the argument 'x' is on GPU 0, but the stream is on GPU 1"
        ):
            launch_group(group, scale, g, x[0], Scale(2), 0, grid=2, block=32)
        gpu.failing["cuLaunchKernel"] = fake_driver.Result.CUDA_ERROR_INVALID_VALUE
        with pytest.raises(device.GroupError) as caught:
            launch_group(group, scale, g, x, Scale(2), 0, grid=2, block=32)
        assert [error.__notes__ for error in caught.value.exceptions] == [["on rank 0 (GPU 0)"], ["on rank 1 (GPU 1)"]]
        gpu.failing.clear()
        launch_group(group, scale, g, x, Scale(2), 0, grid=2, block=32)
        group.synchronize()


@device.struct
class Inner:
    g: device.DeviceArrayGroup.part(float32)


@device.struct
class Outer:
    inner: Inner


@pytest.mark.parametrize("wrap", [lambda g: g, lambda g: (1, g), lambda g: [Outer(inner) for inner in Inner.of(g)]])
def test_kernels_are_ordered_with_the_libraries_of_all_arrays(wrap):
    """The kernel of each rank comes after what the libraries of all arrays have queued, and before what they queue next."""

    @device.kernel
    def kernel(g):
        pass

    with fake_driver.installed(devices=2) as gpu:
        group = DeviceGroup([0, 1], streams=[device.GpuStream(7, 0), device.GpuStream(8, 1)])
        memory = np.zeros((2, 4), np.float32)
        tensors = [
            Torch(stream).tensor(memory[rank].ctypes.data, (4,), device=rank) for rank, stream in enumerate((70, 80))
        ]
        g = device.DeviceArrayGroup.of(tensors, group)
        gpu.log.clear()
        launch_group(group, kernel, wrap(g), grid=1, block=1)
        before = {stream: {stream} for stream in (7, 8, 70, 80)}  # what comes before the next work of each stream
        recorded, launches = {}, []
        for name, *arguments in gpu.log:
            if name == "cuEventRecord":
                recorded[arguments[0]] = set(before[arguments[1]])
            elif name == "cuStreamWaitEvent":
                before[arguments[0]] |= recorded[arguments[1]]
            elif name == "cuLaunchKernel":
                launches.append(set(before[arguments[-1]]))
                before[arguments[-1]].add(f"kernel {arguments[-1]}")
        assert len(launches) == 2 and all(each >= {70, 80} for each in launches)
        assert all(before[stream] >= {"kernel 7", "kernel 8"} for stream in (7, 8, 70, 80))
