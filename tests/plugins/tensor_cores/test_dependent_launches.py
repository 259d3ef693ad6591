"""Dependent launches: the entities, and the attribute of the launch on all paths."""

import ctypes
import struct

import numpy as np
import pytest
from conftest import properties_of
from fake_driver import CONTEXT, installed

import cuda_device as device

SERIALISATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
CLUSTER = 4
FLOATS = device.ArrayType(device.float32, 1)


@device.kernel
def add(x, y):
    """Reads what the launch before has written."""
    device.launch_dependents()
    device.wait_dependencies()
    i = device.tid(1)
    if i < len(y):
        y[i] += x[i]


def has_them(stream):
    """Whether a stream has dependent launches."""
    return stream.kind == "cpu" or (not stream.emulated and properties_of(stream.stream).capability >= (9, 0))


def test_a_chain_of_dependent_launches(stream):
    if not has_them(stream):
        pytest.skip("no dependent launches")
    x, y = (stream.array(np.ones(1000, np.float32)) for _ in range(2))
    step = device.prepare(add, x, y, grid=4, block=256, dependent=True, stream=stream.stream)
    for _ in range(10):
        device.launch(add, y, x, grid=4, block=256, stream=stream.stream, dependent=True)
        step()
    a = b = 1
    for _ in range(10):
        a += b
        b += a
    assert (stream.numpy(x) == a).all() and (stream.numpy(y) == b).all()


def test_a_graph_of_dependent_launches(stream):
    if not has_them(stream):
        pytest.skip("no dependent launches")
    x, y = (stream.array(np.ones(1000, np.float32)) for _ in range(2))
    with device.graph(stream.stream) as graph:
        for source, target in ((y, x), (x, y), (y, x)):
            device.launch(add, source, target, grid=4, block=256, stream=graph.stream, dependent=source is x)
    graph.launch()
    assert stream.numpy(x)[999] == 5 and stream.numpy(y)[0] == 3


def test_instructions_and_architectures():
    ptx = device.compile(add, FLOATS, FLOATS, target="sm_90", output="ptx").code
    first, second = ptx.index("griddepcontrol.launch_dependents;"), ptx.index("griddepcontrol.wait;")
    assert first < second < ptx.index("ld.global") and "ld.global.nc" not in ptx
    with pytest.raises(device.CompileError, match="needs sm_90 or later, and this is compiled for sm_80") as caught:
        device.compile(add, FLOATS, FLOATS, target="sm_80")
    assert caught.value.location.file == __file__
    x = np.zeros(4, np.float32)
    with pytest.raises(device.LaunchError, match="dependent=True: sm_80 has no dependent launches"):
        device.launch(plain, x, grid=1, block=32, dependent=True, stream=device.cpu_stream(target="sm_80"))


@device.kernel
def plain(x):
    x[0] = 1


@device.kernel
def named(x, dependent):
    x[0] = dependent


def test_the_option():
    x, stream = np.zeros(4, np.float32), device.cpu_stream()
    for value in (True, False):  # an argument of the kernel
        device.launch(named, x, dependent=value, grid=1, block=1, stream=stream)
        assert x[0] == value
    device.launch(plain.bind(grid=1, block=1, dependent=lambda x: True), x, stream=stream)
    with pytest.raises(device.LaunchError, match="dependent='yes' is not a bool"):
        device.launch(plain, x, grid=1, block=1, dependent="yes", stream=stream)


@pytest.fixture
def launches():
    """A fake GPU's stream, and the attributes of each launch by `cuLaunchKernelEx`, by number."""
    seen = []

    def launch(config, *_):
        *_, attributes, count = struct.unpack("=7I4xQQI4x", ctypes.string_at(config, 56))
        records = [ctypes.string_at(attributes + 72 * i, 72) for i in range(count)]
        seen.append({record[0]: struct.unpack("=4x4x3I52x", record) for record in records})
        return (0,)

    with installed() as gpu:
        gpu.stack[-1] = CONTEXT
        gpu.cuLaunchKernelEx = launch
        yield device.GpuStream(7, 0, context=CONTEXT), seen


def test_all_paths_pass_the_attribute_to_the_driver(launches, tmp_path):
    stream, seen = launches
    x = device.zeros(4, stream=stream)
    for _ in range(20):  # also when machine code makes other launches
        device.launch(plain, x, grid=2, block=1, stream=stream)
    assert not seen
    device.launch(plain, x, grid=2, block=1, stream=stream, dependent=True)
    device.prepare(plain, x, grid=2, block=1, stream=stream, dependent=True)()
    device.launch(plain, x, grid=2, block=1, cluster=2, stream=stream, dependent=True)
    device.launch(plain, x, grid=2, block=1, cluster=2, stream=stream, dependent=False)
    device.compile(plain, FLOATS).launch(x, grid=2, block=1, stream=stream, dependent=True)
    assert [attributes.get(SERIALISATION, (0,))[0] for attributes in seen] == [1, 1, 1, 0, 1]
    assert [attributes.get(CLUSTER) for attributes in seen] == [None, None, (2, 1, 1), (2, 1, 1), None]


def test_groups_pass_it_on():
    group = device.DeviceGroup([device.cpu_stream()] * 2)
    arrays = [np.zeros(1, np.float32) for _ in range(2)]
    device.launch_group(group, plain, arrays, grid=1, block=1, dependent=True)
    assert [array[0] for array in arrays] == [1, 1]
