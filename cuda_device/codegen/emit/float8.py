"""Conversions between 8-bit floats and float32, as functions in LLVM IR that LLVM inlines.

    call float @float8_widen_e4m3(i8 %x)          call i8 @float8_round_e4m3(float %x)

GPUs have instructions for these conversions from compute capability 8.9 on. The instructions saturate and drop the sign of NaN,
so numbers that are too large, and NaN, are handled separately. On other targets, integer operations do the conversion: they
change the bias of the exponent, and round to even by adding slightly less than half of the part that is cut off. Subnormal
numbers are rounded by adding a float whose last bit has the same weight as theirs.
"""

from __future__ import annotations

import struct

from cuda_device.types.layout import DIVISIONS
from cuda_device.types.model import Number

_MANTISSA, _BIAS, _INFINITY = 23, 127, 0x7F800000  # of a float32


Conversion = tuple[str, bool]
"""The format of 8 bits, and whether it is widened."""


def conversion_function(used: set[Conversion], source: Number, target: Number) -> str:
    """The result type and the name of the function that converts `source` to `target`; adds it to `used`."""
    widens = source.is_float8
    used.add((source.format if widens else target.format, widens))
    return f"float @float8_widen_{source.format}" if widens else f"i8 @float8_round_{target.format}"


def definition(form: str, widens: bool, has_instructions: bool) -> str:
    """The function for a machine with or without instructions for the conversion."""
    head = f"float @float8_widen_{form}(i8 %x)" if widens else f"i8 @float8_round_{form}(float %x)"
    if widens:
        body = (_widen_at_once if has_instructions else _widen)(form)
    else:
        finite = (_round_at_once if has_instructions else _round)(form)
        body = f"{_SIZE_AND_SIGN}{finite}{_special_cases(form)}"
    return f"define internal {head} alwaysinline nounwind {{\n{body}}}\n"


def _bits(value: float) -> int:
    """The bits of a float32."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _literal(value: float) -> str:
    """A float32 that represents the value exactly, in LLVM's hexadecimal form."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _widen(form: str) -> str:
    division = DIVISIONS[form]
    least = 2.0 ** (1 - division.bias - division.mantissa)
    special = division.overflow  # infinity if there is one, and NaN
    return f"""\
  %wide = zext i8 %x to i32
  %size = and i32 %wide, 127
  %moved = shl i32 %size, {_MANTISSA - division.mantissa}
  %normal = add i32 %moved, {(_BIAS - division.bias) << _MANTISSA}
  %count = uitofp i32 %size to float
  %small = fmul float %count, {_literal(least)}
  %small.bits = bitcast float %small to i32
  %tiny = icmp ult i32 %size, {1 << division.mantissa}
  %finite = select i1 %tiny, i32 %small.bits, i32 %normal
  %special = icmp uge i32 %size, {special}
  %beyond = or i32 %moved, {_INFINITY}
  %magnitude = select i1 %special, i32 %beyond, i32 %finite
  %sign = and i32 %wide, 128
  %sign.bit = shl i32 %sign, 24
  %signed = or i32 %magnitude, %sign.bit
  %result = bitcast i32 %signed to float
  ret float %result
"""


def _round(form: str) -> str:
    division = DIVISIONS[form]
    cut = _MANTISSA - division.mantissa
    beside = 2.0 ** (1 - division.bias - division.mantissa + _MANTISSA)
    return f"""\
  %magnitude = bitcast i32 %size to float
  %sum = fadd float %magnitude, {_literal(beside)}
  %sum.bits = bitcast float %sum to i32
  %small = sub i32 %sum.bits, {_bits(beside)}
  %last = lshr i32 %size, {cut}
  %even = and i32 %last, 1
  %half = add i32 %even, {(1 << (cut - 1)) - 1}
  %moved = sub i32 %size, {(_BIAS - division.bias) << _MANTISSA}
  %up = add i32 %moved, %half
  %normal = lshr i32 %up, {cut}
  %tiny = icmp ult i32 %size, {(_BIAS + 1 - division.bias) << _MANTISSA}
  %finite = select i1 %tiny, i32 %small, i32 %normal
"""


_SIZE_AND_SIGN = """\
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %high = lshr i32 %bits, 24
  %sign = and i32 %high, 128
"""


def _special_cases(form: str) -> str:
    """The result: `%finite`, or the code of numbers that are too large, or of NaN."""
    division = DIVISIONS[form]
    return f"""\
  %huge = icmp uge i32 %size, {_first_too_large(division.last)}
  %limited = select i1 %huge, i32 {division.overflow}, i32 %finite
  %nan = icmp ugt i32 %size, {_INFINITY}
  %chosen = select i1 %nan, i32 {division.nan}, i32 %limited
  %signed = or i32 %chosen, %sign
  %result = trunc i32 %signed to i8
  ret i8 %result
"""


def _first_too_large(last: float) -> int:
    """The bits of the least float32 that is larger than `last`."""
    bits = _bits(last)
    (nearest,) = struct.unpack("<f", struct.pack("<I", bits))
    return bits if nearest > last else bits + 1


def _widen_at_once(form: str) -> str:
    """By an instruction for two numbers, of which the second is zero."""
    return f"""\
  %pair = zext i8 %x to i16
  %halves = call <2 x half> @llvm.nvvm.{form}x2.to.f16x2.rn(i16 %pair)
  %half = extractelement <2 x half> %halves, i32 0
  %result = fpext half %half to float
  ret float %result
"""


def _round_at_once(form: str) -> str:
    """By an instruction, whose result is right except for NaN and numbers that are too large."""
    return f"""\
  %magnitude = bitcast i32 %size to float
  %pair = call i16 @llvm.nvvm.ff.to.{form}x2.rn(float 0.0, float %magnitude)
  %finite = zext i16 %pair to i32
"""
