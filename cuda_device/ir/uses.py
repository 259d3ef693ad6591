"""Definitions and uses: which operation and which block make a value, what it is a sum of, and whether anything reads it.

definitions = Definitions(function)
definitions.makers[value]                the operation that makes it; parameters of blocks have none
definitions.terms(value)                 [(%n, 1), (%one, -1)] for %n - 1, if the difference is exact
definitions.constant(one)                1
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Function, Op, Value
from cuda_device.types.model import Number

Term = tuple[Value, int]
"""A part of a sum, and 1 or -1."""

_MOST_TERMS = 16


class Definitions:
    """What makes the values of a function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.makers = {op.result: op for op in function.ops() if len(op.results) == 1}

    @cached_property
    def homes(self) -> dict[Value, Block]:
        """The block of each value."""
        found: dict[Value, Block] = {}
        for block in self.function.blocks:
            found.update(dict.fromkeys(block.params, block))
            for op in block.ops:
                found.update(dict.fromkeys(op.results, block))
        return found

    def constant(self, value: Value) -> int | None:
        """The integer that a value always is; None if it is not known."""
        return integer_of(self.makers, value)

    def terms(self, value: Value) -> list[Term]:
        """What a number is the exact sum of. Of a long sum some parts are sums."""
        found, todo = list[Term](), [(value, 1)]
        while todo:
            value, sign = todo.pop()
            maker = self.makers.get(value)
            if maker is not None and maker.code is ops.CONVERT and keeps(maker):
                todo.append((maker.operands[0], sign))
            elif (
                maker is not None
                and maker.code in (ops.ADD, ops.SUB)
                and maker.attributes.get("exact")
                and len(found) + len(todo) < _MOST_TERMS
            ):
                a, b = maker.operands
                todo += [(b, sign if maker.code is ops.ADD else -sign), (a, sign)]
            else:
                found.append((value, sign))
        return found


def integer_of(makers: Mapping[Value, Op], value: Value) -> int | None:
    """The integer that a value always is; None if it is not known."""
    maker = makers.get(value)
    found = maker.attributes["value"] if maker is not None and maker.code is ops.CONST else None
    return found if isinstance(found, int) else None


def keeps(conversion: Op) -> bool:
    """Whether the result of a conversion of integers is always equal to its operand."""
    ((operand,), result) = conversion.operands, conversion.result
    source, target = operand.type, result.type
    assert isinstance(source, Number) and isinstance(target, Number)
    if not (source.is_integer and target.is_integer):
        return False
    has_room = (operand.nonneg or target.low <= source.low) and target.high >= source.high
    return has_room or bool(conversion.attributes.get("exact"))


def used(function: Function) -> set[Value]:
    """The values that operations or edges of a function read."""
    found: set[Value] = set()
    for op in function.ops():
        found.update(op.operands)
        for edge in op.successors:
            found.update(edge.arguments)
    return found


def substitute(function: Function, values: Mapping[Value, Value]) -> None:
    """Puts other values in the places of some, wherever these are read."""
    for op in function.ops():
        op.operands = [values.get(value, value) for value in op.operands]
        for edge in op.successors:
            edge.arguments = [values.get(value, value) for value in edge.arguments]


def drop_unused(function: Function, values: set[Value]) -> None:
    """Drops the operations that make these values, where nothing uses them."""
    values = values - used(function) if values else values
    if values:
        for block in function.blocks:
            block.ops = [op for op in block.ops if not values.intersection(op.results)]
