"""Where an element of an array is: indices become places on their axes, and places an address.

    x[i, j] of an array<float32, 2, C>            element x, place(i) * x.shape[1] + place(j)
    x[i] of an array<float32, 1, strided>         x + place(i) * stride bytes

In small arrays (see `types.model.Array`) all of that happens in 32 bits, of which a GPU has more.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.device.lowering import FAR, WITHIN, ArrayTree, Lowering
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.types.model import INT32, INT64, UINT32, UINT64, Array, Layout, Number


def address_of(build: Lowering, tree: ArrayTree, type: Array, indices: Sequence[Value], behind: bool = False) -> Value:
    """The reference to the element at `indices`, each of which counts from the end where it is negative.

    `behind`: an index may be out of bounds, since nothing looks there then.
    """
    if not indices:
        return tree.data
    # An index that 32 bits do not hold is out of bounds in a small array: checks have to see it whole.
    short = type.small and not build.checked
    indices, beyond = _without_constants(build, type, indices, short)
    extents = tree.extents if short else [build.convert(extent, INT64) for extent in tree.extents]
    place = _small_place if short else _place
    places = [place(build, i, extent) for i, extent in zip(indices, extents, strict=True)]
    if build.checked and not behind:
        _check_bounds(build, indices, places, extents)
    if type.layout is Layout.STRIDED:
        return _strided(build, tree, places)
    order = _order(type)
    offset, *rest = (places[axis] for axis in order)
    for axis, index in zip(order[1:], rest, strict=True):
        offset = build.sum(ops.ADD, build.sum(ops.MUL, offset, extents[axis], exact=True), index, exact=True)
    outside = {"outside": True} if any(beyond) else {}
    element = build.op(ops.ELEMENT, tree.data.type, tree.data, build.convert(offset, INT64), **outside)
    return _moved(build, element, [(beyond[axis], extents[axis]) for axis in order])


def _moved(build: Lowering, element: Value, axes: Sequence[tuple[int, Value]]) -> Value:
    """The element that is so many places behind one along each axis, of which the length is given, too."""
    jumps, step, size = list[Value](), None, None
    slowest = next((number for number, (places, _) in enumerate(axes) if places), len(axes))
    for places, extent in reversed(axes[slowest:]):
        step = size if step is None or size is None else build.sum(ops.MUL, step, size, exact=True)
        if places:
            jumps.append(_times(build, step, places))
        size = extent
    for jump in reversed(jumps):  # loads have room for the last one if it is a constant
        element = build.op(ops.ELEMENT, element.type, element, build.convert(jump, INT64), outside=True)
    return element


def _times(build: Lowering, step: Value | None, places: int) -> Value:
    """So many steps; None is a step of one element."""
    if step is None:
        return build.number(INT64, places)
    if places == -1:
        return build.sum(ops.SUB, build.number(step.type or INT64, 0), step, exact=True)
    return step if places == 1 else build.sum(ops.MUL, step, build.number(step.type or INT64, places), exact=True)


def _order(type: Array) -> Sequence[int]:
    """The axes of an array without strides, from that with the largest steps to that whose elements are neighbours."""
    return range(type.ndim) if type.layout is Layout.C else range(type.ndim - 1, -1, -1)


def _without_constants(
    build: Lowering, type: Array, indices: Sequence[Value], short: bool
) -> tuple[list[Value], list[int]]:
    """The indices without the constants that are added to them, and those constants.

    Then the addresses of neighbours, in a row or in different ones, differ by what all threads share. What is left may be out of
    bounds; in 32 bits by one row at most, for which there is room.
    """
    parts, beyond = list(indices), [0] * len(indices)
    if build.checked or type.layout is Layout.STRIDED:
        return parts, beyond
    *rows, last = _order(type)
    room = 1 if short else FAR
    for axis in (last, *rows):
        found = build.sums.split(parts[axis]) if parts[axis].nonneg else None
        if found is not None and (axis == last or -found[1] <= room):
            parts[axis], beyond[axis] = found
            room += 0 if axis == last else min(0, beyond[axis])
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
        build.check(inside, f"index {{0}} is out of bounds for axis {axis} of size {{1}}", index, extent, help=WITHIN)


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
