"""What stands behind the functions of a module in LLVM IR: its flags, and the table of the user's lines for profilers.

    metadata.function(f)               " !dbg !2": f stands at this line of this file
    metadata.place(op.location)        ", !dbg !5": this instruction does
    metadata.text()                    !llvm.dbg.cu = !{!0} …

LLVM makes of it `.file` and `.loc` in PTX, and nothing for debuggers: the code is the same as without.
"""

from __future__ import annotations

import os

from cuda_device.errors import Location
from cuda_device.ir.nodes import Function

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
