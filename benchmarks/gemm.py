"""Products of matrices on tensor cores compared with cuBLAS, by torch, and with Triton: time, rate, and error.

    python benchmarks/gemm.py                                  all types and shapes, in one run on one GPU
    python benchmarks/gemm.py --types bfloat16 --shapes 4096 4000x4112x4032      m x n x k; one number for all three
    python benchmarks/gemm.py --compile sm_90a                 registers, spills and seconds of compilation, without a GPU

Our kernels are those of `examples/transformer/products.py`, in the fastest of some configurations. Each system's launches are
put into a CUDA graph; the graphs run in turn, several rounds, and the median counts. Matrices are of normal random numbers. Some
rows of each result are compared with float64, and every element must be finite and written.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cuda_device as device
from cuda_device import bfloat16, float8e4m3, float16, float32, float64, int8, int32
from cuda_device.runtime.gpu import driver

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "transformer"))
import products
from tuned_products import multiply

ROUNDS, SECONDS, CHECKED_ROWS = 5, 0.01, 256
"""The rounds of the graphs, and the seconds that a graph takes, about."""
SHAPES = (4096, 4096, 4096), (8192, 8192, 8192), (4000, 4112, 4032), (8000, 8208, 8064)
"""Those of multiples of the tiles, and those of others."""
Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """The types of a product, whether B has a row for each column of the result, and the error that is allowed.

    The error is the norm of the difference to float64, relative to the norm of the product.
    """

    name: str
    dtype: Any
    result: Any
    transposed: bool
    error: float
    library: str
    """The function of torch."""


ROWS = (
    Row("bfloat16", bfloat16, bfloat16, False, 4e-3, "matmul"),
    Row("float16", float16, float16, False, 1e-3, "matmul"),
    Row("float8e4m3", float8e4m3, bfloat16, True, 4e-3, "_scaled_mm, fast accumulation"),
    Row("int8", int8, int32, True, 0, "_int_mm"),
    Row("tf32", float32, float32, True, 1e-3, "matmul, allow_tf32"),
    Row("float64", float64, float64, False, 1e-14, "matmul"),
)


def operands(torch: Any, row: Row, m: int, n: int, k: int) -> tuple[Any, Any]:
    """Random matrices; B is (k, n), or (n, k) if it is transposed."""
    shapes = (m, k), ((n, k) if row.transposed else (k, n))
    if row.dtype is int8:
        return tuple(torch.randint(-128, 128, shape, dtype=torch.int8, device="cuda") for shape in shapes)
    return tuple(torch.randn(shape, device="cuda").to(_of_torch(torch, row.dtype)) for shape in shapes)


def _of_torch(torch: Any, dtype: Any) -> Any:
    """The type of torch that a type is."""
    names = {bfloat16: "bfloat16", float16: "float16", float8e4m3: "float8_e4m3fn", int32: "int32", float32: "float32"}
    return getattr(torch, names.get(dtype, "float64"))


def systems(torch: Any, row: Row, a: Any, b: Any, stream: Any) -> Iterator[tuple[str, Any, Call]]:
    """The name of each system, its result, and its call."""
    m, n = a.shape[0], b.shape[0] if row.transposed else b.shape[1]

    def empty() -> Any:
        return torch.empty((m, n), dtype=_of_torch(torch, row.result), device="cuda")

    ours = empty()
    blocks = driver.properties(driver.current_ordinal()).multiprocessors
    how = {"dtype": row.dtype, "result": row.result, "transposed": row.transposed, "blocks": blocks}
    config = multiply.best(a, b, ours, stream, **how)
    words = f"tiles of {config['bm']} x {config['bn']}, {config['stages']} stages"
    yield f"cuda_device, {words}", ours, lambda: multiply(a, b, ours, stream, **how)
    right = b.t() if row.transposed else b
    c = empty()
    if row.dtype is float8e4m3:
        one = torch.ones((), device="cuda")
        scales: dict[str, Any] = {"scale_a": one, "scale_b": one, "out_dtype": c.dtype, "use_fast_accum": True}
        yield f"torch {row.library}", c, lambda: torch._scaled_mm(a, right, **scales, out=c)
    elif row.dtype is int8:
        yield f"torch {row.library}", c, lambda: torch._int_mm(a, right, out=c)
    else:
        yield f"torch {row.library}", c, lambda: torch.matmul(a, right, out=c)
    import triton_products

    if triton_products.triton is not None and row.name in ("bfloat16", "float16"):
        d = empty()
        yield "Triton", d, lambda: triton_products.multiply(a, b, d)


def error_of(torch: Any, row: Row, a: Any, b: Any, c: Any) -> float:
    """The relative error of some rows; infinity if an element is not finite."""
    if c.is_floating_point() and not bool(torch.isfinite(c).all()):
        return float("inf")
    some = torch.randint(0, len(a), (min(len(a), CHECKED_ROWS),), device="cuda")
    right = b.t() if row.transposed else b
    exact = a[some].double() @ right.double()
    return float((c[some].double() - exact).norm() / exact.norm())


def seconds_of(torch: Any, work: Call, stream: Any) -> float:
    """The time between two events around some work."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record(stream)
    work()
    after.record(stream)
    after.synchronize()
    return float(before.elapsed_time(after)) * 1e-3


def graph_of(torch: Any, call: Call, stream: Any, count: int) -> Any:
    """A CUDA graph of so many calls."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(count):
            call()
    return graph


def measured(torch: Any, graphs: dict[str, Any], stream: Any, count: int) -> dict[str, float]:
    """The median seconds of one call of each graph, which run in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            graph.replay()  # the clock rate settles
            seconds[name].append(seconds_of(torch, graph.replay, stream) / count)
    return {name: statistics.median(values) for name, values in seconds.items()}


def compare(torch: Any, row: Row, shape: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Prints and returns the results of all systems for a row and a shape."""
    m, n, k = shape
    stream = torch.cuda.Stream()
    torch.backends.cuda.matmul.allow_tf32 = True
    graphs, errors, kept, count = {}, {}, [], 0
    with torch.cuda.stream(stream):
        a, b = operands(torch, row, m, n, k)
        for name, c, call in systems(torch, row, a, b, stream):
            call()  # compiles, and allocates
            count = count or max(2, min(200, int(SECONDS / seconds_of(torch, call, stream))))
            graphs[name] = graph_of(torch, call, stream, count)
            c.fill_(float("nan") if c.is_floating_point() else 0x55555555)  # what no launch writes shows
            graphs[name].replay()
            torch.cuda.synchronize()
            errors[name] = error_of(torch, row, a, b, c)
            kept.append((c, call))
        seconds = measured(torch, graphs, stream, count)
    base = next(value for name, value in seconds.items() if name.startswith("torch"))
    results = []
    for name, value in seconds.items():
        rate, ratio = 2e-12 * m * n * k / value, base / value
        verdict = "" if errors[name] <= row.error else "   WRONG"
        line = f"{row.name:11}{m:6} x {n} x {k:<6}{name:58}{value * 1e3:9.4f} ms{rate:8.1f} T/s{ratio:7.3f}"
        print(f"{line}{errors[name]:10.1e}{verdict}", flush=True)
        results.append(
            {"type": row.name, "shape": shape, "system": name, "seconds": value, "ratio": ratio, "error": errors[name]}
        )
    return results


def only_compiled(target: str, rows: list[Row]) -> None:
    """Prints what the compiler makes of one configuration of each type."""
    for row in rows:
        columns = 128 if row.dtype is float64 else 256
        kernel, *layouts = products.gemm(row.dtype, row.result, bn=columns, transposed=row.transposed)
        kinds = ("tf32" if row.name == "tf32" else row.dtype,) * 2 + (row.result,)
        types = [layout.map_type(kind) for kind, layout in zip(kinds, layouts, strict=True)]
        start = time.perf_counter()
        made = device.compile(kernel, *types, int32, int32, int32, target=target, launch_facts=True)
        seconds = time.perf_counter() - start
        warnings = "".join(f"   {warning}" for warning in made.warnings)
        print(f"{row.name:12}{made.registers:4} registers{made.spills:6} bytes of spills{seconds:6.2f} s{warnings}")


def shape_of(text: str) -> tuple[int, int, int]:
    """`4096` or `64x4096x4096`."""
    m, *rest = map(int, text.split("x"))
    n, k = rest or (m, m)
    return m, n, k


def main() -> None:
    """Prints a line for each type, shape and system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row.name for row in ROWS]
    parser.add_argument("--types", nargs="+", choices=names, default=names)
    parser.add_argument("--shapes", nargs="+", type=shape_of, default=SHAPES)
    parser.add_argument("--compile", metavar="TARGET")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [row for row in ROWS if row.name in options.types]
    if options.compile:
        only_compiled(options.compile, rows)
        return
    import torch

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; ratio to torch, error to float64")
    results = [result for row in rows for shape in options.shapes for result in compare(torch, row, shape)]
    if options.json:
        options.json.write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
