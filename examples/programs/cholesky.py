"""Many small systems of linear equations, A x = b with A symmetric and positive: one block factorises each, A = L Lᵀ."""

import math

import numpy as np

import cuda_device as device

LARGEST = 32
BLOCK = 32
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}  # float64, matrices that are well conditioned


@device.func
def factorise(a, size, row):
    """Replaces the lower half of `a` by L, column by column."""
    for k in range(size):
        if row == k:
            a[k, k] = math.sqrt(a[k, k])
        device.syncthreads()
        if k < row < size:
            a[row, k] /= a[k, k]
        device.syncthreads()
        if k < row < size:
            for j in range(k + 1, row + 1):
                a[row, j] -= a[row, k] * a[j, k]
        device.syncthreads()


@device.func
def substitute(a, x, size, row):
    """Solves L y = x, then Lᵀ z = y; `x` becomes y and then z."""
    for k in range(size):
        if row == k:
            x[k] /= a[k, k]
        device.syncthreads()
        if k < row < size:
            x[row] -= a[row, k] * x[k]
        device.syncthreads()
    for k in range(size - 1, -1, -1):
        if row == k:
            x[k] /= a[k, k]
        device.syncthreads()
        if row < k:
            x[row] -= a[k, row] * x[k]
        device.syncthreads()


@device.kernel
def solve(matrices, right, factors, solutions):
    """Factorises each matrix and solves its system; a thread for each row."""
    a = device.shared_array((LARGEST, LARGEST), device.float64)
    x = device.shared_array(LARGEST, device.float64)
    size, which, row = matrices.shape[1], int(device.block_idx.x), int(device.thread_idx.x)
    if row < size:
        for j in range(size):
            a[row, j] = matrices[which, row, j]
        x[row] = right[which, row]
    device.syncthreads()

    factorise(a, size, row)
    substitute(a, x, size, row)

    if row < size:
        for j in range(size):
            factors[which, row, j] = a[row, j] if j <= row else 0
        solutions[which, row] = x[row]


def run(stream, matrices, right):
    """The factors and the solutions."""
    inputs = device.array(matrices, stream=stream), device.array(right, stream=stream)
    outputs = [device.empty(a.shape, np.float64, stream=stream) for a in (matrices, right)]
    device.launch(solve, *inputs, *outputs, grid=len(matrices), block=BLOCK, stream=stream)
    return tuple(a.numpy() for a in outputs)


def expect(matrices, right):
    """By NumPy."""
    return np.linalg.cholesky(matrices), np.linalg.solve(matrices, right[..., None])[..., 0]


def cases(random):
    """Matrices of one to 32 rows."""
    for count, size in ((1, 1), (3, 2), (2, 17), (4, 32)):
        a = random.standard_normal((count, size, size))
        yield a @ a.transpose(0, 2, 1) + size * np.eye(size), random.standard_normal((count, size))
