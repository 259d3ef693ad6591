"""CUB with Python: its block collectives in kernels of ours, and functions of ours in its algorithms, beside all of it in C++.

    python benchmarks/cub.py                     times over all-C++, in one run on one GPU
    python benchmarks/cub.py --compile sm_90     compiles the kernels, without a GPU

A kernel in Python calls `cub::BlockReduce`, `BlockScan` and `BlockRadixSort` by functions of C++ that `device.extern(cpp=…)`
names. `cuda.compute` (pip install cuda-cccl[minimal-cu13]) reduces, scans and transforms arrays with an operator that is LTO-IR:
that of `device.compile(…, output="ltoir", by_address=True)`, beside that of NVRTC. Their launches are queued behind a kernel that
waits, so the times do not include the work of the host.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

import numpy as np
import nvrtc
from interop import COUNT, calls, measured
from kernels import HELD, hold

import cuda_device as device
from cuda_device.runtime.gpu import driver
from cuda_device.types.architectures import of_capability

BLOCK, REPEATS, QUEUED = 256, 40, 5
COLLECTIVES = """
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

template <int N> __device__ float block_reduce(float x) {
  using Reduce = cub::BlockReduce<float, N>;
  __shared__ typename Reduce::TempStorage storage;
  return Reduce(storage).Sum(x);
}
template <int N> __device__ float block_scan(float x) {
  using Scan = cub::BlockScan<float, N>;
  __shared__ typename Scan::TempStorage storage;
  Scan(storage).InclusiveSum(x, x);
  return x;
}
template <int N> __device__ float block_sort(float x) {
  using Sort = cub::BlockRadixSort<float, N, 1>;
  __shared__ typename Sort::TempStorage storage;
  float keys[] = {x};
  Sort(storage).Sort(keys);
  return keys[0];
}
"""
KERNEL = """
extern "C" __global__ void kernel(float* data, int n, int times) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = data[i];
  for (int k = 0; k < times; ++k) {{
    x = {name}<{block}>(x + k);
    __syncthreads();
  }}
  data[i] = x;
}}
"""


class Collective:
    """A collective in both languages. `data` is the type that the kernel has a pointer to."""

    floats = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def codes(self, target: str) -> dict[str, bytes]:
        """The machine code of the kernel in C++ and of that in Python."""

        def collective(x: Any) -> Any: ...

        collective.__annotations__ = dict.fromkeys(("x", "return"), device.float32)
        source = device.cuda_source(COLLECTIVES, name="collectives.cuh")
        block = device.extern(cpp=f"{self.name}<{BLOCK}>", link=source)(collective)

        @device.kernel(interop=True)
        def kernel(data: Any, n: Any, times: Any) -> None:
            i = device.tid(1)
            x = data[i]
            for k in range(times):
                x = block(x + k)
                device.syncthreads()
            data[i] = x

        made = device.compile(kernel, device.pointer(device.float32), int, int, target=target).code
        assert isinstance(made, bytes)
        text = COLLECTIVES + KERNEL.format(name=self.name, block=BLOCK)
        return {"C++, C++": nvrtc.compile_code(text, target, "CUBIN"), "Python, C++ source": made}


def collectives(target: str, only_compile: bool) -> None:
    """Prints the calls and times of kernels with block collectives."""
    for name in ("block_reduce", "block_scan", "block_sort"):
        row = Collective(name)
        codes = row.codes(target)
        found = {} if only_compile else measured(row, codes)
        for how, code in codes.items():
            line = f"{name:14}{how:24}{calls(code):6} calls"
            if found:
                base, expected = found["C++, C++"]
                seconds, result = found[how]
                alike = "alike" if np.array_equal(result, expected) else "DIFFERS"
                line += f"{seconds * 1e6:10.1f} µs{seconds / base:9.3f}   {alike}"
            print(line)


def larger(a: Any, b: Any) -> Any:
    """An operator that no library has: the number with the larger square."""
    return a if a * a > b * b else b


def squeeze(x: Any) -> Any:
    """A transformation."""
    return x / (1 + abs(x))


CPP = """
extern "C" __device__ void larger(void* a, void* b, void* result) {
  float x = *(float*)a, y = *(float*)b;
  *(float*)result = x * x > y * y ? x : y;
}
extern "C" __device__ void squeeze(void* x, void* result) {
  float value = *(float*)x;
  *(float*)result = value / (1 + fabsf(value));
}
"""


def algorithms(target: str) -> None:
    """Prints the times of cuda.compute's algorithms with operators in Python and in C++."""
    compute: Any = importlib.import_module("cuda.compute")
    operator = importlib.import_module("cuda.compute.op").RawOp
    value_type = importlib.import_module("cuda.compute.types").float32

    stream: Any = device.default_stream()
    numbers = np.random.default_rng(1).standard_normal(64 * COUNT, dtype=np.float32)
    given, out = device.array(numbers, stream=stream), device.zeros(numbers.shape, stream=stream)
    cpp = bytes(nvrtc.compile_code(CPP, target, "LTOIR", "-rdc=true", "-dlto"))

    def operators(function: Any, count: int) -> dict[str, Any]:
        types = (device.float32,) * count
        ours = device.compile(
            device.func(interop=True)(function), *types, target=target, output="ltoir", by_address=True
        )
        name = function.__name__
        return {"C++": operator(ltoir=cpp, name=name), "Python": operator(ltoir=ours.code, name=ours.symbol)}

    first = np.zeros(1, np.float32)
    for what, ops in {
        "reduce": operators(larger, 2),
        "scan": operators(larger, 2),
        "transform": operators(squeeze, 1),
        "reduce of transformed": operators(squeeze, 1),
    }.items():

        def run(op: Any, what: str = what) -> None:
            n = len(numbers)
            if what == "reduce":
                compute.reduce_into(d_in=given, d_out=out, num_items=n, op=op, h_init=first, stream=stream)
            elif what == "scan":
                compute.inclusive_scan(d_in=given, d_out=out, op=op, init_value=first, num_items=n, stream=stream)
            elif what == "transform":
                compute.unary_transform(d_in=given, d_out=out, num_items=n, op=op, stream=stream)
            else:
                squeezed = compute.TransformIterator(given, op, value_type)
                compute.reduce_into(
                    d_in=squeezed, d_out=out, num_items=n, op=compute.OpKind.MAXIMUM, h_init=first, stream=stream
                )

        seconds: dict[str, float] = {}
        results = {}
        with stream.using():
            begin, end = (driver.create_event(timing=True) for _ in range(2))
            for _ in range(REPEATS):
                for language, op in ops.items():
                    device.launch(hold, HELD, grid=1, block=1, stream=stream)
                    driver.record_event(begin, stream.handle)
                    for _ in range(QUEUED):
                        run(op)
                    driver.record_event(end, stream.handle)
                    driver.synchronize_event(end)
                    took = driver.seconds_between(begin, end) / QUEUED
                    seconds[language] = min(seconds.get(language, took), took)
                    results[language] = out.numpy()
        alike = "alike" if np.array_equal(results["C++"], results["Python"]) else "DIFFERS"
        for language, took in seconds.items():
            print(f"{what:24}{language:10}{took * 1e6:10.1f} µs{took / seconds['C++']:9.3f}   {alike}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", metavar="TARGET", help="compile for an architecture, and run nothing")
    wanted = parser.parse_args()
    target = wanted.compile
    if not target:
        stream: Any = device.default_stream()
        target = str(of_capability(*driver.properties(stream.ordinal).capability))
    collectives(target, bool(wanted.compile))
    if not wanted.compile:
        algorithms(target)


if __name__ == "__main__":
    main()
