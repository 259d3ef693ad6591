"""Diffusion on a ring that is cut into a part for each device: what lies beyond a part is read from the device that has it.

There are no copies of borders, and nothing to exchange between steps: each launch of the group begins when the last has ended.
With ThunderKittens it is a kernel and the about 135 lines of C++ that `all_reduce` names; this program has 25 lines, without
`expect` and `cases`.
"""

import numpy as np

import cuda_device as device

BLOCK = 128
RATE = 0.2
STEPS = 5
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@device.func
def at(field, i):
    """An element of the ring, as seen from a device: `i` may lie in the part of the one before it, or after it."""
    n = field.shape[0]
    return field[(field.rank + field.n_devices + i // n) % field.n_devices][i % n]


@device.kernel
def diffuse(old, new):
    """new = old + RATE * (left + right - 2 * old)."""
    i = device.tid(1)
    if i < old.shape[0]:
        new.own[i] = old.own[i] + RATE * (at(old, i - 1) + at(old, i + 1) - 2 * old.own[i])


def run(stream, ring, count):
    """Some steps on so many devices."""
    group = device.DeviceGroup([stream] * count)  # on GPUs: DeviceGroup([0, 1, …])
    parts = [device.array(part, stream=stream) for part in np.split(ring, count)]
    old = device.DeviceArrayGroup.of(parts, group)
    new = group.arrays(old.shape)
    for _ in range(STEPS):
        device.launch_group(group, diffuse, old, new, grid=-(-old.shape[0] // BLOCK), block=BLOCK)
        old, new = new, old
    group.synchronize()
    return np.concatenate([old.local(rank).numpy() for rank in range(count)])


def expect(ring, count):
    """By NumPy, in double precision."""
    field = ring.astype(np.float64)
    for _ in range(STEPS):
        field += RATE * (np.roll(field, 1) + np.roll(field, -1) - 2 * field)
    return field


def cases(random):
    """One device, parts of one element, several blocks."""
    for count, size in ((1, 10), (4, 4), (3, 600)):
        yield random.standard_normal(size).astype(np.float32), count
