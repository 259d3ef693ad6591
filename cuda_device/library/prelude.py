"""Operators that are written in Python, and compiled like users' functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cuda_device.device.entities import float_floor


def float_modulo(a: Any, b: Any) -> Any:
    """`a % b` of floats: the divisor's sign."""
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


def place(index: Any, length: Any) -> Any:
    """An index that counts from the end where it is negative, as one from the beginning."""
    return index + length if index < 0 else index


def slice_bounds(start: Any, stop: Any, step: Any, length: Any) -> Any:
    """Where a slice begins on an axis of `length`, and how many places it selects."""
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
    """A bound of a slice, from the end where it is negative, no less than `low` and no more than `high`."""
    distance = place(bound, length)
    return min(max(distance, low), high)


def looks_whole(x: Any, powers: Any) -> Any:
    """Whether a float looks like an integer where so many digits of it are shown as there are `powers` of ten, from ten up."""
    size = abs(x)
    nearest = float_floor(size + 0.5)
    if size < 0.5 or not nearest < powers[-1]:
        return size == 0
    return not any(size * power < powers[-1] and abs(size - nearest) * power > 0.5 for power in powers)


def magnitude(number: Any) -> Any:
    """An integer without its sign; the least one of 64 bits is itself, which is right without a sign."""
    return -number if number < 0 else number


def is_within(index: Any, length: Any) -> Any:
    """Whether an index, which counts from the end where it is negative, is one of an axis of `length`."""
    return -length <= index < length


def is_length(number: Any) -> Any:
    """Whether a number can be the length of an axis."""
    return number >= 0


def length_or_rest(length: Any, total: Any, product: Any) -> Any:
    """A length of a shape with the `product` for `total` elements: that which is left, if it is -1."""
    return total // -product if length == -1 else length


def is_equal(number: Any, other: Any) -> Any:
    """Whether two numbers are the same."""
    return number == other


def is_lane(index: Any) -> Any:
    """Whether a number is that of a lane."""
    return 0 <= index < 32


def is_multiple(number: Any, factor: Any) -> Any:
    """Whether a number from 0 up is a multiple of one from 1 up."""
    return number % factor == 0 if factor > 0 else False


def has_place(shape: Any, steps: Any, lengths: Any) -> Any:
    """Whether elements that lie in axes of `shape`, `steps` bytes apart, can stay there in axes of `lengths`.

    Axes that become one, or parts of one, have to follow each other as if they were one.
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
    """Whether the last of `lengths`, or some of them, have the product `count`."""
    inner = 1
    for length in lengths[::-1]:
        inner *= length
        if inner == count:
            return True
    return False


def bytes_before(place: Any, shape: Any, steps: Any) -> Any:
    """Where the element lies that has `place` others before it in the order of C."""
    offset = 0 * place
    for length, step in zip(shape[::-1], steps[::-1], strict=True):
        offset += place % max(length, 1) * step
        place //= max(length, 1)
    return offset


def fits(length: Any, other: Any) -> Any:
    """Whether an axis can be assigned to one of the length `other`."""
    return length in (1, other)


def has_power(base: Any, exponent: Any) -> Any:
    """Whether `base ** exponent` of integers is an integer."""
    return exponent >= 0 or base == 1 or base == -1


def with_element(items: Any, index: Any, value: Any) -> Any:
    """A few values of one type with one of them changed, by an index that only run time knows."""
    count = len(items)
    return tuple(value if index == i or index == i - count else items[i] for i in range(count))


def element(items: Any, index: Any) -> Any:
    """One of a few values of one type, by an index that only run time knows."""
    result = items[0]
    place = 0
    for item in items:
        if index == place or index == place - len(items):
            result = item
        place += 1  # noqa: SIM113
    return result


def mask_with(mask: Any, lane: Any, value: Any) -> Any:
    """A mask in which `lane` takes part if `value` is true, and does not if it is false."""
    bit = mask & 0 | 1 << lane
    return mask | bit if value else mask & ~bit


def lane_of_mask(mask: Any, i: Any) -> Any:
    """`mask[i]` of a `WarpMask`."""
    return (mask >> i) & 1 != 0


def divide_and_modulo(a: Any, b: Any) -> Any:
    """`divmod(a, b)`."""
    return a // b, a % b


def has_whole_strides(items: Any, size: Any) -> Any:
    """Whether an array can be described to CUDA C++, which counts its strides in elements of `size` bytes."""
    return all(stride % size == 0 for stride in items.strides)


def integer_power(base: Any, exponent: Any) -> Any:
    """`base ** exponent` of integers; a negative exponent gives 0 (but 1 and -1 keep their powers)."""
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
    """One of a and b: a float if either is one, though it be chosen while compiling."""
    return chosen * 1.0 if isinstance(a, float) != isinstance(b, float) else chosen


def minimum(a: Any, b: Any) -> Any:
    """`np.minimum`: NaN wins."""
    return as_both(b if a == a and (b < a or b != b) else a, a, b)


def maximum(a: Any, b: Any) -> Any:
    """`np.maximum`: NaN wins."""
    return as_both(b if a == a and (b > a or b != b) else a, a, b)


REPLACEMENTS: dict[object, Callable[..., Any]] = {divmod: divide_and_modulo}
"""Builtins that are written in Python for device code."""
