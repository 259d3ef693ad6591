"""The kernels of the suite on a GPU, beside CUDA C++ (NVRTC), numba-cuda, Warp and Triton, with default and fast mathematics.

    python benchmarks/kernels.py [--only name …] [--scale 1] [--json results.json] [--within 480]
    python benchmarks/kernels.py --compile-only          without a GPU: everything is compiled, nothing runs
    python benchmarks/kernels.py natural                 atomics with their default order and scope, which are not in the suite

Peers that are not installed are left out; those that can express a kernel have it in `numba_kernels`, `warp_kernels` and
`triton_kernels`.

Prints for each its time, rates, share of the bandwidth of a copy on the device, registers, spills, and the ratio to the best
peer (`summary`). A peer that fails is left out, and so is a kernel that fails, which makes the exit status 1.

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
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numba_kernels
import numpy as np
import triton_kernels
import warp_kernels
from assembly import Code, measure
from nvrtc import compile_cubin
from nvrtc import version as nvrtc_version
from suite import NATURAL, SUITE, Problem, Row
from summary import FAST, HEAD, OURS, PEER, line, rate, summary

import cuda_device as device

ROUNDS, LAUNCHES = 15, 20
LONGEST = 0.03
"""Seconds of a round, at most, as long as that leaves a launch."""
COPIED = 1 << 30
"""Bytes of the copy whose bandwidth is the measure of others."""
OPTIONS: dict[str, dict[str, Any]] = {"": {}, FAST: {"fastmath": True}}
FLAGS = {"": (), FAST: ("-use_fast_math", "-ftz=true", "-prec-div=false", "-prec-sqrt=false")}
HELD = 200_000
"""The nanoseconds for which a stream is kept busy while launches are queued."""
LOOSE = 2e-3
"""How far results with fast mathematics may be off."""
SYSTEMS: dict[str, tuple[dict[str, Any], Callable[[Any, Any, Any], Callable[[int], None]]]] = {
    "numba-cuda": (numba_kernels.NUMBA, numba_kernels.launcher),
    "Warp": (warp_kernels.WARP, warp_kernels.launcher),
    "Triton": (triton_kernels.TRITON, triton_kernels.launcher),
}


@device.kernel
def hold(nanoseconds):
    """Keeps the stream busy while the host queues what is to be timed."""
    start = device.globaltimer()
    while device.globaltimer() - start < device.uint64(nanoseconds):
        device.nanosleep(100)


@dataclass(frozen=True)
class Contender:
    """One implementation: its name, what launches it on the n-th copy of the buffers, and its code (None: not known).

    One that is not `alike` has another algorithm: its time is shown, and no measure of ours.
    """

    name: str
    launch: Callable[[int], None]
    code: Any = None
    alike: bool = True


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


def contenders(row: Row, buffers: Buffers, stream: Any, target: str) -> Iterator[Contender]:
    """Ours, and the peers that can be compiled."""
    for kind, options in OPTIONS.items():
        kernel, code = ours(row, buffers.problem, target, **options)
        yield Contender(OURS + kind, our_launch(kernel, buffers, stream), code)
    makers: dict[str, Callable[[], Contender]] = {
        PEER + kind: partial(_cuda, row, buffers, stream, target, kind) for kind in FLAGS
    }
    for name, (table, launcher) in SYSTEMS.items():
        if row.name in table:
            makers[name] = partial(_peer, name, table[row.name], launcher, buffers, stream)
    for name, make in makers.items():
        try:
            contender = make()
        except Exception as error:  # of any kind: a peer that does not run here is no reason to stop
            _left_out(row.name, name, error)
        else:
            yield contender


def _cuda(row: Row, buffers: Buffers, stream: Any, target: str, kind: str) -> Contender:
    # The comment makes another text of it: whatever caches programs by their texts cannot mistake one for the other.
    cubin = compile_cubin(f"// {' '.join(FLAGS[kind])}\n{row.cuda_source()}", target, *FLAGS[kind])
    launch = cuda_launch(cubin, row.cuda_symbol, buffers, stream)
    return Contender(PEER + kind, launch, measure(cubin, row.cuda_symbol))


def _peer(
    name: str, kernel: Any, launcher: Callable[..., Callable[[int], None]], buffers: Buffers, stream: Any
) -> Contender:
    contender = Contender(name, launcher(kernel, buffers, stream), alike=getattr(kernel, "alike", True))
    contender.launch(0)
    device.synchronize(stream)
    return contender


def agree(problem: Problem, contender: str, mine: list[Any], others: list[Any]) -> bool:
    """Whether two contenders have written the same, within the problem's tolerance, or that of fast mathematics."""
    if math.isinf(problem.tolerance):
        return True
    same, tolerance = True, max(problem.tolerance, LOOSE if contender.endswith(FAST) else 0)
    for a, b in zip(mine, others, strict=True):
        names = a.dtype.names
        for x, y in [(a[name], b[name]) for name in names] if names else [(a, b)]:
            differ = x != y  # few do, and to compare those with a tolerance takes ten times as long
            same &= np.allclose(x[differ], y[differ], tolerance, tolerance, equal_nan=True)
    return same


def time_of(launch: Callable[[int], object], stream: Any) -> float:
    """The median time of a launch, in seconds."""
    from cuda.bindings import driver

    handle = driver.CUstream(stream.handle)
    begin, end = (check(driver.cuEventCreate(0)) for _ in range(2))
    times: list[float] = []
    launches = 1
    for round in range(ROUNDS + 1):
        device.launch(hold, HELD, grid=1, block=1, stream=stream)
        check(driver.cuEventRecord(begin, handle))
        for n in range(launches):
            launch(round * LAUNCHES + n)
        check(driver.cuEventRecord(end, handle))
        device.synchronize(stream)
        times.append(check(driver.cuEventElapsedTime(begin, end)) / launches / 1e3)
        launches = max(1, min(LAUNCHES, int(LONGEST / times[0])))
    return statistics.median(times[1:])


def copy_rate(stream: Any) -> float:
    """The bytes a second that a copy on the device reads and writes."""
    from cuda.bindings import driver

    arrays = [device.empty(COPIED, np.uint8, stream=stream) for _ in range(2)]
    source, target = map(address_of, arrays)
    handle = driver.CUstream(stream.handle)
    seconds = time_of(lambda _: check(driver.cuMemcpyDtoDAsync(target, source, COPIED, handle)), stream)
    return 2 * COPIED / seconds


def run_row(row: Row, scale: float, stream: Any, target: str, cache: int, copy: float) -> list[dict[str, Any]]:
    """Compares and times all contenders of a row, and prints a line for each."""
    problem = row.problem(scale)
    buffers = Buffers(problem, stream, cache)
    results: list[dict[str, Any]] = []
    reference: list[Any] | None = None
    for contender in contenders(row, buffers, stream, target):
        try:
            buffers.reset()
            contender.launch(0)
            written = buffers.outputs()
            seconds = time_of(contender.launch, stream)
        except Exception as error:  # of any kind: one that fails here is no reason to stop
            _left_out(row.name, contender.name, error)
            if contender.name == OURS:
                raise
            continue
        reference = reference or written
        right = agree(problem, contender.name, reference, written)
        result = {"kernel": row.name, "contender": contender.name, "seconds": seconds, "right": right}
        result["alike"] = contender.alike
        counts = contender.code
        if counts:
            result |= {"registers": counts.registers, "spills": counts.spills, "instructions": counts.instructions}
        results.append(result | {"bytes": problem.bytes, "flops": problem.flops})
    rate(results, copy)
    for result in results:
        print(line(result), flush=True)
    return results


def _left_out(kernel: str, contender: str, error: Exception) -> None:
    said = str(error).strip().splitlines()
    print(f"{kernel:24}{contender:17}  cannot run: {type(error).__name__}: {said[0] if said else ''}", flush=True)


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
    parser.add_argument("--only", nargs="+", default=[], metavar="name", help="the same")
    parser.add_argument("--within", type=float, default=math.inf, help="seconds after which no other kernel is begun")
    parser.add_argument("--scale", type=float, default=1.0, help="how large the problems are")
    parser.add_argument("--json", type=Path, help="a file for the results")
    parser.add_argument("--compile-only", action="store_true", help="compile everything, run nothing")
    parser.add_argument("--target", default="sm_90", help="the architecture for --compile-only")
    options, start = parser.parse_args(), time.monotonic()
    names = [*options.names, *options.only]
    rows = [row for row in (*SUITE, *NATURAL) if any(name in row.name for name in names)] if names else [*SUITE]
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
    results: list[dict[str, Any]] = []
    missing = []
    with stream.using():
        copy = copy_rate(stream)
        print(f"a copy on the device: {copy / 1e9:.0f} GB/s")
        print(HEAD)
        for row in rows:
            if time.monotonic() - start > options.within:
                missing.append(row.name)
                continue
            try:
                results += run_row(row, options.scale, stream, f"sm_{major}{minor}", cache, copy)
            except Exception as error:  # of any kind: the other kernels are measured
                _left_out(row.name, OURS, error)
                missing.append(row.name)
            if options.json:  # after each, so that what ends the run leaves the results so far
                found = {"machine": machine, "copy": copy, "results": results}
                options.json.write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(summary(results)))
    print(f"{time.monotonic() - start:.0f} s; not measured: {', '.join(missing) or 'none'}")
    return 0 if results and not missing and all(result["right"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
