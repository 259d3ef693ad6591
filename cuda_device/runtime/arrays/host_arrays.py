"""`pinned` and `managed`: NumPy arrays in memory that kernels on a GPU can access.

x = device.pinned(1000, device.float32)
x[:] = 1                                              # as any NumPy array
device.launch(kernel, x, grid=4, block=256)           # no copy
device.synchronize()                                  # before the host looks at what the kernel wrote
"""

from __future__ import annotations

import contextlib
import math
import sys
from typing import Any

import numpy as np

from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.arrays.array_interface import view_of_numpy
from cuda_device.runtime.arrays.array_view import ArrayView, Device, c_strides, numpy_over
from cuda_device.runtime.arrays.device_array import Shape, shape_of
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import GpuStream, as_stream
from cuda_device.types.host import dtype_of, element_of_dtype


class _SharedMemory:
    """Pinned or managed memory."""

    def __init__(self, nbytes: int, stream: GpuStream, device: Device) -> None:
        self.address, self.nbytes, self.stream, self.device = 0, nbytes, stream, device
        with stream.using():
            self.address = driver.allocate_shared(nbytes, device is Device.MANAGED) if nbytes else 0

    def __del__(self) -> None:
        if self.address and not sys.is_finalizing():
            with contextlib.suppress(Exception), self.stream.using():
                driver.free_shared(self.address, self.device is Device.MANAGED)


class HostArray(np.ndarray[Any, Any]):
    """The result of `pinned` and `managed`: a NumPy array that, like its views, can be an argument of launches on a GPU."""

    _memory: _SharedMemory | None = None

    def __array_finalize__(self, obj: Any) -> None:
        """Called by NumPy for views, and also for results in other memory."""
        self._memory = getattr(obj, "_memory", None)

    def _cuda_device_view_(self) -> ArrayView:
        view, memory = view_of_numpy(self), self._memory
        if memory is None:
            return view
        low, high = view.extent
        if view.size and not memory.address <= low <= high <= memory.address + memory.nbytes:
            return view
        stream = memory.stream
        return replace(view, device=memory.device, ordinal=stream.ordinal, stream=stream.handle)


def pinned(shape: Shape, dtype: Any = np.float32, *, stream: Any = None) -> np.ndarray[Any, Any]:
    """Returns a NumPy array in pinned host memory, which kernels on the GPU of `stream` read and write over the bus.

    Copies between it and a GPU are faster than those of other host memory. `shape`, `dtype` and the errors are those of
    `empty`; its initial contents are unspecified. The array and its views can be arguments of launches, which are ordered with
    `stream`; a launch on a CPU stream waits for `stream`. Code on the host must call `synchronize` before it reads what kernels
    wrote. With a CPU stream, the result is an ordinary array.
    """
    return _made(shape, dtype, stream, Device.PINNED)


def managed(shape: Shape, dtype: Any = np.float32, *, stream: Any = None) -> np.ndarray[Any, Any]:
    """Returns a NumPy array in managed memory, whose pages move to the host or to the GPU of `stream` when they are used.

    Otherwise like `pinned`.
    """
    return _made(shape, dtype, stream, Device.MANAGED)


def _made(shape: Shape, dtype: Any, stream: Any, device: Device) -> np.ndarray[Any, Any]:
    target, lengths, kind = as_stream(stream), shape_of(shape), dtype_of(dtype)
    if not isinstance(target, GpuStream):
        return np.empty(lengths, kind)
    memory = _SharedMemory(math.prod(lengths) * kind.itemsize, target, device)
    strides, element = c_strides(lengths, kind.itemsize), element_of_dtype(kind)
    array = numpy_over(ArrayView(memory.address, lengths, strides, element, keep_alive=memory)).view(HostArray)
    array._memory = memory
    return array


__all__ = ["HostArray", "managed", "pinned"]
