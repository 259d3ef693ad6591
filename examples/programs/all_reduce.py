"""The sum of an array of each device, on every device: each sums a part, and writes it to all.

What ThunderKittens' `bind_multigpu_kernel` does with a parallel global layout. That, the layouts and peer access are about 135
lines of C++ as its authors show them, without a kernel; this program has 21 lines, without `expect` and `cases`. `run` takes one
stream, on which all ranks take their turns; with `DeviceGroup([0, 1, …])` each is a GPU.
"""

import numpy as np

import cuda_device as device

BLOCK = 128
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@device.kernel
def all_reduce(x, total):
    """Rank r sums the elements r, r + n, r + 2 n, … of all devices."""
    i = device.tid(1) * x.n_devices + x.rank
    if i < x.shape[0]:
        value = x[0][i]
        for rank in range(1, x.n_devices):
            value += x[rank][i]
        for rank in range(x.n_devices):
            total[rank][i] = value


def run(stream, parts):
    """The sum, as each device has it."""
    group = device.DeviceGroup([stream] * len(parts))
    x = device.DeviceArrayGroup.of([device.array(part, stream=stream) for part in parts], group)
    total = group.arrays(x.shape)
    grid = -(-x.shape[0] // (BLOCK * len(group)))
    device.launch_group(group, all_reduce, x, total, grid=grid, block=BLOCK)
    group.synchronize()
    return tuple(total.local(rank).numpy() for rank in range(len(group)))


def expect(parts):
    """By NumPy."""
    return tuple([parts.sum(axis=0, dtype=np.float64)] * len(parts))


def cases(random):
    """One device, fewer elements than devices, a length that is no multiple of anything."""
    for count, size in ((1, 10), (4, 3), (3, 1000)):
        yield (random.standard_normal((count, size)).astype(np.float32),)
