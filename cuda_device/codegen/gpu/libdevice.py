"""Extracts from libdevice, NVIDIA's library of mathematical functions in LLVM bitcode, the functions that a kernel calls.

Linking all of its 352 functions into each kernel would take 50 ms. The file is therefore parsed once in a process, when a symbol
is first needed that is not in the store. Single symbols are then printed from it, cleaned and stored:

    extract({"__nv_sinf"})  ->  Extract(text of __nv_sinf and of the tables that it reads, functions=("__nv_sinf",))

libdevice queries the options of its compilation with `__nvvm_reflect`. LLVM replaces `__CUDA_ARCH` by the number of the target
machine, `__CUDA_FTZ` by the module flag "nvvm-reflect-ftz", and every other name by 0. The only other name is
`__CUDA_PREC_SQRT`, for which 0 would make `__nv_sqrtf` and others approximate, so this module replaces it by 1 when it prints a
function.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cuda_device.cache import disk, sha256
from cuda_device.codegen.gpu import assemblers
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from cuda_device.codegen.llvm import LlvmModule

# The queries that are answered here; LLVM answers all others.
REFLECTED: Mapping[str, int] = {"__CUDA_PREC_SQRT": 1}

_REFLECT = "@__nvvm_reflect"
_SYMBOL = re.compile(r"@[\w.$]+|%struct\.[\w.$]+")
_DEFINITION = re.compile(r"^define (?:internal )?(?P<signature>[^@]+ @.*\)) #\d+ \{$", re.M)
_ATTRIBUTES = re.compile(r"^; Function Attrs: (?P<attributes>.*)$", re.M)
_CALL_ATTRIBUTES = re.compile(r"\) #\d+(?=,|$)", re.M)
_LOOP_METADATA = re.compile(r", !llvm\.loop !\d+")
_METADATA = re.compile(r", !(?!llvm\.loop !0\b)[\w.]+ !\d+")
_REFLECT_CALL = re.compile(r"= call i32 @__nvvm_reflect\(ptr (@[\w.]+)\)(?: #\d+)?")

# The only metadata of an extract: the loop is not unrolled.
_KEEP_LOOP = ", !llvm.loop !0"
_KEEP_LOOP_METADATA = '!0 = distinct !{!0, !1}\n!1 = !{!"llvm.loop.unroll.disable"}\n'


@dataclass(frozen=True, slots=True)
class Extract:
    """A piece of libdevice: LLVM IR text without a triple, and the names of the functions that it defines."""

    text: str
    functions: tuple[str, ...]


class LibdeviceIndex:
    """The libdevice at `path`, whose symbols are printed on demand.

    The cache on disk keeps printed symbols. If it has all that a kernel needs, the library is not parsed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._symbols: dict[str, str] = {}
        self._globals: dict[str, str] | None = None
        self._module: LlvmModule | None = None
        self._hash = ""
        self._lock = threading.RLock()

    def extract(self, names: Iterable[str]) -> Extract:
        """The functions called `names` and all that they need. Raises `CompilerBug` for a name that does not exist."""
        with self._lock:
            found: dict[str, str] = {}
            wanted = [f"@{name}" for name in sorted(names)]
            while wanted:
                symbol = wanted.pop()
                if symbol in found or symbol.startswith("@llvm."):  # LLVM declares its intrinsics itself
                    continue
                found[symbol] = text = self._symbol(symbol)
                wanted += set(_SYMBOL.findall(text))
        functions = tuple(symbol[1:] for symbol, text in found.items() if text.startswith("define"))
        text = "\n".join(found[symbol] for symbol in sorted(found))
        return Extract(f"{text}\n{_KEEP_LOOP_METADATA}", tuple(sorted(functions)))

    def content_hash(self) -> str:
        """A hash of the file, for cache keys."""
        with self._lock:
            if not self._hash:
                self._hash = sha256(self.path.read_bytes()).hexdigest()[:32]
            return self._hash

    def _symbol(self, symbol: str) -> str:
        """The cleaned text of one symbol, from memory, the cache, or the library."""
        text = self._symbols.get(symbol)
        if text is None:
            key = f"libdevice {self.content_hash()} {symbol}"
            text = self._symbols[symbol] = disk.loaded(key, lambda: self._print(symbol).encode(), bytes.decode)
        return text

    def _print(self, symbol: str) -> str:
        """Prints a function, a global variable or a structure type of the library."""
        if symbol == _REFLECT:
            return f"declare i32 {_REFLECT}(ptr)"
        text = self._other_symbols().get(symbol)
        if text is not None:
            return text
        assert self._module is not None
        try:
            return self._clean(self._module.function(symbol[1:]))
        except NameError:
            raise CompilerBug(f"libdevice ({self.path}) has no {symbol}") from None

    def _other_symbols(self) -> dict[str, str]:
        """The few global variables and types. Parses the library."""
        from cuda_device.codegen import llvm

        if self._globals is None:
            self._module = llvm.read_bitcode(self.path.read_bytes())
            self._globals = {f"@{name}": text.strip() for name, text in self._module.variables().items()}
            self._globals |= {f"%{name}": text.strip() for name, text in self._module.structures().items()}
        return self._globals

    def _clean(self, text: str) -> str:
        """Removes references to attribute groups and metadata, which were not printed with the function.

            define float @__nv_sinf(float %a) #0 {         ->  define linkonce_odr float @__nv_sinf(float %a) nounwind {
            %2 = call i32 @__nvvm_reflect(ptr @.str.2) #7  ->  %2 = add i32 0, 1

        `linkonce_odr` makes the function visible to the linker; it becomes internal after linking. Inline assembly without
        `sideeffect` gets its `memory(none)` back. Loops in helpers that are not inlined are not unrolled.
        """
        attributes = _ATTRIBUTES.search(text)
        if not attributes or len(_DEFINITION.findall(text)) != 1:
            raise CompilerBug(f"libdevice ({self.path}) has a function of an unforeseen form:\n{text[:400]}")
        text = text[attributes.end() + 1 :]
        text = _DEFINITION.sub(rf"define linkonce_odr \g<signature> {attributes['attributes']} {{", text)
        text = _REFLECT_CALL.sub(self._answer, text)
        if "noinline" in attributes["attributes"]:
            text = _LOOP_METADATA.sub(_KEEP_LOOP, text)
        text = _METADATA.sub("", _CALL_ATTRIBUTES.sub(")", text))
        return "\n".join(_pure(line) for line in text.rstrip().splitlines())

    def _answer(self, call: re.Match[str]) -> str:
        """The constant that replaces a call of `__nvvm_reflect`, or the call itself."""
        for name, value in REFLECTED.items():
            if f'c"{name}\\00"' in self._other_symbols()[call[1]]:
                return f"= add i32 0, {value}"
        return f"= call i32 {_REFLECT}(ptr {call[1]})"


def _pure(line: str) -> str:
    """Marks a line of inline assembly without side effects as `memory(none)`."""
    return f"{line} nounwind memory(none)" if " asm " in line and " asm sideeffect " not in line else line


@cache
def library() -> LibdeviceIndex:
    """The libdevice of this machine. Raises `CompileError` if it is missing."""
    return LibdeviceIndex(file())


def extract(names: Iterable[str]) -> Extract:
    """The functions called `names` of this machine's libdevice, and all that they need."""
    return library().extract(names)


def types_of(name: str) -> tuple[str, ...] | None:
    """LLVM's types of a function's result and parameters; None if libdevice does not have it."""
    try:
        text = extract((name,)).text
    except CompilerBug:
        return None
    head = re.search(rf"(?m)^define .*?(\w+) @{name}\((.*?)\)", text)
    return (head[1], *(each.split()[0] for each in head[2].split(", ") if each)) if head else None


def content_hash() -> str:
    """A hash of this machine's libdevice, for cache keys."""
    return library().content_hash()


def file() -> Path:
    """The path of libdevice. Raises `CompileError` if it is missing."""
    found = assemblers.find("nvidia/cu13/nvvm/libdevice/libdevice.10.bc", "nvvm/libdevice/libdevice.10.bc")
    if found:
        return Path(found)
    try:
        from cuda.pathfinder import find_bitcode_lib

        return Path(find_bitcode_lib("device"))
    except (ImportError, RuntimeError, OSError) as error:
        reason = "this kernel uses mathematical functions of libdevice, which is not on this machine"
        help = "pip install 'cuda-device[cu13]', or install a CUDA toolkit and set CUDA_HOME"
        raise CompileError(reason, help=help) from error
