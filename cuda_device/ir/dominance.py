"""Which blocks every way to a block leads through (Cooper, Harvey and Kennedy, 2001), and an order in which they come first.

    reverse_postorder(entry)                   [entry, branch, …, join]
    dominators(entry)[join]                    branch, the last such block before it
    Tree(entry).contains(branch, join)         True

Blocks that cannot be reached are in none of these.
"""

from __future__ import annotations

from cuda_device.ir.nodes import Block


def reverse_postorder(entry: Block) -> list[Block]:
    """The blocks that can be reached: each, but for loops, after those that lead to it, so after what dominates it."""
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(entry.successors))]
    while stack:
        block, edges = stack[-1]
        following = next((edge.block for edge in edges if edge.block not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(following.successors)))
    return order[::-1]


def dominators(entry: Block) -> dict[Block, Block]:
    """For each block that can be reached, but for the first, the last block before it through which all ways to it lead."""
    order = reverse_postorder(entry)
    places = {block: number for number, block in enumerate(order)}
    before: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for edge in block.successors:
            before[edge.block].append(block)
    found = {entry: entry}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            nearest: Block | None = None
            for each in before[block]:
                if each in found:
                    nearest = each if nearest is None else _common(nearest, each, found, places)
            if nearest is not None and found.get(block) is not nearest:
                found[block] = nearest
                changed = True
    del found[entry]
    return found


def _common(a: Block, b: Block, found: dict[Block, Block], places: dict[Block, int]) -> Block:
    while a is not b:
        if places[a] < places[b]:
            a, b = b, a
        a = found[a]
    return a


class Tree:
    """The blocks below those through which all ways to them lead, numbered so that one question is one comparison."""

    def __init__(self, entry: Block) -> None:
        below: dict[Block, list[Block]] = {}
        for block, above in dominators(entry).items():
            below.setdefault(above, []).append(block)
        self._begin: dict[Block, int] = {}
        self._end: dict[Block, int] = {}
        todo = [(entry, False)]
        while todo:
            block, is_done = todo.pop()
            if is_done:
                self._end[block] = len(self._begin)
            else:
                self._begin[block] = len(self._begin)
                todo.append((block, True))
                todo += [(each, False) for each in below.get(block, ())]

    def reaches(self, block: Block) -> bool:
        """Whether there is a way to a block."""
        return block in self._begin

    def contains(self, above: Block, block: Block) -> bool:
        """Whether all ways to a block that can be reached lead through another one, or it is that one."""
        return above in self._begin and self._begin[above] <= self._begin[block] < self._end[above]
