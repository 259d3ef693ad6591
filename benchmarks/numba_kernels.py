"""Kernels of the suite for numba-cuda, where it is installed: the same algorithms, block sizes and atomics.

`NUMBA` maps names of the suite to kernels, which take what CUDA C++ takes; it is empty without numba-cuda. Numbers are written in
the types that they are meant to have: numba makes float64 of every literal that meets none.

    launcher(NUMBA["transpose"], buffers, stream)       launches it on the n-th copy of the buffers

With `NUMBA_ENABLE_CUDASIM=1` all of them run without a GPU, in numba's simulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

NUMBA: dict[str, Any] = {}
BEYOND_THE_SIMULATOR = {"reduction", "SpMV", "xorshift", "Needleman-Wunsch"}
"""It has no shuffles, and takes minutes for kernels of many steps."""

vars(np).setdefault("row_stack", np.vstack)  # NumPy 2.5 has it no more, numba-cuda 0.30 cannot do without

try:
    from numba import cuda, float32, float64, int32, uint32, uint64
except Exception:  # not installed, or not for this NumPy
    cuda = None

ALL = 0xFFFFFFFF
TILE, PADDED, ROWS, PRODUCT_TILE = 32, 33, 8, 16
RATE, HALF, ONE, TWO, FOUR, SIX = map(np.float32, (0.1, 0.5, 1, 2, 4, 6))
INTEREST, VOLATILITY, ROOT_HALF = map(np.float32, (0.02, 0.30, math.sqrt(0.5)))


def launcher(kernel: Any, buffers: Any, stream: Any) -> Callable[[int], None]:
    """What launches a kernel on the n-th copy of the buffers."""
    problem, queue = buffers.problem, cuda.external_stream(stream.handle)
    ready = [
        tuple(cuda.as_cuda_array(x) if hasattr(x, "__cuda_array_interface__") else x for x in found)
        for found in (buffers.replaced(problem.cuda, n) for n in range(len(buffers)))
    ]
    configured = kernel[problem.grid, problem.block, queue, problem.shared]
    return lambda n: configured(*ready[n % len(ready)])


def _define_stream() -> dict[str, Any]:
    @cuda.jit
    def copy(a, c, n):
        i = cuda.grid(1)
        if i < n:
            c[i] = a[i]

    @cuda.jit
    def scale(b, c, n):
        i = cuda.grid(1)
        if i < n:
            b[i] = 0.4 * c[i]

    @cuda.jit
    def add(a, b, c, n):
        i = cuda.grid(1)
        if i < n:
            c[i] = a[i] + b[i]

    @cuda.jit
    def triad(a, b, c, n):
        i = cuda.grid(1)
        if i < n:
            a[i] = b[i] + 0.4 * c[i]

    @cuda.jit
    def dot(a, b, sums, n):
        tree = cuda.shared.array(256, float64)
        thread = cuda.threadIdx.x
        total = 0.0
        for i in range(cuda.grid(1), n, cuda.gridsize(1)):
            total += a[i] * b[i]
        tree[thread] = total
        half = 128
        while half > 0:
            cuda.syncthreads()
            if thread < half:
                tree[thread] += tree[thread + half]
            half //= 2
        if thread == 0:
            sums[cuda.blockIdx.x] = tree[0]

    @cuda.jit
    def copy_strided(x, out, step, n):
        i = cuda.grid(1)
        if i < n:
            out[i] = x[i * step]

    @cuda.jit
    def gather(x, places, out, n):
        i = cuda.grid(1)
        if i < n:
            out[i] = x[places[i]]

    return {
        "stream copy": copy,
        "stream scale": scale,
        "stream add": add,
        "stream triad": triad,
        "stream dot": dot,
        "copy, strided": copy_strided,
        "copy, gathered": gather,
    }


def _define_grids() -> dict[str, Any]:
    @cuda.jit
    def five_points(old, new, height, width):
        x, y = cuda.grid(2)
        if x < width and y < height:
            here = old[y, x]
            if 0 < x < width - 1 and 0 < y < height - 1:
                around = old[y - 1, x] + old[y + 1, x] + old[y, x - 1] + old[y, x + 1]
                here += RATE * (around - FOUR * here)
            new[y, x] = here

    @cuda.jit
    def seven_points(old, new, depth, height, width):
        x, y, z = cuda.grid(3)
        if x < width and y < height and z < depth:
            here = old[z, y, x]
            if 0 < x < width - 1 and 0 < y < height - 1 and 0 < z < depth - 1:
                around = old[z, y, x - 1] + old[z, y, x + 1] + old[z, y - 1, x]
                around += old[z, y + 1, x] + old[z - 1, y, x] + old[z + 1, y, x]
                here += RATE * (around - SIX * here)
            new[z, y, x] = here

    @cuda.jit
    def transpose(x, y, height, width):
        tile = cuda.shared.array((TILE, PADDED), float32)
        column, row = cuda.threadIdx.x, cuda.threadIdx.y
        left, top = cuda.blockIdx.x * TILE, cuda.blockIdx.y * TILE
        for k in range(row, TILE, ROWS):
            if top + k < height and left + column < width:
                tile[k, column] = x[top + k, left + column]
        cuda.syncthreads()
        for k in range(row, TILE, ROWS):
            if left + k < width and top + column < height:
                y[left + k, top + column] = tile[column, k]

    @cuda.jit
    def mandelbrot(steps, height, width, left, top, pitch, most):
        x, y = cuda.grid(2)
        if x < width and y < height:
            real, imaginary = left + float32(x) * pitch, top + float32(y) * pitch
            a, b, count = float32(0), float32(0), int32(0)
            while count < most and a * a + b * b <= FOUR:
                a, b = a * a - b * b + real, TWO * a * b + imaginary
                count += int32(1)
            steps[y, x] = count

    return {
        "stencil, 5 points": five_points,
        "stencil, 7 points": seven_points,
        "transpose": transpose,
        "mandelbrot": mandelbrot,
    }


def _define_products() -> dict[str, Any]:
    def kernels(number: Any) -> tuple[Any, Any]:
        @cuda.jit
        def multiply(a, b, c, rows, inner, columns):
            j, i = cuda.grid(2)
            if i < rows and j < columns:
                total = number(0)
                for k in range(inner):
                    total += a[i, k] * b[k, j]
                c[i, j] = total

        @cuda.jit
        def multiply_tiled(a, b, c, rows, inner, columns):
            a_tile = cuda.shared.array((PRODUCT_TILE, PRODUCT_TILE), number)
            b_tile = cuda.shared.array((PRODUCT_TILE, PRODUCT_TILE), number)
            column, row = cuda.threadIdx.x, cuda.threadIdx.y
            j, i = cuda.grid(2)
            total = number(0)
            for start in range(0, inner, PRODUCT_TILE):
                in_a = i < rows and start + column < inner
                in_b = start + row < inner and j < columns
                a_tile[row, column] = a[i, start + column] if in_a else number(0)
                b_tile[row, column] = b[start + row, j] if in_b else number(0)
                cuda.syncthreads()
                for k in range(PRODUCT_TILE):
                    total += a_tile[row, k] * b_tile[k, column]
                cuda.syncthreads()
            if i < rows and j < columns:
                c[i, j] = total

        return multiply, multiply_tiled

    narrow, wide = kernels(float32), kernels(float64)
    return {
        "matmul float32": narrow[0],
        "matmul float64": wide[0],
        "tiled matmul float32": narrow[1],
        "tiled matmul float64": wide[1],
    }


def _define_reductions() -> dict[str, Any]:
    @cuda.jit(device=True)
    def sum_of_warp(value):
        distance = 16
        while distance > 0:
            value += cuda.shfl_down_sync(ALL, value, distance)
            distance //= 2
        return value

    @cuda.jit
    def add_up(x, total, n):
        partial = cuda.shared.array(8, float32)
        thread = cuda.threadIdx.x
        value = float32(0)
        for i in range(cuda.grid(1), n, cuda.gridsize(1)):
            value += x[i]
        value = sum_of_warp(value)
        if thread % 32 == 0:
            partial[thread // 32] = value
        cuda.syncthreads()
        if thread < 32:
            value = sum_of_warp(partial[thread] if thread < 8 else float32(0))
            if thread == 0:
                cuda.atomic.add(total, 0, value)

    @cuda.jit
    def sums_of_blocks(x, sums, n):
        tree = cuda.shared.array(256, float32)
        thread, i = cuda.threadIdx.x, cuda.grid(1)
        tree[thread] = x[i] if i < n else float32(0)
        cuda.syncthreads()
        half = 128
        while half > 0:
            if thread < half:
                tree[thread] += tree[thread + half]
            cuda.syncthreads()
            half //= 2
        if thread == 0:
            sums[cuda.blockIdx.x] = tree[0]

    @cuda.jit
    def histogram(data, bins, n):
        local = cuda.shared.array(256, uint32)
        thread = cuda.threadIdx.x
        for j in range(thread, 256, 256):
            local[j] = 0
        cuda.syncthreads()
        for i in range(cuda.grid(1), n, cuda.gridsize(1)):
            cuda.atomic.add(local, data[i], uint32(1))
        cuda.syncthreads()
        for j in range(thread, 256, 256):
            if local[j] > 0:
                cuda.atomic.add(bins, j, local[j])

    @cuda.jit
    def counter(count):
        cuda.atomic.add(count, 0, uint32(1))

    @cuda.jit
    def spmv(starts, columns, values, x, y, rows):
        row, lane = cuda.grid(1) // 32, cuda.grid(1) % 32
        if row < rows:
            total = float32(0)
            for k in range(starts[row] + lane, starts[row + 1], 32):
                total += values[k] * x[columns[k]]
            total = sum_of_warp(total)
            if lane == 0:
                y[row] = total

    return {
        "reduction": add_up,
        "reduction of blocks": sums_of_blocks,
        "histogram": histogram,
        "natural histogram": histogram,
        "natural counter": counter,
        "SpMV": spmv,
    }


def _define_numbers() -> dict[str, Any]:
    @cuda.jit(device=True)
    def normal(x):
        return HALF * math.erfc(-x * ROOT_HALF)

    @cuda.jit
    def black_scholes(price, strike, years, call, put, n):
        i = cuda.grid(1)
        if i < n:
            s, x, t = price[i], strike[i], years[i]
            root = math.sqrt(t)
            d1 = (math.log(s / x) + (INTEREST + HALF * VOLATILITY * VOLATILITY) * t) / (VOLATILITY * root)
            d2 = d1 - VOLATILITY * root
            discounted = x * math.exp(-INTEREST * t)
            call[i] = s * normal(d1) - discounted * normal(d2)
            put[i] = discounted * normal(-d2) - s * normal(-d1)

    @cuda.jit(device=True)
    def xorshift(state):
        state = uint32(state ^ uint32(state << uint32(13)))
        state = uint32(state ^ uint32(state >> uint32(17)))
        return uint32(state ^ uint32(state << uint32(5)))

    @cuda.jit(device=True)
    def inside(x, y):
        a, b = uint64(x >> uint32(16)), uint64(y >> uint32(16))
        return a * a + b * b < uint64(1) << uint64(32)

    @cuda.jit
    def count_xorshift(hits, n, points, seed):
        i = cuda.grid(1)
        if i < n:
            state = uint32(uint32(seed) + uint32(i) * uint32(2654435761))
            count = int32(0)
            for _ in range(points):
                x = xorshift(state)
                state = xorshift(x)
                if inside(x, state):
                    count += int32(1)
            hits[i] = count

    @cuda.jit(device=True)
    def reflect(place, speed):
        if place < 0:
            return -place, -speed
        if place > 1:
            return TWO - place, -speed
        return place, speed

    @cuda.jit
    def move_arrays(x, y, vx, vy, time, n):
        i = cuda.grid(1)
        if i < n:
            x[i], vx[i] = reflect(x[i] + vx[i] * time, vx[i])
            y[i], vy[i] = reflect(y[i] + vy[i] * time, vy[i])

    return {"Black-Scholes": black_scholes, "xorshift": count_xorshift, "particles, arrays": move_arrays}


def _define_others() -> dict[str, Any]:
    @cuda.jit
    def visit(starts, targets, distances, frontier, following, sizes, level):
        k = cuda.grid(1)
        if k < sizes[level]:
            node = frontier[k]
            for edge in range(starts[node], starts[node + 1]):
                neighbour = targets[edge]
                if cuda.atomic.cas(distances, neighbour, -1, level + 1) == -1:
                    following[cuda.atomic.add(sizes, level + 1, 1)] = neighbour

    @cuda.jit
    def align_shared(a, b, result, length_a, length_b):
        diagonals = cuda.shared.array((3, 513), int32)
        thread, threads = cuda.threadIdx.x, cuda.blockDim.x
        rows, columns = length_a + 1, length_b + 1
        for diagonal in range(rows + columns - 1):
            now, before, earlier = diagonal % 3, (diagonal + 2) % 3, (diagonal + 1) % 3
            for i in range(max(0, diagonal - columns + 1) + thread, min(diagonal + 1, rows), threads):
                j = diagonal - i
                if i == 0 or j == 0:
                    diagonals[now, i] = -2 * (i + j)
                else:
                    score = diagonals[earlier, i - 1] + (2 if a[i - 1] == b[j - 1] else -1)
                    diagonals[now, i] = max(score, diagonals[before, i - 1] - 2, diagonals[before, i] - 2)
            cuda.syncthreads()
        if thread == 0:
            result[0] = diagonals[(rows + columns - 2) % 3, rows - 1]

    @cuda.jit
    def compare_and_swap(x, size, distance, n):
        i = cuda.grid(1)
        other = i ^ distance
        if i < other and other < n:
            a, b = x[i], x[other]
            if (a > b) == ((i & size) == 0):
                x[i], x[other] = b, a

    return {"BFS": visit, "Needleman-Wunsch": align_shared, "bitonic sort": compare_and_swap}


if cuda is not None:
    for _define in (
        _define_stream,
        _define_grids,
        _define_products,
        _define_reductions,
        _define_numbers,
        _define_others,
    ):
        NUMBA.update(_define())
