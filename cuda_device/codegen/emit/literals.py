"""Constants and the names of floats as LLVM writes them.

literal(FLOAT32, 0.1)  ==  "0x3FB99999A0000000"      the float32 nearest to it, in the bits of a double
literal(INT64, -1)     ==  "-1"
literal(FLOAT8E4M3, 1) ==  "56"                      its bits, an i8
"""

from __future__ import annotations

import math
import struct

from cuda_device.types.layout import float_bits
from cuda_device.types.model import Format, Kind, Number, Ref, Type


def literal(type: Type, value: object) -> str:
    """The text of `value` as an operand of `type`."""
    if isinstance(type, Ref):
        return "null"
    assert isinstance(type, Number) and isinstance(value, (bool, int, float)), (type, value)
    if type.is_float:
        match type.format:
            case Format.IEEE:
                return _float(type.bits, float(value))
            case Format.BFLOAT:
                return f"0xR{float_bits(type, float(value)):04X}"
            case _:
                return str(float_bits(type, float(value)))
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


def float_name(number: Number) -> str:
    """A float as LLVM calls it."""
    return "bfloat" if number.bfloat else {16: "half", 32: "float", 64: "double"}[number.bits]


def float_suffix(number: Number) -> str:
    """A float in the name of an intrinsic."""
    return f"{'b' if number.bfloat else ''}f{number.bits}"
