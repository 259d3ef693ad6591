"""The host part of `numba_compat`: arrays, streams, events, devices and the signatures of `jit`.

d = to_device([0.1, 0.2])                       a DeviceNDArray of float64 that wraps our DeviceArray
with stream().auto_synchronize() as s: ...      a stream of cuda.core, or, without a GPU, the CPU
parse("void(float32[:], int32)")                [(SignatureParameter(float32, 1), SignatureParameter(int32))]
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided

import cuda_device
from cuda_device import CpuStream, GpuStream, HostArray, Stream, as_array, cpu_stream, empty
from cuda_device.extend import array_view, as_stream, current_device, dataclass, driver, join, replace, with_layout
from cuda_device.plugins.numba.types_of_numba import number_of

__all__ = [
    "DeviceNDArray", "DeviceStream", "Devices", "GpuContext", "GpuDevice", "MemoryInfo", "StreamEvent", "as_cuda_array", "close",
    "current_context", "default_stream", "detect", "device_array", "device_array_like", "event", "event_elapsed_time",
    "external_stream", "get_current_device", "gpus", "is_available", "is_cuda_array", "legacy_default_stream",
    "list_devices", "managed_array", "mapped", "mapped_array", "mapped_array_like", "per_thread_default_stream",
    "pinned", "pinned_array", "pinned_array_like", "select_device", "stream", "synchronize", "to_device",
]  # fmt: skip


class DeviceNDArray:
    """An array on the device. It forwards unknown attributes to `array`, a `DeviceArray`."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)

    def __reduce__(self) -> Any:
        return DeviceNDArray, (self.array,)

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def _like(self, array: Any) -> DeviceNDArray:
        """An array of this class over a `DeviceArray`."""
        return DeviceNDArray(array)

    @property
    def gpu_data(self) -> int:
        """The address of the first element."""
        return int(array_view(self.array).data)

    def __getitem__(self, key: Any) -> Any:
        """Returns a view, or for a single element a number."""
        part = self.array[key]
        return self._like(part) if part.shape or key == () else part.numpy()[()]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copies an array or a number to a part of this array."""
        self.array[key] = value.array if isinstance(value, DeviceNDArray) else value

    def _through(self, change: Callable[[Any], Any]) -> DeviceNDArray:
        """Returns the view that `change` makes of a NumPy array of the same memory, which it must not access."""
        return self._like(with_layout(self.array, change))

    @property
    def T(self) -> DeviceNDArray:  # noqa: N802
        """A view with the axes reversed, or, as in numba, a copy if the elements are not contiguous."""
        return self.transpose()

    def transpose(self, axes: Any = None) -> DeviceNDArray:
        """Returns a view with permuted axes, or a copy if the elements are not contiguous."""
        if not self.flags.forc:
            return self._like(
                cuda_device.array(np.ascontiguousarray(self.array.numpy().transpose(axes)), stream=self.array.stream)
            )
        return self._through(lambda x: x.transpose(axes))

    def reshape(self, *shape: Any, order: str = "C") -> DeviceNDArray:
        """Returns a view of another shape. Raises `ValueError` if that needs a copy."""
        lengths = shape[0] if len(shape) == 1 else shape
        return self._through(lambda x: x.reshape(lengths, order=order, copy=False))

    def ravel(self, order: str = "C", stream: Any = 0) -> DeviceNDArray:
        """Returns the elements along one axis: a view if possible, otherwise a copy."""
        try:
            return self.reshape(-1, order=order)
        except ValueError:
            return self._like(cuda_device.array(self.array.numpy().ravel(order), stream=self.array.stream))

    def squeeze(self, axis: Any = None, stream: Any = 0) -> DeviceNDArray:
        """Returns a view without axes of length 1."""
        return self._through(lambda x: x.squeeze(axis))

    def view(self, dtype: Any) -> DeviceNDArray:
        """Returns a view with another dtype."""
        return self._through(lambda x: x.view(dtype))

    def split(self, section: int, stream: Any = 0) -> Iterator[DeviceNDArray]:
        """Yields views of at most `section` elements."""
        return (self[i : i + section] for i in range(0, len(self), section))

    def is_c_contiguous(self) -> bool:
        """Returns whether the array is C-contiguous."""
        return bool(self.flags["C_CONTIGUOUS"])

    def is_f_contiguous(self) -> bool:
        """Returns whether the array is Fortran-contiguous."""
        return bool(self.flags["F_CONTIGUOUS"])

    def bind(self, stream: Any = 0) -> DeviceNDArray:
        """Returns the array itself, because launches are ordered with the streams of their arrays."""
        return self

    @property
    def flags(self) -> Any:
        """NumPy's flags for an array of this layout: `flags["C_CONTIGUOUS"]`."""
        return _flags_of(self.array)

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """Copies the array to `ary` or a new array. Raises `ValueError` if the shapes and `TypeError` if the dtypes differ.

        With a stream, a copy to a pinned array (`pinned_array`) runs in the order of this stream: synchronize it before `ary`
        is read. Other copies have ended when this returns.
        """
        if ary is not None:
            if ary.shape != self.array.shape:
                raise ValueError(f"an array of shape {self.array.shape} does not fit one of shape {ary.shape}")
            if ary.dtype != self.array.dtype:
                raise TypeError(f"incompatible dtype: {self.array.dtype} vs. {ary.dtype}: convert the copy with astype")
            if self._copies_async(ary, stream):
                self._copy_async(ary.ctypes.data, self.gpu_data, ary, stream)
                return ary
        elements = self.array.numpy().copy()
        if ary is None:
            return elements
        ary[...] = elements
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Copies the elements of another array to this one. Raises `ValueError` if the shapes differ.

        With a stream, a copy from a pinned array of this dtype runs in the order of this stream: do not change the array before
        the stream is synchronized.
        """
        elements = ary.copy_to_host() if isinstance(ary, DeviceNDArray) else np.asanyarray(ary)
        if elements.shape != self.array.shape:
            raise ValueError(f"an array of shape {elements.shape} does not fit one of shape {self.array.shape}")
        if elements.dtype == self.array.dtype and self._copies_async(elements, stream):
            self._copy_async(self.gpu_data, elements.ctypes.data, elements, stream)
        else:
            self.array[...] = elements.astype(self.array.dtype)

    def _copies_async(self, ary: Any, stream: Any) -> bool:
        """Whether a copy between a host array and this one on the GPU can end later: the host array is pinned."""
        if _is_default(stream) or not isinstance(ary, HostArray) or isinstance(self.array.stream, CpuStream):
            return False
        return bool(ary.flags.c_contiguous and self.is_c_contiguous())

    def _copy_async(self, target: int, source: int, ary: HostArray, stream: Any) -> None:
        """Copies in the order of the stream, which waits for earlier work on the array; later work on the array waits for it."""
        where = stream_of(stream)
        assert isinstance(where, GpuStream)
        join([self.array.stream, where])
        with where.using():
            driver.copy(target, source, self.array.nbytes, where.handle)
        where.retain(ary, self.array)
        join([where, self.array.stream])


def _flags_of(ary: Any) -> Any:
    """NumPy's flags for an array with this shape and these strides."""
    return as_strided(np.empty((), ary.dtype), ary.shape, ary.strides).flags


def layout_of(ary: Any) -> str:
    """The layout of an array: "C", "F", or "" if it is not contiguous."""
    flags = _flags_of(ary)
    return "C" if flags.c_contiguous else "F" if flags.f_contiguous else ""


class DateNDArray(DeviceNDArray):
    """An array of dates or of time differences (`dtype`) on the device: `array` has their counts of units, which are int64."""

    def __init__(self, array: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(array)
        self.dtype = dtype

    def __reduce__(self) -> Any:
        return DateNDArray, (self.array, self.dtype)

    def _like(self, array: Any) -> DeviceNDArray:
        return DateNDArray(array, self.dtype)

    def __getitem__(self, key: Any) -> Any:
        """Returns a view, or for a single element a date."""
        part = super().__getitem__(key)
        return part if isinstance(part, DeviceNDArray) else part.view(self.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copies dates to a part of this array."""
        super().__setitem__(key, self._counts(value))

    def _counts(self, value: Any) -> Any:
        elements = value.copy_to_host() if isinstance(value, DeviceNDArray) else np.asanyarray(value)
        return counts_of(elements.astype(self.dtype))

    def view(self, dtype: Any) -> DeviceNDArray:
        """Returns a view with another dtype."""
        kind = np.dtype(dtype)
        return DateNDArray(self.array, kind) if _is_of_dates(kind) else DeviceNDArray(self.array).view(kind)

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """Copies the array to `ary` or a new array, like `DeviceNDArray.copy_to_host`."""
        if ary is None:
            return super().copy_to_host().view(self.dtype)
        if ary.dtype != self.dtype:
            raise TypeError(f"incompatible dtype: {self.dtype} vs. {ary.dtype}: convert the copy with astype")
        super().copy_to_host(ary.view(np.int64), stream)
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Copies dates to this array, like `DeviceNDArray.copy_to_device`."""
        super().copy_to_device(self._counts(ary), stream)


def _is_of_dates(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "mM"


def counts_of(value: Any) -> Any:
    """The int64 counts of units of NumPy's dates and time differences, in the same memory; any other value itself.

    Raises `ValueError` for NaT, which a kernel would take for a number.
    """
    if not _is_of_dates(getattr(value, "dtype", None)) or isinstance(value, DeviceNDArray):
        return value
    if np.isnat(value).any():
        raise ValueError("NaT cannot be passed to a kernel: replace such elements, and pass a mask of them")
    return value.view(np.int64)


def check_units(arguments: Sequence[Any]) -> None:
    """Raises `TypeError` if the dates and time differences among the arguments of a launch are in different units."""
    dtypes: list[Any] = [getattr(argument, "dtype", None) for argument in arguments]
    units = {np.datetime_data(dtype): dtype for dtype in dtypes if _is_of_dates(dtype)}
    if len(units) > 1:
        raise TypeError(
            f"kernels take dates and time differences of one unit, not {' and '.join(map(str, units.values()))}: convert them "
            "with astype"
        )


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> DeviceNDArray:
    """Copies an array, or anything that NumPy converts to one, to `to` or to a new array on the device."""
    if to is None and isinstance(obj, HostArray) and not _is_default(stream):
        to = device_array(obj.shape, obj.dtype, stream=stream)
    if to is not None:
        to.copy_to_device(obj, stream)
        return to  # type: ignore[no-any-return]
    if isinstance(obj, DeviceNDArray):
        return obj._like(cuda_device.array(obj.array, stream=stream_of(stream)))
    if _is_of_dates(getattr(obj, "dtype", None)):
        return DateNDArray(to_device(counts_of(obj), stream).array, obj.dtype)
    return DeviceNDArray(cuda_device.array(obj if hasattr(obj, "shape") else np.asarray(obj), stream=stream_of(stream)))


def device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
) -> DeviceNDArray:
    """Returns an uninitialised array on the device, in the order "C" or "F", or with strides in bytes.

    Raises `ValueError` for another order, and for strides that NumPy refuses, such as negative ones.
    """
    lengths, where, kind = _lengths(shape, order), stream_of(stream), np.dtype(dtype)
    if _is_of_dates(kind):
        return DateNDArray(device_array(shape, np.int64, strides, order, stream).array, kind)
    if strides is None:
        result = DeviceNDArray(empty(lengths if order == "C" else lengths[::-1], kind, stream=where))
        return result if order == "C" else result.T
    steps = (strides,) if isinstance(strides, int) else tuple(strides)
    nbytes = sum((length - 1) * step for length, step in zip(lengths, steps, strict=False)) + kind.itemsize
    memory = empty(max(nbytes, 0), np.uint8, stream=where)
    return DeviceNDArray(memory)._through(lambda x: np.ndarray(lengths, kind, x, strides=steps))


def _lengths(shape: Any, order: str) -> tuple[int, ...]:
    if order not in ("C", "F"):
        raise ValueError(f'order={order!r} is no order of elements: write "C" or "F"')
    return (shape,) if isinstance(shape, int) else tuple(shape)


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    """Returns an uninitialised array with the shape, dtype and order of another."""
    return device_array(ary.shape, ary.dtype, order=_order_of(ary), stream=stream)


def _order_of(ary: Any) -> str:
    return "F" if not ary.flags["C_CONTIGUOUS"] and abs(ary.strides[0]) < abs(ary.strides[-1]) else "C"


def _host_array(make: Any, shape: Any, dtype: Any, strides: Any, order: str) -> Any:
    if strides is not None:
        raise NotImplementedError('arrays of the host have no strides of their own: give order="C" or order="F"')
    lengths = _lengths(shape, order)
    return make(lengths, dtype) if order == "C" else make(lengths[::-1], dtype).T


def pinned_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    portable: bool = False,
    wc: bool = False,
) -> Any:
    """Returns a host array that a GPU can access (`cuda_device.pinned`). Launches do not copy it, but wait for the kernel."""
    return _host_array(cuda_device.pinned, shape, dtype, strides, order)


def pinned_array_like(ary: Any, stream: Any = 0, portable: bool = False, wc: bool = False) -> Any:
    """Like `pinned_array`, with the shape, dtype and order of another array."""
    return pinned_array(ary.shape, ary.dtype, order=_order_of(ary))


mapped_array, mapped_array_like = pinned_array, pinned_array_like


def managed_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    attach_global: bool = True,
) -> Any:
    """Like `pinned_array`, in memory that migrates between host and device (`cuda_device.managed`)."""
    return _host_array(cuda_device.managed, shape, dtype, strides, order)


@contextlib.contextmanager
def pinned(*arrays: Any, stream: Any = 0) -> Iterator[None]:
    """Does nothing: existing memory cannot be pinned."""
    yield


@contextlib.contextmanager
def mapped(*host: Any, stream: Any = 0) -> Iterator[Any]:
    """Returns host arrays as device arrays. At the end of the block, the host arrays have what kernels wrote."""
    where = stream_of(stream)
    views = [_viewed(ary, where) for ary in host]
    yield views[0] if len(views) == 1 else views
    where.synchronize()
    if not isinstance(where, CpuStream):
        for ary, view in zip(host, views, strict=True):
            view.copy_to_host(ary)


def _viewed(ary: Any, where: Stream) -> DeviceNDArray:
    if isinstance(where, CpuStream):
        return DeviceNDArray(as_array(ary, order="strided", stream=where))
    return to_device(ary, where)


def is_cuda_array(obj: Any) -> bool:
    """Returns whether an object is an array on the device."""
    return isinstance(obj, DeviceNDArray) or hasattr(obj, "__cuda_array_interface__")


def as_cuda_array(obj: Any) -> Any:
    """Returns an array of another library unchanged, because launches accept it."""
    return obj


class DeviceStream:
    """A stream: the default stream, one that `stream` created, or one of another library."""

    def __init__(self, ours: Stream, handle: int = 0) -> None:
        self.ours = ours
        self.handle = ours.handle or handle
        """The driver's handle of the stream; 0 on the CPU."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """cuda.core's protocol, by which other libraries take the stream: its version, and the handle."""
        return 0, self.handle

    def synchronize(self) -> None:
        """Waits for all work on the stream."""
        self.ours.synchronize()

    @contextlib.contextmanager
    def auto_synchronize(self) -> Iterator[DeviceStream]:
        """Waits for the stream at the end of the block."""
        yield self
        self.synchronize()

    def add_callback(self, callback: Callable[[Any, int, Any], object], arg: Any = None) -> None:
        """Waits for all work on the stream, then calls `callback(stream, 0, arg)`."""
        self.synchronize()
        callback(self, 0, arg)


def stream() -> DeviceStream:
    """Creates a stream on the current device, or, without a GPU, returns that of the CPU.

    As in numba, its work runs beside that of other streams, except for the legacy default stream, with which it is ordered.
    """
    return DeviceStream(as_stream(_new_stream() if driver.available() else None))


def _new_stream() -> Any:
    """A stream of cuda.core on the current device."""
    core = driver.cuda_core()
    return current_device(core).create_stream(options=core.StreamOptions(nonblocking=False))


def external_stream(ptr: int) -> DeviceStream:
    """Returns the stream with this driver handle, or, without a GPU, the CPU's stream with this handle."""
    return DeviceStream(as_stream(ptr if driver.available() else None), ptr)


def legacy_default_stream() -> DeviceStream:
    """Returns the legacy default stream, on which launches without a stream run, or, without a GPU, that of the CPU."""
    return DeviceStream(as_stream(None))


default_stream = legacy_default_stream


def per_thread_default_stream() -> DeviceStream:
    """Returns the default stream of the calling thread, or, without a GPU, that of the CPU."""
    return external_stream(2)


def stream_of(stream: Any) -> Stream:
    """Returns our stream for a stream of numba; 0 is the default stream."""
    if isinstance(stream, DeviceStream):
        return stream.ours
    return as_stream(None if _is_default(stream) else stream)


def _is_default(stream: Any) -> bool:
    """Whether no stream was given, with which copies are synchronous."""
    return stream is None or (type(stream) is int and stream == 0)


class StreamEvent:
    """A point in a stream, created by `event()`: the end of the work that precedes `record`."""

    def __init__(self, timing: bool = True) -> None:
        self._timing, self._seconds = timing, 0.0
        self._event = self._context = 0

    def record(self, stream: Any = 0) -> None:
        """Records the event after the work that is now on the stream; on the CPU this work has already ended."""
        where = stream_of(stream)
        self._seconds = time.perf_counter()
        if isinstance(where, GpuStream):
            with where.using():
                self._event = self._event or driver.create_event(self._timing)
                self._context = where.context
                driver.record_event(self._event, where.handle)

    def query(self) -> bool:
        """Returns whether the event has occurred."""
        return not self._event or driver.event_done(self._event)

    def synchronize(self) -> None:
        """Waits until the event has occurred."""
        if self._event:
            driver.synchronize_event(self._event)

    def wait(self, stream: Any = 0) -> None:
        """Makes later work on the stream wait for the event."""
        where = stream_of(stream)
        if self._event and isinstance(where, GpuStream):
            with where.using():
                driver.wait_event(where.handle, self._event)

    def elapsed_time(self, evtend: StreamEvent) -> float:
        """Returns the milliseconds from this event to another."""
        if self._event and evtend._event:
            evtend.synchronize()
            return driver.seconds_between(self._event, evtend._event) * 1e3
        return (evtend._seconds - self._seconds) * 1e3

    def __del__(self) -> None:
        if self._event and not sys.is_finalizing():
            with contextlib.suppress(Exception), driver.using(self._context):
                driver.destroy_event(self._event)


event, event_elapsed_time = StreamEvent, StreamEvent.elapsed_time


def synchronize() -> None:
    """Waits for all work on the stream."""
    as_stream(None).synchronize()


class GpuDevice:
    """A GPU, or, without one, the CPU."""

    def __init__(self, id: int = 0) -> None:
        self.id = id
        self._before: list[GpuDevice] = []

    @property
    def compute_capability(self) -> tuple[int, int]:
        """The compute capability; on the CPU, that of the architecture that the CPU stream emulates."""
        if driver.available():
            return driver.properties(self.id).capability
        return divmod(int(re.sub(r"\D", "", cpu_stream().target)), 10)

    @property
    def name(self) -> str:
        """The name of the GPU."""
        return driver.properties(self.id).name if driver.available() else "CPU"

    def reset(self) -> None:
        """Does nothing."""

    def __enter__(self) -> Self:
        """Makes this the current device until the end of the block."""
        self._before.append(get_current_device())
        select_device(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        select_device(self._before.pop().id)


def get_current_device() -> GpuDevice:
    """Returns the current device."""
    return GpuDevice(driver.current_ordinal() if driver.available() else 0)


def select_device(device_id: int) -> GpuDevice:
    """Makes a GPU the current device, and returns it."""
    if driver.available():
        driver.make_current(device_id)
    return GpuDevice(device_id)


def list_devices() -> list[GpuDevice]:
    """Returns all devices, or, without a GPU, only the CPU."""
    return [GpuDevice(i) for i in range(driver.device_count() if driver.available() else 1)]


def detect() -> bool:
    """Prints the devices, and returns True, because there is always the CPU."""
    for device in list_devices():
        sys.stdout.write(f"id {device.id}    {device.name}, compute capability {device.compute_capability}\n")
    return True


class Devices:
    """The devices by their numbers: `with cuda.gpus[1]:`."""

    def __getitem__(self, device_id: int) -> GpuDevice:
        return list_devices()[device_id]

    def __len__(self) -> int:
        return len(list_devices())


gpus = Devices()


class MemoryInfo(NamedTuple):
    """The free and the total memory in bytes."""

    free: int
    total: int


class GpuContext:
    """The context of a device."""

    def __init__(self, id: int = 0) -> None:
        self.id = id
        """The number of the device."""
        self.deallocations: list[Any] = []
        """Always empty, because freed memory returns to its pool immediately."""

    def get_memory_info(self) -> MemoryInfo:
        """Returns the free and the total memory of the GPU in bytes, or, without a GPU, those of this machine.

        Freed memory that the driver keeps in its pool for later arrays is not free.
        """
        if not driver.available():
            pages = [os.sysconf(name) for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES")]
            return MemoryInfo(*(count * os.sysconf("SC_PAGE_SIZE") for count in pages))
        with driver.using(driver.context_of(self.id)):
            return MemoryInfo(*driver.check(driver.bindings().cuMemGetInfo(), "asking for the free memory"))


def current_context(devnum: int | None = None) -> GpuContext:
    """Returns the context of a device, by default of the current one."""
    return GpuContext(get_current_device().id if devnum is None else devnum)


def close() -> None:
    """Does nothing, because other libraries use the same context."""


is_available = driver.available


# The signatures of `jit`

NAMES = {
    **{f"{kind}{bits // 8}": f"{name}{bits}" for kind, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
    "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128", "b1": "bool_",
    "boolean": "bool_", "byte": "uint8", "intp": "int64", "uintp": "uint64", "size_t": "uint64", "ssize_t": "int64",
    "intc": "int32", "uintc": "uint32", "int_": "int64", "double": "float64", "char": "int8", "uchar": "uint8",
    "short": "int16", "ushort": "uint16", "long_": "int64", "ulong": "uint64", "longlong": "int64", "ulonglong": "uint64",
}  # fmt: skip
"""Numba's names for number types that NumPy does not have, or has for other types."""


@dataclass(frozen=True, slots=True)
class SignatureParameter:
    """A parameter: a number of `type`, an array of `ndim` axes of it, or anything if `type` is None.

    `layout` is that of an argument, "C" or "F" for contiguous arrays. Signatures do not ask for a layout.
    """

    type: Any = None
    ndim: int | None = None
    layout: str = ""

    def __str__(self) -> str:
        steps = [":"] * (self.ndim or 0)
        if steps and self.layout:
            steps[-1 if self.layout == "C" else 0] = "::1"
        axes = "" if self.ndim is None else f"[{', '.join(steps)}]"
        return "…" if self.type is None else np.dtype(self.type).name + axes

    __repr__ = __str__

    def __getitem__(self, axes: Any) -> SignatureParameter:
        """An array type: `float32[:, :]`."""
        lengths = axes if isinstance(axes, tuple) else (axes,)
        if not all(isinstance(axis, slice) and axis.start is axis.stop is None for axis in lengths):
            raise TypeError("an axis is written as a colon")
        return replace(self, ndim=len(lengths))

    def __call__(self, *parameters: Any) -> SimpleNamespace:
        """A signature with this result, like a signature object of numba."""
        return SimpleNamespace(args=parameters, return_type=self)

    def fits(self, value: Any) -> bool:
        """Returns whether an argument matches: any number, or an array of this dtype. As in numba, signedness is ignored."""
        if self.type is None:
            return True
        shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", None)
        if self.ndim is None:
            return shape == () and not isinstance(value, (tuple, list))
        expected = np.dtype(self.type)
        same = dtype == expected or (
            dtype is not None and dtype.kind in "iu" and expected.kind in "iu" and dtype.itemsize == expected.itemsize
        )
        return len(shape) == self.ndim and same


Signature = tuple[SignatureParameter, ...]


def parse(notation: Any) -> list[Signature]:
    """Returns the signatures in text or in objects of numba, or in a list of these. Raises `TypeError` for anything else.

    A parameter that is neither a number nor an array, such as a tuple, accepts anything.
    """
    if notation is None:
        return []
    notations = notation if isinstance(notation, list) else [notation]
    return [_signature(signature) for signature in notations]


def choose(signatures: Sequence[Signature], arguments: Sequence[Any], name: str) -> Signature:
    """Returns the first signature that the arguments match. Raises `TypeError` if there is none."""
    for signature in signatures:
        if len(signature) == len(arguments) and all(p.fits(a) for p, a in zip(signature, arguments, strict=True)):
            return signature
    if not signatures:
        return ()
    kinds = ", ".join(_shown(argument) for argument in arguments)
    expected = " or ".join(f"({', '.join(map(str, signature))})" for signature in signatures)
    raise TypeError(
        f"No matching definition for argument type(s) {kinds}: the signature of {name} is {expected}\n"
        "  help: convert the arrays with astype, or leave the signature out"
    )


def _shown(value: Any) -> str:
    dtype, ndim = getattr(value, "dtype", None), len(getattr(value, "shape", ()))
    return type(value).__name__ if dtype is None else str(SignatureParameter(dtype, ndim or None))


class _Names(dict[str, Any]):
    """The names in the text of a signature: numbers; `void` and types such as `UniTuple(int32, 2)` stand for anything."""

    def __missing__(self, name: str) -> Any:
        if name[0].isupper():
            return lambda *_: SignatureParameter()
        if name in ("void", "none"):
            return SignatureParameter()
        with contextlib.suppress(TypeError):
            if (dtype := np.dtype(NAMES.get(name, name))).kind in "biufc":
                return SignatureParameter(dtype.type)
        raise TypeError(f"{name} is not a type of numba")


def _read(notation: Any) -> Any:
    """Evaluates the text of a signature, as numba does, to objects like those of numba."""
    return eval(notation.strip(), {"__builtins__": {}}, _Names()) if isinstance(notation, str) else notation


def _signature(notation: Any) -> Signature:
    reason = ""
    try:
        read = _read(notation)
        parts = (read,) if isinstance(read, SignatureParameter) else getattr(read, "args", read)
        if isinstance(parts, tuple):
            return tuple(map(_parameter, parts))
    except (SyntaxError, TypeError) as error:
        reason = f": {error.msg if isinstance(error, SyntaxError) else error}"
    raise TypeError(
        f"{notation!r} is not a signature of a kernel{reason}\n"
        '  help: write "void(float32[:, :], int32)", the same in a tuple, a list of such texts, or numba\'s types'
    )


def _parameter(part: Any) -> SignatureParameter:
    part = _read(part)
    if isinstance(part, SignatureParameter):
        return part
    is_array = hasattr(part, "ndim") and not isinstance(part, (type, np.dtype))  # numba's tuples have a dtype, too
    number = _number(part.dtype if is_array else part)
    return SignatureParameter(number, part.ndim if is_array and number is not None else None)


def _number(type_: Any) -> Any:
    return type_ if isinstance(type_, type) and issubclass(type_, np.generic) else number_of(type_)


def result_of(notation: Any) -> Any:
    """Returns the result type of a signature, a NumPy scalar type, or None if that is no number."""
    result = _parameter(getattr(_read(notation), "return_type", None))
    return result.type if result.ndim is None else None
