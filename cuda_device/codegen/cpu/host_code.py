"""Functions of ours in Python that kernels on the CPU call: from their source to LLVM IR.

    text(scheduler.frame, (INT64, INT64), "cuda_device.frame")        define i64 @cuda_device.frame(i64 %v1, i64 %v2) …

They are compiled as device functions are, but for no thread: they take addresses as int64 and reach memory by `array_at`. What
device code cannot say is in `PRELUDE`: these few functions are inlined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from numpy import int32, int64, uint32

from cuda_device import lower
from cuda_device.codegen.cpu.cpu_dialect import Cpu
from cuda_device.codegen.emit import to_llvm
from cuda_device.device.extern import extern
from cuda_device.errors import DeviceOnlyError
from cuda_device.infer import engine
from cuda_device.ir import ops
from cuda_device.ir.dominance import back_edges, drop_unused
from cuda_device.ir.nodes import Function, Module
from cuda_device.ir.ops import Effect
from cuda_device.types.known import of_type
from cuda_device.types.model import Type

PRELUDE = """\
define internal ptr @host_at(i64 %address) alwaysinline nounwind {
  %pointer = inttoptr i64 %address to ptr
  ret ptr %pointer
}

define internal void @host_resume(i64 %handle) alwaysinline nounwind {
  %pointer = inttoptr i64 %handle to ptr
  call void @llvm.coro.resume(ptr %pointer)
  ret void
}

define internal void @host_call(i64 %function, i64 %argument) alwaysinline nounwind {
  %pointer = inttoptr i64 %function to ptr
  call void %pointer(i64 %argument)
  ret void
}

define internal i32 @host_lanes(i64 %address, i32 %low, i32 %high) alwaysinline nounwind {
  %pointer = inttoptr i64 %address to ptr
  %words = load <32 x i32>, ptr %pointer, align 4
  %low.one = insertelement <32 x i32> poison, i32 %low, i32 0
  %lows = shufflevector <32 x i32> %low.one, <32 x i32> poison, <32 x i32> zeroinitializer
  %high.one = insertelement <32 x i32> poison, i32 %high, i32 0
  %highs = shufflevector <32 x i32> %high.one, <32 x i32> poison, <32 x i32> zeroinitializer
  %from = icmp uge <32 x i32> %words, %lows
  %to = icmp ule <32 x i32> %words, %highs
  %each = and <32 x i1> %from, %to
  %lanes = bitcast <32 x i1> %each to i32
  ret i32 %lanes
}

define internal i64 @host_frame() alwaysinline nounwind {
  %pointer = call ptr @llvm.frameaddress.p0(i32 0)
  %address = ptrtoint ptr %pointer to i64
  ret i64 %address
}
"""
_DECLARED = re.compile(r"^declare .*(@host_\w+\().*\n", re.M)


@extern(symbol="host_resume")
def resume(handle: int64) -> None:
    """Lets a coroutine go on until it waits again."""
    raise DeviceOnlyError.of("resume")


@extern(symbol="host_call")
def call(function: int64, argument: int64) -> None:
    """Calls the function at an address."""
    raise DeviceOnlyError.of("call")


@extern(symbol="host_lanes")
def lanes_between(row: int64, low: uint32, high: uint32) -> uint32:
    """Which of the 32 words at an address are in a range, a bit for each."""
    raise DeviceOnlyError.of("lanes_between")


@extern(symbol="host_frame")
def frame_address() -> int64:
    """Where the frame of the caller is on the stack."""
    raise DeviceOnlyError.of("frame_address")


@extern
def aligned_alloc(alignment: int64, size: int64) -> int64:
    """Memory, or 0; the size is a multiple of the alignment."""
    raise DeviceOnlyError.of("aligned_alloc")


@extern
def free(memory: int64) -> None:
    """Gives memory back."""
    raise DeviceOnlyError.of("free")


@extern
def sched_yield() -> int32:
    """Lets other threads of the host run."""
    raise DeviceOnlyError.of("sched_yield")


class _Host(Cpu):
    """As kernels are spelled, but no function has a thread, and the main one is there for others."""

    def __init__(self, module: Module, name: str) -> None:
        super().__init__(module)
        self.name = name

    def preamble(self, text: str) -> str:
        """Nothing: what device code cannot say is written where it is known what is called."""
        return ""

    def symbol(self, function: Function) -> str:
        """The main function's own name."""
        return self.name if function is self.module.main else super().symbol(function)

    def open(self, function: Function, result: str, parameters: Sequence[str], allocas: str) -> tuple[str, str]:
        """A plain function. Those with loops are compiled once, and not where they are called: LLVM unrolls loops over lanes."""
        linkage = "" if function is self.module.main else "internal "
        where = " noinline" if back_edges(function.blocks) else ""
        head = f"define {linkage}{result} @{self.symbol(function)}({', '.join(parameters)}) nounwind{where}"
        return f"{head} {{\nb0:\n{allocas}", "b0"

    def arguments(self) -> tuple[str, ...]:
        """Nothing is hidden."""
        return ()

    def runner(self, parameters: Sequence[str]) -> str:
        """None."""
        return ""


def text(function: Any, parameters: Sequence[Type], name: str) -> str:
    """LLVM IR of a function under a name, with all that it calls."""
    module, _ = engine.run(function, [of_type(type) for type in parameters], kernel=False)
    device = lower.run(module)
    for each in device.functions:
        _drop_dead(each)
    written = to_llvm.run(device, _Host(device, name)).text
    called = {match[1] for match in _DECLARED.finditer(written)}
    helpers = [each for each in PRELUDE.split("\n\n") if any(name in each for name in called)]
    return "\n".join((*helpers, _DECLARED.sub("", written)))


def _drop_dead(function: Function) -> None:
    """Drops what nothing uses: a field of a record is read with all the others."""
    size = -1
    while size != (size := sum(len(block.ops) for block in function.blocks)):
        removable = (op for op in function.ops() if op.code is not ops.CALL and not op.code.effects & ~Effect.READS)
        drop_unused(function, {result for op in removable for result in op.results})
