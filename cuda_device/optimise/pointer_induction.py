"""In loops, pointers go along with what is read and written behind a branch, at places in global memory that the loop counts.

    ^1(%i):                                   ^1(%i, %p):
        …                                         …
    ^2():                                     ^2():
        %6 = element %x %i           →            %6 = element {outside=True} %p 0
    ^3():                                     ^3():
        %8 = add {exact=True} %i %4               %8 = add {exact=True} %i %4
        jump ^1(%8)                               %9 = element {outside=True} %p %4
                                                  jump ^1(%8, %9)

Behind a branch LLVM computes such an address anew (see `rows`), and the assembler reads `x`, an argument of the kernel, once more
in each pass for that, before the load can begin. A pointer takes two registers in all of the loop: so it is only for short loops
that contain no other one, and only for a few.
"""

from __future__ import annotations

from cuda_device.device.lowering import Lowering
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Op, Value
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.optimise.hoisting import Loop, Term, Values, innermost_loops, total, values_of
from cuda_device.types.model import INT64, Ref, Space

_MOST = 4
"""Pointers of a loop, at most."""
_LONG = 128
"""Operations of a loop in which an address is little beside the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """A way to a loop's first block, and what that then counts from or, where the way comes from `inside`, goes on by."""

    block: Block
    edge: Edge
    terms: list[Term]
    inside: bool


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """A number that changes by the same in each pass of a loop.

    `pointers` go along with it: each by what else makes the address, and with the constant that is part of it already.
    """

    loop: Loop
    ways: list[Way]
    pointers: dict[tuple[object, ...], tuple[Value, int]] = field(default_factory=dict)


def run(function: Function) -> None:
    """Changes a function of the device level in place. Its blocks are in reverse postorder."""
    loops = innermost_loops(function)
    if loops:
        along = _Along(values_of(function))
        short = {loop for loop in loops.values() if _is_short(loop, loops)}
        for block, loop in loops.items():
            if loop in short and not loop.always_runs(block):
                for op in [op for op in block.ops if op.code is ops.ELEMENT]:
                    along.take(block, op, loop)


def _is_short(loop: Loop, loops: dict[Block, Loop]) -> bool:
    return sum(len(block.ops) for block in loop.blocks) < _LONG and all(loops[block] is loop for block in loop.blocks)


class _Along:
    """The numbers that the loops of a function count, each looked at once."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.counters: dict[Value, Counter | None] = {}

    def take(self, block: Block, op: Op, loop: Loop) -> None:
        """Takes an address from a pointer, if there can be one."""
        reference, place = op.operands
        if not isinstance(reference.type, Ref) or reference.type.space is not Space.GLOBAL:
            return
        still, moving = self.values.split(place, loop)
        far = [term for term in still if self.values.constant(term[0]) is None]
        if len(moving) != 1 or any(self.is_inside(value, loop) for value in (reference, *(value for value, _ in far))):
            return
        ((value, sign),) = moving
        counter = self.counter(value, loop)
        if counter is None:
            return
        constant = sum(times * (self.values.constant(each) or 0) for each, times in still)
        key = reference, sign, *far
        if key not in counter.pointers:
            mine = [each for each in self.counters.values() if each is not None and each.loop is loop]
            if sum(len(each.pointers) for each in mine) == _MOST:
                return
            counter.pointers[key] = _pointer(op, counter, sign, far, constant), constant
        pointer, done = counter.pointers[key]
        build = _builder(op)
        at = block.ops.index(op)
        op.operands = [pointer, build.number(INT64, constant - done)]
        op.attributes["outside"] = True
        block.ops[at:at] = build.block.ops

    def is_inside(self, value: Value, loop: Loop) -> bool:
        """Whether a value is made in a loop, and no constant."""
        return self.values.homes[value] in loop.blocks and self.values.constant(value) is None

    def counter(self, value: Value, loop: Loop) -> Counter | None:
        """What a loop counts, if a value is that."""
        if value not in self.counters:
            ways = self.ways(value, loop) if value in loop.head.params else None
            self.counters[value] = Counter(loop, ways) if ways else None
        return self.counters[value]

    def ways(self, value: Value, loop: Loop) -> list[Way] | None:
        """The ways to a loop's first block; None if a value changes in another way than by a sum of what it leaves alone."""
        place, ways = loop.head.params.index(value), []
        for block in dict.fromkeys((*loop.before, *loop.ends)):
            inside = block in loop.blocks
            for edge in block.successors:
                if edge.block is not loop.head:
                    continue
                terms = [(edge.arguments[place], 1)]
                if inside:
                    terms = self.values.terms(*terms[0])
                    if (value, 1) not in terms:
                        return None
                    terms.remove((value, 1))
                    if any(self.is_inside(each, loop) for each, _ in terms):
                        return None
                ways.append(Way(block, edge, terms, inside))
        return ways


def _pointer(op: Op, counter: Counter, sign: int, far: list[Term], constant: int) -> Value:
    """A new pointer, which begins before the loop, and moves with each pass."""
    reference = op.operands[0]
    pointer = Value(reference.type, hint="pointer")
    for way in counter.ways:
        build = _builder(op)
        terms = [(value, sign * times) for value, times in way.terms]
        begin = pointer if way.inside else reference
        if not way.inside:
            terms = [*far, *terms, *([(build.number(INT64, constant), 1)] if constant else [])]
        way.edge.arguments.append(build.op(ops.ELEMENT, reference.type, begin, total(build, terms), outside=True))
        way.block.ops[-1:-1] = build.block.ops
    counter.loop.head.params.append(pointer)
    return pointer


def _builder(op: Op) -> Lowering:
    build = Lowering(Block())
    build.location = op.location
    return build
