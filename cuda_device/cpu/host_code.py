"""Compiles the CPU run-time system, which is written in Python, to LLVM IR.

    text(scheduler.frame, (INT64, INT64), "cuda_device.frame")        define i64 @cuda_device.frame(i64 %v1, i64 %v2) …
    support_text("__truncdfhf2")                                      double -> half, where a processor cannot

The functions are compiled like device functions, but do not belong to a thread: they take addresses as int64 and access memory
with `array_at`. `PRELUDE` has the few functions that device code cannot express, in LLVM IR; they are inlined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ml_dtypes import bfloat16
from numpy import float16, float32, float64, int32, int64, uint16, uint32

from cuda_device import DeviceOnlyError, extern, lower
from cuda_device.cpu.cpu_dialect import Cpu
from cuda_device.cpu.records import NANOSECONDS
from cuda_device.device.packing import reinterpret
from cuda_device.extend import to_llvm
from cuda_device.infer import engine
from cuda_device.ir.dominance import back_edges, drop_dead
from cuda_device.ir.nodes import Function, Module
from cuda_device.types.known import of_type
from cuda_device.types.model import FLOAT16, FLOAT32, FLOAT64, Space, Type

PRELUDE = """\
define internal ptr @host_at(i64 %address) alwaysinline nounwind {
  %pointer = inttoptr i64 %address to ptr
  ret ptr %pointer
}

define internal void @host_resume(i64 %function, i64 %block, i64 %warp, i32 %lanes) alwaysinline nounwind {
  %pointer = inttoptr i64 %function to ptr
  call void %pointer(i64 %block, i64 %warp, i32 %lanes)
  ret void
}

define internal void @host_call(i64 %function, i64 %argument) alwaysinline nounwind {
  %pointer = inttoptr i64 %function to ptr
  call void %pointer(i64 %argument)
  ret void
}

define internal i64 @host_ask(i64 %function, i64 %argument) alwaysinline nounwind {
  %pointer = inttoptr i64 %function to ptr
  %answer = call i64 %pointer(i64 %argument)
  ret i64 %answer
}

define internal void @host_row(i64 %function, i64 %block, i64 %count) alwaysinline nounwind {
  %pointer = inttoptr i64 %function to ptr
  call void %pointer(i64 %block, i64 %count)
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

declare i32 @clock_gettime(i32, ptr)
define internal i64 @host_nanoseconds() nounwind {
  %time = alloca { i64, i64 }
  %got = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %at = getelementptr { i64, i64 }, ptr %time, i32 0, i32 1
  %rest = load i64, ptr %at
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}

define internal i64 @host_frame() alwaysinline nounwind {
  %pointer = call ptr @llvm.frameaddress.p0(i32 0)
  %address = ptrtoint ptr %pointer to i64
  ret i64 %address
}
"""
_DECLARED = re.compile(r"^declare .*(@host_\w+\().*\n", re.M)


@extern(symbol="host_resume")
def resume(function: int64, block: int64, warp: int64, lanes: uint32) -> None:
    """Resumes some lanes of a warp until they wait again, by the kernel's function at an address."""
    raise DeviceOnlyError.of("resume")


@extern(symbol="host_call")
def call(function: int64, argument: int64) -> None:
    """Calls the function at an address."""
    raise DeviceOnlyError.of("call")


@extern(symbol="host_ask")
def ask(function: int64, argument: int64) -> int64:
    """Calls the function at an address, and returns its result."""
    raise DeviceOnlyError.of("ask")


@extern(symbol="host_nanoseconds")
def nanoseconds() -> int64:
    """The time of the C library's monotonic clock."""
    raise DeviceOnlyError.of("nanoseconds")


@extern(symbol="host_row")
def call_row(function: int64, block: int64, count: int64) -> None:
    """Runs `count` blocks of a row, the first of which is given, by the kernel's function at an address."""
    raise DeviceOnlyError.of("call_row")


@extern(symbol="host_lanes")
def lanes_between(row: int64, low: uint32, high: uint32) -> uint32:
    """A bit for each of the 32 words at an address: whether it is in a range."""
    raise DeviceOnlyError.of("lanes_between")


@extern(symbol="host_frame")
def frame_address() -> int64:
    """The address of the caller's stack frame."""
    raise DeviceOnlyError.of("frame_address")


@extern
def aligned_alloc(alignment: int64, size: int64) -> int64:
    """Allocates memory; 0 if there is none. The size must be a multiple of the alignment."""
    raise DeviceOnlyError.of("aligned_alloc")


ALIGNMENT = 128
SHARED_ALIGNMENT = 1024


def allocate(size: Any, alignment: Any = ALIGNMENT) -> Any:
    """Allocates at least `size` bytes: for `aligned_alloc` a positive multiple of the alignment."""
    return aligned_alloc(alignment, int64(size) + (2 * alignment - 1) & -alignment)


@extern
def free(memory: int64) -> None:
    """Frees memory."""
    raise DeviceOnlyError.of("free")


@extern
def sched_yield() -> int32:
    """Lets other threads of the host run."""
    raise DeviceOnlyError.of("sched_yield")


class _Host(Cpu):
    """The dialect for functions without a thread, the first of which is exported."""

    def __init__(self, module: Module, name: str) -> None:
        super().__init__(module)
        self.name = name

    def preamble(self) -> str:
        """Nothing: `text` adds the helpers that are called."""
        return ""

    def access(self, space: Space) -> str:
        """Nothing, because there are no threads."""
        return ""

    def symbol(self, function: Function) -> str:
        """The given name for the main function."""
        return self.name if function is self.module.main else super().symbol(function)

    def begin_function(
        self, function: Function, result: str, parameters: Sequence[str], allocas: str
    ) -> tuple[str, str]:
        """A plain function. Functions with loops are not inlined, because LLVM unrolls loops over lanes."""
        linkage = "" if function is self.module.main else "internal "
        where = " noinline" if back_edges(function.blocks) else ""
        head = f"define {linkage}{result} @{self.symbol(function)}({', '.join(parameters)}) nounwind{where}"
        return f"{head} {{\nb0:\n{allocas}", "b0"

    def hidden_arguments(self) -> tuple[str, ...]:
        """No hidden arguments."""
        return ()

    def runner(self, parameters: Sequence[str]) -> str:
        """Nothing, because there is no kernel."""
        return ""


def function_text(function: Any, parameters: Sequence[Type], name: str) -> str:
    """LLVM IR of a function and all functions that it calls."""
    module, _ = engine.infer_module(function, [of_type(type) for type in parameters], kernel=False)
    device = lower.lower_module(module)
    for callee in device.functions:
        drop_dead(callee)  # reading a field of a record loads all of its fields
    written = to_llvm.run(device, _Host(device, name)).text
    called = {match[1] for match in _DECLARED.finditer(written)}
    helpers = [helper for helper in PRELUDE.split("\n\n") if any(name in helper for name in called)]
    return "\n".join((*helpers, _DECLARED.sub("", written)))


# Functions that LLVM calls if the processor has no such instruction, and that a Python process does not have.
#
#     __truncdfhf2   double -> half      __truncdfbf2   double -> bfloat      __extendhfsf2   half -> float
#     __truncsfhf2   float  -> half      __truncsfbf2   float  -> bfloat
#     cuda_device.nanoseconds        the time of a clock of the C library
#
# Conversions round to nearest even. To avoid double rounding, a double is first rounded to odd: truncated to a float, with the
# last bit set if the result is inexact.


_INFINITY = 0x7F800000


def to_odd(x: Any) -> Any:
    """A double as a float, rounded to odd."""
    near = float32(x)
    bits = reinterpret(near, uint32)
    if abs(float64(near)) > abs(x):
        bits -= 1
    return reinterpret(bits | uint32(float64(near) != x), float32)


def to_half(x: Any) -> Any:
    """A float as a half.

    A subnormal result is rounded by adding 0.5, whose last bit has the value of that of a subnormal half (2^-24). Other results
    are rounded as integers after the bias of the exponent was changed from 127 to 15.
    """
    bits = reinterpret(x, uint32)
    size = bits & 0x7FFFFFFF
    if size > _INFINITY:
        half = size >> 13 & 0x7FFF | 0x7E00
    elif size >= 0x47800000:
        half = uint32(0x7C00)
    elif size < 0x38800000:
        half = reinterpret(reinterpret(size, float32) + 0.5, uint32) - 0x3F000000
    else:
        half = size - 0x38000000 + 0xFFF + (size >> 13 & 1) >> 13
    return reinterpret(uint16(half | bits >> 16 & 0x8000), float16)


def to_bfloat(x: Any) -> Any:
    """A float as a bfloat."""
    bits = reinterpret(x, uint32)
    rounded = bits + 0x7FFF + (bits >> 16 & 1) >> 16
    return reinterpret(uint16(bits >> 16 | 0x40 if bits & 0x7FFFFFFF > _INFINITY else rounded), bfloat16)


def double_to_half(x: Any) -> Any:
    """A double as a half."""
    return to_half(to_odd(x))


def double_to_bfloat(x: Any) -> Any:
    """A double as a bfloat."""
    return to_bfloat(to_odd(x))


def from_half(x: Any) -> Any:
    """A half as a float."""
    bits = uint32(reinterpret(x, uint16))
    size = bits & 0x7FFF
    value = reinterpret(reinterpret(size << 13, float32) * 2.0**112, uint32)
    if size >= 0x7C00:
        value |= _INFINITY
    return reinterpret(value | (bits & 0x8000) << 16, float32)


_CONVERSIONS: dict[str, tuple[Callable[..., Any], Type]] = {
    "__truncdfhf2": (double_to_half, FLOAT64),
    "__truncsfhf2": (to_half, FLOAT32),
    "__truncdfbf2": (double_to_bfloat, FLOAT64),
    "__truncsfbf2": (to_bfloat, FLOAT32),
    "__extendhfsf2": (from_half, FLOAT16),
}


_NANOSECONDS = f"""\
declare i32 @clock_gettime(i32, ptr)
define i64 @{NANOSECONDS}(i32 %clock) {{
  %time = alloca {{ i64, i64 }}
  %got = call i32 @clock_gettime(i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %at = getelementptr {{ i64, i64 }}, ptr %time, i32 0, i32 1
  %rest = load i64, ptr %at
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}}
"""


def support_text(symbol: str) -> str:
    """LLVM IR of one of these functions."""
    if symbol == NANOSECONDS:
        return _NANOSECONDS
    function, type = _CONVERSIONS[symbol]
    return function_text(function, (type,), symbol)
