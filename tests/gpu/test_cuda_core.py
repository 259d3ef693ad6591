"""Objects of cuda.core on a real GPU: streams with torch and CuPy, events, graph builders, code and memory resources."""

import gc
import threading

import numpy as np
import pytest
from conftest import LAUNCHES, target_of
from late import COUNT, Late
from processes import python

import cuda_device as device
from cuda_device.plugins.cpp import sources
from cuda_device.runtime.arrays.array_interface import view_of
from cuda_device.runtime.gpu import driver

pytestmark = pytest.mark.skipif(not driver.available(), reason=f"no GPU: {driver.unavailable_reason()}")


@device.kernel
def add(x, value):
    i = device.tid(1)
    if i < len(x):
        x[i] += value


def launch(x, value, stream):
    device.launch(add, x, value, grid=(len(x) + 255) // 256, block=256, stream=stream)


@pytest.fixture(scope="module")
def core():
    from cuda import core

    return core


@pytest.fixture(scope="module")
def late():
    driver.ensure_context()
    return Late()


@pytest.fixture
def stream():
    created = device.stream()
    yield created
    created.sync()


# Streams and events


def test_streams_and_events_are_those_of_cuda_core(core):
    stream, event = device.stream(priority=-1), device.event(timing=True)
    assert isinstance(stream, core.Stream) and isinstance(event, core.Event)
    assert stream.priority == -1 and stream.is_nonblocking and event.is_timing_enabled
    assert not device.event().is_timing_enabled and device.stream().priority == 0
    with pytest.raises(ValueError, match="priority"):
        device.stream(priority=100)


def test_launches_do_not_import_cuda_core():
    code = """
import sys
import cuda_device as device
@device.kernel
def add(x):
    x[device.tid(1)] += 1
x = device.zeros(32)
for _ in range(20):
    device.launch(add, x, grid=1, block=32)
assert x.numpy().tolist() == [20] * 32
assert not [name for name in sys.modules if name.startswith("cuda.core")]
device.stream()
assert "cuda.core" in sys.modules
"""
    python("-c", code, timeout=120)


def test_events_measure_what_runs_between_them(late, stream):
    begin, end = device.event(timing=True), device.event(timing=True)
    x = device.zeros(COUNT, np.int32, stream=stream)
    assert stream.record(begin) is begin
    late.fill(view_of(x).data, 5, int(stream.handle))  # 50 ms later
    stream.record(end)
    assert not end.is_done
    end.sync()
    assert end.is_done and 45 < end - begin < 5000
    with pytest.raises(RuntimeError, match="timing"):
        stream.record() - begin


@pytest.mark.parametrize("waits_for", ["event", "stream"])
def test_a_stream_waits_for_another_one(late, stream, waits_for):
    other = device.stream()
    x = device.zeros(COUNT, np.int32, stream=stream)
    other.wait(stream)
    late.fill(view_of(x).data, 5, int(other.handle))
    stream.wait(other.record() if waits_for == "event" else other)
    assert (x.numpy() == 5).all()


def test_the_default_stream_waits_and_records(late, stream):
    default = device.default_stream()
    x = device.zeros(COUNT, np.int32)
    stream.wait(default)
    late.fill(view_of(x).data, 5, int(stream.handle))
    default.wait(stream.record())
    assert (x.numpy() == 5).all()
    event = default.record(device.event())
    event.sync()
    assert event.is_done and default.priority == 0


def test_another_thread_creates_streams():
    found = []

    def create():
        stream = device.stream()
        x = device.zeros(100, np.int32, stream=stream)
        launch(x, 3, stream)
        found.append((x.numpy(), device.event()))

    thread = threading.Thread(target=create)
    thread.start()
    thread.join()
    assert (found[0][0] == 3).all()


def test_torch_uses_a_created_stream(late, stream):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA")
    x, handle = torch.zeros(COUNT, dtype=torch.int32, device="cuda"), int(stream.handle)
    torch.cuda.synchronize()
    for i in range(LAUNCHES):
        late.fill(x.data_ptr(), i, handle, wait=5_000_000)
        with torch.cuda.stream(torch.cuda.ExternalStream(handle)):
            y = x + 1
            launch(y, 10, stream)
            y *= 2
            assert (y == 2 * (i + 11)).all().item()


def test_cupy_uses_a_created_stream(late, stream):
    cupy = pytest.importorskip("cupy")
    x, handle = cupy.zeros(COUNT, cupy.int32), int(stream.handle)
    cupy.cuda.Device().synchronize()
    for i in range(LAUNCHES):
        late.fill(x.data.ptr, i, handle, wait=5_000_000)
        from_external = getattr(cupy.cuda.Stream, "from_external", None)  # of CuPy 14
        with from_external(stream) if from_external else cupy.cuda.ExternalStream(handle):
            y = x + 1
            launch(y, 10, stream)
            y *= 2
            assert (y == 2 * (i + 11)).all()


# Graph builders


def test_a_graph_builder_records_launches(stream):
    x = device.zeros(1000, np.int32, stream=stream)
    other = device.zeros(1000, np.int32)  # of the default stream
    stream.wait(device.default_stream())
    builder = stream.create_graph_builder().begin_building()
    for i in range(LAUNCHES):
        launch(x, i, builder)
        launch(other, 1, builder)
    graph = builder.end_building().complete()
    assert not x.numpy().any()
    for _ in range(3):
        graph.launch(stream)
    stream.sync()
    assert (x.numpy() == 3 * sum(range(LAUNCHES))).all() and (other.numpy() == 3 * LAUNCHES).all()


def test_split_builders(stream, core):
    x, y = (device.zeros(1000, np.int32, stream=stream) for _ in range(2))
    builder = stream.create_graph_builder().begin_building()
    launch(x, 1, builder)
    left, right = builder.split(2)
    for _ in range(LAUNCHES):
        launch(x, 1, left)
        launch(y, 2, right)
    joined = core.graph.GraphBuilder.join(left, right)
    launch(y, 100, joined)
    graph = joined.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert (x.numpy() == 1 + LAUNCHES).all() and (y.numpy() == 100 + 2 * LAUNCHES).all()


@device.extern(symbol="cudaGraphSetConditional")
def set_condition(condition: device.uint64, value: device.uint32) -> None: ...


@device.kernel
def count_down(x, condition: device.uint64):
    x[0] -= 1
    if x[0] == 0:
        set_condition(condition, 0)


def test_conditional_nodes(stream):
    x, y = device.array([5], stream=stream), device.zeros(100, np.int32, stream=stream)
    builder = stream.create_graph_builder().begin_building()
    condition = builder.create_condition(default_value=1)
    body = builder.while_loop(condition).begin_building()
    device.launch(count_down, x, int(condition.handle), grid=1, block=1, stream=body)
    for _ in range(LAUNCHES):  # some by machine code
        launch(y, 1, body)
    body.end_building()
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert x.numpy().tolist() == [0] and (y.numpy() == 5 * LAUNCHES).all()


# Code


@pytest.mark.parametrize("output", ["cubin", "ptx"])
def test_cuda_core_launches_our_kernel(output, stream, core):
    x = device.zeros(1000, np.int32, stream=stream)
    target = target_of(device.default_stream())
    compiled = device.compile(add, device.ArrayType(np.int32, 1), np.int32, target=target, output=output)
    code = compiled.object_code()
    for name in (compiled.symbol, "add"):
        kernel, config = code.get_kernel(name), core.LaunchConfig(grid=4, block=256)
        core.launch(stream, config, kernel, view_of(x).data, np.int64(1000), np.int32(7))
    assert (x.numpy() == 14).all()


@pytest.mark.parametrize("kind", ["cubin", "ltoir"])
def test_a_kernel_of_ours_calls_code_of_cuda_core(kind, stream, core):
    if kind == "ltoir" and not sources._linker_takes_lto():
        pytest.skip("nvJitLink is older than NVRTC")
    text = 'extern "C" __device__ int twice(int x) { return 2 * x; }'
    options = core.ProgramOptions(
        arch=target_of(device.default_stream()),
        relocatable_device_code=True,
        link_time_optimization=kind == "ltoir" or None,
    )

    @device.extern(link=core.Program(text, "c++", options).compile(kind))
    def twice(x: device.int32) -> device.int32: ...

    @device.kernel
    def double(x):
        i = device.tid(1)
        x[i] = twice(x[i])

    x = device.array(np.arange(64, dtype=np.int32), stream=stream)
    device.launch(double, x, grid=1, block=64, stream=stream)
    assert x.numpy().tolist() == list(range(0, 128, 2))


def test_cuda_core_links_our_function(stream, core):
    @device.func(interop=True)
    def thrice(x: device.int32) -> device.int32:
        return 3 * x

    target = target_of(device.default_stream())
    text = 'extern "C" __device__ int thrice(int); extern "C" __global__ void k(int* x) { *x = thrice(*x); }'
    options = core.ProgramOptions(arch=target, relocatable_device_code=True)
    ours = device.compile(thrice, target=target).object_code()
    theirs = core.Program(text, "c++", options).compile("cubin")
    linked = core.Linker(ours, theirs, options=core.LinkerOptions(arch=target)).link("cubin")
    x = device.array([5], stream=stream)
    core.launch(stream, core.LaunchConfig(grid=1, block=1), linked.get_kernel("k"), view_of(x).data)
    assert x.item() == 15


# Memory resources


@pytest.fixture
def pool(core):
    core.Device(0).set_current()
    return core.DeviceMemoryResource(0, core.DeviceMemoryResourceOptions())


def test_arrays_are_in_the_memory_of_a_resource(pool, stream):
    x = device.array(np.arange(1000), stream=stream, memory=pool)
    y = device.full(1000, 2, np.int64, memory=pool)
    z = device.zeros_like(y, np.int8, memory=pool)
    assert pool.attributes.used_mem_current >= 17_000
    for _ in range(LAUNCHES):
        launch(x, 1, stream)
        launch(y, 1, stream)
        launch(z, 1, None)
    assert (x.numpy() == np.arange(1000) + LAUNCHES).all() and (y.numpy() == 2 + LAUNCHES).all()
    assert (z.numpy() == LAUNCHES).all()
    del x, y, z
    gc.collect()
    device.synchronize(stream)  # which releases what the launches used
    device.synchronize()
    driver.synchronize_context()
    assert pool.attributes.used_mem_current == 0


def test_memory_is_freed_after_the_work_of_its_stream(late, pool, stream):
    x = device.zeros(COUNT, np.int32, stream=stream, memory=pool)
    late.fill(view_of(x).data, 9, int(stream.handle))
    del x
    gc.collect()
    others = [device.zeros(COUNT, np.int32, stream=stream, memory=pool) for _ in range(4)]
    assert not any(other.numpy().any() for other in others)


def test_memory_that_others_use_is_freed_after_their_work(late, pool, stream):
    torch = pytest.importorskip("torch")
    x = device.zeros(COUNT, np.int32, stream=stream, memory=pool)
    tensor = torch.from_dlpack(x)
    address = tensor.data_ptr()
    stream.sync()
    with torch.cuda.stream(torch.cuda.Stream()):
        late.fill(address, 9, torch.cuda.current_stream().cuda_stream)
        del x, tensor
        gc.collect()
    others = [device.zeros(COUNT, np.int32, stream=stream, memory=pool) for _ in range(4)]
    torch.cuda.synchronize()
    assert not any(other.numpy().any() for other in others)


@pytest.mark.parametrize("kind", ["LegacyPinnedMemoryResource", "ManagedMemoryResource"])
def test_memory_of_other_kinds(kind, stream, core):
    resource = getattr(core, kind)()
    x = device.array(np.arange(1000), stream=stream, memory=resource)
    launch(x, 1, stream)
    assert (x.numpy() == np.arange(1000) + 1).all()


def test_a_resource_without_memory_is_an_error(core, stream):
    small = core.DeviceMemoryResource(0, core.DeviceMemoryResourceOptions(max_size=1 << 22))
    with pytest.raises(device.LaunchError, match="DeviceMemoryResource cannot allocate 1099511627776 bytes"):
        device.empty(1 << 40, np.uint8, stream=stream, memory=small)
    assert not device.zeros(100, stream=stream, memory=small).numpy().any()
