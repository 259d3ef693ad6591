"""Points-to analysis: the parameters whose memory an address may point to.

    %4: ref<global, float32> = element %x.0 %3         roots[%4] == {0}: somewhere in what %x.0 points to

Launches check that an array that a kernel writes does not overlap another array. Accesses with different roots therefore access
different memory, and an array that is never written does not change.
"""

from __future__ import annotations

from cuda_device.ir import ops
from cuda_device.ir.nodes import Function, Module, Op, Value
from cuda_device.ir.ops import Effect
from cuda_device.types.layout import leaves
from cuda_device.types.model import NONE, Number, Ref, Space

Roots = frozenset[int]
_NONE: Roots = frozenset()


def written(module: Module) -> Roots:
    """The numbers of the kernel's references through which it may write, counted among its references."""
    writes = written_parameters(module, roots_in_module(module))
    references = [i for i, param in enumerate(module.main.params) if isinstance(param.type, Ref)]
    return frozenset(number for number, i in enumerate(references) if i in writes)


def written_parameters(module: Module, roots: dict[Value, Roots]) -> Roots:
    """The parameters of the main function through which the kernel may write."""
    writes = (op for op in module.ops() if Effect.WRITES in op.code.effects)
    return _NONE.union(*[roots.get(operand, _NONE) for op in writes for operand in op.operands])


def only_read(module: Module) -> set[Value]:
    """The addresses in arrays that the kernel never writes; empty if it may write to unknown memory."""
    if any(op.code in (ops.EXTERN, ops.PTX) or writes_anywhere(op) for op in module.ops()):
        return set()
    roots = roots_in_module(module)
    writes = written_parameters(module, roots)
    return {value for value, parameters in roots.items() if parameters and not parameters & writes}


def writes_anywhere(op: Op) -> bool:
    """Whether an operation writes through a generic pointer, which may point into any array."""
    references = (operand.type for operand in op.operands if isinstance(operand.type, Ref))
    return Effect.WRITES in op.code.effects and any(type.space is Space.GENERIC for type in references)


def roots_in_function(function: Function) -> dict[Value, Roots]:
    """For each value that holds an address, the parameters that it may come from; none for memory of the function's own."""
    roots: dict[Value, Roots] = {
        param: frozenset((i,)) for i, param in enumerate(function.params) if isinstance(param.type, Ref)
    }
    copies = [
        (result, op.operands)
        for op in function.ops()
        for result in op.results
        if not isinstance(result.type, Number) and _holds_address(result)  # most results are numbers
    ]
    for block in function.blocks:
        for edge in block.successors:
            pairs = zip(edge.block.params, edge.arguments, strict=True)
            copies += [(param, [argument]) for param, argument in pairs if _holds_address(param)]
    changed = True
    while changed:
        changed = False
        for value, sources in copies:
            known = roots.get(value, _NONE)
            joined = known
            for source in sources:
                joined |= roots.get(source, _NONE)
            if joined != known:
                roots[value] = joined
                changed = True
    return roots


def roots_in_module(module: Module) -> dict[Value, Roots]:
    """As `roots_in_function`, for all functions of a module, in terms of the parameters of the main function."""
    main = module.main
    if len(module.functions) == 1 and not module.has(ops.CALL):
        return roots_in_function(main)
    local_roots = {function.name: roots_in_function(function) for function in module.functions}
    passed = {function.name: [_NONE] * len(function.params) for function in module.functions}
    passed[main.name] = [frozenset((i,)) for i in range(len(main.params))]
    todo = [main]
    while todo:
        caller = todo.pop()
        for op in caller.ops():
            if op.code is not ops.CALL:
                continue
            callee = module[op.attributes["callee"]]
            arguments = [local_roots[caller.name].get(operand, _NONE) for operand in op.operands]
            joined = [
                known | _in_caller(passed[caller.name], roots)
                for known, roots in zip(passed[callee.name], arguments, strict=True)
            ]
            if joined != passed[callee.name]:
                passed[callee.name] = joined
                todo.append(callee)
    return {
        value: _in_caller(passed[name], roots)
        for name, values in local_roots.items()
        for value, roots in values.items()
    }


def _in_caller(passed: list[Roots], roots: Roots) -> Roots:
    """The roots of what is passed to a function as the parameters `roots`."""
    return _NONE.union(*map(passed.__getitem__, roots))


def _holds_address(value: Value) -> bool:
    type = value.type
    return isinstance(type, Ref) or any(isinstance(leaf, Ref) for leaf in leaves(type or NONE))
