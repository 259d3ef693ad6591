"""Arrays that have a part on each device of a group, as kernels see them: an ordinary struct.

    g[rank][i]                  an element of the part of any device, which may be read and written
    g[g.rank], g.own            the device's own part
    g.rank, g.n_devices         numbers of run time: a kernel is compiled once for groups of all sizes

    group_barrier(flags)        waits for the same block on all devices
    signal(flags, rank)         tells a device that it may go on, and
    wait_until(flags, rank)     waits to be told so by a device

`groups/device_group` makes them. The parts have one shape and are contiguous; that of a rank lies `offsets[rank]` bytes behind
the own one.
"""

from __future__ import annotations

import functools
from typing import Any

from numpy import int32, uint64

from cuda_device.device.atomics import atomic_ref
from cuda_device.device.functions import func
from cuda_device.device.machine_functions import globaltimer, nanosleep
from cuda_device.device.memory import displaced, shared_array
from cuda_device.device.positioning import block_idx, grid_dim, thread_idx
from cuda_device.device.sync import syncthreads
from cuda_device.types.dtypes import ArrayType
from cuda_device.types.model import INT32, INT64, Array, Type
from cuda_device.types.struct_classes import struct


@func
def _part(self: Any, rank: Any) -> Any:
    """The part of a device; a negative rank counts from the last one."""
    return displaced(self.own, self.offsets[rank])


def _count(self: Any) -> Any:
    return len(self.offsets)


def _shape(self: Any) -> Any:
    return self.own.shape


@functools.cache
def array_group(element: Type, ndim: int) -> Any:
    """The struct of arrays of these elements and so many axes."""
    members = {"own": Array(element, ndim), "offsets": ArrayType(INT64, 1, readonly=True), "rank": INT32}
    names = {"n_devices": property(_count), "shape": property(_shape), "__getitem__": _part, "__len__": func(_count)}
    return struct(type("array_group", (), {"__annotations__": members, "__module__": __name__, **names}))


# How devices wait for each other. `flags` is an array group of integers of two axes: `flags[rank][slot, other]` is what the
# device `other` has told the device `rank`. Only `other` writes it, so that it takes stores and no atomic updates across devices.


def signal(flags: Any, rank: Any, value: Any = 1, slot: Any = 0) -> None:
    """Tells the device `rank` the number `value`, which `wait_until` waits for there; numbers told one after the other grow.

    `flags` is a `DeviceArrayGroup` of int32 of the shape (slots, number of devices), 0 at first; a `slot` is for one purpose, or
    one block of several. What the thread has written before, and other threads of its block before a
    `syncthreads()`, is visible to who has waited: a release of system scope. For kernels that run at once, as those of
    `launch_group` do. Device code only.
    """
    atomic_ref(flags[rank], (slot, flags.rank)).store(value, "release", "system")


def wait_until(flags: Any, rank: Any, value: Any = 1, slot: Any = 0, timeout: Any = 10.0) -> None:
    """Waits until the device `rank` has told this one `value`, or more, by `signal` with the same `flags` and `slot`.

    What that device had written then is visible to the thread (an acquire of system scope), and to its block after a
    `syncthreads()`. After `timeout` seconds the thread ends with a `KernelError` that names the missing rank. Device code only.
    """
    if not _is_told(flags, rank, value, slot, timeout):
        raise TimeoutError(f"rank {rank} has not told rank {flags.rank} that it may go on")


def group_barrier(flags: Any, timeout: Any = 10.0) -> None:
    """Waits until all threads of the block, and of the blocks of the same index on all devices of the group, have come here.

    What they have written before is visible to them all after. `flags` is a `DeviceArrayGroup` of int32 of the shape (blocks of
    the grid, number of devices), 0 at first and used for nothing else. All blocks of the grid have to fit on a device at once.
    After `timeout` seconds the threads of the block end with a `KernelError` that names the missing rank. Device code only.
    """
    missing = shared_array(1, "int32")
    syncthreads()
    if thread_idx.x == 0 and thread_idx.y == 0 and thread_idx.z == 0:
        block = block_idx.x + grid_dim.x * (block_idx.y + grid_dim.y * block_idx.z)
        turns = atomic_ref(flags.own, (block, flags.rank))
        turn = turns.load("relaxed", "system") + 1
        turns.store(turn, "relaxed", "system")
        for rank in range(flags.n_devices):
            if rank != flags.rank:
                signal(flags, rank, turn, block)
        missing[0] = -1
        for rank in range(flags.n_devices):
            if missing[0] < 0 and rank != flags.rank and not _is_told(flags, rank, turn, block, timeout):
                missing[0] = rank
    syncthreads()
    if missing[0] >= 0:
        raise TimeoutError(f"rank {missing[0]} has not come to the barrier where rank {flags.rank} waits")


def _is_told(flags: Any, rank: Any, value: Any, slot: Any, timeout: Any) -> Any:
    """Whether a device tells this one `value` in time."""
    told = atomic_ref(flags.own, (slot, rank))
    begin, nanoseconds = globaltimer(), 16
    while int32(told.load("acquire", "system") - value) < 0:  # also where the numbers wrap
        if globaltimer() - begin > uint64(timeout * 1e9):
            return False
        nanosleep(nanoseconds)
        if nanoseconds < 1024:
            nanoseconds *= 2
    return True
