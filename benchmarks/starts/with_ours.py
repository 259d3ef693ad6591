"""The start of a program of ours: saxpy of float32, and then of float64.

    python with_ours.py {gpu|fake|cpu} {cold|apart|warm}

`fake` is the tests' stand-in for the driver. `apart` is a cold one that imports the compiler before it needs it, and so can tell
what that takes apart from what its stages take.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import time

import clock
import numpy as np

WHERE, STATE = sys.argv[1:]
COMPILER = ("bytecode.to_ir", "infer.engine", "infer.builtin_calls", "lower", "codegen.emit.to_llvm")
LAST = {"cpu": ("cpu.native",), "gpu": ("codegen.gpu.nvptx", "codegen.gpu.cubin")}
seconds: dict[str, float] = {}

with contextlib.ExitStack() as stack:
    if WHERE == "gpu":
        clock.open_context()
    elif WHERE == "fake":
        import fake_driver

        stack.enter_context(fake_driver.installed())
    host = [[np.full(1000, 1, dtype) for _ in range(2)] for dtype in (np.float32, np.float64)]

    start = clock.Clock()
    import cuda_device as device

    start.mark("import")

    @device.kernel
    def saxpy(a, x, y):
        i = device.tid(1)
        if i < len(y):
            y[i] = a * x[i] + y[i]

    device.tid, device.array, device.launch, device.default_stream  # noqa: B018 (which imports them)
    start.mark("names")
    stream = device.cpu_stream() if WHERE == "cpu" else device.default_stream()
    pairs = [[device.array(values, stream=stream) for values in pair] for pair in host]
    start.mark("arrays")
    from cuda_device.runtime.gpu import driver

    genuine = driver.load_library

    def load(code: bytes) -> int:
        begin = time.perf_counter()
        try:
            return genuine(code)
        finally:
            seconds["load"] = seconds.get("load", 0.0) + time.perf_counter() - begin

    driver.load_library = load
    if STATE == "apart":
        begin = time.perf_counter()
        for name in (*COMPILER, *LAST["cpu" if WHERE == "cpu" else "gpu"]):
            importlib.import_module(f"cuda_device.{name}")
        seconds["compiler"] = time.perf_counter() - begin
    device.launch(saxpy, np.float32(2), *pairs[0], grid=4, block=256, stream=stream)
    first = pairs[0][1].numpy()
    start.mark("first")
    stages = saxpy.timings() | seconds
    device.launch(saxpy, np.float64(2), *pairs[1], grid=4, block=256, stream=stream)
    following = pairs[1][1].numpy()
    start.mark("next")
    assert WHERE == "fake" or ((first == 3).all() and (following == 3).all())

stages["launch"] = start.parts["first"] - sum(stages.values())
next_stages = saxpy.timings()
next_stages["launch"] = start.parts["next"] - sum(next_stages.values())
info = device.cache_info()
start.report(
    f"cuda_device {device.__version__}",
    stages=stages,
    next_stages=next_stages,
    found=[info.hits, info.direct, info.misses],
)
