"""K-means: each point joins the nearest centre, each centre moves to the mean of its points, again and again."""

import math

import numpy as np

import cuda_device as device

BLOCK = 128
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}  # the sums are made in any order


@device.kernel
def assign(points, centres, labels, sums, counts):
    """The nearest centre of each point; adds the point to the sums of that centre."""
    i = device.tid(1)
    if i < points.shape[0]:
        nearest = 0
        least = math.inf
        for k in range(centres.shape[0]):
            distance = 0.0
            for axis in range(points.shape[1]):
                difference = points[i, axis] - centres[k, axis]
                distance += difference * difference
            if distance < least:
                least = distance
                nearest = k
        labels[i] = nearest
        device.atomic_ref(counts, nearest).add(1, memory="relaxed", scope="device")
        for axis in range(points.shape[1]):
            device.atomic_ref(sums, (nearest, axis)).add(points[i, axis], memory="relaxed", scope="device")


@device.kernel
def update(centres, sums, counts):
    """Moves the centres, and clears the sums for the next round."""
    k = device.tid(1)
    if k < len(counts):
        count = counts[k]
        for axis in range(centres.shape[1]):
            if count > 0:
                centres[k, axis] = sums[k, axis] / count
            sums[k, axis] = 0
        counts[k] = 0


def run(stream, points, centres, rounds):
    """The centres and labels after some rounds."""
    there, moved = device.array(points, stream=stream), device.array(centres, stream=stream)
    labels = device.empty(len(points), np.int32, stream=stream)
    sums = device.zeros(centres.shape, stream=stream)
    counts = device.zeros(len(centres), np.int32, stream=stream)
    blocks = -(-len(points) // BLOCK)
    for _ in range(rounds):
        device.launch(assign, there, moved, labels, sums, counts, grid=blocks, block=BLOCK, stream=stream)
        device.launch(update, moved, sums, counts, grid=-(-len(centres) // BLOCK), block=BLOCK, stream=stream)
    return moved.numpy(), labels.numpy()


def expect(points, centres, rounds):
    """By NumPy, in double precision."""
    centres, labels = centres.astype(np.float64), None
    for _ in range(rounds):
        labels = ((points[:, None] - centres[None]) ** 2).sum(-1).argmin(1)
        for k in range(len(centres)):
            if (labels == k).any():
                centres[k] = points[labels == k].mean(0)
    return centres, labels


def cases(random):
    """Clusters far from each other, so that rounding changes no label."""
    for count, dimensions, clusters in ((1, 1, 1), (50, 2, 3), (1000, 3, 5)):
        corners = 100 * np.arange(clusters)[:, None] + np.arange(dimensions)
        points = corners[random.integers(0, clusters, count)] + random.random((count, dimensions))
        yield points.astype(np.float32), corners.astype(np.float32) + 1, 4
