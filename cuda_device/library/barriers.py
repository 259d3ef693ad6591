"""Barriers of a grid and of a cluster.

    x[i] = …
    grid_sync()
    y[i] = x[j]                 # any thread of the grid may have written it

A launch of a kernel with `grid_sync` is cooperative: all of its blocks run at the same time. Each launch has its own counter
(`grid_word`). Each block adds 1 to it, except that the first block adds the number that flips the highest bit once all blocks
have arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import uint32

from cuda_device.device.atomics import atomic_ref, await_change
from cuda_device.device.inline_ptx import ptx
from cuda_device.device.memory import block_words, cluster_word, grid_word
from cuda_device.device.positioning import (
    INSTEAD_OF_CLUSTERS,
    block_dim,
    block_idx,
    block_rank,
    cluster_dim,
    grid_dim,
    thread_idx,
)
from cuda_device.device.specialised import specialised
from cuda_device.device.sync import syncthreads
from cuda_device.device.target import sm90
from cuda_device.errors import DeviceOnlyError

_HIGHEST = 0x8000_0000


def grid_sync() -> None:
    """Waits until all threads of the grid have called it. Their earlier writes are then visible to all of them.

    Every thread of every block must call it. A kernel that calls it is launched cooperatively, as for CUDA's
    `cooperative_groups::this_grid().sync()`. If the grid has more blocks than the device can run at once, the launch raises a
    `LaunchError` that names the limit. The CPU stream runs up to 256 blocks at once. Device code only.
    """
    blocks = grid_dim.x * grid_dim.y * grid_dim.z
    is_first = block_idx.x == 0 and block_idx.y == 0 and block_idx.z == 0
    syncthreads()
    if thread_idx.x == 0 and thread_idx.y == 0 and thread_idx.z == 0:
        word = atomic_ref(grid_word(), 0)
        # The others add blocks - 1 in all.
        before = word.add(uint32(_HIGHEST - (blocks - 1)) if is_first else uint32(1), "release", "device")
        now = word.load("acquire", "device")
        while ((now ^ before) & uint32(_HIGHEST)) == 0:
            await_change(word, now, state="the barrier of the grid")
            now = word.load("acquire", "device")
    syncthreads()


def cluster_sync() -> None:
    """Waits until all threads of the cluster have called it. Their earlier writes are then visible to all of them.

    Every thread of the cluster that has not returned must call it, as for CUDA's `cooperative_groups::this_cluster().sync()`;
    on the CPU stream, every thread of the block must call it. It is `cluster_arrive` followed by `cluster_wait`, which other
    threads may call instead. Device code only, for sm_90 and later.
    """
    raise DeviceOnlyError.of("cluster_sync")


def cluster_arrive() -> None:
    """Arrives at the barrier of the cluster, a release, without waiting: the first half of `cluster_sync`.

    Each thread must call `cluster_wait` before it arrives again. Device code only, for sm_90 and later. PTX:
    barrier.cluster.arrive.
    """
    raise DeviceOnlyError.of("cluster_arrive")


def cluster_wait() -> None:
    """Waits until all threads of the cluster have arrived, an acquire: the second half of `cluster_sync`.

    The writes of all threads before `cluster_arrive` are then visible. Device code only, for sm_90 and later. PTX:
    barrier.cluster.wait.
    """
    raise DeviceOnlyError.of("cluster_wait")


# On the CPU, the last thread of each block to arrive does so for the block. The bit of a thread is the parity of the number of
# its arrivals, and the highest bit of the cluster's word that of the phases that are over.

_ARRIVED, _OF_ONE_BLOCK, _BITS = 24, 25, 32
"""Positions in `block_words`: the threads that have arrived, the word of a cluster of one block, and a bit for each thread."""


def _meet_cluster(blocks: Any) -> None:
    _arrive_in_cluster(blocks)
    _wait_in_cluster(blocks)


def _arrive_in_cluster(blocks: Any) -> None:
    words, thread = block_words(), _linear()
    atomic_ref(words, _BITS + (thread >> 5)).xor(uint32(1) << (thread & 31), "relaxed", "device")
    arrived = atomic_ref(words, _ARRIVED)
    if arrived.add(uint32(1), "acq_rel", "device") + 1 == block_dim.x * block_dim.y * block_dim.z:
        arrived.store(uint32(0), "relaxed", "device")
        if blocks == 1:
            atomic_ref(words, _OF_ONE_BLOCK).add(uint32(_HIGHEST), "acq_rel", "device")
        else:  # the others add blocks - 1 in all
            step = uint32(_HIGHEST - (blocks - 1)) if block_rank == 0 else uint32(1)
            atomic_ref(cluster_word(), 0).add(step, "acq_rel", "device")


def _wait_in_cluster(blocks: Any) -> None:
    words, thread = block_words(), _linear()
    parity = atomic_ref(words, _BITS + (thread >> 5)).load("relaxed", "device") >> (thread & 31) & 1
    if blocks == 1:
        _await_parity(atomic_ref(words, _OF_ONE_BLOCK), parity)
    else:
        _await_parity(atomic_ref(cluster_word(), 0), parity)


def _await_parity(word: Any, parity: Any) -> None:
    now = word.load("acquire", "device")
    while now >> 31 != parity:
        await_change(word, now, state="the barrier of the cluster")
        now = word.load("acquire", "device")


def _linear() -> Any:
    """The number of the thread in its block."""
    return thread_idx.x + block_dim.x * (thread_idx.y + block_dim.y * thread_idx.z)


def _of_clusters(entity: Callable[[], None], text: str, on_cpu: Callable[[Any], None]) -> None:
    """Makes an entity instructions on the barrier of the cluster, in place of which CPU streams call `on_cpu`."""

    def barrier() -> None:
        ptx(text, cluster_dim.x * cluster_dim.y * cluster_dim.z, host=on_cpu)

    specialised(entity, since=sm90, otherwise=INSTEAD_OF_CLUSTERS)(lambda: barrier)


_ARRIVE, _WAIT = "barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"
_of_clusters(cluster_sync, f"{_ARRIVE} {_WAIT}", _meet_cluster)
_of_clusters(cluster_arrive, _ARRIVE, _arrive_in_cluster)
_of_clusters(cluster_wait, _WAIT, _wait_in_cluster)
