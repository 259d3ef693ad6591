"""Whole programs with complex numbers, beside the same in NumPy: a Mandelbrot set, a Fourier transform, roots of polynomials."""

import cmath
import math

import numpy as np
import pytest

import cuda_device as device

DTYPES = pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=["complex64", "complex128"])


def test_mandelbrot(stream):
    @device.kernel
    def mandelbrot(out, corner, step, most):
        x, y = device.tid(2)
        if x < out.shape[1] and y < out.shape[0]:
            c = corner + complex(x, y) * step
            z = 0j
            count = 0
            while abs(z) <= 2 and count < most:
                z = z**2 + c
                count += 1
            out[y, x] = count

    corner, step, shape = np.complex128(-2.013 - 1.207j), np.float64(0.0473), (51, 61)
    out = stream.empty(shape, np.int32)
    stream.launch(mandelbrot, out, corner, step, 30, grid=(4, 13), block=(16, 4))
    y, x = np.mgrid[: shape[0], : shape[1]]
    c = corner + (x + 1j * y) * step
    z, count = np.zeros_like(c), np.zeros(shape, np.int32)
    for _ in range(30):
        inside = np.abs(z) <= 2
        z[inside] = z[inside] ** 2 + c[inside]
        count += inside
    assert len(np.unique(count)) > 20
    np.testing.assert_array_equal(stream.numpy(out), count)


@DTYPES
@pytest.mark.parametrize("inverse", [False, True])
def test_fast_fourier_transform(stream, dtype, inverse):
    """Radix 2, in place in shared memory; twiddle factors from `cmath.exp`."""
    length = 256
    real = np.dtype(dtype).type(0).real.dtype.type

    @device.func
    def reversed_bits(i):
        return int(device.brev(device.uint32(i)) >> 24)

    @device.kernel
    def transform(rows, out, sign):
        row = device.shared_array(length, dtype)
        i = int(device.thread_idx.x)
        mine = rows[device.block_idx.x]
        row[reversed_bits(i)] = mine[i]
        row[reversed_bits(i + length // 2)] = mine[i + length // 2]
        device.syncthreads()
        half = 1
        while half < length:
            k = i % half
            low = (i - k) * 2 + k
            turn = cmath.exp(real(sign * math.pi * k / half) * 1j)
            a, b = row[low], row[low + half] * turn
            row[low], row[low + half] = a + b, a - b
            device.syncthreads()
            half *= 2
        out[device.block_idx.x, i] = row[i]
        out[device.block_idx.x, i + length // 2] = row[i + length // 2]

    generator = np.random.default_rng(5)
    rows = (generator.normal(size=(3, length)) + 1j * generator.normal(size=(3, length))).astype(dtype)
    out = stream.empty(rows.shape, dtype)
    stream.launch(transform, stream.array(rows), out, real(1 if inverse else -1), grid=3, block=length // 2)
    wide = rows.astype(np.complex128)
    expected = np.fft.ifft(wide, norm="forward") if inverse else np.fft.fft(wide)
    tolerance = 2e-5 if dtype is np.complex64 else 2e-13
    np.testing.assert_allclose(stream.numpy(out), expected, rtol=0, atol=tolerance)


@DTYPES
def test_roots_of_polynomials(stream, dtype):
    """All roots at once (Weierstrass, Durand and Kerner): quotients of products, one polynomial a thread."""
    degree = 4

    @device.kernel
    def solve(coefficients, roots):
        i = device.tid(1)
        if i >= len(roots):
            return
        guess = device.local_array(degree, dtype)
        for j in range(degree):
            guess[j] = (0.4 + 0.9j) ** j
        for _ in range(60):
            for j in range(degree):
                value = 1 + 0j
                below = 1 + 0j
                for k in range(degree):
                    value = value * guess[j] + coefficients[i, k]
                    if k != j:
                        below *= guess[j] - guess[k]
                guess[j] -= value / below
        for j in range(degree):
            roots[i, j] = guess[j]

    generator = np.random.default_rng(11)
    wanted = generator.normal(size=(40, degree)) + 1j * generator.normal(size=(40, degree))
    coefficients = np.array([np.poly(row)[1:] for row in wanted]).astype(dtype)
    roots = stream.empty(wanted.shape, dtype)
    stream.launch(solve, stream.array(coefficients), roots, grid=1, block=64)
    found = stream.numpy(roots)
    tolerance = 1e-3 if dtype is np.complex64 else 1e-10
    for row, expected in zip(found, wanted, strict=True):
        distances = np.abs(row[:, None] - expected[None, :])
        assert distances.min(axis=0).max() < tolerance and distances.min(axis=1).max() < tolerance


@DTYPES
def test_a_norm_by_warps(stream, dtype):
    """Shuffles of complex numbers, and a sum over blocks by atomics on the parts."""

    @device.kernel
    def inner(x, y, out):
        i = device.tid(1)
        total = x[i].conjugate() * y[i] if i < len(x) else 0
        for step in (16, 8, 4, 2, 1):
            total += device.shfl_xor_sync(-1, total, step)
        if device.lane_id == 0:
            device.atomic_ref(out, 0).add(total.real, "relaxed", "device")
            device.atomic_ref(out, 1).add(total.imag, "relaxed", "device")

    generator = np.random.default_rng(2)
    x, y = ((generator.normal(size=1000) + 1j * generator.normal(size=1000)).astype(dtype) for _ in range(2))
    out = stream.array(np.zeros(2, dtype(0).real.dtype))
    stream.launch(inner, stream.array(x), stream.array(y), out, grid=8, block=128)
    found = complex(*stream.numpy(out).tolist())
    assert abs(found - np.vdot(x.astype("c16"), y.astype("c16"))) < (1e-3 if dtype is np.complex64 else 1e-11)
