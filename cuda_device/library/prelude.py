"""Operators and index arithmetic, written in Python and compiled like users' functions."""

from __future__ import annotations

import math
from typing import Any

from cuda_device.device.entities import float_floor


def float_modulo(a: Any, b: Any) -> Any:
    """`a % b` of floats; the result has the sign of the divisor."""
    remainder = math.fmod(a, b)
    if remainder != 0:
        if (remainder < 0) != (b < 0):
            remainder += b
    else:
        remainder = math.copysign(remainder, b)
    return remainder


def float_floor_divide(a: Any, b: Any) -> Any:
    """`a // b` of floats: the floor of the exact quotient, rounded once."""
    if b == 0:
        return a / b
    remainder = math.fmod(a, b)
    quotient = (a - remainder) / b
    if remainder != 0 and (remainder < 0) != (b < 0):
        quotient -= 1
    if quotient == 0:
        return math.copysign(quotient, a / b)
    nearest = float_floor(quotient)
    if quotient - nearest > 0.5:
        nearest += 1
    return nearest


def position(index: Any, length: Any) -> Any:
    """Converts an index that may be negative, and then counts from the end, to one from 0."""
    return index + length if index < 0 else index


def slice_bounds(start: Any, stop: Any, step: Any, length: Any) -> Any:
    """Returns the first index of a slice of an axis of `length`, and the number of elements."""
    if step > 0:
        first = 0 if start is None else _clamp(start, 0, length, length)
        end = length if stop is None else _clamp(stop, 0, length, length)
        count = (end - first + step - 1) // step if first < end else 0
    else:
        first = length - 1 if start is None else _clamp(start, -1, length - 1, length)
        end = -1 if stop is None else _clamp(stop, -1, length - 1, length)
        count = (first - end - step - 1) // -step if end < first else 0
    return first, count


def _clamp(bound: Any, low: Any, high: Any, length: Any) -> Any:
    """Converts a bound of a slice, which may be negative, to an index from `low` to `high`."""
    distance = position(bound, length)
    return min(max(distance, low), high)


def looks_whole(x: Any, powers: Any) -> Any:
    """Returns whether a float, printed with `len(powers)` digits, looks like an integer; `powers` are those of ten."""
    size = abs(x)
    nearest = float_floor(size + 0.5)
    if size < 0.5 or not nearest < powers[-1]:
        return size == 0
    return not any(size * power < powers[-1] and abs(size - nearest) * power > 0.5 for power in powers)


def magnitude(number: Any) -> Any:
    """Returns the absolute value; the least int64 wraps to itself, whose bits are right as a uint64."""
    return -number if number < 0 else number


def is_within(index: Any, length: Any) -> Any:
    """Returns whether an index, which may be negative, is in the bounds of an axis of `length`."""
    return -length <= index < length


def is_row(array: Any) -> Any:
    """Returns whether the elements along the last axis of an array are contiguous."""
    return array.strides[-1] == array.itemsize or array.shape[-1] == 1 or array.size == 0


def is_lane(index: Any) -> Any:
    """Returns whether a number is a lane index."""
    return 0 <= index < 32


def is_multiple(number: Any, factor: Any) -> Any:
    """Returns whether a non-negative number is a multiple of a positive one."""
    return number % factor == 0 if factor > 0 else False


def is_reshapeable(shape: Any, steps: Any, lengths: Any) -> Any:
    """Returns whether an array with this shape and these strides can be reshaped to `lengths` without a copy.

    Axes that are merged must be contiguous with each other.
    """
    inner, expected = 1, 0
    for length, step in zip(shape[::-1], steps[::-1], strict=True):
        if length == 0:
            return True
        if length > 1:
            if inner > 1 and step != expected and not is_boundary(inner, lengths):
                return False
            inner, expected = inner * length, step * length
    return True


def is_boundary(count: Any, lengths: Any) -> Any:
    """Returns whether `count` is the product of the last lengths, for any number of them."""
    inner = 1
    for length in lengths[::-1]:
        inner *= length
        if inner == count:
            return True
    return False


def bytes_before(index: Any, shape: Any, steps: Any) -> Any:
    """Returns the offset in bytes of the element at `index` in C order."""
    offset = 0 * index
    for length, step in zip(shape[::-1], steps[::-1], strict=True):
        offset += index % max(length, 1) * step
        index //= max(length, 1)
    return offset


def fits(length: Any, other: Any) -> Any:
    """Returns whether an axis of `other` elements broadcasts to `length`."""
    return length in (1, other)


def has_power(base: Any, exponent: Any) -> Any:
    """Returns whether the power of two integers is an integer."""
    return exponent >= 0 or base == 1 or base == -1


def with_element(items: Any, index: Any, value: Any) -> Any:
    """Returns a copy of a tuple of values of one type in which the item at a run-time index is replaced."""
    count = len(items)
    return tuple(value if index == i or index == i - count else items[i] for i in range(count))


def element(items: Any, index: Any) -> Any:
    """Returns the item of a tuple of values of one type at a run-time index."""
    result = items[0]
    i = 0
    for item in items:
        if index == i or index == i - len(items):
            result = item
        i += 1  # noqa: SIM113
    return result


def mask_with(mask: Any, lane: Any, value: Any) -> Any:
    """Returns a mask in which the bit of `lane` is `value`."""
    bit = mask & 0 | 1 << lane
    return mask | bit if value else mask & ~bit


def lane_of_mask(mask: Any, i: Any) -> Any:
    """`mask[i]` of a `WarpMask`."""
    return (mask >> i) & 1 != 0


def has_whole_strides(items: Any, size: Any) -> Any:
    """Returns whether all strides are multiples of `size`, as the array descriptor of CUDA C++ requires."""
    return all(stride % size == 0 for stride in items.strides)


def integer_power(base: Any, exponent: Any) -> Any:
    """`base ** exponent` of integers. A negative exponent gives 0, except for the bases 1 and -1."""
    if exponent < 0:
        if base == 1 or (base == -1 and exponent & 1 == 0):
            return base * base
        return base if base == -1 else base * 0
    result = base * 0 + 1
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def as_both(chosen: Any, a: Any, b: Any) -> Any:
    """Returns `chosen`, which is `a` or `b`, as a float if either is one."""
    return chosen * 1.0 if isinstance(a, float) != isinstance(b, float) else chosen


def minimum(a: Any, b: Any) -> Any:
    """`np.minimum`: NaN if an argument is NaN."""
    return as_both(b if a == a and (b < a or b != b) else a, a, b)


def maximum(a: Any, b: Any) -> Any:
    """`np.maximum`: NaN if an argument is NaN."""
    return as_both(b if a == a and (b > a or b != b) else a, a, b)
