"""The names of types in CUDA C++, and `static_assert`s that C++ lays them out in the same way.

cpp_name(parse("float32"), …)                float
cpp_name(parse("vector<float64, 4>"), …)     double4_16a
cpp_name(parse("pointer<float32>"), …)       float*
cpp_name(parse("array<int32, 2, C>"), …)     cuda::interoperable_array_descriptor<cuda::std::int32_t, 2>
layout_checks("point", point)                static_assert(sizeof(point) == 8, "sizeof point"); …
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuda_device.extend import abi, layout, model

DESCRIPTOR = "interoperable_array_descriptor"

NUMBERS = {
    "bool": "bool",
    "int8": "cuda::std::int8_t", "int16": "cuda::std::int16_t", "int32": "cuda::std::int32_t", "int64": "cuda::std::int64_t",
    "uint8": "cuda::std::uint8_t", "uint16": "cuda::std::uint16_t", "uint32": "cuda::std::uint32_t",
    "uint64": "cuda::std::uint64_t",
    "float16": "__half", "float32": "float", "float64": "double", "bfloat16": "__nv_bfloat16",
    "float8e4m3": "__nv_fp8_e4m3", "float8e5m2": "__nv_fp8_e5m2",
    "complex64": "cuda::std::complex<float>", "complex128": "cuda::std::complex<double>",
}  # fmt: skip
# The vectors of 1, 2, 3 and 4 elements. Our header defines those that CUDA does not have, in its own namespace.
VECTORS = {
    "int8": ("char1", "char2", "char3", "char4"),
    "int16": ("short1", "short2", "short3", "short4"),
    "int32": ("int1", "int2", "int3", "int4"),
    "int64": ("longlong1", "longlong2", "longlong3", "longlong4_16a"),
    "uint8": ("uchar1", "uchar2", "uchar3", "uchar4"),
    "uint16": ("ushort1", "ushort2", "ushort3", "ushort4"),
    "uint32": ("uint1", "uint2", "uint3", "uint4"),
    "uint64": ("ulonglong1", "ulonglong2", "ulonglong3", "ulonglong4_16a"),
    "float16": ("__half", "__half2", "cuda_device::float16x3", "cuda_device::float16x4"),
    "bfloat16": ("__nv_bfloat16", "__nv_bfloat162", "cuda_device::bfloat16x3", "cuda_device::bfloat16x4"),
    "float32": ("float1", "float2", "float3", "float4"),
    "float64": ("double1", "double2", "double3", "double4_16a"),
    "float8e4m3": ("__nv_fp8_e4m3", "__nv_fp8x2_e4m3", "cuda_device::float8e4m3x3", "__nv_fp8x4_e4m3"),
    "float8e5m2": ("__nv_fp8_e5m2", "__nv_fp8x2_e5m2", "cuda_device::float8e5m2x3", "__nv_fp8x4_e5m2"),
}
# The header to include for names that contain a text.
HEADERS = {
    "cuda::std::int": "cuda/std/cstdint",
    "cuda::std::uint": "cuda/std/cstdint",
    "cuda::std::complex": "cuda/std/complex",
    "cuda::interoperable": "cuda_device/interop.h",
    "cuda_device::": "cuda_device/vectors.h",
    "4_16a": "cuda_device/vectors_of_32_bytes.h",
    "__half": "cuda_fp16.h",
    "__nv_bfloat16": "cuda_bf16.h",
    "__nv_fp8": "cuda_fp8.h",
}


def headers_for(text: str) -> list[str]:
    """The headers that declare the names in a C++ text."""
    return list(dict.fromkeys(header for part, header in HEADERS.items() if part in text))


def cpp_name(type: model.Type, name_of: Callable[[model.Struct | model.Tuple], str]) -> str:
    """The C++ type of a value of `type` at the boundary; `name_of` names structs and tuples.

    Raises `TypeError` for what has no counterpart.
    """
    match type:
        case model.Number():
            return NUMBERS[str(abi.representation(type))]
        case model.AtomicCell(dtype):
            return cpp_name(dtype, name_of)
        case model.NoneType():
            return "void*"
        case model.Vector(dtype, size):
            return VECTORS[str(abi.representation(dtype))][size - 1]
        case model.Struct() | model.Tuple():
            return name_of(type)
        case model.Pointer(dtype, readonly):
            pointee = "void" if isinstance(dtype, model.NoneType) else cpp_name(dtype, name_of)
            return f"{pointee} const*" if readonly else f"{pointee}*"
        case model.Array(dtype, ndim, _, readonly):
            element = cpp_name(dtype, name_of) + (" const" if readonly else "")
            return f"cuda::{DESCRIPTOR}<{element}, {ndim}>"
    raise TypeError(f"{type} has no counterpart in CUDA C++")


# NVRTC's `offsetof` is not a constant expression, and until at least CUDA 13.1 it has no `__builtin_offsetof`.
OFFSETOF = """\
#ifndef cuda_device_offsetof
#  ifdef __CUDACC_RTC__
#    define cuda_device_offsetof(type, member) __INTADDR__(&((type*)0)->member)
#  else
#    define cuda_device_offsetof(type, member) __builtin_offsetof(type, member)
#  endif
#endif
"""


def layout_checks(name: str, placement: layout.Placement, members: Sequence[str]) -> list[str]:
    """`static_assert`s of the size, alignment and offsets of a structure; the text must include `OFFSETOF`."""
    return [
        f'static_assert(sizeof({name}) == {placement.size}, "sizeof {name}");',
        f'static_assert(alignof({name}) == {placement.align}, "alignof {name}");',
        *(
            f'static_assert(cuda_device_offsetof({name}, {member}) == {offset}, "{name}.{member}");'
            for member, offset in zip(members, placement.offsets, strict=True)
        ),
    ]
