"""Inlines, at the device level, every call of a function that may suspend.

The CPU stream makes a coroutine of the kernel alone: only in the kernel's own body can a thread wait.

    %2 = call {callee="wait_and_add"} %0      →      the blocks of wait_and_add, with its returns as jumps
"""

from __future__ import annotations

from collections.abc import Container

from cuda_device.errors import CompileError, Location
from cuda_device.ir import dominance, ops
from cuda_device.ir.nodes import Block, Edge, Function, Module, Op, Value
from cuda_device.ir.ops import Effect
from cuda_device.lazy_dataclasses import dataclass


def run(module: Module) -> Module:
    """The module with suspending callees gone; changes its functions. Recursion that suspends is a `CompileError`."""
    for function in module.functions:
        _expand(module, function, (function.name,))
    kept = [f for f in module.functions if f is module.main or Effect.SUSPENDS not in f.effects]
    return Module(kept)


def run_ours(module: Module) -> Module:
    """The module of checked mode with those of our own functions gone that may end their thread.

    What our own Python found wrong, such as the function behind `x[i][:]`, is told of the user's line:

        call {callee="place"} %i %n        at kernel.py:7      →      its blocks, all of them at kernel.py:7
    """
    dominance.propagate(module, Effect.EXITS)
    ours = {f.name for f in module.functions if f.location.is_ours and Effect.EXITS in f.effects}
    for function in module.functions:
        if function.name not in ours:
            _expand_own(module, function, ours)
    return Module([function for function in module.functions if function.name not in ours])


def _expand_own(module: Module, function: Function, own: Container[str]) -> None:
    blocks = list(function.blocks)
    while blocks:
        block = blocks.pop()
        for at, op in enumerate(block.ops):
            if op.code is ops.CALL and op.attributes["callee"] in own:
                callee = module[str(op.attributes["callee"])]
                _expand_own(module, callee, own)
                blocks.append(_inline(function, block, at, callee))
                break


def _expand(module: Module, function: Function, stack: tuple[str, ...]) -> None:
    """Inlines into `function`; `stack` names the functions that wait for it."""
    blocks = list(function.blocks)
    while blocks:
        block = blocks.pop()
        for at, op in enumerate(block.ops):
            if op.code is ops.CALL and Effect.SUSPENDS in module[str(op.attributes["callee"])].effects:
                callee = module[str(op.attributes["callee"])]
                if callee.name in stack:
                    raise CompileError(
                        f"{callee.shown} calls itself and waits for other threads",
                        op.location,
                        "write the recursion as a loop, or move the barrier out of it",
                    )
                _expand(module, callee, (*stack, callee.name))
                blocks.append(_inline(function, block, at, callee))
                break


# Beyond so many blocks a function is refused: each call of a function that waits is a copy of it.
_BLOCKS = 50_000


def _inline(function: Function, block: Block, at: int, callee: Function) -> Block:
    """Replaces the call `block.ops[at]`; returns the block that goes on after it."""
    call = block.ops[at]
    if len(function.blocks) + len(callee.blocks) > _BLOCKS:
        raise CompileError(
            f"{function.shown} is too large once the functions that wait for other threads are part of it",
            call.location,
            "call them in a loop, or take the barrier out of them",
        )
    after = Block(list(call.results), block.ops[at + 1 :])
    copy = _InlinedCopy({}, {old: Block() for old in callee.blocks}, call.location)
    for old, new in copy.blocks.items():
        copy.fill(old, new, after)
    del block.ops[at:]
    block.ops.append(
        Op(ops.JUMP, successors=[Edge(copy.blocks[callee.blocks[0]], list(call.operands))], location=call.location)
    )
    if callee.blocks and not any(op.code is ops.RETURN and op.operands for op in callee.ops()):
        after.params = []
        if call.results and any(value in call.results for op in function.ops() for value in op.operands):
            raise AssertionError("a call's missing result is used")
    position = function.blocks.index(block) + 1
    function.blocks[position:position] = [*copy.blocks.values(), after]
    return after


@dataclass(slots=True)
class _InlinedCopy:
    """A copy of a function's blocks under new names. What is in our own Python stands where the user called it."""

    values: dict[Value, Value]
    blocks: dict[Block, Block]
    call: Location

    def value(self, old: Value) -> Value:
        if old not in self.values:
            self.values[old] = Value(old.type, old.hint, old.nonneg)
        return self.values[old]

    def fill(self, old: Block, new: Block, after: Block) -> None:
        new.params = [self.value(param) for param in old.params]
        for op in old.ops:
            operands = [self.value(operand) for operand in op.operands]
            location = self.call if op.location.is_ours else op.location
            if op.code is ops.RETURN:
                new.ops.append(Op(ops.JUMP, successors=[Edge(after, operands)], location=location))
                continue
            results = [self.value(result) for result in op.results]
            edges = [Edge(self.blocks[e.block], [self.value(a) for a in e.arguments]) for e in op.successors]
            new.ops.append(Op(op.code, operands, results, dict(op.attributes), edges, location))
