"""Rules of type inference for structs: members of values and of array elements, and methods.

s.x, s["x"]         a member of a value
a[i].part.x         read directly from memory
s.v.x = 1           s.v becomes `replace(s.v, x=1)`, and so s becomes `replace(s, v=…)`
points[i].x = 1     writes x there, as `self.x = 1` does in a method that was called on points[i]
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping, Sequence

import numpy as np

from cuda_device.device.atomics import interface_of
from cuda_device.errors import CompileError
from cuda_device.infer import composites, references
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.meanings import Method
from cuda_device.ir.nodes import Op
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.host import element_of_dtype
from cuda_device.types.known import constant
from cuda_device.types.layout import has_identity
from cuda_device.types.model import AtomicCell, Ref, Struct, Subarray, Tuple, Vector
from cuda_device.types.vector_classes import host_class_of


def _struct_of(cell: Cell) -> Struct | None:
    """The struct type of a value, or of the target of a reference."""
    type = cell.known.type.pointee if isinstance(cell.known.type, Ref) else cell.known.type
    return type if isinstance(type, Struct) else None


def _attribute(frame: Frame, op: Op, cell: Cell, name: str) -> Cell | None:
    """A member, a method, or a constant of the class.

    A part of a struct in memory is a reference to it, so that it can be written; the value of a variable is a copy.
    """
    struct = _struct_of(cell)
    if struct is None:
        return _attribute_of_reference(frame, cell, name)
    index = struct.index(name)
    if isinstance(cell.known.type, Ref):
        read = references.read_member
        return _class_attribute(frame, cell, struct, name) if index is None else read(frame, cell, struct, index)
    if cell.place is not None and op.attributes.get("part") and (index is None or _stays_in_memory(struct, index)):
        return _attribute(frame, op, references.of_place(frame, cell.place), name)
    return frame.field(cell, index) if index is not None else _class_attribute(frame, cell, struct, name)


def _attribute_of_reference(frame: Frame, cell: Cell, name: str) -> Cell | None:
    """An attribute of an atomic."""
    type = cell.known.type
    if isinstance(type, Ref) and isinstance(type.pointee, AtomicCell) and name == "dtype":
        return Cell(constant(host_class_of(type.pointee.dtype)))
    if not name.startswith("_") and callable(getattr(interface_of(type), name, None)):
        return frame.bundle(Method(name), [cell])
    return None


def _stays_in_memory(struct: Struct, index: int) -> bool:
    """Whether a member is read in memory: it has parts itself, or a copy of the struct would be large."""
    composite = isinstance(struct.fields[index].type, (Struct, Vector, Tuple))
    return composite or any(isinstance(field.type, Subarray) for field in struct.fields)


def _class_attribute(frame: Frame, cell: Cell, struct: Struct, name: str) -> Cell:
    value = inspect.getattr_static(struct.host, name, None)
    if isinstance(value, property):
        return frame.run(value.fget, cell)
    is_bound = isinstance(value, classmethod)
    value = getattr(struct.host, name, None)
    if not is_bound:  # a bound method is a new object each time
        frame.program.depend(struct.host, name, value)
    if isinstance(inspect.getattr_static(struct.host, name, None), (staticmethod, classmethod)):
        return frame.literal(value)
    if value is None:
        raise composites.no_member(struct, name)
    return frame.bundle(Method(name), [cell]) if callable(value) else frame.literal(value)


def _getitem(frame: Frame, op: Op, owner: Cell, index: Cell) -> Cell | None:
    """`s[i]`: calls the struct's `__getitem__`, or reads the member of that name."""
    struct = _struct_of(owner)
    if struct is None:
        return None
    method = frame.method_of(struct, "__getitem__")
    if method is None:
        method = composites.overload_of(frame, operator.getitem, [owner, index])
    if method is not None:
        return frame.run(method, owner, index)
    name = _named(struct, index.known.value)
    if name is None:
        return None
    if struct.index(name) is None:
        raise composites.no_member(struct, name)
    return _attribute(frame, op, owner, name)


def _named(struct: Struct, index: object) -> str | None:
    """The name of the member for an index, which is a name, or a position in a NumPy record; None for any other index."""
    if isinstance(index, int) and struct.host is None and -len(struct.fields) <= index < len(struct.fields):
        return struct.fields[index].name
    return index if isinstance(index, str) else None


def _method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls a function of the class with the object as its first argument."""
    struct = _struct_of(owner)
    if struct is None:
        return frame.call(frame.literal(getattr(interface_of(owner.known.type), name)), [owner, *positional], named)
    function = getattr(struct.host, name)
    if frame.program.row(function) is not None:
        return frame.call(frame.literal(function), [owner, *positional], named)
    return frame.program.call(frame, function, [owner, *positional], named)


def _truth(frame: Frame, cell: Cell[Struct]) -> Cell:
    method = frame.method_of(cell.type, "__bool__") or frame.method_of(cell.type, "__len__")
    if method is None:
        raise CompileError(f"{cell.known} has no truth value", help="compare it, or one of its elements")
    return frame.truth(frame.run(method, cell))


# Assignment


def _setattr(frame: Frame, op: Op, owner: Cell, name: str, value: Cell) -> Sequence[Cell] | None:
    struct = _struct_of(owner)
    if struct is None:
        return None
    if isinstance(owner.known.type, Ref):
        return _write_member(frame, owner, struct, name, value)
    return _set_member(frame, op, owner, struct, name, value)


def _setitem(frame: Frame, op: Op, owner: Cell, index: Cell, value: Cell) -> Sequence[Cell] | None:
    """`s[i] = v`: calls the struct's `__setitem__`, or assigns to the member of that name."""
    struct = _struct_of(owner)
    if struct is None:
        return None
    method = frame.method_of(struct, "__setitem__")
    if method is not None:
        frame.run(method, owner, index, value)
        return ()
    name = _named(struct, index.known.value)
    return None if name is None else _setattr(frame, op, owner, name, value)


def _set_member(frame: Frame, op: Op, owner: Cell, struct: Struct, name: str, value: Cell) -> Sequence[Cell]:
    if not references.is_variable(op, owner, f"{name}=…"):
        return _write_member(frame, references.of_place(frame, owner.place), struct, name, value)
    position, value = _member(frame, struct, name, value)
    if _is_self(frame, op, struct):
        raise CompileError(
            "a method cannot change its struct here, because the struct is a value",
            help=f"call it on an element of an array, as points[i].{frame.function.__name__}(…), or return replace(self, "
            f"{name}=…) and assign that",
        )
    parts = frame.fields(owner)
    parts[position] = value
    return [composites.composite(frame, struct, parts)]


def _is_self(frame: Frame, op: Op, struct: Struct) -> bool:
    """Whether the variable is `self` in a method of the struct."""
    code = frame.function.__code__
    if not op.operands or not code.co_argcount or op.operands[0].hint != code.co_varnames[0] or struct.host is None:
        return False
    method = vars(struct.host).get(code.co_name)
    return getattr(getattr(method, "underlying", method), "__code__", None) is code


def _member(frame: Frame, struct: Struct, name: str, value: Cell) -> tuple[int, Cell]:
    """The position and the converted value of a member that is assigned to."""
    position = struct.index(name)
    if position is None:
        raise composites.no_member(struct, name)
    type = struct.fields[position].type
    if has_identity(type):
        raise references.refusal(type)
    return position, composites.member(frame, struct, position, value)


def _write_member(frame: Frame, reference: Cell, struct: Struct, name: str, value: Cell) -> Sequence[Cell]:
    """Writes only one member in memory."""
    index = struct.index(name)
    type = struct.fields[index].type if index is not None else None
    if index is not None and isinstance(type, Subarray):
        composites.check_shape(type.shape, value.known)
        frame.assign(references.read_member(frame, reference, struct, index), value)
        return []
    position, value = _member(frame, struct, name, value)
    references.store(frame, references.member(frame, reference, struct, position), value)
    return []


# Elements of structured arrays of the host


_PLAIN = "use a structured dtype of numbers"


def constant_of(frame: Frame, value: np.void) -> Cell:
    """The value of an element of a structured host array."""
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


KIND = Kind(
    rank=Rank.STRUCT,
    getitem=_getitem,
    setitem=_setitem,
    getattr=_attribute,
    setattr=_setattr,
    method=_method,
    truth=_truth,
)


REFERENCE = replace(
    KIND,
    rank=Rank.OTHER,
    names=lambda known: [name for name in dir(interface_of(known.type)) if not name.startswith("_")],
    truth=None,
)
