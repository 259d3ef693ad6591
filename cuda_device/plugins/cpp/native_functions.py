"""`NativeFunction`: a function that was compiled for this machine, as a callable of Python.

norm = device.compile(norm, float32, target="host", output="callable")
norm(2.0), norm.address
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from cuda_device import Compiled, CompileError, cpu_stream, numpy_dtype
from cuda_device.extend import (
    CompiledKernel,
    Work,
    abi,
    host_value,
    kernel_error,
    layout,
    model,
    replace,
    target,
    users_traceback,
)
from cuda_device.plugins.cpp import c_functions


class NativeFunction:
    """A function compiled for this machine. A call checks the arguments like a launch, and returns the result.

    `address` is the address of the function for C++ on this machine, valid while this object exists. `compiled` has its object
    file and parameters.
    """

    def __init__(self, compiled: Compiled, work: Work) -> None:
        prototype = work["typed"].main.prototype
        self.compiled, self._result = replace(compiled, output="object"), prototype.result
        if layout.has_arrays(prototype.result):
            raise CompileError(
                f"{compiled.symbol} returns {prototype.result}, whose memory would not be kept alive",
                work["typed"].main.location,
                "write to an array argument, or compile to an object for C++",
            )
        symbols = (compiled.symbol, compiled.symbol + c_functions.BY_ADDRESS)
        self._code = target("cpu").link(work["object"], {}, symbols)
        self.address = self._code.addresses[symbols[0]]
        count = 1 + len(prototype.arguments) + (prototype.result != model.NONE)
        self._call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(self._code.addresses[symbols[1]])
        self._kernel = CompiledKernel.of(work)
        self._aligns = [layout.align_of(abi.representation(known.type)) for known in work.job.known]

    def __repr__(self) -> str:
        listed = ", ".join(f"{parameter.name}: {parameter.type}" for parameter in self.compiled.parameters)
        return f"<function for the host {self.compiled.symbol}({listed}) -> {self.compiled.result}>"

    @users_traceback
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the function. Raises `LaunchError` for arguments of other types, and `KernelError` for a failed assertion."""
        arguments = self.compiled.record.signature.arguments(args, kwargs, cpu_stream())
        values = self._kernel.pack(arguments)
        memory = _aligned(len(values), self._aligns)
        memory[:] = np.frombuffer(bytes(values), np.uint8)
        addresses = [memory.ctypes.data + offset for offset in self._kernel.packing.offsets]
        report, result = (ctypes.c_int64 * 3)(), None
        if self._result != model.NONE:
            form = abi.representation(self._result)
            result = _aligned(layout.size_of(form), [layout.align_of(form)])
            addresses.append(result.ctypes.data)
        self._call(report, *addresses)
        if report[0]:
            raise kernel_error(self._kernel.reports[report[0]], (report[1], report[2]))
        return None if result is None else host_value(self._result, result.view(numpy_dtype(form))[0])


def _aligned(nbytes: int, aligns: Sequence[int]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Memory at a multiple of each of some alignments."""
    align = max(aligns, default=1)
    memory = np.empty(nbytes + align, np.uint8)
    start = -memory.ctypes.data % align
    return memory[start : start + nbytes]
