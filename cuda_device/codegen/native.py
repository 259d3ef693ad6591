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

import llvmlite.binding as llvm

from cuda_device.codegen import cpu_code, cpu_conversions, cpu_wide
from cuda_device.codegen.cpu_code import LOCK, Linked, Native, host
from cuda_device.codegen.cpu_runner import EXPORTS, RUN
from cuda_device.codegen.modules import pass_builder, run_passes, write_assembly, write_object
from cuda_device.errors import CompilerBug

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
        _optimise(module, machine, level)
        bitcode = module.as_bitcode()
        object_code = write_object(machine, module)
        try:
            linked = cpu_code.link(object_code, symbols or {}, exports, alone)
            return Native(object_code, linked, bitcode, level)
        except RuntimeError as error:
            known = {*EXPORTS, *cpu_conversions.EXPORTS, *cpu_wide.EXPORTS, *(symbols or {})}
            missing = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
            missing = [name for name in missing if name not in known and not llvm.address_of_symbol(name)]
            raise CompilerBug(f"cannot link machine code ({error}); unknown functions: {missing}") from error


# These processors' conversions from float to bfloat make a subnormal number zero, which no GPU does.
_FLUSHING = ("avx512bf16", "avxneconvert")


def processor() -> tuple[str, str]:
    """The processor's name and the features that are used, as LLVM spells them: `cpu_code.host` keeps the answer."""
    features = llvm.get_host_cpu_features()
    features.update({name: False for name in _FLUSHING if name in features})
    return llvm.get_host_cpu_name(), features.flatten()


@functools.cache
def _machine(level: int, quick: bool = False) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = host()
    target = llvm.Target.from_default_triple()
    # Level 0 would take LLVM's fast selection of instructions, which loses how a bfloat came out of a call (LLVM 22).
    level = 0 if quick else max(level, 1)
    return target.create_target_machine(
        cpu=name, features=features, opt=level, reloc="pic", codemodel="small", jit=True
    )


@functools.cache
def _linker() -> Any:
    # It takes a machine for itself. Its own complaints would go to stderr; ours are exceptions.
    _machine(0)
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)


def _parse(ir: str) -> Any:
    try:
        module = llvm.parse_assembly(ir)
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


def _optimise(module: Any, machine: Any, level: int) -> None:
    _say_target(module, machine)
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.slp_vectorization = level >= 2
    builder = pass_builder(machine, tuning)
    # The pipeline simplifies callees before it inlines them: what must be inlined goes first, and is seen whole.
    first = llvm.create_new_module_pass_manager()
    first.add_always_inliner_pass()
    run_passes(first, module, builder)
    run_passes(builder.getModulePassManager(), module, builder)


def _say_target(module: Any, machine: Any) -> None:
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)


def _tidy(module: Any, machine: Any) -> None:
    """What optimising comes to where a function is straight: a third of the default pipeline's time."""
    _say_target(module, machine)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    run_passes(passes, module, pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1)))


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
            _optimise(module, machine, level)
        return write_object(machine, module)


def text_of(bitcode: bytes) -> str:
    """The LLVM IR in bitcode."""
    with LOCK:
        return str(llvm.parse_bitcode(bitcode))


def assembly_of(bitcode: bytes, level: int) -> str:
    """The machine code of bitcode, as text."""
    with LOCK:
        return write_assembly(_machine(level), llvm.parse_bitcode(bitcode))


def link(object_code: bytes, known: Mapping[str, int], exports: Sequence[str]) -> Linked:
    """Links an object file to functions of known addresses by LLVM's linker, which can do all."""
    with LOCK:
        library = llvm.JITLibraryBuilder().add_object_img(object_code).add_current_process()
        for name, address in known.items():
            library.import_symbol(name, address)
        for name in exports:
            library.export_symbol(name)
        linked = library.link(_linker(), f"cuda_device.{next(_NUMBERS)}")
        return Linked({name: int(linked[name]) for name in exports}, linked)
