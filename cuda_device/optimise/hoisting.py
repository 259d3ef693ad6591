"""In loops, places in memory are counted along rows: what a loop leaves alone becomes a part of the address before it.

    for i in range(…):                              row = the address of x[k, 0]
        … x[k, i] …                        →        for i in range(…):
                                                        … row[i] …

    %4: int32 = add {exact=True} %3 %i              %7 = element {outside=True} %x %3
    %6 = element %x %4                     →        %6 = element {outside=True} %7 %i

LLVM makes pointers that go along with a loop of places in 64 bits. That a sum of 32 bits does not wrap it seldom believes of what
stands behind a branch, and computes each such address anew. Of what each pass computes it does believe it, but not that the four
passes that it makes one of go on where they began: there are two pointers for one row then. So that is done behind branches, and
in global memory for what the loop itself counts. Other places are better in 32 bits: pointers take two registers each, which
loads that wait for memory together need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuda_device.device.lowering import Lowering
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Function, Op, Value
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.optimise.symbolic_bounds import integer_of, keeps
from cuda_device.types.model import INT64, Ref, Space

Term = tuple[Value, int]
"""A part of a sum, and 1 or -1."""

_MOST_TERMS = 16


@dataclass(slots=True, eq=False)
class Loop:
    """The blocks of a loop, with its first one and those that lead to that, from `before` it and from its `ends`.

    `still` are the values that are made in it of such alone as are not.
    """

    head: Block
    before: list[Block]
    ends: list[Block]
    blocks: set[Block]
    still: set[Value] = field(default_factory=set)

    def always_runs(self, block: Block) -> bool:
        """Whether every pass comes through a block."""
        seen, todo = {block}, [self.head]
        while todo:
            each = todo.pop()
            if each not in seen:
                seen.add(each)
                todo += [edge.block for edge in each.successors if edge.block in self.blocks]
        return block is self.head or not any(end in seen for end in self.ends if end is not block)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """What makes the values of a function, and which blocks they are made in."""

    makers: dict[Value, Op]
    homes: dict[Value, Block]

    def terms(self, value: Value, sign: int = 1) -> list[Term]:
        """What a number is the exact sum of. Of a long sum some parts are sums."""
        found, todo = list[Term](), [(value, sign)]
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

    def split(self, value: Value, loop: Loop) -> tuple[list[Term], list[Term]]:
        """The parts of a sum that a loop leaves alone, and the others."""
        still, moving = list[Term](), list[Term]()
        for term in self.terms(value):
            (still if self.homes[term[0]] not in loop.blocks or term[0] in loop.still else moving).append(term)
        return still, moving

    def constant(self, value: Value) -> int | None:
        """The integer that a value always is."""
        return integer_of(self.makers, value)


def run(function: Function) -> None:
    """Changes a function of the device level in place. Its blocks are in reverse postorder."""
    loops = innermost_loops(function)
    if loops:
        values = values_of(function)
        for block, loop in loops.items():
            _run(block, loop, values)


def values_of(function: Function) -> Values:
    """The values of a function."""
    makers = {op.result: op for op in function.ops() if len(op.results) == 1}
    return Values(makers, {value: block for block in function.blocks for value in _defined(block)})


def innermost_loops(function: Function) -> dict[Block, Loop]:
    """For each block of a loop, the smallest loop that it is in."""
    numbers = {block: number for number, block in enumerate(function.blocks)}
    before: dict[Block, list[Block]] = {block: [] for block in function.blocks}
    ends: dict[Block, list[Block]] = {}
    for block in function.blocks:
        for edge in block.successors:
            before[edge.block].append(block)
            if numbers[edge.block] <= numbers[block]:
                ends.setdefault(edge.block, []).append(block)
    found: dict[Block, Loop] = {}
    for head, back in ends.items():
        blocks, todo = {head}, list(back)
        while todo:
            block = todo.pop()
            if block not in blocks:
                blocks.add(block)
                todo += before[block]
        loop = Loop(head, [block for block in before[head] if block not in blocks], back, blocks)
        for block in blocks:
            if block not in found or len(blocks) < len(found[block].blocks):
                found[block] = loop
    for loop in set(found.values()):
        loop.still = _still(sorted(loop.blocks, key=numbers.__getitem__))
    return found


def _still(blocks: list[Block]) -> set[Value]:
    """What operations of a loop make of what is made before it, alone. Its blocks are in reverse postorder."""
    moving = {param for block in blocks for param in block.params}
    still = set[Value]()
    for block in blocks:
        for op in block.ops:
            if op.code.effects is ops.Effect.PURE and moving.isdisjoint(op.operands):
                still.update(op.results)
            else:
                moving.update(op.results)
    return still


def _defined(block: Block) -> Iterator[Value]:
    yield from block.params
    for op in block.ops:
        yield from op.results


def _run(block: Block, loop: Loop, values: Values) -> None:
    """Splits the addresses of one block."""
    always = loop.always_runs(block)
    for op in [op for op in block.ops if op.code is ops.ELEMENT]:
        still, moving = values.split(op.operands[1], loop)
        if len(moving) != 1 or all(values.constant(value) is not None for value, _ in still):
            continue
        if not always or (_is_global(op) and moving[0][0] in loop.head.params):
            _split(block, op, still, moving)


def _is_global(op: Op) -> bool:
    return isinstance(op.result.type, Ref) and op.result.type.space is Space.GLOBAL


def _split(block: Block, op: Op, still: list[Term], moving: list[Term]) -> None:
    """Makes an address of one that a loop leaves alone and of what goes along with it."""
    build, reference = Lowering(Block()), op.operands[0]
    build.location = op.location
    near = build.op(ops.ELEMENT, reference.type, reference, total(build, still), outside=True)
    op.operands = [near, total(build, moving)]
    op.attributes["outside"] = True
    place = block.ops.index(op)
    block.ops[place:place] = build.block.ops


def total(build: Lowering, terms: Sequence[Term]) -> Value:
    """A sum in 64 bits, where it is what it is in any order."""
    found: Value | None = None
    for value, sign in terms:
        wide = build.convert(value, INT64)
        found = (
            wide
            if found is None and sign > 0
            else build.sum(ops.ADD if sign > 0 else ops.SUB, found or build.number(INT64, 0), wide)
        )
    return found or build.number(INT64, 0)
