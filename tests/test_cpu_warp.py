"""The scheduler of waiting threads on the CPU, below the compiler: LLVM text with meetings and yields, linked and executed."""

import math
import struct

import numpy as np
import pytest
from cpu_kernels import POISON, module, places, registers
from test_cpu_executor import interrupted

from cuda_device.codegen.cpu import cpu_dialect
from cuda_device.codegen.cpu.machine_code import compile_native
from cuda_device.codegen.cpu.records import FUEL, Suspension
from cuda_device.codegen.cpu.scheduler import INTERLEAVED
from cuda_device.errors import KernelError
from cuda_device.runtime import cpu_executor
from cuda_device.runtime.cpu_executor import execute


def store(value, index="%index", array="%out"):
    """Writes an i32 to an array."""
    return f"  {value}.slot = getelementptr i32, ptr {array}, i32 {index}\n  store i32 {value}, ptr {value}.slot\n"


INDEX = (
    registers("linear_thread", "lane_id", "block_idx.x", "block_dim.x")
    + """\
  %first = mul i32 %block_idx.x, %block_dim.x
  %index = add i32 %first, %linear_thread
"""
)
END = "  br label %coro.finish\n"


def run(code, grid, block, *more, count=None, **options):
    """Runs a kernel of (out, …) and returns `out`."""
    out = np.full(count or grid * block, POISON, np.int32)
    execute(code, (grid, 1, 1), (block, 1, 1), struct.pack("@P" + "q" * len(more), out.ctypes.data, *more), **options)
    return out


# The lanes pass a number around: every turn each takes its neighbour's.
RING = (
    INDEX
    + """\
  %next = add i32 %lane_id, 1
  br label %turn
turn:
  %k = phi i32 [0, %coro.start], [%k.next, %after]
  %value = phi i32 [%index, %coro.start], [%got, %after]
"""
    + cpu_dialect.exchange(
        Suspension.INDEX, 1, "after", "i32 %got", mask="i32 -1", value="i32 %value", lane="i32 %next"
    )
    + """\
  %k.next = add i32 %k, 1
  %again = icmp slt i32 %k.next, 10
  br i1 %again, label %turn, label %write
write:
"""
    + store("%got")
    + END
)


@pytest.mark.parametrize("workers", [1, 2])
def test_warps_of_many_blocks_exchange(workers):
    code = compile_native(module(RING, ["ptr"], ["out"], suspends=True))
    out = run(code, 50, 96, workers=workers)
    index = np.arange(50 * 96)
    assert (out == index // 32 * 32 + (index + 10) % 32).all()


@pytest.mark.parametrize("lanes", [1, 2, 31])
def test_a_source_that_does_not_exist_gives_the_own_value(lanes):
    body = (
        INDEX
        + cpu_dialect.exchange(Suspension.DOWN, 1, "after", "i32 %got", mask="i32 -1", value="i32 %index", lane="i32 1")
        + store("%got")
    )
    code = compile_native(module(body + END, ["ptr"], ["out"], suspends=True))
    assert run(code, 1, lanes).tolist() == [*range(1, lanes), lanes - 1]


def test_wide_values_keep_all_their_bits():
    body = (
        INDEX
        + "  %wide = sext i32 %index to i64\n  %value = mul i64 %wide, 4294967311\n"
        + cpu_dialect.exchange(Suspension.XOR, 1, "after", "i64 %got", mask="i32 -1", value="i64 %value", lane="i32 3")
        + "  %slot = getelementptr i64, ptr %out, i32 %index\n  store i64 %got, ptr %slot\n"
    )
    code = compile_native(module(body + END, ["ptr"], ["out"], suspends=True))
    out = run(code, 1, 64, count=128).view(np.int64)
    assert (out == (np.arange(64) ^ 3) * 4294967311).all()


# Even lanes meet twice, odd lanes four times, each set with its own mask.
GROUPS = (
    INDEX
    + """\
  %odd = and i32 %lane_id, 1
  %is.odd = icmp eq i32 %odd, 1
  %mask = select i1 %is.odd, i32 2863311530, i32 1431655765
  %turns = select i1 %is.odd, i32 4, i32 2
  %next = add i32 %lane_id, 2
  br label %turn
turn:
  %k = phi i32 [0, %coro.start], [%k.next, %after]
  %value = phi i32 [%index, %coro.start], [%got, %after]
"""
    + cpu_dialect.exchange(
        Suspension.INDEX, 1, "after", "i32 %got", mask="i32 %mask", value="i32 %value", lane="i32 %next"
    )
    + """\
  %k.next = add i32 %k, 1
  %again = icmp slt i32 %k.next, %turns
  br i1 %again, label %turn, label %write
write:
"""
    + store("%got")
    + END
)


def test_groups_of_one_warp_are_at_different_turns():
    out = run(compile_native(module(GROUPS, ["ptr"], ["out"], suspends=True)), 1, 64)
    index = np.arange(64)
    assert (out == index // 32 * 32 + (index + np.where(index % 2, 8, 4)) % 32).all()


def test_the_first_activemask_of_the_text_comes_first():
    body = (
        INDEX
        + "  %low = icmp slt i32 %lane_id, 8\n  br i1 %low, label %one, label %join\none:\n"
        + cpu_dialect.exchange(Suspension.ACTIVE, 1, "one.after", "i32 %early")
        + "  br label %join\njoin:\n  %seen = phi i32 [0, %coro.start], [%early, %one.after]\n"
        + cpu_dialect.exchange(Suspension.ACTIVE, 2, "after", "i32 %all")
        + "  %both = xor i32 %seen, %all\n"
        + store("%both")
        + END
    )
    out = run(compile_native(module(body, ["ptr"], ["out"], suspends=True)), 1, 32)
    assert out.tolist() == [~0xFF] * 8 + [-1] * 24


def test_a_lane_outside_of_its_mask_is_reported():
    body = INDEX + cpu_dialect.exchange(Suspension.SYNC, 5, "after", mask="i32 65535") + END
    code = compile_native(module(body, ["ptr"], ["out"], suspends=True))
    assert run(code, 1, 16).tolist() == [POISON] * 16
    with pytest.raises(KernelError) as caught:
        run(code, 1, 70, places=places(p5=77))
    assert str(caught.value).splitlines()[:2] == [
        "the mask 0x0000ffff does not name the lane 16, which passes it",
        "  at kernel.py:77, in thread (16, 0, 0) of block (0, 0, 0)",
    ]


def test_an_interrupt_stops_lanes_that_meet_for_ever():
    body = (
        "  br label %again\nagain:\n"
        + cpu_dialect.exchange(Suspension.SYNC, 0, "after", mask="i32 -1")
        + "  br label %again\n"
    )
    code = compile_native(module(body, suspends=True))
    assert interrupted(lambda: execute(code, (4, 1, 1), (32, 1, 1), b"")) < 1
    assert cpu_executor._POOL.busy == 0


# Barriers with a predicate


def reduction(kind):
    body = INDEX + "  %flag = icmp slt i32 %linear_thread, %limit\n"
    got = "i32 %got" if kind is Suspension.COUNT else "i1 %got"
    body += cpu_dialect.exchange(kind, 1, "after", got, value="i1 %flag")
    body += "" if kind is Suspension.COUNT else "  %wide = zext i1 %got to i32\n"
    return body + store("%got" if kind is Suspension.COUNT else "%wide") + END


@pytest.mark.parametrize("block", [1, 32, 33, 1000])
def test_barriers_reduce_over_the_block(block):
    for kind, expected in (
        (Suspension.COUNT, lambda limit: min(limit, block)),
        (Suspension.AND, lambda limit: limit >= block),
        (Suspension.OR, lambda limit: limit > 0),
    ):
        code = compile_native(module(reduction(kind), ["ptr", "i32"], ["out", "limit"], suspends=True))
        for limit in (0, 1, block - 1, block, 5000):
            assert (run(code, 3, block, limit) == expected(limit)).all()


def test_checked_mode_wants_all_threads_at_a_barrier_with_a_predicate():
    body = (
        INDEX
        + "  %gone = icmp slt i32 %linear_thread, %limit\n  br i1 %gone, label %coro.finish, label %stay\nstay:\n"
        + cpu_dialect.exchange(Suspension.COUNT, 1, "after", "i32 %got", value="i1 true")
        + store("%got")
        + END
    )
    code = compile_native(module(body, ["ptr", "i32"], ["out", "limit"], suspends=True))
    assert run(code, 1, 64, 3)[3:].tolist() == [61] * 61
    assert (run(code, 1, 64, 0, checked=True) == 64).all()
    with pytest.raises(KernelError, match=r"^divergent barrier .* \(0..2, 0, 0\) have returned"):
        run(code, 1, 64, 3, checked=True)


# Turns


def spin(label, test, way=cpu_dialect.yield_sometimes):
    """Waits until the i32 at `%flag` passes `test`, a comparison without its first operand."""
    return f"""\
  br label %{label}
{label}:
  %{label}.seen = load atomic i32, ptr %flag acquire, align 4
  %{label}.go = icmp {test.format(f"%{label}.seen")}
  br i1 %{label}.go, label %{label}.done, label %{label}.wait
{label}.wait:
{way(3, f"{label}.turn")}  br label %{label}
{label}.done:
"""


RELAY = (
    registers("linear_thread", "block_idx.x", "block_dim.x", "grid_dim.x")
    + """\
  %first = mul i32 %block_idx.x, %block_dim.x
  %index = add i32 %first, %linear_thread
  %all = mul i32 %grid_dim.x, %block_dim.x
  %mine = sub i32 %all, %index
"""
    # The last thread of the last block goes first, and each thread waits for the one behind it.
    + spin("spin", "eq i32 {}, %mine")
    + """\
  %more = add i32 %mine, 1
  store atomic i32 %more, ptr %flag release, align 4
"""
    + store("%mine")
    + END
)


@pytest.mark.parametrize("way", [cpu_dialect.yield_now, cpu_dialect.yield_sometimes])
@pytest.mark.parametrize(("grid", "block"), [(1, 2), (1, 33), (1, 300), (2, 40), (40, 1), (INTERLEAVED, 1)])
@pytest.mark.parametrize("workers", [1, 2])
def test_threads_and_blocks_wait_for_later_ones(way, grid, block, workers):
    body = RELAY if way is cpu_dialect.yield_sometimes else RELAY.replace(*(
        spin("spin", "eq i32 {}, %mine", each) for each in (cpu_dialect.yield_sometimes, cpu_dialect.yield_now)
    ))  # fmt: skip
    code = compile_native(module(body, ["ptr", "ptr"], ["out", "flag"], suspends=True))
    flag = np.ones(1, np.int32)
    out = run(code, grid, block, flag.ctypes.data, workers=workers)
    assert out.tolist() == list(range(grid * block, 0, -1))


# A barrier of the whole grid, three times over.
GRID = (
    registers("linear_thread", "block_idx.x", "block_dim.x", "grid_dim.x", "shared")
    + """\
  %first = mul i32 %block_idx.x, %block_dim.x
  %index = add i32 %first, %linear_thread
  %is.first = icmp eq i32 %linear_thread, 0
  br label %round
round:
  %k = phi i32 [1, %coro.start], [%k.next, %joined]
  %goal = mul i32 %k, %grid_dim.x
  br i1 %is.first, label %arrive, label %meet
arrive:
  %old = atomicrmw add ptr %flag, i32 1 acq_rel
"""
    + spin("spin", "sge i32 {}, %goal")
    + "  br label %meet\nmeet:\n"
    + cpu_dialect.barrier(1, "joined")
    + """\
  %k.next = add i32 %k, 1
  %again = icmp sle i32 %k.next, 3
  br i1 %again, label %round, label %write
write:
  %seen = load atomic i32, ptr %flag monotonic, align 4
"""
    + store("%seen")
    + END
)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("grid", "block"), [(1, 64), (7, 32), (INTERLEAVED, 4), (INTERLEAVED, 64)])
def test_a_barrier_of_the_whole_grid(grid, block, workers):
    code = compile_native(module(GRID, ["ptr", "ptr"], ["out", "flag"], suspends=True))
    flag = np.zeros(1, np.int32)
    out = run(code, grid, block, flag.ctypes.data, workers=workers)
    assert (out == 3 * grid).all()


def test_a_finished_block_makes_room_for_the_next():
    """Each block waits for the one before it, and there are more than may wait at a time."""
    body = RELAY.replace("sub i32 %all, %index", "add i32 %index, 1")
    code = compile_native(module(body, ["ptr", "ptr"], ["out", "flag"], suspends=True))
    flag = np.ones(1, np.int32)
    out = run(code, 2000, 3, flag.ctypes.data, workers=2)
    assert out.tolist() == list(range(1, 6001))


def test_an_interrupt_stops_threads_that_spin_for_ever():
    body = spin("spin", "eq i32 {}, 1") + END
    code = compile_native(module(body, ["ptr"], ["flag"], suspends=True))
    flag = np.zeros(1, np.int32)
    parameters = struct.pack("@P", flag.ctypes.data)
    assert interrupted(lambda: execute(code, (1000, 1, 1), (40, 1, 1), parameters, keep=flag)) < 2
    assert cpu_executor._POOL.busy == 0


def test_a_yield_costs_a_turn_only_once_in_a_while():
    body = (
        INDEX
        + "  br label %turn\nturn:\n  %k = phi i32 [0, %coro.start], [%k.next, %after]\n"
        + "  %seen.at = getelementptr i32, ptr %out, i32 %index\n  store i32 %k, ptr %seen.at\n"
        # Thread 0 writes down how far thread 1 has come.
        + "  %other.at = getelementptr i32, ptr %out, i32 1\n  %other = load volatile i32, ptr %other.at\n"
        + cpu_dialect.yield_sometimes(1, "after")
        + f"  %k.next = add i32 %k, 1\n  %again = icmp slt i32 %k.next, {3 * FUEL}\n"
        + "  br i1 %again, label %turn, label %write\nwrite:\n"
        + store("%other")
        + END
    )
    out = run(compile_native(module(body, ["ptr"], ["out"], suspends=True)), 1, 2)
    assert 0 < out[0] <= 3 * FUEL
    assert out[0] % FUEL == FUEL - 1


def test_lanes_that_yield_do_not_hold_up_a_warp():
    """Odd lanes spin until an even lane, after a meeting of the even ones, lets them go."""
    body = (
        INDEX
        + "  %odd = trunc i32 %lane_id to i1\n  br i1 %odd, label %wait, label %meet\nwait:\n"
        + spin("spin", "eq i32 {}, 1")
        + "  br label %join\nmeet:\n"
        + cpu_dialect.exchange(Suspension.SYNC, 1, "met", mask="i32 1431655765")
        + "  store atomic i32 1, ptr %flag release, align 4\n  br label %join\njoin:\n"
        + cpu_dialect.exchange(Suspension.BALLOT, 2, "after", "i32 %got", mask="i32 -1", value="i1 %odd")
        + store("%got")
        + END
    )
    code = compile_native(module(body, ["ptr", "ptr"], ["out", "flag"], suspends=True))
    flag = np.zeros(1, np.int32)
    assert (run(code, 1, 32, flag.ctypes.data).view(np.uint32) == 0xAAAAAAAA).all()


def test_a_thread_that_spins_is_no_deadlock_but_a_block_without_one_is():
    body = (
        INDEX
        + "  %low = icmp slt i32 %lane_id, 5\n  br i1 %low, label %one, label %two\none:\n"
        + cpu_dialect.barrier(1, "met")
        + "  br label %coro.finish\ntwo:\n"
        + spin("spin", "eq i32 {}, 1")
        + cpu_dialect.exchange(Suspension.SYNC, 2, "after", mask="i32 -1")
        + END
    )
    code = compile_native(module(body, ["ptr", "ptr"], ["out", "flag"], suspends=True))
    flag = np.zeros(1, np.int32)
    assert interrupted(lambda: run(code, 1, 32, flag.ctypes.data, keep=flag)) < 1
    flag[:] = 1
    with pytest.raises(KernelError, match=r"^deadlock in block .*\(0\.\.4, 0, 0\) wait at kernel.py:10 and .*:20"):
        run(code, 1, 32, flag.ctypes.data, places=places(p1=10, p2=20))


def test_blocks_put_aside_give_their_memory_back():
    code = compile_native(module(GRID, ["ptr", "ptr"], ["out", "flag"], suspends=True, shared=4096))

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    for turn in range(60):
        flag = np.zeros(1, np.int32)
        assert (run(code, 64, 32, flag.ctypes.data, workers=2) == 192).all()
        if turn == 10:
            before = resident()
    assert resident() - before < 4096, "grew by more than 16 MB in 50 launches"


def test_places_are_bounded():
    with pytest.raises(ValueError, match="a place is a number"):
        cpu_dialect.exchange(Suspension.SYNC, 1 << 24, "after", mask="i32 -1")
    assert math.log2(FUEL) == int(math.log2(FUEL))
