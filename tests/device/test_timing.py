"""Time in device code: counters go on, pauses take as long as they are asked to."""

import re
import time

import numpy as np
import pytest

import cuda_device as device


@device.kernel
def sleeps(out, ns):
    i = device.tid(1)
    begin, at = device.clock64(), device.globaltimer()
    device.nanosleep(ns)
    while device.globaltimer() - at < 2_000_000:
        pass
    out[i, 0] = device.clock64() - begin
    out[i, 1] = device.globaltimer() - at


def test_counters_go_on(stream):
    cycles, nanoseconds = stream.run(sleeps, np.zeros((64, 2), np.int64), 1000, grid=2, block=32).T
    assert (cycles > 1000).all()
    assert (nanoseconds >= 2_000_000).all()
    assert (nanoseconds < 10_000_000_000).all()


def test_the_host_has_them_too():
    begin, at = device.clock64(), device.globaltimer()
    device.nanosleep(2_000_000)
    assert type(begin) is np.int64
    assert type(at) is np.uint64
    assert device.clock64() - begin >= 2_000_000
    assert device.globaltimer() - at >= 1_000_000
    assert abs(int(at) - time.time_ns()) < 10_000_000_000


@pytest.mark.needs("ltoir")
def test_a_gpu_has_an_instruction_for_each():
    arrays = np.zeros((64, 2), np.int64), np.uint32(1000)
    text = device.compile(sleeps, *arrays, output="ptx").code
    assert len(re.findall(r"mov\.u64 \S+ %clock64;", text)) == 2
    assert len(re.findall(r"mov\.u64 \S+ %globaltimer;", text)) >= 3
    assert text.index("%clock64") < text.index("nanosleep.u32")
    assert device.compile(sleeps, *arrays).code
    assert device.compile(sleeps, *arrays, output="ltoir").code


def test_time_is_an_integer():
    @device.kernel
    def wrong(out):
        device.nanosleep(out[0])

    with pytest.raises(device.CompileError, match="nanosleep takes an integer, not float32") as caught:
        device.compile(wrong, np.zeros(4, np.float32))
    assert "test_timing.py" in str(caught.value)
