"""The kernels of examples/transformer compared with PyTorch: products with cuBLAS, attention with its default, rows with a copy.

    python benchmarks/transformer.py

Each row is checked against float64 on random data. Times are medians of interleaved rounds of CUDA graphs with several launches.
A ratio is PyTorch's time over ours, and for RMSNorm, softmax and the rotary embedding the bandwidth over that of a copy of the
same array, where the tables of cosines and sines, 3 % of the bytes, count as read once. Products of 16 and 64 rows
read their weights from memory; ours that are dependent start to do so during the launch before.

Needs a GPU with sm_90a, and PyTorch.
"""

from __future__ import annotations

import functools
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cuda_device as device
from cuda_device import bfloat16, float8e4m3, int32

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "transformer"))

LAUNCHES, ROUNDS = 5, 7
BATCH, HEADS = 4, 16


def medians(calls: dict[str, Callable[[], Any]], stream: Any, launches: int = LAUNCHES) -> dict[str, float]:
    """The milliseconds of each call."""
    import torch

    graphs, times = {}, {name: list[float]() for name in calls}
    for name, call in calls.items():
        with torch.cuda.stream(stream):
            call()
            torch.cuda.synchronize()
            graphs[name] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[name], stream=stream):
                for _ in range(launches):
                    call()
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with torch.cuda.stream(stream):
                graph.replay()
                begin.record(stream)
                graph.replay()
                end.record(stream)
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / launches)
            time.sleep(0.02)  # the GPU cools down
    return {name: statistics.median(values) for name, values in times.items()}


def show(name: str, times: dict[str, float], error: float, work: float = 0, unit: str = "TFLOP/s") -> None:
    """Prints a row: the time of the first call, and the time of the second over it."""
    ours, theirs = times.values()
    rate = f"{work / ours / 1e9:8.1f} {unit:7}" if work else " " * 16
    print(f"{name:44} {ours:8.4f} ms {rate} {theirs / ours:6.3f}   error {error:.1e}", flush=True)


def difference(result: Any, right: Any) -> float:
    """The relative difference in the Euclidean norm."""
    return float((result.double() - right).norm() / right.norm())


def product(size: tuple[int, int, int], stream: Any, **tile: Any) -> None:
    """C = A @ B in bfloat16."""
    import products
    import torch

    m, n, k = size
    kernel, of_a, of_b, of_c = products.gemm(**tile)
    blocks = torch.cuda.get_device_properties(0).multi_processor_count // 2 * 2
    with torch.cuda.stream(stream):
        a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
        c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        torch.cuda.synchronize()
        maps = of_a.map_of(a), of_b.map_of(b), of_c.map_of(c)
        sizes = int32(m), int32(n), int32(k)

    def ours() -> None:
        block = products.threads(tile.get("bm", 128))
        device.launch(kernel, *maps, *sizes, grid=blocks, block=block, stream=stream)

    times = medians({"ours": ours, "torch": lambda: torch.matmul(a, b)}, stream)
    rows = torch.randint(0, m, (256,), device="cuda")
    show(
        f"product {m} x {n} x {k} {tile or ''}",
        times,
        difference(c[rows], a[rows].double() @ b.double()),
        2 * m * n * k,
    )


def tall(size: tuple[int, int, int], dtype: Any, dependent: bool, stream: Any) -> None:
    """C = X @ W.T of few rows, for float8e4m3 with a scale for each row of X and of W. W is not in the L2 cache."""
    import epilogues
    import tall_products
    import torch

    (m, n, k), narrow = size, dtype is float8e4m3
    kind = torch.float8_e4m3fn if narrow else torch.bfloat16
    with torch.cuda.stream(stream):
        x, *weights = (torch.randn(rows, k, device="cuda").to(kind) for rows in (m, *[n] * 2 * LAUNCHES))
        scales = [torch.rand(rows, device="cuda") if narrow else torch.ones(rows, device="cuda") for rows in (m, n)]
        c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        torch.cuda.synchronize()
        settings = {"dtype": dtype, "epilogue": epilogues.scaled if narrow else None, "dependent": dependent}
        more = scales if narrow else ()
        launches = [tall_products.prepare(x, w, c, *more, stream=stream, **settings) for w in weights]
    own, others = itertools.cycle(launches), itertools.cycle(weights)

    def ours() -> None:
        next(own)()

    def theirs() -> Any:
        right = next(others).T
        if narrow:
            return torch._scaled_mm(x, right, scales[0][:, None], scales[1][None], out_dtype=torch.bfloat16)
        return torch.matmul(x, right)

    times = medians({"ours": ours, "torch": theirs}, stream, 4 * LAUNCHES)
    with torch.cuda.stream(stream):
        launches[0]()
        torch.cuda.synchronize()
        error = difference(c, x.double() @ weights[0].double().T * scales[0][:, None].double() * scales[1].double())
    name = f"product {m} x {n} x {k}{', float8' * narrow}{', dependent' * dependent}"
    show(name, times, error, weights[0].nbytes, "TB/s")


def attention(head: int, tokens: int, causal: bool, stream: Any) -> None:
    """Attention in bfloat16, and its backward pass."""
    import attention as kernels
    import attention_backward
    import torch

    batch = max(1, BATCH * 4096 // tokens)
    kernel, of_q, of_k = kernels.attention(head=head, causal=causal)
    shape = batch, tokens, HEADS, head
    with torch.cuda.stream(stream):
        by_token = [torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
        q, k, v, out_grad = (x.view(batch * tokens, -1) for x in by_token)
        out, *gradients = (torch.full_like(q, float("nan")) for _ in range(4))
        lse = torch.empty(batch * HEADS, tokens, device="cuda")
        *by_head, out_grad_by_head = (x.transpose(1, 2).contiguous() for x in by_token)
        torch.cuda.synchronize()
        maps = of_q.map_of(q), of_k.map_of(k), of_k.map_of(v)
        sizes, grid = (int32(tokens), int32(1)), (tokens // of_q.rows, HEADS, batch)

    def ours() -> None:
        device.launch(kernel, *maps, out, *sizes, grid=grid, block=384, stream=stream)

    def theirs() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(*by_head, is_causal=causal)

    times = medians({"ours": ours, "torch": theirs}, stream)
    with torch.cuda.stream(stream):
        device.launch(kernel, *maps, out, *sizes, lse, grid=grid, block=384, stream=stream)
        for x in by_head:
            x.requires_grad_()
        result, forward = theirs(), (q, k, v, out, lse)
        backward = attention_backward.prepare(forward, (out_grad, *gradients), tokens, head, causal, stream=stream)
        of_torch = functools.partial(torch.autograd.grad, result, by_head, out_grad_by_head, retain_graph=True)
    backward_times = medians({"ours": backward, "torch": of_torch}, stream)
    right, *right_gradients = _exact_attention([x[0, :, 3].double() for x in by_token], causal)
    error = difference(out.view(shape)[0, :, 3], right)
    work = 4 * batch * HEADS * tokens**2 * head // (1 + causal)
    name = f"attention {head}, {tokens} tokens{', causal' * causal}"
    show(name, times, error, work)
    errors = [difference(x.view(shape)[0, :, 3], y) for x, y in zip(gradients, right_gradients, strict=True)]
    show(f"{name}, backward", backward_times, max(errors), work * 5 // 2)


def _exact_attention(arrays: list[Any], causal: bool) -> tuple[Any, ...]:
    """The result of attention of one head, and the gradients of q, k and v, which `arrays` has with that of the result."""
    import torch

    *inputs, out_grad = arrays
    q, k, v = (x.requires_grad_() for x in inputs)
    scores = q @ k.T / q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    out = torch.softmax(scores, -1) @ v
    return out.detach(), *torch.autograd.grad(out, inputs, out_grad)


def rows(stream: Any, count: int = 16384, columns: int = 4096) -> None:
    """The kernels that are limited by memory."""
    import rowwise
    import torch

    with torch.cuda.stream(stream):
        x = torch.randn(count, columns, device="cuda", dtype=torch.bfloat16)
        weight, out, copy = torch.randn_like(x[0]), torch.empty_like(x), torch.empty_like(x)
        angles = torch.rand(count, 64, device="cuda")
        cosines, sines, turned = angles.cos(), angles.sin(), x.clone()
        positions = torch.arange(count, device="cuda", dtype=torch.int32)
        torch.cuda.synchronize()
    heads = columns // 128
    launches: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
        "RMSNorm": (rowwise.rms_norm(columns, warps=8), (x, weight, out), {"grid": count, "block": 256}),
        "softmax": (rowwise.softmax(columns), (x, out), {"grid": count, "block": 256}),
        "rotary embedding": (
            rowwise.rotary(), (turned, cosines, sines, positions, int32(heads)), rowwise.rotary_sizes(count, heads)
        ),
    }  # fmt: skip
    exact = x.double()
    right = {
        "RMSNorm": exact * torch.rsqrt((exact * exact).mean(1, keepdim=True) + 1e-5) * weight.double(),
        "softmax": torch.softmax(exact, 1),
        "rotary embedding": _rotated(exact.view(count, heads, 128), cosines.double(), sines.double()),
    }
    for name, (kernel, arguments, sizes) in launches.items():
        result = turned if kernel is launches["rotary embedding"][0] else out

        def ours(kernel: Any = kernel, arguments: Any = arguments, sizes: Any = sizes) -> None:
            device.launch(kernel, *arguments, stream=stream, **sizes)

        with torch.cuda.stream(stream):
            ours()
            torch.cuda.synchronize()
            error = difference(result, right[name])
        times = medians({"ours": ours, "copy": lambda: copy.copy_(x)}, stream)
        if result is turned:
            times["copy"] *= 1 + (cosines.nbytes + sines.nbytes + positions.nbytes) / (2 * x.nbytes)
        show(f"{name}, {count} x {columns}, of a copy", times, error)


def _rotated(x: Any, cosines: Any, sines: Any) -> Any:
    """The rotary embedding of (tokens, heads, 128), one position for each token."""
    import torch

    a, b, c, s = x[..., :64], x[..., 64:], cosines[:, None], sines[:, None]
    return torch.cat([a * c - b * s, b * c + a * s], -1).reshape(len(x), -1)


def main() -> None:
    """Prints the rows."""
    import torch

    stream = torch.cuda.Stream()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for edge in (4096, 8192):
        product((edge,) * 3, stream)
    product((4000, 4104, 4032), stream, bn=192, stages=4)
    for m in (16, 64):
        for n, k in ((4096, 4096), (14336, 4096), (4096, 14336)):
            for dtype, dependent in itertools.product((bfloat16, float8e4m3), (False, True)):
                tall((m, n, k), dtype, dependent, stream)
    for head in (128, 64):
        for tokens in (4096, 16384):
            for causal in (False, True):
                attention(head, tokens, causal, stream)
    rows(stream)


if __name__ == "__main__":
    main()
