"""The types of values ('Heterogeneous Types and Objects' in the specification), as immutable data.

Two types are equal when their fields are: there is no registry and no identity. This module imports nothing but the
standard library; `types/host.py` maps it to NumPy's and Python's own types.

    Number(NumberKind.FLOAT, 32)                  float32
    Number(NumberKind.INT, 32, builtin=True)      Python's int in device code
    Array(FLOAT32, 2, Layout.C)             a 2-D C-contiguous array of float32
"""

from __future__ import annotations

import enum
import math
import re
from functools import cached_property
from typing import Any, TypeGuard

from cuda_device.lazy_dataclasses import dataclass, field


class NumberKind(enum.IntEnum):
    """The kinds of numbers, in the order in which they promote."""

    BOOL = 0
    UINT = 1
    INT = 2
    FLOAT = 3
    COMPLEX = 4


class Format:
    """The format of a float, if its size does not determine it: `E4M3` has 4 bits of exponent and 3 of mantissa."""

    IEEE = ""
    BFLOAT = "bfloat"
    E4M3 = "e4m3"
    E5M2 = "e5m2"


class Layout(enum.StrEnum):
    """The order of an array's elements in memory."""

    C = "C"
    F = "F"
    STRIDED = "strided"


class Space(enum.Enum):
    """The memory that an array or a reference points into."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    CONSTANT = "constant"
    PARAMETER = "parameter"
    """An argument of a kernel that is passed as a copy of its bytes, which nobody writes."""


@dataclass(frozen=True)
class Number:
    """A builtin or fixed-format number. The *index*, the type of `len(x)` and `x.shape[0]`, is the builtin int of 64 bits."""

    kind: NumberKind
    bits: int
    """The size in bits; 8 for a bool, which is stored in a byte."""
    builtin: bool = False
    """Whether it takes the type of a fixed-format number of its own or a higher kind."""
    mask: bool = False
    """Whether it is an int32 that represents the lanes of a warp."""
    format: str = Format.IEEE
    """Distinguishes bfloat16 from float16, and the 8-bit floats from each other."""

    def __str__(self) -> str:
        return _NAMES[self]

    @cached_property
    def is_integer(self) -> bool:
        """Whether this is an integer (a bool is not)."""
        return self.kind in (NumberKind.INT, NumberKind.UINT)

    @cached_property
    def is_float(self) -> bool:
        """Whether this is a real floating point number."""
        return self.kind is NumberKind.FLOAT

    @cached_property
    def bfloat(self) -> bool:
        """Whether this is bfloat16."""
        return self.format == Format.BFLOAT

    @cached_property
    def is_float8(self) -> bool:
        """Whether this is an 8-bit float, which is computed with in float32."""
        return self.kind is NumberKind.FLOAT and self.bits == 8

    @cached_property
    def is_complex(self) -> bool:
        """Whether this is a complex number: two floats of half its bits."""
        return self.kind is NumberKind.COMPLEX

    @cached_property
    def part(self) -> Number:
        """The type of the real and the imaginary part of a complex number; a real number's own type."""
        return Number(NumberKind.FLOAT, self.bits // 2, self.builtin) if self.is_complex else self

    @cached_property
    def signed(self) -> bool:
        """Whether the type has negative values."""
        return self.kind not in (NumberKind.BOOL, NumberKind.UINT)

    @cached_property
    def machine(self) -> Number:
        """The fixed-format number with the format of a builtin number in device code; a bool stays a bool."""
        if not self.builtin or self == BOOL:
            return INT32 if self.mask else self
        if self.is_complex:
            return COMPLEX64
        return FLOAT32 if self.is_float else INT64 if self.bits == 64 else INT32

    @cached_property
    def low(self) -> int:
        """The least value of an integer or bool."""
        return -(1 << (self.bits - 1)) if self.kind is NumberKind.INT else 0

    @cached_property
    def high(self) -> int:
        """The greatest value of an integer or bool."""
        if self.kind is NumberKind.BOOL:
            return 1
        return (1 << (self.bits - 1 if self.kind is NumberKind.INT else self.bits)) - 1


@dataclass(frozen=True)
class NoneType:
    """The type of `None`: no bits inside device code, a null `void*` at an interoperable boundary."""

    def __str__(self) -> str:
        return "none"


class _Elements:
    """A type of many elements, whose hash is computed once."""

    __slots__ = ("_hash",)

    _hash: int
    elements: tuple[Type, ...]

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.__class__, self.elements)))
            return self._hash


@dataclass(frozen=True, slots=True)
class Tuple(_Elements):
    """A heterogeneous tuple."""

    elements: tuple[Type, ...]

    __hash__ = _Elements.__hash__

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True)
class Vector:
    """One to four numbers of one type, called x, y, z, w."""

    dtype: Number
    size: int

    def __str__(self) -> str:
        return f"vector<{self.dtype}, {self.size}>"


@dataclass(frozen=True)
class Field:
    """A member of a struct."""

    name: str
    type: Type
    align: int = 0
    """Its minimum alignment in bytes, or 0 for the alignment of its type."""
    offset: int = -1
    """Its offset in a struct with explicit offsets, and otherwise -1."""

    def __str__(self) -> str:
        name = self.name if re.fullmatch(r"\w+", self.name) else repr(self.name)
        marks = (f" align {self.align}" if self.align else "") + (f" at {self.offset}" if self.offset >= 0 else "")
        return f"{name}: {self.type}{marks}"


@dataclass(frozen=True, slots=True)
class Struct:
    """A class with members, laid out like a standard-layout class in CUDA C++."""

    name: str
    fields: tuple[Field, ...]
    align: int = 0
    """Its minimum alignment in bytes."""
    host: type[Any] | None = field(default=None, repr=False)
    """Its Python class, which has the methods. Two structs are the same type only if their classes are the same."""
    size: int = 0
    """If it is not 0, the layout is explicit: `size`, `align` and the offsets of the fields."""

    def __str__(self) -> str:
        extra = (f" align {self.align}" if self.align else "") + (f" size {self.size}" if self.size else "")
        return f"struct<{', '.join((self.name + extra, *map(str, self.fields)))}>"

    def index(self, name: str) -> int | None:
        """The position of the member `name`, or None."""
        return next((i for i, field in enumerate(self.fields) if field.name == name), None)


@dataclass(frozen=True)
class Subarray:
    """An array of a fixed size within a struct, in C order: an array in memory, and a value with all its elements elsewhere."""

    dtype: Type
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"subarray<{', '.join(map(str, (self.dtype, *self.shape)))}>"

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Array:
    """An array. Its strides are run-time values, and so is its shape in most memory."""

    dtype: Type
    ndim: int
    """The number of axes."""
    layout: Layout = Layout.C
    readonly: bool = False
    space: Space = field(default=Space.GLOBAL)
    align: int = 0
    """The alignment of its elements in bytes if it is less than that of their type, and otherwise 0."""
    small: bool = False
    """Whether it has at most `SMALL` elements and no longer axis, so that lengths, positions and simple sums fit in 32 bits."""
    lengths: tuple[int, ...] = ()
    """The lengths of its axes if all are constants: those of `shared_array` and `local_array`, and of whole parts of them."""

    def __str__(self) -> str:
        flags = ["readonly"] * self.readonly + [self.space.value] * (self.space is not Space.GLOBAL)
        flags += ["small"] * self.small + [f"align{self.align}"] * bool(self.align)
        flags += ["x".join(map(str, self.lengths))] * bool(self.lengths)
        return f"array<{', '.join((str(self.dtype), str(self.ndim), self.layout.value, *flags))}>"


@dataclass(frozen=True, slots=True)
class Ref:
    """The address of one value in memory."""

    space: Space
    pointee: Type
    """The type of the value."""
    readonly: bool = False
    align: int = 0
    """As in `Array`."""

    def __str__(self) -> str:
        flags = ["readonly"] * self.readonly + [f"align{self.align}"] * bool(self.align)
        return f"ref<{', '.join((self.space.value, str(self.pointee), *flags))}>"


@dataclass(frozen=True)
class Pointer:
    """A C++ pointer to values of `dtype` in any memory: `T*`, or `T const*` if it is `readonly`; none is `void`."""

    dtype: Type
    readonly: bool = False

    def __str__(self) -> str:
        return f"pointer<{', '.join((str(self.dtype), *['readonly'] * self.readonly))}>"


@dataclass(frozen=True)
class AtomicCell:
    """A number, or another small value, that threads access atomically. It is not a value itself; a reference to it is."""

    dtype: Type

    def __str__(self) -> str:
        return f"atomic<{self.dtype}>"


@dataclass(frozen=True)
class Range:
    """A `range` object whose numbers have type `item`."""

    item: Number

    @property
    def counts_in(self) -> Number:
        """The type of its start, stop and step."""
        return self.item

    def __str__(self) -> str:
        return f"range<{self.item}>"


@dataclass(frozen=True)
class RangeIterator:
    """The rest of a `range` in a `for` loop; `counter` is the type that it counts in, if it is not `item`."""

    item: Number
    counter: Number | None = None

    @property
    def counts_in(self) -> Number:
        """The type of its start, stop and step."""
        return self.counter or self.item

    def __str__(self) -> str:
        return f"range_iterator<{self.item}{f', {self.counter}' if self.counter else ''}>"


@dataclass(frozen=True)
class Static:
    """The type of objects that exist only at compile time: functions, modules, types, strings. It has no representation."""

    def __str__(self) -> str:
        return "static"


@dataclass(frozen=True, slots=True)
class Bundle(_Elements):
    """A compile-time object with run-time parts, such as a nested function with the values that it captured.

    The `value` of its `Known` is its meaning: which function or iterator it is.
    """

    elements: tuple[Type, ...]

    __hash__ = _Elements.__hash__

    def __str__(self) -> str:
        return f"bundle<{', '.join(map(str, self.elements))}>"


Type = (
    Number
    | NoneType
    | Tuple
    | Vector
    | Struct
    | Subarray
    | Array
    | Ref
    | Pointer
    | Range
    | RangeIterator
    | Static
    | Bundle
    | AtomicCell
)

BOOL = Number(NumberKind.BOOL, 8, builtin=True)
INT = Number(NumberKind.INT, 32, builtin=True)
INDEX = Number(NumberKind.INT, 64, builtin=True)

SMALL = (1 << 30) - (1 << 16)
"""The maximum size of a small array (see `Array`): the sum of two lengths and some ten thousand more fits in 32 bits."""
FLOAT = Number(NumberKind.FLOAT, 32, builtin=True)
COMPLEX = Number(NumberKind.COMPLEX, 64, builtin=True)
INT8, INT16, INT32, INT64 = (Number(NumberKind.INT, bits) for bits in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (Number(NumberKind.UINT, bits) for bits in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (Number(NumberKind.FLOAT, bits) for bits in (16, 32, 64))
COMPLEX64, COMPLEX128 = (Number(NumberKind.COMPLEX, bits) for bits in (64, 128))
BFLOAT16 = Number(NumberKind.FLOAT, 16, format=Format.BFLOAT)
FLOAT8E4M3 = Number(NumberKind.FLOAT, 8, format=Format.E4M3)
FLOAT8E5M2 = Number(NumberKind.FLOAT, 8, format=Format.E5M2)
MASK = Number(NumberKind.INT, 32, mask=True)
NONE = NoneType()
STATIC = Static()

BUILTIN_NUMBERS = {"bool": BOOL, "int": INT, "index": INDEX, "float": FLOAT, "complex": COMPLEX}
FIXED_NUMBERS = {
    "int8": INT8, "int16": INT16, "int32": INT32, "int64": INT64,
    "uint8": UINT8, "uint16": UINT16, "uint32": UINT32, "uint64": UINT64,
    "float16": FLOAT16, "float32": FLOAT32, "float64": FLOAT64, "bfloat16": BFLOAT16,
    "float8e4m3": FLOAT8E4M3, "float8e5m2": FLOAT8E5M2,
    "complex64": COMPLEX64, "complex128": COMPLEX128,
}  # fmt: skip
NUMBERS = BUILTIN_NUMBERS | FIXED_NUMBERS | {"warp_mask": MASK}
_NAMES = {number: name for name, number in NUMBERS.items()}


def is_index(type: Type) -> TypeGuard[Number]:
    """Whether a value of a type can be an index: an integer or a bool."""
    return isinstance(type, Number) and (type.is_integer or type == BOOL)
