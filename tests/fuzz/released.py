"""What LLVM gives is given back: each context, module, buffer, text and manager once, and a module before its context.

    with watched() as library:
        modules.read("define void @f() { ret void }").declared()
    library.live                {} but for target machines, which live for good

Who frees what is as `llvm-c` says: modules that are linked into others are freed by that, and by nobody else.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

import cuda_device as device
from cuda_device.codegen.cpu import native
from cuda_device.codegen.llvm import bindings, modules
from fuzz.cases import defined

_FREED_BY = {
    "ContextCreate": "ContextDispose", "ParseAssembly": "DisposeModule", "ParseBitcode": "DisposeModule",
    "CreateTargetMachineData": "DisposeTargetData", "TargetMachineEmitToMemory": "DisposeMemoryBuffer",
    "ModuleFunctionsIter": "DisposeFunctionsIter", "ModuleGlobalsIter": "DisposeGlobalsIter",
    "ModuleTypesIter": "DisposeTypesIter", "CreatePipelineTuningOptions": "DisposePipelineTuningOptions",
    "CreatePassBuilder": "DisposePassBuilder", "CreateNewModulePassManager": "DisposeNewModulePassManger",
    "buildPerModuleDefaultPipeline": "DisposeNewModulePassManger",
}  # fmt: skip
_MODULES = ("ParseAssembly", "ParseBitcode")


class _Watched:
    """LLVM's library, which writes down what it gives and takes."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.live: dict[int, str] = {}
        self.owners: dict[int, int] = {}
        self.mistakes: list[str] = []

    def __getitem__(self, name: str) -> _Function:
        return _Function(self, name.removeprefix("LLVMPY_"), self.library[name])

    def taken(self, name: str, inputs: tuple[Any, ...], result: Any) -> None:
        """A call that has ended."""
        freed = (
            inputs[1] if name == "LinkModules" else inputs[0] if name in {*_FREED_BY.values(), "DisposeString"} else 0
        )
        if freed in self.live:
            maker = self.live.pop(freed)
            if name not in (_FREED_BY.get(maker, "DisposeString"), "LinkModules"):
                self.mistakes.append(f"{name} is given what {maker} has made")
            if name == "ContextDispose" and freed in self.owners.values():
                self.mistakes.append("a context goes before its modules")
            self.owners.pop(freed, None)
        if name in _FREED_BY and result:
            self.live[result] = name
            if name in _MODULES:
                self.owners[result] = inputs[0]
        for each in inputs:
            text = getattr(each, "_obj", None)
            if isinstance(text, ctypes.c_void_p) and text.value:
                self.live[text.value] = f"a text of {name}"
        if name in ("GetTypeName", "PrintType") and result:
            self.live[result] = f"a text of {name}"


class _Function:
    """One of its functions."""

    def __init__(self, library: _Watched, name: str, foreign: Any) -> None:
        self.__dict__.update(library=library, name=name, foreign=foreign)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["foreign"], name, value)

    def __call__(self, *inputs: Any) -> Any:
        result = self.__dict__["foreign"](*inputs)
        self.__dict__["library"].taken(self.__dict__["name"], inputs, result)
        return result


@contextlib.contextmanager
def watched() -> Iterator[_Watched]:
    """Who calls LLVM is watched meanwhile."""
    library = bindings.Library(str(bindings.file()))
    found = library._library = _Watched(library._library)  # type: ignore[assignment]
    with mock.patch.object(bindings, "load", return_value=library):
        yield found


def released(choose: random.Random) -> str | None:
    """Modules that are right and wrong, read, linked, optimised and written; and kernels for some target."""
    native._machine(1)  # which lives for good
    names = [f"f{i}" for i in range(choose.randint(1, 3))]
    text = "%pair = type { i32, i32 }\n@g = global %pair zeroinitializer\ndeclare void @away()\n"
    text += "".join(f"define i32 @{name}(i32 %x) {{\n  call void @away()\n  ret i32 %x\n}}\n" for name in names)
    wrong = choose.choice((text.replace("i32 %x\n", "i64 %x\n"), "nothing", text + text))
    with watched() as library:
        try:
            _used(choose, text, wrong, names)
        except RuntimeError as error:
            return f"LLVM says {error} of\n{text}"
        if library.live:
            gc.collect()
    return next(iter(library.mistakes), None) or (
        f"nobody frees {sorted({*library.live.values()})}" if library.live else None
    )


def _used(choose: random.Random, text: str, wrong: str, names: list[str]) -> None:
    for read in (
        lambda: modules.read(wrong),
        lambda: modules.read_bitcode(wrong.encode()),
        lambda: modules.read(text).link(wrong),
    ):
        with contextlib.suppress(RuntimeError):
            read()
    module = modules.read(text)
    bitcode = module.bitcode()
    linked = modules.read(
        f"declare i32 @{names[0]}(i32)\ndefine i32 @last() {{\n  %x = call i32 @{names[0]}(i32 3)\n  ret i32 %x\n}}\n"
    )
    linked.link(str(modules.read_bitcode(bitcode)))
    for each in (module, linked):
        each.verify()
        each.hide(names)
        found = (each.declared(), [*each.variables()], [*each.structures()], each.function(names[0]).count("call"))
        if found != (["away"], ["g"], ["pair"], 1):
            raise RuntimeError(f"a module has {found}")
    machine = native._machine(1)
    module.fit(machine)
    modules.optimise(linked, machine, choose.randint(0, 3))
    modules.run_passes(module, machine, "InstCombinePass")
    machine.object_code(module)
    function = defined("def k(a, f):\n    a[device.tid(1)] = f * 3\n", "k", {"device": device}, "<released>")
    target = choose.choice(("sm_75", "sm_90", "sm_120"))
    device.compile(
        device.kernel(level=choose.randint(0, 3))(function),
        device.ArrayType(device.float32, 1),
        np.float32,
        target=target,
    )


CHECKS = (released,)
