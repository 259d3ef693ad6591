"""Streams, events, code and memory of cuda.core: the CPU's equivalents, and cuda.core itself with a driver written in C."""

import contextlib
import os
import pickle
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import fake_driver
import golden_pages
import numpy as np
import pytest
from conftest import StreamUnderTest

import cuda_device as device

COMPILER = shutil.which("cc") or shutil.which("gcc")


@device.kernel
def add(x, value):
    i = device.tid(1)
    if i < len(x):
        x[i] += value


@device.kernel
def mark(group):
    i = device.tid(1)
    group.own[i] = group.rank + i


@pytest.fixture
def created(stream: StreamUnderTest):
    """A stream of `device.stream()` on the CPU, as on a machine without a GPU, or on the GPU."""
    if stream.emulated:
        pytest.skip("cuda.core needs the library of a driver")
    with fake_driver.no_gpu() if stream.kind == "cpu" else contextlib.nullcontext():
        yield device.stream()


# Streams and events


def test_streams_wait_for_events_and_each_other(stream, created):
    x, other = stream.array(np.zeros(100, np.int32)), device.stream(priority=0)
    device.launch(add, x, 1, grid=1, block=128, stream=created)
    done = created.record()
    other.wait(done)
    device.launch(add, x, 1, grid=1, block=128, stream=other)
    created.wait(other)
    device.launch(add, x, 1, grid=1, block=128, stream=created)
    created.sync()
    assert done.is_done and other != created and created == created
    assert stream.numpy(x).tolist() == [3] * 100


def test_events_measure_milliseconds(stream, created):
    x, (begin, end) = stream.array(np.zeros(100, np.int32)), (device.event(timing=True) for _ in range(2))
    device.launch(add, x, 1, grid=1, block=128, stream=created)
    assert created.record(begin) is begin
    for _ in range(100):
        device.launch(add, x, 1, grid=1, block=128, stream=created)
    created.record(end)
    end.sync()
    assert 0.01 < end - begin < 60_000
    assert -60_000 < begin - end < -0.01


@pytest.mark.parametrize("timing", [(True, False), (False, True), (False, False)])
def test_only_events_with_timing_can_be_subtracted(created, timing):
    begin, end = (created.record(device.event(each)) for each in timing)
    end.sync()
    with pytest.raises(RuntimeError, match="timing"):
        end - begin


def test_only_recorded_events_can_be_subtracted(created):
    begin, end = created.record(device.event(timing=True)), device.event(timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        end - begin
    with pytest.raises(TypeError):
        begin - 1


def test_closed_streams_and_events(stream, created):
    event, x = created.record(), stream.array(np.zeros(3, np.int32))
    event.close()
    with pytest.raises(RuntimeError):
        created.record(event)
    created.close()
    for use in (created.sync, created.record, lambda: device.launch(add, x, 1, grid=1, block=32, stream=created)):
        with pytest.raises((device.LaunchError, RuntimeError), match="closed"):
            use()
    device.launch(add, x, 1, grid=1, block=32, stream=device.stream())
    assert stream.numpy(x).tolist() == [1, 1, 1]


@pytest.mark.needs("bound_kernels")
@pytest.mark.needs("graphs")
def test_what_takes_a_stream_takes_a_created_one(stream, created):
    x = device.zeros(100, np.int32, stream=created)
    device.prepare(add, x, 1, grid=1, block=128, stream=created)()
    add.bind(grid=1, block=128)(x, 1, stream=created)
    with device.graph(created) as graph:
        device.launch(add, x, 10, grid=1, block=128, stream=graph.stream)
    graph.launch()
    device.synchronize(created)
    assert x.numpy().tolist() == [12] * 100
    assert device.zeros_like(x).stream == x.stream
    assert device.as_array(x, 2, stream=created).shape == (1, 100)


@pytest.mark.parametrize("kind", ["default", "created"])
def test_the_default_stream_has_the_methods_of_created_ones(stream, created, kind):
    here, event = device.default_stream() if kind == "default" else created, device.event()
    here.record(event)
    here.wait(event)
    here.wait(created)
    created.wait(here)
    here.sync()
    assert here.record().is_done and here.priority == 0
    here.close()


def test_a_priority_is_an_int(created):
    with pytest.raises(TypeError):
        device.stream(priority="high")
    assert device.stream(priority=0).priority == 0


# On the CPU


@pytest.mark.needs("groups")
def test_streams_of_the_cpu(no_gpu):
    first, second = device.stream(priority=-3), device.stream()
    assert isinstance(first, device.CpuStream) and (first.handle, first.priority, second.priority) == (None, -3, 0)
    assert len({first, second}) == 2 and device.cpu_stream() == device.cpu_stream()
    group = device.DeviceGroup([first, second])
    x = group.arrays(4, np.int32)
    device.launch_group(group, mark, x, grid=1, block=4)
    assert [x.local(rank).numpy().tolist() for rank in range(2)] == [[0, 1, 2, 3], [1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda stream: stream.record(3), TypeError, r"3 is not an event of a CPU stream: pass CpuEvent\("),
        (lambda stream: stream.wait(None), device.LaunchError, r"(?s)wait needs an event.*help: pass an event"),
        (lambda stream: stream.wait("x"), device.LaunchError, "'x' is not a stream"),
    ],
)
def test_what_is_no_event(no_gpu, use, error, message):
    with pytest.raises(error, match=message):
        use(device.stream())


@pytest.mark.needs("graphs")
def test_an_event_in_a_graph_has_no_time(no_gpu):
    stream, (before, within) = device.stream(), (device.event(timing=True) for _ in range(2))
    stream.record(before)
    with device.graph(stream) as graph:
        graph.stream.wait(graph.stream.record(within))
    graph.launch()
    with pytest.raises(RuntimeError, match="outside of graphs"):
        within - before


@pytest.mark.needs("cpu")
def test_an_unpickled_cpu_stream_is_another_one(no_gpu):
    x = pickle.loads(pickle.dumps(device.zeros(3, np.int32, stream=device.stream(priority=-1))))
    copied = pickle.loads(pickle.dumps(device.stream(priority=-1)))
    assert copied.priority == -1 and copied != x.stream
    device.launch(add, x, 1, grid=1, block=32, stream=copied)
    copied.sync()
    assert x.numpy().tolist() == [1, 1, 1]


@pytest.mark.needs("cpu")
def test_cpu_arrays_take_no_memory_resource(no_gpu):
    for make in (
        lambda: device.empty(3, memory=object()),
        lambda: device.zeros(3, memory=object(), stream=device.stream()),
        lambda: device.array([1, 2], memory=object()),
        lambda: device.full(3, 1, memory=object()),
        lambda: device.zeros_like(np.zeros(3), memory=object()),
    ):
        with pytest.raises(device.LaunchError, match="but the stream is a CPU stream"):
            make()


def test_without_cuda_core(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with fake_driver.installed():
        for use in (device.stream, device.event, device.default_stream().record):
            with pytest.raises(device.LaunchError, match="(?s)cuda.core cannot be imported: .*pip install 'cuda-core"):
                use()
        assert device.zeros(3).numpy().tolist() == [0, 0, 0]


def test_cuda_core_is_a_dependency_where_nvidia_publishes_it():
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["project"]
    where = {name.split()[0]: name.partition(";")[2].strip() for name in project["dependencies"]}
    assert where["cuda-core"] == where["cuda-bindings"] == "sys_platform == 'linux' or sys_platform == 'win32'"


# Code


OUTPUTS = [
    pytest.param(output, marks=pytest.mark.needs(plugin) if plugin else ())
    for output, plugin in (("cubin", ""), ("ptx", ""), ("ltoir", "ltoir"), ("fatbin", "saved"))
]


@pytest.mark.parametrize("output", OUTPUTS)
def test_compiled_code_as_an_object_of_cuda_core(output):
    compiled = device.compile(add, device.ArrayType(np.int32, 1), np.int32, output=output)
    code = compiled.object_code()
    assert (code.code_type, code.name) == (output, "add")
    assert bytes(code.code) == (compiled.code.encode() if output == "ptx" else compiled.code)


@pytest.mark.needs("saved")
@pytest.mark.needs("ltoir")
def test_other_outputs_are_no_code_for_gpus():
    compiled = device.compile(add, device.ArrayType(np.int32, 1), np.int32, output="llvm")
    with pytest.raises(ValueError, match="'llvm' is not code for GPUs: compile to one of ptx, cubin, ltoir, fatbin"):
        compiled.object_code()


def of_cpp(kind: str, folder: Path):
    """A function of C++ that cuda.core has compiled, or read from a file."""
    from cuda.core import ObjectCode, Program, ProgramOptions

    options = ProgramOptions(
        arch="sm_90", relocatable_device_code=True, link_time_optimization=kind == "ltoir" or None, name="twice.cu"
    )
    text = 'extern "C" __device__ float twice(float x) { return 2 * x; }'
    if kind != "file":
        return Program(text, "c++", options).compile(kind)
    path = folder / "twice.cubin"
    path.write_bytes(Program(text, "c++", options).compile("cubin").code)
    return ObjectCode.from_cubin(str(path))


@pytest.mark.parametrize("kind", ["cubin", "ltoir", "file"])
def test_code_of_cuda_core_is_linked(kind, tmp_path):
    @device.extern(link=of_cpp(kind, tmp_path))
    def twice(x: device.float32) -> device.float32: ...

    @device.kernel
    def doubles(x):
        x[0] = twice(x[0])

    types = [device.ArrayType(np.float32, 1)]
    assert device.compile(doubles, *types).registers
    if kind == "cubin":
        with pytest.raises(device.CompileError, match="twice.cu was compiled for sm_90, and cannot be linked"):
            device.compile(doubles, *types, target="sm_80")


# cuda.core itself. A process has one driver's library, so each program of cuda_core_programs.txt runs in a process of its own.

BEGIN = """
import ctypes, sys
import numpy as np
import cuda_device as device
fake = ctypes.CDLL("libcuda.so.1")
fake.fake_log.restype = ctypes.c_char_p
def log():
    return fake.fake_log().decode().splitlines()
@device.kernel
def add(x, value):
    i = device.tid(1)
    if i < len(x):
        x[i] += value
"""


@pytest.fixture(scope="module")
def run_with_driver(tmp_path_factory):
    """Runs a program with the fake driver's library, whose device does not run kernels."""
    if COMPILER is None or sys.platform != "linux":
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    source, library = Path(__file__).parents[1] / "fake_cuda.c", folder / "libcuda.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-w", "-o", library, source, "-ldl"], check=True)

    def run(program: str) -> None:
        known = {"LD_LIBRARY_PATH": str(folder), "CUDA_DEVICE_ASSEMBLER": "nvJitLink"}
        command = [sys.executable, "-W", "error", "-c", BEGIN + program]
        done = subprocess.run(command, env=os.environ | known, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


TEXTS = golden_pages.texts_in(Path(__file__).with_name("cuda_core_programs.txt"))
WITH = TEXTS.pop("with")
"""What the others can use."""


@pytest.mark.parametrize("program", TEXTS.values(), ids=TEXTS)
def test_cuda_core_with_a_drivers_library(run_with_driver, program):
    run_with_driver(WITH + program if "Resource" in program else program)
