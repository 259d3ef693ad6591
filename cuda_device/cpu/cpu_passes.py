"""Passes for the CPU: loops that yield to other threads, stack checks, thread exits, and inlining of functions that wait.

A loop that contains an atomic (an operation with `Effect.SPINS`), or calls a function that contains one, may wait for another
thread; not for an update whose result nothing uses. Its back edges get a `yield`, which from time to time lets the other threads
run:

    ^1:  %2 = atomic… ; branch %2 ^1 ^2     →     ^1:  %2 = atomic… ; yield ; branch %2 ^1 ^2

Recursive functions, and the functions that they call, get no `yield`, because functions with a `yield` must be inlined. In
checked mode they test the stack instead, because an overflow would crash the process:

    ^0:  …        →      ^0:  %1: bool = room
                              branch %1 ^rest() ^reports()
"""

from __future__ import annotations

from collections import Counter

from cuda_device.extend import ops
from cuda_device.ir import dominance
from cuda_device.ir.dominance import natural_loops, reverse_postorder
from cuda_device.ir.nodes import Block, Builder, Edge, Function, Module, Op, Value
from cuda_device.ir.ops import Effect
from cuda_device.optimise.inlining import inline
from cuda_device.types.model import BOOL, NoneType, Number, Tuple, Type

TOO_DEEP = "the recursion is too deep: the stack is full"


def add_yields(module: Module, at_atomics: bool = False) -> Module:
    """Adds yields to a device-level module and returns it.

    With `at_atomics`, threads also yield before each atomic, where a schedule may delay them.
    """
    dominance.propagate(module, Effect.SPINS)
    spinning = {function.name for function in module.functions if Effect.SPINS in function.effects}
    barred = dominance.in_recursion(module)
    for function in module.functions:
        if function.name not in barred:
            _feed(function, spinning)
            for block in function.blocks if at_atomics else ():
                for op in [op for op in block.ops if Effect.SPINS in op.code.effects]:
                    block.ops.insert(block.ops.index(op), Op(ops.YIELD, [], [], {"now": True}, [], op.location))
    dominance.propagate(module, Effect.SUSPENDS)
    return module


def _feed(function: Function, spinning: set[str]) -> None:
    """Puts a `yield` before the back edges of each loop that may wait."""
    used = dominance.used(function)
    for loop in natural_loops(reverse_postorder(function.blocks[0])):
        if any(_spins(op, spinning, used) for block in loop.blocks for op in block.ops):
            for latch in loop.latches:
                if not (latch.ops[-2:-1] and latch.ops[-2].code is ops.YIELD):
                    latch.ops.insert(-1, Op(ops.YIELD, location=latch.terminator.location))


def _spins(op: Op, spinning: set[str], used: set[Value]) -> bool:
    if op.code is ops.ATOMIC_UPDATE:
        return not used.isdisjoint(op.results)
    return Effect.SPINS in op.code.effects or (op.code is ops.CALL and op.attributes["callee"] in spinning)


def guard_stack(module: Module) -> Module:
    """Adds a test of the stack to the recursive functions of a device-level module, and returns it."""
    places = [op.attributes["place"] for op in module.ops() if "place" in op.attributes]
    for place, name in enumerate(sorted(dominance.in_recursion(module)), max(places, default=0) + 1):
        _guard(module[name], place)
    dominance.propagate(module, Effect.EXITS)
    return module


def _guard(function: Function, place: int) -> None:
    """Makes a function report a stack that is nearly full. The report has the number `place`."""
    entry = function.blocks[0]
    rest, failed = Block(ops=entry.ops), Block()
    location = entry.ops[0].location
    entry.ops = []
    build = Builder(entry, location)
    build.branch(build.op(ops.ROOM, BOOL), Edge(rest, []), Edge(failed, []))
    words = {"status": "check", "message": TOO_DEEP, "help": "write the recursion as a loop", "place": place}
    failed.ops = [Op(ops.REPORT, attributes=words, location=location), Op(ops.EXIT, location=location)]
    function.blocks[1:1] = [failed, rest]


# Exits: the CPU has no instruction that ends a thread
#
# Each function that may exit returns a bool before its result, which is true if the thread has ended; its callers test it and
# exit as well. In the kernel, an exit is a return.
#
#     %2: float32 = call {callee="checked_root"} %x
#                                      →   %3: tuple<bool, float32> = call {callee="checked_root"} %x
#                                          %4: bool = field {index=0} %3


def return_exits(module: Module) -> Module:
    """Makes the functions of a device-level module return whether their thread has ended; returns the module."""
    exiting = {f.name: f for f in module.functions if f is not module.main and Effect.EXITS in f.effects}
    for function in module.functions:
        for block in list(function.blocks):
            _follow_calls(function, block, exiting)
    for function in exiting.values():
        _return_whether_ended(function)
    return module


def _has_result(type: Type) -> bool:
    return not isinstance(type, NoneType) and type != Tuple(())


def _flagged(result: Type) -> Type:
    """The result type with the bool."""
    return Tuple((BOOL, result)) if _has_result(result) else BOOL


def _follow_calls(function: Function, block: Block, exiting: dict[str, Function]) -> None:
    index = 0
    while index < len(block.ops):
        op = block.ops[index]
        callee = exiting.get(op.attributes["callee"]) if op.code is ops.CALL else None
        if callee is None:
            index += 1
            continue
        block = _split(function, block, index, callee.result)
        index = 0


def _split(function: Function, block: Block, index: int, result: Type) -> Block:
    """Ends `block` behind the call `block.ops[at]`; returns the block that follows."""
    call = block.ops[index]
    ended, after = Block(), Block([], block.ops[index + 1 :])
    del block.ops[index:]
    build = Builder(block, call.location)
    flagged = Value(_flagged(result))
    build.append(Op(ops.CALL, call.operands, [flagged], call.attributes, [], call.location))
    flag = flagged
    if _has_result(result):
        flag = build.op(ops.FIELD, BOOL, flagged, index=0)
        after.ops.insert(0, Op(ops.FIELD, [flagged], list(call.results), {"index": 1}, [], call.location))
    build.branch(flag, Edge(ended, []), Edge(after, []))
    ended.ops.append(Op(ops.EXIT, location=call.location))
    position = function.blocks.index(block) + 1
    function.blocks[position:position] = [ended, after]
    return after


def _return_whether_ended(function: Function) -> None:
    result = function.result
    function.result = _flagged(result)
    for block in function.blocks:
        end = block.terminator
        if end.code not in (ops.RETURN, ops.EXIT):
            continue
        del block.ops[-1]
        build = Builder(block, end.location)
        flag = build.const(BOOL, end.code is ops.EXIT)
        if not _has_result(result):
            build.return_(flag)
            continue
        value = end.operands[0] if end.operands else _nothing(build, result)
        build.return_(build.op(ops.MAKE, function.result, flag, value))


def _nothing(build: Builder, type: Type) -> Value:
    """An arbitrary value of a type, for a caller that ignores it."""
    if isinstance(type, Tuple):
        return build.op(ops.MAKE, type, *(_nothing(build, element) for element in type.elements))
    return build.const(type, False if type == BOOL else 0.0 if isinstance(type, Number) and type.is_float else 0)


# Inlining: the CPU stream divides only the kernel's own body into regions, so functions that wait are inlined into it.


def inline_suspending(module: Module) -> Module:
    """Inlines all functions that wait. Recursion that waits is a `CompileError`."""
    return inline(module, {f.name for f in module.functions if Effect.SUSPENDS in f.effects})


def inline_traced(module: Module) -> Module:
    """Inlines those of our own functions that have events for the race detector, whose place then is the user's call."""
    dominance.propagate(module, Effect.WRITES)
    kept = dominance.in_recursion(module)
    traced = {f.name for f in module.functions if f.location.is_ours and Effect.WRITES in f.effects}
    return inline(module, traced - kept)


def inline_loops(module: Module) -> Module:
    """The module with those functions gone that contain loops and that the kernel alone calls, once.

    As loops of the kernel they may be exchanged with those over threads (`cpu/uniform`).
    """
    calls = Counter(op.attributes["callee"] for f in module.functions for op in f.ops() if op.code is ops.CALL)
    called_by_kernel = {op.attributes["callee"] for op in module.main.ops() if op.code is ops.CALL}
    once = (f for f in module.functions if f.name in called_by_kernel and calls[f.name] == 1)
    return inline(module, {f.name for f in once if dominance.back_edges(reverse_postorder(f.blocks[0]))})
