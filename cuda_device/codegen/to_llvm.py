"""Device IR → LLVM IR as text: one emitter for each operation of the device level.

    %5: float32 = add %3 %4        →        %v5 = fadd contract float %v3, %v4

Text and not a builder's objects, because a line says what it means, costs a microsecond, and can hold all that LLVM's
language has (ranges, `nneg`, scopes of atomics). What differs between machines is the dialect's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuda_device.codegen.dialects import Cpu, Dialect
from cuda_device.codegen.literals import literal
from cuda_device.device.math import BY_NAME as MATH
from cuda_device.ir import ops
from cuda_device.ir.model import Block, Edge, Function, Module, Op, Value
from cuda_device.types.layout import align_of
from cuda_device.types.model import BOOL, Kind, NoneType, Number, Ref, Tuple, Type

_FLOATS = {16: "half", 32: "float", 64: "double"}
_SUFFIXES = {16: "f16", 32: "f32", 64: "f64"}


@dataclass(frozen=True, slots=True)
class Llvm:
    """LLVM IR, and what has to be linked to it. `parameters` are the types of the main function's parameters."""

    text: str
    library: frozenset[str]
    parameters: tuple[str, ...]
    shared_bytes: int


def run(module: Module, dialect: Dialect, contract: bool) -> Llvm:
    """Writes a device module. `contract` allows a product and a sum to fuse into one rounding, as nvcc does."""
    writer = _Module(dialect, contract)
    functions = [_Function(writer, function).text() for function in module.functions]
    parameters = tuple(writer.memory_type(param.type) for param in module.main.params)
    tail = dialect.runner(parameters) if isinstance(dialect, Cpu) else ""
    declarations = "".join(f"declare {line}\n" for line in sorted(writer.declared))
    text = "\n".join((dialect.preamble(), declarations, *functions, tail))
    return Llvm(text, frozenset(writer.library), parameters, dialect.shared_bytes)


class _Module:
    """What the functions of a module share: declarations, the dialect, the spelling of types."""

    def __init__(self, dialect: Dialect, contract: bool) -> None:
        self.dialect = dialect
        self.fuse = " contract" if contract else ""
        self.declared: set[str] = set()
        self.library: set[str] = set()

    def type(self, type: Type | None) -> str:
        """A type in a register."""
        match type:
            case Number() if type == BOOL:
                return "i1"
            case Number():
                return _FLOATS[type.bits] if type.is_float else f"i{type.bits}"
            case Ref(space):
                return self.dialect.pointer(space)
            case Tuple(elements):
                return "{ " + ", ".join(map(self.type, elements)) + " }" if elements else "{}"
            case NoneType():
                return "void"
        raise AssertionError(type)

    def memory_type(self, type: Type | None) -> str:
        """A type in memory: a bool is a byte."""
        return "i8" if type == BOOL else self.type(type)

    def call(self, name: str, result: str, types: Sequence[str]) -> str:
        """Declares a function and begins a call of it."""
        self.declared.add(f"{result} @{name}({', '.join(types)})")
        return f"call {result} @{name}"


class _Function:
    """Writes one function. `names` maps values to operands: a register, or a constant's text."""

    def __init__(self, module: _Module, function: Function) -> None:
        self.module, self.dialect, self.function = module, module.dialect, function
        self.names: dict[Value, str] = {}
        self.constants: dict[Value, object] = {}
        self.labels = {block: f"b{i}" for i, block in enumerate(function.blocks)}
        self.ends: dict[Block, str] = {}
        self.lines: list[str] = []
        self.label = ""
        self.counter = 0

    def text(self) -> str:
        """The whole definition."""
        function = self.function
        for block in function.blocks:
            for value in block.params:
                self.name(value)
        parameters = [self.parameter(value) for value in function.params]
        head, self.label = self.dialect.open(function, self.module.type(function.result), parameters)
        bodies = []
        for block in function.blocks:
            self.lines = []
            if block is function.blocks[0]:
                self.unpack_bools()
            else:
                self.label = self.labels[block]
            for op in block.ops:
                EMITTERS[op.code](self, op)
            self.ends[block] = self.label
            bodies.append("".join(self.lines))
        texts = [head, bodies[0]]
        entries = self.entries()
        for block, body in zip(function.blocks[1:], bodies[1:], strict=True):
            phis = "".join(self.phi(i, param, entries[block]) for i, param in enumerate(block.params))
            texts += [f"{self.labels[block]}:\n", phis, body]
        return "".join(texts) + self.dialect.close(function)

    def parameter(self, value: Value) -> str:
        # A bool crosses a kernel's boundary as the byte that it is in memory.
        if self.function.kernel and value.type == BOOL:
            return f"i8 {self.names[value]}.byte"
        return f"{self.module.type(value.type)} {self.names[value]}"

    def unpack_bools(self) -> None:
        for value in self.function.params:
            if self.function.kernel and value.type == BOOL:
                self.line(f"{self.names[value]} = icmp ne i8 {self.names[value]}.byte, 0")

    def entries(self) -> dict[Block, list[tuple[str, Edge]]]:
        """The ways into each block: where they come from, what they bring."""
        entries: dict[Block, list[tuple[str, Edge]]] = {block: [] for block in self.function.blocks}
        for block in self.function.blocks:
            for edge in block.successors:
                entries[edge.block].append((self.ends[block], edge))
        return entries

    def phi(self, index: int, param: Value, entries: list[tuple[str, Edge]]) -> str:
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


Emitter = Callable[[_Function, Op], None]


def _number(value: Value) -> Number:
    assert isinstance(value.type, Number), value.type
    return value.type


# Constants and calls


def _const(to: _Function, op: Op) -> None:
    assert op.result.type is not None
    to.constants[op.result] = op.attributes["value"]
    to.names[op.result] = literal(op.result.type, op.attributes["value"])


def _call(to: _Function, op: Op) -> None:
    callee = to.dialect.module[str(op.attributes["callee"])]
    arguments = ", ".join((*to.dialect.arguments(), *map(to.typed, op.operands)))
    result = to.module.type(callee.result)
    call = f"call {result} @{to.dialect.symbol(callee)}({arguments}){to.dialect.definition(callee)}"
    if result == "void":
        to.line(call)
    else:
        to.result(op, call)


def _make(to: _Function, op: Op) -> None:
    type = to.module.type(op.result.type)
    value = "poison"
    for index, operand in enumerate(op.operands):
        value = to.temporary(f"insertvalue {type} {value}, {to.typed(operand)}, {index}")
    to.names[op.result] = value


def _field(to: _Function, op: Op) -> None:
    to.result(op, f"extractvalue {to.typed(op.operands[0])}, {op.attributes['index']}")


# Arithmetic


def _sum(integer: str, real: str) -> Emitter:
    def emit(to: _Function, op: Op) -> None:
        number = _number(op.result)
        if number.is_float:
            to.result(op, f"{real}{to.module.fuse} {to.operands(op)}")
            return
        flags = ""
        if op.attributes.get("exact"):
            flags = " nsw" if number.signed else " nuw"
            if number.signed and integer != "sub" and all(operand.nonneg for operand in op.operands):
                flags = " nuw nsw"
        to.result(op, f"{integer}{flags} {to.operands(op)}")

    return emit


def _plain(instruction: str) -> Emitter:
    def emit(to: _Function, op: Op) -> None:
        to.result(op, f"{instruction} {to.operands(op)}")

    return emit


def _quotient(to: _Function, op: Op) -> None:
    """No fault and no undefined behaviour: LLVM's division has both by zero, and for the least integer by -1."""
    a, b = op.operands
    number = _number(a)
    divisor, unsigned = _divisor(to, op)
    if unsigned or not _may_be_minus_one(to, b):
        to.result(op, f"{'udiv' if unsigned else 'sdiv'} {to.typed(a)}, {divisor}")
        return
    type = to.module.type(number)
    plain = to.temporary(f"sdiv {to.typed(a)}, {divisor}")
    negative = to.temporary(f"icmp eq {to.typed(b)}, -1")
    negated = to.temporary(f"sub {type} 0, {to.names[a]}")
    to.result(op, f"select i1 {negative}, {type} {negated}, {type} {plain}")


def _remainder(to: _Function, op: Op) -> None:
    divisor, unsigned = _divisor(to, op)
    to.result(op, f"{'urem' if unsigned else 'srem'} {to.typed(op.operands[0])}, {divisor}")


def _divisor(to: _Function, op: Op) -> tuple[str, bool]:
    """A divisor that cannot fault (1 for 0 and -1), and whether the division may be an unsigned one."""
    a, b = op.operands
    type = to.module.type(b.type)
    unsigned = a.nonneg and b.nonneg
    known = to.constants.get(b)
    if known is not None and known not in (0, -1):
        return to.names[b], unsigned
    if b.nonneg or not _may_be_minus_one(to, b):
        bad = to.temporary(f"icmp eq {to.typed(b)}, 0")
    else:
        above = to.temporary(f"add {to.typed(b)}, 1")
        bad = to.temporary(f"icmp ult {type} {above}, 2")
    return to.temporary(f"select i1 {bad}, {type} 1, {type} {to.names[b]}"), unsigned


def _may_be_minus_one(to: _Function, value: Value) -> bool:
    return not value.nonneg and to.constants.get(value, -1) == -1


def _shift_right(to: _Function, op: Op) -> None:
    to.result(op, f"{'ashr' if _number(op.result).signed else 'lshr'} {to.operands(op)}")


def _negate(to: _Function, op: Op) -> None:
    to.result(op, f"fneg {to.operands(op)}")


_SIGNED = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
_UNSIGNED = {"==": "eq", "!=": "ne", "<": "ult", "<=": "ule", ">": "ugt", ">=": "uge"}
_ORDERED = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}


def _compare(to: _Function, op: Op) -> None:
    number, sign = _number(op.operands[0]), str(op.attributes["op"])
    if number.is_float:
        to.result(op, f"fcmp {_ORDERED[sign]} {to.operands(op)}")
    else:
        to.result(op, f"icmp {(_SIGNED if number.signed else _UNSIGNED)[sign]} {to.operands(op)}")


def _select(to: _Function, op: Op) -> None:
    to.result(op, "select " + ", ".join(map(to.typed, op.operands)))


def _math(to: _Function, op: Op) -> None:
    row = MATH[str(op.attributes["function"])]
    number = _number(op.result)
    type = to.module.type(number)
    name = to.dialect.math(row)
    if name.startswith("llvm."):
        name = f"{name}.{_SUFFIXES[number.bits]}"
    else:
        name = to.dialect.library(name, number)
        to.module.library.add(name)
    call = to.module.call(name, type, [type] * row.arity)
    to.result(op, f"{call}({', '.join(map(to.typed, op.operands))})")


# Conversions


def _convert(to: _Function, op: Op) -> None:
    (operand,) = op.operands
    source, target = _number(operand), _number(op.result)
    if target == BOOL:
        zero = literal(source, 0)
        test = f"fcmp une {to.typed(operand)}, {zero}" if source.is_float else f"icmp ne {to.typed(operand)}, {zero}"
        to.result(op, test)
    elif source.is_float and not target.is_float:
        _truncate(to, op, source, target)
    else:
        instruction = _instruction(operand, source, target)
        if not instruction:
            to.names[op.result] = to.names[operand]
            return
        to.result(op, f"{instruction} {to.typed(operand)} to {to.module.type(target)}")


def _instruction(operand: Value, source: Number, target: Number) -> str:
    """The cast between two numbers, the first of which is no float unless both are; "" where the bits stay."""
    if source.is_float:
        return "fpext" if target.bits > source.bits else "fptrunc"
    signed = source.signed and not operand.nonneg
    if target.is_float:
        return "sitofp" if signed else "uitofp"
    source_bits = 1 if source.kind is Kind.BOOL else source.bits
    if target.bits == source_bits:
        return ""
    if target.bits < source_bits:
        return "trunc"
    return "sext" if signed else "zext nneg" if source.signed else "zext"


def _truncate(to: _Function, op: Op, source: Number, target: Number) -> None:
    """A float's integral part, the nearest integer there is where it has none of its own, 0 for NaN."""
    name = f"llvm.fpto{'s' if target.signed else 'u'}i.sat.i{target.bits}.{_SUFFIXES[source.bits]}"
    call = to.module.call(name, to.module.type(target), [to.module.type(source)])
    to.result(op, f"{call}({to.typed(op.operands[0])})")


# Memory


def _element(to: _Function, op: Op) -> None:
    reference, index = op.operands
    assert isinstance(reference.type, Ref)
    pointee = to.module.memory_type(reference.type.pointee)
    flags = "inbounds nuw" if index.nonneg else "inbounds"
    to.result(op, f"getelementptr {flags} {pointee}, {to.typed(reference)}, {to.typed(index)}")


def _bytes(to: _Function, op: Op) -> None:
    reference, offset = op.operands
    to.result(op, f"getelementptr inbounds i8, {to.typed(reference)}, {to.typed(offset)}")


def _load(to: _Function, op: Op) -> None:
    (reference,) = op.operands
    assert isinstance(reference.type, Ref)
    pointee = reference.type.pointee
    load = f"load {to.module.memory_type(pointee)}, {to.typed(reference)}, align {align_of(pointee)}"
    if pointee == BOOL:
        to.result(op, f"icmp ne i8 {to.temporary(load)}, 0")
    else:
        to.result(op, load)


def _store(to: _Function, op: Op) -> None:
    reference, value = op.operands
    assert isinstance(reference.type, Ref)
    stored = to.typed(value)
    if value.type == BOOL:
        stored = f"i8 {to.temporary(f'zext i1 {to.names[value]} to i8')}"
    to.line(f"store {stored}, {to.typed(reference)}, align {align_of(reference.type.pointee)}")


def _shared(to: _Function, op: Op) -> None:
    text, operand = to.dialect.shared(int(str(op.attributes["number"])), to.fresh())
    to.lines.append(text)
    to.names[op.result] = operand


# Threads


def _register(to: _Function, op: Op) -> None:
    to.lines.append(to.dialect.register(str(op.attributes["name"]), to.name(op.result)))


def _barrier(to: _Function, op: Op) -> None:
    text, label = to.dialect.barrier(int(str(op.attributes["place"])), to.fresh().removeprefix("%"))
    to.lines.append(text)
    to.label = label or to.label


# Ends of blocks


def _jump(to: _Function, op: Op) -> None:
    to.line(f"br label %{to.labels[op.successors[0].block]}")


def _branch(to: _Function, op: Op) -> None:
    then, otherwise = (to.labels[edge.block] for edge in op.successors)
    to.line(f"br i1 {to.names[op.operands[0]]}, label %{then}, label %{otherwise}")


def _return(to: _Function, op: Op) -> None:
    to.line(f"ret {to.typed(op.operands[0])}" if op.operands else to.dialect.leave(to.function))


def _unreachable(to: _Function, _: Op) -> None:
    to.line("unreachable")


EMITTERS: dict[ops.Opcode, Emitter] = {
    ops.CONST: _const,
    ops.CALL: _call,
    ops.MAKE: _make,
    ops.FIELD: _field,
    ops.CONVERT: _convert,
    ops.ADD: _sum("add", "fadd"),
    ops.SUB: _sum("sub", "fsub"),
    ops.MUL: _sum("mul", "fmul"),
    ops.DIV: _plain("fdiv"),
    ops.QUOTIENT: _quotient,
    ops.REMAINDER: _remainder,
    ops.AND: _plain("and"),
    ops.OR: _plain("or"),
    ops.XOR: _plain("xor"),
    ops.SHL: _plain("shl"),
    ops.SHR: _shift_right,
    ops.NEG: _negate,
    ops.COMPARE: _compare,
    ops.SELECT: _select,
    ops.MATH: _math,
    ops.ELEMENT: _element,
    ops.BYTES: _bytes,
    ops.LOAD: _load,
    ops.STORE: _store,
    ops.SHARED: _shared,
    ops.REGISTER: _register,
    ops.BARRIER: _barrier,
    ops.JUMP: _jump,
    ops.BRANCH: _branch,
    ops.RETURN: _return,
    ops.UNREACHABLE: _unreachable,
}
