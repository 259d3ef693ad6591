"""Lets threads that wait for each other in a loop take turns on the CPU, where they run one after the other.

A loop that contains an atomic (an operation with `Effect.SPINS`), or a call of a function that does, may run until another
thread does something. Its back edges get a `yield`, which once in a while hands control to the other threads:

    ^1:  %2 = atomic… ; branch %2 ^1 ^2     →     ^1:  %2 = atomic… ; yield ; branch %2 ^1 ^2

Recursive functions, and what they call, are left as they are: they could not be inlined, as what yields must be.
"""

from __future__ import annotations

from cuda_device.ir import call_graph, ops
from cuda_device.ir.dominance import reverse_postorder
from cuda_device.ir.natural_loops import natural_loops
from cuda_device.ir.nodes import Function, Module, Op
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
    """Puts a `yield` before the back edges of each loop that may wait."""
    for loop in natural_loops(reverse_postorder(function.blocks[0])):
        if any(_spins(op, spinning) for block in loop.blocks for op in block.ops):
            for latch in loop.latches:
                if not (latch.ops[-2:-1] and latch.ops[-2].code is ops.YIELD):
                    latch.ops.insert(-1, Op(ops.YIELD, location=latch.terminator.location))


def _spins(op: Op, spinning: set[str]) -> bool:
    return Effect.SPINS in op.code.effects or (op.code is ops.CALL and op.attributes["callee"] in spinning)
