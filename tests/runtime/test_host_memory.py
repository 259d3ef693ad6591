"""`pinned` and `managed`: NumPy arrays that the host and kernels on a GPU share."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest
from fake_driver import CONTEXT, installed

import cuda_device as device

MAKE = pytest.mark.parametrize("make", [device.pinned, device.managed], ids=["pinned", "managed"])


@device.kernel
def scale(x, y, factor):
    i = device.tid(1)
    if i < len(y):
        y[i] = factor * x[i]


@MAKE
def test_host_and_kernels_share_them(stream, make):
    x, y = make(100, stream=stream.stream), make((2, 50), np.float64, stream=stream.stream)
    assert isinstance(x, np.ndarray) and x.shape == (100,) and x.dtype == np.float32
    assert y.shape == (2, 50) and y.flags.c_contiguous and y.flags.writeable
    x[:] = np.arange(100)
    for turn in range(1, 12):
        device.launch(scale, x, y.reshape(-1), turn, grid=1, block=128, stream=stream.stream)
        device.synchronize(stream.stream)
        assert (y.reshape(-1) == turn * np.arange(100)).all()
        x += 0  # the host writes


@MAKE
def test_views_and_results(stream, make):
    x = make(100, np.int32, stream=stream.stream)
    x[:] = np.arange(100)
    y = make(20, np.int32, stream=stream.stream)
    stream.launch(scale, x[10:90:4], y, 2, grid=1, block=32)
    assert (y == 2 * np.arange(10, 90, 4)).all()
    stream.launch(scale, x[::-5], y, 1, grid=1, block=32)
    assert (y == np.arange(100)[::-5]).all()
    empty = make(0, np.int32, stream=stream.stream)
    stream.launch(scale, empty, empty, 2, grid=1, block=32)
    for other in (x + 1, x.copy(), pickle.loads(pickle.dumps(x))):  # in memory of the host's own
        if stream.kind == "cpu":
            stream.launch(scale, other, y, 1, grid=1, block=32)
        else:
            with pytest.raises(device.LaunchError, match="the argument 'x' is in host memory"):
                stream.launch(scale, other, y, 1, grid=1, block=32)
    assert x.sum() == 4950 and type(np.asarray(x)) is np.ndarray


@MAKE
def test_they_outlive_their_names(stream, make):
    y = make(10, np.int32, stream=stream.stream)
    part = np.asarray(make(10, np.int32, stream=stream.stream))[2:]
    part[:] = 7
    gc.collect()
    x = make(8, np.int32, stream=stream.stream)
    x[:] = 1
    stream.launch(scale, x, y[:8], 3, grid=1, block=8)
    assert (part == 7).all() and (y[:8] == 3).all()


@MAKE
def test_a_cpu_stream_takes_them(stream, make):
    x, y = make(10, stream=stream.stream), make(10, stream=stream.stream)
    x[:] = 2
    device.launch(scale, x, y, 2, grid=1, block=10, stream=stream.stream)
    device.launch(scale, y, x, 2, grid=1, block=10, stream=device.cpu_stream())  # which waits for the other stream
    assert (x == 8).all()
    assert (device.array(x, stream=stream.stream).numpy() == 8).all()


def test_structs_and_errors(stream):
    @device.struct
    class Point:
        x: device.float32
        n: device.int64

    points = device.pinned(3, Point, stream=stream.stream)
    points["n"] = 5
    assert points.dtype == device.numpy_dtype(Point)
    for shape, error in ((-1, ValueError), ("a", TypeError), ((2, None), TypeError)):
        with pytest.raises(error, match="the shape"):
            device.pinned(shape, stream=stream.stream)
    with pytest.raises(TypeError):
        device.managed(3, object, stream=stream.stream)


@pytest.mark.parametrize(("make", "made", "freed"), [
    (device.pinned, "cuMemHostAlloc", "cuMemFreeHost"), (device.managed, "cuMemAllocManaged", "cuMemFree"),
])  # fmt: skip
def test_the_driver_is_told(make, made, freed):
    with installed() as gpu:
        gpu.stack[-1] = CONTEXT
        stream, other = device.GpuStream(0x77, 0, context=CONTEXT), device.GpuStream(0x88, 0, context=CONTEXT)
        x = make((10, 10), stream=stream)
        assert (made, 400) in gpu.log
        y = x[1:].T[2:]
        for _ in range(12):
            device.launch(scale, x[0], x[1], 2, grid=1, block=10, stream=stream)
        assert gpu.names().count("cuLaunchKernel") == 12 and "cuStreamWaitEvent" not in gpu.names()
        device.launch(scale, x[0], x[1], 2, grid=1, block=10, stream=other)
        assert gpu.names().count("cuStreamWaitEvent") == 2  # in the order of the other stream
        del x
        stream.synchronize(), other.synchronize()
        gc.collect()
        assert freed not in gpu.names()
        del y
        gc.collect()
        assert freed in gpu.names()
        gpu.failing[made] = 2
        with pytest.raises(device.LaunchError, match=f"allocating 40 bytes of {make.__name__} memory"):
            make(10, stream=stream)
