"""Rules of type inference for comparisons: of numbers, exact; of tuples, item by item; of structs, by their methods; and `is`.

py.compare {op="<"} (int8, uint64)     →   py.compare {op="<"} %0 %1: bool         whatever their signs and widths
(a, b) < (c, d)                        →   a < c or (a == c and b < d)
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np

from cuda_device.errors import CompileError
from cuda_device.infer import operators
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import complexes, masks
from cuda_device.infer.meanings import Named
from cuda_device.infer.remedies import ON_THE_HOST
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.library import standard
from cuda_device.types.known import Known, constant, describe, is_narrow, of_type
from cuda_device.types.model import BOOL, INDEX, INT, NONE, Number, Range, Static, Struct, Subarray, Tuple, Type, Vector
from cuda_device.types.promote import promote, to_complex
from cuda_device.types.structs import alike


def compare(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x < y` and the other comparisons: of numbers, exact; of tuples, `==` and `!=`."""
    sign = str(op.attributes["op"])
    cells = [frame.scalar(cell) for cell in cells]
    folded = operators.fold(frame, operators.FOLDS[sign], cells)
    if folded is not None:
        return [folded]
    if all(cell.known.type == Static() for cell in cells) and sign in ("==", "!="):
        return [Cell(constant(_equal(*(cell.known.value for cell in cells)) == (sign == "==")))]
    overloaded = _overloaded(frame, sign, cells)
    if overloaded is not None:
        return overloaded
    if sign in ("==", "!=") and _are_unlike(*(cell.known for cell in cells)):
        return [Cell(constant(sign == "!="))]
    if all(isinstance(cell.known.type, Range) for cell in cells) and sign in ("==", "!="):
        same = frame.truth(frame.program.call(frame, standard.same_range, cells, {}))
        return [same] if sign == "==" else _negated(frame, same)
    if sign not in ("==", "!=") and all(isinstance(cell.known.type, Tuple) for cell in cells):
        return [_compare_in_order(frame, sign, *cells)]
    if sign in ("==", "!=") and all(isinstance(cell.known.type, (Tuple, Vector, Struct, Subarray)) for cell in cells):
        return [_compare_composites(frame, sign, *cells)]
    if masks.apply(sign, cells):
        return [masks.binary(frame, sign, cells)]
    x, y = operators.numbers_of(sign, *cells)
    if x.is_complex or y.is_complex:
        if sign not in ("==", "!="):
            a, b = (cell.known for cell in cells)
            raise CompileError(f"{a} {sign} {b}: complex numbers have no order", help="compare their abs(…), or .real")
        pairs = zip(*(complexes.parts_as(frame, cell, to_complex(promote(x, y) or x)) for cell in cells), strict=True)
        return [_all_equal(frame, sign, list(pairs))]
    operands = _comparable(frame, sign, x, y, *cells)
    if isinstance(operands, Cell):
        return [operands]
    return [frame.emit(ops.PY_COMPARE, of_type(BOOL), *operands, op=sign)]


def _are_unlike(a: Known, b: Known) -> bool:
    """Whether one is None and the other is not, or one a number and the other a member of an enumeration, which none equals."""
    if NONE in (a.type, b.type):
        return a.type != b.type
    members = (x.value for x, y in ((a, b), (b, a)) if x.type == Static() and isinstance(y.type, Number))
    return any(isinstance(member, enum.Enum) and type(member).__eq__ is object.__eq__ for member in members)


def _overloaded(frame: Frame, sign: str, cells: Sequence[Cell]) -> Sequence[Cell] | None:
    """A struct's own comparison; what has no `__ne__` differs, as objects of Python do, where its `__eq__` says no."""
    own = operators.overloaded(frame, operators.METHODS[sign], *cells)
    if own is not None:
        return [own]
    if sign != "!=" or any(isinstance(cell.known.value, Named) for cell in cells):
        return None
    equal = operators.overloaded(frame, operators.METHODS["=="], *cells)
    return None if equal is None else _negated(frame, equal)


def _negated(frame: Frame, cell: Cell) -> Sequence[Cell]:
    return frame.unary(Op(ops.PY_UNARY, attributes={"op": "not"}), [cell])


def _compare_in_order(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    """`<` and the like of two tuples: the first items that differ decide, then the lengths."""
    pairs = [(frame.field(a, i), frame.field(b, i)) for i in range(min(_length(a.known.type), _length(b.known.type)))]
    result = Cell(constant(bool(operators.FOLDS[sign](_length(a.known.type), _length(b.known.type)))))
    for x, y in reversed(pairs):
        (equal,) = compare(frame, Op(ops.PY_COMPARE, attributes={"op": "=="}), (x, y))
        (before,) = compare(frame, Op(ops.PY_COMPARE, attributes={"op": sign[0]}), (x, y))
        result = _logical(frame, "|", before, _logical(frame, "&", equal, result))
    return result


def _logical(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    """`a & b` or `a | b` of bools, one of which may decide alone."""
    for cell, other in ((a, b), (b, a)):
        if cell.known.constant:
            return other if bool(cell.known.value) == (sign == "&") else Cell(constant(sign == "|"))
    return frame.emit(ops.PY_BINARY, of_type(BOOL), frame.materialise(a, BOOL), frame.materialise(b, BOOL), op=sign)


def _equal(a: object, b: object) -> bool:
    """Whether two objects that exist while compiling are equal, in the words of their own `__eq__`."""
    try:
        return a is b or bool(a == b) or _names_dtype(a, b) or _names_dtype(b, a)
    except Exception as error:
        raise CompileError(f"{describe(a)} and {describe(b)} cannot be compared: {error}", help=ON_THE_HOST) from error


def _names_dtype(name: object, cls: object) -> bool:
    """Whether `x.dtype == "float32"` of a dtype, which is the class of the elements in device code."""
    if not isinstance(name, str) or not isinstance(cls, type) or not issubclass(cls, np.generic):
        return False
    return bool(np.dtype(cls) == name)


def _comparable(frame: Frame, sign: str, x: Number, y: Number, a: Cell, b: Cell) -> tuple[Value, Value] | Cell:
    """The operands of an exact comparison: a constant takes the other's type, or decides alone if it has no room there."""
    if x == BOOL and y == BOOL:
        return frame.materialise(a, BOOL), frame.materialise(b, BOOL)
    for number, cell, other in ((x, a, b), (y, b, a)):
        if not cell.known.constant or other.known.constant:
            continue
        theirs = y if cell is a else x
        if not number.is_float and not theirs.is_float and isinstance(cell.known.value, int):
            if not theirs.low <= cell.known.value <= theirs.high:
                inside = theirs.low  # every value of that type lies on the same side of the constant
                sides = (cell.known.value, inside) if cell is a else (inside, cell.known.value)
                return Cell(constant(bool(operators.FOLDS[sign](*sides)), frame.location))
            x = y = INT if theirs == BOOL else theirs
        elif (type := promote(number, theirs)) is not None:
            x = y = type
    if INDEX in (x, y) and is_narrow(a.known) and is_narrow(b.known):
        x = y = INT  # a GPU compares 32 bits
    if (x.is_float or y.is_float) and (type := promote(x, y)) is not None:
        x = y = type  # so a builtin float is rounded to what it stands beside, as a constant is
    return frame.materialise(a, INT if x == BOOL else x), frame.materialise(b, INT if y == BOOL else y)


def _compare_composites(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    """`==` of tuples, of vectors and of structs: all members equal."""
    sizes = {_length(cell.known.type) for cell in (a, b)}
    x, y = (cell.known.type for cell in (a, b))
    is_same = alike(x, y) if isinstance(x, Struct) and isinstance(y, Struct) else type(x) is type(y)
    if len(sizes) == 2 or not is_same:
        return Cell(constant(sign == "!="))
    return _all_equal(frame, sign, [(frame.field(a, i), frame.field(b, i)) for i in range(sizes.pop())])


def _all_equal(frame: Frame, sign: str, pairs: Sequence[tuple[Cell, Cell]]) -> Cell:
    """Whether the cells of all pairs are equal, or for `!=` those of any are not."""
    result: Cell | None = None
    for pair in pairs:
        (equal,) = compare(frame, Op(ops.PY_COMPARE, attributes={"op": sign}), pair)
        joined = [cell for cell in (result, equal) if cell is not None]
        result = equal
        if len(joined) == 2:
            values = [frame.materialise(cell, BOOL) for cell in joined]
            result = frame.emit(ops.PY_BINARY, of_type(BOOL), *values, op="&" if sign == "==" else "|")
    return result or Cell(constant(sign == "=="))


def _length(type: Type) -> int:
    match type:
        case Vector(_, size):
            return size
        case Subarray():
            return type.count
        case Struct(_, parts) | Tuple(parts):
            return len(parts)
    raise AssertionError(type)


def is_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x is y` and `x is not y`, of None, bools, and what exists while compiling."""
    a, b = (cell.known for cell in cells)
    inverted = bool(op.attributes["inverted"])
    if NONE in (a.type, b.type):
        return [Cell(constant((a.type == b.type) != inverted))]
    if isinstance(a.type, Static) and isinstance(b.type, Static):
        return [Cell(constant((a.value is b.value) != inverted))]
    if isinstance(a.type, Static) != isinstance(b.type, Static):
        return [Cell(constant(inverted))]
    if a.type == BOOL and b.type == BOOL:
        return compare(frame, Op(ops.PY_COMPARE, attributes={"op": "!=" if inverted else "=="}), cells)
    raise CompileError("`is` compares with None, functions, types and bools in device code", help="use ==")
