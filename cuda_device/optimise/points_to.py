"""Points-to analysis: the parameters whose memory an address may point to, and the alignment of addresses.

    %4: ref<global, float32> = element %x.0 %3         roots[%4] == {0}: somewhere in what %x.0 points to

Launches check that an array that a kernel writes does not overlap another array. Accesses with different roots therefore access
different memory, and an array that is never written does not change.
"""

from __future__ import annotations

import math

from cuda_device.ir import ops
from cuda_device.ir.dominance import Definitions, keeps
from cuda_device.ir.nodes import Function, Module, Op, Value
from cuda_device.ir.ops import Effect
from cuda_device.types.layout import WIDEST_ACCESS, leaves, size_of
from cuda_device.types.model import NONE, Number, Ref, Space

Roots = frozenset[int]
_NONE: Roots = frozenset()


def written(module: Module) -> Roots:
    """The numbers of the kernel's references through which it may write, counted among its references."""
    writes = _written(module, of_launch(module))
    references = [i for i, param in enumerate(module.main.params) if isinstance(param.type, Ref)]
    return frozenset(number for number, i in enumerate(references) if i in writes)


def _written(module: Module, roots: dict[Value, Roots]) -> Roots:
    """The parameters of the main function through which the kernel may write."""
    found = [
        roots.get(operand, _NONE) for op in module.ops() if Effect.WRITES in op.code.effects for operand in op.operands
    ]
    return _NONE.union(*found)


def only_read(module: Module) -> set[Value]:
    """The addresses in arrays that the kernel never writes; empty if it may write to unknown memory."""
    if any(op.code in (ops.EXTERN, ops.PTX) or writes_anywhere(op) for op in module.ops()):
        return set()
    roots = of_launch(module)
    writes = _written(module, roots)
    return {value for value, found in roots.items() if found and not found & writes}


def writes_anywhere(op: Op) -> bool:
    """Whether an operation writes through a generic pointer, which may point into any array."""
    references = (operand.type for operand in op.operands if isinstance(operand.type, Ref))
    return Effect.WRITES in op.code.effects and any(type.space is Space.GENERIC for type in references)


def of(function: Function) -> dict[Value, Roots]:
    """For each value that holds an address, the parameters that it may come from; none for memory of the function's own."""
    roots: dict[Value, Roots] = {
        param: frozenset((i,)) for i, param in enumerate(function.params) if isinstance(param.type, Ref)
    }
    results = [(result, op.operands) for op in function.ops() for result in op.results]
    copies = [each for each in results if not isinstance(each[0].type, Number) and _holds_address(each[0])]
    for block in function.blocks:
        for edge in block.successors:
            pairs = zip(edge.block.params, edge.arguments, strict=True)
            copies += [(param, [argument]) for param, argument in pairs if _holds_address(param)]
    changed = True
    while changed:
        changed = False
        for value, sources in copies:
            old, found = roots.get(value, _NONE), _NONE.union(*[roots.get(source, _NONE) for source in sources])
            if not found <= old:
                roots[value] = old | found
                changed = True
    return roots


def of_launch(module: Module) -> dict[Value, Roots]:
    """As `of`, for all functions of a module, in terms of the parameters of the main function."""
    main = module.main
    own = {function.name: of(function) for function in module.functions}
    given = {function.name: [_NONE] * len(function.params) for function in module.functions}
    given[main.name] = [frozenset((i,)) for i in range(len(given[main.name]))]
    todo = [main]
    while todo:
        caller = todo.pop()
        for op in caller.ops():
            if op.code is not ops.CALL:
                continue
            callee = module[op.attributes["callee"]]
            arguments = (own[caller.name].get(operand, _NONE) for operand in op.operands)
            now = [_through(given[caller.name], roots) for roots in arguments]
            joined = [a | b for a, b in zip(given[callee.name], now, strict=True)]
            if joined != given[callee.name]:
                given[callee.name] = joined
                todo.append(callee)
    return {value: _through(given[name], roots) for name, found in own.items() for value, roots in found.items()}


def _through(given: list[Roots], roots: Roots) -> Roots:
    return _NONE.union(*map(given.__getitem__, roots))


def _holds_address(value: Value) -> bool:
    type = value.type
    return isinstance(type, Ref) or any(isinstance(leaf, Ref) for leaf in leaves(type or NONE))


# Arrays whose neighbouring elements the kernel accesses, as in `c[0] + c[1]` or `x[4 * i] + x[4 * i + 1]`. If their memory begins
# at a multiple of 16 bytes, LLVM can merge these accesses, so launches check the alignment of these arrays. Arrays of structs and
# vectors are not among them, because their types determine the alignment.


Access = tuple[Value, int, int, int]
"""The memory of an array, the size of its elements, and the elements accessed: one place plus any multiple of a step."""


def numbers(module: Module) -> frozenset[int]:
    """The numbers of these arrays, counted among the references of the main function."""
    params = [param for param in module.main.params if isinstance(param.type, Ref)]
    return frozenset(map(params.index, references(module)))


def references(module: Module) -> list[Value]:
    """The parameters of the main function that point to the memory of these arrays."""
    main = module.main
    values, places = Definitions(main), dict[tuple[Value, int], set[int]]()
    accesses = {_access(values, op.operands[0]) for op in main.ops() if op.code in (ops.LOAD, ops.STORE)}
    for memory, size, place, step in filter(None, accesses):
        if step % 2 == 0 and 2 * size <= WIDEST_ACCESS:
            places.setdefault((memory, size), set()).add(place)
    neighbours = {memory for (memory, _), found in places.items() if len({place // 2 for place in found}) < len(found)}
    return [param for param in main.params if param in neighbours]


def _access(values: Definitions, address: Value) -> Access | None:
    """The access to a number in global memory; None if it is not an element of an array."""
    place = step = 0
    while (maker := values.makers.get(address)) is not None and maker.code is ops.ELEMENT:
        address, index = maker.operands
        for term, sign in values.terms(index):
            known = values.constant(term)
            if known is None:
                step = math.gcd(step, _factor(values, term))
            else:
                place += sign * known
    reference = address.type
    assert isinstance(reference, Ref)
    if reference.space is not Space.GLOBAL or reference.align or not isinstance(reference.pointee, Number):
        return None
    return address, size_of(reference.pointee), place, step


def _factor(values: Definitions, value: Value) -> int:
    """An integer that certainly divides the number."""
    maker = values.makers.get(value)
    if maker is None:
        return 1
    if maker.code is ops.CONVERT and keeps(maker):
        return _factor(values, maker.operands[0])
    if maker.code is ops.MUL:
        return math.prod(abs(values.constant(operand) or 1) for operand in maker.operands)
    if maker.code is ops.SHL:
        return 1 << (values.constant(maker.operands[1]) or 0)
    return 1
