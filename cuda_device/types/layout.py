"""How values lie in memory and travel: the one place that computes sizes, alignments and leaves.

A *leaf* is a number or an address: what fits a register or a kernel parameter. Inside device code, and at the boundary
of a kernel that is not interoperable, every value is the sequence of its leaves:

    leaves(array<float32, 2, C>) == (ref<global, float32>, int64, int64)         data, shape
    leaves(tuple<int, array<uint8, 1, strided>>) == (int32, ref<global, uint8>, int64, int64)
"""

from __future__ import annotations

from cuda_device.types.model import (
    BOOL,
    FLOAT32,
    INT32,
    INT64,
    Array,
    Layout,
    NoneType,
    Number,
    Range,
    RangeIterator,
    Ref,
    Static,
    Tuple,
    TupleIterator,
    Type,
    Vector,
)


def machine(number: Number) -> Number:
    """The fixed-format number that has a builtin number's format in device code (a bool stays a bool)."""
    if not number.builtin or number == BOOL:
        return number
    return FLOAT32 if number.is_float else INT64 if number.bits == 64 else INT32


def leaves(type: Type) -> tuple[Type, ...]:
    """The leaves of a value of `type`, in order: fixed-format numbers, bools and references."""
    match type:
        case Number():
            return (machine(type),)
        case Ref():
            return (type,)
        case NoneType() | Static():
            return ()
        case Tuple(elements) | TupleIterator(Tuple(elements)):
            return tuple(leaf for element in elements for leaf in leaves(element))
        case Vector(dtype, size):
            return (machine(dtype),) * size
        case Range(item) | RangeIterator(item):
            return (machine(item),) * 3
        case Array(dtype, ndim, layout, _, space):
            strides = ndim if layout is Layout.STRIDED else 0
            return (Ref(space, dtype), *(INT64,) * (ndim + strides))


def size_of(type: Type) -> int:
    """The size in bytes of a number in memory."""
    assert isinstance(type, Number), type
    return type.bits // 8


def align_of(type: Type) -> int:
    """The alignment in bytes of a number in memory."""
    return size_of(type)
