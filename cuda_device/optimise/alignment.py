"""Which arrays of a launch a kernel can read and write in wider accesses if their memory begins at a multiple of 16 bytes.

    c[0] + c[1]                           one access of 8 bytes, where c has numbers of 4 bytes
    x[4 * i] + x[4 * i + 1]               the same, if `i` is known not to be negative

Launches check where such arrays begin, and no others: a kernel that reads one number at a time gains nothing by it, and is as
good for `x[1:]`. Arrays of structs and vectors need no such check, since their types say how they are aligned.
"""

from __future__ import annotations

import math

from cuda_device.ir import ops
from cuda_device.ir.nodes import Module, Value
from cuda_device.ir.uses import Definitions, keeps
from cuda_device.types.layout import WIDEST_ACCESS, size_of
from cuda_device.types.model import Number, Ref, Space

Access = tuple[Value, int, int, int]
"""An array's memory and the size of its elements; where an access is: at that one, or any number of steps behind it."""


def numbers(module: Module) -> frozenset[int]:
    """The numbers of such arrays, counted among the references of the main function."""
    params = [param for param in module.main.params if isinstance(param.type, Ref)]
    return frozenset(map(params.index, references(module)))


def references(module: Module) -> list[Value]:
    """The parameters of the main function that point to the memory of such arrays."""
    main = module.main
    values, places = Definitions(main), dict[tuple[Value, int], set[int]]()
    accesses = {_access(values, op.operands[0]) for op in main.ops() if op.code in (ops.LOAD, ops.STORE)}
    for memory, size, place, step in filter(None, accesses):
        if step % 2 == 0 and 2 * size <= WIDEST_ACCESS:
            places.setdefault((memory, size), set()).add(place)
    neighbours = {memory for (memory, _), found in places.items() if len({place // 2 for place in found}) < len(found)}
    return [param for param in main.params if param in neighbours]


def _access(values: Definitions, address: Value) -> Access | None:
    """Where a number in global memory is read or written, if that is an element of an array."""
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
    """An integer that divides a number, whatever that is."""
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
