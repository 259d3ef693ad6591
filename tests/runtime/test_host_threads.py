"""Threads of the host that compile, launch and look at kernels at the same time.

With a global lock, or without one, as in a free-threaded Python: there machine code makes no launches. `restless` lets threads
change places in the middle of a line, which a Python with a lock seldom does. Beside that, each place where one thread could
disturb another has a test that brings the two there.
"""

from __future__ import annotations

import math
import sysconfig
import threading
from functools import partial

import numpy as np
import pytest
from at_once import at_once, restless
from conftest import LAUNCHES
from fake_driver import CONTEXT, installed

import cuda_device as device
from cuda_device import compiler, hooks
from cuda_device.infer import closures
from cuda_device.runtime.gpu import driver
from cuda_device.types import struct_classes

THREADS = 8


@pytest.fixture
def without_a_lock(monkeypatch):
    """What a free-threaded Python says of itself."""
    say, plans = sysconfig.get_config_var, hooks.installed(hooks.LAUNCHERS)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED" or say(name))
    if plans:
        plans.is_wanted.cache_clear()
    yield
    if plans:
        plans.is_wanted.cache_clear()


@pytest.fixture
def gpu():
    with installed() as fake:
        yield fake


def kernels_of_this_test():
    """Kernels that nobody has compiled: with a barrier, a nested function, mathematics, a struct."""

    @device.struct
    class Line:
        slope: device.float32
        start: device.int32

    @device.kernel
    def reverses(x, y):
        cells = device.shared_array(64, x.dtype)
        t = device.thread_idx.x
        cells[t] = x[t]
        device.syncthreads()
        y[t] = cells[63 - t]

    @device.kernel
    def captures(x, y):
        t = device.tid(1)
        doubled = lambda v: v * 2 + t  # noqa: E731
        y[t] = doubled(x[t])

    @device.kernel
    def rounds(x, y):
        t = device.tid(1)
        y[t] = math.floor(x[t] / 2) + math.sqrt(x[t] * x[t])

    @device.kernel
    def draws(line, x, y):
        t = device.tid(1)
        y[t] = line.slope * x[t] + line.start

    return reverses, captures, rounds, draws, Line(2, 3)


@pytest.mark.long
@pytest.mark.parametrize(("seed", "count"), [(1, 2), (2, 4)])
def test_threads_that_change_places_anywhere(without_a_lock, monkeypatch, seed, count):
    reverses, captures, rounds, draws, line = kernels_of_this_test()
    stream, counts, compiled, run = device.cpu_stream(), np.arange(64), [], compiler.run
    monkeypatch.setattr(compiler, "run", lambda job: compiled.append(job.name) or run(job))
    expected = [(reverses, (), counts[::-1]), (captures, (), counts * 3), (rounds, (), counts // 2 + counts)]
    expected = [*expected[: count - 1], (draws, (line,), counts * 2 + 3)]

    def work(number):
        types = [np.float32, np.float64]
        for dtype in types[:: 1 if number % 2 else -1]:
            for turn in range(count):
                kernel, first, result = expected[(number + turn) % count]
                x, y = counts.astype(dtype), np.zeros(64, dtype)
                device.launch(kernel, *first, x, y, grid=1, block=64, stream=stream)
                assert y.tolist() == result.tolist(), kernel
                assert "on the CPU" in repr(kernel) and kernel.timings()

    restless([partial(work, number) for number in range(THREADS)], "cuda_device", seed)
    assert sorted(compiled) == sorted(2 * [kernel.__name__ for kernel, *_ in expected])
    assert all(kernel.native is None for kernel, *_ in expected)


@pytest.mark.parametrize("seed", [1, 2])
def test_threads_that_change_places_anywhere_on_a_gpu(without_a_lock, gpu, seed):
    """All arrays live as long as what was launched with them, and go then."""

    @device.kernel
    def add_one(x):
        x[device.tid(1)] += 1

    streams = [device.GpuStream(handle, 0, context=CONTEXT) for handle in (0x77, 0x78)]
    device.compile(add_one, device.ArrayType(device.float32, 1))

    def work(number):
        here, there = streams[:: 1 if number % 2 else -1]
        for turn in range(6):
            x = device.zeros(8, stream=here if turn % 2 else there)
            device.launch(add_one, x, grid=1, block=8, stream=here)
        here.synchronize()

    restless([partial(work, number) for number in range(THREADS)], "cuda_device", seed)
    assert gpu.names().count("cuLaunchKernel") == THREADS * 6
    assert gpu.names().count("cuLibraryLoadData") == 1
    for stream in streams:
        stream.synchronize()
    assert not gpu.memory


def test_a_free_threaded_python_makes_no_launchers(without_a_lock, gpu):
    @device.kernel
    def add_one(x):
        x[device.tid(1)] += 1

    stream = device.GpuStream(0x77, 0, context=CONTEXT)
    x = device.zeros(8, stream=stream)
    for _ in range(LAUNCHES):
        device.launch(add_one, x, grid=1, block=8, stream=stream)
    assert add_one.native is None and gpu.by_address == 0
    assert next(iter(add_one.variants.values())).launches == LAUNCHES


# Where one thread could disturb another


def test_two_threads_that_want_more_shared_memory(gpu, monkeypatch):
    """The driver keeps what it was told last: that must be the most."""

    @device.kernel
    def kernel(x):
        x[0] = device.dynamic_shared_array()[0]

    stream = device.GpuStream(0x77, 0, context=CONTEXT)
    x, allow = device.zeros(1, np.uint8, stream=stream), driver.set_max_dynamic_shared
    other = threading.Thread(target=lambda: device.launch(kernel, x, grid=1, block=1, shared=100 << 10, stream=stream))

    def slowly(handle, nbytes, ordinal):
        if nbytes == 60 << 10:
            other.start()
            other.join(0.3)
        allow(handle, nbytes, ordinal)

    device.launch(kernel, x, grid=1, block=1, stream=stream)
    monkeypatch.setattr(driver, "set_max_dynamic_shared", slowly)
    device.launch(kernel, x, grid=1, block=1, shared=60 << 10, stream=stream)
    other.join()
    told = [entry[2] for entry in gpu.log if entry[0] == "cuKernelSetAttribute"]
    assert told == [60 << 10, 100 << 10]
    assert gpu.names().count("cuLaunchKernel") == 3


def test_two_threads_that_want_one_function_or_type(monkeypatch):
    """There is one of it, whoever was first."""
    both_look = threading.Barrier(2, timeout=10)

    def together(make):
        def made(*args):
            both_look.wait()
            return make(*args)

        return made

    @device.struct
    class Pair:
        x: device.int32
        y: device.int32

    monkeypatch.setattr(closures, "FunctionType", together(closures.FunctionType))
    monkeypatch.setattr(struct_classes, "_make", together(struct_classes._make))
    code, found = compile("x + 1", "", "eval"), []
    for make in (partial(closures.template, code, {}), partial(device.align, Pair, 16)):
        results = []
        at_once([lambda: results.append(make())] * 2)  # noqa: B023
        assert results[0] is results[1] is make()
        found += results
    assert device.alignof(found[-1]) == 16


def test_a_kernel_is_shown_while_another_thread_compiles_it():
    @device.kernel
    def kernel(x):
        x[0] = 1

    for dtype in (np.int32, np.int64):
        device.launch(kernel, np.zeros(1, dtype), grid=1, block=1, stream=device.cpu_stream())

    class Variant:
        """One that is compiled while the kernel's text is made."""

        def __str__(self):
            kernel.variants[len(kernel.variants)] = self
            return "another"

    kernel.variants["another"] = Variant()
    text = repr(kernel)
    assert text.count("on the CPU") == 2 and text.endswith("another>")
