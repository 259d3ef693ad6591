"""Atomic operations on a GPU: read-modify-writes and accesses to 16 bytes are inline PTX.

    red.relaxed.gpu.global.add.u32 [%rd1], %r1;          an `Update` whose result nothing reads

LLVM drops the order and the scope of a read-modify-write, and has no accesses to 16 bytes. C++'s orders become PTX's as NVIDIA
maps them: a sequentially consistent one is a `fence.sc` and an acquire.
"""

from __future__ import annotations

from cuda_device.codegen.emit.dialect import PAIR, Update, Wide
from cuda_device.ir.ops import Order, Scope
from cuda_device.types.model import Space


def sync_scope(scope: Scope) -> str:
    """LLVM's words for a scope on a GPU. A scope of one thread never comes here: LLVM has no fence for it."""
    return {Scope.SYSTEM: "", Scope.DEVICE: ' syncscope("device")', Scope.BLOCK: ' syncscope("block")'}[scope]


# PTX's names.
_PTX_SCOPES = {Scope.SYSTEM: "sys", Scope.DEVICE: "gpu", Scope.BLOCK: "cta"}
_PTX_SPACES = {Space.GLOBAL: ".global", Space.SHARED: ".shared", Space.GENERIC: ""}
_PTX_ORDERS = {Order.RELAXED: "relaxed", Order.RELEASE: "release", Order.ACQ_REL: "acq_rel"}  # any other: acquire
_BITWISE = ("and", "or", "xor", "exch")


def update(update: Update, result: str) -> str:
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
    fence = f"  fence{sync_scope(update.scope)} seq_cst\n" if update.order is Order.SEQ_CST else ""
    operands = f"({update.pointer}, {update.value})"
    if not update.is_used and order in ("relaxed", "release") and update.operation != "exch":
        return f'{fence}  call void asm sideeffect "red.{where} [$0], $1;", "l,{register},~{{memory}}"{operands}\n'
    code = f'"atom.{where} $0, [$1], $2;", "={register},l,{register},~{{memory}}"'
    return f"{fence}  {result} = call {type} asm sideeffect {code}{operands}\n"


_WIDE_REGISTER = "{ .reg .b128 %wide;\\0A "


def wide(wide: Wide, result: str) -> str:
    """Lines that store the value, or make `result` of what is there."""
    order = "relaxed" if wide.order is Order.RELAXED else "release" if wide.value else "acquire"
    where = f"{order}.{_PTX_SCOPES[wide.scope]}{_PTX_SPACES[wide.space]}.b128"
    halves = [f"{result}.{half}" for half in ("low", "high")]
    lines = [f"fence{sync_scope(wide.scope)} seq_cst"] if wide.order is Order.SEQ_CST else []
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
