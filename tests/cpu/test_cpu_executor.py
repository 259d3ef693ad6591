"""How kernels run on the CPU: blocks on workers, interrupts, memory, processes that fork."""

import _thread
import functools
import os
import re
import signal
import sys
import threading
import time

import numpy as np
import pytest
from at_once import at_once
from cpu_kernels import POISON, assembled, compiled, packed, reversal, run, run_reversal

import cuda_device as device
from cuda_device.cpu import cpu_executor, processor, regions
from cuda_device.runtime.gpu.report_message import ranges


@pytest.fixture(scope="module")
def code():
    return compiled(reversal, device.ArrayType(device.int32, 1), 5)


@pytest.mark.parametrize(
    "block", [(1, 1, 1), (7, 1, 1), (32, 1, 1), (33, 1, 1), (256, 1, 1), (8, 4, 3), (5, 7, 3), (1024, 1, 1)]
)
def test_threads_exchange_through_shared_memory_between_barriers(code, block):
    for grid in ((1, 1, 1), (5, 1, 1), (3, 4, 5)):
        run_reversal(code, grid, block)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_block_runs_once_whatever_the_number_of_workers(code, workers):
    run_reversal(code, (301, 3, 2), (40, 1, 1), workers=workers)


def test_concurrent_launches_of_one_kernel(code):
    def many():
        for _ in range(20):
            run_reversal(code, (11, 1, 1), (64, 1, 1), workers=2)

    at_once([many] * 8)


def test_ranges():
    size = (4, 3, 2)
    for chosen in ([0], [0, 1, 2, 3], list(range(24)), [0, 4, 8], [1, 2, 5, 6, 13, 14, 17, 18]):
        text = ranges(chosen, size)
        covered = set()
        for box in re.findall(r"\(([^)]*)\)", text):
            spans = [[int(n) for n in part.split("..")] for part in box.split(", ")]
            x, y, z = ([*range(s[0], s[-1] + 1)] for s in spans)
            covered |= {a + 4 * (b + 3 * c) for a in x for b in y for c in z}
        assert covered == set(chosen)
    assert ranges(range(0, 24, 2), size) == "(0, 0..2, 0..1), (2, 0..2, 0..1)"
    assert ranges(range(0, 64, 2), (64, 1, 1)).endswith("and 28 more groups")


CPU = device.cpu_stream()


@device.kernel
def fails_in_one_block(bad):
    """While the others wait for ever."""
    assert device.block_idx.x != bad or device.thread_idx.x != 31
    while True:
        device.syncthreads()


@device.kernel
def fails(bad):
    assert device.block_idx.x != bad


@device.kernel
def add(a, b, c):
    i = device.tid(1)
    if i < len(c):
        c[i] = a[i] + b[i]


@pytest.mark.parametrize("library", [np.array, functools.partial(device.array, stream=CPU)])
@pytest.mark.parametrize("size", [{"threads": 100}, {"threads": (100, 1)}, {"grid": 1}])
def test_a_launch_takes_few_calls_of_python(library, size):
    arrays = [library(np.full(100, k, np.float32)) for k in range(3)]

    def launch():
        device.launch(add, *arrays, block=128, stream=CPU, **size)

    launch()
    launch()
    called = []
    sys.setprofile(lambda frame, event, _: called.append((event, frame)))
    try:
        launch()
    finally:
        sys.setprofile(None)
    assert sum(event == "call" for event, _ in called) <= 48
    assert np.asarray(arrays[2]).tolist() == [1] * 100


def test_a_report_stops_threads_that_wait_for_ever():
    with pytest.raises(device.KernelError) as caught:
        device.launch(fails_in_one_block, 1, grid=2, block=32, stream=CPU)
    assert (caught.value.block, caught.value.thread) == ((1, 0, 0), (31, 0, 0))


def test_a_report_stops_the_largest_grid():
    with pytest.raises(device.KernelError, match="of block \\(0, 0, 0\\)"):
        device.launch(fails, 0, grid=(2**31 - 1, 65535, 65535), block=32, stream=CPU)


@pytest.mark.parametrize("how", ["ctrl_c", "interrupt_main"])
def test_an_interrupt_stops_threads_that_meet_for_ever(how):
    device.launch(fails, 1, grid=1, block=1, stream=CPU)
    call = {"ctrl_c": ctrl_c, "interrupt_main": _thread.interrupt_main}[how]
    assert interrupted(lambda: device.launch(fails_in_one_block, 9, grid=4, block=32, stream=CPU), call) < 1
    assert cpu_executor._POOL.busy == 0


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def interrupted(call, interrupt=ctrl_c, after=0.2):
    """Runs `call` and interrupts it meanwhile, as Ctrl-C does; the time that KeyboardInterrupt took to arrive."""
    sent = []

    def send():
        sent.append(time.monotonic())
        interrupt()

    timer = threading.Timer(after, send)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in a shell's background ignores it
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        return time.monotonic() - sent[0]
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_stops_a_launch(code, workers):
    out = np.full(64, POISON, np.int32)
    # Every block writes its slot at a wrapped index: n = 0 keeps all of them within `out`.
    parameters = packed("@Pqi", out.ctypes.data, len(out), 0)
    before = cpu_executor._POOL.busy
    assert interrupted(lambda: run(code, (1 << 30, 1, 1), (1, 1, 1), parameters, workers=workers)) < 1
    assert cpu_executor._POOL.busy == before
    run_reversal(code, (5, 1, 1), (32, 1, 1))


def test_an_interrupt_leaves_an_endless_thread_behind():
    body = """\
  br label %spin
spin:
  %go = load volatile i32, ptr %flag
  %on = icmp eq i32 %go, 0
  br i1 %on, label %spin, label %finish
"""
    code = assembled(body, ["ptr"], ["flag"])
    flag = np.zeros(1, np.int32)
    parameters = packed("@P", flag.ctypes.data)
    execution = functools.partial(run, code, (1, 1, 1), (1, 1, 1))
    try:
        assert interrupted(lambda: execution(parameters, flag)) < 2
        other = np.ones(1, np.int32)
        execution(packed("@P", other.ctypes.data))
    finally:
        flag[:] = 1
    deadline = time.monotonic() + 5
    while not cpu_executor._POOL.idle and time.monotonic() < deadline:
        time.sleep(0.01)
    assert cpu_executor._POOL.busy == 0


def test_no_memory_for_frames_is_reported(monkeypatch):
    @device.kernel
    def kernel(x):
        before = x[device.thread_idx.x]
        device.syncthreads()
        x[0] = before

    monkeypatch.setattr(regions.Regions, "block_bytes", 1 << 52)
    with pytest.raises(device.KernelError, match="no memory"):
        device.launch(kernel, np.zeros(64, np.float32), grid=4, block=64, stream=CPU)


def test_workers_follow_the_environment(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CPU_THREADS", "3")
    assert processor.worker_count.__wrapped__() == 3
    monkeypatch.setenv("CUDA_DEVICE_CPU_THREADS", "none")
    assert processor.worker_count.__wrapped__() >= 1


def test_launches_give_their_memory_back(code):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("no /proc")
    for _ in range(50):
        run_reversal(code, (2, 1, 1), (1024, 1, 1))
    before = resident()
    for _ in range(300):
        run_reversal(code, (2, 1, 1), (1024, 1, 1))
    assert resident() - before < 4096, "grew by more than 16 MB in 300 launches"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_can_launch(code):
    run_reversal(code, (4, 1, 1), (32, 1, 1))
    child = os.fork()
    if child == 0:
        try:
            run_reversal(code, (4, 1, 1), (32, 1, 1))
            os._exit(0)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")
