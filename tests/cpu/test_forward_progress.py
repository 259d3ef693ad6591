"""Forward progress on the CPU stream: threads and blocks that wait for others, by atomics, let those run."""

import mmap
import threading
import time

import numpy as np
import pytest
from test_cpu_executor import interrupted

import cuda_device as device
from cuda_device.cpu import cpu_executor
from cuda_device.cpu.records import INTERLEAVED

CPU = device.cpu_stream()
EVEN = 0x55555555


@device.kernel
def relay(flag, out, last_first: device.ConstExpr):
    """Each thread waits for the one behind it, or before it."""
    i = device.tid(1)
    mine = device.grid_size(1) - i if last_first else i + 1
    turn = device.atomic_ref(flag, 0)
    while turn.load(memory="acquire") != mine:
        pass
    turn.store(mine + 1, memory="release")
    out[i] = mine


@device.kernel
def rounds(flag, out):
    """A barrier of the whole grid, three times over."""
    arrived = device.atomic_ref(flag, 0)
    for k in range(1, 4):
        if device.thread_idx.x == 0:
            arrived.add(1)
            while arrived.load(memory="acquire") < k * device.grid_dim.x:
                pass
        device.syncthreads()
    out[device.tid(1)] = arrived.load()


@device.kernel
def spin(flag):
    while device.atomic_ref(flag, 0).load(memory="acquire") != 1:
        pass


@device.kernel
def meet_for_ever(flag):
    while True:
        device.syncwarp(0xFFFFFFFF)


def run(kernel, grid, block, *more, flag=0):
    """Runs a kernel of (flag, out, …) and returns `out`."""
    out = np.full(grid * block, -77, np.int32)
    device.launch(kernel, np.full(1, flag, np.int32), out, *more, grid=grid, block=block, stream=CPU)
    return out


@pytest.mark.parametrize(("grid", "block"), [(1, 2), (1, 33), (1, 300), (2, 40), (40, 1), (INTERLEAVED, 1)])
def test_threads_and_blocks_wait_for_later_ones(grid, block):
    assert run(relay, grid, block, True, flag=1).tolist() == list(range(grid * block, 0, -1))


def test_a_finished_block_makes_room_for_the_next():
    """There are more blocks than may wait at a time."""
    assert run(relay, 2000, 3, False, flag=1).tolist() == list(range(1, 6001))


@pytest.mark.parametrize(("grid", "block"), [(1, 64), (7, 32), (INTERLEAVED, 4), (INTERLEAVED, 64)])
def test_a_barrier_of_the_whole_grid(grid, block):
    assert (run(rounds, grid, block) == 3 * grid).all()


@pytest.mark.parametrize("kernel", [spin, meet_for_ever])
def test_an_interrupt_stops_threads_that_wait_for_ever(kernel):
    flag = np.zeros(1, np.int32)
    device.launch(spin, np.ones(1, np.int32), grid=1, block=1, stream=CPU)
    assert interrupted(lambda: device.launch(kernel, flag, grid=1000, block=40, stream=CPU)) < 2
    assert cpu_executor._POOL.busy == 0


def test_lanes_that_spin_do_not_hold_up_their_warp():
    """Odd lanes spin until an even lane, after a meeting of the even ones, lets them go."""

    @device.kernel
    def kernel(flag, out):
        odd = device.lane_id & 1
        turn = device.atomic_ref(flag, 0)
        if odd:
            while turn.load(memory="acquire") != 1:
                pass
        else:
            device.syncwarp(EVEN)
            turn.store(1, memory="release")
        out[device.lane_id] = device.ballot_sync(0xFFFFFFFF, odd == 1)

    assert (run(kernel, 1, 32).view(np.uint32) == 0xAAAAAAAA).all()


def test_a_thread_that_spins_is_no_deadlock_but_a_block_without_one_is():
    @device.kernel
    def kernel(flag):
        if device.lane_id < 5:
            device.syncthreads()
        else:
            while device.atomic_ref(flag, 0).load(memory="acquire") != 1:
                pass
            device.syncwarp(0xFFFFFFFF)

    flag = np.zeros(1, np.int32)
    assert interrupted(lambda: device.launch(kernel, flag, grid=1, block=32, stream=CPU)) < 1
    flag[:] = 1
    with pytest.raises(device.KernelError, match=r"^deadlock in block .*\(0\.\.4, 0, 0\) wait at .* and .*"):
        device.launch(kernel, flag, grid=1, block=32, stream=CPU)


def test_blocks_put_aside_give_their_memory_back():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    for turn in range(60):
        assert (run(rounds, 64, 32) == 192).all()
        if turn == 10:
            before = resident()
    assert resident() - before < 4096, "grew by more than 16 MB in 50 launches"


# Waits for numbers in memory, which are deadlocks when nothing can end them


def waits_for(dtype):
    @device.kernel
    def kernel(flag, old: dtype):
        device.atomic_ref(flag, 0).wait(old)

    return kernel


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.int64])
def test_a_wait_ends_when_the_number_differs(dtype):
    @device.kernel
    def kernel(flag, out):
        i = device.thread_idx.x
        word = device.atomic_ref(flag, 0)
        if i > 0:
            word.wait(dtype(i - 1))
            while word.load() != i:  # another thread's turn
                word.wait(word.load())
        out[i] = i
        word.store(dtype(i + 1))

    flag, out = np.zeros(1, dtype), np.zeros(33, np.int32)
    flag[0] = 0
    device.launch(kernel, flag, out, grid=1, block=33, stream=CPU)
    assert flag == [33] and out.tolist() == list(range(33))


@pytest.mark.parametrize(("dtype", "grid"), [(np.int8, 1), (np.float32, 3), (np.int64, 1000)])
def test_a_wait_in_global_memory_that_nothing_ends(dtype, grid):
    start = time.monotonic()
    with pytest.raises(
        device.KernelError, match=r"^deadlock in .* wait at .* for an atomic that does not change"
    ) as raised:
        device.launch(waits_for(dtype), np.zeros(1, dtype), 0, grid=grid, block=40, stream=CPU)
    assert 1 <= time.monotonic() - start < 30 and __file__ in str(raised.value)
    device.launch(waits_for(dtype), np.ones(1, dtype), 0, grid=grid, block=40, stream=CPU)


@pytest.mark.parametrize("kind", ["thread", "timer"])
def test_a_wait_that_another_thread_of_the_program_ends(kind):
    flag = np.zeros(1, np.int32)

    def let_go(seconds=0.0):
        time.sleep(seconds)
        flag[0] = 1

    thread = threading.Timer(1.5, let_go) if kind == "timer" else threading.Thread(target=let_go, args=(1.5,))
    thread.start()
    device.launch(waits_for(np.int32), flag, 0, grid=3, block=40, stream=CPU)
    thread.join()


def test_memory_that_others_may_change():
    shared = np.ndarray(1, np.int32, mmap.mmap(-1, 4096))  # with child processes
    assert cpu_executor._judge(shared.ctypes.data)
    flag = np.zeros(1, np.int32)
    assert not cpu_executor._judge(flag.ctypes.data)
    timer = threading.Timer(60, flag.fill, (1,))
    timer.start()
    assert cpu_executor._judge(flag.ctypes.data)
    timer.cancel()
    timer.join()


def test_a_barrier_of_the_grid_that_a_block_does_not_reach():
    @device.kernel
    def kernel(flag):
        if device.block_idx.x == 0:
            device.atomic_ref(flag, 0).wait(0)
        device.grid_sync()

    with pytest.raises(device.KernelError, match=r"^deadlock in block \(\d, 0, 0\)") as raised:
        device.launch(kernel, np.zeros(1, np.int32), grid=3, block=32, stream=CPU)
    assert __file__ in str(raised.value)
