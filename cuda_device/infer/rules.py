"""The table of inference rules, one for each operation of the python level, and the rules for names and calls.

A rule gets the frame, the operation and the cells of its operands, writes typed operations, and returns a cell for each result.
It raises `CompileError` without a location, which its caller adds. The rules for operators are in `operators`, those for items
and attributes in `operations`, and those for loops in `loops`.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import (
    closures,
    conditions,
    hosted,
    loops,
    operations,
    operators,
    printing,
    sequences,
)
from cuda_device.infer.dependencies import MISSING
from cuda_device.infer.frame import Cell, Frame, NeverReturns, Rule
from cuda_device.infer.kinds import dicts, tuples
from cuda_device.infer.meanings import Keywords, Raised, code_of
from cuda_device.infer.printing import message_of
from cuda_device.infer.remedies import CONSTRUCTS
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.types.known import constant
from cuda_device.types.model import INDEX, Array, Bundle, Range, RangeIterator, Static, Struct

# What pytest makes of an `assert` uses these names, first of all where it does not hold: to put its message together.
_PYTEST = frozenset(("@pytest_ar", "@py_builtins"))


def _global(frame: Frame, op: Op, _: Sequence[Cell]) -> Sequence[Cell]:
    name = str(op.attributes["name"])
    if name in _PYTEST:
        _raise(frame, Op(ops.PY_RAISE, attributes={"kind": "assert"}), ())
        raise NeverReturns
    for owner in (frame.globals, vars(builtins)):
        if name in owner:
            frame.program.depend(owner, name, owner[name])
            return [frame.literal(owner[name])]
        frame.program.depend(owner, name, MISSING)
    raise CompileError(
        f"the name {name!r} is not defined", help="define it, or import it, before the kernel is launched"
    )


def _unsupported(_: Frame, op: Op, __: Sequence[Cell]) -> Sequence[Cell]:
    what = str(op.attributes["what"])
    raise CompileError(f"{what} is not supported in device code", help=CONSTRUCTS.get(what, ""))


def _call(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    names = op.attributes.get("names", ())
    assert isinstance(names, tuple)
    function, *arguments = cells
    code = code_of(function.known)
    if code is None or code.function.__code__.co_name != "<genexpr>":  # which only keeps what it is given
        function, *arguments = [frame.close(cell) for cell in cells]
    split = len(arguments) - len(names)
    return [frame.call(function, arguments[:split], dict(zip(names, arguments[split:], strict=True)))]


def _call_star(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    function, iterable, *rest = (frame.close(cell) for cell in cells)
    named: dict[str, Cell] = {}
    for mapping in (hosted.as_mapping(frame, cell) for cell in rest):
        keywords = mapping.known.value
        assert isinstance(keywords, Keywords)
        if not all(isinstance(name, str) for name in keywords.names):
            raise CompileError("the keys of a dict after ** must be names", help="write each argument separately")
        named |= dict(zip(map(str, keywords.names), frame.fields(mapping), strict=True))
    return [frame.call(function, frame.items_of(iterable, "a call with *"), named)]


def _unpack(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`a, b, … = x`."""
    (cell,) = cells
    count = len(op.results)
    if isinstance(cell.known.type, Array) and cell.known.type.ndim:
        length = frame.field(frame.member(cell, "shape"), 0)
        conditions.unpacked(frame, length, count)
        return [frame.item(cell, Cell(constant(i))) for i in range(count)]
    if isinstance(cell.known.type, (Range, RangeIterator, Static, Struct, Bundle)) and not isinstance(
        cell.known.value, Raised
    ):
        cell = frame.tuple(frame.items_of(cell, "unpacking"))
    rule = frame.kind(cell.known).items
    items = rule(frame, cell) if rule else None
    if items is None:
        raise CompileError(f"{cell.known} cannot be unpacked", help="unpack a tuple, a vector or an array")
    if len(items) != count:
        raise CompileError(
            f"cannot unpack {len(items)} values into {count} names",
            help="give each value one name, or write a, *rest = …",
        )
    return items


def _raise(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """An `assert` that does not hold, or a `raise`."""
    known = cells[0].known if cells else None
    numbers: Sequence[Cell] = ()
    help = ""
    if op.attributes["kind"] == "assert":
        message = "the assertion does not hold"
        if cells:
            text, numbers = message_of(frame, cells)
            message = f"AssertionError: {text}".removesuffix(": ")
    elif known is not None and isinstance(known.value, type) and issubclass(known.value, BaseException):
        message = known.value.__name__
    elif known is not None and isinstance(known.value, Raised):
        message = f"{known.value.kind}: {known.value.message}".removesuffix(": ")
        numbers, help = frame.fields(cells[0]) if isinstance(known.type, Bundle) else [], known.value.help
    else:
        raise CompileError(f"raise takes an exception, not {known}", help="write raise ValueError('why')")
    values = (frame.materialise(number, INDEX) for number in numbers)
    frame.build.effect(ops.PY_RAISE, *values, kind=op.attributes["kind"], message=message, help=help)
    return []


def _defined(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """A use of a variable that has no value on any edge is an error, which comes behind this."""
    (has_value,) = cells
    if not has_value.known.constant:
        name = str(op.attributes["name"])
        message = f"the variable {name!r} is used before it has a value"
        frame.check(has_value, message, help="assign it on every path that leads here")
    return []


RULES: dict[ops.OpDef, Rule] = {
    ops.PY_COPY: lambda _, __, cells: [Cell(cells[0].known, cells[0].value)],
    ops.PY_SETATTR: operations.setattr_,
    ops.PY_CONST: lambda _, op, __: [Cell(constant(op.attributes["value"], op.location))],
    ops.PY_GLOBAL: _global,
    ops.PY_CELL: closures.get_cell,
    ops.PY_SET_CELL: closures.set_cell,
    ops.PY_BOX: closures.box,
    ops.PY_UNBOX: closures.unbox,
    ops.PY_SET_BOX: closures.set_box,
    ops.PY_UNARY: operators.unary,
    ops.PY_BINARY: operators.binary,
    ops.PY_COMPARE: operators.compare,
    ops.PY_IS: operators.is_,
    ops.PY_TRUTH: lambda frame, _, cells: [frame.truth(cells[0])],
    ops.PY_GETATTR: operations.getattr_,
    ops.PY_GETITEM: operations.getitem,
    ops.PY_SETITEM: operations.setitem,
    ops.PY_TUPLE: lambda frame, _, cells: [frame.tuple(cells)],
    ops.PY_LIST: lambda frame, _, cells: [frame.new_list(cells)],
    ops.PY_APPEND: tuples.append,
    ops.PY_EXTEND: tuples.extend,
    ops.PY_TUPLE_OF: lambda frame, _, cells: [frame.as_tuple(cell) for cell in cells],
    ops.PY_DICT: dicts.make_dict,
    ops.PY_MAP_ADD: dicts.map_add,
    ops.PY_MERGE: dicts.merge,
    ops.PY_SLICE: lambda frame, _, cells: [frame.bundle(slice, [*cells, Cell(constant(None))][:3])],
    ops.PY_STRING: printing.make_string,
    ops.PY_FORMAT: printing.format_part,
    ops.PY_CONTAINS: sequences.contains,
    ops.PY_IS_SEQUENCE: sequences.is_sequence,
    ops.PY_UNPACK: _unpack,
    ops.PY_UNPACK_STAR: sequences.unpack_star,
    ops.PY_CALL: _call,
    ops.PY_CALL_STAR: _call_star,
    ops.PY_FUNCTION: closures.make,
    ops.PY_ITER: loops.iterate,
    ops.PY_NEXT: loops.next_,
    ops.PY_RAISE: _raise,
    ops.PY_DEFINED: _defined,
    ops.PY_UNSUPPORTED: _unsupported,
}
