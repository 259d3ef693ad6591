"""Kernels that are limited by memory: RMSNorm, softmax, rotary embedding and SwiGLU, in bfloat16, 16 bytes at a time.

The elements of a row are in the registers of a block, so that each is read once and written once.
"""

import functools
import math
from operator import add

import cuda_device as device
from cuda_device import bfloat16, float32, float32x2, float32x4, int32, uint32x4

CHUNK = 8
"""The bfloat16 elements of 16 bytes."""


def floats(chunk):
    """The eight elements of 16 bytes, as float32."""
    return tuple(float32(x) for word in (chunk.x, chunk.y, chunk.z, chunk.w) for x in device.unpack(word, bfloat16))


def chunk_of(x):
    """Eight numbers, rounded to bfloat16, as 16 bytes."""
    words = tuple(device.pack(x[i], x[i + 1], dtype=bfloat16) for i in range(0, CHUNK, 2))
    return uint32x4(words[0], words[1], words[2], words[3])


def eight(quads, row, column):
    """Eight float32 of an array of float32x4."""
    a, b = quads[row, column], quads[row, column + 1]
    return a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w


def over_warp(combine, x):
    """Combines the values of all lanes."""
    for step in (16, 8, 4, 2, 1):
        x = combine(x, device.shfl_xor_sync(0xFFFFFFFF, x, step))
    return x


def chunks_of(columns, threads):
    """The number of chunks of a row for each thread of a block. Raises `ValueError` if threads would have different numbers."""
    if columns % (threads * CHUNK):
        raise ValueError(f"rows of {columns} elements: {threads} threads take a multiple of {threads * CHUNK}")
    return columns // (threads * CHUNK)


def begin():
    """Lets the next launch start, and waits for the one before, if they are dependent launches."""
    if device.target(device.provides(device.sm90)):
        device.launch_dependents()
        device.wait_dependencies()


def inverse_rms(values, sums, columns, epsilon):
    """1 / sqrt(mean(x ** 2) + epsilon) of the row that a block holds. `sums` are shared float32, one for each warp."""
    thread, squares = int32(device.thread_idx.x), float32(0)
    for chunk in values:
        for value in floats(chunk):
            squares += value * value
    total = over_warp(add, squares)
    if thread % 32 == 0:
        sums[thread // 32] = total
    device.syncthreads()
    return device.rsqrt(sum(sums) / columns + float32(epsilon))


@functools.cache
def rms_norm(columns, epsilon=1e-5, warps=4):
    """The kernel for rows of `columns` elements, a multiple of 256 * warps: out = x / sqrt(mean(x ** 2) + epsilon) * weight.

    A block of `warps` warps computes a row.
    """
    threads = 32 * warps
    chunks = chunks_of(columns, threads)

    @device.kernel(max_threads=threads)
    def kernel(x, weight, out):
        sums = device.shared_array(warps, float32)
        thread, row = int32(device.thread_idx.x), device.block_idx.x
        source, factors, target = x.view(uint32x4), weight.view(uint32x4), out.view(uint32x4)
        weights = tuple([factors[threads * i + thread] for i in range(chunks)])
        begin()
        values = tuple([source[row, threads * i + thread] for i in range(chunks)])
        scale = inverse_rms(values, sums, columns, epsilon)
        for i, chunk in enumerate(values):
            pairs = zip(floats(chunk), floats(weights[i]), strict=True)
            target[row, threads * i + thread] = chunk_of(tuple([v * scale * w for v, w in pairs]))

    return kernel


@functools.cache
def softmax(columns, warps=8):
    """The kernel for rows of `columns` elements, a multiple of 256 * warps: out = exp(x) / sum(exp(x)) for each row.

    A block of `warps` warps computes a row.
    """
    threads, factor = 32 * warps, float32(math.log2(math.e))
    chunks = chunks_of(columns, threads)

    @device.kernel(max_threads=threads, fastmath=True)
    def kernel(x, out):
        sums = device.shared_array(warps, float32x2)
        thread, row = int32(device.thread_idx.x), device.block_idx.x
        source, target = x.view(uint32x4), out.view(uint32x4)
        values = tuple([source[row, threads * i + thread] for i in range(chunks)])
        most = float32(-math.inf)
        for chunk in values:
            most = max(most, *floats(chunk))
        most = over_warp(max, most) * factor
        weights = tuple([tuple([math.exp2(v * factor - most) for v in floats(chunk)]) for chunk in values])
        total = over_warp(add, sum([sum(chunk) for chunk in weights]))
        if thread % 32 == 0:
            sums[thread // 32] = float32x2(most, total)
        device.syncthreads()
        # The sums of the warps refer to their own maxima.
        pairs = tuple([sums[i] for i in range(warps)])
        highest = most
        for pair in pairs:
            highest = max(highest, pair.x)
        total = float32(0)
        for pair in pairs:
            total += pair.y * math.exp2(pair.x - highest)
        share = math.exp2(most - highest) / total
        for i, chunk in enumerate(weights):
            target[row, threads * i + thread] = chunk_of(tuple([w * share for w in chunk]))

    return kernel


def rotated(left, right, cosines, sines):
    """Two chunks of bfloat16 whose pairs of elements are rotated by eight angles."""
    a, b = floats(left), floats(right)
    first = chunk_of(tuple([x * c - y * s for x, y, c, s in zip(a, b, cosines, sines, strict=True)]))
    second = chunk_of(tuple([y * c + x * s for x, y, c, s in zip(a, b, cosines, sines, strict=True)]))
    return first, second


@functools.cache
def rotary(head=128, share=2):
    """The kernel that rotates the pairs (x[i], x[i + head / 2]) of each head by the angles of its token.

    `x` has the shape (tokens, columns), and is changed in place in its first `heads` heads. `cosines` and `sines` are float32 of
    the shape (positions, head / 2), and `positions` has the position of each token. A thread rotates the same 16 bytes of
    `share` heads; `rotary_sizes` gives the sizes of the launch.
    """
    chunks = head // 2 // CHUNK

    @device.kernel(max_threads=256)
    def kernel(x, cosines, sines, positions, heads: int32):
        part, token = int32(device.thread_idx.x), device.block_idx.x
        words, position = x.view(uint32x4), positions[token]
        step = int32(device.block_dim.y)
        first = int32(device.thread_idx.y)
        indices = tuple([first + i * step for i in range(share)])
        lefts = tuple([(index if index < heads else first) * (2 * chunks) + part for index in indices])
        pairs = tuple([(words[token, left], words[token, left + chunks]) for left in lefts])
        c = eight(cosines.view(float32x4), position, 2 * part)
        s = eight(sines.view(float32x4), position, 2 * part)
        for i in range(share):
            if indices[i] < heads:
                left, right = rotated(pairs[i][0], pairs[i][1], c, s)
                words[token, lefts[i]], words[token, lefts[i] + chunks] = left, right

    return kernel


def rotary_sizes(tokens, heads, head=128, share=2):
    """The grid and block for `rotary`."""
    return {"grid": tokens, "block": (head // 2 // CHUNK, -(-heads // share))}
