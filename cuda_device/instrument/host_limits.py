"""What a GPU does by itself and the CPU does not: threads that wait in a loop take turns, and a full stack is reported.

A loop that contains an atomic (an operation with `Effect.SPINS`), or a call of a function that does, may run until another
thread does something. Its back edges get a `yield`, which once in a while hands control to the other threads:

    ^1:  %2 = atomic… ; branch %2 ^1 ^2     →     ^1:  %2 = atomic… ; yield ; branch %2 ^1 ^2

Recursive functions, and what they call, are left as they are: they could not be inlined, as what yields must be. In checked
mode they look at the stack instead, where the process would end without a word:

    ^0:  …        →      ^0:  %1: bool = room
                              branch %1 ^rest() ^reports()
"""

from __future__ import annotations

from cuda_device.ir import call_graph, ops
from cuda_device.ir.dominance import reverse_postorder
from cuda_device.ir.natural_loops import natural_loops
from cuda_device.ir.nodes import Block, Builder, Edge, Function, Module, Op
from cuda_device.ir.ops import Effect
from cuda_device.types.model import BOOL

TOO_DEEP = "the recursion is too deep: the stack is full"


def add_yields(module: Module) -> Module:
    """Changes the functions of a device-level module, before `inline`, and returns it."""
    call_graph.propagate(module, Effect.SPINS)
    spinning = {function.name for function in module.functions if Effect.SPINS in function.effects}
    barred = call_graph.in_recursion(module)
    for function in module.functions:
        if function.name not in barred:
            _feed(function, spinning)
    call_graph.propagate(module, Effect.SUSPENDS)
    return module


def _feed(function: Function, spinning: set[str]) -> None:
    """Puts a `yield` before the back edges of each loop that may wait."""
    for loop in natural_loops(reverse_postorder(function.blocks[0])):
        if any(_spins(op, spinning) for block in loop.blocks for op in block.ops):
            for latch in loop.latches:
                if not (latch.ops[-2:-1] and latch.ops[-2].code is ops.YIELD):
                    latch.ops.insert(-1, Op(ops.YIELD, location=latch.terminator.location))


def _spins(op: Op, spinning: set[str]) -> bool:
    return Effect.SPINS in op.code.effects or (op.code is ops.CALL and op.attributes["callee"] in spinning)


def guard_stack(module: Module) -> Module:
    """Changes the functions of a device-level module that may call themselves, and returns it."""
    places = [int(str(op.attributes["place"])) for f in module.functions for op in f.ops() if "place" in op.attributes]
    for place, name in enumerate(sorted(call_graph.in_recursion(module)), max(places, default=0) + 1):
        _guard(module[name], place)
    call_graph.propagate(module, Effect.EXITS)
    return module


def _guard(function: Function, place: int) -> None:
    """Lets a function report at its beginning when the stack is nearly full. The report has the number `place`."""
    entry = function.blocks[0]
    rest, failed = Block(ops=entry.ops), Block()
    location = entry.ops[0].location
    entry.ops = []
    build = Builder(entry, location)
    build.branch(build.op(ops.ROOM, BOOL), Edge(rest, []), Edge(failed, []))
    words = {"status": "check", "message": TOO_DEEP, "help": "write the recursion as a loop", "place": place}
    failed.ops = [Op(ops.REPORT, attributes=words, location=location), Op(ops.EXIT, location=location)]
    function.blocks[1:1] = [failed, rest]
