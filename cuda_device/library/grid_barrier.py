"""`grid_sync`: a barrier of all threads of a launch.

    x[i] = …
    grid_sync()
    y[i] = x[j]         # which any thread may have written

A launch of such a kernel is cooperative: all of its blocks run at once. It has a number of its own (`grid_word`), to which each
block adds 1, and the first block what makes the highest bit change when all have come.
"""

from __future__ import annotations

from numpy import uint32

from cuda_device.device.atomics import atomic_ref
from cuda_device.device.memory import grid_word
from cuda_device.device.positioning import block_idx, grid_dim, thread_idx
from cuda_device.device.sync import syncthreads

_HIGHEST = 0x8000_0000


def grid_sync() -> None:
    """Waits until all threads of the grid have reached the barrier. What they wrote before it is visible to all after it.

    Every thread of every block has to call it. The launch of a kernel that calls it is cooperative, as for CUDA's
    `cooperative_groups::this_grid().sync()`: a grid with more blocks than the device can run at once is a `LaunchError`, which
    says how many it can. The CPU stream runs 256. Device code only.
    """
    syncthreads()
    if thread_idx.x == 0 and thread_idx.y == 0 and thread_idx.z == 0:
        blocks = grid_dim.x * grid_dim.y * grid_dim.z
        is_first = block_idx.x == 0 and block_idx.y == 0 and block_idx.z == 0
        word = atomic_ref(grid_word(), 0)
        # The others add blocks - 1 in all.
        before = word.add(uint32(_HIGHEST - (blocks - 1)) if is_first else uint32(1), "release", "device")
        while ((word.load("acquire", "device") ^ before) & uint32(_HIGHEST)) == 0:
            pass
    syncthreads()
