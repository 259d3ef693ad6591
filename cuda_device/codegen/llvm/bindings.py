"""LLVM, in the library that llvmlite brings, by ctypes: the functions that we call, one row each.

    api = llvm.load()                               # ImportError where there is no such library
    module, complaint = api.ParseAssembly(context, b"define void @f() { ret void }")
    api.DisposeModule(module)

Objects are numbers. A function takes the inputs of the C function and returns what it returns; one that also writes text gives
that as bytes behind it, or alone. So it is in `llvmlite.binding`, which is not used because to import it takes a quarter of a
start: longer than LLVM itself takes for a kernel. What is made of these functions is in `modules`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

MAJOR = 22
"""The version of LLVM whose textual IR we write."""

LOCK = threading.RLock()
"""Each call takes it, since threads share our target machines. Whoever holds it has LLVM, and its options, for himself."""

_NAMES = {"win32": "llvmlite.dll", "darwin": "libllvmlite.dylib"}

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
        if result == "t":
            function = self._giving_text(foreign)
        elif outputs := [kind for kind in parameters if kind[0] == ">"]:
            function = self._writing_text(foreign, [TYPES[kind[1:]] for kind in outputs], result != "-")
        else:
            function = _locked(foreign)
        setattr(self, name, function)
        return function

    def _giving_text(self, foreign: Any) -> Callable[..., bytes]:
        """A function whose result is text."""

        def call(*inputs: Any) -> bytes:
            with LOCK:
                return self._taken(foreign(*inputs))

        return call

    def _writing_text(self, foreign: Any, types: list[Any], has_result: bool) -> Callable[..., Any]:
        """A function whose last parameters are where it writes text, and perhaps its size."""

        def call(*inputs: Any) -> Any:
            outputs = [type() for type in types]
            with LOCK:
                result = foreign(*inputs, *map(ctypes.byref, outputs))
                data = self._taken(*[output.value for output in outputs])
            return (result, data) if has_result else data

        return call

    def _taken(self, address: int | None, *size: int) -> bytes:
        """Text of LLVM's, which is freed."""
        if not address:
            return b""
        try:
            return ctypes.string_at(address, *size)
        finally:
            self.DisposeString(address)


def _locked(foreign: Any) -> Callable[..., Any]:
    def call(*inputs: Any) -> Any:
        with LOCK:
            return foreign(*inputs)

    return call


def file() -> str | None:
    """Where the library is, if llvmlite is installed. It is not imported."""
    found = importlib.util.find_spec("llvmlite")
    if found is None or not found.submodule_search_locations:
        return None
    return os.path.join(found.submodule_search_locations[0], "binding", _NAMES.get(sys.platform, "libllvmlite.so"))


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
