"""Rules of type inference for operators: arithmetic, comparisons, `is`, and truth.

    py.binary {op="+"} (float32, int 1)   →   py.binary {op="+"} %0 (const {value=1.0}: float32): float32

Operators on constant builtin numbers are Python's own, evaluated exactly.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from cuda_device.device import prelude
from cuda_device.device.entities import CompileTime
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.model import Op, Value
from cuda_device.passes import complexes, composites, conditions, masks
from cuda_device.passes.frame import MISSING, Cell, Frame
from cuda_device.types import structs
from cuda_device.types.known import Known, constant, describe, nonneg_as, of_type
from cuda_device.types.model import (
    BOOL,
    FLOAT32,
    INT,
    NONE,
    Array,
    Atomic,
    Number,
    Ref,
    Static,
    Struct,
    Tuple,
    Type,
    Vector,
)
from cuda_device.types.promote import divide, promote

_FOLDS: dict[str, Callable[..., object]] = {
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
_RESULTS = (bool, int, float, complex, str, CompileTime)
# About the largest constant that folding makes.
_LARGEST_BITS = 4096


def _fold(frame: Frame, function: Callable[..., object], operands: Sequence[Cell]) -> Cell | None:
    """The exact result for constant builtin numbers, strings and None; None if there is none."""
    values = [cell.known.python for cell in operands]
    if not all(cell.known.constant and _is_exact(cell.known) for cell in operands):
        return None
    if not _is_small(function, values):
        return None
    try:
        result = function(*values)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return Cell(constant(result, frame.location)) if isinstance(result, _RESULTS) else None


def _is_small(function: Callable[..., object], values: Sequence[object]) -> bool:
    """Whether a result has a bounded size: `(10**4000) ** 4000` must not stop the compiler."""
    if any(not isinstance(value, (bool, int, float, complex)) for value in values):
        return function not in (operator.mul, operator.mod)
    bits = [value.bit_length() for value in values if isinstance(value, int)]
    if len(bits) < len(values):
        return True
    if function in (operator.pow, operator.lshift):
        count = values[-1]
        assert isinstance(count, int)
        return (bits[0] if function is operator.pow else 1) * abs(count) <= _LARGEST_BITS
    return sum(bits) <= 2 * _LARGEST_BITS


def _is_exact(known: Known) -> bool:
    match known.type:
        case Number() as number:
            return number.builtin
        case Tuple():
            return all(map(_is_exact, known.items))
        case Static():
            return isinstance(known.value, (str, CompileTime))
        case _:
            return True


def unary(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`-x`, `+x`, `~x` and `not x`."""
    (cell,) = cells
    sign = str(op.attributes["op"])
    if sign == "not":
        truth = truth_of(frame, cell)
        if truth.known.constant:
            return [Cell(constant(not truth.known.value))]
        assert truth.value is not None
        return [frame.emit(ops.PY_UNARY, of_type(BOOL), truth.value, op=sign)]
    folded = _fold(frame, _UNARY[sign], cells)
    if folded is not None:
        return [folded]
    overloaded = _overloaded(frame, {"-": "neg", "+": "pos", "~": "invert"}[sign], cell)
    if overloaded is not None:
        return [overloaded]
    if isinstance(cell.known.type, Vector):
        return [composites.elementwise(frame, lambda parts: unary(frame, op, parts)[0], cells)]
    number = _number(cell, f"the operator {sign}")
    if number.is_complex:
        return [complexes.unary(frame, sign, cell)]
    type = INT if number == BOOL else number
    if sign == "~" and type.is_float:
        raise CompileError(f"~ takes an integer, not {cell.known}")
    if sign == "+":
        return [Cell(of_type(type, cell.known.nonneg), frame.materialise(cell, type))]
    return [frame.emit(ops.PY_UNARY, of_type(type), frame.materialise(cell, type), op=sign)]


def _number(cell: Cell, what: str) -> Number:
    if not isinstance(cell.known.type, Number):
        raise CompileError(f"{what} is not defined for {cell.known}", help=_remedy(cell.known.type))
    return cell.known.type


def _numbers(sign: str, a: Cell, b: Cell) -> tuple[Number, Number]:
    x, y = a.known.type, b.known.type
    if not isinstance(x, Number) or not isinstance(y, Number):
        none = "test for None with `is`" if NONE in (x, y) else ""
        raise CompileError(f"{a.known} {sign} {b.known} is not defined", help=_remedy(x) or _remedy(y) or none)
    return x, y


def _remedy(type: Type) -> str:
    match type:
        case Array():
            return "arithmetic in device code is on elements: index the array first"
        case Ref(_, Atomic()):
            return "an atomic is read and changed by its methods: x.load(), x.add(value), …"
    return ""


def binary(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x + y` and the other binary operators of numbers, and `+` of tuples."""
    sign = str(op.attributes["op"])
    a, b = cells
    if sign == "+" and isinstance(a.known.type, Tuple) and isinstance(b.known.type, Tuple):
        return [frame.tuple([frame.field(cell, i) for cell in cells for i in range(len(cell.known.items))])]
    folded = _fold(frame, _FOLDS[sign], cells) if sign in _FOLDS else None
    if folded is not None:
        return [folded]
    if sign not in _FOLDS:
        raise CompileError(
            f"the operator {sign} is not supported in device code", help="write a loop over the elements"
        )
    if isinstance(a.known.type, Vector) or isinstance(b.known.type, Vector):
        return [composites.elementwise(frame, lambda parts: binary(frame, op, parts)[0], cells)]
    overloaded = _overloaded(frame, _METHODS.get(sign, ""), a, b)
    if overloaded is not None:
        return [overloaded]
    if masks.apply(sign, cells):
        return [masks.binary(frame, sign, cells)]
    x, y = _numbers(sign, a, b)
    if x.is_complex or y.is_complex:
        return [complexes.binary(frame, sign, a, b, _operation_type("+", x, y, a, b))]
    if sign in _SHIFTS:
        return [_shift(frame, sign, a, b)]
    type = _operation_type(sign, x, y, a, b)
    if sign in ("/", "//", "%") and not x.is_float and not y.is_float:
        conditions.divisor(frame, b)
    if sign == "**":
        return [_power(frame, a, b, type)]
    if sign in ("//", "%") and type.is_float:
        return [_floor_division(frame, sign, a, b, type)]
    nonneg = _stays_nonneg(sign, type, a.known, b.known)
    return [frame.emit(ops.PY_BINARY, of_type(type, nonneg), *(frame.materialise(c, type) for c in cells), op=sign)]


_METHODS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "<<": "lshift",
    ">>": "rshift", "&": "and", "|": "or", "^": "xor", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
    "@": "matmul",
}  # fmt: skip
_REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _overloaded(frame: Frame, method: str, a: Cell, *others: Cell) -> Cell | None:
    """The operator as a struct's own method has it (`__add__`, and `__radd__` of the second operand), if one has."""
    own = _special_method(frame, a, method)
    if own is not None:
        return frame.program.call(frame, own, [a, *others], {})
    for b in others:
        reflected = _special_method(frame, b, _REFLECTED.get(method, f"r{method}"))
        if reflected is not None:
            return frame.program.call(frame, reflected, [b, a], {})
    return None


def _special_method(frame: Frame, cell: Cell, method: str) -> object:
    struct = cell.known.type
    if not isinstance(struct, Struct) or struct.host is None:
        return None
    name = f"__{method}__"
    frame.program.depend(struct.host, name, getattr(struct.host, name, MISSING))
    found = vars(struct.host).get(name)
    # What every struct is given (`__eq__`) is not the user's.
    return None if getattr(found, "__module__", None) == structs.__name__ else found


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
            raise CompileError(f"the operator {sign} takes integers, not {a.known} and {b.known}")
        if x == BOOL and y == BOOL:
            return BOOL
    return type


def _stays_nonneg(sign: str, type: Number, a: Known, b: Known) -> bool:
    """Whether a result is known not to be negative. Sums of builtin ints do not wrap: their overflow is undefined."""
    if not type.signed:
        return True
    first, second = nonneg_as(a, type), nonneg_as(b, type)
    if sign in ("+", "*"):
        return first and second and (type.builtin or type.is_float)
    if sign == "%":
        return second
    if sign == "&":
        return first or second
    return first and second and sign in ("//", "/", "|", "^")


def _shift(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    type, count = _number(a, sign), _number(b, sign)
    type = INT if type == BOOL else type
    if type.is_float or count.is_float:
        raise CompileError(f"the operator {sign} takes integers, not {a.known} and {b.known}")
    nonneg = sign == ">>" and a.known.nonneg
    operands = frame.materialise(a, type), frame.materialise(b, INT if count == BOOL else count)
    return frame.emit(ops.PY_BINARY, of_type(type, nonneg), *operands, op=sign)


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


def compare(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x < y` and the other comparisons: of numbers, exact; of tuples, `==` and `!=`."""
    sign = str(op.attributes["op"])
    folded = _fold(frame, _FOLDS[sign], cells)
    if folded is not None:
        return [folded]
    if all(cell.known.type == Static() for cell in cells) and sign in ("==", "!="):
        return [Cell(constant(_equal(*(cell.known.value for cell in cells)) == (sign == "==")))]
    overloaded = _overloaded(frame, _METHODS[sign], *cells)
    if overloaded is not None:
        return [overloaded]
    if sign in ("==", "!=") and all(isinstance(cell.known.type, (Tuple, Vector, Struct)) for cell in cells):
        return [_compare_composites(frame, sign, *cells)]
    if masks.apply(sign, cells):
        return [masks.binary(frame, sign, cells)]
    x, y = _numbers(sign, *cells)
    if x.is_complex or y.is_complex:
        if sign not in ("==", "!="):
            a, b = (cell.known for cell in cells)
            raise CompileError(f"{a} {sign} {b}: complex numbers have no order", help="compare their abs(…), or .real")
        pairs = zip(*(complexes.parts(frame, cell) for cell in cells), strict=True)
        return [_all_equal(frame, sign, list(pairs))]
    operands = _comparable(frame, sign, x, y, *cells)
    if isinstance(operands, Cell):
        return [operands]
    return [frame.emit(ops.PY_COMPARE, of_type(BOOL), *operands, op=sign)]


def _equal(a: object, b: object) -> bool:
    """Whether two objects that exist while compiling are equal, in the words of their own `__eq__`."""
    try:
        return a is b or bool(a == b)
    except Exception as error:
        raise CompileError(f"{describe(a)} and {describe(b)} cannot be compared: {error}") from error


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
                return Cell(constant(bool(_FOLDS[sign](*sides)), frame.location))
            x = y = INT if theirs == BOOL else theirs
        elif (type := promote(number, theirs)) is not None:
            x = y = type
    if x.is_float != y.is_float and (type := promote(x, y)) is not None:
        x = y = type
    return frame.materialise(a, INT if x == BOOL else x), frame.materialise(b, INT if y == BOOL else y)


def _compare_composites(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    """`==` of tuples, of vectors and of structs: all members equal."""
    sizes = {_length(cell.known.type) for cell in (a, b)}
    kinds = {cell.known.type if isinstance(cell.known.type, Struct) else type(cell.known.type) for cell in (a, b)}
    if len(sizes) == 2 or len(kinds) == 2:
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
    if a.type == BOOL and b.type == BOOL:
        return compare(frame, Op(ops.PY_COMPARE, attributes={"op": "!=" if inverted else "=="}), cells)
    raise CompileError("`is` compares with None, functions, types and bools in device code", help="use ==")


def truth(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """What `if` and `while` ask of a value."""
    return [truth_of(frame, cells[0])]


def truth_of(frame: Frame, cell: Cell) -> Cell:
    """Whether a value is true in Python's sense, a bool."""
    known = cell.known
    match known.type:
        case _ if known.constant:
            try:
                return Cell(constant(bool(known.python)))
            except Exception as error:  # whatever an object's own `__bool__` raises
                raise CompileError(str(error)) from error
        case Tuple(elements):
            return Cell(constant(bool(elements)))
        case Number() as number if number == BOOL:
            return cell
        case Number() as number if number.is_complex:
            return _all_equal(frame, "!=", [(part, Cell(constant(0))) for part in complexes.parts(frame, cell)])
        case Number() as number:
            return frame.emit(ops.PY_TRUTH, of_type(BOOL), frame.materialise(cell, number))
        case _:
            raise CompileError(f"{known} is neither true nor false", help="compare it, or one of its elements")
