"""One rule of type inference for each operation of the python level: what is known of the operands → of the results.

A rule gets the frame, the operation and its operands' cells, writes typed operations, and returns a cell for each
result. It raises `CompileError` without a place: the caller knows where it stands.

    py.binary {op="+"} (float32, int 1)   →   py.binary {op="+"} %0 (const {value=1.0}: float32): float32
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from types import ModuleType

from ..device import prelude
from ..errors import CompileError
from ..ir import ops
from ..ir.model import Op, Value
from ..types.host import host_type_of
from ..types.known import UNKNOWN, Known, constant, iterator_of, of_type, tuple_of
from ..types.model import (
    BOOL,
    INDEX,
    INT,
    Array,
    Number,
    Range,
    RangeIterator,
    Static,
    Tuple,
    TupleIterator,
    Type,
    Vector,
)
from ..types.promote import divide, promote
from .calls import call
from .frame import Cell, Frame, is_static

Rule = Callable[[Frame, Op, Sequence[Cell]], Sequence[Cell]]

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
# The largest constant that folding makes: `1 << 10**9` must not stop the compiler.
_LARGEST_BITS = 4096


def _const(_: Frame, op: Op, __: Sequence[Cell]) -> Sequence[Cell]:
    return [Cell(constant(op.attributes["value"], op.location))]


def _global(frame: Frame, op: Op, _: Sequence[Cell]) -> Sequence[Cell]:
    name = str(op.attributes["name"])
    for owner in (frame.globals, vars(builtins)):
        if name in owner:
            frame.program.depend(owner, name, owner[name])
            return [frame.literal(owner[name])]
    raise CompileError(f"the name {name!r} is not defined", help="define it, or import it, before the kernel is launched")


def _cell(frame: Frame, op: Op, _: Sequence[Cell]) -> Sequence[Cell]:
    name = str(op.attributes["name"])
    cell = frame.closure.get(name)
    if cell is None:
        raise CompileError(
            f"the variable {name!r} is captured by a nested function, which device code does not support yet",
            help="pass it to the nested function as an argument",
        )
    try:
        value = cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:
        raise CompileError(f"the variable {name!r} of the enclosing function has no value yet") from None
    frame.program.depend(cell, name, value)
    return [frame.literal(value)]


def _unsupported(_: Frame, op: Op, __: Sequence[Cell]) -> Sequence[Cell]:
    raise CompileError(f"{op.attributes['what']} is not supported in device code")


# Operators


def _fold(frame: Frame, function: Callable[..., object], operands: Sequence[Cell]) -> Cell | None:
    """The exact result for constant builtin numbers, strings and None; None if there is none."""
    values = [cell.known.python for cell in operands]
    if not all(cell.known.constant and _is_exact(cell.known) for cell in operands):
        return None
    if function in (operator.lshift, operator.pow) and not all(
        isinstance(v, (int, float)) and abs(v) <= _LARGEST_BITS for v in values[1:]
    ):
        return None
    try:
        result = function(*values)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return Cell(constant(result, frame.location)) if isinstance(result, (bool, int, float, str)) else None


def _is_exact(known: Known) -> bool:
    match known.type:
        case Number() as number:
            return number.builtin
        case Tuple():
            return all(map(_is_exact, known.items))
        case Static():
            return isinstance(known.value, str)
        case _:
            return True


def _unary(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    (cell,) = cells
    sign = str(op.attributes["op"])
    if sign == "not":
        truth = _truth_of(frame, cell)
        if truth.known.constant:
            return [Cell(constant(not truth.known.value))]
        assert truth.value is not None
        return [frame.emit(ops.PY_UNARY, of_type(BOOL), truth.value, op=sign)]
    folded = _fold(frame, _UNARY[sign], cells)
    if folded is not None:
        return [folded]
    number = _number(cell, f"{sign}x")
    type = INT if number == BOOL else number
    if sign == "~" and type.is_float:
        raise CompileError(f"~ takes an integer, not {cell.known}")
    if sign == "+":
        return [Cell(of_type(type, cell.known.nonneg), frame.materialise(cell, type))]
    return [frame.emit(ops.PY_UNARY, of_type(type), frame.materialise(cell, type), op=sign)]


def _number(cell: Cell, what: str) -> Number:
    if not isinstance(cell.known.type, Number):
        raise CompileError(f"{what} is not defined for {cell.known}", help=_array_help(cell.known.type))
    return cell.known.type


def _array_help(type: Type) -> str:
    return "arithmetic in device code is on elements: index the array first" if isinstance(type, Array) else ""


def _binary(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    sign = str(op.attributes["op"])
    a, b = cells
    if sign == "+" and isinstance(a.known.type, Tuple) and isinstance(b.known.type, Tuple):
        return [frame.tuple([frame.field(cell, i) for cell in cells for i in range(len(cell.known.items))])]
    folded = _fold(frame, _FOLDS[sign], cells) if sign in _FOLDS else None
    if folded is not None:
        return [folded]
    if sign not in _FOLDS:
        raise CompileError(f"the operator {sign} is not supported in device code")
    x, y = (_number(cell, f"the operator {sign}") for cell in cells)
    if sign in _SHIFTS:
        return [_shift(frame, sign, a, b)]
    type = _operation_type(sign, x, y, a, b)
    if sign == "**":
        return [_power(frame, a, b, type)]
    if sign in ("//", "%") and type.is_float:
        function = prelude.float_floor_divide if sign == "//" else prelude.float_modulo
        return _prelude(frame, function, a, b, type)
    nonneg = _stays_nonneg(sign, type, a.known, b.known)
    return [frame.emit(ops.PY_BINARY, of_type(type, nonneg), *(frame.materialise(c, type) for c in cells), op=sign)]


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
    both = a.nonneg and b.nonneg
    if sign in ("+", "*"):
        return both and (type.builtin or type.is_float)
    if sign == "%":
        return b.nonneg
    if sign == "&":
        return a.nonneg or b.nonneg
    return both and sign in ("//", "/", "|", "^")


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
        base = frame.materialise(a, type)
        return frame.emit(ops.PY_BINARY, of_type(type, type.builtin or type.is_float), base, base, op="*")
    if type.is_float:
        return frame.emit(ops.PY_BINARY, of_type(type), *(frame.materialise(cell, type) for cell in (a, b)), op="**")
    base = Cell(of_type(type, a.known.nonneg), frame.materialise(a, type))
    return frame.program.call(frame, prelude.integer_power, [base, b], {})


def _prelude(frame: Frame, function: object, a: Cell, b: Cell, type: Number) -> Sequence[Cell]:
    operands = [Cell(of_type(type), frame.materialise(cell, type)) for cell in (a, b)]
    return [frame.program.call(frame, function, operands, {})]


def _compare(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    sign = str(op.attributes["op"])
    folded = _fold(frame, _FOLDS[sign], cells)
    if folded is not None:
        return [folded]
    if all(cell.known.type == Static() for cell in cells) and sign in ("==", "!="):
        a, b = (cell.known.value for cell in cells)
        return [Cell(constant((a is b or bool(a == b)) == (sign == "==")))]
    if sign in ("==", "!=") and all(isinstance(cell.known.type, Tuple) for cell in cells):
        return [_compare_tuples(frame, sign, *cells)]
    x, y = (_number(cell, f"the comparison {sign}") for cell in cells)
    operands = _comparable(frame, sign, x, y, *cells)
    if isinstance(operands, Cell):
        return [operands]
    return [frame.emit(ops.PY_COMPARE, of_type(BOOL), *operands, op=sign)]


def _comparable(frame: Frame, sign: str, x: Number, y: Number, a: Cell, b: Cell) -> tuple[Value, Value] | Cell:
    """The operands of an exact comparison: a constant takes the other's type, or decides alone if it has no room there."""
    if x == BOOL and y == BOOL:
        return frame.materialise(a, BOOL), frame.materialise(b, BOOL)
    for number, cell, other in ((x, a, b), (y, b, a)):
        if not cell.known.constant or other.known.constant:
            continue
        theirs = y if cell is a else x
        if not number.is_float and theirs.is_integer and isinstance(cell.known.value, int):
            if not theirs.low <= cell.known.value <= theirs.high:
                inside = theirs.low  # every value of that type lies on the same side of the constant
                sides = (cell.known.value, inside) if cell is a else (inside, cell.known.value)
                return Cell(constant(bool(_FOLDS[sign](*sides)), frame.location))
            x = y = theirs
        elif (type := promote(number, theirs)) is not None:
            x = y = type
    if x.is_float != y.is_float and (type := promote(x, y)) is not None:
        x = y = type
    return frame.materialise(a, INT if x == BOOL else x), frame.materialise(b, INT if y == BOOL else y)


def _compare_tuples(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    if len(a.known.items) != len(b.known.items):
        return Cell(constant(sign == "!="))
    result: Cell | None = None
    for i in range(len(a.known.items)):
        (equal,) = _compare(frame, Op(ops.PY_COMPARE, attributes={"op": sign}), (frame.field(a, i), frame.field(b, i)))
        joined = [cell for cell in (result, equal) if cell is not None]
        result = equal
        if len(joined) == 2:
            values = [frame.materialise(cell, BOOL) for cell in joined]
            result = frame.emit(ops.PY_BINARY, of_type(BOOL), *values, op="&" if sign == "==" else "|")
    return result or Cell(constant(sign == "=="))


def _is(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    a, b = (cell.known for cell in cells)
    inverted = bool(op.attributes["inverted"])
    if None in (a.value, b.value) and a.value is not UNKNOWN or b.value is None:
        return [Cell(constant((a.value is b.value) != inverted))]
    if isinstance(a.type, Static) and isinstance(b.type, Static):
        return [Cell(constant((a.value is b.value) != inverted))]
    if a.type == BOOL and b.type == BOOL:
        return _compare(frame, Op(ops.PY_COMPARE, attributes={"op": "!=" if inverted else "=="}), cells)
    raise CompileError("`is` compares with None, functions, types and bools in device code", help="use ==")


def _truth(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    return [_truth_of(frame, cells[0])]


def _truth_of(frame: Frame, cell: Cell) -> Cell:
    known = cell.known
    match known.type:
        case _ if known.constant:
            return Cell(constant(bool(known.python)))
        case Tuple(elements):
            return Cell(constant(bool(elements)))
        case Number() as number if number == BOOL:
            return cell
        case Number() as number:
            return frame.emit(ops.PY_TRUTH, of_type(BOOL), frame.materialise(cell, number))
        case _:
            raise CompileError(f"{known} is neither true nor false", help="compare it, or one of its elements")


# Attributes and items


def _getattr(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    (cell,) = cells
    name = str(op.attributes["name"])
    match cell.known.type:
        case Static():
            return [_static_attribute(frame, cell.known.value, name)]
        case Array() as array:
            return [_array_attribute(frame, cell, array, name)]
        case Vector(_, size) if name in "xyzw"[:size]:
            return [frame.field(cell, "xyzw".index(name))]
        case Vector(_, size) if name == "size":
            return [Cell(constant(size))]
        case Number() as number if name == "dtype":
            return [Cell(constant(host_type_of(number)))]
    raise CompileError(f"{cell.known} has no attribute {name!r} in device code")


def _static_attribute(frame: Frame, owner: object, name: str) -> Cell:
    try:
        value = getattr(owner, name)
    except AttributeError:
        shown = getattr(owner, "__name__", None) or repr(owner)
        raise CompileError(f"{shown} has no attribute {name!r}") from None
    if isinstance(owner, (ModuleType, type)):
        frame.program.depend(owner, name, value)
    return frame.literal(value)


def _array_attribute(frame: Frame, cell: Cell, array: Array, name: str) -> Cell:
    assert cell.value is not None
    index = of_type(INDEX, nonneg=True)
    match name:
        case "ndim":
            return Cell(constant(array.ndim))
        case "dtype":
            assert isinstance(array.dtype, Number)
            return Cell(constant(host_type_of(array.dtype)))
        case "shape":
            return frame.tuple([frame.emit(ops.EXTENT, index, cell.value, axis=i) for i in range(array.ndim)])
        case "strides":
            steps = [frame.emit(ops.STRIDE, of_type(INDEX), cell.value, axis=i) for i in range(array.ndim)]
            return frame.tuple(steps)
        case "size":
            size = Cell(constant(1))
            for axis in range(array.ndim):
                extent = frame.emit(ops.EXTENT, index, cell.value, axis=axis)
                operands = [frame.materialise(part, INDEX) for part in (size, extent)]
                size = frame.emit(ops.PY_BINARY, index, *operands, op="*") if axis else extent
            return size
    raise CompileError(f"arrays have no attribute {name!r} in device code", help="there are shape, strides, size, ndim, dtype")


def _getitem(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    owner, index = cells
    match owner.known.type:
        case Array() as array:
            assert owner.value is not None
            indices = _indices(frame, array, index)
            return [frame.emit(ops.PY_GETITEM, of_type(array.dtype), owner.value, *indices)]
        case Tuple(elements):
            return [frame.field(owner, _position(index, len(elements)))]
        case Vector(_, size):
            return [frame.field(owner, _position(index, size))]
    raise CompileError(f"{owner.known} cannot be indexed in device code")


def _position(index: Cell, count: int) -> int:
    if not index.known.constant or not isinstance(index.known.value, int):
        raise CompileError("the index of a tuple must be a constant integer", help="its elements may differ in type")
    position = int(index.known.value)
    if not -count <= position < count:
        raise CompileError(f"the index {position} is outside the {count} elements")
    return position % count


def _indices(frame: Frame, array: Array, index: Cell) -> list[Value]:
    tuple_index = isinstance(index.known.type, Tuple)
    parts = [frame.field(index, i) for i in range(len(index.known.items))] if tuple_index else [index]
    if len(parts) != array.ndim:
        raise CompileError(
            f"{len(parts)} indices for {array}", help=f"device code indexes all {array.ndim} axes at once: a[i, …]"
        )
    values = []
    for part in parts:
        type = part.known.type
        if not isinstance(type, Number) or not (type.is_integer or type == BOOL):
            raise CompileError(f"an index is an integer, not {part.known}", help="convert it: int(…)")
        roomy = INDEX if part.known.constant and type == INT else INT if type == BOOL else type
        values.append(frame.materialise(part, roomy))
    return values


def _setitem(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    owner, index, value = cells
    array = owner.known.type
    if not isinstance(array, Array):
        raise CompileError(f"{owner.known} cannot be changed in device code", help="only elements of arrays are assigned to")
    if array.readonly:
        raise CompileError(f"the array is read-only: {array}", help="pass an array that can be written")
    assert owner.value is not None
    element = array.dtype
    if not isinstance(value.known.type, Number) or not isinstance(element, Number):
        raise CompileError(f"an element of {array} cannot be set to {value.known}")
    indices = _indices(frame, array, index)
    item = frame.materialise(_as_stored(frame, value, element), element)
    frame.build.effect(ops.PY_SETITEM, owner.value, *indices, item)
    return []


def _as_stored(frame: Frame, value: Cell, element: Number) -> Cell:
    """A value on its way into memory converts as the element type's constructor would."""
    if value.known.constant and isinstance(value.known.value, float) and not element.is_float:
        return call(frame, frame.literal(host_type_of(element)), [value], {})
    return value


def _tuple(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    return [frame.tuple(cells)]


def _unpack(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    (cell,) = cells
    count = len(op.results)
    type = cell.known.type
    if not isinstance(type, (Tuple, Vector)):
        raise CompileError(f"{cell.known} cannot be unpacked")
    size = len(type.elements) if isinstance(type, Tuple) else type.size
    if size != count:
        raise CompileError(f"{count} names for {size} values")
    return [frame.field(cell, i) for i in range(count)]


# Loops


def _iter(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    (cell,) = cells
    match cell.known.type:
        case Range(item):
            assert cell.value is not None
            return [frame.emit(ops.PY_ITER, Known(RangeIterator(item), items=cell.known.items), cell.value)]
        case Tuple():
            known = iterator_of(cell.known)
            if is_static(known):
                return [Cell(known)]
            parts = [frame.materialise(frame.field(cell, i), item.type) for i, item in enumerate(cell.known.items)]
            return [frame.emit(ops.MAKE, known, *parts)]
        case Vector(_, size):
            return _iter(frame, Op(ops.PY_ITER), [frame.tuple([frame.field(cell, i) for i in range(size)])])
    raise CompileError(f"a for loop cannot run over {cell.known}", help="loop over range(…) or a tuple")


def _next(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    (cell,) = cells
    if isinstance(cell.known.type, TupleIterator):
        return _next_of_tuple(frame, cell, cell.known.type)
    assert isinstance(cell.known.type, RangeIterator) and cell.value is not None
    type = cell.known.type
    start, stop, step = cell.known.items
    up = step.constant and isinstance(step.value, int) and step.value > 0
    down = step.constant and not up and isinstance(stop.value, int) and stop.value >= -1
    nonneg = start.nonneg and (up or down)
    after = Known(type, items=(of_type(type.item, start.nonneg and up or nonneg), stop, step))
    results = [Value(BOOL), Value(type.item, nonneg=nonneg), Value(type)]
    known_step = step.value if step.constant else None
    frame.build.append(Op(ops.PY_NEXT, [cell.value], results, {"step": known_step}, [], op.location))
    return [
        Cell(of_type(BOOL), results[0]),
        Cell(of_type(type.item, nonneg), results[1]),
        Cell(after, results[2]),
    ]


def _next_of_tuple(frame: Frame, cell: Cell, type: TupleIterator) -> Sequence[Cell]:
    if type.position == len(type.items.elements):
        return [Cell(constant(False)), Cell(constant(None)), cell]
    after = iterator_of(tuple_of(cell.known.items), type.position + 1)
    parts = [frame.field(cell, i) for i in range(len(cell.known.items))]
    value = None
    if not is_static(after):
        value = frame.build.op(ops.MAKE, after.type, *(frame.materialise(part, part.known.type) for part in parts))
    return [Cell(constant(True)), parts[type.position], Cell(after, value)]


def _call(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    names = op.attributes.get("names", ())
    assert isinstance(names, tuple)
    function, *arguments = cells
    split = len(arguments) - len(names)
    return [call(frame, function, arguments[:split], dict(zip(names, arguments[split:], strict=True)))]


RULES: dict[ops.Opcode, Rule] = {
    ops.PY_CONST: _const,
    ops.PY_GLOBAL: _global,
    ops.PY_CELL: _cell,
    ops.PY_UNARY: _unary,
    ops.PY_BINARY: _binary,
    ops.PY_COMPARE: _compare,
    ops.PY_IS: _is,
    ops.PY_TRUTH: _truth,
    ops.PY_GETATTR: _getattr,
    ops.PY_GETITEM: _getitem,
    ops.PY_SETITEM: _setitem,
    ops.PY_TUPLE: _tuple,
    ops.PY_UNPACK: _unpack,
    ops.PY_CALL: _call,
    ops.PY_ITER: _iter,
    ops.PY_NEXT: _next,
    ops.PY_UNSUPPORTED: _unsupported,
}
