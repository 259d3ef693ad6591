"""Device IR → LLVM IR as text: one emitter for each operation of the device level.

    %5: float32 = add %3 %4        →        %v5 = fadd contract float %v3, %v4

Text and not a builder's objects, because a line says what it means, costs a microsecond, and can hold all that LLVM's
language has (ranges, `nneg`, scopes of atomics). What differs between machines is the dialect's.
"""

from __future__ import annotations

from cuda_device.codegen.emit import float8, llvm_writer
from cuda_device.codegen.emit.dialect import Dialect
from cuda_device.codegen.emit.emitters import EMITTERS, local_size
from cuda_device.codegen.emit.llvm_writer import FunctionWriter, ModuleWriter
from cuda_device.device.options import DEFAULTS, Options
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Module, Op, Value
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.model import BOOL


@dataclass(frozen=True, slots=True)
class Llvm:
    """LLVM IR, and what has to be linked to it. `parameters` are the types of the main function's parameters."""

    text: str
    library: frozenset[str]
    parameters: tuple[str, ...]
    shared_bytes: int


def run(module: Module, dialect: Dialect, options: Options = DEFAULTS) -> Llvm:
    """Writes a device module. The options say what arithmetic may do, and whether there is a table of lines."""
    writer = ModuleWriter(dialect, options)
    functions = [_function(FunctionWriter(writer, function)) for function in module.functions]
    parameters = tuple(writer.memory_type(param.type) for param in module.main.params)
    tail = dialect.runner(parameters)
    helpers = [float8.definition(*conversion, dialect.has_float8) for conversion in sorted(writer.conversions)]
    writer.declared |= float8.declarations(writer.conversions) if dialect.has_float8 else set()
    declarations = "".join(f"declare {line}\n" for line in sorted(writer.declared))
    text = "\n".join((declarations, *helpers, *functions, tail + writer.metadata.text()))
    text = f"{dialect.preamble(text)}\n{text}"
    return Llvm(text, frozenset(writer.library), parameters, dialect.shared_bytes)


def _function(to: FunctionWriter) -> str:
    """The whole definition."""
    function = to.function
    for block in function.blocks:
        for value in block.params:
            to.name(value)
    parameters = [_parameter(to, value) for value in function.params]
    interop = function.interop
    result = llvm_writer.result(to, function.result) if interop else to.module.type(function.result)
    head, to.label = to.dialect.open(function, result, parameters, _allocas(to))
    head = head.replace(" {\n", f"{to.module.metadata.function(function)} {{\n", 1)
    bodies = []
    for block in function.blocks:
        to.lines = []
        if block is function.blocks[0]:
            _unpack_parameters(to)
        else:
            to.label = to.labels[block]
        for op in block.ops:
            written = len(to.lines)
            EMITTERS[op.code](to, op)
            _locate(to, op, written)
        to.ends[block] = to.label
        bodies.append("".join(to.lines))
    texts = [head, bodies[0]]
    entries = _entries(to)
    for block, body in zip(function.blocks[1:], bodies[1:], strict=True):
        phis = "".join(_phi(to, i, param, entries[block]) for i, param in enumerate(block.params))
        texts += [f"{to.labels[block]}:\n", phis, body]
    return "".join(texts) + to.dialect.close(function)


def _locate(to: FunctionWriter, op: Op, start: int) -> None:
    """Says of the lines that an operation has become where it stands in the program."""
    place = to.module.metadata.place(op.location)
    if place:
        # What is not indented is a label.
        to.lines[start:] = [
            f"{line}{place}\n" if line.startswith(" ") else f"{line}\n"
            for line in "".join(to.lines[start:]).splitlines()
        ]


def _parameter(to: FunctionWriter, value: Value) -> str:
    """A parameter in the function's head."""
    if to.function.interop:
        return llvm_writer.parameter(to, value)
    # A bool crosses a kernel's boundary as the byte that it is in memory.
    if to.function.kernel and value.type == BOOL:
        return f"i8 {to.names[value]}.byte"
    return f"{to.module.type(value.type)} {to.module.promise(value)}{to.names[value]}"


def _allocas(to: FunctionWriter) -> str:
    """The lines that make the function's own memory; where more than a frame's alignment is asked for, with room for it."""
    lines = []
    most = to.dialect.frame_alignment
    for op in to.function.ops():
        if op.code is ops.PRINT and op.operands:
            to.buffers[id(op)] = to.fresh()
            lines.append(f"  {to.buffers[id(op)]} = alloca [{len(op.operands)} x i64], align 8\n")
    for op in to.function.ops():
        if op.code is ops.LOCAL:
            size, align = local_size(op)
            align, extra = (align, 0) if align <= most else (most, align)
            lines.append(f"  {to.name(op.result)} = alloca [{size + extra} x i8], align {align}\n")
    return "".join(lines)


def _unpack_parameters(to: FunctionWriter) -> None:
    """Makes bools of the bytes that a kernel got, and values of what came in more bits."""
    for value in to.function.params:
        if to.function.interop:
            llvm_writer.unpack(to, value)
        elif to.function.kernel and value.type == BOOL:
            to.line(f"{to.names[value]} = icmp ne i8 {to.names[value]}.byte, 0")


def _entries(to: FunctionWriter) -> dict[Block, list[tuple[str, Edge]]]:
    """The edges into each block, each with the label of the LLVM block that it leaves."""
    entries: dict[Block, list[tuple[str, Edge]]] = {block: [] for block in to.function.blocks}
    for block in to.function.blocks:
        for edge in block.successors:
            entries[edge.block].append((to.ends[block], edge))
    return entries


def _phi(to: FunctionWriter, index: int, param: Value, entries: list[tuple[str, Edge]]) -> str:
    """A block's parameter."""
    incoming = ", ".join(f"[ {to.names[edge.arguments[index]]}, %{label} ]" for label, edge in entries)
    return f"  {to.names[param]} = phi {to.module.type(param.type)} {incoming}\n"
