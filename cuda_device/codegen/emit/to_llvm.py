"""The emitters: each writes one operation of device IR as LLVM IR text.

    %5: float32 = add %3 %4        →        %v5 = fadd contract float %v3, %v4
    %2: bool = load %1             →        %v3 = load i8, ptr %v1, align 1
                                            %v2 = icmp ne i8 %v3, 0

An emitter takes the writer of a function and an operation, and writes lines. It defines the operation's result with `result`, or
makes it another name of an existing value (`names`). Emitters write text rather than use a builder, because a line is readable,
costs a microsecond, and can use all features of LLVM's language (ranges, `nneg`, scopes of atomics). The dialects contain the
differences between machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cuda_device.codegen.emit import llvm_writer
from cuda_device.codegen.emit.dialect import LLVM_ORDERS, AtomicAccess, Dialect, Emitter
from cuda_device.codegen.emit.llvm_writer import FunctionWriter, ModuleWriter, float_suffix, literal
from cuda_device.device.lowering import Lowering, number_in
from cuda_device.device.numeric import BY_NAME as MATH
from cuda_device.device.options import DEFAULTS, Options
from cuda_device.instrument.outline import Status
from cuda_device.ir import ops
from cuda_device.ir.dominance import back_edges, predecessors
from cuda_device.ir.nodes import Block, Edge, Module, Op, Value
from cuda_device.ir.ops import Order, Scope
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.layout import align_of, size_of
from cuda_device.types.model import BOOL, FLOAT32, Number, NumberKind, Ref, Vector

# The orders of a compare-and-swap that fails.
_FAILURES = {"release": "monotonic", "acq_rel": "acquire"}


def _reference(value: Value) -> Ref:
    assert isinstance(value.type, Ref), value.type
    return value.type


def _atomic_number(reference: Value) -> Number:
    number = getattr(_reference(reference).pointee, "dtype", None)
    assert isinstance(number, Number), reference.type
    return number


def _how(writer: FunctionWriter, op: Op) -> tuple[str, str]:
    """LLVM's scope and order of an operation."""
    return writer.dialect.sync_scope(Scope(op.attributes["scope"])), LLVM_ORDERS[Order(op.attributes["memory"])]


def _access(writer: FunctionWriter, op: Op, value: str = "") -> AtomicAccess:
    reference = op.operands[0]
    order, scope = Order(op.attributes["memory"]), Scope(op.attributes["scope"])
    return AtomicAccess(_reference(reference).space, writer.typed(reference), value, order, scope)


def _number_bits(writer: FunctionWriter, value: Value) -> str:
    """A value, with its type, as an integer of the same size in memory."""
    number = value.type
    assert isinstance(number, Number)
    if number == BOOL:
        return f"i8 {writer.temporary(f'zext {writer.typed(value)} to i8')}"
    if number.is_float and not number.is_float8:
        return f"i{number.bits} {writer.temporary(f'bitcast {writer.typed(value)} to i{number.bits}')}"
    return writer.typed(value)


def _from_bits(writer: FunctionWriter, op: Op, bits: str) -> None:
    """Converts an integer from memory to an operation's result."""
    number = op.result.type
    assert isinstance(number, Number)
    if number == BOOL:
        writer.result(op, f"icmp ne i8 {bits}, 0")
    elif number.is_float and not number.is_float8:
        writer.result(op, f"bitcast i{number.bits} {bits} to {writer.module.type(number)}")
    else:
        writer.names[op.result] = bits


def _wide(writer: FunctionWriter, op: Op) -> bool:
    """Writes an atomic access to 16 bytes; returns False for any other."""
    reference, *values = op.operands
    if not isinstance(getattr(_reference(reference).pointee, "dtype", None), Vector):
        return False
    access = _access(writer, op, writer.typed(values[0]) if values else "")
    writer.lines.append(writer.dialect.wide(access, writer.fresh() if values else writer.name(op.result)))
    return True


def _atomic_load(writer: FunctionWriter, op: Op) -> None:
    if _wide(writer, op):
        return
    (reference,) = op.operands
    number = _atomic_number(reference)
    scope, order = _how(writer, op)
    load = f"load atomic i{number.bits}, {writer.typed(reference)}{scope} {order}, align {number.bits // 8}"
    _from_bits(writer, op, writer.temporary(load))


def _atomic_store(writer: FunctionWriter, op: Op) -> None:
    if _wide(writer, op):
        return
    reference, value = op.operands
    scope, order = _how(writer, op)
    align = _atomic_number(reference).bits // 8
    writer.line(f"store atomic {_number_bits(writer, value)}, {writer.typed(reference)}{scope} {order}, align {align}")


def _cas(writer: FunctionWriter, op: Op) -> None:
    reference, old, new = op.operands
    scope, order = _how(writer, op)
    orders = f"{order} {_FAILURES.get(order, order)}"
    pair = writer.temporary(
        f"cmpxchg {writer.typed(reference)}, {_number_bits(writer, old)}, {_number_bits(writer, new)}{scope} {orders}"
    )
    _from_bits(writer, op, writer.temporary(f"extractvalue {{ i{_atomic_number(reference).bits}, i1 }} {pair}, 0"))


def _update(writer: FunctionWriter, op: Op) -> None:
    """An exchange is one of the number's bits."""
    reference, value = op.operands
    number, operation = _atomic_number(reference), op.attributes["operation"]
    access = _access(writer, op, _number_bits(writer, value) if operation == "exch" else writer.typed(value))
    result = writer.fresh()
    writer.lines.append(writer.dialect.update(operation, number, access, result, op.result in writer.used))
    if operation == "exch":
        _from_bits(writer, op, result)
    else:
        writer.names[op.result] = result


def _fence(writer: FunctionWriter, op: Op) -> None:
    scope, order = _how(writer, op)
    writer.line(f"fence{scope} {order}")


# A conversion of an integer, which has 64 bits.
_INTEGER = re.compile(r"(%%)|(%[-+ #0]*[\d*]*(?:\.\d+)?)([duxXo])")


def _print(writer: FunctionWriter, op: Op) -> None:
    """Stores the values in the buffer, and calls the dialect's print function."""
    buffer = writer.buffers.get(id(op), "null")
    for i, (operand, choice) in enumerate(zip(op.operands, op.attributes["choices"], strict=True)):
        slot = writer.temporary(f"getelementptr i64, ptr {buffer}, i64 {i}")
        if choice is None:
            writer.line(f"store {writer.typed(operand)}, ptr {slot}, align 8")
        elif writer.dialect.is_gpu:
            yes, no = (f"ptr {writer.dialect.text(text)}" for text in choice)
            writer.line(
                f"store ptr {writer.temporary(f'select {writer.typed(operand)}, {yes}, {no}')}, ptr {slot}, align 8"
            )
        else:
            writer.line(f"store i64 {writer.temporary(f'zext {writer.typed(operand)} to i64')}, ptr {slot}, align 8")
    writer.lines.append(writer.dialect.print(op, buffer, writer.fresh()))


def texts(prints: Iterable[Op]) -> dict[str, int]:
    """The numbers of the texts of `print` operations."""
    numbers: dict[str, int] = {}
    for op in prints:
        for text in (c_format(op), *(text for choice in op.attributes["choices"] if choice for text in choice)):
            numbers.setdefault(text, len(numbers))
    return numbers


def c_format(op: Op) -> str:
    """The C format of a `print`."""
    return _INTEGER.sub(lambda match: match[1] or f"{match[2]}ll{match[3]}", op.attributes["format"])


REPORTS = {"assert": Status.ASSERTION, "raise": Status.EXCEPTION, "check": Status.CHECK}


# Constants and calls


def _const(writer: FunctionWriter, op: Op) -> None:
    result, value = op.result, op.attributes["value"]
    assert result.type is not None
    writer.constants[result] = value
    writer.names[result] = literal(result.type, value)


def _call(writer: FunctionWriter, op: Op) -> None:
    callee = writer.dialect.module[op.attributes["callee"]]
    arguments = ", ".join((*writer.dialect.hidden_arguments(), *map(writer.typed, op.operands)))
    result = writer.module.type(callee.result)
    marks = writer.dialect.definition(callee) or writer.dialect.called
    call = f"call {result} @{writer.dialect.symbol(callee)}({arguments}){marks}"
    if result == "void":
        writer.line(call)
    else:
        writer.result(op, call)


def _make(writer: FunctionWriter, op: Op) -> None:
    type = writer.module.type(op.result.type)
    vector = isinstance(op.result.type, Vector)
    value = "poison"
    for index, operand in enumerate(op.operands):
        if vector:
            value = writer.temporary(f"insertelement {type} {value}, {writer.typed(operand)}, i32 {index}")
        else:
            value = writer.temporary(f"insertvalue {type} {value}, {writer.typed(operand)}, {index}")
    writer.names[op.result] = value


def _field(writer: FunctionWriter, op: Op) -> None:
    (whole,) = op.operands
    if isinstance(whole.type, Vector):
        writer.result(op, f"extractelement {writer.typed(whole)}, i32 {op.attributes['index']}")
    else:
        writer.result(op, f"extractvalue {writer.typed(whole)}, {op.attributes['index']}")


# Arithmetic


def _sum(integer: str, real: str) -> Emitter:
    def emit(writer: FunctionWriter, op: Op) -> None:
        number = number_in(op.operands[0])
        if number.is_float:
            flags = "" if op.attributes.get("exact") else writer.module.fuse
            writer.result(op, f"{real}{flags} {writer.operands(op)}")
            return
        flags = ""
        if op.attributes.get("exact"):
            flags = " nsw" if number.signed else " nuw"
            if number.signed and integer != "sub" and op.operands[0].nonneg and op.operands[1].nonneg:
                flags = " nuw nsw"
        writer.result(op, f"{integer}{flags} {writer.operands(op)}")

    return emit


def _plain(instruction: str) -> Emitter:
    def emit(writer: FunctionWriter, op: Op) -> None:
        flags = writer.module.relaxed if instruction == "fdiv" else ""
        writer.result(op, f"{instruction}{flags} {writer.operands(op)}")

    return emit


def _quotient(writer: FunctionWriter, op: Op) -> None:
    """A division without the undefined behaviour that LLVM's has by zero, and by -1 for the least integer."""
    a, b = op.operands
    number = number_in(a)
    divisor, unsigned = _divisor(writer, op)
    if op.code is ops.REMAINDER or unsigned or not _may_be_minus_one(writer, b):
        kind = "rem" if op.code is ops.REMAINDER else "div"
        writer.result(op, f"{'u' if unsigned else 's'}{kind} {writer.typed(a)}, {divisor}")
        return
    type = writer.module.type(number)
    plain = writer.temporary(f"sdiv {writer.typed(a)}, {divisor}")
    negative = writer.temporary(f"icmp eq {writer.typed(b)}, -1")
    negated = writer.temporary(f"sub {type} 0, {writer.names[a]}")
    writer.result(op, f"select i1 {negative}, {type} {negated}, {type} {plain}")


def _divisor(writer: FunctionWriter, op: Op) -> tuple[str, bool]:
    """A divisor that is 1 instead of 0 and -1, and whether the division may be unsigned."""
    a, b = op.operands
    type = writer.module.type(b.type)
    unsigned = a.nonneg and b.nonneg
    known = writer.constants.get(b)
    if known is not None and known not in (0, -1):
        return writer.names[b], unsigned
    if b.nonneg or not _may_be_minus_one(writer, b):
        bad = writer.temporary(f"icmp eq {writer.typed(b)}, 0")
    else:
        above = writer.temporary(f"add {writer.typed(b)}, 1")
        bad = writer.temporary(f"icmp ult {type} {above}, 2")
    return writer.temporary(f"select i1 {bad}, {type} 1, {type} {writer.names[b]}"), unsigned


def _may_be_minus_one(writer: FunctionWriter, value: Value) -> bool:
    return not value.nonneg and writer.constants.get(value, -1) == -1


def _bitwise(writer: FunctionWriter, op: Op) -> None:
    type, function = writer.module.type(op.result.type), op.attributes["function"]
    zero = function in ("ctlz", "cttz")  # which are defined for 0
    call = writer.module.call(f"llvm.{function}.{type}", type, [type, "i1"] if zero else [type])
    writer.result(op, f"{call}({writer.typed(op.operands[0])}{', i1 false' if zero else ''})")


_SIGNED = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
_UNSIGNED = {"==": "eq", "!=": "ne", "<": "ult", "<=": "ule", ">": "ugt", ">=": "uge"}
_ORDERED = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}


def _compare(writer: FunctionWriter, op: Op) -> None:
    number, sign = number_in(op.operands[0]), op.attributes["op"]
    if number.is_float:
        writer.result(op, f"fcmp{writer.module.relaxed} {_ORDERED[sign]} {writer.operands(op)}")
    else:
        writer.result(op, f"icmp {(_SIGNED if number.signed else _UNSIGNED)[sign]} {writer.operands(op)}")


def _select(writer: FunctionWriter, op: Op) -> None:
    type = op.result.type
    if op.attributes.get("extreme") and type == FLOAT32 and writer.module.has_extremes:
        name = f"llvm.{op.attributes['extreme']}num.f32"
        call = writer.module.call(name, "float", ["float"] * 2).replace("call", f"call{writer.module.relaxed}", 1)
        writer.result(op, f"{call}({', '.join(map(writer.typed, op.operands[1:]))})")
        return
    writer.result(op, "select " + ", ".join(map(writer.typed, op.operands)))


def _math(writer: FunctionWriter, op: Op) -> None:
    row = MATH[op.attributes["function"]]
    number = number_in(op.result)
    type = writer.module.type(number)
    name, marks = row.symbol, ""
    if name.startswith("llvm."):
        name = f"{name}.{float_suffix(number)}"
    else:
        name = writer.dialect.library(name, number)
        marks, others = writer.dialect.of_library(name, type, row.arity)
        writer.module.library.add(name)
        writer.module.declared.update(others)
    call = writer.module.call(name, type, [type] * row.arity).replace("call", f"call{writer.module.relaxed}", 1)
    writer.result(op, f"{call}({', '.join(map(writer.typed, op.operands))}){marks}")


def _machine(writer: FunctionWriter, op: Op) -> None:
    """A call of an intrinsic, or inline PTX."""
    text, kinds = op.attributes["instruction"], [writer.module.type(result.type) for result in op.results]
    result = kinds[0] if len(kinds) == 1 else f"{{ {', '.join(kinds)} }}" if kinds else "void"
    if text.startswith("llvm."):
        call = writer.module.call(text, result, [writer.module.type(operand.type) for operand in op.operands])
    else:
        tied = op.attributes.get("tied", 0)
        constraints = ["=" + _register_class(value) for value in op.results]
        constraints += [*map(_register_class, op.operands[: len(op.operands) - tied]), *map(str, range(tied))]
        effects, sideeffect = (["~{memory}"], " sideeffect") if op.code is ops.PTX else ([], "")
        call = f'call {result} asm{sideeffect} "{llvm_writer.quoted(text)}", "{",".join(constraints + effects)}"'
    is_convergent = op.code is ops.PTX or ".sync" in text  # the lanes of a warp execute it together
    call += f"({', '.join(map(writer.typed, op.operands))})" + " convergent" * is_convergent
    if not kinds:
        writer.line(call)
    elif len(kinds) == 1:
        writer.result(op, call)
    else:
        whole = writer.temporary(call)
        for i, value in enumerate(op.results):
            writer.line(f"{writer.name(value)} = extractvalue {result} {whole}, {i}")


def _register_class(value: Value) -> str:
    """The constraint for a PTX register that holds a number or an address."""
    if isinstance(value.type, Ref):
        return "l"
    number = number_in(value)
    if number.is_float:
        return {32: "f", 64: "d"}[number.bits]
    return {16: "h", 32: "r", 64: "l"}[number.bits]


# Conversions


def _convert(writer: FunctionWriter, op: Op) -> None:
    (operand,) = op.operands
    source, target = number_in(operand), number_in(op.result)
    if source.is_float8 or target.is_float8:
        _convert_float8(writer, op)
    elif target == BOOL:
        zero = literal(source, 0)
        test = f"{'fcmp une' if source.is_float else 'icmp ne'} {writer.typed(operand)}, {zero}"
        writer.result(op, test)
    elif source.is_float and not target.is_float:
        llvm_writer.truncate(writer, op, source, target)
    else:
        instruction = _instruction(operand, source, target)
        if not instruction:
            writer.names[op.result] = writer.names[operand]
            return
        writer.result(op, f"{instruction} {writer.typed(operand)} to {writer.module.type(target)}")


def _convert_float8(writer: FunctionWriter, op: Op) -> None:
    from cuda_device.codegen.emit import float8  # which few kernels need

    build, (operand,) = Lowering(Block()), op.operands
    if number_in(operand).is_float8:
        result = float8.widened(build, operand, writer.dialect.has_float8)
    else:
        result = float8.rounded(build, operand, number_in(op.result), writer.dialect.has_float8)
    for part in build.block.ops:
        writer.module.emitters[part.code](writer, part)
    writer.names[op.result] = writer.names[result]


def _instruction(operand: Value, source: Number, target: Number) -> str:
    """The cast between two numbers, except from a float to an integer; "" if the bits stay the same."""
    if source.is_float:
        return "fpext" if target.bits > source.bits else "fptrunc"
    signed = source.signed and not operand.nonneg
    if target.is_float:
        return "sitofp" if signed else "uitofp"
    source_bits = 1 if source.kind is NumberKind.BOOL else source.bits
    if target.bits == source_bits:
        return ""
    if target.bits < source_bits:
        return "trunc"
    # Not `zext nneg` for non-negative numbers: LLVM's scalar evolution follows addresses through `sext` of `nsw` sums, and LLVM
    # finds `nneg` itself.
    return "sext" if source.signed else "zext"


# Memory


def _element(writer: FunctionWriter, op: Op) -> None:
    reference, index = op.operands
    pointee = writer.module.element_type(_reference(reference).pointee)
    flags = "" if op.attributes.get("outside") else "inbounds nuw " if index.nonneg else "inbounds "
    writer.result(op, f"getelementptr {flags}{pointee}, {writer.typed(reference)}, {writer.typed(index)}")


def _load(writer: FunctionWriter, op: Op) -> None:
    (reference,) = op.operands
    type = _reference(reference)
    pointee = type.pointee
    align = op.attributes.get("align", align_of(pointee))
    says = writer.dialect.access(type.space) + (
        writer.module.aliasing.load(reference) if writer.module.aliasing else ""
    )
    load = f"load {writer.module.memory_type(pointee)}, {writer.typed(reference)}, align {align}{says}"
    if pointee == BOOL:
        writer.result(op, f"icmp ne i8 {writer.temporary(load)}, 0")
    else:
        llvm_writer.write_reinterpreted(writer, op, load)


def _store(writer: FunctionWriter, op: Op) -> None:
    reference, value = op.operands
    type, stored = _reference(reference), writer.typed(value)
    if value.type == BOOL:
        stored = f"i8 {writer.temporary(f'zext i1 {writer.names[value]} to i8')}"
    align = op.attributes.get("align", align_of(type.pointee))
    aliasing = writer.module.aliasing
    says = writer.dialect.access(type.space) + (aliasing.store(reference) if aliasing else "")
    writer.line(f"store {stored}, {writer.typed(reference)}, align {align}{says}")


def _variable(writer: FunctionWriter, op: Op) -> None:
    value = op.operands[0]
    name = writer.names[value] if value.type != BOOL else writer.temporary(f"zext i1 {writer.names[value]} to i8")
    memory = writer.variables[op.attributes["name"], value.type]
    writer.line(f"store {writer.module.memory_type(value.type)} {name}, ptr {memory}, align 8")


def _bits(writer: FunctionWriter, op: Op) -> None:
    """A bitcast; integers of one size are the same type."""
    source, target = writer.module.type(op.operands[0].type), writer.module.type(op.result.type)
    if source == target:
        writer.names[op.result] = writer.names[op.operands[0]]
    else:
        llvm_writer.write_reinterpreted(writer, op, f"bitcast {writer.typed(op.operands[0])} to {target}")


# Ends of blocks and threads


def _report(writer: FunctionWriter, op: Op) -> None:
    status, place = REPORTS[op.attributes["status"]], op.attributes["place"]
    writer.lines.append(writer.dialect.report(status, place, [writer.names[value] for value in op.operands]))


def _branch(writer: FunctionWriter, op: Op) -> None:
    then, otherwise = (writer.labels[edge.block] for edge in op.successors)
    writer.line(f"br i1 {writer.names[op.operands[0]]}, label %{then}, label %{otherwise}")


EMITTERS: dict[ops.OpDef, Emitter] = {
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
    ops.REMAINDER: _quotient,
    ops.AND: _plain("and"),
    ops.OR: _plain("or"),
    ops.XOR: _plain("xor"),
    ops.SHL: _plain("shl"),
    ops.SHR: lambda w, op: w.result(op, f"{'ashr' if number_in(op.result).signed else 'lshr'} {w.operands(op)}"),
    ops.BITWISE: _bitwise,
    ops.NEG: lambda w, op: w.result(op, f"fneg{w.module.relaxed} {w.operands(op)}"),
    ops.COMPARE: _compare,
    ops.SELECT: _select,
    ops.MATH: _math,
    ops.MACHINE: _machine,
    ops.PTX: _machine,
    ops.ELEMENT: _element,
    ops.BYTES: lambda w, op: w.result(
        op, f"getelementptr inbounds i8, {w.typed(op.operands[0])}, {w.typed(op.operands[1])}"
    ),
    ops.LOAD: _load,
    ops.STORE: _store,
    ops.LOCAL: lambda w, op: None,  # `_allocas` has allocated it
    ops.CONSTANT: lambda w, op: w.names.__setitem__(op.result, f"@{llvm_writer.constant_name(op)}"),
    ops.BITS: _bits,
    ops.JUMP: lambda w, op: w.line(f"br label %{w.labels[op.successors[0].block]}"),
    ops.BRANCH: _branch,
    ops.UNREACHABLE: lambda w, _: w.line("unreachable"),
    ops.REPORT: _report,
    ops.ATOMIC_LOAD: _atomic_load,
    ops.ATOMIC_STORE: _atomic_store,
    ops.ATOMIC_CAS: _cas,
    ops.ATOMIC_UPDATE: _update,
    ops.FENCE: _fence,
    ops.ADDRESS: lambda w, op: w.result(op, f"ptrtoint {w.typed(op.operands[0])} to i64"),
    ops.PRINT: _print,
    ops.VARIABLE: _variable,
    **llvm_writer.EMITTERS,
}
"""The emitters of the operations that all machines write in the same way; `Dialect.emitters` has the others."""


@dataclass(frozen=True, slots=True)
class Llvm:
    """LLVM IR, the library functions that it calls, and the bytes of its shared arrays."""

    text: str
    library: frozenset[str]
    shared_bytes: int


def run(module: Module, dialect: Dialect, options: Options = DEFAULTS) -> Llvm:
    """Writes a device module. The options control floating-point arithmetic and debug information."""
    writer = ModuleWriter(dialect, options, EMITTERS | dialect.emitters())
    functions = [_function(FunctionWriter(writer, function)) for function in module.functions]
    types = () if dialect.is_gpu else tuple(writer.argument_type(param.type) for param in module.main.params)
    declarations = "".join(f"declare {line}\n" for line in sorted(writer.declared))
    text = "\n".join((declarations, *functions, dialect.runner(types) + writer.metadata.text()))
    return Llvm(f"{dialect.preamble()}\n{text}", frozenset(writer.library), dialect.shared_bytes)


def _function(writer: FunctionWriter) -> str:
    """The definition of a function."""
    function = writer.function
    for block in function.blocks:
        for value in block.params:
            writer.name(value)
    parameters = [llvm_writer.parameter(writer, value) for value in function.params]
    interop = function.interop
    result = llvm_writer.result_type(writer, function.result) if interop else writer.module.type(function.result)
    location = writer.module.metadata.function(function)
    operations = function.ops()
    memory = _allocas(writer, operations) + _variables(writer, operations)
    for value in function.params:
        llvm_writer.write_truncated_parameter(writer, value)
    head, writer.label = writer.dialect.begin_function(function, result, parameters, memory + "".join(writer.lines))
    head = head.replace(" {\n", f"{location} {{\n", 1)
    latches = {block for block, _ in back_edges(function.blocks)} if writer.module.keeps_loops_rolled else set()
    bodies = []
    for block in function.blocks:
        writer.lines = []
        if block is not function.blocks[0]:
            writer.label = writer.labels[block]
        for op in block.ops:
            written = len(writer.lines)
            writer.module.emitters[op.code](writer, op)
            if writer.module.metadata.lines:
                _locate(writer, op, written)
        if block in latches:
            writer.lines[-1] = writer.lines[-1].replace("\n", f", !llvm.loop {writer.module.metadata.rolled_loop()}\n")
        writer.ends[block] = writer.label
        bodies.append("".join(writer.lines))
    texts = [head, bodies[0]]
    entries = predecessors(function.blocks)
    for block, body in zip(function.blocks[1:], bodies[1:], strict=True):
        phis = "".join(_phi(writer, i, param, entries[block]) for i, param in enumerate(block.params))
        texts += [f"{writer.labels[block]}:\n", phis, body]
    return "".join(texts) + writer.dialect.end_function(function)


def _locate(writer: FunctionWriter, op: Op, start: int) -> None:
    """Adds the source location to the lines of an operation."""
    location = writer.module.metadata.location(op.location)
    # Lines without indentation are labels.
    writer.lines[start:] = [
        f"{line}{location}\n" if line.startswith(" ") else f"{line}\n"
        for line in "".join(writer.lines[start:]).splitlines()
    ]


def _allocas(writer: FunctionWriter, operations: Iterable[Op]) -> str:
    """The lines that allocate buffers for `print`, and local arrays."""
    lines = []
    for op in operations:
        if op.code is ops.PRINT and op.operands:
            writer.buffers[id(op)] = writer.fresh()
            lines.append(f"  {writer.buffers[id(op)]} = alloca [{len(op.operands)} x i64], align 8\n")
    for op in operations:
        if op.code is ops.LOCAL:
            size = op.attributes["count"] * size_of(_reference(op.result).pointee)
            value = op.result if writer.function.kernel else None
            lines.append(writer.dialect.allocate_local(writer.name(op.result), size, op.attributes["align"], value))
    return "".join(lines)


def _variables(writer: FunctionWriter, operations: Iterable[Op]) -> str:
    """The lines that allocate memory for variables that debuggers show."""
    lines, metadata = [], writer.module.metadata
    for op in operations:
        key = op.attributes.get("name"), op.operands[0].type if op.code is ops.VARIABLE else None
        if op.code is ops.VARIABLE and key not in writer.variables:
            writer.variables[key] = memory = writer.fresh()
            node = metadata.variable(str(key[0]), key[1], op.location)
            location = metadata.location(op.location).removeprefix(", !dbg ")
            assert key[1] is not None
            form = writer.module.memory_type(key[1])
            text, address, expression = writer.dialect.variable(writer.function, memory, form, size_of(key[1]))
            lines.append(f"{text}    #dbg_declare(ptr {address}, {node}, !DIExpression({expression}), {location})\n")
    return "".join(lines)


def _phi(writer: FunctionWriter, index: int, param: Value, entries: list[tuple[Block, Edge]]) -> str:
    """The phi of a block parameter."""
    sources = ((writer.names[edge.arguments[index]], writer.ends[block]) for block, edge in entries)
    incoming = ", ".join(f"[ {name}, %{label} ]" for name, label in sources)
    return f"  {writer.names[param]} = phi {writer.module.type(param.type)} {incoming}\n"
