"""Loops over ranges with constant bounds: they are unrolled where a body needs the counter as a constant.

for i in range(4):          t[i], where t is a tuple: inference fails, and is repeated with the loop as one over (0, 1, 2, 3)
    total += t[i]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from cuda_device.errors import Location
from cuda_device.infer.indexing import MOST_ITEMS
from cuda_device.ir import ops
from cuda_device.ir.dominance import natural_loops
from cuda_device.ir.nodes import Block, Function, Op
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.known import Known


def iterated(op: Op, known: Known, unrolled: Collection[Location], candidates: set[Location]) -> Op:
    """The operation `iter` of a range, marked if its place is among the unrolled loops; other constant ranges are candidates."""
    bounds = [item.value for item in known.items if isinstance(item.value, int)]
    if len(bounds) < 3 or not bounds[2] or len(range(*bounds)) > MOST_ITEMS:
        return op
    if op.location not in unrolled:
        candidates.add(op.location)
        return op
    return replace(op, attributes=op.attributes | {"unroll": True})


def innermost(function: Function, blocks: Iterable[Block], candidates: Collection[Location]) -> Iterator[Location]:
    """The place of the innermost of the candidates around each of some blocks."""
    places = places_of_loops(function)
    for block in blocks:
        yield from [place for place, inside in places if block in inside and place in candidates][:1]


def places_of_loops(function: Function) -> list[tuple[Location, set[Block]]]:
    """The places of the `iter` of loops, and the blocks of the loops; inner loops come first."""
    makers = {result: op for op in function.ops() if op.code is ops.PY_ITER for result in op.results}
    places: list[tuple[Location, set[Block]]] = []
    for loop in sorted(natural_loops(function.blocks), key=lambda loop: len(loop.blocks)):
        arguments = (
            value
            for block in function.blocks
            if block not in loop.blocks
            for edge in block.successors
            if edge.block is loop.header
            for value in edge.arguments
        )
        steps = [op.operands[0] for op in loop.header.ops if op.code is ops.PY_NEXT]
        places += [(makers[value].location, set(loop.blocks)) for value in arguments if steps and value in makers][-1:]
    return places
