"""Kernels as people write them, small and varied: what the tests of the compiler's stages compile.

`PROGRAMS` lists (kernel or function, argument types). Between them they use every operation of the IR.
"""

from __future__ import annotations

import math
from typing import Any

import cuda_device as device
from cuda_device import ArrayType

F16, F32, F64 = (ArrayType(t, 1) for t in (device.float16, device.float32, device.float64))
I32, U8, U64 = (ArrayType(t, 1) for t in (device.int32, device.uint8, device.uint64))
TILE = 16


@device.kernel
def saxpy(a, x, y, out):
    i = device.tid(1)
    if i < len(out):
        out[i] = a * x[i] + y[i]


@device.kernel
def block_sum(x, out):
    partial = device.shared_array(256, device.float32)
    t = device.thread_idx.x
    total = 0
    for i in range(device.tid(1), len(x), device.grid_size(1)):
        total += x[i]
    partial[t] = total
    step = 128
    while step > 0:
        device.syncthreads()
        if t < step:
            partial[t] += partial[t + step]
        step //= 2
    if t == 0:
        out[device.block_idx.x] = partial[0]


@device.kernel
def matrix_product(a, b, c):
    left = device.shared_array((TILE, TILE), device.float32)
    right = device.shared_array((TILE, TILE), device.float32, order="F", align=16)
    x, y = device.thread_idx.x, device.thread_idx.y
    column, row = device.tid(2)
    total = 0.0
    for start in range(0, a.shape[1], TILE):
        left[y, x] = a[row, start + x] if row < a.shape[0] and start + x < a.shape[1] else 0
        right[y, x] = b[start + y, column] if start + y < b.shape[0] and column < b.shape[1] else 0
        device.syncthreads()
        for k in range(TILE):
            total += left[y, k] * right[k, x]
        device.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@device.kernel
def blur(image, out, weights):
    column, row = device.tid(2)
    height, width = image.shape
    if not (0 < row < height - 1 and 0 < column < width - 1):
        return
    total = 0
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            total += weights[dy + 1] * weights[dx + 1] * image[row + dy, column + dx]
    out[row, column] = total


@device.kernel
def mandelbrot(out, scale, limit):
    i, j = device.tid(2)
    if i >= out.shape[1] or j >= out.shape[0]:
        return
    cx, cy = i * scale - 2.0, j * scale - 1.5
    x = y = 0.0
    count = 0
    while x * x + y * y <= 4.0 and count < limit:
        x, y = x * x - y * y + cx, 2.0 * x * y + cy
        count += 1
    out[j, i] = count


@device.kernel
def transpose(x, y):
    column, row = device.tid(2)
    if row < x.shape[0] and column < x.shape[1]:
        y[column, row] = x[row, column]
        y[-1, -1] = x.strides[0] + x.size


@device.func
def greatest_divisor(a, b):
    while b != 0:
        a, b = b, a % b
    return a


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@device.kernel
def integers(x, n, wide, big):
    i = device.tid(1)
    x[i] = greatest_divisor(x[i], n) + fibonacci(n) + (n // 3) * (x[i] % -5) + (n << x[i]) + (~n >> 2)
    if wide < big or (n == 7 and x[i] != n):
        x[i] ^= 0xFF & n | x[0]
    quotient, rest = divmod(x[i], n)
    x[-1] = min(quotient, rest, 5) + abs(n) + max(n, -n)


@device.kernel
def floats(x, y, f):
    for i in range(len(x) - 1, -1, -1):
        x[i] = math.sqrt(abs(x[i])) / f + math.sin(x[i]) ** 2.5 - x[i] // f * (x[i] % 3.0)
        y[i] = math.floor(x[i]) + math.pow(f, 0.1) + round(f) - math.copysign(f, -x[i])
        if math.isnan(x[i]) or not math.isfinite(y[i]):
            y[i] = math.inf


def total_of(items):
    total = items[0] * 0
    for item in items:
        total += item
    return total, len(items)


@device.kernel
def tuples(pair, x, flag):
    value, count = total_of((*pair, 3) if False else (pair[0], pair[1], 3))
    x[0] = value * count
    a, b = pair if flag else (1, 2.5)
    x[1] = a + b
    x[2] = float(pair == (1, 2))


def wait_and_add(shared, i, value):
    device.syncthreads()
    shared[i] += value
    device.syncthreads()
    return shared[(i + 1) % 32]


@device.kernel
def waits_in_callee(x):
    shared = device.shared_array(32, device.int32)
    i = device.thread_idx.x
    shared[i] = x[i]
    x[i] = wait_and_add(shared, i, 3) + wait_and_add(shared, i, 4)


@device.kernel
def conversions(h, d, u, flags, n):
    for i in range(0, n, 3):
        h[i] = d[i] + device.float16(i)
        d[i] = u[i] * 1.5 + h[i]
        u[i] = device.uint8(d[i]) + 1
        flags[i] = bool(u[i]) != (d[i] > 0)


@device.func
def clamp(value, low=0.0, high=1.0):
    return low if value < low else min(value, high)


@device.func
def polynomial(x, coefficients):
    result = 0
    for coefficient in coefficients:
        result = result * x + coefficient
    return clamp(result, high=10)


@device.kernel
def steps(x, start, stop, step):
    for i in range(start, stop, step):
        if x[i] < 0:
            continue
        if x[i] > 100:
            break
        x[i] = i
    else:
        x[0] = 1


def make_scaled(factor):
    @device.kernel
    def scaled(x, bias):
        i = device.tid(1)
        if i < len(x):
            value = x[i] * factor
        if bias is not None:
            value += bias
        if i < len(x):
            x[i] = value

    return scaled


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (saxpy, (device.float32, F32, F32, F32)),
    (block_sum, (F32, F32)),
    (matrix_product, (ArrayType(device.float32, 2),) * 3),
    (blur, (ArrayType(device.uint8, 2, readonly=True), ArrayType(device.float32, 2), F32)),
    (mandelbrot, (ArrayType(device.int32, 2), float, int)),
    (transpose, (ArrayType(device.float64, 2, "F"), ArrayType(device.float64, 2, "strided"))),
    (integers, (I32, device.int32, device.int64, device.uint64)),
    (floats, (F32, F64, device.float64)),
    (tuples, (tuple[int, device.float32], F32, bool)),
    (waits_in_callee, (I32,)),
    (conversions, (F16, F64, U8, ArrayType(device.int8, 1), int)),
    (polynomial, (device.float16, tuple[float, int, float])),
    (make_scaled(3), (F32, None)),
    (steps, (I32, device.int32, device.int64, int)),
    (steps, (U64, device.uint32, device.uint32, device.uint32)),
]
IDS = [f"{program.underlying.__name__}-{i}" for i, (program, _) in enumerate(PROGRAMS)]
