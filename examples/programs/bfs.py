"""Breadth-first search in a graph (compressed rows): the distance of each node from the first, level by level."""

import numpy as np

import cuda_device as device

BLOCK = 128
FAR = -1
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def visit(starts, targets, distances, frontier, following, sizes, level):
    """Visits the neighbours of the nodes of `frontier`; those that are new make `following`.

    `sizes[level]` is the length of `frontier`, `sizes[level + 1]` counts the new ones.
    """
    k = device.tid(1)
    if k < sizes[level]:
        node = frontier[k]
        for edge in range(starts[node], starts[node + 1]):
            neighbour = targets[edge]
            if device.atomic_ref(distances, neighbour).cas(FAR, level + 1, memory="relaxed", scope="device") == FAR:
                place = device.atomic_ref(sizes, level + 1).add(1, memory="relaxed", scope="device")
                following[place] = neighbour


def run(stream, starts, targets):
    """The distances; -1 where there is no way."""
    nodes = starts.size - 1
    first = np.full(nodes, FAR, np.int32)
    first[0] = 0
    distances = device.array(first, stream=stream)
    sizes = device.array([1] + [0] * (nodes + 1), np.int32, stream=stream)
    starts, targets = device.array(starts, stream=stream), device.array(targets, stream=stream)
    frontier, following = device.zeros(nodes, np.int32, stream=stream), device.empty(nodes, np.int32, stream=stream)
    level, size = 0, 1
    while size:
        grid = -(-size // BLOCK)
        lists = starts, targets, distances, frontier, following, sizes
        device.launch(visit, *lists, level, grid=grid, block=BLOCK, stream=stream)
        frontier, following = following, frontier
        level += 1
        size = int(sizes.numpy()[level])
    return distances.numpy()


def expect(starts, targets):
    """By a queue."""
    distances = np.full(starts.size - 1, FAR, np.int32)
    distances[0] = 0
    queue = [0]
    for node in queue:
        for neighbour in targets[starts[node] : starts[node + 1]]:
            if distances[neighbour] == FAR:
                distances[neighbour] = distances[node] + 1
                queue.append(neighbour)
    return distances


def graph(random, nodes, edges):
    """A random graph, as where each node's targets start, and the targets."""
    sources = np.sort(random.integers(0, nodes, edges))
    starts = np.searchsorted(sources, np.arange(nodes + 1)).astype(np.int32)
    return starts, random.integers(0, nodes, edges).astype(np.int32)


def cases(random):
    """One node, a chain, sparse and dense graphs."""
    yield np.zeros(2, np.int32), np.zeros(0, np.int32)
    yield np.array([*range(40), 39], np.int32), np.arange(1, 40, dtype=np.int32)
    for nodes, edges in ((10, 12), (100, 150), (1000, 8000)):
        yield graph(random, nodes, edges)
