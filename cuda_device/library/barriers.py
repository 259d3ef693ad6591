"""Barriers of a grid, of a cluster and of a group of devices, and the arrays of such a group.

    x[i] = …
    grid_sync()
    y[i] = x[j]                 # any thread of the grid may have written it

    g[rank][i]                  an element of the part of any device, which may be read and written
    g[g.rank], g.own            the device's own part
    g.rank, g.n_devices         known only at run time: a kernel is compiled once for groups of all sizes

    group_barrier(flags)        waits for the same block on all devices
    signal(flags, rank)         signals to a device that it may continue
    wait_until(flags, rank)     waits for the signal of a device

A launch of a kernel with `grid_sync` is cooperative: all of its blocks run at the same time. Each launch has its own counter
(`grid_word`). Each block adds 1 to it, except that the first block adds the number that flips the highest bit once all blocks
have arrived.

All parts of the array of a group are contiguous and have the same shape. The part of a rank begins `offsets[rank]` bytes
after the device's own part.
"""

from __future__ import annotations

import functools
from typing import Any

from numpy import int32, uint32, uint64

from cuda_device.device.atomics import atomic_ref
from cuda_device.device.functions import func
from cuda_device.device.inline_ptx import ptx
from cuda_device.device.machine_functions import globaltimer, nanosleep
from cuda_device.device.memory import cluster_word, displaced, grid_word, shared_array
from cuda_device.device.positioning import block_idx, block_rank, cluster_dim, grid_dim, thread_idx
from cuda_device.device.sync import syncthreads
from cuda_device.types.host import ArrayType
from cuda_device.types.model import INT32, INT64, Array, Type
from cuda_device.types.struct_classes import REACHES_OTHERS, struct

_HIGHEST = 0x8000_0000


def grid_sync() -> None:
    """Waits until all threads of the grid have called it. Their earlier writes are then visible to all of them.

    Every thread of every block must call it. A kernel that calls it is launched cooperatively, as for CUDA's
    `cooperative_groups::this_grid().sync()`. If the grid has more blocks than the device can run at once, the launch raises a
    `LaunchError` that names the limit. The CPU stream runs up to 256 blocks at once. Device code only.
    """
    blocks = grid_dim.x * grid_dim.y * grid_dim.z
    _meet(grid_word(), blocks, block_idx.x == 0 and block_idx.y == 0 and block_idx.z == 0)


def _meet(number: Any, blocks: Any, is_first: Any) -> None:
    """Waits for the threads of a number of blocks, one of which is the first."""
    syncthreads()
    if thread_idx.x == 0 and thread_idx.y == 0 and thread_idx.z == 0:
        word = atomic_ref(number, 0)
        # The others add blocks - 1 in all.
        before = word.add(uint32(_HIGHEST - (blocks - 1)) if is_first else uint32(1), "release", "device")
        while ((word.load("acquire", "device") ^ before) & uint32(_HIGHEST)) == 0:
            pass
    syncthreads()


def cluster_sync() -> None:
    """Waits until all threads of the cluster have called it. Their earlier writes are then visible to all of them.

    Every thread of the cluster that has not returned must call it, as for CUDA's `cooperative_groups::this_cluster().sync()`;
    on the CPU stream, every thread of the block must call it. Without clusters, it is the same as `syncthreads`. Device code
    only, for sm_90 and later.
    """
    blocks = cluster_dim.x * cluster_dim.y * cluster_dim.z
    ptx("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;", blocks, host=_meet_cluster)


def _meet_cluster(blocks: Any) -> None:
    if blocks > 1:
        _meet(cluster_word(), blocks, block_rank == 0)
    else:
        syncthreads()


# Groups of devices


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
    """The struct of arrays with these elements and number of axes."""
    members = {"own": Array(element, ndim), "offsets": ArrayType(INT64, 1, readonly=True), "rank": INT32}
    names = {"n_devices": property(_count), "shape": property(_shape), "__getitem__": _part, "__len__": func(_count)}
    names |= {REACHES_OTHERS: True}
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
    outcome = shared_array(2, "int32")
    syncthreads()
    if thread_idx.x == 0 and thread_idx.y == 0 and thread_idx.z == 0:
        block = block_idx.x + grid_dim.x * (block_idx.y + grid_dim.y * block_idx.z)
        turn = _flag(flags.own, block, flags.rank).load("relaxed", "system") + 1
        for rank in range(flags.n_devices):
            signal(flags, rank, turn, block)
        outcome[0], outcome[1] = -1, 0
        for rank in range(flags.n_devices):
            if outcome[0] < 0:
                lead = _lead(flags, rank, turn, block, timeout, -1)
                if lead < 0 or lead > 1:
                    outcome[0], outcome[1] = rank, lead
        if outcome[1] == -1:
            for rank in range(flags.n_devices):
                signal(flags, rank, turn + _BROKEN, block)
    syncthreads()
    if outcome[1] == -1:
        raise TimeoutError(
            f"rank {outcome[0]} has not reached the barrier where rank {flags.rank} waits",
            "launch the kernel on all devices with the same grid, or raise the timeout",
        )
    if outcome[0] >= 0:
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
