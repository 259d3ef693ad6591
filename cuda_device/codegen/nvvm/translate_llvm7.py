"""Our LLVM IR in the language of LLVM 7, which libNVVM reads for GPUs below compute capability 10.0.

    %v9 = getelementptr inbounds nuw float, ptr addrspace(1) %v1, i64 %v8
    %v10 = load float, ptr addrspace(1) %v9, align 4
                                                →   %v9.1 = bitcast i8 addrspace(1)* %v1 to float addrspace(1)*
                                                    %v9.2 = getelementptr inbounds float, float addrspace(1)* %v9.1, i64 %v8
                                                    %v9 = bitcast float addrspace(1)* %v9.2 to i8 addrspace(1)*
                                                    %v10.1 = bitcast i8 addrspace(1)* %v9 to float addrspace(1)*
                                                    %v10 = load float, float addrspace(1)* %v10.1, align 4

Pointers had types then: here all are `i8*`, and become others where they are used. Kernels were marked by metadata. Of what LLVM
has learned since, atomics with scopes and saturating conversions become inline PTX, and bfloat an integer.

Rules are for lines as `to_llvm` and its dialect write them, one instruction a line; what matches none passes as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cuda_device.codegen.emit.to_llvm import Llvm
from cuda_device.codegen.gpu import libdevice
from cuda_device.codegen.nvvm import llvm7_rules
from cuda_device.codegen.nvvm.llvm7_rules import TYPE, FunctionNames, Rule, alignments, in_memory, pointers, split
from cuda_device.device.options import Options
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types.architectures import Architecture

_LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-"
    "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
_PRESENT_LAYOUT = (
    "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-"
    "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
)
_VERSION = "!nvvmir.version = !{!900000000}\n!900000000 = !{i32 2, i32 0, i32 3, i32 2}\n"
"""What every module says for libNVVM: version 2.0 of its IR."""


def marked(text: str) -> str:
    """A module in LLVM's present language, as libNVVM takes it for newer GPUs."""
    kernels = re.findall(r"^define .*\bptx_kernel .*?@([\w.]+)\(", text, re.M)
    text = re.sub(r'^target datalayout = ".*"$', f'target datalayout = "{_PRESENT_LAYOUT}"', text, flags=re.M)
    scope = FunctionNames()
    lines = [changed for line in text.splitlines() for changed in _in_oldest(scope, line)]
    return (
        "\n".join([*lines, *sorted(scope.declarations), ""])
        + _kept("ptr", [f"ptr @{name}" for name in kernels])
        + _VERSION
    )


def _in_oldest(scope: FunctionNames, line: str) -> list[str]:
    """A line in LLVM's present language, so that CUDA 13.0 reads it, too: instructions of PTX, if need be."""
    for pattern, rule in (llvm7_rules.NEWEST, llvm7_rules.SCOPED):
        if match := pattern.fullmatch(line.partition(", !")[0]):  # without metadata, which was for another instruction
            return rule(scope, match)
    return [line]


def _kept(pointer: str, functions: list[str]) -> str:
    """Keeps kernels, which nobody calls: a linker that optimises would drop them."""
    if not functions:
        return ""
    listed = f"[{len(functions)} x {pointer}] [{', '.join(functions)}]"
    return f'@llvm.used = appending global {listed}, section "llvm.metadata"\n'


def translate(text: str) -> str:
    """The module in the language of LLVM 7. Raises `CompileError` for what that cannot say."""
    module = _Module(globals=_globals(text))
    lines = [translated for line in text.splitlines() for translated in module.line(line)]
    declared = "".join(f"{line}\n" for line in sorted(module.declarations))
    kept = _kept("i8*", [f"i8* bitcast ({kernel} to i8*)" for kernel in module.kernels])
    return "\n".join(lines) + f"\n{declared}{kept}{module.annotations()}{_VERSION}"


_GLOBAL = re.compile(
    rf"^(@[\w.]+) = .*?(?:addrspace\((\d+)\) )?(?:externally_initialized )?(?:global|constant) ({TYPE})"
)


def _globals(text: str) -> dict[str, tuple[str, str]]:
    """The variables of a module: name → address space in words, type."""
    found = {}
    for line in text.splitlines():
        if match := _GLOBAL.match(line):
            found[match[1]] = f" addrspace({match[2]})" if match[2] else "", match[3]
    return found


# By what lines look like: what they become.
_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    *llvm7_rules.BFLOAT_RULES,
    *llvm7_rules.RULES,
    *llvm7_rules.CALL_RULES,
)


@dataclass(slots=True)
class _Module(FunctionNames):
    """The state of a translation: variables with their space and type, what metadata will say, how the next block begins."""

    globals: dict[str, tuple[str, str]] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    opening: list[str] = field(default_factory=list)

    def annotations(self) -> str:
        """The metadata that says which functions are kernels, and what holds for them."""
        if not self.marks:
            return ""
        numbered = list(enumerate(self.marks, 900000001))
        listed = ", ".join(f"!{number}" for number, _ in numbered)
        return f"!nvvm.annotations = !{{{listed}}}\n" + "".join(f"!{number} = {mark}\n" for number, mark in numbered)

    def line(self, line: str) -> list[str]:
        """What one line becomes."""
        if line.startswith("target datalayout"):
            return [f'target datalayout = "{_LAYOUT}"']
        if line.startswith("!"):
            return []
        line = _plain(line)
        if line.startswith("declare"):
            return [] if "@llvm." in line else [self.declaration(line)]
        if line.startswith("define"):
            return self.definition(line)
        if self.opening and line.endswith(":"):
            opening, self.opening = self.opening, []
            return [line, *opening]
        for pattern, rule in _RULES:
            if match := pattern.fullmatch(line):
                return [self.typed(each) for each in rule(self, match)]
        return [self.typed(line)]

    def typed(self, line: str) -> str:
        """The line with typed pointers; a variable is one of its own type, as a byte's."""

        def cast(match: re.Match[str]) -> str:
            found = self.globals.get(match[2])
            if found is None:
                return match[0]
            space, type = found
            return f"{match[1]} bitcast ({type}{space}* {match[2]} to {match[1]})"

        return re.sub(r"(i8(?: addrspace\(\d+\))?\*) (@[\w.]+)(?!\()", cast, pointers(line))

    def declaration(self, line: str) -> str:
        """A function that is defined elsewhere."""
        head, name, parameters, rest = _DECLARE.fullmatch(line).groups()  # type: ignore[union-attr]
        types = [self.typed(in_memory(parameter)) for parameter in split(parameters)]
        aligned, types = alignments([head, *types])
        result = self.typed(types[0])
        self.mark(result.removeprefix("declare").strip(), types[1:], name, [("align", each) for each in aligned])
        return f"{result}@{name}({', '.join(types[1:])}){rest}"

    def mark(self, result: str, types: Iterable[str], name: str, facts: Iterable[tuple[str, int]]) -> None:
        """Notes what metadata says of a function."""
        plain = (re.sub(r" (byval|align) .*", "", each) for each in types)
        signature = f"{result} ({', '.join(plain)})* @{name}"
        for key, value in facts:
            self.marks.append(f'!{{{signature}, !"{key}", i32 {value}}}')
            self.kernels += [signature] if key == "kernel" else []

    def definition(self, line: str) -> list[str]:
        """The head of a function. Parameters in memory get their type, and are named as bytes in the first block."""
        head, name, parameters, attributes = _DEFINE.fullmatch(line).groups()  # type: ignore[union-attr]
        casts, listed = [], []
        for parameter in split(parameters):
            shown, by_value = parameter, _BY_VALUE.fullmatch(parameter)
            if by_value and "ptx_kernel " not in head:
                lines, shown = _taken(int(by_value["size"]), int(by_value["align"]), by_value["name"])
                casts += lines
            elif by_value:
                type, register = by_value["type"], by_value["name"]
                casts.append(f"  {register} = bitcast {type}* {register}.in to i8*")
                shown = f"{in_memory(parameter)}.in"
            listed.append(self.typed(shown))
        aligned, (result, *listed) = alignments([head.replace("ptx_kernel ", ""), *listed])
        result = self.typed(result)
        facts = [("align", each) for each in aligned] + _facts("ptx_kernel " in head, attributes)
        returned = re.sub(r"^define (internal )?", "", result).strip()
        self.mark(returned, (each.rsplit(" ", 1)[0] for each in listed), name, facts)
        self.opening = casts
        plain = re.sub(r' "[\w.-]+"="[^"]*"', "", attributes)
        return [f"{result}@{name}({', '.join(listed)}){plain} {{"]


_DECLARE = re.compile(r"(declare .*?)@([\w.]+)\((.*)\)([^()]*)")
_DEFINE = re.compile(r"(define .*?)@([\w.]+)\((.*)\)([^()]*) \{")


_BY_VALUE = re.compile(r"ptr byval\((?P<type>\[(?P<size>\d+) x i8\])\) align (?P<align>\d+) (?P<name>%[\w.]+)")


def _taken(size: int, align: int, register: str) -> tuple[list[str], str]:
    """A function's parameter that is passed as a copy, and the lines that bring it to memory.

    Not `byval`, whose copies libNVVM aligns to 4 at least where C++ aligns them as their type: it takes the words instead.
    """
    width = min(align, 8)
    words = f"[{size // width} x i{8 * width}]"
    lines = [
        f"  {register}.memory = alloca {words}, align {align}",
        f"  store {words} {register}.in, {words}* {register}.memory, align {align}",
        f"  {register} = bitcast {words}* {register}.memory to i8*",
    ]
    return lines, f"{words} alignstack({align}) {register}.in"


def _facts(kernel: bool, attributes: str) -> list[tuple[str, int]]:
    """What metadata says of a function, as keys and values."""
    facts = [("kernel", 1)] if kernel else []
    for key, value in re.findall(r'"nvvm\.(\w+)"="([\d,]+)"', attributes):
        numbers = [int(each) for each in value.split(",")]
        names = {"maxntid": ["maxntidx", "maxntidy", "maxntidz"], "minctasm": ["minctasm"], "maxnreg": ["maxnreg"]}[key]
        facts += zip(names, numbers, strict=False)
    return facts


_NEWER = (
    (re.compile(r", ![\w.]+ ![\w{}]+.*$"), ""),  # metadata of instructions
    (re.compile(r"^(define .*) !dbg !\d+ \{"), r"\1 {"),
    (re.compile(r"\bpoison\b"), "undef"),
    (re.compile(r"\b(zext|uitofp) nneg "), r"\1 "),
    (re.compile(r"\b(or) disjoint "), r"\1 "),
    (re.compile(r"\b(trunc) (?:nuw |nsw )+"), r"\1 "),
    (re.compile(r"\bgetelementptr( inbounds)?(?: nuw| nusw)+ "), r"getelementptr\1 "),
    (re.compile(r"\brange\(i\d+ -?\d+, -?\d+\) "), ""),
    (re.compile(r" captures\(none\)"), ""),
)


def _plain(line: str) -> str:
    """The line without what says no more than how it may be optimised."""
    for pattern, replacement in _NEWER:
        line = pattern.sub(replacement, line)
    return line


# LTO-IR: what libNVVM makes of LLVM IR for nvJitLink, which inlines it into CUDA C++, and CUDA C++ into it, when it links.
#
# make(llvm, parse("sm_90"), Options())  ->  bytes that begin with b"\\xedCN\\x7f"
#
# libNVVM has two languages: for compute capability 10.0 and up LLVM's present one, below that the one of LLVM 7.


# The first architecture for which libNVVM reads LLVM's present language.
_MODERN = 100
MAGIC = b"\xedCN\x7f"


def make(llvm: Llvm, architecture: Architecture, options: Options) -> bytes:
    """The LTO-IR of a module. Raises `CompileError` where libNVVM is missing, or cannot say what the module says."""
    try:
        from cuda.bindings import nvvm

        nvvm.version()
    except (ImportError, RuntimeError) as error:
        raise CompileError(
            "LTO-IR is made by libNVVM, which is not on this machine",
            help="pip install cuda_device[cu13], or install a CUDA toolkit and set CUDA_HOME",
        ) from error
    text = marked(llvm.text) if architecture.number >= _MODERN else translate(llvm.text)
    program = nvvm.create_program()
    try:
        data = text.encode()
        nvvm.add_module_to_program(program, data, len(data), "cuda_device")
        if llvm.library:
            library = libdevice.file().read_bytes()
            nvvm.lazy_add_module_to_program(program, library, len(library), "libdevice")
        words = _options(architecture, options)
        try:
            nvvm.compile_program(program, len(words), words)
        except nvvm.nvvmError as error:
            raise CompilerBug(f"libNVVM refuses the module: {_log(program)}") from error
        code = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, code)
        return bytes(code)
    finally:
        nvvm.destroy_program(program)


def _options(architecture: Architecture, options: Options) -> list[str]:
    approximate = "afn" in options.fastmath
    return [
        f"-arch={architecture.name.replace('sm_', 'compute_')}",
        "-gen-lto",
        f"-opt={3 if options.level else 0}",
        f"-fma={int(options.contract)}",
        f"-ftz={int('ftz' in options.fastmath)}",
        f"-prec-div={int(not approximate)}",
        f"-prec-sqrt={int(not approximate)}",
    ]


def _log(program: int) -> str:
    from cuda.bindings import nvvm

    log = bytearray(nvvm.get_program_log_size(program))
    nvvm.get_program_log(program, log)
    return log.rstrip(b"\0").decode(errors="replace").strip()
