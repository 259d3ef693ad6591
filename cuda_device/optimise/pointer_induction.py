"""Pointer induction variables: a pointer follows what a loop reads and writes behind a branch, where the loop counts the index.

    ^1(%i):                                   ^1(%i, %p):
        …                                         …
    ^2():                                     ^2():
        %6 = element %x %i           →            %6 = element {outside=True} %p 0
    ^3():                                     ^3():
        %8 = add {exact=True} %i %4               %8 = add {exact=True} %i %4
        jump ^1(%8)                               %9 = element {outside=True} %p %4
                                                  jump ^1(%8, %9)

Behind a branch LLVM does not believe that a sum of 32 bits does not wrap, and computes such an address anew. The assembler then
reads `x`, an argument of the kernel, once more in each iteration before the load can begin. A pointer takes two registers in all
of the loop: so only short innermost loops get them, and only a few.
"""

from __future__ import annotations

from cuda_device.device.lowering import Lowering
from cuda_device.ir import ops
from cuda_device.ir.natural_loops import Loop, innermost, natural_loops
from cuda_device.ir.nodes import Block, Edge, Function, Op, Value
from cuda_device.ir.uses import Definitions, Term
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.optimise.invariants import Invariants, total
from cuda_device.types.model import INT64, Ref, Space

_MOST = 4
"""Pointers of a loop, at most."""
_LONG = 128
"""Operations of a loop in which an address is little beside the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class Increment:
    """An edge to a loop's header, and what the counter begins with there or, on an edge from `inside`, is increased by."""

    block: Block
    edge: Edge
    terms: list[Term]
    inside: bool


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """An induction variable: a number that a loop changes by sums of what it leaves alone.

    `pointers` follow it: each by what else makes the address, and with the constant that is part of it already.
    """

    loop: Loop
    increments: list[Increment]
    pointers: dict[tuple[object, ...], tuple[Value, int]] = field(default_factory=dict)


def run(function: Function) -> None:
    """Changes a function of the device level in place. Its blocks are in reverse postorder."""
    found = natural_loops(function.blocks)
    if found:
        loops = innermost(found)
        pointers = _Pointers(Definitions(function))
        short = {loop for loop in found if _is_short(loop, loops)}
        for block in function.blocks:
            loop = loops.get(block)
            if loop is not None and loop in short and not loop.always_runs(block):
                for op in [op for op in block.ops if op.code is ops.ELEMENT]:
                    pointers.take(block, op, loop)


def _is_short(loop: Loop, loops: dict[Block, Loop]) -> bool:
    return sum(len(block.ops) for block in loop.blocks) < _LONG and all(loops[block] is loop for block in loop.blocks)


class _Pointers:
    """The induction variables of the loops of a function, each looked at once."""

    def __init__(self, values: Definitions) -> None:
        self.values, self.invariants = values, Invariants(values)
        self.counters: dict[Value, Counter | None] = {}

    def take(self, block: Block, op: Op, loop: Loop) -> None:
        """Takes an address from a pointer, if there can be one."""
        reference, place = op.operands
        if not isinstance(reference.type, Ref) or reference.type.space is not Space.GLOBAL:
            return
        still, moving = self.invariants.split(place, loop)
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
        """The induction variable that a value is, if it is one."""
        if value not in self.counters:
            found = self.increments(value, loop) if value in loop.header.params else None
            self.counters[value] = Counter(loop, found) if found else None
        return self.counters[value]

    def increments(self, value: Value, loop: Loop) -> list[Increment] | None:
        """What the edges to a loop's header bring; None if a value changes by more than a sum of what the loop leaves alone."""
        place, found = loop.header.params.index(value), []
        for block, edge in (*loop.entries, *loop.backs):
            inside = block in loop.blocks
            terms = [(edge.arguments[place], 1)]
            if inside:
                terms = self.values.terms(edge.arguments[place])
                if (value, 1) not in terms:
                    return None
                terms.remove((value, 1))
                if any(self.is_inside(each, loop) for each, _ in terms):
                    return None
            found.append(Increment(block, edge, terms, inside))
        return found


def _pointer(op: Op, counter: Counter, sign: int, far: list[Term], constant: int) -> Value:
    """A new pointer, which begins before the loop and moves with each iteration."""
    reference = op.operands[0]
    pointer = Value(reference.type, hint="pointer")
    for each in counter.increments:
        build = _builder(op)
        terms = [(value, sign * times) for value, times in each.terms]
        begin = pointer if each.inside else reference
        if not each.inside:
            terms = [*far, *terms, *([(build.number(INT64, constant), 1)] if constant else [])]
        each.edge.arguments.append(build.op(ops.ELEMENT, reference.type, begin, total(build, terms), outside=True))
        each.block.ops[-1:-1] = build.block.ops
    counter.loop.header.params.append(pointer)
    return pointer


def _builder(op: Op) -> Lowering:
    build = Lowering(Block())
    build.location = op.location
    return build
