"""Extracts from libdevice, NVIDIA's library of mathematical functions in LLVM bitcode, the functions that a kernel calls.

    extract({"__nv_sinf"})      the text of __nv_sinf and of the tables that it reads

Linking all of its 352 functions into each kernel would take 50 ms, and printing them as text takes as long. The text of each
symbol is therefore cached on disk. For symbols that are not there, a process reads the library, which takes 25 ms, and drops the
other functions before it prints it.

libdevice queries the options of its compilation with `__nvvm_reflect`. LLVM replaces `__CUDA_ARCH` by the number of the target
machine, `__CUDA_FTZ` by the module flag "nvvm-reflect-ftz", and every other name by 0. The only other name is
`__CUDA_PREC_SQRT`, for which 0 would make `__nv_sqrtf` and others approximate, so `_definitions` replaces these queries by 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from cuda_device.cache import disk, sha256
from cuda_device.codegen.gpu import toolkit
from cuda_device.errors import CompileError, CompilerBug

_SYMBOL = re.compile(r"@[\w.]+|%struct\.\w+")
_DEFINITION = re.compile(r"^(?:([@%][\w.]+) = .*|declare .*?(@\w+)\(.*|define [^@]*(@\w+)\((?s:.*?)^\})$", re.M)
_ATTRIBUTES = re.compile(r'^attributes (#\d+) = \{ ([^"}]*)', re.M)
_PRECISE_SQRT = re.compile(r'^(@[\w.]+) = .* c"__CUDA_PREC_SQRT\\00"', re.M)
# The only metadata of an extract: a loop is not unrolled.
_ROLLED = '!0 = distinct !{!0, !1}\n!1 = !{!"llvm.loop.unroll.disable"}\n'


def extract(names: Iterable[str]) -> str:
    """The LLVM IR of the functions called `names` and of all that they need. Raises `CompilerBug` for a name that is missing."""
    texts: dict[str, str] = {}
    roots = frozenset(names)
    pending = [f"@{name}" for name in roots]
    while pending:
        symbol = pending.pop()
        if symbol not in texts and not symbol.startswith("@llvm."):  # LLVM declares its intrinsics itself
            texts[symbol] = _symbol(symbol, roots)
            pending += _SYMBOL.findall(texts[symbol])
    return "\n".join([*(texts[symbol] for symbol in sorted(texts)), _ROLLED])


_TEXTS: dict[str, str] = {}
"""The texts of the symbols that this process has used."""


def _symbol(symbol: str, roots: frozenset[str]) -> str:
    """The text of one symbol, from the cache or the library. It is a function in `roots`, or one of them needs it."""

    def printed() -> bytes:
        definitions = _definitions(roots)
        if symbol not in definitions:
            raise CompilerBug(f"libdevice ({file()}) has no {symbol}")
        return definitions[symbol].encode()

    if symbol not in _TEXTS:
        _TEXTS[symbol] = disk.loaded(f"libdevice {content_hash()} {symbol}", printed, bytes.decode)
    return _TEXTS[symbol]


@cache
def _definitions(roots: frozenset[str]) -> dict[str, str]:
    """The texts of these functions, and of the functions, global variables and structure types that they need.

        define float @__nv_sinf(float %a) #0 {         ->  define linkonce_odr float @__nv_sinf(float %a) nounwind {
        %2 = call i32 @__nvvm_reflect(ptr @.str.2) #7  ->  %2 = add i32 0, 1

    `linkonce_odr` makes the functions visible to the linker; they become internal after linking. Loops are only kept from being
    unrolled in helpers that are not inlined.
    """
    from cuda_device.codegen import llvm

    module = llvm.read_bitcode(file().read_bytes())
    module.drop_all_but(roots)
    text = str(module)
    attributes = dict(_ATTRIBUTES.findall(text))
    for name in _PRECISE_SQRT.findall(text):
        text = re.sub(rf"call i32 @__nvvm_reflect\(ptr {name}\).*", "add i32 0, 1", text)
    text = re.sub(r"#\d+", lambda group: attributes[group[0]].strip(), text)
    text = re.sub(r"(?m)^define (?:internal |dso_local )*", "define linkonce_odr ", text)
    return {match[match.lastindex or 0]: _without_metadata(match[0]) for match in _DEFINITION.finditer(text)}


def _without_metadata(text: str) -> str:
    if " noinline " in text:
        text = re.sub(r", !llvm\.loop !\d+", ", !llvm.loop !0", text)
    return re.sub(r", !(?!llvm\.loop !0\b)[\w.]+ !\d+", "", text)


def types_of(name: str) -> tuple[str, ...] | None:
    """LLVM's types of a function's result and parameters; None if libdevice does not have it."""
    try:
        text = _symbol(f"@{name}", frozenset({name}))
    except CompilerBug:
        return None
    head = re.match(r"define .*?(\w+) @\w+\((.*?)\)", text)
    return (head[1], *(parameter.split()[0] for parameter in head[2].split(", ") if parameter)) if head else None


@cache
def content_hash() -> str:
    """A hash of this machine's libdevice, for cache keys."""
    return sha256(file().read_bytes()).hexdigest()[:32]


def file() -> Path:
    """The path of libdevice. Raises `CompileError` if it is missing."""
    path = toolkit.find("libdevice")
    if path:
        return Path(path)
    try:
        from cuda.pathfinder import find_bitcode_lib

        return Path(find_bitcode_lib("device"))
    except (ImportError, RuntimeError, OSError) as error:
        reason = "this kernel uses mathematical functions of libdevice, which is not on this machine"
        help = f"{toolkit.pip_install()}, or install a CUDA toolkit and set CUDA_HOME"
        raise CompileError(reason, help=help) from error
