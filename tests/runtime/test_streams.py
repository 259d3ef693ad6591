"""Streams of every kind, what a GPU stream keeps alive, and errors of the driver."""

import gc
import logging
import weakref

import numpy as np
import pytest
from at_once import at_once
from fake_driver import CONTEXT, FakeDriver, Result, installed, no_gpu

import cuda_device as device
from cuda_device import hooks
from cuda_device.codegen.gpu import libcuda
from cuda_device.errors import PluginError
from cuda_device.runtime.gpu import driver, streams


@pytest.fixture
def gpu():
    with installed() as fake:
        yield fake


@pytest.fixture
def stream(gpu):
    return device.GpuStream(7, 0)


class Thing:
    """Something that can be watched while it dies."""


def watched() -> tuple[Thing, weakref.ref]:
    thing = Thing()
    return thing, weakref.ref(thing)


class WithProtocol:
    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


class WithAttribute:
    def __init__(self, name, handle, **more):
        vars(self).update({name: handle, **more})


# What is a stream


def test_our_own_streams_are_taken_as_they_are(gpu):
    for stream in (device.cpu_stream(), device.GpuStream(7, 0)):
        assert streams.as_stream(stream) is stream


@pytest.mark.parametrize(
    ("obj", "handle"),
    [
        (np.uint64(0x80), 0x80),
        (WithProtocol((0, 0x77)), 0x77),
        (WithProtocol((0, 0)), 1),
        (WithAttribute("__cuda_stream__", (0, 0x78)), 0x78),
        (WithAttribute("cuda_stream", 0x79), 0x79),
        (WithAttribute("cuda_stream", 0), 1),
        (WithAttribute("ptr", 0x7A), 0x7A),
        (0, 1),
        (1, 1),
        (2, 2),
        ((1 << 64) - 8, (1 << 64) - 8),
    ],
)
def test_foreign_streams(gpu, obj, handle):
    stream = streams.as_stream(obj)
    assert isinstance(stream, device.GpuStream)
    assert stream.handle == handle
    assert stream.owner is obj
    assert stream.context == CONTEXT


def test_cuda_core_protocol_goes_before_attributes(gpu):
    obj = WithProtocol((0, 5))
    obj.ptr = obj.cuda_stream = 6
    assert streams.as_stream(obj).handle == 5


@pytest.mark.parametrize(
    "obj", [True, "stream", object(), 1.5, [], WithProtocol, WithAttribute("ptr", True), WithAttribute("ptr", "x")]
)
def test_what_is_no_stream_is_refused_with_a_list_of_what_is(gpu, obj):
    with pytest.raises(
        device.LaunchError, match=r"is not a stream\n  help: pass None, cpu_stream\(\), an object with __cuda_stream__"
    ):
        streams.as_stream(obj)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (-1, "stream handle -1"),
        (1 << 64, "not an address"),
        (WithProtocol((1, 5)), r"gave \(1, 5\) instead of \(0, handle\)"),
        (WithProtocol(5), r"gave 5 instead of \(0, handle\)"),
        (WithProtocol(None), "gave None"),
        (WithAttribute("ptr", -8), "stream handle -8"),
    ],
)
def test_bad_streams_say_what_is_bad(gpu, obj, message):
    with pytest.raises(device.LaunchError, match=message):
        streams.as_stream(obj)
    assert streams.as_stream(5).handle == 5


def test_a_gpu_stream_without_a_gpu(no_gpu):
    with pytest.raises(
        device.LaunchError, match=r"no GPU is usable here: the driver sees no GPU\n  help: pass stream=cpu_stream\(\)"
    ):
        streams.as_stream(5)


def test_a_stream_is_in_its_own_context():
    with installed(devices=2) as gpu:
        gpu.stream_contexts[0x77] = CONTEXT + 1
        stream = streams.as_stream(0x77)
        assert (stream.ordinal, stream.context) == (1, CONTEXT + 1)
        assert gpu.stack[-1] == CONTEXT, "the caller's context is current again"
        with stream.using():
            assert gpu.stack[-1] == CONTEXT + 1
        assert gpu.stack == [CONTEXT]


@pytest.mark.parametrize("name", ["device_index", "device_id"])
def test_a_stream_may_name_its_device(name):
    with installed(devices=2):
        stream = streams.as_stream(WithAttribute("ptr", 0, **{name: 1}))
        assert (stream.handle, stream.ordinal, stream.context) == (1, 1, CONTEXT + 1)
        assert streams.as_stream(WithAttribute("ptr", 2, **{name: -1})).ordinal == 0  # the current one


def test_equality_is_by_handle_and_context(gpu):
    assert device.GpuStream(7, 0) == device.GpuStream(7, 0, owner=object())
    assert device.GpuStream(7, 0).__cuda_stream__() == (0, 7)  # which other libraries take
    assert len({device.GpuStream(7, 0), device.GpuStream(7, 0), device.GpuStream(8, 0)}) == 2
    assert device.cpu_stream() == device.cpu_stream()
    assert device.cpu_stream() != device.GpuStream(7, 0)
    assert "legacy default" in repr(device.GpuStream(0, 0))
    assert "0x7" in repr(device.GpuStream(7, 0))


def test_cpu_stream():
    assert device.cpu_stream(target="sm_100a") == device.CpuStream("sm_100a")
    assert device.cpu_stream().target == "sm_90a"
    assert device.cpu_stream().handle is None
    device.cpu_stream().synchronize()
    for wrong in ("90", "sm90", "sm_90x", 90, None):
        with pytest.raises(ValueError, match="sm_90"):
            device.cpu_stream(target=wrong)


@pytest.mark.needs("cpu")
def test_default_stream_without_a_gpu_is_logged_once(no_gpu, caplog):
    with caplog.at_level(logging.INFO, logger="cuda_device"):
        assert device.default_stream() == device.cpu_stream()
        assert streams.as_stream(None) == device.cpu_stream()
    assert [record.message for record in caplog.records] == [
        "no GPU is usable (the driver sees no GPU): the default stream is the CPU's"
    ]


def test_streams_need_a_gpu_or_the_cpu_target(no_gpu, monkeypatch):
    monkeypatch.setitem(hooks.TARGETS, "cpu", "cpu.removed")
    missing = "this needs the CPU target of cuda_device, which is not installed"
    with pytest.raises(PluginError, match=f"^{missing}$"):
        device.cpu_stream()
    with pytest.raises(PluginError, match=rf"^no GPU is usable \(the driver sees no GPU\), and {missing}$"):
        device.default_stream()


def test_default_stream_with_a_gpu(gpu, caplog):
    with caplog.at_level(logging.INFO, logger="cuda_device"):
        stream = device.default_stream()
        assert streams.as_stream(None) is stream
    assert (stream.handle, stream.ordinal) == (1, 0)
    assert len(caplog.records) == 1


# What a stream keeps alive


def test_arguments_live_until_the_gpu_is_done(gpu, stream):
    gpu.done = False
    thing, dead = watched()
    stream.retain(thing)
    del thing
    stream.retain(Thing())
    gc.collect()
    assert dead() is not None
    gpu.finish()
    stream.retain(Thing())
    assert dead() is None


def test_arguments_outlive_the_stream_object(gpu):
    gpu.done = False
    thing, dead = watched()
    device.GpuStream(7, 0).retain(thing)
    del thing
    gc.collect()
    assert dead() is not None
    gpu.finish()
    device.GpuStream(8, 0).synchronize()
    assert dead() is not None, "another stream's"
    device.GpuStream(7, 0).synchronize()
    assert dead() is None


def test_the_owner_of_a_stream_lives_as_long_as_its_launches(gpu):
    gpu.done = False
    owner = WithAttribute("ptr", 0x99)
    dead = weakref.ref(owner)
    streams.as_stream(owner).retain(Thing())
    del owner
    gc.collect()
    assert dead() is not None
    gpu.finish()
    streams.as_stream(0x99).synchronize()
    assert dead() is None


def test_events_are_used_again(gpu, stream):
    for _ in range(50):
        stream.retain(Thing())
    assert gpu.names().count("cuEventCreate") <= 2
    assert gpu.names().count("cuEventRecord") == 50


def test_the_queue_is_bounded(gpu, stream, monkeypatch):
    monkeypatch.setattr(streams, "MOST_RETAINED", 4)
    gpu.done = False
    dead = []
    for _ in range(10):
        thing, reference = watched()
        dead.append(reference)
        stream.retain(thing)
        del thing
    assert sum(reference() is not None for reference in dead) == 4
    assert all(reference() is None for reference in dead[:6])


def test_what_a_graph_captured_is_kept(gpu, stream):
    thing, dead = watched()
    gpu.capturing.add(7)
    stream.retain(thing)
    assert "cuEventRecord" not in gpu.names(), "it would become part of the graph"
    gpu.capturing.clear()
    del thing
    stream.retain(Thing())
    stream.synchronize()
    gc.collect()
    assert dead() is not None


def test_retaining_nothing_costs_nothing(gpu, stream):
    gpu.log.clear()
    stream.retain()
    assert gpu.log == []


def test_a_broken_gpu_does_not_free_arguments_early(gpu, stream):
    thing, dead = watched()
    gpu.failing["cuEventRecord"] = Result.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(device.KernelError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        stream.retain(thing)
    del thing
    gc.collect()
    assert dead() is not None


def test_destructors_may_launch(gpu, stream):
    ran = []

    class Launching:
        def __del__(self):
            stream.retain(Thing())
            stream.release_finished()
            ran.append(True)

    gpu.done = False
    stream.retain(Launching())
    gpu.done = True
    gpu.finish()
    stream.synchronize()
    assert ran == [True]


def test_destructors_may_run_between_any_two_steps(gpu, stream, monkeypatch):
    gpu.done = False
    first, first_dead = watched()
    second, second_dead = watched()
    stream.retain(first)
    first_event = gpu.log[-1][1]
    stream.retain(second)
    del first, second
    gpu.happened[first_event] = True
    query = gpu.cuEventQuery

    def interrupted(event):
        monkeypatch.setattr(gpu, "cuEventQuery", query)
        answer = query(event)
        stream.release_finished()
        return answer

    monkeypatch.setattr(gpu, "cuEventQuery", interrupted)
    stream.release_finished()
    assert first_dead() is None
    assert second_dead() is not None
    gpu.finish()
    stream.release_finished()
    assert second_dead() is None


def test_many_threads_retain_on_one_stream(gpu, stream):
    dead = []

    def work():
        for _ in range(200):
            thing, reference = watched()
            stream.retain(thing)
            dead.append(reference)
            del thing

    # The fake keeps one stack of contexts: all threads have the same current one.
    driver.ensure_context()
    at_once([work] * 4)
    stream.synchronize()
    gc.collect()
    assert len(dead) == 800
    assert not any(reference() for reference in dead)


def order(stream, first, second):
    with stream.using():
        driver.order((first,), (second,))


def test_streams_are_ordered_by_an_event(gpu, stream):
    gpu.log.clear()
    order(stream, 9, 7)
    order(stream, 7, 9)
    order(stream, 7, 7)
    records = [entry[2] for entry in gpu.log if entry[0] == "cuEventRecord"]
    waits = [entry[1] for entry in gpu.log if entry[0] == "cuStreamWaitEvent"]
    assert (records, waits) == ([9, 7], [7, 9])
    assert gpu.names().count("cuEventCreate") == 1


def test_an_event_that_orders_streams_is_used_again_unless_a_graph_has_it(gpu):
    stream, other = device.GpuStream(7, 0), device.GpuStream(7, 1)
    gpu.log.clear()
    for _ in range(5):
        order(stream, 9, 7)
    assert gpu.names().count("cuEventCreate") == 1 and "cuEventDestroy" not in gpu.names()
    events = {entry[1] for entry in gpu.log if entry[0] == "cuEventRecord"}
    gpu.capturing.add(9)
    order(stream, 9, 7)
    (captured,) = {entry[1] for entry in gpu.log if entry[0] == "cuEventRecord"} - events
    assert ("cuEventDestroy", captured) in gpu.log
    gpu.capturing.clear()
    order(stream, 9, 7)
    assert [entry[1] for entry in gpu.log if entry[0] == "cuEventRecord"][-1] in events
    order(other, 9, 7)  # in another context
    assert [entry[1] for entry in gpu.log if entry[0] == "cuEventRecord"][-1] not in events


def test_an_event_that_failed_is_not_used_again(gpu, stream):
    order(stream, 9, 7)
    gpu.log.clear()
    gpu.failing["cuStreamWaitEvent"] = Result.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(device.LaunchError):
        order(stream, 9, 7)
    gpu.failing.clear()
    order(stream, 9, 7)
    first, second = (entry[1] for entry in gpu.log if entry[0] == "cuEventRecord")
    assert first != second and ("cuEventDestroy", first) in gpu.log


# The driver


def test_available_is_asked_once_and_never_raises(gpu):
    assert driver.available() and driver.available()
    assert driver.unavailable_reason() == ""
    assert gpu.names().count("cuInit") == 1
    with no_gpu():
        assert driver.available() is False
        assert driver.unavailable_reason() == "the driver sees no GPU"


@pytest.mark.parametrize("error", [RuntimeError("no libcuda\nmore"), OSError("no library"), AttributeError("cuInit")])
def test_available_keeps_the_reason(gpu, monkeypatch, error):
    def broken():
        raise error

    driver.available.cache_clear()
    monkeypatch.setattr(driver, "bindings", broken)
    assert driver.available() is False
    assert driver.unavailable_reason() == str(error).splitlines()[0]
    with pytest.raises(device.LaunchError, match="no GPU is usable here"):
        driver.require()
    driver.available.cache_clear()


def test_check_returns_values_and_raises_errors(gpu):
    assert driver.check((0,)) is None
    assert driver.check((0, 5)) == 5
    assert driver.check((0, 5, 6)) == (5, 6)
    with pytest.raises(device.LaunchError) as caught:
        driver.check((Result.CUDA_ERROR_INVALID_VALUE, None), "doing a thing")
    assert str(caught.value) == (
        "CUDA_ERROR_INVALID_VALUE (1): the words for CUDA_ERROR_INVALID_VALUE, while doing a thing"
    )


def test_errors_that_stay_are_a_kernel_error_and_say_so(gpu):
    error = driver.error_of(700)
    assert isinstance(error, device.KernelError)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in str(error)
    assert "lost to this process" in str(error)
    assert not isinstance(driver.error_of(701), device.KernelError)
    assert "CUDA error (123456)" in str(driver.error_of(123456))


def test_properties(gpu):
    properties = driver.properties(0)
    assert properties.name == "Fake GPU"
    assert properties.capability == (9, 0)
    assert properties.max_shared_optin == 232448


def test_no_context_means_device_0_and_a_context_is_respected():
    with installed(devices=3) as gpu:
        assert driver.ensure_context() == CONTEXT
        gpu.stack = [CONTEXT + 2]
        assert driver.ensure_context() == CONTEXT + 2
        assert driver.current_ordinal() == 2
        assert driver.context_of(2) == CONTEXT + 2
        assert driver.context_of(1) == CONTEXT + 1
        driver.context_of(1)
        assert gpu.log.count(("retain context", 1)) == 1


def test_the_context_comes_back_after_an_error():
    with installed(devices=2) as gpu:
        driver.ensure_context()
        with pytest.raises(ZeroDivisionError), driver.using(driver.primary_context(1)):
            raise ZeroDivisionError
        assert gpu.stack == [CONTEXT]


def test_the_fake_has_the_names_of_the_library():
    names = {symbol.partition("_v")[0] for symbol in libcuda.FUNCTIONS} | set(libcuda.ENUMERATIONS)
    names |= set(vars(libcuda.DriverLibrary))
    assert {name for name in vars(FakeDriver) if name.startswith(("cu", "CU"))} <= names
