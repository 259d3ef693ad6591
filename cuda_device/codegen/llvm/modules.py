"""Modules in LLVM's memory, the machines that they are compiled for, and what is done with them.

    module = modules.read("define void @f() { ret void }")      # RuntimeError where LLVM cannot read it
    modules.optimise(module, machine, level=3)
    machine.assembly(module)

Each module has a context of its own, which owns its types and constants: they go when it goes, and no name is changed
because of an earlier kernel. LLVM wants the module destroyed first; Python's collector destroys the members of a cycle,
such as a traceback's frames, in any order. So both are numbers, and one finaliser outside of the cycle destroys the two.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping

from cuda_device.codegen.llvm import bindings
from cuda_device.errors import CompilerBug

_INTERNAL = 8  # of the kinds of linkage
_ERROR_LINE = re.compile(r":(\d+):\d+: error:")


class LlvmModule:
    """A module; `str` gives its text."""

    __slots__ = ("__weakref__", "_context", "pointer")

    def __init__(self, context: int, pointer: int) -> None:
        self._context, self.pointer = context, pointer
        weakref.finalize(self, _destroy, context, pointer).atexit = False

    def __str__(self) -> str:
        return str(bindings.load().PrintModuleToString(self.pointer).decode())

    def verify(self) -> None:
        """Raises `RuntimeError` for what LLVM does not take for a module."""
        broken, complaint = bindings.load().VerifyModule(self.pointer)
        if broken:
            raise RuntimeError(complaint.decode())

    def bitcode(self) -> bytes:
        """The module as LLVM's bitcode."""
        return bytes(bindings.load().WriteBitcodeToString(self.pointer))

    def link(self, text: str) -> None:
        """Adds what this IR text defines and this module wants. Raises `RuntimeError`."""
        failed, complaint = bindings.load().LinkModules(self.pointer, _parsed(text, self._context))
        if failed:
            raise RuntimeError(complaint.decode())

    def hide(self, functions: Iterable[str]) -> None:
        """Makes those of these functions that it has invisible outside of it."""
        for name in functions:
            if function := bindings.load().GetNamedFunction(self.pointer, name.encode()):
                bindings.load().SetLinkage(function, _INTERNAL)

    def fit(self, machine: Machine) -> None:
        """Says which machine it is for."""
        bindings.load().SetTarget(self.pointer, machine.triple.encode())
        bindings.load().SetDataLayout(self.pointer, machine.data_layout.encode())

    def function(self, name: str) -> str:
        """The text of a function. Raises `NameError`."""
        found = bindings.load().GetNamedFunction(self.pointer, name.encode())
        if not found:
            raise NameError(name)
        return str(bindings.load().PrintValueToString(found).decode())

    def declared(self) -> list[str]:
        """The names of the functions that it calls and does not have."""
        api = bindings.load()
        return [api.GetValueName(each).decode() for each in self._each("Functions") if api.IsDeclaration(each)]

    def variables(self) -> dict[str, str]:
        """The texts of its global variables."""
        api = bindings.load()
        return {
            api.GetValueName(each).decode(): api.PrintValueToString(each).decode() for each in self._each("Globals")
        }

    def structures(self) -> dict[str, str]:
        """The texts of its structure types that have a name."""
        api = bindings.load()
        named = {api.GetTypeName(each).decode(): each for each in self._each("Types")}
        return {name: api.PrintType(each).decode() for name, each in named.items() if name}

    def _each(self, kind: str) -> Iterator[int]:
        api = bindings.load()
        iterator = getattr(api, f"Module{kind}Iter")(self.pointer)
        try:
            yield from iter(functools.partial(getattr(api, f"{kind}IterNext"), iterator), None)
        finally:
            getattr(api, f"Dispose{kind}Iter")(iterator)


def _destroy(context: int, pointer: int) -> None:
    bindings.load().DisposeModule(pointer)
    bindings.load().ContextDispose(context)


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
    return _made(lambda context: _checked(bindings.load().ParseBitcode(context, data, len(data))))


def _made(parse: Callable[[int], int]) -> LlvmModule:
    context = bindings.load().ContextCreate()
    try:
        return LlvmModule(context, parse(context))
    except RuntimeError:
        bindings.load().ContextDispose(context)
        raise


def _parsed(text: str, context: int) -> int:
    return _checked(bindings.load().ParseAssembly(context, text.encode()))


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
        api = bindings.load()
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
        return str(bindings.load().GetTargetMachineTriple(self.pointer).decode())

    @property
    def data_layout(self) -> str:
        """How it lays out data."""
        data = bindings.load().CreateTargetMachineData(self.pointer)
        try:
            return str(bindings.load().CopyStringRepOfTargetData(data).decode())
        finally:
            bindings.load().DisposeTargetData(data)

    def assembly(self, module: LlvmModule, reduce: bool = True) -> str:
        """A module as text for an assembler; `reduce` says whether LLVM reduces the strength of loops. It changes the module."""
        with bindings.LOCK:
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
        api = bindings.load()
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
        _run(bindings.load().buildPerModuleDefaultPipeline(builder, level), module, builder)


def run_passes(module: LlvmModule, machine: Machine, *passes: str) -> None:
    """Runs passes, by the names that LLVM's classes have."""
    api = bindings.load()
    with _builder(machine, {}) as builder:
        manager = api.CreateNewModulePassManager()
        for name in passes:
            getattr(api, f"module_Add{name}")(manager)
        _run(manager, module, builder)


@contextlib.contextmanager
def _builder(machine: Machine, tuning: Mapping[str, bool]) -> Iterator[int]:
    """What makes LLVM's pipelines for a machine. They are made with the limits that are set by then."""
    _set_limits()
    api = bindings.load()
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
        bindings.load().RunNewModulePassManager(manager, module.pointer, builder)
    finally:
        bindings.load().DisposeNewModulePassManger(manager)


def _set(option: str) -> None:
    bindings.load().SetCommandLine(b"", option.encode())


@functools.cache
def _set_limits() -> None:
    """What loops LLVM unrolls, and which branches it joins, in the whole process: it has no other way to say these."""
    # A loop is unrolled, too, whose number of passes takes a maximum and a shift to compute: one with a step that is known.
    # LLVM allows 4 such instructions. A division, of a step that only run time knows, would cost more than it brings.
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
