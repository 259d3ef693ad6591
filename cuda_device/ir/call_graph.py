"""Who calls whom: `recursive({"even": {"odd"}, "odd": {"even"}, "k": {"odd"}})  ->  {"even", "odd"}`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cuda_device.ir import ops
from cuda_device.ir.nodes import Function, Module
from cuda_device.ir.op_def import Effect

Calls = Mapping[str, Collection[str]]
"""What each function calls; what is not among them calls nothing."""


def reached(calls: Calls) -> dict[str, set[str]]:
    """The functions that each one calls, directly or not."""
    return {name: reached_from(calls, name) for name in calls}


def recursive(calls: Calls) -> set[str]:
    """The functions that come to call themselves."""
    return {name for name, found in reached(calls).items() if name in found}


def reached_from(calls: Calls, name: str) -> set[str]:
    """The functions that one calls, directly or not."""
    found: set[str] = set()
    todo = [name]
    while todo:
        fresh = set(calls.get(todo.pop(), ())) - found
        found |= fresh
        todo += fresh
    return found


def callees(function: Function) -> set[str]:
    """The functions that a function calls itself."""
    return {str(op.attributes["callee"]) for op in function.ops() if op.code is ops.CALL}


def in_recursion(module: Module) -> set[str]:
    """The functions that come to call themselves, and all that those call."""
    found = reached({function.name: callees(function) for function in module.functions})
    loops = {name for name, called in found.items() if name in called}
    return loops.union(*(found[name] for name in loops))


def propagate(module: Module, effects: Effect = Effect.PURE) -> None:
    """What a function does is what its callees do, too; and of `effects` what its operations do."""
    called = {function.name: callees(function) for function in module.functions}
    does = {function.name: function.effects for function in module.functions}
    for function in module.functions if effects else ():
        for op in function.ops():
            does[function.name] |= op.code.effects & effects
    changed = True
    while changed:
        changed = False
        for name, names in called.items():
            for callee in names:
                changed |= bool(does[callee] & ~does[name])
                does[name] |= does[callee]
    for function in module.functions:
        function.effects = does[function.name]
