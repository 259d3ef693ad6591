"""Rules of type inference for operators: arithmetic, comparisons, `in`, `is`, and truth values.

    py.binary {op="+"} (float32, int 1)   →   py.binary {op="+"} %0 (const {value=1.0}: float32): float32

Operators on constant builtin numbers are Python's own, evaluated exactly.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cuda_device.device.entities import CompileTime
from cuda_device.errors import CompileError
from cuda_device.infer.constants import FOLDS, LARGEST_BITS, METHODS, UNARY, UNARY_METHODS, too_large
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.meanings import is_container, is_list
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.lazy_imports import import_lazily
from cuda_device.types import model
from cuda_device.types.known import Known, constant, describe, of_type

if TYPE_CHECKING:
    from cuda_device.infer import composites, remedies
    from cuda_device.library import standard
    from cuda_device.types import sealed
else:
    import_lazily(globals(), "cuda_device.infer", "composites", "remedies")
    import_lazily(globals(), "cuda_device.library", "standard")
    import_lazily(globals(), "cuda_device.types", "sealed")


# The types of the results of constant folding.
_RESULTS = (bool, int, float, complex, str, CompileTime, enum.Enum)


def fold(frame: Frame, function: Callable[..., object], operands: Sequence[Cell]) -> Cell | None:
    """Evaluates an operator on constant builtin numbers, strings and None exactly. Returns None if it cannot.

    Raises `CompileError` for integers that are too large.
    """
    values = [cell.known.python for cell in operands]
    if not all(cell.known.constant and _is_exact(cell.known) for cell in operands):
        return None
    if not _is_small(function, values):
        if all(isinstance(value, (bool, int)) for value in values):
            raise too_large()
        return None
    try:
        result = function(*values)
    except (ArithmeticError, ValueError, TypeError):
        return None
    if isinstance(result, enum.Enum):
        return frame.literal(result)
    return Cell(constant(result, frame.location)) if isinstance(result, _RESULTS) else None


def _is_small(function: Callable[..., object], values: Sequence[object]) -> bool:
    """Whether a result has a bounded size: `(10**4000) ** 4000` must not stop the compiler."""
    match values:
        case (str() as text, int() as times) | (int() as times, str() as text) if function is operator.mul:
            return len(text) * times <= remedies.MOST_CHARACTERS
    if any(not isinstance(value, (bool, int, float, complex)) for value in values):
        return function not in (operator.mul, operator.mod)
    bits = [value.bit_length() for value in values if isinstance(value, int)]
    if len(bits) < len(values):
        return True
    if function in (operator.pow, operator.lshift):
        (value, count) = values
        assert isinstance(value, int) and isinstance(count, int)
        many = (abs(value) - 1).bit_length() * count if function is operator.pow else count
        return count < 0 or value == 0 or many <= LARGEST_BITS  # powers below zero are floats
    return sum(bits) <= 2 * LARGEST_BITS


def _is_exact(known: Known) -> bool:
    match known.type:
        case model.Number() as number:
            return number.builtin
        case model.Tuple():
            return all(map(_is_exact, known.items))
        case model.Static():
            return isinstance(known.value, (str, CompileTime, enum.Enum))
        case model.Bundle():  # equal meanings, such as dicts with the same keys, may have other parts
            return False
        case _:
            return True


def unary(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`-x`, `+x`, `~x` and `not x`."""
    (cell,) = cells = [frame.scalar(cell) for cell in cells]
    sign = str(op.attributes["op"])
    if sign == "not":
        truth = truth_of(frame, cell)
        if truth.known.constant:
            return [Cell(constant(not truth.known.value))]
        assert truth.value is not None
        return [frame.emit(ops.PY_UNARY, of_type(model.BOOL), truth.value, op=sign)]
    folded = fold(frame, UNARY[sign], cells) if cell.known.constant else None
    if folded is not None:
        return [folded]
    overload = overloaded(frame, UNARY_METHODS[sign], cell)
    if overload is not None:
        return [overload]
    rule = frame.kind(cell.known).unary
    if rule is None:
        raise remedies.undefined(sign, cell.known)
    return [rule(frame, sign, cell)]


def binary(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x + y` and the other binary operators: folds constants, calls methods of structs, or applies the rule of a kind."""
    sign = str(op.attributes["op"])
    a, b = cells
    if a.known.constant and b.known.constant and sign in FOLDS:
        folded = fold(frame, FOLDS[sign], cells)
        if folded is not None:
            return [folded]
    kind = _of_both(frame, a, b)
    in_place = bool(op.attributes.get("inplace"))
    if kind.rank is Rank.STRUCT:
        overload = overloaded(frame, METHODS[sign], a, b, in_place=in_place)
        if overload is not None:
            return [overload]
    elif in_place and is_container(a.known):
        raise CompileError(
            f"{a.known} cannot be changed by {sign}=",
            help="append each item separately, or make a new list: xs = xs + [v]",
        )
    elif kind.rank is Rank.ARRAY:
        # NumPy's `x += 1` would change a 0-d array.
        a, b = a if in_place else frame.scalar(a), frame.scalar(b)
        kind = _of_both(frame, a, b)
    if sign not in FOLDS:
        raise CompileError(
            f"the operator {sign} is not supported in device code", help="write a loop over the elements"
        )
    result = kind.binary(frame, sign, a, b) if kind.binary else None
    if result is None:
        raise remedies.undefined(sign, a.known, b.known)
    return [result]


def _of_both(frame: Frame, a: Cell, b: Cell) -> Kind:
    """The kind with the higher rank."""
    x, y = frame.kind(a.known), frame.kind(b.known)
    return x if x.rank >= y.rank else y


_REFLECTED = {METHODS[sign]: METHODS[other] for sign, other in ops.SWAPPED.items()}


def overloaded(frame: Frame, method: str, a: Cell, *others: Cell, in_place: bool = False) -> Cell | None:
    """Calls the method of a struct for an operator (`__add__`, or `__radd__` of the second operand), or a library's overload.

    `+=` calls `__iadd__` if the struct has it. Returns None if there is none of these.
    """
    special = (_special_method(frame, a, f"i{method}") if in_place else None) or _special_method(frame, a, method)
    if special is not None:
        return frame.run(special, a, *others)
    for b in others:
        reflected = _special_method(frame, b, _REFLECTED.get(method, f"r{method}"))
        if reflected is not None:
            return frame.run(reflected, b, a)
    entity = getattr(operator, f"__{method}__", None)
    overload = composites.overload_of(frame, entity, [a, *others]) if entity is not None else None
    return None if overload is None else frame.run(overload, a, *others)


def _special_method(frame: Frame, cell: Cell, method: str) -> object:
    struct = cell.known.type
    return frame.method_of(struct, f"__{method}__") if isinstance(struct, model.Struct) else None


def truth_of(frame: Frame, cell: Cell) -> Cell:
    """The truth value in Python's sense, a bool."""
    cell = frame.scalar(cell)
    known = cell.known
    rule = frame.kind(known).truth
    if known.constant and (rule is None or not isinstance(known.type, model.Bundle)):
        try:
            return Cell(constant(bool(known.python)))
        except Exception as error:  # whatever an object's own `__bool__` raises
            raise CompileError(str(error), help="compare it with something, or write `x is None`") from error
    if rule is None:
        raise CompileError(f"{known} has no truth value", help="compare it, or one of its elements")
    return rule(frame, cell)


# Comparisons. Those of numbers are exact, tuples are compared item by item, and structs by their methods.
#
# py.compare {op="<"} (int8, uint64)     →   py.compare {op="<"} %0 %1: bool         exact for all signs and widths
# (a, b) < (c, d)                        →   a < c or (a == c and b < d)


def compare(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x < y` and the other comparisons. Lists are compared with each other like tuples."""
    sign = str(op.attributes["op"])
    if any(is_list(cell.known) for cell in cells):
        if sign in ("==", "!=") and not all(is_list(k) or isinstance(k.value, list) for k in (c.known for c in cells)):
            return [Cell(constant(sign == "!="))]
        cells = [frame.as_iterable(cell) for cell in cells]
    cells = [frame.scalar(frame.as_tuple(cell)) for cell in cells]
    a, b = cells
    folded = fold(frame, FOLDS[sign], cells) if a.known.constant and b.known.constant else None
    if folded is not None:
        return [folded]
    kind = _of_both(frame, a, b)
    if kind.compare is not None:
        return [kind.compare(frame, sign, a, b)]
    if all(cell.known.type == model.Static() for cell in cells) and sign in ("==", "!="):
        return [Cell(constant(_equal(*(cell.known.value for cell in cells)) == (sign == "==")))]
    overloaded = _overloaded(frame, sign, cells)
    if overloaded is not None:
        return overloaded
    if sign in ("==", "!=") and _are_unlike(*(cell.known for cell in cells)):
        return [Cell(constant(sign == "!="))]
    if sign not in ("==", "!=") and all(isinstance(cell.known.type, model.Tuple) for cell in cells):
        return [frame.run(standard.compare_in_order, *cells, frame.literal(FOLDS[sign]))]
    if sign in ("==", "!=") and all(
        isinstance(cell.known.type, (model.Tuple, model.Vector, model.Struct, model.Subarray)) for cell in cells
    ):
        return [composites.compare(frame, sign, *cells)]
    raise remedies.undefined(sign, a.known, b.known)


def _are_unlike(a: Known, b: Known) -> bool:
    """Whether two values are never equal: one is None, or a function or dict; or a number meets a member of an enumeration."""
    if model.NONE in (a.type, b.type):
        return a.type != b.type
    if isinstance(a.type, model.Bundle) != isinstance(b.type, model.Bundle):
        is_sealed = isinstance(a.value, sealed.Sealed) or isinstance(b.value, sealed.Sealed)
        return not is_sealed and model.Static() not in (a.type, b.type)
    members = (x.value for x, y in ((a, b), (b, a)) if x.type == model.Static() and isinstance(y.type, model.Number))
    return any(isinstance(member, enum.Enum) and type(member).__eq__ is object.__eq__ for member in members)


def _overloaded(frame: Frame, sign: str, cells: Sequence[Cell]) -> Sequence[Cell] | None:
    """Calls the method of a struct for a comparison, if there is one. `!=` without `__ne__` negates `__eq__`, as in Python."""
    overload = overloaded(frame, METHODS[sign], *cells)
    if overload is not None:
        return [overload]
    if sign != "!=":
        return None
    equal = overloaded(frame, METHODS["=="], *cells)
    return None if equal is None else [frame.operate("not", equal)]


def _equal(a: object, b: object) -> bool:
    """Whether two objects of the host are equal by their `__eq__`."""
    try:
        return a is b or bool(a == b) or _names_dtype(a, b) or _names_dtype(b, a)
    except Exception as error:
        raise CompileError(
            f"{describe(a)} and {describe(b)} cannot be compared: {error}", help=remedies.ON_THE_HOST
        ) from error


def _names_dtype(name: object, cls: object) -> bool:
    """Whether a string names a class of numbers, for `x.dtype == "float32"`: in device code, `x.dtype` is a class."""
    if not isinstance(name, str) or not isinstance(cls, type) or not issubclass(cls, np.generic):
        return False
    return bool(np.dtype(cls) == name)


def is_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x is y` and `x is not y` for None, bools, lists, members of enumerations, and objects of the host."""
    a, b = (cell.known for cell in cells)
    inverted = bool(op.attributes["inverted"])
    if is_list(a) and is_list(b) and None not in (a.identity, b.identity):
        return [Cell(constant((a.identity == b.identity) != inverted))]
    if isinstance(a.value, enum.Enum) and isinstance(b.value, enum.Enum) and not isinstance(a.type, model.Bundle):
        return [Cell(constant((a.value is b.value) != inverted))]
    if model.NONE in (a.type, b.type):
        return [Cell(constant((a.type == b.type) != inverted))]
    if isinstance(a.type, model.Static) and isinstance(b.type, model.Static):
        return [Cell(constant((a.value is b.value) != inverted))]
    if isinstance(a.type, model.Static) != isinstance(b.type, model.Static):
        return [Cell(constant(inverted))]
    if a.type == model.BOOL and b.type == model.BOOL:
        return [frame.operate("!=" if inverted else "==", *cells)]
    raise CompileError("`is` compares with None, functions, types and bools in device code", help="use ==")
