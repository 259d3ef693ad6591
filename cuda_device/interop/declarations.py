"""C++ texts for what Python defines: structs and tuples with checks of their layout, prototypes of interoperable functions.

cpp_declaration(point)                     struct point { float x; float y; }; static_assert(sizeof(point) == 8, …); …
cpp_header(point, (norm, point))           a whole header: includes, point, extern "C" __device__ float norm(point p);
get_include()                              the folder of cuda_device/interop.h, for -I
"""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cuda_device.device.functions import CPP_WORDS, Func, Kernel
from cuda_device.errors import CompileError
from cuda_device.runtime.launch.compiling import prototype
from cuda_device.types.abi import DESCRIPTOR, exchanged, representation
from cuda_device.types.host import ANONYMOUS
from cuda_device.types.layout import Placement, align_of, machine, placement, size_of
from cuda_device.types.model import Array, AtomicCell, NoneType, Number, Pointer, Struct, Subarray, Tuple, Type, Vector
from cuda_device.types.struct_classes import type_of_hint

# What CUDA C++ calls our types: a name for each number and vector, by what our types print as.
#
# cpp_name(parse("float32"))                float
# cpp_name(parse("vector<float64, 4>"))     double4_16a
# cpp_name(parse("pointer<float32>"))       float*
# cpp_name(parse("array<int32, 2, C>"))     cuda::interoperable_array_descriptor<cuda::std::int32_t, 2>


NUMBERS = {
    "bool": "bool",
    "int8": "cuda::std::int8_t", "int16": "cuda::std::int16_t", "int32": "cuda::std::int32_t", "int64": "cuda::std::int64_t",
    "uint8": "cuda::std::uint8_t", "uint16": "cuda::std::uint16_t", "uint32": "cuda::std::uint32_t",
    "uint64": "cuda::std::uint64_t",
    "float16": "__half", "float32": "float", "float64": "double", "bfloat16": "__nv_bfloat16",
    "float8e4m3": "__nv_fp8_e4m3", "float8e5m2": "__nv_fp8_e5m2",
    "complex64": "cuda::std::complex<float>", "complex128": "cuda::std::complex<double>",
}  # fmt: skip
# A family's vectors of 1, 2, 3 and 4: those that C++ has not are in our header, in its namespace.
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
# What has to be included for names that begin so, or contain it.
HEADERS = {
    "cuda::std::int": "cuda/std/cstdint",
    "cuda::std::uint": "cuda/std/cstdint",
    "cuda::std::complex": "cuda/std/complex",
    "cuda::interoperable": "cuda_device/interop.h",
    "cuda_device::": "cuda_device/vectors.h",
    "__half": "cuda_fp16.h",
    "__nv_bfloat16": "cuda_bf16.h",
    "__nv_fp8": "cuda_fp8.h",
}


def headers_for(text: str) -> list[str]:
    """The headers that declare the names in a C++ text."""
    return list(dict.fromkeys(header for part, header in HEADERS.items() if part in text))


def cpp_name(type: Type, name_of: Callable[[Struct | Tuple], str]) -> str:
    """The C++ type of a value of `type` at the boundary; `name_of` names structs and tuples.

    Raises `TypeError` for what has no counterpart.
    """
    match type:
        case Number():
            return NUMBERS[str(machine(type))]
        case AtomicCell(dtype):
            return cpp_name(dtype, name_of)
        case NoneType():
            return "void*"
        case Vector(dtype, size):
            return VECTORS[str(machine(dtype))][size - 1]
        case Struct() | Tuple():
            return name_of(type)
        case Pointer(dtype, readonly):
            to = "void" if isinstance(dtype, NoneType) else cpp_name(dtype, name_of)
            return f"{to} const*" if readonly else f"{to}*"
        case Array(dtype, ndim, _, readonly):
            element = cpp_name(dtype, name_of) + (" const" if readonly else "")
            return f"cuda::{DESCRIPTOR}<{element}, {ndim}>"
    raise TypeError(f"{type} has no counterpart in CUDA C++")


# C++ texts for what Python defines: structs and tuples with checks of their layout, prototypes of interoperable functions.


# NVRTC's `offsetof` is no constant expression, and before CUDA 13.1 at the least it has no `__builtin_offsetof`.
_OFFSETOF = """\
#ifndef cuda_device_offsetof
#  ifdef __CUDACC_RTC__
#    define cuda_device_offsetof(type, member) __INTADDR__(&((type*)0)->member)
#  else
#    define cuda_device_offsetof(type, member) __builtin_offsetof(type, member)
#  endif
#endif
"""


def get_include() -> str:
    """Returns the folder that a C++ compiler needs (`-I`) for `#include <cuda_device/interop.h>`."""
    return str(Path(__file__).parent / "include")


def cpp_declaration(T: Any) -> str:  # noqa: N803
    """Returns the C++ definition of a struct or a `tuple[…]`, of everything it is made of, and checks of their layout.

    Members have their Python names; those of tuples are called `_0`, `_1` and so on. The C++ compiler checks size, alignment
    and offsets with `static_assert`. Raises `TypeError` for a type that has no counterpart in C++, and `ValueError` for a
    name that C++ cannot have.
    """
    writer = _DeclarationWriter()
    type = type_of_hint(T)
    if not isinstance(type, (Struct, Tuple)):
        raise TypeError(f"{T!r} is neither a struct nor a tuple: C++ has it as {writer.name(type)}")
    writer.name(type)
    return writer.definitions()


def cpp_header(*items: Any, launchers: bool = False) -> str:
    """Returns a C++ header that defines types and declares interoperable functions.

    Each item is a struct, a `tuple[…]`, or a tuple of an interoperable kernel or function and the types of its arguments, as
    for `compile`: `cpp_header(point, (norm, point), (scale, ArrayType(float32, 1), float))`. Include it once in a translation
    unit. With `launchers=True`, host code gets a function `launch_scale(kernel, grid, block, shared, stream, …)` for each
    kernel, which calls `cuLaunchKernel` of the driver API. Errors are those of `cpp_declaration` and `compile`.
    """
    writer = _DeclarationWriter()
    lines: dict[str, str] = {}
    for item in items:
        if not _is_function(item):
            writer.name(type_of_hint(item))
            continue
        name, line = item[0].underlying.__name__, _declare(writer, launchers, *item)
        if lines.setdefault(name, line) != line:
            raise ValueError(f"{name} is declared twice, and its symbol is its name: give each function one of its own")
    text = "\n".join([writer.definitions(), *lines.values()]).lstrip("\n")
    includes = "".join(f"#include <{header}>\n" for header in headers_for(text))
    if _HOST in text:
        includes += f"{_HOST}\n#include <cuda.h>\n#include <vector_types.h>\n#endif\n"
    return f"#pragma once\n{includes}\n{text}\n"


def _is_function(item: Any) -> bool:
    return isinstance(item, tuple) and bool(item) and isinstance(item[0], (Func, Kernel))


_HOST = "#ifndef __CUDACC_RTC__"
"""Begins what NVRTC does not see."""


def _declare(writer: _DeclarationWriter, launchers: bool, function: Func | Kernel, *arguments: Any) -> str:
    """The prototype of an interoperable function; `launchers` is for a host that has no `__global__` and `__device__`."""
    if not function.options.interop:
        raise CompileError(f"{function!r} is not interoperable", help="decorate it with interop=True")
    found = prototype(function, arguments)
    code = function.underlying.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    parameters = ", ".join(
        f"{writer.name(type)} {_plain(name)}" for name, type in zip(names, found.arguments, strict=True)
    )
    symbol = function.underlying.__name__
    result = "void" if isinstance(found.result, NoneType) else writer.name(found.result)
    space = "__global__" if isinstance(function, Kernel) else "__device__"
    line = f'extern "C" {space} {result} {symbol}({parameters});'
    if not launchers:
        return line
    line = f"#ifdef __CUDACC__\n{line}\n#endif"
    if not isinstance(function, Kernel):
        return line
    addresses = ", ".join(f"&{_plain(name)}" for name in names) or "nullptr"
    more = f",\n                            {parameters}" if parameters else ""
    return f"""{line}
{_HOST}
inline CUresult launch_{symbol}(CUkernel cuda_device_kernel, dim3 grid, dim3 block, unsigned shared, CUstream stream{more}) {{
  void* cuda_device_parameters[] = {{{addresses}}};
  return cuLaunchKernel((CUfunction)cuda_device_kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream,
                        cuda_device_parameters, nullptr);
}}
#endif"""


def _plain(name: str) -> str:
    """A parameter's name; one that C++ cannot have gets a line behind it."""
    return f"{name}_" if name in CPP_WORDS else name


class _DeclarationWriter:
    """Names structs and tuples, and keeps their definitions in an order in which each has all that it needs."""

    def __init__(self) -> None:
        self.names: dict[Type, str] = {}
        self.texts: list[str] = []

    def name(self, type: Type) -> str:
        """The name of any type in C++; structs and tuples in it are defined."""
        return cpp_name(type, self.define)

    def definitions(self) -> str:
        """Everything that was defined."""
        text = "\n".join(self.texts)
        return _OFFSETOF + text if "cuda_device_offsetof" in text else text

    def define(self, type: Struct | Tuple) -> str:
        """Defines a struct or tuple, once; its name."""
        key = representation(exchanged(type))  # however and wherever arrays lie
        if key in self.names:
            return self.names[key]
        if isinstance(type, Struct):
            _check_name(type.name)
            name = type.name if type.name != ANONYMOUS else self.numbered(ANONYMOUS)
            if name in self.names.values():
                raise ValueError(f"there are two different structs {name!r}")
            members = [(_check_name(field.name), field.type, field.align) for field in type.fields]
        else:
            members = [(f"_{i}", element, 0) for i, element in enumerate(type.elements)]
            name = self.numbered("tuple")
        # Named before its members are: the names of theirs are others.
        self.names[key] = name
        lines = [f"  {self.member(*member)};\n" for member in members]
        packed = isinstance(type, Struct) and bool(type.size)
        place = placement(key)
        if packed:
            align = f"__attribute__((packed, aligned({place.align}))) "
            lines = list(_with_padding(lines, [size_of(each) for _, each, _ in members], place))
        else:
            # C++ refuses an alignment that is less than a type's own.
            natural = max((max(align, _alignment(each)) for _, each, align in members), default=1)
            align = f"alignas({place.align}) " if place.align > natural else ""
        offsets = [
            f'static_assert(cuda_device_offsetof({name}, {member}) == {offset}, "{name}.{member}");'
            for (member, _, _), offset in zip(members, place.offsets, strict=True)
        ]
        checks = [
            f'static_assert(sizeof({name}) == {place.size}, "sizeof {name}");',
            f'static_assert(alignof({name}) == {place.align}, "alignof {name}");',
            *offsets,
        ]
        self.texts.append(f"struct {align}{name} {{\n{''.join(lines)}}};\n" + "\n".join(checks) + "\n")
        return name

    def numbered(self, what: str) -> str:
        """A name that nothing else has."""
        names = (f"{what}_{i}" for i in itertools.count())
        return next(name for name in names if name not in self.names.values())

    def member(self, name: str, type: Type, align: int) -> str:
        """The declaration of a member, aligned as it has to be."""
        wanted = f"alignas({align}) " if align > _alignment(type) else ""
        if isinstance(type, Subarray):
            return f"{wanted}{self.name(type.dtype)} {name}{''.join(f'[{length}]' for length in type.shape)}"
        return f"{wanted}{self.name(type)} {name}"


def _alignment(type: Type) -> int:
    return align_of(type if isinstance(type, Subarray) else representation(type))


def _with_padding(lines: Sequence[str], sizes: Sequence[int], place: Placement) -> Iterator[str]:
    """The members of a struct whose offsets are its own."""
    end = 0
    for line, size, offset in zip((*lines, ""), (*sizes, 0), (*place.offsets, place.size), strict=True):
        if offset > end:
            yield f"  unsigned char padding_{end}[{offset - end}];\n"
        yield line
        end = offset + size


def _check_name(name: str) -> str:
    if not name.isascii() or not name.isidentifier() or name in CPP_WORDS or keyword.iskeyword(name):
        raise ValueError(f"{name!r} cannot be a name in C++: choose another one")
    return name


__all__ = ["cpp_declaration", "cpp_header", "get_include"]
