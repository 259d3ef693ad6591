"""The prefill of a decoder layer with the sizes of Llama-3 8B, compared with the same layer in PyTorch under `torch.compile`.

    python benchmarks/decoder_layer.py                                         bfloat16, and float8e4m3 with scales
    python benchmarks/decoder_layer.py --modes default max-autotune-no-cudagraphs

Ours is `examples/transformer/layer.py`; PyTorch's attention is `scaled_dot_product_attention`, and its products in float8e4m3 are
`torch._scaled_mm` with the scales of rows. Each is captured in a CUDA graph; times are medians of interleaved rounds, a ratio is
PyTorch's time over ours, and errors are those in the Euclidean norm to the same layer in float64. The time of each of our kernels
follows. Needs a GPU with sm_90a, and PyTorch.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "transformer"))
from layer import DecoderLayer, LayerSizes, LayerWeights, Matrix
from transformer import difference, medians

SHAPES = (1, 4096), (4, 1024)
"""Sequences, and tokens of each."""
GREATEST = 448
"""The greatest number of float8e4m3."""


def interleaved(gate: Any, up: Any) -> Any:
    """Eight rows of the gate, eight rows of up, and so on, as `LayerWeights.gate_up` has them."""
    import torch

    return torch.stack([gate.unflatten(0, (-1, 8)), up.unflatten(0, (-1, 8))], 1).flatten(0, 2)


def random_weights(sizes: LayerSizes) -> LayerWeights:
    """Weights in bfloat16. `gate_up` has the gate's rows first."""
    import torch

    def matrix(outputs: int, inputs: int) -> Matrix:
        return Matrix(torch.randn(outputs, inputs, device="cuda").mul_(inputs**-0.5).bfloat16())

    k, heads = sizes.hidden, sizes.heads * sizes.head
    norms = [1 + 0.1 * torch.randn(k, device="cuda") for _ in range(2)]
    return LayerWeights(
        attention_norm=norms[0].bfloat16(),
        qkv=matrix(sizes.qkv, k),
        output=matrix(k, heads),
        feed_forward_norm=norms[1].bfloat16(),
        gate_up=matrix(2 * sizes.feed_forward, k),
        down=matrix(k, sizes.feed_forward),
    )


def by_matrix(weights: LayerWeights, change: Callable[[Matrix], Matrix]) -> LayerWeights:
    """The weights with their matrices changed."""
    return LayerWeights(*[change(x) if isinstance(x, Matrix) else x for x in weights])


def quantised(x: Any) -> Matrix:
    """The rows of x in float8e4m3, and their scales."""
    import torch

    scales = x.float().abs().amax(-1, keepdim=True) / GREATEST
    return Matrix((x.float() / scales).to(torch.float8_e4m3fn), scales.squeeze(-1))


def product(x: Any, weight: Matrix) -> Any:
    """x @ weight.T, with x quantised if the weight is."""
    import torch

    if weight.scales is None:
        return torch.nn.functional.linear(x, weight.values)
    rows, scales = quantised(x.flatten(0, 1))
    how = {"scale_a": scales[:, None], "scale_b": weight.scales[None], "out_dtype": x.dtype, "use_fast_accum": True}
    return torch._scaled_mm(rows, weight.values.t(), **how).unflatten(0, x.shape[:2])


def normed(x: Any, weight: Any, sizes: LayerSizes) -> Any:
    """RMSNorm, in at least float32."""
    import torch

    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scales = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + sizes.epsilon)
    return (wide * scales * weight.to(wide.dtype)).to(x.dtype)


def rotated(x: Any, cosines: Any, sines: Any) -> Any:
    """The rotary embedding, in the precision of the tables."""
    import torch

    a, b = x.to(cosines.dtype).chunk(2, -1)
    return torch.cat([a * cosines - b * sines, b * cosines + a * sines], -1).to(x.dtype)


def show_launches(launches: dict[str, Callable[[], Any]], stream: Any) -> None:
    """Prints the times of launches, and their sum."""
    times = medians(dict(launches), stream)
    for name, value in times.items():
        print(f"    {name:30}{value:9.4f} ms")
    print(f"    {'sum':30}{sum(times.values()):9.4f} ms", flush=True)


def torch_layer(x: Any, weights: LayerWeights, cosines: Any, sines: Any, sizes: LayerSizes) -> Any:
    """The layer in PyTorch, of x with the shape (sequences, tokens, hidden), in the precision of x."""
    import torch

    wide = torch.promote_types(x.dtype, torch.float32)
    cosines, sines = (table[: x.shape[1], None].to(wide) for table in (cosines, sines))

    qkv = product(normed(x, weights.attention_norm, sizes), weights.qkv).unflatten(-1, (-1, sizes.head))
    q, k, v = qkv.split([sizes.heads, sizes.key_heads, sizes.key_heads], 2)
    by_head = [y.transpose(1, 2) for y in (rotated(q, cosines, sines), rotated(k, cosines, sines), v)]
    attended = torch.nn.functional.scaled_dot_product_attention(*by_head, is_causal=True, enable_gqa=True)
    hidden = x + product(attended.transpose(1, 2).flatten(2), weights.output)
    gate, up = product(normed(hidden, weights.feed_forward_norm, sizes), weights.gate_up).chunk(2, -1)
    return hidden + product(torch.nn.functional.silu(gate) * up, weights.down)


def angles(sizes: LayerSizes, positions: int) -> tuple[Any, Any]:
    """The tables of cosines and sines."""
    import torch

    rates = 500000.0 ** -torch.linspace(0, 1, sizes.head // 2 + 1, device="cuda", dtype=torch.float64)[:-1]
    table = torch.outer(torch.arange(positions, device="cuda", dtype=torch.float64), rates)
    return table.cos().float(), table.sin().float()


def compare(shape: tuple[int, int], in_float8: bool, modes: list[str], stream: Any, **tile: Any) -> None:
    """Prints the times and errors of all systems for a shape, and the times of our kernels."""
    import torch

    sizes, (sequences, tokens) = LayerSizes(), shape
    torch.manual_seed(0)
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    with torch.cuda.stream(stream), torch.no_grad():
        weights, x = random_weights(sizes), torch.randn(*shape, sizes.hidden, device="cuda").bfloat16()
        cosines, sines = angles(sizes, tokens)
        wide = by_matrix(weights, lambda matrix: Matrix(matrix.values.double()))
        right = torch_layer(x.double(), wide, cosines, sines, sizes)
        del wide
        own_weights = weights._replace(gate_up=Matrix(interleaved(*weights.gate_up.values.chunk(2))))
        if in_float8:
            weights, own_weights = (
                by_matrix(w, lambda matrix: quantised(matrix.values)) for w in (weights, own_weights)
            )
        positions = torch.arange(tokens, device="cuda", dtype=torch.int32).repeat(sequences)
        torch.cuda.synchronize()
    begin = time.perf_counter()
    ours = DecoderLayer(sizes, own_weights, stream, blocks, **tile)
    run = ours.prepare(x.flatten(0, 1), cosines, sines, positions, sequences)
    print(f"{len(run.launches)} launches prepared in {time.perf_counter() - begin:.1f} s", flush=True)
    results: dict[str, Any] = {}
    calls: dict[str, Callable[[], Any]] = {"cuda_device": run}
    for mode in modes:
        torch._dynamo.reset()
        compiled = torch.compile(torch_layer, mode=mode, fullgraph=True, dynamic=False)

        def theirs(compiled: Any = compiled, mode: str = mode) -> None:
            with torch.no_grad():
                results[mode] = compiled(x, weights, cosines, sines, sizes)

        begin = time.perf_counter()
        with torch.cuda.stream(stream):
            theirs()
            torch.cuda.synchronize()
        print(f"torch.compile, {mode}: first call {time.perf_counter() - begin:.1f} s", flush=True)
        calls[mode] = theirs
    times = medians(calls, stream)
    results["cuda_device"] = torch.utils.dlpack.from_dlpack(run.result).view_as(right)
    print(f"{sequences} x {tokens} tokens, {'float8e4m3' if in_float8 else 'bfloat16'}:")
    for name, value in times.items():
        error, ratio = difference(results[name], right), value / times["cuda_device"]
        print(f"  {name:32}{value:9.4f} ms{ratio:8.3f}   error {error:.1e}", flush=True)
    show_launches(run.launches, stream)


def main() -> None:
    """Prints the comparisons."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="*", default=["default"], help="modes of torch.compile")
    parser.add_argument("--types", nargs="+", default=["bfloat16", "float8e4m3"], choices=["bfloat16", "float8e4m3"])
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="how many of the shapes")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    stream = torch.cuda.Stream()
    for dtype in options.types:
        for shape in SHAPES[: options.shapes]:
            compare(shape, dtype == "float8e4m3", options.modes, stream)


if __name__ == "__main__":
    main()
