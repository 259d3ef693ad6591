"""Interval analysis of integers: the bounds of results, and those that a comparison implies.

    combine("+", INT32, [0, 7], [1, 1])      [1, 8], which fits in an int32
    passed("<", [0, 2**31 - 1], [5, 9])      [0, 8]

A builtin integer never exceeds the range of its type, because the specification leaves that undefined. A fixed-format integer
wraps around, and then has no known bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from types import MappingProxyType

from cuda_device.infer.frame import Cell
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Op, Value
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.known import UNKNOWN, Known, State, between, of_type
from cuda_device.types.model import Number

Bounds = tuple[int, int]


def combine(sign: str, type: Number, a: Known, b: Known) -> tuple[Known, bool]:
    """The bounds of `a sign b`, both integers of `type`, and whether the exact result fits in `type`."""
    low, high = _bounds(sign, type, a.bounds, b.bounds)
    exact = type.low <= low and high <= type.high
    if exact or not type.builtin or sign == "<<":
        return between(type, low, high), exact
    low, high = max(low, type.low), min(high, type.high)
    return between(type, low, high) if low <= high else of_type(type), True


def _bounds(sign: str, type: Number, a: Bounds, b: Bounds) -> Bounds:
    (low, high), (other_low, other_high) = a, b
    match sign:
        case "+":
            return low + other_low, high + other_high
        case "-":
            return low - other_high, high - other_low
        case "*":
            ends = [x * y for x in a for y in b]
            return min(ends), max(ends)
        case "//":
            return _quotient(a, b)
        case "%":  # a remainder by zero is one by 1
            top = min(high, other_high - 1) if low >= 0 and other_low >= 0 else other_high - 1
            return min(other_low + 1, 0), max(top, 0)
        case "&" | "|" | "^":
            return _bitwise(sign, a, b)
        case "<<" if other_low == other_high < type.bits and other_low >= 0:
            return low << other_low, high << other_low
        case ">>" if other_low >= 0:
            return low >> (0 if low < 0 else min(other_high, type.bits)), max(high >> other_low, -1 if low < 0 else 0)
    return type.low, type.high


def _quotient(a: Bounds, b: Bounds) -> Bounds:
    """The bounds of a floor division. Division by zero is division by one, as in machine code."""
    if b[0] < 0:
        most = max(map(abs, a))
        return -most, most
    ends = [x // max(y, 1) for x in a for y in b]
    return min(ends), max(ends)


def _bitwise(sign: str, a: Bounds, b: Bounds) -> Bounds:
    bits = max((x if x >= 0 else ~x).bit_length() for x in (*a, *b))
    low, high = -(1 << bits), (1 << bits) - 1
    tops = [top for bottom, top in (a, b) if bottom >= 0]
    if sign == "&" and tops:
        return 0, min(tops)
    return (0 if len(tops) == 2 else low), high


def passed(sign: str, a: Known, b: Known) -> Known:
    """`a`, with the bounds that `a sign b` implies."""
    if a.value is not UNKNOWN or not all(isinstance(k.type, Number) and k.type.is_integer for k in (a, b)):
        return a
    assert isinstance(a.type, Number)
    (low, high), (other_low, other_high) = a.bounds, b.bounds
    match sign:
        case "<":
            high = min(high, other_high - 1)
        case "<=":
            high = min(high, other_high)
        case ">":
            low = max(low, other_low + 1)
        case ">=":
            low = max(low, other_low)
        case "==":
            low, high = max(low, other_low), min(high, other_high)
        case "!=" if other_low == other_high:
            low, high = low + (low == other_low), high - (high == other_low)
    if low > high or (low, high) == a.bounds:
        return a
    return between(a.type, low, high, a.where)


def has_room(number: Number, stop: Known, step: Known) -> bool:
    """Whether the item of a range of this type fits in the type even after the step behind the last item."""
    (stop_low, stop_high), (step_low, step_high) = stop.bounds, step.bounds
    return number.low <= stop_low + 1 + step_low and stop_high - 1 + step_high <= number.high


def widened(old: State, new: State) -> State:
    """`new`, which replaces `old` in a fixed-point iteration: bounds that grew are widened to those of the type."""
    if old is new or not (isinstance(old, Known) and isinstance(new, Known)) or old == new:
        return new
    if new.value is not UNKNOWN and not new.items:
        return new
    if new.items and len(old.items) == len(new.items):
        parts = [b if a is b else widened(a, b) for a, b in zip(old.items, new.items, strict=True)]
        if all(map(is_, parts, new.items)):
            return new
        return replace(new, items=tuple([part for part in parts if isinstance(part, Known)]))
    if not all(isinstance(known.type, Number) and known.type.is_integer for known in (old, new)):
        return new
    assert isinstance(new.type, Number)
    (low, high), (old_low, old_high) = new.bounds, old.bounds
    if low >= old_low and high <= old_high:
        return new
    if low < old_low:
        low = 0 if low >= 0 else new.type.low
    return between(new.type, low, new.type.high if high > old_high else high, new.where)


# Bounds that the branch on a comparison implies
#
# if 0 < i:            i is at least 1,
#     x[i - 1]         so the index is not negative, and does not count from the end
#
# In `0 < i < n`, the number that is compared with `n` is both on the stack, which blocks get through their parameters, and in the
# variable `i`. The bounds of one hold for the other.


Proof = dict[Value, Known]


def twins(function: Function) -> dict[Value, tuple[Value, ...]]:
    """For each parameter that gets a single value, or the same value as others on every edge into their block: all of these."""
    entries: dict[Block, list[Edge]] = {}
    for block in function.blocks:
        for edge in block.successors:
            entries.setdefault(edge.block, []).append(edge)
    first: dict[Value, Value] = {}
    twins_of: dict[Value, tuple[Value, ...]] = {}
    for block in function.blocks[1:]:
        edges = entries.get(block, [])
        groups: dict[tuple[Value, ...], list[Value]] = {}
        for param, arguments in zip(block.params, zip(*(edge.arguments for edge in edges), strict=True), strict=True):
            roots = tuple(first.get(value, value) for value in arguments)
            only = [roots[0]] if len(set(roots)) == 1 else []
            groups.setdefault(roots, only).append(param)
        for group in groups.values():
            first |= dict.fromkeys(group, group[0])
            twins_of |= dict.fromkeys(group, tuple(group)) if len(group) > 1 else {}
    return twins_of


def proofs(
    block: Block,
    condition: Value,
    cells: Mapping[Value, Cell],
    twins: Mapping[Value, tuple[Value, ...]] = MappingProxyType({}),
) -> tuple[Proof, Proof]:
    """The bounds of values of a block where its condition is true, and where it is false."""
    maker, holds = _maker(block, condition), True
    while maker is not None and (maker.code is ops.PY_TRUTH or maker.attributes.get("op") == "not"):
        holds ^= maker.code is ops.PY_UNARY
        maker = _maker(block, maker.operands[0])
    if maker is None or maker.code is not ops.PY_COMPARE or maker.attributes["op"] not in ops.SWAPPED:
        return {}, {}
    a, b = maker.operands
    first, second = cells[a], cells[b]
    sign = str(maker.attributes["op"])
    signs = (sign, ops.OPPOSITES[sign]) if holds else (ops.OPPOSITES[sign], sign)
    yes, no = (
        dict.fromkeys(twins.get(a, (a,)), passed(sign, first.known, second.known))
        | dict.fromkeys(twins.get(b, (b,)), passed(ops.SWAPPED[sign], second.known, first.known))
        for sign in signs
    )
    return yes, no


def _maker(block: Block, value: Value) -> Op | None:
    return next((op for op in reversed(block.ops) if value in op.results), None)
