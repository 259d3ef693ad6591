"""How atomic operations are written in LLVM IR, for both backends.

Loads, stores, compare-and-swap and fences are LLVM's own instructions. It writes them to PTX as the memory model wants:

    load seq_cst, scope "device"      fence.sc.gpu;  ld.acquire.gpu

Read-modify-writes, and accesses to 16 bytes (a vector of two integers here), are the dialect's: see `codegen/gpu/atomic_text`.
"""

from __future__ import annotations

from collections.abc import Callable

from cuda_device.codegen.emit.dialect import LLVM_ORDERS, Update, Wide
from cuda_device.codegen.emit.llvm_writer import FunctionWriter
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.ir.ops import Order, Scope
from cuda_device.types.model import BOOL, Number, Ref, Vector

# What a compare-and-swap that changes nothing may still do.
_FAILURES = {"release": "monotonic", "acq_rel": "acquire"}


def _number(reference: Value) -> Number:
    assert isinstance(reference.type, Ref)
    number = getattr(reference.type.pointee, "dtype", None)
    assert isinstance(number, Number), reference.type
    return number


def _how(to: FunctionWriter, op: Op) -> tuple[str, str]:
    """The scope and the order of an operation in LLVM's words."""
    order, scope = Order(str(op.attributes["memory"])), Scope(str(op.attributes["scope"]))
    return to.dialect.sync_scope(scope), LLVM_ORDERS[order]


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


EMITTERS: dict[ops.OpDef, Callable[[FunctionWriter, Op], None]] = {
    ops.ATOMIC_LOAD: _load,
    ops.ATOMIC_STORE: _store,
    ops.ATOMIC_CAS: _cas,
    ops.ATOMIC_UPDATE: _update,
    ops.FENCE: _fence,
    ops.PAUSE: _pause,
}
