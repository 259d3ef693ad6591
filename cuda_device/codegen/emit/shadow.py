"""How the operations of checked mode are written in LLVM IR: where a reference points, and what of memory has been written.

written %1: ref<shared, float32>                   on the CPU: the bytes beside it are all ones; on a GPU: true
written {account=64} %1: ref<local, float32>       the same of the bytes that lie 64 bytes behind it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cuda_device.codegen.cpu import kernel_text
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.types.layout import size_of
from cuda_device.types.model import Atomic, Ref

if TYPE_CHECKING:
    from cuda_device.codegen.emit.to_llvm import FunctionWriter


def _address(to: FunctionWriter, op: Op) -> None:
    to.result(op, f"ptrtoint {to.typed(op.operands[0])} to i64")


def _written(to: FunctionWriter, op: Op) -> None:
    to.lines.append(to.dialect.written(to.names[op.operands[0]], _size(op), to.name(op.result), distance_of(op)))


def _mark(to: FunctionWriter, op: Op) -> None:
    to.lines.append(to.dialect.mark(to.names[op.operands[0]], _size(op), to.fresh(), distance_of(op)))


def _room(to: FunctionWriter, op: Op) -> None:
    to.lines.append(
        kernel_text.room(to.name(op.result))
        if not to.dialect.has_texts
        else f"  {to.name(op.result)} = icmp eq i32 0, 0\n"
    )


def begin(to: FunctionWriter, op: Op, size: int) -> None:
    """The account of a local array, if one is kept: nothing of its `size` bytes has been written."""
    if distance := distance_of(op):
        to.lines.append(kernel_text.forget(to.names[op.result], size, to.fresh(), distance))


def distance_of(op: Op) -> int:
    """How far behind local memory its account lies; 0 where none is kept, and for shared memory."""
    return int(str(op.attributes.get("account", 0)))


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
