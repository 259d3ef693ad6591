"""A histogram in the shared memory of clusters, and a cooperative kernel, compared with CUDA C++ compiled by NVRTC.

    python benchmarks/clusters.py

The kernels are those of `examples/programs/cluster_histogram.py` and `conjugate_gradient.py`. The conjugate gradients make as
many steps as there are unknowns, with three barriers of the grid each. Results are compared before anything is timed. Times are
medians of interleaved rounds, and a ratio is our time over that of C++. Needs a GPU with sm_90.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from kernels import HELD, address_of, check, hold
from nvrtc import compile_cubin

import cuda_device as device
from cuda_device.runtime.gpu import driver

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from programs import cluster_histogram, conjugate_gradient

VALUES, CLUSTERS, UNKNOWNS = 1 << 24, 512, 2048
ROUNDS = 15
Launch = Callable[[], Any]


def seconds(launches: dict[str, Launch], stream: Any) -> dict[str, float]:
    """The median time of each launch. The launches take turns, and wait behind a kernel until they are queued."""
    from cuda.bindings import driver as api

    handle = api.CUstream(stream.handle)
    begin, end = (check(api.cuEventCreate(0)) for _ in range(2))
    times: dict[str, list[float]] = {name: [] for name in launches}
    for round in range(ROUNDS + 1):
        for name, launch in launches.items():
            device.launch(hold, HELD, grid=1, block=1, stream=stream)
            check(api.cuEventRecord(begin, handle))
            launch()
            check(api.cuEventRecord(end, handle))
            device.synchronize(stream)
            if round:
                times[name].append(check(api.cuEventElapsedTime(begin, end)) / 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def in_cpp(name: str, sizes: tuple[int, int], arguments: tuple[Any, ...], stream: Any, cooperative: bool) -> Launch:
    """A launch of a kernel of `cuda/clusters.cu`."""
    from cuda.bindings import driver as api

    major, minor = driver.properties(driver.current_ordinal()).capability
    source = (Path(__file__).parent / "cuda" / "clusters.cu").read_text()
    module = check(api.cuModuleLoadData(compile_cubin(source, f"sm_{major}{minor}")))
    function = check(api.cuModuleGetFunction(module, name.encode()))
    values = (ctypes.c_int64 * len(arguments))(*(x if isinstance(x, int) else address_of(x) for x in arguments))
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(values) + 8 * i for i in range(len(values))))
    grid, block, handle = (sizes[0], 1, 1), (sizes[1], 1, 1), api.CUstream(stream.handle)

    def launch(keep: Any = values) -> None:
        if cooperative:
            status = api.cuLaunchCooperativeKernel(function, *grid, *block, 0, handle, ctypes.addressof(pointers))
        else:
            status = api.cuLaunchKernel(function, *grid, *block, 0, handle, ctypes.addressof(pointers), 0)
        check(status)

    return launch


def compare(name: str, launches: dict[str, Launch], result: Any, right: Any, tolerance: float, stream: Any) -> None:
    """Checks the result of each launch, and prints a row."""
    for system, launch in launches.items():
        result.fill(0)
        launch()
        device.synchronize(stream)
        np.testing.assert_allclose(result.numpy(), right, rtol=tolerance, atol=tolerance, err_msg=f"{name}, {system}")
    times = seconds(launches, stream)
    ours, theirs = times.values()
    print(f"{name:32} {ours * 1e6:10.1f} us   C++ {theirs * 1e6:10.1f} us   {ours / theirs:6.3f}", flush=True)


def histogram(stream: Any) -> None:
    """`cluster_histogram.count`."""
    bins = cluster_histogram.CLUSTER * cluster_histogram.BINS_PER_BLOCK
    numbers = np.random.default_rng(0).integers(0, bins, VALUES).astype(np.int32)
    values, counts = device.array(numbers, stream=stream), device.zeros(bins, np.int32, stream=stream)
    grid, block = CLUSTERS * cluster_histogram.CLUSTER, cluster_histogram.BLOCK
    settings: dict[str, Any] = {"grid": grid, "block": block, "cluster": cluster_histogram.CLUSTER, "stream": stream}
    launches: dict[str, Launch] = {
        "ours": device.prepare(cluster_histogram.count, values, counts, **settings),
        "C++": in_cpp("count", (grid, block), (values, counts, VALUES), stream, cooperative=False),
    }
    compare("cluster histogram", launches, counts, np.bincount(numbers, minlength=bins), 0, stream)


def gradients(stream: Any) -> None:
    """`conjugate_gradient.solve`, which needs sums that are zeros; right sides are large, so that no step is left out."""
    b = 1e8 * np.random.default_rng(0).standard_normal(UNKNOWNS)
    right = device.array(b, stream=stream)
    x, direction = (device.zeros(UNKNOWNS, np.float64, stream=stream) for _ in range(2))
    sums = device.zeros(2 * UNKNOWNS + 1, np.float64, stream=stream)
    grid, block = UNKNOWNS // conjugate_gradient.BLOCK, conjugate_gradient.BLOCK
    arguments = right, x, direction, sums
    prepared = device.prepare(conjugate_gradient.solve, *arguments, grid=grid, block=block, stream=stream)
    cpp = in_cpp("solve", (grid, block), (*arguments, UNKNOWNS), stream, cooperative=True)

    def with_zeros(launch: Launch) -> Launch:
        def run() -> None:
            sums.fill(0)
            launch()

        return run

    launches = {"ours": with_zeros(prepared), "C++": with_zeros(cpp)}
    solution = conjugate_gradient.expect(b)
    compare("conjugate gradients, cooperative", launches, x, solution, 1e-6 * float(np.abs(solution).max()), stream)


def main() -> None:
    """Prints the rows."""
    stream = device.default_stream()
    print(stream.device_name)
    histogram(stream)
    gradients(stream)


if __name__ == "__main__":
    main()
