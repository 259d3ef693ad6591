"""How devices of a group wait for each other in device code, with CPU streams as devices."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from test_groups import cpu_group

import cuda_device as device
from cuda_device import group_barrier, int32, launch_group, signal, wait_until


@device.kernel
def rounds(x, flags, n):
    """In each round, every element becomes the sum of those of all devices."""
    i = device.tid(1)
    for turn in range(n):
        total = 0.0
        for rank in range(x.n_devices):
            total += x[rank][i]
        group_barrier(flags)
        x.own[i] = total
        group_barrier(flags)


@pytest.mark.parametrize(("count", "blocks"), [(1, 1), (2, 1), (2, 3), (3, 2), (4, 1)])
def test_a_barrier_parts_what_is_before_from_what_is_after(count, blocks):
    group = cpu_group(count)
    x = device.DeviceArrayGroup.of([np.full(32 * blocks, rank + 1, np.float32) for rank in range(count)], group)
    flags = group.arrays((blocks, count), int32)
    for launches in (1, 2):  # the flags need not be cleared
        launch_group(group, rounds, x, flags, 2, grid=blocks, block=32)
        total = sum(range(1, count + 1)) * count ** (2 * launches - 1)
        assert all((x.local(rank).numpy() == total).all() for rank in range(count))
    assert flags.local(0).numpy()[:, 0].tolist() == [8] * blocks


def test_blocks_of_several_axes():
    @device.kernel
    def k(x, flags):
        j, i = device.block_idx.y, device.block_idx.x
        if device.thread_idx.x + device.thread_idx.y == 0:
            x.own[j, i] = 1 + x.rank
        group_barrier(flags)
        if device.thread_idx.x == 1 and device.thread_idx.y == 1:
            x.own[j, i] += 10 * x[1 - x.rank][j, i]  # which the other may have changed again, or not

    group = cpu_group(2)
    x = group.arrays((2, 3), int32)
    launch_group(group, k, x, group.arrays((6, 2), int32), grid=(3, 2), block=(2, 2))
    assert (x.local(0).numpy() % 10 == 1).all() and (x.local(1).numpy() % 10 == 2).all()
    assert (x.local(0).numpy() >= 21).all() and (x.local(1).numpy() >= 12).all()


@device.kernel
def ring(x, flags, laps):
    """A number goes round, and each device adds one to it."""
    n, me = x.n_devices, x.rank
    for lap in range(1, laps + 1):
        if me > 0 or lap > 1:
            wait_until(flags, (me - 1) % n, lap if me > 0 else lap - 1)
        x[(me + 1) % n][0] = x.own[0] + 1
        signal(flags, (me + 1) % n, lap)


@pytest.mark.parametrize("count", [2, 3])
def test_signals_go_round(count):
    group = cpu_group(count)
    x = group.arrays(1)
    launch_group(group, ring, x, group.arrays((1, count), int32), 5, grid=1, block=1)
    assert x.local(0).numpy()[0] == 5 * count


@device.kernel
def one_is_missing(flags, absent, how, timeout):
    if flags.rank != absent:
        if how == 0:
            group_barrier(flags, timeout=timeout)
        else:
            wait_until(flags, absent, slot=1, timeout=timeout)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (0, r"TimeoutError: rank 1 has not reached the barrier where rank {} waits"),
        (1, r"TimeoutError: rank 1 has not signalled to rank {}"),
    ],
)
def test_the_missing_rank_is_reported(how, message):
    group = cpu_group(3)
    flags = group.arrays((2, 3), int32)
    with pytest.raises(device.GroupError) as caught:
        launch_group(group, one_is_missing, flags, 1, how, 0.2, grid=1, block=40)
    assert caught.value.ranks == [0, 2]
    for rank, error in zip(caught.value.ranks, caught.value.exceptions, strict=True):
        assert isinstance(error, device.KernelError)
        assert re.search(message.format(rank), str(error))
        assert re.search(r"at .*test_group_barriers\.py:\d+", str(error))
    launch_group(group, one_is_missing, group.arrays((2, 3), int32), -1, 0, 60.0, grid=1, block=40)


@pytest.mark.parametrize("count", [2, 3])
def test_a_barrier_that_timed_out_is_broken_until_its_flags_are_cleared(count):
    group = cpu_group(count)
    flags = group.arrays((1, count), int32)
    launch = partial(launch_group, group, one_is_missing, flags, grid=1, block=40)
    with pytest.raises(device.GroupError):
        launch(1, 0, 0.2)
    for _ in range(2):
        with pytest.raises(device.GroupError) as caught:
            launch(-1, 0, 60.0)
        assert caught.value.ranks == list(range(count))
        for error in caught.value.exceptions:
            assert "RuntimeError: an earlier barrier with these flags has timed out" in str(error)
    flags.fill(0)
    launch(-1, 0, 60.0)
    assert flags.local(0).numpy().tolist() == [[1] * count]


def test_flags_are_int32():
    group = cpu_group(2)
    for dtype in (np.float32, np.int64):
        for how in (0, 1):
            with pytest.raises(device.GroupError) as caught:
                launch_group(group, one_is_missing, group.arrays((2, 2), dtype), 1, how, 60.0, grid=1, block=1)
            assert "TypeError: the flags are not of int32" in str(caught.value.exceptions[0])


def test_numbers_wrap():
    group = cpu_group(2)
    flags = group.arrays((1, 2), int32)
    for rank in range(2):
        flags.local(rank).fill(2**31 - 1)
    x = group.arrays(32)
    launch_group(group, rounds, x, flags, 2, grid=1, block=32)
    assert flags.local(0).numpy()[0, 0] == -(2**31) + 3


def test_ptx_has_orders_and_the_scope_of_the_system():
    struct = type(cpu_group(1).arrays((1, 1), int32).on(0))
    text = device.compile(one_is_missing, struct, int, int, float, output="ptx").code
    assert "ld.acquire.sys" in text and "st.release.sys" in text
    device.compile(rounds, type(cpu_group(1).arrays(1).on(0)), struct, int)


def test_host_code_cannot_wait():
    flags = cpu_group(1).arrays((1, 1), int32).on(0)
    for call in (lambda: group_barrier(flags), lambda: signal(flags, 0), lambda: wait_until(flags, 0)):
        with pytest.raises(device.DeviceOnlyError):
            call()
