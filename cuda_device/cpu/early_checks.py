"""Decides checks of indices at the beginning of a kernel, so that the CPU can run a version of its body without them.

    if i < n:                          ok = m >= n and p >= w
        for k in range(w):       →     if i < n:
            check k < p                    for k in range(w):
            …                                  check ok or k < p
        check i < m                            …
                                           check ok or i < m

A check holds if a sum is not negative: `p - 1 - k`. The pass subtracts sums that `symbolic_bounds` knows not to be negative at
this place, such as `w - 1 - k` in the loop, until only values remain that are the same for all threads of a block: `p - w`. If
this difference is not negative, the check never fails. Checks that can be decided without a condition are removed; those that
nothing decides, such as that of an index `y[k]`, stay as they are.

What a check implies may decide the checks behind it, although the version without checks skips all of them: where the conditions
of all checks hold, the first check that a thread passes holds, hence also the second, and so on.

Code generation for the CPU then calls `divide`, which makes a version of the body for kernels where `ok` holds:

    if ok:
        for k in range(w): …               LLVM may vectorise it
    else:
        for k in range(w):
            check k < p                    all reports come from here, where threads run one after the other
            …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import islice

from cuda_device.extend import ops
from cuda_device.ir.dominance import (
    Definitions,
    Term,
    dominates,
    ends_with_check,
    predecessors,
    renamed_blocks,
    reverse_postorder,
)
from cuda_device.ir.nodes import Block, Builder, Edge, Function, Module, Op, Value
from cuda_device.optimise.symbolic_bounds import Proofs, Sum, checks_a_bound, drop_checks, is_integer
from cuda_device.types.model import BOOL, INT32, INT64, Number

PURE = frozenset(
    {
        *(ops.CONST, ops.CONVERT, ops.ADD, ops.SUB, ops.MUL, ops.QUOTIENT, ops.REMAINDER, ops.AND, ops.OR, ops.XOR),
        *(ops.COMPARE, ops.SELECT),
    }
)
"""Operations on integers that may be computed where the program does not reach them."""
_DEEPEST = 8
"""How many operations deep a uniform value is searched for."""
_MOST_FACTS = 3
"""How many sums are subtracted."""
_MOST_WAYS, _MOST_CONDITIONS = 64, 4
"""How many conditions of a check are tried, and how many of them are computed."""
_LARGEST, _LARGEST_FACTOR = 1 << 40, 1 << 16
"""Values of 64 bits and factors are smaller, so that sums do not overflow."""


def add_early_checks(module: Module) -> None:
    """Changes the kernel of a device-level module in place."""
    function = module.main
    definitions = Definitions(function)
    checks = [block for block in function.blocks if checks_a_bound(block, definitions.makers)]
    if not function.kernel or not checks or predecessors(function.blocks)[function.blocks[0]]:
        return
    decisions = _Decisions(function, definitions)
    conditions_of = {block: decisions.of_check(block) for block in checks}
    drop_checks(function, [block for block, needed in conditions_of.items() if needed == []])
    conditions = list(dict.fromkeys(condition for needed in conditions_of.values() for condition in needed or ()))
    if not conditions:
        return
    build = decisions.build
    every = reduce(lambda a, b: build.op(ops.AND, BOOL, a, b), conditions)
    function.blocks[0].ops[:0] = build.block.ops
    for block in [block for block, needed in conditions_of.items() if needed]:
        end = block.ops.pop()
        build = Builder(block, end.location)
        end.operands = [build.op(ops.OR, BOOL, every, *end.operands, early=True)]
        block.ops.append(end)


def divide(function: Function) -> set[Block]:
    """Divides the body of a kernel with decided checks; returns the first block of the version without them."""
    values, entry = Definitions(function), function.blocks[0]
    checks = {block for block in function.blocks if _is_decided(block, values)}
    if not checks:
        return set()
    known = values.makers[next(iter(checks)).terminator.operands[0]].operands[0]
    last = entry.ops.index(values.makers[known]) + 1
    rest = Block([], entry.ops[last:])
    del entry.ops[last:]
    if entry in checks:
        checks = {*checks - {entry}, rest}
    body = [rest, *function.blocks[1:]]
    copies = renamed_blocks(body, {})
    for block in checks:
        end = copies[block].terminator
        copies[block].ops[-1] = Op(ops.JUMP, successors=end.successors[:1], location=end.location)
        block.terminator.operands = values.makers[block.terminator.operands[0]].operands[1:]
    build = Builder(entry, rest.ops[0].location)
    build.branch(known, Edge(copies[rest], []), Edge(rest, []))
    function.blocks = reverse_postorder(entry)
    return {copies[rest]}


def _is_decided(block: Block, values: Definitions) -> bool:
    maker = values.makers.get(block.terminator.operands[0]) if ends_with_check(block) else None
    return maker is not None and "early" in maker.attributes


class _Decisions(Proofs):
    """Finds the conditions that decide checks, and computes them in front of the function, with `build`."""

    def __init__(self, function: Function, definitions: Definitions) -> None:
        super().__init__(function, definitions)
        self.params = set(function.params)
        self.build = Builder(Block(), function.blocks[0].ops[0].location)
        self.registers: dict[str, Value] = {}
        self.copies: dict[Value, Value] = {}
        self.conditions: dict[tuple[int, frozenset[Term]], Value] = {}

    def of_check(self, block: Block) -> list[Value] | None:
        """The conditions under which the check at the end of a block holds; None if there are no such conditions."""
        index, length = self.makers[block.terminator.operands[0]].operands
        maker, goals = self.makers.get(index), list[Sum]()
        if maker is not None and maker.code is ops.CONVERT and _bits(maker.operands[0]) in range(1, _bits(index) + 1):
            (index,) = maker.operands
            goals.append(self.sum(index))
        goals.append(self.sum(length).minus(self.sum(index)).plus(Sum(-1)))
        facts, alternatives = tuple(dict.fromkeys(reversed(self.known(block)))), list[list[Sum]]()
        for goal in goals:
            parts = dict.fromkeys(islice(self._uniform_parts(goal, facts, _MOST_FACTS), _MOST_WAYS))
            alternatives.append(self._weakest([part for part in parts if _may_hold(part)])[:_MOST_CONDITIONS])
        if not all(alternatives):
            return None
        uncertain = [parts for parts in alternatives if not any(part.plainly_nonneg(self.falling) for part in parts)]
        return [self._any_holds(parts) for parts in uncertain]

    def _weakest(self, parts: list[Sum]) -> list[Sum]:
        """The sums without those that are never greater than another one."""
        weakest = list[Sum]()
        for part in parts:
            if not any(other.minus(part).plainly_nonneg(self.falling) for other in weakest):
                weakest = [other for other in weakest if not part.minus(other).plainly_nonneg(self.falling)] + [part]
        return weakest

    def _any_holds(self, parts: list[Sum]) -> Value:
        conditions = dict.fromkeys(map(self._is_nonneg, parts))
        return reduce(lambda a, b: self.build.op(ops.OR, BOOL, a, b), conditions)

    def _uniform_parts(self, sum: Sum, facts: Sequence[Sum], more: int) -> Iterator[Sum]:
        """Lower bounds of a sum that consist of uniform values; at most `more` facts are subtracted."""
        others = [(value, factor) for value, factor in sum.terms if not self._is_uniform(value)]
        if not others:
            yield sum
            return
        value, factor = min(others, key=lambda term: term[1])
        if factor > 0 and value.nonneg and value not in self.falling:
            yield from self._uniform_parts(sum.minus(Sum(0, ((value, factor),))), facts, more)
        for fact in (*facts, *self._limits(value)) if more else ():
            times, rest = divmod(factor, dict(fact.terms).get(value, factor * 2))
            if times > 0 and not rest:
                yield from self._uniform_parts(sum.plus(fact, -times), facts, more - 1)

    def _limits(self, value: Value) -> list[Sum]:
        """Nonnegative sums that contain the value with the factor -1: the upper bounds that its definition implies."""
        above, maker = self.bounds(value, "<")[1:], self.makers.get(value)
        assert isinstance(value.type, Number)
        if value.type.bits <= 16:
            above.append(Sum(value.type.high))
        name = next((name for name, register in self.registers.items() if register is value), "")
        if name:
            above.append(self._register(name.replace("thread_idx", "block_dim")).plus(Sum(-1)))
        elif maker is not None and maker.code in (ops.AND, ops.QUOTIENT, ops.REMAINDER, ops.SHR):
            first, second = maker.operands
            above += [self.sum(first)] if first.nonneg else []
            if second.nonneg and maker.code is ops.AND:
                above.append(self.sum(second))
            elif first.nonneg and maker.code is ops.REMAINDER and (self.definitions.constant(second) or 0) > 0:
                above.append(self.sum(second).plus(Sum(-1)))
        return [bound.minus(Sum(0, ((value, 1),))) for bound in above]

    def _register(self, name: str) -> Sum:
        if name not in self.registers:
            value = self.registers[name] = self.build.op(ops.REGISTER, INT32, nonneg=True, name=name)
            self.copies[value] = value
        return Sum(0, ((self.registers[name], 1),))

    def _term(self, value: Value) -> Sum:
        """Reads of one index of the thread, or size of the block, are the same term, whatever their types."""
        maker = self.makers.get(value)
        while maker is not None and maker.code is ops.CONVERT and _bits(maker.result) >= 16:
            maker = self.makers.get(maker.operands[0])
        name = str(maker.attributes["name"]) if maker is not None and maker.code is ops.REGISTER else ""
        if name.startswith(("thread_idx.", "block_dim.")):
            return Sum(0, ((self.registers.setdefault(name, value), 1),))
        return super()._term(value)

    def _told(self, condition: Value, holds: bool, facts: Sequence[Sum]) -> Iterator[Sum]:
        """Also the facts of a condition that is a block parameter: if `a and b` is true, control came from the block of `b`."""
        yield from super()._told(condition, holds, facts)
        home = self.definitions.homes.get(condition)
        if home is None or condition not in home.params or home not in self.dominators:
            return
        index = home.params.index(condition)
        ways = [way for way in self.entries[home] if way.condition is not way.arguments[index] or way.holds == holds]
        if len(ways) == 1 and not any(dominates(home, entry.before, self.dominators) for entry in self.entries[home]):
            yield from self.known(ways[0].before)
            yield from self._told(ways[0].arguments[index], holds, facts)

    def _moved(self, param: Value, after: Value) -> int:
        """Also of a counter that is divided."""
        maker = self.makers.get(after)
        is_part = maker is not None and maker.code in (ops.QUOTIENT, ops.SHR) and maker.operands[0] is param
        return -1 if is_part and param.nonneg else super()._moved(param, after)

    def _is_uniform(self, value: Value, depth: int = _DEEPEST) -> bool:
        """Whether a value can be computed in front of the function."""
        maker = self.makers.get(value)
        if maker is None or value in self.copies or not (is_integer(value) or value.type == BOOL):
            return value in self.copies or (value in self.params and is_integer(value))
        if maker.code is ops.REGISTER:
            return str(maker.attributes["name"]).startswith(("block_", "grid_"))
        if maker.code not in PURE or not depth:
            return False
        return all(self._is_uniform(operand, depth - 1) for operand in maker.operands)

    def _copied(self, value: Value) -> Value:
        """The value, computed in front of the function. It is arbitrary if the function does not compute it."""
        if value in self.params:
            return value
        if value not in self.copies:
            maker = self.makers[value]
            attributes = {name: attribute for name, attribute in maker.attributes.items() if name != "exact"}
            operands = [self._copied(operand) for operand in maker.operands]
            self.copies[value] = self.build.op(maker.code, value.type, *operands, **attributes)
        return self.copies[value]

    def _is_nonneg(self, sum: Sum) -> Value:
        """Computes whether a sum of uniform values is not negative."""
        key = sum.constant, frozenset(sum.terms)
        if key not in self.conditions:
            build, total, small = self.build, self.build.const(INT64, sum.constant), list[Value]()
            for value, factor in sum.terms:
                copy = self._copied(value)
                assert isinstance(copy.type, Number)
                if copy.type.bits > 32:
                    small.append(build.op(ops.COMPARE, BOOL, copy, build.const(copy.type, _LARGEST), op="<"))
                wide = copy if copy.type == INT64 else build.op(ops.CONVERT, INT64, copy)
                part = wide if factor == 1 else build.op(ops.MUL, INT64, wide, build.const(INT64, factor))
                total = build.op(ops.ADD, INT64, total, part)
            holds = build.op(ops.COMPARE, BOOL, total, build.const(INT64, 0), op=">=")
            self.conditions[key] = reduce(lambda a, b: build.op(ops.AND, BOOL, a, b), small, holds)
        return self.conditions[key]


def _may_hold(sum: Sum) -> bool:
    """Whether a sum cannot overflow, and may be nonnegative for more than tiny arrays."""
    fits = all(abs(factor) <= _LARGEST_FACTOR and (_bits(value) <= 32 or value.nonneg) for value, factor in sum.terms)
    least = 2 if sum.terms else 0
    may_grow = any(factor > 0 for _, factor in sum.terms)
    return fits and -_LARGEST < sum.constant < _LARGEST and (may_grow or sum.constant >= least)


def _bits(value: Value) -> int:
    """The size of an integer; 0 for other values."""
    return value.type.bits if isinstance(value.type, Number) and value.type.is_integer else 0
