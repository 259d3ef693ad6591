"""Rewrites loops with a step to count their iterations down, where that lets LLVM unroll them.

    for i in range(start, n, step):          left = (n - start + step - 1) // step
        …                              →     while left: …; i += step; left -= 1

The loads of unrolled iterations wait for memory at the same time. LLVM unrolls a loop only if its trip count is known or cheap to
compute:

- A division is not cheap. Its cost is negligible if a thread passes through an array in steps of the whole grid, because the many
  iterations each wait for memory. A loop in steps of a block may have only a few iterations.
- A loop that is known to end after a few iterations is unrolled completely, with a branch out of it after each iteration, and the
  assembler does not move instructions across these branches. If LLVM does not know the number of iterations, it unrolls four of
  them without such branches.
"""

from __future__ import annotations

from cuda_device.device.lowering import Lowering
from cuda_device.ir import ops
from cuda_device.ir.dominance import Definitions, Loop, natural_loops
from cuda_device.ir.nodes import Block, Edge, Function, Op, Value
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.model import UINT32

_FEW = 7
"""Iterations of a loop that LLVM unrolls in full."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A loop over an ascending range.

    The edge `entry` from the block `before` passes the first item to the header's parameter number `parameter`.
    """

    header: Block
    before: Block
    entry: Edge
    backs: list[Edge]
    parameter: int
    compare: Op
    step: Value


def count_down_loops(function: Function) -> None:
    """Changes a function of the device level in place. Its blocks are in reverse postorder."""
    loops = natural_loops(function.blocks)
    if not loops:
        return
    definitions = Definitions(function)
    for loop in [counted for loop in loops if (counted := _counted(loop, definitions))]:
        few = _has_few(loop, definitions)
        if few or _goes_through_a_grid(loop.step, definitions.makers):
            _count_down(loop, definitions.constant(loop.step), hidden=few)


def _counted(loop: Loop, definitions: Definitions) -> Counted | None:
    """The loop, if it is one over an ascending range."""
    header = loop.header
    compare = _bound_check(header, definitions)
    if compare is None:
        return None
    item, stop = compare.operands
    if len(loop.entries) != 1:  # the number of iterations is computed in one block
        return None
    if item not in header.params or item.type != UINT32:
        return None
    parameter, backs = header.params.index(item), [edge for _, edge in loop.backs]
    step = _step_of(item, {edge.arguments[parameter] for edge in backs}, definitions)
    if step is None:
        return None
    if definitions.homes[stop] in loop.blocks:  # the loop may change the bound
        return None
    if definitions.constant(step) is None and definitions.homes[step] in loop.blocks:
        return None
    ((before, entry),) = loop.entries
    return Counted(header, before, entry, backs, parameter, compare, step)


def _bound_check(header: Block, definitions: Definitions) -> Op | None:
    """The comparison `item < stop` on which a header branches."""
    if header.terminator.code is not ops.BRANCH:
        return None
    compare = definitions.makers.get(header.terminator.operands[0])
    if compare is None or compare.code is not ops.COMPARE or compare.attributes["op"] != "<":
        return None
    return compare if compare in header.ops else None


def _step_of(item: Value, next_items: set[Value], definitions: Definitions) -> Value | None:
    """The step of a loop whose next item is always `item + step`, which does not overflow."""
    if len(next_items) != 1:
        return None
    add = definitions.makers.get(next_items.pop())
    if add is None or add.code is not ops.ADD or add.operands[0] is not item:
        return None
    return add.operands[1] if add.attributes.get("exact") else None


def _has_few(loop: Counted, definitions: Definitions) -> bool:
    """Whether the number of iterations is unknown but small."""
    values = loop.entry.arguments[loop.parameter], loop.compare.operands[1], loop.step
    start, stop, step = map(definitions.constant, values)
    return start is None and stop is not None and step is not None and 1 < step < stop <= _FEW * step


def _goes_through_a_grid(step: Value, makers: dict[Value, Op]) -> bool:
    """Whether a step is the number of threads or blocks of the grid."""
    maker = makers.get(step)
    if maker is None:
        return False
    if maker.code is ops.REGISTER:
        return str(maker.attributes["name"]).startswith("grid_dim")
    if maker.code is ops.SELECT:  # for a step that may be 0
        return _goes_through_a_grid(maker.operands[1], makers)
    return maker.code in (ops.CONVERT, ops.MUL) and any(
        _goes_through_a_grid(operand, makers) for operand in maker.operands
    )


def _count_down(loop: Counted, known_step: int | None, hidden: bool) -> None:
    start, stop = loop.entry.arguments[loop.parameter], loop.compare.operands[1]
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
    loop.header.params.append(left)
    loop.entry.arguments.append(passes)
    loop.compare.attributes["op"] = "!="
    loop.compare.operands = [left, inside.number(UINT32, 0)]
    fewer = inside.sum(ops.SUB, left, one)
    for edge in loop.backs:
        edge.arguments.append(fewer)
    position = loop.header.ops.index(loop.compare)
    loop.header.ops[position:position] = inside.block.ops
