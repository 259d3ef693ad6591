"""Attention forward on the tensor cores of sm_90a: softmax(Q @ K.T * scale) @ V, with grouped queries, causal or not.

One block computes 128 rows of one head. A producer warp loads Q, and rings of K and V; each of two warpgroups has 64 rows, and
computes the softmax of a block of keys while the products of its neighbours run.
"""

import functools
import math
from operator import add, mul

import cuda_device as device
from cuda_device import bfloat16, float32, int32, tiles

LOWEST = float32(-1e30)


def softmax(scores, before, scale):
    """A step of a softmax over blocks of keys: the weights of a block, the maxima of the scores so far, and the factors of sums.

    `before` are the maxima before this block, to which the sums so far refer. Scores times `scale` are exponents of 2.
    """
    most = tiles.row_max(scores, before)
    shift = scale * most[0], scale * most[1]
    weights = tiles.map_rows(lambda x, m: math.exp2(x * scale - m), scores, shift)
    factors = math.exp2(before[0] * scale - shift[0]), math.exp2(before[1] * scale - shift[1])
    return weights, most, factors


@functools.cache
def attention(head=128, causal=False, dtype=bfloat16, columns=128, stages=2):
    """The kernel for heads of `head` elements, 64 or 128, and the layouts of its tiles of Q, and of K and V.

    Queries, keys, values and results are two-dimensional arrays of `dtype` with a row for each token, and the elements of the
    heads side by side. The tokens of a sequence follow each other. `lse`, which the launch may leave out, is a float32 array
    (sequences * heads, tokens) for the logarithms of the sums of exponentials of each row, which the backward pass needs.
    """
    rows = 128
    of_q, of_k = tiles.TileLayout(rows, head, dtype), tiles.TileLayout(columns, head, dtype)
    scale = float32(math.log2(math.e) / math.sqrt(head))

    def seen(row, column, tokens):
        """Whether the query in a row sees the key in a column."""
        return (column < tokens) & (column <= row) if causal else column < tokens

    @device.kernel(max_threads=384, min_blocks=1, fastmath=True)
    def kernel(map_q, map_k, map_v, out, tokens: int32, queries_of_key: int32, lse=None):
        q = device.shared_array(of_q.stages(1), of_q.dtype)
        k = device.shared_array(of_k.stages(stages), of_k.dtype)
        v = device.shared_array(of_k.stages(stages), of_k.dtype)
        q_bar = device.shared_array(1, device.MBarrier)
        bars = device.shared_array((4, stages), device.MBarrier)
        keys, values = tiles.Ring(bars[0], bars[1]), tiles.Ring(bars[2], bars[3])
        thread, group = int32(device.thread_idx.x), tiles.warpgroup()
        if thread == 0:
            q_bar[0].init(1)
            keys.init(2)
            values.init(2)
            device.fence_mbarrier_init()
        device.syncthreads()
        # The longest blocks of a causal mask first.
        block = int32(device.grid_dim.x) - 1 - int32(device.block_idx.x) if causal else int32(device.block_idx.x)
        head_index, start = int32(device.block_idx.y), int32(device.block_idx.z) * tokens
        first_row = block * rows
        count = (min(first_row + rows, tokens) if causal else tokens) + columns - 1
        blocks = count // columns
        if group == 0:
            device.set_max_registers(24)
            if thread == 0:
                q_bar[0].arrive_expect_tx(of_q.nbytes)
                of_q.load(q, 0, map_q, start + first_row, head_index * head, q_bar[0])
                column = head_index // queries_of_key * head
                for i in range(blocks):
                    row = start + (blocks - 1 - i) * columns
                    stage = keys.acquire(i, of_k.nbytes)
                    of_k.load(k, stage, map_k, row, column, keys.full[stage])
                    stage = values.acquire(i, of_k.nbytes)
                    of_k.load(v, stage, map_v, row, column, values.full[stage])
        else:
            device.set_max_registers(240)
            half, own = group - 1, thread & 127
            q_bar[0].wait(0)
            left = device.rows(of_q.tile(q, 0), half * 64, 64)
            scores = tiles.mma(None, left, of_k.tile(k, keys.wait(0)))
            scores = tiles.wait(0, scores)
            if own == 0:
                keys.release(0)
            last, row = (blocks - 1) * columns, first_row + half * 64
            rows_seen = row + tiles.row_of(0), row + tiles.row_of(1)
            scores = tuple(
                [
                    x if seen(rows_seen[i // 2 % 2], last + tiles.column_of(i), tokens) else LOWEST
                    for i, x in enumerate(scores)
                ]
            )
            weights, most, _ = softmax(scores, (LOWEST, LOWEST), scale)
            sums = tiles.own_rows(weights, 0, add)  # the threads that share a row add theirs at the end
            p = tiles.fragments(weights, dtype)
            acc = tiles.zeros(head)
            for i in range(1, blocks):
                stage, previous = keys.wait(i), values.wait(i - 1)
                scores = tiles.mma(None, left, of_k.tile(k, stage))
                flying = tiles.mma(acc, p, of_k.tile(v, previous).T)
                scores = tiles.wait(1, scores)
                if own == 0:
                    keys.release(stage)
                weights, most, factors = softmax(scores, most, scale)
                more = tiles.own_rows(weights, 0, add)
                sums = sums[0] * factors[0] + more[0], sums[1] * factors[1] + more[1]
                acc = tiles.wait(0, flying)
                p = tiles.fragments(weights, dtype)  # now that the product before has read its registers
                if own == 0:
                    values.release(previous)
                acc = tiles.map_rows(mul, acc, factors)
            stage = values.wait(blocks - 1)
            acc = tiles.wait(0, tiles.mma(acc, p, of_k.tile(v, stage).T))
            low, high = tiles.row_total(sums)
            if lse is not None and own % 4 == 0:
                for i, (shift, total) in enumerate(zip(most, (low, high), strict=True)):
                    token = row + tiles.row_of(i)
                    if token < tokens:
                        index = int32(device.block_idx.z) * int32(device.grid_dim.y) + head_index, token
                        lse[index] = shift * float32(1 / math.sqrt(head)) + math.log(total)
            acc = tiles.map_rows(mul, acc, (1 / low, 1 / high))
            tiles.store_to_array(acc, out[start : start + tokens], first_row + half * 64, head_index * head)

    return kernel, of_q, of_k
