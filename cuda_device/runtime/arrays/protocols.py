"""`view_of`: from any array to an `ArrayView`, by the first protocol that it has.

In order: our own arrays, NumPy arrays, DLPack (by C functions where a type has them), the CUDA Array Interface. Which one a type
has is found out once.

    view_of(np.zeros(4, np.float32))                # host memory
    view_of(torch.zeros(4, device="cuda"), 1)       # GPU memory, ready for use on the legacy default stream
    view_of(3.5)                                    # None: no array
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from cuda_device.errors import LaunchError
from cuda_device.runtime.arrays import array_interface, dlpack
from cuda_device.runtime.arrays.array_view import ArrayView, Device, c_strides, layout_of
from cuda_device.runtime.arrays.dlpack_exchange import Exchange, exchange_of
from cuda_device.types.host import element_of_dtype

__all__ = ["ArrayView", "Device", "c_strides", "layout_of", "view_of"]

Reader = Callable[[Any, int | None], ArrayView | None]

# The method by which our own arrays give their view. (DeviceArray lies above this module, and is not imported.)
OWN_VIEW = "_cuda_device_view_"


def view_of(obj: Any, stream: int | None = None) -> ArrayView | None:
    """A view of the array `obj`, or None if it is no array. No data is copied.

    `stream` is the handle of the stream on which GPU memory will be used (never 0); None if it will be used on the CPU, -1 if
    nothing is to be waited for. Where the view has a `stream` of its own, the caller has to wait for that one. Raises
    `LaunchError` with the producer's own message if it refuses (torch: a tensor that requires a gradient), and `TypeError` for
    element types that device code does not have.
    """
    reader = _readers.get(type(obj), _UNKNOWN)
    if reader is _UNKNOWN:
        reader = _readers[type(obj)] = _reader_for(type(obj))
    return None if reader is None else reader(obj, stream)


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


def _by_exchange(table: Exchange, obj: Any, stream: int | None) -> ArrayView | None:
    return table.read(obj) or dlpack.read(obj, stream)


def _by_interface(obj: Any, stream: int | None) -> ArrayView | None:
    return array_interface.read(obj)


def _masked(obj: Any, stream: int | None) -> ArrayView | None:
    raise LaunchError("kernels know no masked elements", "pass the data and the mask of a masked array as two arrays")


def _reader_for(kind: type[Any]) -> Reader | None:
    """The way to read objects of type `kind`; None if they are no arrays."""
    if hasattr(kind, OWN_VIEW):
        return _own
    if issubclass(kind, np.ndarray):
        masked = sys.modules.get("numpy.ma")  # it takes 5 ms to import: whoever has a masked array has done so
        return _masked if masked and issubclass(kind, masked.MaskedArray) else view_of_numpy
    if issubclass(kind, (type, np.generic)):
        return None
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        table = exchange_of(kind)
        return dlpack.read if table is None else functools.partial(_by_exchange, table)
    # An instance may have the interface where its class does not, or refuse it: no verdict on the whole type.
    return _by_interface


def _unknown(obj: Any, stream: int | None) -> ArrayView | None:
    raise AssertionError("a mark, never called")


_UNKNOWN: Reader = _unknown
# Weak, so that classes made in a function are not kept for ever.
_readers: WeakKeyDictionary[type[Any], Reader | None] = WeakKeyDictionary(
    {int: None, float: None, bool: None, tuple: None}
)
