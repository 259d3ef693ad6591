"""Whether LLVM's loop strength reduction is to run for a program: not where inner loops begin with what outer ones change.

    for d in range(…):
        for i in range(d, n):          i begins with d: no strength reduction
            … x[i] …

LLVM makes induction variables for the addresses of an innermost loop. Where such a variable begins with something that the loop
around it changes, the outer loop gets an induction variable for it, too. The outer loop becomes longer by more than the inner one
becomes shorter, and ptxas, which sees few registers left then, reads `%tid.x` anew in each iteration, which everything else waits
for. Without that, loops share what unrolled iterations have in common of their addresses, which saves much: so it runs elsewhere.

A Needleman-Wunsch takes 1.22 times as long with strength reduction. Other nests take 0.97 to 1.05 times as long without it.
"""

from __future__ import annotations

from cuda_device.ir.natural_loops import Loop, natural_loops
from cuda_device.ir.nodes import Function, Module, Value
from cuda_device.ir.uses import Definitions
from cuda_device.optimise.invariants import Invariants
from cuda_device.types.model import Number


def pays(module: Module) -> bool:
    """Whether LLVM is to reduce the strength of a module of the device level."""
    return not any(map(_has_dependent_nest, module.functions))


def _has_dependent_nest(function: Function) -> bool:
    loops = natural_loops(function.blocks)
    if len(loops) < 2:
        return False
    invariants = Invariants(Definitions(function))
    return any(
        inner is not outer and inner.header in outer.blocks and _begins_with_what_changes(inner, outer, invariants)
        for inner in loops
        for outer in loops
    )


def _begins_with_what_changes(inner: Loop, outer: Loop, invariants: Invariants) -> bool:
    return any(
        bool(invariants.split(edge.arguments[place], outer)[1])
        for place, param in enumerate(inner.header.params)
        if _is_counter(param, place, inner, invariants)
        for _, edge in inner.entries
    )


def _is_counter(param: Value, place: int, loop: Loop, invariants: Invariants) -> bool:
    """Whether a loop adds to an integer, on each back edge, only what it leaves alone."""
    if not (isinstance(param.type, Number) and param.type.is_integer):
        return False
    for _, edge in loop.backs:
        terms = invariants.definitions.terms(edge.arguments[place])
        if (param, 1) not in terms:
            return False
        terms.remove((param, 1))
        if any(invariants.split(value, loop)[1] for value, _ in terms):
            return False
    return True
