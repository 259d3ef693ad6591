"""A decoder layer of a Llama-like model on sm_90a: prefill and decode, in bfloat16, or with projections in float8e4m3.

    layer = DecoderLayer(LayerSizes(), weights, stream)
    y = layer.prefill(x, cosines, sines, positions)                 launches, and returns the result's array
    run = layer.prepare(x, cosines, sines, positions)               for several calls, or a CUDA graph
    run()                                                           reads what x has now; the result is in run.result
    step = layer.prepare_decode(x, cosines, sines, cache)           one new token of each sequence, over a paged cache

Arrays are those of any library on GPUs, and NumPy's on CPU streams. The launches are ordered by one stream, and nothing waits for
them on the host.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import attention
import epilogues
import paged
import products
import quantised
import rowwise
import tall_products

import cuda_device as device
from cuda_device import bfloat16, float8e4m3, float32, int32


@dataclass(frozen=True)
class LayerSizes:
    """The sizes of a layer, by default those of Llama-3 8B. `key_heads` is the number of heads of keys and of values."""

    hidden: int = 4096
    heads: int = 32
    key_heads: int = 8
    head: int = 128
    feed_forward: int = 14336
    epsilon: float = 1e-5

    @property
    def qkv(self) -> int:
        """The columns of queries, keys and values side by side."""
        return (self.heads + 2 * self.key_heads) * self.head


class Matrix(NamedTuple):
    """A matrix of bfloat16, or of float8e4m3 with a float32 scale for each row."""

    values: Any
    scales: Any = None


class LayerWeights(NamedTuple):
    """The weights of a layer: two vectors of bfloat16, and matrices of the shape (outputs, inputs), as in torch's Linear.

    `qkv` has the rows of the queries, then those of the keys and the values. `gate_up` has eight rows of the gate, the eight of
    up for the same outputs, and so on: `np.stack([gate.reshape(-1, 8, k), up.reshape(-1, 8, k)], 1).reshape(-1, k)`.
    """

    attention_norm: Any
    qkv: Matrix
    output: Matrix
    feed_forward_norm: Any
    gate_up: Matrix
    down: Matrix


class PreparedLayer(NamedTuple):
    """The prepared launches of a layer by their names, in order, and the array of the result."""

    launches: dict[str, Callable[[], None]]
    result: Any

    def __call__(self) -> None:
        """Starts the launches."""
        for launch in self.launches.values():
            launch()


def scaled_add(acc, row, column, scale_a, scale_b, residual):
    """A @ B with the scales of its rows and columns, + residual."""
    return epilogues.add(epilogues.scaled(acc, row, column, scale_a, scale_b), row, column, residual)


def load_scaled_chunks(acc, row, column, scale_a, scale_b, residual):
    """`before` for `scaled_add_chunks`."""
    return scale_a, scale_b, *epilogues.load_chunks(acc, row, column, residual)


def scaled_add_chunks(acc, row, column, scale_a, scale_b, chunks):
    """`scaled_add` of a residual that `load_scaled_chunks` has loaded."""
    return epilogues.add_chunks(epilogues.scaled(acc, row, column, scale_a, scale_b), row, column, chunks)


def scaled_swiglu(acc, row, column, scale_a, scale_b):
    """SwiGLU of A @ B with the scales of its rows and columns."""
    return epilogues.swiglu(epilogues.scaled(acc, row, column, scale_a, scale_b), row, column)


SCALED = {None: epilogues.scaled, epilogues.add: scaled_add, epilogues.swiglu: scaled_swiglu}
"""The epilogues of products of quantised matrices."""
LOADED_BEFORE = {
    epilogues.add: (epilogues.load_chunks, epilogues.add_chunks),
    scaled_add: (load_scaled_chunks, scaled_add_chunks),
}
"""What loads a residual before the products of a tile, and the epilogue for it."""
MOST_SEQUENCES = 256
"""The sequences of a decode step, whose products have so many rows at most."""


class DecoderLayer:
    """A layer with its weights, on a stream of a GPU with sm_90a or a CPU stream.

    `blocks` is the number of the GPU's multiprocessors, and `tile` has keywords of `products.gemm`. The sizes `hidden` and, of
    quantised weights, heads * head and `feed_forward` are multiples of 256. Raises `LaunchError` for weights of other shapes.
    """

    def __init__(self, sizes: LayerSizes, weights: LayerWeights, stream: Any, blocks: int = 132, **tile: Any) -> None:
        heads, pair = sizes.heads * sizes.head, (sizes.hidden, 2 * sizes.feed_forward)
        check("attention_norm", weights.attention_norm, (sizes.hidden,))
        check("feed_forward_norm", weights.feed_forward_norm, (sizes.hidden,))
        shapes = {"qkv": (sizes.qkv, sizes.hidden), "output": (sizes.hidden, heads), "gate_up": pair[::-1]}
        for name, shape in (shapes | {"down": (sizes.hidden, sizes.feed_forward)}).items():
            matrix = getattr(weights, name)
            check(name, matrix.values, shape)
            if matrix.scales is not None:
                check(f"the scales of {name}", matrix.scales, shape[:1])
        self.sizes, self.weights, self.stream, self.blocks, self.tile = sizes, weights, stream, blocks, tile

    def prefill(self, x: Any, cosines: Any, sines: Any, positions: Any, sequences: int = 1) -> Any:
        """Starts the layer, and returns the array of the result, which is there when the stream has got so far.

        `x` is bfloat16 of the shape (tokens, hidden): `sequences` sequences of the same length after each other, each of which
        begins with its first token. `cosines` and `sines` are float32 of the shape (positions, head / 2), and `positions` is
        int32 with the position of each token. Raises `LaunchError` for other shapes.
        """
        run = self.prepare(x, cosines, sines, positions, sequences)
        run()
        return run.result

    def prepare(self, x: Any, cosines: Any, sines: Any, positions: Any, sequences: int = 1) -> PreparedLayer:
        """Prepares the launches of `prefill` for these arrays, of which each call reads what they have then."""
        s, tokens = self.sizes, len(x)
        check("x", x, (tokens, s.hidden))
        check("positions", positions, (tokens,))
        for name, table in (("cosines", cosines), ("sines", sines)):
            check(name, table, (len(table), s.head // 2))
        if not 1 <= sequences <= tokens or tokens % sequences:
            help = "give sequences of the same length, as many as `sequences` says"
            raise device.LaunchError(f"{tokens} tokens are not {sequences} sequences of one length", help)
        qkv, attended = self._empty(tokens, s.qkv), self._empty(tokens, s.heads * s.head)
        steps = {
            "rotary embedding": self._rotary(qkv, cosines, sines, positions),
            "attention": self._attention(qkv, attended, sequences),
        }
        return self._layer(x, qkv, steps, attended, self._product)

    def prepare_decode(
        self, x: Any, cosines: Any, sines: Any, cache: paged.PagedCache, **attention: Any
    ) -> PreparedLayer:
        """Prepares a decode step: the layer for one new token of each sequence, whose keys and values it adds to the cache.

        `x` is bfloat16 of the shape (sequences, hidden), of at most 256 sequences. The position of a token is the length of its
        sequence in the cache less 1; `cosines` and `sines` are those of `prefill`. `attention` has settings of `paged.attend`.
        All launches are dependent: each starts to load its weights during the one before. Raises `LaunchError` for other shapes.
        """
        s, sequences = self.sizes, len(x)
        if sequences > MOST_SEQUENCES:
            raise device.LaunchError(f"{sequences} sequences", f"decode at most {MOST_SEQUENCES} sequences at a time")
        check("x", x, (sequences, s.hidden))
        qkv, attended = self._empty(sequences, s.qkv), self._empty(sequences, s.heads * s.head)
        steps = {
            "rotary embedding": paged.append(qkv, cosines, sines, cache, self.stream, dependent=True),
            "attention": paged.attend(qkv, cache, attended, self.stream, dependent=True, **attention),
        }
        return self._layer(x, qkv, steps, attended, self._tall_product)

    def _layer(self, x: Any, qkv: Any, attention: Any, attended: Any, product: Any) -> PreparedLayer:
        """The launches of the layer around those of attention, which lead from `qkv` to `attended`."""
        s, w, tokens = self.sizes, self.weights, len(x)
        hidden, result, gated = (self._empty(tokens, n) for n in (s.hidden, s.hidden, s.feed_forward))
        normed = self._operand(tokens, s.hidden, w.qkv), self._operand(tokens, s.hidden, w.gate_up)
        steps = {"RMSNorm": self._norm(x, w.attention_norm, normed[0])}
        steps |= {"QKV projection": product(normed[0], w.qkv, qkv), **attention}
        operand = self._quantised(steps, "attention", attended, w.output)
        steps["output projection"] = product(operand, w.output, hidden, epilogues.add, (x,))
        steps["second RMSNorm"] = self._norm(hidden, w.feed_forward_norm, normed[1])
        steps["gate and up projection"] = product(normed[1], w.gate_up, gated, epilogues.swiglu, ratio=2)
        operand = self._quantised(steps, "SwiGLU", gated, w.down)
        steps["down projection"] = product(operand, w.down, result, epilogues.add, (hidden,))
        return PreparedLayer(steps, result)

    def _empty(self, *shape: int, dtype: Any = bfloat16) -> Any:
        return device.empty(shape, dtype, stream=self.stream)

    def _prepare(self, kernel: Any, *arguments: Any, **sizes: Any) -> Any:
        return device.prepare(kernel, *arguments, stream=self.stream, **sizes)

    def _operand(self, rows: int, columns: int, weight: Matrix) -> Matrix:
        """An empty matrix that is to be multiplied by a weight, quantised as it is."""
        if weight.scales is None:
            return Matrix(self._empty(rows, columns))
        return Matrix(self._empty(rows, columns, dtype=float8e4m3), self._empty(rows, dtype=float32))

    def _norm(self, x: Any, weight: Any, out: Matrix) -> Any:
        """RMSNorm, quantised if `out` is."""
        sizes = self.sizes.hidden, self.sizes.epsilon, warps_of(self.sizes.hidden)
        how = {"grid": len(x), "block": 32 * sizes[2], "dependent": True}
        if out.scales is None:
            return self._prepare(rowwise.rms_norm(*sizes), x, weight, out.values, **how)
        return self._prepare(quantised.rms_norm(*sizes), x, weight, out.values, out.scales, **how)

    def _quantised(self, steps: dict[str, Any], name: str, x: Any, weight: Matrix) -> Matrix:
        """`x` as the operand of a product with a weight. Adds the launch that quantises it, if that is necessary."""
        if weight.scales is None:
            return Matrix(x)
        rows, columns = x.shape
        out, warps = self._operand(rows, columns, weight), warps_of(columns)
        kernel = quantised.quantise(columns, warps)
        steps[f"quantisation of {name}"] = self._prepare(kernel, x, *out, grid=rows, block=32 * warps, dependent=True)
        return out

    def _product(self, a: Matrix, b: Matrix, c: Any, epilogue: Any = None, more: Any = (), ratio: int = 1) -> Any:
        """C = A @ B.T with an epilogue."""
        dtype, epilogue, more = with_scales(a, b, epilogue, more)
        before, epilogue = LOADED_BEFORE.get(epilogue, (None, epilogue))
        settings = {"epilogue": epilogue, "before": before, "ratio": ratio, **self.tile}
        kernel, *layouts = products.gemm(dtype, bfloat16, transposed=True, **settings)
        maps = [layout.map_of(x) for x, layout in zip((a.values, b.values, c), layouts, strict=True)]
        (m, k), n = a.values.shape, len(b.values)
        blocks = self.blocks // layouts[1].blocks * layouts[1].blocks
        block = products.threads(self.tile.get("bm", 128))
        return self._prepare(kernel, *maps, int32(m), int32(n), int32(k), more, grid=blocks, block=block)

    def _tall_product(self, a: Matrix, b: Matrix, c: Any, epilogue: Any = None, more: Any = (), ratio: int = 1) -> Any:
        """C = A @ B.T with an epilogue, for few rows of A."""
        dtype, epilogue, more = with_scales(a, b, epilogue, more)
        settings = {"dtype": dtype, "epilogue": epilogue, "ratio": ratio}
        return tall_products.prepare(a.values, b.values, c, *more, stream=self.stream, dependent=True, **settings)

    def _rotary(self, qkv: Any, cosines: Any, sines: Any, positions: Any) -> Any:
        """Rotates the queries and keys in place."""
        heads = self.sizes.heads + self.sizes.key_heads
        kernel, sizes = rowwise.rotary(self.sizes.head), rowwise.rotary_sizes(len(qkv), heads, self.sizes.head)
        return self._prepare(kernel, qkv, cosines, sines, positions, int32(heads), **sizes)

    def _attention(self, qkv: Any, out: Any, sequences: int) -> Any:
        """Attention to the columns of `qkv` that hold the queries, keys and values."""
        s, tokens = self.sizes, len(qkv) // sequences
        kernel, of_q, of_k = attention.attention(s.head, causal=True)
        keys, values = s.heads * s.head, (s.heads + s.key_heads) * s.head
        parts = (qkv[:, :keys], of_q), (qkv[:, keys:values], of_k), (qkv[:, values:], of_k)
        maps = [layout.map_of(part) for part, layout in parts]
        grid = -(-tokens // of_q.rows), s.heads, sequences
        return self._prepare(kernel, *maps, out, int32(tokens), int32(s.heads // s.key_heads), grid=grid, block=384)


def with_scales(a: Matrix, b: Matrix, epilogue: Any, more: Any) -> tuple[Any, Any, Any]:
    """The type of the operands of A @ B.T, and the epilogue and its arguments with the scales of quantised operands."""
    if b.scales is None:
        return bfloat16, epilogue, more
    return float8e4m3, SCALED[epilogue], (a.scales, b.scales, *more)


def warps_of(columns: int) -> int:
    """The number of warps, at most 8, of which a block computes a row of `columns` elements."""
    for warps in (8, 4, 2, 1):
        if columns % (256 * warps) == 0:
            return warps
    raise device.LaunchError(f"rows of {columns} elements", "choose a multiple of 256")


def check(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Raises `LaunchError` for an array of another shape."""
    help = "weights are (outputs, inputs), tokens are rows, and the sizes are those of LayerSizes"
    paged.check(name, array, shape, help)
