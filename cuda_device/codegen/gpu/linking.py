"""The inputs of `link=`: files, bytes, and CUDA C++, which is compiled for the kernel's target.

    source = device.cuda_source('extern "C" __device__ float twice(float x) { return S * x; }', define={"S": 2})
    read(["norms.ptx", source], parse("sm_90"))   ->  (Input("norms.ptx", b".version …"), Input("source.cu", b"…"))
    bitcode(["norms.bc"])                         ->  (Input("norms.bc", b"BC…"),): LLVM links it before it optimises

NVRTC compiles C++ to LTO-IR, or to a relocatable cubin if the linker is older than NVRTC. Its output is cached on disk. The key
consists of the text, the options, the architecture, the version of NVRTC, the modification times of the folders of CUDA's own
headers, and the contents of all other headers that the text may include. These are found without a preprocessor, so they include
headers in branches that are not taken. The output for a text with an `#include` of a macro is not cached.
"""

from __future__ import annotations

import json
import linecache
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from cuda_device.cache import disk, sha256
from cuda_device.codegen.gpu.assemblers import Input
from cuda_device.codegen.gpu.toolkit import library_file, pip_install, stamp
from cuda_device.device.functions import CPP_WORDS, Extern, Instance
from cuda_device.device.parameters import parameter_names
from cuda_device.errors import CompileError, Location
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.abi import passing, representation
from cuda_device.types.architectures import Architecture
from cuda_device.types.cpp_names import OFFSETOF, cpp_name, headers_for
from cuda_device.types.layout import placement
from cuda_device.types.model import NONE, Array, AtomicCell, Number, Pointer, Ref, Struct, Subarray, Tuple, Type

_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".hpp", ".h")  # of C++ files

_STANDARD = r"c\+\+(?:03|11|14|17|20|23)"
_NAME = r"[A-Za-z_]\w*"
# The packages of header folders, by cuda-pathfinder's names of the folders.
_CUDA_HEADERS = {"cudart": "nvidia-cuda-runtime", "cccl": "nvidia-cuda-cccl"}
_OUR_HEADERS = os.path.join(os.path.dirname(__file__), "..", "..", "plugins", "cpp", "include")
_INCLUDE = r'(?:#\s*include\s*|__has_include\s*\(\s*)(?:<(?P<angle>[^>\n]+)>|"(?P<quoted>[^"\n]+)")'
_COMPUTED = r'#\s*include\s+[^<"\s]|__has_include\s*\(\s*[^<"\s]'
_ERROR = r"(?m)^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?:catastrophic )?error[^:]*: (?P<reason>.*)"
_NO_HEADER = r'(?:cannot|could not) open source file "([^"]+)"'


def read(sources: Iterable[Any], architecture: Architecture) -> tuple[Input, ...]:
    """The contents of the sources of `link=`, each once, except bitcode; C++ is compiled for an architecture.

    Raises `CompileError` for a source that cannot be read, compiled or linked.
    """
    found: dict[str, Input] = {}
    texts: dict[CudaSource, dict[tuple[Any, ...], str]] = {}
    for number, given in enumerate(sources, 1):
        source = _source_of(given)
        if isinstance(source, CudaSource):  # compiled once, with the additions for all stubs
            added = texts.setdefault(source, {})
            if isinstance(given, Instance):
                function = given.function
                key = function.symbol, function.parameters, function.result, function.header
                added.setdefault(key, _added(function, source))
            continue
        item = _read(source, number)
        if item.is_finished:
            raise CompileError(
                f"{item.name} is a finished cubin, which cannot be linked",
                help="compile it with -rdc=true, or link its PTX",
            )
        if not item.is_bitcode:
            found.setdefault(item.digest, item)
    for source, added in texts.items():
        item = Input(os.path.basename(source.name), source.compiled(architecture, "".join(sorted(added.values()))))
        found.setdefault(item.digest, item)
    return tuple(found.values())


def bitcode(sources: Iterable[Any]) -> tuple[Input, ...]:
    """The LLVM bitcode among the sources of `link=`. Raises `CompileError` for a file that cannot be read."""
    files = (
        _read(source, i) for i, source in enumerate(map(_source_of, sources), 1) if not isinstance(source, CudaSource)
    )
    return tuple(item for item in files if item.is_bitcode)


def _source_of(given: Any) -> Any:
    source = given.link if isinstance(given, Instance) else given
    is_file = isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith(_SUFFIXES)
    return CudaSource(None, os.fspath(source)) if is_file else source


def _added(function: Extern, source: CudaSource) -> str:
    """The C++ that is appended to a source for a stub: the function that it calls, or a check of its types."""
    checked = source.std != "c++03"  # which has no static_assert
    if function.cpp is not None:
        return _instance(function, checked)
    if function.header:
        seen = os.path.basename(function.header) in source.read()
        return "" if seen else f"\n#include {json.dumps(function.header)}\n"
    return _agreement(function) if checked else ""


_KINDS = """
#ifndef cuda_device_kinds
#define cuda_device_kinds
template <class T> struct cuda_device_kind { static constexpr char of = __is_class(T) || __is_union(T) ? 's' : 'i'; };
template <class T> struct cuda_device_kind<const T> : cuda_device_kind<T> {};
template <class T> struct cuda_device_kind<T*> { static constexpr char of = 'p'; };
template <class T> struct cuda_device_kind<T&> : cuda_device_kind<T*> {};
template <> struct cuda_device_kind<void> { static constexpr char of = 'v'; };
template <> struct cuda_device_kind<float> { static constexpr char of = 'f'; };
template <> struct cuda_device_kind<double> : cuda_device_kind<float> {};
template <class T> struct cuda_device_passing {  // by its address if its copies, or its end, run code
  static constexpr bool copies = __is_trivially_constructible(T, const T&) && __is_trivially_constructible(T, T&&)
                                 && __has_trivial_destructor(T);
};
template <class T> struct cuda_device_passing<T&> { static constexpr bool copies = true; };
template <> struct cuda_device_passing<void> { static constexpr bool copies = true; };
template <class T> struct cuda_device_pointee;
template <class T> struct cuda_device_pointee<T*> { using type = T; static constexpr bool is_const = false; };
template <class T> struct cuda_device_pointee<const T*> { using type = T; static constexpr bool is_const = true; };
template <class T> struct cuda_device_pointee<volatile T*> : cuda_device_pointee<T*> {};
template <class T> struct cuda_device_pointee<const volatile T*> : cuda_device_pointee<const T*> {};
template <class T> struct cuda_device_pointee<T&> : cuda_device_pointee<T*> {};
template <class T> struct cuda_device_pointee<const T> : cuda_device_pointee<T> {};
#endif
"""


def _agreement(function: Extern) -> str:
    """C++ that does not compile if the `extern "C"` function of a stub's symbol has other types. Its lines are the stub's.

    The kinds, sizes and members of the types are compared, not their names. If the source does not declare the symbol, it means
    the one in `cuda_device_absent`.
    """
    code, symbol = function.underlying.__code__, function.symbol
    types, cpp = (function.result, *function.parameters), ["R", *(f"A{i}" for i in range(len(function.parameters)))]
    names = (f"{symbol}, {name}" for name in ("result", *parameter_names(code)))
    made = f"cuda_device_stub_{symbol}_{sha256(repr(types).encode()).hexdigest()[:8]}"
    head = f"template <{', '.join(f'class {each}' for each in cpp)}>"
    lines = [
        f"namespace cuda_device_absent {{ extern const char {symbol}; }} using namespace cuda_device_absent;",
        f"{head} struct {made}_types {{",
        *(check for each in zip(names, cpp, types, strict=True) for check in (_passes(*each), *_fits(*each))),
        f"}}; {head} {made}_types<{', '.join(cpp)}> {made}(R (*)({', '.join(cpp[1:])})); char {made}(const char*);",
        f'static_assert(sizeof({made}(&::{symbol})), "");',
    ]
    place = f"\n#line {code.co_firstlineno} {json.dumps(code.co_filename)}\n"
    return f"\n{OFFSETOF}{_KINDS}{place}{place.join(lines)}\n"


def _passes(what: str, cpp: str, type: Type) -> str:
    """The check that values of a C++ type are passed in the same way: as a copy, or by the address of one."""
    copies = type == NONE or passing(type, kernel=False) != "address"
    word, how = ("true", "as a copy") if copies else ("false", "by its address")
    return f'static_assert(cuda_device_passing<{cpp}>::copies == {word}, "{what}: {type} is passed {how}");'


def _fits(what: str, cpp: str, type: Type) -> list[str]:
    """The checks that a C++ type corresponds to one of ours: a number, a pointer, or a structure with these members."""
    ours = representation(type) if type != NONE else type
    is_scalar = isinstance(ours, Number) and not (ours.is_complex or (ours.is_float and ours.bits < 32))
    scalar = "f" if isinstance(ours, Number) and ours.is_float else "i"
    kind = "v" if type == NONE else "p" if isinstance(ours, Ref) else scalar if is_scalar else "s"
    facts = [f"cuda_device_kind<{cpp}>::of == '{kind}'"] * (not isinstance(type, AtomicCell))  # a number or a class
    if type == NONE:
        return [f'static_assert({facts[0]}, "{what}: {type}");']
    place = placement(ours)
    facts += [f"sizeof({cpp}) == {place.size}", f"alignof({cpp}) == {place.align}"]
    checks = [f'static_assert({" && ".join(facts)}, "{what}: {type}");']
    if isinstance(type, (Pointer, Array)):
        checks += _points_to(what, cpp if isinstance(type, Pointer) else f"decltype({cpp}::data)", type)
    if isinstance(type, Struct):
        for field, offset in zip(type.fields, place.offsets, strict=True):
            if field.name not in CPP_WORDS:
                at = f"cuda_device_offsetof({cpp}, {field.name}) == {offset}"
                checks.append(f'static_assert({at}, "{what}.{field.name}");')
                if not isinstance(field.type, Subarray):
                    checks += _fits(f"{what}.{field.name}", f"decltype({cpp}::{field.name})", field.type)
    return checks


def _points_to(what: str, cpp: str, type: Pointer | Array) -> list[str]:
    """The checks that a C++ pointer is to const if ours is, and to the same type, or to void."""
    name = f"cuda_device_{re.sub(r'[^a-zA-Z0-9]+', '_', what)}"
    checks = [f'static_assert(cuda_device_pointee<{cpp}>::is_const, "{what}: {type}");'] * type.readonly
    if type.dtype != NONE:
        checks += [
            f"template <class {name}_type, class = void> struct {name} {{",
            *_fits(f"{what}[0]", f"{name}_type", type.dtype),
            f"}}; template <class T> struct {name}<void, T> {{}};",
            f'static_assert(sizeof({name}<typename cuda_device_pointee<{cpp}>::type>), "");',
        ]
    return checks


def _instance(function: Extern, checked: bool) -> str:
    """A C++ function with the symbol of a stub, which calls the function that the stub names. Its lines are the stub's."""
    structs: dict[str, Struct] = {}

    def name_of(type: Struct | Tuple) -> str:
        if isinstance(type, Tuple) or not type.name.isidentifier():
            raise CompileError(
                f"{function.__qualname__}: C++ has no name for {type}", help="declare a struct of its name with @struct"
            )
        structs[type.name] = type
        return type.name

    code = function.underlying.__code__
    types = [cpp_name(type, name_of) for type in function.parameters]
    result = "void" if function.result == NONE else cpp_name(function.result, name_of)
    names = [f"a{i}" for i in range(len(types))]
    parameters = ", ".join(f"{type} {name}" for type, name in zip(types, names, strict=True))
    head = f'extern "C" __device__ {result} {function.symbol}({parameters})'
    passed = [each for each in (*function.parameters, function.result) if isinstance(each, Struct)]
    checks = [check for name, type in structs.items() for check in _fits(name, name, type)] * checked
    checks += [_passes(each.name, each.name, each) for each in passed] * checked
    if checks:
        checks = [f"struct {function.symbol}_types {{", *checks, "};"]
    includes = "".join(f"#include <{header}>\n" for header in headers_for(head))
    lines = [*checks, f"{head} {{ return {function.cpp}({', '.join(names)}); }}"]
    place = f"\n#line {code.co_firstlineno} {json.dumps(code.co_filename)}\n"
    return f"\n{(OFFSETOF + _KINDS) * bool(checks)}{includes}{place}{place.join(lines)}\n"


def _read(source: Any, number: int) -> Input:
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return Input(os.path.basename(path), _content(path))
    code = source if isinstance(source, bytes) else source.code
    name = str(getattr(source, "symbol", None) or f"link {number}")
    return Input(name, code.encode() if isinstance(code, str) else bytes(code))


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CompileError(
            f"link={path!r} cannot be read: {error.strerror}", help="pass the path of a file, or its contents as bytes"
        ) from None


# CUDA C++


@dataclass(frozen=True, slots=True)
class CudaSource:
    """CUDA C++ source. `name` is its name in messages; if `text` is None, it is the path of a file."""

    text: str | None
    name: str
    include: tuple[str, ...] = ()
    define: tuple[tuple[str, str | None], ...] = ()
    std: str = "c++17"

    def compiled(self, architecture: Architecture, more: str = "") -> bytes:
        """The text with `more` appended, as LTO-IR or a relocatable cubin.

        Raises `CompileError` if the file cannot be read or NVRTC rejects the text.
        """
        plain = self.read()
        text = plain + more
        folders = (*([os.path.dirname(self.name) or "."] if self.text is None else []), *self.include, _OUR_HEADERS)
        cuda = _cuda_headers() if "include" in text else ()
        options = {
            "arch": str(architecture),
            "std": self.std,
            "relocatable_device_code": True,
            "device_as_default_execution_space": True,  # NVRTC rejects host functions, such as headers declare
            "include_path": [*folders, *cuda],
            "define_macro": [name if value is None else (name, value) for name, value in self.define] or None,
        }

        def compile() -> bytes:
            try:
                return self._compile(text, options, architecture)
            except CompileError:
                if more:
                    self._compile(plain, options, architecture)  # reports errors of the source itself first
                raise

        headers = _headers(text, folders)
        if headers is None:
            return compile()
        times = [str(os.stat(folder).st_ctime_ns) for folder in cuda]
        parts = (_identity(), self.name, text, options, *headers, *times)
        name = f"C++ {sha256(repr(parts).encode()).hexdigest()}"
        return disk.loaded(name, compile, bytes)

    def read(self) -> str:
        if self.text is not None:
            return self.text
        try:
            return _content(self.name).decode()
        except UnicodeDecodeError as error:
            raise CompileError(f"{self.name} is not C++ in UTF-8: {error}", help="save the file as UTF-8") from None

    def _compile(self, text: str, options: Mapping[str, Any], architecture: Architecture) -> bytes:
        """Compiles a text with NVRTC, whose messages become a `CompileError` at the line of the first error."""
        lto = _linker_takes_lto()
        from cuda.core import Program, ProgramOptions

        settings = ProgramOptions(**options, name=self.name, link_time_optimization=lto or None)
        try:
            return bytes(Program(text, "c++", settings).compile("ltoir" if lto else "cubin").code)
        except Exception as error:  # an NVRTCError, which cuda.core does not export
            _, separator, log = str(error).partition("compilation log:")
            if not separator:
                raise
            raise self._refused(text, log.rstrip("\0").strip(), architecture) from None

    def _refused(self, text: str, log: str, architecture: Architecture) -> CompileError:
        """The error for NVRTC's messages."""
        log = log.replace("At end of source:", f"{self.name}({len(text.splitlines())}):")
        found = re.search(_ERROR, log)
        what = f"NVRTC cannot compile {self.name} for {architecture}"
        if found is None:
            version = ".".join(map(str, _nvrtc().nvrtcVersion()[1:]))
            return CompileError(
                f"{what}: {log}", help=f"this is NVRTC {version}: install another nvidia-cuda-nvrtc, or link PTX"
            )
        help = "correct the C++ source"
        if "cuda_device_stub_" in log:
            help = "give the stub the types that the function has in C++"
        if missing := re.search(_NO_HEADER, log):
            packages = " ".join(_CUDA_HEADERS.values())
            help = (
                f"name the folder of {missing[1]}: cuda_source(…, include=folder); CUDA's own headers: pip install {packages}; "
                "in place of the standard library's headers, which NVRTC lacks, include CCCL's <cuda/std/…>"
            )
        linecache.checkcache(found["file"])  # which may have changed since an earlier error
        if self.text is not None:  # for the excerpt in the message
            linecache.cache[self.name] = len(text), None, text.splitlines(keepends=True), self.name
        whole = "\n".join(f"    {line}".rstrip() for line in log.splitlines())
        return CompileError(f"{what}: {found['reason']}\n{whole}", Location(found["file"], int(found["line"])), help)


def cuda_source(
    source: str | os.PathLike[str],
    /,
    *,
    name: str = "",
    include: Any = (),
    define: Mapping[str, object] | None = None,
    std: str = "c++17",
) -> CudaSource:
    """Returns CUDA C++ source for `link=` of `extern`, `kernel`, `func` and `compile`: text, or a file as a `pathlib.Path`.

    NVRTC compiles it (`pip install nvidia-cuda-nvrtc`) for the architecture of the kernel that it is linked to. Functions that
    a kernel calls must be `extern "C" __device__`. `name` is the name of a text in messages. `include` is one or several
    folders of headers; the headers of CUDA and CCCL (if installed), `cuda_device/interop.h`, and those in the folder of a file
    are found without it. `define` maps macros to values, or to None for a macro without a value; `std` is the standard, "c++03"
    to "c++23". `link="norms.cu"` is a file without any of these options. Raises `TypeError` for an invalid argument. Errors in
    the source raise a `CompileError` when the kernel is compiled.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"cuda_source takes C++ as text, or a file as pathlib.Path(…), not {source!r}")
    if isinstance(source, str) and source.endswith(_SUFFIXES) and "\n" not in source:
        raise TypeError(f"{source!r} is the name of a file, not C++: write cuda_source(pathlib.Path({source!r}))")
    if not isinstance(std, str) or not re.fullmatch(_STANDARD, std):
        raise TypeError(
            f"cuda_source(std={std!r}): choose one of 'c++03', 'c++11', 'c++14', 'c++17', 'c++20' and 'c++23'"
        )
    folders = folders_of(include, "cuda_source")
    macros = dict(define or {})
    for macro in macros:
        if not isinstance(macro, str) or not re.fullmatch(_NAME, macro, re.ASCII):
            raise TypeError(f"cuda_source(define=…): {macro!r} is not the name of a macro")
    values = ((macro, None if value is None else str(value)) for macro, value in macros.items())
    is_file = isinstance(source, os.PathLike)
    shown = os.fspath(source) if is_file else name or "source.cu"
    return CudaSource(None if is_file else str(source), shown, folders, tuple(values), std)


def folders_of(include: Any, who: str) -> tuple[str, ...]:
    """The folders of the argument `include`. Raises `TypeError` for anything else."""
    try:
        return tuple(map(os.fspath, (include,) if isinstance(include, (str, os.PathLike)) else include))
    except TypeError:
        raise TypeError(f"{who}(include=…) takes a folder of headers, or several, not {include!r}") from None


def _headers(text: str, folders: Iterable[str]) -> list[str] | None:
    """Paths and hashes of the headers in these folders that a text may include; None if a macro names one."""
    found: dict[str, str] = {}
    todo = [(text, "")]
    while todo:
        text, beside = todo.pop()
        if re.search(_COMPUTED, text):
            return None
        for match in re.finditer(_INCLUDE, text):
            name = match["angle"] or match["quoted"]
            places = [beside] if beside and match["quoted"] else []
            for folder in (*places, *folders):
                path = os.path.join(folder, name)
                if path in found or not os.path.isfile(path):
                    found.setdefault(path, "")  # a file there would change the result
                    if found[path]:
                        break
                    continue
                with open(path, encoding="utf-8", errors="replace") as file:
                    content = file.read()
                found[path] = sha256(content.encode()).hexdigest()
                todo.append((content, os.path.dirname(path)))
                break
    return [f"{path} {digest}" for path, digest in sorted(found.items())]


def _cuda_headers() -> tuple[str, ...]:
    """The installed ones of the folders of CUDA's and CCCL's headers."""
    try:
        from cuda import pathfinder
    except ImportError:
        return ()
    found = (pathfinder.find_nvidia_header_directory(name) for name in _CUDA_HEADERS)
    return tuple(folder for folder in found if folder)


def _nvrtc() -> Any:
    """NVRTC's bindings. Raises `CompileError` if NVRTC is missing."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library
        return nvrtc
    except (ImportError, RuntimeError, OSError):
        raise CompileError(
            "C++ sources need NVRTC, which is not on this machine",
            help=f"{pip_install('nvidia-cuda-nvrtc')}, or install a CUDA toolkit and set CUDA_HOME; or link the output of nvcc",
        ) from None


def _linker_takes_lto() -> bool:
    """Whether nvJitLink is not older than NVRTC, and can therefore read its LTO-IR."""
    try:
        from cuda.bindings import nvjitlink

        return bool(tuple(nvjitlink.version()) >= tuple(_nvrtc().nvrtcVersion()[1:]))
    except (ImportError, RuntimeError, OSError):
        return False


def _identity() -> str:
    """Identifies NVRTC and nvJitLink, without loading them if their files are in a usual place."""
    files = [library_file(name) for name in ("nvrtc", "nvJitLink")]
    return " ".join(map(stamp, filter(None, files))) if all(files) else f"{_nvrtc().nvrtcVersion()} {files}"


__all__ = ["cuda_source"]
