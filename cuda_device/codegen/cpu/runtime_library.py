"""Functions that LLVM calls where a processor has no instruction, and that a Python process lacks. Most kernels need none.

    __truncdfhf2   double -> half      __truncdfbf2   double -> bfloat      __extendhfsf2   half -> float
    __truncsfhf2   float  -> half      __truncsfbf2   float  -> bfloat
    __atomic_load_16    __atomic_store_16
    cuda_device.nanoseconds        what a clock of the C library says

Conversions round to nearest even, once. A double is first rounded to an odd float: cut off, with the last bit set if anything
was lost. The float then has enough bits for the second rounding to come out as if it were the only one. They are written in
Python, and compiled as `scheduler` is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ml_dtypes import bfloat16
from numpy import float16, float32, float64, uint16, uint32

from cuda_device.codegen.cpu import host_code
from cuda_device.codegen.cpu.runner import NANOSECONDS
from cuda_device.device.packing import reinterpret
from cuda_device.types.model import FLOAT16, FLOAT32, FLOAT64, Type

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

    A small result is rounded by the adder: 0.5 has its last bit where a subnormal half has its own (2^-24). Others are rounded in
    place, with the exponent moved from 127 to 15.
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

# One lock guards all accesses to 16 bytes: it is as strong as the last parameter, the memory order, can be. Whoever holds it is
# done in a few instructions.
_TAKE = """\
  br label %try
try:
  %taken = atomicrmw xchg ptr @lock, i32 1 acquire
  %free = icmp eq i32 %taken, 0
  br i1 %free, label %mine, label %try
mine:
"""
_GIVE = "  store atomic i32 0, ptr @lock release, align 4\n  fence seq_cst\n"
_WIDE_ATOMICS = f"""\
@lock = internal global i32 0
define i128 @__atomic_load_16(ptr %at, i32 %order) {{
{_TAKE}  %value = load i128, ptr %at, align 1
{_GIVE}  ret i128 %value
}}
define void @__atomic_store_16(ptr %at, i128 %value, i32 %order) {{
{_TAKE}  store i128 %value, ptr %at, align 1
{_GIVE}  ret void
}}
"""


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


def text(symbol: str) -> str:
    """LLVM IR of one of the functions, or of both that guard 16 bytes."""
    if symbol == NANOSECONDS:
        return _NANOSECONDS
    if symbol not in _CONVERSIONS:
        return _WIDE_ATOMICS
    function, type = _CONVERSIONS[symbol]
    return host_code.text(function, (type,), symbol)
