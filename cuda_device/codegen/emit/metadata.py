"""What stands beside the functions of a module in LLVM IR: flags, lines for profilers, aliasing, places of shared arrays.

    metadata.function(f)               " !dbg !2": f stands at this line of this file
    metadata.place(op.location)        ", !dbg !5": this instruction does
    metadata.text()                    !llvm.dbg.cu = !{!0} …

LLVM makes of it `.file` and `.loc` in PTX, and nothing for debuggers: the code is the same as without.
"""

from __future__ import annotations

import os

from cuda_device.errors import CompileError, Location
from cuda_device.ir import ops
from cuda_device.ir.nodes import Function, Module, Op, Value
from cuda_device.ir.ops import Effect
from cuda_device.optimise import points_to
from cuda_device.optimise.points_to import Roots
from cuda_device.types.layout import size_of
from cuda_device.types.model import Ref, Space

# No number of ours is as large, and none of the runner on the CPU as small.
_FIRST = 1000


class Metadata:
    """The nodes of one module. `lines` says whether there is a table of lines."""

    def __init__(self, lines: bool, flags: tuple[str, ...] = ()) -> None:
        self.lines = lines
        self.flags = list(flags)
        self.nodes: dict[str, int] = {}
        self.scope = ""
        self.file = ""
        self.line = 0

    def function(self, function: Function) -> str:
        """What the definition of a function says; the places that follow are in it."""
        if not self.lines:
            return ""
        where = function.location
        self.file, self.line = where.file, max(where.line, 0)
        file = self._file(where.file)
        kind = self.node("!DISubroutineType(types: " + self.node("!{null}") + ")")
        self.scope = self.node(
            f'distinct !DISubprogram(name: "{_quoted(function.shown or function.name)}", linkageName: "{function.name}", '
            f"scope: {file}, file: {file}, line: {self.line}, type: {kind}, scopeLine: {self.line}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self._unit(file)})"
        )
        return f" !dbg {self.scope}"

    def place(self, where: Location) -> str:
        """What an instruction says; where its line is not known, the function's."""
        if not self.lines:
            return ""
        scope, line, column = self.scope, self.line, 0
        if where.line > 0:
            line, column = where.line, max(where.column + 1, 0)
            if where.file != self.file:  # it comes from a function that was inlined before
                scope = self.node(
                    f"!DILexicalBlockFile(scope: {scope}, file: {self._file(where.file)}, discriminator: 0)"
                )
        return f", !dbg {self.node(f'!DILocation(line: {line}, column: {column}, scope: {scope})')}"

    def text(self) -> str:
        """The nodes' definitions."""
        units = [f"!{number}" for node, number in self.nodes.items() if "!DICompileUnit" in node]
        if units:
            self.flags.append('!{i32 2, !"Debug Info Version", i32 3}')
        flags = [self.node(flag) for flag in self.flags]
        lines = [f"!llvm.dbg.cu = !{{{', '.join(units)}}}"] if units else []
        lines += [f"!llvm.module.flags = !{{{', '.join(flags)}}}"] if flags else []
        return "\n".join(lines + [f"!{number} = {node}" for node, number in self.nodes.items()]) + "\n" * bool(
            self.nodes
        )

    def node(self, text: str) -> str:
        """The number of a node with this text."""
        return f"!{self.nodes.setdefault(text, _FIRST + len(self.nodes))}"

    def _file(self, path: str) -> str:
        # PTX has no way to write a quotation mark in a name.
        folder, name = os.path.split(path.replace('"', "'") or "<unknown>")
        return self.node(f'!DIFile(filename: "{_quoted(name)}", directory: "{_quoted(folder)}")')

    def _unit(self, file: str) -> str:
        """One unit for all functions: the file of the first."""
        for node, number in self.nodes.items():
            if "!DICompileUnit" in node:
                return f"!{number}"
        return self.node(
            f'distinct !DICompileUnit(language: DW_LANG_Python, file: {file}, producer: "cuda_device", isOptimized: true, '
            "runtimeVersion: 0, emissionKind: DebugDirectivesOnly)"
        )


def _quoted(text: str) -> str:
    """Text within quotes in LLVM IR."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode())
    return "".join(plain)


# Where the shared arrays of a kernel lie.
#
# shared_offsets(module)       {0: 0, 1: 256}, 384: each array's first byte by its number, and the size of all


# CUDA's limit for arrays whose size the compiler knows.
MAXIMUM_STATIC_SHARED = 48 * 1024
_WIDEST = 16


def shared_arrays(module: Module) -> dict[int, Op]:
    """The shared arrays of a module, by their numbers: copies of an operation stand for the same array."""
    return {int(str(op.attributes["number"])): op for f in module.functions for op in f.ops() if op.code is ops.SHARED}


def shared_size(op: Op) -> tuple[int, int]:
    """The bytes of a shared array, and the boundary that it begins at: one for the widest accesses, if it has room for any."""
    count, align, type = op.attributes["count"], op.attributes["align"], op.result.type
    assert isinstance(count, int) and isinstance(align, int) and isinstance(type, Ref)
    size = count * size_of(type.pointee)
    return size, max(align, _WIDEST) if size >= _WIDEST else align


def shared_offsets(module: Module) -> tuple[dict[int, int], int]:
    """Where each shared array begins, in bytes, and the size of all. Too much of it is a `CompileError`."""
    offsets: dict[int, int] = {}
    end = 0
    for number, op in sorted(shared_arrays(module).items()):
        size, align = shared_size(op)
        offsets[number] = -(-end // align) * align
        end = offsets[number] + size
        if end > MAXIMUM_STATIC_SHARED:
            raise CompileError(
                f"the kernel's shared arrays take {end} bytes or more: {MAXIMUM_STATIC_SHARED} is the most",
                op.location,
                "make the arrays smaller, or view dynamic_shared_array() as one and launch with shared=…",
            )
    return offsets, end


# What LLVM is told of memory where launches have checked that no array that a kernel writes overlaps another.
#
#     load float, ptr addrspace(1) %v5, align 4, !alias.scope !1002, !noalias !1005, !invariant.load !1006
#
# An access belongs to the scope of the array that its address comes from, and meets none of the other scopes. Loads of what
# the kernel never writes always give the same, so a GPU may read them through its cache for constants (`ld.global.nc`); but
# not where atomics, fences or foreign code may wait for another kernel's writes, nor where it writes through pointers: these
# may point into any array, and what is accessed through one belongs to no scope.
#
# Parameters with `noalias` would say more than is true: LLVM then carries values over barriers.


def _writes_anywhere(op: Op) -> bool:
    """Whether an operation writes through a pointer, perhaps to an array of which nobody knows that."""
    references = (operand.type for operand in op.operands if isinstance(operand.type, Ref))
    return Effect.WRITES in op.code.effects and any(type.space is Space.GENERIC for type in references)


class Aliasing:
    """What accesses of one module say; in functions, those of the arrays that any of their calls brings."""

    def __init__(self, module: Module, metadata: Metadata, constant_cache: bool) -> None:
        main = module.main
        self.metadata = metadata
        self.arrays = [i for i, param in enumerate(main.params) if isinstance(param.type, Ref)]
        self.roots = points_to.of_launch(module)
        self.written: Roots = frozenset(self.arrays[number] for number in points_to.written(module))
        self.constant_cache = constant_cache and not any(
            Effect.SPINS in op.code.effects or op.code in (ops.FENCE, ops.EXTERN, ops.PTX) or _writes_anywhere(op)
            for function in module.functions
            for op in function.ops()
        )

    def store(self, reference: Value) -> str:
        """What a store says."""
        found = self.roots.get(reference)
        if not found or not isinstance(reference.type, Ref) or reference.type.space is not Space.GLOBAL:
            return ""
        others = [i for i in self.arrays if i not in found]
        text = f", !alias.scope {self._scopes(sorted(found))}"
        return text + (f", !noalias {self._scopes(others)}" if others else "")

    def load(self, reference: Value) -> str:
        """What a load says."""
        text = self.store(reference)
        if text and self.constant_cache and not self.roots[reference] & self.written:
            text += f", !invariant.load {self.metadata.node('!{}')}"
        return text

    def _scopes(self, arrays: list[int]) -> str:
        domain = self.metadata.node('!{!"arrays of a launch"}')
        scopes = [self.metadata.node(f'!{{!"array {i}", {domain}}}') for i in arrays]
        return self.metadata.node(f"!{{{', '.join(scopes)}}}")
