"""The start of a program that loads its kernel: saxpy of float32, compiled ahead of time, without the compiler and LLVM.

    python with_saved.py {gpu|fake}

The kernel is saved in the folder of the cache. A process that does not find it there compiles it first; its times mean nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import clock
import numpy as np

WHERE = sys.argv[1]
SAVED = Path(os.environ["CUDA_DEVICE_CACHE"]) / "saxpy.cubin"


def save() -> None:
    """Compiles the kernel for the GPU that is here, or that the stand-in is."""
    import cuda_device as device
    from cuda_device.runtime.gpu import driver

    @device.kernel
    def saxpy(a, x, y):
        i = device.tid(1)
        if i < len(y):
            y[i] = a * x[i] + y[i]

    major, minor = driver.properties(0).capability
    floats = device.ArrayType(device.float32, 1)
    device.compile(saxpy, device.float32, floats, floats, target=f"sm_{major}{minor}").save(SAVED)


with contextlib.ExitStack() as stack:
    if WHERE == "gpu":
        clock.open_context()
    else:
        import fake_driver

        stack.enter_context(fake_driver.installed())
    host = [np.full(1000, 1, np.float32) for _ in range(2)]
    if not SAVED.exists():
        save()

    start = clock.Clock()
    import cuda_device as device

    start.mark("import")
    saxpy = device.load(SAVED)
    start.mark("names")
    x, y = (device.array(values) for values in host)
    start.mark("arrays")
    saxpy.launch(2, x, y, grid=4, block=256)
    first = y.numpy()
    start.mark("first")
    saxpy.launch(2, x, y, grid=4, block=256)
    y.numpy()
    start.mark("next")
    assert WHERE == "fake" or (first == 3).all()
    assert WHERE == "fake" or "llvmlite" not in sys.modules

start.report(f"cuda_device {device.__version__}", loads_llvm="llvmlite" in sys.modules, next_stages={})
