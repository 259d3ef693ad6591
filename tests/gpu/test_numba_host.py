"""Streams, events, copies and resources of `numba_compat` on a GPU."""

import time

import numpy as np
import pytest
from late import Gate, Late

import cuda_device as device
from cuda_device import numba_compat as cuda
from cuda_device.runtime.gpu import driver

pytestmark = pytest.mark.skipif(not driver.available(), reason=f"no GPU: {driver.unavailable_reason()}")

COUNT = 1 << 16


@pytest.fixture
def late():
    device.synchronize()
    return Late()


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


def address_of(array):
    return array.__cuda_array_interface__["data"][0]


def test_streams_are_different_and_take_launches():
    streams = [cuda.stream() for _ in range(3)]
    assert len({stream.handle for stream in streams} | {0, 1, 2}) == 6
    x = cuda.to_device(np.zeros(COUNT, np.float32), stream=streams[0])
    for stream in streams:
        add_one[COUNT // 256, 256, stream](x)
    with cuda.per_thread_default_stream().auto_synchronize() as stream:
        add_one[COUNT // 256, 256, stream](x)
    assert (x.copy_to_host(stream=streams[1]) == 4).all()


def test_streams_run_at_once(late):
    """The first stream waits for a gate, while the second one does its work."""
    first, second = cuda.stream(), cuda.stream()
    x, y = cuda.device_array(COUNT, np.int32, stream=first), cuda.to_device(np.zeros(COUNT, np.int32), stream=second)
    add_one[COUNT // 256, 256, second](y)  # which loads the kernel: that waits for the GPU
    second.synchronize()
    gate, done = Gate(), cuda.event()
    late.fill(address_of(x), 5, first.handle, gate=gate)
    done.record(first)
    add_one[COUNT // 256, 256, second](y)
    second.synchronize()
    assert not done.query()
    gate.open()
    done.synchronize()
    assert done.query() and (x.copy_to_host() == 5).all() and (y.copy_to_host() == 2).all()


def test_copies_of_pinned_arrays_are_asynchronous(late):
    stream, pinned, back = cuda.stream(), cuda.pinned_array(COUNT, np.int32), cuda.pinned_array(COUNT, np.int32)
    pinned[:], back[:] = 7, 0
    gate = Gate()
    x = cuda.to_device(np.zeros(COUNT, np.int32), stream=stream)
    late.fill(address_of(x), 5, stream.handle, gate=gate)
    x.copy_to_host(back, stream=stream)
    x.copy_to_device(pinned, stream=stream)
    assert not back.any()
    gate.open()
    stream.synchronize()
    assert (back == 5).all() and (x.copy_to_host() == 7).all()


def test_an_array_of_another_stream_is_copied_after_its_kernels(late):
    first, second = cuda.stream(), cuda.stream()
    x, back = cuda.to_device(np.zeros(COUNT, np.int32), stream=first), cuda.pinned_array(COUNT, np.int32)
    late.fill(address_of(x), 5, first.handle)
    x.copy_to_host(back, stream=second)
    second.synchronize()
    assert (back == 5).all()


def test_events_time_the_work_between_them(late):
    stream, start, end = cuda.stream(), cuda.event(timing=True), cuda.event(timing=True)
    x = cuda.device_array(COUNT, np.int32, stream=stream)
    start.record(stream)
    late.fill(address_of(x), 5, stream.handle, wait=20_000_000)
    end.record(stream)
    started = time.perf_counter()
    end.wait(cuda.default_stream())
    assert not end.query() and time.perf_counter() - started < 0.02
    end.synchronize()
    assert 20 <= start.elapsed_time(end) == cuda.event_elapsed_time(start, end) < 200


def test_free_memory_shrinks_by_an_array():
    before = cuda.current_context().get_memory_info()
    x = cuda.device_array(before.free // 2, np.uint8)
    cuda.synchronize()
    after = cuda.current_context().get_memory_info()
    assert after.total == before.total and after.free <= before.free - x.nbytes + (1 << 30)  # of other processes


@cuda.jit("void(float64[:], int64)")
def uses_memory(x, n):
    tile = cuda.shared.array(64, np.float64)
    numbers = cuda.local.array(100, np.float64)
    for i in range(n):
        numbers[i * 7 % 100] += x[i]
        tile[i] = numbers[i]
    x[0] = numbers[n] + tile[n]


@cuda.jit("void(float32[:])")
def small(x):
    x[0] = 1


@pytest.mark.parametrize("kernel", [uses_memory, small])
def test_resources_are_those_that_the_driver_tells(kernel):
    (overload,) = kernel.overloads.values()
    hints = (
        [device.ArrayType(np.float64, 1), device.int64] if kernel is uses_memory else [device.ArrayType(np.float32, 1)]
    )
    target = "sm_{}{}".format(*cuda.get_current_device().compute_capability)
    code = device.compile(kernel.kernel, *hints, target=target, launch_facts=True)
    handle = driver.get_kernel(driver.load_library(code.code), code.symbol)
    api, context = driver.bindings(), driver.current_ordinal()

    # CUfunction_attribute: MAX_THREADS_PER_BLOCK, SHARED_SIZE_BYTES, CONST_SIZE_BYTES, LOCAL_SIZE_BYTES, NUM_REGS
    threads, shared, constant, local, registers = (
        int(driver.check(api.cuKernelGetAttribute(which, handle, context))) for which in range(5)
    )
    assert overload.max_threads_per_block == threads and overload.shared_mem_per_block == shared
    assert overload.const_mem_size == constant and overload.local_mem_per_thread == local
    assert overload.regs_per_thread == registers
