"""Inlines functions of a device-level module into their callers.

call {callee="place"} %i %n        at kernel.py:7      →      its blocks, all of them at kernel.py:7
"""

from __future__ import annotations

from collections.abc import Container

from cuda_device.errors import CompileError
from cuda_device.ir import dominance, ops
from cuda_device.ir.nodes import Block, Edge, Function, Module, Op, Value
from cuda_device.ir.ops import Effect


def inline_ours(module: Module) -> Module:
    """Inlines those of our own functions that may end their thread, in checked mode.

    Errors that our own Python finds, such as in the function behind `x[i][:]`, thus have the user's line.
    """
    dominance.propagate(module, Effect.EXITS)
    return inline(module, {f.name for f in module.functions if f.location.is_ours and Effect.EXITS in f.effects})


def inline(module: Module, names: Container[str]) -> Module:
    """The module without these functions, except the main one: their blocks replace their calls."""
    kept = [function for function in module.functions if function is module.main or function.name not in names]
    for function in kept:
        _expand(module, function, names, (function.name,))
    return Module(kept)


def _expand(module: Module, function: Function, names: Container[str], stack: tuple[str, ...]) -> None:
    """Inlines into `function`; `stack` names the functions that are being expanded."""
    blocks = list(function.blocks)
    while blocks:
        block = blocks.pop()
        for index, op in enumerate(block.ops):
            if op.code is ops.CALL and op.attributes["callee"] in names:
                callee = module[op.attributes["callee"]]
                if callee.name in stack:
                    raise CompileError(
                        f"{callee.shown} calls itself and waits for other threads",
                        op.location,
                        "write the recursion as a loop, or move the barrier out of it",
                    )
                _expand(module, callee, names, (*stack, callee.name))
                blocks.append(_inline(function, block, index, callee))
                break


_BLOCKS = 50_000
"""The maximum number of blocks of a function; each call of a function that waits is a copy of it."""


def _inline(function: Function, block: Block, index: int, callee: Function) -> Block:
    """Replaces the call `block.ops[at]`; returns the block that follows it.

    Operations of our own Python get the location of the call.
    """
    call = block.ops[index]
    if len(function.blocks) + len(callee.blocks) > _BLOCKS:
        raise CompileError(
            f"{function.shown} is too large once the functions that wait for other threads are part of it",
            call.location,
            "call them in a loop, or take the barrier out of them",
        )
    after = Block(list(call.results), block.ops[index + 1 :])
    entry, arguments, values = callee.blocks[0], list(call.operands), dict[Value, Value]()
    if all(edge.block is not entry for inner in callee.blocks for edge in inner.successors):
        values, arguments = dict(zip(callee.params, arguments, strict=True)), []
    copies = dominance.renamed_blocks(callee.blocks, values)
    for copy in copies.values():
        for op in copy.ops:
            op.location = call.location if op.location.is_ours else op.location
        end = copy.terminator
        if end.code is ops.RETURN:
            copy.ops[-1] = Op(ops.JUMP, successors=[Edge(after, end.operands)], location=end.location)
    copies[entry].params = copies[entry].params if arguments else []
    del block.ops[index:]
    block.ops.append(Op(ops.JUMP, successors=[Edge(copies[entry], arguments)], location=call.location))
    if callee.blocks and not any(op.code is ops.RETURN and op.operands for op in callee.ops()):
        after.params = []
        if call.results and any(value in call.results for op in function.ops() for value in op.operands):
            raise AssertionError("a call's missing result is used")
    position = function.blocks.index(block) + 1
    function.blocks[position:position] = [*copies.values(), after]
    return after
