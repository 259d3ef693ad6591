"""Device code of groups of devices: their arrays, and how devices wait for each other.

    g[rank][i]                  an element of the part of any device, which may be read and written
    g[g.rank], g.own            the device's own part
    g.rank, g.n_devices         known only at run time: a kernel is compiled once for groups of all sizes

    group_barrier(flags)        waits for the same block on all devices
    signal(flags, rank)         signals to a device that it may continue
    wait_until(flags, rank)     waits for the signal of a device

All parts of the array of a group are contiguous and have the same shape. The part of a rank begins `offsets[rank]` bytes
after the device's own part.
"""

from __future__ import annotations

import functools
from typing import Any

from numpy import int32, int64, uint64

from cuda_device import (
    ArrayType,
    atomic_ref,
    block_idx,
    func,
    globaltimer,
    grid_dim,
    nanosleep,
    shared_array,
    struct,
    syncthreads,
    thread_idx,
)
from cuda_device.extend import displaced, model


@func
def _part(self: Any, rank: Any) -> Any:
    """The part of a device; a negative rank counts from the last one."""
    return displaced(self.own, self.offsets[rank])


def _count(self: Any) -> Any:
    return len(self.offsets)


def _shape(self: Any) -> Any:
    return self.own.shape


@functools.cache
def array_group(element: model.Type, ndim: int) -> Any:
    """The struct of arrays with these elements and number of axes."""
    members = {"own": model.Array(element, ndim), "offsets": ArrayType(int64, 1, readonly=True), "rank": int32}
    names = {"n_devices": property(_count), "shape": property(_shape), "__getitem__": _part, "__len__": func(_count)}
    names |= {"__reaches_others__": True}
    return struct(type("array_group", (), {"__annotations__": members, "__module__": __name__, **names}))


# How devices wait for each other. `flags[rank][slot, other]` is the value that the device `other` has sent to the device `rank`.
# Only `other` writes it, so stores suffice; atomic updates across PCIe may not be available.

_BROKEN = 1 << 30
"""What a device adds to its turn when it gives up at a barrier. Otherwise the turns of devices are at most one apart."""
_ANY = -1 << 31


def signal(flags: Any, rank: Any, value: Any = 1, slot: Any = 0) -> None:
    """Sends `value` to the device `rank`, which receives it with `wait_until`. Successive values must increase.

    `flags` is a `DeviceArrayGroup` of int32 of the shape (slots, number of devices), initially 0. Use a separate `slot` for
    each purpose, such as for each block. This is a release at system scope: the receiver sees what the thread has written
    before, and what other threads of its block have written before a `syncthreads()`. The kernels must run concurrently, like
    those of `launch_group`. Device code only.
    """
    _flag(flags[rank], slot, flags.rank).store(value, "release", "system")


def wait_until(flags: Any, rank: Any, value: Any = 1, slot: Any = 0, timeout: Any = 10.0) -> None:
    """Waits until the device `rank` has sent `value` or more to this device by `signal` with the same `flags` and `slot`.

    This is an acquire at system scope: the thread sees what that device had written, and so does its block after a
    `syncthreads()`. After `timeout` seconds, the thread stops with a `KernelError` that names the missing rank. Device code
    only.
    """
    if _lead(flags, rank, value, slot, timeout, _ANY) < 0:
        raise TimeoutError(
            f"rank {rank} has not signalled to rank {flags.rank}",
            "launch the kernel on all devices, or raise the timeout",
        )


def group_barrier(flags: Any, timeout: Any = 10.0) -> None:
    """Waits until all threads of the block, and of the blocks with the same index on all devices, have reached the barrier.

    Writes before the barrier are visible to all of them after it. `flags` is a `DeviceArrayGroup` of int32 of the shape
    (blocks of the grid, number of devices), initially 0 and used for nothing else. All blocks of the grid must fit on a device
    at once. After `timeout` seconds, the threads of the block stop with a `KernelError` that names the missing rank. The
    barrier is broken then: every later one with these flags is a `KernelError`, too, until `flags.fill(0)` on the host. Device
    code only.
    """
    verdict = shared_array(2, "int32")
    syncthreads()
    if thread_idx.x == 0 and thread_idx.y == 0 and thread_idx.z == 0:
        block = block_idx.x + grid_dim.x * (block_idx.y + grid_dim.y * block_idx.z)
        turn = _flag(flags.own, block, flags.rank).load("relaxed", "system") + 1
        for rank in range(flags.n_devices):
            signal(flags, rank, turn, block)
        verdict[0], verdict[1] = -1, 0
        for rank in range(flags.n_devices):
            if verdict[0] < 0:
                lead = _lead(flags, rank, turn, block, timeout, -1)
                if lead < 0 or lead > 1:
                    verdict[0], verdict[1] = rank, lead
        if verdict[1] == -1:
            for rank in range(flags.n_devices):
                signal(flags, rank, turn + _BROKEN, block)
    syncthreads()
    if verdict[1] == -1:
        raise TimeoutError(
            f"rank {verdict[0]} has not reached the barrier where rank {flags.rank} waits",
            "launch the kernel on all devices with the same grid, or raise the timeout",
        )
    if verdict[0] >= 0:
        raise RuntimeError(
            "an earlier barrier with these flags has timed out", "set the flags to zero on the host: flags.fill(0)"
        )


def _flag(flags: Any, slot: Any, rank: Any) -> Any:
    """What a device has sent to the one that has these flags."""
    if flags.dtype != int32:
        raise TypeError("the flags are not of int32", "create them with group.arrays((slots, len(group)), int32)")
    return atomic_ref(flags, (slot, rank))


def _lead(flags: Any, rank: Any, value: Any, slot: Any, timeout: Any, least: Any) -> Any:
    """How far what a device has sent is above `value`. Waits while it is below, but by no more than `least` says."""
    told = _flag(flags.own, slot, rank)
    begin, nanoseconds = globaltimer(), 16
    lead = int32(told.load("acquire", "system") - value)  # also where the numbers wrap
    while least <= lead and lead < 0 and globaltimer() - begin <= uint64(timeout * 1e9):
        nanosleep(nanoseconds)
        if nanoseconds < 1024:
            nanoseconds *= 2
        lead = int32(told.load("acquire", "system") - value)
    return lead
