"""Gradients of attention on the tensor cores of sm_90a: those of Q, K and V, with grouped queries, causal or not.

One block computes the gradients of 128 keys and values of one head. A producer warp loads K and V, and rings of Q and dO of all
heads of queries that use them; each of two warpgroups has 64 keys. They compute the weights P again from the log-sum-exp of rows,
which the forward pass stores, and then dV += P.T @ dO, dS = P * (dO @ V.T - sum(O * dO)), dK += dS.T @ Q, and dQ += dS @ K, which
they add up in memory.
"""

import functools
import math

import cuda_device as device
from cuda_device import bfloat16, float32, float32x4, int32, tiles, uint32, uint32x4

KEYS = 128
"""The keys of a block."""
LOWEST, HIGHEST = float32(-1e30), float32(1e30)


@functools.cache
def attention_backward(head=128, causal=False, dtype=bfloat16, stages=2):
    """The kernels for heads of `head` elements, 64 or 128, and the layouts of the tiles of K and V, and of Q and dO.

    The first kernel computes the statistics of each query: its log-sum-exp in base 2, and the sum of O * dO. It also sets the
    gradients of queries to zero, to which the second one adds in float32. The third one converts them. `prepare` launches them.
    """
    rows = 64 * 128 // head  # the queries of a step: a warpgroup computes 64 x 64 elements of their gradients
    of_k, of_q = tiles.TileLayout(KEYS, head, dtype), tiles.TileLayout(rows, head, dtype)
    of_ds = tiles.TileLayout(KEYS, rows, dtype)
    scale, width = 1 / math.sqrt(head), head // 8  # the pieces of 16 bytes in the row of a head
    # Loads wait behind the additions to dQ. Where registers allow it, those of the next step's log-sum-exp come before.
    early = rows == 64

    def where(longest_first=False):
        """The block of queries or keys, the head and the sequence of this block of threads, and the head among all sequences.

        The axes of the grid are blocks, heads and sequences. With `longest_first` the blocks come last: the first blocks of keys,
        which the most queries see if the mask is causal, start first.
        """
        x, y, z = int32(device.block_idx.x), int32(device.block_idx.y), int32(device.block_idx.z)
        block, number, sequence = (z, x, y) if longest_first else (x, y, z)
        heads = int32(device.grid_dim.x if longest_first else device.grid_dim.y)
        return block, number, sequence, sequence * heads + number

    def floats(piece):
        """The eight elements of 16 bytes."""
        return tuple(float32(x) for word in (piece.x, piece.y, piece.z, piece.w) for x in device.unpack(word, dtype))

    @device.kernel(max_threads=256)
    def before(out, out_grad, lse, statistics, sums, tokens: int32):
        thread, (block, number, sequence, index) = int32(device.thread_idx.x), where()
        pieces, gradients, quads = out.view(uint32x4), out_grad.view(uint32x4), sums.view(float32x4)
        for i in tuple(range(4)):
            row, piece = (thread + 256 * i) // width, thread % width
            token, column, total = block * rows + row, number * width + piece, float32(0)
            if token < tokens:
                x, y = (floats(array[sequence * tokens + token, column]) for array in (pieces, gradients))
                total = sum([a * b for a, b in zip(x, y, strict=True)], float32(0))
            for step in [width // 2 >> n for n in range(width.bit_length() - 1)]:
                total += device.shfl_xor_sync(0xFFFFFFFF, total, step)
            if piece == 0:
                inside = token < tokens
                statistics[index, block, row] = lse[index, token] * float32(math.log2(math.e)) if inside else HIGHEST
                statistics[index, block, rows + row] = total
        for i in range(8):
            quads[index, block, thread + 256 * i] = float32x4(0, 0, 0, 0)

    def masked(scores, key, limit):
        """The scores of the keys from `key` on, and `LOWEST` for those that a query does not see.

        `limit` is the first query if the mask is causal, and otherwise the number of keys.
        """
        first = limit + (tiles.column_of(0) if causal else -1)
        ahead = key + tiles.row_of(0) - first, key + tiles.row_of(1) - first
        columns = [tiles.column_of(i) - tiles.column_of(0) if causal else 0 for i in range(len(scores))]
        return tuple([x if ahead[i // 2 % 2] <= columns[i] else LOWEST for i, x in enumerate(scores)])

    def of_columns(values):
        """The value of the column of each element of a register tile."""
        return tuple([values[tiles.column_of(i)] for i in range(rows // 2)])

    @device.kernel(max_threads=384, min_blocks=1, fastmath=True)
    def kernel(map_q, map_k, map_v, map_do, statistics, sums, k_grad, v_grad, tokens: int32, queries_of_key: int32):
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
        block, number, sequence, index = where(causal)
        first_key, start = block * KEYS, sequence * tokens
        # The steps are the blocks of queries, from the first one that sees these keys, of one head after the other.
        first, blocks = (first_key // rows if causal else 0), (tokens + rows - 1) // rows
        steps = queries_of_key * (blocks - first)
        if group == 0:
            device.set_max_registers(24)
            if thread == 0:
                kv_bar[0].arrive_expect_tx(2 * of_k.nbytes)
                of_k.load(k, 0, map_k, start + first_key, number * head, kv_bar[0])
                of_k.load(v, 0, map_v, start + first_key, number * head, kv_bar[0])
                i, block = int32(0), first
                for step in range(steps):
                    row, column = start + block * rows, (number * queries_of_key + i) * head
                    stage = queries.acquire(step, of_q.nbytes + values[0].nbytes)
                    of_q.load(q, stage, map_q, row, column, queries.full[stage])
                    device.bulk_load(values[stage], statistics[index * queries_of_key + i, block], queries.full[stage])
                    stage = outs.acquire(step, of_q.nbytes)
                    of_q.load(do, stage, map_do, row, column, outs.full[stage])
                    block += 1
                    if block == blocks:
                        block, i = first, i + 1
        else:
            device.set_max_registers(240)
            half, own = uint32(group - 1), thread & 127
            key, quads = first_key + int32(half) * 64, sums.view(float32x4)
            kv_bar[0].wait(0)
            own_k = device.rows(of_k.tile(k, 0), half * 64, 64)
            own_v = device.rows(of_k.tile(v, 0), half * 64, 64)
            # Of dQ, a warpgroup computes half of the columns of 64 queries, or 64 of 128 queries.
            right = (device.swizzled(k[0, half], 128) if head == 128 else of_k.tile(k, 0)).T
            dk, dv = tiles.zeros(head), tiles.zeros(head)
            scores = tiles.wait(0, tiles.mma(None, own_k, of_q.tile(q, queries.wait(0))))
            lse = of_columns(values[0, :rows])
            i, block = int32(0), first
            for step in range(steps):
                stage, buffer = uint32(step) % stages, uint32(step) % 2
                outs.wait(step)
                flying = tiles.mma(None, own_v, of_q.tile(do, stage))
                if causal:
                    if block * rows < first_key + KEYS:
                        scores = masked(scores, key, block * rows)
                elif first_key + KEYS > tokens:
                    scores = masked(scores, key, tokens)
                if not early:
                    lse = of_columns(values[stage, :rows])
                pairs = zip(scores, lse, strict=True)
                weights = tuple([math.exp2(x * float32(scale * math.log2(math.e)) - y) for x, y in pairs])
                dv = tiles.mma(dv, tiles.fragments(weights, dtype), of_q.tile(do, stage).T)
                triples = zip(weights, tiles.wait(1, flying), of_columns(values[stage, rows:]), strict=True)
                grad = tuple([weight * (x - delta) for weight, x, delta in triples])
                dk = tiles.mma(dk, tiles.fragments(grad, dtype), of_q.tile(q, stage).T)
                for panel in tuple(range(rows // 64)):
                    tile = device.rows(device.swizzled(ds[buffer, panel], 128), half * 64, 64)
                    tiles.store(grad[32 * panel : 32 * panel + 32], tile)
                device.fence_proxy_async()
                device.barrier_sync(1, 256)
                dq = tiles.mma(None, device.swizzled(ds[buffer, 0 if head == 128 else half], 128).T, right)
                tiles.wait(1)
                if own == 0:
                    queries.release(stage)
                    outs.release(stage)
                # The scores of the next step, and once more of the last one.
                following = queries.wait(min(step + 1, steps - 1))
                flying = tiles.mma(None, own_k, of_q.tile(q, following))
                if early:
                    lse = of_columns(values[following, :rows])
                dq = tiles.wait(1, dq)
                for n in tuple(range(8)):
                    part = float32x4(dq[4 * n], dq[4 * n + 1], dq[4 * n + 2], dq[4 * n + 3])
                    device.red_add(
                        quads, (index * queries_of_key + i, block, half * 1024 + n * 128 + uint32(own)), part
                    )
                scores = tiles.wait(0, flying)
                block += 1
                if block == blocks:
                    block, i = first, i + 1
            dk, dv = tiles.wait(0, dk, dv)
            dk = tuple([x * float32(scale) for x in dk])
            for acc, array in ((dk, k_grad), (dv, v_grad)):
                # By way of shared memory, in pieces of 16 bytes. Only this warpgroup has read its rows of V.
                device.barrier_sync(2 + int32(half), 128)
                tiles.store(acc, own_v)
                device.barrier_sync(2 + int32(half), 128)
                pieces, target = own_v.view(uint32x4), array.view(uint32x4)
                for n in range(64 * width // 128):
                    row, piece = (own + 128 * n) // width, own % width
                    if key + row < tokens:
                        target[start + key + row, number * width + piece] = pieces[row, piece]

    @device.kernel(max_threads=256)
    def after(sums, q_grad, tokens: int32):
        thread, (block, number, sequence, index) = int32(device.thread_idx.x), where()
        quads, pieces = sums.view(float32x4), q_grad.view(uint32x4)
        # Four threads of a warpgroup have eight elements of each of two rows.
        piece, four = thread % 8, thread // 8
        for half in (0, 1):
            parts = tuple([quads[index, block, half * 1024 + piece * 128 + four * 4 + n] for n in range(4)])
            row, column = (0, half * 8) if head == 128 else (half * 64, 0)
            for i, pairs in enumerate(([(x.x, x.y) for x in parts], [(x.z, x.w) for x in parts])):
                words = tuple([device.pack(x * float32(scale), y * float32(scale), dtype=dtype) for x, y in pairs])
                token = block * rows + row + four // 8 * 16 + four % 8 + 8 * i
                if token < tokens:
                    place = sequence * tokens + token, number * width + column + piece
                    pieces[place] = uint32x4(words[0], words[1], words[2], words[3])

    return before, kernel, after, of_k, of_q


def prepare(forward, gradients, tokens, head=128, causal=False, dtype=bfloat16, stream=None):
    """Prepares the backward pass: the result computes the gradients whenever it is called.

    `forward` are the arrays q, k, v, out and lse of the forward pass, see `attention`, and `gradients` those of out, q, k and v,
    of which the last three are written.
    """
    q, k, v, out, lse = forward
    out_grad, q_grad, k_grad, v_grad = gradients
    before, kernel, after, of_k, of_q = attention_backward(head, causal, dtype)
    heads, kept, sequences, rows = q.shape[1] // head, k.shape[1] // head, q.shape[0] // tokens, of_q.rows
    shape = sequences * heads, -(-tokens // rows)
    statistics = device.empty((*shape, 2 * rows), float32, stream=stream)
    sums = device.empty((*shape, rows * head), float32, stream=stream)
    maps = of_q.map_of(q), of_k.map_of(k), of_k.map_of(v), of_q.map_of(out_grad)
    length, group, by_queries = int32(tokens), int32(heads // kept), (shape[1], heads, sequences)
    blocks = -(-tokens // KEYS)
    by_keys = (kept, sequences, blocks) if causal else (blocks, kept, sequences)
    launches = [
        device.prepare(before, out, out_grad, lse, statistics, sums, length, grid=by_queries, block=256, stream=stream),
        device.prepare(
            kernel, *maps, statistics, sums, k_grad, v_grad, length, group, grid=by_keys, block=384, stream=stream
        ),
        device.prepare(after, sums, q_grad, length, grid=by_queries, block=256, stream=stream),
    ]

    def launch():
        """Computes the gradients."""
        for one in launches:
            one()

    return launch
