"""Philox: the reference's known answers, NumPy's stream, and the same numbers on every stream."""

import math

import numpy as np
import pytest

import cuda_device as device

# Of Random123's kat_vectors: counter, key, result.
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@device.kernel
def blocks(counters, keys, out):
    i = device.tid(1)
    if i < len(counters):
        out[i] = device.philox4x32(counters[i], keys[i])


def test_the_known_answers(stream):
    counters, keys, right = (np.array(each, np.uint32) for each in zip(*KNOWN, strict=True))

    def of(array, n):
        return stream.array(array.view(device.numpy_dtype(getattr(device, f"uint32x{n}"))).reshape(-1))

    out = of(np.zeros((3, 4), np.uint32), 4)
    stream.launch(blocks, of(counters, 4), of(keys, 2), out, grid=1, block=32)
    assert (stream.numpy(out).view(np.uint32).reshape(3, 4) == right).all()
    for counter, key, answer in KNOWN:
        assert tuple(device.philox4x32(counter, key)) == answer


@device.kernel
def numpys(out, begin, low, high):
    i = device.tid(1)
    block = device.philox4x64((begin + device.uint64(i) + device.uint64(1), 7, 0, 1), (low, high))
    for k in range(4):
        out[4 * i + k] = block[k]


def test_numpys_stream(stream):
    begin, low, high = np.uint64(1 << 40), np.uint64(0x9E3779B97F4A7C15), np.uint64(12345)
    generator = np.random.Philox(counter=[begin, 7, 0, 1], key=[low, high])
    right = generator.random_raw(256)
    out = stream.array(np.zeros(256, np.uint64))
    stream.launch(numpys, out, begin, low, high, grid=2, block=32)
    assert (stream.numpy(out) == right).all()
    assert tuple(device.philox4x64((begin + np.uint64(1), 7, 0, 1), (low, high))) == tuple(right[:4])


@device.kernel
def numbers(seed, offset, bits, single, double, normal, wide):
    i = device.tid(1)
    rng = device.philox(seed, i, offset)
    for k in range(bits.shape[1]):
        bits[i, k] = rng.bits(k)
        single[i, k] = rng.uniform(k)
        double[i, k] = rng.uniform(k, device.float64)
        normal[i, k] = rng.normal(k)
        wide[i, k] = rng.normal(k, device.float64)


@pytest.mark.parametrize("offset", [0, 3, 1 << 34])
def test_each_stream_has_the_same_numbers(stream, offset):
    seed, shape = np.uint64(0x123456789ABCDEF0), (32, 9)
    dtypes = (np.uint32, np.float32, np.float64, np.float32, np.float64)
    arrays = [stream.array(np.zeros(shape, dtype)) for dtype in dtypes]
    stream.launch(numbers, seed, np.uint64(offset), *arrays, grid=1, block=32)
    bits, single, double, normal, wide = map(stream.numpy, arrays)
    for i in (0, 5, 31):
        rng = device.philox(seed, i, offset)
        assert bits[i].tolist() == [rng.bits(k) for k in range(9)]
        assert single[i].tolist() == [rng.uniform(k) for k in range(9)]
        assert double[i].tolist() == [rng.uniform(k, np.float64) for k in range(9)]
        assert np.allclose(normal[i], [rng.normal(k) for k in range(9)], rtol=1e-5, atol=1e-6)
        assert np.allclose(wide[i], [rng.normal(k, np.float64) for k in range(9)], rtol=1e-13, atol=1e-14)
        # As cuRAND counts: blocks of four along the lower half of the counter, sequences along the upper.
        place = [offset + k for k in range(9)]
        words = [(p >> 2 & 0xFFFFFFFF, p >> 34, i, 0) for p in place]
        key = int(seed) & 0xFFFFFFFF, int(seed) >> 32
        assert bits[i].tolist() == [device.philox4x32(w, key)[p & 3] for w, p in zip(words, place, strict=True)]


@device.kernel
def fours(offset, bits, uniform, normal):
    i = device.tid(1)
    rng = device.philox(99, i, offset)
    for k in range(3):
        a, b, c = rng.bits4(k), rng.uniform4(k), rng.normal4(k)
        for j in range(4):
            bits[i, 4 * k + j] = a[j] - rng.bits(4 * k + j)
            uniform[i, 4 * k + j] = b[j] - rng.uniform(4 * k + j)
            normal[i, 4 * k + j] = c[j] - rng.normal(4 * k + j)


@pytest.mark.parametrize("offset", [0, 4, 5])
def test_four_at_once_are_the_same_numbers(stream, offset):
    arrays = [stream.array(np.ones((32, 12), dtype)) for dtype in (np.uint32, np.float32, np.float32)]
    stream.launch(fours, offset, *arrays, grid=1, block=32)
    bits, uniform, normal = map(stream.numpy, arrays)
    assert not bits.any()
    assert not uniform.any()
    assert np.abs(normal).max() < 1e-5
    rng = device.philox(99, 2, offset)
    assert tuple(rng.bits4(1)) == tuple(rng.bits(4 + k) for k in range(4))
    assert tuple(rng.uniform4(1)) == tuple(rng.uniform(4 + k) for k in range(4))
    assert np.allclose(tuple(rng.normal4(1)), [rng.normal(4 + k) for k in range(4)], rtol=1e-6)


@device.kernel
def moments(uniform, normal):
    i = device.tid(1)
    rng = device.philox(2026, i)
    uniform[i], normal[i] = rng.uniform4(0)[i & 3], rng.normal4(1)[i & 3]


def test_the_distributions_are_what_they_say():
    """Of 65,536 numbers, each from a sequence of its own: within five standard errors."""
    count = 1 << 16
    uniform, normal = np.zeros(count, np.float32), np.zeros(count, np.float32)
    device.launch(moments, uniform, normal, grid=count // 128, block=128, stream=device.cpu_stream())
    assert 0 <= uniform.min() and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 5 * math.sqrt(1 / 12 / count)
    assert abs(normal.mean()) < 5 / math.sqrt(count)
    assert abs(normal.var() - 1) < 5 * math.sqrt(2 / count)
    edges = [-np.inf, -2, -1, 0, 1, 2, np.inf]
    shares = np.diff([0, *(0.5 * math.erfc(-x / math.sqrt(2)) for x in edges[1:-1]), 1])
    found = np.histogram(normal, [-100, *edges[1:-1], 100])[0] / count
    assert (np.abs(found - shares) < 5 * np.sqrt(shares / count)).all()
    assert len(np.unique(uniform)) > 0.99 * count
