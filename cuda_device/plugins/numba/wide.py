"""numba's rules for numbers, the policy of kernels of `numba_compat`: Python's numbers have 64 bits.

    x[i] * 0.5       of float32: float64            x[i] + y[i]      of uint8: uint64
    x[i] / 3         of int32: float64              a = 1; a *= 2    in a loop: int64

A constant stays exact until it is combined with a run-time value; it then becomes an int64, float64 or complex128. Integer
arithmetic has 64 bits. A record in a variable is a reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import cuda_device
from cuda_device import CompileError, local_array, shared_array
from cuda_device.extend import Known, model, policies, replace, type_of_hint
from cuda_device.plugins.numba import device_functions
from cuda_device.plugins.numba.types_of_numba import meaning_of

Cell = policies.Cell
Frame = policies.Frame

_WIDE = {model.INT: model.INT64, model.FLOAT: model.FLOAT64, model.COMPLEX: model.COMPLEX128}
_OF_INTEGERS = frozenset((math.gcd, math.lcm, math.isqrt, math.factorial, math.comb, math.perm, math.ldexp))
_OF_BITS = (cuda_device.popc, cuda_device.clz, cuda_device.ffs)
_INSTEAD = {
    math.floor: np.floor, math.ceil: np.ceil, math.trunc: np.trunc, round: device_functions.round_to_int64,
    int: np.int64, float: np.float64,
}  # fmt: skip
"""numba's versions of these functions of a float, and of `float` of an integer."""
_OPERATORS = {pow: "**", divmod: "//"}


class NumbaRules(policies.Policy):
    """The policy. `call` covers `int`, `round`, `min`, `math`, NumPy, arrays of the block or thread, and numba's types."""

    wraps = references = True

    def joined(self, known: Known) -> Known:
        """A value whose Python numbers have 64 bits. Integers that do not fit in 64 bits stay as they are."""
        return _wide(known)

    def argument(self, frame: Frame, cell: Cell) -> Cell:
        """An argument of a kernel. A single record, which is passed as a 0-d array, becomes a reference to the record."""
        array = cell.known.type
        if isinstance(array, model.Array) and array.ndim == 0 and isinstance(array.dtype, model.Struct):
            return frame.item(cell, frame.literal(())) if array.dtype.host is None else cell
        return self.result(frame, cell)

    def result(self, frame: Frame, cell: Cell) -> Cell:
        """The result of an operation, with 64 bits if it is a Python number; what an object of numba or a position means."""
        number = cell.known.type
        if isinstance(number, model.Static):
            return _meaning(frame, cell)
        if cell.value is None or not isinstance(number, model.Number) or number not in _WIDE:
            return cell
        return frame.convert(cell, _WIDE[number])

    def operands(self, frame: Frame, sign: str, cells: list[Cell]) -> list[Cell]:
        """The operands of an operator, converted to the types in which numba computes."""
        if not _are_numbers(cells):
            return cells
        if len(cells) == 1:
            number = _number(cells[0])
            is_narrow = sign != "not" and number.is_integer and not number.builtin
            return [frame.convert(cells[0], _integer(number))] if is_narrow else cells
        if sign in ("==", "!=", "<", "<=", ">", ">="):
            return [Cell(_wide(c.known)) if c.known.type == model.FLOAT and c.known.constant else c for c in cells]
        cells = _of_binary(frame, sign, cells)
        if frame.program.debug and sign in ("/", "//", "%") and _number(cells[1]).is_float:
            frame.check(frame.truth(cells[1]), "float division by zero", help="divide only where the divisor is not 0")
        return cells

    def call(self, frame: Frame, function: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Any:
        """The function that numba calls, and its arguments."""
        value: Any = function.known.value
        if value is device_functions.shared_array or value is device_functions.local_array:
            return _array(frame, value, positional, named)
        if getattr(value, "name", None) == "reshape" and isinstance(function.known.type, model.Bundle):
            return _reshape(frame, function, positional, named)
        if not isinstance(function.known.type, model.Static):
            return function, positional, named
        return *_call(frame, function, list(positional)), named


def _wide(known: Known) -> Known:
    if isinstance(known.type, model.Tuple) and known.items:
        items = tuple(map(_wide, known.items))
        return replace(known, type=model.Tuple(tuple(item.type for item in items)), items=items)
    if not isinstance(known.type, model.Number) or known.type not in _WIDE:
        return known
    type = _WIDE[known.type]
    if known.type == model.INT and known.constant:
        low, high = known.bounds
        type = type if model.INT64.low <= low and high <= model.INT64.high else model.UINT64
        return replace(known, type=type) if type.low <= low and high <= type.high else known
    return replace(known, type=type)


def _meaning(frame: Frame, cell: Cell) -> Cell:
    """What an object of the host means: an object of numba, or one of the positions, whose elements are int64."""
    value = cell.known.value
    if isinstance(value, device_functions.Position):
        vector = frame.literal(value.unsigned)
        wide = frame.composite(model.Vector(model.INT64, 3), frame.fields(vector))
        return Cell(replace(vector.known, type=wide.known.type), wide.value)
    meaning = meaning_of(value)
    return cell if meaning is value else frame.literal(meaning)


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


def _integer(*numbers: model.Number) -> model.Number:
    """The type in which integers compute."""
    return model.UINT64 if all(number.kind is model.NumberKind.UINT for number in numbers) else model.INT64


def _common(cells: Sequence[Cell]) -> model.Number:
    """NumPy's type for all of these."""
    numbers = (model.INT64 if cell.known.type == model.INDEX else _wide(cell.known).type for cell in cells)
    common = type_of_hint(np.result_type(*map(cuda_device.numpy_dtype, numbers)))
    assert isinstance(common, model.Number)
    return common


def _of_binary(frame: Frame, sign: str, cells: list[Cell]) -> list[Cell]:
    x, y = (_number(cell) for cell in cells)
    if model.is_index(x) and model.is_index(y):
        if sign == "/":
            return [frame.convert(cell, model.FLOAT64) for cell in cells]
        if (x.builtin and y.builtin and model.BOOL not in (x, y)) or x == y == model.BOOL:
            return cells  # an index has 64 bits
        x, y = (_number(Cell(_wide(cell.known))) for cell in cells)
        if sign in ("<<", ">>"):
            return [frame.convert(cells[0], _integer(x)), cells[1]]
        return [frame.convert(cell, _integer(x, y)) for cell in cells]
    if sign == "**" and y.is_integer and not x.builtin:
        return cells
    type = _common(cells)
    return [frame.convert(cell, type) for cell in cells]


def _array(frame: Frame, function: Any, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Any:
    """`cuda.shared.array` and `cuda.local.array`; of the shape 0, all of the launch's dynamic shared memory."""
    try:
        shape, dtype, alignment = device_functions.array_arguments(*positional, **named)
    except TypeError as error:
        memory = "shared" if function is device_functions.shared_array else "local"
        raise CompileError(
            f"cuda.{memory}.array: {str(error).partition('() ')[2]}",
            help=f"write cuda.{memory}.array(shape, dtype, alignment)",
        ) from None
    if function is device_functions.shared_array and shape.known.constant and shape.known.python == 0:
        return frame.literal(device_functions.dynamic), [dtype], {}
    align = {} if alignment is None or alignment.known.python is None else {"align": alignment}
    ours = shared_array if function is device_functions.shared_array else local_array
    return frame.literal(ours), [shape, dtype], align


def _reshape(frame: Frame, method: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Any:
    """`x.reshape(n, m)`, where one length may be -1 at run time."""
    lengths = [*positional, *([named["shape"]] if "shape" in named else [])]
    known = [item for cell in lengths for item in cell.known.items or (cell.known,)]
    owner = frame.field(method, 0)
    is_plain = all(item.nonneg for item in known) or any(item.value == -1 for item in known)
    if is_plain or not isinstance(owner.known.type, model.Array):
        return method, positional, named
    return frame.literal(device_functions.reshape), [owner, *lengths], {}


def _call(frame: Frame, function: Cell, arguments: list[Cell]) -> tuple[Cell, list[Cell]]:
    value: Any = function.known.value
    row = frame.program.row(value)
    if isinstance(value, np.ufunc) and len(arguments) == value.nin + 1:
        *arguments, out = arguments
        elementwise = frame.literal(device_functions.apply_to_each)
        return elementwise, [function, out, *(Cell(_wide(c.known), c.value) for c in arguments)]
    if isinstance(value, type) and issubclass(value, cuda_device.Vector):
        return function, [part for cell in arguments for part in _parts(frame, cell)]
    if any(value is reinterpreting for reinterpreting in _OF_BITS):
        return function, [Cell(_wide(cell.known), cell.value) for cell in arguments]
    is_math = value is complex or value is pow or getattr(value, "__module__", None) == "math"
    of_numbers = is_math or isinstance(value, np.ufunc) or (row is not None and row.folds)
    if not of_numbers or not _are_numbers(arguments):
        return function, arguments
    arguments = [Cell(_wide(cell.known)) if cell.known.constant else cell for cell in arguments]
    if (other := _instead(value, arguments)) is not None:
        function = frame.literal(other)
    elif len(arguments) == 2 and value in _OPERATORS:
        arguments = _of_binary(frame, _OPERATORS[value], arguments)
    elif value is complex:
        is_single = _common(arguments) in (model.FLOAT16, model.FLOAT32, model.COMPLEX64)
        function = frame.literal(np.complex64 if is_single else np.complex128)
    elif value in (min, max):
        common = _common(arguments)
        arguments = [frame.convert(cell, common) for cell in arguments]
    elif _takes_floats(value):
        arguments = [
            frame.convert(cell, model.FLOAT64) if model.is_index(_number(cell)) else cell for cell in arguments
        ]
    return function, arguments


def _instead(function: Any, arguments: Sequence[Cell]) -> Any:
    """numba's version of a function for the type of its first argument; None if it is the same."""
    if len(arguments) == 1 and function in _INSTEAD and _number(arguments[0]).is_float == (function is not float):
        return _INSTEAD[function]
    is_narrow = function is round and _number(arguments[0]) in (model.FLOAT16, model.FLOAT32)
    return device_functions.round_to_wide if is_narrow else None


def _parts(frame: Frame, cell: Cell) -> list[Cell]:
    """The elements of a vector, which numba accepts as arguments of longer vectors; any other value itself."""
    vector = cell.known.type
    return frame.fields(cell) if isinstance(vector, model.Vector) else [cell]


def _takes_floats(function: Any) -> bool:
    """Whether a function has no version for integers."""
    if isinstance(function, np.ufunc):
        return not any("l" in types.partition("->")[0] for types in function.types)
    if function in (cuda_device.cbrt, cuda_device.rsqrt):
        return True
    return getattr(function, "__module__", None) == "math" and function not in _OF_INTEGERS


POLICY = NumbaRules()
