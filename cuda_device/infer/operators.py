"""Rules of type inference for operators: arithmetic, comparisons, `in`, `is`, and truth.

    py.binary {op="+"} (float32, int 1)   →   py.binary {op="+"} %0 (const {value=1.0}: float32): float32

Operators on constant builtin numbers are Python's own, evaluated exactly.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from types import FunctionType

import numpy as np

from cuda_device.device.entities import CompileTime
from cuda_device.errors import CompileError
from cuda_device.infer import composites, conditions
from cuda_device.infer.fitting import LARGEST_BITS, too_large
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import complexes, masks
from cuda_device.infer.meanings import DictView, Keywords, Named, Text, Thing, is_container, is_member, means, use_of
from cuda_device.infer.ranges import combine
from cuda_device.infer.remedies import ON_THE_HOST
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.library import prelude, standard
from cuda_device.types.known import Known, between, constant, describe, is_narrow, known_as, of_type
from cuda_device.types.model import (
    BOOL,
    FLOAT32,
    INDEX,
    INT,
    NONE,
    UINT32,
    Array,
    AtomicCell,
    Bundle,
    Number,
    Range,
    Ref,
    Static,
    Struct,
    Subarray,
    Tuple,
    Type,
    Vector,
)
from cuda_device.types.promote import divide, promote, to_complex
from cuda_device.types.structs import alike

FOLDS: dict[str, Callable[..., object]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_UNARY: dict[str, Callable[..., object]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_,
}  # fmt: skip
_BITWISE = frozenset("&|^")
_SHIFTS = frozenset(("<<", ">>"))
# What folding may result in.
_RESULTS = (bool, int, float, complex, str, CompileTime, enum.Enum)


def fold(frame: Frame, function: Callable[..., object], operands: Sequence[Cell]) -> Cell | None:
    """The exact result for constant builtin numbers, strings and None; None if there is none. Too large integers are errors."""
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
        case Number() as number:
            return number.builtin
        case Tuple():
            return all(map(_is_exact, known.items))
        case Static():
            return isinstance(known.value, (str, CompileTime, enum.Enum))
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
        return [frame.emit(ops.PY_UNARY, of_type(BOOL), truth.value, op=sign)]
    folded = fold(frame, _UNARY[sign], cells)
    if folded is not None:
        return [folded]
    own = overloaded(frame, _UNARY_METHODS[sign], cell)
    if own is not None:
        return [own]
    if isinstance(cell.known.type, Vector):
        return [composites.elementwise(frame, lambda parts: unary(frame, op, parts)[0], cells)]
    number = _number(cell, f"the operator {sign}", f"__{_UNARY_METHODS[sign]}__")
    if number.is_complex:
        return [complexes.unary(frame, sign, cell)]
    type = INT if number == BOOL else number
    if sign == "~" and type.is_float:
        raise CompileError(f"~ takes an integer, not {cell.known}", help="convert it: int(…)")
    if sign == "+":
        return [Cell(of_type(type, cell.known.nonneg), frame.materialise(cell, type))]
    known = of_type(type)
    if sign == "-" and type.is_integer:
        known, _ = combine(sign, type, Known(type, 0), known_as(cell.known, type))
    return [frame.emit(ops.PY_UNARY, known, frame.materialise(cell, type), op=sign)]


def _number(cell: Cell, what: str, method: str = "") -> Number:
    if not isinstance(cell.known.type, Number):
        raise CompileError(
            f"{what} is not defined for {cell.known}",
            help=_remedy(cell.known) or _remedy_by_kind("", cell.known) or _own_remedy(method, cell.known),
        )
    return cell.known.type


def numbers_of(sign: str, a: Cell, b: Cell) -> tuple[Number, Number]:
    """The types of two operands that must be numbers."""
    x, y = a.known.type, b.known.type
    if not isinstance(x, Number) or not isinstance(y, Number):
        method = f"__{METHODS[sign]}__" if sign in METHODS else ""
        raise CompileError(
            f"{a.known} {sign} {b.known} is not defined",
            help=_remedy(a.known)
            or _remedy(b.known)
            or _remedy_by_kind(sign, a.known, b.known)
            or _own_remedy(method, a.known, b.known),
        )
    return x, y


def _remedy_by_kind(sign: str, *operands: Known) -> str:
    """What to do where an operand of an operator is a text, bytes, or None."""
    if any(isinstance(operand.value, bytes) for operand in operands):
        return "its items are numbers: b'a'[0]"
    if any(isinstance(operand.value, str | Text) for operand in operands):
        if sign in ("%", "+"):
            return "write one f-string: f'{n} {x:.3f}'"
        if sign in ("<", "<=", ">", ">=", "==", "!=") and any(isinstance(operand.value, Text) for operand in operands):
            return "texts with values of run time are for print: compare the values"
        return "a number is made of text by int('12'), float('1.5') or ord('a')"
    return "test for None with `is`" if any(operand.type == NONE for operand in operands) else ""


def _own_remedy(method: str, *operands: Known) -> str:
    for operand in operands:
        if isinstance(operand.type, Struct) and operand.type.host is not None and method:
            return f"give {operand.type.name} a method {method}"
    if any(is_member(operand) for operand in operands):
        return "take their .value, or make the class an enum.IntEnum, whose members are numbers"
    if any(isinstance(k.type, (Tuple, Vector)) or is_container(k) for k in operands):
        return f"write it for {'its' if len(operands) == 1 else 'their'} elements"
    return next(filter(None, map(use_of, operands)), "take the numbers in it: read its members or attributes")


def _remedy(known: Known) -> str:
    if isinstance(known.type, Array) or isinstance(known.value, np.ndarray):
        return "arithmetic in device code is on elements: index the array first"
    if isinstance(known.type, Ref) and isinstance(known.type.pointee, AtomicCell):
        return "an atomic is read and changed by its methods: x.load(), x.add(value), …"
    return ""


def binary(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x + y` and the other binary operators of numbers, and `+` of tuples."""
    sign = str(op.attributes["op"])
    a, b = cells
    in_place = bool(op.attributes.get("inplace"))
    if in_place and is_container(a.known):
        raise CompileError(
            f"{a.known} is not changed by {sign}=", help="append items one by one; or make another: xs = xs + [v]"
        )
    joined = _join_tuples(frame, sign, a, b)
    if joined is not None:
        return [joined]
    folded = fold(frame, FOLDS[sign], cells) if sign in FOLDS else None
    if folded is not None:
        return [folded]
    own = overloaded(frame, METHODS[sign], a, b, in_place=in_place)
    if own is not None:
        return [own]
    if isinstance(a.known.type, Vector) or isinstance(b.known.type, Vector):
        return [composites.elementwise(frame, lambda parts: binary(frame, op, parts)[0], cells)]
    # NumPy's `x += 1` would change a 0-d array.
    return [_of_numbers(frame, sign, a if in_place else frame.scalar(a), frame.scalar(b))]


def _of_numbers(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    """A binary operator of numbers; an error for anything else."""
    if sign not in FOLDS:
        raise CompileError(
            f"the operator {sign} is not supported in device code", help="write a loop over the elements"
        )
    cells = (a, b)
    if masks.apply(sign, cells):
        return masks.binary(frame, sign, cells)
    x, y = numbers_of(sign, a, b)
    if x.is_complex or y.is_complex:
        return complexes.binary(frame, sign, a, b, _operation_type("+", x, y, a, b))
    if sign in _SHIFTS:
        return _shift(frame, sign, a, b)
    type = _operation_type(sign, x, y, a, b)
    if sign in ("/", "//", "%") and not x.is_float and not y.is_float:
        conditions.divisor(frame, b)
    if sign == "**":
        return _power(frame, a, b, type)
    if sign in ("//", "%") and type.is_float:
        return _floor_division(frame, sign, a, b, type)
    return _arithmetic(frame, sign, type, a, b)


def _arithmetic(frame: Frame, sign: str, type: Number, a: Cell, b: Cell) -> Cell:
    """An operator of numbers that have become `type`."""
    first, second = known_as(a.known, type), known_as(b.known, type)
    if not type.is_integer:
        nonneg = (first.nonneg and second.nonneg and sign in "+*/|^&") or (sign == "%" and second.nonneg)
        return frame.emit(ops.PY_BINARY, of_type(type, nonneg), *(frame.materialise(c, type) for c in (a, b)), op=sign)
    result, exact = combine(sign, type, first, second)
    short = _short(first, second, result) if type == INDEX else type
    operands = [frame.materialise(cell, short) for cell in (a, b)]
    # A builtin integer never leaves its range anyway.
    says = {"exact": True} if exact and sign in "+-*" and not short.builtin else {}
    whole = frame.emit(ops.PY_BINARY, between(short, *result.bounds), *operands, op=sign, **says)
    return whole if short == type else frame.index(whole, result)


def _short(*known: Known) -> Number:
    """The type of 32 bits that has room for all of these indices, in which a GPU computes faster; or else the index."""
    for short in (INT, UINT32):
        if all(short.low <= low and high <= short.high for low, high in (each.bounds for each in known)):
            return short
    return INDEX


def _join_tuples(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell | None:
    """`t + u` and `t * n` of tuples or lists; None for anything else."""
    if sign == "+" and _is_tuple(a) and _is_tuple(b):
        return frame.tuple([*frame.fields(a), *frame.fields(b)])
    if sign == "+" and means(a.known, Thing.LIST) and means(b.known, Thing.LIST):
        return frame.new_list([*frame.fields(a), *frame.fields(b)])
    return (_repeat(frame, a, b) or _repeat(frame, b, a)) if sign == "*" else None


def _is_tuple(cell: Cell) -> bool:
    """Whether it is a tuple, perhaps a named one."""
    return isinstance(cell.known.value, Named) or isinstance(cell.known.type, Tuple)


# More elements than that are no tuple.
_MOST_REPEATED = 1024


def _repeat(frame: Frame, cell: Cell, count: Cell) -> Cell | None:
    """`t * n` of a tuple or list; None if it is neither."""
    is_list = means(cell.known, Thing.LIST)
    if not (is_list or _is_tuple(cell)) or not isinstance(count.known.type, Number):
        return None
    if not count.known.constant or not isinstance(count.known.value, int):
        raise CompileError(
            f"the length of {cell.known} * {count.known} is not known while compiling",
            help="repeat a tuple a constant number of times, or use local_array",
        )
    parts = frame.fields(cell)
    if len(parts) * count.known.value > _MOST_REPEATED:
        raise CompileError(
            f"a tuple of {len(parts) * count.known.value} elements is too long for device code: {_MOST_REPEATED} are the most",
            help="use local_array",
        )
    repeated = parts * count.known.value
    return frame.new_list(repeated) if is_list else frame.tuple(repeated)


METHODS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "<<": "lshift",
    ">>": "rshift", "&": "and", "|": "or", "^": "xor", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
    "@": "matmul",
}  # fmt: skip
_UNARY_METHODS = {"-": "neg", "+": "pos", "~": "invert"}
_REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def overloaded(frame: Frame, method: str, a: Cell, *others: Cell, in_place: bool = False) -> Cell | None:
    """The operator as a struct's own method has it (`__add__`, and `__radd__` of the second operand), if one has.

    `+=` asks for `__iadd__` first.
    """
    own = (_special_method(frame, a, f"i{method}") if in_place else None) or _special_method(frame, a, method)
    if own is not None:
        return frame.program.call(frame, own, [a, *others], {})
    for b in others:
        reflected = _special_method(frame, b, _REFLECTED.get(method, f"r{method}"))
        if reflected is not None:
            return frame.program.call(frame, reflected, [b, a], {})
    return None


def _special_method(frame: Frame, cell: Cell, method: str) -> object:
    struct = cell.known.type
    return frame.method_of(struct, f"__{method}__") if isinstance(struct, Struct) else None


def _operation_type(sign: str, x: Number, y: Number, a: Cell, b: Cell) -> Number:
    type = divide(x, y) if sign == "/" else promote(x, y)
    if type is None:
        wide, other = (x, y) if x.bits == 64 and not x.signed else (y, x)
        raise CompileError(
            f"{a.known} {sign} {b.known}: no integer type holds both {wide} and {other}",
            help=f"convert one of them: int64(…) or {wide}(…)",
        )
    if sign in _BITWISE:
        if type.is_float:
            raise _only_integers(sign, a, b)
        if x == BOOL and y == BOOL:
            return BOOL
    return type


def _only_integers(sign: str, a: Cell, b: Cell) -> CompileError:
    return CompileError(
        f"the operator {sign} takes integers, not {a.known} and {b.known}",
        help="convert them: int(…), or x.view(uint32) for the bits of a number",
    )


def _shift(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    type, count = _number(a, sign), _number(b, sign)
    type = INT if type == BOOL else type
    if type.is_float or count.is_float:
        raise _only_integers(sign, a, b)
    result = combine(sign, type, known_as(a.known, type), b.known)[0] if count.is_integer else of_type(type)
    operands = frame.materialise(a, type), frame.materialise(b, INT if count == BOOL else count)
    return frame.emit(ops.PY_BINARY, result, *operands, op=sign)


def _power(frame: Frame, a: Cell, b: Cell, type: Number) -> Cell:
    if b.known.constant and b.known.value == 2:
        factor = frame.materialise(a, type)
        return frame.emit(ops.PY_BINARY, of_type(type, type.builtin or type.is_float), factor, factor, op="*")
    if type.is_float:
        return frame.emit(ops.PY_BINARY, of_type(type), *(frame.materialise(cell, type) for cell in (a, b)), op="**")
    conditions.power(frame, a, b)
    base = Cell(of_type(type, a.known.nonneg), frame.materialise(a, type))
    return frame.program.call(frame, prelude.integer_power, [base, b], {})


def _floor_division(frame: Frame, sign: str, a: Cell, b: Cell, type: Number) -> Cell:
    """`//` and `%` of floats, written in Python; narrow ones compute in float32 and round once."""
    work = FLOAT32 if type.bits < 32 else type
    function = prelude.float_floor_divide if sign == "//" else prelude.float_modulo
    operands = [
        Cell(of_type(work), frame.materialise(Cell(of_type(type), frame.materialise(cell, type)), work))
        for cell in (a, b)
    ]
    result = frame.program.call(frame, function, operands, {})
    return Cell(of_type(type), frame.materialise(result, type))


def truth(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """What `if` and `while` ask of a value."""
    return [truth_of(frame, cells[0])]


def _truth_method(frame: Frame, struct: Struct) -> FunctionType | None:
    """`__bool__`, or else `__len__`."""
    return frame.method_of(struct, "__bool__") or frame.method_of(struct, "__len__")


def truth_of(frame: Frame, cell: Cell) -> Cell:
    """Whether a value is true in Python's sense, a bool."""
    cell = frame.scalar(cell)
    known = cell.known
    match known.type:
        case Bundle() if isinstance(known.value, Keywords | DictView):
            names = known.items[0].value if isinstance(known.value, DictView) else known.value
            return Cell(constant(bool(names.names) if isinstance(names, Keywords) else True))
        case _ if known.constant:
            try:
                return Cell(constant(bool(known.python)))
            except Exception as error:  # whatever an object's own `__bool__` raises
                raise CompileError(str(error), help="compare it with something, or ask is None") from error
        case Tuple(elements):
            return Cell(constant(bool(elements)))
        case Range():
            length = frame.program.call(frame, standard.length_of_range, [frame.field(cell, i) for i in range(3)], {})
            return truth_of(frame, length)
        case Struct() as struct if (method := _truth_method(frame, struct)) is not None:
            return truth_of(frame, frame.program.call(frame, method, [cell], {}))
        case Number() as number if number == BOOL:
            return cell
        case Number() as number if number.is_complex:
            parts = [frame.materialise(truth_of(frame, part), BOOL) for part in complexes.parts(frame, cell)]
            return frame.emit(ops.PY_BINARY, of_type(BOOL), *parts, op="|")
        case Number() as number:
            return frame.emit(ops.PY_TRUTH, of_type(BOOL), frame.materialise(cell, number))
        case _:
            raise CompileError(f"{known} is neither true nor false", help="compare it, or one of its elements")


# Rules of type inference for comparisons: of numbers, exact; of tuples, item by item; of structs, by their methods; and `is`.
#
# py.compare {op="<"} (int8, uint64)     →   py.compare {op="<"} %0 %1: bool         whatever their signs and widths
# (a, b) < (c, d)                        →   a < c or (a == c and b < d)


def compare(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x < y` and the other comparisons: of numbers, exact; of tuples, `==` and `!=`."""
    sign = str(op.attributes["op"])
    cells = [frame.scalar(cell) for cell in cells]
    folded = fold(frame, FOLDS[sign], cells)
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
    x, y = numbers_of(sign, *cells)
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
    own = overloaded(frame, METHODS[sign], *cells)
    if own is not None:
        return [own]
    if sign != "!=" or any(isinstance(cell.known.value, Named) for cell in cells):
        return None
    equal = overloaded(frame, METHODS["=="], *cells)
    return None if equal is None else _negated(frame, equal)


def _negated(frame: Frame, cell: Cell) -> Sequence[Cell]:
    return frame.unary(Op(ops.PY_UNARY, attributes={"op": "not"}), [cell])


def _compare_in_order(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    """`<` and the like of two tuples: the first items that differ decide, then the lengths."""
    pairs = [(frame.field(a, i), frame.field(b, i)) for i in range(min(_length(a.known.type), _length(b.known.type)))]
    result = Cell(constant(bool(FOLDS[sign](_length(a.known.type), _length(b.known.type)))))
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
                return Cell(constant(bool(FOLDS[sign](*sides)), frame.location))
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
