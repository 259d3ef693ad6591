"""`graph`: launches that are put together once and start together, are updated, and errors that say what cannot be."""

from __future__ import annotations

import gc
import linecache
import weakref

import numpy as np
import pytest
from fake_driver import CONTEXT, installed

import cuda_device as device
from cuda_device.runtime.gpu import streams


@device.kernel
def scale(x, factor):
    i = device.tid(1)
    if i < len(x):
        x[i] = x[i] * factor


@device.kernel
def shift(x, amount):
    i = device.tid(1)
    if i < len(x):
        x[i] = x[i] + amount


def update(graph, *launches):
    """Updates a graph with launches, each a kernel, an array, a number, and the size of a block."""
    with graph.update():
        for kernel, x, number, block in launches:
            device.launch(kernel, x, number, grid=1, block=block, stream=graph.stream)


@pytest.fixture
def built(stream):
    """x → 2 x + 1."""
    x = stream.array(np.arange(100, dtype=np.int32))
    with device.graph(stream.stream) as graph:
        device.launch(scale, x, 2, grid=1, block=128, stream=graph.stream)
        device.launch(shift, x, 1, grid=4, block=32, stream=graph.stream)
    return graph, x


NUMBERS = np.arange(100)


def test_nothing_runs_before_it_is_launched(stream, built):
    graph, x = built
    assert (stream.numpy(x) == NUMBERS).all()
    for turn in range(1, 4):
        graph.launch()
        assert (stream.numpy(x) == (NUMBERS + 1) * 2**turn - 1).all()
    assert repr(graph) == "<graph of 2 launches: scale, shift>"


def test_launches_in_between_are_seen(stream, built):
    graph, x = built
    graph.launch(stream.stream)
    device.launch(shift, x, -1, grid=1, block=128, stream=stream.stream)
    graph.launch()
    assert (stream.numpy(x) == 4 * NUMBERS + 1).all()


def test_updates(stream, built):
    graph, x = built
    y = stream.array(np.ones(300, np.float32))  # of another type, which is another kernel for the machine
    graph.launch()
    with graph.update():
        device.launch(shift, y, 1.0, grid=3, block=128, stream=graph.stream)
        device.launch(scale, y, 10.0, grid=3, block=128, stream=graph.stream)
    assert (stream.numpy(y) == 1).all()
    graph.launch()
    graph.launch()
    assert (stream.numpy(y) == 210).all()
    assert (stream.numpy(x) == 2 * NUMBERS + 1).all()


def test_an_update_with_other_launches_is_refused(stream, built):
    graph, x = built
    with pytest.raises(
        device.LaunchError,
        match=r"2 launches but its update has 3: the launch of shift at .*test_graphs.py:\d+ is extra",
    ):
        update(graph, *[(shift, x, 5, 128)] * 3)
    with pytest.raises(
        device.LaunchError, match=r"update has 1: the launch of shift at .* is missing\n  help: make the same"
    ) as caught:
        update(graph, (scale, x, 5, 128))
    line = int(str(caught.value).partition("test_graphs.py:")[2].split()[0])
    assert "device.launch(shift, x, 1" in linecache.getline(__file__, line)
    graph.launch()  # as before
    assert (stream.numpy(x) == 2 * NUMBERS + 1).all()


def test_an_exception_leaves_the_graph_as_it_was(stream, built):
    graph, x = built
    with pytest.raises(device.LaunchError, match="block=2048"):
        update(graph, (scale, x, 3, 2048))
    with pytest.raises(ValueError, match="not enough values"):
        update(graph, (scale, x, 3, 128), ())
    graph.launch()
    assert (stream.numpy(x) == 2 * NUMBERS + 1).all()


def test_prepared_and_bound_launches(stream):
    x = stream.array(np.ones(100, np.int32))
    with device.graph(stream.stream) as graph:
        prepared = device.prepare(scale, x, 3, grid=1, block=128, stream=graph.stream)
        for _ in range(3):
            prepared()
        shift.bind(threads=lambda x, amount: len(x), block=64)(x, 1, stream=graph.stream)
    graph.launch()
    assert (stream.numpy(x) == 28).all()


def test_wrong_uses(stream):
    graph = device.graph(stream.stream)
    assert repr(graph) == "<graph without launches>"
    for use in (graph.launch, graph.update):
        with pytest.raises(device.LaunchError, match="has not been built\n  help: make its launches within"):
            use()
    with pytest.raises(device.LaunchError, match=r"is not being built\n  help: launch on graph\.stream within"):
        _ = graph.stream
    with graph, pytest.raises(device.LaunchError, match="is being built already"):
        graph.__enter__()
    graph.launch()  # of nothing
    with pytest.raises(device.LaunchError, match="is not a stream"):
        device.graph("stream")

    @device.host_function
    def call():
        raise AssertionError

    with graph, pytest.raises(device.LaunchError, match="the stream is being captured into a graph"):
        call(stream=graph.stream)


def test_what_kernels_report(stream):
    @device.kernel
    def k(x):
        assert x[0] < 3, "too large"
        x[0] += 1

    x = stream.array(np.zeros(1, np.int32))
    with device.graph(stream.stream) as graph:
        device.launch(k, x, grid=1, block=1, stream=graph.stream)
    for _ in range(3):
        graph.launch()

    def fail():
        graph.launch()
        device.synchronize(stream.stream)

    with pytest.raises(device.KernelError, match="too large"):
        fail()
    assert stream.numpy(x).tolist() == [3]


def test_arrays_live_as_long_as_the_graph():
    x = np.ones(100, np.int32)
    alive = weakref.ref(x)
    graph = device.graph(device.cpu_stream())
    with graph:
        device.launch(scale, x, 3, grid=1, block=128, stream=graph.stream)
    del x
    gc.collect()
    graph.launch()
    assert (alive() == 3).all()
    del graph
    gc.collect()
    assert alive() is None


@pytest.fixture
def gpu():
    with installed() as driver:
        driver.stack[-1] = CONTEXT
        yield driver


def test_the_driver_is_told(gpu):
    kept = len(streams.captured)
    stream = device.GpuStream(0x77, 0, context=CONTEXT)
    x = device.zeros(8, np.int32, stream=device.default_stream())
    with device.graph(stream) as graph:
        for _ in range(12):  # machine code would not say which launches there are
            device.launch(shift, x, 1, grid=1, block=8, stream=graph.stream)
    assert len(graph._launches) == 12 and len({launch.node for launch in graph._launches}) == 12
    names = [name for name in gpu.names() if "Capture" in name or "Graph" in name]
    assert names == ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiateWithParams", "cuGraphDestroy"]
    assert "cuEventRecord" not in gpu.names() and len(streams.captured) == kept
    gpu.log.clear()
    graph.launch()
    names = [name for name in gpu.names() if name != "cuEventCreate"]
    # It waits for the stream of its array, which waits for it; and an event tells when the arrays can go.
    both = ["cuEventRecord", "cuStreamWaitEvent"]
    assert names == [*both, "cuGraphLaunch", *both, "cuEventRecord"]
    gpu.log.clear()
    with graph.update():
        for _ in range(12):
            device.launch(shift, x, 2, grid=1, block=8, stream=graph.stream)
    assert "cuGraphExecUpdate" in gpu.names() and "cuGraphInstantiateWithParams" not in gpu.names()
    stream.synchronize()
    del graph
    gc.collect()
    assert "cuGraphExecDestroy" in gpu.names() and not gpu.graphs


def test_the_legacy_stream_has_another_captured(gpu):
    x = device.zeros(8, np.int32)
    with device.graph() as graph:
        assert graph.stream.handle != device.default_stream().handle
        device.launch(shift, x, 1, grid=1, block=8, stream=graph.stream)
    assert gpu.names().count("cuStreamCreate") == gpu.names().count("cuStreamDestroy") == 1
    gpu.log.clear()
    graph.launch()
    assert gpu.names()[0] == "cuGraphLaunch" and gpu.log[0][2] == device.default_stream().handle
    with pytest.raises(
        device.LaunchError, match=r"built for GpuStream\(legacy default, device 0\), and cannot be launched on"
    ):
        graph.launch(device.cpu_stream())


def test_an_update_that_the_driver_refuses(gpu):
    x = device.zeros(8, np.int32)
    with device.graph() as graph:
        device.launch(shift, x, 1, grid=1, block=8, stream=graph.stream)
        device.launch(scale, x, 1, grid=1, block=8, stream=graph.stream)
    gpu.refused = 8, 1
    says = r"launch of shift at .*test_graphs.py:\d+: the driver says .*ATTRIBUTES_CHANGED"
    with pytest.raises(device.LaunchError, match=says):
        update(graph, (scale, x, 1, 8), (shift, x, 1, 8))
    gpu.refused = 99, 0
    with pytest.raises(device.LaunchError, match=r"launch of shift .* says CUgraphExecUpdateResult 99"):
        update(graph, (shift, x, 1, 8), (shift, x, 1, 8))
    assert [launch.name for launch in graph._launches] == ["shift", "scale"]
    graph.launch()


def test_a_graph_hears_of_launches_whose_launcher_is_machine_code():
    """A captured stream of others stays with machine code; that of a graph does not."""
    with installed() as gpu:
        stream = device.GpuStream(7, 0)
        x = device.zeros(8, device.int32, stream=stream)
        kernel = device.kernel(shift.underlying)
        for _ in range(40):
            device.launch(kernel, x, 1, grid=1, block=8, stream=stream)
        before = gpu.by_address
        device.launch(kernel, x, 1, grid=1, block=8, stream=stream)
        assert gpu.by_address == before + 1
        with device.graph(stream) as graph:
            device.launch(kernel, x, 1, grid=1, block=8, stream=graph.stream)
        assert repr(graph) == "<graph of 1 launch: shift>"
        assert gpu.by_address == before + 1
        del graph  # a real driver would take its handle for an address
