"""The start of a program with numba-cuda: saxpy of float32, and then of float64."""

from __future__ import annotations

import importlib.metadata

import clock
import numpy as np

if not hasattr(np, "row_stack"):
    vars(np)["row_stack"] = np.vstack  # numba-cuda wants the name, which NumPy has dropped
clock.open_context()
host = [[np.full(1000, 1, dtype) for _ in range(2)] for dtype in (np.float32, np.float64)]
start = clock.Clock()
from numba import cuda  # noqa: E402

start.mark("import")


@cuda.jit(cache=True)
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < len(y):
        y[i] = a * x[i] + y[i]


start.mark("names")
pairs = [[cuda.to_device(values) for values in pair] for pair in host]
start.mark("arrays")
results = []
for name, (x, y) in zip(("first", "next"), pairs, strict=True):
    saxpy[4, 256](x.dtype.type(2), x, y)
    results.append(y.copy_to_host())
    start.mark(name)
assert all((result == 3).all() for result in results)
start.report(f"numba-cuda {importlib.metadata.version('numba-cuda')}")
