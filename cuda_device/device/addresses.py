"""Where an element of an array is: indices become places on their axes, and places an address.

    x[i, j] of an array<float32, 2, C>            element x, place(i) * x.shape[1] + place(j)
    x[i] of an array<float32, 1, strided>         x + place(i) * stride bytes

In small arrays (see `types.model.Array`) all of that happens in 32 bits, of which a GPU has more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuda_device.ir import ops
from cuda_device.ir.model import Value
from cuda_device.types.model import INT32, INT64, UINT32, UINT64, Array, Layout, Number

if TYPE_CHECKING:
    from cuda_device.device.lowering import ArrayTree, Lowering


def address_of(build: Lowering, tree: ArrayTree, type: Array, indices: Sequence[Value], behind: bool) -> Value:
    """See `Lowering.address`."""
    if not indices:
        return tree.data
    # An index that 32 bits do not hold is out of bounds in a small array: checks have to see it whole.
    short = type.small and not build.checked
    indices, beyond = _without_constant(build, type, indices)
    extents = tree.extents if short else [build.convert(extent, INT64) for extent in tree.extents]
    place = _small_place if short else _place
    places = [place(build, i, extent) for i, extent in zip(indices, extents, strict=True)]
    if build.checked and not behind:
        _check_bounds(build, indices, places, extents)
    if type.layout is Layout.STRIDED:
        return _strided(build, tree, places)
    order = range(type.ndim) if type.layout is Layout.C else range(type.ndim - 1, -1, -1)
    offset, *rest = (places[axis] for axis in order)
    for axis, index in zip(list(order)[1:], rest, strict=True):
        offset = build.sum(ops.ADD, build.sum(ops.MUL, offset, extents[axis], exact=True), index, exact=True)
    offset = build.convert(offset, INT64)
    if not beyond:
        return build.op(ops.ELEMENT, tree.data.type, tree.data, offset)
    near = build.op(ops.ELEMENT, tree.data.type, tree.data, offset, outside=True)
    return build.op(ops.ELEMENT, tree.data.type, near, build.number(INT64, beyond), outside=True)


def _without_constant(build: Lowering, type: Array, indices: Sequence[Value]) -> tuple[list[Value], int]:
    """The indices without the constant that is added to the contiguous axis' one, and that constant.

    Then the addresses of neighbours differ by a constant. What is left may be out of bounds.
    """
    parts = list(indices)
    if build.checked or type.layout is Layout.STRIDED:
        return parts, 0
    axis = -1 if type.layout is Layout.C else 0
    found = build.sums.split(parts[axis]) if parts[axis].nonneg else None
    if found is None:
        return parts, 0
    parts[axis], beyond = found
    return parts, beyond


def _strided(build: Lowering, tree: ArrayTree, places: Sequence[Value]) -> Value:
    wide = [build.convert(place, INT64) for place in places]
    steps = [build.sum(ops.MUL, i, s, exact=True) for i, s in zip(wide, tree.strides, strict=True)]
    offset = steps[0]
    for step in steps[1:]:
        offset = build.sum(ops.ADD, offset, step, exact=True)
    return build.op(ops.BYTES, tree.data.type, tree.data, offset)


def _check_bounds(build: Lowering, indices: Sequence[Value], places: Sequence[Value], extents: Sequence[Value]) -> None:
    """What was negative still is where it was below the axis, and very large as an unsigned number."""
    for axis, (index, place, extent) in enumerate(zip(indices, places, extents, strict=True)):
        inside = build.compare("<", build.convert(place, UINT64), build.convert(extent, UINT64))
        build.check(inside, f"index {{0}} is out of bounds for axis {axis} of size {{1}}", index, extent)


def _place(build: Lowering, index: Value, extent: Value) -> Value:
    """An index as a place on its axis, in 64 bits."""
    wide = build.convert(index, INT64)
    return wide if wide.nonneg or not _is_signed(index) else _wrap(build, wide, extent)


def _small_place(build: Lowering, index: Value, extent: Value) -> Value:
    """The same in 32 bits, which hold every index that there is in a small array."""
    if index.nonneg or not _is_signed(index):
        return build.length(index)
    short = build.convert(index, INT32, exact=True)
    if index not in build.sums.opaque:
        return _wrap(build, short, extent)
    # As unsigned numbers the indices below zero are the largest, so the lesser of index and index + length is the place: one
    # instruction from Hopper on. Where LLVM may find out that an index is not negative, it understands `_wrap` better.
    low = build.convert(short, UINT32)
    high = build.sum(ops.ADD, low, build.convert(extent, UINT32))
    return build.length(build.select(build.compare("<", low, high), low, high))


def _wrap(build: Lowering, index: Value, extent: Value) -> Value:
    """What an index means that counts from the end where it is negative."""
    zero = build.number(INT32 if index.type == INT32 else INT64, 0)
    place = build.select(build.compare("<", index, zero), build.sum(ops.ADD, index, extent, exact=True), index)
    place.nonneg = not build.checked  # as long as there is such an element
    return place


def _is_signed(value: Value) -> bool:
    return isinstance(value.type, Number) and value.type.signed
