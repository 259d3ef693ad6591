"""Rules of type inference for members of structs: of values, of what lies in memory, and of all elements of an array at once.

s.x, s["x"]         a member of a value
a[i].part.x         read where it lies
a["x"]              an array of the members x, in the memory of a
"""

from __future__ import annotations

import inspect
import math

import numpy as np

from cuda_device.errors import CompileError
from cuda_device.infer import indexing
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import references, views
from cuda_device.infer.meanings import Method
from cuda_device.ir.nodes import Op
from cuda_device.types.host import element_of_dtype, members_of
from cuda_device.types.known import constant
from cuda_device.types.layout import common_alignment, known_alignment, machine, placement, shortfall, size_of
from cuda_device.types.model import Array, Layout, Number, Ref, Struct, Subarray, Tuple, Type, Vector


def attribute(frame: Frame, cell: Cell, struct: Struct, name: str, part: bool) -> Cell:
    """A member, a method, or a constant of the class.

    A `part` of what lies in memory is read there, so that it can be written there; a variable's value is a copy.
    """
    index = struct.index(name)
    if cell.place is not None and part and (index is None or _stays_in_memory(struct, index)):
        return attribute_of_reference(frame, references.of_place(frame, cell.place), struct, name)
    return frame.field(cell, index) if index is not None else _class_attribute(frame, cell, struct, name)


def _stays_in_memory(struct: Struct, index: int) -> bool:
    """Whether a member is read where it lies: it has parts itself, or a copy of the struct would be large."""
    composite = isinstance(struct.fields[index].type, (Struct, Vector, Tuple))
    return composite or any(isinstance(field.type, Subarray) for field in struct.fields)


def attribute_of_reference(frame: Frame, cell: Cell, struct: Struct, name: str) -> Cell:
    """The same of a struct in memory."""
    index = struct.index(name)
    if index is not None:
        return references.read_member(frame, cell, struct, index)
    return _class_attribute(frame, cell, struct, name)


def _class_attribute(frame: Frame, cell: Cell, struct: Struct, name: str) -> Cell:
    value = inspect.getattr_static(struct.host, name, None)
    if isinstance(value, property):
        return frame.program.call(frame, value.fget, [cell], {})
    is_bound = isinstance(value, classmethod)
    value = getattr(struct.host, name, None)
    if not is_bound:  # what is bound to the class is a new object each time
        frame.program.depend(struct.host, name, value)
    if isinstance(inspect.getattr_static(struct.host, name, None), (staticmethod, classmethod)):
        return frame.literal(value)
    if value is None:
        raise _no_member(struct, name)
    return frame.bundle(Method(name), [cell]) if callable(value) else frame.literal(value)


def item(frame: Frame, op: Op, owner: Cell, struct: Struct, index: Cell) -> Cell | None:
    """`s[i]` by the struct's own `__getitem__`, or the member of that name; of a struct, or of a reference to one."""
    method = frame.method_of(struct, "__getitem__")
    if method is not None:
        return frame.program.call(frame, method, [owner, index], {})
    name = index.known.value
    if not isinstance(name, str):
        return None
    if struct.index(name) is None:
        raise _no_member(struct, name)
    if isinstance(owner.known.type, Ref):
        return attribute_of_reference(frame, owner, struct, name)
    return attribute(frame, owner, struct, name, bool(op.attributes.get("part")))


def of_each(frame: Frame, owner: Cell, array: Array, name: str) -> Cell:
    """`a["f"]` of an array of structs, vectors or tuples: an array of one member of each, by its name in the NumPy dtype."""
    members = members_of(array.dtype)
    if not members:
        raise CompileError(f"an index is an integer or a slice, not {name!r}", help=indexing.help_with(constant(name)))
    if name not in members:
        raise _no_member(array.dtype, name)
    return column(frame, owner, array, members[name], placement(array.dtype).offsets[list(members).index(name)])


def column(frame: Frame, owner: Cell, array: Array, member: Type, offset: int) -> Cell:
    """One part of each element of an array, `offset` bytes within it."""
    align = shortfall(member, common_alignment(known_alignment(array), offset))
    inner = member.shape if isinstance(member, Subarray) else ()
    dtype = member.dtype if isinstance(member, Subarray) else member
    if isinstance(dtype, Number):
        dtype = machine(dtype)  # an array of a dtype, which has no builtin numbers
    type = Array(dtype, array.ndim + len(inner), Layout.STRIDED, array.readonly, array.space, align)
    shape = [*views.extents(frame, owner), *(Cell(constant(length)) for length in inner)]
    steps = [size_of(dtype) * math.prod(inner[i + 1 :]) for i in range(len(inner))]
    jumps = [*views.strides(frame, owner), *(Cell(constant(step)) for step in steps)]
    return views.window(frame, owner, type, Cell(constant(offset)), shape, jumps)


_PLAIN = "use a structured dtype of numbers"


def constant_of(frame: Frame, value: np.void) -> Cell:
    """An element of a structured array of the host."""
    try:
        type = element_of_dtype(value.dtype)
    except TypeError as error:
        raise CompileError(str(error), help=_PLAIN) from None
    parts = [_part(frame, value[name]) for name in value.dtype.names or ()]
    return frame.composite(type, parts) if isinstance(type, (Struct, Vector)) else frame.tuple(parts)


def _part(frame: Frame, value: object) -> Cell:
    if not isinstance(value, np.ndarray):
        return frame.literal(value)
    items = [frame.literal(item) for item in value.reshape(-1)]
    return frame.composite(Subarray(items[0].known.type, value.shape), items)


def _no_member(type: Type, name: str) -> CompileError:
    shown = type.name if isinstance(type, Struct) else type
    return CompileError(f"{shown} has no member {name!r}", help=f"its members are {', '.join(members_of(type))}")
