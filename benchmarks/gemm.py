"""Products of matrices on tensor cores compared with cuBLAS, by torch, and with Triton: time, rate, and error.

    python benchmarks/gemm.py                                  all types, 4096 and 8192 rows and columns, in one run on one GPU
    python benchmarks/gemm.py --types bfloat16 --shapes 4096 64x4096x4096        m x n x k; one number for all three
    python benchmarks/gemm.py --compile sm_90a                 registers, spills and seconds of compilation, without a GPU

Our kernels are those of `examples/programs/gemm_warpgroups.py`, in the fastest of some configurations. Each system's launches
are put into a CUDA graph; the graphs run in turn, several rounds, and the median counts. Matrices are of normal random numbers.
Some rows of each result are compared with float64, and every element must be finite and written.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cuda_device as device
from cuda_device import bfloat16, float8e4m3, float16, float32, int8, int32
from cuda_device.runtime.gpu import driver

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from programs import gemm_warpgroups

ROUNDS, SECONDS, CHECKED_ROWS = 7, 0.02, 256
RATE = 7e14
"""The operations in a second by which the launches in a graph are counted: about `SECONDS` of them."""
CONFIGS = ((256, 4, 2), (256, 3, 2), (256, 4, 1), (128, 6, 2))
"""Columns of a tile, stages, blocks of a cluster."""
Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """The types of a product, whether B has a row for each row of the result's depth, and the error that is allowed.

    The error is the norm of the difference to float64, relative to the norm of the product.
    """

    name: str
    dtype: Any
    result: Any
    by_rows: bool
    error: float
    library: str
    """The function of torch."""


ROWS = (
    Row("bfloat16", bfloat16, bfloat16, True, 4e-3, "matmul"),
    Row("float16", float16, float16, True, 1e-3, "matmul"),
    Row("float8e4m3", float8e4m3, bfloat16, False, 4e-3, "_scaled_mm, fast accumulation"),
    Row("int8", int8, int32, False, 0, "_int_mm"),
    Row("tf32", float32, float32, False, 1e-3, "matmul, allow_tf32"),
)


def plans(row: Row) -> list[gemm_warpgroups.Plan]:
    """Our configurations for a row."""
    return [gemm_warpgroups.Plan(row.dtype, row.result, *config, row.by_rows) for config in CONFIGS]


@functools.cache
def kernel(plan: gemm_warpgroups.Plan) -> Any:
    """The kernel of a plan."""
    return plan.kernel()


def prepared(plan: gemm_warpgroups.Plan, a: Any, b: Any, c: Any, stream: Any) -> Call:
    """Our launch. Operands are tensors of torch."""
    count = driver.properties(driver.current_ordinal()).multiprocessors
    sizes: dict[str, Any] = {"grid": count // plan.cluster * plan.cluster, "block": gemm_warpgroups.THREADS}
    return device.prepare(kernel(plan), *plan.maps(a, b), c, *c.shape, a.shape[1], **sizes, stream=stream)


def fastest(row: Row, a: Any, b: Any, c: Any, stream: Any) -> tuple[str, Call]:
    """The configuration that is the fastest for these matrices, in words, and the launch with it."""
    calls = [prepared(plan, a, b, c, stream) for plan in plans(row)]
    timings = device.benchmark(calls, stream=stream, warmup=0.01, duration=0.05)
    best = min(range(len(calls)), key=lambda i: timings[i].median)
    columns, stages, cluster = CONFIGS[best]
    return f"{columns} columns, {stages} stages, clusters of {cluster}", calls[best]


def operands(torch: Any, row: Row, m: int, n: int, k: int) -> tuple[Any, Any]:
    """Random matrices; B is (k, n), or else (n, k)."""
    shapes = (m, k), ((k, n) if row.by_rows else (n, k))
    if row.dtype is int8:
        return tuple(torch.randint(-128, 128, shape, dtype=torch.int8, device="cuda") for shape in shapes)
    kinds = {bfloat16: torch.bfloat16, float16: torch.float16, float8e4m3: torch.float8_e4m3fn, float32: torch.float32}
    return tuple(torch.randn(shape, device="cuda").to(kinds[row.dtype]) for shape in shapes)


def systems(torch: Any, row: Row, a: Any, b: Any, stream: Any) -> Iterator[tuple[str, Any, Call]]:
    """The name of each system, its result, and its call."""
    m, n = a.shape[0], b.shape[1] if row.by_rows else b.shape[0]
    kinds = {bfloat16: torch.bfloat16, float16: torch.float16, int32: torch.int32, float32: torch.float32}

    def empty() -> Any:
        return torch.empty((m, n), dtype=kinds[row.result], device="cuda")

    c = empty()
    config, call = fastest(row, a, b, c, stream)
    yield f"cuda_device, {config}", c, call
    right = b if row.by_rows else b.t()
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

    if triton_products.triton is not None and row.by_rows:
        d = empty()
        yield "Triton", d, lambda: triton_products.multiply(a, b, d)


def error_of(torch: Any, row: Row, a: Any, b: Any, c: Any) -> float:
    """The relative error of some rows; infinity if an element is not finite."""
    if c.is_floating_point() and not bool(torch.isfinite(c).all()):
        return float("inf")
    some = torch.randint(0, len(a), (min(len(a), CHECKED_ROWS),), device="cuda")
    right = b if row.by_rows else b.t()
    exact = a[some].double() @ right.double()
    return float((c[some].double() - exact).norm() / exact.norm())


def graph_of(torch: Any, call: Call, stream: Any, count: int) -> Any:
    """A CUDA graph of so many calls."""
    call()  # compiles, and allocates
    torch.cuda.synchronize()
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
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()  # the clock rate settles
            before.record(stream)
            graph.replay()
            after.record(stream)
            after.synchronize()
            seconds[name].append(before.elapsed_time(after) * 1e-3 / count)
            time.sleep(0.05)
    return {name: statistics.median(values) for name, values in seconds.items()}


def compare(torch: Any, row: Row, shape: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Prints and returns the results of all systems for a row and a shape."""
    m, n, k = shape
    stream = torch.cuda.Stream()
    torch.backends.cuda.matmul.allow_tf32 = True
    count = max(5, min(1000, int(SECONDS * RATE / (2 * m * n * k))))
    graphs, errors = {}, {}
    kept = []
    with torch.cuda.stream(stream):
        a, b = operands(torch, row, m, n, k)
        for name, c, call in systems(torch, row, a, b, stream):
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
    """Prints what the compiler makes of the first configuration."""
    for row in rows:
        plan = plans(row)[0]
        kind = "tf32" if row.name == "tf32" else row.dtype
        types = [device.TensorMapType(kind, box, swizzle=gemm_warpgroups.PATTERN) for box in plan.boxes()]
        arguments = *types, device.ArrayType(row.result, 2), int32, int32, int32
        start = time.perf_counter()
        made = device.compile(kernel(plan), *arguments, target=target, launch_facts=True)
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
    parser.add_argument("--shapes", nargs="+", type=shape_of, default=[(4096,) * 3, (8192,) * 3])
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
