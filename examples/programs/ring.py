"""Arrays that go round a ring of devices: in each step, every device writes what it has to the next one.

`run` takes one stream, on which all ranks take their turns; with `DeviceGroup([0, 1, …])` each is a GPU.
"""

import numpy as np

import cuda_device as device

BLOCK = 128
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def send(x, y):
    """The array of this device becomes that of the next one."""
    following = y[(x.rank + 1) % x.n_devices]
    for i in range(device.tid(1), x.shape[0], device.grid_size(1)):
        following[i] = x.own[i]


def run(stream, parts, steps):
    """The array of each device after so many steps."""
    group = device.DeviceGroup([stream] * len(parts))
    x = device.DeviceArrayGroup.of([device.array(part, stream=stream) for part in parts], group)
    y = group.arrays(x.shape, x.dtype)
    for _ in range(steps):
        device.launch_group(group, send, x, y, grid=-(-x.shape[0] // (4 * BLOCK)), block=BLOCK)
        x, y = y, x
    group.synchronize()
    return np.stack([x.local(rank).numpy() for rank in range(len(group))])


def expect(parts, steps):
    """By NumPy."""
    return np.roll(parts, steps, axis=0)


def cases(random):
    """One device, once around, and more than that."""
    for count, size, steps in ((1, 5, 1), (3, 1000, 2), (4, 77, 9)):
        yield random.integers(0, 1 << 30, (count, size), np.int32), steps
