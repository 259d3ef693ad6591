"""Allocates memory for arrays on the host or on a GPU, and frees it when its owner is deleted.

GPU memory is freed in the order of the stream for which it was allocated. Destructors may run in another thread, during a
capture, or while the interpreter exits. They never raise, and memory that cannot be freed immediately is freed by a later
allocation.

    memory = allocate(4096, stream)
    memory.address
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from cuda_device.errors import LaunchError
from cuda_device.runtime.arrays.array_view import ArrayView
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import GpuStream, Stream, release_finished_everywhere
from cuda_device.types.host import dtype_of_type

HOST_ALIGNMENT = 64  # a cache line, and the widest vector register

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class HostMemory:
    """`nbytes` bytes of host memory, aligned to 64 bytes; `address` is 0 for no bytes."""

    __slots__ = ("_buffer", "address", "nbytes")

    def __init__(self, nbytes: int, *, zero: bool) -> None:
        make = np.zeros if zero else np.empty
        self._buffer: Bytes = make(nbytes + HOST_ALIGNMENT, np.uint8)
        start = self._buffer.ctypes.data
        self.nbytes = nbytes
        self.address = start + -start % HOST_ALIGNMENT if nbytes else 0


class GpuMemory:
    """`nbytes` bytes of GPU memory; `address` is 0 for no bytes.

    `used_elsewhere` is set when another library may use the memory on unknown streams. It is then freed after all work of the
    device, instead of the work of one stream.
    """

    __slots__ = ("__weakref__", "_buffer", "_stream", "address", "nbytes", "used_elsewhere")

    def __init__(self, nbytes: int, stream: GpuStream, *, zero: bool, resource: Any = None) -> None:
        self.address = 0
        self.nbytes = nbytes
        self.used_elsewhere = False
        self._stream = stream
        self._buffer: Any = None
        """The `cuda.core.Buffer` of a memory resource, which it keeps alive."""
        with stream.using():
            if resource is None or nbytes == 0:
                self.address = _allocate(nbytes, stream)
            else:
                self._buffer = _allocate_from(resource, nbytes, stream)
                self.address = int(self._buffer.handle)
            if zero:
                driver.fill_zero(self.address, nbytes, stream.handle)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # When the interpreter exits, the driver frees everything, and the driver and the names of this module may be gone.
        if self.address and not is_ending():
            _release(self.address, self._stream, self.used_elsewhere, self._buffer)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("GPU memory cannot be copied as an object, or it would be freed twice: copy the array")


def is_freed_behind(owner: object, stream: GpuStream) -> bool:
    """Whether `owner` is memory that is freed in the order of `stream`."""
    # The per-thread stream is a different one in the thread in which the owner is deleted.
    return type(owner) is GpuMemory and owner._stream == stream and stream.handle != driver.PER_THREAD_STREAM


# The memory that could not be freed when its owner was deleted.
_unfreed: deque[tuple[int, GpuStream, bool, Any]] = deque()


def allocate(nbytes: int, stream: Stream, *, zero: bool, resource: Any = None) -> HostMemory | GpuMemory:
    """Allocates memory on `stream`'s device, with unspecified contents or zeros, by default from the device's pool."""
    if isinstance(stream, GpuStream):
        return GpuMemory(nbytes, stream, zero=zero, resource=resource)
    if resource is not None:
        raise LaunchError(
            "memory=… is for arrays on a GPU, but the stream is a CPU stream",
            "omit memory=, or pass a stream of a GPU",
        )
    try:
        return HostMemory(nbytes, zero=zero)
    except MemoryError as error:
        raise LaunchError(
            f"the host does not have {nbytes} bytes of free memory: {error}", "delete arrays, or make smaller ones"
        ) from error


def _allocate(nbytes: int, stream: GpuStream) -> int:
    _free_the_unfreed()
    try:
        return driver.allocate(nbytes, stream.handle, stream.ordinal)
    except driver.OutOfMemory:
        # Launches may hold arrays, and frees may be pending.
        driver.synchronize_context()
        release_finished_everywhere(stream.context)
        driver.synchronize_context()
        return driver.allocate(nbytes, stream.handle, stream.ordinal)


_HOST = -1


def _gpu_of(resource: Any) -> int | None:
    """The number of the GPU whose memory a resource allocates, `_HOST` for memory that GPUs cannot access; None if all can."""
    if not resource.is_device_accessible:
        return _HOST
    try:
        return None if resource.device_id < 0 else int(resource.device_id)
    except RuntimeError:  # from `LegacyPinnedMemoryResource`, which has none
        return None


def _allocate_from(resource: Any, nbytes: int, stream: GpuStream) -> Any:
    """Allocates a `cuda.core.Buffer` in the order of `stream`, in whole words like `driver.allocate`. Raises `LaunchError`."""
    _free_the_unfreed()
    try:
        gpu, allocate = _gpu_of(resource), resource.allocate
    except AttributeError:
        raise LaunchError(
            f"memory={resource!r} is not a MemoryResource of cuda.core",
            "pass one, such as cuda.core.DeviceMemoryResource(0)",
        ) from None
    if gpu not in (None, stream.ordinal):
        where = "the host" if gpu == _HOST else f"GPU {gpu}"
        raise LaunchError(
            f"memory={resource!r} allocates memory of {where}, but the stream is on GPU {stream.ordinal}",
            "pass a resource of the stream's GPU, or another stream",
        )
    rest = -nbytes % driver.WORD
    try:
        buffer = allocate(nbytes + rest, stream=stream.core)
    except Exception as error:  # MemoryError, an error of cuda.core's, or any of a resource that is written in Python
        raise LaunchError(
            f"{type(resource).__name__} cannot allocate {nbytes + rest} bytes: {error}",
            "delete arrays, or pass a larger resource",
        ) from error
    driver.fill_zero(int(buffer.handle) + nbytes, rest, stream.handle)
    return buffer


def _release(address: int, stream: GpuStream, used_elsewhere: bool, buffer: Any) -> None:
    """Frees memory now if possible, else with a later allocation. Never raises."""
    with contextlib.suppress(Exception), stream.using():
        # A capture would record the free, or be invalidated by it.
        if not driver.is_capturing(stream.handle):
            if used_elsewhere:
                driver.synchronize_context()
            if buffer is None:
                driver.free(address, stream.handle, stream.ordinal)
            else:
                buffer.close(stream.core)
            return
    _unfreed.append((address, stream, used_elsewhere, buffer))


def _free_the_unfreed() -> None:
    for _ in range(len(_unfreed)):
        with contextlib.suppress(IndexError):  # another thread may have emptied the queue
            _release(*_unfreed.popleft())


def download(view: ArrayView, stream: int) -> np.ndarray[Any, Any]:
    """Copies a GPU array to host memory after the work of `stream`. The array's context must be current.

    The gaps of a strided array are copied too, and the result has the same strides.
    """
    dtype = dtype_of_type(view.element)
    if view.size == 0:
        return np.empty(view.shape, dtype)
    low, high = view.extent
    span = np.empty(high - low, np.uint8)
    driver.copy(span.ctypes.data, low, high - low, stream)
    driver.synchronize_stream(stream)
    return np.ndarray(view.shape, dtype, span, view.data - low, view.strides)
