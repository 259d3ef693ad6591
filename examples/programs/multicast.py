"""The potential of charges at points, by clusters of blocks that share what they load.

All blocks need all charges. Each block of a cluster loads a part of the next tile of them, and the copy writes it to the shared
memory of all blocks at the same place (a multicast), so that a cluster reads the charges once from global memory. A stage is
filled again when all blocks of the cluster have released it.
"""

import math

import numpy as np

import cuda_device as device
from cuda_device import MBarrier, TensorMap, float32, float32x4, int32, shared_array, tiles

CAPABILITY = (9, 0)
CLUSTER, BLOCK, STAGES = 4, 64, 2
TILE, PART = 128, 32  # charges of a stage, and those that a block loads
ALL = (1 << CLUSTER) - 1  # the blocks that get them
SOFTENING = float32(1e-2)
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


@device.kernel(cluster=CLUSTER)
def potential(charges, points, out, count: int32):
    """`charges` is a map of `count` rows x, y, z, q; `out` has an element for each row x, y, z of `points`."""
    array, bars = shared_array((STAGES, TILE, 4), float32), shared_array((2, STAGES), MBarrier)
    ring = tiles.Ring(bars[0], bars[1])
    thread, rank = int32(device.thread_idx.x), int32(device.block_rank)
    steps = (count + TILE - 1) // TILE

    def load(step):
        """Each block expects the whole tile, and starts the copy of its part. Behind the last charge, q is zero."""
        stage = ring.acquire(step, TILE * 16)
        part = device.rows(array[stage], rank * PART, PART)
        device.tma_load(part, charges, (step * TILE + rank * PART, 0), ring.full[stage], multicast=ALL)

    if thread == 0:
        ring.init(CLUSTER)
        device.fence_mbarrier_init()
    device.cluster_sync()  # no copy arrives before the barriers of all blocks are there
    if thread == 0:
        load(0)
    i = device.tid(1)
    x, y, z = (points[min(i, len(points) - 1), axis] for axis in range(3))
    total = float32(0)
    for step in range(steps):
        if thread == 0 and step + 1 < steps:
            load(step + 1)
        stage = ring.wait(step)
        for charge in array[stage].view(float32x4)[:, 0]:
            dx, dy, dz = charge.x - x, charge.y - y, charge.z - z
            total += charge.w / math.sqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
        device.syncthreads()
        if thread < CLUSTER:
            ring.release_in(stage, thread)
    if i < len(points):
        out[i] = total
    device.cluster_sync()  # nobody leaves whose barriers others arrive at


def run(stream, charges, points):
    """The potential at each point."""
    charges, points = device.array(charges, stream=stream), device.array(points, stream=stream)
    out = device.empty(len(points), stream=stream)
    grid = CLUSTER * -(-len(points) // (CLUSTER * BLOCK))
    boxes = TensorMap.of(charges, (PART, 4))
    device.launch(potential, boxes, points, out, len(charges), grid=grid, block=BLOCK, stream=stream)
    return out.numpy()


def expect(charges, points):
    """By NumPy, in double precision."""
    charges, points = charges.astype(np.float64), points.astype(np.float64)
    distances = ((points[:, None] - charges[None, :, :3]) ** 2).sum(2)
    return (charges[:, 3] / np.sqrt(distances + SOFTENING)).sum(1)


def cases(random):
    """One point and charge; one cluster; several, and tiles that are not full."""
    for charges, points in ((1, 1), (128, 200), (700, 300)):
        yield random.standard_normal((charges, 4)).astype(np.float32), random.random((points, 3)).astype(np.float32)
