"""numba's rules for numbers, which kernels of `numba_compat` use (`Options.wide`): Python's numbers have 64 bits.

    x[i] * 0.5       of float32: float64            x[i] + y[i]      of uint8: uint64
    x[i] / 3         of int32: float64              a = 1; a *= 2    in a loop: int64

A constant stays exact until it is combined with a run-time value; it then becomes an int64, float64 or complex128. Integer
arithmetic has 64 bits. `Body.step` converts operands and results by these rules, and `Body.update` values where control flow
joins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cuda_device.device import numeric
from cuda_device.infer import references
from cuda_device.infer.constants import fit
from cuda_device.infer.frame import Cell, Frame
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import numbers, standard
from cuda_device.library.table import entry, find
from cuda_device.types import host, model, vector_classes
from cuda_device.types.known import Known, State, known_as, tuple_of
from cuda_device.types.promote import to_complex
from cuda_device.types.vector_classes import VectorValue

_WIDE = {model.INT: model.INT64, model.FLOAT: model.FLOAT64, model.COMPLEX: model.COMPLEX128}
_OF_INTEGERS = frozenset((math.gcd, math.lcm, math.isqrt, math.factorial, math.comb, math.perm, math.ldexp))
_OF_BITS = (numeric.popc, numeric.clz, numeric.ffs)
_INSTEAD = {
    math.floor: np.floor, math.ceil: np.ceil, math.trunc: np.trunc, round: numbers.round_to_int64,
    int: np.int64, float: np.float64,
}  # fmt: skip
"""numba's versions of these functions of a float, and of `float` of an integer."""
_OPERATORS = {pow: "**", divmod: "//"}


def wide(known: Known) -> Known:
    """A value whose Python numbers have 64 bits. Integers that do not fit in 64 bits stay as they are."""
    if isinstance(known.type, model.Tuple) and known.items:
        return replace(tuple_of(tuple(map(wide, known.items))), where=known.where)
    if not isinstance(known.type, model.Number) or known.type not in _WIDE:
        return known
    type = _WIDE[known.type]
    if known.type == model.INT and known.constant:
        low, high = known.bounds
        type = type if model.INT64.low <= low and high <= model.INT64.high else model.UINT64
        return replace(known, type=type) if type.low <= low and high <= type.high else known
    return replace(known, type=type)


def joined(incoming: list[list[State]]) -> list[list[State]]:
    """The states on the edges into a block. Python numbers that differ between edges get 64 bits."""
    columns = (
        column
        if all(state == column[0] for state in column)
        else [wide(state) if isinstance(state, Known) else state for state in column]
        for column in zip(*incoming, strict=True)
    )
    return [list(states) for states in zip(*columns, strict=True)]


def result(frame: Frame, cell: Cell) -> Cell:
    """The result of an operation, with 64 bits if it is a Python number."""
    number = cell.known.type
    if cell.value is None or not isinstance(number, model.Number) or number not in _WIDE:
        return cell
    return _as(frame, cell, _WIDE[number])


def argument(frame: Frame, cell: Cell) -> Cell:
    """An argument of a kernel. A single record, which is passed as a 0-d array, becomes a reference to the record."""
    array = cell.known.type
    is_one = isinstance(array, model.Array) and array.ndim == 0 and references.is_record(array.dtype)
    return references.element(frame, cell, ()) if is_one else cell


def operands(frame: Frame, op: Op, cells: list[Cell]) -> list[Cell]:
    """The operands of an operation, converted to the types in which numba computes."""
    sign = str(op.attributes.get("op"))
    if op.code is ops.PY_BINARY and _are_numbers(cells):
        cells = _of_binary(frame, sign, cells)
        if frame.program.debug and sign in ("/", "//", "%") and _number(cells[1]).is_float:
            frame.check(frame.truth(cells[1]), "float division by zero", help="divide only where the divisor is not 0")
        return cells
    if op.code is ops.PY_COMPARE and _are_numbers(cells):
        return [Cell(wide(c.known)) if c.known.type == model.FLOAT and c.known.constant else c for c in cells]
    if op.code is ops.PY_UNARY and sign != "not" and _are_numbers(cells):
        number = _number(cells[0])
        return [_as(frame, cells[0], _integer(number)) if number.is_integer and not number.builtin else cells[0]]
    return cells


def _are_numbers(cells: Sequence[Cell]) -> bool:
    """Whether all are numbers of types that numba has, and at least one is not a Python constant."""
    if not all(isinstance(cell.known.type, model.Number) for cell in cells):
        return False
    if any(_number(cell).mask or _number(cell).format != model.Format.IEEE for cell in cells):
        return False
    return not all(cell.known.constant and _number(cell).builtin for cell in cells)


def _number(cell: Cell) -> model.Number:
    assert isinstance(cell.known.type, model.Number)
    return cell.known.type


def _as(frame: Frame, cell: Cell, type: model.Number) -> Cell:
    if cell.known.type == type:
        return cell
    if cell.known.constant:
        return Cell(Known(type, fit(cell.known, type), where=cell.known.where))
    return Cell(known_as(cell.known, type), frame.materialise(cell, type))


def _integer(*numbers: model.Number) -> model.Number:
    """The type in which integers compute."""
    return model.UINT64 if all(each.kind is model.NumberKind.UINT for each in numbers) else model.INT64


def _common(cells: Sequence[Cell]) -> model.Number:
    """NumPy's type for all of these."""
    numbers = (model.INT64 if cell.known.type == model.INDEX else _number(Cell(wide(cell.known))) for cell in cells)
    return host.number_of(np.result_type(*map(host.host_type_of, numbers)).type)


def _of_binary(frame: Frame, sign: str, cells: list[Cell]) -> list[Cell]:
    x, y = (_number(cell) for cell in cells)
    if model.is_index(x) and model.is_index(y):
        if sign == "/":
            return [_as(frame, cell, model.FLOAT64) for cell in cells]
        if (x.builtin and y.builtin and model.BOOL not in (x, y)) or x == y == model.BOOL:
            return cells  # an index has 64 bits
        x, y = (_number(Cell(wide(cell.known))) for cell in cells)
        if sign in ("<<", ">>"):
            return [_as(frame, cells[0], _integer(x)), cells[1]]
        return [_as(frame, cell, _integer(x, y)) for cell in cells]
    if sign == "**" and y.is_integer and not x.builtin:
        return cells
    type = _common(cells)
    return [_as(frame, cell, type) for cell in cells]


def call(frame: Frame, function: Cell, given: Sequence[Cell]) -> tuple[Cell, Sequence[Cell]]:
    """The function that numba calls, and its arguments. Covers `int`, `round`, `min`, `math`, NumPy and numba's types."""
    value: Any = _of_numba(function.known.value)
    if value is not function.known.value:
        function = frame.literal(value)
    row = find(value)
    arguments = list(given)
    if row is not None or isinstance(value, type):
        arguments = [references.value_of(frame, cell) for cell in arguments]
    if isinstance(value, np.ufunc) and len(arguments) == value.nin + 1:
        *arguments, out = arguments
        return frame.literal(standard.apply_to_each), [
            function,
            out,
            *(Cell(wide(c.known), c.value) for c in arguments),
        ]
    if isinstance(value, type) and issubclass(value, VectorValue):
        return function, [part for cell in arguments for part in _parts(frame, cell)]
    if any(value is each for each in _OF_BITS):
        return function, [Cell(wide(cell.known), cell.value) for cell in arguments]
    of_numbers = value is complex or isinstance(value, np.ufunc) or entry(numbers.REPLACEMENTS, value) is not None
    if not (of_numbers or (row is not None and row.folds)) or not _are_numbers(arguments):
        return function, arguments
    arguments = [Cell(wide(cell.known)) if cell.known.constant else cell for cell in arguments]
    if (other := _instead(value, arguments)) is not None:
        function = frame.literal(other)
    elif len(arguments) == 2 and value in _OPERATORS:
        arguments = _of_binary(frame, _OPERATORS[value], arguments)
    elif value is complex:
        common = _common(arguments)
        common = model.FLOAT64 if model.is_index(common) else common
        function = frame.literal(host.host_type_of(to_complex(common)))
    elif value in (min, max):
        common = _common(arguments)
        arguments = [_as(frame, cell, common) for cell in arguments]
    elif _takes_floats(value):
        arguments = [_as(frame, cell, model.FLOAT64) if model.is_index(_number(cell)) else cell for cell in arguments]
    return function, arguments


def _of_numba(value: Any) -> Any:
    """NumPy's scalar or our vector class for a type of numba; any other value itself."""
    if isinstance(value, type) and value.__module__ == "numba.cuda.stubs":
        return vector_classes.families().get(value.__name__, value)
    return host.number_of_numba(value) or value


def _instead(function: Any, arguments: Sequence[Cell]) -> Any:
    """numba's version of a function for the type of its first argument; None if it is the same."""
    if len(arguments) == 1 and function in _INSTEAD and _number(arguments[0]).is_float == (function is not float):
        return _INSTEAD[function]
    is_narrow = function is round and _number(arguments[0]) in (model.FLOAT16, model.FLOAT32)
    return numbers.round_to_wide if is_narrow else None


def _parts(frame: Frame, cell: Cell) -> list[Cell]:
    """The elements of a vector, which numba accepts as arguments of longer vectors; any other value itself."""
    vector = cell.known.type
    return frame.fields(cell) if isinstance(vector, model.Vector) else [cell]


def _takes_floats(function: Any) -> bool:
    """Whether a function has no version for integers."""
    if isinstance(function, np.ufunc):
        return not any("l" in types.partition("->")[0] for types in function.types)
    if function in (numeric.cbrt, numeric.rsqrt):
        return True
    return getattr(function, "__module__", None) == "math" and function not in _OF_INTEGERS
