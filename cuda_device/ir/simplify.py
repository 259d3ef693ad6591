"""Simplifies typed IR: removes block parameters that always have one value, and joins blocks that follow each other.

At the python level, blocks get variables whose definitions meet, or all values, through their parameters. Once types are known, a
parameter that gets the same value on every edge is replaced by that value:

    ^0(%n):                                ^0(%n):
      jump ^1(%n, %0)                        jump ^1(%0)
    ^1(%m, %i):                      →     ^1(%i):
      branch … ^1(%m, %j) ^2(%m)             branch … ^1(%j) ^2()
    ^2(%k): return %k                      ^2(): return %n

A typed parameter stays if it is known not to be negative, for example because of a comparison, and its value is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from cuda_device.ir.dominance import back_edges, reverse_postorder, substitute
from cuda_device.ir.nodes import Block, Builder, Edge, Function, Value
from cuda_device.ir.ops import Level


def simplify(function: Function, values: Mapping[Value, Value] = MappingProxyType({})) -> None:
    """Changes the function in place, and replaces `values`."""
    same = dict(values)
    if len(function.blocks) > 1:
        entries: dict[Block, list[Edge]] = {block: [] for block in function.blocks}
        for block in function.blocks:
            for edge in block.successors:
                entries[edge.block].append(edge)
        _drop_parameters(function, entries, same)
        _merge_blocks(function, entries, same)
        function.blocks = reverse_postorder(function.blocks[0])
    if same:
        substitute(function, {value: _final(value, same) for value in same})


def _final(value: Value, same: dict[Value, Value]) -> Value:
    """The value that replaces `value`; compresses the path to it."""
    path = []
    while value in same:
        path.append(value)
        value = same[value]
    for passed in path:
        same[passed] = value
    return value


def _drop_parameters(function: Function, entries: dict[Block, list[Edge]], same: dict[Value, Value]) -> None:
    """Drops each parameter that has the same value on every edge, and adds it to the replacements."""
    users: dict[Value, list[Value]] = {}
    incoming: dict[Value, tuple[Value, ...]] = {}
    for block in function.blocks[1:]:
        edges = entries[block]
        columns = zip(*(edge.arguments for edge in edges), strict=True) if edges else ((),) * len(block.params)
        incoming.update(zip(block.params, columns, strict=True))
    for param, arguments in incoming.items():
        for argument in arguments:
            users.setdefault(_final(argument, same), []).append(param)
    todo = list(incoming)
    while todo:
        param = todo.pop()
        if param in same:
            continue
        only = _only_value(param, incoming[param], same)
        if only is not None and (only.nonneg or not param.nonneg or function.level is Level.DEVICE):
            same[param] = only
            waiting = [user for user in users.pop(param, ()) if user not in same]
            users.setdefault(same[param], []).extend(waiting)
            todo += waiting
    for block in function.blocks[1:]:
        kept = [i for i, param in enumerate(block.params) if param not in same]
        block.params = [block.params[i] for i in kept]
        for edge in entries[block]:
            edge.arguments = [edge.arguments[i] for i in kept]


def _only_value(param: Value, arguments: Iterable[Value], same: dict[Value, Value]) -> Value | None:
    """The only value besides itself that a parameter gets on its edges; None if there are two."""
    only: Value | None = None
    for argument in arguments:
        value = _final(argument, same) if argument in same else argument
        if value is param or value is only:
            continue
        if only is not None:
            return None
        only = value
    return only


def _merge_blocks(function: Function, entries: dict[Block, list[Edge]], same: dict[Value, Value]) -> None:
    """Appends each block with a single predecessor to that block, if it is its only successor."""
    gone: set[Block] = set()
    for block in function.blocks:
        if block in gone:
            continue
        while len(edges := block.successors) == 1 and len(entries[edges[0].block]) == 1:
            (edge,) = edges
            if edge.block is block or edge.block is function.blocks[0]:
                break
            same.update(zip(edge.block.params, edge.arguments, strict=True))
            block.ops.pop()
            block.ops += edge.block.ops
            gone.add(edge.block)
    function.blocks = [block for block in function.blocks if block not in gone]


def join_back_edges(function: Function) -> None:
    """Gives each loop a single back edge, where `continue` created several. The blocks are in reverse postorder.

    LLVM turns several back edges into nested loops, in which threads that take one edge overtake those that take another.
    """
    backs: dict[Block, list[Edge]] = {}
    lasts: dict[Block, Block] = {}
    for block, edge in back_edges(function.blocks):
        backs.setdefault(edge.block, []).append(edge)
        lasts[edge.block] = block
    for head, edges in backs.items():
        if len(edges) > 1:
            joint, arguments = Block(), list(edges[0].arguments)  # arguments that all edges pass need no parameter
            varied = [i for i, value in enumerate(arguments) if any(edge.arguments[i] is not value for edge in edges)]
            for i in varied:
                param = head.params[i]
                arguments[i] = Value(param.type, param.hint, param.nonneg)
                joint.params.append(arguments[i])
            Builder(joint, head.terminator.location).jump(head, *arguments)
            for edge in edges:
                edge.block, edge.arguments = joint, [edge.arguments[i] for i in varied]
            function.blocks.insert(function.blocks.index(lasts[head]) + 1, joint)
