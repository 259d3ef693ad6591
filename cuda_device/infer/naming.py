"""The symbols of a program's functions: what debuggers and profilers show.

    func @0, @1, @2         →     func @saxpy, @clamp, @clamp_2

A GPU's helpers get a prefix as well (`device_clamp`), and no symbol is one that means something else to the assembler.
"""

from __future__ import annotations

import itertools
import re

from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Module

# Names that mean something else to the assembler.
_RESERVED = {"WARP_SZ", "_"}


# How helpers are spelled for a GPU, and what we name there ourselves.
_HELPER = "device_"
_OURS = re.compile(r"shared_\d+|dynamic_shared|device_(?:report|meet)|cuda_device_\w+|vprintf")


def _is_taken(symbol: str, spelled: set[str]) -> bool:
    return symbol in spelled or _OURS.fullmatch(symbol) is not None


def run(module: Module, symbols: set[str]) -> None:
    """Gives each function a symbol: its own name, with a number where something else has that name, as do `symbols`."""
    names: dict[str, str] = {}
    taken = _RESERVED | symbols
    spelled = set(symbols)
    if module.main.prototype is not None and module.main.shown.rpartition(".")[2] in symbols:
        reason = f"{module.main.shown} calls a function of CUDA C++ of the same name"
        raise CompileError(reason, module.main.location, "rename it, or say symbol=… in @extern")
    for function in module.functions:
        plain = re.sub(r"\W", "_", function.shown.rpartition(".")[2], flags=re.ASCII)
        plain = f"_{plain}" if plain[0].isdigit() else plain
        numbered = (f"{plain}_{number}" for number in itertools.count(2))
        prefix = "" if function is module.main else _HELPER
        free = (n for n in itertools.chain([plain], numbered) if not (n in taken or _is_taken(prefix + n, spelled)))
        name = next(free)
        taken.add(name)
        spelled.add(prefix + name)
        names[function.name] = name
    for function in module.functions:
        function.name = names[function.name]
    for function in module.functions:
        for op in function.ops():
            if op.code is ops.CALL:
                op.attributes["callee"] = names[str(op.attributes["callee"])]
