"""`DeviceArray`: a minimal array on a stream's device, which carries data to kernels and back.

It has no arithmetic, but NumPy, CuPy and PyTorch can use it through DLPack, without a copy. On a CPU stream it is in host memory.

    x = array([1.0, 2.0, 3.0])              # float32, on the default stream's device
    y = empty(3, stream=stream)
    y[:2] = [4.0, 5.0]                      # copies from the host, or from another array
    ...launch(f, y, x, grid=1, block=3, stream=stream)...
    y.numpy()                               # waits for the stream and copies to the host
    y[1:].numpy()                           # copies a part of it
    as_array(weights, 4).shape              # (1, 1, 32, 64): views a tensor of torch, whose memory it shares
"""

from __future__ import annotations

import itertools
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuda_device.errors import CallError, Error, LaunchError
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.arrays import array_interface
from cuda_device.runtime.arrays.array_interface import check_memory, named_view, view_of
from cuda_device.runtime.arrays.array_view import ArrayView, Device, c_strides, layout_of, numpy_over
from cuda_device.runtime.arrays.buffers import GpuMemory, HostMemory, allocate, download
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import CpuStream, GpuStream, Stream, as_stream, join
from cuda_device.types.host import dtype_of, dtype_of_type, element_of, element_of_dtype, is_struct, model_of, vector_of
from cuda_device.types.layout import pointee_of
from cuda_device.types.model import Layout

Shape = int | Sequence[int]
_MOST_BYTES = 1 << 62
_EDGE = 3
"""The number of elements that `repr` shows at each end of an axis of a large array, as in NumPy."""
_NO_COMPARISON = (
    "a DeviceArray does not support == and !=: write np.array_equal(a.numpy(), b.numpy()) to compare the elements on the host, "
    "or `a is b` to compare the objects"
)
_BLOCK = 1 << 16
"""The number of elements that are copied from the host to fill an array."""


class DeviceArray:
    """An array in the memory of a stream's device, created by `array`, `empty`, `zeros`, `full` and others.

    New arrays are C-contiguous. A part of an array, such as `x[1:3]` or `x[:, ::2]`, shares its memory and may have gaps
    between its elements, as may the results of `as_array`. The memory is freed in stream order once the array and everything
    that shares its memory through DLPack are gone.
    """

    __slots__ = ("__weakref__", "_dtype", "_memory", "_stream", "_view", "_words")

    def __init__(
        self, memory: HostMemory | GpuMemory, shape: tuple[int, ...], dtype: np.dtype[Any], stream: Stream
    ) -> None:
        self._memory: Any = memory
        """The owner of the memory, which may be an array of another library (see `as_array`)."""
        self._dtype, self._stream = dtype, stream
        self._show(
            ArrayView(
                data=memory.address,
                shape=shape,
                strides=c_strides(shape, dtype.itemsize),
                element=element_of_dtype(dtype),
                device=Device.CUDA if isinstance(stream, GpuStream) else Device.HOST,
                ordinal=stream.ordinal if isinstance(stream, GpuStream) else 0,
                keep_alive=memory,
                stream=stream.handle,
            )
        )

    @classmethod
    def over(cls, view: ArrayView, stream: Stream, dtype: np.dtype[Any] | None = None) -> DeviceArray:
        """Returns an array over the memory that `view` describes, which `stream`'s device can access; nothing is copied."""
        array = object.__new__(cls)
        array._memory, array._stream = view.keep_alive, stream
        array._dtype = dtype_of_type(view.element) if dtype is None else dtype
        array._show(view)
        return array

    def _show(self, view: ArrayView) -> None:
        self._view = view
        self._words = b""
        """For launchers in machine code, of a C-contiguous array on a GPU: address, stream, context, element type, lengths."""
        plain = view.layout is Layout.C and not view.shortfall and not view.readonly
        if isinstance(self._stream, GpuStream) and plain:
            head = view.data, view.stream, self._stream.context, id(view.element)
            self._words = struct.pack(f"=4Q{len(view.shape)}q", *head, *view.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._view.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self._dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance in bytes between neighbouring elements along each axis."""
        return self._view.strides

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._view.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._view.size

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self.size * self._dtype.itemsize

    @property
    def itemsize(self) -> int:
        """The size of one element in bytes."""
        return self._dtype.itemsize

    @property
    def stream(self) -> Stream:
        """The stream whose device holds the memory. The memory is copied and freed in the order of that stream."""
        return self._stream

    def join_producer(self) -> None:
        """Orders the array's stream with the stream of its library (see `as_array`), with which launches are ordered."""
        stream, producer = self._stream, self._view.stream
        if producer in (None, stream.handle):
            return
        if isinstance(stream, GpuStream):
            join([stream, GpuStream(producer, stream.ordinal, context=stream.context)])
        else:  # pinned memory
            _await_producer(self._view)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns a copy as a NumPy array. Waits for the stream; raises `KernelError` if a kernel corrupted the GPU's context."""
        self.join_producer()
        if isinstance(self._stream, GpuStream):
            with self._stream.using():
                elements = download(self._view, self._stream.handle)
        else:
            elements = numpy_over(self._view).copy()
        return elements.astype(self._dtype, copy=False)  # only the titles of members can differ

    def item(self) -> Any:
        """Returns the only element. Waits for the stream. Raises `ValueError` unless there is exactly one."""
        return self.numpy().item()

    def fill(self, value: Any) -> None:
        """Sets all elements to `value`: a number, or a struct or vector of the element type.

        Runs in stream order. Raises what `array(value, self.dtype)` raises.
        """
        self[...] = value

    def copy(self) -> DeviceArray:
        """Returns a C-contiguous copy on the same stream, in whose order the elements are copied."""
        result = _new(self.shape, self._dtype, self._stream, zero=False)
        _copy(self._view, result)
        return result

    def astype(self, dtype: Any) -> DeviceArray:
        """Returns a C-contiguous copy with elements of another type, on the same stream.

        Converts as NumPy's `astype`, on the host; the copies run in stream order. Raises `TypeError` for a dtype that device
        code does not support, and for complex elements with a real `dtype`.
        """
        return array(self, dtype, stream=self._stream)

    def reshape(self, *shape: Any) -> DeviceArray:
        """Returns the elements, in C order, with another shape: ints or a tuple of ints, of which one may be -1.

        Shares the memory where the strides allow that, and returns a copy otherwise, as NumPy does. Raises `TypeError` or
        `ValueError` for a shape that does not fit the number of elements.
        """
        lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        try:
            return with_layout(self, lambda elements: elements.reshape(lengths, copy=False))
        except ValueError:
            if self._view.layout is Layout.C:
                raise
        return self.copy().reshape(lengths)

    def __getitem__(self, key: Any) -> DeviceArray:
        """Returns the part that `key` selects by NumPy's basic indexing (ints, slices, `...`, None). It shares the memory.

        A single element is a 0-d array: `x[3].item()` is its value, and `f"{x[3]:.2f}"` formats it. Raises `IndexError` for
        other keys and for an index out of bounds.
        """
        return with_layout(self, lambda elements: elements[_basic(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copies `value` to the part that `key` selects: an array of any library, nested lists, or a number for all elements.

        Copies in stream order; the source may change immediately after the call. Raises what `array(value, self.dtype)` raises,
        `ValueError` for a shape that does not fit or a read-only array, and `IndexError` as for reading.
        """
        part = self[key]
        if part._view.readonly:
            raise ValueError("the array is read-only: write to a copy, device.array(x)")
        view = view_of(value, driver.LEGACY_STREAM)
        if view is None:
            _store(_from_python(value, self._dtype), part)
        else:
            _copy(view, part)

    def _cuda_device_view_(self) -> ArrayView:
        return self._view

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device: (1, 0) for host memory, (2, ordinal) for GPU memory."""
        from cuda_device.runtime.arrays import dlpack

        return dlpack.DEVICE_CODES[self._view.device], self._view.ordinal

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Returns a DLPack capsule (Python Array API, `__dlpack__`).

        `stream` is the consumer's, which waits for this array's: None or 1 is the legacy default stream, 2 the per-thread one,
        and -1 does not wait. `dl_device` may request a copy on the host. Raises `BufferError` for another device, or if
        `copy=False` is impossible, and `ValueError` for an invalid stream.
        """
        from cuda_device.runtime.arrays import dlpack

        here = self.__dlpack_device__()
        there = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if there == here:
            source = array(self, stream=self._stream) if copy else self
            source._order_consumer(stream)
            return dlpack.export(source._view, max_version, copied=bool(copy))
        if there != (dlpack.DEVICE_CODES[Device.HOST], 0):
            raise BufferError(
                f"this array is on DLPack device {here} and can only be copied to the host (1, 0), not to {there}"
            )
        if copy is False:
            raise BufferError("copy=False, but moving an array from the GPU to the host needs a copy")
        return dlpack.export(array(self, stream=CpuStream())._view, max_version, copied=True)

    def _order_consumer(self, stream: int | None) -> None:
        """Makes the consumer's stream wait for the array's."""
        if not isinstance(self._stream, GpuStream):
            if stream is not None:
                raise ValueError(f"stream={stream!r} for an array in host memory: pass None")
            self.join_producer()
            return
        if stream is not None and (not isinstance(stream, int) or stream < -1 or stream == 0):
            raise ValueError(
                f"stream={stream!r}: pass None or 1 (legacy default), 2 (per-thread default), -1 or a handle"
            )
        consumer = driver.LEGACY_STREAM if stream is None else stream
        if consumer != self._view.stream and isinstance(self._memory, GpuMemory):
            self._memory.used_elsewhere = True
        if consumer != -1:
            self.join_producer()
            with self._stream.using():
                driver.order((self._stream.handle,), (consumer,))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA Array Interface, version 3. Raises `AttributeError` for an array in host memory."""
        if isinstance(self._stream, GpuStream):
            return array_interface.produce(self._view)
        raise AttributeError("an array in host memory has no __cuda_array_interface__: use np.asarray or DLPack")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Returns a NumPy array: the memory itself on the CPU, unless `copy` is true, and a copy from a GPU.

        Raises `ValueError` if `copy=False` is impossible.
        """
        target = self._dtype if dtype is None else np.dtype(dtype)
        if isinstance(self._stream, GpuStream):
            if copy is False:
                raise ValueError("copy=False, but moving an array from the GPU to the host needs a copy")
            return self.numpy().astype(target, copy=False)
        if copy is False and target != self._dtype:
            raise ValueError(f"copy=False, but converting {self._dtype} to {target} needs a copy")
        self.join_producer()
        return numpy_over(self._view).astype(target, copy=bool(copy))

    def __eq__(self, other: object) -> bool:
        raise TypeError(_NO_COMPARISON)

    def __ne__(self, other: object) -> bool:
        raise TypeError(_NO_COMPARISON)

    __hash__ = object.__hash__

    def __format__(self, spec: str) -> str:
        """Formats a 0-d array as its element, for which this waits for the stream. Other arrays take no `spec`."""
        if self.ndim:
            return super().__format__(spec)
        element = self.numpy()[()]
        return format(element, spec) if spec else str(element)

    def __len__(self) -> int:
        if not self._view.shape:
            raise TypeError("a 0-d array has no len()")
        return self._view.shape[0]

    def __repr__(self) -> str:
        """Shows the elements as NumPy does; only those that are shown are copied. Waits for the stream.

        While the stream is captured, and if the memory cannot be read after an error, only the shape is shown.
        """
        text, trouble = self._shown("DeviceArray(")
        if trouble:
            return f"<DeviceArray shape={self.shape} dtype={self._dtype} device='{self._device}', {trouble}>"
        shape = f", shape={self.shape}" if self._is_long or (not self.size and self.shape != (0,)) else ""
        return f"DeviceArray({text}{shape}, dtype={self._dtype}, device='{self._device}')"

    def _repr_html_(self) -> str:
        """Shows shape, dtype, device and elements in notebooks."""
        from html import escape

        facts = {"shape": self.shape, "dtype": self._dtype, "device": self._device}
        rows = "".join(f"<tr><th>{name}</th><td>{escape(str(fact))}</td></tr>" for name, fact in facts.items())
        return f"<table>{rows}</table><pre>{escape(''.join(self._shown('')))}</pre>"

    @property
    def _device(self) -> str:
        return f"cuda:{self._stream.ordinal}" if isinstance(self._stream, GpuStream) else "cpu"

    @property
    def _is_long(self) -> bool:
        """Whether `repr` does not show all elements."""
        return self.size > np.get_printoptions()["threshold"]

    def _shown(self, prefix: str) -> tuple[str, str]:
        """The elements as text after a prefix, and the reason why they cannot be read; one of them is empty."""
        if isinstance(self._stream, GpuStream) and driver.is_capturing(self._stream.handle):
            return "", "whose stream is being captured"
        try:
            elements = self._corners() if self._is_long else self.numpy()
        except Error as error:
            return "", f"unreadable: {error}"
        most = 0 if self._is_long else max(self.size, 1)
        return np.array2string(elements, separator=", ", prefix=prefix, threshold=most, edgeitems=_EDGE), ""

    def _corners(self) -> np.ndarray[Any, Any]:
        """The elements at both ends of each axis, one more than is shown, so that NumPy writes `...`."""
        parts = [(slice(_EDGE), slice(-_EDGE - 1, None)) if n > 2 * _EDGE else (slice(None),) for n in self.shape]
        corners = np.empty([min(n, 2 * _EDGE + 1) for n in self.shape], self._dtype)
        for index in itertools.product(*parts):
            corners[index] = self[index].numpy()
        return corners

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies the elements. The copy of an array on a GPU is on the default stream's device."""
        return _rebuild, (self.numpy(), isinstance(self._stream, CpuStream))


def with_layout(array: DeviceArray, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> DeviceArray:
    """Returns the view of an array that `change` makes of a NumPy array at the same address, which may be in GPU memory.

    `change` must not access the elements. Raises what it raises, and `TypeError` if device code does not support the dtype of
    its result.
    """
    part = change(numpy_over(array._view))
    element = array._view.element if part.dtype == array.dtype else element_of_dtype(part.dtype)
    address = part.__array_interface__["data"][0] if part.size else 0
    view = replace(array._view, data=address, shape=part.shape, strides=part.strides, element=element)
    return DeviceArray.over(view, array.stream, part.dtype)


def _rebuild(elements: np.ndarray[Any, Any], on_cpu: bool) -> DeviceArray:
    return array(elements, stream=CpuStream() if on_cpu else None)


def _basic(key: Any) -> tuple[Any, ...]:
    """The tuple of a key of basic indexing, with `...`, so that NumPy returns an array."""
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if isinstance(part, (bool, np.bool_, np.ndarray)) or not (
            part is None or part is Ellipsis or isinstance(part, slice) or hasattr(part, "__index__")
        ):
            raise IndexError(f"{part!r} is not an index of a DeviceArray: give ints, slices, ... or None")
    return parts if Ellipsis in parts else (*parts, ...)


def _copy(source: ArrayView, target: DeviceArray) -> None:
    """Copies the elements of any array to an array, whose shape they are broadcast to."""
    stream, is_ours = target.stream, type(source.keep_alive) is GpuMemory
    if not (isinstance(stream, GpuStream) and source.device is Device.CUDA and _has_same_bytes(source, target)):
        _store(_to_host(source, target.dtype), target)
        return
    producer = GpuStream(source.stream or driver.LEGACY_STREAM, source.ordinal)
    if stream.is_captured or producer.is_captured:
        raise LaunchError(
            "arrays cannot be copied while a stream is being captured", "copy before, or by a kernel in the graph"
        )
    if source.ordinal != stream.ordinal and driver.can_access_peer(stream.ordinal, source.ordinal):
        driver.open_pool(source.ordinal, stream.ordinal)
    target.join_producer()
    if is_ours:
        join([producer, stream])
    else:
        _await_producer(source)
    with stream.using():
        driver.copy(target._view.data, source.data, target.nbytes, stream.handle)
        if not is_ours:
            driver.synchronize_stream(stream.handle)
    target.join_producer()
    if is_ours:  # the source is freed in the order of its stream
        join([producer, stream])


def _has_same_bytes(source: ArrayView, target: DeviceArray) -> bool:
    """Whether `source` has the bytes that the target shall have, without gaps, and in other memory."""
    (low, high), (start, end) = source.extent, target._view.extent
    return (
        source.shape == target.shape
        and source.layout is target._view.layout is Layout.C
        and source.element == target._view.element
        and (high <= start or end <= low)
    )


def _store(source: np.ndarray[Any, Any], target: DeviceArray) -> None:
    """Copies elements in host memory to an array, whose shape they are broadcast to. They may change afterwards."""
    elements, view, stream = np.broadcast_to(source, target.shape), target._view, target.stream
    if not target.size:
        return
    target.join_producer()
    if not isinstance(stream, GpuStream):
        numpy_over(target._view)[...] = elements
        return
    with stream.using():
        if view.layout is not Layout.C:  # the gaps between the elements keep their contents
            whole = download(view, stream.handle)
            whole[...] = elements
            low, high = view.extent
            _upload(whole.ctypes.data - (view.data - low), low, high - low, stream)
        elif source.ndim:
            repeated = np.ascontiguousarray(elements)
            _upload(repeated.ctypes.data, view.data, target.nbytes, stream)
        else:
            # Fill with one element: copy a block from the host, and then double it on the GPU.
            block = np.full(min(target.size, _BLOCK), source)
            done = block.nbytes
            _upload(block.ctypes.data, view.data, done, stream)
            while done < target.nbytes:
                nbytes = min(done, target.nbytes - done)
                driver.copy(view.data + done, view.data, nbytes, stream.handle)
                done += nbytes
    target.join_producer()


def _upload(source: int, target: int, nbytes: int, stream: GpuStream) -> None:
    """Copies from the host synchronously."""
    driver.copy(target, source, nbytes, stream.handle)
    driver.synchronize_stream(stream.handle)


def empty(shape: Shape, dtype: Any = np.float32, *, stream: Any = None, memory: Any = None) -> DeviceArray:
    """Creates an array on `stream`'s device. Its initial contents are unspecified.

    `dtype` is a NumPy dtype or scalar type, or Python's bool, int (int32), float (float32) or complex (complex64). `memory` is
    a `cuda.core.MemoryResource`, which the array keeps alive: it allocates and frees the array's memory in the order of
    `stream`. Without it, the memory comes from the GPU's default pool. Raises `TypeError` for a dtype that device code does not
    support, `ValueError` for an invalid shape, and `LaunchError` for an invalid stream, if there is not enough memory, and for
    a `memory` with a CPU stream or of another device.
    """
    return _new(shape, dtype_of(dtype), as_stream(stream), memory, zero=False)


def zeros(shape: Shape, dtype: Any = np.float32, *, stream: Any = None, memory: Any = None) -> DeviceArray:
    """Creates an array of zeros on `stream`'s device. `dtype`, `memory` and errors are those of `empty`."""
    return _new(shape, dtype_of(dtype), as_stream(stream), memory, zero=True)


def full(shape: Shape, value: Any, dtype: Any = None, *, stream: Any = None, memory: Any = None) -> DeviceArray:
    """Creates an array on `stream`'s device whose elements are all `value`: a number, a struct or a vector.

    Without `dtype` the elements have the type that they would have in `array(value)`. `memory` is that of `empty`. Raises what
    `array` and `empty` raise.
    """
    element = array(value, dtype, stream=CpuStream())
    if element.ndim:
        raise TypeError(f"full takes one value, not an array of the shape {element.shape}")
    result = _new(shape, element.dtype, as_stream(stream), memory, zero=False)
    _store(element.numpy(), result)
    return result


def empty_like(x: Any, dtype: Any = None, *, stream: Any = None, memory: Any = None) -> DeviceArray:
    """Creates an array with the shape and, unless `dtype` is given, the dtype of `x`. Its initial contents are unspecified.

    It is on `stream`'s device. The default is the stream of `x` if that is a `DeviceArray`, and otherwise the default stream.
    `memory` is that of `empty`. Raises `TypeError` if `x` is not an array, and what `empty` raises.
    """
    return _like(x, dtype, stream, memory, zero=False)


def zeros_like(x: Any, dtype: Any = None, *, stream: Any = None, memory: Any = None) -> DeviceArray:
    """Creates an array of zeros with the shape and dtype of `x`. The parameters and errors are those of `empty_like`."""
    return _like(x, dtype, stream, memory, zero=True)


def _like(x: Any, dtype: Any, stream: Any, memory: Any, *, zero: bool) -> DeviceArray:
    view = view_of(x, -1)
    if view is None:
        raise TypeError(f"an object of type {type(x).__qualname__} is not an array: write empty(shape, dtype)")
    if stream is None and isinstance(x, DeviceArray):
        stream = x.stream
    dtype = dtype_of_type(view.element) if dtype is None else dtype_of(dtype)
    return _new(view.shape, dtype, as_stream(stream), memory, zero=zero)


def array(obj: Any, dtype: Any = None, *, stream: Any = None, memory: Any = None) -> DeviceArray:
    """Creates an array on `stream`'s device with a copy of `obj`'s elements.

    `obj` is an array of any library (DLPack, CUDA Array Interface, NumPy, buffers), or nested lists of numbers, or of structs
    or vectors of one type. Without `dtype`, arrays keep their dtype, and Python numbers get the type that they have in device
    code: bool, int32, float32 or complex64. `memory` is that of `empty`. Raises `TypeError` for element types that device code
    does not support and for complex numbers with a real `dtype`, `OverflowError` for an int that does not fit, and what `empty`
    raises.
    """
    target = as_stream(stream)
    dtype = None if dtype is None else dtype_of(dtype)
    # On the legacy stream, because the array may be on another device than the target.
    view = view_of(obj, driver.LEGACY_STREAM)
    if view is None:
        elements = _from_python(obj, dtype)
        result = _new(elements.shape, elements.dtype, target, memory, zero=False)
        _store(elements, result)
    else:
        if dtype is None:
            is_record = isinstance(obj, np.ndarray) and obj.dtype.fields is not None  # whose dtype may have titles
            dtype = obj.dtype if is_record else dtype_of_type(view.element)
        result = _new(view.shape, dtype, target, memory, zero=False)
        _copy(view, result)
    return result


def _new(shape: Shape, dtype: np.dtype[Any], stream: Stream, memory: Any = None, *, zero: bool) -> DeviceArray:
    lengths = shape_of(shape)
    nbytes = dtype.itemsize
    for length in lengths:
        nbytes *= length
    if nbytes > _MOST_BYTES:
        raise ValueError(f"the shape {lengths} of {dtype} takes {nbytes} bytes, more than any memory has")
    return DeviceArray(allocate(nbytes, stream, zero=zero, resource=memory), lengths, dtype, stream)


def array_view(array: Any, name: str = "array") -> ArrayView:
    """What kernels get of an array: its address, lengths, strides in bytes, type, device and stream, and what owns the memory.

    `array` is an array of any library, and `name` its name in messages. No stream waits for the library, so that the memory may
    be used by launches that have the array as an argument. Raises what `as_array` does for other objects.
    """
    return array._view if isinstance(array, DeviceArray) else _view_for(array, name, _UNORDERED)


def shape_of(shape: Shape) -> tuple[int, ...]:
    """The lengths of the axes. Raises `TypeError` or `ValueError` for an invalid shape."""
    try:
        lengths = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(operator.index(n) for n in shape)
    except TypeError as error:
        raise TypeError(f"the shape {shape!r} is neither an int nor a sequence of ints") from error
    if any(length < 0 for length in lengths):
        raise ValueError(f"the shape {lengths} has a negative length")
    return lengths


def _await_producer(view: ArrayView) -> None:
    """Waits for the stream that may still write to the array."""
    with driver.using(driver.context_of(view.ordinal)):
        driver.synchronize_stream(view.stream or driver.LEGACY_STREAM)


def _to_host(view: ArrayView, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The elements of `view` in host memory as another type, possibly without a copy."""
    if view.device.on_host:
        if view.stream is not None or view.device is Device.MANAGED:
            _await_producer(view)
        return _cast(numpy_over(view), dtype)
    with driver.using(driver.context_of(view.ordinal)):
        return _cast(download(view, view.stream or driver.LEGACY_STREAM), dtype)


def _cast(elements: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Converts elements to another type, except complex numbers to real ones."""
    if elements.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(
            f"the elements are {elements.dtype}, and would lose their imaginary parts as {dtype}: take its .real"
        )
    return elements.astype(dtype, copy=False)


def _from_python(obj: Any, dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    """Nested lists, scalars and buffers as a NumPy array."""
    kinds = _kinds_of(obj)
    if any(map(_is_composite, kinds)):
        return _from_composites(obj, kinds, dtype)
    if dtype is not None and np.iscomplexobj(obj):
        return _cast(np.asarray(obj), dtype)
    elements = np.asarray(obj, dtype=dtype)
    if dtype is None and kinds <= {bool, int, float, complex}:
        return _as_builtin(obj, kinds)
    if elements.dtype == object:
        raise TypeError(f"an object of type {type(obj).__qualname__} is neither an array nor nested lists of numbers")
    element_of_dtype(elements.dtype)
    return elements


def _is_composite(kind: type[Any]) -> bool:
    return is_struct(kind) or vector_of(kind) is not None


def _from_composites(obj: Any, kinds: set[type[Any]], dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    """Nested lists of structs or vectors as a NumPy array."""
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"an array has elements of one type, not of {names}")
    element = dtype_of(*kinds)
    if dtype not in (None, element):
        raise TypeError(f"the elements are of type {next(iter(kinds)).__name__}, not {dtype}")
    return np.array(_as_lists(obj), element)


def _as_lists(obj: Any) -> Any:
    return [_as_lists(item) for item in obj] if isinstance(obj, (list, tuple)) else _as_record(obj)


def _as_record(value: Any) -> Any:
    """The members of a struct or vector as a tuple, which NumPy stores as one element."""
    if value is None:
        return 0  # a null pointer
    if is_struct(type(value)):
        return tuple(_as_record(getattr(value, field.name)) for field in model_of(type(value)).fields)
    return tuple(map(_as_record, value)) if isinstance(value, tuple) or vector_of(type(value)) else value


def _kinds_of(obj: Any) -> set[type[Any]]:
    """The types of the numbers in nested lists."""
    return set().union(*map(_kinds_of, obj)) if isinstance(obj, (list, tuple, range)) else {type(obj)}


def _as_builtin(obj: Any, kinds: set[type[Any]]) -> np.ndarray[Any, Any]:
    """Python numbers in the types that they have in device code."""
    if complex in kinds:
        return np.array(obj, np.complex64)
    if float in kinds or not kinds:
        return np.array(obj, np.float32)
    if int not in kinds:
        return np.array(obj, np.bool_)
    try:
        return np.array(obj, np.int32)
    except OverflowError as error:
        raise OverflowError(
            "a Python int is an int32 in device code, and one here does not fit: pass dtype=int64"
        ) from error


_UNORDERED = -1  # the stream for which no library waits
_PADS = ("left", "right")
_ORDERS = tuple(Layout)
_ARRAY = "pass an object with __dlpack__ or __cuda_array_interface__, or a NumPy array; device.array(…) copies lists"


def as_array(
    x: Any,
    ndim: int | None = None,
    pad: str = "left",
    order: str = "C",
    dtype: Any = None,
    *,
    readonly: bool = False,
    stream: Any = None,
    name: str = "x",
) -> DeviceArray:
    """Views an array of any library as a `DeviceArray` with `ndim` axes. The memory is shared.

    `x` has DLPack or the CUDA Array Interface, or is a NumPy array. Missing axes, of length 1, are inserted in front, or with
    `pad="right"` at the end; `ndim=None` keeps the axes unchanged. `order` is the layout that the memory must have: "C" or "F"
    contiguous, or "strided" for any. `dtype` is the type that the elements must have (None: any); nothing is converted. Kernels
    cannot write to a `readonly` view. `name` is the name of the array in messages.

    `stream` is a stream of the device that must hold the memory. None means the stream of `x` if that is a `DeviceArray`, and
    otherwise the legacy default stream of the GPU that holds the memory, or a CPU stream. That stream waits for the work that
    the library of `x` has queued so far; call `as_array` again after the library has written to `x` on another stream.

    Raises `LaunchError` if `x` is not an array or has other elements, axes, another order or another device, and `ValueError`
    for an unknown `pad` or `order`. For an `x` that is not an array or has other elements, the `LaunchError` is also a
    `TypeError`.
    """
    if pad not in _PADS:
        raise ValueError(f"pad={pad!r}: write one of {', '.join(map(repr, _PADS))}")
    if order not in _ORDERS:
        raise ValueError(f"order={order!r}: write one of {', '.join(repr(layout.value) for layout in Layout)}")
    if stream is None and isinstance(x, DeviceArray):
        stream = x.stream
    target = None if stream is None else as_stream(stream)
    view = _view_for(x, name, driver.LEGACY_STREAM if target is None else target.consumer)
    if dtype is not None and view.element != (element := pointee_of(element_of(dtype))):
        raise CallError(f"{_text(view, name)} is not one of {element}", "convert it, as with x.astype(…)")
    if order != Layout.STRIDED:
        _check_order(view, order, name)
    padded = _padded(view, view.ndim if ndim is None else operator.index(ndim), pad, name)
    if readonly:
        padded = replace(padded, readonly=True)
    target = _stream_of(view) if target is None else target
    check_memory(view, f"the array {name!r}", target)
    if isinstance(x, DeviceArray) and padded is view and target == x.stream:
        return x
    if isinstance(target, GpuStream):
        if view.stream is None:
            padded = replace(padded, stream=target.handle)
        elif view.stream != target.handle:
            with target.using():
                driver.order((view.stream,), (target.handle,))
    return DeviceArray.over(padded, target)


def _view_for(x: Any, name: str, stream: int | None) -> ArrayView:
    """The view of an array for use on a stream (see `view_of`). Raises `CallError` for other objects."""
    view = named_view(x, f"the array {name!r}", stream)
    if view is None:
        raise CallError(f"{name!r} is of type {type(x).__name__}, which is not an array", _ARRAY)
    return view


def _text(view: ArrayView, name: str) -> str:
    """Describes an array in messages."""
    memory = f"on GPU {view.ordinal}" if view.device is Device.CUDA else f"in {view.device.value}"
    return f"the array {name!r} of shape {view.shape} and dtype {dtype_of_type(view.element)} {memory}"


def _padded(view: ArrayView, ndim: int, pad: str, name: str) -> ArrayView:
    """The view with axes of length 1 before or after its own."""
    if ndim < view.ndim:
        raise LaunchError(
            f"{_text(view, name)} has {view.ndim} axes, more than {ndim}", "reshape it to at most that many axes"
        )
    ones = (1,) * (ndim - view.ndim)
    shape = view.shape + ones if pad == "right" else ones + view.shape
    return replace(view, shape=shape, strides=numpy_over(view).reshape(shape, copy=False).strides) if ones else view


def _check_order(view: ArrayView, order: str, name: str) -> None:
    step = -1 if order == Layout.F else 1
    layout = layout_of(view.shape[::step], view.strides[::step], view.itemsize)
    if layout is not Layout.C:
        raise LaunchError(
            f"{_text(view, name)} has strides {view.strides}, which are not those of a contiguous array of order {order!r}",
            'copy it, as with x.copy() or x.contiguous(), or allow order="strided"',
        )


def _stream_of(view: ArrayView) -> Stream:
    """A stream of the device that holds the memory."""
    if view.device in (Device.HOST, Device.PINNED):
        return CpuStream()
    return GpuStream(driver.LEGACY_STREAM, view.ordinal)
