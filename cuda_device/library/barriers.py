"""Barriers of a grid and of a cluster.

    x[i] = …
    grid_sync()
    y[i] = x[j]                 # any thread of the grid may have written it

A launch of a kernel with `grid_sync` is cooperative: all of its blocks run at the same time. Each launch has its own counter
(`grid_word`). Each block adds 1 to it, except that the first block adds the number that flips the highest bit once all blocks
have arrived.
"""

from __future__ import annotations

from typing import Any

from numpy import uint32

from cuda_device.device.atomics import atomic_ref
from cuda_device.device.inline_ptx import ptx
from cuda_device.device.memory import cluster_word, grid_word
from cuda_device.device.positioning import block_idx, block_rank, cluster_dim, grid_dim, thread_idx
from cuda_device.device.sync import syncthreads

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
