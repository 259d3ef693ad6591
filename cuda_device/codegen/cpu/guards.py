"""Kernels on the CPU whose threads first ask whether there is something to do: those along x that have nothing are not run.

    i = tid(1)                        →     limit:  n - (block_idx.x * block_dim.x + 0)
    if i < n: y[i] = a * x[i]               y[i] = a * x[i]        for the threads of a row whose x is less than the limit

If each thread of a vector asked, the vector would be loaded and stored by masks, which takes several times as long.
"""

from __future__ import annotations

from collections.abc import Iterator

from cuda_device.codegen.cpu.regions import copied
from cuda_device.codegen.cpu.uniform import waits_at
from cuda_device.ir import ops
from cuda_device.ir.dominance import Definitions, predecessors, reverse_postorder
from cuda_device.ir.nodes import Block, Builder, Function, Module, Op, Value
from cuda_device.types.model import INT64, Number

_PLAIN = frozenset({ops.CONST, ops.CONVERT, ops.ADD, ops.SUB, ops.MUL, ops.AND, ops.OR, ops.COMPARE, ops.REGISTER})
"""What may be computed where the program does not come to it."""


def split(module: Module) -> tuple[Module, Function | None]:
    """A module whose kernel does not ask, and the function that computes the limit of a row; or the same module."""
    if any(map(waits_at, module.main.ops())):
        return module, None
    main = copied(module.main)
    values, before = Definitions(main), list[Op]()
    for block, inside in _chain(main):
        before += block.ops[:-1]
        sides = _sides(values, block.terminator, inside)
        if sides is not None and _grows(values, before, sides):
            limit = Function(f"{main.name}.limit", [Block(list(main.params), before)], main.level, INT64)
            build = Builder(limit.blocks[0], block.terminator.location)
            low, high = (build.op(ops.CONVERT, INT64, side) for side in sides)
            build.return_(build.op(ops.SUB, INT64, high, low))
            block.ops[-1] = Op(ops.JUMP, successors=[block.successors[inside]], location=block.terminator.location)
            main.blocks = reverse_postorder(main.blocks[0])
            return Module([main, limit, *module.functions[1:]], module.links, module.losses), limit
    return module, None


def _chain(main: Function) -> Iterator[tuple[Block, int]]:
    """The blocks that each thread comes to first, if it does not return, and which of their successors comes next."""
    before, block = predecessors(main.blocks), main.blocks[0]
    while all(op.code in _PLAIN for op in block.ops[:-1]) and block.terminator.code is ops.BRANCH:
        ends = [not edge.arguments and [op.code for op in edge.block.ops] == [ops.RETURN] for edge in block.successors]
        if ends[0] == ends[1]:
            return
        yield block, ends.index(False)
        edge = block.successors[ends.index(False)]
        if edge.arguments or len(before[edge.block]) != 1:
            return
        block = edge.block


def _sides(values: Definitions, branch: Op, inside: int) -> tuple[Value, Value] | None:
    """The two numbers of which the first is less, as integers of 64 bits with room for their difference, where threads go on."""
    maker = values.makers.get(branch.operands[0])
    if maker is None or maker.code is not ops.COMPARE or maker.attributes["op"] not in ("<", ">", "<=", ">="):
        return None
    sign, (a, b) = str(maker.attributes["op"]), maker.operands
    if sign not in (("<", ">") if inside == 0 else (">=", "<=")):
        return None
    for side in (a, b):
        number = side.type
        if not isinstance(number, Number) or not number.is_integer or not (number.bits <= 32 or side.nonneg):
            return None
        if number.bits > 32 and not number.signed:
            return None
    return (a, b) if sign in ("<", ">=") else (b, a)


def _grows(values: Definitions, before: list[Op], sides: tuple[Value, Value]) -> bool:
    """Whether the first side is the thread's x and what all threads of a row have, and the second such a thing."""
    axis = {op.result for op in before if op.code is ops.REGISTER and op.attributes["name"] in _OF_THREADS}
    varying = set(axis)
    for op in before:
        if varying.intersection(op.operands):
            varying.update(op.results)
    terms = [(value, sign) for value, sign in values.terms(sides[0]) if value in varying]
    is_x = len(terms) == 1 and terms[0][1] == 1 and terms[0][0] in axis
    return is_x and values.makers[terms[0][0]].attributes["name"] == "thread_idx.x" and sides[1] not in varying


_OF_THREADS = ("thread_idx.x", "linear_thread", "lane_id", "lanemask_lt")
