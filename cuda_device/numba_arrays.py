"""What `numba_compat` has on the host: arrays, streams, events and devices, as numba.cuda names them.

d = to_device([0.1, 0.2])                       a DeviceNDArray of float64, over our DeviceArray
with stream().auto_synchronize() as s: ...      there is one stream, the default one
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.arrays import device_array as arrays
from cuda_device.runtime.arrays import host_arrays
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import CpuStream, GpuStream, Stream, as_stream, cpu_stream
from cuda_device.types.host import element_of_dtype

__all__ = [
    "DefaultStream", "DeviceNDArray", "Devices", "GpuContext", "GpuDevice", "StreamEvent", "as_cuda_array", "close",
    "current_context", "default_stream", "detect", "device_array", "device_array_like", "event", "event_elapsed_time",
    "external_stream", "get_current_device", "gpus", "is_available", "is_cuda_array", "legacy_default_stream",
    "list_devices", "managed_array", "mapped", "mapped_array", "mapped_array_like", "per_thread_default_stream", "pinned",
    "pinned_array", "pinned_array_like", "select_device", "stream", "synchronize", "to_device",
]  # fmt: skip


class DeviceNDArray:
    """An array on the device: `array` is ours. Its shape, dtype and protocols are those of that."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def __getitem__(self, key: Any) -> Any:
        """A part, which shares the memory; one element as a number."""
        part = self.array[key]
        return DeviceNDArray(part) if part.shape or key == () else part.numpy()[()]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copies an array or a number to a part."""
        self.array[key] = value.array if isinstance(value, DeviceNDArray) else value

    def _through(self, change: Callable[[Any], Any]) -> DeviceNDArray:
        """The same memory as NumPy makes it of a stand-in. Raises `ValueError` where only a copy would do."""
        view, dtype = self.array._cuda_device_view_(), self.array.dtype
        first = np.empty(1, dtype)
        before = np.lib.stride_tricks.as_strided(first, self.array.shape, self.array.strides)
        after = change(before)
        moved = after.__array_interface__["data"][0] - before.__array_interface__["data"][0]
        element = view.element if after.dtype == dtype else element_of_dtype(after.dtype)
        turned = replace(view, data=view.data + moved, shape=after.shape, strides=after.strides, element=element)
        return DeviceNDArray(arrays.DeviceArray.over(turned, self.array.stream, after.dtype))

    @property
    def T(self) -> DeviceNDArray:  # noqa: N802
        """The same memory with the axes in the other order; a copy where the elements are not contiguous, as numba makes one."""
        return self.transpose()

    def transpose(self, axes: Any = None) -> DeviceNDArray:
        """The same memory with the axes in another order; a copy where the elements are not contiguous."""
        if not (self.is_c_contiguous() or self.is_f_contiguous()):
            return to_device(np.ascontiguousarray(self.array.numpy().transpose(axes)), self.array.stream)
        return self._through(lambda x: x.transpose(axes))

    def reshape(self, *shape: Any, order: str = "C") -> DeviceNDArray:
        """The same memory with another shape. Raises `ValueError` where the elements would have to move."""
        lengths = shape[0] if len(shape) == 1 else shape
        return self._through(lambda x: x.reshape(lengths, order=order, copy=False))

    def ravel(self, order: str = "C", stream: Any = 0) -> DeviceNDArray:
        """All elements along one axis: the same memory where they lie in that order, or else a copy."""
        try:
            return self.reshape(-1, order=order)
        except ValueError:
            return to_device(self.array.numpy().ravel(order), self.array.stream)

    def squeeze(self, axis: Any = None, stream: Any = 0) -> DeviceNDArray:
        """The same memory without axes of length 1."""
        return self._through(lambda x: x.squeeze(axis))

    def view(self, dtype: Any) -> DeviceNDArray:
        """The same memory as elements of another type."""
        return self._through(lambda x: x.view(dtype))

    def split(self, section: int, stream: Any = 0) -> Iterator[DeviceNDArray]:
        """Parts of at most `section` elements."""
        return (self[i : i + section] for i in range(0, len(self), section))

    @property
    def flags(self) -> Any:
        """What NumPy says of such an array: `flags["C_CONTIGUOUS"]`."""
        return np.lib.stride_tricks.as_strided(
            np.empty(0, self.array.dtype), self.array.shape, self.array.strides
        ).flags

    def is_c_contiguous(self) -> bool:
        """Whether the elements lie in the order of C, without gaps."""
        return bool(self.flags["C_CONTIGUOUS"])

    def is_f_contiguous(self) -> bool:
        """Whether the elements lie in the order of Fortran, without gaps."""
        return bool(self.flags["F_CONTIGUOUS"])

    def bind(self, stream: Any = 0) -> DeviceNDArray:
        """The array itself: there is one stream."""
        return self

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """A copy of the elements, in `ary` if it is given. Raises `ValueError` or `TypeError` if it is not alike."""
        found = self.array.numpy().copy()
        if ary is None:
            return found
        if ary.shape != found.shape:
            raise ValueError(f"an array of shape {found.shape} does not fit one of shape {ary.shape}")
        if ary.dtype != found.dtype:
            raise TypeError(f"incompatible dtype: {found.dtype} vs. {ary.dtype}: convert the copy with astype")
        ary[...] = found
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Takes the elements of another array. Raises `ValueError` for one of another shape."""
        elements = ary.copy_to_host() if isinstance(ary, DeviceNDArray) else np.asarray(ary)
        if elements.shape != self.array.shape:
            raise ValueError(f"an array of shape {elements.shape} does not fit one of shape {self.array.shape}")
        self.array[...] = elements.astype(self.array.dtype)


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> DeviceNDArray:
    """A copy of an array on the device, in `to` if it is given; of what is no array, as NumPy makes one."""
    if to is not None:
        to.copy_to_device(obj)
        return to  # type: ignore[no-any-return]
    if isinstance(obj, DeviceNDArray):
        obj = obj.array
    return DeviceNDArray(arrays.array(obj if hasattr(obj, "shape") else np.asarray(obj), stream=stream_of(stream)))


def device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
) -> DeviceNDArray:
    """A new array on the device whose elements are unspecified: in the order of C or "F", or with strides in bytes.

    Raises `ValueError` for another order, and for strides below zero.
    """
    lengths, where, kind = _lengths(shape, order), stream_of(stream), np.dtype(dtype)
    if strides is None:
        made = DeviceNDArray(arrays.empty(lengths if order == "C" else lengths[::-1], kind, stream=where))
        return made if order == "C" else made.T
    steps = (strides,) if isinstance(strides, int) else tuple(strides)
    if len(steps) != len(lengths) or min(steps, default=0) < 0:
        raise ValueError(f"strides={strides!r} are not one distance in bytes for each of {len(lengths)} axes")
    nbytes = sum((length - 1) * step for length, step in zip(lengths, steps, strict=True)) + kind.itemsize
    memory = arrays.empty(nbytes if min(lengths, default=1) else 0, np.uint8, stream=where)
    view = replace(memory._cuda_device_view_(), shape=lengths, strides=steps, element=element_of_dtype(kind))
    return DeviceNDArray(arrays.DeviceArray.over(view, where, kind))


def _lengths(shape: Any, order: str) -> tuple[int, ...]:
    if order not in ("C", "F"):
        raise ValueError(f'order={order!r} is no order of elements: write "C" or "F"')
    return (shape,) if isinstance(shape, int) else tuple(shape)


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    """A new array of the shape, dtype and order of another."""
    return device_array(ary.shape, ary.dtype, order=_order_of(ary), stream=stream)


def _order_of(ary: Any) -> str:
    return "F" if not ary.flags["C_CONTIGUOUS"] and abs(ary.strides[0]) < abs(ary.strides[-1]) else "C"


def _host_array(make: Any, shape: Any, dtype: Any, strides: Any, order: str) -> Any:
    if strides is not None:
        raise NotImplementedError('arrays of the host have no strides of their own: give order="C" or order="F"')
    lengths = _lengths(shape, order)
    return make(lengths, dtype) if order == "C" else make(lengths[::-1], dtype).T


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> Any:
    """A host array in memory that a GPU reaches, too (`cuda_device.pinned`): launches do not copy it, and wait for their end."""
    return _host_array(host_arrays.pinned, shape, dtype, strides, order)


def pinned_array_like(ary: Any) -> Any:
    """A host array of the shape, dtype and order of another, as `pinned_array`."""
    return pinned_array(ary.shape, ary.dtype, order=_order_of(ary))


def mapped_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    portable: bool = False,
    wc: bool = False,
) -> Any:
    """A host array, as `pinned_array`."""
    return pinned_array(shape, dtype, strides, order)


def mapped_array_like(ary: Any, stream: Any = 0, portable: bool = False, wc: bool = False) -> Any:
    """A host array of the shape, dtype and order of another, as `pinned_array`."""
    return pinned_array_like(ary)


def managed_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    attach_global: bool = True,
) -> Any:
    """A host array in memory that moves to where it is used (`cuda_device.managed`), otherwise as `pinned_array`."""
    return _host_array(host_arrays.managed, shape, dtype, strides, order)


@contextlib.contextmanager
def pinned(*arrays: Any, stream: Any = 0) -> Iterator[None]:
    """Does nothing: memory that is there already is not pinned afterwards."""
    yield


@contextlib.contextmanager
def mapped(*host: Any, stream: Any = 0) -> Iterator[Any]:
    """Host arrays as device arrays; what kernels wrote is in the host arrays at the end."""
    where = stream_of(stream)
    views = [_viewed(each, where) for each in host]
    yield views[0] if len(views) == 1 else views
    where.synchronize()
    if not isinstance(where, CpuStream):
        for each, view in zip(host, views, strict=True):
            view.copy_to_host(each)


def _viewed(ary: Any, where: Stream) -> DeviceNDArray:
    if isinstance(where, CpuStream):
        return DeviceNDArray(arrays.as_array(ary, order="strided", stream=where))
    return to_device(ary, where)


def is_cuda_array(obj: Any) -> bool:
    """Whether an object is an array on the device."""
    return isinstance(obj, DeviceNDArray) or hasattr(obj, "__cuda_array_interface__")


def as_cuda_array(obj: Any) -> Any:
    """An array of another library, which launches take as it is."""
    return obj


class DefaultStream:
    """The default stream, or one of another library."""

    def __init__(self, ours: Stream) -> None:
        self.ours = ours

    def synchronize(self) -> None:
        """Waits for all that was launched."""
        self.ours.synchronize()

    @contextlib.contextmanager
    def auto_synchronize(self) -> Iterator[DefaultStream]:
        """Waits at its end."""
        yield self
        self.synchronize()

    def add_callback(self, callback: Callable[[Any, int, Any], object], arg: Any = None) -> None:
        """Waits for all that was launched, and calls `callback(stream, 0, arg)`."""
        self.synchronize()
        callback(self, 0, arg)


def stream() -> DefaultStream:
    """The default stream."""
    return DefaultStream(as_stream(None))


default_stream = legacy_default_stream = per_thread_default_stream = stream


def external_stream(ptr: int) -> DefaultStream:
    """The stream with a handle of the driver's; without a GPU, the default stream."""
    return DefaultStream(as_stream(ptr if driver.available() else None))


def stream_of(stream: Any) -> Stream:
    """Our stream for what numba.cuda calls one: 0 is the default one."""
    if isinstance(stream, DefaultStream):
        return stream.ours
    return as_stream(None if stream is None or (type(stream) is int and stream == 0) else stream)


class StreamEvent:
    """A point in a stream: the end of what was launched before `record`. Made by `event()`."""

    def __init__(self, timing: bool = True) -> None:
        self._timing, self._seconds = timing, 0.0
        self._event = self._context = 0

    def record(self, stream: Any = 0) -> None:
        """Stands for the end of what the stream has so far; on the CPU that is now."""
        where = stream_of(stream)
        self._seconds = time.perf_counter()
        if isinstance(where, GpuStream):
            with where.using():
                self._event = self._event or driver.create_event(self._timing)
                self._context = where.context
                driver.record_event(self._event, where.handle)

    def query(self) -> bool:
        """Whether it has happened."""
        return not self._event or driver.event_done(self._event)

    def synchronize(self) -> None:
        """Waits until it has happened."""
        if self._event:
            driver.synchronize_event(self._event)

    def wait(self, stream: Any = 0) -> None:
        """Lets later work of the stream start after it."""
        where = stream_of(stream)
        if self._event and isinstance(where, GpuStream):
            driver.wait_event(where.handle, self._event)

    def elapsed_time(self, evtend: StreamEvent) -> float:
        """The milliseconds from this event to another."""
        if self._event and evtend._event:
            evtend.synchronize()
            return driver.seconds_between(self._event, evtend._event) * 1e3
        return (evtend._seconds - self._seconds) * 1e3

    def __del__(self) -> None:
        if self._event and not sys.is_finalizing():
            with contextlib.suppress(Exception), driver.using(self._context):
                driver.destroy_event(self._event)


def event(timing: bool = True) -> StreamEvent:
    """A new event."""
    return StreamEvent(timing)


def event_elapsed_time(evtstart: StreamEvent, evtend: StreamEvent) -> float:
    """The milliseconds between two events."""
    return evtstart.elapsed_time(evtend)


def synchronize() -> None:
    """Waits for all that was launched."""
    as_stream(None).synchronize()


class GpuDevice:
    """A GPU, or the CPU in its place."""

    def __init__(self, id: int = 0) -> None:
        self.id = id
        self._before: list[GpuDevice] = []

    @property
    def compute_capability(self) -> tuple[int, int]:
        """The compute capability; on the CPU that of the architecture that the CPU stream stands for."""
        if driver.available():
            return driver.properties(self.id).capability
        return divmod(int(re.sub(r"\D", "", cpu_stream().target)), 10)

    @property
    def name(self) -> str:
        """The name of the GPU."""
        return driver.properties(self.id).name if driver.available() else "CPU"

    def reset(self) -> None:
        """Nothing is kept that could be given back."""

    def __enter__(self) -> Self:
        """The device is the current one in a `with` statement, and the one before it again at its end."""
        self._before.append(get_current_device())
        select_device(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        select_device(self._before.pop().id)


def get_current_device() -> GpuDevice:
    """The device of the current context."""
    return GpuDevice(driver.current_ordinal() if driver.available() else 0)


def select_device(device_id: int) -> GpuDevice:
    """Makes a GPU the current one."""
    if driver.available():
        driver.make_current(device_id)
    return GpuDevice(device_id)


def list_devices() -> list[GpuDevice]:
    """All devices; without a GPU there is one, the CPU."""
    return [GpuDevice(i) for i in range(driver.device_count() if driver.available() else 1)]


def detect() -> bool:
    """Prints the devices. There always is one: without a GPU, the CPU."""
    for each in list_devices():
        sys.stdout.write(f"id {each.id}    {each.name}, compute capability {each.compute_capability}\n")
    return True


class Devices:
    """All devices by their numbers: `with cuda.gpus[1]:`."""

    def __getitem__(self, device_id: int) -> GpuDevice:
        return list_devices()[device_id]

    def __iter__(self) -> Iterator[GpuDevice]:
        return iter(list_devices())

    def __len__(self) -> int:
        return len(list_devices())


gpus = Devices()


class GpuContext:
    """The context of a device."""

    def __init__(self) -> None:
        self.deallocations: list[Any] = []
        """Nothing waits to be freed: memory goes back to its pool at once."""


def current_context(devnum: int | None = None) -> GpuContext:
    """The context of the current device."""
    return GpuContext()


def close() -> None:
    """Does nothing: frameworks use the same context."""


def is_available() -> bool:
    """Whether there is a GPU; without one, kernels run on the CPU."""
    return driver.available()
