"""Launches by machine code on a true GPU: results with arrays of torch and CuPy, streams, graphs and threads."""

from __future__ import annotations

import gc
from functools import partial

import numpy as np
import pytest
from at_once import at_once
from conftest import BY_PYTHON, HAS_LAUNCHERS

import cuda_device as device
from cuda_device.runtime.gpu import driver

pytestmark = [
    pytest.mark.skipif(not driver.available(), reason="no GPU"),
    pytest.mark.skipif(not HAS_LAUNCHERS, reason="no launchers for this Python"),
]
N = 1000


def new_kernel():
    @device.kernel
    def axpy(a, x, y, n):
        i = device.tid(1)
        if i < n:
            y[i] += a * x[i]

    return axpy


def launch(kernel, *args, stream, **kwargs):
    device.launch(kernel, *args, grid=(N + 255) // 256, block=256, stream=stream, **kwargs)


def is_native(kernel, *args, **kwargs):
    """Whether machine code makes a launch; it is made in any case."""
    before = sum(variant.launches for variant in kernel.variants.values())
    launch(kernel, *args, **kwargs)
    return sum(variant.launches for variant in kernel.variants.values()) == before


@pytest.fixture
def torch():
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    return found


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def test_arrays_of_ours():
    kernel, stream = new_kernel(), device.default_stream()
    x, y = device.array(np.arange(N, dtype=np.float32), stream=stream), device.zeros(N, stream=stream)
    for _ in range(20):
        launch(kernel, 2.0, x, y, N, stream=stream)
    assert is_native(kernel, 2.0, x, y, n=N, stream=None)
    assert (y.numpy() == 42 * np.arange(N)).all()


@pytest.mark.parametrize("options", [{}, {"cluster": 2}])
def test_clusters_and_dependent_launches(options):
    if driver.properties(0).capability < (9, 0):
        pytest.skip("no clusters")

    @device.kernel(**options)
    def count(ranks):
        device.wait_dependencies()
        if device.thread_idx.x == 0:
            ranks[device.block_idx.x] += 10 * device.block_rank + device.cluster_dim.x
        device.cluster_sync()

    stream, sizes = device.default_stream(), {"cluster": 2, "dependent": True}
    ranks = device.zeros(4, np.int32, stream=stream)
    prepared = device.prepare(count, ranks, grid=4, block=256, stream=stream, **sizes)
    for _ in range(10):
        launch(count, ranks, stream=stream, **sizes)
        prepared()
    assert is_native(count, ranks, stream=stream, **sizes)
    assert ranks.numpy().tolist() == [21 * 2, 21 * 12] * 2


def test_cooperative_launches():
    @device.kernel
    def turn(x):
        i, n = device.tid(1), device.grid_size(1)
        value = x[(i + 1) % n]
        device.grid_sync()
        x[i] = value

    stream, numbers = device.default_stream(), np.arange(4 * 256, dtype=np.int32)
    x = device.array(numbers, stream=stream)
    for _ in range(20):
        launch(turn, x, stream=stream)
    assert is_native(turn, x, stream=stream)
    assert (x.numpy() == np.roll(numbers, -21)).all()
    with pytest.raises(device.LaunchError, match="can run only"):
        device.launch(turn, x, grid=1 << 20, block=256, stream=stream)
    assert is_native(turn, x, stream=stream)


def test_tensors(torch):
    kernel = new_kernel()
    x, y = torch.arange(N, dtype=torch.float32, device="cuda"), torch.zeros(N, device="cuda")
    for stream in (None, torch.cuda.current_stream(), torch.cuda.Stream()):
        y.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(20):
                launch(kernel, 2.0, x, y, N, stream=stream)
            assert is_native(kernel, 0.5, x, y, N, stream=stream)
        torch.cuda.synchronize()
        assert torch.equal(y, 40.5 * x)


def test_cupy_arrays(cupy):
    kernel = new_kernel()
    x, y = cupy.arange(N, dtype=np.float32), cupy.zeros(N, np.float32)
    for stream in (None, cupy.cuda.get_current_stream(), cupy.cuda.Stream(non_blocking=True)):
        y[...] = 0
        cupy.cuda.Device().synchronize()
        with stream or cupy.cuda.Stream.null:
            for _ in range(20):
                launch(kernel, 2.0, x, y, N, stream=stream)
            assert is_native(kernel, 0.5, x, y, N, stream=stream)
        cupy.cuda.Device().synchronize()
        assert (y == 40.5 * x).all()


def test_streams_that_differ_are_put_in_order(torch):
    """The producer's stream is slow: a launch that did not wait would see old numbers."""
    kernel, other = new_kernel(), torch.cuda.Stream()
    x, y = torch.zeros(N, device="cuda"), torch.zeros(N, device="cuda")
    for i in range(50):
        torch.cuda._sleep(1_000_000)
        x.fill_(i)
        y.zero_()
        launch(kernel, 1.0, x, y, N, stream=other)
        assert torch.equal(y, torch.full_like(y, i))
    assert is_native(kernel, 1.0, x, y, N, stream=other)


def test_later_work_of_the_producer_waits_for_the_launch(torch):
    """The launch is slow to begin: work of the producer's stream that did not wait would spoil what it reads."""
    kernel, other = new_kernel(), torch.cuda.Stream()
    x, y = torch.zeros(N, device="cuda"), torch.zeros(N, device="cuda")
    for i in range(50):
        x.fill_(i)
        y.zero_()
        with torch.cuda.stream(other):
            torch.cuda._sleep(1_000_000)
        launch(kernel, 1.0, x, y, N, stream=other)
        x.fill_(-1)
        assert torch.equal(y, torch.full_like(y, i))


def test_tensors_that_are_dropped_at_once_on_another_stream(torch):
    kernel, other = new_kernel(), torch.cuda.Stream()
    total = torch.zeros(N, device="cuda")
    for _ in range(20_000):
        launch(kernel, 1.0, torch.ones(N, device="cuda"), total, N, stream=other)
    assert torch.equal(total, torch.full_like(total, 20_000))


def test_arrays_of_ours_elsewhere(torch):
    """Of an unordered launch the arguments live until it has ended; an ordered one is before what frees them."""
    kernel, other = new_kernel(), torch.cuda.Stream()
    total = device.zeros(N, stream=other)
    for stream in (other, device.unordered(other)):
        for _ in range(5000):
            x = device.array(np.ones(N, np.float32))
            device.synchronize()
            launch(kernel, 1.0, x, total, N, stream=stream)
            del x
    assert (total.numpy() == 10_000).all()


def test_tensors_that_are_dropped_at_once(torch):
    kernel, stream = new_kernel(), torch.cuda.current_stream()
    total = torch.zeros(N, device="cuda")
    for _ in range(100_000):
        launch(kernel, 1.0, torch.ones(N, device="cuda"), total, N, stream=stream)
    assert torch.equal(total, torch.full_like(total, 100_000))
    used = torch.cuda.memory_allocated()
    gc.collect()
    assert used < 1 << 24


def test_a_graph_of_captured_launches(torch):
    kernel, stream = new_kernel(), torch.cuda.Stream()
    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    with torch.cuda.stream(stream):
        for _ in range(20):
            launch(kernel, 1.0, x, y, N, stream=stream)
        assert is_native(kernel, 1.0, x, y, N, stream=stream)
    stream.synchronize()
    y.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        assert is_native(kernel, 1.0, x, y, N, stream=stream)
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 5))


def test_threads(torch):
    kernel = new_kernel()

    def work(number):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x, y = torch.full((N,), float(number), device="cuda"), torch.zeros(N, device="cuda")
            for _ in range(2000):
                launch(kernel, 1.0, x, y, N, stream=stream)
            stream.synchronize()
            assert torch.equal(y, 2000 * x)

    at_once(partial(work, number) for number in range(8))


def test_a_thread_without_a_context():
    """A stream of its own says where a launch goes; the legacy stream is that of the current context."""
    kernel, home = new_kernel(), driver.ensure_context()
    handle = driver.check(driver.bindings().cuStreamCreate(driver.bindings().CUstream_flags.CU_STREAM_NON_BLOCKING))
    side = device.GpuStream(handle, driver.current_ordinal(), context=home)
    x, y = device.array(np.ones(N, np.float32), stream=side), device.zeros(N, stream=side)
    for _ in range(BY_PYTHON):
        launch(kernel, 1.0, x, y, N, stream=side)

    def work():
        driver.check(driver.bindings().cuCtxSetCurrent(None))
        for _ in range(100):
            launch(kernel, 1.0, x, y, N, stream=side)
        assert not driver.current_context()

    at_once([work])
    assert (y.numpy() == BY_PYTHON + 100).all()


def test_prepared(torch):
    kernel, stream = new_kernel(), torch.cuda.current_stream()
    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    step = device.prepare(kernel, 1.0, x, y, N, grid=4, block=256, stream=stream)
    for _ in range(1000):
        step()
    for _ in range(1000):
        step(2.0)
    assert sum(variant.launches for variant in kernel.variants.values()) == BY_PYTHON
    assert torch.equal(y, torch.full_like(y, 3000))
