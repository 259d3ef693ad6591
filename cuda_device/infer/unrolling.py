"""Loops over ranges with constant bounds: they are unrolled where a body needs the counter as a constant.

for i in range(4):          t[i], where t is a tuple: inference fails, and is repeated with the loop as one over (0, 1, 2, 3)
    total += t[i]

If all items have one type, inference does not fail, but selects the item by comparisons with the index. A loop that goes through
a longer tuple or list is then unrolled for a trial, and stays so if the index becomes a constant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import prod

from cuda_device.errors import NOWHERE, Location
from cuda_device.infer.indexing import MOST_ITEMS
from cuda_device.ir import ops
from cuda_device.ir.dominance import natural_loops
from cuda_device.ir.nodes import Block, Function, Op, Value
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.known import Known


def iterated(op: Op, known: Known, unrolled: Collection[Location], candidates: dict[Location, int]) -> Op:
    """The operation `iter` of a range, marked if its place is among the unrolled loops; constant ranges are candidates."""
    bounds = [item.value for item in known.items if isinstance(item.value, int)]
    if len(bounds) < 3 or not bounds[2] or len(range(*bounds)) > MOST_ITEMS:
        return op
    candidates[op.location] = len(range(*bounds))
    return replace(op, attributes=op.attributes | {"unroll": True}) if op.location in unrolled else op


def innermost(function: Function, blocks: Iterable[Block], candidates: Collection[Location]) -> Iterator[Location]:
    """The place of the innermost of the candidates around each of some blocks."""
    places = places_of_loops(function)
    for block in blocks:
        yield from [place for place, inside in places if block in inside and place in candidates][:1]


class Walks:
    """The loops of a function, and the counters from which its indices are computed."""

    def __init__(self, function: Function) -> None:
        self.places = places_of_loops(function)
        self.counters: dict[Value, Location] = {}
        self.before: dict[Value, list[Value]] = {}
        """The values from which arithmetic and edges make each value."""
        for block in function.blocks:
            place = next((place for place, inside in self.places if block in inside), NOWHERE)
            for op in block.ops:
                if op.code is ops.PY_NEXT:
                    self.counters[op.results[1]] = place
                elif op.code in (ops.PY_BINARY, ops.PY_UNARY):
                    self.before[op.results[0]] = op.operands
            for edge in block.successors:
                for param, argument in zip(edge.block.params, edge.arguments, strict=True):
                    self.before.setdefault(param, []).append(argument)

    def of(
        self, index: Value, count: int, candidates: Mapping[Location, int], unrolled: Collection[Location]
    ) -> tuple[set[Location], set[Location]]:
        """The candidates whose counters make up an index into `count` items; and those that must stay loops.

        Loops stay that have more iterations than there are items, or of whose bodies there would be more than 1024 copies, and
        the loops in them, each copy of which would select.
        """
        seen, todo = {index}, [index]
        while todo:
            fresh = {*self.before.get(todo.pop(), ())} - seen
            seen |= fresh
            todo += fresh
        loops = {self.counters[value] for value in seen if value in self.counters} & candidates.keys()
        stay = set[Location]()
        for place in loops:
            if candidates[place] > count or self._copies(place, candidates, unrolled) > MOST_ITEMS:
                stay |= {other for other, blocks in self.places if blocks <= self._blocks(place)}
        return loops, stay

    def _blocks(self, place: Location) -> set[Block]:
        return next(blocks for other, blocks in self.places if other == place)

    def _copies(self, place: Location, candidates: Mapping[Location, int], unrolled: Collection[Location]) -> int:
        """The copies of the innermost body if the loops in this one are unrolled, too."""
        inside = self._blocks(place)
        nested = {other for other, blocks in self.places if blocks < inside or (blocks > inside and other in unrolled)}
        return candidates[place] * prod(candidates[other] for other in nested if other in candidates)


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
