"""The memory layout of values: sizes, alignments and offsets, and the leaves in which values are passed.

A *leaf* is a real number or an address, which fits into a register or a kernel parameter. Inside device code, and at the
boundary of a kernel that is not interoperable, every value is the sequence of its leaves:

    leaves(array<float32, 2, C>) == (ref<global, float32>, int64, int64)         data, shape
    leaves(array<float32, 2, C, small>) == (ref<global, float32>, int32, int32)
    leaves(complex64) == (float32, float32)                                      the real and the imaginary part
    leaves(tuple<int, array<uint8, 1, strided>>) == (int32, ref<global, uint8>, int64, int64)

In memory, values have the layout of CUDA C++:

    size_of(struct<pixel, rgb: vector<uint8, 3>, weight: float32>) == 8          offsets 0 and 4
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeGuard, TypeVar

from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types import model

MOST_NUMBERS = 512
"""The maximum number of numbers in a value: LLVM's compile time for a copy of a struct is quadratic in them."""

WIDEST_ACCESS = 16
"""The size of the widest load and store in bytes, which is also the largest alignment of a CUDA C++ vector."""


def pointee_of(element: model.Type) -> model.Type:
    """The type of an element in memory: a builtin number, which members of structs can be, has its fixed format there."""
    return element.machine if isinstance(element, model.Number) else element


def leaves(type: model.Type) -> tuple[model.Type, ...]:
    """The leaves of a value of `type`, in order: fixed-format numbers, bools and references."""
    match type:
        case model.Number() if type.is_complex:
            return (type.machine.part,) * 2
        case model.Number():
            return (type.machine,)
        case model.Ref():
            return (type,)
        case model.Pointer(model.NoneType(), readonly):
            return (model.Ref(model.Space.GENERIC, model.UINT8, readonly),)
        case model.Pointer(dtype, readonly):
            least = shortfall(dtype, align_of(dtype))
            return (model.Ref(model.Space.GENERIC, pointee_of(dtype), readonly, least),)
        case model.Subarray(dtype):
            return leaves(dtype) * type.count
        case model.Array(dtype, ndim, layout, _, space, align, small):
            strides = ndim if layout is model.Layout.STRIDED else 0
            return (
                model.Ref(space, pointee_of(dtype), align=align),
                *(model.INT32 if small else model.INT64,) * ndim,
                *(model.INT64,) * strides,
            )
    return tuple(leaf for part in parts(type) for leaf in leaves(part))


@dataclass(frozen=True)
class Placement:
    """The layout of a type in memory: size, alignment, and the offset of each of its parts (fields, elements)."""

    size: int
    align: int
    offsets: tuple[int, ...] = ()


@lru_cache(maxsize=4096)
def placement(type: model.Type) -> Placement:
    """The layout of `type`, which is that of CUDA C++. Raises `TypeError` for types that cannot be stored in memory."""
    match type:
        case model.Number():
            return Placement(type.bits // 8, type.bits // 8)
        case model.NoneType() | model.Ref() | model.Pointer():
            return Placement(8, 8)
        case model.AtomicCell(dtype):
            content = placement(dtype)  # aligned to its size, like `cuda::atomic`, so that one access suffices
            return Placement(content.size, max(content.align, content.size & -content.size))
        case model.Vector(dtype, size):  # those of 1 and 3 are aligned like their elements
            width = size_of(dtype)
            align = min(width * size, WIDEST_ACCESS) if size in (2, 4) else width
            return Placement(width * size, align, tuple(width * i for i in range(size)))
        case model.Subarray(dtype):
            return Placement(size_of(dtype) * type.count, align_of(dtype))
        case model.Tuple(elements):
            return _placed(elements, (0,) * len(elements), 0)
        case model.Struct(_, fields, align) if type.size:
            return Placement(type.size, align, tuple(field.offset for field in fields))
        case model.Struct(_, fields, align):
            return _placed(parts(type), [field.align for field in fields], align)
    raise TypeError(f"{type} cannot be stored in memory")


def _placed(types: Sequence[model.Type], aligns: Sequence[int], align: int) -> Placement:
    """Places members in order, each at the next multiple of its alignment; the size is a multiple of the overall alignment."""
    offsets = []
    end, most = 0, max(1, align)
    for type, least in zip(types, aligns, strict=True):
        boundary = max(align_of(type), least)
        start = -(-end // boundary) * boundary
        offsets.append(start)
        end, most = start + size_of(type), max(most, boundary)
    # An empty class has the size 1 in C++.
    return Placement(max(-(-end // most) * most, most if not types else 0), most, tuple(offsets))


# A fold over a type looks at the type itself and, through `parts`, at what it consists of.


def parts(type: model.Type) -> tuple[model.Type, ...]:
    """The types of the parts of a composite value, in order; empty for other types. A complex number is one number."""
    match type:
        case model.Tuple(elements) | model.Bundle(elements):
            return elements
        case model.Struct(_, fields):
            return tuple(field.type for field in fields)
        case model.Vector(dtype, count) | model.Subarray(dtype, count=count):
            return (dtype,) * count
        case model.Range() | model.RangeIterator():
            return (type.counts_in,) * 3
    return ()


T = TypeVar("T", bound=model.Type)


def rebuilt(type: T, parts: Iterable[model.Type]) -> T:
    """The struct or tuple `type` with other types for its parts."""
    if isinstance(type, model.Struct):
        return replace(type, fields=tuple(replace(f, type=part) for f, part in zip(type.fields, parts, strict=True)))
    assert isinstance(type, model.Tuple)
    return replace(type, elements=tuple(parts))


def any_part(type: model.Type, *kinds: builtins.type) -> bool:
    """Whether `type`, or a part of it at any depth, is of one of these classes."""
    return isinstance(type, kinds) or any(any_part(part, *kinds) for part in parts(type))


def has_leaves(type: model.Type) -> bool:
    """Whether a type has leaves."""
    return isinstance(type, (model.Number, model.Ref, model.Pointer, model.Array)) or any(map(has_leaves, parts(type)))


def is_by_value(type: model.Type | None) -> TypeGuard[model.Ref]:
    """Whether an argument of a kernel is passed as the bytes of what it refers to, and not as an address."""
    return isinstance(type, model.Ref) and type.space is model.Space.PARAMETER


@lru_cache(maxsize=4096)
def has_identity(type: model.Type) -> bool:
    """Whether a value of `type` is a location in memory and cannot be copied: an atomic, or a struct that contains one."""
    return any_part(type, model.AtomicCell)


@lru_cache(maxsize=4096)
def has_arrays(type: model.Type) -> bool:
    """Whether a value of `type` is or contains an array, so that it cannot be an array element."""
    return any_part(type, model.Array)


@lru_cache(maxsize=4096)
def has_pointers(type: model.Type) -> bool:
    """Whether a value of `type` is or contains a pointer."""
    return any_part(type, model.Pointer)


def map_arrays(type: model.Type, function: Callable[[model.Array], model.Array]) -> model.Type:
    """Applies `function` to all array types in `type`."""
    if isinstance(type, model.Array):
        return function(type)
    return rebuilt(type, (map_arrays(part, function) for part in parts(type))) if has_arrays(type) else type


@lru_cache(maxsize=4096)
def without_classes(type: model.Type) -> model.Type:
    """The type with structs that have no Python classes, as the text of a type has them."""
    match type:
        case model.Struct():
            return replace(rebuilt(type, map(without_classes, parts(type))), host=None)
        case model.Tuple(elements):
            return rebuilt(type, map(without_classes, elements))
        case model.Array(dtype) | model.Subarray(dtype) | model.Pointer(dtype) | model.AtomicCell(dtype):
            return replace(type, dtype=without_classes(dtype))
        case model.Ref():
            return replace(type, pointee=without_classes(type.pointee))
    return type


def with_arrays(hint: model.Type, type: model.Type) -> model.Type:
    """`hint` with its array types replaced by those of `type` that have the same elements and number of axes.

    A hint does not determine the layout and space of an array; the argument does. Read-only hints stay read-only.
    """
    if isinstance(hint, model.Array) and isinstance(type, model.Array):
        fits = (hint.dtype, hint.ndim) == (type.dtype, type.ndim)
        return replace(type, readonly=type.readonly or hint.readonly) if fits else hint
    of_hint, of_type = parts(hint), parts(type)
    if not has_arrays(hint) or hint.__class__ is not type.__class__ or len(of_hint) != len(of_type):
        return hint
    return rebuilt(hint, map(with_arrays, of_hint, of_type))


def size_of(type: model.Type) -> int:
    """The size of a type in bytes."""
    return placement(type).size


def align_of(type: model.Type) -> int:
    """The alignment of a type in bytes."""
    return placement(type).align


def usual_alignment(type: model.Type) -> int:
    """The default alignment of an array element.

    Structs and tuples have the largest alignment that their size allows, up to the widest access, so that few accesses read one.
    C++ guarantees only `align_of`.
    """
    if isinstance(type, (model.Struct, model.Tuple)) and not has_identity(type):
        return max(align_of(type), min(size_of(type) & -size_of(type), WIDEST_ACCESS))
    return align_of(type)


def known_alignment(type: model.Array | model.Ref) -> int:
    """The alignment of an array's elements, or of the target of a reference, in bytes."""
    return type.align or usual_alignment(type.dtype if isinstance(type, model.Array) else type.pointee)


def reference_of_cpp(space: model.Space, pointee: model.Type) -> model.Ref:
    """A reference to a value in the memory of C++, with the alignment that C++ guarantees."""
    return model.Ref(space, pointee, align=shortfall(pointee, align_of(pointee)))


def shortfall(type: model.Type, align: int) -> int:
    """`align` if it is less than the default alignment of `type`, else 0; the `align` of array and reference types."""
    return align if align < usual_alignment(type) else 0


@dataclass(frozen=True)
class Access:
    """One load or store of a part of a composite value: `count` numbers of `type` at `offset`."""

    offset: int
    type: model.Type
    count: int
    align: int


def accesses(type: model.Type, align: int = 0, offset: int = 0) -> Iterator[Access]:
    """The loads that read a value of `type`, in the order of its leaves; `align` is the known alignment of its address."""
    align = align or align_of(type)
    here = common_alignment(align, offset)
    match type:
        case model.Number() if type.is_complex:
            # Like a vector of its two parts.
            yield from accesses(model.Vector(type.part, 2), align, offset)
        case model.Vector(dtype, 2 | 4 as count) if dtype != model.BOOL and here >= min(size_of(type), WIDEST_ACCESS):
            yield from _wide(dtype, count, offset, align)
        case model.Vector(dtype, count) | model.Subarray(dtype, count=count):
            for i in range(count):
                yield from accesses(dtype, align, offset + i * size_of(dtype))
        case model.Tuple() | model.Struct():
            for part, start in zip(parts(type), placement(type).offsets, strict=True):
                yield from accesses(part, align, offset + start)
        case model.NoneType():
            return
        case model.Pointer():
            yield from accesses(leaves(type)[0], align, offset)
        case _:
            yield Access(offset, type, 1, min(here, WIDEST_ACCESS))


def _wide(dtype: model.Number, size: int, offset: int, align: int) -> Iterator[Access]:
    """The accesses of a vector, each of at most 16 bytes."""
    count = min(size, WIDEST_ACCESS // size_of(dtype))
    for first in range(0, size, count):
        start = offset + first * size_of(dtype)
        yield Access(start, dtype, count, common_alignment(align, start))


def common_alignment(align: int, offset: int) -> int:
    """The alignment of an address at `offset` from an address that is aligned to `align`."""
    return min(align, offset & -offset) if offset else align


# Floats without hardware arithmetic on all processors


@dataclass(frozen=True)
class Division:
    """The format of bfloat16 or an 8-bit float."""

    mantissa: int
    """The number of its bits."""
    bias: int
    """That of the exponent."""
    overflow: int
    """The bit pattern for numbers that are too large, without the sign."""
    nan: int
    """The bit pattern of NaN, without the sign."""
    last: float
    """The largest number that rounds to a finite one."""


DIVISIONS = {
    # s eeee mmm: no infinity; numbers that are too large become NaN (0x7F).
    # 464 is the midpoint of 448 and the next value, 480. Ties go to the even mantissa, that of 448.
    model.Format.E4M3: Division(3, 7, 0x7F, 0x7F, 464.0),
    # Here the even mantissa is that of infinity.
    model.Format.E5M2: Division(2, 15, 0x7C, 0x7E, math.nextafter(61440.0, 0)),
    model.Format.BFLOAT: Division(7, 127, 0x7F80, 0x7FC0, math.nextafter(2.0**128 - 2.0**119, 0)),
}


def float_bits(number: model.Number, value: float) -> int:
    """The bit pattern of the nearest `number`, with ties to even, as ml_dtypes rounds: `float_bits(FLOAT8E4M3, 1.0) == 0x38`."""
    form = DIVISIONS[number.format]
    sign = 1 << (number.bits - 1) if math.copysign(1, value) < 0 else 0
    magnitude = abs(value)
    if math.isnan(value):
        return sign | form.nan
    if magnitude == 0 or magnitude > form.last:
        return sign | (form.overflow if magnitude else 0)
    # In units of the last place; the minimum exponent is that of subnormal numbers.
    exponent = max(math.frexp(magnitude)[1] - 1 - form.mantissa, 1 - form.bias - form.mantissa)
    units = round(math.ldexp(magnitude, -exponent))
    return sign | (units + ((exponent - (1 - form.bias - form.mantissa)) << form.mantissa))
