"""`as_array`: arrays of any library with a fixed number of axes, and what is said of those that do not fit."""

from __future__ import annotations

import re

import fake_driver
import numpy as np
import pytest
from producers import Torch
from test_dlpack import ByProtocol

import cuda_device as device


@device.kernel
def add_one(x):
    b, d, i, j = 0, 0, device.thread_idx.y, device.thread_idx.x
    if i < x.shape[2] and j < x.shape[3]:
        x[b, d, i, j] += 1


def test_axes_of_length_1_are_put_before(stream):
    x = stream.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    view = device.as_array(x, 4)
    assert (view.shape, view.ndim, view.dtype) == ((1, 1, 3, 4), 4, np.float32)
    stream.launch(add_one, view, grid=1, block=(4, 3))
    assert stream.numpy(x).tolist() == (np.arange(12) + 1).reshape(3, 4).tolist()


@pytest.mark.needs("cpu")
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 0, 3), (1, 2, 3, 4)])
@pytest.mark.parametrize("pad", ["left", "right"])
def test_shapes_and_strides_are_numpys(shape, pad):
    x = np.zeros(shape, np.int16)
    view = device.as_array(x, 4, pad)
    ones = (1,) * (4 - x.ndim)
    expected = x.reshape(ones + shape if pad == "left" else shape + ones)
    assert view.shape == expected.shape
    assert view.strides == expected.strides or x.size == 0
    assert view.numpy().tolist() == expected.tolist()


def test_what_fits_is_the_same_object():
    x = device.zeros((2, 3), stream=device.cpu_stream())
    assert device.as_array(x) is device.as_array(x, 2, dtype=device.float32) is x
    assert device.as_array(x, 3).stream == x.stream


@pytest.mark.needs("cpu")
def test_the_memory_is_shared_and_lives_as_long():
    view = device.as_array(np.arange(3.0), 2)
    view[0, 1] = 7
    assert view.numpy().tolist() == [[0, 7, 2]]
    assert np.asarray(device.as_array(ByProtocol(np.arange(4)), 2)).tolist() == [[0, 1, 2, 3]]


@pytest.mark.needs("cpu")
def test_read_only_memory_stays_so():
    x = np.arange(4.0)
    x.flags.writeable = False
    view = device.as_array(x, 2)
    with pytest.raises(ValueError, match="read-only: write to a copy"):
        view[0, 1] = 7
    with pytest.raises(device.CompileError, match="read-only"):
        device.launch(add_one, device.as_array(x, 4), grid=1, block=1, stream=device.cpu_stream())


@pytest.mark.needs("cpu")
def test_orders():
    x = np.zeros((3, 4))
    assert device.as_array(x.T, 4, order="F").strides[-2:] == (8, 32)
    assert device.as_array(x[:, ::2], 3, order="strided").shape == (1, 3, 2)
    device.as_array(np.zeros((1, 5)), 3, order="F")  # which is both
    for wrong, order in ((x.T, "C"), (x, "F"), (x[:, ::2], "C")):
        text = re.escape(f"{wrong.shape} and dtype float64 in host memory has strides {wrong.strides}")
        with pytest.raises(device.LaunchError, match=rf"the array 'w' of shape {text}.*'{order}'\n  help: copy it"):
            device.as_array(wrong, 4, order=order, name="w")


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (
            device.LaunchError,
            r"'x' of shape \(3, 4\) and dtype float64 in host memory has 2 axes, more than 1",
            {"ndim": 1},
        ),
        (
            TypeError,
            "dtype float64 in host memory is not one of float32\n  help: convert it",
            {"dtype": device.float32},
        ),
        (TypeError, r"is not one of vector<float32, 4>", {"dtype": device.float32x4}),
        (ValueError, "pad='top': write one of 'left', 'right'", {"pad": "top"}),
        (ValueError, "order='A': write one of 'C', 'F', 'strided'", {"order": "A"}),
    ],
)
def test_what_does_not_fit_is_named(error, message, arguments):
    with pytest.raises(error, match=message):
        device.as_array(np.zeros((3, 4)), **arguments)


def test_what_is_no_array():
    for wrong in ([1.0], None, 3, np.float32(1)):
        with pytest.raises(
            TypeError, match=f"'w' is of type {type(wrong).__name__}, which is not an array\n  help: pass"
        ):
            device.as_array(wrong, 2, name="w")
    with pytest.raises(TypeError, match="the array 'w': "):
        device.as_array(np.array(["a"]), 2, name="w")


def test_gpus():
    with fake_driver.installed(devices=2) as gpu:
        x = device.zeros((2, 3), stream=device.GpuStream(7, 0))
        view = device.as_array(x, 4)
        assert (view.stream, view.__dlpack_device__()) == (x.stream, (2, 0))
        assert view.__cuda_array_interface__["shape"] == (1, 1, 2, 3)
        other = device.as_array(x, stream=device.GpuStream(8, 0))
        assert gpu.names()[-2:] == ["cuEventRecord", "cuStreamWaitEvent"]  # stream 8 waits for the work of 7
        assert other._view.stream == 7 and other.stream.handle == 8
        for array, stream, message in (
            (x, device.GpuStream(7, 1), "the array 'x' is on GPU 0, but the stream is on GPU 1"),
            (x, device.cpu_stream(), "the array 'x' is in GPU memory, but the stream is a CPU stream"),
            (np.zeros(3), device.GpuStream(7, 0), "the array 'x' is in host memory, but the stream is on GPU 0"),
        ):
            with pytest.raises(device.LaunchError, match=message):
                device.as_array(array, stream=stream)


def test_a_tensor_is_ordered_with_the_stream_that_its_framework_works_on():
    with fake_driver.installed():
        tensor = Torch(stream=0x77).tensor(0x7000, (2, 4))
        view = device.as_array(tensor, 4, dtype=device.float32)
        assert (view.shape, view._view.data, view._view.stream) == ((1, 1, 2, 4), 0x7000, 0x77)
        assert view.stream == device.default_stream()


JOINED = {(7, 0x77), (0x77, 7)}


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda view: view.numpy(), JOINED),
        (lambda view: view.fill(2), JOINED),
        (lambda view: view.__setitem__(..., device.zeros(4, stream=device.GpuStream(7, 0))), JOINED),
        (lambda view: view.__dlpack__(stream=9), JOINED | {(9, 7)}),
        (lambda view: view.__dlpack__(stream=-1), set()),
    ],
)
def test_copies_and_consumers_wait_for_launches_on_any_stream(use, expected):
    """Launches on any stream are ordered with the stream of the library, and copies on the array's own with both."""
    memory = np.zeros(4, np.float32)
    with fake_driver.installed() as gpu:
        view = device.as_array(Torch(stream=0x77).tensor(memory.ctypes.data, (4,)), stream=device.GpuStream(7, 0))
        gpu.log.clear()
        use(view)
        recorded, waits = {}, set()
        for name, *arguments in gpu.log:
            if name == "cuEventRecord":
                recorded[arguments[0]] = arguments[1]
            elif name == "cuStreamWaitEvent":
                waits.add((arguments[0], recorded[arguments[1]]))
        assert waits == expected


@pytest.mark.needs("cpu")
@pytest.mark.parametrize(
    "use", [np.asarray, lambda view: view[0].item(), lambda view: view.fill(2), lambda view: view.__dlpack__()]
)
def test_the_host_waits_for_the_stream_of_pinned_memory(use):
    with fake_driver.installed() as gpu:
        view = device.as_array(device.pinned(4, stream=7))
        assert view.stream == device.cpu_stream() and "cuStreamSynchronize" not in gpu.names()
        use(view)
        assert ("cuStreamSynchronize", 7) in gpu.log


def test_memory_that_a_consumer_uses_on_another_stream_is_freed_after_all_work():
    with fake_driver.installed() as gpu:
        view = device.as_array(device.zeros(4, stream=device.GpuStream(7, 0)), stream=device.GpuStream(8, 0))
        view.__dlpack__(stream=8)
        gpu.log.clear()
        del view
        assert gpu.names() == ["cuCtxSynchronize", "cuMemFreeAsync"]


def test_readonly(stream):
    @device.kernel
    def fill(x):
        x[0] = 2

    x = stream.array(np.ones(3, np.float32))
    seen = device.as_array(x, readonly=True, stream=stream.stream)
    with pytest.raises(device.CompileError, match="read-only"):
        stream.launch(fill, seen, grid=1, block=1)
    stream.launch(fill, x, grid=1, block=1)
    assert seen.numpy().tolist() == [2, 1, 1]
