"""What values are at the boundary to CUDA C++: 'Interoperable Functions' of the specification.

A parameter or result of an interoperable function has the bytes of a C++ type (`representation`), and travels as nvcc passes
that type (`passing`):

    float32                    float                      a value
    bool, int8                 bool, signed char          a value; functions widen it to 32 bits
    float32x4, structs         float4, structs            a copy of the bytes
    float16                    __half, which is a class   a copy of the bytes
    array<float32, 2>          a descriptor               a copy of the bytes
    None                       void*, null                a value
    float16x2                  __half2                    functions: the address of the caller's copy

Kernels get all but values as copies. The tests hold this against what NVRTC does.
"""

from __future__ import annotations

import ctypes
import enum
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types.layout import align_of, float_bits, leaves, machine, map_arrays, parts, shortfall, size_of
from cuda_device.types.model import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    INT64,
    UINT64,
    Array,
    AtomicCell,
    Field,
    Format,
    Layout,
    NoneType,
    Number,
    NumberKind,
    Ref,
    Space,
    Struct,
    Subarray,
    Tuple,
    Type,
    Vector,
)

DESCRIPTOR = "interoperable_array_descriptor"
_HIDDEN = (Vector(FLOAT16, 2), Vector(BFLOAT16, 2))
"""What C++ has as classes that a copy constructor of their own copies: `__half2`, `__nv_bfloat162`."""


class Passing(enum.Enum):
    """How a value crosses the boundary."""

    VALUE = "value"
    COPY = "copy"
    ADDRESS = "address"


def exchanged(type: Type, space: Space = Space.GENERIC) -> Type:
    """A type as the other side may give it: arrays have any strides, and lie in `space`."""

    def strided(array: Array) -> Array:
        least = shortfall(array.dtype, align_of(array.dtype))
        return Array(array.dtype, array.ndim, Layout.STRIDED, array.readonly, space, least)

    return map_arrays(type, strided)


def representation(type: Type) -> Type:
    """The type whose layout `type` has at the boundary. Raises `TypeError` for what only exists while compiling."""
    match type:
        case Number():
            return machine(type)
        case NoneType():
            return UINT64
        case Vector() | AtomicCell():
            return type
        case Tuple(elements):
            return Tuple(tuple(map(representation, elements)))
        case Struct(_, fields):
            if type.size and _overlaps(type):
                raise TypeError(f"the members of {type.name} overlap, or are in another order than in memory")
            parts = tuple(replace(field, type=_member(field.type)) for field in fields)
            return replace(type, fields=parts, host=None)
        case Array(_, ndim):
            lengths = Tuple((INT64,) * ndim)
            data = Field("data", leaves(type)[0])
            return Struct(DESCRIPTOR, (data, Field("shape", lengths), Field("strides", lengths)) if ndim else (data,))
    raise TypeError(f"{type} has no counterpart in CUDA C++")


def _member(type: Type) -> Type:
    """The representation of a member: only there C++ has arrays that are values."""
    return Subarray(representation(type.dtype), type.shape) if isinstance(type, Subarray) else representation(type)


def _overlaps(type: Struct) -> bool:
    ends = [field.offset + size_of(field.type) for field in type.fields]
    return any(end > after.offset for end, after in zip(ends, type.fields[1:], strict=False))


def passing(type: Type, kernel: bool) -> Passing:
    """How a parameter of `type` travels to a kernel, or to or from a function."""
    if _is_scalar(representation(type)):
        return Passing.VALUE
    return Passing.ADDRESS if not kernel and _is_hidden(type) else Passing.COPY


def _is_scalar(type: Type) -> bool:
    """Whether C++ has a scalar for a representation: small floats and complex numbers are classes."""
    if not isinstance(type, Number):
        return isinstance(type, Ref)
    return type == BOOL or type.is_integer or (type.is_float and type.bits >= 32)


def _is_hidden(type: Type) -> bool:
    inner = (type.dtype,) if isinstance(type, Subarray) else parts(type)
    return type in _HIDDEN or any(map(_is_hidden, inner))


# How the leaves of a kernel's arguments lie in memory: like the members of a C structure.


Leaf = int | float | bool
"""A number that travels to a kernel."""

_CODES = {NumberKind.BOOL: "?", NumberKind.INT: "bhiq", NumberKind.UINT: "BHIQ", NumberKind.FLOAT: " efd"}


def code_of(leaf: Type) -> str:
    """The letter that `struct` has for a leaf."""
    if isinstance(leaf, Ref):
        return "Q"
    assert isinstance(leaf, Number)
    if leaf.format is not Format.IEEE:
        return {8: "B", 16: "H"}[leaf.bits]
    codes = _CODES[leaf.kind]
    return codes if leaf.kind is NumberKind.BOOL else codes[leaf.bits.bit_length() - 4]


@dataclass(frozen=True, slots=True)
class Packing:
    """How the leaves of a signature lie in a C structure."""

    structure: struct.Struct
    offsets: tuple[int, ...]
    """Where each parameter starts."""
    places: tuple[int, ...]
    """Where each leaf is."""
    codes: tuple[str, ...]
    """What each leaf is, as `struct` says it."""
    singles: frozenset[int]
    """Which leaves are float32."""
    odd: Mapping[int, Number]
    """Which leaves are floats that Python cannot pack: their bits are packed."""

    @property
    def buffer(self) -> type[ctypes.Array[ctypes.c_char]]:
        """The type of a buffer for them; ctypes keeps one for each size."""
        return ctypes.c_char * (self.structure.size or 1)

    def pack(self, values: Sequence[Leaf]) -> ctypes.Array[ctypes.c_char]:
        """A buffer with the values; a float that is too large for float32 is infinite there."""
        buffer = self.buffer()
        if self.odd:
            values = [float_bits(self.odd[i], v) if i in self.odd else v for i, v in enumerate(values)]
        try:
            self.structure.pack_into(buffer, 0, *values)
        except OverflowError:
            rounded = (ctypes.c_float(v).value if i in self.singles else v for i, v in enumerate(values))
            self.structure.pack_into(buffer, 0, *rounded)
        return buffer


@lru_cache(maxsize=4096)
def packing(types: tuple[Type, ...]) -> Packing:
    """The packing of arguments of these types."""
    found = [leaf for type in types for leaf in leaves(type)]
    codes = [code_of(leaf) for leaf in found]
    offsets = []
    for i, code in enumerate(codes):
        offsets.append(struct.calcsize("@" + "".join(codes[: i + 1])) - struct.calcsize(code))
    places = tuple(offsets)
    return Packing(struct.Struct("@" + "".join(codes)), places, places, tuple(codes), *marks(found))


def marks(found: Sequence[Type]) -> tuple[frozenset[int], dict[int, Number]]:
    """Which leaves are float32, and which are packed as the bits of what format."""
    singles = frozenset(i for i, leaf in enumerate(found) if code_of(leaf) == "f")
    odd = {i: n for i, n in enumerate(found) if isinstance(n, Number) and n.format is not Format.IEEE}
    return singles, odd
