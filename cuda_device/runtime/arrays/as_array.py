"""`as_array`: an array of any library as one of a fixed number of axes, with checks that name it.

weights = torch.ones(32, 64, device="cuda")
as_array(weights, 4).shape                          # (1, 1, 32, 64): shares the tensor's memory
as_array(weights, 4, dtype=float64, name="weights") # CallError: the array 'weights' … is of float32, not of float64
"""

from __future__ import annotations

import operator
from typing import Any

from cuda_device.errors import CallError, LaunchError
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.arrays.array_interface import view_of
from cuda_device.runtime.arrays.array_view import ArrayView, Device, layout_of
from cuda_device.runtime.arrays.device_array import DeviceArray
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import GpuStream, Stream, as_stream, cpu_stream
from cuda_device.types.dtypes import element_of
from cuda_device.types.host import dtype_of_type
from cuda_device.types.layout import pointee_of
from cuda_device.types.model import Layout

_PADS = ("left", "right")
_ARRAY = "pass an object with __dlpack__ or __cuda_array_interface__, or a NumPy array; device.array(…) copies lists"


def as_array(
    x: Any,
    ndim: int | None = None,
    pad: str = "left",
    order: str = "C",
    dtype: Any = None,
    *,
    stream: Any = None,
    name: str = "x",
) -> DeviceArray:
    """Views an array of any library as a `DeviceArray` with `ndim` axes. The memory is shared.

    `x` has DLPack or the CUDA Array Interface, or is a NumPy array. Missing axes, of length 1, are inserted in front of its
    own, or behind them with `pad="right"`; `ndim=None` keeps the axes as they are. `order` is the layout that the memory must
    have: "C" or "F" contiguous, or "strided" for any. `dtype` is the type that the elements must have (None: any); nothing is
    converted. `stream` is a stream of the device that must hold the memory. None means the stream of `x` if that is a
    `DeviceArray`, and otherwise the legacy default stream of the GPU that holds the memory, or a CPU stream. That stream
    waits for the work that the library of `x` has queued so far; call `as_array` again after the library has written on
    another stream. Messages call the array `name`.

    Raises `CallError`, which is a `LaunchError` and a `TypeError`, if `x` is not an array or has other elements,
    `LaunchError` for other axes, another order or another device, and `ValueError` for an unknown `pad` or `order`.
    """
    if pad not in _PADS:
        raise ValueError(f"pad={pad!r}: write one of {', '.join(map(repr, _PADS))}")
    if order not in tuple(Layout):
        raise ValueError(f"order={order!r}: write one of {', '.join(repr(each.value) for each in Layout)}")
    if stream is None and isinstance(x, DeviceArray):
        stream = x.stream
    where = None if stream is None else as_stream(stream)
    view = _read(x, where, name)
    _check_element(view, dtype, name)
    _check_order(view, order, name)
    padded = _padded(view, view.ndim if ndim is None else operator.index(ndim), pad, name)
    where = _stream_of(view) if where is None else where
    _check_device(view, where, name)
    if isinstance(x, DeviceArray) and padded is view and where == x.stream:
        return x
    if isinstance(where, GpuStream):
        if view.stream is None:
            padded = replace(padded, stream=where.handle)
        elif view.stream != where.handle:
            where.wait_for(view.stream)
    return DeviceArray.over(padded, where)


def _read(x: Any, where: Stream | None, name: str) -> ArrayView:
    """The view of an array, whose producer is told of the stream where it will be used."""
    try:
        view = view_of(x, driver.LEGACY_STREAM if where is None else where.consumer)
    except LaunchError as error:
        raise LaunchError(f"the array {name!r}: {error.reason}", error.help) from None
    except TypeError as error:
        reason, _, types = str(error).partition(": convert to ")
        raise CallError(f"the array {name!r}: {reason}", f"convert it to {types}" if types else _ARRAY) from None
    if view is None:
        raise CallError(f"{name!r} is of type {type(x).__name__}, which is not an array", _ARRAY)
    return view


def _text(view: ArrayView, name: str) -> str:
    """An array, as messages call it."""
    where = f"on GPU {view.ordinal}" if view.device is Device.CUDA else f"in {view.device.value}"
    return f"the array {name!r} of shape {view.shape} and dtype {dtype_of_type(view.element)} {where}"


def _check_element(view: ArrayView, dtype: Any, name: str) -> None:
    if dtype is not None and view.element != (wanted := pointee_of(element_of(dtype))):
        raise CallError(f"{_text(view, name)} is not one of {wanted}", "convert it, as by x.astype(…)")


def _padded(view: ArrayView, ndim: int, pad: str, name: str) -> ArrayView:
    """The view with axes of length 1 before its own, or behind them."""
    more = ndim - view.ndim
    if more < 0:
        raise LaunchError(
            f"{_text(view, name)} has {view.ndim} axes, more than {ndim}", "reshape it to as many axes, or to fewer"
        )
    if not more:
        return view
    if pad == "right":
        inner = (view.itemsize,) * more
        return replace(view, shape=view.shape + (1,) * more, strides=view.strides + inner)
    outer = (view.strides[0] * view.shape[0] if view.shape and view.size else view.itemsize,) * more
    return replace(view, shape=(1,) * more + view.shape, strides=outer + view.strides)


def _check_order(view: ArrayView, order: str, name: str) -> None:
    step = -1 if order == Layout.F else 1
    found = layout_of(view.shape[::step], view.strides[::step], view.itemsize)
    if order != Layout.STRIDED and found is not Layout.C:
        raise LaunchError(
            f"{_text(view, name)} has strides {view.strides}, which are not those of a contiguous array of order {order!r}",
            'copy it, as by x.copy() or x.contiguous(), or allow order="strided"',
        )


def _stream_of(view: ArrayView) -> Stream:
    """A stream of the device that holds the memory."""
    if view.device in (Device.HOST, Device.PINNED):
        return cpu_stream()
    return GpuStream(driver.LEGACY_STREAM, view.ordinal)


def _check_device(view: ArrayView, where: Stream, name: str) -> None:
    if isinstance(where, GpuStream):
        fits = view.device.on_gpu and (view.ordinal == where.ordinal or not view.size)
        wanted = f"a stream of GPU {where.ordinal}"
    else:
        fits, wanted = view.device.on_host, "a CPU stream"
    if not fits:
        raise LaunchError(f"{_text(view, name)} is not where {wanted} works", "copy it: device.array(x, stream=…)")
