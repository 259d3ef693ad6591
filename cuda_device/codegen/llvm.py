"""ctypes bindings to LLVM's C API in llvmlite's library: one table row per function.

    api = llvm.load_llvm()                          # ImportError if the library is missing
    module, complaint = api.ParseAssembly(context, b"define void @f() { ret void }")
    api.DisposeModule(module)

    module = llvm.read_module("define void @f() { ret void }")  # RuntimeError if LLVM cannot parse it
    llvm.optimise(module, machine, level=3)
    machine.assembly(module)

LLVM's objects are integers here. A function takes the inputs of the C function and returns its result. If the C function also
writes text, the text is returned as bytes, after the result or alone. `llvmlite.binding` is not used because importing it takes
32 ms of processor time, and importing this module and loading the library 8 ms (llvmlite 0.50, CPython 3.11 on an AMD EPYC, best
of 15 processes, 2026-11-26).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from cuda_device.errors import CompilerBug

MAJOR = 22
"""The version of LLVM whose textual IR is generated."""

LOCK = threading.RLock()
"""Taken by each call, because threads share the target machines. Its holder may change LLVM's global options."""


TYPES: dict[str, Any] = {
    "-": None,
    "b": ctypes.c_bool,
    "i": ctypes.c_int,
    "p": ctypes.c_void_p,
    "s": ctypes.c_char_p,
    "u": ctypes.c_uint,
    "z": ctypes.c_size_t,
    ">t": ctypes.POINTER(ctypes.c_void_p),  # text that the caller frees
}

# By name without `LLVMPY_`: the result and the parameters. `>` marks text that is an output.
FUNCTIONS = {
    "GetVersionInfo": "u",
    "SetCommandLine": "- s s",
    "SearchAddressOfSymbol": "p s",
    "DisposeString": "- p",
    # Targets
    "InitializeAllTargetInfos": "-",
    "InitializeAllTargets": "-",
    "InitializeAllTargetMCs": "-",
    "InitializeAllAsmPrinters": "-",
    "InitializeNativeTarget": "-",
    "InitializeNativeAsmPrinter": "-",
    "GetDefaultTargetTriple": "- >t",
    "GetHostCPUFeatures": "i >t",
    "GetHostCPUName": "- >t",
    "GetTargetFromTriple": "p s >t",
    "CreateTargetMachine": "p p s s s i s s i i s",
    "CreateTargetMachineData": "p p",
    "CopyStringRepOfTargetData": "- p >t",
    "DisposeTargetData": "- p",
    "GetTargetMachineTriple": "- p >t",
    "TargetMachineEmitToMemory": "p p p i >t",
    "GetBufferStart": "p p",
    "GetBufferSize": "z p",
    "DisposeMemoryBuffer": "- p",
    # Modules
    "ContextCreate": "p",
    "ContextDispose": "- p",
    "ParseAssembly": "p p s >t",
    "ParseBitcode": "p p s z >t",
    "VerifyModule": "b p >t",
    "LinkModules": "i p p >t",
    "SetTarget": "- p s",
    "SetDataLayout": "- p s",
    "PrintModuleToString": "- p >t",
    "DisposeModule": "- p",
    # Contents of modules
    "GetNamedFunction": "p p s",
    "SetLinkage": "- p i",
    # Passes
    "CreatePipelineTuningOptions": "p",
    "PTOSetLoopVectorization": "- p b",
    "PTOSetSLPVectorization": "- p b",
    "DisposePipelineTuningOptions": "- p",
    "CreatePassBuilder": "p p p",
    "DisposePassBuilder": "- p",
    "buildPerModuleDefaultPipeline": "p p i",
    "CreateNewModulePassManager": "p",
    "module_AddAlwaysInlinerPass": "- p",
    "module_AddInstCombinePass": "- p",
    "module_AddSimplifyCFGPass": "- p",
    "module_AddSROAPass": "- p",
    "module_AddInternalizePass": "- p",
    "module_AddGlobalDCEPass": "- p",
    "RunNewModulePassManager": "- p p p",
    "DisposeNewModulePassManger": "- p",
    # Linking
    "CreateLLJITCompiler": "p p b b >t",
    "LLJIT_Link": "p p s p z p z p z >t",
    "LLJIT_Dylib_Tracker_Dispose": "b p >t",
}


class LlvmLibrary:
    """LLVM's functions, which are created on first use."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def __getattr__(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(f"{name} is not in the table of LLVM's functions")
        result, *parameters = FUNCTIONS[name].split()
        foreign = self._library[f"LLVMPY_{name}"]
        foreign.restype, foreign.argtypes = TYPES[result], [TYPES[kind] for kind in parameters]

        def call(*inputs: Any) -> Any:
            with LOCK:
                if ">t" not in parameters:
                    return foreign(*inputs)
                output = ctypes.c_void_p()
                value = foreign(*inputs, ctypes.byref(output))
                text = self._taken(output.value) if output.value else b""
            return text if result == "-" else (value, text)

        setattr(self, name, call)
        return call

    def _taken(self, address: int) -> bytes:
        """Copies LLVM's text, and frees it."""
        try:
            return ctypes.string_at(address)
        finally:
            self.DisposeString(address)


def file() -> str | None:
    """The path of llvmlite's library, or None if it is not installed. Does not import llvmlite."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        return None
    return os.path.join(spec.submodule_search_locations[0], "binding", "libllvmlite.so")


@functools.cache
def begin_to_load() -> None:
    """Loads the library in another thread, which takes 7 ms, while this one imports the compiler."""
    threading.Thread(target=_load_file, name="load LLVM", daemon=True).start()


def _load_file() -> None:
    with contextlib.suppress(OSError):  # `load` reports it
        ctypes.CDLL(file() or "")


@functools.cache
def load_llvm() -> LlvmLibrary:
    """The library. Raises `ImportError` if it is missing or has another version of LLVM."""
    path = file()
    if path is None:
        raise ImportError("cuda_device needs llvmlite, which is not installed")
    try:
        library = LlvmLibrary(path)
    except OSError as error:
        raise ImportError(f"llvmlite's library cannot be loaded: {error}") from error
    if version(library)[0] != MAJOR:
        raise ImportError(f"cuda_device needs LLVM {MAJOR}, and this llvmlite has LLVM {version(library)[0]}")
    return library


def version(library: LlvmLibrary) -> tuple[int, int, int]:
    """The version of LLVM."""
    major, minor, patch = int(library.GetVersionInfo()).to_bytes(3, "big")
    return major, minor, patch


# Modules
#
# Each module has its own context, which owns its types and constants. LLVM requires that the module is destroyed first, and
# Python's collector destroys the members of a cycle in any order. Both are therefore integers, and one finaliser destroys them.

_EXTERNAL, _INTERNAL = 0, 8  # LLVMLinkage


class LlvmModule:
    """A module; `str` gives its text."""

    __slots__ = ("__weakref__", "_context", "pointer")

    def __init__(self, context: int, pointer: int) -> None:
        self._context, self.pointer = context, pointer
        weakref.finalize(self, _destroy, context, pointer).atexit = False

    def __str__(self) -> str:
        return str(load_llvm().PrintModuleToString(self.pointer).decode())

    def verify(self) -> None:
        """Raises `RuntimeError` if LLVM's verifier rejects the module."""
        broken, complaint = load_llvm().VerifyModule(self.pointer)
        if broken:
            raise RuntimeError(complaint.decode())

    def link(self, text: str) -> None:
        """Links the module of this IR text to the module. Raises `RuntimeError`."""
        other, complaint = load_llvm().ParseAssembly(self._context, text.encode())
        failed = bool(complaint)
        if not failed:
            failed, complaint = load_llvm().LinkModules(self.pointer, other)
        if failed:
            raise RuntimeError(complaint.decode())

    def hide(self, functions: Iterable[str]) -> None:
        """Makes these functions internal, where the module has them."""
        self._set_linkage(functions, _INTERNAL)

    def _set_linkage(self, functions: Iterable[str], linkage: int) -> None:
        for name in functions:
            if function := load_llvm().GetNamedFunction(self.pointer, name.encode()):
                load_llvm().SetLinkage(function, linkage)

    def drop_all_but(self, functions: Iterable[str]) -> None:
        """Drops what these functions do not need. The others that stay become internal."""
        run_passes(self, None, "InternalizePass")
        self._set_linkage(functions, _EXTERNAL)
        run_passes(self, None, "GlobalDCEPass")

    def fit(self, machine: Machine) -> None:
        """Sets the triple and the data layout of a machine."""
        load_llvm().SetTarget(self.pointer, machine.triple.encode())
        load_llvm().SetDataLayout(self.pointer, machine.data_layout.encode())


def _destroy(context: int, pointer: int) -> None:
    load_llvm().DisposeModule(pointer)
    load_llvm().ContextDispose(context)


def read_module(text: str) -> LlvmModule:
    """The module of this IR text. Raises `RuntimeError`."""
    return _made(load_llvm().ParseAssembly, text.encode())


def parse(ir: str, header: str = "") -> LlvmModule:
    """The verified module of generated IR text, with `header` in front. Raises `CompilerBug` if LLVM rejects it."""
    try:
        module = read_module(header + ir)
        module.verify()
        return module
    except RuntimeError as error:
        raise CompilerBug(f"LLVM rejects the IR: {error}") from None


def read_bitcode(data: bytes) -> LlvmModule:
    """The module of this bitcode. Raises `RuntimeError`."""
    return _made(load_llvm().ParseBitcode, data, len(data))


def _made(parse: Callable[..., tuple[int, bytes]], *source: object) -> LlvmModule:
    context = load_llvm().ContextCreate()
    pointer, complaint = parse(context, *source)
    if complaint:
        load_llvm().ContextDispose(context)
        raise RuntimeError(complaint.decode())
    return LlvmModule(context, pointer)


# Machines


class Machine:
    """LLVM's target machine for a triple, a processor with features, and an optimisation level from 0 to 3. It is never freed.

    `jit` is for code that runs in this process.
    """

    def __init__(self, triple: str, processor: str, features: str, level: int, *, jit: bool = False) -> None:
        api = load_llvm()
        target, complaint = api.GetTargetFromTriple(triple.encode())
        if not target:
            raise RuntimeError(complaint.decode())
        relocation, model = (b"pic", b"small") if jit else (b"default", b"jitdefault")
        names = triple.encode(), processor.encode(), features.encode()
        self.pointer = api.CreateTargetMachine(target, *names, level, relocation, model, False, jit, b"")
        if not self.pointer:
            raise RuntimeError(f"LLVM has no machine {processor} of {triple}")

    @property
    def triple(self) -> str:
        """The triple, as LLVM spells it."""
        return str(load_llvm().GetTargetMachineTriple(self.pointer).decode())

    @property
    def data_layout(self) -> str:
        """The data layout."""
        data = load_llvm().CreateTargetMachineData(self.pointer)
        try:
            return str(load_llvm().CopyStringRepOfTargetData(data).decode())
        finally:
            load_llvm().DisposeTargetData(data)

    def assembly(self, module: LlvmModule, reduce: bool = True) -> str:
        """Writes a module, which it changes, as assembly. `reduce` turns LLVM's loop strength reduction on."""
        with LOCK:
            if reduce:
                return self._written(module, False).decode()
            _set("--disable-lsr=1")  # in the whole process
            try:
                return self._written(module, False).decode()
            finally:
                _set("--disable-lsr=0")

    def object_code(self, module: LlvmModule) -> bytes:
        """Writes a module, which it changes, as an object file."""
        return self._written(module, True)

    def _written(self, module: LlvmModule, as_object: bool) -> bytes:
        api = load_llvm()
        buffer, complaint = api.TargetMachineEmitToMemory(self.pointer, module.pointer, as_object)
        if not buffer:
            raise RuntimeError(complaint.decode())
        try:
            return ctypes.string_at(api.GetBufferStart(buffer), api.GetBufferSize(buffer))
        finally:
            api.DisposeMemoryBuffer(buffer)


def host_machine(processor: str, features: str, level: int) -> Machine:
    """A target machine for code that runs in this process."""
    api = load_llvm()
    api.InitializeNativeTarget()
    api.InitializeNativeAsmPrinter()
    return Machine(api.GetDefaultTargetTriple().decode(), processor, features, level, jit=True)


# Passes


def optimise(module: LlvmModule, machine: Machine, level: int, **tuning: bool) -> None:
    """Runs LLVM's optimiser at a level from 0 to 3. `tuning` turns vectorisers on or off, whatever the level."""
    with _builder(machine, tuning) as builder:
        _run(load_llvm().buildPerModuleDefaultPipeline(builder, level), module, builder)


def run_passes(module: LlvmModule, machine: Machine | None, *passes: str) -> None:
    """Runs passes, which have the names of LLVM's classes."""
    api = load_llvm()
    with _builder(machine, {}) as builder:
        manager = api.CreateNewModulePassManager()
        for name in passes:
            getattr(api, f"module_Add{name}")(manager)
        _run(manager, module, builder)


@contextlib.contextmanager
def _builder(machine: Machine | None, tuning: Mapping[str, bool]) -> Iterator[int]:
    """LLVM's pass builder for a machine, if the passes depend on one, after the limits were set."""
    _set_limits()
    api = load_llvm()
    options = api.CreatePipelineTuningOptions()
    for name, value in tuning.items():
        getattr(api, f"PTOSet{name}")(options, value)
    builder = api.CreatePassBuilder(machine and machine.pointer, options)
    try:
        yield builder
    finally:
        api.DisposePassBuilder(builder)
        api.DisposePipelineTuningOptions(options)


def _run(manager: int, module: LlvmModule, builder: int) -> None:
    """Runs a pass manager over a module and frees it. A second run would crash in LLVM's inliner."""
    try:
        load_llvm().RunNewModulePassManager(manager, module.pointer, builder)
    finally:
        load_llvm().DisposeNewModulePassManger(manager)


def _set(option: str) -> None:
    load_llvm().SetCommandLine(b"", option.encode())


@functools.cache
def _set_limits() -> None:
    """Sets in the whole process, since LLVM has no other way, which loops are unrolled and which branches are merged."""
    # Unroll loops whose trip count takes up to 8 instructions to compute (a maximum and a shift); the default is 4.
    _set("--scev-cheap-expansion-budget=8")
    # Unroll loops of at most 3 to 7 iterations as loops of unknown trip count, and not completely,
    _set("--unroll-max-upperbound=2")
    # and with them what remains after an unrolled loop.
    _set("--unroll-remainder")
    # Unroll by at most 4: the assembler unrolls short loops further.
    _set("--unroll-max-count=4")
    # Four iterations of the n-body problem have 150 instructions, twice the default limit.
    _set("--unroll-partial-threshold=150")
    # Merge the branches of `a and b` if b takes up to 4 instructions, because divergent branches cost more.
    _set("--bonus-inst-threshold=4")


# Linking


class _Element(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint8), ("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Symbol(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("address", ctypes.c_uint64))


_OBJECT, _PROCESS = 2, 3
"""The kinds of elements: an object file, and the functions of this process."""
_NUMBERS = itertools.count()


class Linked:
    """Machine code in this process: the addresses of its functions, which are valid as long as this object lives."""

    def __init__(self, addresses: Mapping[str, int], keep: object = None) -> None:
        self.addresses, self._keep = addresses, keep


@functools.cache
def _linker() -> int:
    """LLVM's linker, which owns its target machine."""
    linker, complaint = load_llvm().CreateLLJITCompiler(host_machine("", "", 0).pointer, True, True)
    if not linker:
        raise RuntimeError(complaint.decode())
    return int(linker)


def link(object_code: bytes, known: Mapping[str, int], exports: Sequence[str]) -> Linked:
    """Loads an object file. It may call functions of this process and those whose addresses are `known`.

    Raises `RuntimeError` if it calls other functions.
    """
    elements = (_Element * 2)(_Element(_OBJECT, object_code, len(object_code)), _Element(_PROCESS, b"", 0))
    imports = (_Symbol * len(known))(*(_Symbol(name.encode(), address) for name, address in known.items()))
    symbols = (_Symbol * len(exports))(*(_Symbol(name.encode()) for name in exports))
    arrays = [part for array in (elements, imports, symbols) for part in (array, len(array))]
    with LOCK:
        tracker, complaint = load_llvm().LLJIT_Link(_linker(), f"cuda_device.{next(_NUMBERS)}".encode(), *arrays)
    if not tracker:
        raise RuntimeError(complaint.decode())
    linked = Linked({name: symbol.address for name, symbol in zip(exports, symbols, strict=True)})
    weakref.finalize(linked, load_llvm().LLJIT_Dylib_Tracker_Dispose, tracker).atexit = False
    return linked
