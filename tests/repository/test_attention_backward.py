"""The backward pass of attention in examples/transformer, against NumPy in float64."""

import numpy as np
import pytest
from conftest import StreamUnderTest

import cuda_device as device
from cuda_device import bfloat16, float16

pytestmark = [pytest.mark.needs("tiles"), pytest.mark.needs("tensor_cores")]


def exact(array):
    return np.asarray(array).astype(np.float64)


def difference(result, right):
    """The greatest difference, relative to the greatest number."""
    assert result.shape == right.shape and np.isfinite(exact(result)).all()
    return np.abs(exact(result) - right).max() / np.abs(right).max()


def attention_of(q, k, v, out_grad, head, causal):
    """The result of attention of one sequence, the log-sum-exp of its rows, and the gradients of Q, K and V, in float64."""
    tokens, heads, kept = len(q), q.shape[1] // head, k.shape[1] // head
    q, out_grad = (exact(x).reshape(tokens, heads, head) for x in (q, out_grad))
    k, v = (exact(x).reshape(tokens, kept, head).repeat(heads // kept, 1) for x in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(head)
    if causal:
        scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    lse = np.log(np.exp(scores).sum(2))
    weights = np.exp(scores - lse[:, :, None])
    weight_grad = np.einsum("ihd,jhd->hij", out_grad, v)
    score_grad = weights * (weight_grad - (weights * weight_grad).sum(2, keepdims=True)) / np.sqrt(head)
    of_queries = np.einsum("hij,jhd->ihd", weights, v), np.einsum("hij,jhd->ihd", score_grad, k)
    of_keys = np.einsum("hij,ihd->jhd", score_grad, q), np.einsum("hij,ihd->jhd", weights, out_grad)
    of_keys = (x.reshape(tokens, kept, -1, head).sum(2) for x in of_keys)
    out, *gradients = (x.reshape(tokens, -1) for x in (*of_queries, *of_keys))
    return out, lse, gradients


@pytest.mark.parametrize(
    ("head", "causal", "dtype", "tokens", "heads", "kept", "sequences"),
    [
        (128, True, float16, 200, 2, 1, 2),
        pytest.param(64, True, bfloat16, 200, 2, 1, 2, marks=pytest.mark.long),
        pytest.param(128, False, bfloat16, 136, 1, 1, 2, marks=pytest.mark.long),
    ],
)
def test_gradients_of_attention(examples, warpgroups, head, causal, dtype, tokens, heads, kept, sequences):
    """The last blocks of keys and of queries are incomplete, and the next sequence follows."""
    on, random = warpgroups, np.random.default_rng(0)
    shapes = [(sequences, tokens, n * head) for n in (heads, kept, kept, heads)]
    arrays = [random.standard_normal(shape).astype(device.numpy_dtype(dtype)) for shape in shapes]
    right = [attention_of(*parts, head, causal) for parts in zip(*arrays, strict=True)]
    outs, lses, gradients = zip(*right, strict=True)
    arrays = [x.reshape(sequences * tokens, -1) for x in arrays]
    q, k, v, out_grad = map(on.array, arrays)
    out = on.array(np.concatenate(outs).astype(arrays[0].dtype))
    lse = on.array(np.concatenate(lses).astype(np.float32))
    results = [on.array(np.full_like(x, 7)) for x in arrays[:3]]
    module = examples["attention_backward"]
    module.prepare((q, k, v, out, lse), (out_grad, *results), tokens, head, causal, dtype, on.stream)()
    for result, parts in zip(results, zip(*gradients, strict=True), strict=True):
        assert difference(on.numpy(result), np.concatenate(parts)) < (2**-9 if dtype is float16 else 2**-6)


def test_gradients_of_attention_without_races(examples):
    """The rings go round."""
    racing = StreamUnderTest("cpu", device.cpu_stream(target="sm_90a", races=True))
    test_gradients_of_attention(examples, racing, 64, False, bfloat16, 40, 3, 1, 1)
