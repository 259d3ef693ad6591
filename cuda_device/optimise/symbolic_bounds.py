"""Proves from comparisons that indices are not negative, and removes the code for negative indices.

    for j in range(2 * r + 1):         j < 2 * r + 1
        w[2 * r - j]                   so 2 * r - j is not negative, and does not count from the end

Inference tracks bounds that are numbers (`infer/intervals`). This pass uses sums: each comparison on the path to the use of an
index implies that a sum of values and a constant is not negative. If the difference of the index and one of these sums cannot be
negative, the index is not negative either, and the code that counts from the end is removed. The check of a bound that
holds for the same reason is removed as well:

    %5: bool = compare {op="<"} %4 %zero
    %6: int32 = add {exact=True} %4 %n
    %7: int32 nonneg = select %5 %6 %4          →        %4 in place of %7
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

from cuda_device.ir import ops
from cuda_device.ir.dominance import Definitions, Term, dominators, drop_unused, ends_with_check, keeps, substitute
from cuda_device.ir.nodes import Block, Function, Op, Value
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.model import BOOL, Number

_MOST_TERMS = 8
_DEEPEST = 8
"""How many products deep a sum is followed."""


@dataclass(frozen=True, slots=True)
class Sum:
    """A linear sum: a constant, and values with their factors."""

    constant: int
    terms: tuple[tuple[Value, int], ...] = ()

    def plus(self, other: Sum, times: int = 1) -> Sum:
        """This sum plus `times` another one."""
        counts = dict(self.terms)
        for value, count in other.terms:
            counts[value] = counts.get(value, 0) + times * count
        return Sum(self.constant + times * other.constant, tuple((v, n) for v, n in counts.items() if n))

    def minus(self, other: Sum) -> Sum:
        """This sum minus another one."""
        return self.plus(other, -1)

    def plainly_nonneg(self, falling: AbstractSet[Value]) -> bool:
        """Whether no term can be negative. Values that are `falling` are nonnegative only in some places, and do not count."""
        return self.constant >= 0 and all(
            count > 0 and value.nonneg and value not in falling for value, count in self.terms
        )


@dataclass(frozen=True, slots=True)
class IncomingEdge:
    """An edge into a block, with its arguments and the condition that is true (`holds`) or false on it."""

    before: Block
    arguments: list[Value]
    condition: Value | None
    holds: bool


def remove_proven_checks(function: Function) -> None:
    """Changes a function of the device level in place. Its blocks are in reverse postorder."""
    definitions = Definitions(function)
    makers = definitions.makers
    selects = [
        (block, op)
        for block in function.blocks
        for op in block.ops
        if op.code is ops.SELECT and _counts_from_the_end(op, definitions)
    ]
    checks = [block for block in function.blocks if checks_a_bound(block, makers)]
    if not selects and not checks:
        return
    proofs = Proofs(function, definitions)
    same: dict[Value, Value] = {}
    for block, op in selects:
        index = op.operands[2]
        if proofs.holds(block, proofs.sum(index)):
            same[op.result] = index
            index.nonneg |= makers[index] in block.ops  # it may be negative in other blocks
    within = [block for block in checks if proofs.is_within(block, *makers[block.terminator.operands[0]].operands)]
    drop_checks(function, within)
    if same:
        substitute(function, same)
    drop_unused(function, set(same))
    drop_unused(function, {value for result in same for value in makers[result].operands[:2]})


def drop_checks(function: Function, blocks: Sequence[Block]) -> None:
    """Removes the checks at the ends of blocks."""
    checks = [block.ops.pop() for block in blocks]
    for block, check in zip(blocks, checks, strict=True):
        block.ops.append(Op(ops.JUMP, successors=check.successors[:1], location=check.location))
    failed = {check.successors[1].block for check in checks}
    function.blocks = [block for block in function.blocks if block not in failed]
    drop_unused(function, {value for check in checks for value in check.operands})


def checks_a_bound(block: Block, makers: dict[Value, Op]) -> bool:
    """Whether a block ends with the check of an index against a length, in checked mode."""
    condition = makers.get(block.terminator.operands[0]) if ends_with_check(block) else None
    return (
        condition is not None
        and condition.code is ops.COMPARE
        and condition.attributes["op"] == "<"
        and is_integer(condition.operands[0])
    )


def _counts_from_the_end(op: Op, definitions: Definitions) -> bool:
    """Whether this selects a sum with an index if the index is negative, and otherwise the index."""
    condition, moved, index = (definitions.makers.get(value) for value in op.operands)
    if condition is None or moved is None or index is None:
        return False
    is_negative = condition.code is ops.COMPARE and condition.attributes["op"] == "<"
    return (
        is_negative
        and condition.operands[0] is index.result
        and definitions.constant(condition.operands[1]) == 0
        and (moved.code is ops.ADD and moved.operands[0] is index.result)
    )


def is_integer(value: Value) -> bool:
    """Whether a value is an integer."""
    return isinstance(value.type, Number) and value.type.is_integer


def _room(value: Value) -> int:
    assert isinstance(value.type, Number)
    return value.type.high


class Proofs:
    """Facts about the integers of a function."""

    def __init__(self, function: Function, definitions: Definitions) -> None:
        self.definitions, self.makers, self.falling = definitions, definitions.makers, function.falling
        self.entries: dict[Block, list[IncomingEdge]] = {block: [] for block in function.blocks}
        for block in function.blocks:
            condition = block.terminator.operands[0] if block.terminator.code is ops.BRANCH else None
            for number, edge in enumerate(block.successors):
                self.entries[edge.block].append(IncomingEdge(block, edge.arguments, condition, number == 0))
        self.dominators = dominators(function.blocks[0])
        self.depth = 0  # of products in products
        self.sums: dict[Value, Sum] = {}
        self.facts: dict[Block, dict[tuple[Term, ...], Sum]] = {}
        """By block and terms: the sum with these terms, and the least constant, that is not negative."""

    def holds(self, block: Block, sum: Sum) -> bool:
        """Whether a sum is never negative in a block."""
        return self._follows(self.known(block), sum)

    def is_within(self, block: Block, index: Value, length: Value) -> bool:
        """Whether an index is below a length in a block, both as unsigned numbers."""
        position = self.sum(index)
        maker = self.makers.get(index)
        if maker is not None and maker.code is ops.CONVERT and is_integer(maker.operands[0]):
            (signed,) = maker.operands
            if _room(index) >= _room(signed) and self.holds(block, self.sum(signed)):
                position = self.sum(signed)
        return self.holds(block, self.sum(length).minus(position).plus(Sum(-1)))

    def _follows(self, facts: Sequence[Sum], sum: Sum) -> bool:
        values = {value for value, factor in sum.terms if factor > 0}
        differences = (  # those whose constant, and whose factor of the fact's first term, are not negative
            sum.minus(fact)
            for fact in facts
            if fact.constant <= sum.constant and (not fact.terms or fact.terms[0][1] < 0 or fact.terms[0][0] in values)
        )
        return any(difference.plainly_nonneg(self.falling) for difference in chain((sum,), differences))

    def known(self, block: Block) -> tuple[Sum, ...]:
        """The sums that are not negative in a block."""
        path = []
        while block not in self.facts and block in self.dominators:
            path.append(block)
            block = self.dominators[block]
        facts = self.facts.get(block, {})
        for dominator in reversed(path):
            for fact in self._entered(dominator, tuple(facts.values())):
                before = facts.get(fact.terms)
                if before is None or fact.constant < before.constant:
                    facts = facts | {fact.terms: fact}
            self.facts[dominator] = facts
        return tuple(facts.values())

    def _entered(self, block: Block, facts: Sequence[Sum]) -> Iterator[Sum]:
        """The facts that the edges into a block imply."""
        match self.entries[block]:
            case [IncomingEdge(condition=Value() as condition, holds=holds)]:
                yield from self._told(condition, holds, facts)
            case [IncomingEdge() as entry, *backs] if backs and self.dominators[block] is entry.before:
                for i, (param, first) in enumerate(zip(block.params, entry.arguments, strict=True)):
                    signs = {self._moved(param, back.arguments[i]) for back in backs if is_integer(param)}
                    if signs == {1}:  # a counter stays on one side of where it began
                        yield from self._compared("<=", first, param, facts)
                    elif signs == {-1}:
                        yield from self._compared("<=", param, first, facts)

    def _moved(self, param: Value, after: Value) -> int:
        """1 if a parameter increases by a constant, -1 if it decreases, 0 if neither is known."""
        step = self.sum(after).minus(Sum(0, ((param, 1),)))
        return 0 if step.terms else 1 if step.constant >= 0 else -1

    def _told(self, condition: Value, holds: bool, facts: Sequence[Sum]) -> Iterator[Sum]:
        """The facts that a true (`holds`) or false condition implies."""
        maker = self.makers.get(condition)
        if maker is None:
            return
        if maker.code is (ops.AND if holds else ops.OR) and condition.type == BOOL:
            for part in maker.operands:
                yield from self._told(part, holds, facts)
        elif maker.code is ops.COMPARE:
            a, b = maker.operands
            if is_integer(a):
                sign = str(maker.attributes["op"])
                yield from self._compared(sign if holds else ops.OPPOSITES[sign], a, b, facts)

    def _compared(self, sign: str, a: Value, b: Value, facts: Sequence[Sum]) -> Iterator[Sum]:
        """The facts that `a sign b` implies."""
        match sign:
            case "<" | "<=":
                for low in self.bounds(a, ">"):
                    for high in self.bounds(b, "<"):
                        yield high.minus(low).plus(Sum(-(sign == "<")))
            case ">" | ">=":
                yield from self._compared("<" if sign == ">" else "<=", b, a, facts)
            case "==":
                yield from self._compared("<=", a, b, facts)
                yield from self._compared("<=", b, a, facts)
            case "!=":  # with a >= b, this implies a > b
                for left, other in ((a, b), (b, a)):
                    apart = self.sum(left).minus(self.sum(other))
                    if self._follows(facts, apart):
                        yield apart.plus(Sum(-1))

    def bounds(self, value: Value, sign: str) -> list[Sum]:
        """Upper (`<`) or lower (`>`) bounds of a value: the value, and the operands of a minimum or maximum."""
        bounds = [self.sum(value)]
        maker = self.makers.get(self._origin(value))
        if maker is not None and maker.code is ops.SELECT:
            condition, first, second = maker.operands
            choice = self.makers.get(condition)
            if choice is not None and choice.operands == [first, second] and choice.attributes.get("op") == sign:
                bounds += [*self.bounds(first, sign), *self.bounds(second, sign)]
        return bounds

    def sum(self, value: Value) -> Sum:
        """A value as a linear sum."""
        if value not in self.sums:
            total = Sum(0)
            for term, sign in self.definitions.terms(value):
                total = total.plus(self._term(term), sign)
            self.sums[value] = total if len(total.terms) <= _MOST_TERMS else Sum(0, ((value, 1),))
        return self.sums[value]

    def _term(self, value: Value) -> Sum:
        """A term of `Definitions.terms`, which may be a constant or a product with one."""
        constant = self.definitions.constant(value)
        if constant is not None:
            return Sum(constant)
        maker = self.makers.get(value)
        if maker is not None and maker.code is ops.MUL and maker.attributes.get("exact") and self.depth < _DEEPEST:
            self.depth += 1
            a, b = map(self.sum, maker.operands)
            self.depth -= 1
            if not (a.terms and b.terms):
                return Sum(0).plus(a, b.constant) if a.terms else Sum(0).plus(b, a.constant)
        return Sum(0, ((value, 1),))

    def _origin(self, value: Value) -> Value:
        """The value before conversions that preserve it."""
        maker = self.makers.get(value)
        while maker is not None and maker.code is ops.CONVERT and keeps(maker):
            (value,) = maker.operands
            maker = self.makers.get(value)
        return value
