"""`cvt`: numbers of one type as another, by PTX's rules for rounding, saturation and NaN."""

from __future__ import annotations

import numpy as np

from ptx_machine.arithmetic import Rule
from ptx_machine.operands import TYPES, pairs
from ptx_machine.reader import Unsupported
from ptx_machine.rounding import flushed, narrowed, saturated, to_odd

Values = np.ndarray
_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_MODIFIERS = {"rn", "rz", "rm", "rp", "rna", *_TO_INTEGER, "ftz", "sat", "satfinite", "relu"}


def conversion(opcode: tuple[str, ...]) -> Rule:
    """The rule of a `cvt`. A packed result of two operands has the first in its upper half."""
    *modifiers, target, source = opcode[1:]
    if unknown := set(modifiers) - _MODIFIERS:
        raise Unsupported(f"cvt with {sorted(unknown)}")
    flush = "ftz" in modifiers

    def compute(*values: Values) -> Values:
        if len(values) == 2:
            lower, upper = values[1], values[0]
            values = (np.stack(np.broadcast_arrays(np.atleast_1d(lower), upper), axis=-1),)
        (value,) = values
        if flush and source == "f32":
            value = flushed(value)
        result = _convert(np.asarray(value), source, target, modifiers)
        return flushed(result) if flush and target == "f32" else result

    count = 2 if pairs(target) and not pairs(source) else 1
    return Rule((source,) * count, target, compute)


def _convert(value: Values, source: str, target: str, modifiers: list[str]) -> Values:
    to = TYPES[target]
    from_float, to_float = _is_float(source), _is_float(target)
    if from_float and to_float:
        return _float_to_float(value, source, target, modifiers)
    if from_float:
        return _float_to_integer(value, source, target, modifiers)
    if to_float:
        return _integer_to_float(value, to, modifiers)
    if "sat" in modifiers:
        limits = np.iinfo(to)
        value = np.clip(value.astype(object), limits.min, limits.max)
    return value.astype(to)


def _is_float(kind: str) -> bool:
    return kind[0] == "f" or kind.startswith(("bf", "e4", "e5"))


def _mode(modifiers: list[str]) -> str:
    return next((part for part in modifiers if part in ("rn", "rz", "rm", "rp", "rna")), "rn")


def _float_to_float(value: Values, source: str, target: str, modifiers: list[str]) -> Values:
    to, whole = TYPES[target], next((part for part in modifiers if part in _TO_INTEGER), None)
    wide = value.astype(np.float64)
    if whole:
        wide = _TO_INTEGER[whole](wide)
    result = narrowed(wide, to, _mode(modifiers)) if to.itemsize < 8 else wide
    if "satfinite" in modifiers:
        most = 448.0 if target.startswith("e4m3") else 57344.0
        result = narrowed(np.where(np.isnan(wide), wide, np.clip(wide, -most, most)), to)
        # A NaN has no sign and no payload here.
        result = np.where(np.isnan(wide), np.array(0x7F, np.uint8), result.view(np.uint8)).astype(np.uint8).view(to)
    if "relu" in modifiers:
        result = np.where(wide < 0, to.type(0), result)
    return saturated(result) if "sat" in modifiers else result


def _float_to_integer(value: Values, source: str, target: str, modifiers: list[str]) -> Values:
    """Out of range gives the nearest end; NaN gives zero, or the top bit where 64 bits are involved."""
    to = TYPES[target]
    whole = next((part for part in modifiers if part in _TO_INTEGER), None)
    if whole is None:
        raise Unsupported(f"cvt.{target}.{source} without a rounding")
    rounded = _TO_INTEGER[whole](value.astype(np.float64))
    limits = np.iinfo(to)
    nan = np.isnan(rounded)
    low, high = rounded <= float(limits.min), rounded >= float(limits.max)
    inside = np.where(nan | low | high, 0.0, rounded).astype(to)
    of_nan = (
        np.array(1 << 8 * to.itemsize - 1, f"u{to.itemsize}").view(to) if 64 in (_bits(source), _bits(target)) else 0
    )
    result = np.select([nan, low, high], [of_nan, limits.min, limits.max], inside.astype(object))
    return np.asarray(result).astype(object).astype(to)


def _bits(kind: str) -> int:
    return 8 * TYPES[kind].itemsize


def _integer_to_float(value: Values, to: np.dtype, modifiers: list[str]) -> Values:
    mode = _mode(modifiers)
    if value.dtype.itemsize < 8 or to == np.float64:
        if mode != "rn":
            return narrowed(value.astype(np.float64), to, mode)
        return narrowed(value.astype(np.float64), to)
    # 64 bits do not fit a float64: what it loses, its last bit tells.
    near = value.astype(np.float64)
    error = np.frompyfunc(lambda x, y: (int(x) > int(y)) - (int(x) < int(y)), 2, 1)(value, near).astype(np.float64)
    return narrowed(to_odd(near, error), to, mode)
