"""What compiling the product and the attention of `examples/transformer` costs, by stage, in fresh processes without a cache.

    python benchmarks/compile_transformer.py [--count 3] [--target sm_90a]

Imports, of `cuda_device` and of the example, are a part of their own; the compiler's stages import the modules that they need,
and `cubin` is the assembler's. `other` is the rest of the compilation: the types of the arguments, and imports between stages.
Each row is the median of its processes, which find Python's bytecode of the modules in place. The goals are for `whole`, which
is all but the imports.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GOALS = {"product": 1.0, "attention": 2.0}
"""Seconds."""
ENVIRONMENT = {"CUDA_DEVICE_CACHE": "0", "PYTHONDONTWRITEBYTECODE": ""}
"""No cache of kernels; Python keeps the bytecode of modules, as it does by default."""


def compile_once(name: str, target: str) -> dict[str, float]:
    """Seconds of the imports and of each stage, in this process, where nothing is imported yet."""
    others: list[Any]
    start = time.perf_counter()
    sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "transformer")]
    import cuda_device as device

    if name == "product":
        import products

        kernel, *layouts = products.gemm()
        others = [device.int32] * 3
    else:
        import attention

        kernel, of_q, of_k = attention.attention()
        layouts, others = [of_q, of_k, of_k], [device.ArrayType(device.bfloat16, 2), device.int32, device.int32]
    maps = [layout.map_type() for layout in layouts]
    parts = {"import": time.perf_counter() - start}
    begin = time.perf_counter()
    from cuda_device import compiler
    from cuda_device.runtime.launch.compile_job import job_of

    work = compiler.run(job_of(kernel, (*maps, *others), target, launch_facts=True), afresh=True)
    whole = time.perf_counter() - begin
    return parts | work.seconds | {"other": whole - sum(work.seconds.values()), "whole": whole}


def fresh(name: str, target: str) -> dict[str, float]:
    """`compile_once` in a new process."""
    command = [sys.executable, __file__, "--target", target, "--one", name]
    output = subprocess.run(command, env=os.environ | ENVIRONMENT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(json.loads(output))


def main() -> None:
    """Prints a table for each kernel."""
    parser = argparse.ArgumentParser(description="What compiling kernels of tiles costs, by stage.")
    parser.add_argument("--count", type=int, default=3, help="how many processes for each kernel")
    parser.add_argument("--target", default="sm_90a", help="the GPU to compile for")
    parser.add_argument("--one", choices=GOALS, help="compile this one in this process, and print JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(compile_once(options.one, options.target)))
        return
    for name, goal in GOALS.items():
        fresh(name, options.target)  # Python's bytecode is written
        runs = [fresh(name, options.target) for _ in range(options.count)]
        medians = {part: statistics.median(run[part] for run in runs) for part in runs[0]}
        verdict = "met" if medians["whole"] <= goal else "MISSED"
        print(f"\n{name}, {options.target}; goal: {goal:.0f} s, {verdict}", flush=True)
        for part, seconds in medians.items():
            print(f"{part:<12}{seconds * 1000:9.1f} ms", flush=True)


if __name__ == "__main__":
    main()
