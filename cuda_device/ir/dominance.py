"""Analyses of functions: dominance, natural loops, definitions and uses, and the call graph.

    reverse_postorder(entry)                   [entry, branch, …, join]
    dominators(entry)[join]                    branch, the last such block before it
    dominates(branch, join, dominators(entry)) True

None of these contains unreachable blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TypeVar

from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Module, Op, Value
from cuda_device.ir.ops import Effect, Level
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types.model import Number

T = TypeVar("T", bound=Hashable)
_BLOCKS = attrgetter("blocks")


def reverse_postorder(entry: Block) -> list[Block]:
    """The reachable blocks in reverse postorder: each block comes after the blocks that dominate it."""
    return topological(entry, lambda block: [edge.block for edge in block.successors])


def topological(entry: T, following: Callable[[T], Iterable[T]]) -> list[T]:
    """The nodes of a graph in reverse postorder."""
    order: list[T] = []
    seen = {entry}
    stack = [(entry, iter(following(entry)))]
    while stack:
        node, rest = stack[-1]
        fresh = next((successor for successor in rest if successor not in seen), None)
        if fresh is None:
            order.append(node)
            stack.pop()
        else:
            seen.add(fresh)
            stack.append((fresh, iter(following(fresh))))
    return order[::-1]


def dominators(entry: Block) -> dict[Block, Block]:
    """The immediate dominator of each reachable block except the entry."""
    order = reverse_postorder(entry)
    before: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for edge in block.successors:
            before[edge.block].append(block)
    return immediate_dominators(order, before)


def immediate_dominators(order: Sequence[T], before: Mapping[T, Sequence[T]]) -> dict[T, T]:
    """The immediate dominators in a graph that is in reverse postorder, from the predecessors `before` each node."""
    positions = {node: number for number, node in enumerate(order)}
    parents = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            nearest: T | None = None
            for predecessor in before[node]:
                if predecessor in parents:
                    nearest = predecessor if nearest is None else _common(nearest, predecessor, parents, positions)
            if nearest is not None and (node not in parents or parents[node] != nearest):
                parents[node] = nearest
                changed = True
    del parents[order[0]]
    return parents


def _common(a: T, b: T, parents: Mapping[T, T], positions: Mapping[T, int]) -> T:
    while a != b:
        if positions[a] < positions[b]:
            a, b = b, a
        a = parents[a]
    return a


def dominates(above: Block, block: Block, dominators: Mapping[Block, Block]) -> bool:
    """Whether `above` dominates a reachable block, or is that block."""
    ancestor: Block | None = block
    while ancestor is not None and ancestor is not above:
        ancestor = dominators.get(ancestor)
    return ancestor is above


# Natural loops. A back edge leads to a block that does not stand later in reverse postorder. The body of a loop holds the blocks
# from which a latch is reached without passing the header. Back edges to one header make one loop.


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

    @property
    def ends_at_header(self) -> bool:
        """Whether only the header has edges that leave the loop."""
        return all(edge.block in self.blocks for block in self.blocks - {self.header} for edge in block.successors)

    def always_runs(self, block: Block) -> bool:
        """Whether each iteration passes through a block of the loop."""
        seen, todo = {block}, [self.header]
        while todo:
            inner = todo.pop()
            if inner not in seen:
                seen.add(inner)
                todo += [edge.block for edge in inner.successors if edge.block in self.blocks]
        return block is self.header or not any(latch in seen for latch in self.latches if latch is not block)


def predecessors(blocks: Sequence[Block]) -> Predecessors:
    """The edges into each block, with the blocks that they leave."""
    entries: Predecessors = {block: [] for block in blocks}
    for block in blocks:
        for edge in block.successors:
            entries[edge.block].append((block, edge))
    return entries


def back_edges(blocks: Iterable[Block]) -> list[tuple[Block, Edge]]:
    """The back edges of a function whose blocks are in reverse postorder, each with the block that it leaves."""
    seen: set[Block] = set()
    edges = []
    for block in blocks:
        seen.add(block)
        for edge in block.successors:
            if edge.block in seen:
                edges.append((block, edge))  # noqa: PERF401  # a comprehension would be a call for each block
    return edges


def has_loops(module: Module) -> bool:
    """Whether any function of a module, whose blocks are in reverse postorder, has a loop."""
    return any(map(back_edges, map(_BLOCKS, module.functions)))


def natural_loops(blocks: list[Block]) -> list[Loop]:
    """The loops of a function whose blocks are in reverse postorder, in the order in which their first latches stand."""
    backs: dict[Block, list[tuple[Block, Edge]]] = {}
    for block, edge in back_edges(blocks):
        backs.setdefault(edge.block, []).append((block, edge))
    if not backs:
        return []
    before = predecessors(blocks)
    loops = []
    for header, closing in backs.items():
        body, todo = {header}, [latch for latch, _ in closing]
        while todo:
            block = todo.pop()
            if block not in body:
                body.add(block)
                todo += [predecessor for predecessor, _ in before[block]]
        entries = [(block, edge) for block, edge in before[header] if block not in body]
        loops.append(Loop(header, frozenset(body), entries, closing))
    return loops


def innermost(loops: Iterable[Loop]) -> dict[Block, Loop]:
    """For each block that a loop contains, the smallest such loop."""
    loops_by_block: dict[Block, Loop] = {}
    for loop in loops:
        for block in loop.blocks:
            if block not in loops_by_block or len(loop.blocks) < len(loops_by_block[block].blocks):
                loops_by_block[block] = loop
    return loops_by_block


# The call graph: `recursive({"even": {"odd"}, "odd": {"even"}, "k": {"odd"}})` is `{"even", "odd"}`.


Calls = Mapping[str, Collection[str]]
"""The direct callees of each function; a function that is missing calls nothing."""


def recursive(calls: Calls) -> set[str]:
    """The functions that call themselves, directly or not."""
    return {name for name in calls if name in reached_from(calls, name)}


def reached_from(calls: Calls, name: str) -> set[str]:
    """The functions that a function calls, directly or not."""
    names: set[str] = set()
    todo = [name]
    while todo:
        fresh = set(calls.get(todo.pop(), ())) - names
        names |= fresh
        todo += fresh
    return names


def callees(function: Function) -> set[str]:
    """The direct callees of a function."""
    return {op.attributes["callee"] for op in function.ops() if op.code is ops.CALL}


def _all_callees(module: Module) -> dict[str, set[str]]:
    calls = {function.name: callees(function) for function in module.functions}
    return {name: reached_from(calls, name) for name in calls}


def in_recursion(module: Module) -> set[str]:
    """The functions that call themselves, directly or not, and all their callees."""
    reached = _all_callees(module)
    return set().union(*(called for name, called in reached.items() if name in called))


def propagate(module: Module, effects: Effect = Effect.PURE) -> None:
    """Adds to the effects of each function those of its callees and, of `effects`, those of its operations."""
    does = {function.name: function.effects for function in module.functions}
    for function in module.functions if effects else ():
        for op in function.ops():
            does[function.name] |= op.code.effects & effects
    called = _all_callees(module)
    for function in module.functions:
        for name in (function.name, *(called[function.name] & does.keys())):
            function.effects |= does[name]


# Definitions and uses


Term = tuple[Value, int]
"""A part of a sum, and 1 or -1."""

_MOST_TERMS = 16


class Definitions:
    """The operations that define the values of a function (`makers`); parameters of blocks have none."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.makers = {op.results[0]: op for op in function.ops() if len(op.results) == 1}

    @cached_property
    def homes(self) -> dict[Value, Block]:
        """The block that defines each value."""
        return _homes(self.function)

    def constant(self, value: Value) -> int | None:
        """The value of an integer constant, perhaps converted; None for any other value."""
        maker = self.makers.get(value)
        while maker is not None and maker.code is ops.CONVERT and keeps(maker):
            maker = self.makers.get(maker.operands[0])
        constant = maker.attributes["value"] if maker is not None and maker.code is ops.CONST else None
        return constant if isinstance(constant, int) else None

    def terms(self, value: Value) -> list[Term]:
        """The terms whose exact sum a number is: `[(%n, 1), (%one, -1)]` for %n - 1. Long sums are not divided completely."""
        terms, todo = list[Term](), [(value, 1)]
        while todo:
            value, sign = todo.pop()
            maker = self.makers.get(value)
            if maker is not None and maker.code is ops.CONVERT and keeps(maker):
                todo.append((maker.operands[0], sign))
            elif (
                maker is not None
                and maker.code in (ops.ADD, ops.SUB)
                and maker.attributes.get("exact")
                and len(terms) + len(todo) < _MOST_TERMS
            ):
                a, b = maker.operands
                todo += [(b, sign if maker.code is ops.ADD else -sign), (a, sign)]
            else:
                terms.append((value, sign))
        return terms


def _homes(function: Function) -> dict[Value, Block]:
    homes: dict[Value, Block] = {}
    for block in function.blocks:
        homes.update(dict.fromkeys(block.params, block))
        for op in block.ops:
            homes.update(dict.fromkeys(op.results, block))
    return homes


class SharedValues:
    """The values that one block defines and others use.

    `defined` and `used` are those of each block, and `users` the blocks that use each value.
    """

    def __init__(self, function: Function) -> None:
        self.defined: dict[Block, list[Value]] = {}
        self.used: dict[Block, list[Value]] = {}
        self.users: dict[Value, list[Block]] = {}
        homes = _homes(function)
        for block in function.blocks:
            values: dict[Value, None] = {}
            for op in block.ops:
                values |= dict.fromkeys(op.operands)
                for edge in op.successors:
                    values |= dict.fromkeys(edge.arguments)
            self.used[block] = used = [value for value in values if homes[value] is not block]
            for value in used:
                self.users.setdefault(value, []).append(block)
        for value in self.users:
            self.defined.setdefault(homes[value], []).append(value)


def keeps(conversion: Op) -> bool:
    """Whether the result of a conversion of integers is always equal to its operand."""
    ((operand,), result) = conversion.operands, conversion.result
    source, target = operand.type, result.type
    assert isinstance(source, Number) and isinstance(target, Number)
    if not (source.is_integer and target.is_integer):
        return False
    has_room = (operand.nonneg or target.low <= source.low) and target.high >= source.high
    return has_room or bool(conversion.attributes.get("exact"))


def ends_with_check(block: Block) -> bool:
    """Whether a block ends with a check of checked mode, which branches to a report if it fails."""
    end = block.terminator
    return end.code is ops.BRANCH and end.successors[1].block.ops[0].attributes.get("status") == "check"


def used(function: Function) -> set[Value]:
    """The values that are operands of operations or arguments of edges."""
    values: set[Value] = set()
    for op in function.ops():
        values.update(op.operands)
        for edge in op.successors:
            values.update(edge.arguments)
    return values


def substitute(function: Function, values: Mapping[Value, Value]) -> None:
    """Replaces operands and arguments of edges."""
    for op in function.ops():
        if not values.keys().isdisjoint(op.operands):
            op.operands = [values.get(value, value) for value in op.operands]
        for edge in op.successors:
            edge.arguments = [values.get(value, value) for value in edge.arguments]


def drop_unused(function: Function, values: set[Value]) -> None:
    """Drops the operations that define these values, unless something uses the values."""
    values = values - used(function) if values else values
    if values:
        for block in function.blocks:
            block.ops = [op for op in block.ops if not values.intersection(op.results)]


def drop_dead(function: Function) -> None:
    """Drops all operations without effects whose results nothing uses."""
    size = -1
    while size != (size := sum(len(block.ops) for block in function.blocks)):
        removable = (op for op in function.ops() if op.code is not ops.CALL and not op.code.effects & ~Effect.READS)
        drop_unused(function, {result for op in removable for result in op.results})


def copied_blocks(blocks: Iterable[Block]) -> dict[Block, Block]:
    """Copies of blocks that branch to each other only, with operations of their own; values are shared."""
    copies = {block: Block(list(block.params)) for block in blocks}
    for old, new in copies.items():
        for op in old.ops:
            edges = [Edge(copies[edge.block], list(edge.arguments)) for edge in op.successors]
            new.ops.append(replace(op, operands=list(op.operands), attributes=dict(op.attributes), successors=edges))
    return copies


def renamed_blocks(blocks: Iterable[Block], values: Mapping[Value, Value]) -> dict[Block, Block]:
    """The same, with values of their own; `values` are the substitutes of some that are given."""
    copies, names = copied_blocks(blocks), dict(values)
    for block in copies.values():
        for value in (*block.params, *(value for op in block.ops for value in op.results)):
            names.setdefault(value, Value(value.type, value.hint, value.nonneg))
        block.params = [names[value] for value in block.params]
        for op in block.ops:
            op.results = [names[value] for value in op.results]
    substitute(Function("", [*copies.values()], Level.DEVICE), names)
    return copies
