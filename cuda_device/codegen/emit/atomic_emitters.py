"""How atomic operations are written in LLVM IR, for both backends.

Loads, stores, compare-and-swap and fences are LLVM's own instructions. It writes them to PTX as the memory model wants:

    load seq_cst, scope "device"      fence.sc.gpu;  ld.acquire.gpu

Read-modify-writes are inline PTX on a GPU, because LLVM drops their order and scope there; C++'s orders become PTX's as
NVIDIA maps them: a seq_cst one is a `fence.sc` and an acquire. So are accesses to 16 bytes (a vector of two integers here),
which LLVM has no instructions for there. On the CPU all are LLVM's; its scopes do not count there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.ir.ordering import Order, Scope
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.model import BOOL, Number, Ref, Space, Vector

if TYPE_CHECKING:
    from cuda_device.codegen.emit.to_llvm import FunctionWriter

# LLVM's names; consume is acquire, as in every compiler.
_ORDERS = {
    Order.RELAXED: "monotonic",
    Order.CONSUME: "acquire",
    Order.ACQUIRE: "acquire",
    Order.RELEASE: "release",
    Order.ACQ_REL: "acq_rel",
    Order.SEQ_CST: "seq_cst",
}
# What a compare-and-swap that changes nothing may still do.
_FAILURES = {"release": "monotonic", "acq_rel": "acquire"}


@dataclass(frozen=True, slots=True)
class Update:
    """A read-modify-write: `pointer` and `value` are operands with their types. `number` is the type of the number.

    `is_used` says whether anything reads the number that was there before.
    """

    operation: str
    number: Number
    space: Space
    pointer: str
    value: str
    order: Order
    scope: Scope
    is_used: bool = True


def nvptx_scope(scope: Scope) -> str:
    """LLVM's words for a scope on a GPU. A scope of one thread never comes here: LLVM has no fence for it."""
    return {Scope.SYSTEM: "", Scope.DEVICE: ' syncscope("device")', Scope.BLOCK: ' syncscope("block")'}[scope]


# PTX's names.
_PTX_SCOPES = {Scope.SYSTEM: "sys", Scope.DEVICE: "gpu", Scope.BLOCK: "cta"}
_PTX_SPACES = {Space.GLOBAL: ".global", Space.SHARED: ".shared", Space.GENERIC: ""}
_PTX_ORDERS = {Order.RELAXED: "relaxed", Order.RELEASE: "release", Order.ACQ_REL: "acq_rel"}  # any other: acquire
_BITWISE = ("and", "or", "xor", "exch")


def nvptx_update(update: Update, result: str) -> str:
    """Lines that make `result` of the number before: an instruction of PTX, after a fence if it is sequentially consistent.

    A thread does not wait for a number that nothing reads (`red`), unless the operation acquires: there is nothing to acquire
    before the number is there. The assembler makes that of an `atom` without order and scope alone.
    """
    number = update.number
    real = number.is_float and update.operation == "add"
    letter = "f" if real else "b" if update.operation in _BITWISE else "u"
    if number.signed and update.operation in ("max", "min"):
        letter = "s"
    order, scope = _PTX_ORDERS.get(update.order, "acquire"), _PTX_SCOPES[update.scope]
    where = f"{order}.{scope}{_PTX_SPACES[update.space]}.{update.operation}.{letter}{number.bits}"
    register = ("d" if number.bits == 64 else "f") if real else "l" if number.bits == 64 else "r"
    type = update.value.split()[0]
    fence = f"  fence{nvptx_scope(update.scope)} seq_cst\n" if update.order is Order.SEQ_CST else ""
    operands = f"({update.pointer}, {update.value})"
    if not update.is_used and order in ("relaxed", "release") and update.operation != "exch":
        return f'{fence}  call void asm sideeffect "red.{where} [$0], $1;", "l,{register},~{{memory}}"{operands}\n'
    code = f'"atom.{where} $0, [$1], $2;", "={register},l,{register},~{{memory}}"'
    return f"{fence}  {result} = call {type} asm sideeffect {code}{operands}\n"


@dataclass(frozen=True, slots=True)
class Wide:
    """An access to 16 bytes: `pointer`, and the `value` to store ("" for a load), are operands with their types."""

    space: Space
    pointer: str
    value: str
    order: Order
    scope: Scope


PAIR = "<2 x i64>"
_WIDE_REGISTER = "{ .reg .b128 %wide;\\0A "


def nvptx_wide(wide: Wide, result: str) -> str:
    """Lines that store the value, or make `result` of what is there."""
    order = "relaxed" if wide.order is Order.RELAXED else "release" if wide.value else "acquire"
    where = f"{order}.{_PTX_SCOPES[wide.scope]}{_PTX_SPACES[wide.space]}.b128"
    halves = [f"{result}.{half}" for half in ("low", "high")]
    lines = [f"fence{nvptx_scope(wide.scope)} seq_cst"] if wide.order is Order.SEQ_CST else []
    if wide.value:
        lines += [f"{half} = extractelement {wide.value}, i32 {i}" for i, half in enumerate(halves)]
        code = f"mov.b128 %wide, {{$1, $2}};\\0A st.{where} [$0], %wide;"
        operands = f"{wide.pointer}, i64 {halves[0]}, i64 {halves[1]}"
        lines.append(f'call void asm sideeffect "{_WIDE_REGISTER}{code} }}", "l,l,l,~{{memory}}"({operands})')
    else:
        code = f"ld.{where} %wide, [$2];\\0A mov.b128 {{$0, $1}}, %wide;"
        both = f"{result}.both"
        lines.append(
            f'{both} = call {{ i64, i64 }} asm sideeffect "{_WIDE_REGISTER}{code} }}", "=l,=l,l,~{{memory}}"({wide.pointer})'
        )
        lines += [f"{half} = extractvalue {{ i64, i64 }} {both}, {i}" for i, half in enumerate(halves)]
        lines.append(f"{result}.first = insertelement {PAIR} poison, i64 {halves[0]}, i32 0")
        lines.append(f"{result} = insertelement {PAIR} {result}.first, i64 {halves[1]}, i32 1")
    return "".join(f"  {line}\n" for line in lines)


def cpu_wide(wide: Wide, result: str) -> str:
    """The same on the CPU."""
    order = _ORDERS[wide.order]
    if wide.value:
        bits = f"{result}.bits"
        return (
            f"  {bits} = bitcast {wide.value} to i128\n  store atomic i128 {bits}, {wide.pointer} {order}, align 16\n"
        )
    load = f"  {result}.bits = load atomic i128, {wide.pointer} {order}, align 16\n"
    return f"{load}  {result} = bitcast i128 {result}.bits to {PAIR}\n"


def cpu_update(update: Update, result: str) -> str:
    """The same on the CPU."""
    operation = {"exch": "xchg"}.get(update.operation, update.operation)
    if update.number.is_float and operation == "add":
        operation = "fadd"
    if not update.number.signed and operation in ("max", "min"):
        operation = f"u{operation}"
    return f"  {result} = atomicrmw {operation} {update.pointer}, {update.value} {_ORDERS[update.order]}\n"


# Emitters


def _number(reference: Value) -> Number:
    assert isinstance(reference.type, Ref)
    number = getattr(reference.type.pointee, "dtype", None)
    assert isinstance(number, Number), reference.type
    return number


def _how(to: FunctionWriter, op: Op) -> tuple[str, str]:
    """The scope and the order of an operation in LLVM's words."""
    order, scope = Order(str(op.attributes["memory"])), Scope(str(op.attributes["scope"]))
    return to.dialect.sync_scope(scope), _ORDERS[order]


def _bits(to: FunctionWriter, value: Value) -> str:
    """A value, with its type, as the integer that it is in memory."""
    number = value.type
    assert isinstance(number, Number)
    if number == BOOL:
        return f"i8 {to.temporary(f'zext {to.typed(value)} to i8')}"
    if number.is_float and not number.is_float8:
        return f"i{number.bits} {to.temporary(f'bitcast {to.typed(value)} to i{number.bits}')}"
    return to.typed(value)


def _from_bits(to: FunctionWriter, op: Op, bits: str) -> None:
    """Makes an operation's result of the integer that came from memory."""
    number = op.result.type
    assert isinstance(number, Number)
    if number == BOOL:
        to.result(op, f"icmp ne i8 {bits}, 0")
    elif number.is_float and not number.is_float8:
        to.result(op, f"bitcast i{number.bits} {bits} to {to.module.type(number)}")
    else:
        to.names[op.result] = bits


def _wide(to: FunctionWriter, op: Op) -> bool:
    """Writes an access to 16 bytes; False if it is none."""
    reference, *values = op.operands
    assert isinstance(reference.type, Ref)
    if not isinstance(getattr(reference.type.pointee, "dtype", None), Vector):
        return False
    order, scope = Order(str(op.attributes["memory"])), Scope(str(op.attributes["scope"]))
    value = to.typed(values[0]) if values else ""
    result = to.fresh() if values else to.name(op.result)
    access = Wide(reference.type.space, to.typed(reference), value, order, scope)
    to.lines.append(to.dialect.wide(access, result))
    return True


def _load(to: FunctionWriter, op: Op) -> None:
    if _wide(to, op):
        return
    (reference,) = op.operands
    number = _number(reference)
    scope, order = _how(to, op)
    load = f"load atomic i{number.bits}, {to.typed(reference)}{scope} {order}, align {number.bits // 8}"
    _from_bits(to, op, to.temporary(load))


def _store(to: FunctionWriter, op: Op) -> None:
    if _wide(to, op):
        return
    reference, value = op.operands
    scope, order = _how(to, op)
    align = _number(reference).bits // 8
    to.line(f"store atomic {_bits(to, value)}, {to.typed(reference)}{scope} {order}, align {align}")


def _cas(to: FunctionWriter, op: Op) -> None:
    reference, old, new = op.operands
    scope, order = _how(to, op)
    orders = f"{order} {_FAILURES.get(order, order)}"
    pair = to.temporary(f"cmpxchg {to.typed(reference)}, {_bits(to, old)}, {_bits(to, new)}{scope} {orders}")
    _from_bits(to, op, to.temporary(f"extractvalue {{ i{_number(reference).bits}, i1 }} {pair}, 0"))


def _update(to: FunctionWriter, op: Op) -> None:
    """Sums are of the number's own type, exchanges of its bits."""
    reference, value = op.operands
    assert isinstance(reference.type, Ref)
    number, operation = _number(reference), str(op.attributes["operation"])
    order, scope = Order(str(op.attributes["memory"])), Scope(str(op.attributes["scope"]))
    operand = _bits(to, value) if operation == "exch" else to.typed(value)
    is_used = op.result in to.used
    update = Update(operation, number, reference.type.space, to.typed(reference), operand, order, scope, is_used)
    result = to.fresh()
    to.lines.append(to.dialect.update(update, result))
    if operation == "exch":
        _from_bits(to, op, result)
    else:
        to.names[op.result] = result


def _fence(to: FunctionWriter, op: Op) -> None:
    scope, order = _how(to, op)
    to.line(f"fence{scope} {order}")


def _pause(to: FunctionWriter, op: Op) -> None:
    to.lines.append(to.dialect.pause(to.typed(op.operands[0])))


EMITTERS: dict[ops.Opcode, Callable[[FunctionWriter, Op], None]] = {
    ops.ATOMIC_LOAD: _load,
    ops.ATOMIC_STORE: _store,
    ops.ATOMIC_CAS: _cas,
    ops.ATOMIC_UPDATE: _update,
    ops.FENCE: _fence,
    ops.PAUSE: _pause,
}
