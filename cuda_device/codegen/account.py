"""How the operations of checked mode are written in LLVM IR: where a reference points, and the account of shared memory.

written %1: ref<shared, float32>      on the CPU: the bytes beside it are all ones; on a GPU: true
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cuda_device.codegen import cpu
from cuda_device.ir import ops
from cuda_device.ir.model import Op
from cuda_device.types.layout import size_of
from cuda_device.types.model import Atomic, Ref

if TYPE_CHECKING:
    from cuda_device.codegen.to_llvm import FunctionWriter


def _address(to: FunctionWriter, op: Op) -> None:
    to.result(op, f"ptrtoint {to.typed(op.operands[0])} to i64")


def _written(to: FunctionWriter, op: Op) -> None:
    to.lines.append(to.dialect.written(to.names[op.operands[0]], _size(op), to.name(op.result)))


def _mark(to: FunctionWriter, op: Op) -> None:
    to.lines.append(to.dialect.mark(to.names[op.operands[0]], _size(op), to.fresh()))


def _room(to: FunctionWriter, op: Op) -> None:
    to.lines.append(
        cpu.room(to.name(op.result)) if not to.dialect.has_texts else f"  {to.name(op.result)} = icmp eq i32 0, 0\n"
    )


def _size(op: Op) -> int:
    """The bytes of what an operation's reference points to."""
    reference = op.operands[0].type
    assert isinstance(reference, Ref)
    pointee = reference.pointee
    return size_of(pointee.dtype if isinstance(pointee, Atomic) else pointee)


EMITTERS: dict[ops.Opcode, Callable[[FunctionWriter, Op], None]] = {
    ops.ADDRESS: _address,
    ops.WRITTEN: _written,
    ops.MARK: _mark,
    ops.ROOM: _room,
}
