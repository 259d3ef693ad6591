"""Gradients of attention on the tensor cores of sm_90a: those of Q, K and V, with grouped queries, causal or not.

A block computes the gradients of 128 keys and values of one head, which two warpgroups keep in registers while the queries of
all heads that use them pass by. It computes the weights again from the log-sum-exp of each row, which the forward pass has
stored, and adds to the gradients of the queries in float32. A kernel before computes what each row needs, and one after
converts the gradients of the queries.
"""

import functools
import math

import cuda_device as device
from cuda_device import TensorMap, bfloat16, float32, float32x4, int32, tiles

KEYS = 128
"""The keys of a block, 64 for each warpgroup."""
LOWEST, HIGHEST = float32(-1e30), float32(1e30)
LOG2_E = math.log2(math.e)


@functools.cache
def attention_backward(head=128, causal=False, dtype=bfloat16, stages=2):
    """The kernels for heads of `head` elements, 64 or 128, and the layouts of the tiles of K and V, and of Q and dO.

    `prepare` says what their arguments are.
    """
    rows = 64 * 128 // head  # the queries of a step: each warpgroup computes 64 x 64 elements of their gradients
    of_k, of_q = tiles.TileLayout(KEYS, head, dtype), tiles.TileLayout(rows, head, dtype)
    of_ds = tiles.TileLayout(KEYS, rows, dtype)
    scale = 1 / math.sqrt(head)

    def of_columns(f, acc, values):
        """The register tile of `f(x, value)` for each element x, where `value` is that of its column."""
        return tuple([f(x, values[tiles.column_of(i)]) for i, x in enumerate(acc)])

    def masked(scores, keys, row):
        """The scores of the keys in the rows that queries see which are in columns from `row` on, and `LOWEST` elsewhere."""
        ahead = keys[0] - row - tiles.column_of(0), keys[1] - row - tiles.column_of(0)
        return tuple(
            [
                x if ahead[i // 2 % 2] <= (tiles.column_of(i) - tiles.column_of(0) if causal else 0) else LOWEST
                for i, x in enumerate(scores)
            ]
        )

    def where():
        """The head of all sequences, the head of its sequence, and the first token of the sequence of this block."""
        head_index, sequence = int32(device.block_idx.y), int32(device.block_idx.z)
        return sequence * int32(device.grid_dim.y) + head_index, head_index, sequence

    @device.kernel(max_threads=2 * rows)
    def before(out, out_grad, lse, row_values, sums, tokens: int32):
        thread, half, block = int32(device.thread_idx.x), tiles.warpgroup(), int32(device.block_idx.x)
        index, head_index, sequence = where()
        first, start = block * rows + half * 64, sequence * tokens
        x, y = (
            tiles.load_from_array(array[start : start + tokens], first, head_index * head, head)
            for array in (out, out_grad)
        )
        deltas = tiles.row_sum(tuple([a * b for a, b in zip(x, y, strict=True)]))
        if thread % 4 == 0:
            for i, delta in enumerate(deltas):
                row = half * 64 + tiles.row_of(i)
                token = block * rows + row
                row_values[index, block, row] = lse[index, token] * float32(LOG2_E) if token < tokens else HIGHEST
                row_values[index, block, rows + row] = delta
        quads = sums.view(float32x4)
        for i in range(head // 8):
            quads[index, block, i * 2 * rows + thread] = float32x4(0, 0, 0, 0)

    @device.kernel(max_threads=384, min_blocks=1, fastmath=True)
    def kernel(map_q, map_k, map_v, map_do, row_values, sums, k_grad, v_grad, tokens: int32, queries_of_key: int32):
        k = device.shared_array(of_k.stages(1), dtype)
        v = device.shared_array(of_k.stages(1), dtype)
        q = device.shared_array(of_q.stages(stages), dtype)
        do = device.shared_array(of_q.stages(stages), dtype)
        ds = device.shared_array(of_ds.stages(2), dtype)
        values = device.shared_array((stages, 2 * rows), float32)
        kv_bar = device.shared_array(1, device.MBarrier)
        bars = device.shared_array((4, stages), device.MBarrier)
        queries, outs = tiles.Ring(bars[0], bars[1]), tiles.Ring(bars[2], bars[3])
        thread, group = int32(device.thread_idx.x), tiles.warpgroup()
        if thread == 0:
            kv_bar[0].init(1)
            queries.init(2)
            outs.init(2)
            device.fence_mbarrier_init()
        device.syncthreads()
        _, key_head, sequence = where()
        first_key, start = int32(device.block_idx.x) * KEYS, sequence * tokens
        first, blocks = (first_key // rows if causal else 0), (tokens + rows - 1) // rows
        first_head = key_head * queries_of_key
        index = sequence * int32(device.grid_dim.y) * queries_of_key + first_head
        steps = (blocks - first) * queries_of_key
        if group == 0:
            device.set_max_registers(24)
            if thread == 0:
                kv_bar[0].arrive_expect_tx(2 * of_k.nbytes)
                of_k.load(k, 0, map_k, start + first_key, key_head * head, kv_bar[0])
                of_k.load(v, 0, map_v, start + first_key, key_head * head, kv_bar[0])
                step = int32(0)
                for i in range(queries_of_key):
                    for block in range(first, blocks):
                        row, column = start + block * rows, (first_head + i) * head
                        stage = queries.acquire(step, of_q.nbytes + 8 * rows)
                        of_q.load(q, stage, map_q, row, column, queries.full[stage])
                        device.bulk_load(values[stage], row_values[index + i, block], queries.full[stage])
                        stage = outs.acquire(step, of_q.nbytes)
                        of_q.load(do, stage, map_do, row, column, outs.full[stage])
                        step += 1
        else:
            device.set_max_registers(240)
            half, own = group - 1, thread & 127
            kv_bar[0].wait(0)
            own_k = device.rows(of_k.tile(k, 0), half * 64, 64)
            own_v = device.rows(of_k.tile(v, 0), half * 64, 64)
            # A warpgroup computes half of the elements of 64 gradients of queries, or all elements of half of 128.
            part_of_k = (device.swizzled(k[0, half], 128) if head == 128 else of_k.tile(k, 0)).T
            key = first_key + half * 64
            keys = key + tiles.row_of(0), key + tiles.row_of(1)
            dk, dv = tiles.zeros(head), tiles.zeros(head)
            step, quads = int32(0), sums.view(float32x4)
            scores = tiles.wait(0, tiles.mma(None, own_k, of_q.tile(q, queries.wait(0))))
            for i in range(queries_of_key):
                for block in range(first, blocks):
                    stage, following = device.uint32(step) % stages, min(step + 1, steps - 1)
                    outs.wait(step)
                    dp = tiles.mma(None, own_v, of_q.tile(do, stage))
                    row = block * rows
                    if (row < first_key + KEYS) if causal else (first_key + KEYS > tokens):
                        scores = masked(scores, keys, row if causal else tokens - 1 - tiles.column_of(0))
                    weights = of_columns(
                        lambda x, m: math.exp2(x * float32(scale * LOG2_E) - m), scores, values[stage, :rows]
                    )
                    dv = tiles.mma(dv, tiles.fragments(weights, dtype), of_q.tile(do, stage).T)
                    dp = tiles.wait(1, dp)
                    change = of_columns(lambda x, delta: x - delta, dp, values[stage, rows:])
                    change = tuple([x * y for x, y in zip(weights, change, strict=True)])
                    dk = tiles.mma(dk, tiles.fragments(change, dtype), of_q.tile(q, stage).T)
                    buffer = step & 1
                    for panel in tuple(range(rows // 64)):
                        tiles.store(
                            change[32 * panel : 32 * panel + 32],
                            device.rows(device.swizzled(ds[buffer, panel], 128), half * 64, 64),
                        )
                    device.fence_proxy_async()
                    device.barrier_sync(1, 256)
                    part_of_ds = device.swizzled(ds[buffer, 0 if head == 128 else half], 128).T
                    dq = tiles.mma(None, part_of_ds, part_of_k)
                    tiles.wait(1)
                    if own == 0:
                        queries.release(stage)
                        outs.release(stage)
                    flying = tiles.mma(None, own_k, of_q.tile(q, queries.wait(following)))
                    dq = tiles.wait(1, dq)
                    for n in tuple(range(0, 32, 4)):
                        place = half * 1024 + n * 32 + own
                        device.red_add(
                            quads, (index + i, block, place), float32x4(dq[n], dq[n + 1], dq[n + 2], dq[n + 3])
                        )
                    scores = tiles.wait(0, flying)
                    step += 1
            dk, dv = tiles.wait(0, dk, dv)
            column = key_head * head
            tiles.store_to_array(tuple([x * float32(scale) for x in dk]), k_grad[start : start + tokens], key, column)
            tiles.store_to_array(dv, v_grad[start : start + tokens], key, column)

    @device.kernel(max_threads=256)
    def after(sums, q_grad, tokens: int32):
        thread, half, block = int32(device.thread_idx.x), tiles.warpgroup(), int32(device.block_idx.x)
        index, head_index, sequence = where()
        quads, start, place = sums.view(float32x4), sequence * tokens, half * 1024 + thread % 128
        parts = tuple([quads[index, block, place + n * 128] for n in range(8)])
        row, column = (0, half * 64) if head == 128 else (half * 64, 0)
        grad = tuple([x * float32(scale) for part in parts for x in (part.x, part.y, part.z, part.w)])
        tiles.store_to_array(grad, q_grad[start : start + tokens], block * rows + row, head_index * head + column)

    return before, kernel, after, of_k, of_q


def prepare(forward, gradients, tokens, head=128, causal=False, dtype=bfloat16, stream=None):
    """Prepares the launches of the backward pass: the result computes the gradients whenever it is called.

    `forward` are the arrays q, k, v, out and lse of the forward pass, see `attention`, and `gradients` those of out, q, k and v,
    of which the last three are written.
    """
    q, k, v, out, lse = forward
    out_grad, q_grad, k_grad, v_grad = gradients
    before, kernel, after, of_k, of_q = attention_backward(head, causal, dtype)
    heads, kept, sequences = q.shape[1] // head, k.shape[1] // head, q.shape[0] // tokens
    blocks, rows = -(-tokens // of_q.rows), of_q.rows
    row_values = device.empty((sequences * heads, blocks, 2 * rows), float32, stream=stream)
    sums = device.empty((sequences * heads, blocks, rows * head), float32, stream=stream)
    maps = [
        TensorMap.of(x, layout.box, swizzle=layout.swizzle)
        for x, layout in ((q, of_q), (k, of_k), (v, of_k), (out_grad, of_q))
    ]
    sizes = int32(tokens), int32(heads // kept)
    by_queries = {"grid": (blocks, heads, sequences), "stream": stream}
    by_keys = {"grid": (-(-tokens // KEYS), kept, sequences), "stream": stream}
    launches = [
        device.prepare(before, out, out_grad, lse, row_values, sums, sizes[0], block=2 * rows, **by_queries),
        device.prepare(kernel, *maps, row_values, sums, k_grad, v_grad, *sizes, block=384, **by_keys),
        device.prepare(after, sums, q_grad, sizes[0], block=256, **by_queries),
    ]

    def launch():
        """Computes the gradients."""
        for one in launches:
            one()

    return launch
