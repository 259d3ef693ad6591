"""Views of arrays: they share the memory of the array, and have their own beginning, lengths of axes, and strides in bytes.

x.reshape(n, 4)   →   window x, 0, (n, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from cuda_device.infer.frame import Cell, Frame
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.lazy_dataclasses import replace
from cuda_device.types import model
from cuda_device.types.known import Known, constant, of_type


def extents(frame: Frame, cell: Cell[model.Array]) -> list[Cell]:
    """The length of each axis."""
    if cell.type.lengths:
        return [Cell(Known(model.INDEX, length)) for length in cell.type.lengths]
    index = of_type(model.INDEX, nonneg=True, high=model.SMALL if cell.type.small else None)
    return _of_axes(frame, ops.EXTENT, index, cell)


def strides(frame: Frame, cell: Cell[model.Array]) -> list[Cell]:
    """The step of each axis in bytes."""
    return _of_axes(frame, ops.STRIDE, of_type(model.INDEX), cell)


def _of_axes(frame: Frame, code: ops.OpDef, known: Known, cell: Cell[model.Array]) -> list[Cell]:
    assert cell.value is not None
    return [frame.emit(code, known, cell.value, axis=i) for i in range(cell.type.ndim)]


def window(
    frame: Frame,
    cell: Cell,
    type: model.Array,
    offset: Cell,
    shape: Sequence[Cell],
    steps: Sequence[Cell],
    whole: bool = True,
) -> Cell:
    """An array of `type` that begins `offset` bytes after the beginning of another array, in its memory.

    Its type has its lengths if these are constants and each axis is `whole`: functions that take parts of an array by turns,
    such as recursive ones, are not specialised for each of them.
    """
    lengths = [cell.known.value for cell in shape if isinstance(cell.known.value, int)]
    fixed = whole and type.space in (model.Space.SHARED, model.Space.LOCAL) and len(lengths) == len(shape)
    type = replace(type, lengths=tuple(lengths) if fixed else ())
    return placed(frame, cell, type, offset, shape, steps)


def placed(
    frame: Frame,
    cell: Cell,
    type: model.Array,
    offset: Cell,
    shape: Sequence[Cell],
    steps: Sequence[Cell],
    **aligned: int,
) -> Cell:
    """An array of exactly this type in the memory of another one."""
    assert cell.value is not None
    parts = [offset, *shape, *(steps if type.layout is model.Layout.STRIDED else ())]
    numbers = [frame.materialise(part, model.INDEX) for part in parts]
    return frame.emit(ops.WINDOW, of_type(type), cell.value, *numbers, **aligned)


def as_type(frame: Frame, cell: Cell[model.Array], type: model.Array) -> Value:
    """Converts an array to a more general array type."""
    array = placed(frame, cell, type, Cell(constant(0)), extents(frame, cell), strides(frame, cell))
    assert array.value is not None
    return array.value


def product(frame: Frame, cells: Sequence[Cell]) -> Cell:
    """The product of lengths."""
    return reduce(lambda product, length: frame.operate("*", product, length), cells or [Cell(constant(1))])
