"""Rules of type inference for attributes: of what exists while compiling by Python's own `getattr`, of values by their type.

py.getattr {name="shape"} (array<float32, 2, C>)   →   a tuple of two indices
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from cuda_device.errors import CompileError
from cuda_device.infer import hosted, members, named_tuples, remedies, scalars
from cuda_device.infer.dependencies import MISSING
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import dicts, lists, subarrays, views
from cuda_device.infer.meanings import Keywords, Method, Named, Text, is_list, means, use_of
from cuda_device.infer.remedies import ON_THE_HOST
from cuda_device.ir.nodes import Op
from cuda_device.library import standard
from cuda_device.library.table import interface_of
from cuda_device.types.host import host_type_of
from cuda_device.types.known import Known, constant, describe
from cuda_device.types.layout import size_of
from cuda_device.types.model import (
    MASK,
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
    Vector,
)

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
            return [members.attribute(frame, cell, struct, name, bool(op.attributes.get("part")))]
        case Ref(_, Struct() as struct):
            return [members.attribute_of_reference(frame, cell, struct, name)]
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
            return named_tuples.attribute(frame, cell, cell.known.value, name)
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
            return members.column(frame, cell, array, part, 0 if name == "real" else size_of(part))
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
