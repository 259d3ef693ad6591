"""NVTX ranges around launches: where they are asked for, and by the package nvtx alone."""

import contextlib
import sys
import types

import numpy as np
import pytest
from fake_driver import installed

import cuda_device as device


def clear(x):
    x[device.tid(1)] = 0


@pytest.fixture
def ranges(monkeypatch):
    """The ranges that a program has opened and closed, in the place of the package."""
    seen = []

    @contextlib.contextmanager
    def annotate(message, domain):
        seen.append(f"{domain}: {message}")
        try:
            yield
        finally:
            seen.append(f"end of {message}")

    monkeypatch.setitem(sys.modules, "nvtx", types.SimpleNamespace(annotate=annotate))
    return seen


def launch(kernel, **more):
    device.launch(kernel, np.zeros(4, np.float32), grid=1, block=4, stream=device.cpu_stream(), **more)


def fill(x):
    i = device.tid(1)
    assert x[i] == 0
    x[i] = 1


def test_a_kernel_that_asks(ranges):
    launch(device.kernel(fill))
    assert ranges == []
    launch(device.kernel(nvtx=True)(fill))
    assert ranges == ["cuda_device: fill", "end of fill"]


def test_all_kernels(ranges, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_NVTX", "1")
    kernel = device.kernel(fill)
    launch(kernel)
    ready = device.prepare(kernel, np.zeros(4, np.float32), grid=1, block=4, stream=device.cpu_stream())
    ready()
    assert ranges == ["cuda_device: fill", "end of fill"] * 2
    monkeypatch.setenv("CUDA_DEVICE_NVTX", "0")
    launch(device.kernel(fill))
    assert len(ranges) == 4


def test_a_range_ends_with_an_error(ranges):
    with pytest.raises(device.KernelError):
        device.launch(
            device.kernel(nvtx=True)(fill), np.ones(4, np.float32), grid=1, block=4, stream=device.cpu_stream()
        )
    assert ranges == ["cuda_device: fill", "end of fill"]


def test_every_launch_on_a_gpu_is_a_range(ranges):
    """Also after those at which machine code would take over."""
    with installed():
        stream = device.GpuStream(0x70, 0)
        kernel, other = device.kernel(nvtx=True)(clear), device.kernel(clear)
        x = device.zeros(4, stream=stream)
        for _ in range(20):
            device.launch(kernel, x, grid=1, block=4, stream=stream)
            device.launch(other, x, grid=1, block=4, stream=stream)
        assert kernel.native is None
    assert ranges == ["cuda_device: clear", "end of clear"] * 20


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(device.LaunchError, match="(?s)package nvtx.*help: pip install nvtx"):
        launch(device.kernel(nvtx=True)(fill))
    launch(device.kernel(fill))


def test_the_real_package():
    pytest.importorskip("nvtx")
    launch(device.kernel(nvtx=True)(fill))


@pytest.mark.parametrize("value", [1, "yes", None])
def test_a_wrong_value(value):
    with pytest.raises(TypeError, match=r"@kernel\(nvtx=…\) takes True or False"):
        device.kernel(nvtx=value)
    with pytest.raises(TypeError, match="no option 'nvtx'"):
        device.func(nvtx=True)
