"""Libraries are loaded while Python imports the compiler: what the first kernel of a process would wait for otherwise.

    ahead.load()            # returns at once
    llvm.load()             # later: finds LLVM's library loaded, or waits for it

LLVM's takes 7 ms, and none of that Python's lock. Where the driver is in use, the one follows with which it assembles PTX. So a
thread of its own does nothing else: no module is imported there.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading

from cuda_device.codegen.gpu import libcuda

_OF_THE_DRIVER = "libnvidia-ptxjitcompiler.so.1"


@functools.cache
def load() -> None:
    """Begins to load them, once in a process."""
    from cuda_device.codegen.llvm import bindings  # which a kernel whose machine code is known does not need

    file = bindings.file()
    if file is None:
        return
    libraries = [file]
    if libcuda.load.cache_info().currsize:
        libraries.append(_OF_THE_DRIVER)
    threading.Thread(target=_load, args=libraries, name="load LLVM", daemon=True).start()


def _load(*libraries: str) -> None:
    for library in libraries:
        with contextlib.suppress(OSError):  # whoever needs it says what is wrong
            ctypes.CDLL(library)
