"""`ModuleWriter` and `FunctionWriter`, with which emitters write LLVM IR.

to.result(op, f"fneg {to.operands(op)}")             %v3 = fneg float %v2
to.names[op.result] = to.names[op.operands[0]]       the result is another value
to.module.type(FLOAT16)                              "half"
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from cuda_device.cache import sha256
from cuda_device.codegen.emit.dialect import Dialect, Emitter
from cuda_device.device.options import LLVM_FLAGS, Options
from cuda_device.errors import Location
from cuda_device.ir import ops
from cuda_device.ir.dominance import used
from cuda_device.ir.nodes import Block, Function, Module, Op, Value
from cuda_device.ir.ops import Effect, OpDef
from cuda_device.optimise import loop_addresses, points_to
from cuda_device.types import model
from cuda_device.types.layout import align_of, float_bits, is_by_value, leaves, size_of


def literal(type: model.Type, value: object) -> str:
    """The text of `value` as an operand of `type`."""
    if isinstance(type, model.Ref):
        return "null"
    assert isinstance(type, model.Number) and isinstance(value, (bool, int, float)), (type, value)
    if type.is_float:
        match type.format:
            case model.Format.IEEE:
                return _float(type.bits, float(value))
            case model.Format.BFLOAT:
                return f"0xR{float_bits(type, float(value)):04X}"
            case _:
                return str(float_bits(type, float(value)))
    if type.kind is model.NumberKind.BOOL:
        return "true" if value else "false"
    return str(int(value))


def _float(bits: int, value: float) -> str:
    code = {16: "<e", 32: "<f", 64: "<d"}[bits]
    try:
        packed = struct.pack(code, value)
    except OverflowError:
        packed = struct.pack(code, math.copysign(math.inf, value))
    if bits == 16:
        return f"0xH{struct.unpack('<H', packed)[0]:04X}"
    (rounded,) = struct.unpack(code, packed)
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


def float_suffix(number: model.Number) -> str:
    """A float in the name of an intrinsic."""
    return f"{'b' if number.bfloat else ''}f{number.bits}"


# Metadata: flags, source locations for profilers (`.file` and `.loc` in PTX), DWARF for debuggers, and aliasing

_FIRST = 1000
"""The number of the first node; the CPU runner has smaller ones."""


class Metadata:
    """The metadata nodes of a module. `lines` adds source locations, and `dwarf` is the version of DWARF, or 0 for none."""

    def __init__(self, lines: bool, flags: tuple[str, ...] = (), dwarf: int = 0) -> None:
        self.lines, self.dwarf = lines, dwarf
        self.flags = list(flags)
        self.nodes: dict[str, int] = {}
        self.scope = self.unit = ""
        self.file = ""
        self.line = 0

    def function(self, function: Function) -> str:
        """The debug information of a function's definition, which is the scope of the following locations."""
        if not self.lines:
            return ""
        where = function.location
        self.file, self.line = where.file, max(where.line, 0)
        file = self._file(where.file)
        kind = self.node("!DISubroutineType(types: " + self.node("!{null}") + ")")
        self.scope = self.node(
            f'distinct !DISubprogram(name: "{quoted(function.shown or function.name)}", linkageName: "{function.name}", '
            f"scope: {file}, file: {file}, line: {self.line}, type: {kind}, scopeLine: {self.line}, "
            f"spFlags: DISPFlagDefinition{'' if self.dwarf else ' | DISPFlagOptimized'}, unit: {self._unit(file)})"
        )
        return f" !dbg {self.scope}"

    def location(self, location: Location) -> str:
        """The location of an instruction; the line of the function if it is not known."""
        scope, line, column = self.scope, self.line, 0
        if location.line > 0:
            line, column = location.line, max(location.column + 1, 0)
            if location.file != self.file:  # of a function that was inlined
                scope = self.node(
                    f"!DILexicalBlockFile(scope: {scope}, file: {self._file(location.file)}, discriminator: 0)"
                )
        return f", !dbg {self.node(f'!DILocation(line: {line}, column: {column}, scope: {scope})')}"

    def variable(self, name: str, type: model.Type | None, location: Location) -> str:
        """A variable of the current function; an array is shown as a pointer."""
        return self.node(
            f'!DILocalVariable(name: "{quoted(name)}", scope: {self.scope}, file: {self._file(location.file)}, '
            f"line: {max(location.line, 0)}, type: {self._type(type)})"
        )

    def _type(self, type: model.Type | None) -> str:
        if isinstance(type, model.Ref):
            base = self._type(type.pointee)
            return self.node(f"!DIDerivedType(tag: DW_TAG_pointer_type, baseType: {base}, size: 64)")
        if not isinstance(type, model.Number):
            return "null"  # void
        kind = (
            "boolean" if type == model.BOOL else "float" if type.is_float else "signed" if type.signed else "unsigned"
        )
        return self.node(f'!DIBasicType(name: "{type}", size: {8 * size_of(type)}, encoding: DW_ATE_{kind})')

    def text(self) -> str:
        """The definitions of the nodes."""
        if not self.nodes and not self.flags:
            return ""
        if self.unit:
            self.flags.append('!{i32 2, !"Debug Info Version", i32 3}')
            self.flags += [f'!{{i32 7, !"Dwarf Version", i32 {self.dwarf}}}'] if self.dwarf else []
        flags = [self.node(flag) for flag in self.flags]
        lines = [f"!llvm.dbg.cu = !{{{self.unit}}}"] if self.unit else []
        lines += [f"!llvm.module.flags = !{{{', '.join(flags)}}}"] if flags else []
        return "\n".join(lines + [f"!{number} = {node}" for node, number in self.nodes.items()]) + "\n"

    def node(self, text: str) -> str:
        """The number of a node with this text."""
        return f"!{self.nodes.setdefault(text, _FIRST + len(self.nodes))}"

    def rolled_loop(self) -> str:
        """A node for one loop, which keeps LLVM from unrolling it if its trip count is known only when it runs."""
        rule = self.node('!{!"llvm.loop.unroll.runtime.disable"}')
        return self.node(f"distinct !{{!{_FIRST + len(self.nodes)}, {rule}}}")

    def _file(self, path: str) -> str:
        # PTX cannot have quotation marks in names.
        folder, name = os.path.split(path.replace('"', "'") or "<unknown>")
        return self.node(f'!DIFile(filename: "{quoted(name)}", directory: "{quoted(folder)}")')

    def _unit(self, file: str) -> str:
        """The compile unit of all functions, with the file of the first."""
        self.unit = self.unit or self.node(
            f'distinct !DICompileUnit(language: DW_LANG_Python, file: {file}, producer: "cuda_device", '
            f"isOptimized: {'false' if self.dwarf else 'true'}, runtimeVersion: 0, "
            f"emissionKind: {'FullDebug' if self.dwarf else 'DebugDirectivesOnly'})"
        )
        return self.unit


def quoted(text: str) -> str:
    """Escapes text for quotation marks in LLVM IR."""
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode())


# Alias metadata, if launches have checked that no array that a kernel writes overlaps another one.
#
#     load float, ptr addrspace(1) %v5, align 4, !alias.scope !1002, !noalias !1005, !invariant.load !1006
#
# An access has the scope of the array that its address comes from, and aliases none of the other scopes. Loads of arrays that the
# kernel never writes are invariant, so a GPU may use its read-only cache (`ld.global.nc`); but not if atomics, fences or foreign
# code may wait for another kernel's writes, or if the kernel writes through pointers. These may point into any array, and
# accesses through them have no scope.
#
# `noalias` parameters would be wrong: LLVM then moves accesses across barriers.


class Aliasing:
    """The alias metadata of accesses. In a function, a parameter may be any of the arrays that its callers pass."""

    def __init__(self, module: Module, metadata: Metadata, constant_cache: bool) -> None:
        main = module.main
        self.metadata = metadata
        self.arrays = [i for i, param in enumerate(main.params) if isinstance(param.type, model.Ref)]
        self.roots = points_to.roots_in_module(module)
        self.written = points_to.written_parameters(module, self.roots)
        self.constant_cache = constant_cache and not any(
            Effect.SPINS in op.code.effects
            or op.code in (ops.FENCE, ops.EXTERN, ops.PTX)
            or points_to.writes_anywhere(op)
            for op in module.ops()
        )

    def store(self, reference: Value) -> str:
        """The metadata of a store."""
        roots = self.roots.get(reference)
        if not roots or not isinstance(reference.type, model.Ref) or reference.type.space is not model.Space.GLOBAL:
            return ""
        others = [i for i in self.arrays if i not in roots]
        text = f", !alias.scope {self._scopes(sorted(roots))}"
        return text + (f", !noalias {self._scopes(others)}" if others else "")

    def load(self, reference: Value) -> str:
        """The metadata of a load."""
        text = self.store(reference)
        if text and self.constant_cache and not self.roots[reference] & self.written:
            text += f", !invariant.load {self.metadata.node('!{}')}"
        return text

    def _scopes(self, arrays: list[int]) -> str:
        domain = self.metadata.node('!{!"arrays of a launch"}')
        scopes = [self.metadata.node(f'!{{!"array {i}", {domain}}}') for i in arrays]
        return self.metadata.node(f"!{{{', '.join(scopes)}}}")


HALVES = (model.FLOAT16, model.BFLOAT16)


def element(type: model.Type | None) -> model.Type | None:
    """The type of a vector's elements, or the type itself."""
    return type.dtype if isinstance(type, model.Vector) else type


def register_type(dialect: Dialect, type: model.Type | None) -> str:
    """The text of a type in a register."""
    match type:
        case model.Number() if type == model.BOOL:
            return "i1"
        case model.Number() if type.is_float and not type.is_float8:
            return "bfloat" if type.bfloat else {16: "half", 32: "float", 64: "double"}[type.bits]
        case model.Number():
            return f"i{type.bits}"
        case model.Ref(space):
            return dialect.pointer(space)
        case model.Vector(dtype, size):
            return f"<{size} x {register_type(dialect, dtype)}>"
        case model.Tuple(elements):
            return "{ " + ", ".join(register_type(dialect, part) for part in elements) + " }" if elements else "{}"
        case model.NoneType():
            return "void"
    raise AssertionError(type)


class ModuleWriter:
    """The state that the functions of a module share: the dialect, options, and declarations."""

    def __init__(self, dialect: Dialect, options: Options, emitters: Mapping[OpDef, Emitter]) -> None:
        self.dialect, self.emitters = dialect, emitters
        flags = [name for name in options.fastmath if name in LLVM_FLAGS]
        self.relaxed = "".join(f" {flag}" for flag in flags)
        """The fast-math flags of operations on floats; `fuse` are those of sums and products."""
        self.fuse = self.relaxed + (" contract" if options.contract and "contract" not in flags else "")
        self.has_extremes = "afn" in flags and dialect.is_gpu
        """Whether `min` and `max` of float32 may be one GPU instruction, which ignores NaN and the sign of zero."""
        self.type: Callable[[model.Type | None], str] = functools.cache(functools.partial(register_type, dialect))
        """The text of a type in a register."""
        self.metadata = Metadata(
            options.debug or (options.lineinfo and dialect.is_gpu),
            dialect.module_flags(),
            options.debug * dialect.dwarf,
        )
        self.aliasing = Aliasing(dialect.module, self.metadata, dialect.is_gpu) if options.launch_facts else None
        self.keeps_loops_rolled = dialect.is_gpu and loop_addresses.has_many_loops(dialect.module)
        self.declared: set[str] = set()
        self.library: set[str] = set()

    @cached_property
    def has_both_halves(self) -> bool:
        """Whether there are values of both float16 and bfloat16."""
        missing = {*HALVES}
        for function in self.dialect.module.functions:
            for block in function.blocks:
                missing -= {element(value.type) for value in block.params}
                for op in block.ops:
                    missing -= {element(value.type) for value in op.results}
            if not missing:
                return True
        return False

    @cached_property
    def mixes_halves(self) -> bool:
        """Whether float16 may be loaded where bfloat16 was stored, or the reverse, through views of memory or structs."""
        return self.has_both_halves and any(
            op.code is ops.BYTES and isinstance(op.result.type, model.Ref) and element(op.result.type.pointee) in HALVES
            for op in self.dialect.module.ops()
        )

    def memory_type(self, type: model.Type | None) -> str:
        """A type in memory: a bool is a byte."""
        return "i8" if type == model.BOOL else self.type(type)

    def argument_type(self, type: model.Type | None) -> str:
        """A type among the packed arguments of a kernel. One of vectors of bytes is as aligned as its elements are large."""
        if not is_by_value(type):
            return self.memory_type(type)
        align = align_of(type.pointee)
        return f"[{size_of(type.pointee) // align} x <{align} x i8>]"

    def element_type(self, type: model.Type) -> str:
        """A type of the size of `type` in memory, for `getelementptr`."""
        real = isinstance(type, model.Number) and not type.is_complex
        return self.memory_type(type) if real else f"[{size_of(type)} x i8]"

    def call(self, name: str, result: str, types: Sequence[str]) -> str:
        """Declares a function and begins a call of it."""
        self.declared.add(f"{result} @{name}({', '.join(types)})")
        return f"call {result} @{name}"

    def promise(self, value: Value) -> str:
        """The attributes of a parameter: that a signed integer is not negative."""
        number = value.type
        if not (value.nonneg and isinstance(number, model.Number) and number.is_integer and number.signed):
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
        """The buffers of `print` operations."""
        self.variables: dict[tuple[object, model.Type | None], str] = {}
        """The memory of variables for debuggers, by name and type."""
        self.label = ""
        self.fresh: Callable[[], str] = map("%v{}".format, itertools.count(1)).__next__
        """Makes a new register."""

    @cached_property
    def used(self) -> set[Value]:
        """The values that are used."""
        return used(self.function)

    def line(self, text: str) -> None:
        """Writes an instruction."""
        self.lines.append(f"  {text}\n")

    def name(self, value: Value) -> str:
        """The register of a value."""
        if value not in self.names:
            self.names[value] = self.fresh()
        return self.names[value]

    def temporary(self, text: str) -> str:
        """Writes an instruction whose result is used by the emitter only."""
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name

    def result(self, op: Op, text: str) -> None:
        """Writes the instruction that defines an operation's result."""
        (value,) = op.results
        self.names[value] = name = self.fresh()
        self.lines.append(f"  {name} = {text}\n")

    def typed(self, value: Value) -> str:
        """A value with its type."""
        return f"{self.module.type(value.type)} {self.names[value]}"

    def operands(self, op: Op) -> str:
        """The operands of one type: `float %v1, %v2`."""
        return f"{self.module.type(op.operands[0].type)} {', '.join(map(self.names.__getitem__, op.operands))}"


# Constant memory: a constant global variable for each content. A GPU has 64 KiB of constant memory for each module, with a cache
# that is fast if all lanes of a warp read the same address. If the constants do not fit, they are in global memory.


MAXIMUM_CONSTANT = 64 * 1024


def constant_name(op: Op) -> str:
    """The symbol of a constant, which depends on the content only."""
    content = f"{op.attributes['align']} {op.attributes['data']}"
    return f"constant_{sha256(content.encode()).hexdigest()[:16]}"


def constants_of(dialect: Dialect) -> dict[str, Op]:
    """The constants of a module, by their symbols."""
    return dict(sorted({constant_name(op): op for op in dialect.ops_by_code.get(ops.CONSTANT, ())}.items()))


def constants_fit(constants: Mapping[str, Op]) -> bool:
    """Whether constants fit in a GPU's constant memory."""
    size: int = sum(len(op.attributes["data"]) // 2 + op.attributes["align"] for op in constants.values())
    return size <= MAXIMUM_CONSTANT


def constant_definitions(constants: Mapping[str, Op], space: str = "") -> list[str]:
    """The definitions of the constants; `space` is `addrspace(n) ` or empty."""
    lines = []
    for name, op in constants.items():
        data = op.attributes["data"]
        text = re.sub("..", lambda byte: f"\\{byte[0]}", data)
        lines.append(
            f'@{name} = internal {space}constant [{len(data) // 2} x i8] c"{text}", align {op.attributes["align"]}'
        )
    return lines


# Workarounds for bugs of LLVM 22 with floats of 16 bits. If it sees that the bits of a bfloat are used as a half, or the reverse,
# and the result is compared with zero, an assertion ends the process. With AVX512-FP16, it converts NaN to int16 as -32768.


def write_reinterpreted(writer: FunctionWriter, op: Op, text: str) -> None:
    """Writes an instruction, a load or a bitcast, that interprets bits as the result's type."""
    type = op.result.type
    if element(type) in HALVES and (
        writer.module.mixes_halves if op.code is ops.LOAD else writer.module.has_both_halves
    ):
        assert type is not None
        writer.names[op.result] = _hidden(writer, writer.temporary(text), type)
    else:
        writer.result(op, text)


def _hidden(writer: FunctionWriter, value: str, type: model.Type) -> str:
    """The same value, whose origin is hidden from LLVM."""
    if not isinstance(type, model.Vector):
        bits = writer.temporary(f"bitcast {writer.module.type(type)} {value} to i16")
        return writer.temporary(
            f"bitcast i16 {writer.temporary(f'call i16 {writer.dialect.same_bits}(i16 {bits})')} to {writer.module.type(type)}"
        )
    whole, element = writer.module.type(type), writer.module.type(type.dtype)
    for i in range(type.size):
        hidden = _hidden(writer, writer.temporary(f"extractelement {whole} {value}, i32 {i}"), type.dtype)
        value = writer.temporary(f"insertelement {whole} {value}, {element} {hidden}, i32 {i}")
    return value


def truncate(writer: FunctionWriter, op: Op, source: model.Number, target: model.Number) -> None:
    """Writes a saturating conversion from a float to an integer; NaN becomes 0."""
    value = writer.typed(op.operands[0])
    if source == model.FLOAT16 and not writer.dialect.is_gpu:  # the bug with AVX512-FP16
        source, value = model.FLOAT32, f"float {writer.temporary(f'fpext {value} to float')}"
    function = f"llvm.fpto{'s' if target.signed else 'u'}i.sat.i{target.bits}.{float_suffix(source)}"
    call = writer.module.call(function, writer.module.type(target), [writer.module.type(source)])
    writer.result(op, f"{call}({value})")


# Parameters and results of interoperable functions, whose PTX is the same as nvcc's:
#
#     int8, from a function       i32                                      .param .b32
#     int8, to a kernel           i8                                       .param .u8
#     a copy of 12 bytes          ptr byval([12 x i8]) align 4             .param .align 4 .b8 x[12]
#     …, as a result              alignstack(4) [3 x float]                .param .align 4 .b8 x[12]
#     an address                  ptr                                      .param .b64
#
# An argument of any kernel that is passed by value is such a copy, too, whose address the kernel may take: `__grid_constant__`.
#
# Numbers of fewer than 32 bits are passed in 32 bits, whose upper bits are ignored.


def _is_narrow(type: model.Type | None) -> bool:
    return isinstance(type, model.Number) and not type.is_float and type.bits < 32


def _is_copy(type: model.Type | None) -> bool:
    return isinstance(type, model.Ref) and type.space is model.Space.LOCAL


def aggregate_type(type: model.Type) -> str:
    """The bytes that a reference refers to as an aggregate: integers of the widest size that they are aligned to.

    A structure whose members are all floats of one type is an array of them, so that the optimiser need not join bits.
    """
    assert isinstance(type, model.Ref)
    size, width, members = size_of(type.pointee), min(align_of(type.pointee), 8), leaves(type.pointee)
    for number, name in ((model.FLOAT32, "float"), (model.FLOAT64, "double")):
        if set(members) == {number} and len(members) * number.bits == 8 * size:
            return f"[{8 * size // number.bits} x {name}]"
    return f"[{size // width} x i{8 * width}]"


def _alignment(type: model.Type) -> str:
    assert isinstance(type, model.Ref)
    return f"alignstack({align_of(type.pointee)})"


def parameter(writer: FunctionWriter, value: Value) -> str:
    """The declaration of a parameter. A bool is passed to a kernel as a byte."""
    name, function, type = writer.names[value], writer.function, value.type
    assert type is not None
    if isinstance(type, model.Ref):
        is_kept = type.space is model.Space.PARAMETER and function.kernel and writer.dialect.is_gpu
        if is_kept or (function.interop and type.space is model.Space.LOCAL):
            kept = ' "nvvm.grid_constant"' if is_kept else ""
            return f"ptr byval([{size_of(type.pointee)} x i8]) align {align_of(type.pointee)}{kept} {name}"
    if function.kernel and type == model.BOOL:
        return f"i8 {name}.wide"
    if function.interop and not function.kernel and _is_narrow(value.type):
        return f"i32 {name}.wide"
    promise = "" if function.interop or value in function.falling else writer.module.promise(value)
    return f"{writer.module.type(value.type)} {promise}{name}"


def write_truncated_parameter(writer: FunctionWriter, value: Value) -> None:
    """Truncates a parameter that is passed in more bits."""
    name, function = writer.names[value], writer.function
    narrow = function.interop and not function.kernel and _is_narrow(value.type)
    if value.type == model.BOOL and (function.kernel or narrow):
        byte = f"{name}.wide" if function.kernel else writer.temporary(f"trunc i32 {name}.wide to i8")
        writer.line(f"{name} = icmp ne i8 {byte}, 0")
    elif narrow:
        writer.line(f"{name} = trunc i32 {name}.wide to {writer.module.type(value.type)}")


def result_type(writer: FunctionWriter, type: model.Type) -> str:
    """The type of an interoperable function's result, with its alignment."""
    if isinstance(type, model.NoneType):
        return "void"
    if _is_copy(type):
        return f"{_alignment(type)} {aggregate_type(type)}"
    return "i32" if _is_narrow(type) else writer.module.type(type)


def returned(writer: FunctionWriter, value: Value) -> str:
    """The operand of `ret`, or an argument, with its type: extended to 32 bits, or loaded from memory."""
    if isinstance(value.type, model.Ref) and _is_copy(value.type):
        form = aggregate_type(value.type)
        return f"{form} {writer.temporary(f'load {form}, {writer.typed(value)}, align {align_of(value.type.pointee)}')}"
    if _is_narrow(value.type):
        assert isinstance(value.type, model.Number)
        extend = "sext" if value.type.signed else "zext"
        return f"i32 {writer.temporary(f'{extend} {writer.typed(value)} to i32')}"
    return writer.typed(value)


def write_extern(writer: FunctionWriter, op: Op) -> None:
    """A call of a C++ function."""
    into = op.operands[0] if op.attributes.get("into") else None
    operands = op.operands[1:] if into else op.operands
    types, arguments = [], []
    for operand in operands:
        type, _, name = returned(writer, operand).rpartition(" ")
        if operand.type is not None and _is_copy(operand.type):
            type = f"{type} {_alignment(operand.type)}"
        types.append(type)
        arguments.append(f"{type} {name}")
    source = into.type if into else op.results[0].type if op.results else model.NoneType()
    assert source is not None
    kind, symbol = result_type(writer, source), op.attributes["symbol"]
    writer.module.declared.add(f"{kind} @{symbol}({', '.join(types)}) nobuiltin")
    if str(symbol).startswith("__nv_"):
        writer.module.library.add(str(symbol))
    call = f"call {kind} @{symbol}({', '.join(arguments)}) nobuiltin convergent"
    if into is not None:
        form = aggregate_type(source)
        writer.line(f"store {form} {writer.temporary(call)}, {writer.typed(into)}, align {align_of(source)}")
    elif kind == "void":
        writer.line(call)
    elif source == model.BOOL:
        writer.result(op, f"icmp ne i8 {writer.temporary(f'trunc i32 {writer.temporary(call)} to i8')}, 0")
    elif _is_narrow(source):
        writer.result(op, f"trunc i32 {writer.temporary(call)} to {writer.module.type(source)}")
    else:
        writer.result(op, call)


def _generic(writer: FunctionWriter, op: Op) -> None:
    """A cast to a generic address, or the same address if the machine has only one space."""
    (reference,) = op.operands
    source, target = writer.module.type(reference.type), writer.module.type(op.result.type)
    if source == target:
        writer.names[op.result] = writer.names[reference]
    else:
        writer.result(op, f"addrspacecast {writer.typed(reference)} to {target}")


def _return(writer: FunctionWriter, op: Op) -> None:
    if not op.operands:
        writer.line(writer.dialect.return_void(writer.function))
    else:
        (value,) = op.operands
        writer.line(f"ret {returned(writer, value) if writer.function.interop else writer.typed(value)}")


EMITTERS = {ops.EXTERN: write_extern, ops.GENERIC: _generic, ops.RETURN: _return}
