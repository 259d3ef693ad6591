"""Assignment of arrays that may overlap: `target[...] = source` behaves as if the source were copied first.

    a[1:] = a[:-1]        from the end, as C's memmove
    a[:] = a[::-1]        pairs of elements are exchanged
    m[:] = m.T            likewise

No memory is allocated for a copy. If the strides of both arrays are equal, the rows are moved in the order in which none is
overwritten before it is read. Otherwise each element is moved after the element that is read from its place, which follows the
cycles of the permutation; this needs arrays of the same shape that read each element once. Checked mode reports other overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda_device.device.lowering import ArrayTree, Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed
from cuda_device.errors import DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.types.known import Known, of_type
from cuda_device.types.model import INDEX, INT64, UINT64


def distance(target: Any, source: Any) -> Any:
    """Returns the offset in bytes from the first element of `source` to that of `target`."""
    raise DeviceOnlyError.of("distance")


def _infer_distance(arguments: Sequence[Known]) -> Typed:
    return Typed(of_type(INDEX), tuple((i, array.type) for i, array in enumerate(arguments)))


def _lower_distance(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
    target, source = (_address(build, array) for array in operands)
    return build.convert(build.sum(ops.SUB, target, source), INDEX)


def _address(build: Lowering, array: Tree) -> Value:
    assert isinstance(array, ArrayTree)
    return build.convert(build.op(ops.ADDRESS, UINT64, array.data), INT64)


def address(array: Any) -> Any:
    """Returns the address of the first element of an array."""
    raise DeviceOnlyError.of("address")


def _infer_address(arguments: Sequence[Known]) -> Typed:
    return Typed(of_type(UINT64), ((0, arguments[0].type),))


def _lower_address(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
    (array,) = operands
    assert isinstance(array, ArrayTree)
    return build.op(ops.ADDRESS, UINT64, array.data)


ROWS = (
    Intrinsic(distance, "distance", _infer_distance, _lower_distance),
    Intrinsic(address, "address", _infer_address, _lower_address),
)


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
    """`target[...] = source` of arrays that may overlap."""
    if source.ndim < target.ndim or source.itemsize != target.itemsize:
        copy_elements(target, source)
    elif source.strides != target.strides:
        if _has_chains(target, source) and not _are_apart(target, source):
            _move_chains(target, source)
        else:
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


def _has_chains(target: Any, source: Any) -> Any:
    """Returns whether each element of the source is read exactly once."""
    return source.shape == target.shape and 0 not in target.strides and 0 not in source.strides


def _move_chains(target: Any, source: Any) -> None:
    """Follows each chain from an element that is not read to its source and so on, and each cycle from its first element."""
    for first in range(target.size):
        in_ring = _place_of(_offset(first, target) + distance(target, source), source) >= 0
        kept, place = target[_indices(first, target)], first
        for writes in range(0 if in_ring else 1, 2):
            goes_on = True
            while goes_on:
                origin = _place_of(_offset(place, source) - distance(target, source), target)
                if writes:
                    target[_indices(place, target)] = kept if origin == first else source[_indices(place, source)]
                goes_on = origin != first and origin > (-1 if writes else first)
                place = origin
            if place != first:
                break


def _indices(place: Any, items: Any) -> Any:
    """Returns the indices of the element at position `place` in C order."""
    indices: Any = ()
    for length in items.shape[::-1]:
        indices = (place % length, *indices)
        place //= length
    return indices


def _offset(place: Any, items: Any) -> Any:
    """Returns the offset in bytes of the element at position `place`."""
    offset = 0 * place
    for index, step in zip(_indices(place, items), items.strides, strict=True):
        offset += index * step
    return offset


def _place_of(offset: Any, items: Any) -> Any:
    """Returns the position of the element at an offset in bytes, or -1 if there is none."""
    low, _ = _span(items)
    rest = offset - low
    place, found = 0 * offset, 0 * offset
    for length, step in zip(items.shape, items.strides, strict=True):
        longer = rest + 1  # the shortest of the longer strides
        for other_length, other in zip(items.shape, items.strides, strict=True):
            if other_length > 1 and abs(step) < abs(other) < longer:
                longer = abs(other)
        index = min(rest % longer // abs(step), length - 1) if length > 1 else 0
        found += index * abs(step)
        place = place * length + (index if step > 0 else length - 1 - index)
    return place if rest >= 0 and found == rest else -1


def _are_apart(target: Any, source: Any) -> Any:
    """Returns whether the memory ranges of two arrays are disjoint."""
    begin = distance(target, source)
    low, high = _span(target)
    other_low, other_high = _span(source)
    return begin + high <= other_low or other_high <= begin + low


def _span(items: Any) -> Any:
    """Returns the range of bytes that an array occupies, relative to its first element."""
    low, high = 0 * items.size, 0 * items.size + items.itemsize
    for length, step in zip(items.shape, items.strides, strict=True):
        way = (length - 1) * step
        low, high = low + min(way, 0), high + max(way, 0)
    return low, high


def has_order(target: Any, source: Any) -> Any:
    """Returns whether `move_elements` handles these arrays: equal strides, equal shapes, or no overlap."""
    if source.ndim == 0 or target.size == 0:
        return True
    if source.itemsize != target.itemsize or source.ndim < target.ndim:
        return _are_apart(target, source) or _is_row(target, source)
    ordered = source.size == 1 or source.strides == target.strides or _has_chains(target, source)
    return ordered or _are_apart(target, source)


def _is_row(target: Any, source: Any) -> Any:
    """Returns whether an array of fewer axes is a row of the target or lies between its rows, so that it is not changed."""
    if source.itemsize != target.itemsize or source.strides != target.strides[target.ndim - source.ndim :]:
        return False
    step = target.strides[target.ndim - source.ndim - 1]
    return step != 0 and distance(target, source) % step == 0
