"""Natural loops of a function: their headers, latches and bodies.

    loops = natural_loops(function.blocks)      [Loop(header=^1, ...)] for `^0: jump ^1; ^1: branch %c ^1() ^2()`
    loops[0].latches                            [^1], whose edges to the header close the loop
    innermost(loops)[block]                     the smallest loop that contains a block

A back edge leads to a block that does not stand later in reverse postorder. The body of a loop holds the blocks from which a
latch is reached without passing the header. Back edges to one header make one loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from cuda_device.ir.nodes import Block, Edge
from cuda_device.lazy_dataclasses import dataclass

Predecessors = dict[Block, list[tuple[Block, Edge]]]


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A natural loop. `entries` are the edges that enter the header from outside, `backs` those that close the loop."""

    header: Block
    blocks: frozenset[Block]
    entries: list[tuple[Block, Edge]]
    backs: list[tuple[Block, Edge]]

    @property
    def latches(self) -> list[Block]:
        """The blocks that lead back to the header."""
        return list(dict.fromkeys(block for block, _ in self.backs))

    def always_runs(self, block: Block) -> bool:
        """Whether each iteration passes through a block of the loop."""
        seen, todo = {block}, [self.header]
        while todo:
            each = todo.pop()
            if each not in seen:
                seen.add(each)
                todo += [edge.block for edge in each.successors if edge.block in self.blocks]
        return block is self.header or not any(latch in seen for latch in self.latches if latch is not block)


def predecessors(blocks: Iterable[Block]) -> Predecessors:
    """The edges into each block, with the blocks that they leave."""
    blocks = list(blocks)
    found: Predecessors = {block: [] for block in blocks}
    for block in blocks:
        for edge in block.successors:
            found[edge.block].append((block, edge))
    return found


def back_edges(blocks: Iterable[Block]) -> list[tuple[Block, Edge]]:
    """The back edges of a function whose blocks are in reverse postorder, each with the block that it leaves."""
    seen: set[Block] = set()
    found = []
    for block in blocks:
        seen.add(block)
        found += [(block, edge) for edge in block.successors if edge.block in seen]
    return found


def natural_loops(blocks: list[Block]) -> list[Loop]:
    """The loops of a function whose blocks are in reverse postorder, in the order in which their first latches stand."""
    backs: dict[Block, list[tuple[Block, Edge]]] = {}
    for block, edge in back_edges(blocks):
        backs.setdefault(edge.block, []).append((block, edge))
    if not backs:
        return []
    before = predecessors(blocks)
    found = []
    for header, closing in backs.items():
        body, todo = {header}, [latch for latch, _ in closing]
        while todo:
            block = todo.pop()
            if block not in body:
                body.add(block)
                todo += [each for each, _ in before[block]]
        entries = [(block, edge) for block, edge in before[header] if block not in body]
        found.append(Loop(header, frozenset(body), entries, closing))
    return found


def innermost(loops: Iterable[Loop]) -> dict[Block, Loop]:
    """For each block that a loop contains, the smallest such loop."""
    found: dict[Block, Loop] = {}
    for loop in loops:
        for block in loop.blocks:
            if block not in found or len(loop.blocks) < len(found[block].blocks):
                found[block] = loop
    return found
