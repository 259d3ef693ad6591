"""Rules of type inference for attributes: of constants by Python's own `getattr`, of values by their type; members of structs.

py.getattr {name="shape"} (array<float32, 2, C>)   →   a tuple of two indices
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from cuda_device.errors import CompileError
from cuda_device.infer import composites, hosted, indexing, remedies, scalars
from cuda_device.infer.dependencies import MISSING
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import dicts, lists, references, subarrays, views
from cuda_device.infer.meanings import Keywords, Method, Named, Text, is_list, means, use_of
from cuda_device.infer.remedies import ON_THE_HOST
from cuda_device.ir.nodes import Op
from cuda_device.library import standard
from cuda_device.library.table import interface_of
from cuda_device.types.host import element_of_dtype, host_type_of, members_of
from cuda_device.types.known import Known, constant, describe
from cuda_device.types.layout import common_alignment, known_alignment, machine, placement, shortfall, size_of
from cuda_device.types.model import (
    MASK,
    Array,
    AtomicCell,
    Bundle,
    Layout,
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

# Rules of type inference for members of structs: of values, of what lies in memory, and of all elements of an array at once.
#
# s.x, s["x"]         a member of a value
# a[i].part.x         read where it lies
# a["x"]              an array of the members x, in the memory of a


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


# Rules of type inference for attributes: of what exists while compiling by Python's own `getattr`, of values by their type.


_RANGE_PARTS = ("start", "stop", "step")
ITEM_METHODS = ("__getitem__", "__setitem__")
VECTOR_METHODS = (*ITEM_METHODS, "__len__")


def getattr_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x.name`: of what exists while compiling by Python's own `getattr`, of values by their type."""
    (cell,) = cells
    name = str(op.attributes["name"])
    part = _python_attribute(frame, cell, name)
    if part is not None:
        return [part]
    match cell.known.type:
        case Static():
            return [_static_attribute(frame, cell.known.value, name)]
        case Array() as array:
            return [_array_attribute(frame, cell, array, name)]
        case Vector() as vector if (found := _vector_attribute(frame, cell, vector, name)) is not None:
            return [found]
        case Subarray() as subarray:
            return [subarrays.attribute(frame, cell, subarray, name)]
        case Struct() as struct:
            return [attribute(frame, cell, struct, name, bool(op.attributes.get("part")))]
        case Ref(_, Struct() as struct):
            return [attribute_of_reference(frame, cell, struct, name)]
        case Ref(_, AtomicCell(content)) if name == "dtype":
            return [Cell(constant(subarrays.host_class_of(content)))]
        case type if type == MASK and name in ITEM_METHODS:
            return [frame.bundle(Method(name), [cell])]
        case Number() as number:
            return [scalars.attribute(frame, cell, number, name)]
        case type if not name.startswith("_") and callable(getattr(interface_of(type), name, None)):
            return [frame.bundle(Method(name), [cell])]
    raise CompileError(
        f"{cell.known} has no attribute {name!r} in device code", help=_attributes_help(cell.known, name)
    )


def _names_of_range(known: Known) -> tuple[str, ...]:
    """What ranges have, and slices; of anything else nothing."""
    if isinstance(known.type, Range):
        return (*_RANGE_PARTS, *standard.RANGE_METHODS)
    return _RANGE_PARTS if means(known, slice) else ()


def _attributes_help(known: Known, name: str) -> str:
    """What a value has instead."""
    match known.type:
        case Tuple():
            names = [*standard.TUPLE_METHODS]
        case Vector(_, size):
            names = [*"xyzw"[:size], "size", "dtype", *VECTOR_METHODS]
        case Range() | Bundle() if _names_of_range(known):
            names = [*_names_of_range(known)]
        case Bundle() if isinstance(known.value, Keywords):
            names = [*dicts.METHODS]
        case Bundle() if isinstance(known.value, Named):
            return f"its members are {', '.join(known.value.names)}"
        case Bundle() if isinstance(known.value, Text):
            return "a text with values of run time can be printed"
        case Bundle() if is_list(known):
            names = [*standard.TUPLE_METHODS, *lists.METHODS]
        case _ if (interface := interface_of(known.type)) is not None:
            names = [method for method in dir(interface) if not method.startswith("_")]
        case _:
            return use_of(known)
    if isinstance(known.type, Vector) and (remedy := remedies.of_swizzle(name, known.type.dtype, known.type.size)):
        return remedy
    close = remedies.nearest(name, names)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"


_OF_CONSTANTS = ("as_integer_ratio", "hex", "to_bytes")
"""Methods of numbers that make texts, bytes and integers of any size: constants have them."""


def _python_attribute(frame: Frame, cell: Cell, name: str) -> Cell | None:
    """What Python's own numbers, tuples, ranges and dicts have, and the class that everything has."""
    if name == "__class__":
        return frame.call(Cell(constant(type)), [cell], {})
    match cell.known.type:
        case Static() | Bundle() if (method := _mapping_attribute(frame, cell, name)) is not None:
            return method
        case Bundle() if isinstance(cell.known.value, Named):
            return composites.attribute(frame, cell, cell.known.value, name)
        case Range() | Bundle() if name in _names_of_range(cell.known):
            is_part = name in _RANGE_PARTS
            return frame.field(cell, _RANGE_PARTS.index(name)) if is_part else frame.bundle(Method(name), [cell])
        case Number() as number if name in standard.NUMBER_PROPERTIES and number.is_integer:
            return frame.program.call(frame, standard.NUMBER_PROPERTIES[name], [cell], {})
        case Number() as number if name in standard.NUMBER_METHODS and (number.is_integer or name == "is_integer"):
            return frame.bundle(Method(name), [cell])
        case Number() as number if name in _OF_CONSTANTS and number.builtin and cell.known.constant:
            value = cell.known.value
            if callable(getattr(value, name, None)):
                return Cell(constant(frame.program.once(value, name, (value,), lambda: getattr(value, name))))
        case Tuple() if name in standard.TUPLE_METHODS:
            return frame.bundle(Method(name), [cell])
        case Bundle() if is_list(cell.known) and name in standard.TUPLE_METHODS:
            return frame.bundle(Method(name), [frame.tuple(frame.fields(cell))])
        case Bundle() if is_list(cell.known) and name in lists.METHODS:
            return frame.bundle(Method(name), [cell])
    return None


_OF_DTYPES = ("itemsize", "kind", "name", "type")
"""What `x.dtype` has on the host: in device code it is the class of the elements."""


def _static_attribute(frame: Frame, owner: object, name: str) -> Cell:
    is_dtype = name in _OF_DTYPES and isinstance(owner, type) and issubclass(owner, np.generic)
    can_change = isinstance(owner, (ModuleType, type)) and not is_dtype
    try:
        value = getattr(np.dtype(owner) if is_dtype else owner, name)  # type: ignore[call-overload]
        if isinstance(value, np.ndarray):
            value = frame.program.once(owner, name, (), lambda: value)
    except AttributeError:
        if can_change:  # `hasattr` goes on
            frame.program.depend(owner, name, MISSING)
        remedy = remedies.of_attribute(describe(owner), name)
        if not remedy:
            close = remedies.nearest(name, dir(owner), 0.65)
            remedy = (
                f"did you mean {close[0]}?" if close else "correct the name, or define it before the kernel is launched"
            )
        raise CompileError(f"{describe(owner)} has no attribute {name!r}", help=remedy) from None
    except Exception as error:
        raise CompileError(
            f"reading {name!r} of {describe(owner)} raised {type(error).__name__}: {error}", help=ON_THE_HOST
        ) from error
    if can_change:
        frame.program.depend(owner, name, value)
    return frame.literal(value)


def _mapping_attribute(frame: Frame, cell: Cell, name: str) -> Cell | None:
    """A method of a dict, bound to it; None for any other attribute."""
    mapping = hosted.as_mapping(frame, cell)
    if not isinstance(mapping.known.value, Keywords) or name not in dicts.METHODS:
        return None
    return frame.bundle(Method(name), [mapping])


def _vector_attribute(frame: Frame, cell: Cell, vector: Vector, name: str) -> Cell | None:
    if name in tuple("xyzw"[: vector.size]):
        return frame.field(cell, "xyzw".index(name))
    if name in ("size", "dtype"):
        return Cell(constant(vector.size if name == "size" else host_type_of(vector.dtype)))
    return frame.bundle(Method(name), [cell]) if name in VECTOR_METHODS else None


_INSTEAD = {
    "append": "arrays keep their size: write to an element that is free, and count",
    "copy": "copy the elements to a local_array: own[:] = x",
    "fill": "write x[:] = value",
    "flatten": "write x.reshape(-1), which is a view",
    "ravel": "write x.reshape(-1), which is a view",
    "sort": "sort it with an algorithm of your own",
    "tolist": "loop over the array",
    "transpose": "write x.T",
}
"""Methods of NumPy's arrays that device code has not, and what to write."""


def _array_attribute(frame: Frame, cell: Cell, array: Array, name: str) -> Cell:
    match name:
        case "ndim" | "ndims":
            return Cell(constant(array.ndim))
        case "dtype":
            return Cell(constant(subarrays.host_class_of(array.dtype)))
        case "itemsize":
            return Cell(constant(size_of(array.dtype)))
        case "shape":
            return frame.tuple(views.extents(frame, cell))
        case "strides":
            return frame.tuple(views.strides(frame, cell))
        case "size":
            return views.product(frame, views.extents(frame, cell))
        case "nbytes":
            size = views.product(frame, views.extents(frame, cell))
            return views.arithmetic(frame, "*", size, Cell(constant(size_of(array.dtype))))
        case "T":
            return views.transpose(frame, cell, array)
        case "real" | "imag" if isinstance(array.dtype, Number) and array.dtype.is_complex:
            part = array.dtype.part
            return column(frame, cell, array, part, 0 if name == "real" else size_of(part))
        case "real" if isinstance(array.dtype, Number):
            return cell
        case _ if name in views.METHODS:
            return frame.bundle(Method(name), [cell])
    raise CompileError(
        f"arrays have no attribute {name!r} in device code",
        help=_INSTEAD.get(name)
        or "there are shape, strides, size, ndim, dtype, itemsize, nbytes, T, real, imag (of complex numbers), "
        + ", ".join(views.METHODS),
    )
