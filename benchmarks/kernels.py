"""The kernels of the suite on a GPU, beside CUDA C++ (NVRTC), numba-cuda, Warp and Triton, with default and fast mathematics.

    python benchmarks/kernels.py [name …] [--scale 1] [--json results.json]
    python benchmarks/kernels.py --compile-only          without a GPU: everything is compiled, nothing runs

Peers that are not installed are left out; those that can express a kernel have it in `numba_kernels`, `warp_kernels` and
`triton_kernels`.

Like is compared with like: ratios of ours, and of CUDA C++, with fast mathematics are to the best of those, all others to the
best peer without.

All run on the same buffers in one process. There are as many copies of each problem's buffers as it takes to exceed the L2
cache three times, and launches take them in turn, so that no launch finds its data in the cache. Launches are queued behind a
kernel that waits, so that the host is out of the picture; events of the GPU tell the time of each round, and the median
counts. Results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numba_kernels
import numpy as np
import triton_kernels
import warp_kernels
from assembly import Code, measure
from nvrtc import compile_cubin
from nvrtc import version as nvrtc_version
from suite import SUITE, Problem, Row

import cuda_device as device

ROUNDS, LAUNCHES = 15, 20
OURS, PEER, FAST = "cuda_device", "CUDA C++", " fast"
OPTIONS: dict[str, dict[str, Any]] = {"": {}, FAST: {"fastmath": True}}
FLAGS = {"": (), FAST: ("-use_fast_math", "-ftz=true", "-prec-div=false", "-prec-sqrt=false")}
LOOSE = 2e-3
"""How far results with fast mathematics may be off."""
SYSTEMS: dict[str, tuple[dict[str, Any], Callable[[Any, Any, Any], Callable[[int], None]]]] = {
    "numba-cuda": (numba_kernels.NUMBA, numba_kernels.launcher),
    "Warp": (warp_kernels.WARP, warp_kernels.launcher),
    "Triton": (triton_kernels.TRITON, triton_kernels.launcher),
}


@device.kernel
def hold(rounds):
    """Keeps the stream busy while the host queues what is to be timed."""
    for _ in range(rounds):
        for _ in range(100):
            device.threadfence()


@dataclass(frozen=True)
class Contender:
    """One implementation: its name, what launches it on the n-th copy of the buffers, and its code (None: not known)."""

    name: str
    launch: Callable[[int], None]
    code: Any = None


def check(result: Any) -> Any:
    """The value of a call of the driver; an error of CUDA is a `RuntimeError`."""
    error, *values = result
    if int(error):
        raise RuntimeError(f"CUDA: {error}")
    return values[0] if values else None


class Buffers:
    """Copies of a problem's arrays on the GPU."""

    def __init__(self, problem: Problem, stream: device.Stream, cache: int) -> None:
        self.problem = problem
        host = {id(x): x for x in problem.cuda if getattr(x, "shape", ())}
        size = sum(x.nbytes for x in host.values())
        count = min(64, 1 + math.ceil(3 * cache / max(1, size)))
        self.copies = [{key: device.array(x, stream=stream) for key, x in host.items()} for _ in range(count)]

    def __len__(self) -> int:
        return len(self.copies)

    def replaced(self, values: Sequence[Any], n: int) -> tuple[Any, ...]:
        """Arguments with the arrays of the n-th copy in the places of the host's."""
        copy = self.copies[n % len(self)]
        return tuple(
            self.replaced(value, n) if isinstance(value, tuple) else copy.get(id(value), value) for value in values
        )

    def outputs(self) -> list[Any]:
        """What kernels have written to the first copy."""
        return [self.copies[0][id(output)].numpy() for output in self.problem.outputs]

    def reset(self) -> None:
        """The host's contents again, in the first copy, so that each contender starts from the same."""
        from cuda.bindings import driver

        for x in self.problem.cuda:
            if getattr(x, "shape", ()):
                check(driver.cuMemcpyHtoD(address_of(self.copies[0][id(x)]), x.ctypes.data, x.nbytes))


def address_of(array: device.DeviceArray) -> int:
    """Where an array is on the GPU."""
    return int(array.__cuda_array_interface__["data"][0])


def our_launch(kernel: device.Kernel, buffers: Buffers, stream: Any) -> Callable[[int], None]:
    """Ours."""
    problem = buffers.problem

    def launch(n: int) -> None:
        shape = {"grid": problem.grid, "block": problem.block, "shared": problem.shared}
        device.launch(kernel, *buffers.replaced(problem.ours, n), **shape, stream=stream)

    return launch


def cuda_launch(cubin: bytes, symbol: str, buffers: Buffers, stream: Any) -> Callable[[int], None]:
    """CUDA C++, through the driver."""
    from cuda.bindings import driver

    problem = buffers.problem
    function = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(cubin)), symbol.encode()))
    grid, block = ((*size, 1, 1)[:3] for size in (problem.grid, problem.block))

    def launch(n: int) -> None:
        values: list[Any] = []
        for value in buffers.replaced(problem.cuda, n):
            if isinstance(value, device.DeviceArray):
                values.append(ctypes.c_void_p(address_of(value)))
            else:
                values.append({"i": ctypes.c_int, "f": ctypes.c_float}[value.dtype.kind](value.item()))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        handle = driver.CUstream(stream.handle)
        address = ctypes.addressof(pointers)
        check(driver.cuLaunchKernel(function, *grid, *block, problem.shared, handle, address, 0))

    return launch


def ours(row: Row, problem: Problem, target: str, **options: Any) -> tuple[device.Kernel, Code]:
    """Our kernel with these options, and its code."""
    kernel = device.kernel(row.kernel.underlying, **options)
    code = device.compile(kernel, *problem.ours, target=target, launch_facts=True).code
    assert isinstance(code, bytes)
    return kernel, measure(code, row.kernel.underlying.__name__)


def contenders(row: Row, buffers: Buffers, stream: Any, target: str) -> list[Contender]:
    """Ours and the peers."""
    found = []
    for kind, options in OPTIONS.items():
        kernel, code = ours(row, buffers.problem, target, **options)
        found.append(Contender(OURS + kind, our_launch(kernel, buffers, stream), code))
    for kind, flags in FLAGS.items():
        # The comment makes another text of it: whatever caches programs by their texts cannot mistake one for the other.
        cubin = compile_cubin(f"// {' '.join(flags)}\n{row.cuda_source()}", target, *flags)
        launch = cuda_launch(cubin, row.cuda_symbol, buffers, stream)
        found.append(Contender(PEER + kind, launch, measure(cubin, row.cuda_symbol)))
    for name, (table, launcher) in SYSTEMS.items():
        if row.name in table:
            try:
                contender = Contender(name, launcher(table[row.name], buffers, stream))
                contender.launch(0)
                found.append(contender)
            except Exception as error:  # of any kind: a peer that does not run here is no reason to stop
                print(f"{row.name:24}{name:16}  cannot run: {type(error).__name__}: {error}", flush=True)
    return found


def agree(problem: Problem, contender: str, mine: list[Any], others: list[Any]) -> bool:
    """Whether two contenders have written the same, within the problem's tolerance, or that of fast mathematics."""
    if math.isinf(problem.tolerance):
        return True
    same, tolerance = True, max(problem.tolerance, LOOSE if contender.endswith(FAST) else 0)
    for a, b in zip(mine, others, strict=True):
        names = a.dtype.names
        parts = [(a[name], b[name]) for name in names] if names else [(a, b)]
        same &= all(np.allclose(x, y, tolerance, tolerance, equal_nan=True) for x, y in parts)
    return same


def time_of(contender: Contender, stream: Any) -> float:
    """The median time of a launch, in seconds."""
    from cuda.bindings import driver

    handle = driver.CUstream(stream.handle)
    begin, end = (check(driver.cuEventCreate(0)) for _ in range(2))
    times: list[float] = []
    contender.launch(0)
    for round in range(ROUNDS):
        device.launch(hold, 200, grid=1, block=1, stream=stream)
        check(driver.cuEventRecord(begin, handle))
        for n in range(LAUNCHES):
            contender.launch(round * LAUNCHES + n)
        check(driver.cuEventRecord(end, handle))
        device.synchronize(stream)
        times.append(check(driver.cuEventElapsedTime(begin, end)) / LAUNCHES / 1e3)
    return statistics.median(times)


def least(results: Sequence[dict[str, Any]], contender: str) -> float:
    """The time of the best peer with a contender's mathematics."""
    fast = contender.endswith(FAST)
    peers = {r["contender"]: float(r["seconds"]) for r in results if not r["contender"].startswith(OURS)}
    return min(seconds for name, seconds in peers.items() if name.endswith(FAST) == fast)


def mean_ratio(results: Sequence[dict[str, Any]], mine: str, peer: str) -> float:
    """The geometric mean, over the kernels that both have, of the time of one contender over that of another."""
    seconds = {(result["contender"], result["kernel"]): result["seconds"] for result in results}
    kernels = {kernel for name, kernel in seconds if name == peer}
    return statistics.geometric_mean(seconds[mine, kernel] / seconds[peer, kernel] for kernel in kernels)


def run_row(row: Row, scale: float, stream: Any, target: str, cache: int) -> list[dict[str, Any]]:
    """Compares and times all contenders of a row, and prints a line for each."""
    problem = row.problem(scale)
    buffers = Buffers(problem, stream, cache)
    results, reference = [], None
    for contender in contenders(row, buffers, stream, target):
        buffers.reset()
        contender.launch(0)
        written = buffers.outputs()
        reference = reference or written
        right = agree(problem, contender.name, reference, written)
        seconds = time_of(contender, stream)
        counts = contender.code
        results.append({"kernel": row.name, "contender": contender.name, "seconds": seconds, "right": right})
        if counts:
            results[-1] |= {"registers": counts.registers, "spills": counts.spills, "instructions": counts.instructions}
    for result in results:
        result["ratio"] = result["seconds"] / least(results, result["contender"])
        print(
            f"{row.name:24}{result['contender']:16}{1e6 * result['seconds']:10.1f}"
            f"{problem.bytes / result['seconds'] / 1e9:9.0f}{problem.flops / result['seconds'] / 1e9:10.0f}"
            f"{result.get('registers', '-'):>6}{result.get('spills', '-'):>7}{result['ratio']:8.3f}"
            f"{'' if result['right'] else '  WRONG'}",
            flush=True,
        )
    return results


def compile_only(rows: Sequence[Row], target: str) -> None:
    """What can be done without a GPU: the code of all contenders but numba."""
    print(f"{'':24}{'':16}{'instructions':>14}{'registers':>11}{'spills':>8}")
    for row in rows:
        problem = row.problem(0)
        found = {OURS + kind: ours(row, problem, target, **options)[1] for kind, options in OPTIONS.items()}
        for kind, flags in FLAGS.items():
            found[PEER + kind] = measure(compile_cubin(row.cuda_source(), target, *flags), row.cuda_symbol)
        for name, counts in found.items():
            print(f"{row.name:24}{name:16}{counts.instructions:14}{counts.registers:11}{counts.spills:8}", flush=True)


def main() -> int:
    """Runs the benchmark; returns the exit status: 1 where a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="parts of kernels' names; none: all")
    parser.add_argument("--scale", type=float, default=1.0, help="how large the problems are")
    parser.add_argument("--json", type=Path, help="a file for the results")
    parser.add_argument("--compile-only", action="store_true", help="compile everything, run nothing")
    parser.add_argument("--target", default="sm_90", help="the architecture for --compile-only")
    options = parser.parse_args()
    rows = [row for row in SUITE if not options.names or any(name in row.name for name in options.names)]
    if options.compile_only:
        compile_only(rows, options.target)
        return 0
    stream = device.default_stream()
    if not isinstance(stream, device.GpuStream):
        print("There is no GPU here; --compile-only compiles everything.")
        return 0
    from cuda.bindings import driver

    attribute, gpu = driver.CUdevice_attribute, check(driver.cuDeviceGet(stream.ordinal))
    major = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu))
    minor = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu))
    cache = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, gpu))
    machine = (
        f"{stream.device_name}, NVRTC {nvrtc_version()}, cuda_device {device.__version__}, {datetime.now(UTC).date()}"
    )
    machine += f", scale {options.scale}"
    print(machine)
    print(f"{'':24}{'':16}{'us':>10}{'GB/s':>9}{'GFLOP/s':>10}{'regs':>6}{'spills':>7}{'ratio':>8}")
    results = []
    with stream.using():
        for row in rows:
            results += run_row(row, options.scale, stream, f"sm_{major}{minor}", cache)
    peers = dict.fromkeys(r["contender"] for r in results if not r["contender"].startswith(OURS))
    pairs = [(OURS + FAST if peer.endswith(FAST) else OURS, peer) for peer in peers]
    print("geometric means of our time over a peer's, and over that of the best:")
    for mine, peer in pairs:
        print(f"{mine:20} {peer:16}{mean_ratio(results, mine, peer):8.3f}")
    for mine in dict.fromkeys(mine for mine, _ in pairs):
        mean = statistics.geometric_mean(result["ratio"] for result in results if result["contender"] == mine)
        print(f"{mine:20} {'best peer':16}{mean:8.3f}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
    return 0 if all(result["right"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
