"""Barriers of a block, with and without predicates, on each stream against NumPy."""

import re

import numpy as np
import pytest
from conftest import poison
from ir_helpers import define

import cuda_device as device
from cuda_device import KernelError

BLOCKS = [(1,), (7,), (32,), (33,), (256,), (1024,), (8, 4, 3), (5, 7, 3)]


@device.kernel
def reductions(out, x):
    tx, ty, tz = device.tid(3)
    i = tx + device.block_dim.x * (ty + device.block_dim.y * tz)
    block = device.block_idx.x
    thread = device.thread_idx.x + device.block_dim.x * (device.thread_idx.y + device.block_dim.y * device.thread_idx.z)
    value = x[block, thread]
    out[block, thread, 0] = device.syncthreads_count(value != 0)
    out[block, thread, 1] = device.syncthreads_and(value != 0)
    out[block, thread, 2] = device.syncthreads_or(value != 0)
    out[block, thread, 3] = i * 0


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_barriers_count_and_join(stream, block):
    count = int(np.prod(block))
    rng = np.random.default_rng(2)
    x = np.zeros((5, count), np.int8)
    x[1] = 3
    x[2, count - 1] = 1
    x[3] = 1
    x[3, 0] = 0
    x[4] = rng.integers(0, 2, count)
    out, _ = stream.run(reductions, poison((5, count, 4), np.int32), x, grid=5, block=block)
    true = (x != 0).sum(axis=1)
    expected = np.stack([true, true == count, true > 0, 0 * true], axis=1)
    assert (out == expected[:, None, :]).all()


def is_even():
    return device.thread_idx.x % 2 == 0


@device.func
def is_low():
    return device.thread_idx.x < 10


@device.kernel
def predicates(out, limit):
    i = device.thread_idx.x
    far = i + limit
    out[i, 0] = device.syncthreads_count(is_even)
    out[i, 1] = device.syncthreads_count(is_low)
    out[i, 2] = device.syncthreads_count(lambda: far > 50)
    out[i, 3] = device.syncthreads_count(pred=lambda: True)
    out[i, 4] = device.syncthreads_count(False)

    def nested():
        return i == limit

    out[i, 5] = device.syncthreads_or(nested)
    out[i, 6] = device.syncthreads_and(nested)
    out[i, 7] = device.syncthreads_count(lambda: i & 3)


def test_predicates_are_functions_without_parameters(stream):
    out = stream.run(predicates, poison((70, 8), np.int32), 7, block=70)
    i = np.arange(70)
    expected = [35, 10, (i + 7 > 50).sum(), 70, 0, True, False, (i % 4 != 0).sum()]
    assert (out == expected).all()


@device.kernel
def shared_after_reduction(out, turns):
    i = device.thread_idx.x
    n = device.block_dim.x
    tile = device.shared_array(256, device.int32)
    tile[i] = i
    total = 0
    for turn in range(turns):
        total += device.syncthreads_count(lambda: tile[i] % 3 == turn % 3)  # noqa: B023
        value = tile[(i + 1) % n]
        device.syncthreads()
        tile[i] = value
        if device.syncthreads_or(tile[i] < 0):
            break
    out[i, 0] = total
    out[i, 1] = tile[i]


@pytest.mark.parametrize("threads", [32, 100, 256])
def test_a_barrier_with_a_predicate_orders_memory(stream, threads):
    out = stream.run(shared_after_reduction, poison((threads, 2), np.int32), 5, block=threads)
    i = np.arange(threads)
    total = sum((i % 3 == turn % 3).sum() for turn in range(5))
    assert (out == np.stack([np.full(threads, total), (i + 5) % threads], axis=1)).all()


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
