"""Rules of type inference for what values contain: attributes, items, unpacking, and iteration.

    py.getitem (array<float32, 2, C>, tuple<int32, int>)   →   py.getitem %x %i %j: float32

A `for` over a tuple has an iterator for each position, so its loop is unrolled; a `for` over a range is a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.model import Op, Value
from cuda_device.passes.calls import call
from cuda_device.passes.frame import Cell, Frame, is_static
from cuda_device.types.host import host_type_of
from cuda_device.types.known import Known, constant, describe, iterator_of, of_type, tuple_of
from cuda_device.types.model import (
    BOOL,
    INDEX,
    INT,
    Array,
    Number,
    Range,
    RangeIterator,
    Static,
    Tuple,
    TupleIterator,
    Vector,
)

# Attributes and items


def getattr_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x.name`: of what exists while compiling by Python's own `getattr`, of values by their type."""
    (cell,) = cells
    name = str(op.attributes["name"])
    match cell.known.type:
        case Static():
            return [_static_attribute(frame, cell.known.value, name)]
        case Array() as array:
            return [_array_attribute(frame, cell, array, name)]
        case Vector(_, size) if name in "xyzw"[:size]:
            return [frame.field(cell, "xyzw".index(name))]
        case Vector(_, size) if name == "size":
            return [Cell(constant(size))]
        case Number() as number if name == "dtype":
            return [Cell(constant(host_type_of(number)))]
    raise CompileError(f"{cell.known} has no attribute {name!r} in device code")


def _static_attribute(frame: Frame, owner: object, name: str) -> Cell:
    try:
        value = getattr(owner, name)
    except AttributeError:
        raise CompileError(f"{describe(owner)} has no attribute {name!r}") from None
    except Exception as error:
        raise CompileError(f"reading {name!r} of {describe(owner)} raised {type(error).__name__}: {error}") from error
    if isinstance(owner, (ModuleType, type)):
        frame.program.depend(owner, name, value)
    return frame.literal(value)


def _array_attribute(frame: Frame, cell: Cell, array: Array, name: str) -> Cell:
    assert cell.value is not None
    index = of_type(INDEX, nonneg=True)
    match name:
        case "ndim":
            return Cell(constant(array.ndim))
        case "dtype":
            assert isinstance(array.dtype, Number)
            return Cell(constant(host_type_of(array.dtype)))
        case "shape":
            return frame.tuple([frame.emit(ops.EXTENT, index, cell.value, axis=i) for i in range(array.ndim)])
        case "strides":
            steps = [frame.emit(ops.STRIDE, of_type(INDEX), cell.value, axis=i) for i in range(array.ndim)]
            return frame.tuple(steps)
        case "size":
            size = Cell(constant(1))
            for axis in range(array.ndim):
                extent = frame.emit(ops.EXTENT, index, cell.value, axis=axis)
                operands = [frame.materialise(part, INDEX) for part in (size, extent)]
                size = frame.emit(ops.PY_BINARY, index, *operands, op="*") if axis else extent
            return size
    raise CompileError(
        f"arrays have no attribute {name!r} in device code", help="there are shape, strides, size, ndim, dtype"
    )


def getitem(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x[i]`: an element of an array, tuple or vector."""
    owner, index = cells
    match owner.known.type:
        case Array() as array:
            assert owner.value is not None
            indices = _indices(frame, array, index)
            return [frame.emit(ops.PY_GETITEM, of_type(array.dtype), owner.value, *indices)]
        case Tuple(elements):
            return [frame.field(owner, _position(index, len(elements)))]
        case Vector(_, size):
            return [frame.field(owner, _position(index, size))]
    raise CompileError(f"{owner.known} cannot be indexed in device code", help=_static_help(owner))


def _static_help(cell: Cell) -> str:
    return "pass it to the kernel as an argument" if isinstance(cell.known.type, Static) else ""


def _position(index: Cell, count: int) -> int:
    if not index.known.constant or not isinstance(index.known.value, int):
        raise CompileError(
            "the index of a tuple must be a constant integer", help="loop over the tuple with for, or use an array"
        )
    position = int(index.known.value)
    if not -count <= position < count:
        raise CompileError(f"there is no index {position} in {count} element{'s' * (count != 1)}")
    return position % count


def _indices(frame: Frame, array: Array, index: Cell) -> list[Value]:
    tuple_index = isinstance(index.known.type, Tuple)
    parts = [frame.field(index, i) for i in range(len(index.known.items))] if tuple_index else [index]
    if len(parts) != array.ndim:
        few = len(parts) < array.ndim
        raise CompileError(
            f"{array} has {array.ndim} ax{'i' if array.ndim == 1 else 'e'}s, but there "
            + (f"are {len(parts)} indices" if len(parts) != 1 else "is one index"),
            help="device code indexes all axes at once: a[i, j, …]" if few else "",
        )
    values = []
    for part in parts:
        type = part.known.type
        if not isinstance(type, Number) or not (type.is_integer or type == BOOL):
            remedy = (
                "convert it: int(…)" if isinstance(type, Number) else "device code indexes single elements, by integers"
            )
            raise CompileError(f"an index is an integer, not {part.known}", help=remedy)
        roomy = INDEX if part.known.constant and type == INT else INT if type == BOOL else type
        values.append(frame.materialise(part, roomy))
    return values


def setitem(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x[i] = v`: writes an element of an array, converted as the element type's constructor would."""
    owner, index, value = cells
    array = owner.known.type
    if not isinstance(array, Array):
        raise CompileError(
            f"{owner.known} cannot be changed in device code", help="only elements of arrays are assigned to"
        )
    if array.readonly:
        raise CompileError(f"the array is read-only: {array}", help="pass an array that can be written")
    assert owner.value is not None
    element = array.dtype
    if not isinstance(value.known.type, Number) or not isinstance(element, Number):
        raise CompileError(f"an element of {array} cannot be set to {value.known}")
    indices = _indices(frame, array, index)
    item = frame.materialise(_as_stored(frame, value, element), element)
    frame.build.effect(ops.PY_SETITEM, owner.value, *indices, item)
    return []


def _as_stored(frame: Frame, value: Cell, element: Number) -> Cell:
    """A value on its way into memory converts as the element type's constructor would."""
    if value.known.constant and isinstance(value.known.value, float) and not element.is_float:
        return call(frame, frame.literal(host_type_of(element)), [value], {})
    return value


def make_tuple(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`(x, y, …)`."""
    return [frame.tuple(cells)]


def unpack(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`a, b, … = x`."""
    (cell,) = cells
    count = len(op.results)
    type = cell.known.type
    if not isinstance(type, (Tuple, Vector)):
        raise CompileError(f"{cell.known} cannot be unpacked")
    size = len(type.elements) if isinstance(type, Tuple) else type.size
    if size != count:
        raise CompileError(f"{count} names for {size} values")
    return [frame.field(cell, i) for i in range(count)]


# Loops


def iterate(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`iter(x)`: of a range, a tuple or a vector."""
    (cell,) = cells
    match cell.known.type:
        case Range(item):
            assert cell.value is not None
            return [frame.emit(ops.PY_ITER, Known(RangeIterator(item), items=cell.known.items), cell.value)]
        case Tuple():
            known = iterator_of(cell.known)
            if is_static(known):
                return [Cell(known)]
            parts = [frame.materialise(frame.field(cell, i), item.type) for i, item in enumerate(cell.known.items)]
            return [frame.emit(ops.MAKE, known, *parts)]
        case Vector(_, size):
            return iterate(frame, Op(ops.PY_ITER), [frame.tuple([frame.field(cell, i) for i in range(size)])])
    raise CompileError(f"a for loop cannot run over {cell.known}", help="loop over range(…) or a tuple")


def next_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """One step of a `for`: is there an item, the item, and the iterator after it."""
    (cell,) = cells
    if isinstance(cell.known.type, TupleIterator):
        return _next_of_tuple(frame, cell, cell.known.type)
    assert isinstance(cell.known.type, RangeIterator) and cell.value is not None
    type = cell.known.type
    start, stop, step = cell.known.items
    # A step that is never negative goes up: one of zero is an error.
    down = step.constant and not step.nonneg and isinstance(stop.value, int) and stop.value >= -1
    nonneg = start.nonneg and (step.nonneg or down)
    after = Known(type, items=(of_type(type.item, nonneg), stop, step))
    results = [Value(BOOL), Value(type.item, nonneg=nonneg), Value(type)]
    attributes: dict[str, object] = {"step": step.value} if step.constant else {"up": step.nonneg}
    frame.build.append(Op(ops.PY_NEXT, [cell.value], results, attributes, [], op.location))
    return [
        Cell(of_type(BOOL), results[0]),
        Cell(of_type(type.item, nonneg), results[1]),
        Cell(after, results[2]),
    ]


def _next_of_tuple(frame: Frame, cell: Cell, type: TupleIterator) -> Sequence[Cell]:
    if type.position == len(type.items.elements):
        return [Cell(constant(False)), Cell(constant(None)), cell]
    after = iterator_of(tuple_of(cell.known.items), type.position + 1)
    parts = [frame.field(cell, i) for i in range(len(cell.known.items))]
    value = None
    if not is_static(after):
        value = frame.build.op(ops.MAKE, after.type, *(frame.materialise(part, part.known.type) for part in parts))
    return [Cell(constant(True)), parts[type.position], Cell(after, value)]
