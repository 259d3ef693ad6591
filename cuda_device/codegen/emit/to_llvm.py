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
from collections.abc import Callable, Iterable

from cuda_device.codegen.emit import float8, llvm_writer
from cuda_device.codegen.emit.dialect import LLVM_ORDERS, Dialect, Meeting, Update, Wide
from cuda_device.codegen.emit.llvm_writer import FunctionWriter, ModuleWriter, float_suffix, literal
from cuda_device.device.numeric import BY_NAME as MATH
from cuda_device.device.options import DEFAULTS, Options
from cuda_device.instrument.outline import Status
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Module, Op, Value
from cuda_device.ir.ops import Order, Scope
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.layout import align_of, size_of
from cuda_device.types.model import BOOL, FLOAT32, Number, NumberKind, Ref, Space, Vector

# The orders of a compare-and-swap that fails.
_FAILURES = {"release": "monotonic", "acq_rel": "acquire"}


def _reference(value: Value) -> Ref:
    assert isinstance(value.type, Ref), value.type
    return value.type


def _atomic_number(reference: Value) -> Number:
    number = getattr(_reference(reference).pointee, "dtype", None)
    assert isinstance(number, Number), reference.type
    return number


def _ordered(op: Op) -> tuple[Order, Scope]:
    return Order(op.attributes["memory"]), Scope(op.attributes["scope"])


def _how(to: FunctionWriter, op: Op) -> tuple[str, str]:
    """LLVM's scope and order of an operation."""
    order, scope = _ordered(op)
    return to.dialect.sync_scope(scope), LLVM_ORDERS[order]


def _number_bits(to: FunctionWriter, value: Value) -> str:
    """A value, with its type, as an integer of the same size in memory."""
    number = value.type
    assert isinstance(number, Number)
    if number == BOOL:
        return f"i8 {to.temporary(f'zext {to.typed(value)} to i8')}"
    if number.is_float and not number.is_float8:
        return f"i{number.bits} {to.temporary(f'bitcast {to.typed(value)} to i{number.bits}')}"
    return to.typed(value)


def _from_bits(to: FunctionWriter, op: Op, bits: str) -> None:
    """Converts an integer from memory to an operation's result."""
    number = op.result.type
    assert isinstance(number, Number)
    if number == BOOL:
        to.result(op, f"icmp ne i8 {bits}, 0")
    elif number.is_float and not number.is_float8:
        to.result(op, f"bitcast i{number.bits} {bits} to {to.module.type(number)}")
    else:
        to.names[op.result] = bits


def _wide(to: FunctionWriter, op: Op) -> bool:
    """Writes an atomic access to 16 bytes; returns False for any other."""
    reference, *values = op.operands
    type = _reference(reference)
    if not isinstance(getattr(type.pointee, "dtype", None), Vector):
        return False
    value = to.typed(values[0]) if values else ""
    result = to.fresh() if values else to.name(op.result)
    to.lines.append(to.dialect.wide(Wide(type.space, to.typed(reference), value, *_ordered(op)), result))
    return True


def _atomic_load(to: FunctionWriter, op: Op) -> None:
    if _wide(to, op):
        return
    (reference,) = op.operands
    number = _atomic_number(reference)
    scope, order = _how(to, op)
    load = f"load atomic i{number.bits}, {to.typed(reference)}{scope} {order}, align {number.bits // 8}"
    _from_bits(to, op, to.temporary(load))


def _atomic_store(to: FunctionWriter, op: Op) -> None:
    if _wide(to, op):
        return
    reference, value = op.operands
    scope, order = _how(to, op)
    align = _atomic_number(reference).bits // 8
    to.line(f"store atomic {_number_bits(to, value)}, {to.typed(reference)}{scope} {order}, align {align}")


def _cas(to: FunctionWriter, op: Op) -> None:
    reference, old, new = op.operands
    scope, order = _how(to, op)
    orders = f"{order} {_FAILURES.get(order, order)}"
    pair = to.temporary(
        f"cmpxchg {to.typed(reference)}, {_number_bits(to, old)}, {_number_bits(to, new)}{scope} {orders}"
    )
    _from_bits(to, op, to.temporary(f"extractvalue {{ i{_atomic_number(reference).bits}, i1 }} {pair}, 0"))


def _update(to: FunctionWriter, op: Op) -> None:
    """An exchange is one of the number's bits."""
    reference, value = op.operands
    number, space, operation = _atomic_number(reference), _reference(reference).space, op.attributes["operation"]
    operand = _number_bits(to, value) if operation == "exch" else to.typed(value)
    update = Update(operation, number, space, to.typed(reference), operand, *_ordered(op), op.result in to.used)
    result = to.fresh()
    to.lines.append(to.dialect.update(update, result))
    if operation == "exch":
        _from_bits(to, op, result)
    else:
        to.names[op.result] = result


def _fence(to: FunctionWriter, op: Op) -> None:
    scope, order = _how(to, op)
    to.line(f"fence{scope} {order}")


# A conversion of an integer, which has 64 bits.
_INTEGER = re.compile(r"(%%)|(%[-+ #0]*[\d*]*(?:\.\d+)?)([duxXo])")


def _print(to: FunctionWriter, op: Op) -> None:
    """Stores the values in the buffer, and calls the dialect's print function."""
    buffer = to.buffers.get(id(op), "null")
    for i, (operand, choice) in enumerate(zip(op.operands, op.attributes["choices"], strict=True)):
        at = to.temporary(f"getelementptr i64, ptr {buffer}, i64 {i}")
        if choice is None:
            to.line(f"store {to.typed(operand)}, ptr {at}, align 8")
        elif to.dialect.is_gpu:
            yes, no = (f"ptr {to.dialect.text(text)}" for text in choice)
            to.line(f"store ptr {to.temporary(f'select {to.typed(operand)}, {yes}, {no}')}, ptr {at}, align 8")
        else:
            to.line(f"store i64 {to.temporary(f'zext {to.typed(operand)} to i64')}, ptr {at}, align 8")
    to.lines.append(to.dialect.print(op, buffer, to.fresh()))


def texts(prints: Iterable[Op]) -> dict[str, int]:
    """The numbers of the texts of `print` operations."""
    found: dict[str, int] = {}
    for op in prints:
        for text in (c_format(op), *(text for choice in op.attributes["choices"] if choice for text in choice)):
            found.setdefault(text, len(found))
    return found


def c_format(op: Op) -> str:
    """The C format of a `print`."""
    return _INTEGER.sub(lambda match: match[1] or f"{match[2]}ll{match[3]}", op.attributes["format"])


REPORTS = {"assert": Status.ASSERTION, "raise": Status.EXCEPTION, "check": Status.CHECK}


Emitter = Callable[[FunctionWriter, Op], None]


def _number(value: Value) -> Number:
    assert isinstance(value.type, Number), value.type
    return value.type


# Constants and calls


def _const(to: FunctionWriter, op: Op) -> None:
    result, value = op.result, op.attributes["value"]
    assert result.type is not None
    to.constants[result] = value
    to.names[result] = literal(result.type, value)


def _call(to: FunctionWriter, op: Op) -> None:
    callee = to.dialect.module[op.attributes["callee"]]
    arguments = ", ".join((*to.dialect.arguments(), *map(to.typed, op.operands)))
    result = to.module.type(callee.result)
    marks = to.dialect.definition(callee) or to.dialect.called
    call = f"call {result} @{to.dialect.symbol(callee)}({arguments}){marks}"
    if result == "void":
        to.line(call)
    else:
        to.result(op, call)


def _make(to: FunctionWriter, op: Op) -> None:
    type = to.module.type(op.result.type)
    vector = isinstance(op.result.type, Vector)
    value = "poison"
    for index, operand in enumerate(op.operands):
        if vector:
            value = to.temporary(f"insertelement {type} {value}, {to.typed(operand)}, i32 {index}")
        else:
            value = to.temporary(f"insertvalue {type} {value}, {to.typed(operand)}, {index}")
    to.names[op.result] = value


def _field(to: FunctionWriter, op: Op) -> None:
    (whole,) = op.operands
    if isinstance(whole.type, Vector):
        to.result(op, f"extractelement {to.typed(whole)}, i32 {op.attributes['index']}")
    else:
        to.result(op, f"extractvalue {to.typed(whole)}, {op.attributes['index']}")


# Arithmetic


def _sum(integer: str, real: str) -> Emitter:
    def emit(to: FunctionWriter, op: Op) -> None:
        number = _number(op.result)
        if number.is_float:
            to.result(op, f"{real}{to.module.fuse} {to.operands(op)}")
            return
        flags = ""
        if op.attributes.get("exact"):
            flags = " nsw" if number.signed else " nuw"
            if number.signed and integer != "sub" and op.operands[0].nonneg and op.operands[1].nonneg:
                flags = " nuw nsw"
        to.result(op, f"{integer}{flags} {to.operands(op)}")

    return emit


def _plain(instruction: str) -> Emitter:
    def emit(to: FunctionWriter, op: Op) -> None:
        flags = to.module.relaxed if instruction == "fdiv" else ""
        to.result(op, f"{instruction}{flags} {to.operands(op)}")

    return emit


def _quotient(to: FunctionWriter, op: Op) -> None:
    """A division without the undefined behaviour that LLVM's has by zero, and by -1 for the least integer."""
    a, b = op.operands
    number = _number(a)
    divisor, unsigned = _divisor(to, op)
    if op.code is ops.REMAINDER or unsigned or not _may_be_minus_one(to, b):
        kind = "rem" if op.code is ops.REMAINDER else "div"
        to.result(op, f"{'u' if unsigned else 's'}{kind} {to.typed(a)}, {divisor}")
        return
    type = to.module.type(number)
    plain = to.temporary(f"sdiv {to.typed(a)}, {divisor}")
    negative = to.temporary(f"icmp eq {to.typed(b)}, -1")
    negated = to.temporary(f"sub {type} 0, {to.names[a]}")
    to.result(op, f"select i1 {negative}, {type} {negated}, {type} {plain}")


def _divisor(to: FunctionWriter, op: Op) -> tuple[str, bool]:
    """A divisor that is 1 instead of 0 and -1, and whether the division may be unsigned."""
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


def _may_be_minus_one(to: FunctionWriter, value: Value) -> bool:
    return not value.nonneg and to.constants.get(value, -1) == -1


def _bitwise(to: FunctionWriter, op: Op) -> None:
    type, function = to.module.type(op.result.type), op.attributes["function"]
    zero = function in ("ctlz", "cttz")  # which are defined for 0
    call = to.module.call(f"llvm.{function}.{type}", type, [type, "i1"] if zero else [type])
    to.result(op, f"{call}({to.typed(op.operands[0])}{', i1 false' if zero else ''})")


_SIGNED = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
_UNSIGNED = {"==": "eq", "!=": "ne", "<": "ult", "<=": "ule", ">": "ugt", ">=": "uge"}
_ORDERED = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}


def _compare(to: FunctionWriter, op: Op) -> None:
    number, sign = _number(op.operands[0]), op.attributes["op"]
    if number.is_float:
        to.result(op, f"fcmp{to.module.relaxed} {_ORDERED[sign]} {to.operands(op)}")
    else:
        to.result(op, f"icmp {(_SIGNED if number.signed else _UNSIGNED)[sign]} {to.operands(op)}")


def _select(to: FunctionWriter, op: Op) -> None:
    type = op.result.type
    if op.attributes.get("extreme") and type == FLOAT32 and to.module.has_extremes:
        name = f"llvm.{op.attributes['extreme']}num.f32"
        call = to.module.call(name, "float", ["float"] * 2).replace("call", f"call{to.module.relaxed}", 1)
        to.result(op, f"{call}({', '.join(map(to.typed, op.operands[1:]))})")
        return
    to.result(op, "select " + ", ".join(map(to.typed, op.operands)))


def _math(to: FunctionWriter, op: Op) -> None:
    row = MATH[op.attributes["function"]]
    number = _number(op.result)
    type = to.module.type(number)
    name, marks = row.symbol, ""
    if name.startswith("llvm."):
        name = f"{name}.{float_suffix(number)}"
    else:
        name = to.dialect.library(name, number)
        marks, others = to.dialect.of_library(name, type, row.arity)
        to.module.library.add(name)
        to.module.declared.update(others)
    call = to.module.call(name, type, [type] * row.arity).replace("call", f"call{to.module.relaxed}", 1)
    to.result(op, f"{call}({', '.join(map(to.typed, op.operands))}){marks}")


def _machine(to: FunctionWriter, op: Op) -> None:
    """A call of an intrinsic, or inline PTX."""
    text, kinds = op.attributes["instruction"], [to.module.type(result.type) for result in op.results]
    result = kinds[0] if len(kinds) == 1 else f"{{ {', '.join(kinds)} }}" if kinds else "void"
    if text.startswith("llvm."):
        call = to.module.call(text, result, [to.module.type(operand.type) for operand in op.operands])
    else:
        constraints = ["=" + _register_class(each) for each in op.results] + list(map(_register_class, op.operands))
        effects, sideeffect = (["~{memory}"], " sideeffect") if op.code is ops.PTX else ([], "")
        call = f'call {result} asm{sideeffect} "{llvm_writer.quoted(text)}", "{",".join(constraints + effects)}"'
    call += f"({', '.join(map(to.typed, op.operands))})" + (" convergent" if op.code is ops.PTX else "")
    if not kinds:
        to.line(call)
    elif len(kinds) == 1:
        to.result(op, call)
    else:
        whole = to.temporary(call)
        for i, each in enumerate(op.results):
            to.line(f"{to.name(each)} = extractvalue {result} {whole}, {i}")


def _register_class(value: Value) -> str:
    """The constraint for a PTX register that holds a number or an address."""
    if isinstance(value.type, Ref):
        return "l"
    number = _number(value)
    if number.is_float:
        return {32: "f", 64: "d"}[number.bits]
    return {16: "h", 32: "r", 64: "l"}[number.bits]


# Conversions


def _convert(to: FunctionWriter, op: Op) -> None:
    (operand,) = op.operands
    source, target = _number(operand), _number(op.result)
    if source.is_float8 or target.is_float8:
        call = float8.call(to.module.conversions, source, target)
        to.result(op, f"call {call}({to.typed(operand)}){to.dialect.called}")
    elif target == BOOL:
        zero = literal(source, 0)
        test = f"fcmp une {to.typed(operand)}, {zero}" if source.is_float else f"icmp ne {to.typed(operand)}, {zero}"
        to.result(op, test)
    elif source.is_float and not target.is_float:
        llvm_writer.truncate(to, op, source, target)
    else:
        instruction = _instruction(operand, source, target)
        if not instruction:
            to.names[op.result] = to.names[operand]
            return
        to.result(op, f"{instruction} {to.typed(operand)} to {to.module.type(target)}")


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


def _element(to: FunctionWriter, op: Op) -> None:
    reference, index = op.operands
    pointee = to.module.element_type(_reference(reference).pointee)
    flags = "" if op.attributes.get("outside") else "inbounds nuw " if index.nonneg else "inbounds "
    to.result(op, f"getelementptr {flags}{pointee}, {to.typed(reference)}, {to.typed(index)}")


def _load(to: FunctionWriter, op: Op) -> None:
    (reference,) = op.operands
    space, pointee = _reference(reference).space, _reference(reference).pointee
    align = op.attributes.get("align", align_of(pointee))
    says = to.dialect.access(space) + (to.module.aliasing.load(reference) if to.module.aliasing else "")
    load = f"load {to.module.memory_type(pointee)}, {to.typed(reference)}, align {align}{says}"
    if pointee == BOOL:
        to.result(op, f"icmp ne i8 {to.temporary(load)}, 0")
    else:
        llvm_writer.taken(to, op, load)


def _store(to: FunctionWriter, op: Op) -> None:
    reference, value = op.operands
    type, stored = _reference(reference), to.typed(value)
    if value.type == BOOL:
        stored = f"i8 {to.temporary(f'zext i1 {to.names[value]} to i8')}"
    align = op.attributes.get("align", align_of(type.pointee))
    says = to.dialect.access(type.space) + (to.module.aliasing.store(reference) if to.module.aliasing else "")
    to.line(f"store {stored}, {to.typed(reference)}, align {align}{says}")


def _shared(to: FunctionWriter, op: Op) -> None:
    text, operand = to.dialect.shared(op.attributes.get("number"), to.fresh())
    to.lines.append(text)
    to.names[op.result] = operand


def _variable(to: FunctionWriter, op: Op) -> None:
    value = op.operands[0]
    name = to.names[value] if value.type != BOOL else to.temporary(f"zext i1 {to.names[value]} to i8")
    place = to.variables[op.attributes["name"], value.type]
    to.line(f"store {to.module.memory_type(value.type)} {name}, ptr {place}, align 8")


# Threads


def _meet(to: FunctionWriter, op: Op) -> None:
    """A convergent operation, which the dialect writes."""
    kind = "now" if op.attributes.get("now") else op.attributes.get("kind", "")
    place, label = op.attributes.get("place", 0), to.fresh().removeprefix("%")
    result = f"{to.module.type(op.result.type)} {to.name(op.result)}" if op.results else ""
    text, label = to.dialect.meet(Meeting(op.code, kind, place, label, result, tuple(map(to.typed, op.operands))))
    to.lines.append(text)
    to.label = label or to.label


def _bits(to: FunctionWriter, op: Op) -> None:
    """A bitcast; integers of one size are the same type."""
    source, target = to.module.type(op.operands[0].type), to.module.type(op.result.type)
    if source == target:
        to.names[op.result] = to.names[op.operands[0]]
    else:
        llvm_writer.taken(to, op, f"bitcast {to.typed(op.operands[0])} to {target}")


# Ends of blocks and threads


def _report(to: FunctionWriter, op: Op) -> None:
    status, place = REPORTS[op.attributes["status"]], op.attributes["place"]
    to.lines.append(to.dialect.report(status, place, [to.names[value] for value in op.operands]))


def _trace(to: FunctionWriter, op: Op) -> None:
    value, done = "0", "1"
    if op.operands:
        at = op.operands[0]
        if isinstance(at.type, Ref):
            value = to.temporary(f"ptrtoint {to.typed(at)} to i64")
            if at.type.space is Space.SHARED:
                base = to.fresh()
                to.lines.append(to.dialect.register("shared", base))
                value = to.temporary(f"sub i64 {value}, {to.temporary(f'ptrtoint ptr {base} to i64')}")
        else:
            value = to.temporary(f"zext {to.typed(at)} to i64")
    if op.operands[1:]:
        done = to.temporary(f"zext {to.typed(op.operands[1])} to i64")
    place, event = op.attributes["place"], op.attributes["event"]
    to.lines.append(to.dialect.trace(place, event, value, done))


def _branch(to: FunctionWriter, op: Op) -> None:
    then, otherwise = (to.labels[edge.block] for edge in op.successors)
    to.line(f"br i1 {to.names[op.operands[0]]}, label %{then}, label %{otherwise}")


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
    ops.SHR: lambda to, op: to.result(op, f"{'ashr' if _number(op.result).signed else 'lshr'} {to.operands(op)}"),
    ops.BITWISE: _bitwise,
    ops.NEG: lambda to, op: to.result(op, f"fneg{to.module.relaxed} {to.operands(op)}"),
    ops.COMPARE: _compare,
    ops.SELECT: _select,
    ops.MATH: _math,
    ops.MACHINE: _machine,
    ops.PTX: _machine,
    ops.ELEMENT: _element,
    ops.BYTES: lambda to, op: to.result(
        op, f"getelementptr inbounds i8, {to.typed(op.operands[0])}, {to.typed(op.operands[1])}"
    ),
    ops.LOAD: _load,
    ops.STORE: _store,
    ops.SHARED: _shared,
    ops.DYNAMIC_SHARED: _shared,
    ops.LOCAL: lambda to, op: None,  # `_allocas` has allocated it
    ops.CONSTANT: lambda to, op: to.names.__setitem__(op.result, f"@{llvm_writer.constant_name(op)}"),
    ops.REGISTER: lambda to, op: to.lines.append(to.dialect.register(op.attributes["name"], to.name(op.result))),
    ops.GRID_WORD: lambda to, op: to.lines.append(
        to.dialect.grid_word(to.name(op.result), bool(op.attributes.get("cluster")))
    ),
    ops.IN_CLUSTER: lambda to, op: to.lines.append(
        to.dialect.in_cluster(to.typed(op.operands[0]), to.typed(op.operands[1]), to.name(op.result))
    ),
    ops.TIMER: lambda to, op: to.lines.append(to.dialect.timer(op.attributes["name"], to.name(op.result))),
    **dict.fromkeys(
        (
            ops.BARRIER,
            ops.BARRIER_REDUCE,
            ops.WARP_SYNC,
            ops.WARP_VOTE,
            ops.WARP_SHUFFLE,
            ops.WARP_MATCH,
            ops.WARP_REDUCE,
            ops.WARP_ACTIVE,
            ops.YIELD,
        ),
        _meet,
    ),
    ops.BITS: _bits,
    ops.JUMP: lambda to, op: to.line(f"br label %{to.labels[op.successors[0].block]}"),
    ops.BRANCH: _branch,
    ops.UNREACHABLE: lambda to, _: to.line("unreachable"),
    ops.REPORT: _report,
    ops.TRACE: _trace,
    ops.EXIT: lambda to, _: to.line(to.dialect.exit(to.function)),
    ops.ATOMIC_LOAD: _atomic_load,
    ops.ATOMIC_STORE: _atomic_store,
    ops.ATOMIC_CAS: _cas,
    ops.ATOMIC_UPDATE: _update,
    ops.FENCE: _fence,
    ops.PAUSE: lambda to, op: to.lines.append(to.dialect.pause(to.typed(op.operands[0]))),
    ops.ADDRESS: lambda to, op: to.result(op, f"ptrtoint {to.typed(op.operands[0])} to i64"),
    ops.ROOM: lambda to, op: to.lines.append(to.dialect.room(to.name(op.result))),
    ops.PRINT: _print,
    ops.VARIABLE: _variable,
    **llvm_writer.EMITTERS,
}


@dataclass(frozen=True, slots=True)
class Llvm:
    """LLVM IR, the library functions that it calls, and the bytes of its shared arrays."""

    text: str
    library: frozenset[str]
    shared_bytes: int


def run(module: Module, dialect: Dialect, options: Options = DEFAULTS) -> Llvm:
    """Writes a device module. The options control floating-point arithmetic and debug information."""
    writer = ModuleWriter(dialect, options)
    functions = [_function(FunctionWriter(writer, function)) for function in module.functions]
    types = () if dialect.is_gpu else tuple(writer.memory_type(param.type) for param in module.main.params)
    helpers = [float8.definition(*conversion, dialect.has_float8) for conversion in sorted(writer.conversions)]
    declarations = "".join(f"declare {line}\n" for line in sorted(writer.declared))
    text = "\n".join((declarations, *helpers, *functions, dialect.runner(types) + writer.metadata.text()))
    return Llvm(f"{dialect.preamble()}\n{text}", frozenset(writer.library), dialect.shared_bytes)


def _function(to: FunctionWriter) -> str:
    """The definition of a function."""
    function = to.function
    for block in function.blocks:
        for value in block.params:
            to.name(value)
    parameters = [llvm_writer.parameter(to, value) for value in function.params]
    interop = function.interop
    result = llvm_writer.result(to, function.result) if interop else to.module.type(function.result)
    place = to.module.metadata.function(function)
    found = function.ops()
    memory = _allocas(to, found) + _variables(to, found)
    for value in function.params:
        llvm_writer.unpack(to, value)
    head, to.label = to.dialect.open(function, result, parameters, memory + "".join(to.lines))
    head = head.replace(" {\n", f"{place} {{\n", 1)
    bodies = []
    for block in function.blocks:
        to.lines = []
        if block is not function.blocks[0]:
            to.label = to.labels[block]
        for op in block.ops:
            written = len(to.lines)
            EMITTERS[op.code](to, op)
            if to.module.metadata.lines:
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
    """Adds the source location to the lines of an operation."""
    place = to.module.metadata.place(op.location)
    # Lines without indentation are labels.
    to.lines[start:] = [
        f"{line}{place}\n" if line.startswith(" ") else f"{line}\n" for line in "".join(to.lines[start:]).splitlines()
    ]


def _allocas(to: FunctionWriter, found: Iterable[Op]) -> str:
    """The lines that allocate buffers for `print`, and local arrays."""
    lines = []
    for op in found:
        if op.code is ops.PRINT and op.operands:
            to.buffers[id(op)] = to.fresh()
            lines.append(f"  {to.buffers[id(op)]} = alloca [{len(op.operands)} x i64], align 8\n")
    for op in found:
        if op.code is ops.LOCAL:
            size = op.attributes["count"] * size_of(_reference(op.result).pointee)
            value = op.result if to.function.kernel else None
            lines.append(to.dialect.own(to.name(op.result), size, op.attributes["align"], value))
    return "".join(lines)


def _variables(to: FunctionWriter, found: Iterable[Op]) -> str:
    """The lines that allocate memory for variables that debuggers show."""
    lines, metadata = [], to.module.metadata
    for op in found:
        key = op.attributes.get("name"), op.operands[0].type if op.code is ops.VARIABLE else None
        if op.code is ops.VARIABLE and key not in to.variables:
            to.variables[key] = place = to.fresh()
            node = metadata.variable(str(key[0]), key[1], op.location)
            where = metadata.place(op.location).removeprefix(", !dbg ")
            assert key[1] is not None
            made = to.dialect.variable(to.function, place, to.module.memory_type(key[1]), size_of(key[1]))
            lines.append(f"{made[0]}    #dbg_declare(ptr {made[1]}, {node}, !DIExpression({made[2]}), {where})\n")
    return "".join(lines)


def _entries(to: FunctionWriter) -> dict[Block, list[tuple[str, Edge]]]:
    """The edges into each block, with the labels of the LLVM blocks that they leave."""
    entries: dict[Block, list[tuple[str, Edge]]] = {block: [] for block in to.function.blocks}
    for block in to.function.blocks:
        for edge in block.successors:
            entries[edge.block].append((to.ends[block], edge))
    return entries


def _phi(to: FunctionWriter, index: int, param: Value, entries: list[tuple[str, Edge]]) -> str:
    """The phi of a block parameter."""
    incoming = ", ".join(f"[ {to.names[edge.arguments[index]]}, %{label} ]" for label, edge in entries)
    return f"  {to.names[param]} = phi {to.module.type(param.type)} {incoming}\n"
