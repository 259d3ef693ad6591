"""Moving particles in a box, stored in two ways: as an array of structs, and as a struct (here a tuple) of arrays."""

import numpy as np

import cuda_device as device
from cuda_device import float32

BLOCK = 128
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}


@device.struct
class Particle:
    """Where a particle is, and how fast."""

    x: float32
    y: float32
    vx: float32
    vy: float32

    @device.func
    def moved(self, time):
        """The particle a little later."""
        x, vx = reflect(self.x + self.vx * time, self.vx)
        y, vy = reflect(self.y + self.vy * time, self.vy)
        return Particle(x, y, vx, vy)


@device.func
def reflect(place, speed):
    """A place and a speed along one axis, after the walls at 0 and 1."""
    if place < 0:
        return -place, -speed
    if place > 1:
        return 2 - place, -speed
    return place, speed


@device.kernel
def move_structs(particles, time):
    """Moves each particle of an array of structs."""
    i = device.tid(1)
    if i < len(particles):
        particles[i] = particles[i].moved(time)


@device.kernel
def move_arrays(places, speeds, time):
    """Moves each particle; `places` and `speeds` are tuples of an array for each axis."""
    i = device.tid(1)
    for place, speed in zip(places, speeds):  # noqa: B905
        if i < len(place):
            place[i], speed[i] = reflect(place[i] + speed[i] * time, speed[i])


def run(stream, places, speeds, time):
    """Places and speeds after one step, of shape (4, count), in both ways."""
    count = places.shape[1]
    packed = np.ascontiguousarray(np.concatenate((places, speeds)).T).view(device.numpy_dtype(Particle)).reshape(-1)
    structs = device.array(packed, stream=stream)
    arrays = [tuple(device.array(axis, stream=stream) for axis in part) for part in (places, speeds)]
    launch = {"grid": -(-count // BLOCK), "block": BLOCK, "stream": stream}
    device.launch(move_structs, structs, time, **launch)
    device.launch(move_arrays, *arrays, time, **launch)
    return (
        structs.numpy().view(np.float32).reshape(-1, 4).T,
        np.stack([axis.numpy() for part in arrays for axis in part]),
    )


def expect(places, speeds, time):
    """By NumPy."""
    moved = places + speeds * np.float32(time)
    outside = (moved < 0) | (moved > 1)
    moved = np.where(moved < 0, -moved, np.where(moved > 1, 2 - moved, moved))
    result = np.concatenate((moved, np.where(outside, -speeds, speeds)))
    return result, result


def cases(random):
    """One particle to some blocks."""
    for count in (1, 127, 500):
        yield random.random((2, count)).astype(np.float32), random.standard_normal((2, count)).astype(np.float32), 0.5
