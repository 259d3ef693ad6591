"""A decode step of a layer with the sizes of Llama-3 8B, compared with the same step in PyTorch under `torch.compile`.

    python benchmarks/decode.py                                     batches of 16 and 64 sequences of 4096 tokens
    python benchmarks/decode.py --types bfloat16                    without projections in float8e4m3
    python benchmarks/decode.py --batches 1 8 --length 32768
    python benchmarks/decode.py --modes default max-autotune-no-cudagraphs

Ours is `prepare_decode` of `examples/transformer/layer.py`, over a paged cache. PyTorch has contiguous keys and values, to
which it adds the new ones by `index_copy_`, and `scaled_dot_product_attention` with `enable_gqa`; its products in float8e4m3
are those of `_scaled_mm`, with a scale for each row. Each step is captured in a CUDA graph; times are medians of interleaved
rounds, a ratio is a time over ours, and errors are those in the Euclidean norm to the same step in float64. The times of
attention alone follow (ours by dependent launches, as in the step), beside the time in which a copy of 128 MiB would read and
write as many bytes as there are in the cache, and those of our kernels. Needs a GPU with sm_90a, and PyTorch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "transformer"))
import paged
from decoder_layer import (
    angles,
    by_matrix,
    interleaved,
    normed,
    product,
    quantised,
    random_weights,
    rotated,
    show_launches,
)
from layer import DecoderLayer, LayerSizes, LayerWeights, Matrix
from transformer import difference, medians

COPIED = 128 << 20
"""The bytes of the copy."""


def attention(q: Any, keys: Any, values: Any) -> Any:
    """Attention of queries (sequences, heads, 1, head) to keys and values (sequences, key heads, tokens, head)."""
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q, keys, values, enable_gqa=True)


def torch_step(
    x: Any, weights: LayerWeights, tables: tuple[Any, Any], kv: list[Any], position: Any, sizes: LayerSizes
) -> Any:
    """The step in PyTorch, of x with the shape (sequences, 1, hidden), in the precision of x."""
    import torch

    wide = torch.promote_types(x.dtype, torch.float32)
    cosines, sines = (table[position].to(wide) for table in tables)

    qkv = product(normed(x, weights.attention_norm, sizes), weights.qkv).unflatten(-1, (-1, sizes.head)).transpose(1, 2)
    q, k, v = qkv.split([sizes.heads, sizes.key_heads, sizes.key_heads], 1)
    for whole, new in zip(kv, (rotated(k, cosines, sines), v), strict=True):
        whole.index_copy_(2, position, new)
    attended = attention(rotated(q, cosines, sines), *kv)
    hidden = x + product(attended.transpose(1, 2).flatten(2), weights.output)
    gate, up = product(normed(hidden, weights.feed_forward_norm, sizes), weights.gate_up).chunk(2, -1)
    return hidden + product(torch.nn.functional.silu(gate) * up, weights.down)


def in_pages(kv: list[Any], page: int) -> paged.PagedCache:
    """A copy of keys and values (sequences, key heads, tokens, head), all tokens of which are used, in pages in any order."""
    import torch

    sequences, key_heads, tokens, head = kv[0].shape
    table = torch.randperm(sequences * tokens // page, device="cuda").int().view(sequences, -1)
    cache = torch.empty(2, table.numel(), page, key_heads, head, device="cuda", dtype=kv[0].dtype)
    for pages, x in zip(cache, kv, strict=True):
        pages[table.long()] = x.transpose(1, 2).unflatten(1, (-1, page))
    return paged.PagedCache(*cache, table, torch.full((sequences,), tokens, device="cuda", dtype=torch.int32))


def show(times: dict[str, float], errors: dict[str, float]) -> None:
    """Prints the times, and their ratios to the first one."""
    first = next(iter(times.values()))
    for name, value in times.items():
        print(f"  {name:30}{value:9.4f} ms{value / first:8.3f}   error {errors[name]:.1e}", flush=True)


def compare(
    batch: int, length: int, page: int, in_float8: bool, modes: list[str], stream: Any, **settings: Any
) -> None:
    """Prints the times and errors of a step, of attention, and of our kernels."""
    import torch

    sizes = LayerSizes()
    torch.manual_seed(0)
    with torch.cuda.stream(stream), torch.no_grad():
        weights, x = random_weights(sizes), torch.randn(batch, 1, sizes.hidden, device="cuda").bfloat16()
        tables, position = angles(sizes, length), torch.tensor([length - 1], device="cuda")
        shape = batch, sizes.key_heads, length, sizes.head
        kv = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        cache = in_pages(kv, page)
        wide = by_matrix(weights, lambda matrix: Matrix(matrix.values.double()))
        right = torch_step(x.double(), wide, tables, [y.double() for y in kv], position, sizes)
        del wide
        own_weights = weights._replace(gate_up=Matrix(interleaved(*weights.gate_up.values.chunk(2))))
        if in_float8:
            weights, own_weights = (
                by_matrix(w, lambda matrix: quantised(matrix.values)) for w in (weights, own_weights)
            )
        torch.cuda.synchronize()
    step = DecoderLayer(sizes, own_weights, stream).prepare_decode(x[:, 0], *tables, cache, **settings)
    results: dict[str, Any] = {}
    calls: dict[str, Callable[[], Any]] = {"cuda_device": step}
    for mode in modes:
        torch._dynamo.reset()
        compiled = torch.compile(torch_step, mode=mode, fullgraph=True, dynamic=False)

        def theirs(compiled: Any = compiled, name: str = f"torch.compile, {mode}") -> None:
            with torch.no_grad():
                results[name] = compiled(x, weights, tables, kv, position, sizes)

        calls[f"torch.compile, {mode}"] = theirs
        with torch.cuda.stream(stream):
            theirs()
    times = medians(calls, stream)
    dtype = "float8e4m3" if in_float8 else "bfloat16"
    print(f"{batch} sequences of {length} tokens, in pages of {page}, {dtype}:")
    results["cuda_device"] = torch.utils.dlpack.from_dlpack(step.result).view_as(right)
    show(times, {name: difference(result, right) for name, result in results.items()})
    if not in_float8:
        compare_attention(kv, cache, sizes, stream, **settings)
    show_launches(step.launches, stream)


def compare_attention(kv: list[Any], cache: paged.PagedCache, sizes: LayerSizes, stream: Any, **settings: Any) -> None:
    """Prints the times and errors of attention."""
    import torch

    batch = len(cache.table)
    with torch.cuda.stream(stream):
        q = torch.randn(batch, sizes.heads, 1, sizes.head, device="cuda", dtype=torch.bfloat16)
        out = torch.empty_like(q).flatten(1)
        source, target = (torch.empty(COPIED, device="cuda", dtype=torch.uint8) for _ in range(2))
        torch.cuda.synchronize()
    results: dict[str, Any] = {"attention": out.view_as(q)}

    def theirs() -> None:
        results["torch"] = attention(q, *kv)

    ours = paged.attend(q.flatten(1), cache, out, stream, dependent=True, **settings)
    times = medians({"attention": ours, "torch": theirs, "copy": lambda: target.copy_(source)}, stream)
    times["copy"] *= 2 * kv[0].nbytes / (2 * COPIED)
    with torch.cuda.stream(stream):
        right = attention(q.double(), *(y.double() for y in kv))
        show(times, {name: difference(result, right) for name, result in results.items()} | {"copy": 0.0})


def main() -> None:
    """Prints the comparisons."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 64], help="numbers of sequences")
    parser.add_argument("--length", type=int, default=4096, help="the tokens of each sequence")
    parser.add_argument("--page", type=int, default=16, help="the tokens of a page")
    parser.add_argument("--types", nargs="+", default=["bfloat16", "float8e4m3"], choices=["bfloat16", "float8e4m3"])
    parser.add_argument("--modes", nargs="*", default=["default"], help="modes of torch.compile")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    stream = torch.cuda.Stream()
    for batch in options.batches:
        for dtype in options.types:
            compare(batch, options.length, options.page, dtype == "float8e4m3", options.modes, stream)


if __name__ == "__main__":
    main()
