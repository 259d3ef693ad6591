"""Launches that were prepared: what they check each time, what they keep alive, and how arguments are exchanged."""

from __future__ import annotations

import copy
import gc
import pickle
import struct
import weakref

import numpy as np
import pytest
from fake_driver import CONTEXT, installed
from ir_helpers import define

import cuda_device as device

FACTOR = 2


@device.kernel
def add(x, y, a=1.0):
    i = device.tid(1)
    if i < len(y):
        y[i] += a * x[i]


def zeros(stream, n=8):
    return stream.array(np.zeros(n, np.float32))


def prepared(stream, *args, **kwargs):
    return device.prepare(add, *args, grid=1, block=32, stream=stream.stream, **kwargs)


def test_it_starts_as_often_as_it_is_called(stream):
    x, y = stream.array(np.arange(8, dtype=np.float32)), zeros(stream)
    step = prepared(stream, x, y, 0.5)
    for _ in range(4):
        step()
    assert stream.numpy(y).tolist() == [2.0 * i for i in range(8)]
    if stream.kind == "cpu":
        x[:] = 1
        step()  # the same memory with other contents
        assert stream.numpy(y).tolist() == [2.0 * i + 0.5 for i in range(8)]


def test_arguments_are_exchanged_for_one_start(stream):
    x, y, other = stream.array(np.ones(8, np.float32)), zeros(stream), zeros(stream)
    step = prepared(stream, x, y)
    step()
    step(x, other)
    step(a=10.0)
    step(y=other, a=100.0)
    step(x, y, 1000.0)
    step()
    assert stream.numpy(y).tolist() == [1012.0] * 8
    assert stream.numpy(other).tolist() == [101.0] * 8


def test_arguments_are_exchanged_for_good(stream):
    x, y, other = stream.array(np.ones(8, np.float32)), zeros(stream), zeros(stream)
    step = prepared(stream, x, y)
    further = step.replace(y=other).replace(a=3.0)
    for launch in (step, further, further):
        launch()
    assert stream.numpy(y).tolist() == [1.0] * 8
    assert stream.numpy(other).tolist() == [6.0] * 8
    assert (further.grid, further.block, further.shared) == ((1, 1, 1), (32, 1, 1), 0)
    assert "add" in repr(further)


def test_another_type_is_another_variant(stream):
    x, y = stream.array(np.full(8, 3, np.int8)), zeros(stream)
    step = prepared(stream, stream.array(np.ones(8, np.float32)), y)
    step(x)
    step(a=np.float64(0.5), x=x)
    step()
    assert stream.numpy(y).tolist() == [5.5] * 8


def test_a_rebound_global_is_seen(stream, monkeypatch):
    @device.kernel
    def scale(y):
        y[device.tid(1)] = FACTOR

    y = zeros(stream, 1)
    step = device.prepare(scale, y, grid=1, block=1, stream=stream.stream)
    step()
    assert stream.numpy(y)[0] == 2
    monkeypatch.setitem(globals(), "FACTOR", 7)
    step()
    assert stream.numpy(y)[0] == 7
    monkeypatch.setitem(globals(), "FACTOR", "seven")
    with pytest.raises(device.CompileError):
        step()


def test_constants_specialise(stream):
    @device.kernel
    def fill(y, n: device.ConstExpr[int]):
        y[device.tid(1)] = device.local_array(n, device.int8).size

    y = zeros(stream, 1)
    step = device.prepare(fill, y, 3, grid=1, block=1, stream=stream.stream)
    step()
    assert stream.numpy(y)[0] == 3
    step(n=4)
    assert stream.numpy(y)[0] == 4
    with pytest.raises(device.LaunchError, match="constant int"):
        step(n=1.5)


@pytest.mark.parametrize(
    ("positional", "named", "reason"),
    [
        ((1, 2, 3, 4), {}, "takes 3 arguments, not 4"),
        ((), {"b": 1}, "no parameter 'b'"),
        ((1,), {"x": 1}, "two values for its parameter 'x'"),
        (("text",), {}, "the argument 'x' is of type str"),
    ],
)
def test_wrong_arguments_are_refused(stream, positional, named, reason):
    x, y = zeros(stream), zeros(stream)
    step = prepared(stream, x, y)
    for act in (step, step.replace):
        with pytest.raises(device.LaunchError, match=reason):
            act(*positional, **named)
    step()


def test_what_launch_refuses_is_refused_at_once(stream):
    x, y = zeros(stream), zeros(stream)
    for wrong, reason in (
        ({"grid": 0, "block": 32}, "grid=0"),
        ({"grid": 1, "block": 2000}, "block=2000"),
        ({"grid": 1, "block": 32, "shared": -1}, "shared=-1"),
    ):
        with pytest.raises(device.LaunchError, match=reason):
            device.prepare(add, x, y, stream=stream.stream, **wrong)
    with pytest.raises(device.LaunchError, match="is missing an argument for 'y'"):
        prepared(stream, x)
    with pytest.raises(device.LaunchError, match="not a kernel|needs a kernel"):
        device.prepare(print, grid=1, block=1)


def test_reports_are_raised_by_the_start(stream):
    @device.kernel
    def check(x):
        assert x[0] > 0

    x = stream.array(np.array([0], np.float32))
    step = device.prepare(check, x, grid=1, block=1, stream=stream.stream)

    def run():
        step()
        device.synchronize(stream.stream)

    for _ in range(2):
        with pytest.raises(device.KernelError, match="AssertionError|assert"):
            run()


# With a driver that records what it is told


@pytest.fixture
def gpu():
    with installed() as fake:
        yield fake


@pytest.fixture
def queue(gpu):
    return device.GpuStream(0x77, 0, context=CONTEXT)


def test_a_prepared_launch_is_one_call_of_the_driver(gpu, queue):
    x, y = (device.array(np.ones(8, np.float32), stream=queue) for _ in range(2))
    step = device.prepare(add, x, y, 0.5, grid=(3, 2), block=64, stream=queue, shared=16)
    step()
    for record in (gpu.log, gpu.launched, gpu.words):
        record.clear()
    gpu.parameters = 5
    step()
    assert [entry for entry in gpu.log if entry[0] not in ("push", "pop")] == [gpu.log[1]]
    assert gpu.log[1][2:] == ((3, 2, 1), (64, 1, 1), 16, 0x77)
    words = gpu.words[0]
    short = 0xFFFFFFFF  # lengths of small arrays are parameters of 32 bits
    assert [words[0], words[1] & short] == [x._cuda_device_view_().data, 8]
    assert [words[2], words[3] & short] == [y._cuda_device_view_().data, 8]
    assert struct.pack("<Q", words[4])[:4] == struct.pack("<f", 0.5)
    step(a=0.25)
    assert struct.pack("<Q", gpu.words[1][4])[:4] == struct.pack("<f", 0.25)
    assert [word & short for word in gpu.words[1][:4]] == [word & short for word in words[:4]]
    step()
    assert [word & short for word in gpu.words[2]] == [word & short for word in words]


def test_arrays_live_as_long_as_what_was_started(gpu, queue):
    elsewhere = device.GpuStream(0x88, 0, context=CONTEXT)
    x, y = (device.array(np.ones(8, np.float32), stream=elsewhere) for _ in range(2))
    watch = weakref.ref(x._memory)
    step = device.prepare(add, x, y, grid=1, block=8, stream=queue)
    gpu.done = False
    step()
    del x
    gc.collect()
    assert watch() is not None
    del step
    gc.collect()
    assert watch() is not None  # the kernel may still run
    gpu.finish()
    queue.synchronize()
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("prepare", [False, True])
def test_what_is_freed_in_the_order_of_the_stream_needs_no_event(gpu, queue, prepare):
    x, y = (device.array(np.ones(8, np.float32), stream=queue) for _ in range(2))
    address = x._cuda_device_view_().data
    gc.collect()
    gpu.log.clear()
    if prepare:
        step = device.prepare(add, x, y, grid=1, block=8, stream=queue)
        step()
        del step
    else:
        device.launch(add, x, y, grid=1, block=8, stream=queue)
    del x
    gc.collect()
    calls = [name for name in gpu.names() if name not in ("push", "pop") and not name.startswith("cuLibrary")]
    assert calls == ["cuLaunchKernel", "cuMemFreeAsync"]
    assert ("cuMemFreeAsync", address, 0x77) in gpu.log


def test_the_per_thread_stream_is_no_order(gpu):
    stream = device.GpuStream(2, 0, context=CONTEXT)
    x, y = (device.array(np.ones(8, np.float32), stream=stream) for _ in range(2))
    device.launch(add, x, y, grid=1, block=8, stream=stream)
    assert "cuEventRecord" in gpu.names()


def test_a_capture_keeps_the_arrays_for_good(gpu, queue):
    x, y = (device.array(np.ones(8, np.float32), stream=queue) for _ in range(2))
    step = device.prepare(add, x, y, grid=1, block=8, stream=queue)
    step()
    gpu.log.clear()
    gpu.capturing.add(0x77)
    step()
    assert [name for name in gpu.names() if name not in ("push", "pop")] == ["cuLaunchKernel"]
    gpu.capturing.clear()
    watch = weakref.ref(x._memory)
    del step, x
    gpu.finish()
    queue.synchronize()
    gc.collect()
    assert watch() is not None


def test_arguments_that_share_memory(stream):
    @device.kernel
    def shift(x, y):
        i = device.tid(1)
        y[i] = x[i] + 1
        device.syncthreads()
        y[i] += x[i]

    def expected(x, y):
        y[:4] = x[:4] + 1
        y[:4] += x[:4]
        return y.tolist()

    x, y = stream.array(np.arange(8, dtype=np.float32)), zeros(stream)
    step = device.prepare(shift, x, y, grid=1, block=4, stream=stream.stream)
    step()
    step(y=x)
    step()
    plain_x, plain_y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for target in (plain_y, plain_x, plain_y):
        expected(plain_x, target)
    assert stream.numpy(y).tolist() == plain_y.tolist()
    assert stream.numpy(x).tolist() == plain_x.tolist()


# On the CPU


LOUD = False


@device.kernel
def say(x):
    if LOUD:
        print("x is", x[0])
    x[0] += 1


def test_a_kernel_that_begins_to_print(capfd, monkeypatch):
    x = np.zeros(1, np.int32)
    step = device.prepare(say, x, grid=1, block=1, stream=device.cpu_stream())
    for loud in (False, True, True, False):
        monkeypatch.setitem(globals(), "LOUD", loud)
        step()
    assert x[0] == 4
    assert capfd.readouterr().out == "x is 1\nx is 2\n"


def test_other_parameters_than_it_was_prepared_with():
    kernel = define("@device.kernel\ndef k(x, n):\n    x[0] = n\n")
    other = define("def k(x):\n    x[0] = 7\n")
    x = np.zeros(1, np.int32)
    step = device.prepare(kernel, x, 3, grid=1, block=1, stream=device.cpu_stream())
    step()
    kernel.underlying.__code__ = other.__code__
    for act in (step, lambda: step(x), lambda: step.replace(a=1)):
        with pytest.raises(
            device.LaunchError, match="k has other parameters than when it was prepared\n  help: prepare it again"
        ):
            act()
    assert x[0] == 3


def test_races_are_looked_for_at_each_start():
    @device.kernel
    def meet(x):
        x[0] = device.tid(1)

    step = device.prepare(meet, np.zeros(1, np.int32), grid=1, block=2, stream=device.cpu_stream(races=True))
    for _ in range(2):
        with pytest.raises(device.KernelError, match="race"):
            step()


def test_arrays_live_as_long_as_what_runs_them():
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    kept = weakref.ref(x)
    step = device.prepare(add, x, y, grid=1, block=32, stream=device.cpu_stream())
    del x
    gc.collect()
    step()
    assert kept() is not None and y.tolist() == [1.0] * 8
    del step
    gc.collect()
    assert kept() is None


def test_it_does_not_leave_its_process():
    prepared = device.prepare(add, *np.zeros((2, 1), np.float32), grid=1, block=1, stream=device.cpu_stream())
    for use in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="belongs to the process that made it: pickle the kernel"):
            use(prepared)
