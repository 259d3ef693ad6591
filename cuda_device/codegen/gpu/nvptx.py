"""Compiles LLVM IR text to PTX with LLVM's NVPTX target.

    parse(ir)  ->  link_libdevice(module, {"__nv_expf"})  ->  optimise(module, sm_90)  ->  emit(module, sm_90)
    ".version 8.0\n.target sm_90\n…"

The optimiser is created with the NVPTX target machine. Without it, LLVM would assume that threads never diverge, and move and
duplicate barriers and shuffles. Divisions and square roots are correctly rounded unless the IR says otherwise. Flushing denormals
needs two marks: `FLUSH_DENORMALS_FLAG` in `!llvm.module.flags` for libdevice, and `FLUSH_DENORMALS_ATTRIBUTE` on each kernel for
plain arithmetic.

An error that LLVM reports is a `CompilerBug`. Some IR terminates the process, and must not be generated: operations that a target
does not have, such as clusters on sm_80, and operations that fail an assertion (LLVM 22: a fence of scope "singlethread", a
sequentially consistent load of 128 bits, an atomic load in a kernel with a `noalias` parameter). An intrinsic that a program
declares is therefore compiled in another process first, which is this module as a program:

    refusal("float @llvm.nvvm.saturate.f(float)", sm_90)    ""
    refusal("i32 @llvm.nvvm.barrier0(i32)", sm_90)          "LLVM cannot compile it with these types for sm_90"
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from cuda_device.cache import disk
from cuda_device.codegen import bitcode_types, llvm
from cuda_device.codegen.gpu import peephole, ptx_versions
from cuda_device.codegen.llvm import LlvmModule, Machine
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.types import architectures
from cuda_device.types.architectures import DATA_LAYOUT, TRIPLE, Architecture

if TYPE_CHECKING:
    from cuda_device.codegen.gpu.assemblers import Input

# Without a data layout, the parser gives a load of 64 bits without `align` an alignment of 4. The header has no line break, so
# that the line numbers in LLVM's messages are those of the text that follows.
_HEADER = f'target triple = "{TRIPLE}" target datalayout = "{DATA_LAYOUT}" '

# The machine that bitcode names. A GPU's layout is little-endian, and has pointers of 64 bits and no mangling of names.
_TRIPLE_LINE = re.compile(r'^target triple = "(.*)"', re.M)
_LAYOUT_LINE = re.compile(r'^target datalayout = "(.*)"', re.M)
_GPU_LAYOUT = re.compile(r"e(?!.*-(?:m:|p:(?!64)))")
_TWICE = re.compile(r"Linking globals named '([^']+)': symbol multiply")
_DEFINED = re.compile(r'^define [^@]*@("[^"]+"|[\w.$-]+)', re.M)
_DECLARED = re.compile(r"^declare [^@]*@(__nv_\w+)", re.M)
_CALL_NUMBER = re.compile(r"[ \t]*// callseq .*")
_UNRESOLVED = re.compile(r"^\.extern \.func .*?(__nv\w+)", re.M)


def parse(ir: str) -> LlvmModule:
    """The verified module of this IR text, in which the triple and the data layout may be omitted."""
    return llvm.parse(ir, _HEADER)


def link_libdevice(module: LlvmModule, functions: Iterable[str]) -> None:
    """Adds these functions of libdevice, and what they need, to the module as internal functions."""
    names = frozenset(functions)
    if not names:
        return
    from cuda_device.codegen.gpu import libdevice

    text = libdevice.extract(names)
    try:
        module.link(_HEADER + text)
    except RuntimeError as error:
        raise CompilerBug(f"linking {', '.join(sorted(names))} of libdevice failed: {error}") from None
    module.hide(_DEFINED.findall(text))


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
    triple, layout = (match[1] if (match := line.search(text)) else "" for line in (_TRIPLE_LINE, _LAYOUT_LINE))
    if (triple and not triple.startswith("nvptx64")) or (layout and not _GPU_LAYOUT.match(layout)):
        raise CompileError(
            f"{item.name} is bitcode for {triple or f'the data layout {layout}'}, not for a GPU of 64 bits",
            help="generate it for nvptx64-nvidia-cuda",
        )
    text = bitcode_types.wrapped(_LAYOUT_LINE.sub("", _TRIPLE_LINE.sub("", text)), str(module))
    try:
        module.link(_HEADER + text)
    except RuntimeError as error:
        twice = _TWICE.search(str(error))
        reason = f"{twice[1]} is defined twice, in the program and in {item.name}" if twice else f"{item.name}: {error}"
        raise CompileError(reason, help="link only one of them" if twice else "link PTX") from None
    link_libdevice(module, _DECLARED.findall(str(module)))
    if is_all:
        module.hide(name.strip('"') for name in _DEFINED.findall(text))


def optimise(module: LlvmModule, architecture: Architecture, level: int = 3) -> None:
    """Runs LLVM's optimiser for the target at a level from 0 to 3."""
    # SLP vectorisation joins pairs of 16-bit floats, nearly the only vectors that GPUs compute with.
    machine = _machine(architecture, level, ptx_versions.written(architecture))
    llvm.optimise(module, machine, level, SLPVectorization=level >= 2)


def emit(
    module: LlvmModule, architecture: Architecture, level: int = 3, reduce: bool = True, version: int | None = None
) -> str:
    """Writes the module, which it changes, as PTX.

    `reduce` turns LLVM's loop strength reduction on (see `optimise/loop_addresses`). `version` is the newest PTX version of the
    instructions that LLVM uses, times ten, by default `ptx_versions.written`.
    """
    try:
        machine = _machine(architecture, level, version or ptx_versions.written(architecture))
        text = machine.assembly(module, reduce)
    except RuntimeError as error:
        raise CompilerBug(f"LLVM cannot write PTX for {architecture}: {error}") from None
    if ".extern" in text and (missing := set(_UNRESOLVED.findall(text))):
        raise CompilerBug(f"the PTX calls {', '.join(sorted(missing))}, which was not linked from libdevice")
    # LLVM numbers the calls of the whole process in comments; the text must be the same for the same program.
    text = _CALL_NUMBER.sub("", text) if "callseq" in text else text
    return ptx_versions.lowered(peephole.avoid_faults(peephole.apply_peepholes(text)), architecture)


@cache
def _machine(architecture: Architecture, level: int, version: int) -> Machine:
    """LLVM's target machine, which all kernels share."""
    api = llvm.load_llvm()
    with llvm.LOCK:
        api.InitializeAllTargetInfos()
        api.InitializeAllTargets()
        api.InitializeAllTargetMCs()
        api.InitializeAllAsmPrinters()
        return Machine(TRIPLE, architecture.name, f"+ptx{version}", level)


# Intrinsics that programs declare

_UNKNOWN = 3
"""The exit status of the other process if LLVM does not know the intrinsic."""
_BEGUN = b"begun"
"""The output of the other process before it calls LLVM: if it is missing, the exit status says nothing about LLVM."""


def refusal(declared: str, architecture: Architecture) -> str:
    """Why LLVM cannot compile a call of an intrinsic, or "" if it can. Answers are cached on disk."""
    version = str(ptx_versions.written(architecture))

    def tried() -> bytes:
        import subprocess  # which takes a while to import

        path = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-m", "cuda_device.codegen.gpu.nvptx", declared, architecture.name, version]
        process = subprocess.run(command, check=False, capture_output=True, env=os.environ | {"PYTHONPATH": path})
        if process.returncode == _UNKNOWN:
            return b"LLVM has none of this name with parameters and a result of these types"
        died = process.returncode and process.stdout.startswith(_BEGUN)
        return f"LLVM cannot compile it with these types for {architecture}".encode() if died else b""

    if not sys.executable or getattr(sys, "frozen", False):  # Python cannot start another process
        return ""
    return disk.loaded(f"intrinsic {declared} {architecture} {version}", tried, bytes.decode)


def _try(declared: str, architecture: Architecture, version: int) -> int:
    """The exit status of the other process."""
    result, _, rest = declared.partition(" ")
    name, _, types = rest.removesuffix(")").partition("(")
    values = [f"{type} %p{i}" for i, type in enumerate(filter(None, types.split(", ")))]
    call = f"call {result} {name}({', '.join(values)})"
    body = f"{call}\nret void" if result == "void" else f"%r = {call}\nret {result} %r"
    os.write(1, _BEGUN)
    try:
        module = parse(f"declare {declared}\ndefine {result} @f({', '.join(values)}) {{\n{body}\n}}\n")
        return _UNKNOWN * (".extern" in emit(module, architecture, version=version))
    except CompilerBug:
        return _UNKNOWN


if __name__ == "__main__":
    sys.exit(_try(sys.argv[1], architectures.parse(sys.argv[2]), int(sys.argv[3])))
