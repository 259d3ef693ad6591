"""Histogram of bytes: each block counts in shared memory, then adds what it has to the whole."""

import numpy as np

import cuda_device as device

BINS = 256
BLOCK = 256
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def histogram(data, bins):
    """Adds the count of each byte of `data` to `bins`."""
    local = device.shared_array(BINS, device.uint32)
    thread = int(device.thread_idx.x)
    for j in range(thread, BINS, BLOCK):
        local[j] = 0
    device.syncthreads()
    for i in range(device.tid(1), len(data), device.grid_size(1)):
        device.atomic_ref(local, data[i]).add(1)
    device.syncthreads()
    for j in range(thread, BINS, BLOCK):
        if local[j] > 0:
            device.atomic_ref(bins, j).add(local[j], memory="relaxed", scope="device")


def run(stream, data):
    """How often each byte is there."""
    bins = device.zeros(BINS, np.uint32, stream=stream)
    blocks = min(64, -(-data.size // BLOCK))
    device.launch(histogram, device.array(data, stream=stream), bins, grid=blocks, block=BLOCK, stream=stream)
    return bins.numpy()


def expect(data):
    """By NumPy."""
    return np.bincount(data, minlength=BINS).astype(np.uint32)


def cases(random):
    """Few and many, even and all the same."""
    for count in (1, 255, 1000, 40000):
        yield (random.integers(0, 256, count).astype(np.uint8),)
    yield (np.full(5000, 77, np.uint8),)
    yield (np.abs(random.standard_normal(9999) * 20).astype(np.uint8),)
