"""Named barriers: some of the warps of a block wait for each other."""

import re

import numpy as np
import pytest
from conftest import can_assemble

import cuda_device as device
from cuda_device import CompileError, KernelError

PRODUCERS, BLOCK = 96, 152
"""The last warp of the block has 24 lanes."""
ALL = 160


def relay(i, threads):
    """Three warps give rows to two others, and learn from them when these have read. `None` means a run-time number."""

    @device.kernel
    def k(x, y, number: device.int32, count: device.int32):
        tile = device.shared_array(PRODUCERS, x.dtype)
        t = device.thread_idx.x
        full, expected = number if i is None else i, count if threads is None else threads
        for row in range(x.shape[0]):
            if t < PRODUCERS:
                device.barrier_sync(2, ALL)
                tile[t] = x[row, t]
                device.barrier_arrive(full, expected)
            else:
                device.barrier_arrive(2, ALL)
                device.barrier_sync(full, expected)
                if t < PRODUCERS + 48:
                    y[row, t - PRODUCERS] = tile[t - PRODUCERS] + tile[t - 48]

    return k


@pytest.mark.parametrize(("i", "threads"), [(1, ALL), (15, None), (None, ALL), (None, None)])
def test_warps_wait_for_others(stream, i, threads):
    if stream.emulated:
        pytest.skip("no named barriers")
    x = np.random.default_rng(0).random((5, PRODUCERS), np.float32)
    y = stream.run(relay(i, threads), x, np.zeros((5, 48), np.float32), 3, ALL, block=BLOCK)[-1]
    assert (y == x[:, :48] + x[:, 48:]).all()


@pytest.mark.parametrize("options", [{}, {"schedule": 1}, {"schedule": 2}, {"schedule": 3}])
def test_barriers_order_memory_for_the_race_detector(options):
    """Also where a schedule delays warps."""
    x, y = np.ones((3, PRODUCERS), np.float32), np.zeros((3, 48), np.float32)
    device.launch(relay(1, ALL), x, y, 0, 0, grid=1, block=BLOCK, stream=device.cpu_stream(races=True, **options))
    assert (y == 2).all()


@device.kernel
def returns_early(out):
    """A lane that has returned does not hold up its warp, which counts as 32."""
    if device.lane_id == 3:
        return
    device.barrier_sync(1, 64)
    out[device.thread_idx.x] = 1


def test_lanes_that_have_returned_do_not_count():
    out = np.zeros(64, np.int32)
    device.launch(returns_early, out, grid=1, block=64, stream=device.cpu_stream())
    assert out.sum() == 62


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
def test_instructions(target):
    arguments = np.zeros((5, PRODUCERS), np.float32), np.zeros((5, 48), np.float32), 1, ALL
    for i in (1, None):
        text = device.compile(relay(i, ALL), *arguments, target=target, output="ptx").code
        assert len(re.findall(r"bar\.sync %r\d+, %r\d+;", text)) == 2
        assert len(re.findall(r"bar\.arrive %r\d+, %r\d+;", text)) == 2
        if can_assemble(target):
            device.compile(relay(i, ALL), *arguments, target=target)


def of(use):
    @device.kernel
    def k(n: device.int32):
        use(n)

    return k


WRONG = {
    "there is no barrier 16": lambda n: device.barrier_sync(16, 64),
    "there is no barrier -1": lambda n: device.barrier_arrive(-1, 64),
    "i must be an integer, not float 0.5": lambda n: device.barrier_sync(0.5, 64),
    "threads must be a multiple of 32 from 32 to 1024, not 33": lambda n: device.barrier_arrive(1, 33),
    "threads must be a multiple of 32 from 32 to 1024, not 1056": lambda n: device.barrier_sync(1, 1056),
}


@pytest.mark.parametrize(("message", "use"), WRONG.items(), ids=WRONG)
def test_wrong_constants(message, use):
    with pytest.raises(CompileError, match=message) as raised:
        device.compile(of(use), 1, target="sm_80")
    assert raised.value.location.file == __file__ and raised.value.help


def differing(n):
    device.barrier_arrive(1, 64 if device.thread_idx.x < 32 else 96)


FAILS = {
    "there is no barrier 37": lambda n: device.barrier_sync(n, 64),
    "threads must be a multiple of 32 from 32 to 1024, not 37": lambda n: device.barrier_arrive(1, n),
    "a barrier of 96 threads, at which others have arrived as one of 64": differing,
    r"deadlock in block .*threads \(0\.\.63, 0, 0\) wait at .* for named barrier 3: 64 of 96 threads have arrived": (
        lambda n: device.barrier_sync(3, 96)
    ),
}


@pytest.mark.parametrize(("message", "use"), FAILS.items(), ids=FAILS)
def test_what_cpu_streams_report(message, use):
    with pytest.raises(KernelError, match=message) as raised:
        device.launch(of(use), 37, grid=1, block=64, stream=device.cpu_stream())
    assert __file__ in str(raised.value)
