"""Prints IR as text (`show`), which `ir/ir_reader` reads back.

    func @double(%x.0: float32) -> float32 typed {
    ^0(%x.0: float32):
      %1: float32 = py.binary {op="+"} %x.0 %x.0
      return %1
    }

Python objects that have no literal (functions, modules, code objects) print as `$0`, `$1`, … in the order of the
`objects` list.
"""

from __future__ import annotations

import math

from cuda_device.ir.nodes import Block, Edge, Function, Module, Op, Value
from cuda_device.types import model as types


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
        is_unsigned = isinstance(value.type, types.Number) and not value.type.signed
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
            case _ if isinstance(value, types.Type):
                return f"<{value}>"
            case _:
                found = [i for i, known in enumerate(self.objects) if known is value]
                if not found:
                    self.objects.append(value)
                return f"${(*found, len(self.objects) - 1)[0]}"
