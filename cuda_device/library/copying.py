"""Assignment of arrays that may overlap: `target[...] = source` behaves as if the source were copied first.

    a[1:] = a[:-1]        from the end, as C's memmove
    a[:] = a[2]           the row that is read does not change
    a[:] = a[::-1]        is reported in checked mode

No memory is allocated for a copy. If the strides of both arrays are equal, the rows are moved in the order in which none is
overwritten before it is read. For other overlaps no such order is known. Checked mode reports them, as it does indices that are
out of bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cuda_device.device.lowering import ArrayTree, Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed, entered
from cuda_device.errors import DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.types.known import of_type
from cuda_device.types.model import UINT64


def address(array: Any) -> Any:
    """Returns the address of the first element of an array."""
    raise DeviceOnlyError.of("address")


def _lower_address(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
    (array,) = operands
    assert isinstance(array, ArrayTree)
    return build.op(ops.ADDRESS, UINT64, array.data)


ROWS = entered(
    Intrinsic(address, "address", lambda given: Typed(of_type(UINT64), ((0, given[0].type),)), _lower_address)
)


def distance(target: Any, source: Any) -> Any:
    """Returns the offset in bytes from the first element of `source` to that of `target`."""
    return np.int64(address(target)) - np.int64(address(source))


def set_elements(target: Any, value: Any) -> None:
    """`target[...] = value`."""
    if target.ndim == 0:
        target[()] = value
    elif target.ndim == 1:
        for i in range(len(target)):
            target[i] = value
    else:
        for i in range(len(target)):
            set_elements(target[i], value)


def copy_elements(target: Any, source: Any) -> None:
    """`target[...] = source`, element by element in order; the source is broadcast."""
    if source.ndim == 0:
        set_elements(target, source[()])
    elif source.ndim < target.ndim:
        for i in range(len(target)):
            copy_elements(target[i], source)
    elif target.ndim == 1:
        for i in range(len(target)):
            target[i] = source[0 if len(source) == 1 else i]
    else:
        for i in range(len(target)):
            copy_elements(target[i], source[0 if len(source) == 1 else i])


def move_elements(target: Any, source: Any) -> None:
    """`target[...] = source` of arrays for which `has_order` is true."""
    if source.ndim < max(target.ndim, 1) or source.itemsize != target.itemsize or source.strides != target.strides:
        copy_elements(target, source)
    elif abs(target.strides[0]) < abs(target.strides[-1]):
        _move_rows(target.T, source.T)
    else:
        _move_rows(target, source)


def _move_rows(target: Any, source: Any) -> None:
    """`target[:] = source` of arrays with the same steps, the longest of which come first."""
    backwards = distance(target, source) * target.strides[0] > 0
    for k in range(len(target)):
        i = len(target) - 1 - k if backwards else k
        if target.ndim == 1:
            target[i] = source[0 if len(source) == 1 else i]
        else:
            _move_rows(target[i], source[0 if len(source) == 1 else i])


def _are_apart(target: Any, source: Any) -> Any:
    """Returns whether two arrays share no element: their ranges are disjoint, or, like two columns, they interleave."""
    begin = distance(target, source)
    low, high = _span(target)
    other_low, other_high = _span(source)
    if begin + high <= other_low or other_high <= begin + low:
        return True
    step, size = math.gcd(*target.strides, *source.strides), max(target.itemsize, source.itemsize)
    return step > 0 and size <= begin % step <= step - size


def _span(items: Any) -> Any:
    """Returns the range of bytes that an array occupies, relative to its first element."""
    low, high = 0 * items.size, 0 * items.size + items.itemsize
    for length, step in zip(items.shape, items.strides, strict=True):
        way = (length - 1) * step
        low, high = low + min(way, 0), high + max(way, 0)
    return low, high


def has_order(target: Any, source: Any) -> Any:
    """Returns whether `move_elements` handles these arrays: equal strides, a row, one element, or no overlap.

    The compiler knows that the strides of 1-D contiguous arrays are equal.
    """
    alike = source.itemsize == target.itemsize
    if alike and source.strides == target.strides:
        return True
    if source.ndim == 0 or target.size == 0 or (alike and source.size == 1):
        return True
    if alike and source.ndim < target.ndim and _is_row(target, source):
        return True
    return _are_apart(target, source)


def _is_row(target: Any, source: Any) -> Any:
    """Returns whether an array of fewer axes is a row of the target or lies between its rows, so that it is not changed."""
    axes = target.ndim - source.ndim
    step = abs(target.strides[axes - 1])
    if source.strides != target.strides[axes:] or step == 0 or any(s % step != 0 for s in target.strides[:axes]):
        return False
    low, high = _span(source)
    beyond = distance(source, target) % step  # of the row before it
    return beyond == 0 or high - low <= beyond <= step - (high - low)
