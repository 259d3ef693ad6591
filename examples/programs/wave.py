"""A wave on a string, by the leapfrog method: two steps are a CUDA graph, launched many times, and updated for another speed."""

import numpy as np

import cuda_device as device

TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


@device.kernel
def leap(now, before, speed):
    """One step in place: `before` becomes what comes after `now`. The ends of the string do not move."""
    i = device.tid(1)
    if 0 < i < len(now) - 1:
        bend = now[i - 1] - 2 * now[i] + now[i + 1]
        before[i] = 2 * now[i] - before[i] + speed * speed * bend


step = leap.bind(threads=lambda now, before, speed: len(now), block=128)


def run(stream, start, speeds, turns):
    """The string after `turns` times two steps at each of the speeds."""
    now, before = device.array(start, stream=stream), device.array(start, stream=stream)
    graph = device.graph(stream)
    for number, speed in enumerate(speeds):
        with graph.update() if number else graph:
            step(now, before, speed, stream=graph.stream)
            step(before, now, speed, stream=graph.stream)
        for _ in range(turns):
            graph.launch()
    return now.numpy()


def expect(start, speeds, turns):
    """By slices of NumPy."""
    now, before = start.copy(), start.copy()
    for speed in speeds:
        for _ in range(2 * turns):
            bend = now[:-2] - 2 * now[1:-1] + now[2:]
            before[1:-1] = 2 * now[1:-1] - before[1:-1] + np.float32(speed) ** 2 * bend
            now, before = before, now
    return now


def cases(random):
    """A plucked string, noise, and a string of three points."""
    for start, speeds, turns in (
        (1 - np.abs(np.linspace(-1, 1, 301)), (0.9, 0.5), 50),
        (random.standard_normal(1000), (0.25, 0.75, 1.0), 10),
        (np.array([0.0, 1.0, 0.0]), (0.5,), 7),
    ):
        yield start.astype(np.float32), speeds, turns
