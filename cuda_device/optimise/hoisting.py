"""Hoisting of addresses: what a loop leaves alone of an address is added before it.

    for i in range(…):                              row = the address of x[k, 0]
        … x[k, i] …                        →        for i in range(…):
                                                        … row[i] …

    %4: int32 = add {exact=True} %3 %i              %7 = element {outside=True} %x %3
    %6 = element %x %4                     →        %6 = element {outside=True} %7 %i

LLVM makes pointers that follow a loop of places in 64 bits. It seldom believes that a sum of 32 bits behind a branch does not
wrap, and computes each such address anew. It does believe it of what each iteration computes, but not that the four iterations
that it makes one of go on where they began: there are two pointers for one row then. So this is done behind branches, and in
global memory for what the loop itself counts. Other places are better in 32 bits: pointers take two registers each, which loads
that wait for memory together need. LLVM moves the first address out of the loop.
"""

from __future__ import annotations

from cuda_device.device.lowering import Lowering
from cuda_device.ir import ops
from cuda_device.ir.natural_loops import Loop, innermost, natural_loops
from cuda_device.ir.nodes import Block, Function, Op
from cuda_device.ir.uses import Definitions
from cuda_device.optimise.invariants import Invariants, total
from cuda_device.types.model import Ref, Space


def run(function: Function) -> None:
    """Changes a function of the device level in place. Its blocks are in reverse postorder."""
    found = natural_loops(function.blocks)
    if found:
        invariants = Invariants(Definitions(function))
        for block, loop in innermost(found).items():
            _split_addresses(block, loop, invariants)


def _split_addresses(block: Block, loop: Loop, invariants: Invariants) -> None:
    always = loop.always_runs(block)
    for op in [op for op in block.ops if op.code is ops.ELEMENT]:
        still, moving = invariants.split(op.operands[1], loop)
        if len(moving) != 1 or all(invariants.definitions.constant(value) is not None for value, _ in still):
            continue
        if not always or (_is_global(op) and moving[0][0] in loop.header.params):
            build, reference = Lowering(Block()), op.operands[0]
            build.location = op.location
            near = build.op(ops.ELEMENT, reference.type, reference, total(build, still), outside=True)
            op.operands = [near, total(build, moving)]
            op.attributes["outside"] = True
            place = block.ops.index(op)
            block.ops[place:place] = build.block.ops


def _is_global(op: Op) -> bool:
    return isinstance(op.result.type, Ref) and op.result.type.space is Space.GLOBAL
