"""Rules of type inference for arrays: elements, attributes, and views of all elements (`array_parts` has other views).

Computations on sizes and strides use the rules for Python code, as if the user had written them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cuda_device.device.rows import type_argument
from cuda_device.errors import CompileError
from cuda_device.infer.array_windows import extents, product, strides
from cuda_device.infer.frame import Cell, Frame, Kind, Place, Rank
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.lazy_imports import import_lazily
from cuda_device.types import model
from cuda_device.types.known import constant, of_type
from cuda_device.types.layout import size_of
from cuda_device.types.vector_classes import host_class_of

if TYPE_CHECKING:
    from cuda_device.device import memory
    from cuda_device.infer import indexing, references
else:
    import_lazily(globals(), "cuda_device.infer", "indexing", "references")
    import_lazily(globals(), "cuda_device.device", "memory")


def _is_partial(array: model.Array, parts: Sequence[Cell]) -> bool:
    """Whether indices select an array instead of an element."""
    numbers = [part for part in parts if isinstance(part.known.type, model.Number)]
    return not len(parts) == len(numbers) == array.ndim


def _pointer(frame: Frame, owner: Cell[model.Array], /, *index: Cell) -> Cell:
    return frame.pointer(owner, index)


def _astype(frame: Frame, owner: Cell[model.Array], dtype: Cell, *, copy: Cell | None = None) -> Cell:
    array, element = owner.type, type_argument(dtype.known, "the dtype of astype")
    if copy is None or not copy.known.constant or copy.known.value:
        raise CompileError(
            "astype makes a copy, for which device code cannot allocate memory", help="write x.astype(T, copy=False)"
        )
    if element != array.dtype:
        raise CompileError(
            f"astype of {array} to {element} needs a copy",
            help="convert the elements: T(x[i]), or use view to see other types",
        )
    return owner


def _view(frame: Frame, owner: Cell[model.Array], dtype: Cell) -> Cell:
    return frame.viewed(owner, dtype)


def _reshape(
    frame: Frame, owner: Cell[model.Array], /, *lengths: Cell, shape: Cell | None = None, copy: Cell | None = None
) -> Cell:
    return frame.reshaped(owner, lengths, shape, copy)


def in_constant_memory(frame: Frame, array: Cell) -> Cell:
    """A NumPy array of the host as an array in constant memory."""
    return frame.intrinsic(memory.CONSTANT_ARRAY, frame.ask(memory.CONSTANT_ARRAY, [array]), [array])


# Elements


def _getitem(frame: Frame, _: Op, owner: Cell[model.Array], index: Cell) -> Cell:
    """`x[i]` of an array: an element, an array of one member of each, or a view."""
    array = owner.type
    assert owner.value is not None
    parts = indexing.parts_of(frame, index)
    if len(parts) == 1 and isinstance(parts[0].known.value, str):
        return frame.of_each(owner, str(parts[0].known.value))
    if _is_partial(array, parts):
        return frame.select(owner, parts)
    is_number = isinstance(array.dtype, model.Number)
    if not is_number and references.are_referred_to(frame, array.dtype):
        return references.element(frame, owner, indexing.values_of(frame, parts))
    element = frame.emit(ops.PY_GETITEM, of_type(array.dtype), owner.value, *indexing.values_of(frame, parts))
    if not is_number and element.value is not None:
        element.place = Place(element.value, owner, index, frame.writes)
    return element


def store(frame: Frame, owner: Cell[model.Array], index: Cell, value: Cell) -> None:
    """`x[i] = v` of an array: writes an element, converted like the element type's constructor does, or assigns to a view."""
    array = owner.type
    if array.readonly:
        raise CompileError(f"the array is read-only: {array}", help="pass an array that can be written")
    assert owner.value is not None
    parts = indexing.parts_of(frame, index)
    if _is_partial(array, parts) or (parts and isinstance(parts[0].known.value, str)):
        frame.assign(_getitem(frame, Op(ops.PY_GETITEM), owner, index), value)
        return
    element = array.dtype
    value = frame.scalar(value)
    if not (isinstance(element, model.Number) and isinstance(value.known.type, model.Number)):
        frame.store_composite(owner, parts, value)
        return
    indices = indexing.values_of(frame, parts)
    item = frame.materialise(frame.as_stored(value, element), element)
    frame.build.effect(ops.PY_SETITEM, owner.value, *indices, item)


# Attributes


_INSTEAD = {
    "append": "arrays have a fixed size: write to the next free element, and count",
    "copy": "copy the elements to a local_array: own[:] = x",
    "fill": "write x[:] = value",
    "flatten": "write x.reshape(-1), which is a view",
    "ravel": "write x.reshape(-1), which is a view",
    **dict.fromkeys(
        ("all", "any", "max", "mean", "min", "prod", "sum"),
        "write sum(x), max(x), any(x), … of an array of one axis, and a loop over the rows of others",
    ),
    "sort": "sort it with an algorithm of your own",
    "tolist": "loop over the array",
    "transpose": "write x.T",
}
"""Replacements for methods of NumPy's arrays that device code does not support."""


METHODS: dict[str, Callable[..., Cell]] = {
    "pointer": _pointer, "view": _view, "reshape": _reshape, "astype": _astype,
}  # fmt: skip


def _attribute(frame: Frame, _: Op, cell: Cell[model.Array], name: str) -> Cell | None:
    array = cell.type
    match name:
        case "ndim" | "ndims":
            return Cell(constant(array.ndim))
        case "dtype":
            return Cell(constant(host_class_of(array.dtype)))
        case "itemsize":
            return Cell(constant(size_of(array.dtype)))
        case "shape":
            return frame.tuple(extents(frame, cell))
        case "strides":
            return frame.tuple(strides(frame, cell))
        case "size":
            return product(frame, extents(frame, cell))
        case "nbytes":
            size = product(frame, extents(frame, cell))
            return frame.operate("*", size, Cell(constant(size_of(array.dtype))))
        case "T":
            return frame.transposed(cell)
        case "real" | "imag" if isinstance(array.dtype, model.Number) and array.dtype.is_complex:
            part = array.dtype.part
            return frame.column(cell, part, 0 if name == "real" else size_of(part))
        case "real" if isinstance(array.dtype, model.Number):
            return cell
        case _ if name in METHODS:
            return None
    raise CompileError(
        f"arrays have no attribute {name!r} in device code",
        help=_INSTEAD.get(name)
        or "they have shape, strides, size, ndim, dtype, itemsize, nbytes, T, real, imag (of complex numbers), "
        + ", ".join(METHODS),
    )


def _setitem(frame: Frame, _: Op, owner: Cell[model.Array], index: Cell, value: Cell) -> Sequence[Cell]:
    store(frame, owner, index, value)
    return ()


KIND = Kind(rank=Rank.ARRAY, getitem=_getitem, setitem=_setitem, getattr=_attribute, methods=METHODS)
