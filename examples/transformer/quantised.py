"""Rows of bfloat16 quantised to float8e4m3 with a float32 scale for each row, alone or after RMSNorm.

A row is about `quantised * scale`, and its greatest magnitude becomes 448, that of float8e4m3.
"""

import functools

from rowwise import begin, chunks_of, floats, inverse_rms, over_warp

import cuda_device as device
from cuda_device import float8e4m3, float32, int32, uint32x2, uint32x4

GREATEST = 448
LEAST = 1e-30
"""The magnitude that counts as that of a row of zeros."""


def store_quantised(values, maxima, out, scales, row):
    """Quantises the row that the threads of a block hold, and stores it. `maxima` are shared float32, one for each warp."""
    thread, threads = int32(device.thread_idx.x), len(maxima) * 32
    most = float32(LEAST)
    for chunk in values:
        for value in chunk:
            most = max(most, abs(value))
    most = over_warp(max, most)
    if thread % 32 == 0:
        maxima[thread // 32] = most
    device.syncthreads()
    most = max(maxima)
    if thread == 0:
        scales[row] = most * float32(1 / GREATEST)
    factor, target = GREATEST / most, out.view(uint32x2)
    for i, chunk in enumerate(values):
        x = tuple([value * factor for value in chunk])
        low = device.pack(x[0], x[1], x[2], x[3], dtype=float8e4m3, saturate=True)
        high = device.pack(x[4], x[5], x[6], x[7], dtype=float8e4m3, saturate=True)
        target[row, threads * i + thread] = uint32x2(low, high)


@functools.cache
def quantise(columns, warps=8):
    """The kernel for rows of `columns` elements, a multiple of 256 * warps: a block of `warps` warps quantises a row."""
    threads = 32 * warps
    chunks = chunks_of(columns, threads)

    @device.kernel(max_threads=threads)
    def kernel(x, out, scales):
        maxima = device.shared_array(warps, float32)
        thread, row, source = int32(device.thread_idx.x), device.block_idx.x, x.view(uint32x4)
        begin()
        values = tuple([source[row, threads * i + thread] for i in range(chunks)])
        store_quantised(tuple([floats(chunk) for chunk in values]), maxima, out, scales, row)

    return kernel


@functools.cache
def rms_norm(columns, epsilon=1e-5, warps=8):
    """The kernel that quantises x / sqrt(mean(x ** 2) + epsilon) * weight; a block of `warps` warps computes a row."""
    threads = 32 * warps
    chunks = chunks_of(columns, threads)

    @device.kernel(max_threads=threads)
    def kernel(x, weight, out, scales):
        sums, maxima = device.shared_array(warps, float32), device.shared_array(warps, float32)
        thread, row = int32(device.thread_idx.x), device.block_idx.x
        source, factors = x.view(uint32x4), weight.view(uint32x4)
        weights = tuple([factors[threads * i + thread] for i in range(chunks)])
        begin()
        values = tuple([source[row, threads * i + thread] for i in range(chunks)])
        scale = inverse_rms(values, sums, columns, epsilon)
        normed = []
        for chunk, factor in zip(values, weights, strict=True):
            pairs = zip(floats(chunk), floats(factor), strict=True)
            normed.append(tuple([value * scale * w for value, w in pairs]))
        store_quantised(tuple(normed), maxima, out, scales, row)

    return kernel
