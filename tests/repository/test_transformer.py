"""The kernels of examples/transformer: attention, and those limited by memory, against NumPy in float64."""

import numpy as np
import pytest
from conftest import StreamUnderTest

import cuda_device as device
from cuda_device import bfloat16, int32

pytestmark = [pytest.mark.needs("tiles"), pytest.mark.needs("tensor_cores")]


def normal(shape, dtype=bfloat16, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(device.numpy_dtype(dtype))


def exact(array):
    return np.asarray(array).astype(np.float64)


def difference(result, right):
    """The greatest difference, relative to the greatest number."""
    assert result.shape == right.shape and np.isfinite(exact(result)).all()
    return np.abs(exact(result) - right).max() / np.abs(right).max()


# Attention


def attention_of(q, k, v, heads, head, causal):
    """softmax(Q @ K.T / sqrt(head)) @ V of one sequence in float64, and the log-sum-exp of rows."""
    tokens, kept = len(q), k.shape[1] // head
    q, k, v = exact(q).reshape(tokens, heads, head), *(exact(x).reshape(tokens, kept, head) for x in (k, v))
    k, v = (np.repeat(x, heads // kept, axis=1) for x in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(head)
    if causal:
        scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    most = scores.max(2, keepdims=True)
    sums = np.exp(scores - most).sum(2, keepdims=True)
    out = np.einsum("hij,jhd->ihd", np.exp(scores - most) / sums, v)
    return out.reshape(tokens, heads * head), (most + np.log(sums))[:, :, 0]


@pytest.mark.parametrize(
    ("head", "causal", "tokens", "heads", "kept", "sequences"),
    [
        (64, True, 256, 2, 1, 1),
        (64, True, 200, 1, 1, 2),
        (128, False, 256, 1, 1, 1),
        (128, False, 200, 2, 1, 1),
    ],
)
def test_attention(examples, warpgroups, head, causal, tokens, heads, kept, sequences):
    """Some keys are large: the maxima of rows grow from block to block."""
    kernel, Q, K = examples["attention"].attention(head, causal)
    q = normal((sequences * tokens, heads * head), seed=1)
    k, v = (normal((sequences * tokens, kept * head), seed=seed) for seed in (2, 3))
    k[::50] *= 4
    out = warpgroups.array(np.full_like(q, 7))
    lse = warpgroups.array(np.full((sequences * heads, tokens), 7, np.float32))
    maps = [layout.map_of(warpgroups.array(x)) for x, layout in ((q, Q), (k, K), (v, K))]
    grid = (-(-tokens // Q.rows), heads, sequences)
    warpgroups.launch(kernel, *maps, out, int32(tokens), int32(heads // kept), lse, grid=grid, block=384)
    result, lse = warpgroups.numpy(out), warpgroups.numpy(lse)
    for s in range(sequences):
        part = slice(s * tokens, (s + 1) * tokens)
        right, right_lse = attention_of(q[part], k[part], v[part], heads, head, causal)
        assert difference(result[part], right) < 2**-7
        assert np.abs(lse[s * heads : (s + 1) * heads] - right_lse).max() < 1e-4


# Kernels that are limited by memory


@pytest.mark.parametrize("columns", [256, 1024])
def test_rms_norm(examples, stream, columns):
    x, weight = normal((10, columns), seed=1), normal(columns, seed=2)
    out = stream.array(np.full_like(x, 7))
    warps = columns // 256
    kernel = examples["rowwise"].rms_norm(columns, warps=warps)
    stream.launch(kernel, stream.array(x), stream.array(weight), out, grid=10, block=32 * warps)
    right = exact(x) / np.sqrt((exact(x) ** 2).mean(1, keepdims=True) + 1e-5) * exact(weight)
    assert difference(stream.numpy(out), right) < 2**-8


@pytest.mark.parametrize("columns", [256, 1024])
def test_softmax(examples, stream, columns):
    x, warps = normal((10, columns)) * 4, columns // 256
    out = stream.array(np.full_like(x, 7))
    stream.launch(examples["rowwise"].softmax(columns, warps), stream.array(x), out, grid=10, block=32 * warps)
    right = np.exp(exact(x) - exact(x).max(1, keepdims=True))
    assert difference(stream.numpy(out), right / right.sum(1, keepdims=True)) < 2**-8


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax"])
def test_rows_are_a_multiple_of_a_block(examples, kernel):
    with pytest.raises(ValueError, match="rows of 384 elements: 64 threads take a multiple of 512"):
        getattr(examples["rowwise"], kernel)(384, warps=2)


@pytest.mark.parametrize("head", [64, 128])
def test_rotary(examples, stream, head):
    """The heads behind the first six stay as they are."""
    tokens, heads, half = 6, 6, head // 2
    x = normal((tokens, (heads + 1) * head))
    angles = np.outer(np.arange(9), 0.1 * np.arange(half))
    cosines, sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    positions = np.array([3, 0, 8, 1, 5, 3], np.int32)
    arrays = [stream.array(array) for array in (x, cosines, sines, positions)]
    rowwise = examples["rowwise"]
    stream.launch(rowwise.rotary(head), *arrays, int32(heads), **rowwise.rotary_sizes(tokens, heads, head))
    parts = exact(x).reshape(tokens, heads + 1, 2, half)
    a, b = parts[:, :, 0], parts[:, :, 1]
    c, s = (exact(array)[positions][:, None] for array in (cosines, sines))
    right = np.stack([a * c - b * s, b * c + a * s], 2)
    right[:, heads:] = parts[:, heads:]
    assert difference(stream.numpy(arrays[0]), right.reshape(x.shape)) < 2**-8


# The same under the race detector


@pytest.fixture
def racing():
    """A CPU stream that reports races."""
    return StreamUnderTest("cpu", device.cpu_stream(target="sm_90a", races=True))


def test_attention_without_races(examples, racing):
    """Its rings go round."""
    test_attention(examples, racing, 64, True, 264, 1, 1, 1)


def test_kernels_limited_by_memory_without_races(examples, racing):
    test_rms_norm(examples, racing, 1024)
    test_softmax(examples, racing, 256)
    test_rotary(examples, racing, 64)
