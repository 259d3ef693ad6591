"""The floats that processors do not all compute with: how bfloat16 and the floats of 8 bits divide their bits; rounding.

    float8e4m3    s eeee mmm     the largest number is 448; no infinity: what is too large is NaN (0x7F)
    float8e5m2    s eeeee mm     as IEEE 754 would have it: the largest number is 57344, then comes infinity (0x7C)

`float_bits(FLOAT8E4M3, 1.0) == 0x38`: rounded once, to nearest, ties to the even one, as ml_dtypes rounds on the host.
"""

from __future__ import annotations

import math

from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.model import Format, Number


@dataclass(frozen=True, slots=True)
class Division:
    """How a format divides its bits: those of the mantissa, and the exponent's bias.

    `overflow` are the bits of what is too large, `nan` those of NaN, both without the sign. `limit` is the largest finite number,
    and `last` the largest that rounds to it.
    """

    mantissa: int
    bias: int
    overflow: int
    nan: int
    limit: float
    last: float


DIVISIONS = {
    # 464 lies in the middle between 448 and what would be 480: ties go to the even mantissa, which is that of 448.
    Format.E4M3: Division(3, 7, 0x7F, 0x7F, 448.0, 464.0),
    # Here the even one is infinity.
    Format.E5M2: Division(2, 15, 0x7C, 0x7E, 57344.0, math.nextafter(61440.0, 0)),
    Format.BFLOAT: Division(7, 127, 0x7F80, 0x7FC0, 2.0**128 - 2.0**120, math.nextafter(2.0**128 - 2.0**119, 0)),
}


def float_bits(number: Number, value: float) -> int:
    """The bits of the `number` nearest to a value, rounded once; ties go to the even one."""
    form = DIVISIONS[number.format]
    sign = 1 << (number.bits - 1) if math.copysign(1, value) < 0 else 0
    magnitude = abs(value)
    if math.isnan(value):
        return sign | form.nan
    if magnitude == 0 or magnitude > form.last:
        return sign | (form.overflow if magnitude else 0)
    # In units of the last place of a number of this size; the least exponent is that of the subnormal ones.
    exponent = max(math.frexp(magnitude)[1] - 1 - form.mantissa, 1 - form.bias - form.mantissa)
    units = round(math.ldexp(magnitude, -exponent))
    return sign | (units + ((exponent - (1 - form.bias - form.mantissa)) << form.mantissa))
