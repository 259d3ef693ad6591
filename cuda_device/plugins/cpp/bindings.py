"""`bindings`: reads a CUDA C++ header with libclang and creates stubs, structs and enumerations from it.

    struct Point { float x, y; };                         norms = bindings("norms.h", link="norms.cu")
    enum class Mode : int { FAST, EXACT };          →     norms.Point(3, 4)      @struct
    namespace ns {                                        norms.Mode.EXACT       IntEnum
    __device__ float norm(Point p, Mode mode);            norms.ns.norm(p, 1)    @extern
    }

The header is read as NVRTC reads it, for device code. The types of CUDA's headers and of this package's take the place of those
headers, so neither a toolkit nor a C++ compiler is needed. Bodies of functions are ignored.
"""

from __future__ import annotations

import enum
import keyword
import linecache
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from operator import getitem
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from cuda_device import CompileError, Extern, struct
from cuda_device.extend import Location, layout, links_of, model, type_of_hint
from cuda_device.plugins.cpp.sources import cuda_source, folders_of
from cuda_device.plugins.cpp.type_names import DESCRIPTOR, HEADERS, NUMBERS, VECTORS

_LIBRARY = "libclang reads headers of C++, and it is not installed"
_FOLDER = "/cuda_device_headers"  # of texts that libclang treats as files
_PRELUDE = f"{_FOLDER}/cuda_device_prelude.h"
_STANDARD_HEADERS = (
    "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "vector_functions.h", "vector_types.h",
    "cmath", "cstddef", "cstdint", "math.h", "stddef.h", "stdint.h", "cuda/std/cmath", "cuda/std/cstddef",
)  # fmt: skip
_TYPES = """
#define __CUDACC__
#define __CUDACC_RTC__
#define __CUDA_ARCH__ 900
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
typedef decltype(sizeof 0) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
typedef size_t uintptr_t;
typedef ptrdiff_t intptr_t;
namespace cuda {
namespace std { using ::size_t; using ::ptrdiff_t; template <class T> struct complex { alignas(2 * sizeof(T)) T parts[2]; }; }
template <class T, size_t N> struct interoperable_array_descriptor { T* data; size_t shape[N]; ptrdiff_t strides[N]; };
}
struct dim3 { unsigned x, y, z; };
"""
_BY_KIND = {
    "BOOL": "bool", "CHAR_S": "int8", "CHAR_U": "uint8", "SCHAR": "int8", "UCHAR": "uint8", "SHORT": "int16",
    "USHORT": "uint16", "INT": "int32", "UINT": "uint32", "LONG": "int64", "ULONG": "uint64", "LONGLONG": "int64",
    "ULONGLONG": "uint64", "FLOAT": "float32", "DOUBLE": "float64",
}  # fmt: skip


_DECLARATIONS = (
    "ENUM_DECL", "STRUCT_DECL", "CLASS_DECL", "UNION_DECL", "FUNCTION_DECL", "TYPEDEF_DECL", "TYPE_ALIAS_DECL", "VAR_DECL",
)  # fmt: skip
_BODY = rb"(?s)(?:\s|//[^\n]*|/\*.*?\*/)*\{"


class Bindings(ModuleType):
    """The declarations of a header, or of one of its namespaces, as attributes.

    Overloaded functions are items, by their parameters: `norms["dot(float2, float2)"]`. A name that has no counterpart in
    Python raises an `AttributeError` with the reason.
    """

    _reduced: tuple[Any, ...]

    def __init__(self, name: str) -> None:
        super().__init__(name, f"The bindings of {name}.")
        self._functions: dict[str, Extern] = {}
        self._missing: dict[str, str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickling reads the header again."""
        return self._reduced

    def __getitem__(self, signature: str) -> Extern:
        if signature not in self._functions:
            raise KeyError(
                f"{self.__name__} has no {signature!r}; its functions are {', '.join(self._functions) or 'none'}"
            )
        return self._functions[signature]

    def __getattr__(self, name: str) -> Any:
        reason = self.__dict__.get("_missing", {}).get(name, "it is not declared there")
        raise AttributeError(f"{self.__name__} has no binding for {name!r}: {reason}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"<bindings of {self.__name__}>"


def bindings(
    header: str | os.PathLike[str],
    /,
    *,
    link: Any = (),
    include: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    define: Mapping[str, object] | None = None,
    std: str = "c++17",
) -> Bindings:
    """Reads a CUDA C++ header (`pip install libclang`) and returns an object with its declarations for device code.

    `__device__` functions become functions like those of `extern`; `link` is the code that defines functions that the header
    only declares. Structs become classes like those of `struct`, with the layout of C++; array members become tuples.
    Enumerations become `IntEnum` classes, and namespaces and the types in a struct become attributes. Parameters that are
    references to const take values, pointers and results that are references become those of `device.pointer`, and
    `cuda::interoperable_array_descriptor` becomes an array. Headers that this one includes are read, too, but not bound.
    `include`, `define` and `std` are those of `cuda_source`.

    Names without a counterpart in Python (templates, classes with bases, bit-fields, variables, other references) raise an
    `AttributeError` with the reason when they are used. Raises `CompileError` for a header that cannot be read or parsed, and
    if libclang is missing.
    """
    path = os.path.abspath(header)
    cuda_source("", include=include, define=define, std=std)  # checks these arguments
    reader = _Reader(path, links_of(link, "bindings"), folders_of(include, "bindings"), dict(define or {}), std)
    return reader.read_header()


def _named(name: str, again: Callable[..., Bindings], *args: Any) -> Bindings:
    """Empty bindings, which unpickling creates by `again(*args)`."""
    namespace = Bindings(name)
    namespace._reduced = again, args
    return namespace


class _HeaderFunction(Extern):
    """A stub for a function of a header, which is pickled by its signature."""

    def __init__(
        self, namespace: Bindings, signature: str, stub: FunctionType, symbol: str, link: tuple[Any, ...]
    ) -> None:
        super().__init__(stub, symbol, link)
        self.namespace, self.signature, self.header = namespace, signature, stub.__code__.co_filename

    def __reduce__(self) -> tuple[Any, ...]:
        return getitem, (self.namespace, self.signature)


class _Reader:
    """Reads one header."""

    def __init__(
        self, path: str, link: tuple[Any, ...], others: tuple[str, ...], define: dict[str, object], std: str
    ) -> None:
        self.path, self.link, self.std, self.define = path, link, std, define
        again = partial(bindings, link=link, include=others, define=define, std=std)
        self.namespace = _named(os.path.basename(path), again, path)
        self.folders = [os.path.dirname(path), *others]
        self.classes: dict[str, type] = {}  # of structs and enumerations
        self.refused: dict[str, str] = {}
        self.text = ""
        self.inline: list[tuple[Bindings, str, FunctionType, str, str]] = []

    def read_header(self) -> Bindings:
        try:
            from clang import cindex
        except ImportError:
            raise CompileError(_LIBRARY, help="pip install libclang") from None
        try:
            self.text = Path(self.path).read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise CompileError(f"bindings({self.path!r}) cannot be read: {error}", help="name a header") from None
        index = cindex.Index.create()
        macros = (f"-D{name}" if value is None else f"-D{name}={value}" for name, value in self.define.items())
        options = [
            *("-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-nostdinc", f"-std={self.std}"),
            *("-Wno-unknown-cuda-version", "-Wno-pragma-once-outside-header", "-include", _PRELUDE),
            # Without it, libclang refuses variadic functions on machines where it finds no CUDA toolkit.
            *("-Xclang", "-fcuda-allow-variadic-functions"),
            *(f"-I{folder}" for folder in (_FOLDER, *self.folders)),
        ]
        unit = index.parse(
            self.path,
            [*options, *macros],
            unsaved_files=list(_headers().items()),
            options=cindex.TranslationUnit.PARSE_SKIP_FUNCTION_BODIES,
        )
        for message in unit.diagnostics:
            if message.severity >= cindex.Diagnostic.Error:
                where = message.location
                file = where.file.name if where.file else self.path
                linecache.checkcache(file)  # which may have changed since an earlier error
                raise CompileError(
                    f"libclang cannot read {self.path}: {message.spelling}",
                    Location(file, where.line),
                    "correct the header; pass folders of other headers as include=…, and macros as define=…",
                )
        self.scope(self.namespace, unit.cursor)
        self.define_inline()
        return self.namespace

    def scope(self, namespace: Bindings, cursor: Any) -> None:
        """Binds the declarations of a namespace."""
        for child in cursor.get_children():
            if child.location.file is None or child.location.file.name != self.path:
                continue
            name, kind = child.spelling, child.kind.name
            if kind == "LINKAGE_SPEC":
                self.scope(namespace, child)
            elif kind == "NAMESPACE" and name:
                if name not in vars(namespace):
                    setattr(namespace, name, _named(f"{namespace.__name__}::{name}", getattr, namespace, name))
                self.scope(getattr(namespace, name), child)
            elif kind in _DECLARATIONS:
                try:
                    self.declaration(namespace, name, child)
                except _NoCounterpart as reason:
                    namespace._missing.setdefault(name, str(reason))
            elif kind.endswith("TEMPLATE"):
                instance = f"@extern(cpp='{_qualified(child)}<…>', link=…)"
                namespace._missing.setdefault(name, f"it is a template; declare an instance: {instance}")

    def declaration(self, namespace: Bindings, name: str, cursor: Any) -> None:
        """Binds a function, or the name of a type. Raises `_NoCounterpart` if Python has no equivalent."""
        if cursor.kind.name == "FUNCTION_DECL":
            if any(child.kind.name == "CUDADEVICE_ATTR" for child in cursor.get_children()):
                self.function(namespace, name, cursor)
            else:
                namespace._missing.setdefault(name, "it is no __device__ function")
            return
        type = cursor.type.get_canonical()
        if cursor.kind.name == "ENUM_DECL" and cursor.is_definition():
            self.enumeration(namespace, cursor)
            return
        if cursor.kind.name == "VAR_DECL":
            raise _NoCounterpart("it is a variable")
        self.type_of(type)
        if type.spelling not in self.classes:
            raise _NoCounterpart(f"it is another name of {type.spelling}")
        setattr(namespace, name, self.classes[type.spelling])

    def enumeration(self, namespace: Bindings, cursor: Any) -> None:
        members = {
            _plain(child.spelling): child.enum_value
            for child in cursor.get_children()
            if child.kind.name == "ENUM_CONSTANT_DECL"
        }
        name = "" if cursor.is_anonymous() else cursor.spelling
        try:
            enumeration = enum.IntEnum(name or "Anonymous", members, module=namespace.__name__)  # type: ignore[misc]
        except ValueError as error:  # for names with a meaning in Python
            raise _NoCounterpart(str(error)) from None
        self.classes[cursor.type.get_canonical().spelling] = enumeration
        if name:
            setattr(namespace, name, enumeration)
        if not cursor.is_scoped_enum():
            for member in enumeration:
                setattr(namespace, member.name, member)

    def function(self, namespace: Bindings, name: str, cursor: Any) -> None:
        """Binds a function. A generated function calls those that the header defines; the linker finds the others."""
        if not name.isidentifier():
            raise _NoCounterpart("it is an operator; write a function that calls it")
        if cursor.type.is_function_variadic():
            raise _NoCounterpart("it takes any number of arguments")
        # libclang parses the bodies of some functions nevertheless, such as constexpr ones; the others follow the declaration.
        after = self.text.encode()[cursor.extent.end.offset :]
        is_inline = cursor.is_definition() or re.match(_BODY, after) is not None
        types = list(cursor.type.get_canonical().argument_types())  # where arrays are pointers
        hints = {}
        for number, (parameter, type) in enumerate(zip(cursor.get_arguments(), types, strict=True)):
            hints[_plain(parameter.spelling) or f"a{number}"] = self.type_of(type, by_value=is_inline)
        result = cursor.result_type.get_canonical()
        hints["return"] = self.type_of(result)
        parameters = ", ".join([hinted for hinted in hints if hinted != "return"])
        text = "\n" * (cursor.location.line - 1) + f"def {_plain(name)}({parameters}): ..."
        names: dict[str, Any] = {"__name__": namespace.__name__}
        exec(compile(text, self.path, "exec"), names)
        stub = names[_plain(name)]
        stub.__annotations__, stub.__doc__ = hints, cursor.brief_comment
        if not is_inline:
            _bind(_HeaderFunction(namespace, cursor.displayname, stub, cursor.mangled_name, self.link))
            return
        parameters = ", ".join(f"cuda_device_type<{_value_type(type)}> a{i}" for i, type in enumerate(types))
        symbol = f"cuda_device_{cursor.mangled_name}"
        star, address = ("*", "&") if result.kind.name == "LVALUEREFERENCE" else ("", "")
        head = f'extern "C" __device__ cuda_device_type<{_value_type(result)}{star}> {symbol}({parameters})'
        call = f"{address}{_qualified(cursor)}({', '.join(f'a{i}' for i in range(len(types)))})"
        self.inline.append((namespace, cursor.displayname, stub, symbol, f"{head} {{ return {call}; }}"))

    def define_inline(self) -> None:
        """Binds the functions that the header defines, through functions with C symbols in a source that includes it."""
        lines = [f'#include "{self.path}"', "template <class T> using cuda_device_type = T;"]
        text = "\n".join([*lines, *(text for *_, text in self.inline)])
        name = f"{os.path.basename(self.path)}.cu"
        source = cuda_source(text, name=name, include=self.folders, define=self.define, std=self.std)
        for namespace, signature, stub, symbol, _ in self.inline:
            _bind(_HeaderFunction(namespace, signature, stub, symbol, (source, *self.link)))

    def type_of(self, type: Any, by_value: bool = False) -> model.Type:
        """The type for a canonical C++ type. With `by_value`, a reference to const becomes a value."""
        kind, name = type.kind.name, re.sub(r"\bconst\b", "", type.spelling).strip()
        if kind in _BY_KIND:
            return model.NUMBERS[_BY_KIND[kind]]
        if name in _known():
            return _known()[name]
        match kind:
            case "VOID":
                return model.NONE
            case "ENUM":
                return self.type_of(type.get_declaration().enum_type.get_canonical())
            case "POINTER" | "LVALUEREFERENCE":
                pointee = type.get_pointee().get_canonical()
                if kind == "LVALUEREFERENCE" and by_value:
                    if not pointee.is_const_qualified() or pointee.kind.name == "CONSTANTARRAY":
                        raise _NoCounterpart(f"{type.spelling} is a reference; write a function that takes a pointer")
                    return self.type_of(pointee)
                try:
                    target = self.type_of(pointee)
                except _NoCounterpart:
                    target = model.NONE  # an address that is only passed on
                return model.Pointer(target, pointee.is_const_qualified())
            case "CONSTANTARRAY":
                return model.Tuple((self.type_of(type.element_type.get_canonical()),) * type.element_count)
            case "RECORD" if descriptor := re.fullmatch(rf"cuda::{DESCRIPTOR}<(.*), (\d+)>", name):
                element = type.get_template_argument_type(0).get_canonical()
                return model.Array(
                    self.type_of(element), int(descriptor[2]), model.Layout.STRIDED, element.is_const_qualified()
                )
            case "RECORD":
                return type_of_hint(self.record(type))
        raise _NoCounterpart(f"{type.spelling} has no counterpart in Python")

    def record(self, type: Any) -> type:
        """The class for a C++ struct. Raises `_NoCounterpart` if there is none."""
        spelled = type.spelling.removeprefix("const ")
        if spelled in self.refused:
            raise _NoCounterpart(self.refused[spelled])
        if spelled not in self.classes:
            self.refused[spelled] = f"{spelled} refers to itself"  # while its members are read
            try:
                self.classes[spelled] = self.structure(type, spelled)
            except _NoCounterpart as reason:
                self.refused[spelled] = str(reason)
                raise
            del self.refused[spelled]
            self.nested(self.classes[spelled], type.get_declaration())
        return self.classes[spelled]

    def nested(self, cls: type, cursor: Any) -> None:
        """Makes the types that are declared in a struct attributes of its class, unless a member has the name."""
        namespace = Bindings(cls.__name__)
        self.scope(namespace, cursor)
        for name, value in vars(namespace).items():
            if not name.startswith("_") and not hasattr(cls, name):
                setattr(cls, name, value)

    def structure(self, record: Any, spelled: str) -> Any:
        """Creates the class for a C++ struct, with the same layout."""
        cursor = record.get_declaration()
        parts = [child.kind.name for child in cursor.get_children()]
        if not cursor.is_definition() and cursor.get_definition() is None:
            raise _NoCounterpart(f"{spelled} is not defined")
        if not cursor.spelling or "(" in spelled:
            raise _NoCounterpart("it has a struct without a name")
        if "CXX_BASE_SPECIFIER" in parts or any(child.is_virtual_method() for child in cursor.get_children()):
            raise _NoCounterpart(f"{spelled} has a base class or a virtual function")
        if any(map(_runs_code, cursor.get_children())):
            raise _NoCounterpart(f"{spelled} has a copy constructor or a destructor, so it is passed by its address")
        fields = list(record.get_fields())
        if any(field.is_bitfield() or not field.spelling for field in fields):
            raise _NoCounterpart(f"{spelled} has a bit-field, or a member without a name")
        hints = {_plain(field.spelling): self.type_of(field.type.get_canonical()) for field in fields}
        plain: Any = type(cursor.spelling, (), {"__annotations__": hints})
        cls = struct(align=record.get_align())(plain)
        offsets = tuple(record.get_offset(field.spelling) // 8 for field in fields)
        if layout.Placement(record.get_size(), record.get_align(), offsets) != layout.placement(type_of_hint(cls)):
            raise _NoCounterpart(f"{spelled} has a layout that a struct of Python does not have")
        return cls


class _NoCounterpart(Exception):
    """The reason why a declaration has no Python equivalent."""


def _bind(function: _HeaderFunction) -> None:
    """Binds a function by its signature, and by its name unless it is overloaded."""
    namespace, signature = function.namespace, function.signature
    name = _plain(signature.partition("(")[0])
    others = [bound for bound in namespace._functions if bound.partition("(")[0] == signature.partition("(")[0]]
    namespace._functions[signature] = function
    if others and others != [signature]:
        vars(namespace).pop(name, None)
        namespace._missing[name] = f"it is overloaded: choose one as an item, such as [{signature!r}]"
    else:
        setattr(namespace, name, function)


def _runs_code(member: Any) -> bool:
    """Whether a member of a class is a copy or move constructor or a destructor that is not the default one."""
    copies = member.is_copy_constructor() or member.is_move_constructor()
    return (copies or member.kind.name == "DESTRUCTOR") and not member.is_default_method()


def _value_type(type: Any) -> str:
    """The C++ type of a parameter or result, without a reference."""
    canonical = type.get_canonical()
    if canonical.kind.name == "LVALUEREFERENCE":
        canonical = canonical.get_pointee()
    if "(unnamed" in canonical.spelling or "(anonymous" in canonical.spelling:
        raise _NoCounterpart(f"{canonical.spelling} has no name")
    return str(canonical.spelling)


def _plain(name: str) -> str:
    """A valid Python name."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _qualified(cursor: Any) -> str:
    """The name with its namespaces."""
    names = [cursor.spelling]
    parent = cursor.semantic_parent
    while parent is not None and parent.kind.name in ("NAMESPACE", "LINKAGE_SPEC"):
        if parent.kind.name == "NAMESPACE" and parent.spelling:
            names.insert(0, parent.spelling)
        parent = parent.semantic_parent
    return "::".join(names)


@cache
def _known() -> dict[str, model.Type]:
    """Our numbers and vectors by their C++ names, with and without the suffix `_16a`."""
    types: dict[str, model.Type] = {name: model.NUMBERS[ours] for ours, name in NUMBERS.items()}
    for family, names in VECTORS.items():
        for size, name in enumerate(names, 1):
            for alias in (name, name.removesuffix("_16a")):
                types.setdefault(alias, model.Vector(model.NUMBERS[family], size))
    return types


@cache
def _headers() -> dict[str, str]:
    """The texts that replace CUDA's headers and ours: one defines all types, and the others are empty."""
    lines = [_TYPES]
    for name, type in _known().items():
        *spaces, short = name.split("::")
        if "<" not in name and not short.endswith("_t") and name not in ("bool", "float", "double"):
            placement = layout.placement(type)
            text = f"struct alignas({placement.align}) {short} {{ char bytes[{placement.size}]; }};"
            lines.append(f"namespace {spaces[0]} {{ {text} }}" if spaces else text)
    for bits, word in ((8, "char"), (16, "short"), (32, "int"), (64, "long long")):
        for name in (f"int{bits}_t", f"uint{bits}_t"):
            lines.append(f"typedef {'un' * (name[0] == 'u')}signed {word} {name};")
            lines.append(f"namespace cuda {{ namespace std {{ using ::{name}; }} }}")
    names = {*_STANDARD_HEADERS, *HEADERS.values()}
    return {_PRELUDE: "\n".join(lines)} | {f"{_FOLDER}/{name}": "" for name in names}
