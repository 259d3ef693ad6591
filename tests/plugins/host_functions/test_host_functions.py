"""`@host_function`: functions of the host that take what kernels take, at once or in the order of a stream."""

from __future__ import annotations

import logging
import pickle

import fake_driver
import numpy as np
import pytest

import cuda_device as device
from cuda_device import ArrayType, float32, int32


@device.struct
class Globals:
    x: ArrayType(float32, 2)
    scale: float32 = 2.0


@device.host_function
def total(g: Globals, n: int32 = 0, *more, row: ArrayType(float32, 1) = None, **rest):
    """The sum."""
    rows = 0 if row is None else row.size
    return float(np.asarray(g.x).sum() * g.scale) + n + len(more) + rows + len(rest)


X = np.arange(3, dtype=np.float32)


def test_arguments_are_converted():
    assert total((X,)) == total({"x": X, "scale": 2}) == total(Globals.of(X)) == 6
    assert total((X, 1), 4, "a", "b", row=X, other=None) == 3 + 4 + 2 + 3 + 1
    assert total((X,), row=None) == 6  # None stays None, as in kernels
    assert total.__doc__ == "The sum."
    assert repr(total) == "<host function total>"


@pytest.mark.parametrize(
    ("message", "args", "kwargs"),
    [
        (r"'Globals\.x' of shape \(3,\) and dtype int64", (({"x": np.arange(3)}),), {}),
        (r"the array 'row' of shape \(1, 3\).* has 2 axes, more than 1", ((X,),), {"row": X[None]}),
        (r"n is of type int32, not 1\.5: write int32", ((X,), 1.5), {}),
        (r"n is of type int32, which 2147483648 does not fit", ((X,), 1 << 31), {}),
        (r"g is of type Globals, not 3", (3,), {}),
        (r"missing a required argument: 'g'", (), {}),
    ],
)
def test_arguments_that_do_not_fit_are_named(message, args, kwargs):
    for stream in ({}, {"stream": device.cpu_stream()}):
        with pytest.raises((TypeError, device.LaunchError), match=message):
            total(*args, **kwargs, **stream)


def test_defaults_are_converted_and_arrays_are_as_read_only_as_their_hints():
    @device.host_function
    def given(x: ArrayType(float32, 1, readonly=True), n: int32 = 7, *rest: int32):
        return x, n, rest

    x, n, rest = given(X)
    assert type(n) is int32 and n == 7 and rest == ()
    with pytest.raises(ValueError, match="the array is read-only"):
        x[0] = 1


def test_a_method_of_a_struct_may_be_one():
    @device.struct
    class Row:
        x: ArrayType(float32, 1)

        @device.host_function
        def total(self, factor: float32 = 1):
            return np.asarray(self.x).sum() * factor

    row = Row.of(X)
    assert (row.total(), row.total(2), row.total(factor=2, stream=device.cpu_stream()).result()) == (3, 6, 6)
    assert Row.total(row) == 3


def test_a_host_function_of_a_module_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(total)) is total


def test_on_a_cpu_stream_it_is_done_on_return():
    future = total((X,), stream=device.cpu_stream())
    assert future.done() and future.result() == 6


@pytest.fixture
def gpu():
    with fake_driver.installed() as fake:
        yield fake


def test_on_a_gpu_it_runs_when_the_stream_comes_to_it(gpu):
    gpu.done = False
    futures = [total((X,), n, stream=device.GpuStream(7, 0)) for n in range(3)]
    assert gpu.log[-3:] == [("cuLaunchHostFunc", 7)] * 3
    assert not any(future.done() for future in futures)
    futures[1].cancel()
    gpu.finish()
    assert [future.result(0) for future in (futures[0], futures[2])] == [6, 8]
    assert futures[1].cancelled()


@pytest.mark.parametrize("on_gpu", [False, True])
def test_an_exception_is_raised_by_the_result(gpu, on_gpu, caplog):
    @device.host_function
    def fails():
        raise RuntimeError("no")

    stream = device.GpuStream(7, 0) if on_gpu else device.cpu_stream()
    with caplog.at_level(logging.WARNING, "cuda_device"):
        future = fails(stream=stream)
    assert "a host function raised in the order of its stream" in caplog.text
    with pytest.raises(RuntimeError, match="no"):
        future.result(0)
    assert total((X,), stream=stream).result(0) == 6


def test_what_the_driver_refuses_is_an_error(gpu):
    gpu.failing["cuLaunchHostFunc"] = fake_driver.Result.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(device.LaunchError, match="while putting a host function into a stream"):
        total((X,), stream=device.GpuStream(7, 0))
    gpu.failing.clear()
    gpu.capturing.add(7)
    with pytest.raises(device.LaunchError, match="the stream is being captured into a graph"):
        total((X,), stream=device.GpuStream(7, 0))
    gpu.capturing.clear()
    assert total((X,), stream=device.GpuStream(7, 0)).result(0) == 6


def test_what_it_decorates():
    for wrong in (3, len, device.func(lambda x: x), device.kernel(lambda x: None)):
        with pytest.raises(TypeError, match="@host_function decorates a Python function, not "):
            device.host_function(wrong)
    with pytest.raises(TypeError, match="a parameter cannot be called 'stream'"):
        device.host_function(lambda stream: None)
