"""Compiles LLVM IR to machine code for the CPU stream.

    module, object_code = compile_module(ir, level=2)               verified and optimised
    assembly_of(ir, level=2)                                        for people and tests

The optimiser's default pipeline vectorises for the processor on which it runs. Floating-point arithmetic follows the IR: a
multiply and an add fuse only if both have the flag `contract`, and nothing else is relaxed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Mapping, Sequence

from cuda_device.codegen import llvm
from cuda_device.codegen.llvm import Linked, LlvmModule, Machine, parse
from cuda_device.cpu.processor import host


def optimised(ir: str, level: int) -> LlvmModule:
    """The optimised module. Raises `CompilerBug` if LLVM rejects the text."""
    module = parse(ir)
    _optimise(module, _machine(level), level, ir)
    return module


def compile_module(ir: str, level: int) -> tuple[LlvmModule, bytes]:
    """The optimised module and its object file. Raises `CompilerBug` if LLVM rejects the text."""
    module = optimised(ir, level)
    return module, _machine(level).object_code(module)


def assembly_of(ir: str, level: int) -> str:
    """The machine code as text."""
    return _machine(level).assembly(optimised(ir, level))


_DECLARED = re.compile(r"^declare [^@]*@((?!llvm\.)[\w.]+)", re.M)


def unknown(module: LlvmModule, known: Container[str]) -> list[str]:
    """The functions that a module declares, and that neither this process nor `known` defines."""
    missing = (name for name in _DECLARED.findall(str(module)) if name not in known)
    return [name for name in missing if not llvm.load_llvm().SearchAddressOfSymbol(name.encode())]


@functools.cache
def _machine(level: int, quick: bool = False) -> Machine:
    # Level 0 would select LLVM's fast instruction selection, which handles a bfloat returned by a call wrongly (LLVM 22).
    return llvm.host_machine(*host(), 0 if quick else max(level, 1))


# LLVM 22 miscompiles vectorised loops with divisions in branches: a division that is invariant in the loop is executed only if
# the first of a vector's iterations reaches it. Loops with divisions are therefore not vectorised, which costs little, because
# no processor divides vectors of integers.
_DIVISION = re.compile(r" = [us](?:div|rem) .*, %")


def _optimise(module: LlvmModule, machine: Machine, level: int, ir: str) -> None:
    module.fit(machine)
    # The pipeline simplifies callees before it inlines them, so functions that must be inlined are inlined first.
    llvm.run_passes(module, machine, "AlwaysInlinerPass")
    vectorise = level >= 2
    loops = vectorise and not _DIVISION.search(ir)
    llvm.optimise(module, machine, level, LoopVectorization=loops, SLPVectorization=vectorise)


def compile_piece(ir: str, quick: bool = False) -> bytes:
    """An object file with functions that kernels share.

    `quick` is for straight code of integers and calls. Compilation takes a fifth of the time; the code is a fifth longer and not
    slower.
    """
    module, machine = parse(ir), _machine(1, quick)
    if quick:
        module.fit(machine)
        llvm.run_passes(module, machine, "AlwaysInlinerPass", "SROAPass", "InstCombinePass", "SimplifyCFGPass")
    else:
        _optimise(module, machine, 2, ir)
    return machine.object_code(module)


def link_for_debuggers(object_code: bytes, known: Mapping[str, int], exports: Sequence[str]) -> Linked:
    """Links an object file with LLVM's older linker, which registers code with gdb."""
    from llvmlite import binding  # slow to import, and seldom needed

    with llvm.LOCK:
        _machine(0)
        names = binding.parse_assembly("".join(f"declare void @{name}()\n" for name in known))
        engine = binding.create_mcjit_compiler(
            names, binding.Target.from_default_triple().create_target_machine(jit=True)
        )
        for name, address in known.items():
            engine.add_global_mapping(names.get_function(name), address)
        engine.add_object_file(binding.object_file.ObjectFileRef.from_data(object_code))
        engine.finalize_object()
        return Linked({name: engine.get_function_address(name) for name in exports}, engine)
