"""Rules of type inference for assignments to parts of values: `v[i] = a`, `s.f = a`, `points[i].x = a`.

Vectors, structs and masks are values. An assignment to a part of a variable gives the variable a new value, which no other
name sees; one to a part of an array's element writes that part, and nothing else, in memory.

    v.x = 1              v becomes `replace(v, x=1)`
    s.v.x = 1            s.v becomes that, and so s becomes `replace(s, v=replace(s.v, x=1))`
    points[i].x = 1      writes x there, as `self.x = 1` does in a method that was called on points[i]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import composites, conditions, hosted
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import dicts, lists, masks, references, sequences, subarrays
from cuda_device.infer.meanings import Keywords, is_container
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.library import prelude
from cuda_device.types.known import constant, of_type
from cuda_device.types.layout import has_identity, placement
from cuda_device.types.model import MASK, Array, NoneType, Number, Ref, Struct, Subarray, Tuple, Vector


def setitem(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x[i] = v`."""
    owner, index, value = cells
    if is_container(owner.known):
        (dicts if isinstance(owner.known.value, Keywords) else lists).setitem(frame, owner, index, value)
        return []
    match owner.known.type:
        case Array():
            frame.store(owner, index, value)
            return []
        case Vector() as vector:
            return _set_element(frame, op, owner, vector, index, value)
        case type if type == MASK and op.attributes.get("target") != "value":
            return [masks.with_lane(frame, owner, index, value)]
        case Struct() as struct if isinstance(index.known.value, str):
            return _set_member(frame, op, owner, struct, index.known.value, value)
        case Ref(_, Struct() as struct) if isinstance(index.known.value, str):
            return _write_member(frame, owner, struct, index.known.value, value)
        case Subarray() as subarray if _is_variable(op, owner, "…"):
            return [subarrays.with_items(frame, owner, subarray, index, value)]
        case Tuple(elements) if "back" in op.attributes:
            parts = frame.fields(owner)
            parts[sequences.position(index, len(elements))] = value
            return [frame.tuple(parts)]
    if isinstance(owner.known.type, Number | NoneType):
        raise CompileError(f"{owner.known} has no elements to assign to", help="pass an array to the kernel")
    if isinstance(owner.known.value, list | dict):
        raise CompileError(
            f"{owner.known} of the host cannot be changed in device code",
            help="change a copy, made by list(…) or dict(…), or an array that the kernel takes as an argument",
        )
    remedy = (
        "pass it to the kernel as an argument" if hosted.is_array(owner.known) else "make a new one, or use local_array"
    )
    raise CompileError(f"{owner.known} cannot be changed in device code", help=remedy)


def setattr_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x.name = v`."""
    owner, value = cells
    name = str(op.attributes["name"])
    match owner.known.type:
        case Struct() as struct:
            return _set_member(frame, op, owner, struct, name, value)
        case Ref(_, Struct() as struct):
            return _write_member(frame, owner, struct, name, value)
        case Vector(_, size) as vector if name in tuple("xyzw"[:size]):
            return _set_element(frame, op, owner, vector, Cell(constant("xyzw".index(name))), value)
    raise CompileError(
        f"the attribute {name!r} of {owner.known} cannot be assigned to",
        help="members of structs, and x, y, z, w of vectors, can be",
    )


def _set_member(frame: Frame, op: Op, owner: Cell, struct: Struct, name: str, value: Cell) -> Sequence[Cell]:
    if not _is_variable(op, owner, f"{name}=…"):
        return _write_member(frame, _reference(frame, owner), struct, name, value)
    position, value = _member(frame, struct, name, value)
    if _is_self(frame, op, struct):
        raise CompileError(
            "a method cannot change its struct, which is a value here",
            help=f"call it on an element of an array, as points[i].{frame.function.__name__}(…), or return replace(self, "
            f"{name}=…) and assign that",
        )
    parts = [value if i == position else frame.field(owner, i) for i in range(len(struct.fields))]
    return [composites.composite(frame, struct, parts)]


def _is_self(frame: Frame, op: Op, struct: Struct) -> bool:
    """Whether the variable is the struct that the function at hand is a method of."""
    code = frame.function.__code__
    if not op.operands or not code.co_argcount or op.operands[0].hint != code.co_varnames[0] or struct.host is None:
        return False
    own = vars(struct.host).get(code.co_name)
    return getattr(getattr(own, "underlying", own), "__code__", None) is code


def _member(frame: Frame, struct: Struct, name: str, value: Cell) -> tuple[int, Cell]:
    """Which member it is that is set, and to what; an error if it cannot be."""
    position = struct.index(name)
    if position is None:
        members = ", ".join(field.name for field in struct.fields)
        raise CompileError(f"{struct.name} has no member {name!r}", help=f"its members are {members}")
    wanted = struct.fields[position].type
    if has_identity(wanted):
        raise references.refusal(wanted)
    return position, composites.member(frame, struct, position, value)


def _write_member(frame: Frame, reference: Cell, struct: Struct, name: str, value: Cell) -> Sequence[Cell]:
    """Writes a member, and nothing else, in memory."""
    index = struct.index(name)
    wanted = struct.fields[index].type if index is not None else None
    if index is not None and isinstance(wanted, Subarray):
        subarrays.check_shape(wanted.shape, value.known)
        subarrays.assign(frame, references.read_member(frame, reference, struct, index), value)
        return []
    position, value = _member(frame, struct, name, value)
    references.store(frame, references.member(frame, reference, struct, position), value)
    return []


def _set_element(frame: Frame, op: Op, owner: Cell, vector: Vector, index: Cell, value: Cell) -> Sequence[Cell]:
    if _is_variable(op, owner, "x=…"):
        return [_with_element(frame, owner, vector, index, value)]
    value = _as_element(frame, owner, vector, value)
    references.store(frame, _element(frame, _reference(frame, owner), vector, index), value)
    return []


def _element(frame: Frame, reference: Cell, vector: Vector, index: Cell) -> Cell:
    """The reference to one element of a vector in memory."""
    if index.known.constant:
        offset = placement(vector).offsets[sequences.position(index, vector.size)]
        return references.behind(frame, reference, vector.dtype, offset)
    if not isinstance(index.known.type, Number) or not index.known.type.is_integer:
        raise CompileError(f"an index is an integer, not {index.known}", help="convert it: int(…)")
    conditions.element(frame, index, vector.size)
    place = frame.program.call(frame, prelude.place, [index, Cell(constant(vector.size))], {})
    return references.after(frame, references.behind(frame, reference, vector.dtype, 0), place)


def _with_element(frame: Frame, owner: Cell, vector: Vector, index: Cell, value: Cell) -> Cell:
    """A vector that differs from `owner` in one element."""
    value = _as_element(frame, owner, vector, value)
    parts = [frame.field(owner, i) for i in range(vector.size)]
    if index.known.constant:
        parts[sequences.position(index, vector.size)] = value
        return frame.composite(vector, parts)
    conditions.element(frame, index, vector.size)
    item = Cell(of_type(vector.dtype), frame.materialise(value, vector.dtype))
    changed = frame.program.call(frame, prelude.with_element, [frame.tuple(parts), index, item], {})
    return frame.composite(vector, frame.fields(changed))


def _as_element(frame: Frame, owner: Cell, vector: Vector, value: Cell) -> Cell:
    if not isinstance(value.known.type, Number):
        raise CompileError(f"an element of {owner.known} cannot be set to {value.known}", help="write a number")
    return composites.as_stored(frame, value, vector.dtype)


def call_method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`v.__getitem__(i)`, `v.__len__()`, and `v.__setitem__(i, a)`, which gives a vector or mask with an element changed."""
    parameters = {"__len__": (), "__getitem__": ("i",)}.get(name, ("i", "val"))
    if named or len(positional) != len(parameters):
        count = f"{len(parameters)} argument{'s' * (len(parameters) != 1)}"
        raise CompileError(f"{name} takes {count}", help=f"write {name}({', '.join(parameters)})")
    if name == "__len__":
        assert isinstance(owner.known.type, Vector)
        return Cell(constant(owner.known.type.size))
    if name == "__getitem__":
        (item,) = frame.getitem(Op(ops.PY_GETITEM), [owner, *positional])
        return item
    if isinstance(owner.known.type, Vector):
        return _with_element(frame, owner, owner.known.type, *positional)
    return masks.with_lane(frame, owner, *positional)


def _is_variable(op: Op, owner: Cell, change: str) -> bool:
    """Whether the assignment changes a variable, and not memory; an error if it would be lost."""
    target = op.attributes.get("target")
    if target == "value" and owner.place is None:
        raise CompileError(
            "the assignment changes a value that no variable holds",
            help=f"assign to the variable: v = replace(v, {change})",
        )
    return target is None or owner.place is None


def _reference(frame: Frame, owner: Cell) -> Cell:
    """The reference to a value that lies in memory."""
    assert owner.place is not None
    return references.of_place(frame, owner.place)


def copy(_: Frame, __: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """A second name for a value."""
    return [Cell(cells[0].known, cells[0].value)]


RULES = {ops.PY_SETATTR: setattr_, ops.PY_COPY: copy}
