"""The decoder layer of examples/transformer, in bfloat16 and with projections in float8e4m3, against NumPy in float64."""

import numpy as np
import pytest
from conftest import StreamUnderTest

import cuda_device as device
from cuda_device import bfloat16, float8e4m3

pytestmark = [pytest.mark.needs("tiles"), pytest.mark.needs("tensor_cores")]
TOKENS = 128


def exact(array):
    return np.asarray(array).astype(np.float64)


def normal(shape, scale=1.0, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(device.numpy_dtype(bfloat16))


def quantised(matrix):
    """A matrix as float8e4m3, and the scales of its rows."""
    scales = (np.abs(exact(matrix)).max(1) / 448).astype(np.float32)
    return (exact(matrix) / exact(scales)[:, None]).astype(device.numpy_dtype(float8e4m3)), scales


def tables(sizes):
    """Cosines, sines and positions: a position is not the number of its token."""
    angles = np.outer(np.arange(2 * TOKENS), 0.7 ** np.arange(sizes.head // 2))
    positions = np.arange(3, 3 + TOKENS, dtype=np.int32)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32), positions


def weights_of(sizes, seed=1):
    """The weights by their names, with gate and up apart."""
    k, heads, inner = sizes.hidden, sizes.heads * sizes.head, sizes.feed_forward
    shapes = {"qkv": (sizes.qkv, k), "output": (k, heads), "gate": (inner, k), "up": (inner, k), "down": (k, inner)}
    norms = {name: normal(k, seed=seed + i) for i, name in enumerate(("attention_norm", "feed_forward_norm"))}
    return norms | {name: normal(s, s[1] ** -0.5, seed + 2 + i) for i, (name, s) in enumerate(shapes.items())}


def layer_weights(layer, on, weights, in_float8):
    """The weights of a layer, on its stream."""
    k = weights["gate"].shape[1]
    gate_up = np.stack([weights["gate"].reshape(-1, 8, k), weights["up"].reshape(-1, 8, k)], 1).reshape(-1, k)

    def matrix(values):
        return layer.Matrix(*map(on.array, quantised(values) if in_float8 else (values,)))

    matrices = {name: matrix(weights[name]) for name in ("qkv", "output", "down")} | {"gate_up": matrix(gate_up)}
    norms = {name: on.array(weights[name]) for name in ("attention_norm", "feed_forward_norm")}
    return layer.LayerWeights(**norms, **matrices)


def rms_norm(x, weight):
    return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * weight


def decoder_layer(sizes, weights, x, cosines, sines, positions, sequences):
    """The layer in float64."""
    w, x, group = {name: exact(weight) for name, weight in weights.items()}, exact(x), sizes.heads // sizes.key_heads
    qkv = (rms_norm(x, w["attention_norm"]) @ w["qkv"].T).reshape(len(x), -1, sizes.head)
    rotated, v = np.split(qkv, [sizes.heads + sizes.key_heads], 1)
    (a, b), c, s = np.split(rotated, 2, 2), *(exact(table)[positions][:, None] for table in (cosines, sines))
    q, k = np.split(np.concatenate([a * c - b * s, b * c + a * s], 2), [sizes.heads], 1)
    scores = np.einsum("ihd,jhd->hij", q, np.repeat(k, group, 1)) / np.sqrt(sizes.head)
    number = np.arange(len(x)) // (len(x) // sequences)
    seen = np.tri(len(x), dtype=bool) & (number[:, None] == number)
    attended = np.exp(np.where(seen, scores, -np.inf))
    attended /= attended.sum(2, keepdims=True)
    attended = np.einsum("hij,jhd->ihd", attended, np.repeat(v, group, 1)).reshape(len(x), -1)
    hidden = x + attended @ w["output"].T
    normed = rms_norm(hidden, w["feed_forward_norm"])
    gate, up = normed @ w["gate"].T, normed @ w["up"].T
    return hidden + (gate / (1 + np.exp(-gate)) * up) @ w["down"].T


def check_layer(layer, on, sequences, in_float8, bound, seeds):
    """Runs a layer for some `x`: its launches read what the arrays have at that time."""
    sizes = layer.LayerSizes(256, 4, 2, 64, 256)
    weights = weights_of(sizes)
    x, arrays = on.array(normal((TOKENS, sizes.hidden))), list(map(on.array, tables(sizes)))
    tile = {"bn": 128, "stages": 2, "cluster": 1}
    tested = layer.DecoderLayer(sizes, layer_weights(layer, on, weights, in_float8), on.stream, blocks=3, **tile)
    run = tested.prepare(x, *arrays, sequences=sequences)
    for seed in seeds:
        x[:] = normal((TOKENS, sizes.hidden), seed=seed)
        run()
        device.synchronize(on.stream)
        result = exact(run.result.numpy())
        right = decoder_layer(sizes, weights, on.numpy(x), *tables(sizes), sequences)
        assert np.linalg.norm(result - right) <= bound * np.linalg.norm(right)
        assert np.abs(result - right).max() <= 2 * bound * np.abs(right).max()


def test_layer(examples, warpgroups):
    check_layer(examples["layer"], warpgroups, 2, False, 2**-7, (9, 10))


@pytest.mark.long
def test_layer_in_float8(examples, warpgroups):
    check_layer(examples["layer"], warpgroups, 1, True, 0.05, (9, 10))


@pytest.mark.nightly
@pytest.mark.long
def test_layer_with_races(examples):
    on = StreamUnderTest("cpu", device.cpu_stream(target="sm_90a", races=True))
    check_layer(examples["layer"], on, 1, False, 2**-7, (9,))


@pytest.mark.parametrize("in_float8", [False, pytest.param(True, marks=pytest.mark.long)])
def test_decode_after_decode(examples, warpgroups, in_float8):
    """Each step reads what the steps before have added to the cache; the second sequence begins a step after the first one."""
    layer, on, steps = examples["layer"], warpgroups, 3
    sizes = layer.LayerSizes(256, 4, 2, 64, 512)
    weights, (cosines, sines, _) = weights_of(sizes), tables(sizes)
    tokens, nothing = normal((steps, 2, sizes.hidden), seed=9), np.zeros((5, 16, 2, 64), device.numpy_dtype(bfloat16))
    pages, lengths = np.array([[3], [1]], np.int32), on.array(np.zeros(2, np.int32))
    cache = examples["paged"].PagedCache(on.array(nothing), on.array(nothing), on.array(pages), lengths)
    x = on.array(tokens[0])
    made = layer.DecoderLayer(sizes, layer_weights(layer, on, weights, in_float8), on.stream)
    step = made.prepare_decode(x, on.array(cosines), on.array(sines), cache, warps=1, stages=2, parts=1)
    for number in range(steps):
        x[:], lengths[:] = on.array(tokens[number]), on.array(np.array([number + 1, number], np.int32))
        step()
        device.synchronize(on.stream)
        result = exact(step.result.numpy())
        for sequence in range(2 if number else 1):
            so_far = tokens[sequence : number + 1, sequence]
            right = decoder_layer(sizes, weights, so_far, cosines, sines, np.arange(len(so_far)), 1)[-1]
            bound = 0.06 if in_float8 else 2**-7
            assert np.linalg.norm(result[sequence] - right) <= bound * np.linalg.norm(right)


@pytest.mark.parametrize(("columns", "normed"), [(256, True), (512, False)])
def test_quantised_rows(examples, stream, columns, normed):
    """Also a row of zeros."""
    x, weight = normal((6, columns), seed=1), normal(columns, seed=2)
    x[3] = 0
    out, scales = stream.array(np.zeros(x.shape, device.numpy_dtype(float8e4m3))), stream.array(np.zeros(6, np.float32))
    kernel = getattr(examples["quantised"], "rms_norm" if normed else "quantise")(columns, warps=columns // 256)
    factors = (stream.array(weight),) if normed else ()
    stream.launch(kernel, stream.array(x), *factors, out, scales, grid=6, block=columns // 8)
    right = rms_norm(exact(x), exact(weight)) if normed else exact(x)
    result, most = exact(stream.numpy(out)), np.abs(right).max(1)
    assert np.allclose(stream.numpy(scales), most / 448, rtol=1e-5, atol=1e-30)
    assert (np.abs(result).max(1) == np.where(most > 0, 448, 0)).all()
    # Three bits of the mantissa, and below 2**-6 steps of 2**-9.
    quantum = np.maximum(np.abs(right) * 2**-4, most[:, None] / 448 * 2**-10)
    assert (np.abs(result * exact(stream.numpy(scales))[:, None] - right) <= quantum * 1.001).all()


def test_shapes_are_checked(examples):
    layer, on = examples["layer"], StreamUnderTest("cpu", device.cpu_stream(target="sm_90a"))
    sizes = layer.LayerSizes(256, 4, 2, 64, 512)
    weights = layer_weights(layer, on, weights_of(sizes), in_float8=True)
    x, rest = np.zeros((TOKENS, 256), device.numpy_dtype(bfloat16)), tables(sizes)
    made = layer.DecoderLayer(sizes, weights, on.stream)
    with pytest.raises(device.LaunchError, match=r"x has the shape \(128, 128\) instead of \(128, 256\)"):
        made.prepare(x[:, :128], *rest)
    with pytest.raises(device.LaunchError, match="257 sequences"):
        made.prepare_decode(np.zeros((257, 256), x.dtype), *rest[:2], None)
    with pytest.raises(device.LaunchError, match="128 tokens are not 3 sequences of one length"):
        made.prepare(x, *rest, sequences=3)
    flipped = weights._replace(down=layer.Matrix(weights.down.values.T, weights.down.scales))
    with pytest.raises(device.LaunchError, match=r"down has the shape \(512, 256\)(.|\n)*help: weights are \(outputs"):
        layer.DecoderLayer(sizes, flipped, on.stream)
    with pytest.raises(device.LaunchError, match="the scales of qkv"):
        layer.DecoderLayer(sizes, weights._replace(qkv=weights.qkv._replace(scales=rest[0])), on.stream)
