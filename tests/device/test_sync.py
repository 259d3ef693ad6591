"""Barriers of a block: threads that return, deadlocks, PTX. programs/warps.txt has what they compute."""

import re

import numpy as np
import pytest
from conftest import poison
from ir_helpers import define

import cuda_device as device
from cuda_device import KernelError


@device.kernel
def some_return(out, limit):
    i = device.thread_idx.x
    if i >= limit:
        return
    out[i, 0] = device.syncthreads_count(True)
    out[i, 1] = device.syncthreads_and(i < limit)
    out[i, 2] = device.syncthreads_or(i >= limit)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("limit", [1, 32, 64])
def test_threads_that_have_returned_do_not_count(stream, limit):
    out = stream.empty((96, 3), np.int32)
    before = stream.numpy(out).copy()
    stream.launch(some_return, out, limit, grid=1, block=96)
    found = stream.numpy(out)
    assert (found[:limit] == [limit, 1, 0]).all()
    assert (found[limit:] == before[limit:]).all()


@pytest.mark.usefixtures("unchecked")
def test_threads_of_one_warp_may_return(stream):
    if stream.kind == "gpu":
        pytest.skip("an aligned barrier wants whole warps")
    assert (stream.run(some_return, poison((96, 3), np.int32), 45, block=96)[:45] == [45, 1, 0]).all()


@device.func
def votes(x):
    """A barrier in a function, called twice."""
    return device.syncthreads_count(x > 0)


@device.kernel
def in_functions(out, x):
    i = device.thread_idx.x
    out[i, 0] = votes(x[i])
    out[i, 1] = votes(-x[i]) + votes(x[i] - 10)


def test_barriers_in_functions(stream):
    x = np.arange(64, dtype=np.int32) - 20
    out, _ = stream.run(in_functions, poison((64, 2), np.int32), x, block=64)
    assert (out == [(x > 0).sum(), (x < 0).sum() + (x > 10).sum()]).all()


# Deadlocks: on the CPU alone


def report_of(kernel, block, *arguments):
    """The error that a launch on the CPU ends with."""
    with pytest.raises(KernelError) as caught:
        device.launch(kernel, *arguments, grid=1, block=block, stream=device.cpu_stream())
    return str(caught.value)


DISAGREE = [
    (64, "i < 32", "out[i] = device.syncthreads_count(True)", "device.syncthreads()", "0..31", "32..63"),
    (64, "i < 32", "out[i] = device.syncthreads_count(True)", "device.syncthreads_or(True)", "0..31", "32..63"),
    (64, "i < 16", "device.syncthreads_count(True)", "device.syncthreads_count(False)", "0..15", "16..63"),
    (32, "i < 16", "device.syncthreads()", "device.syncthreads()", "0..15", "16..31"),
    (32, "i < 16", "device.shfl_sync(-1, i, 0)", "device.syncthreads()", "0..15", "16..31"),
    (32, "i < 16", "device.shfl_sync(-1, i, 0)", "device.shfl_up_sync(-1, i, 0)", "0..15", "16..31"),
]


@pytest.mark.parametrize(("block", "condition", "first", "second", "some", "others"), DISAGREE)
def test_threads_that_wait_at_different_places_are_reported(block, condition, first, second, some, others):
    source = f"""
        @device.kernel
        def k(out):
            i = device.thread_idx.x
            if {condition}:
                {first}
            else:
                {second}
    """
    report = report_of(define(source, file="waiting.py"), block, np.zeros(64, np.int32))
    low, high = (re.escape(f"({each}, 0, 0)") for each in (some, others))
    assert re.search(
        rf"deadlock in block \(0, 0, 0\): threads {low} wait at waiting.py:5.*threads {high} at waiting.py:7", report
    )
    assert ("help: all lanes of a mask" in report) == ("shfl" in first)
    out = np.zeros(64, np.int32)
    device.launch(barriers, out, grid=1, block=64, stream=device.cpu_stream())  # the next good launch works
    assert out.tolist() == [60 + 0 + 1] * 64


@device.kernel
def barriers(out):
    i = device.thread_idx.x
    out[i] = device.syncthreads_count(i > 3) + device.syncthreads_and(i > 3) + device.syncthreads_or(i > 3)


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_100"])
def test_ptx_has_one_instruction_for_each(target):
    text = str(device.compile(barriers, np.zeros(64, np.int32), target=target, output="ptx"))
    for name in ("popc.u32", "and.pred", "or.pred"):
        assert len(re.findall(rf"\b(?:bar|barrier)(?:\.cta)?\.red(?:\.aligned)?\.{re.escape(name)}", text)) == 1, text
