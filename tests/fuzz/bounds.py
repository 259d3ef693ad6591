"""The bounds of integers that the compiler knows, against the integers themselves.

combine("-", INT32, [0, 7], [1, 1])       no number that it leaves out, and none that it has in vain
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

from cuda_device.infer import ranges
from cuda_device.types.known import Known, between, has_bounds_within, is_narrow, known_as, nonneg_as, of_type
from cuda_device.types.model import NUMBERS, Number

INTEGERS = ("int", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_SIGNS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": lambda a, b: a // b if b else a,
    "%": lambda a, b: a % b if b else 0,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
_TIGHT = ("+", "-", "*", "//", "<<", ">>")


def some_bounds(choose: random.Random, number: Number) -> tuple[int, int]:
    """A few neighbours, near zero or the ends of a type."""
    middle = choose.choice((0, 0, 0, choose.randint(-40, 40), number.low, number.high, choose.randint(0, 300)))
    ends = sorted((middle + choose.randint(-9, 9), middle + choose.randint(-9, 9)))
    low, high = (max(number.low, min(number.high, end)) for end in ends)
    return low, high


def arithmetic(choose: random.Random) -> str | None:
    """Bounds of results hold all results, and no bound could be closer."""
    number, sign = NUMBERS[choose.choice(INTEGERS)], choose.choice([*_SIGNS])
    a, b = some_bounds(choose, number), some_bounds(choose, number)
    if sign in ("<<", ">>"):
        b = tuple(sorted((choose.randint(0, 9), choose.randint(0, 9))))  # type: ignore[assignment]
    if sign in ("//", "%") and b[0] < 0 and choose.random() < 0.7:
        b = 0, max(b[1], 0)
    if sign == "<<" and choose.random() < 0.5:
        b = b[0], b[0]
    known, exact = ranges.combine(sign, number, between(number, *a), between(number, *b))
    results = [_SIGNS[sign](x, y) for x in range(a[0], a[1] + 1) for y in range(b[0], b[1] + 1)]
    inside = [each for each in results if number.low <= each <= number.high]
    shown = f"{number} {list(a)} {sign} {list(b)}"
    low, high = known.bounds
    shifts = sign == "<<" and (b[0] < b[1] or b[1] >= number.bits)  # of which nothing is said
    if exact and len(inside) < len(results) and not (number.builtin or shifts):
        return f"{shown} has no room"
    if (exact or number.builtin or shifts) and any(not low <= each <= high for each in inside):
        return f"{shown} is {[low, high]}, but also {next(each for each in inside if not low <= each <= high)}"
    if sign in _TIGHT and not shifts and (sign != "//" or b[0] >= 0) and (sign != ">>" or a[0] >= 0):
        if len(inside) == len(results) and (not exact or (low, high) != (min(results), max(results))):
            return f"{shown} is only known to be in {[low, high]}"
        if sign == "<<" and exact != (len(inside) == len(results)):
            return f"whether {shown} has room is not known"
    limits = _loose(sign, a, b)
    if limits and len(inside) == len(results) and not limits[0] <= low <= high <= limits[1]:
        return f"{shown} is only known to be in {[low, high]}, not in {limits}"
    return None


def _loose(sign: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int] | None:
    """Bounds that are easy to see."""
    bits = max((x if x >= 0 else ~x).bit_length() for x in (*a, *b))
    match sign:
        case "%" if b[0] >= 0 and a[0] >= 0:
            return 0, max(min(a[1], b[1] - 1), 0)
        case "%":
            return min(b[0] + 1, 0), max(b[1] - 1, 0)
        case "&" if a[0] >= 0 or b[0] >= 0:
            return 0, min(each[1] for each in (a, b) if each[0] >= 0)
        case "&" | "|" | "^":
            return (0 if a[0] >= 0 and b[0] >= 0 else -(1 << bits)), (1 << bits) - 1
        case ">>" if a[0] < 0:
            return a[0], max(a[1] >> b[0], -1)
        case "//":
            most = max(map(abs, a))
            return -most, most
    return None


COMPARED = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def comparisons(choose: random.Random) -> str | None:
    """What holds of a number that has passed a comparison."""
    number, sign = NUMBERS[choose.choice(INTEGERS)], choose.choice([*COMPARED])
    a, b = some_bounds(choose, number), some_bounds(choose, number)
    if choose.random() < 0.5:
        b = b[0], b[0]
    if choose.random() < 0.5:
        a = number.low, number.high
    holds = COMPARED[sign]
    found = ranges.passed(sign, between(number, *a), between(number, *b)).bounds
    near = sorted({x for end in (*a, *b) for x in range(end - 12, end + 13) if a[0] <= x <= a[1]})
    left = [
        x
        for x in near
        if any(holds(x, y) for y in b) or (sign == "!=" and b[0] < b[1]) or (sign == "==" and b[0] <= x <= b[1])
    ]
    expected = (left[0], left[-1]) if left else a
    return (
        None if found == expected else f"{number} {list(a)} {sign} {list(b)} leaves {list(found)}, not {list(expected)}"
    )


def conversions(choose: random.Random) -> str | None:
    """Numbers that become others: bounds stay if there is room."""
    source, target = (NUMBERS[choose.choice(INTEGERS)] for _ in range(2))
    low, high = some_bounds(choose, source)
    known = between(source, low, high)
    has_room = target.low <= low and high <= target.high
    expected = (low, high) if has_room else (target.low, target.high)
    found = known_as(known, target)
    least, most = (0, 255) if choose.random() < 0.5 else (-(2**31), 2**31 - 1)
    signed = choose.random() < 0.5
    typed = of_type(target, nonneg=signed, high=most)
    rows: list[tuple[str, Any, Any]] = [
        ("as", found.bounds, expected),
        ("type", str(found.type), str(target)),
        ("not negative", known.nonneg, low >= 0),
        ("not negative then", nonneg_as(known, target), expected[0] >= 0),
        ("narrow", is_narrow(known), -(2**31) <= low and high < 2**31),
        ("within", has_bounds_within(known, target), has_room and target.high < source.high),
        ("settled", known.settled().nonneg, low >= 0),
        (
            "settled high",
            known.settled().bounds[1],
            min(source.high, 2**31 - 1) if -(2**31) <= low and high < 2**31 else source.high,
        ),
        ("plain", known.plain().bounds, (source.low, source.high)),
        ("forgotten", known.forget(), known.settled()),
        ("of type", typed.bounds, (0 if signed else target.low, min(most, target.high))),
        ("at", known.at(known.where) == known, True),
        (
            "room",
            ranges.has_room(
                target,
                between(target, *(stop := some_bounds(choose, target))),
                between(target, *(step := (least and 1, choose.randint(1, 9)))),
            ),
            target.low <= stop[0] + 1 + step[0] and stop[1] - 1 + step[1] <= target.high,
        ),
    ]
    shown = f"{source} {[low, high]} as {target}"
    return next((f"{shown}: {what} is {found}, not {wanted}" for what, found, wanted in rows if found != wanted), None)


def widening(choose: random.Random) -> str | None:
    """Bounds that grow come to an end, and hold what they held."""
    number = NUMBERS[choose.choice(INTEGERS)]
    old, new = some_bounds(choose, number), some_bounds(choose, number)
    found = ranges.widened(between(number, *old), between(number, *new))
    assert isinstance(found, Known)
    low = new[0] if new[0] >= old[0] else 0 if new[0] >= 0 else number.low
    high = new[1] if new[1] <= old[1] else number.high
    return (
        None
        if found.bounds == (low, high)
        else f"{number} {old}, then {new}, becomes {found.bounds}, not {(low, high)}"
    )


CHECKS = (arithmetic, arithmetic, arithmetic, comparisons, comparisons, conversions, widening)
