"""Attention of a decode step over a paged key-value cache, on sm_90a: one new token of each sequence, with grouped queries.

    cache = PagedCache(keys, values, table, lengths)
    append(qkv, cosines, sines, cache, stream)()        rotates the queries and keys, and adds the keys and values to the cache
    attend(qkv, cache, out, stream)()                   attention of the queries to all tokens in the cache

Both functions prepare a launch. The time is that of reading the cache. A cluster of blocks shares a sequence and a key head, and
each warp of them has every n-th group of keys, which it loads into a ring of its own. It multiplies them by the queries
of all heads that use them; at the end the blocks combine what their warps have through distributed shared memory.
"""

import functools
import math
from operator import add, mul
from typing import Any, NamedTuple

import rowwise
from attention import LOWEST, softmax

import cuda_device as device
from cuda_device import TensorMap, bfloat16, float32, float32x2, float32x4, int32, tiles, uint32, uint32x4


class PagedCache(NamedTuple):
    """The keys and values of the tokens of sequences, in pages.

    `keys` and `values` are bfloat16 of the shape (pages, page size, key heads, head), `table` is int32 (sequences, pages of a
    sequence) with the numbers of the pages, and `lengths` is int32 (sequences,): the tokens of each sequence with the new one. A
    sequence with the length 0 takes no part in the step, and the result of its attention is 0.
    """

    keys: Any
    values: Any
    table: Any
    lengths: Any


@functools.cache
def paged_attention(head=128, queries=4, page=16, keys=16, warps=8, stages=3, parts=2):
    """The kernel for heads of `head` elements, 64 or 128, and pages of `page` tokens, and the box of its tensor maps.

    `queries` heads of queries, at most 16, use the same key head. A cluster of `parts` blocks of `warps` warps reads the keys and
    values of a sequence and a key head, and each warp `keys` of them at a time, a multiple of 16 that divides `page`.
    """
    of_k = tiles.TileLayout(keys, head, bfloat16)
    box, threads, stride = (1, keys, 1, of_k.width), 32 * warps, warps * parts
    scale = float32(math.log2(math.e) / math.sqrt(head))

    def load(tile, map, page_number, row, key_head, bar):
        """Starts to load the keys or values of a page from a row on."""
        for panel in range(of_k.panels):
            part = device.swizzled(tile[panel], of_k.swizzle)
            device.tma_load(part, map, (page_number, row, key_head, panel * of_k.width), bar)

    def query_fragments(q, sequence, first):
        """The queries of the heads that use a key head, as the operand `a` of a product; `first` is their first column."""
        words = q.view(uint32)
        fragments = []
        for i in tuple(range(head // 4)):
            row, column = device.fragment_place("a", (16, 8, 16), bfloat16, 2 * (i % 4))
            inside = row < queries
            word = words[sequence, (first + (row if inside else 0) * head + i // 4 * 16 + column) // 2]
            fragments.append(word if inside else uint32(0))
        return tuple(fragments)

    @device.kernel(max_threads=threads, fastmath=True, cluster=parts)
    def kernel(q, map_k, map_v, table, lengths, out):
        k = device.shared_array(of_k.stages(warps * stages), bfloat16)
        v = device.shared_array(of_k.stages(warps * stages), bfloat16)
        sums = device.shared_array((warps, queries, head // 2), float32x2)
        states = device.shared_array((warps, queries), float32x2)  # the maxima, and the sums of the weights
        bars = device.shared_array(warps * stages, device.MBarrier)
        thread, rank = int32(device.thread_idx.x), int32(device.block_rank)
        warp, lane = device.shfl_sync(0xFFFFFFFF, thread >> 5, 0), thread & 31
        key_head, sequence = int32(device.block_idx.y), int32(device.block_idx.z)
        length, first = lengths[sequence], rank * warps + warp
        groups = (length + keys - 1) // keys
        steps = (groups - first + stride - 1) // stride
        # The newest token is in the last group of keys. The others do not depend on the launch before.
        early, ahead = (groups - 1 - first + stride - 1) // stride, min(steps, stages)

        def number_of(step):
            """The number of the page of a step, or of the last one."""
            return table[sequence, (first + min(step, steps - 1) * stride) * keys // page]

        def start(step, slot, number):
            """Starts to load the keys and values of a step, by one thread."""
            row = (first + step * stride) * keys % page
            bars[slot].arrive_expect_tx(2 * of_k.nbytes)
            load(k[slot], map_k, number, row, key_head, bars[slot])
            load(v[slot], map_v, number, row, key_head, bars[slot])

        if lane < stages:
            bars[warp * stages + lane].init(1)
            device.fence_mbarrier_init()
        if lane < min(early, ahead):
            start(lane, warp * stages + lane, number_of(lane))
        device.wait_dependencies()
        device.launch_dependents()
        if lane >= early and lane < ahead:
            start(lane, warp * stages + lane, number_of(lane))
        device.syncwarp(0xFFFFFFFF)
        left = query_fragments(q, sequence, key_head * queries * head)
        most, total, acc = (LOWEST, LOWEST), (float32(0), float32(0)), tiles.zeros(head)
        for step in range(steps):
            slot, rest = warp * stages + step % stages, length - (first + step * stride) * keys
            number = number_of(step + stages)
            bars[slot].wait(step // stages & 1)
            right = of_k.tile(v, slot)
            if rest < keys:  # what follows the last token may be NaN
                for i in range(rest * head + lane, keys * head, 32):
                    right[i // head, i % head] = bfloat16(0)
                device.syncwarp(0xFFFFFFFF)
            scores = tiles.warp_mma(None, left, of_k.tile(k, slot))
            scores = tuple([x if tiles.column_of(i) < rest else LOWEST for i, x in enumerate(scores)])
            weights, most, factors = softmax(scores, most, scale)
            total = tiles.own_rows(weights, (total[0] * factors[0], total[1] * factors[1]), add)
            acc = tiles.map_rows(mul, acc, factors)
            acc = tiles.warp_mma(acc, tiles.fragments(weights, bfloat16), right.T)
            if lane == 0 and step + stages < steps:
                start(step + stages, slot, number)
        total = tiles.row_total(total)
        for half in (0, 1):
            row = lane // 4 + 8 * half
            if row < queries:
                if lane % 4 == 0:
                    states[warp, row] = float32x2(most[half] * scale, total[half])
                for i in tuple(range(2 * half, head // 2, 4)):
                    sums[warp, row, tiles.column_of(i) // 2] = float32x2(acc[i], acc[i + 1])
        device.cluster_sync()
        for i in range(rank * threads + thread, queries * head // 2, parts * threads):
            row, column = i // (head // 2), i % (head // 2)
            highest = LOWEST
            for part in range(parts):
                for other in range(warps):
                    highest = max(highest, device.cluster_shared(states, part)[other, row].x)
            result, whole = float32x2(0, 0), float32(0)
            for part in range(parts):
                for other in range(warps):
                    state = device.cluster_shared(states, part)[other, row]
                    weight = math.exp2(state.x - highest)
                    whole += state.y * weight
                    result += device.cluster_shared(sums, part)[other, row, column] * weight
            share = 1 / whole if whole > 0 else float32(0)
            place = (key_head * queries + row) * head // 2 + column
            out.view(uint32)[sequence, place] = device.pack(result.x * share, result.y * share, dtype=bfloat16)
        device.cluster_sync()

    return kernel, box


@functools.cache
def rotary_append(head=128, page=16):
    """The kernel that rotates the queries and keys of new tokens, and adds the keys and values to the cache.

    A row of `qkv` has the queries, keys and values of the new token of a sequence; its queries are changed in place. The pairs
    (x[i], x[i + head / 2]) of a head are rotated by the angles of the token's position. `cosines` and `sines` are float32 of the
    shape (positions, head / 2).
    """
    chunks = head // 2 // rowwise.CHUNK

    @device.kernel(max_threads=128)
    def kernel(qkv, cosines, sines, keys, values, table, lengths):
        number, key_heads = device.tid(1), int32(keys.shape[2])
        part, rest = number % chunks, number // chunks
        heads = qkv.shape[1] // head
        index, sequence = rest % heads, rest // heads
        device.wait_dependencies()
        device.launch_dependents()
        if sequence < len(qkv) and lengths[sequence] > 0:
            position = lengths[sequence] - 1
            number, row, left = table[sequence, position // page], position % page, index * (2 * chunks) + part
            words, queries = qkv.view(uint32x4), heads - 2 * key_heads
            first, second = words[sequence, left], words[sequence, left + chunks]
            if index < queries + key_heads:
                c = rowwise.eight(cosines.view(float32x4), position, 2 * part)
                s = rowwise.eight(sines.view(float32x4), position, 2 * part)
                first, second = rowwise.rotated(first, second, c, s)
            if index < queries:
                words[sequence, left], words[sequence, left + chunks] = first, second
            elif index < queries + key_heads:
                target = keys.view(uint32x4)
                target[number, row, index - queries, part] = first
                target[number, row, index - queries, part + chunks] = second
            else:
                target, there = values.view(uint32x4), index - queries - key_heads
                target[number, row, there, part], target[number, row, there, part + chunks] = first, second

    return kernel


def attend(q: Any, cache: PagedCache, out: Any, stream: Any = None, dependent: bool = False, **settings: Any) -> Any:
    """Prepares the attention of the queries of one new token for each sequence to all tokens in the cache.

    `q` is bfloat16 with a row for each sequence that begins with its queries, such as the `qkv` of `append`. `out` is (sequences,
    heads * head). `settings` are those of `paged_attention`; the default is fast on an H200. A `dependent` launch starts to load
    during the one before it, which may write only the queries, and the newest tokens in the cache. Raises `LaunchError` for wrong
    shapes.
    """
    sequences, key_heads, page, head = check_cache(cache)
    columns = out.shape[-1]
    queries = max(columns // (key_heads * head), 1)
    check("out", out, (sequences, queries * key_heads * head))
    check("q", q, (sequences, max(q.shape[-1], columns)))
    keys = settings.setdefault("keys", 16 if page % 32 else 32)
    warps, parts = settings.setdefault("warps", max(1, 128 // keys)), settings.setdefault("parts", 2)
    room, stage = 220 * 1024 - warps * queries * head * 4, warps * keys * head * 4  # of shared memory, in bytes
    settings.setdefault("stages", max(1, min(3, room // stage)))
    if queries > 16 or keys % 16 or page % keys:
        reason = f"{queries} queries for each key head, pages of {page} tokens, {settings}"
        raise device.LaunchError(reason, "see the docstring of paged_attention for what they have to be")
    kernel, box = paged_attention(head, queries, page, **settings)
    maps = [TensorMap.of(x, box, swizzle=128) for x in (cache.keys, cache.values)]
    grid, block = (parts, key_heads, sequences), 32 * warps
    arguments = q, *maps, cache.table, cache.lengths, out
    return device.prepare(kernel, *arguments, grid=grid, block=block, dependent=dependent, stream=stream)


def append(qkv: Any, cosines: Any, sines: Any, cache: PagedCache, stream: Any = None, dependent: bool = False) -> Any:
    """Prepares the rotary embedding of new tokens, and their addition to the cache; see `rotary_append`.

    The position of the new token of a sequence is its length less 1. Raises `LaunchError` for wrong shapes.
    """
    sequences, key_heads, page, head = check_cache(cache)
    heads = max(qkv.shape[-1] // head, 2 * key_heads + 1)
    check("qkv", qkv, (sequences, heads * head))
    for name, table in (("cosines", cosines), ("sines", sines)):
        check(name, table, (len(table), head // 2))
    arguments = qkv, cosines, sines, cache.keys, cache.values, cache.table, cache.lengths
    threads = sequences * heads * (head // 2 // rowwise.CHUNK)
    kernel = rotary_append(head, page)
    return device.prepare(kernel, *arguments, threads=threads, block=128, dependent=dependent, stream=stream)


def check_cache(cache: PagedCache) -> tuple[int, int, int, int]:
    """The sequences, key heads, page size and head of a cache. Raises `LaunchError` for wrong shapes."""
    if len(cache.keys.shape) != 4 or cache.keys.shape[3] not in (64, 128) or cache.keys.shape[1] % 16:
        help = "give (pages, page size, key heads, head), with pages of a multiple of 16 tokens and heads of 64 or 128 elements"
        raise device.LaunchError(f"keys of the shape {tuple(cache.keys.shape)}", help)
    _, page, key_heads, head = cache.keys.shape
    sequences = len(cache.table)
    check("values", cache.values, tuple(cache.keys.shape))
    check("lengths", cache.lengths, (sequences,))
    check("table", cache.table, (sequences, cache.table.shape[-1]))
    return sequences, key_heads, page, head


SHAPES = "the arrays have a row for each sequence, and the shapes that PagedCache, attend and append describe"


def check(name: str, array: Any, shape: tuple[int, ...], help: str = SHAPES) -> None:
    """Raises `LaunchError` for an array of another shape."""
    if tuple(array.shape) != shape:
        raise device.LaunchError(f"{name} has the shape {tuple(array.shape)} instead of {shape}", help)
