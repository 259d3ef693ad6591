"""Bindings to LLVM's C API in llvmlite's library, by ctypes: one row for each function.

    api = llvm.load()                               # ImportError where there is no such library
    module, complaint = api.ParseAssembly(context, b"define void @f() { ret void }")
    api.DisposeModule(module)

    module = llvm.read("define void @f() { ret void }")         # RuntimeError where LLVM cannot read it
    llvm.optimise(module, machine, level=3)
    machine.assembly(module)

Objects are represented by numbers. A function takes the inputs of the C function and returns its result. If the C function also
writes text, the text is returned as bytes, after the result or alone. `llvmlite.binding` is not used, because importing it takes
a quarter of the start-up time.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cuda_device.errors import CompilerBug

MAJOR = 22
"""The version of LLVM whose textual IR we write."""

LOCK = threading.RLock()
"""Each call takes it, since threads share our target machines. Whoever holds it has LLVM, and its options, for himself."""


TYPES: dict[str, Any] = {
    "-": None,
    "b": ctypes.c_bool,
    "i": ctypes.c_int,
    "p": ctypes.c_void_p,
    "s": ctypes.c_char_p,
    "t": ctypes.c_void_p,  # text that is ours to free
    "u": ctypes.c_uint,
    "z": ctypes.c_size_t,
    ">t": ctypes.POINTER(ctypes.c_void_p),
    ">z": ctypes.POINTER(ctypes.c_size_t),
}

# By name, without `LLVMPY_`: the result, and the parameters. `>` marks outputs: text, perhaps with its size.
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
    "WriteBitcodeToString": "- p >t >z",
    "DisposeModule": "- p",
    # What is in them
    "GetNamedFunction": "p p s",
    "ModuleFunctionsIter": "p p",
    "FunctionsIterNext": "p p",
    "DisposeFunctionsIter": "- p",
    "ModuleGlobalsIter": "p p",
    "GlobalsIterNext": "p p",
    "DisposeGlobalsIter": "- p",
    "ModuleTypesIter": "p p",
    "TypesIterNext": "p p",
    "DisposeTypesIter": "- p",
    "GetValueName": "s p",
    "PrintValueToString": "- p >t",
    "IsDeclaration": "i p",
    "SetLinkage": "- p i",
    "GetTypeName": "t p",
    "PrintType": "t p",
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
    "RunNewModulePassManager": "- p p p",
    "DisposeNewModulePassManger": "- p",
}


class LlvmLibrary:
    """LLVM's functions, each made when it is first asked for."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def __getattr__(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(f"{name} is not among LLVM's functions that we call")
        result, *parameters = FUNCTIONS[name].split()
        foreign = self._library[f"LLVMPY_{name}"]
        foreign.restype, foreign.argtypes = TYPES[result], [TYPES[kind] for kind in parameters]
        outputs = [TYPES[kind[1:]] for kind in parameters if kind[0] == ">"]

        def call(*inputs: Any) -> Any:
            made = [type() for type in outputs]
            with LOCK:
                found = foreign(*inputs, *map(ctypes.byref, made))
                if result == "t":
                    return self._taken(found)
                if not made:
                    return found
                text = self._taken(*[output.value for output in made])
            return text if result == "-" else (found, text)

        setattr(self, name, call)
        return call

    def _taken(self, address: int | None, *size: int) -> bytes:
        """Text of LLVM's, which is freed."""
        if not address:
            return b""
        try:
            return ctypes.string_at(address, *size)
        finally:
            self.DisposeString(address)


def file() -> str | None:
    """Where the library is, if llvmlite is installed. It is not imported."""
    found = importlib.util.find_spec("llvmlite")
    if found is None or not found.submodule_search_locations:
        return None
    return os.path.join(found.submodule_search_locations[0], "binding", "libllvmlite.so")


@functools.cache
def begin_to_load() -> None:
    """Has the library loaded by a thread of its own: that takes 7 ms, in which others import the compiler."""
    path = file()
    if path is not None:
        threading.Thread(target=_load_file, args=(path,), name="load LLVM", daemon=True).start()


def _load_file(path: str) -> None:
    with contextlib.suppress(OSError):  # `load` says what is wrong
        ctypes.CDLL(path)


@functools.cache
def load() -> LlvmLibrary:
    """The library. Raises `ImportError` where there is none, or one of another LLVM."""
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
    """LLVM's."""
    major, minor, patch = int(library.GetVersionInfo()).to_bytes(3, "big")
    return major, minor, patch


# Modules in LLVM's memory, the machines that they are compiled for, and what is done with them.
#
# Each module has a context of its own, which owns its types and constants. LLVM wants the module destroyed first; Python's
# collector destroys the members of a cycle in any order. So both are numbers, and one finaliser destroys the two.

_INTERNAL = 8  # of the kinds of linkage
_ERROR_LINE = re.compile(r":(\d+):\d+: error:")


class LlvmModule:
    """A module; `str` gives its text."""

    __slots__ = ("__weakref__", "_context", "pointer")

    def __init__(self, context: int, pointer: int) -> None:
        self._context, self.pointer = context, pointer
        weakref.finalize(self, _destroy, context, pointer).atexit = False

    def __str__(self) -> str:
        return str(load().PrintModuleToString(self.pointer).decode())

    def verify(self) -> None:
        """Raises `RuntimeError` for what LLVM does not take for a module."""
        broken, complaint = load().VerifyModule(self.pointer)
        if broken:
            raise RuntimeError(complaint.decode())

    def bitcode(self) -> bytes:
        """The module as LLVM's bitcode."""
        return bytes(load().WriteBitcodeToString(self.pointer))

    def link(self, text: str) -> None:
        """Adds what this IR text defines and this module wants. Raises `RuntimeError`."""
        failed, complaint = load().LinkModules(self.pointer, _parsed(text, self._context))
        if failed:
            raise RuntimeError(complaint.decode())

    def hide(self, functions: Iterable[str]) -> None:
        """Makes those of these functions that it has invisible outside of it."""
        for name in functions:
            if function := load().GetNamedFunction(self.pointer, name.encode()):
                load().SetLinkage(function, _INTERNAL)

    def fit(self, machine: Machine) -> None:
        """Says which machine it is for."""
        load().SetTarget(self.pointer, machine.triple.encode())
        load().SetDataLayout(self.pointer, machine.data_layout.encode())

    def function(self, name: str) -> str:
        """The text of a function. Raises `NameError`."""
        found = load().GetNamedFunction(self.pointer, name.encode())
        if not found:
            raise NameError(name)
        return str(load().PrintValueToString(found).decode())

    def declared(self) -> list[str]:
        """The names of the functions that it calls and does not have."""
        return self._functions(1)

    def defined(self) -> list[str]:
        """The names of the functions that it has."""
        return self._functions(0)

    def _functions(self, is_declaration: int) -> list[str]:
        api = load()
        found = (each for each in self._each("Functions") if api.IsDeclaration(each) == is_declaration)
        return [api.GetValueName(each).decode() for each in found]

    def variables(self) -> dict[str, str]:
        """The texts of its global variables."""
        api = load()
        return {
            api.GetValueName(each).decode(): api.PrintValueToString(each).decode() for each in self._each("Globals")
        }

    def structures(self) -> dict[str, str]:
        """The texts of its structure types that have a name."""
        api = load()
        named = {api.GetTypeName(each).decode(): each for each in self._each("Types")}
        return {name: api.PrintType(each).decode() for name, each in named.items() if name}

    def _each(self, kind: str) -> Iterator[int]:
        api = load()
        iterator = getattr(api, f"Module{kind}Iter")(self.pointer)
        try:
            yield from iter(functools.partial(getattr(api, f"{kind}IterNext"), iterator), None)
        finally:
            getattr(api, f"Dispose{kind}Iter")(iterator)


def _destroy(context: int, pointer: int) -> None:
    load().DisposeModule(pointer)
    load().ContextDispose(context)


def read(text: str) -> LlvmModule:
    """The module of this IR text. Raises `RuntimeError`."""
    return _made(lambda context: _parsed(text, context))


def parse(ir: str, header: str = "") -> LlvmModule:
    """The module of our own IR text, verified. `header` stands before its first line. What LLVM refuses is a `CompilerBug`."""
    try:
        module = read(header + ir)
        module.verify()
        return module
    except RuntimeError as error:
        message = str(error).strip()
        where = _ERROR_LINE.search(message)
        # The verifier prints instructions instead of line numbers; their text is often the text that was parsed.
        printed = {line.strip() for line in message.splitlines()}
        lines = [number for number, line in enumerate(ir.splitlines(), 1) if line.strip() in printed]
        line = int(where[1]) if where else lines[0] if lines else 0
        raise CompilerBug(f"LLVM refuses our IR: {message}\n{excerpt(ir, line) if line else ir[:2000]}") from None


def excerpt(text: str, line: int, around: int = 3) -> str:
    """The lines around one (counted from 1), numbered, with an arrow at it."""
    lines = text.splitlines()
    first = max(1, line - around)
    return "\n".join(
        f"{'->' if number == line else '  '} {number:5} | {lines[number - 1]}"
        for number in range(first, min(len(lines), line + around) + 1)
    )


def read_bitcode(data: bytes) -> LlvmModule:
    """The module of this bitcode. Raises `RuntimeError`."""
    return _made(lambda context: _checked(load().ParseBitcode(context, data, len(data))))


def _made(parse: Callable[[int], int]) -> LlvmModule:
    context = load().ContextCreate()
    try:
        return LlvmModule(context, parse(context))
    except RuntimeError:
        load().ContextDispose(context)
        raise


def _parsed(text: str, context: int) -> int:
    return _checked(load().ParseAssembly(context, text.encode()))


def _checked(answer: tuple[int, bytes]) -> int:
    pointer, complaint = answer
    if complaint:
        raise RuntimeError(complaint.decode())
    return pointer


# Machines


class Machine:
    """LLVM's target machine: a triple, a processor with features, and a level of optimisation, 0 to 3. It lives for good.

    With `jit` it is for code that runs in this process, wherever that lies.
    """

    def __init__(self, triple: str, processor: str, features: str, level: int, *, jit: bool = False) -> None:
        api = load()
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
        """Its triple, as LLVM spells it."""
        return str(load().GetTargetMachineTriple(self.pointer).decode())

    @property
    def data_layout(self) -> str:
        """How it lays out data."""
        data = load().CreateTargetMachineData(self.pointer)
        try:
            return str(load().CopyStringRepOfTargetData(data).decode())
        finally:
            load().DisposeTargetData(data)

    def assembly(self, module: LlvmModule, reduce: bool = True) -> str:
        """A module as text for an assembler; `reduce` says whether LLVM reduces the strength of loops. It changes the module."""
        with LOCK:
            if reduce:
                return self._written(module, False).decode()
            _set("--disable-lsr=1")  # for the whole process
            try:
                return self._written(module, False).decode()
            finally:
                _set("--disable-lsr=0")

    def object_code(self, module: LlvmModule) -> bytes:
        """A module as an object file. It changes the module."""
        return self._written(module, True)

    def _written(self, module: LlvmModule, as_object: bool) -> bytes:
        api = load()
        buffer, complaint = api.TargetMachineEmitToMemory(self.pointer, module.pointer, as_object)
        if not buffer:
            raise RuntimeError(complaint.decode())
        try:
            return ctypes.string_at(api.GetBufferStart(buffer), api.GetBufferSize(buffer))
        finally:
            api.DisposeMemoryBuffer(buffer)


# Passes


def optimise(module: LlvmModule, machine: Machine, level: int, **tuning: bool) -> None:
    """Runs LLVM's optimiser at a level, 0 to 3. `tuning` says which vectorisers run, or do not, whatever the level."""
    with _builder(machine, tuning) as builder:
        _run(load().buildPerModuleDefaultPipeline(builder, level), module, builder)


def run_passes(module: LlvmModule, machine: Machine, *passes: str) -> None:
    """Runs passes, by the names that LLVM's classes have."""
    api = load()
    with _builder(machine, {}) as builder:
        manager = api.CreateNewModulePassManager()
        for name in passes:
            getattr(api, f"module_Add{name}")(manager)
        _run(manager, module, builder)


@contextlib.contextmanager
def _builder(machine: Machine, tuning: Mapping[str, bool]) -> Iterator[int]:
    """What makes LLVM's pipelines for a machine. They are made with the limits that are set by then."""
    _set_limits()
    api = load()
    options = api.CreatePipelineTuningOptions()
    for name, value in tuning.items():
        getattr(api, f"PTOSet{name}")(options, value)
    builder = api.CreatePassBuilder(machine.pointer, options)
    try:
        yield builder
    finally:
        api.DisposePassBuilder(builder)
        api.DisposePipelineTuningOptions(options)


def _run(manager: int, module: LlvmModule, builder: int) -> None:
    """Runs a pass manager over a module and frees it. It runs once: LLVM's inliner empties itself, and would end the process."""
    try:
        load().RunNewModulePassManager(manager, module.pointer, builder)
    finally:
        load().DisposeNewModulePassManger(manager)


def _set(option: str) -> None:
    load().SetCommandLine(b"", option.encode())


@functools.cache
def _set_limits() -> None:
    """What loops LLVM unrolls, and which branches it joins, in the whole process: it has no other way to say these."""
    # A loop is unrolled, too, whose number of passes takes a maximum and a shift to compute; LLVM allows 4 such instructions.
    _set("--scev-cheap-expansion-budget=8")
    # So is a loop that is known to end after 3 to 7 passes, though not whether after fewer,
    _set("--unroll-max-upperbound=2")
    # and what is left of an unrolled loop.
    _set("--unroll-remainder")
    # Four passes may become 150 instructions, twice as many as LLVM allows here: as many as in a body of the n-body problem.
    _set("--unroll-partial-threshold=150")
    # More than 4 passes are left to the assembler, which unrolls only what is short.
    _set("--unroll-max-count=4")
    # `a and b` is one branch where b is a comparison and up to 4 instructions: branches that diverge cost more than those.
    _set("--bonus-inst-threshold=4")
