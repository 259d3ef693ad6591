"""CUDA C++ as an item of `link=`: NVRTC compiles it for the target of the kernel that it is linked to.

    source = device.cuda_source('extern "C" __device__ float twice(float x) { return S * x; }', define={"S": 2})
    source.compiled(parse("sm_90"), [twice])       LTO-IR, or a relocatable cubin if the linker is older than NVRTC

NVRTC's output is cached on disk. The key consists of the text, the options, the architecture, the version of NVRTC, the
modification times of the folders of CUDA's own headers, and the contents of all other headers that the text may include. They
are found without a preprocessor, so they include headers in branches that are not taken. The output for a text with an
`#include` of a macro is not cached.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuda_device import CompileError, Extern
from cuda_device.extend import Location, dataclass, disk, sha256, toolkit
from cuda_device.plugins.cpp import type_checks

_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".hpp", ".h")  # of C++ files

_STANDARD = r"c\+\+(?:03|11|14|17|20|23)"
_NAME = r"[A-Za-z_]\w*"
# The packages of header folders, by cuda-pathfinder's names of the folders.
_CUDA_HEADERS = {"cudart": "nvidia-cuda-runtime", "cccl": "nvidia-cuda-cccl"}
_OUR_HEADERS = os.path.join(os.path.dirname(__file__), "include")
_INCLUDE = r'(?:#\s*include\s*|__has_include\s*\(\s*)(?:<(?P<angle>[^>\n]+)>|"(?P<quoted>[^"\n]+)")'
_COMPUTED = r'#\s*include\s+[^<"\s]|__has_include\s*\(\s*[^<"\s]'
_ERROR = r"(?m)^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?:catastrophic )?error[^:]*: (?P<reason>.*)"
_NO_HEADER = r'(?:cannot|could not) open source file "([^"]+)"'


@dataclass(frozen=True, slots=True)
class CudaSource:
    """CUDA C++ source. `name` is its name in messages; if `text` is None, it is the path of a file."""

    text: str | None
    name: str
    include: tuple[str, ...] = ()
    define: tuple[tuple[str, str | None], ...] = ()
    std: str = "c++17"

    def compiled(self, architecture: object, stubs: Sequence[Extern]) -> bytes:
        """The text as LTO-IR or a relocatable cubin, with what the stubs that it defines add to it.

        Raises `CompileError` if the file cannot be read or NVRTC rejects the text.
        """
        plain = self.read_text()
        more = type_checks.additions(stubs, plain, checked=self.std != "c++03")  # which has no static_assert
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

    def read_text(self) -> str:
        """The text. Raises `CompileError` if the file cannot be read."""
        if self.text is not None:
            return self.text
        try:
            return Path(self.name).read_bytes().decode()
        except OSError as error:
            raise CompileError(
                f"link={self.name!r} cannot be read: {error.strerror}", help="pass the path of a file, or C++ as text"
            ) from None
        except UnicodeDecodeError as error:
            raise CompileError(f"{self.name} is not C++ in UTF-8: {error}", help="save the file as UTF-8") from None

    def _compile(self, text: str, options: Mapping[str, Any], architecture: object) -> bytes:
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

    def _refused(self, text: str, log: str, architecture: object) -> CompileError:
        """The error for NVRTC's messages."""
        log = log.replace("At end of source:", f"{self.name}({len(text.splitlines())}):")
        first = re.search(_ERROR, log)
        problem = f"NVRTC cannot compile {self.name} for {architecture}"
        if first is None:
            version = ".".join(map(str, _nvrtc().nvrtcVersion()[1:]))
            return CompileError(
                f"{problem}: {log}", help=f"this is NVRTC {version}: install another nvidia-cuda-nvrtc, or link PTX"
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
        linecache.checkcache(first["file"])  # which may have changed since an earlier error
        if self.text is not None:  # for the excerpt in the message
            linecache.cache[self.name] = len(text), None, text.splitlines(keepends=True), self.name
        whole = "\n".join(f"    {line}".rstrip() for line in log.splitlines())
        return CompileError(f"{problem}: {first['reason']}\n{whole}", Location(first["file"], int(first["line"])), help)


def source_of(path: str) -> CudaSource:
    """The source in a file that `link=` names, without any options."""
    return CudaSource(None, path)


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


def folders_of(include: Any, caller: str) -> tuple[str, ...]:
    """The folders of the argument `include`. Raises `TypeError` for anything else."""
    try:
        return tuple(map(os.fspath, (include,) if isinstance(include, (str, os.PathLike)) else include))
    except TypeError:
        raise TypeError(f"{caller}(include=…) takes a folder of headers, or several, not {include!r}") from None


def _headers(text: str, folders: Iterable[str]) -> list[str] | None:
    """Paths and hashes of the headers in these folders that a text may include; None if a macro names one."""
    digests: dict[str, str] = {}
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
                if path in digests or not os.path.isfile(path):
                    digests.setdefault(path, "")  # a file there would change the result
                    if digests[path]:
                        break
                    continue
                with open(path, encoding="utf-8", errors="replace") as file:
                    content = file.read()
                digests[path] = sha256(content.encode()).hexdigest()
                todo.append((content, os.path.dirname(path)))
                break
    return [f"{path} {digest}" for path, digest in sorted(digests.items())]


def _cuda_headers() -> tuple[str, ...]:
    """The installed ones of the folders of CUDA's and CCCL's headers."""
    try:
        from cuda import pathfinder
    except ImportError:
        return ()
    folders = (pathfinder.find_nvidia_header_directory(name) for name in _CUDA_HEADERS)
    return tuple(folder for folder in folders if folder)


def _nvrtc() -> Any:
    """NVRTC's bindings. Raises `CompileError` if NVRTC is missing."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library
        return nvrtc
    except (ImportError, RuntimeError, OSError):
        raise CompileError(
            "C++ sources need NVRTC, which is not on this machine",
            help=f"{toolkit.pip_install('nvidia-cuda-nvrtc')}, or install a CUDA toolkit and set CUDA_HOME; or link the "
            "output of nvcc",
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
    files = [toolkit.library_file(name) for name in ("nvrtc", "nvJitLink")]
    return " ".join(map(toolkit.stamp, filter(None, files))) if all(files) else f"{_nvrtc().nvrtcVersion()} {files}"
