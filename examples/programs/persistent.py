"""A persistent kernel: blocks that stay, and take one tile of an array after the other, while copies of others are in flight.

The grid has as many blocks as run at the same time, and each computes every n-th tile. One warp is the producer, which loads
tiles into a ring of stages; the other four compute y = x / (1 + exp(-x)). While they work on a tile, the next ones are being
loaded, and the results before it are being stored. With a block for each tile, every tile would begin with an empty ring.

The function is simple, so that the schedule is all there is to read. Plain loads and stores are faster for single elements; the
schedule pays where each tile is more work, as in products of matrices.
"""

import math

import numpy as np

import cuda_device as device
from cuda_device import MBarrier, float32, int32, shared_array, tiles

CAPABILITY = (9, 0)
STAGES, WORKERS = 4, 128
tile = tiles.TileLayout(64, 32, float32)
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}


@device.kernel(max_threads=WORKERS + 32)
def silu(source, target, m_tiles: int32, n_tiles: int32):
    """Computes all tiles, of which there are `m_tiles` x `n_tiles`."""
    inputs, results = shared_array(tile.stages(STAGES), float32), shared_array(tile.stages(2), float32)
    bars = shared_array((2, STAGES), MBarrier)
    ring = tiles.Ring(bars[0], bars[1])
    thread = int32(device.thread_idx.x)
    if thread == 0:
        ring.init(1)
        device.fence_mbarrier_init()
    device.syncthreads()
    # Blocks that run at the same time have tiles beside each other: their rows are contiguous memory.
    work = tiles.persistent(int32(device.block_idx.x), int32(device.grid_dim.x), m_tiles, n_tiles, group=1)
    if thread >= WORKERS:
        if thread == WORKERS:
            for step, (i, j) in enumerate(work):
                stage = ring.acquire(step, tile.nbytes)
                tile.load(inputs, stage, source, i * tile.rows, j * tile.columns, ring.full[stage])
    else:
        for step, (i, j) in enumerate(work):
            stage, half = ring.wait(step), step % 2
            if thread == 0:
                device.bulk_wait(1, read=True)  # the store of the last but one result has read it
            device.barrier_sync(1, WORKERS)
            x, y = tile.tile(inputs, stage), tile.tile(results, half)
            for n in range(thread, tile.rows * tile.columns, WORKERS):
                value = x[n // tile.columns, n % tile.columns]
                y[n // tile.columns, n % tile.columns] = value / (1 + math.exp(-value))
            device.fence_proxy_async()
            device.barrier_sync(1, WORKERS)
            if thread == 0:
                ring.release(stage)
                tile.save(results, half, target, i * tile.rows, j * tile.columns)
        if thread == 0:
            device.bulk_wait()


def run(stream, x, blocks):
    """y of each element of x. On a GPU, give the grid as many blocks as run at the same time: 4 on a multiprocessor of sm_90."""
    x, y = device.array(x, stream=stream), device.empty(x.shape, stream=stream)
    maps = [tile.map_of(array) for array in (x, y)]
    sizes = -(-x.shape[0] // tile.rows), -(-x.shape[1] // tile.columns)
    device.launch(silu, *maps, *sizes, grid=blocks, block=WORKERS + 32, stream=stream)
    return y.numpy()


def expect(x, _):
    """By NumPy, in double precision."""
    x = x.astype(np.float64)
    return x / (1 + np.exp(-x))


def cases(random):
    """Fewer tiles than blocks; more; edges."""
    for shape, blocks in (((32, 32), 2), ((130, 64), 1), ((100, 100), 3)):
        yield random.standard_normal(shape).astype(np.float32), blocks
