"""Conversions between 8-bit floats and float32, as device operations that the emitter writes in place of one `convert`.

    widened(build, value, has_instructions)             the float32 of an 8-bit float
    rounded(build, value, target, has_instructions)     the 8-bit float of a float32

GPUs have instructions for these conversions from compute capability 8.9 on. The instructions saturate and drop the sign of NaN,
so numbers that are too large, and NaN, are handled separately. On other targets, integer operations do the conversion: they
change the bias of the exponent, and round to even by adding slightly less than half of the part that is cut off. Subnormal
numbers are rounded by adding a float whose last bit has the same weight as theirs.
"""

from __future__ import annotations

import numpy as np

from cuda_device.device.lowering import Lowering, number_in
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.types.layout import DIVISIONS
from cuda_device.types.model import FLOAT16, FLOAT32, UINT8, UINT16, UINT32, Number, Vector

_MANTISSA, _BIAS, _INFINITY = 23, 127, 0x7F800000  # of a float32


def _bits(value: float) -> int:
    """The bits of a float32."""
    return int(np.float32(value).view(np.uint32))


def _first_beyond(value: float) -> int:
    """The bits of the least float32 that is larger than `value`, which may need a float64."""
    # The conversion back matters: NumPy compares a float32 with a float in float32.
    return _bits(value) + (float(np.float32(value)) <= value)


def _with(build: Lowering, code: ops.OpDef, value: Value, number: int) -> Value:
    """An operation on a uint32 and a constant."""
    return build.binary(code, value, build.number(UINT32, number))


def _at_least(build: Lowering, value: Value, number: int) -> Value:
    return build.compare(">=", value, build.number(UINT32, number))


def widened(build: Lowering, value: Value, has_instructions: bool) -> Value:
    """Converts an 8-bit float to float32."""
    form = number_in(value).format
    bits = build.op(ops.BITS, UINT8, value)
    if has_instructions:  # for two numbers, of which the second is zero
        pair, instruction = build.convert(bits, UINT16), f"llvm.nvvm.{form}x2.to.f16x2.rn"
        halves = build.op(ops.MACHINE, Vector(FLOAT16, 2), pair, instruction=instruction)
        return build.convert(build.op(ops.FIELD, FLOAT16, halves, index=0), FLOAT32)
    division = DIVISIONS[form]
    wide = build.convert(bits, UINT32)
    size = _with(build, ops.AND, wide, 127)
    moved = _with(build, ops.SHL, size, _MANTISSA - division.mantissa)
    least = build.number(FLOAT32, 2.0 ** (1 - division.bias - division.mantissa))
    small = build.op(ops.BITS, UINT32, build.op(ops.MUL, FLOAT32, build.convert(size, FLOAT32), least, exact=True))
    normal = _with(build, ops.ADD, moved, (_BIAS - division.bias) << _MANTISSA)
    finite = build.select(_at_least(build, size, 1 << division.mantissa), normal, small)
    special = _at_least(build, size, division.overflow)  # infinity if there is one, and NaN
    magnitude = build.select(special, _with(build, ops.OR, moved, _INFINITY), finite)
    sign = _with(build, ops.SHL, _with(build, ops.AND, wide, 128), 24)
    return build.op(ops.BITS, FLOAT32, build.binary(ops.OR, magnitude, sign))


def rounded(build: Lowering, value: Value, target: Number, has_instructions: bool) -> Value:
    """Converts a float32 to an 8-bit float."""
    division = DIVISIONS[target.format]
    bits = build.op(ops.BITS, UINT32, value)
    size = _with(build, ops.AND, bits, 0x7FFFFFFF)
    finite = (_rounded_at_once if has_instructions else _rounded)(build, size, target)
    too_large = _at_least(build, size, _first_beyond(division.last))
    limited = build.select(too_large, build.number(UINT32, division.overflow), finite)
    is_nan = _at_least(build, size, _INFINITY + 1)
    magnitude = build.select(is_nan, build.number(UINT32, division.nan), limited)
    sign = _with(build, ops.AND, _with(build, ops.SHR, bits, 24), 128)
    return build.op(ops.BITS, target, build.convert(build.binary(ops.OR, magnitude, sign), UINT8))


def _rounded(build: Lowering, size: Value, target: Number) -> Value:
    """The bits of the 8-bit float for those of a float32 that is neither negative nor too large."""
    division = DIVISIONS[target.format]
    cut = _MANTISSA - division.mantissa
    beside = 2.0 ** (1 - division.bias - division.mantissa + _MANTISSA)
    magnitude = build.op(ops.BITS, FLOAT32, size)
    sum = build.op(ops.ADD, FLOAT32, magnitude, build.number(FLOAT32, beside), exact=True)
    small = _with(build, ops.SUB, build.op(ops.BITS, UINT32, sum), _bits(beside))
    half = _with(build, ops.ADD, _with(build, ops.AND, _with(build, ops.SHR, size, cut), 1), (1 << (cut - 1)) - 1)
    moved = _with(build, ops.SUB, size, (_BIAS - division.bias) << _MANTISSA)
    normal = _with(build, ops.SHR, build.binary(ops.ADD, moved, half), cut)
    return build.select(_at_least(build, size, (_BIAS + 1 - division.bias) << _MANTISSA), normal, small)


def _rounded_at_once(build: Lowering, size: Value, target: Number) -> Value:
    """The same by an instruction."""
    operands = build.number(FLOAT32, 0.0), build.op(ops.BITS, FLOAT32, size)
    pair = build.op(ops.MACHINE, UINT16, *operands, instruction=f"llvm.nvvm.ff.to.{target.format}x2.rn")
    return build.convert(pair, UINT32)
