"""One step of diffusion on a grid of two dimensions (5 points) and of three (7 points); the border stays."""

import numpy as np

import cuda_device as device

RATE = 0.1
BLOCK_2D = (32, 8)
BLOCK_3D = (32, 4, 2)
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@device.kernel
def five_points(old, new):
    """new = old + RATE * (the four neighbours - 4 * old)."""
    x, y = device.tid(2)
    height, width = old.shape
    if x < width and y < height:
        here = old[y, x]
        if 0 < x < width - 1 and 0 < y < height - 1:
            around = old[y - 1, x] + old[y + 1, x] + old[y, x - 1] + old[y, x + 1]
            here += RATE * (around - 4 * here)
        new[y, x] = here


@device.kernel
def seven_points(old, new):
    """new = old + RATE * (the six neighbours - 6 * old)."""
    x, y, z = device.tid(3)
    depth, height, width = old.shape
    if x < width and y < height and z < depth:
        here = old[z, y, x]
        if 0 < x < width - 1 and 0 < y < height - 1 and 0 < z < depth - 1:
            around = old[z, y, x - 1] + old[z, y, x + 1] + old[z, y - 1, x]
            around += old[z, y + 1, x] + old[z - 1, y, x] + old[z + 1, y, x]
            here += RATE * (around - 6 * here)
        new[z, y, x] = here


def run(stream, old):
    """Two steps."""
    kernel, block = (five_points, BLOCK_2D) if old.ndim == 2 else (seven_points, BLOCK_3D)
    grid = tuple(-(-size // threads) for size, threads in zip(old.shape[::-1], block, strict=True))
    here, there = device.array(old, stream=stream), device.empty(old.shape, stream=stream)
    for _ in range(2):
        device.launch(kernel, here, there, grid=grid, block=block, stream=stream)
        here, there = there, here
    return here.numpy()


def expect(old):
    """By NumPy, in double precision."""
    field = old.astype(np.float64)
    inside = (slice(1, -1),) * field.ndim
    for _ in range(2):
        change = np.zeros_like(field)
        for axis in range(field.ndim):
            change += np.roll(field, 1, axis) + np.roll(field, -1, axis) - 2 * field
        field[inside] += RATE * change[inside]
    return field


def cases(random):
    """All border, ragged, several blocks."""
    for shape in ((1, 1), (2, 5), (3, 3), (17, 70), (1, 1, 1), (3, 4, 5), (5, 9, 40)):
        yield (random.standard_normal(shape).astype(np.float32),)
