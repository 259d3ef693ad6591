"""Gravity between bodies: each thread follows one of them; a block brings the others to shared memory, a tile at a time.

A body is a `float32x4`: its place, and its mass in `w`.
"""

import math

import numpy as np

import cuda_device as device
from cuda_device import float32x4

BLOCK = 128
SOFTENING = 1e-3
TOLERANCE = {"rtol": 2e-4, "atol": 1e-3}  # float32, forces of some hundreds


@device.func
def attract(acceleration, here, other):
    """The acceleration of a body `here`, with what `other` adds to it."""
    dx, dy, dz = other.x - here.x, other.y - here.y, other.z - here.z
    square = dx * dx + dy * dy + dz * dz + SOFTENING
    inverse = 1 / math.sqrt(square)
    scale = other.w * inverse * inverse * inverse
    ax, ay, az = acceleration
    return ax + dx * scale, ay + dy * scale, az + dz * scale


@device.kernel
def accelerate(bodies, accelerations):
    """The acceleration of each body; no body attracts itself, as its distance is zero."""
    tile = device.shared_array(BLOCK, float32x4)
    i, thread = device.tid(1), int(device.thread_idx.x)
    nothing = float32x4(0, 0, 0, 0)
    here = bodies[i] if i < len(bodies) else nothing
    acceleration = 0.0, 0.0, 0.0
    for start in range(0, len(bodies), BLOCK):
        j = start + thread
        tile[thread] = bodies[j] if j < len(bodies) else nothing
        device.syncthreads()
        for k in range(BLOCK):
            acceleration = attract(acceleration, here, tile[k])
        device.syncthreads()
    if i < len(bodies):
        x, y, z = acceleration
        accelerations[i] = float32x4(x, y, z, 0)


def run(stream, bodies):
    """The accelerations, of shape (count, 3)."""
    vectors = bodies.view(device.numpy_dtype(float32x4))[:, 0]
    result = device.empty(vectors.shape, vectors.dtype, stream=stream)
    blocks = -(-len(bodies) // BLOCK)
    device.launch(accelerate, device.array(vectors, stream=stream), result, grid=blocks, block=BLOCK, stream=stream)
    return result.numpy().view(np.float32).reshape(-1, 4)[:, :3]


def expect(bodies):
    """By NumPy, in double precision."""
    places, masses = bodies[:, :3].astype(np.float64), bodies[:, 3].astype(np.float64)
    difference = places[None] - places[:, None]
    square = (difference**2).sum(-1) + SOFTENING
    return (difference * (masses / square**1.5)[..., None]).sum(1)


def cases(random):
    """One body to some blocks."""
    for count in (1, 2, 127, 128, 129, 300):
        yield (random.random((count, 4)).astype(np.float32),)
