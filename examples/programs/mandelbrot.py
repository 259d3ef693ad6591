"""How many steps it takes each point of the plane to leave the Mandelbrot set's circle."""

import numpy as np

import cuda_device as device

BLOCK = (32, 8)
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def mandelbrot(steps, left, top, pitch, most):
    """Counts the steps, up to `most`, of the point at (left + x * pitch, top + y * pitch)."""
    x, y = device.tid(2)
    if x < steps.shape[1] and y < steps.shape[0]:
        point = left + x * pitch + (top + y * pitch) * 1j
        z = 0 * point
        count = 0
        while count < most and z.real * z.real + z.imag * z.imag <= 4:
            z = z * z + point
            count += 1
        steps[y, x] = count


def run(stream, shape, left, top, pitch, most):
    """The counts."""
    steps = device.empty(shape, np.int32, stream=stream)
    grid = tuple(-(-size // threads) for size, threads in zip(shape[::-1], BLOCK, strict=True))
    device.launch(mandelbrot, steps, left, top, pitch, most, grid=grid, block=BLOCK, stream=stream)
    return steps.numpy()


def expect(shape, left, top, pitch, most):
    """By NumPy, in double precision."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    point = (left + x * pitch) + 1j * (top + y * pitch)
    z, count = np.zeros_like(point), np.zeros(shape, np.int32)
    for _ in range(most):
        inside = np.abs(z) <= 2
        z[inside] = z[inside] ** 2 + point[inside]
        count[inside] += 1
    return count


def cases(_):
    """Places where rounding decides nothing: few steps, points off the boundary, double precision."""
    for shape in ((1, 1), (9, 33), (50, 70)):
        yield shape, np.float64(-2.013), np.float64(-1.207), np.float64(0.0473), 30
