"""Lowering of loops over ranges: what an iterator holds, and one step of it.

iterator = py.iter %range                         (start, stop, step), in the type that the range counts in
%more, %i, %after = py.next {step=2} %iterator    %more = %start < %stop,  %after = (%start + 2, %stop, %step)
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from cuda_device.device.lowering import Lowering, Tree, flatten
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.lower.lowerer import Lowerer
from cuda_device.types.model import INDEX, Kind, Number, RangeIterator


def iterate(lowerer: Lowerer, op: Op) -> None:
    """A range → the next item, the stop and the step, in the type that it counts in."""
    build, type = lowerer.build, op.result.type
    tree = lowerer.trees[op.operands[0]]
    if isinstance(type, RangeIterator) and type.counter is not None:
        start, stop, step = flatten(tree)
        if not type.counter.signed and not stop.nonneg:
            zero = build.number(_number(stop), 0)
            stop = build.select(build.compare("<", stop, zero), zero, stop)
        tree = tuple(build.convert(part, type.counter, exact=True) for part in (start, stop, step))
    lowerer.define(op, tree)


def advance(lowerer: Lowerer, op: Op) -> None:
    """One step of a range.

    A step of 1 or -1 gives LLVM's canonical loop, and so does a step up of what has room for one step beyond any stop: an
    index, and an unsigned counter of signed numbers, and any step whose bounds show that it is `roomy`. Any other might step
    over the end of the type: where too little is left to step, the iterator goes to its stop instead.
    """
    build = lowerer.build
    iterator = lowerer.trees[op.operands[0]]
    type = op.operands[0].type
    assert isinstance(iterator, tuple) and isinstance(type, RangeIterator)
    item, stop, step = iterator
    assert isinstance(item, Value) and isinstance(stop, Value) and isinstance(step, Value)
    known = op.attributes.get("step")
    number = type.counts_in
    if isinstance(known, int):
        step = build.number(number, known)
    up = bool(op.attributes.get("up")) or (isinstance(known, int) and known > 0) or not number.signed
    direction = RangeDirection.UP if up else RangeDirection.DOWN if isinstance(known, int) else RangeDirection.EITHER
    roomy = number == INDEX or (type.counter is not None and not number.signed)
    exact = known == 1 or (known == -1 and number.signed) or (up and roomy) or bool(op.attributes.get("roomy"))
    after = build.sum(ops.ADD, item, step, exact=True) if exact else _step(build, item, stop, step, direction)
    more, found = _has_more(build, item, stop, step, direction), build.convert(item, type.item, exact=True)
    if op.results[1].nonneg:
        # Behind the last item, and where there is none at all, what goes down may be negative.
        if not up:
            lowerer.falling |= {item, found}
        item.nonneg = found.nonneg = True
    trees: tuple[Tree, ...] = (more, found, (after, stop, iterator[2]))
    lowerer.trees.update(zip(op.results, trees, strict=True))


class RangeDirection(enum.Enum):
    """Where a range goes, as far as is known."""

    UP = enum.auto()
    DOWN = enum.auto()
    EITHER = enum.auto()


def _number(value: Value) -> Number:
    assert isinstance(value.type, Number)
    return value.type


def _by_direction(
    build: Lowering, step: Value, direction: RangeDirection, up: Callable[[], Value], down: Callable[[], Value]
) -> Value:
    """`up()` for a positive step, `down()` for a negative one; a step that only run time knows selects."""
    if direction is not RangeDirection.EITHER:
        return up() if direction is RangeDirection.UP else down()
    return build.select(build.compare(">", step, build.number(_number(step), 0)), up(), down())


def _has_more(build: Lowering, item: Value, stop: Value, step: Value, direction: RangeDirection) -> Value:
    return _by_direction(
        build, step, direction, lambda: build.compare("<", item, stop), lambda: build.compare(">", item, stop)
    )


def _step(build: Lowering, item: Value, stop: Value, step: Value, direction: RangeDirection) -> Value:
    """item + step, or stop where that would pass it: distances are unsigned, so nothing overflows."""
    unsigned = Number(Kind.UINT, _number(item).bits)

    def left(end: Value, start: Value, stride: Value) -> Value:
        distance = build.sum(ops.SUB, build.convert(end, unsigned), build.convert(start, unsigned))
        return build.compare(">", distance, build.convert(stride, unsigned))

    room = _by_direction(
        build,
        step,
        direction,
        lambda: left(stop, item, step),
        lambda: left(item, stop, build.sum(ops.SUB, build.number(_number(step), 0), step)),
    )
    return build.select(room, build.sum(ops.ADD, item, step), stop)
