"""Thread block clusters: where a block stands, barriers, the shared memory of other blocks, sizes and what the driver is told."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from conftest import can_assemble, with_capability
from fake_driver import CONTEXT, installed

import cuda_device as device

BLOCK = 32


@pytest.fixture
def clusters(stream):
    """The stream, where it has clusters."""
    return with_capability(stream, (9, 0), "clusters")


@device.kernel
def places(dims, indices, ranks):
    x, y, z = device.block_idx.x, device.block_idx.y, device.block_idx.z
    dims[z, y, x] = device.cluster_dim
    indices[z, y, x] = device.cluster_idx
    ranks[z, y, x] = device.block_rank


@pytest.mark.parametrize(
    ("grid", "cluster"), [((6, 4, 2), (3, 2, 1)), ((4, 2, 2), (2, 2, 2)), ((8,), 8), ((5, 3), None), ((2, 6), (1, 3))]
)
def test_where_a_block_stands(clusters, grid, cluster):
    shape = (*grid, 1, 1)[:3][::-1]
    ranks = clusters.array(np.full(shape, -1, np.int32))
    vectors = [clusters.array(np.zeros(shape, device.numpy_dtype(device.uint32x3))) for _ in range(2)]
    clusters.launch(places, *vectors, ranks, grid=grid, block=1, cluster=cluster)
    sizes = (*cluster, 1, 1)[:3] if isinstance(cluster, tuple) else (cluster or 1, 1, 1)
    found = [clusters.numpy(each) for each in vectors]
    z, y, x = np.indices(shape)
    for axis, place, size in zip("xyz", (x, y, z), sizes, strict=True):
        assert (found[0][axis] == size).all()
        assert (found[1][axis] == place // size).all()
    wide, high, deep = sizes
    assert (clusters.numpy(ranks) == x % wide + wide * (y % high + high * (z % deep))).all()


@device.kernel
def ring(x, y):
    """Each block gives its elements to the block before it in the cluster."""
    tile = device.shared_array(BLOCK, x.dtype)
    i, t = device.tid(1), device.thread_idx.x
    tile[t] = x[i]
    device.cluster_sync()
    count = device.cluster_dim.x * device.cluster_dim.y * device.cluster_dim.z
    other = device.cluster_shared(tile, (device.block_rank + 1) % device.int32(count))
    y[i] = other[t]
    device.cluster_sync()  # nobody leaves whose memory is read


def expected(x, size):
    return np.roll(x.reshape(-1, size, BLOCK), -1, axis=1).reshape(-1)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("blocks", [8, 64])
def test_the_shared_memory_of_others(clusters, size, blocks):
    numbers = np.arange(blocks * BLOCK, dtype=np.float32)
    x, y = clusters.array(numbers), clusters.empty(blocks * BLOCK)
    clusters.launch(ring, x, y, grid=blocks, block=BLOCK, cluster=size)
    assert (clusters.numpy(y) == expected(numbers, size)).all()


@device.kernel
def histogram(values, bins, per_block: device.ConstExpr[int]):
    """A cluster has one histogram, of which each block has a part in its shared memory."""
    part = device.shared_array(per_block, device.int32)
    t = device.thread_idx.x
    for i in range(t, per_block, device.block_dim.x):
        part[i] = 0
    device.cluster_sync()
    for i in range(device.tid(1), len(values), device.grid_size(1)):
        value = values[i]
        there = device.cluster_shared(part, value // per_block)
        device.atomic_ref(there, value % per_block).add(1, "relaxed", "device")
    device.cluster_sync()
    for i in range(t, per_block, device.block_dim.x):
        device.atomic_ref(bins, device.block_rank * per_block + i).add(part[i], "relaxed", "device")


def test_a_histogram_over_the_blocks_of_a_cluster(clusters):
    values = np.random.default_rng(1).integers(0, 400, 5000).astype(np.int32)
    bins = clusters.array(np.zeros(400, np.int32))
    clusters.launch(histogram, clusters.array(values), bins, 100, grid=8, block=64, cluster=4)
    assert (clusters.numpy(bins) == np.bincount(values, minlength=400)).all()


@device.kernel
def columns(x):
    """The blocks of a cluster are far apart in the grid."""
    cell = device.shared_array(1, device.int32)
    cell[0] = device.int32(device.block_idx.y)
    device.cluster_sync()
    x[device.block_idx.y, device.block_idx.x] = device.cluster_shared(cell, 1 - device.block_rank)[0]
    device.cluster_sync()


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_more_blocks_than_can_wait(seed):
    x = np.full((2, 600), -1, np.int32)
    stream = device.cpu_stream(schedule=seed)
    device.launch(columns, x, grid=(600, 2), block=1, cluster=(1, 2), stream=stream)
    assert (x == [[1], [0]]).all()


@device.kernel
def looked_up_early(x, y, is_ordered: device.ConstExpr):
    """The address of another block's memory may be asked for before that block begins; to read there, it must have begun."""
    tile, t = device.shared_array(BLOCK, x.dtype), device.thread_idx.x
    other = device.cluster_shared(tile, 1 - device.block_rank)
    tile[t] = x[device.tid(1)]
    if is_ordered:
        device.cluster_sync()
    y[device.tid(1)] = other[t]
    device.cluster_sync()


def test_memory_of_a_block_that_has_not_begun(clusters):
    numbers = np.arange(16 * BLOCK, dtype=np.float32)
    x, y = clusters.array(numbers), clusters.empty(16 * BLOCK)
    clusters.launch(looked_up_early, x, y, True, grid=16, block=BLOCK, cluster=2)
    assert (clusters.numpy(y).reshape(8, 2, BLOCK) == numbers.reshape(8, 2, BLOCK)[:, ::-1]).all()
    y = np.empty_like(numbers)
    device.launch(looked_up_early, numbers, y, False, grid=16, block=BLOCK, cluster=2, stream=device.cpu_stream())
    with pytest.raises(device.KernelError, match=r"(?s)race on byte 0 of shared memory.*help: put cluster_sync\(\)"):
        device.launch(
            looked_up_early, numbers, y, False, grid=16, block=BLOCK, cluster=2, stream=device.cpu_stream(races=True)
        )


def test_races():
    """`cluster_sync` orders what the blocks of a cluster do."""

    @device.kernel
    def k(x, synchronised: device.ConstExpr[bool]):
        x[device.tid(1)] = 1
        if synchronised:
            device.cluster_sync()
        x[device.tid(1) ^ BLOCK] += 1

    stream = device.cpu_stream(races=True)
    device.launch(k, np.zeros(64, np.int32), True, grid=2, block=BLOCK, cluster=2, stream=stream)
    with pytest.raises(device.KernelError, match="race"):
        device.launch(k, np.zeros(64, np.int32), False, grid=2, block=BLOCK, cluster=2, stream=stream)


@device.kernel(cluster=(2, 1))
def compiled(x, y):
    tile = device.shared_array(BLOCK, x.dtype)
    tile[device.thread_idx.x] = x[device.tid(1)]
    device.cluster_sync()
    y[device.tid(1)] = device.cluster_shared(tile, 1 - device.block_rank)[device.thread_idx.x]
    device.cluster_sync()


def test_a_size_that_is_compiled(clusters):
    numbers = np.arange(4 * BLOCK, dtype=np.float32)
    x, y = clusters.array(numbers), clusters.empty(4 * BLOCK)
    for cluster in (None, 2, (2, 1, 1)):
        clusters.launch(compiled, x, y, grid=4, block=BLOCK, cluster=cluster)
        assert (clusters.numpy(y) == expected(numbers, 2)).all()
    with pytest.raises(
        device.LaunchError, match=r"cluster=4: the kernel is compiled for clusters of \(2, 1, 1\) blocks"
    ):
        clusters.launch(compiled, x, y, grid=4, block=BLOCK, cluster=4)
    assert ".reqnctapercluster 2, 1, 1" in str(
        device.compile(compiled, *[device.ArrayType(np.float32, 1)] * 2, output="ptx")
    )


@pytest.mark.needs("bound_kernels")
def test_prepared_and_bound_launches(clusters):
    numbers = np.arange(8 * BLOCK, dtype=np.float32)
    x, y = clusters.array(numbers), clusters.empty(8 * BLOCK)
    launch = device.prepare(ring, x, y, grid=8, block=BLOCK, cluster=4, stream=clusters.stream)
    for _ in range(12):
        launch()
    assert (clusters.numpy(y) == expected(numbers, 4)).all()
    ring.bind(grid=lambda x, y: len(x) // BLOCK, block=BLOCK, cluster=2)(x, y, stream=clusters.stream)
    assert (clusters.numpy(y) == expected(numbers, 2)).all()
    bound = ring.bind(threads=lambda x, y: len(x), block=BLOCK, cluster=lambda x, y: 8)
    bound(x, y, stream=clusters.stream)
    assert (clusters.numpy(y) == expected(numbers, 8)).all()


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (16, "16 blocks along x; the allowed range is 1 to 8\n  help: use smaller clusters"),
        (0, "0 blocks along x"),
        ((4, 4), "a cluster can have at most 8 blocks"),
        (3, r"grid=\(8, 1, 1\) is not a multiple of cluster=\(3, 1, 1\)"),
        ((1, 2), "is not a multiple of"),
        ("two", "is not a size of a cluster"),
    ],
)
def test_sizes_that_cannot_be(cluster, reason):
    x = np.zeros(8 * BLOCK, np.float32)
    with pytest.raises(device.LaunchError, match=reason):
        device.launch(ring, x, x.copy(), grid=8, block=BLOCK, cluster=cluster, stream=device.cpu_stream())


@pytest.mark.parametrize("cluster", [0, 9, (2, 2, 4), (1, 1, 1, 1), "2", 2.0, ()])
def test_sizes_that_cannot_be_compiled(cluster):
    with pytest.raises(TypeError, match=r"kernel\(cluster=…\) takes the number of blocks in a cluster, at most 8"):
        device.kernel(cluster=cluster)(lambda x: None)


def test_gpus_without_clusters():
    stream, x = device.cpu_stream(target="sm_80"), np.zeros(8, np.float32)

    @device.kernel
    def k(x):
        x[0] = 1

    device.launch(k, x, grid=2, block=4, cluster=1, stream=stream)
    with pytest.raises(
        device.LaunchError, match=r"cluster=\(2, 1, 1\): sm_80 has no clusters\n  help: leave cluster out"
    ):
        device.launch(k, x, grid=2, block=4, cluster=2, stream=stream)

    def rank(x):
        x[0] = device.block_rank

    def shared(x):
        x[0] = device.cluster_shared(device.shared_array(1, x.dtype), 0)[0]

    def sync(x):
        device.cluster_sync()

    def arrive(x):
        device.cluster_arrive()

    def wait(x):
        device.cluster_wait()

    names = "block_rank", "cluster_shared", "cluster_sync", "cluster_arrive", "cluster_wait"
    for function, name in zip((rank, shared, sync, arrive, wait), names, strict=True):
        with pytest.raises(
            device.CompileError, match=f"^{name} needs sm_90 or later, and this is compiled for sm_80"
        ) as caught:
            device.compile(device.kernel(function), x, target="sm_80", output="ptx")
        assert caught.value.location.function == function.__name__ or "test_clusters.py" in str(caught.value)
        assert "provides(sm90)" in str(caught.value)


def test_wrong_arguments():
    x = np.zeros(8, np.float32)

    def whole(x):
        device.cluster_shared(x, 0)

    def real(x):
        device.cluster_shared(device.shared_array(1, x.dtype), 0.5)

    for function, reason in ((whole, "takes a shared array, not"), (real, "rank must be the number of a block")):
        with pytest.raises(device.CompileError, match=reason):
            device.compile(device.kernel(function), x, output="ptx")

    @device.kernel
    def beyond(x):
        tile = device.shared_array(1, x.dtype)
        device.cluster_sync()
        x[0] = device.cluster_shared(tile, 2)[0]

    with pytest.raises(device.KernelError, match="the cluster has no block 2: it has 2"):
        device.launch(beyond, x, grid=2, block=1, cluster=2, stream=device.cpu_stream())
    for use in (device.cluster_sync, lambda: device.cluster_shared(x, 0), lambda: device.block_rank + 1):
        with pytest.raises(device.DeviceOnlyError):
            use()


def test_a_parameter_called_cluster():
    @device.kernel
    def k(x, cluster):
        x[0] = cluster

    x = np.zeros(1, np.float32)
    device.launch(k, x, grid=1, block=1, cluster=7, stream=device.cpu_stream())
    device.prepare(k, x, grid=1, block=1, cluster=x[0] + 1, stream=device.cpu_stream())()
    assert x[0] == 8


def test_scopes_of_atomics_stay():
    x = np.zeros(8, np.int32)

    def k(x):
        cell = device.shared_array(1, device.int32)
        device.atomic_ref(cell, 0).add(1, "relaxed", "device")
        device.cluster_sync()
        x[0] = device.cluster_shared(cell, 0)[0]

    assert "relaxed.gpu" in str(device.compile(device.kernel(k), x, output="ptx"))


@pytest.mark.parametrize("target", ["sm_90", "sm_90a", "sm_100", "sm_120"])
@pytest.mark.parametrize("kernel", [ring, compiled, histogram], ids=lambda kernel: kernel.underlying.__name__)
def test_they_are_assembled(kernel, target):
    if not can_assemble(target):
        pytest.skip("no assembler")
    x, i = np.zeros(8, np.float32), np.zeros(8, np.int32)
    arguments = (i, i, 64) if kernel is histogram else (x, x)
    assert device.compile(kernel, *arguments, target=target).code.startswith(b"\x7fELF")


def test_the_driver_is_told():
    with installed() as gpu:
        gpu.stack[-1] = CONTEXT
        configs = []

        def launch(config, kernel, parameters, extra):
            *sizes, attributes, count = struct.unpack("=7I4xQQI4x", ctypes.string_at(config, 56))
            configs.append((*sizes, *struct.unpack("=I4x3I52x", ctypes.string_at(attributes, 72)), count))
            return (0,)

        gpu.cuLaunchKernelEx = launch
        stream = device.GpuStream(0x77, 0, context=CONTEXT)
        x = device.zeros(256, stream=stream)
        for _ in range(12):
            device.launch(ring, x, x, grid=(8, 2), block=BLOCK, cluster=(2, 2), shared=16, stream=stream)
        prepared = device.prepare(ring, x, x, grid=8, block=BLOCK, cluster=4, stream=stream)
        for _ in range(12):
            prepared()
        assert (
            configs
            == [(8, 2, 1, BLOCK, 1, 1, 16, 0x77, 4, 2, 2, 1, 1)] * 12
            + [(8, 1, 1, BLOCK, 1, 1, 0, 0x77, 4, 4, 1, 1, 1)] * 12
        )
        assert "cuLaunchKernel" not in gpu.names()
        for _ in range(12):  # the driver knows of these
            device.launch(compiled, x, x, grid=8, block=BLOCK, stream=stream)
        assert gpu.names().count("cuLaunchKernel") == 12 and len(configs) == 24
        with pytest.raises(device.LaunchError, match="not a multiple"):  # never machine code, which would not see it
            device.launch(compiled, x, x, grid=7, block=BLOCK, stream=stream)
        gpu.cuLaunchKernelEx = lambda *_: (1,)
        with pytest.raises(device.LaunchError, match=r"of \(32, 1, 1\) threads in clusters of \(8, 1, 1\)"):
            device.launch(ring, x, x, grid=8, block=BLOCK, cluster=8, stream=stream)


def test_a_kernel_with_clusters_is_not_compiled_for_gpus_without():
    @device.kernel(cluster=(2, 1, 1))
    def k(x):
        x[0] = 1

    with pytest.raises(device.CompileError, match=r"k has cluster=\(2, 1, 1\), and sm_80 has no clusters") as refused:
        device.compile(k, device.ArrayType(device.int32, 1), target="sm_80", output="ptx")
    assert "sm_90 or later" in refused.value.help
    device.compile(k, device.ArrayType(device.int32, 1), target="sm_90", output="ptx")


@device.kernel
def halves(x, y):
    """Some threads wait in two steps, some in one; each block reads what the next one has written."""
    tile = device.shared_array(1, device.float32)
    other = (device.int32(device.block_rank) + 1) % 4
    for i in range(y.shape[0]):
        if device.thread_idx.x == 0:
            tile[0] = x[device.block_idx.x] + i
        device.cluster_arrive()
        device.cluster_wait()
        value = device.cluster_shared(tile, other)[0]
        if device.thread_idx.x < 16:
            device.cluster_arrive()
            device.cluster_wait()
        else:
            device.cluster_sync()
        y[i, device.tid(1)] = value


def test_the_halves_of_a_barrier(clusters):
    x, y = np.arange(44, dtype=np.float32), np.zeros((5, 44 * BLOCK), np.float32)
    y = clusters.run(halves, x, y, grid=44, block=BLOCK, cluster=4)[-1]
    assert (y == np.roll(x.reshape(-1, 4), -1, 1).repeat(BLOCK) + np.arange(5)[:, None]).all()


def test_the_halves_of_a_barrier_are_instructions_of_sm_90():
    arguments = np.zeros(4, np.float32), np.zeros((5, 128), np.float32)
    text = device.compile(halves, *arguments, target="sm_90", output="ptx").code
    assert text.count("barrier.cluster.arrive.release;") == text.count("barrier.cluster.wait.acquire;") == 3
    with pytest.raises(device.CompileError, match="needs sm_90 or later"):
        device.compile(halves, *arguments, target="sm_80")


@device.kernel
def without_a_cluster(y):
    device.cluster_arrive()
    device.cluster_wait()
    device.cluster_sync()
    y[device.tid(1)] = 1


def test_a_block_alone_is_a_cluster(clusters):
    assert clusters.run(without_a_cluster, np.zeros(96, np.float32), grid=2, block=48).all()
