"""PTX's text as data.

read(text).functions["saxpy"].code[3]  ->  ld.global.nc.b32 %r8, [%rd6];
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


class Unsupported(Exception):
    """The machine has no meaning for this piece of PTX."""


@dataclass(frozen=True)
class Parameter:
    name: str
    size: int
    align: int


@dataclass(frozen=True)
class Variable:
    """`initial` has bytes, and (symbol, is generic) for addresses, one entry for each element of `width` bytes."""

    name: str
    space: str
    size: int
    align: int
    width: int = 1
    initial: tuple[object, ...] = ()


@dataclass(frozen=True)
class Instruction:
    """`guard` is a predicate's name and whether it is negated; operands are texts, or tuples of texts in braces."""

    text: str
    opcode: tuple[str, ...]
    operands: tuple[str | tuple[str, ...], ...]
    guard: tuple[str, bool] | None = None


@dataclass
class Function:
    name: str
    is_kernel: bool
    parameters: tuple[Parameter, ...] = ()
    results: tuple[Parameter, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)  # the type by prefix (%r) or name
    local: list[Variable] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)  # targets of brx.idx
    is_defined: bool = False


@dataclass
class Program:
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_LINES = re.compile(
    r"^\s*\.(version|target|address_size|file|loc|minnctapersm|maxntid|reqntid|maxnreg)\b[^\n{;(]*", re.M
)
_SECTION = re.compile(r"^\s*\.section\b[^{]*\{[^}]*\}", re.M)
_LABEL = re.compile(r"\s*([$\w]+):(?!:)")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.S)
_RANGE = re.compile(r"(%?[\w$]+)<\d+>")
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(global|const|shared|local|param)\s+(?:\.align\s+(\d+)\s+)?"
    r"\.([busf])(\d+)\s+([\w$]+)\s*(\[\s*(\d*)\s*\])?\s*(?:=\s*(.*))?$",
    re.S,
)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.([busf])(\d+)\s+(?:\.ptr\s+(?:\.(?!align)\w+\s+)?(?:\.align\s+\d+\s+)?)?([\w$]+)(?:\[(\d+)\])?"
)
_HEADER = re.compile(r"(?:\.(?:visible|extern|weak)\s+)*\.(entry|func)\s*(\([^)]*\))?\s*([\w$]+)\s*(\([^)]*\))?", re.S)


def read(text: str) -> Program:
    """The functions and variables of a module."""
    text = _SECTION.sub("", _COMMENT.sub("", text))
    text = _LINES.sub("", text)
    program, at = Program(), 0
    while match := re.compile(r"\s*\S").match(text, at):
        at = match.end() - 1
        end = re.compile(r"[;{]").search(text, at)
        if end is None:
            raise Unsupported(f"unfinished: {text[at : at + 80]!r}")
        head = text[at : end.start()].strip()
        at = end.end()
        if header := _HEADER.match(head):
            function = _function(header)
            if end[0] == "{":
                at = _body(text, at, function)
                function.is_defined = True
            if function.is_defined or function.name not in program.functions:
                program.functions[function.name] = function
        elif head:
            if end[0] == "{":  # an initialiser
                close = text.index(";", at)
                head, at = head + "{" + text[at:close], close + 1
            variable = _variable(head)
            program.variables[variable.name] = variable
    return program


def _function(header: re.Match[str]) -> Function:
    kind, results, name, parameters = header.groups()
    return Function(name, kind == "entry", _parameters(parameters), _parameters(results))


def _parameters(text: str | None) -> tuple[Parameter, ...]:
    found = []
    for match in _PARAMETER.finditer(text or ""):
        align, _, bits, name, count = match.groups()
        size = int(bits) // 8
        found.append(Parameter(name, size * int(count or 1), int(align or size)))
    return tuple(found)


def _variable(text: str) -> Variable:
    match = _VARIABLE.match(text.strip())
    if match is None:
        raise Unsupported(text)
    space, align, _, bits, name, array, count, initial = match.groups()
    width = int(bits) // 8
    size = width * int(count or (0 if array else 1))
    return Variable(name, space, size, int(align or width), width, tuple(_initial(initial)) if initial else ())


def _initial(text: str) -> list[object]:
    entries: list[object] = []
    for entry in text.strip().strip("{}").split(","):
        entry = entry.strip()
        if re.fullmatch(r"-?\d+|0[xX][0-9a-fA-F]+", entry):
            entries.append(int(entry, 0))
        elif re.fullmatch(r"0[fFdD][0-9a-fA-F]+", entry):
            entries.append(int(entry[2:], 16))
        elif match := re.fullmatch(r"(generic\()?([\w$]+)\)?(?:\+(\d+))?", entry):
            entries.append((match[2], bool(match[1]), int(match[3] or 0)))
        else:
            raise Unsupported(f"initialiser {entry!r}")
    return entries


def _body(text: str, at: int, function: Function) -> int:
    """Reads statements from `at` on, up to the brace that closes the function; returns where it ends."""
    depth, label = 1, ""
    while True:
        match = re.compile(r"\s*").match(text, at)
        at = match.end()
        if text[at] in "{}":
            depth += 1 if text[at] == "{" else -1
            at += 1
            if depth == 0:
                return at
        elif found := _LABEL.match(text, at):
            label = found[1]
            function.labels[label] = len(function.code)
            at = found.end()
        else:
            end = text.index(";", at)
            _statement(text[at:end].strip(), label, function)
            at = end + 1


def _statement(text: str, label: str, function: Function) -> None:
    if text.startswith(".reg"):
        kind, names = _REGISTERS.match(text).groups()
        for name in names.split(","):
            ranged = _RANGE.fullmatch(name.strip())
            function.registers[ranged[1] if ranged else name.strip()] = kind
    elif text.startswith(".branchtargets"):
        function.tables[label] = [name.strip() for name in text.removeprefix(".branchtargets").split(",")]
    elif text.startswith((".local", ".shared", ".param", ".global", ".const")):
        function.local.append(_variable(text))
    elif text.startswith((".pragma", ".callprototype")):
        pass
    elif text:
        function.code.append(_instruction(text))


_GUARD = re.compile(r"@(!?)([%\w$]+)\s+")


def _instruction(text: str) -> Instruction:
    guard, rest = None, text
    if match := _GUARD.match(text):
        guard, rest = (match[2], bool(match[1])), text[match.end() :]
    opcode, operands = re.match(r"(\S+)\s*(.*)", rest, re.S).groups()
    return Instruction(" ".join(text.split()), tuple(opcode.split(".")), tuple(_operands(operands)), guard)


def _operands(text: str) -> list[str | tuple[str, ...]]:
    """What stands between commas outside of brackets; what stands in braces or parentheses as a tuple; a|b as two."""
    found: list[str | tuple[str, ...]] = []
    for part in _split(text):
        if part.startswith(("{", "(")):
            found.append(tuple(_split(part[1:-1])))
        elif "|" in part:
            found.append(tuple(item.strip() for item in part.split("|")))
        else:
            found.append(part)
    return found


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "{([") - (character in "})]")
        if character == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [" ".join(part.split()) for part in parts if part]
