"""Kernels that are limited by memory: RMSNorm, softmax, rotary embedding and SwiGLU, in bfloat16, 16 bytes at a time.

The elements of a row are in the registers of a block (RMSNorm) or a warp (softmax), so that each is read once and written once.
"""

import functools
import math

import cuda_device as device
from cuda_device import bfloat16, float32, float32x4, int32, uint32x4

CHUNK = 8
"""The bfloat16 elements of 16 bytes."""
WARPS = 4
"""The warps of a block."""


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


def add(x, y):
    """x + y."""
    return x + y


def begin():
    """Lets the next launch start, and waits for the one before, if they are dependent launches."""
    if device.target(device.provides(device.sm90)):
        device.launch_dependents()
        device.wait_dependencies()


@functools.cache
def rms_norm(columns, epsilon=1e-5, warps=4):
    """The kernel for rows of `columns` elements, a multiple of 256 * warps: out = x / sqrt(mean(x ** 2) + epsilon) * weight.

    A block of `warps` warps computes a row.
    """
    threads = 32 * warps
    chunks = columns // (threads * CHUNK)

    @device.kernel(max_threads=threads)
    def kernel(x, weight, out):
        sums = device.shared_array(warps, float32)
        thread, row = int32(device.thread_idx.x), device.block_idx.x
        source, factors, target = x.view(uint32x4), weight.view(uint32x4), out.view(uint32x4)
        weights = tuple([factors[threads * i + thread] for i in range(chunks)])
        begin()
        values = tuple([source[row, threads * i + thread] for i in range(chunks)])
        squares = float32(0)
        for chunk in values:
            for value in floats(chunk):
                squares += value * value
        total = over_warp(add, squares)
        if thread % 32 == 0:
            sums[thread // 32] = total
        device.syncthreads()
        scale = device.rsqrt(sum(sums) / columns + float32(epsilon))
        for i, chunk in enumerate(values):
            pairs = zip(floats(chunk), floats(weights[i]), strict=True)
            target[row, threads * i + thread] = chunk_of(tuple([v * scale * w for v, w in pairs]))

    return kernel


@functools.cache
def softmax(columns):
    """The kernel for rows of `columns` elements, a multiple of 256: out = exp(x) / sum(exp(x)) for each row."""
    chunks, factor = columns // (32 * CHUNK), math.log2(math.e)

    @device.kernel(max_threads=32 * WARPS, fastmath=True)
    def kernel(x, out):
        lane, row = device.lane_id, device.tid(1) // 32
        source, target = x.view(uint32x4), out.view(uint32x4)
        if row < len(x):
            values = tuple(source[row, 32 * i + lane] for i in range(chunks))
            most = float32(-math.inf)
            for chunk in values:
                most = max(most, *floats(chunk))
            most = over_warp(max, most) * float32(factor)
            total = float32(0)
            for chunk in values:
                for value in floats(chunk):
                    total += math.exp2(value * float32(factor) - most)
            share = 1 / over_warp(add, total)
            for i in range(chunks):
                weights = tuple(math.exp2(v * float32(factor) - most) * share for v in floats(values[i]))
                target[row, 32 * i + lane] = chunk_of(weights)

    return kernel


@functools.cache
def rotary(head=128):
    """The kernel that rotates the pairs (x[i], x[i + head / 2]) of each head by the angles of its token.

    `x` has the shape (tokens, columns), and is changed in place in its first `heads` heads. `cosines` and `sines` are float32 of
    the shape (positions, head / 2), and `positions` has the position of each token.
    """
    chunks = head // 2 // CHUNK

    @device.kernel(max_threads=32 * WARPS)
    def kernel(x, cosines, sines, positions, heads: int32):
        number = device.tid(1)
        part, rest = number % chunks, number // chunks
        index, token = rest % heads, rest // heads
        if token < len(x):
            words = x.view(uint32x4)
            left = index * (2 * chunks) + part
            a, b = floats(words[token, left]), floats(words[token, left + chunks])
            c = eight(cosines.view(float32x4), positions[token], 2 * part)
            s = eight(sines.view(float32x4), positions[token], 2 * part)
            words[token, left] = chunk_of(tuple(x * u - y * v for x, y, u, v in zip(a, b, c, s, strict=True)))
            words[token, left + chunks] = chunk_of(tuple(y * u + x * v for x, y, u, v in zip(a, b, c, s, strict=True)))

    return kernel
