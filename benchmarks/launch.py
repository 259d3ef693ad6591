"""What a launch costs the host: microseconds from the call to its return, beside a loop in machine code and other libraries.

    python benchmarks/launch.py [--json launch.json]

A launch on a GPU only queues it. Each round queues fewer launches than the driver's queue holds, and what was queued is waited
for after the clock has stopped. All are measured in one run, in turns, on one GPU and one stream; the kernels do nothing. The
first row is a loop in machine code of the driver's `cuLaunchKernel`, and the ratios are to it. "A built-in function" is one that
Python calls as it calls `launch`, and that only calls the driver: no launch from Python takes less. What is not installed is left
out. The last rows are what the driver's answers take that a launch of ours may need: the current context where the stream is the
default one, else whether the stream is being captured, and its context where it is not one of ours. "Another stream" is one of
cuda.core, on which the arrays are not made: such a launch is put in order with the stream that they are made on, before and
after. "New object" wraps that stream anew for each launch. Launches in a cluster are compared with a loop of `cuLaunchKernelEx`.
On the CPU stream a launch includes running it, here over 32 numbers.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.metadata
import json
import platform
import statistics
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import cuda_device as device
from cuda_device.cpu.machine_code import compile_native
from cuda_device.plugins.launchers import plans
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import GpuStream

LAUNCHES = 400
ROUNDS = 31
WARM = 64
CLUSTER = 2
"""The blocks of a cluster, and of a launch in clusters."""

Launch = Callable[[], object]


@device.kernel
def nothing(x, y, z, n):
    """Three arrays and a number."""


@device.kernel
def many(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p):  # noqa: E741
    """Sixteen arrays."""


@device.kernel
def tiled(x, y, z, m: device.int32, n: device.int32, k: device.int32):
    """Three tensor maps, of 128 bytes by value, and three numbers."""


@device.kernel
def scale(a, x, y, n):
    """Each thread scales a number."""
    i = device.tid(1)
    if i < n:
        y[i] = a * x[i]


@dataclass(frozen=True)
class Row:
    """What is measured: `run` makes so many launches."""

    name: str
    run: Callable[[int], object]


def repeated(launch: Launch) -> Callable[[int], object]:
    """A loop in Python."""

    def run(count: int) -> None:
        for _ in range(count):
            launch()

    return run


def measure(rows: list[Row], wait: Callable[[], object]) -> dict[str, float]:
    """The median of the rounds for each row, in microseconds a launch. The rows take turns."""
    for row in rows:
        row.run(WARM)
        wait()
    rounds: dict[str, list[float]] = {row.name: [] for row in rows}
    for _ in range(ROUNDS):
        for row in rows:
            start = time.perf_counter()
            row.run(LAUNCHES)
            rounds[row.name].append(time.perf_counter() - start)
            wait()
    return {name: 1e6 * statistics.median(times) / LAUNCHES for name, times in rounds.items()}


_LOOP = """
define void @loop(i64 %count, ptr %launch, i64 %kernel, i64 %stream, ptr %ready, ptr %config) {
entry:
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%next, %turn]
  %status = call i32 %launch(CALL)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %turn, label %end
end:
  ret void
}
"""


def ready(arguments: int) -> tuple[ctypes.Array[ctypes.c_void_p], object]:
    """The addresses of parameters of at most 128 bytes that are zeros, and the zeros."""
    values = (ctypes.c_uint64 * (arguments + 16))()
    return (ctypes.c_void_p * arguments)(*(ctypes.addressof(values) + 8 * i for i in range(arguments))), values


def handle_of(kernel: device.Kernel, stream: Any) -> int:
    """The driver's handle of a kernel that was launched before."""
    return int(next(iter(kernel.variants.values())).loaded[stream.context].handle)


_PLAIN = "i64 %kernel, i32 1, i32 1, i32 1, i32 32, i32 1, i32 1, i32 0, i64 %stream, ptr %ready, ptr null"
_WITH_ATTRIBUTES = "ptr %config, i64 %kernel, ptr %ready, ptr null"


def bare(kernel: device.Kernel, stream: Any, arguments: int, cluster: int = 0) -> Callable[[int], object]:
    """A loop in machine code of `cuLaunchKernel` with ready parameters, for a kernel that was launched before.

    In clusters, of as many blocks as the grid, it is one of `cuLaunchKernelEx`.
    """
    code = compile_native(_LOOP.replace("CALL", _WITH_ATTRIBUTES if cluster else _PLAIN), exports=("loop",), alone=True)
    loop = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 5)(code.address("loop"))
    addresses, values = ready(arguments)
    handle, launch = handle_of(kernel, stream), driver.entry_point("cuLaunchKernelEx" if cluster else "cuLaunchKernel")
    attribute = ctypes.create_string_buffer(
        struct.pack("=I4x3I52x", 4, cluster, 1, 1)
    )  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    sizes = cluster, 1, 1, 32, 1, 1, 0
    config = ctypes.create_string_buffer(
        struct.pack("=7I4xQQI4x", *sizes, stream.handle, ctypes.addressof(attribute), 1)
    )

    def run(count: int) -> None:
        assert code, (values, attribute)
        loop(count, launch, handle, stream.handle, addresses, config)

    return run


_CALL = """
declare void @Py_IncRef(ptr)
define ptr @call(ptr %self, ptr %args, i64 %count, ptr %names) {
  %status = call i32 LAUNCH(i64 KERNEL, i32 1, i32 1, i32 1, i32 32, i32 1, i32 1, i32 0, i64 STREAM, ptr READY, ptr null)
  call void @Py_IncRef(ptr NONE)
  ret ptr NONE
}
"""


def least(stream: Any, arrays: list[Any], name: str) -> Row:
    """Calls of a built-in function that ignores its arguments and calls the driver: what Python and the driver take alone."""
    x, y, z, *_ = arrays
    addresses, values = ready(7)
    pointers = {"LAUNCH": driver.entry_point("cuLaunchKernel"), "READY": ctypes.addressof(addresses), "NONE": id(None)}
    text = _CALL.replace("KERNEL", str(handle_of(nothing, stream))).replace("STREAM", str(stream.handle))
    for word, address in pointers.items():
        text = text.replace(word, f"inttoptr (i64 {address} to ptr)")
    increase = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value
    code = compile_native(text, {"Py_IncRef": increase or 0}, exports=("call",), alone=True)
    method = plans.method("call", code.address("call"))
    call = plans.builtin_of(method)

    def launch(keep: Any = (code, method, addresses, values)) -> None:
        call(nothing, x, y, z, 5, grid=1, block=32, stream=stream)

    return Row(name, repeated(launch))


_QUESTION = """
define void @loop(i64 %count, ptr %ask, i64 %first, ptr %answer) {
entry:
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%next, %turn]
  %status = call i32 %ask(CALL)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %turn, label %end
end:
  ret void
}
"""


def question(name: str, *about: int) -> Row:
    """A loop in machine code of what the driver is asked before launches: the current context, or something about a stream."""
    operands = ", ".join(["i64 %first"] * len(about) + ["ptr %answer"])
    code = compile_native(_QUESTION.replace("CALL", operands), exports=("loop",), alone=True)
    loop = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 3)(code.address("loop"))
    ask, answer = driver.entry_point(name), ctypes.c_uint64()

    def run(count: int) -> None:
        assert code
        loop(count, ask, about[0] if about else 0, ctypes.addressof(answer))

    return Row(name, run)


def ours(stream: Any, arrays: list[Any], name: str) -> list[Row]:
    """Launches of ours with three of these arrays and a number, in several ways."""
    x, y, z, *_ = arrays

    def launch() -> None:
        device.launch(nothing, x, y, z, 5, grid=1, block=32, stream=stream)

    def by_name() -> None:
        device.launch(nothing, x=x, y=y, z=z, n=5, grid=(1, 1), block=(32, 1), stream=stream)

    def on_default() -> None:
        device.launch(nothing, x, y, z, 5, grid=1, block=32)

    rows = [Row(f"{name}, int", repeated(launch)), Row(f"{name}, int, by name", repeated(by_name))]
    rows.append(Row(f"{name}, int, default stream", repeated(on_default)))
    prepared = device.prepare(nothing, x, y, z, 5, grid=1, block=32, stream=stream)
    rows.append(Row(f"{name}, int, prepared", repeated(prepared)))
    if len(arrays) == 16:
        a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p = arrays  # noqa: E741

        def launch_many() -> None:
            device.launch(many, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, grid=1, block=32, stream=stream)

        rows.append(Row(f"16 {name.removeprefix('3 ')}", repeated(launch_many)))
    return rows


def with_maps(stream: Any) -> list[Row]:
    """Launches of ours with three tensor maps and three numbers."""
    name = "3 tensor maps, 3 ints"
    maps = [device.TensorMap.of(device.zeros((64, 64), stream=stream), (32, 32)) for _ in range(3)]
    x, y, z = maps

    def launch() -> None:
        device.launch(tiled, x, y, z, 64, 64, 64, grid=1, block=32, stream=stream)

    prepared = device.prepare(tiled, x, y, z, 64, 64, 64, grid=1, block=32, stream=stream)
    return [Row(name, repeated(launch)), Row(f"{name}, prepared", repeated(prepared))]


def in_clusters(stream: Any, arrays: list[Any]) -> list[Row]:
    """Launches of ours in a cluster."""
    x, y, z, *_ = arrays

    def launch() -> None:
        device.launch(nothing, x, y, z, 5, grid=CLUSTER, block=32, cluster=CLUSTER, stream=stream)

    prepared = device.prepare(nothing, x, y, z, 5, grid=CLUSTER, block=32, cluster=CLUSTER, stream=stream)
    name = "3 cuda_device arrays, int, a cluster"
    return [Row(name, repeated(launch)), Row(f"{name}, prepared", repeated(prepared))]


# The others. Each gives a launch of a kernel that does nothing with three arrays and a number.


def cupy_launch(cp: Any) -> Launch:
    """CuPy's `RawKernel`."""
    kernel = cp.RawKernel('extern "C" __global__ void k(float* x, float* y, float* z, int n) {}', "k")
    x, y, z = (cp.zeros(256, np.float32) for _ in range(3))
    n = np.int32(5)
    return lambda: kernel((1,), (32,), (x, y, z, n))


def triton_launch(triton: Any) -> Launch:
    """Triton's `jit`, with tensors of torch."""
    torch = importlib.import_module("torch")

    @triton.jit
    def kernel(x, y, z, n):
        pass

    x, y, z = (torch.zeros(256, device="cuda") for _ in range(3))
    started = kernel[(1,)]
    return lambda: started(x, y, z, 5)


def numba_launch(cuda: Any) -> Launch:
    """numba-cuda's `jit`, with arrays of its own."""
    if not hasattr(np, "row_stack"):
        vars(np)["row_stack"] = np.vstack  # numba-cuda wants the name, which NumPy has dropped

    @cuda.jit  # type: ignore[untyped-decorator]
    def kernel(x: Any, y: Any, z: Any, n: Any) -> None:
        pass

    x, y, z = (cuda.to_device(np.zeros(256, np.float32)) for _ in range(3))
    started = kernel[1, 32]
    return lambda: started(x, y, z, 5)


def warp_launch(wp: Any) -> Launch:
    """Warp's `kernel`, with arrays of its own. Warp reads the source of a function, and its hints as objects."""

    def kernel(x: Any, y: Any, z: Any, n: Any) -> None:
        i = wp.tid()  # noqa: F841

    kernel.__annotations__ = dict.fromkeys("xyz", wp.array(dtype=wp.float32)) | {"n": wp.int32}
    compiled = wp.kernel(kernel)
    x, y, z = (wp.zeros(256, dtype=wp.float32, device="cuda") for _ in range(3))
    return lambda: wp.launch(compiled, dim=32, inputs=[x, y, z, 5], device="cuda")


def cuda_core_launch(core: Any) -> Launch:
    """`launch` of cuda.core, with addresses."""
    here = core.Device()
    here.set_current()
    options = core.ProgramOptions(arch=f"sm_{here.arch}")
    text = 'extern "C" __global__ void k(float* x, float* y, float* z, int n) {}'
    kernel = core.Program(text, "c++", options).compile("cubin").get_kernel("k")
    stream, config = here.create_stream(), core.LaunchConfig(grid=1, block=32)
    buffers = [here.memory_resource.allocate(1024, stream=stream) for _ in range(3)]
    x, y, z = (int(buffer.handle) for buffer in buffers)
    n = np.int32(5)

    def launch(keep: Any = buffers) -> None:
        core.launch(stream, config, kernel, x, y, z, n)

    return launch


OTHERS: dict[str, tuple[str, Callable[[Any], Launch]]] = {
    "CuPy": ("cupy", cupy_launch),
    "Triton": ("triton", triton_launch),
    "Warp": ("warp", warp_launch),
    "cuda.core": ("cuda.core", cuda_core_launch),
    "numba-cuda": ("numba.cuda", numba_launch),
}
DISTRIBUTIONS = (
    "torch",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "triton",
    "warp-lang",
    "cuda-core",
    "cuda-bindings",
    "numba-cuda",
)


def others() -> list[Row]:
    """The rows of what is installed."""
    rows = []
    for name, (module, make) in OTHERS.items():
        try:
            launch = make(importlib.import_module(module))
            launch()
            rows.append(Row(name, repeated(launch)))
        except Exception as error:
            print(f"{name} cannot be measured: {type(error).__name__}: {str(error).splitlines()[:1]}")
    return rows


def arrays_of_frameworks() -> dict[str, tuple[Any, list[Any]]]:
    """Arrays of torch and CuPy, where they are installed, each with the stream that the framework works on."""
    found: dict[str, tuple[Any, list[Any]]] = {}
    try:
        torch = importlib.import_module("torch")
        found["3 torch tensors"] = (torch.cuda.current_stream(), [torch.zeros(256, device="cuda") for _ in range(16)])
    except Exception as error:
        print(f"no torch: {error}")
    try:
        cp = importlib.import_module("cupy")
        found["3 CuPy arrays"] = (cp.cuda.get_current_stream(), [cp.zeros(256, np.float32) for _ in range(16)])
    except Exception as error:
        print(f"no CuPy: {error}")
    return found


def on_cpu() -> list[Row]:
    """Launches on the CPU stream, which include running them."""
    stream = device.cpu_stream()
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)

    def launch() -> None:
        device.launch(scale, 2.0, x, y, 32, grid=1, block=32, stream=stream)

    prepared = device.prepare(scale, 2.0, x, y, 32, grid=1, block=32, stream=stream)
    return [Row("CPU stream", repeated(launch)), Row("CPU stream, prepared", repeated(prepared))]


class Elsewhere:
    """A stream of another library, as one of cuda.core is: all that is known of it is the protocol."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version and handle."""
        return 0, self._handle


def elsewhere(stream: Any, arrays: list[Any], name: str) -> list[Row]:
    """Launches on a stream on which the arrays are not made: as it is, made anew each time, prepared, and without order."""
    x, y, z, *_ = arrays

    def launch() -> None:
        device.launch(nothing, x, y, z, 5, grid=1, block=32, stream=stream)

    def on_new_stream() -> None:
        device.launch(nothing, x, y, z, 5, grid=1, block=32, stream=Elsewhere(stream.__cuda_stream__()[1]))

    prepared = device.prepare(nothing, x, y, z, 5, grid=1, block=32, stream=stream)
    alone = device.unordered(stream)

    def unordered() -> None:
        device.launch(nothing, x, y, z, 5, grid=1, block=32, stream=alone)

    return [
        Row(f"{name}, another stream", repeated(launch)),
        Row(f"{name}, another stream, new object", repeated(on_new_stream)),
        Row(f"{name}, another stream, prepared, new int", repeated(lambda: prepared(n=6))),
        Row(f"{name}, another stream, unordered", repeated(unordered)),
    ]


def on_home_stream(stream: Any, name: str) -> list[Row]:
    """Launches with arrays of ours on the stream of another library that they were made on."""
    x, y, z = (device.zeros(256, stream=stream) for _ in range(3))

    def launch() -> None:
        device.launch(nothing, x, y, z, 5, grid=1, block=32, stream=stream)

    prepared = device.prepare(nothing, x, y, z, 5, grid=1, block=32, stream=stream)
    rows = [Row(f"{name}, made on that stream", repeated(launch))]
    return [*rows, Row(f"{name}, made on that stream, prepared, new int", repeated(lambda: prepared(n=6)))]


def captured(row: Row, stream: int) -> Row:
    """The same launches, captured into a graph. All graphs are kept, so each needs new memory for its nodes, as a user's does."""
    api = importlib.import_module("cuda.bindings.driver")
    mode = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED

    def run(count: int) -> None:
        driver.check(api.cuStreamBeginCapture(stream, mode))
        row.run(count)
        driver.check(api.cuStreamEndCapture(stream))

    return Row(f"{row.name}, captured", run)


def core_stream() -> Any:
    """A stream of cuda.core, or one like it."""
    try:
        device_of_core = importlib.import_module("cuda.core").Device()
        device_of_core.set_current()
        return device_of_core.create_stream()
    except Exception as error:
        print(f"no cuda.core: {error}")
        flags = driver.bindings().CUstream_flags.CU_STREAM_NON_BLOCKING
        return Elsewhere(driver.check(driver.bindings().cuStreamCreate(flags)))


def versions() -> str:
    """What is compared."""
    found = [f"Python {platform.python_version()}"]
    for name in DISTRIBUTIONS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def main() -> None:
    """Prints the table, and with `--json` also writes it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file for the results")
    options = parser.parse_args()
    print(versions())
    on_cpu_stream = measure(on_cpu(), lambda: None)
    for name, cost in on_cpu_stream.items():
        print(f"{name:40} {cost:7.2f} us")
    stream = device.default_stream()
    if isinstance(stream, device.CpuStream):
        print("no GPU here: nothing to compare with")
        return
    print(stream.device_name)
    arrays = [device.zeros(256, stream=stream) for _ in range(16)]
    rows = ours(stream, arrays, "3 cuda_device arrays")
    core = core_stream()
    handle = core.__cuda_stream__()[1]
    home = on_home_stream(core, "3 cuda_device arrays")
    rows += [*home, captured(home[0], handle)]
    rows += elsewhere(core, arrays, "3 cuda_device arrays")
    for name, (where, found) in arrays_of_frameworks().items():
        rows += ours(where, found, name)
        rows += elsewhere(core, found, name)
    for row in rows:
        row.run(WARM)
    at_home = GpuStream(handle, 0, core)
    alone = least(at_home, arrays, "a built-in function")
    rows += [captured(Row("bare loop", bare(nothing, at_home, 7)), handle), alone, captured(alone, handle)]
    loops = [Row("bare loop", bare(nothing, stream, 7)), Row("bare loop, 16 arrays", bare(many, stream, 32))]
    if driver.properties(driver.current_ordinal()).capability >= (9, 0):
        modern = [*with_maps(stream), *in_clusters(stream, arrays)]
        for row in modern:
            row.run(WARM)
        rows += modern
        loops.append(Row("bare loop, tensor maps", bare(tiled, stream, 6)))
        loops.append(Row("bare loop, a cluster", bare(nothing, stream, 7, CLUSTER)))
    side = driver.check(driver.bindings().cuStreamCreate(driver.bindings().CUstream_flags.CU_STREAM_NON_BLOCKING))
    questions = [question("cuCtxGetCurrent"), question("cuStreamGetCtx", side), question("cuStreamIsCapturing", side)]
    costs = measure([*loops, *rows, *others(), *questions], driver.synchronize_context)
    for name, cost in costs.items():
        kind = ", 16 arrays" if name.startswith("16") else ", captured" if name.endswith("captured") else ""
        kind = next((f", {part}" for part in ("tensor maps", "a cluster") if part in name), kind)
        base = costs[f"bare loop{kind}"]
        print(f"{name:40} {cost:7.2f} us  {cost / base:6.2f}")
    if options.json:
        machine = f"{stream.device_name}, {datetime.now(UTC).date()}"
        times = {name: round(cost, 2) for name, cost in (costs | on_cpu_stream).items()}
        results = {"machine": machine, "versions": versions(), "microseconds": times}
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
