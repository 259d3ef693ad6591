"""Attention over a paged key-value cache of examples/transformer, against NumPy in float64."""

import numpy as np
import pytest
from conftest import StreamUnderTest

import cuda_device as device
from cuda_device import bfloat16

pytestmark = [pytest.mark.needs("tiles"), pytest.mark.needs("tensor_cores")]
HEAD, KEY_HEADS, QUERY_HEADS = 64, 2, 4
BFLOAT16 = device.numpy_dtype(bfloat16)


@pytest.fixture
def paged(examples):
    """The module of the example."""
    return examples["paged"]


def exact(array):
    return np.asarray(array).astype(np.float64)


def normal(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(BFLOAT16)


class Tokens:
    """Sequences whose keys and values are in pages in any order; what is in no sequence, and the new token's place, is NaN."""

    def __init__(self, lengths, page, head=HEAD, queries=QUERY_HEADS):
        self.lengths, self.page, self.head = lengths, page, head
        sequences, pages = len(lengths), max(lengths) // page + 1
        random = np.random.default_rng(0)
        self.table = random.permutation(sequences * pages + 2)[: sequences * pages].reshape(sequences, pages)
        self.kv = normal((2, sequences, max(lengths), KEY_HEADS, head), 1)
        self.qkv = normal((sequences, queries + 2 * KEY_HEADS, head), 2)
        self.queries = queries
        angles = random.uniform(0, 6, (max(lengths), head // 2))
        self.cosines, self.sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self.cache = np.full((2, sequences * pages + 2, page, KEY_HEADS, head), np.nan, BFLOAT16)
        for sequence, length in enumerate(lengths):
            for token in range(length - 1):
                self.cache[(slice(None), *self.where(sequence, token))] = self.kv[:, sequence, token]

    def where(self, sequence, token):
        """The page and the row of a token."""
        return self.table[sequence, token // self.page], token % self.page

    def step(self, paged, on, **settings):
        """Appends the new tokens and attends to all. Returns `qkv`, the cache and the result of attention."""
        qkv, keys, values = on.array(self.qkv.reshape(len(self.lengths), -1)), *map(on.array, self.cache)
        table, lengths = on.array(self.table.astype(np.int32)), on.array(np.array(self.lengths, np.int32))
        cache = paged.PagedCache(keys, values, table, lengths)
        out = on.array(np.full((len(self.lengths), self.queries * self.head), np.nan, BFLOAT16))
        paged.append(qkv, on.array(self.cosines), on.array(self.sines), cache, on.stream)()
        paged.attend(qkv, cache, out, on.stream, dependent=True, **settings)()
        return on.numpy(qkv), np.stack([on.numpy(keys), on.numpy(values)]), on.numpy(out)

    def rotated(self, sequence):
        """The queries and keys of the new token of a sequence, rotated."""
        token = self.lengths[sequence] - 1
        x = exact(self.qkv[sequence, : self.queries + KEY_HEADS])
        a, b = x[:, : self.head // 2], x[:, self.head // 2 :]
        c, s = exact(self.cosines[token]), exact(self.sines[token])
        return np.concatenate([a * c - b * s, b * c + a * s], 1)

    def check(self, qkv, cache, out):
        """Checks the results of `step`."""
        expected = self.cache.copy()
        for sequence, length in enumerate(self.lengths):
            if length == 0:
                assert (out[sequence] == 0).all()
                assert np.array_equal(qkv[sequence], self.qkv[sequence].ravel())
                continue
            right = self.rotated(sequence)
            turned = exact(qkv[sequence]).reshape(-1, self.head)
            assert np.abs(turned[: self.queries] - right[: self.queries]).max() <= 2**-8 * np.abs(right).max()
            page, row = self.where(sequence, length - 1)
            expected[1, page, row] = self.qkv[sequence, self.queries + KEY_HEADS :]
            assert np.abs(exact(cache[0, page, row]) - right[self.queries :]).max() <= 2**-8 * np.abs(right).max()
            expected[0, page, row] = cache[0, page, row]
            self._check_attention(sequence, turned, cache, out[sequence].reshape(-1, self.head))
        assert np.array_equal(exact(cache), exact(expected), equal_nan=True)

    def _check_attention(self, sequence, turned, cache, out):
        places = [self.where(sequence, token) for token in range(self.lengths[sequence])]
        keys, values = (np.stack([exact(part[place]) for place in places]) for part in cache)
        for head in range(self.queries):
            group = head // (self.queries // KEY_HEADS)
            scores = keys[:, group] @ turned[head] / self.head**0.5
            weights = np.exp(scores - scores.max())
            right = weights / weights.sum() @ values[:, group]
            # The weights are rounded to bfloat16 before the product, and the result after it.
            assert np.abs(exact(out[head]) - right).max() <= 2**-7 * np.abs(values[:, group]).max()


def check(paged, on, tokens, **settings):
    tokens.check(*tokens.step(paged, on, **settings))


def test_decode(paged, warpgroups):
    """Sequences are empty, of the new token alone, end at a page or not; blocks share a sequence, rings go round."""
    on = warpgroups
    if on.kind == "cpu":
        on = StreamUnderTest("cpu", device.cpu_stream(target="sm_90a", races=True))
    check(paged, on, Tokens((0, 1, 64, 99), 32), keys=16, warps=2, stages=1, parts=2)


@pytest.mark.long
def test_sixteen_queries_of_a_key_head(paged, warpgroups):
    check(paged, warpgroups, Tokens((150, 37), 64, head=128, queries=32), keys=32, warps=1, stages=2, parts=1)


SHAPES = {"keys": (4, 16, 2, 64), "values": (4, 16, 2, 64), "table": (2, 2), "lengths": (2,)}
SHAPES |= {"qkv": (2, 8 * 64), "cosines": (9, 32), "sines": (9, 32), "out": (2, 256)}
TYPES = {"table": np.int32, "lengths": np.int32, "cosines": np.float32, "sines": np.float32}


def prepare(paged, shapes, **settings):
    """Prepares both launches for arrays of these shapes."""
    stream, arrays = (
        device.cpu_stream(target="sm_90a"),
        {n: np.zeros(s, TYPES.get(n, BFLOAT16)) for n, s in shapes.items()},
    )
    cache = paged.PagedCache(*(arrays[name] for name in ("keys", "values", "table", "lengths")))
    paged.append(arrays["qkv"], arrays["cosines"], arrays["sines"], cache, stream)
    paged.attend(arrays["qkv"], cache, arrays["out"], stream, **settings)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("keys", (4, 24, 2, 64)),
        ("values", (4, 16, 2, 32)),
        ("lengths", (3,)),
        ("table", (2,)),
        ("qkv", (2, 8 * 64 + 8)),
        ("cosines", (9, 64)),
        ("out", (2, 100)),
    ],
)
def test_wrong_shapes(paged, name, shape):
    with pytest.raises(device.LaunchError, match=rf"{name} (has|of) the shape(.|\n)*help: "):
        prepare(paged, SHAPES | {name: shape})


@pytest.mark.parametrize("settings", [{"keys": 32}, {"keys": 8}])
def test_wrong_settings(paged, settings):
    with pytest.raises(
        device.LaunchError, match=r"2 queries for each key head, pages of 16 tokens(.|\n)*help: see the docstring"
    ):
        prepare(paged, SHAPES, **settings)
