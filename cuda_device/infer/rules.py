"""The rules of type inference: the table of kinds, and the table of operations of the python level.

A rule gets the frame, the operation and the cells of its operands, writes typed operations, and returns a cell for each result.
It raises `CompileError` without a location, which its caller adds. `x[i]`, `x.name` and their like look up the kind of x and
apply the rule of that kind. The rules for operators are in `operators`, those for loops in `loops`.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
import re
import sys
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from cuda_device import hooks
from cuda_device.device.functions import Func
from cuda_device.device.rows import Intrinsic
from cuda_device.errors import CompileError, PluginError
from cuda_device.infer import calls, operators
from cuda_device.infer.dependencies import MISSING
from cuda_device.infer.frame import Cell, Frame, Kind, NeverReturns, Rank, Rule
from cuda_device.infer.kinds import arrays, scalars
from cuda_device.infer.meanings import Keywords, Method, Named, Raised, Resumed, Text, Thing, class_of, use_of
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.lazy_imports import LazyTable, import_lazily
from cuda_device.types import model
from cuda_device.types.host import is_struct, model_of
from cuda_device.types.known import Known, Undefined, constant, part

if TYPE_CHECKING:
    from cuda_device.infer import builtin_calls, composites, conditions, hosted, printing, remedies
else:
    import_lazily(
        globals(), "cuda_device.infer", "builtin_calls", "composites", "conditions", "hosted", "printing", "remedies"
    )


_OTHER = Kind(Rank.OTHER)
_KINDS: LazyTable[object, Kind] = LazyTable(
    "cuda_device.infer",
    {model.Array: arrays.KIND},
    {
        model.Vector: "kinds.vectors.KIND",
        model.Struct: "kinds.structs.KIND",
        model.Ref: "kinds.structs.REFERENCE",
        model.Pointer: "kinds.pointers.KIND",
        model.Subarray: "kinds.subarrays.KIND",
        model.Tuple: "kinds.tuples.KIND",
        Named: "kinds.tuples.NAMED",
        Thing.LIST: "kinds.tuples.LIST",
        Keywords: "kinds.dicts.KIND",
        model.Range: "loops.RANGE",
        model.Static: "hosted.KIND",
    },
)
"""By the class of a type; of bundles by the class of the meaning, or by the meaning itself."""


def kind_of(_: Frame, known: Known) -> Kind:
    """The kind of a value."""
    type = known.type
    if isinstance(type, model.Number):
        return scalars.KIND if not (type.mask or type.is_complex) else _kind_of_number(type.mask)
    key = class_of(known) if isinstance(type, model.Bundle) else type.__class__
    try:
        return _KINDS[key]
    except KeyError:
        return _OTHER


@functools.cache
def _kind_of_number(mask: bool) -> Kind:
    """The kind of masks or of complex numbers, which extends that of numbers."""
    from cuda_device.infer.kinds import complexes, masks

    return masks.kind(scalars.KIND) if mask else complexes.kind(scalars.KIND)


def getitem(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x[i]`."""
    owner, index = cells
    if isinstance(index.known.value, Named):
        index = frame.as_tuple(index)
    rule = frame.kind(owner.known).getitem
    item = rule(frame, op, owner, index) if rule else None
    if item is None:
        raise CompileError(f"{owner.known.shown} cannot be indexed in device code", help=_help_with_items(owner.known))
    return [item]


def _help_with_items(known: Known) -> str:
    if isinstance(known.type, model.Number | model.NoneType):
        return "index an array, a tuple or a vector"
    if isinstance(known.type, model.Struct):
        return "name one of its members"
    if isinstance(known.type, model.Range):
        return "compute the number: start + i * step; reversed(range(…)) goes backwards"
    if isinstance(known.value, Text):
        return "strings with run-time values can be joined with other strings, printed, and raised"
    if isinstance(known.value, str):
        return "index a string by a constant, or write bytes, b'…', whose items are integers"
    return use_of(known) or (
        "pass it to the kernel as an argument" if isinstance(known.type, model.Static) else "call its methods"
    )


def setitem(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x[i] = v`."""
    owner, index, value = cells
    if isinstance(index.known.value, Named):
        index = frame.as_tuple(index)
    if isinstance(owner.known.type, model.Array) and isinstance(value.known.type, model.Static):
        value = hosted.as_array(frame, value)
    rule = frame.kind(owner.known).setitem
    results = rule(frame, op, owner, index, value) if rule else None
    if results is not None:
        return results
    known = owner.known
    if isinstance(known.type, model.Number | model.NoneType):
        raise CompileError(f"{known} has no elements to assign to", help="pass an array to the kernel")
    if isinstance(known.value, list | dict):
        raise CompileError(
            f"{known} on the host cannot be changed in device code",
            help="change a copy, [*x] or {**x}, or an array that the kernel takes as an argument",
        )
    is_array = hosted.is_array(known)
    remedy = "pass it to the kernel as an argument" if is_array else "make a new one, or use local_array"
    raise CompileError(f"{known} cannot be changed in device code", help=remedy)


def getattr_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x.name`."""
    (cell,) = cells
    name = str(op.attributes["name"])
    if name == "__class__":
        return [frame.call(Cell(constant(type)), [cell], {})]
    kind = frame.kind(cell.known)
    value = kind.getattr(frame, op, cell, name) if kind.getattr else None
    if value is not None:
        return [value]
    if name in kind.methods:
        return [frame.bundle(Method(name), [cell])]
    raise CompileError(
        f"{cell.known} has no attribute {name!r} in device code", help=_help_with_attributes(frame, cell.known, name)
    )


def _help_with_attributes(frame: Frame, known: Known, name: str) -> str:
    """The help for an attribute that a value does not have."""
    if isinstance(known.value, Named):
        return f"its members are {', '.join(known.value.names)}"
    if isinstance(known.value, Text):
        return "a string with run-time values can be printed"
    if isinstance(known.type, model.Number) and callable(getattr(math, name, None)):
        return f"write math.{name}(…)"
    if isinstance(known.type, model.Vector) and (
        remedy := remedies.of_swizzle(name, known.type.dtype, known.type.size)
    ):
        return remedy
    kind = frame.kind(known)
    names = kind.names(known) if kind.names else [*kind.methods]
    if not names:
        return use_of(known)
    close = remedies.nearest(name, names)
    return f"did you mean {close[0]}?" if close else f"it has {', '.join(names)}"


def setattr_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x.name = v`."""
    owner, value = cells
    name = str(op.attributes["name"])
    rule = frame.kind(owner.known).setattr
    results = rule(frame, op, owner, name, value) if rule else None
    if results is None:
        raise CompileError(
            f"the attribute {name!r} of {owner.known} cannot be assigned to",
            help=remedies.of_swizzle(name, owner.known.type.dtype, owner.known.type.size, is_assigned=True)
            if isinstance(owner.known.type, model.Vector)
            else "you can assign to members of structs, and to x, y, z, w of vectors",
        )
    return results


# Names, calls, unpacking and errors


def _remedy_of_name(frame: Frame, name: str) -> str:
    """What to do about a name that is not defined: `threadIdx` and `thread_idx` are device.thread_idx, `sqrt` is math.sqrt."""
    package, ours = sys.modules["cuda_device"], re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    with contextlib.suppress(PluginError):  # a name of a plugin that is not installed
        if ours in dir(package) and frame.program.row(getattr(package, ours)):
            prefix = next(
                (alias for alias, value in frame.function.__globals__.items() if value is package), "cuda_device"
            )
            return f"write {prefix}.{ours}, or import it: from cuda_device import {ours}"
    return f"write math.{name}" if hasattr(math, name) else "define it, or import it, before the kernel is launched"


def _global(frame: Frame, op: Op, _: Sequence[Cell]) -> Sequence[Cell]:
    name = str(op.attributes["name"])
    if name in hooks.REWRITTEN:  # what follows creates the message of an assertion that has failed
        _raise(frame, Op(ops.PY_RAISE, attributes={"kind": "assert"}), ())
        raise NeverReturns
    for owner in (frame.function.__globals__, vars(builtins)):
        if name in owner:
            frame.program.depend(owner, name, owner[name])
            return [frame.literal(owner[name])]
        frame.program.depend(owner, name, MISSING)
    raise CompileError(f"the name {name!r} is not defined", help=_remedy_of_name(frame, name))


def _unsupported(_: Frame, op: Op, __: Sequence[Cell]) -> Sequence[Cell]:
    construct = str(op.attributes["what"])
    raise CompileError(f"{construct} is not supported in device code", help=remedies.CONSTRUCTS.get(construct, ""))


def _is_by_row(row: Intrinsic, positional: Sequence[Cell]) -> bool:
    """Whether a call is what the row says; other calls of some builtins have a rule of their own."""
    return row.only_for is None or all(isinstance(cell.known.type, row.only_for) for cell in positional)


def call(frame: Frame, function: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls a value."""
    function = frame.now(function)
    if frame.policy is not None:
        function, positional, named = frame.policy.call(frame, function, positional, named)
    known = function.known
    if isinstance(known.type, model.Static):
        return _call_entity(frame, known.value, positional, named)
    if isinstance(known.type, model.Bundle):
        return calls.call_bundle(frame, function, positional, named)
    if isinstance(known.type, model.Struct) and (method := frame.method_of(known.type, "__call__")) is not None:
        return frame.program.call(frame, method, [function, *positional], named)
    raise CompileError(f"{known.shown} cannot be called", help="call a function, a type or a lambda")


def _call_entity(frame: Frame, entity: Any, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls an object of the host by its rule, by a struct's method or overload, or as a Python function."""
    if isinstance(entity, type) and is_struct(entity):
        return composites.construct(frame, model_of(entity), positional, named)
    arguments = [*positional, *named.values()]
    method = None
    if any(isinstance(cell.known.type, model.Struct) for cell in arguments):
        method = _method_for(frame, entity, positional) or composites.overload_of(frame, entity, arguments)
    if method is None and not isinstance(entity, Func):
        row = frame.program.row(entity)
        if row is not None and not named and _is_by_row(row, positional):
            return calls.call_row(row, frame, positional, named)
        rule = builtin_calls.rule_of(frame, entity)
        if rule is not None:
            return rule(frame, positional, named)
    if isinstance(entity, Func) and entity.options.interop:
        for cell in arguments:
            conditions.describable(frame, cell)
    return frame.program.call(frame, method or entity, positional, named)


_DISPATCHING: tuple[Any, ...] = (
    abs, bool, complex, divmod, float, int, len, pow, reversed, round, math.ceil, math.floor, math.trunc
)  # fmt: skip
_SPECIAL_METHODS = {id(builtin): f"__{builtin.__name__}__" for builtin in _DISPATCHING}


def _method_for(frame: Frame, entity: object, positional: Sequence[Cell]) -> FunctionType | None:
    """The special method of a struct that a builtin calls: `len(s)` is `s.__len__()`."""
    if not positional or not isinstance(struct := positional[0].known.type, model.Struct):
        return None
    name = _SPECIAL_METHODS.get(id(entity))
    return None if name is None else frame.method_of(struct, name)


def _call(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    names = op.attributes.get("names", ())
    assert isinstance(names, tuple)
    function, *arguments = cells
    split = len(arguments) - len(names)
    return [frame.call(function, arguments[:split], dict(zip(names, arguments[split:], strict=True)))]


def _call_star(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    function, iterable, *rest = cells
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
    if isinstance(cell.known.type, model.Array) and cell.known.type.ndim:
        length = frame.field(frame.member(cell, "shape"), 0)
        conditions.unpacked(frame, length, count)
        return [frame.item(cell, Cell(constant(i))) for i in range(count)]
    if isinstance(
        cell.known.type, (model.Range, model.RangeIterator, model.Static, model.Struct, model.Bundle)
    ) and not isinstance(cell.known.value, Raised):
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
    """A failed `assert`, or a `raise`."""
    known = cells[0].known if cells else None
    numbers: Sequence[Cell] = ()
    help = ""
    if op.attributes["kind"] == "assert":
        message = "the assertion does not hold"
        if cells:
            text, numbers = printing.message_of(frame, cells)
            message = f"AssertionError: {text}".removesuffix(": ")
    elif known is not None and isinstance(known.value, type) and issubclass(known.value, BaseException):
        message = known.value.__name__
    elif known is not None and isinstance(known.value, Raised):
        message = f"{known.value.kind}: {known.value.message}".removesuffix(": ")
        numbers, help = frame.fields(cells[0]) if isinstance(known.type, model.Bundle) else [], known.value.help
    else:
        raise CompileError(f"raise takes an exception, not {known}", help="write raise ValueError('why')")
    values = (frame.materialise(number, model.INDEX) for number in numbers)
    frame.build.effect(ops.PY_RAISE, *values, kind=op.attributes["kind"], message=message, help=help)
    return []


def _defined(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Checks that a variable has a value. If it has none on any edge, the use that follows is an error."""
    (has_value,) = cells
    if not has_value.known.constant:
        name = str(op.attributes["name"])
        message = f"the variable {name!r} is used before it has a value"
        frame.check(has_value, message, help="assign it on every path that leads here")
    return []


def _variable(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Records a variable for debuggers: the value of a number, or the address of an array."""
    (cell,) = cells
    if cell.value is not None and isinstance(cell.value.type, model.Number | model.Array):
        frame.build.effect(ops.VARIABLE, cell.value, **op.attributes)
    return []


RULES: LazyTable[ops.OpDef, Rule] = LazyTable(
    "cuda_device.infer",
    {
        ops.VARIABLE: _variable,
        ops.PY_UNDEFINED: lambda _, op, __: [Cell(part(Undefined(str(op.attributes["name"]))))],
        ops.PY_COPY: lambda _, __, cells: [Cell(cells[0].known, cells[0].value)],
        ops.PY_SETATTR: setattr_,
        ops.PY_CONST: lambda _, op, __: [Cell(constant(op.attributes["value"], op.location))],
        ops.PY_GLOBAL: _global,
        ops.PY_UNARY: operators.unary,
        ops.PY_BINARY: operators.binary,
        ops.PY_COMPARE: operators.compare,
        ops.PY_IS: operators.is_,
        ops.PY_TRUTH: lambda frame, _, cells: [frame.truth(cells[0])],
        ops.PY_GETATTR: getattr_,
        ops.PY_GETITEM: getitem,
        ops.PY_SETITEM: setitem,
        ops.PY_TUPLE: lambda frame, _, cells: [frame.tuple(cells)],
        ops.PY_LIST: lambda frame, _, cells: [frame.new_list(cells)],
        ops.PY_TUPLE_OF: lambda frame, _, cells: [frame.as_tuple(cell) for cell in cells],
        ops.PY_SLICE: lambda frame, _, cells: [frame.bundle(slice, [*cells, Cell(constant(None))][:3])],
        ops.PY_UNPACK: _unpack,
        ops.PY_CALL: _call,
        ops.PY_CALL_STAR: _call_star,
        ops.PY_STEP: lambda frame, _, cells: [frame.bundle(Resumed(), cells)],
        ops.PY_RAISE: _raise,
        ops.PY_DEFINED: _defined,
        ops.PY_UNSUPPORTED: _unsupported,
    },
    {
        ops.PY_CELLS: "closures.name_variables",
        ops.PY_CELL: "closures.get_cell",
        ops.PY_SET_CELL: "closures.set_cell",
        ops.PY_BOX: "closures.box",
        ops.PY_UNBOX: "closures.unbox",
        ops.PY_SET_BOX: "closures.set_box",
        ops.PY_FUNCTION: "closures.make",
        ops.PY_APPEND: "kinds.tuples.append",
        ops.PY_EXTEND: "kinds.tuples.extend",
        ops.PY_DICT: "kinds.dicts.make_dict",
        ops.PY_MAP_ADD: "kinds.dicts.map_add",
        ops.PY_MERGE: "kinds.dicts.merge",
        ops.PY_STRING: "printing.make_string",
        ops.PY_FORMAT: "printing.format_part",
        ops.PY_CONTAINS: "sequences.contains",
        ops.PY_IS_SEQUENCE: "sequences.is_sequence",
        ops.PY_UNPACK_STAR: "sequences.unpack_star",
        ops.PY_ITER: "loops.iterate",
        ops.PY_NEXT: "loops.next_",
        ops.PY_AT: "loops.stands_at",
    },
)
