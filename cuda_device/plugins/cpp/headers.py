"""What C++ programs get: definitions of structs, prototypes and headers.

cpp_declaration(point)                     struct point { float x; float y; }; static_assert(sizeof(point) == 8, …); …
cpp_header(point, (norm, point))           a whole header: includes, point, extern "C" __device__ float norm(point p);
get_include()                              the folder of cuda_device/interop.h, for -I
"""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cuda_device import CompileError, Func, Kernel
from cuda_device.extend import abi, compile_job, job_of, layout, model, type_of_hint
from cuda_device.plugins.cpp.type_names import OFFSETOF, cpp_name, headers_for, layout_checks

_ANONYMOUS = "anonymous"
"""The name of the struct of a structured dtype."""


def get_include() -> str:
    """Returns the folder to pass to a C++ compiler with `-I` for `#include <cuda_device/interop.h>`."""
    return str(Path(__file__).parent / "include")


def cpp_declaration(T: Any) -> str:  # noqa: N803
    """Returns the C++ definitions of a struct or a `tuple[…]` and of all types in it, with checks of their layout.

    Members have their Python names; those of tuples are named `_0`, `_1` and so on. The C++ compiler checks size, alignment and
    offsets with `static_assert`. Raises `TypeError` for a type that has no counterpart in C++, and `ValueError` for a name that
    C++ cannot have.
    """
    writer = _DeclarationWriter()
    type = type_of_hint(T)
    if not isinstance(type, (model.Struct, model.Tuple)):
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
            raise ValueError(f"{name} is declared twice: give each function its own name, which is its symbol")
    text = "\n".join([writer.definitions(), *lines.values()]).lstrip("\n")
    includes = "".join(f"#include <{header}>\n" for header in headers_for(text))
    if _HOST in text:
        includes += f"{_HOST}\n#include <cuda.h>\n#include <vector_types.h>\n#endif\n"
    return f"#pragma once\n{includes}\n{text}\n"


def _is_function(item: Any) -> bool:
    return isinstance(item, tuple) and bool(item) and isinstance(item[0], (Func, Kernel))


_HOST = "#ifndef __CUDACC_RTC__"
"""Begins code that NVRTC skips."""


def _declare(writer: _DeclarationWriter, launchers: bool, function: Func | Kernel, *arguments: Any) -> str:
    """The prototype of an interoperable function; `launchers` adds a launcher, for host compilers."""
    if not function.options.interop:
        raise CompileError(f"{function!r} is not interoperable", help="decorate it with interop=True")
    prototype = compile_job(job_of(function, arguments), "typed")["typed"].main.prototype
    code = function.underlying.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    parameters = ", ".join(
        f"{writer.name(type)} {_plain(name)}" for name, type in zip(names, prototype.arguments, strict=True)
    )
    symbol = function.underlying.__name__
    result = "void" if isinstance(prototype.result, model.NoneType) else writer.name(prototype.result)
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
    """A valid C++ name for a parameter: reserved words get a trailing underscore."""
    return f"{name}_" if name in abi.CPP_WORDS else name


class _DeclarationWriter:
    """Names structs and tuples, and collects their definitions so that each follows those that it needs."""

    def __init__(self) -> None:
        self.names: dict[model.Type, str] = {}
        self.texts: list[str] = []

    def name(self, type: model.Type) -> str:
        """The C++ name of a type; defines the structs and tuples in it."""
        return cpp_name(type, self.define)

    def definitions(self) -> str:
        """The text of all definitions."""
        text = "\n".join(self.texts)
        return OFFSETOF + text if "cuda_device_offsetof" in text else text

    def define(self, type: model.Struct | model.Tuple) -> str:
        """Defines a struct or tuple, unless it is defined already, and returns its name."""
        key = abi.representation(abi.exchanged(type))  # independent of the layout and space of arrays
        if key in self.names:
            return self.names[key]
        if isinstance(type, model.Struct):
            _check_name(type.name)
            name = type.name if type.name != _ANONYMOUS else self.numbered(_ANONYMOUS)
            if name in self.names.values():
                raise ValueError(f"there are two different structs {name!r}")
            members = [(_check_name(field.name), field.type, field.align) for field in type.fields]
        else:
            members = [(f"_{i}", element, 0) for i, element in enumerate(type.elements)]
            name = self.numbered("tuple")
        # It gets its name before its members do, so that theirs are different.
        self.names[key] = name
        lines = [f"  {self.member(*member)};\n" for member in members]
        packed = isinstance(type, model.Struct) and bool(type.size)
        placement = layout.placement(key)
        if packed:
            align = f"__attribute__((packed, aligned({placement.align}))) "
            sizes = [layout.size_of(member_type) for _, member_type, _ in members]
            lines = list(_with_padding(lines, sizes, placement))
        else:
            # C++ rejects an alignment that is less than that of the members.
            natural = max((max(align, _alignment(member_type)) for _, member_type, align in members), default=1)
            align = f"alignas({placement.align}) " if placement.align > natural else ""
        checks = layout_checks(name, placement, [member for member, _, _ in members])
        self.texts.append(f"struct {align}{name} {{\n{''.join(lines)}}};\n" + "\n".join(checks) + "\n")
        return name

    def numbered(self, stem: str) -> str:
        """An unused name."""
        names = (f"{stem}_{i}" for i in itertools.count())
        return next(name for name in names if name not in self.names.values())

    def member(self, name: str, type: model.Type, align: int) -> str:
        """The declaration of a member, with its alignment."""
        alignment = f"alignas({align}) " if align > _alignment(type) else ""
        if isinstance(type, model.Subarray):
            return f"{alignment}{self.name(type.dtype)} {name}{''.join(f'[{length}]' for length in type.shape)}"
        return f"{alignment}{self.name(type)} {name}"


def _alignment(type: model.Type) -> int:
    return layout.align_of(type if isinstance(type, model.Subarray) else abi.representation(type))


def _with_padding(lines: Sequence[str], sizes: Sequence[int], placement: layout.Placement) -> Iterator[str]:
    """The members of a struct with explicit offsets, and padding between them."""
    end = 0
    for line, size, offset in zip((*lines, ""), (*sizes, 0), (*placement.offsets, placement.size), strict=True):
        if offset > end:
            yield f"  unsigned char padding_{end}[{offset - end}];\n"
        yield line
        end = offset + size


def _check_name(name: str) -> str:
    if not name.isascii() or not name.isidentifier() or name in abi.CPP_WORDS or keyword.iskeyword(name):
        raise ValueError(f"{name!r} cannot be a name in C++: choose another one")
    return name
