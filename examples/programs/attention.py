"""Attention of one head on the tensor cores: softmax(Q @ K.T / sqrt(d)) @ V, whose matrix of weights is never in memory.

A block is a warpgroup with 64 queries. It goes through the keys and values in tiles, which a ring of stages brings: one thread
starts the copies of the next tile before the products of this one. For each query it keeps the greatest score, the sum of
the weights and the weighted sum of the values, and scales both sums where a greater score appears.
"""

import math
from operator import mul

import ml_dtypes
import numpy as np

import cuda_device as device
from cuda_device import MBarrier, bfloat16, float32, int32, shared_array, tiles

CAPABILITY = (9, 0)
HEAD, ROWS, COLUMNS, STAGES, THREADS = 64, 64, 64, 2, 128
FACTOR = float32(math.log2(math.e) / math.sqrt(HEAD))  # of the scores, as powers of 2
LOWEST = float32(-1e30)
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}
of_queries, of_keys = tiles.TileLayout(ROWS, HEAD, bfloat16), tiles.TileLayout(COLUMNS, HEAD, bfloat16)


@device.kernel(max_threads=THREADS)
def attention(map_q, map_k, map_v, out, count: int32):
    """Writes a row of `out` for each query, from `count` keys and values."""
    q = shared_array(of_queries.stages(1), bfloat16)
    k, v = shared_array(of_keys.stages(STAGES), bfloat16), shared_array(of_keys.stages(STAGES), bfloat16)
    bars, loaded = shared_array((2, STAGES), MBarrier), shared_array(1, MBarrier)[0]
    ring = tiles.Ring(bars[0], bars[1])
    thread, first = int32(device.thread_idx.x), int32(device.block_idx.x) * ROWS
    steps = (count + COLUMNS - 1) // COLUMNS

    def load(step):
        stage = ring.acquire(step, 2 * of_keys.nbytes)
        of_keys.load(k, stage, map_k, step * COLUMNS, 0, ring.full[stage])
        of_keys.load(v, stage, map_v, step * COLUMNS, 0, ring.full[stage])

    if thread == 0:
        ring.init(THREADS)
        loaded.init(1)
        device.fence_mbarrier_init()
        loaded.arrive_expect_tx(of_queries.nbytes)
        of_queries.load(q, 0, map_q, first, 0, loaded)
        load(0)
    device.syncthreads()
    loaded.wait(0)
    acc, most, sums = tiles.zeros(HEAD), (LOWEST, LOWEST), (float32(0), float32(0))
    for step in range(steps):
        if thread == 0 and step + 1 < steps:
            load(step + 1)
        stage = ring.wait(step)
        scores = tiles.wait(0, tiles.mma(None, of_queries.tile(q, 0), of_keys.tile(k, stage)))
        keys = count - step * COLUMNS  # of this tile; more than there are columns, except in the last one
        scores = tuple([x if tiles.column_of(i) < keys else LOWEST for i, x in enumerate(scores)])
        before, most = most, tiles.row_max(scores, most)
        weights = tiles.map_rows(lambda x, m: math.exp2((x - m) * FACTOR), scores, most)
        factors = math.exp2((before[0] - most[0]) * FACTOR), math.exp2((before[1] - most[1]) * FACTOR)
        more = tiles.row_sum(weights)
        sums = sums[0] * factors[0] + more[0], sums[1] * factors[1] + more[1]
        acc = tiles.map_rows(mul, acc, factors)
        acc = tiles.wait(0, tiles.mma(acc, tiles.fragments(weights, bfloat16), of_keys.tile(v, stage).T))
        ring.release(stage)
    acc = tiles.map_rows(mul, acc, (1 / sums[0], 1 / sums[1]))
    tiles.store_to_array(acc, out, first, 0)


def run(stream, q, k, v):
    """The results of all queries, in bfloat16."""
    out = device.empty(q.shape, bfloat16, stream=stream)
    q, k, v = (device.array(x, stream=stream) for x in (q, k, v))
    maps = of_queries.map_of(q), of_keys.map_of(k), of_keys.map_of(v)
    device.launch(attention, *maps, out, len(k), grid=-(-len(q) // ROWS), block=THREADS, stream=stream)
    return out.numpy().astype(np.float32)


def expect(q, k, v):
    """By NumPy, in double precision."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.T / math.sqrt(HEAD)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ v


def cases(random):
    """One tile; several, the last of which is not full; one query."""
    for queries, keys in ((64, 64), (100, 200), (1, 130)):
        shapes = (queries, HEAD), (keys, HEAD), (keys, HEAD)
        yield tuple((2 * random.standard_normal(shape)).astype(ml_dtypes.bfloat16) for shape in shapes)
