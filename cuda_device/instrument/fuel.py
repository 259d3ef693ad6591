"""Lets threads that wait for each other in a loop take turns on the CPU, where they run one after the other.

A loop that contains an atomic (an operation with `Effect.SPINS`), or a call of a function that does, may run until another
thread does something. Its way back gets a `yield`, which once in a while hands control to the other threads:

    ^1:  %2 = atomic… ; branch %2 ^1 ^2     →     ^1:  %2 = atomic… ; yield ; branch %2 ^1 ^2

Recursive functions, and what they call, are left as they are: they could not be inlined, as what yields must be.
"""

from __future__ import annotations

from cuda_device.ir import call_graph, ops
from cuda_device.ir.nodes import Block, Function, Module, Op
from cuda_device.ir.ops import Effect


def run(module: Module) -> Module:
    """Changes the functions of a device-level module, before `inline`, and returns it."""
    spinning = _closure(module, {f.name for f in module.functions if _has(f.ops(), Effect.SPINS)})
    barred = in_recursion(module)
    for function in module.functions:
        if function.name not in barred:
            _feed(function, spinning)
    suspending = _closure(module, {f.name for f in module.functions if _has(f.ops(), Effect.SUSPENDS)})
    for function in module.functions:
        if function.name in suspending:
            function.effects |= Effect.SUSPENDS
    return module


def _has(operations: object, effect: Effect) -> bool:
    return any(effect in op.code.effects for op in operations)  # type: ignore[attr-defined]


def _callees(function: Function) -> set[str]:
    return {str(op.attributes["callee"]) for op in function.ops() if op.code is ops.CALL}


def _closure(module: Module, names: set[str]) -> set[str]:
    """The functions in `names`, and all that call one of them, directly or not."""
    found = set(names)
    callees = {function.name: _callees(function) for function in module.functions}
    while more := {name for name, called in callees.items() if name not in found and called & found}:
        found |= more
    return found


def in_recursion(module: Module) -> set[str]:
    """The functions that call themselves, and all that those call."""
    reached = call_graph.reached({function.name: _callees(function) for function in module.functions})
    recursive = {name for name, found in reached.items() if name in found}
    return recursive.union(*(reached[name] for name in recursive))


def _feed(function: Function, spinning: set[str]) -> None:
    """Puts a `yield` before the way back of each loop that may wait."""
    entries: dict[Block, list[Block]] = {block: [] for block in function.blocks}
    for block in function.blocks:
        for edge in block.successors:
            entries[edge.block].append(block)
    for latch, header in _ways_back(function):
        body = _body(latch, header, entries)
        if any(_spins(op, spinning) for block in body for op in block.ops):
            end = latch.terminator
            if latch.ops[-2:-1] and latch.ops[-2].code is ops.YIELD:
                continue
            latch.ops.insert(-1, Op(ops.YIELD, location=end.location))


def _spins(op: Op, spinning: set[str]) -> bool:
    return Effect.SPINS in op.code.effects or (op.code is ops.CALL and op.attributes["callee"] in spinning)


def _ways_back(function: Function) -> list[tuple[Block, Block]]:
    """The edges that close loops: those to a block whose own visit is not over yet in a walk, depth first."""
    found = []
    entry = function.blocks[0]
    seen, open_ = {entry}, {entry}
    stack = [(entry, iter([edge.block for edge in entry.successors]))]
    while stack:
        block, successors = stack[-1]
        following = next(successors, None)
        if following is None:
            open_.discard(block)
            stack.pop()
        elif following in open_:
            found.append((block, following))
        elif following not in seen:
            seen.add(following)
            open_.add(following)
            stack.append((following, iter([edge.block for edge in following.successors])))
    return found


def _body(latch: Block, header: Block, entries: dict[Block, list[Block]]) -> set[Block]:
    """The blocks of a loop: those that lead to its way back without passing its header."""
    body = {header, latch}
    todo = [latch] if latch is not header else []
    while todo:
        for block in entries[todo.pop()]:
            if block not in body:
                body.add(block)
                todo.append(block)
    return body
