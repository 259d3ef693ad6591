"""Arithmetic that NumPy has not: fused, in other directions than to nearest, flushing what is subnormal.

Exact results of float32 operations fit a float64 that is rounded to odd: where they do not fit, the last bit is set, so that a
second rounding, in any direction and to 16 or 32 bits, comes out as if it were the only one.
"""

from __future__ import annotations

import ctypes

import numpy as np

Values = np.ndarray


_fma = ctypes.CDLL(None).fma
_fma.argtypes, _fma.restype = [ctypes.c_double] * 3, ctypes.c_double
_each_fused = np.frompyfunc(_fma, 3, 1)


def fused(a: Values, b: Values, c: Values) -> Values:
    """a * b + c of float64, rounded once, by C's library."""
    return np.asarray(_each_fused(a, b, c), np.float64)


def odd_sum(a: Values, b: Values) -> Values:
    """a + b of float64, rounded to odd."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    return to_odd(total, error)


def odd_fused(a: Values, b: Values, c: Values) -> Values:
    """a * b + c of float64s whose product is exact, rounded to odd."""
    return odd_sum(a * b, c)


def odd_quotient(a: Values, b: Values) -> Values:
    """a / b of float64, rounded to odd."""
    quotient = a / b
    error = fused(-quotient, b, a) * np.sign(b)
    return to_odd(quotient, error)


def odd_root(a: Values) -> Values:
    """The square root of a float64, rounded to odd."""
    root = np.sqrt(a)
    return to_odd(root, fused(-root, root, a))


def to_odd(rounded: Values, error: Values) -> Values:
    """Of the two float64 between which `rounded` + `error` lies, the odd one."""
    rounded = np.asarray(rounded, np.float64)
    even = (rounded.view(np.uint64) & np.uint64(1)) == 0
    inexact = np.isfinite(rounded) & np.isfinite(error) & (error != 0)
    return np.where(even & inexact, np.nextafter(rounded, np.where(error > 0, np.inf, -np.inf)), rounded)


def narrowed(values: Values, dtype: np.dtype, mode: str = "rn") -> Values:
    """float64, exact or rounded to odd, as floats of fewer bits, in the direction that PTX calls `mode`."""
    if dtype == np.float64:
        return values
    if dtype.itemsize < 4 and dtype != np.float16:  # ml_dtypes goes by way of float32
        values = _odd_narrow(values)
    result = values.astype(dtype)
    if mode in ("rn", "rna"):
        return result
    exact, back = np.asarray(values, np.float64), result.astype(np.float64)
    lower = {"rz": back > np.maximum(exact, 0), "rm": back > exact, "rp": np.zeros(np.shape(back), bool)}[mode]
    higher = {"rz": back < np.minimum(exact, 0), "rm": np.zeros(np.shape(back), bool), "rp": back < exact}[mode]
    down = np.nextafter(result, np.array(-np.inf, dtype))
    up = np.nextafter(result, np.array(np.inf, dtype))
    return np.where(lower, down, np.where(higher, up, result)).astype(dtype)


def _odd_narrow(values: Values) -> Values:
    """float64 as float32, rounded to odd."""
    values = np.asarray(values, np.float64)
    near = values.astype(np.float32)
    error = values - near.astype(np.float64)
    even = (near.view(np.uint32) & np.uint32(1)) == 0
    inexact = np.isfinite(near) & (error != 0)
    return np.where(even & inexact, np.nextafter(near, np.where(error > 0, np.inf, -np.inf).astype(np.float32)), near)


def flushed(values: Values) -> Values:
    """Subnormal numbers of float32 as zeros with their sign."""
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), values), values)


def saturated(values: Values) -> Values:
    """Numbers clipped to 0 and 1; NaN is 0."""
    clipped = np.clip(np.nan_to_num(values, nan=0), 0, 1)
    return clipped.astype(values.dtype) + values.dtype.type(0)  # no negative zero
