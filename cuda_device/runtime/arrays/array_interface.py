"""Reads and writes the CUDA Array Interface, and chooses the protocol by which an object's array is read.

The interface is used to read GPU arrays without DLPack, and to pass arrays to libraries that support nothing else. It does not
define lifetimes, so a view keeps the whole producer alive.

    view = read(numba_array)            # ArrayView with .stream, the producer's stream
    produce(view)                       # {'shape': (4,), 'typestr': '<f4', 'data': (139…, False), 'version': 3, …}
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from cuda_device.errors import CallError, LaunchError
from cuda_device.runtime.arrays.array_view import ArrayView, Device, c_strides, described
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import GpuStream, Stream
from cuda_device.types.exchange_formats import element_of_typestr, typestr_of_element
from cuda_device.types.host import dtype_of_type, element_of_dtype
from cuda_device.types.layout import size_of
from cuda_device.types.model import Type

ATTRIBUTE = "__cuda_array_interface__"
VERSION = 3

_COPY = "pass a copy of the array, such as device.array(x)"
_CONVERT = "convert it to numbers, vectors or structs of device code, as with x.astype(numpy.float32)"
_DESCRIPTION = "correct the description, or pass the array by __dlpack__"


def read_array_interface(obj: Any) -> ArrayView | None:
    """A view of the GPU array `obj`, or None if it does not have the interface.

    The view's `stream` is the producer's, for which the caller must wait, or None. Raises `LaunchError` for a description that
    violates the interface, has a mask, or names memory that no GPU can access, and `TypeError` for an unknown element type.
    """
    try:
        # Read once, because each access creates a new description.
        description = getattr(obj, ATTRIBUTE, None)
    except RuntimeError as error:
        raise LaunchError(f"{described(obj)} refuses to share its memory: {error}", _COPY) from error
    if description is None or isinstance(obj, type):
        return None
    try:
        return _view_of(obj, description)
    except _BadDescription as error:
        raise LaunchError(f"the {ATTRIBUTE} of {described(obj)} {error}", _DESCRIPTION) from None


class _BadDescription(Exception):
    """A violation of the interface; the text follows the name of the object."""


def _view_of(obj: Any, description: Any) -> ArrayView:
    unfit = _BadDescription(f"is {description!r}, which does not follow its specification")
    try:
        version, shape = operator.index(description["version"]), tuple(map(operator.index, description["shape"]))
        typestr, (address, readonly) = description["typestr"], description["data"]
        address, mask, strides = operator.index(address), description.get("mask"), description.get("strides")
        strides = None if strides is None else tuple(map(operator.index, strides))
        stream = description.get("stream") if version >= 3 else None
        stream = None if stream is None else operator.index(stream)
    except (KeyError, TypeError, ValueError):
        raise unfit from None
    if mask is not None:
        raise _BadDescription(
            "has a mask, and kernels do not support masked elements: pass the data and the mask as two arrays"
        )
    if stream == 0:
        raise _BadDescription("has stream=0, which is ambiguous: 1 is the legacy default stream, 2 the per-thread one")
    is_address = 0 < address < 1 << 64 or 0 in shape
    if version < 2 or min(shape, default=0) < 0 or not is_address or (stream or 1) < 0:
        raise unfit
    if strides is not None and len(strides) != len(shape):
        raise unfit
    element = _element_of(typestr, description.get("descr"))
    address *= 0 not in shape
    return ArrayView(
        data=address,
        shape=shape,
        strides=c_strides(shape, size_of(element)) if strides is None else strides,
        element=element,
        readonly=bool(readonly),
        device=Device.CUDA,
        ordinal=_ordinal_of(address),
        keep_alive=obj,
        stream=stream,
    )


def _element_of(typestr: Any, descr: Any) -> Type:
    """The element type of `typestr`, or of `descr` if `typestr` has only the size of a structure."""
    is_structure = isinstance(typestr, str) and typestr[1:2] == "V" and isinstance(descr, list)
    if not is_structure or not any(isinstance(field, tuple) and field and field[0] for field in descr):
        return element_of_typestr(typestr)
    try:
        dtype = np.lib.format.descr_to_dtype(descr)
    except (TypeError, ValueError) as error:
        raise _BadDescription(f"has descr={descr!r}, which describes no structure: {error}") from None
    if typestr[2:] != str(dtype.itemsize):
        raise _BadDescription(f"has the typestr {typestr!r}, but its descr has {dtype.itemsize} bytes")
    return element_of_dtype(dtype)


def _ordinal_of(address: int) -> int:
    """The device that holds `address`, which is checked, because an access to a wrong address corrupts the context."""
    if not driver.available():
        return 0
    ordinal = driver.ordinal_of(address) if address else None
    if ordinal is None:
        ordinal = driver.current_ordinal()
        if address and not driver.properties(ordinal).pageable_access:
            raise _BadDescription(f"has the address {address:#x}, which is not memory that the GPU can access")
    return ordinal


def produce(view: ArrayView) -> dict[str, Any]:
    """The interface of `view`, version 3. `strides` is None for C order; vectors and structs have a `descr`."""
    dtype = dtype_of_type(view.element)
    return {
        "shape": view.shape,
        "typestr": typestr_of_element(view.element) if dtype.names is None else dtype.str,
        "data": (0 if view.size == 0 else view.data, view.readonly),
        "version": VERSION,
        "strides": None if view.strides == c_strides(view.shape, view.itemsize) else view.strides,
        "stream": view.stream,
    } | ({} if dtype.names is None else {"descr": dtype.descr})


# `view_of` reads an array by the first protocol that its type has: this package's own arrays, NumPy arrays, DLPack (by its C
# exchange API if the type has one), the CUDA Array Interface.


Reader = Callable[[Any, int | None], ArrayView | None]

OWN_VIEW = "_cuda_device_view_"
"""The method of this package's arrays that returns their view."""


def view_of(obj: Any, stream: int | None = None) -> ArrayView | None:
    """A view of the array `obj`, or None if it is not an array. No data is copied.

    `stream` is the handle of the stream on which GPU memory will be used (never 0), None for use on the CPU, or -1 for no
    ordering. If the view has a `stream`, the caller must wait for that one. Raises `LaunchError` with the producer's message if
    it refuses (torch: a tensor that requires a gradient), and `TypeError` for element types that device code does not have.
    """
    try:
        reader = _readers[type(obj)]
    except KeyError:
        reader = _readers[type(obj)] = _reader_for(type(obj))
    return None if reader is None else reader(obj, stream)


def named_view(obj: Any, name: str, stream: int | None) -> ArrayView | None:
    """`view_of`, with errors that name the object: "the argument 'x'"."""
    try:
        return view_of(obj, stream)
    except LaunchError as error:
        raise LaunchError(f"{name}: {error.reason}", error.help) from None
    except TypeError as error:
        raise no_element(error, name) from None


def no_element(error: TypeError, name: str) -> CallError:
    """The error for a type that does not exist in device code; the text of `error` may list the types to convert to."""
    reason, _, types = str(error).partition(": convert to ")
    return CallError(f"{name}: {reason}", f"convert it to {types}" if types else _CONVERT)


def check_memory(view: ArrayView, name: str, stream: Stream) -> None:
    """Raises `LaunchError` if kernels on `stream` cannot access the memory of an array."""
    if isinstance(stream, GpuStream):
        if not view.device.on_gpu:
            raise LaunchError(
                f"{name} is in host memory, but the stream is on GPU {stream.ordinal}",
                "copy it with device.array(x, stream=…) or your framework, or use cpu_stream()",
            )
        if view.ordinal != stream.ordinal and view.size:
            raise LaunchError(
                f"{name} is on GPU {view.ordinal}, but the stream is on GPU {stream.ordinal}",
                "use a stream of its GPU, or copy it: device.array(x, stream=…)",
            )
    elif not view.device.on_host:
        raise LaunchError(
            f"{name} is in GPU memory, but the stream is a CPU stream", "copy it to the host, or use a GPU stream"
        )


def view_of_numpy(array: np.ndarray[Any, Any], stream: int | None = None) -> ArrayView:
    """A view of a NumPy array; read-only if the array is not writeable."""
    return ArrayView(
        data=array.ctypes.data if array.size else 0,
        shape=array.shape,
        strides=array.strides,
        element=element_of_dtype(array.dtype),
        readonly=not array.flags.writeable,
        keep_alive=array,
    )


def _own(obj: Any, stream: int | None) -> ArrayView | None:
    view: ArrayView = obj._cuda_device_view_()
    return view


def _masked(obj: Any, stream: int | None) -> ArrayView | None:
    raise LaunchError(
        "kernels do not support masked elements", "pass the data and the mask of a masked array as two arrays"
    )


def _reader_for(kind: type[Any]) -> Reader | None:
    """The function that reads objects of type `kind`; None if they are not arrays."""
    if hasattr(kind, OWN_VIEW):
        return _own
    if issubclass(kind, np.ndarray):
        masked = sys.modules.get("numpy.ma")  # which takes 5 ms to import
        return _masked if masked and issubclass(kind, masked.MaskedArray) else view_of_numpy
    if issubclass(kind, (type, np.generic)):
        return None
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        from cuda_device.runtime.arrays import dlpack  # not for programs with arrays of NumPy and this package only

        table = dlpack.exchange_of(kind)
        return dlpack.read if table is None else lambda obj, stream: table.read(obj) or dlpack.read(obj, stream)
    return lambda obj, _: read_array_interface(obj)  # each instance may have the interface or not


# Weak, so that classes are not kept alive.
_readers: WeakKeyDictionary[type[Any], Reader | None] = WeakKeyDictionary(
    {int: None, float: None, bool: None, tuple: None}
)
