"""Launches that say how many threads they need, and leave the size of a block to the kernel."""

from types import SimpleNamespace

import fake_driver
import numpy as np
import pytest

import cuda_device as device


@device.kernel
def fill(x, sizes):
    i = device.tid(1)
    if i < len(x):
        x[i] = i
    if i == 0:
        sizes[0], sizes[1] = device.grid_dim.x, device.block_dim.x


@device.kernel
def fill_plane(x, sizes):
    i, j = device.tid(2)
    if i < x.shape[1] and j < x.shape[0]:
        x[j, i] = 100 * j + i
    sizes[0], sizes[1] = device.block_dim.x, device.block_dim.y


@pytest.mark.parametrize(
    ("n", "block", "sizes"), [(1, 32, (1, 32)), (64, 32, (2, 32)), (65, 32, (3, 32)), (65, (64,), (2, 64))]
)
def test_a_grid_covers_the_threads(stream, n, block, sizes):
    x, found = stream.array(np.zeros(n, np.int32)), stream.array(np.zeros(2, np.int32))
    device.launch(fill, x, found, threads=n, block=block, stream=stream.stream)
    assert stream.numpy(x).tolist() == [*range(n)]
    assert tuple(stream.numpy(found)) == sizes
    prepared = device.prepare(fill, x, found, threads=np.int64(n), block=block, stream=stream.stream)
    assert prepared.grid == (sizes[0], 1, 1)
    prepared()


def test_a_plane_of_threads(stream):
    x, sizes = stream.array(np.zeros((5, 70), np.int32)), stream.array(np.zeros(2, np.int32))
    right = [[100 * j + i for i in range(70)] for j in range(5)]
    for block in ((16, 4), "auto", None):
        device.launch(fill_plane, x, sizes, threads=(70, 5), block=block, stream=stream.stream)
        assert stream.numpy(x).tolist() == right
        in_one_block = block is None and stream.kind == "gpu"  # whose blocks have 350 threads and more
        assert stream.numpy(sizes)[0] == (70 if in_one_block else 32 if block in ("auto", None) else 16)


@pytest.mark.needs("bound_kernels")
@pytest.mark.needs("groups")
@pytest.mark.parametrize(
    ("threads", "sizes"),
    [(5, (5, 1)), (1, (1, 1)), ((3, 4), (3, 4)), ((70, 1), (70, 1)), ((1, 40), (1, 40)), ((8, 2, 2), (8, 2))],
)
def test_few_threads_are_one_block_of_just_these(stream, threads, sizes):
    x, found = stream.array(np.zeros((4, 70), np.int32)), stream.array(np.zeros(2, np.int32))

    @device.kernel
    def count(x, sizes):
        device.atomic_ref(x, (0, 0)).add(1)
        sizes[0], sizes[1] = device.block_dim.x, device.block_dim.y

    prepared = device.prepare(count, x, found, threads=threads, stream=stream.stream)
    starts = (
        lambda: device.launch(count, x, found, threads=threads, stream=stream.stream),
        lambda: count.bind(threads=lambda x, sizes: threads)(x, found, stream=stream.stream),
        lambda: device.launch_group(device.DeviceGroup([stream.stream]), count, x, found, threads=threads),
        prepared,
        prepared.replace(),
    )
    for number, start in enumerate(starts, 1):
        start()
        assert stream.numpy(x)[0, 0] == number * np.prod(threads)
        assert tuple(stream.numpy(found)) == sizes
    device.launch(count, x, found, threads=threads, block=(32, 2), stream=stream.stream)  # a block that was given stays
    assert tuple(stream.numpy(found)) == (32, 2)


@device.kernel
def never(x: device.ArrayType(device.int32, 1)):
    x[0] = 1


@pytest.mark.needs("bound_kernels")
@pytest.mark.needs("groups")
@pytest.mark.needs("graphs")
@pytest.mark.parametrize("threads", [0, (0,), (0, 5), (3, 0, 2)])
@pytest.mark.parametrize("sizes", [{}, {"block": 32}, {"block": "auto"}])
def test_no_threads_start_nothing(stream, threads, sizes):
    where, sizes = stream.stream, {"threads": threads, **sizes}
    x = stream.array(np.zeros(5, np.int32))
    prepared = device.prepare(never, x, stream=where, **sizes)
    assert 0 in prepared.grid
    with device.graph(where) as graph:
        device.launch(never, x, stream=graph.stream, **sizes)
    graph.launch()
    prepared()
    prepared.replace(x)()
    never.bind(**sizes)(x, stream=where)
    device.launch(never, x, stream=where, **sizes)
    device.launch_group(device.DeviceGroup([where]), never, x, **sizes)
    assert not stream.numpy(x).any()
    for arguments in ((), (1.5,), (stream.array(np.zeros(5)),)):
        with pytest.raises(device.LaunchError):
            device.launch(never, *arguments, stream=where, **sizes)


def test_the_cpus_blocks_have_a_fixed_size():
    x, sizes = np.zeros(1000, np.int32), np.zeros(2, np.int32)
    for named in ({"threads": 1000}, {"threads": 1000, "block": "auto"}, {"grid": 4, "block": "auto"}):
        device.launch(fill, x, sizes, stream=device.cpu_stream(), **named)
        assert sizes.tolist() == [4, 256]
    small = device.kernel(max_threads=64)(fill.underlying)
    device.launch(small, x, sizes, threads=1000, stream=device.cpu_stream())
    assert sizes.tolist() == [16, 64]


def test_a_gpu_is_asked_once():
    with fake_driver.installed() as gpu:
        gpu.attributes["MAX_THREADS_PER_BLOCK"] = 1024
        x, sizes = device.zeros(1000, np.int32), device.zeros(2, np.int32)
        for shared in (0, 0, 100, 60_000):
            device.launch(fill, x, sizes, threads=1000, shared=shared)
        asked = [entry for entry in gpu.log if entry[0] == "cuOccupancyMaxPotentialBlockSize"]
        assert [entry[2:] for entry in asked] == [(0, 1024), (100, 1024), (60_000, 1024)]
        started = [entry[2:5] for entry in gpu.log if entry[0] == "cuLaunchKernel"]
        assert [(grid, block) for grid, block, _ in started] == [((2, 1, 1), (768, 1, 1))] * 4
        # Beyond 48 KiB the driver is told before it is asked.
        names = gpu.names()
        assert names.index("cuKernelSetAttribute") < len(names) - 1 - names[::-1].index(
            "cuOccupancyMaxPotentialBlockSize"
        )
        assert isinstance(device.default_stream(), device.GpuStream)


@device.kernel
def of_threads(out, threads):
    out[device.tid(1)] = threads


def test_a_kernels_own_parameter_of_that_name():
    out = np.zeros(4, np.int32)
    device.launch(of_threads, out, threads=7, grid=1, block=4, stream=device.cpu_stream())
    assert out.tolist() == [7] * 4
    device.prepare(of_threads, out, threads=8, grid=1, block=4, stream=device.cpu_stream())()
    assert out.tolist() == [8] * 4


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ({"grid": 1, "threads": 5, "block": 1}, "a launch takes grid or threads, not both"),
        ({"block": 1}, "a launch needs grid or threads"),
        ({"grid": 1}, "a launch with grid also needs block"),
        ({"grid": 1, "block": "best"}, "block='best' is not a size of a block"),
        ({"threads": (1, -1), "block": 1}, "threads=.*: -1 threads along y"),
        ({"threads": "all", "block": 1}, "threads='all' is not a number of threads"),
        ({"threads": 5, "block": 2000}, "block=2000: 2000 threads along x"),
        ({"threads": (1, 1 << 20), "block": 8}, "grid=.*1048576 blocks along y"),
    ],
)
def test_what_is_no_size(named, reason):
    x, sizes = np.zeros(5, np.int32), np.zeros(2, np.int32)
    for start in (device.launch, device.prepare):
        with pytest.raises(device.LaunchError, match=reason) as caught:
            start(fill, x, sizes, stream=device.cpu_stream(), **named)
        assert caught.value.help


@pytest.mark.parametrize("size", [{"threads": -1}, {"threads": 1.0}, {"threads": (True,)}, {"grid": 3, "cluster": 2}])
def test_an_impossible_size_is_refused_before_the_kernel_is_compiled(size):
    @device.kernel
    def cannot_be_compiled(x):
        x[0] = open

    x, stream = np.zeros(1, np.int32), device.cpu_stream()
    device.launch(fill, x, np.zeros(2, np.int32), threads=1, block=32, stream=stream)  # 1 is equal to 1.0 and True
    with pytest.raises(device.LaunchError):
        device.launch(cannot_be_compiled, x, block=32, stream=stream, **size)
    with pytest.raises(device.LaunchError):
        device.prepare(cannot_be_compiled, x, block=32, stream=stream, **size)


def test_sizes_of_a_launch_config_of_cuda_core():
    @device.kernel
    def sizes(out, config=0):
        out[0], out[1] = device.grid_dim.x, device.block_dim.x
        out[2], out[3] = len(device.dynamic_shared_array()), device.cluster_dim.x

    @device.kernel
    def fills(out):
        out[0], out[1] = device.grid_dim.x, device.block_dim.x
        out[2], out[3] = len(device.dynamic_shared_array()), device.cluster_dim.x

    def config(grid, block, cluster=None, shmem_size=None):
        return SimpleNamespace(grid=grid, block=block, cluster=cluster, shmem_size=shmem_size)

    out = np.zeros(4, np.int32)
    device.launch(fills, out, config=config((3, 1, 1), (32, 1, 1), shmem_size=64), stream=device.cpu_stream())
    assert out.tolist() == [3, 32, 64, 1]
    device.launch(fills, out, config=config((3, 1, 1), (32, 1, 1), (2, 1, 1)), stream=device.cpu_stream())
    assert out.tolist() == [6, 32, 0, 2]
    device.launch(sizes, out, config=5, grid=2, block=4, stream=device.cpu_stream())
    assert out.tolist() == [2, 4, 0, 1]
    with pytest.raises(device.LaunchError, match="leave grid, block and shared out"):
        device.launch(fills, out, config=config(1, 1), grid=1, block=1, stream=device.cpu_stream())
    with pytest.raises(device.LaunchError, match="config=7 is not a LaunchConfig of cuda.core"):
        device.launch(fills, out, config=7, stream=device.cpu_stream())


def test_sizes_of_cuda_cores_own():
    core = pytest.importorskip("cuda.core")
    out = np.zeros(2, np.int32)
    x = np.zeros(64, np.int32)
    device.launch(fill, x, out, config=core.LaunchConfig(grid=2, block=32), stream=device.cpu_stream())
    assert out.tolist() == [2, 32] and x.tolist() == list(range(64))
