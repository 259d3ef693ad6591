"""Rules of type inference for `WarpMask`, an int32 whose bits are the lanes of a warp.

mask & 0xFFFF0000     →     bits and bits: a mask, whatever the other integer's type and sign
mask == 0xFFFFFFFF    →     a comparison of bits
mask[i]               →     a call of `prelude.lane_of_mask`

In other arithmetic a mask is an int32 (`types.promote`).
"""

from __future__ import annotations

from collections.abc import Callable

from cuda_device.errors import CompileError
from cuda_device.infer import conditions
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import prelude
from cuda_device.types.known import Known, of_type
from cuda_device.types.model import BOOL, INT32, MASK, UINT32, Number
from cuda_device.types.promote import signed

_BITWISE = frozenset("&|^")
_EQUALITIES = frozenset(("==", "!="))


def _apply(sign: str, *cells: Cell) -> bool:
    """Whether an operator treats these operands as masks: integers of at most 32 bits."""
    return sign in _BITWISE | _EQUALITIES and all(map(_may_be_mask, cells))


def _may_be_mask(cell: Cell) -> bool:
    known, number = cell.known, cell.known.type
    if not isinstance(number, Number) or not number.is_integer:
        return False
    if known.constant and isinstance(known.value, int):
        return INT32.low <= known.value <= UINT32.high
    return number.bits <= INT32.bits


def _operator(frame: Frame, sign: str, *cells: Cell) -> Cell:
    """`&`, `|` and `^` return masks, `==` and `!=` return a bool."""
    operands = [frame.materialise(_as_mask(cell), MASK) for cell in cells]
    if sign in _BITWISE:
        return frame.emit(ops.PY_BINARY, of_type(MASK), *operands, op=sign)
    return frame.emit(ops.PY_COMPARE, of_type(BOOL), *operands, op=sign)


def _as_mask(cell: Cell) -> Cell:
    """A constant as the int32 with its 32 bits."""
    if cell.known.constant and isinstance(cell.known.value, int):
        return Cell(Known(MASK, signed(cell.known.value)))
    return cell


def _item(frame: Frame, _: Op, mask: Cell, index: Cell) -> Cell:
    _check_lane(frame, index)
    return frame.run(prelude.lane_of_mask, mask, index)


def _with_lane(frame: Frame, mask: Cell, index: Cell, value: Cell) -> Cell:
    """The mask after `mask[i] = value`."""
    _check_lane(frame, index)
    return frame.run(prelude.mask_with, mask, index, value)


_LANES = "write m[i % 32], or another lane"


def _check_lane(frame: Frame, index: Cell) -> None:
    known = index.known
    if not isinstance(known.type, Number) or not known.type.is_integer:
        raise CompileError(f"the lanes of a mask must be integers from 0 to 31, not {known}", help=_LANES)
    if known.constant and isinstance(known.value, int) and not 0 <= known.value < INT32.bits:
        raise CompileError(f"the lanes of a mask must be integers from 0 to 31, not {known.value}", help=_LANES)
    conditions.lane(frame, index)


_METHODS: dict[str, Callable[..., Cell]] = {
    "__getitem__": lambda frame, owner, i, /: _item(frame, Op(ops.PY_GETITEM), owner, i),
    "__setitem__": lambda frame, owner, i, val, /: _with_lane(frame, owner, i, val),
}
"""`mask.__setitem__(i, a)` returns a mask with one lane changed."""


def kind(number: Kind) -> Kind:
    """The kind of masks, which extends that of numbers."""
    assert number.binary and number.compare
    binary, compare = number.binary, number.compare
    return replace(
        number,
        rank=Rank.MASK,
        getitem=_item,
        setitem=lambda frame, op, owner, index, value: (
            [_with_lane(frame, owner, index, value)] if op.attributes.get("target") != "value" else None
        ),
        methods={**number.methods, **_METHODS},
        binary=lambda frame, sign, a, b: (_operator if _apply(sign, a, b) else binary)(frame, sign, a, b),
        compare=lambda frame, sign, a, b: (_operator if _apply(sign, a, b) else compare)(frame, sign, a, b),
    )
