"""Gravity between bodies that several devices have: each follows its own, and brings those of all to shared memory, in tiles.

A body is a `float32x4`: its place, and its mass in `w`. `run` takes one stream, on which all ranks take their turns; with
`DeviceGroup([0, 1, …])` each is a GPU.
"""

import numpy as np

import cuda_device as device
from cuda_device import float32x4

from . import nbody
from .nbody import BLOCK, attract

TOLERANCE = nbody.TOLERANCE


@device.kernel
def accelerate(bodies, accelerations):
    """The acceleration of each body of this device; it begins with its own, so that not all read the same ones at once."""
    tile = device.shared_array(BLOCK, float32x4)
    i, thread, count = device.tid(1), int(device.thread_idx.x), bodies.shape[0]
    nothing = float32x4(0, 0, 0, 0)
    here = bodies.own[i] if i < count else nothing
    acceleration = 0.0, 0.0, 0.0
    for turn in range(bodies.n_devices):
        others = bodies[(bodies.rank + turn) % bodies.n_devices]
        for start in range(0, count, BLOCK):
            j = start + thread
            tile[thread] = others[j] if j < count else nothing
            device.syncthreads()
            for k in range(BLOCK):
                acceleration = attract(acceleration, here, tile[k])
            device.syncthreads()
    if i < count:
        x, y, z = acceleration
        accelerations.own[i] = float32x4(x, y, z, 0)


def run(stream, bodies, count):
    """The accelerations, of shape (bodies, 3); each of `count` devices has as many bodies."""
    group = device.DeviceGroup([stream] * count)
    parts = np.split(bodies.view(device.numpy_dtype(float32x4))[:, 0], count)
    places = device.DeviceArrayGroup.of([device.array(part, stream=stream) for part in parts], group)
    result = group.arrays(places.shape, places.dtype)
    device.launch_group(group, accelerate, places, result, grid=-(-places.shape[0] // BLOCK), block=BLOCK)
    group.synchronize()
    found = np.concatenate([result.local(rank).numpy() for rank in range(count)])
    return found.view(np.float32).reshape(-1, 4)[:, :3]


def expect(bodies, count):
    """By NumPy, in double precision."""
    return nbody.expect(bodies)


def cases(random):
    """One device to three, with fewer bodies than a tile has, and more."""
    for count, bodies in ((1, 129), (2, 2), (3, 600)):
        yield random.random((bodies, 4)).astype(np.float32), count
