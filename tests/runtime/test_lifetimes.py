"""Arguments that are dropped at once, in long runs and in many threads: results stay right, and memory does not grow."""

from __future__ import annotations

import gc
import resource
import weakref
from functools import partial

import numpy as np
import pytest
from at_once import at_once
from fake_driver import CONTEXT, installed
from processes import python

import cuda_device as device
from cuda_device.runtime.gpu import streams


@device.kernel
def add_one(x, y):
    i = device.tid(1)
    if i < len(y):
        y[i] = x[i] + 1


def peak() -> int:
    """The most memory that the process has had, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_memory_stays_flat_on_the_cpu():
    stream = device.cpu_stream()

    def launch(number):
        x, y = np.full(4096, number, np.float32), np.empty(4096, np.float32)
        device.launch(add_one, x, y, grid=16, block=256, stream=stream)
        return y[-1]

    # LLVM, which makes machine code of the launches after some of them, takes 38 MB, once.
    for number in range(1000):
        assert launch(number) == number + 1
    before = peak()
    for number in range(5000):  # 160 MB of arrays
        assert launch(number) == number + 1
    assert peak() - before < 16 << 10


def test_arguments_die_with_their_last_name():
    gc.collect()
    gc.disable()  # no cycle keeps them
    try:
        arrays = [np.zeros(8, np.float32), np.zeros(16, np.float32)[::2], device.zeros(8, stream=device.cpu_stream())]
        owners = [arrays[0], arrays[1], arrays[2]]
        dead = [weakref.ref(owner) for owner in owners]
        for array in arrays:
            device.launch(add_one, array, array, grid=1, block=8, stream=device.cpu_stream())
        del arrays, owners, array
        assert [reference() is None for reference in dead] == [True] * 3
        with installed():
            stream = device.GpuStream(0x77, 0, context=CONTEXT)
            x = device.zeros(8, stream=stream)
            device.launch(add_one, x, x, grid=1, block=8, stream=stream)
            memory = weakref.ref(x._memory)
            del x
            assert memory() is None
    finally:
        gc.enable()


class Table(np.ndarray):
    """An array that can be referred to weakly."""


def test_kernels_die_with_their_last_name():
    def make(number):
        table = np.full(1000, number, np.float32).view(Table)

        @device.func
        def shifted(a):
            return a + table[3]

        @device.kernel
        def shift(x):
            x[device.tid(1)] = shifted(x[device.tid(1)])

        return shift, table

    gone = []
    for number in range(3):
        x = np.zeros(8, np.float32)
        shift, table = make(number)
        device.launch(shift, x, grid=1, block=8, stream=device.cpu_stream())
        device.prepare(shift, x, grid=1, block=8, stream=device.cpu_stream())()
        device.launch(shift, x=x, grid=1, block=8, stream=device.cpu_stream())
        device.compile(shift, x, output="ptx")
        assert list(x) == [3 * number] * 8
        gone += [weakref.ref(shift), weakref.ref(shift.underlying), weakref.ref(table)]
        with installed():
            stream = device.GpuStream(0x77, 0, context=CONTEXT)
            y = device.zeros(8, stream=stream)
            for _ in range(20):
                device.launch(shift, y, grid=1, block=8, stream=stream)
    del shift, table
    gc.collect()
    assert [reference() for reference in gone] == [None] * 9


@pytest.mark.parametrize("same", [True, False], ids=["own stream", "another stream"])
def test_memory_of_a_gpu_is_bounded(same):
    with installed() as gpu:
        stream = device.GpuStream(0x77, 0, context=CONTEXT)
        arrays = stream if same else device.GpuStream(0x88, 0, context=CONTEXT)
        gpu.done = False
        most = 0
        for _ in range(3 * streams.MOST_RETAINED):
            x, y = device.empty(8, stream=arrays), device.empty(8, stream=arrays)
            device.launch(add_one, x, y, grid=1, block=8, stream=stream)
            most = max(most, len(gpu.memory))
        assert most <= (4 if same else 2 * (streams.MOST_RETAINED + 2))
        assert len(streams._retained[CONTEXT, 0x77].pending) <= streams.MOST_RETAINED
        del x, y
        gpu.finish()
        stream.synchronize()
        gc.collect()
        assert not gpu.memory


def test_threads_launch_and_start_at_once():
    shared_x, shared_y = np.ones(256, np.float32), np.zeros(256, np.float32)
    step = device.prepare(add_one, shared_x, shared_y, grid=1, block=256, stream=device.cpu_stream())

    def work(number):
        dtype = (np.float32, np.float64, np.int32, np.int16)[number % 4]
        for i in range(200):
            x, y = np.full(256, number + i, dtype), np.zeros(256, dtype)
            device.launch(add_one, x, y, grid=1 + i % 3, block=256, stream=device.cpu_stream())
            assert (y == number + i + 1).all()
            step()
            assert (shared_y == 2).all()
            step(x=y, y=y)
            assert (y == number + i + 2).all()

    at_once(partial(work, number) for number in range(8))


# Modules lose their names when the process ends, the last one first: what an early one has outlives ours.
LAST = """
import sys, types
early = sys.modules["early"] = types.ModuleType("early")
from fake_driver import CONTEXT, installed
import cuda_device as device

@device.kernel
def add_one(x):
    x[device.tid(1)] += 1

installation = installed()
installation.__enter__()
stream = device.GpuStream(0x77, 0, context=CONTEXT)
x = device.zeros(8, stream=stream)
step = device.prepare(add_one, x, grid=1, block=8, stream=stream)
step()
class Cycle:
    def __init__(self, stream):
        self.me, self.x = self, device.zeros(8, stream=stream)
        self.capsule = self.x.__dlpack__()
        stream.retain(self)
cycles = Cycle(stream), Cycle(device.cpu_stream())
early.kept = device.zeros(8, stream=stream), x, step, x.__dlpack__(), device.zeros(8, stream=device.cpu_stream()).__dlpack__()
sys.last = installation, list(sys.modules.values())  # lest they go before their names do
"""


@pytest.mark.needs("cpu")
def test_what_outlives_the_modules_says_nothing():
    assert python("-c", LAST).stderr == ""
