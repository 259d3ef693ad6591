"""The binary interface to CUDA C++: how values are represented and passed ('Interoperable Functions' in the specification).

A parameter or result of an interoperable function has the bytes of a C++ type (`representation`), and is passed as nvcc passes
that type (`passing`):

    float32                    float                      a value
    bool, int8                 bool, signed char          a value; functions widen it to 32 bits
    float32x4, structs         float4, structs            a copy of the bytes
    float16                    __half, which is a class   a copy of the bytes
    array<float32, 2>          a descriptor               a copy of the bytes
    None                       void*, null                a value
    pointer(float32)           float*                     a value
    float16x2                  __half2                    functions: the address of the caller's copy

Kernels take everything but values as copies. The tests compare this table with NVRTC.
"""

from __future__ import annotations

from typing import Literal

from cuda_device.lazy_dataclasses import replace
from cuda_device.types import model
from cuda_device.types.layout import align_of, leaves, map_arrays, parts, rebuilt, shortfall, size_of

DESCRIPTOR = "interoperable_array_descriptor"
_HIDDEN = (model.Vector(model.FLOAT16, 2), model.Vector(model.BFLOAT16, 2))
"""C++ classes with a non-trivial copy constructor: `__half2`, `__nv_bfloat162`."""

CPP_WORDS = frozenset((
    "alignas", "alignof", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "case", "catch", "char", "char16_t",
    "char32_t", "char8_t", "co_await", "co_return", "co_yield", "compl", "concept", "const", "const_cast", "consteval",
    "constexpr", "constinit", "decltype", "default", "delete", "do", "double", "dynamic_cast", "enum", "explicit", "export",
    "extern", "false", "float", "friend", "goto", "inline", "int", "long", "mutable", "namespace", "new", "noexcept",
    "not_eq", "nullptr", "operator", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires",
    "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
    "thread_local", "throw", "true", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void",
    "volatile", "wchar_t", "xor", "xor_eq",
))  # fmt: skip
"""The keywords of C++ that are not keywords of Python."""

Passing = Literal["value", "copy", "address"]
"""How a value is passed to or from a function."""


def exchanged(type: model.Type, space: model.Space = model.Space.GENERIC) -> model.Type:
    """The type that a foreign caller may pass: arrays have any strides, and are in `space`."""

    def strided(array: model.Array) -> model.Array:
        least = shortfall(array.dtype, align_of(array.dtype))
        return model.Array(array.dtype, array.ndim, model.Layout.STRIDED, array.readonly, space, least)

    return map_arrays(type, strided)


def representation(type: model.Type) -> model.Type:
    """The type whose layout `type` has at the boundary. Raises `TypeError` for compile-time types."""
    match type:
        case model.Number():
            return type.machine
        case model.NoneType():
            return model.UINT64
        case model.Vector() | model.AtomicCell():
            return type
        case model.Pointer():
            return leaves(type)[0]
        case model.Tuple(elements):
            return rebuilt(type, map(representation, elements))
        case model.Struct():
            if type.size and _overlaps(type):
                raise TypeError(f"the members of {type.name} overlap, or are in another order than in memory")
            return replace(rebuilt(type, map(_member, parts(type))), host=None)
        case model.Array(_, ndim):
            lengths = model.Tuple((model.INT64,) * ndim)
            data = model.Field("data", leaves(type)[0])
            return model.Struct(
                DESCRIPTOR, (data, model.Field("shape", lengths), model.Field("strides", lengths)) if ndim else (data,)
            )
    raise TypeError(f"{type} has no counterpart in CUDA C++")


def _member(type: model.Type) -> model.Type:
    """The representation of a member, which can be an array that is a value."""
    return (
        model.Subarray(representation(type.dtype), type.shape)
        if isinstance(type, model.Subarray)
        else representation(type)
    )


def _overlaps(type: model.Struct) -> bool:
    ends = [field.offset + size_of(field.type) for field in type.fields]
    return any(end > after.offset for end, after in zip(ends, type.fields[1:], strict=False))


def passing(type: model.Type, kernel: bool) -> Passing:
    """How a parameter of `type` is passed to a kernel, or to or from a function."""
    if _is_scalar(representation(type)):
        return "value"
    return "address" if not kernel and _is_hidden(type) else "copy"


def _is_scalar(type: model.Type) -> bool:
    """Whether a representation is a scalar in C++, where small floats and complex numbers are classes."""
    if not isinstance(type, model.Number):
        return isinstance(type, model.Ref)
    return type == model.BOOL or type.is_integer or (type.is_float and type.bits >= 32)


def _is_hidden(type: model.Type) -> bool:
    inner = (type.dtype,) if isinstance(type, model.Subarray) else parts(type)
    return type in _HIDDEN or any(map(_is_hidden, inner))
