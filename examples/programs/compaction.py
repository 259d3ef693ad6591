"""Stream compaction: the elements above a threshold, packed; a warp counts by a ballot and takes its places at once."""

import numpy as np

import cuda_device as device

BLOCK = 256
ALL = 0xFFFFFFFF
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def compact(x, threshold, out, count):
    """Writes the elements of `x` above `threshold` to `out`, in any order, and their number to `count[0]`."""
    i, lane = device.tid(1), device.lane_id
    keep = i < len(x) and x[i] > threshold
    kept = device.ballot_sync(ALL, keep)
    start = 0
    if lane == 0:
        start = device.atomic_ref(count, 0).add(device.popc(int(kept)), memory="relaxed", scope="device")
    start = device.shfl_sync(ALL, start, 0)
    if keep:
        out[start + device.popc(int(kept & device.lanemask_lt()))] = x[i]


def run(stream, x, threshold):
    """The elements, sorted: which warp comes first is open."""
    there, count = device.array(x, stream=stream), device.zeros(1, np.int32, stream=stream)
    out = device.zeros(x.size, x.dtype, stream=stream)  # All of it is copied back, and no more than `count` is written.
    device.launch(compact, there, threshold, out, count, grid=-(-x.size // BLOCK), block=BLOCK, stream=stream)
    return np.sort(out.numpy()[: int(count.numpy()[0])])


def expect(x, threshold):
    """By NumPy."""
    return np.sort(x[x > threshold])


def cases(random):
    """None, some and all of them."""
    for size in (1, 31, 300, 5000):
        for threshold in (-1.0, 0.3, 2.0):
            yield random.random(size).astype(np.float32), threshold
