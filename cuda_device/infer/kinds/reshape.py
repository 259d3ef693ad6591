"""Rules of type inference for `x.reshape(…)`: the same elements, which stay where they are, in another shape.

x.reshape(4, -1)              of a C-contiguous array: only the lengths change
x[:, 1:].reshape(n, 2, m)     the steps of the new axes are found at run time; where NumPy would copy, the thread ends
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import conditions
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds.views import arithmetic, extents, product, strides, transpose, window
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import prelude
from cuda_device.types.known import constant, known_as
from cuda_device.types.model import INDEX, INT, SMALL, Array, Layout, Number, Tuple

_ORDERS = ("C", "F")


def reshape(frame: Frame, owner: Cell, array: Array, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """The same elements in another shape; one length may be -1."""
    shape, order = _arguments(frame, positional, named)
    if order == "F":
        # In the order of Fortran, what is C's order of the axes turned round.
        turned = transpose(frame, owner, array)
        assert isinstance(turned.known.type, Array)
        made = _in_order(frame, turned, turned.known.type, shape[::-1])
        assert isinstance(made.known.type, Array)
        return transpose(frame, made, made.known.type)
    return _in_order(frame, owner, array, shape)


def _arguments(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> tuple[list[Cell], str]:
    """The lengths of the axes, and the order in which the elements are counted."""
    more = dict(named)
    given = list(positional) or [cell for cell in (more.pop("shape", None),) if cell is not None]
    order, copy = (more.pop(name, Cell(constant(value))) for name, value in (("order", "C"), ("copy", None)))
    if more or not given:
        raise CompileError("reshape takes the new shape", help="write x.reshape(n, m) or x.reshape((n, m))")
    if order.known.value not in _ORDERS:
        raise CompileError(
            f"the order of reshape is 'C' or 'F', not {order.known}", help="write order='C', or leave it out"
        )
    if not copy.known.constant or copy.known.value:
        raise CompileError("reshape with copy=True needs memory, which device code has not", help="leave copy=True out")
    from cuda_device.infer.kinds.sequences import as_tuple  # which needs views, too

    first = as_tuple(frame, given[0])
    shape = frame.fields(first) if isinstance(first.known.type, Tuple) else given
    for cell in shape:
        if not isinstance(cell.known.type, Number) or not cell.known.type.is_integer:
            raise CompileError(f"the lengths of a shape are integers, not {cell.known}", help="convert it: int(…)")
    return shape, str(order.known.value)


def _in_order(frame: Frame, owner: Cell, array: Array, shape: Sequence[Cell]) -> Cell:
    """The elements in C's order, whatever the layout is."""
    lengths = _lengths(frame, owner, shape)
    layout, steps = array.layout, list[Cell]()
    if array.ndim < 2 and layout is not Layout.STRIDED:
        layout = Layout.C
    elif layout is Layout.F and len(lengths) < 2:
        raise CompileError(f"{array} cannot be reshaped without a copy", help="reshape its .T, which is C-contiguous")
    elif layout is not Layout.C:
        layout, steps = Layout.STRIDED, _steps(frame, owner, array, lengths)
    # An array without elements may have any lengths.
    small = array.small and all(_fits_32_bits(cell) for cell in shape)
    type = replace(array, ndim=len(lengths), layout=layout, small=small)
    return window(frame, owner, type, Cell(constant(0)), lengths, steps)


def _lengths(frame: Frame, owner: Cell, shape: Sequence[Cell]) -> list[Cell]:
    """The lengths as indices, with that in the place of -1 that is left for it."""
    open_axes = [i for i, cell in enumerate(shape) if cell.known.constant and cell.known.value == -1]
    if len(open_axes) > 1:
        raise CompileError("one length of a shape may be -1, not more", help="write the other lengths")
    lengths = [_as_index(frame, cell) for cell in shape]
    given = [length for i, length in enumerate(lengths) if i not in open_axes]
    if frame.program.checked:
        conditions.reshaped(frame, product(frame, extents(frame, owner)), given, product(frame, given), bool(open_axes))
    if open_axes:
        total = product(frame, extents(frame, owner))
        lengths[open_axes[0]] = arithmetic(frame, "//", total, product(frame, given))
    return lengths


def _steps(frame: Frame, owner: Cell, array: Array, lengths: Sequence[Cell]) -> list[Cell]:
    """How far apart in bytes the elements of each new axis are."""
    if array.ndim < 2:  # one axis with a step: so has every shape of it
        step = strides(frame, owner)[0] if array.ndim else Cell(constant(0))
        return [arithmetic(frame, "*", step, product(frame, lengths[i + 1 :])) for i in range(len(lengths))]
    old = frame.tuple(extents(frame, owner)), frame.tuple(strides(frame, owner))
    conditions.stays(frame, *old, frame.tuple(lengths))
    places = [product(frame, lengths[i + 1 :]) for i in range(len(lengths))]
    return [frame.program.call(frame, prelude.bytes_before, [place, *old], {}) for place in places]


def _fits_32_bits(length: Cell) -> bool:
    known = length.known
    if known.constant:
        return isinstance(known.value, int) and known.value <= SMALL
    return isinstance(known.type, Number) and known.type.high <= INT.high


def _as_index(frame: Frame, cell: Cell) -> Cell:
    if cell.known.constant and cell.known.type == INT:
        return cell
    return Cell(known_as(cell.known, INDEX), frame.materialise(cell, INDEX))
