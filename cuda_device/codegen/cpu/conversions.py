"""Conversions of 16-bit floats that not every processor has: LLVM then calls functions that a Python process lacks.

    __truncdfhf2   double -> half      __truncdfbf2   double -> bfloat      __extendhfsf2   half -> float
    __truncsfhf2   float  -> half      __truncsfbf2   float  -> bfloat

All round to nearest even, once. A double is first rounded to an odd float: cut off, with the last bit set if anything
was lost. The float then has enough bits for the second rounding to come out as if it were the only one.
"""

from __future__ import annotations

EXPORTS = ("__truncdfhf2", "__truncsfhf2", "__truncdfbf2", "__truncsfbf2", "__extendhfsf2")

_TO_ODD = """\
define internal float @to_odd(double %x) alwaysinline {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %lost = fcmp one double %back, %x
  %near.size = call double @llvm.fabs.f64(double %back)
  %size = call double @llvm.fabs.f64(double %x)
  %away = fcmp ogt double %near.size, %size
  %bits = bitcast float %near to i32
  %one = zext i1 %away to i32
  %cut = sub i32 %bits, %one
  %sticky = zext i1 %lost to i32
  %odd = or i32 %cut, %sticky
  %result = bitcast i32 %odd to float
  ret float %result
}
"""

_BFLOAT = """\
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %even = and i32 %high, 1
  %half = add i32 %even, 32767
  %up = add i32 %bits, %half
  %rounded = lshr i32 %up, 16
  %quiet = or i32 %high, 64
  %nan = fcmp uno float %x, 0.0
  %chosen = select i1 %nan, i32 %quiet, i32 %rounded
  %short = trunc i32 %chosen to i16
  %result = bitcast i16 %short to bfloat
  ret bfloat %result
}
define bfloat @__truncdfbf2(double %x) {
  %odd = call float @to_odd(double %x)
  %result = call bfloat @__truncsfbf2(float %odd)
  ret bfloat %result
}
"""

# A small result is rounded by the adder: 0.5 has its last bit where a subnormal half has its own (2^-24).
# Others are rounded in place, as for bfloat, with the exponent moved from 127 to 15.
_HALF = """\
define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %sign = lshr i32 %bits, 16
  %sign.bit = and i32 %sign, 32768
  %magnitude = bitcast i32 %size to float
  %sum = fadd float %magnitude, 0.5
  %sum.bits = bitcast float %sum to i32
  %small = sub i32 %sum.bits, 1056964608
  %last = lshr i32 %size, 13
  %even = and i32 %last, 1
  %half = add i32 %even, 4095
  %moved = sub i32 %size, 939524096
  %up = add i32 %moved, %half
  %normal = lshr i32 %up, 13
  %tiny = icmp ult i32 %size, 947912704
  %finite = select i1 %tiny, i32 %small, i32 %normal
  %huge = icmp uge i32 %size, 1199570944
  %limited = select i1 %huge, i32 31744, i32 %finite
  %payload = or i32 %last, 32256
  %payload.half = and i32 %payload, 32767
  %nan = icmp ugt i32 %size, 2139095040
  %chosen = select i1 %nan, i32 %payload.half, i32 %limited
  %signed = or i32 %chosen, %sign.bit
  %short = trunc i32 %signed to i16
  %result = bitcast i16 %short to half
  ret half %result
}
define half @__truncdfhf2(double %x) {
  %odd = call float @to_odd(double %x)
  %result = call half @__truncsfhf2(float %odd)
  ret half %result
}
define float @__extendhfsf2(half %x) {
  %short = bitcast half %x to i16
  %bits = zext i16 %short to i32
  %size = and i32 %bits, 32767
  %wide = shl i32 %size, 13
  %scaled = bitcast i32 %wide to float
  %value = fmul float %scaled, 0x46F0000000000000
  %value.bits = bitcast float %value to i32
  %special = icmp uge i32 %size, 31744
  %exponent = select i1 %special, i32 2139095040, i32 0
  %finished = or i32 %value.bits, %exponent
  %sign = and i32 %bits, 32768
  %sign.bit = shl i32 %sign, 16
  %signed = or i32 %finished, %sign.bit
  %result = bitcast i32 %signed to float
  ret float %result
}
"""


def text() -> str:
    """The module with the five functions."""
    return _TO_ODD + _BFLOAT + _HALF
