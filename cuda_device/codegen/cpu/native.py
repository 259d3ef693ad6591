"""From LLVM IR to machine code in this process, for kernels that run on the CPU.

    native = compile_native(ir)                       # text in; verified, optimised, linked into the process
    native.address("cuda_device.run")                 # an exported function, for ctypes
    native.optimised                                  # the LLVM IR after optimisation, for people and tests
    native.assembly                                   # this machine's instructions
    load_native(native.object_code)                   # the same code again, from a cache: a fraction of a millisecond

The optimiser's default pipeline splits coroutines and vectorises for the processor it runs on. Floating point is as the
IR says: a multiply and an add fuse only where both carry the flag `contract`, and nothing else is ever relaxed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from cuda_device.codegen.cpu import conversions, machine_code, wide_atomics
from cuda_device.codegen.cpu.machine_code import LOCK, Linked, Native, host
from cuda_device.codegen.cpu.runner import EXPORTS, RUN
from cuda_device.codegen.llvm import bindings, modules
from cuda_device.codegen.llvm.modules import Machine, Module
from cuda_device.errors import CompilerBug
from cuda_device.lazy_patterns import pattern

_NUMBERS = itertools.count()


def compile_native(
    ir: str,
    symbols: Mapping[str, int] | None = None,
    level: int = 2,
    exports: Sequence[str] = (RUN,),
    alone: bool = False,
) -> Native:
    """Machine code for the module `ir`, whose functions `exports` can then be called.

    `symbols` gives addresses to functions that the module declares and that neither the process nor its C library
    knows. `level` is LLVM's optimisation level, 0 to 3. A module that is `alone` calls nothing of what kernels call. One that
    LLVM refuses is a `CompilerBug` that shows the line.
    """
    with LOCK:
        machine = _machine(level)
        module = _parse(ir)
        _optimise(module, machine, level, ir)
        bitcode = module.bitcode()
        object_code = machine.object_code(module)
        try:
            linked = machine_code.link(object_code, symbols or {}, exports, alone)
            return Native(object_code, linked, bitcode, level)
        except RuntimeError as error:
            known = {*EXPORTS, *conversions.EXPORTS, *wide_atomics.EXPORTS, *(symbols or {})}
            missing = [name for name in module.declared() if name not in known and not name.startswith("llvm.")]
            missing = [name for name in missing if not bindings.load().SearchAddressOfSymbol(name.encode())]
            raise CompilerBug(f"cannot link machine code ({error}); unknown functions: {missing}") from error


# These processors' conversions from float to bfloat make a subnormal number zero, which no GPU does.
_FLUSHING = ("avx512bf16", "avxneconvert")


def processor() -> tuple[str, str]:
    """The processor's name and the features that are used, as LLVM spells them: `cpu_code.host` keeps the answer."""
    api = bindings.load()
    _, said = api.GetHostCPUFeatures()
    signs = {feature[1:]: feature[0] for feature in said.decode().split(",") if feature}
    signs.update({name: "-" for name in _FLUSHING if name in signs})
    return api.GetHostCPUName().decode(), ",".join(sign + name for name, sign in sorted(signs.items()))


@functools.cache
def _machine(level: int, quick: bool = False) -> Machine:
    api = bindings.load()
    api.InitializeNativeTarget()
    api.InitializeNativeAsmPrinter()
    name, features = host()
    # Level 0 would take LLVM's fast selection of instructions, which loses how a bfloat came out of a call (LLVM 22).
    level = 0 if quick else max(level, 1)
    return Machine(api.GetDefaultTargetTriple().decode(), name, features, level, jit=True)


@functools.cache
def _linker() -> Any:
    from llvmlite import binding  # which is seldom needed

    # It takes a machine for itself. Its own complaints would go to stderr; ours are exceptions.
    _machine(0)
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    return binding.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)


def _parse(ir: str) -> Module:
    try:
        module = modules.read(ir)
        module.verify()
    except RuntimeError as error:
        raise CompilerBug(f"LLVM refuses the module: {str(error).strip()}\n{_excerpt(ir, str(error))}") from error
    return module


def _excerpt(ir: str, complaint: str) -> str:
    """The lines of the module around the one that a parser's complaint (`<string>:12:5: ...`) names."""
    position = complaint.split("<string>:", 1)
    number = position[1].split(":", 1)[0] if len(position) == 2 else ""
    if not number.isdigit():
        return ""
    lines = ir.splitlines()
    first = max(0, int(number) - 4)
    return "\n".join(f"{i + 1:5} | {line}" for i, line in enumerate(lines[first : int(number) + 3], first))


# LLVM 22 vectorises loops with divisions in branches wrongly: one that is the same in each pass is done only if the first of a
# vector's passes comes to it, and the others take what is not there. Little is lost: no processor divides vectors of integers.
_DIVISION = pattern(r" = [us](?:div|rem) .*, %")


def _optimise(module: Module, machine: Machine, level: int, ir: str) -> None:
    module.fit(machine)
    # The pipeline simplifies callees before it inlines them: what must be inlined goes first, and is seen whole.
    modules.run_passes(module, machine, "AlwaysInlinerPass")
    vectorise = level >= 2
    loops = vectorise and not _DIVISION.search(ir)
    modules.optimise(module, machine, level, LoopVectorization=loops, SLPVectorization=vectorise)


def _tidy(module: Module, machine: Machine) -> None:
    """What optimising comes to where a function is straight: a third of the default pipeline's time."""
    module.fit(machine)
    modules.run_passes(module, machine, "SROAPass", "InstCombinePass", "SimplifyCFGPass")


def compile_piece(ir: str, level: int, quick: bool = False) -> bytes:
    """An object file with functions that kernels share.

    `quick` is for straight code of integers and calls that somebody waits for: it is made in a third of the time, whatever the
    level, is a fifth longer, and takes no longer to run.
    """
    with LOCK:
        module, machine = _parse(ir), _machine(1, quick)
        if quick:
            _tidy(module, machine)
        else:
            _optimise(module, machine, level, ir)
        return machine.object_code(module)


def text_of(bitcode: bytes) -> str:
    """The LLVM IR in bitcode."""
    with LOCK:
        return str(modules.read_bitcode(bitcode))


def assembly_of(bitcode: bytes, level: int) -> str:
    """The machine code of bitcode, as text."""
    with LOCK:
        return _machine(level).assembly(modules.read_bitcode(bitcode))


def link(object_code: bytes, known: Mapping[str, int], exports: Sequence[str]) -> Linked:
    """Links an object file to functions of known addresses by LLVM's linker, which can do all."""
    from llvmlite import binding

    with LOCK:
        library = binding.JITLibraryBuilder().add_object_img(object_code).add_current_process()
        for name, address in known.items():
            library.import_symbol(name, address)
        for name in exports:
            library.export_symbol(name)
        linked = library.link(_linker(), f"cuda_device.{next(_NUMBERS)}")
        return Linked({name: int(linked[name]) for name in exports}, linked)
