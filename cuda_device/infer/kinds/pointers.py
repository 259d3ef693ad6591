"""Rules of type inference for pointers: elements, arithmetic, casts, and arrays of the memory they point to.

All of these are `window`s at an offset in bytes from the pointer; an element is that of an array without axes.

    p[i]                   →   (window p, i * size)[()]
    p + n                  →   window p, n * size
    p.cast(T)              →   window p, 0                      with another type
    p.array((n, m))        →   window p, 0, (n, m)
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.device.rows import constant_of
from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame, Kind, Rank, is_of
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.library import copying
from cuda_device.types.host import pointer
from cuda_device.types.known import constant, of_type
from cuda_device.types.layout import align_of, shortfall, size_of
from cuda_device.types.model import INDEX, UINT8, Array, Layout, NoneType, Pointer, Space, Tuple, Type, is_index
from cuda_device.types.vector_classes import host_class_of

_NAMES = ("address", "dtype", "array", "cast")


def _element_of(cell: Cell[Pointer], operation: str) -> Type:
    """The type that a pointer points to, which the `operation` needs."""
    dtype = cell.type.dtype
    if isinstance(dtype, NoneType):
        raise CompileError(f"{operation}: what a void* points to has no type and no size", help="write p.cast(T) first")
    return dtype


def _distance(frame: Frame, index: Cell, size: int, sign: int = 1) -> Value:
    """The size of this many elements in bytes."""
    if not is_index(index.known.type):
        raise CompileError(f"a pointer moves by integers, not by {index.known}", help="convert it: int(…)")
    if index.known.constant:
        return frame.build.const(INDEX, sign * size * int(index.known.python))  # type: ignore[call-overload]
    count = Cell(of_type(INDEX), frame.materialise(index, INDEX))
    return frame.materialise(frame.operate("*", count, Cell(constant(sign * size))), INDEX)


def _moved(
    frame: Frame,
    cell: Cell[Pointer],
    distance: Value,
    type: Pointer | Array,
    lengths: Sequence[Value] = (),
    **used: bool,
) -> Cell:
    assert cell.value is not None
    return frame.emit(ops.WINDOW, of_type(type), cell.value, distance, *lengths, **used)


def _array_type(cell: Cell[Pointer], dtype: Type, ndim: int, layout: Layout = Layout.C) -> Array:
    """The type of an array in unknown memory, with the alignment that C++ guarantees."""
    align = shortfall(dtype, align_of(dtype))
    return Array(dtype, ndim, layout, cell.type.readonly, Space.GENERIC, align)


def _element(frame: Frame, owner: Cell[Pointer], index: Cell) -> Cell:
    """The array without axes at `p[index]`."""
    dtype = _element_of(owner, "p[i]")
    if not is_index(index.known.type):
        raise CompileError(
            f"the index of a pointer must be an integer, not {index.known}",
            help="make an array of it, which has axes and slices: p.array(shape)",
        )
    return _moved(frame, owner, _distance(frame, index, size_of(dtype)), _array_type(owner, dtype, 0), used=True)


def _getitem(frame: Frame, op: Op, owner: Cell[Pointer], index: Cell) -> Cell:
    (item,) = frame.getitem(op, [_element(frame, owner, index), frame.tuple(())])
    return item


def _setitem(frame: Frame, _: Op, owner: Cell[Pointer], index: Cell, value: Cell) -> Sequence[Cell]:
    if owner.type.readonly:
        raise CompileError(f"the memory is read-only: {owner.known}", help="declare the pointer without readonly=True")
    frame.store(_element(frame, owner, index), frame.tuple(()), value)
    return ()


def _address(frame: Frame, cell: Cell[Pointer]) -> Cell:
    nothing = _moved(frame, cell, frame.build.const(INDEX, 0), _array_type(cell, UINT8, 0))
    return frame.call(Cell(constant(copying.address)), [nothing], {})


def _binary(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    """`p + n`, `n + p`, `p - n`, and `p - q`, which counts elements."""
    if sign == "+" and not is_of(a, Pointer):
        a, b = b, a
    if sign not in ("+", "-") or not is_of(a, Pointer):
        raise CompileError(f"pointers do not support the operator {sign}", help="use p + n, p - n or p - q")
    size = size_of(_element_of(a, f"p {sign} n"))
    if not is_of(b, Pointer):
        return _moved(frame, a, _distance(frame, b, size, -1 if sign == "-" else 1), a.type)
    if sign == "+" or a.type.dtype != b.type.dtype:
        raise CompileError(
            f"{a.known} {sign} {b.known} is not defined", help="cast one to the type of the other: p.cast(T)"
        )
    ends = (Cell(of_type(INDEX), frame.materialise(_address(frame, cell), INDEX)) for cell in (a, b))
    return frame.operate("//", frame.operate("-", *ends), Cell(constant(size)))


def _as_address(frame: Frame, cell: Cell) -> Cell:
    if is_of(cell, Pointer):
        return _address(frame, cell)
    if isinstance(cell.known.type, NoneType):
        return Cell(constant(0))
    if not is_index(cell.known.type):
        raise CompileError(
            f"a pointer cannot be compared with {cell.known}", help="compare it with a pointer or an address"
        )
    return cell


def _compare(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    """Compares addresses; numbers and None are addresses, too."""
    sides = [_as_address(frame, cell) for cell in (a, b)]
    return frame.operate(sign, *sides)


def _attribute(frame: Frame, _: Op, cell: Cell[Pointer], name: str) -> Cell | None:
    if name == "address":
        return _address(frame, cell)
    return Cell(constant(host_class_of(_element_of(cell, "p.dtype")))) if name == "dtype" else None


def _cast(frame: Frame, owner: Cell[Pointer], dtype: Cell, /) -> Cell:
    """`p.cast(T)`: the same address as a pointer to a `T`, which stays read-only if it is."""
    try:
        type = pointer(constant_of(dtype.known, "the type of cast"), readonly=owner.type.readonly)
    except TypeError as error:
        raise CompileError(f"cast: {error}", help="name the type of the elements: p.cast(float32)") from None
    return _moved(frame, owner, frame.build.const(INDEX, 0), type)


def _array(frame: Frame, owner: Cell[Pointer], shape: Cell, strides: Cell | None = None) -> Cell:
    """`p.array(shape, strides)`: an array of the memory at a pointer, with strides in bytes; by default it is contiguous."""
    dtype = _element_of(owner, "p.array(…)")
    lengths = _numbers(frame, shape, "the shape")
    strided = strides is not None and not isinstance(strides.known.type, NoneType)
    steps = _numbers(frame, strides, "the strides") if strides is not None and strided else []
    if strided and len(steps) != len(lengths):
        raise CompileError(
            f"there are {len(lengths)} lengths, and {len(steps)} strides", help="give each axis its stride in bytes"
        )
    type = _array_type(owner, dtype, len(lengths), Layout.STRIDED if strided else Layout.C)
    return _moved(frame, owner, frame.build.const(INDEX, 0), type, [*lengths, *steps], used=True)


def _numbers(frame: Frame, cell: Cell, label: str) -> list[Value]:
    cells = frame.fields(cell) if isinstance(frame.as_tuple(cell).known.type, Tuple) else [cell]
    for number in cells:
        if not is_index(number.known.type):
            raise CompileError(
                f"{label}: {number.known} is not an integer", help="write an integer, or a tuple of integers"
            )
    return [frame.materialise(number, INDEX) for number in cells]


KIND = Kind(
    rank=Rank.OTHER,
    getitem=_getitem,
    setitem=_setitem,
    getattr=_attribute,
    names=lambda _: _NAMES,
    methods={"array": _array, "cast": _cast},
    truth=lambda frame, cell: _compare(frame, "!=", cell, Cell(constant(None))),  # not null
    binary=_binary,
    compare=_compare,
)
