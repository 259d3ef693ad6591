"""Rules of type inference for subarrays: arrays of a fixed size within structs, as in NumPy's structured dtypes.

In memory, a subarray is an array, which supports all indices and can be written to. As part of a value (a variable, an argument)
it is a value that consists of all its elements, which supports iteration and indexing, also with a run-time index.

    a[i].m[j] = 1         writes an element of an array<float32, 1, C> within a
    p = a[i]; p.m[j]      selects one of p's elements
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuda_device.device.memory import local_array
from cuda_device.errors import CompileError
from cuda_device.infer import composites, indexing, references
from cuda_device.infer.frame import Cell, Frame, Kind, Rank, is_of
from cuda_device.ir.nodes import Op
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.known import constant, of_type
from cuda_device.types.layout import size_of
from cuda_device.types.model import Array, Number, Subarray, is_index
from cuda_device.types.vector_classes import host_class_of


def _attribute(frame: Frame, _: Op, cell: Cell[Subarray], name: str) -> Cell:
    type = cell.type
    values = {
        "shape": type.shape, "ndim": len(type.shape), "size": type.count, "dtype": host_class_of(type.dtype),
        "itemsize": size_of(type.dtype), "nbytes": size_of(type),
    }  # fmt: skip
    if name not in values:
        raise CompileError(
            f"{cell.known} has no attribute {name!r} in device code",
            help=f"it has {', '.join(values)}; in memory, as in a[i].m, it is an array",
        )
    return frame.literal(values[name])


def _item(frame: Frame, cell: Cell[Subarray], type: Subarray, parts: Sequence[Cell]) -> Cell:
    """`x[i]`, `x[i, j]`: an element, or the subarray of the remaining axes."""
    if len(parts) > len(type.shape):
        raise CompileError(
            f"{cell.known} has {len(type.shape)} axes, but there are {len(parts)} indices",
            help="give at most one index for each axis",
        )
    rest = Subarray(type.dtype, type.shape[len(parts) :])
    are_integers = all(is_index(part.known.type) for part in parts)
    if are_integers and all(part.known.constant for part in parts):
        row = 0
        for part, length in zip(parts, type.shape, strict=False):
            row = row * length + indexing.position(part, length)
        items = [frame.field(cell, row * rest.count + i) for i in range(rest.count)]
        return frame.composite(rest, items) if rest.shape else items[0]
    if len(parts) == len(type.shape) and all(isinstance(part.known.type, Number) for part in parts):
        indexing.values_of(frame, parts)  # raises for what is not an integer
    copy = _in_memory(frame, cell, type)
    assert is_of(copy, Array)
    # Read-only, because writing to the copy would not change the value.
    item = frame.item(Cell(of_type(replace(copy.type, readonly=True)), copy.value), frame.tuple(parts))
    return _of_memory(frame, item, rest) if are_integers and rest.shape else item


def _in_memory(frame: Frame, cell: Cell[Subarray], type: Subarray) -> Cell:
    """A thread-local array with the elements of a subarray."""
    array = _local(frame, type)
    for i, index in enumerate(_indices(type)):
        frame.store(array, index, frame.field(cell, i))
    return array


def _local(frame: Frame, type: Subarray) -> Cell:
    return frame.call(frame.literal(local_array), [Cell(constant(type.shape)), Cell(constant(type.dtype))], {})


def _indices(type: Subarray) -> list[Cell]:
    """The indices of all elements in C order."""
    return [Cell(constant(index)) for index in np.ndindex(type.shape)]


def _of_memory(frame: Frame, array: Cell, type: Subarray) -> Cell:
    """The value that consists of all elements of an array."""
    items = [frame.item(array, index) for index in _indices(type)]
    return frame.composite(type, items)


def _setitem(frame: Frame, op: Op, cell: Cell[Subarray], index: Cell, value: Cell) -> Sequence[Cell] | None:
    """The value after `x[i] = v` or `x[a:b] = v`, computed in memory; LLVM removes copies of unchanged elements."""
    type = cell.type
    if not references.is_variable(op, cell, "…"):
        return None
    array = _in_memory(frame, cell, type)
    frame.store(array, index, value)
    return [_of_memory(frame, array, type)]


def made_of(frame: Frame, type: Subarray, value: Cell) -> Cell:
    """Makes a subarray from an array, a tuple or a number."""
    composites.check_shape(type.shape, value.known)
    array = _local(frame, type)
    frame.assign(array, value)
    return _of_memory(frame, array, type)


def _items(frame: Frame, cell: Cell[Subarray]) -> list[Cell]:
    return [_item(frame, cell, cell.type, [Cell(constant(i))]) for i in range(cell.type.shape[0])]


def _getitem(frame: Frame, _: Op, owner: Cell[Subarray], index: Cell) -> Cell:
    return _item(frame, owner, owner.type, indexing.parts_of(frame, index))


KIND = Kind(rank=Rank.COMPOSITE, getitem=_getitem, setitem=_setitem, getattr=_attribute, items=_items)
