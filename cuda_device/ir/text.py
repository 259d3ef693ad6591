"""The text form of the IR: `show` prints it, and `parse` reads it, with `show(parse(show(f))) == show(f)`.

    func @double(%x.0: float32) -> float32 typed {
    ^0(%x.0: float32):
      %1: float32 = py.binary {op="+"} %x.0 %x.0
      return %1
    }

    parse_type("array<float32, 2, C>")       Array(FLOAT32, 2, Layout.C), whose text that is
    read_module("func @f -> …")              a module of all functions in the text

Attributes print as Python literals. Objects without a literal (functions, modules, code objects) print as `object(0)`,
`object(1)`, … in the order of the `objects` list. Programs can pass typed IR to `compile` in this form, and tests use it for IR
that is hard to write as Python.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Module, Op, Value
from cuda_device.ir.ops import Level
from cuda_device.types.model import NONE, Number, Type
from cuda_device.types.type_text import parse_type, split_list

# Printing


def show(function: Function, objects: list[object] | None = None) -> str:
    """The text of a function. Objects without a literal are appended to `objects`."""
    return _Printer(objects if objects is not None else []).function(function)


def show_module(module: Module) -> str:
    """The text of every function of a module."""
    return "\n".join(show(function) for function in module.functions)


# Python refuses to print more than 4300 decimal digits.
_HEXADECIMAL = 1 << 256


class _Printer:
    def __init__(self, objects: list[object]) -> None:
        self.objects = objects
        self.names: dict[Value, str] = {}
        self.labels: dict[Block, str] = {}

    def function(self, function: Function) -> str:
        self.labels = {block: f"^{i}" for i, block in enumerate(function.blocks)}
        for block in function.blocks:
            for value in (*block.params, *(result for op in block.ops for result in op.results)):
                self.names[value] = f"%{value.hint}.{len(self.names)}" if value.hint else f"%{len(self.names)}"
        flags = " kernel" * function.kernel + " interop" * function.interop
        assert function.level.name is not None
        head = f"func @{function.name} -> {function.result}{flags} {function.level.name.lower()} {{\n"
        return head + "".join(map(self.block, function.blocks)) + "}\n"

    def block(self, block: Block) -> str:
        params = ", ".join(map(self.typed, block.params))
        return f"{self.labels[block]}({params}):\n" + "".join(f"  {self.op(op)}\n" for op in block.ops)

    def op(self, op: Op) -> str:
        words = [op.code.name]
        if op.attributes:
            words.append("{" + ", ".join(f"{k}={self.literal(v)}" for k, v in op.attributes.items()) + "}")
        words += [self.names.get(value, "%?") for value in op.operands]
        words += [self.edge(edge) for edge in op.successors]
        results = ", ".join(map(self.typed, op.results))
        return (f"{results} = " if results else "") + " ".join(words)

    def typed(self, value: Value) -> str:
        kind = "" if value.type is None else f": {value.type}"
        is_unsigned = isinstance(value.type, Number) and not value.type.signed
        return self.names[value] + kind + " nonneg" * (value.nonneg and not is_unsigned)

    def edge(self, edge: Edge) -> str:
        arguments = ", ".join(self.names.get(value, "%?") for value in edge.arguments)
        return f"{self.labels.get(edge.block, '^?')}({arguments})"

    def literal(self, value: object) -> str:
        match value:
            case str():
                return '"' + value.encode("unicode_escape").decode().replace('"', '\\"') + '"'
            case bool() | None:
                return repr(value)
            case int():
                return repr(value) if abs(value) < _HEXADECIMAL else hex(value)
            case float():
                return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
            case complex():
                return f"complex({str(value)!r})"
            case tuple():
                return "(" + "".join(f"{self.literal(item)}, " for item in value).rstrip(" ") + ")"
            case _ if isinstance(value, Type):
                return f"type({self.literal(str(value))})"
            case _:
                numbers = [i for i, known in enumerate(self.objects) if known is value]
                if not numbers:
                    self.objects.append(value)
                return f"object({(*numbers, len(self.objects) - 1)[0]})"


# Functions


def read_module(text: str, objects: Sequence[object] = ()) -> Module:
    """The functions that print as `text`; each ends with a line `}`. Raises `ValueError`."""
    ends = [match.end() for match in re.finditer(r"^\}$", text, re.MULTILINE)]
    if not ends or text[ends[-1] :].strip():
        raise ValueError("the text does not end with a line '}'")
    module = Module([parse(text[start:end], objects) for start, end in zip([0, *ends], ends, strict=False)])
    for function in module.functions:
        function.shown, function.signature = function.name, tuple(param.type or NONE for param in function.params)
    return module


def parse(text: str, objects: Sequence[object] = ()) -> Function:
    """The function that prints as `text`. Raises `ValueError` with the line that cannot be read."""
    return _Parser(text, objects).function()


_HEAD = re.compile(r"func @(\S+) -> (.+?)( kernel)?( interop)? (python|typed|device) \{")
_LABEL = re.compile(r"(\^\d+)\((.*)\):")
_VALUE = re.compile(r"%[^\s,():]+")
_EDGE = re.compile(r"(\^\d+)\(([^()]*)\)")
_OP = re.compile(r"(?:(%.*?) = )?([\w.]+)(?: (\{.*\}))?((?: %[^\s,():]+)*)((?: \^\d+\([^()]*\))*)")
_CONSTRUCTORS: dict[str, Callable[[Any], object]] = {"float": float, "complex": complex, "type": parse_type}


class _Parser:
    def __init__(self, text: str, objects: Sequence[object]) -> None:
        self.lines = [line.strip() for line in text.splitlines() if line.strip()]
        self.objects = objects
        self.values: dict[str, Value] = {}
        self.blocks: dict[str, Block] = {}

    def function(self) -> Function:
        head = _HEAD.fullmatch(self.lines[0]) if self.lines else None
        if head is None:
            raise ValueError(f"not the head of a function: {self.lines[0] if self.lines else ''!r}")
        if len(self.lines) < 2 or self.lines[-1] != "}":
            raise ValueError(f"the function does not end with a line '}}': {self.lines[-1]!r}")
        name, result, kernel, interop, level = head.groups()
        body = self.lines[1:-1]
        block: Block | None = None
        line = ""
        try:
            for line in body:
                self.declare(line)
            for line in body:
                block = self.line(line, block)
        except (LookupError, TypeError, ValueError, SyntaxError) as error:
            raise ValueError(f"cannot read {line!r}: {error}") from error
        blocks = list(self.blocks.values())
        if not blocks:
            raise ValueError(f"{name} has no block")
        return Function(name, blocks, Level[level.upper()], parse_type(result), bool(kernel), bool(interop))

    def declare(self, line: str) -> None:
        """Creates the block of a label, so that jumps can refer to it."""
        if label := _LABEL.fullmatch(line):
            if label[1] in self.blocks:
                raise ValueError(f"there are two blocks {label[1]}")
            self.blocks[label[1]] = Block()

    def line(self, line: str, block: Block | None) -> Block:
        """Reads a label or an operation; returns its block."""
        if label := _LABEL.fullmatch(line):
            block = self.blocks[label[1]]
            block.params = [self.define(param) for param in split_list(label[2])]
        elif block is None:
            raise ValueError("an operation before the first block")
        else:
            block.ops.append(self.op(line))
        return block

    def value(self, name: str) -> Value:
        if name not in self.values:
            self.values[name] = Value(hint=name[1:].rpartition(".")[0])
        return self.values[name]

    def define(self, text: str) -> Value:
        name, _, kind = text.strip().partition(": ")
        if not _VALUE.fullmatch(name):
            raise ValueError(f"{name!r} is no value")
        value = self.value(name)
        plain = kind.removesuffix(" nonneg")
        value.type = parse_type(plain) if plain else None
        value.nonneg = plain != kind or (isinstance(value.type, Number) and not value.type.signed)
        return value

    def op(self, line: str) -> Op:
        match = _OP.fullmatch(line)
        if match is None:
            raise ValueError("no operation")
        results, name, attributes, operands, edges = match.groups()
        return Op(
            ops.BY_NAME[name],
            [self.value(operand) for operand in operands.split()],
            [self.define(result) for result in split_list(results or "")],
            self.attributes(attributes) if attributes else {},
            [Edge(self.blocks[label], self.arguments(listed)) for label, listed in _EDGE.findall(edges)],
        )

    def arguments(self, text: str) -> list[Value]:
        names = split_list(text)
        if bad := [name for name in names if not _VALUE.fullmatch(name)]:
            raise ValueError(f"{bad[0]!r} is no value")
        return [self.value(name) for name in names]

    def attributes(self, text: str) -> dict[str, object]:
        """The attributes in braces, which are written like the keywords of a call in Python."""
        call = ast.parse(f"dict({text[1:-1]})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError(f"no attributes: {text}")
        return {str(keyword.arg): self.literal(keyword.value) for keyword in call.keywords}

    def literal(self, node: ast.expr) -> object:
        match node:
            case ast.Tuple(items):
                return tuple(map(self.literal, items))
            case ast.Call(ast.Name(name), [argument]) if name in _CONSTRUCTORS:
                return _CONSTRUCTORS[name](ast.literal_eval(argument))
            case ast.Call(ast.Name("object"), [number]):
                return self.objects[ast.literal_eval(number)]
        return ast.literal_eval(node)
