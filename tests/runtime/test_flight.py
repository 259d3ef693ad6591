"""A GPU that a kernel has broken: every later call names the launches that were under way, and the process comes to its end."""

from __future__ import annotations

import pytest
from fake_driver import CONTEXT, Result, installed
from processes import python

import cuda_device as device
from cuda_device.runtime.gpu import driver, launch_log

BROKEN = Result.CUDA_ERROR_ILLEGAL_ADDRESS
CALLS = (
    "cuStreamSynchronize",
    "cuCtxSynchronize",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemcpyAsync",
    "cuEventRecord",
)


@pytest.fixture
def gpu():
    with installed() as fake:
        yield fake


@device.kernel
def first(x):
    x[device.tid(1)] = 1


@device.kernel
def second(x):
    x[device.tid(1)] = 2


def queue(handle=0x77):
    return device.GpuStream(handle, 0, context=CONTEXT)


def launch(kernel, x, stream, **size):
    device.launch(kernel, x, stream=stream, **{"grid": 1, "block": 8, **size})


def test_every_call_after_the_error_names_the_launches(gpu):
    stream = queue()
    x = device.zeros(8, stream=stream)
    launch(first, x, stream)
    stream.synchronize()
    for _ in range(3):
        launch(second, x, stream, grid=(2, 3))
    launch(first, x, queue(0x88), block=4)
    gpu.failing |= dict.fromkeys(CALLS, BROKEN)
    later = (
        stream.synchronize,
        queue(0x99).synchronize,
        lambda: launch(first, x, stream),
        lambda: device.zeros(8, stream=stream),
        x.numpy,
        driver.synchronize_context,
    )
    for _ in range(2):
        for call in later:
            with pytest.raises(device.KernelError) as caught:
                call()
            message = str(caught.value)
            assert "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in message
            assert (
                "in flight: first, a grid of (1, 1, 1) blocks of (4, 1, 1) threads; "
                "second, a grid of (2, 3, 1) blocks of (8, 1, 1) threads (3 times)\n"
            ) in message
            assert "help: " in message


def test_what_was_waited_for_is_no_suspect(gpu):
    streams = [queue(handle) for handle in (5, 6, 2)]
    for stream in streams:
        launch_log.launched(f"k{stream.handle}", (1, 1, 1), (1, 1, 1), CONTEXT, stream.handle)
    streams[0].synchronize()
    assert [name in launch_log.describe() for name in ("k5", "k6", "k2")] == [False, True, True]
    streams[2].synchronize()
    assert "k2" not in launch_log.describe()
    with streams[0].using():
        driver.synchronize_context()
    assert launch_log.describe() == ""
    launch_log.launched("other", (1, 1, 1), (1, 1, 1), CONTEXT + 1, 5)
    streams[0].synchronize()
    assert "other" in launch_log.describe()


def test_many_launches_are_counted_and_cut_short(gpu):
    for number in range(300):
        launch_log.launched(f"k{number % 12}", (1, 1, 1), (1, 1, 1), CONTEXT, 5)
    text = launch_log.describe()
    assert text.startswith("k11, a grid of (1, 1, 1) blocks of (1, 1, 1) threads (2")
    assert text.endswith("; and 4 more")
    assert len(text) < 1000


def test_a_block_with_too_many_threads_for_the_kernel(gpu):
    stream = queue()
    x = device.zeros(8, stream=stream)
    gpu.attributes["MAX_THREADS_PER_BLOCK"] = 128

    @device.kernel
    def large(x):
        x[device.tid(1)] = 1

    launch(large, x, stream, block=(16, 8))
    with pytest.raises(device.LaunchError, match=r"block=\(16, 9, 1\): large allows at most 128 threads per block"):
        launch(large, x, stream, block=(16, 9))
    assert gpu.names().count("cuLaunchKernel") == 1


def test_what_the_driver_refuses_is_a_launch_error_and_the_next_launch_works(gpu):
    stream = queue()
    x = device.zeros(8, stream=stream)
    gpu.failing["cuLaunchKernel"] = Result.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(device.LaunchError, match="CUDA_ERROR_INVALID_VALUE.*while launching a grid of"):
        launch(first, x, stream)
    del gpu.failing["cuLaunchKernel"]
    launch(first, x, stream)
    assert "first" in launch_log.describe()


PROCESS = """
import numpy as np
from fake_driver import CONTEXT, Result, installed
import cuda_device as device

@device.kernel
def k(x):
    x[device.tid(1)] = 1

context = installed()
gpu = context.__enter__()
stream = device.GpuStream(0x77, 0, context=CONTEXT)
arrays = [device.zeros(8, stream=stream) for _ in range(100)]
gpu.done = False
step = device.prepare(k, arrays[0], grid=1, block=8, stream=stream)
for x in arrays * 5:
    device.launch(k, x, grid=1, block=8, stream=stream)
    step()
names = [name for name in dir(gpu) if name.startswith("cu") and name not in ("cuCtxGetCurrent", "cuGetErrorString")]
gpu.failing |= dict.fromkeys([*names, "push", "pop"], Result.CUDA_ERROR_ILLEGAL_ADDRESS)
try:
    stream.synchronize()
except device.KernelError as error:
    print("in flight: k" in str(error))
arrays.clear()
"""


def test_the_process_ends():
    done = python("-c", PROCESS, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")
