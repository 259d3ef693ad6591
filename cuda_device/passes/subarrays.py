"""Rules of type inference for subarrays: arrays of a fixed size within structs, as NumPy's structured dtypes have them.

In memory a subarray is an array, which can be indexed with anything and written. Within a value (a variable, an argument) it is
a value of all its elements: it can be indexed, also by what only run time knows, and looped over.

    a[i].m[j] = 1         array<float32, 1, C> within a, an element of which is written
    p = a[i]; p.m[j]      one of the elements that p has, selected
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuda_device.device import prelude
from cuda_device.device.memory import local_array
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.model import Op
from cuda_device.passes import views
from cuda_device.passes.calls import call
from cuda_device.passes.frame import Cell, Frame
from cuda_device.types.known import constant
from cuda_device.types.layout import size_of
from cuda_device.types.model import Number, Subarray, Tuple

_MOST_SELECTED = 16
"""Of so many elements an index that only run time knows selects one; of more it reads one in memory."""


def attribute(frame: Frame, cell: Cell, type: Subarray, name: str) -> Cell:
    """`x.name` of a subarray that is a value."""
    from cuda_device.passes.access import host_class_of  # it needs subarrays, too

    values = {
        "shape": type.shape, "ndim": len(type.shape), "size": type.count, "dtype": host_class_of(type.dtype),
        "itemsize": size_of(type.dtype), "nbytes": size_of(type),
    }  # fmt: skip
    if name not in values:
        raise CompileError(
            f"{cell.known} has no attribute {name!r} in device code",
            help=f"there are {', '.join(values)}; where it lies in memory, as in a[i].m, it is an array",
        )
    return frame.literal(values[name])


def item(frame: Frame, cell: Cell, type: Subarray, parts: Sequence[Cell]) -> Cell:
    """`x[i]`, `x[i, j]`: an element, or the subarray of the axes that are left."""
    if len(parts) > len(type.shape):
        raise CompileError(
            f"{cell.known} has {len(type.shape)} axes, but there are {len(parts)} indices",
            help="give each axis one index at most",
        )
    row = Cell(constant(0))
    for part, length in zip(parts, type.shape, strict=False):
        if not isinstance(part.known.type, Number) or not part.known.type.is_integer:
            raise CompileError(
                f"a subarray that is a value is indexed by integers, not by {part.known}",
                help="index it where it lies in memory, as in a[i].m[1:]",
            )
        place = _place(frame, part, length)
        row = views.arithmetic(frame, "+", views.arithmetic(frame, "*", row, Cell(constant(length))), place)
    return _row(frame, cell, type, row, len(parts))


def _place(frame: Frame, part: Cell, length: int) -> Cell:
    """An index counted from the beginning."""
    if not part.known.constant:
        return frame.program.call(frame, prelude.place, [part, Cell(constant(length))], {})
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
    from cuda_device.passes.access import getitem  # it needs subarrays, too

    shape = type.shape[axes:]
    step = math.prod(shape)
    if not row.known.constant and type.count > _MOST_SELECTED:
        table = _in_memory(frame, cell, type)
        first = views.arithmetic(frame, "*", row, Cell(constant(step)))
        places = [views.arithmetic(frame, "+", first, Cell(constant(i))) for i in range(step)]
        chosen = [getitem(frame, Op(ops.PY_GETITEM), (table, place))[0] for place in places]
        return frame.composite(Subarray(type.dtype, shape), chosen) if shape else chosen[0]
    rows = [[frame.field(cell, first + i) for first in range(0, type.count, step)] for i in range(step)] if step else []
    chosen = [_choose(frame, column, row) for column in rows]
    return frame.composite(Subarray(type.dtype, shape), chosen) if shape else chosen[0]


def _in_memory(frame: Frame, cell: Cell, type: Subarray) -> Cell:
    """An array of the thread's own with all elements."""
    from cuda_device.passes.access import store

    array = call(frame, frame.literal(local_array), [Cell(constant((type.count,))), Cell(constant(type.dtype))], {})
    for i in range(type.count):
        store(frame, array, Cell(constant(i)), frame.field(cell, i))
    return array


def _choose(frame: Frame, column: Sequence[Cell], row: Cell) -> Cell:
    if isinstance(row.known.value, int):
        return column[row.known.value]
    return frame.program.call(frame, prelude.element, [frame.tuple(column), row], {})


def items(frame: Frame, cell: Cell, type: Subarray) -> list[Cell]:
    """What a loop over it runs over."""
    return [item(frame, cell, type, [Cell(constant(i))]) for i in range(type.shape[0])]


def assign(frame: Frame, target: Cell, value: Cell) -> None:
    """`a[i].m = v`: to the elements of an array, of a tuple or of another subarray, or all of them to one value."""
    from cuda_device.passes.access import store  # it needs subarrays, too

    match value.known.type:
        case Tuple():
            parts = frame.fields(value)
        case Subarray() as type:
            parts = items(frame, value, type)
        case _:
            views.assign(frame, target, value)
            return
    for i, part in enumerate(parts):
        store(frame, target, Cell(constant(i)), part)
