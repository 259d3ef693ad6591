"""Rules of type inference for subarrays: arrays of a fixed size within structs, as NumPy's structured dtypes have them.

In memory a subarray is an array, which can be indexed with anything and written. Within a value (a variable, an argument) it is
a value of all its elements: it can be indexed, also by what only run time knows, and looped over.

    a[i].m[j] = 1         array<float32, 1, C> within a, an element of which is written
    p = a[i]; p.m[j]      one of the elements that p has, selected
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cuda_device.device.memory import local_array
from cuda_device.errors import CompileError
from cuda_device.infer import composites, indexing, references
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.ir.nodes import Op
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import prelude
from cuda_device.types.known import constant, of_type
from cuda_device.types.layout import size_of
from cuda_device.types.model import Array, Number, Subarray
from cuda_device.types.vector_classes import host_class_of

_MOST_SELECTED = 16
"""Of so many elements an index that only run time knows selects one; of more it reads one in memory."""


def _attribute(frame: Frame, _: Op, cell: Cell, name: str) -> Cell:
    """`x.name` of a subarray that is a value."""
    type = cell.known.type
    assert isinstance(type, Subarray)
    values = {
        "shape": type.shape, "ndim": len(type.shape), "size": type.count, "dtype": host_class_of(type.dtype),
        "itemsize": size_of(type.dtype), "nbytes": size_of(type),
    }  # fmt: skip
    if name not in values:
        raise CompileError(
            f"{cell.known} has no attribute {name!r} in device code",
            help=f"it has {', '.join(values)}; where it lies in memory, as in a[i].m, it is an array",
        )
    return frame.literal(values[name])


def _item(frame: Frame, cell: Cell, type: Subarray, parts: Sequence[Cell]) -> Cell:
    """`x[i]`, `x[i, j]`: an element, or the subarray of the axes that are left."""
    if len(parts) > len(type.shape):
        raise CompileError(
            f"{cell.known} has {len(type.shape)} axes, but there are {len(parts)} indices",
            help="give each axis one index at most",
        )
    if not all(isinstance(part.known.type, Number) and part.known.type.is_integer for part in parts):
        return _view(frame, _in_memory(frame, cell, type), parts)
    row = Cell(constant(0))
    for part, length in zip(parts, type.shape, strict=False):
        place = _place(frame, part, length)
        row = frame.operate("+", frame.operate("*", row, Cell(constant(length))), place)
    return _row(frame, cell, type, row, len(parts))


def _view(frame: Frame, copy: Cell, parts: Sequence[Cell]) -> Cell:
    """A slice of the copy of a value: to write there would change nothing else, so nobody may."""
    array = copy.known.type
    assert isinstance(array, Array) and copy.value is not None
    if len(parts) == array.ndim and all(isinstance(part.known.type, Number) for part in parts):
        raise CompileError(f"an index is an integer or a slice, not {parts[0].known}", help="convert it: int(…)")
    copy = Cell(of_type(replace(array, readonly=True)), copy.value)
    return frame.item(copy, frame.tuple(parts))


def _place(frame: Frame, part: Cell, length: int) -> Cell:
    """An index counted from the beginning."""
    if not part.known.constant:
        return frame.run(prelude.place, part, Cell(constant(length)))
    index = part.known.value
    assert isinstance(index, int)
    if not -length <= index < length:
        raise CompileError(
            f"there is no index {index} in {length} element{'s' * (length != 1)}",
            help=f"indices are from {-length} to {length - 1}",
        )
    return Cell(constant(index % length))


def _row(frame: Frame, cell: Cell, type: Subarray, row: Cell, axes: int) -> Cell:
    """What lies at a position that counts along the first axes."""
    shape = type.shape[axes:]
    step = math.prod(shape)
    if not row.known.constant and type.count > _MOST_SELECTED:
        table = _in_memory(frame, cell, replace(type, shape=(type.count,)))
        first = frame.operate("*", row, Cell(constant(step)))
        places = [frame.operate("+", first, Cell(constant(i))) for i in range(step)]
        chosen = [frame.item(table, place) for place in places]
        return frame.composite(Subarray(type.dtype, shape), chosen) if shape else chosen[0]
    rows = [[frame.field(cell, first + i) for first in range(0, type.count, step)] for i in range(step)] if step else []
    chosen = [_choose(frame, column, row) for column in rows]
    return frame.composite(Subarray(type.dtype, shape), chosen) if shape else chosen[0]


def _in_memory(frame: Frame, cell: Cell, type: Subarray) -> Cell:
    """An array of the thread's own with all elements."""
    array = _local(frame, type)
    for i, place in enumerate(_places(type)):
        frame.store(array, place, frame.field(cell, i))
    return array


def _local(frame: Frame, type: Subarray) -> Cell:
    return frame.call(frame.literal(local_array), [Cell(constant(type.shape)), Cell(constant(type.dtype))], {})


def _places(type: Subarray) -> list[Cell]:
    """The indices of all elements, in order."""
    return [Cell(constant(place)) for place in np.ndindex(type.shape)]


def _of_memory(frame: Frame, array: Cell, type: Subarray) -> Cell:
    """The value of all elements of an array."""
    items = [frame.item(array, place) for place in _places(type)]
    return frame.composite(type, items)


def _setitem(frame: Frame, op: Op, cell: Cell, index: Cell, value: Cell) -> Sequence[Cell] | None:
    """The value after `x[i] = v`, `x[a:b] = v`, as if it were an array in memory; LLVM finds the elements that stay."""
    type = cell.known.type
    assert isinstance(type, Subarray)
    if not references.is_variable(op, cell, "…"):
        return None
    array = _in_memory(frame, cell, type)
    frame.store(array, index, value)
    return [_of_memory(frame, array, type)]


def made_of(frame: Frame, type: Subarray, value: Cell) -> Cell:
    """The subarray that takes its elements from an array, a tuple or a number."""
    composites.check_shape(type.shape, value.known)
    array = _local(frame, type)
    frame.assign(array, value)
    return _of_memory(frame, array, type)


def _choose(frame: Frame, column: Sequence[Cell], row: Cell) -> Cell:
    if isinstance(row.known.value, int):
        return column[row.known.value]
    return frame.run(prelude.element, frame.tuple(column), row)


def _items(frame: Frame, cell: Cell) -> list[Cell]:
    """What a loop over it runs over."""
    type = cell.known.type
    assert isinstance(type, Subarray)
    return [_item(frame, cell, type, [Cell(constant(i))]) for i in range(type.shape[0])]


def _getitem(frame: Frame, _: Op, owner: Cell, index: Cell) -> Cell:
    assert isinstance(owner.known.type, Subarray)
    return _item(frame, owner, owner.known.type, indexing.parts_of(frame, index))


KIND = Kind(rank=Rank.COMPOSITE, getitem=_getitem, setitem=_setitem, getattr=_attribute, items=_items)
