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
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm

from cuda_device.codegen import cpu_conversions, cpu_support, cpu_wide
from cuda_device.codegen.cache import Pieces
from cuda_device.codegen.cpu_runner import RUN
from cuda_device.codegen.modules import run_passes
from cuda_device.errors import CompilerBug

# LLVM's context, our target machines and the linker are shared by all threads of the process.
_LOCK = threading.RLock()
_NUMBERS = itertools.count()


class Native:
    """Machine code in this process. It lives as long as this object: whoever calls an address keeps the object."""

    def __init__(self, object_code: bytes, library: Any, bitcode: bytes = b"", level: int = 2) -> None:
        self.object_code = object_code
        self._library, self._bitcode, self._level = library, bitcode, level

    def address(self, name: str) -> int:
        """Where the exported function `name` starts."""
        return int(self._library[name])

    @property
    def optimised(self) -> str:
        """The LLVM IR as the code generator saw it; empty for code that came from a cache."""
        with _LOCK:
            return str(llvm.parse_bitcode(self._bitcode)) if self._bitcode else ""

    @property
    def assembly(self) -> str:
        """The machine code as text; empty for code that came from a cache."""
        with _LOCK:
            return _machine(self._level).emit_assembly(llvm.parse_bitcode(self._bitcode)) if self._bitcode else ""


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
    with _LOCK:
        machine = _machine(level)
        module = _parse(ir)
        _optimise(module, machine, level)
        bitcode = module.as_bitcode()
        object_code = machine.emit_object(module)
        try:
            return Native(object_code, _link(object_code, symbols or {}, exports, alone), bitcode, level)
        except RuntimeError as error:
            known = {*_support(), *itertools.chain(*_HELPERS), *(symbols or {})}
            missing = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
            missing = [name for name in missing if name not in known and not llvm.address_of_symbol(name)]
            raise CompilerBug(f"cannot link machine code ({error}); unknown functions: {missing}") from error


def load_native(
    object_code: bytes, symbols: Mapping[str, int] | None = None, exports: Sequence[str] = (RUN,)
) -> Native:
    """Machine code made before by `compile_native` on a machine with the same `host()`."""
    with _LOCK:
        return Native(object_code, _link(object_code, symbols or {}, exports))


# These processors' conversions from float to bfloat make a subnormal number zero, which no GPU does.
_FLUSHING = ("avx512bf16", "avxneconvert")


@functools.cache
def host() -> tuple[str, str]:
    """The processor's name and the features that are used, as LLVM spells them: part of the key of any cache of object code."""
    features = llvm.get_host_cpu_features()
    features.update({name: False for name in _FLUSHING if name in features})
    return llvm.get_host_cpu_name(), features.flatten()


@functools.cache
def _machine(level: int) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = host()
    target = llvm.Target.from_default_triple()
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
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.slp_vectorization = level >= 2
    builder = llvm.create_pass_builder(machine, tuning)
    # The pipeline simplifies callees before it inlines them: what must be inlined goes first, and is seen whole.
    first = llvm.create_new_module_pass_manager()
    first.add_always_inliner_pass()
    run_passes(first, module, builder)
    run_passes(builder.getModulePassManager(), module, builder)


@functools.cache
def _support() -> dict[str, int]:
    """The scheduler, linked once: kernels import its functions by their addresses. Its text needs no optimiser."""
    return shared(cpu_support.support(), cpu_support.EXPORTS)


# What processors may lack: the functions that LLVM calls then, and the text that defines them. Most kernels need none.
_HELPERS = {cpu_conversions.EXPORTS: cpu_conversions.conversions, cpu_wide.EXPORTS: cpu_wide.accesses}


@functools.cache
def _helpers(exports: tuple[str, ...]) -> dict[str, int]:
    return shared(_HELPERS[exports](), exports)


_KEPT: list[Any] = []


def shared(ir: str, exports: Sequence[str], symbols: Mapping[str, int] | None = None, level: int = 0) -> dict[str, int]:
    """The addresses of functions that stay in the process for good; `symbols` and `level` as in `compile_native`."""
    pieces, name = Pieces(), " ".join((ir, str(level), *host()))
    with _LOCK:
        object_code = pieces.get(name)
        if object_code is None:
            module = _parse(ir)
            _optimise(module, _machine(1), level)
            pieces[name] = object_code = _machine(1).emit_object(module)
        _KEPT.append(_link(object_code, symbols or {}, exports, alone=True))
        return {name: _KEPT[-1][name] for name in exports}


def _link(object_code: bytes, symbols: Mapping[str, int], exports: Sequence[str], alone: bool = False) -> Any:
    library = llvm.JITLibraryBuilder().add_object_img(object_code).add_current_process()
    known = dict(symbols) if alone else _support() | dict(symbols)
    for helpers in () if alone else _HELPERS:
        # The code generator decides which of them it calls, so only the object's table of names tells.
        if any(name.encode() in object_code for name in helpers):
            known |= _helpers(helpers)
    for name, address in known.items():
        library.import_symbol(name, address)
    return _export(library, exports)


def _export(library: Any, exports: Sequence[str]) -> Any:
    for name in exports:
        library.export_symbol(name)
    return library.link(_linker(), f"cuda_device.{next(_NUMBERS)}")
