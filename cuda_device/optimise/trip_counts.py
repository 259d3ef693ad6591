"""Loops with a step count their passes down, where that lets LLVM unroll them into passes that wait for memory together.

    for i in range(start, n, step):          left = (n - start + step - 1) // step
        …                              →     while left: …; i += step; left -= 1

LLVM unrolls a loop only if the number of its passes is at hand, or cheap to compute:

- A division is not cheap. It is nothing beside a thread's way through an array in steps of the whole grid, which has many passes
  that each wait for memory; steps of a block may have few.
- A loop that ends after a few passes for certain is unrolled in full, with a branch out of it after each of them, and the
  assembler moves nothing across those. Where LLVM does not see how few they are, it unrolls four passes without such branches.
"""

from __future__ import annotations

from collections.abc import Iterator

from cuda_device.device.lowering import Lowering
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Op, Value
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.model import UINT32

_FEW = 7
"""Passes of a loop that LLVM unrolls in full."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over a range that goes up: `entry` leads to its `head`, `backs` to the next pass, with the item at a `place`."""

    head: Block
    before: Block
    entry: Edge
    backs: list[Edge]
    place: int
    compare: Op
    step: Value


def run(function: Function) -> None:
    """Changes a function of the device level in place. Its blocks are in reverse postorder."""
    makers = {op.result: op for op in function.ops() if len(op.results) == 1}
    for loop in list(_loops(function, makers)):
        few = _has_few(loop, makers)
        if few or _goes_through_a_grid(loop.step, makers):
            _count_down(loop, _constant(loop.step, makers), hidden=few)


def _loops(function: Function, makers: dict[Value, Op]) -> Iterator[Loop]:
    ways: dict[Block, list[tuple[Block, Edge]]] = {block: [] for block in function.blocks}
    for block in function.blocks:
        for edge in block.successors:
            ways[edge.block].append((block, edge))
    numbers = {block: number for number, block in enumerate(function.blocks)}
    homes = {value: block for block in function.blocks for value in _defined(block)}
    for head in function.blocks:
        compare = makers.get(head.terminator.operands[0]) if head.terminator.code is ops.BRANCH else None
        if compare not in head.ops or compare is None or compare.code is not ops.COMPARE:
            continue
        # What is made before the loop's first block is made before the loop: of its blocks all come behind that.
        first = numbers[head]
        entries = [(block, edge) for block, edge in ways[head] if numbers[block] < first]
        backs = [edge for block, edge in ways[head] if numbers[block] >= first]
        item, stop = compare.operands
        if len(entries) != 1 or compare.attributes["op"] != "<" or item not in head.params or item.type != UINT32:
            continue
        ((before, entry),), place = entries, head.params.index(item)
        afters = {edge.arguments[place] for edge in backs}
        after = makers.get(afters.pop()) if len(afters) == 1 else None
        if (
            after is None
            or after.code is not ops.ADD
            or not after.attributes.get("exact")
            or after.operands[0] is not item
        ):
            continue
        step = after.operands[1]
        needed = [stop] if _constant(step, makers) is not None else [stop, step]
        if all(numbers[homes[value]] < first for value in needed):
            yield Loop(head, before, entry, backs, place, compare, step)


def _defined(block: Block) -> Iterator[Value]:
    yield from block.params
    for op in block.ops:
        yield from op.results


def _constant(value: Value, makers: dict[Value, Op]) -> int | None:
    maker = makers.get(value)
    while maker is not None and maker.code is ops.CONVERT:
        maker = makers.get(maker.operands[0])
    found = maker.attributes["value"] if maker is not None and maker.code is ops.CONST else None
    return found if isinstance(found, int) else None


def _has_few(loop: Loop, makers: dict[Value, Op]) -> bool:
    """Whether the loop has a few passes at most, though nobody knows how many."""
    start, stop, step = (
        _constant(value, makers) for value in (loop.entry.arguments[loop.place], loop.compare.operands[1], loop.step)
    )
    return start is None and stop is not None and step is not None and 1 < step < stop <= _FEW * step


def _goes_through_a_grid(step: Value, makers: dict[Value, Op]) -> bool:
    """Whether a step is one of as many elements as the grid has threads, or blocks."""
    maker = makers.get(step)
    if maker is None:
        return False
    if maker.code is ops.REGISTER:
        return str(maker.attributes["name"]).startswith("grid_dim")
    if maker.code is ops.SELECT:  # of a step that may be 0
        return _goes_through_a_grid(maker.operands[1], makers)
    return maker.code in (ops.CONVERT, ops.MUL) and any(_goes_through_a_grid(each, makers) for each in maker.operands)


def _count_down(loop: Loop, known_step: int | None, hidden: bool) -> None:
    start, stop = loop.entry.arguments[loop.place], loop.compare.operands[1]
    ahead, inside = Lowering(Block()), Lowering(Block())
    ahead.location = inside.location = loop.compare.location
    step = loop.step if known_step is None else ahead.number(UINT32, known_step)
    one = ahead.number(UINT32, 1)
    most = ahead.sum(ops.ADD, ahead.sum(ops.SUB, stop, start), ahead.sum(ops.SUB, step, one))
    passes = ahead.op(ops.QUOTIENT, UINT32, most, step)
    passes = ahead.select(ahead.compare("<", start, stop), passes, ahead.number(UINT32, 0))
    if hidden:
        passes = ahead.binary(ops.OR, passes, ahead.op(ops.REGISTER, UINT32, name="hidden_zero"))
    loop.before.ops[-1:-1] = ahead.block.ops
    left = Value(UINT32, hint="left")
    loop.head.params.append(left)
    loop.entry.arguments.append(passes)
    loop.compare.attributes["op"] = "!="
    loop.compare.operands = [left, inside.number(UINT32, 0)]
    fewer = inside.sum(ops.SUB, left, one)
    for edge in loop.backs:
        edge.arguments.append(fewer)
    place = loop.head.ops.index(loop.compare)
    loop.head.ops[place:place] = inside.block.ops
