"""Narrows the scopes and relaxes the memory orders of atomics on shared memory where no thread can tell the difference.

    bins = device.shared_array(256, device.int32)
    device.atomic_ref(bins, b).add(1)             seq_cst, system      →      relaxed, block

**Scopes.** Only the threads of one block can access shared memory, unless the kernel accesses that of other blocks
(`cluster_shared`), in which case its atomics stay unchanged. The block's scope therefore includes every thread that accesses it.

**Orders.** An *observer* is an operation that can tell whether accesses are ordered: a fence, an atomic whose value is used, or
an ordered atomic on memory that threads outside the block can access. All atomics on shared memory become relaxed if none of
them is an observer, and if no observer can be reached from any of them without passing a barrier of the block.

Every execution of the relaxed program is then one of the original program: two operations on an object order the accesses before
the first and after the second. If there is a barrier between them, it orders these accesses as well. Otherwise, if one of the
accesses is not atomic, the program has a data race, because the two operations may come in the other order, which nothing reads.
If both are atomic, the later one is not an observer.

The effects of a CUDA C++ function, and the callers of a function that is not a kernel, are unknown; there, all orders stay.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from cuda_device.ir import ops
from cuda_device.ir.dominance import used
from cuda_device.ir.nodes import Block, Function, Module, Op
from cuda_device.ir.ops import Order, Scope
from cuda_device.types.model import Ref, Space

_BARRIERS = (ops.BARRIER, ops.BARRIER_REDUCE)


def relax_atomics(module: Module) -> None:
    """Narrows scopes and relaxes orders in place."""
    if module.has(ops.IN_CLUSTER):
        return
    for op in module.ops():
        if op.code in ops.ATOMICS and _space(op) is Space.SHARED and op.attributes["scope"] != Scope.THREAD:
            op.attributes["scope"] = str(Scope.BLOCK)
    if module.main.kernel and not module.has(ops.EXTERN, ops.PTX):
        silent = [(function, *atomic) for function in module.functions for atomic in _silent(function)]
        if silent and not _is_observed(module, silent):
            for *_, op in silent:
                op.attributes["memory"] = str(Order.RELAXED)


def _space(op: Op) -> Space:
    type = op.operands[0].type
    assert isinstance(type, Ref)
    return type.space


def _silent(function: Function) -> Iterator[tuple[Block, int, Op]]:
    """The atomics on shared memory whose value is unused, with their places."""
    read = used(function)
    for block in function.blocks:
        for index, op in enumerate(block.ops):
            changes = op.code in (ops.ATOMIC_STORE, ops.ATOMIC_UPDATE)
            if changes and _space(op) is Space.SHARED and read.isdisjoint(op.results):
                yield block, index, op


def _is_observed(module: Module, silent: Sequence[tuple[Function, Block, int, Op]]) -> bool:
    """Whether an observer can tell that the silent operations order accesses."""
    observers = _observers(module, {op for *_, op in silent})
    if any(op.code in ops.ATOMICS and _space(op) is not Space.GLOBAL for op in observers):
        return True
    return any(observers and function is not module.main for function, *_ in silent) or any(
        _reaches(block, index + 1, observers) for _, block, index, _ in silent
    )


def _observers(module: Module, silent: Container[Op]) -> set[Op]:
    """All observers, and the calls of functions that contain some."""
    observers = set[Op]()
    names: set[str] = set()
    for function in module.functions:
        read = used(function)
        for op in function.ops():
            is_ordered = op.code in ops.ATOMICS and op not in silent and op.attributes["memory"] != Order.RELAXED
            tells = op.code in ops.ATOMICS and not read.isdisjoint(op.results)
            if is_ordered or tells or op.code is ops.FENCE:
                observers.add(op)
                names.add(function.name)
    calls = [(f.name, op) for f in module.functions for op in f.ops() if op.code is ops.CALL]
    while more := {name for name, op in calls if op.attributes["callee"] in names} - names:
        names |= more
    return observers | {op for _, op in calls if op.attributes["callee"] in names}


def _reaches(block: Block, first: int, targets: Container[Op]) -> bool:
    """Whether one of the operations is reachable from a place without passing a barrier."""
    todo, seen = [(block, first)], set[Block]()
    while todo:
        block, first = todo.pop()
        for op in block.ops[first:]:
            if op in targets:
                return True
            if op.code in _BARRIERS:
                break
        else:
            new = {edge.block for edge in block.successors} - seen
            seen |= new
            todo += [(successor, 0) for successor in new]
    return False
