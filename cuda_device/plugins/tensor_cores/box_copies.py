"""Copies of boxes between an array and shared memory on CPU streams: what `tma` does there.

A copy is made row by row, with the bits of the elements. In a swizzled tile, the element that would be the i-th one is at
i ^ (i // 8 & mask): in each row, chunks of 16 bytes change places.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from cuda_device import cluster_shared, int64, uint32, uint32x4
from cuda_device.extend import copies, layout, model
from cuda_device.plugins.tensor_cores.bulk_copies import KIND, combiner
from cuda_device.plugins.tensor_cores.mbarriers import UNIT, complete_bytes
from cuda_device.plugins.tensor_cores.packed_elements import tf32_bits
from cuda_device.plugins.tensor_cores.single_instructions import UNSIGNED
from cuda_device.plugins.tensor_cores.tensor_maps import Boxes

_NANS = {
    model.FLOAT16: 0x7FFF, model.BFLOAT16: 0x7FFF, model.FLOAT32: 0x7FFFFFFF, model.FLOAT64: 0x7FFF_FFFF_FFFF_FFFF,
}  # fmt: skip


@functools.cache
def _row_of(boxes: Boxes) -> Callable[..., Any]:
    """Returns the device function that finds a row of a box in the array.

    It returns the distance of the row's first element from the first element of the array, and the columns that are inside.
    """
    box, width, last = boxes.box, boxes.box[-1], len(boxes.box) - 1
    axes = tuple(reversed(range(last)))

    def row_of(map: Any, place: Any, row: Any) -> Any:
        start, rest, inside = int64(place[last]), int64(row), True
        for axis in axes:
            position = int64(place[axis]) + rest % box[axis]
            rest //= box[axis]
            start += position * map._strides[axis]
            inside = inside and position >= 0 and position < map._lengths[axis]
        low = min(max(-int64(place[last]), 0), width)
        high = min(max(map._lengths[last] - place[last], low), width) if inside else low
        return start, low, high

    return row_of


def _mask(boxes: Boxes) -> int:
    """The mask of the numbers of elements that a pattern changes; 0 without one."""
    return (boxes.swizzle - 16) // layout.size_of(boxes.element) if boxes.swizzle else 0


def _rows(boxes: Boxes) -> int:
    return math.prod(boxes.box[:-1])


@functools.cache
def loader(boxes: Boxes) -> Callable[..., Any]:
    """Returns the device function for a load by one block."""
    row_of, count, width, size = _row_of(boxes), _rows(boxes), boxes.box[-1], layout.size_of(boxes.element)
    word, mask, is_tf32, chunks_of_row = UNSIGNED[size], _mask(boxes), boxes.is_tf32, width * size // UNIT
    blank, unit, nbytes = word(_NANS[boxes.element] if boxes.fill == "nan" else 0), boxes.unit, boxes.nbytes

    def load(tile: Any, map: Any, bar: Any, *place: Any) -> None:
        _check_place(place, unit)
        copies.begin_copy(KIND, proxy=True)
        array, memory = map._data.cast(word), tile.pointer().cast(word)
        for row in range(count):
            start, low, high = row_of(map, place, row)
            source, first = array + start, row * width
            if not is_tf32 and high - low == width and _are_aligned(source, memory):
                _copy_chunks(memory, source, row * chunks_of_row, chunks_of_row, mask * size // UNIT, True)
            else:
                for j in range(width):
                    i, bits = first + j, source[j] if low <= j and j < high else blank
                    memory[i ^ (i >> 3 & mask)] = tf32_bits(bits) if is_tf32 else bits
        complete_bytes(bar, nbytes)
        copies.end_copy()

    return load


def _check_place(place: Any, unit: Any) -> None:
    """Reports a box that does not begin at a multiple of 16 bytes, which stops a kernel on GPUs."""
    if place[-1] % unit != 0:
        raise ValueError(
            f"the last coordinate of a box is {place[-1]}, not a multiple of {unit} elements, which are 16 bytes",
            "begin the box elsewhere",
        )


def _check_stored_place(place: Any, unit: Any) -> None:
    """The same for stores, which GPUs do not begin outside of the array."""
    _check_place(place, unit)
    for coordinate in place:
        if coordinate < 0:
            raise ValueError(f"a box is stored at a negative coordinate: {coordinate}", "store parts of the tile")


def _are_aligned(a: Any, b: Any) -> Any:
    """Whether two pointers are multiples of the size of a chunk."""
    return (a.address | b.address) % UNIT == 0


def _copy_chunks(tile: Any, row: Any, first: Any, count: Any, mask: Any, to_tile: Any) -> None:
    """Copies a row to or from a tile, where its first chunk is the one of the number `first`, by chunks."""
    chunks, others = tile.cast(uint32x4), row.cast(uint32x4)
    for j in range(count):
        i = first + j
        if to_tile:
            chunks[i ^ (i >> 3 & mask)] = others[j]
        else:
            others[j] = chunks[i ^ (i >> 3 & mask)]


@functools.cache
def caster(boxes: Boxes) -> Callable[..., Any]:
    """Returns the device function for a load by several blocks of the cluster."""
    load = loader(boxes)

    def cast(tile: Any, map: Any, bar: Any, blocks: Any, *place: Any) -> None:
        for rank in range(16):
            if uint32(blocks) >> rank & 1 != 0:
                load(cluster_shared(tile, rank), map, cluster_shared(bar, rank), *place)

    return cast


@functools.cache
def storer(boxes: Boxes, op: str = "") -> Callable[..., Any]:
    """Returns the device function for a store, or for a reduction by an operation."""
    row_of, count, width, size = _row_of(boxes), _rows(boxes), boxes.box[-1], layout.size_of(boxes.element)
    mask, chunks_of_row, unit, stores = _mask(boxes), width * size // UNIT, boxes.unit, not op
    word, combine = UNSIGNED[size], None if stores else combiner(op, boxes.element)

    def store(map: Any, tile: Any, *place: Any) -> None:
        _check_stored_place(place, unit)
        array, memory = (map._data.cast(word), tile.pointer().cast(word)) if stores else (map._data, tile.pointer())
        copies.begin_copy(KIND, proxy=True)
        for row in range(count):
            start, low, high = row_of(map, place, row)
            target, first = array + start, row * width
            if stores and high - low == width and _are_aligned(target, memory):
                _copy_chunks(memory, target, row * chunks_of_row, chunks_of_row, mask * size // UNIT, False)
            else:
                for j in range(low, high):
                    i = first + j
                    element = memory[i ^ (i >> 3 & mask)]
                    if stores:
                        target[j] = element
                    elif combine is not None:
                        combine(target, j, element)
        copies.end_copy()

    return store
