"""Rules of type inference for vectors: their elements, and elementwise arithmetic.

float32x4 * float32   →   four products and a `make`
v.x = 1               v becomes `replace(v, x=1)`
a[i].x = 1            writes x there, in memory
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cuda_device.errors import CompileError
from cuda_device.infer import conditions, indexing, references
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.lazy_imports import import_lazily
from cuda_device.library import prelude
from cuda_device.types.host import host_type_of, members_of
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.layout import placement
from cuda_device.types.model import Number, NumberKind, Vector
from cuda_device.types.vector_classes import AXES

if TYPE_CHECKING:
    from cuda_device.device import packing
else:
    import_lazily(globals(), "cuda_device.device", "packing")


def elementwise(frame: Frame, operate: Callable[[Sequence[Cell]], Cell], cells: Sequence[Cell]) -> Cell:
    """Applies `operate` to the elements of vectors of one size; a number is combined with each element."""
    sizes = {cell.known.type.size for cell in cells if isinstance(cell.known.type, Vector)}
    if len(sizes) != 1:
        raise CompileError(
            f"vectors of different sizes: {' and '.join(str(cell.known) for cell in cells)}",
            help="use single elements: v.x, v.y, …",
        )
    (size,) = sizes
    columns = [frame.fields(cell) if isinstance(cell.known.type, Vector) else [cell] * size for cell in cells]
    results = [operate(column) for column in zip(*columns, strict=True)]
    dtype = results[0].type
    assert isinstance(dtype, Number)
    if dtype.kind is NumberKind.BOOL:
        raise CompileError("there are no vectors of bools", help="compare the elements")
    if dtype.is_complex:
        raise CompileError("there are no vectors of complex numbers", help="use a tuple of them")
    return frame.composite(Vector(dtype.machine, size), results)


def _operate(frame: Frame, sign: str, *cells: Cell) -> Cell:
    return elementwise(frame, lambda parts: frame.operate(sign, *parts), cells)


def _getitem(frame: Frame, _: Op, vector: Cell[Vector], index: Cell) -> Cell:
    """`v[i]`; a run-time index selects one of the elements."""
    size = vector.type.size
    _refuse_slice(frame, index)
    if index.known.constant:
        return frame.field(vector, indexing.position(index, size))
    indexing.check_index(index.known)
    conditions.element(frame, index, size)
    return frame.run(prelude.element, frame.tuple(frame.fields(vector)), index)


def _refuse_slice(frame: Frame, index: Cell) -> None:
    if indexing.slice_parts(frame, index) is not None:
        raise CompileError("vectors have no slices", help="name the elements: v.x, v.y")


def _attribute(frame: Frame, _: Op, cell: Cell[Vector], name: str) -> Cell | None:
    vector = cell.type
    if name in tuple(AXES[: vector.size]):
        return frame.field(cell, AXES.index(name))
    if name in ("size", "dtype"):
        return Cell(constant(vector.size if name == "size" else host_type_of(vector.dtype)))
    return None


def _names(known: Known) -> Sequence[str]:
    return [*members_of(known.type), "size", "dtype", *_METHODS]


def _setattr(frame: Frame, op: Op, owner: Cell[Vector], name: str, value: Cell) -> Sequence[Cell] | None:
    if name not in tuple(AXES[: owner.type.size]):
        return None
    return _setitem(frame, op, owner, Cell(constant(AXES.index(name))), value)


def _setitem(frame: Frame, op: Op, owner: Cell[Vector], index: Cell, value: Cell) -> Sequence[Cell]:
    vector = owner.type
    _refuse_slice(frame, index)
    if references.is_variable(op, owner, "x=…"):
        return [_with_element(frame, owner, vector, index, value)]
    value = _as_element(frame, owner, vector, value)
    references.store(frame, _element(frame, references.of_place(frame, owner.place), vector, index), value)
    return ()


def _element(frame: Frame, reference: Cell, vector: Vector, index: Cell) -> Cell:
    """A reference to an element of a vector in memory."""
    if index.known.constant:
        offset = placement(vector).offsets[indexing.position(index, vector.size)]
        return references.behind(frame, reference, vector.dtype, offset)
    indexing.check_index(index.known)
    conditions.element(frame, index, vector.size)
    position = frame.run(prelude.position, index, Cell(constant(vector.size)))
    return references.after(frame, references.behind(frame, reference, vector.dtype, 0), position)


def _with_element(frame: Frame, owner: Cell[Vector], vector: Vector, index: Cell, value: Cell) -> Cell:
    """A copy of `owner` with one element changed."""
    value = _as_element(frame, owner, vector, value)
    parts = frame.fields(owner)
    if index.known.constant:
        parts[indexing.position(index, vector.size)] = value
        return frame.composite(vector, parts)
    conditions.element(frame, index, vector.size)
    item = Cell(of_type(vector.dtype), frame.materialise(value, vector.dtype))
    changed = frame.run(prelude.with_element, frame.tuple(parts), index, item)
    return frame.composite(vector, frame.fields(changed))


def _as_element(frame: Frame, owner: Cell[Vector], vector: Vector, value: Cell) -> Cell:
    if not isinstance(value.known.type, Number):
        raise CompileError(f"an element of {owner.known} cannot be set to {value.known}", help="write a number")
    return frame.as_stored(value, vector.dtype)


_METHODS: dict[str, Callable[..., Cell]] = {
    "__getitem__": lambda frame, owner, i, /: _getitem(frame, Op(ops.PY_GETITEM), owner, i),
    "__len__": lambda _, owner, /: Cell(constant(owner.type.size)),
    "__setitem__": lambda frame, owner, i, val, /: _with_element(frame, owner, owner.type, i, val),
    "view": lambda frame, owner, dtype: frame.call(frame.literal(packing.reinterpret), [owner, dtype], {}),
}
"""`v.__setitem__(i, a)` returns a copy with one element changed, and `v.view(T)` the bits of the vector as another type."""


KIND = Kind(
    rank=Rank.VECTOR,
    getitem=_getitem,
    setitem=_setitem,
    getattr=_attribute,
    setattr=_setattr,
    names=_names,
    methods=_METHODS,
    items=Frame.fields,
    unary=_operate,
    binary=_operate,
)
