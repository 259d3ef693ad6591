"""Where threads meet, as both back ends write it: a `Meeting` says what an operation is, `on_gpu` and `on_cpu` write it.

Meeting("warp.vote", "any", place=4, label="v9", result="%v7", operands=("%v1", "%v2"))
    on_gpu      %v7 = call i1 @llvm.nvvm.vote.any.sync(i32 %v1, i1 %v2) convergent
    on_cpu      stores, a suspension, a load; goes on in the block v9
"""

from __future__ import annotations

from collections.abc import Callable

from cuda_device.codegen.cpu import kernel_text, warp_exchange
from cuda_device.codegen.gpu import warp_intrinsics
from cuda_device.ir import ops
from cuda_device.ir.ops import Opcode
from cuda_device.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meeting:
    """One such operation. `kind` and `place` are its attributes, `type` is the type of its value operand, if it has one."""

    code: Opcode
    kind: str
    place: int
    label: str
    result: str
    operands: tuple[str, ...]
    type: str = ""


def on_gpu(meeting: Meeting) -> str:
    """The text for a GPU, which goes on in the same block."""
    return _GPU[meeting.code](meeting)


def on_cpu(meeting: Meeting) -> str:
    """The text for the CPU, which goes on at `label:`."""
    return _CPU[meeting.code](meeting)


Writer = Callable[[Meeting], str]

_GPU: dict[Opcode, Writer] = {
    ops.BARRIER_REDUCE: lambda m: warp_intrinsics.reduce(m.result, m.kind, *m.operands),
    ops.WARP_SYNC: lambda m: warp_intrinsics.sync(*m.operands),
    ops.WARP_VOTE: lambda m: warp_intrinsics.vote(m.result, m.kind, *m.operands),
    ops.WARP_SHUFFLE: lambda m: warp_intrinsics.shuffle(
        m.result, m.kind, m.operands[0], m.operands[1], m.type, m.operands[2]
    ),
    ops.WARP_MATCH: lambda m: warp_intrinsics.match(m.result, m.kind, m.operands[0], m.operands[1], m.type),
    ops.WARP_ACTIVE: lambda m: warp_intrinsics.active(m.result),
    ops.YIELD: lambda _: "",
}


def _shuffle(m: Meeting) -> str:
    mask, value, lane = m.operands
    return warp_exchange.shuffle(warp_exchange.SHUFFLES[m.kind], m.place, m.label, m.result, mask, value, m.type, lane)


def _match(m: Meeting) -> str:
    mask, value = m.operands
    return warp_exchange.match(warp_exchange.MATCHES[m.kind], m.place, m.label, m.result, mask, value, m.type)


_CPU: dict[Opcode, Writer] = {
    ops.BARRIER_REDUCE: lambda m: warp_exchange.reduce(
        warp_exchange.REDUCTIONS[m.kind], m.place, m.label, m.result, *m.operands
    ),
    ops.WARP_SYNC: lambda m: warp_exchange.sync(m.place, m.label, *m.operands),
    ops.WARP_VOTE: lambda m: warp_exchange.vote(warp_exchange.VOTES[m.kind], m.place, m.label, m.result, *m.operands),
    ops.WARP_SHUFFLE: _shuffle,
    ops.WARP_MATCH: _match,
    ops.WARP_ACTIVE: lambda m: warp_exchange.active(m.place, m.label, m.result),
    ops.YIELD: lambda m: (kernel_text.yield_now if m.kind == "now" else kernel_text.yield_sometimes)(m.place, m.label),
}
