"""Constants as LLVM writes them.

literal(FLOAT32, 0.1)  ==  "0x3FB99999A0000000"      the float32 nearest to it, in the bits of a double
literal(INT64, -1)     ==  "-1"
"""

from __future__ import annotations

import math
import struct

from cuda_device.types.model import Kind, Number, Ref, Type


def literal(type: Type, value: object) -> str:
    """The text of `value` as an operand of `type`."""
    if isinstance(type, Ref):
        return "null"
    assert isinstance(type, Number) and isinstance(value, (bool, int, float)), (type, value)
    if type.is_float:
        return f"0xR{bfloat_bits(float(value)):04X}" if type.bfloat else _float(type.bits, float(value))
    if type.kind is Kind.BOOL:
        return "true" if value else "false"
    return str(int(value))


def _float(bits: int, value: float) -> str:
    code = {16: "<e", 32: "<f", 64: "<d"}[bits]
    try:
        packed = struct.pack(code, value)
    except OverflowError:
        packed = struct.pack(code, math.copysign(math.inf, value))
    if bits == 16:
        return f"0xH{struct.unpack('<H', packed)[0]:04X}"
    (rounded,) = struct.unpack(code, packed)
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


def bfloat_bits(value: float) -> int:
    """The bits of the bfloat16 nearest to a number, rounded once; ties go to the even one."""
    sign = 0x8000 if math.copysign(1, value) < 0 else 0
    magnitude = abs(value)
    if math.isnan(value):
        return 0x7FC0
    if math.isinf(value) or magnitude == 0:
        return sign | (0x7F80 if magnitude else 0)
    # In units of the last place of a bfloat16 of this size: 8 bits of significand, exponents from -126.
    exponent = max(math.frexp(magnitude)[1] - 8, -133)
    units = round(math.ldexp(magnitude, -exponent))
    bits = units + ((exponent + 133) << 7)
    return sign | min(bits, 0x7F80)
