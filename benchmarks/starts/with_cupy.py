"""The start of a program with CuPy's RawKernel, which NVRTC compiles: saxpy of float32, and then of float64."""

from __future__ import annotations

import clock
import numpy as np

SAXPY = """
extern "C" __global__ void saxpy(T a, const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""

clock.open_context()
host = [[np.full(1000, 1, dtype) for _ in range(2)] for dtype in (np.float32, np.float64)]
start = clock.Clock()
import cupy  # noqa: E402

start.mark("import")
start.mark("names")
pairs = [[cupy.asarray(values) for values in pair] for pair in host]
start.mark("arrays")
results = []
for name, dtype, (x, y) in zip(("first", "next"), ("float", "double"), pairs, strict=True):
    kernel = cupy.RawKernel(f"typedef {dtype} T;" + SAXPY, "saxpy")
    kernel((4,), (256,), (x.dtype.type(2), x, y, np.int32(1000)))
    results.append(cupy.asnumpy(y))
    start.mark(name)
assert all((result == 3).all() for result in results)
start.report(f"CuPy {cupy.__version__}")
