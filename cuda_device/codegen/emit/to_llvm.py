"""Device IR → LLVM IR as text: one emitter for each operation of the device level.

    %5: float32 = add %3 %4        →        %v5 = fadd contract float %v3, %v4

Text and not a builder's objects, because a line says what it means, costs a microsecond, and can hold all that LLVM's
language has (ranges, `nneg`, scopes of atomics). What differs between machines is the dialect's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from cuda_device.codegen.emit import float8, floats, parameter_passing
from cuda_device.codegen.emit.aliasing import Aliasing
from cuda_device.codegen.emit.dialects import Cpu, Dialect, Nvptx
from cuda_device.codegen.emit.emitters import EMITTERS, local_size
from cuda_device.codegen.emit.metadata import Metadata
from cuda_device.codegen.emit.shadow import distance_of
from cuda_device.device.options import DEFAULTS, LLVM_FLAGS, Options
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Module, Op, Value
from cuda_device.ir.uses import used
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.optimise import alignment
from cuda_device.types.layout import WIDEST_ACCESS, size_of
from cuda_device.types.model import BOOL, Format, NoneType, Number, Ref, Tuple, Type, Vector


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
    functions = [FunctionWriter(writer, function).text() for function in module.functions]
    parameters = tuple(writer.memory_type(param.type) for param in module.main.params)
    tail = dialect.runner(parameters) if isinstance(dialect, Cpu) else ""
    helpers = [float8.definition(*conversion, dialect.has_float8) for conversion in sorted(writer.conversions)]
    writer.declared |= float8.declarations(writer.conversions) if dialect.has_float8 else set()
    declarations = "".join(f"declare {line}\n" for line in sorted(writer.declared))
    text = "\n".join((declarations, *helpers, *functions, tail + writer.metadata.text()))
    text = f"{dialect.preamble(text)}\n{text}"
    return Llvm(text, frozenset(writer.library), parameters, dialect.shared_bytes)


class ModuleWriter:
    """What the functions of a module share: declarations, the dialect, the spelling of types."""

    def __init__(self, dialect: Dialect, options: Options) -> None:
        self.dialect = dialect
        flags = [name for name in options.fastmath if name in LLVM_FLAGS]
        self.relaxed = "".join(f" {flag}" for flag in flags)
        """What LLVM may do with operations on floats; `fuse` is the same for products and sums."""
        self.fuse = self.relaxed + (" contract" if options.contract and "contract" not in flags else "")
        self.has_extremes = "afn" in flags and isinstance(dialect, Nvptx)
        """Whether `min` and `max` of float32 are one instruction of a GPU, which takes a number rather than NaN, and any zero."""
        self.metadata = Metadata(options.lineinfo and dialect.has_lines, dialect.module_flags())
        self.aliasing = (
            Aliasing(dialect.module, self.metadata, isinstance(dialect, Nvptx)) if options.launch_facts else None
        )
        counts = options.launch_facts and isinstance(dialect, Nvptx)
        self.aligned = alignment.references(dialect.module) if counts else []
        """The parameters that point to multiples of 16 bytes: launches see to it."""
        self.declared: set[str] = set()
        self.library: set[str] = set()
        self.conversions: set[tuple[Format, float8.Direction]] = set()

    @cached_property
    def has_both_halves(self) -> bool:
        """See `floats`."""
        return floats.has_both_halves(self.dialect.module)

    @cached_property
    def mixes_halves(self) -> bool:
        """See `floats`."""
        return floats.mixes_halves(self.dialect.module)

    def type(self, type: Type | None) -> str:
        """A type in a register."""
        match type:
            case Number() if type == BOOL:
                return "i1"
            case Number():
                return floats.name(type) if type.is_float and not type.is_float8 else f"i{type.bits}"
            case Ref(space):
                return self.dialect.pointer(space)
            case Vector(dtype, size):
                return f"<{size} x {self.type(dtype)}>"
            case Tuple(elements):
                return "{ " + ", ".join(map(self.type, elements)) + " }" if elements else "{}"
            case NoneType():
                return "void"
        raise AssertionError(type)

    def memory_type(self, type: Type | None) -> str:
        """A type in memory: a bool is a byte."""
        return "i8" if type == BOOL else self.type(type)

    def element_type(self, type: Type) -> str:
        """A type that is as large as `type` in memory, for steps over elements."""
        real = isinstance(type, Number) and not type.is_complex
        return self.memory_type(type) if real else f"[{size_of(type)} x i8]"

    def call(self, name: str, result: str, types: Sequence[str]) -> str:
        """Declares a function and begins a call of it."""
        self.declared.add(f"{result} @{name}({', '.join(types)})")
        return f"call {result} @{name}"

    def promise(self, value: Value) -> str:
        """What a function's head says of a parameter: that a signed integer, such as a length, is never below zero."""
        if value in self.aligned:
            return f"align {WIDEST_ACCESS} "
        number = value.type
        if not (value.nonneg and isinstance(number, Number) and number.is_integer and number.signed):
            return ""
        return f"range(i{number.bits} 0, {number.low}) "


class FunctionWriter:
    """Writes one function. `names` maps values to operands: a register, or a constant's text."""

    def __init__(self, module: ModuleWriter, function: Function) -> None:
        self.module, self.dialect, self.function = module, module.dialect, function
        self.names: dict[Value, str] = {}
        self.constants: dict[Value, object] = {}
        self.labels = {block: f"b{i}" for i, block in enumerate(function.blocks)}
        self.ends: dict[Block, str] = {}
        self.lines: list[str] = []
        self.buffers: dict[int, str] = {}
        """The memory from which each `print` prints."""
        self.label = ""
        self.counter = 0

    def text(self) -> str:
        """The whole definition."""
        function = self.function
        for block in function.blocks:
            for value in block.params:
                self.name(value)
        parameters = [self.parameter(value) for value in function.params]
        interop = function.interop
        result = parameter_passing.result(self, function.result) if interop else self.module.type(function.result)
        head, self.label = self.dialect.open(function, result, parameters, self.allocas())
        head = head.replace(" {\n", f"{self.module.metadata.function(function)} {{\n", 1)
        bodies = []
        for block in function.blocks:
            self.lines = []
            if block is function.blocks[0]:
                self.unpack_parameters()
            else:
                self.label = self.labels[block]
            for op in block.ops:
                written = len(self.lines)
                EMITTERS[op.code](self, op)
                self.locate(op, written)
            self.ends[block] = self.label
            bodies.append("".join(self.lines))
        texts = [head, bodies[0]]
        entries = self.entries()
        for block, body in zip(function.blocks[1:], bodies[1:], strict=True):
            phis = "".join(self.phi(i, param, entries[block]) for i, param in enumerate(block.params))
            texts += [f"{self.labels[block]}:\n", phis, body]
        return "".join(texts) + self.dialect.close(function)

    @cached_property
    def used(self) -> set[Value]:
        """The values that something reads."""
        return used(self.function)

    def locate(self, op: Op, start: int) -> None:
        """Says of the lines that an operation has become where it stands in the program."""
        place = self.module.metadata.place(op.location)
        if place:
            # What is not indented is a label.
            self.lines[start:] = [
                f"{line}{place}\n" if line.startswith(" ") else f"{line}\n"
                for line in "".join(self.lines[start:]).splitlines()
            ]

    def parameter(self, value: Value) -> str:
        """A parameter in the function's head."""
        if self.function.interop:
            return parameter_passing.parameter(self, value)
        # A bool crosses a kernel's boundary as the byte that it is in memory.
        if self.function.kernel and value.type == BOOL:
            return f"i8 {self.names[value]}.byte"
        return f"{self.module.type(value.type)} {self.module.promise(value)}{self.names[value]}"

    def allocas(self) -> str:
        """The lines that make the function's own memory; where more than a frame's alignment is asked for, with room for it."""
        lines = []
        most = self.dialect.frame_alignment
        for op in self.function.ops():
            if op.code is ops.PRINT and op.operands:
                self.buffers[id(op)] = self.fresh()
                lines.append(f"  {self.buffers[id(op)]} = alloca [{len(op.operands)} x i64], align 8\n")
        for op in self.function.ops():
            if op.code is ops.LOCAL:
                size, align = local_size(op)
                size += distance_of(op)
                align, extra = (align, 0) if align <= most else (most, align)
                lines.append(f"  {self.name(op.result)} = alloca [{size + extra} x i8], align {align}\n")
        return "".join(lines)

    def unpack_parameters(self) -> None:
        """Makes bools of the bytes that a kernel got, and values of what came in more bits."""
        for value in self.function.params:
            if self.function.interop:
                parameter_passing.unpack(self, value)
            elif self.function.kernel and value.type == BOOL:
                self.line(f"{self.names[value]} = icmp ne i8 {self.names[value]}.byte, 0")

    def entries(self) -> dict[Block, list[tuple[str, Edge]]]:
        """The ways into each block: where they come from, what they bring."""
        entries: dict[Block, list[tuple[str, Edge]]] = {block: [] for block in self.function.blocks}
        for block in self.function.blocks:
            for edge in block.successors:
                entries[edge.block].append((self.ends[block], edge))
        return entries

    def phi(self, index: int, param: Value, entries: list[tuple[str, Edge]]) -> str:
        """A block's parameter."""
        ways = ", ".join(f"[ {self.names[edge.arguments[index]]}, %{label} ]" for label, edge in entries)
        return f"  {self.names[param]} = phi {self.module.type(param.type)} {ways}\n"

    # What emitters use

    def line(self, text: str) -> None:
        """Writes an instruction."""
        self.lines.append(f"  {text}\n")

    def fresh(self) -> str:
        """A register that nothing else has."""
        self.counter += 1
        return f"%v{self.counter}"

    def name(self, value: Value) -> str:
        """The register of a value."""
        if value not in self.names:
            self.names[value] = self.fresh()
        return self.names[value]

    def temporary(self, text: str) -> str:
        """Writes an instruction whose result only the emitter needs."""
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name

    def result(self, op: Op, text: str) -> None:
        """Writes the instruction that makes an operation's result."""
        self.line(f"{self.name(op.result)} = {text}")

    def typed(self, value: Value) -> str:
        """A value with its type, as in a call."""
        return f"{self.module.type(value.type)} {self.names[value]}"

    def operands(self, op: Op) -> str:
        """The operands of an operation whose type they share: `float %v1, %v2`."""
        return f"{self.module.type(op.operands[0].type)} {', '.join(self.names[value] for value in op.operands)}"
