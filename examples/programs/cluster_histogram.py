"""A histogram that is too large for one block's shared memory: each block of a cluster has a part of it in its own."""

import numpy as np

import cuda_device as device

BLOCK, CLUSTER, BINS_PER_BLOCK = 64, 4, 100
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def count(values, bins):
    """Adds to `bins` how often each value occurs; a cluster counts in its blocks' shared memory first."""
    part = device.shared_array(BINS_PER_BLOCK, device.int32)
    t = device.thread_idx.x
    for i in range(t, BINS_PER_BLOCK, BLOCK):
        part[i] = 0
    device.cluster_sync()
    for i in range(device.tid(1), len(values), device.grid_size(1)):
        value = values[i]
        there = device.cluster_shared(part, value // BINS_PER_BLOCK)
        device.atomic_ref(there, value % BINS_PER_BLOCK).add(1, "relaxed", "device")
    device.cluster_sync()  # nobody leaves whose memory is written
    for i in range(t, BINS_PER_BLOCK, BLOCK):
        device.atomic_ref(bins, device.block_rank * BINS_PER_BLOCK + i).add(part[i], "relaxed", "device")


def run(stream, values, clusters):
    """The number of occurrences of each value."""
    bins = device.zeros(CLUSTER * BINS_PER_BLOCK, np.int32, stream=stream)
    given = device.array(values, stream=stream)
    device.launch(count, given, bins, grid=clusters * CLUSTER, block=BLOCK, cluster=CLUSTER, stream=stream)
    return bins.numpy()


def expect(values, _):
    """By NumPy."""
    return np.bincount(values, minlength=CLUSTER * BINS_PER_BLOCK)


def cases(random):
    """One value, one cluster, and several."""
    for size, clusters in ((1, 1), (1000, 1), (5000, 3)):
        yield random.integers(0, CLUSTER * BINS_PER_BLOCK, size).astype(np.int32), clusters
