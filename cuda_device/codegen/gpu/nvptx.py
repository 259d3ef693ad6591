"""Compiles the text of LLVM IR to PTX with LLVM's NVPTX target.

    parse(ir)  ->  link_libdevice(module, {"__nv_expf"})  ->  optimise(module, sm_90)  ->  emit(module, sm_90)
    Ptx(text=".version 8.8 .target sm_90 ...", architecture=sm_90); its entries: ("saxpy",)

The optimiser is created with the NVPTX target machine. Without it, LLVM would assume that threads never diverge, and move and
duplicate barriers and shuffles. Divisions and square roots are correctly rounded unless the IR says otherwise. Flushing denormals
needs two marks: `FLUSH_DENORMALS_FLAG` in `!llvm.module.flags` for libdevice, and `FLUSH_DENORMALS_ATTRIBUTE` on each kernel for
plain arithmetic.

An error that LLVM reports is a `CompilerBug`. Some IR makes LLVM end the process, and must not be generated: operations that a
target does not have, such as clusters on sm_80, and operations that fail an assertion (LLVM 22: a fence of scope "singlethread",
a sequentially consistent load of 128 bits, an atomic load in a kernel with a `noalias` parameter).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from cuda_device.codegen import cpp_signatures, llvm
from cuda_device.codegen.gpu import peephole
from cuda_device.codegen.gpu.assemblers import Input
from cuda_device.codegen.llvm import LlvmModule, Machine
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.architectures import DATA_LAYOUT, TRIPLE, Architecture

# Without a data layout the parser gives a load of 64 bits without `align` an alignment of 4. It is all on the first
# line, so that the lines of LLVM's messages are those of the text that follows.
_HEADER = f'target triple = "{TRIPLE}" target datalayout = "{DATA_LAYOUT}" '

# The machine that bitcode names. A GPU's layout is little-endian, and has pointers of 64 bits and no mangling of names.
_TRIPLE_LINE = re.compile(r'^target triple = "(.*)"', re.M)
_LAYOUT_LINE = re.compile(r'^target datalayout = "(.*)"', re.M)
_GPU_LAYOUT = re.compile(r"e(?!.*-(?:m:|p:(?!64)))")
_TWICE = re.compile(r"Linking globals named '([^']+)': symbol multiply")
_CALL_NUMBER = re.compile(r"[ \t]*// callseq .*")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_UNRESOLVED = re.compile(r"^\.extern \.func .*?(__nv\w+)", re.M)


@dataclass(frozen=True, slots=True)
class Ptx:
    """A module in PTX."""

    text: str
    architecture: Architecture

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the kernels, as the assembler sees them."""
        return tuple(_ENTRY.findall(self.text))


def parse(ir: str) -> LlvmModule:
    """The module of this IR text, verified. The triple and the data layout may be left out."""
    return llvm.parse(ir, _HEADER)


def link_libdevice(module: LlvmModule, functions: Iterable[str]) -> None:
    """Adds these functions of libdevice, and what they need, to the module. None of them is visible outside of it."""
    names = frozenset(functions)
    if not names:
        return
    from cuda_device.codegen.gpu import libdevice

    extract = libdevice.extract(names)
    try:
        module.link(_HEADER + extract.text)
    except RuntimeError as error:
        raise CompilerBug(f"linking {', '.join(sorted(names))} of libdevice failed: {error}") from None
    module.hide(extract.functions)  # of which the linker took only what is called


def link_bitcode(module: LlvmModule, item: Input, is_all: bool) -> None:
    """Adds linked bitcode, such as clang's for CUDA, to the module; if it `is_all` that defines its functions, they are hidden.

    Raises `CompileError` for what LLVM cannot read, for another machine's bitcode, and for functions that are defined twice.
    """
    try:
        theirs = llvm.read_bitcode(item.data)
        theirs.verify()
    except RuntimeError as error:
        raise CompileError(
            f"{item.name} is not bitcode that LLVM can read: {str(error).strip()}",
            help="generate it with LLVM 22 or older, or link PTX",
        ) from None
    text = str(theirs)
    triple, layout = (found[1] if (found := line.search(text)) else "" for line in (_TRIPLE_LINE, _LAYOUT_LINE))
    if (triple and not triple.startswith("nvptx64")) or (layout and not _GPU_LAYOUT.match(layout)):
        raise CompileError(
            f"{item.name} is bitcode for {triple or f'the data layout {layout}'}, not for a GPU of 64 bits",
            help="generate it for nvptx64-nvidia-cuda",
        )
    text = cpp_signatures.wrapped(_LAYOUT_LINE.sub("", _TRIPLE_LINE.sub("", text)), str(module))
    try:
        module.link(_HEADER + text)
    except RuntimeError as error:
        twice = _TWICE.search(str(error))
        reason = f"{twice[1]} is defined twice, in the program and in {item.name}" if twice else f"{item.name}: {error}"
        raise CompileError(reason, help="link only one of them" if twice else "link PTX") from None
    link_libdevice(module, (each for each in module.declared() if each.startswith("__nv_")))
    if is_all:
        module.hide(name + end for name in theirs.defined() for end in ("", cpp_signatures.BEHIND))


def optimise(module: LlvmModule, architecture: Architecture, level: int = 3) -> None:
    """Runs LLVM's optimiser at this level, 0 to 3, knowing the target."""
    # Pairs of 16-bit floats become one operation: a GPU has next to no other vectors.
    llvm.optimise(module, _machine(architecture, level), level, SLPVectorization=level >= 2)


def emit(module: LlvmModule, architecture: Architecture, level: int = 3, reduce: bool = True) -> Ptx:
    """Writes the module as PTX. Generating code changes the module: print it before.

    `reduce` says whether LLVM reduces the strength of loops (see `optimise/loop_addresses`).
    """
    return Ptx(peephole.avoid_faults(peephole.run(_write(module, architecture, level, reduce))), architecture)


def _write(module: LlvmModule, architecture: Architecture, level: int, reduce: bool) -> str:
    """What LLVM makes of a module."""
    try:
        text = _machine(architecture, level).assembly(module, reduce)
    except RuntimeError as error:
        raise CompilerBug(f"LLVM cannot write PTX for {architecture}: {error}") from None
    if ".extern" in text and (missing := set(_UNRESOLVED.findall(text))):
        raise CompilerBug(f"the PTX calls {', '.join(sorted(missing))}, which was not asked of libdevice")
    # LLVM numbers calls through the whole process, in comments: the same program has to give the same text.
    return _CALL_NUMBER.sub("", text) if "callseq" in text else text


@cache
def _machine(architecture: Architecture, level: int) -> Machine:
    """LLVM's target machine, made once for all kernels."""
    with llvm.LOCK:
        _initialise()
        return Machine(TRIPLE, architecture.name, architecture.ptx.feature, level)


@cache
def _initialise() -> None:
    api = llvm.load()
    api.InitializeAllTargetInfos()
    api.InitializeAllTargets()
    api.InitializeAllTargetMCs()
    api.InitializeAllAsmPrinters()
