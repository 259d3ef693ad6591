"""The start of a program with Triton: saxpy of float32, and then of float64. torch, which it needs, is there already."""

from __future__ import annotations

import clock
import torch

host = [[torch.ones(1000, dtype=dtype) for _ in range(2)] for dtype in (torch.float32, torch.float64)]
torch.ones(1, device="cuda")
torch.cuda.synchronize()
start = clock.Clock()
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

start.mark("import")


@triton.jit
def saxpy(a, x, y, n, size: tl.constexpr):
    i = tl.program_id(0) * size + tl.arange(0, size)
    inside = i < n
    tl.store(y + i, a * tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


start.mark("names")
pairs = [[values.cuda() for values in pair] for pair in host]
start.mark("arrays")
results = []
for name, (x, y) in zip(("first", "next"), pairs, strict=True):
    saxpy[(4,)](2.0, x, y, 1000, size=256)
    results.append(y.cpu())
    start.mark(name)
assert all((result == 3).all() for result in results)
start.report(f"Triton {triton.__version__}")
