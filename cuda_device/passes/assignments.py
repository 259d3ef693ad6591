"""Rules of type inference for assignments to parts of values: `v[i] = a`, `s.f = a`, `points[i].x = a`.

Vectors, structs and masks are values. An assignment to a part of a variable gives the variable a new value, which no other
name sees; one to a part of an array's element writes that part, and nothing else, in memory.

    v.x = 1              v becomes `replace(v, x=1)`
    points[i].x = 1      points["x"][i] = 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda_device.device import prelude
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.model import Op
from cuda_device.passes import access, composites, views
from cuda_device.passes.frame import Cell, Frame
from cuda_device.types.known import constant, of_type
from cuda_device.types.layout import placement
from cuda_device.types.model import MASK, Array, Layout, Number, Struct, Type, Vector


def setitem(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x[i] = v`."""
    owner, index, value = cells
    match owner.known.type:
        case Array():
            access.store(frame, owner, index, value)
            return []
        case Vector() as vector:
            return _set_element(frame, op, owner, vector, index, value)
        case type if type == MASK and "target" not in op.attributes:
            return [frame.program.call(frame, prelude.mask_with, [owner, index, value], {})]
        case Struct() as struct if isinstance(index.known.value, str):
            return _set_member(frame, op, owner, struct, index.known.value, value)
    raise CompileError(f"{owner.known} cannot be changed in device code", help="make a new one")


def setattr_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x.name = v`."""
    owner, value = cells
    name = str(op.attributes["name"])
    match owner.known.type:
        case Struct() as struct:
            return _set_member(frame, op, owner, struct, name, value)
        case Vector(_, size) as vector if name in tuple("xyzw"[:size]):
            return _set_element(frame, op, owner, vector, Cell(constant("xyzw".index(name))), value)
    raise CompileError(
        f"the attribute {name!r} of {owner.known} cannot be assigned to",
        help="members of structs, and x, y, z, w of vectors, can be",
    )


def _set_member(frame: Frame, op: Op, owner: Cell, struct: Struct, name: str, value: Cell) -> Sequence[Cell]:
    position = struct.index(name)
    if position is None:
        members = ", ".join(field.name for field in struct.fields)
        raise CompileError(f"{struct.name} has no member {name!r}", help=f"its members are {members}")
    wanted = struct.fields[position].type
    composites.check_member(value.known, wanted, f"{struct.name}.{name}")
    if _is_variable(op, f"{name}=…"):
        if op.operands and op.operands[0].hint == "self":
            raise CompileError(
                "a method cannot change its struct, which is a value",
                help=f"return replace(self, {name}=…), and assign that",
            )
        parts = [value if i == position else frame.field(owner, i) for i in range(len(struct.fields))]
        return [frame.composite(struct, parts)]
    _write(frame, owner, placement(struct).offsets[position], wanted, value)
    return []


def _set_element(frame: Frame, op: Op, owner: Cell, vector: Vector, index: Cell, value: Cell) -> Sequence[Cell]:
    if _is_variable(op, "x=…"):
        return [_with_element(frame, owner, vector, index, value)]
    if not index.known.constant:
        raise CompileError(
            "the index of a vector in an array must be a constant to assign to it",
            help="view the array as numbers: x.view(T)[…]",
        )
    place = access.position(index, vector.size)
    _write(frame, owner, placement(vector).offsets[place], vector.dtype, _as_element(frame, owner, vector, value))
    return []


def _with_element(frame: Frame, owner: Cell, vector: Vector, index: Cell, value: Cell) -> Cell:
    """A vector that differs from `owner` in one element."""
    value = _as_element(frame, owner, vector, value)
    parts = [frame.field(owner, i) for i in range(vector.size)]
    if index.known.constant:
        parts[access.position(index, vector.size)] = value
        return frame.composite(vector, parts)
    item = Cell(of_type(vector.dtype), frame.materialise(value, vector.dtype))
    changed = frame.program.call(frame, prelude.with_element, [frame.tuple(parts), index, item], {})
    return frame.composite(vector, frame.fields(changed))


def _as_element(frame: Frame, owner: Cell, vector: Vector, value: Cell) -> Cell:
    if not isinstance(value.known.type, Number):
        raise CompileError(f"an element of {owner.known} cannot be set to {value.known}", help="write a number")
    return access.as_stored(frame, value, vector.dtype)


def call_method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`v.__getitem__(i)`, and `v.__setitem__(i, a)`, which gives a vector or mask with an element changed."""
    parameters = ("i",) if name == "__getitem__" else ("i", "val")
    if named or len(positional) != len(parameters):
        raise CompileError(f"{name} takes {len(parameters)} arguments", help=f"write {name}({', '.join(parameters)})")
    if name == "__getitem__":
        (item,) = access.getitem(frame, Op(ops.PY_GETITEM), [owner, *positional])
        return item
    if isinstance(owner.known.type, Vector):
        return _with_element(frame, owner, owner.known.type, *positional)
    return frame.program.call(frame, prelude.mask_with, [owner, *positional], {})


def _is_variable(op: Op, change: str) -> bool:
    """Whether the assignment changes a variable; an error if it would be lost."""
    target = op.attributes.get("target")
    if target == "value":
        raise CompileError(
            "the assignment changes a value that no variable holds",
            help=f"assign to the variable: v = replace(v, {change})",
        )
    return target is None


def _write(frame: Frame, owner: Cell, offset: int, type: Type, value: Cell) -> None:
    """Writes a part of an array's element."""
    place = owner.place
    if place is None:
        raise CompileError(
            "the assignment changes a value that no variable holds", help="assign it to a variable first"
        )
    array = place.array.known.type
    assert isinstance(array, Array)
    column = Array(type, array.ndim, Layout.STRIDED, array.readonly, array.space)
    whole = views.extents(frame, place.array), views.strides(frame, place.array)
    part = views.window(frame, place.array, column, Cell(constant(place.offset + offset)), *whole)
    access.store(frame, part, place.index, value)


def copy(_: Frame, __: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """A second name for a value."""
    return [Cell(cells[0].known, cells[0].value)]


RULES = {ops.PY_SETITEM: setitem, ops.PY_SETATTR: setattr_, ops.PY_COPY: copy}
