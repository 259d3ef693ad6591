"""Alignment by use: gives shared arrays the alignment that `extend.aligned` asks for, or says why that is impossible.

    %2 = shared {count=8192, align=2}                 %2 = shared {count=8192, align=1024}
    %7 = mul %stage.1 %6    (%6 is 4096)        →     %7 = mul %stage.1 %6
    %8 = bytes {aligned=1024} %2 %7                   %8 = bytes %2 %7

An analysis of the whole module finds for each such address the arrays that it may point into, and the largest power of two that
divides its distance from their beginning.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping

from cuda_device.errors import CompileError, Location
from cuda_device.ir import ops
from cuda_device.ir.nodes import Module, Op, Value
from cuda_device.types.layout import size_of
from cuda_device.types.model import Number, Ref, Space, Tuple

MOST_DYNAMIC = 1024
"""The largest alignment of dynamic shared memory."""
_ANY = 64
"""The exponent of zero, which all powers of two divide."""

Key = tuple[Value, int | None, tuple[Op, ...]]
"""A value, or a part of a tuple, in a function that was entered through these calls; if there are none, through any."""
Origins = Mapping[Hashable, int]
"""What a value derives from, and the exponent of the power of two that divides its distance from there.

The origin of an address is the number of a shared array, `_DYNAMIC` or `_UNKNOWN`, and that of a number `_NUMBER`, or `_LENGTH`
if it is the length of dynamic shared memory. A part that begins there is empty, so it does not matter how it is aligned.
"""
_NUMBER, _LENGTH, _DYNAMIC, _UNKNOWN = "number", "length", "dynamic", "unknown"


def align_shared(module: Module) -> None:
    """Aligns the shared arrays of a module whose places are numbered. Raises `CompileError` if an array cannot be."""
    analysis = _Analysis(module)
    needed: dict[Hashable, int] = {}
    for function in module.functions:
        for op in function.ops():
            align = op.attributes.pop("aligned", 0) if op.code is ops.BYTES else 0
            for origin, exponent in analysis.origins_of(op.result).items() if align else ():
                if origin == _UNKNOWN or 1 << exponent < align or (origin == _DYNAMIC and align > MOST_DYNAMIC):
                    raise _refusal(origin, exponent, align, analysis.users_location(op.location, function.name))
                needed[origin] = max(needed.get(origin, 0), align)
    for op in module.ops():
        origin = op.attributes["number"] if op.code is ops.SHARED else _DYNAMIC
        if op.code in (ops.SHARED, ops.DYNAMIC_SHARED) and origin in needed:
            op.attributes["align"] = max(op.attributes.get("align", 0), needed[origin])


def _refusal(origin: Hashable, exponent: int, align: int, location: Location) -> CompileError:
    if origin == _UNKNOWN:
        return CompileError(
            f"this memory must be aligned to {align} bytes, and the compiler does not know which shared array it belongs to",
            location,
            "take it from a shared_array(…) in the kernel or in a function that it calls, by indices and slices",
        )
    if 1 << exponent < align:
        return CompileError(
            f"this memory must be aligned to {align} bytes, but it begins at a multiple of {1 << exponent} bytes in its "
            "shared array",
            location,
            f"begin at a multiple of {align} bytes, or use an array of its own: shared_array(…, align={align})",
        )
    return CompileError(
        f"this memory must be aligned to {align} bytes, and dynamic shared memory is aligned to at most {MOST_DYNAMIC}",
        location,
        f"use a shared array of a fixed size: shared_array(…, align={align})",
    )


class _Analysis:
    """Finds the origins of values on demand, as the greatest fixed point over all paths to them."""

    def __init__(self, module: Module) -> None:
        self.makers: dict[Value, Op] = {}
        self.arrives: dict[Value, list[Value]] = {}
        """What edges pass for a parameter of a block."""
        self.returns: dict[str, list[Value]] = {function.name: [] for function in module.functions}
        self.callers: dict[str, list[tuple[str, Op]]] = {function.name: [] for function in module.functions}
        """The calls of each function, and the functions that they are in."""
        self.origins: dict[Key, Origins] = {}
        self.users: dict[Key, set[Key]] = {}
        self.todo: list[Key] = []
        self.outer = set(module.main.params)
        self.params = {param: (f.name, i) for f in module.functions for i, param in enumerate(f.params)}
        for function in module.functions:
            for op in function.ops():
                self.makers.update(dict.fromkeys(op.results, op))
                if op.code is ops.CALL:
                    self.callers[op.attributes["callee"]].append((function.name, op))
                elif op.code is ops.RETURN:
                    self.returns[function.name] += op.operands
                for edge in op.successors:
                    for param, argument in zip(edge.block.params, edge.arguments, strict=True):
                        self.arrives.setdefault(param, []).append(argument)

    def origins_of(self, value: Value) -> Origins:
        """The origins of a value."""
        self._now((value, None, ()))
        while self.todo:
            key = self.todo.pop()
            origins = self._derived(key)
            if origins != self.origins[key]:
                self.origins[key] = origins
                self.todo += self.users[key]
        return self.origins[value, None, ()]

    def _now(self, key: Key, user: Key | None = None) -> Origins:
        """What is known so far."""
        if key not in self.origins:
            self.origins[key], self.users[key] = {}, set()
            self.todo.append(key)
        if user is not None:
            self.users[key].add(user)
        return self.origins[key]

    def _derived(self, key: Key) -> Origins:
        value, index, calls = key
        op = self.makers.get(value)
        if op is None:
            arriving = () if value in self.outer else self._arriving(key)
            return self._joined(arriving, key) if arriving else _nothing_known(key)
        match op.code:
            case ops.CALL:
                inner = (*calls, op) if op not in calls else ()
                return self._joined([(result, index, inner) for result in self.returns[op.attributes["callee"]]], key)
            case ops.MAKE if index is not None:
                return self._now((op.operands[index], None, calls), key)
            case ops.FIELD:
                return self._now((op.operands[0], op.attributes["index"], calls), key)
            case ops.SELECT:
                return self._joined([(operand, index, calls) for operand in op.operands[1:]], key)
            case ops.GENERIC | ops.IN_CLUSTER:
                return self._now((op.operands[0], None, calls), key)
            case ops.SHARED:
                return {op.attributes["number"]: _ANY}
            case ops.DYNAMIC_SHARED:
                return {_DYNAMIC: _ANY}
            case ops.REGISTER if op.attributes["name"] == "dynamic_shared_bytes":
                return {_LENGTH: 0}
            case ops.ELEMENT | ops.BYTES:
                return self._behind(op, key)
            case ops.CONST if isinstance(value.type, Ref):  # of a variable that has no value yet
                return {}
        return self._arithmetic(op, key)

    def _arriving(self, key: Key) -> list[Key]:
        """What edges and calls pass for a parameter."""
        value, index, calls = key
        arguments: list[Key] = [(argument, index, calls) for argument in self.arrives.get(value, ())]
        name, position = self.params.get(value, ("", 0))
        if calls and name:
            arguments.append((calls[-1].operands[position], index, calls[:-1]))
        elif name:
            arguments += [(call.operands[position], index, ()) for _, call in self.callers[name]]
        return arguments

    def _joined(self, keys: Iterable[Key], user: Key) -> Origins:
        joined: dict[Hashable, int] = {}
        for key in keys:
            for origin, exponent in self._now(key, user).items():
                joined[origin] = min(joined.get(origin, _ANY), exponent)
        return joined

    def _behind(self, op: Op, key: Key) -> Origins:
        """The origins of an address at a distance from another one."""
        reference, distance = op.operands
        exponent = self._exponent(distance, key)
        if op.code is ops.ELEMENT:
            assert isinstance(reference.type, Ref)
            exponent += _exponent_of(size_of(reference.type.pointee))
        return {origin: min(own, exponent) for origin, own in self._now((reference, None, key[2]), key).items()}

    def _arithmetic(self, op: Op, key: Key) -> Origins:
        """The origins of an integer. A result that wraps keeps the powers of two."""
        if not all(isinstance(v.type, Number) and v.type.is_integer for v in (*op.results, *op.operands)):
            return _nothing_known(key)
        if op.code is ops.CONST:
            return {_NUMBER: _exponent_of(op.attributes["value"])}
        if op.code is ops.CONVERT:
            return self._now((op.operands[0], None, key[2]), key)
        if op.code not in _COMBINED:
            return {_NUMBER: 0}
        a, b = (self._exponent(operand, key) for operand in op.operands)
        if op.code in (ops.SHL, ops.QUOTIENT):
            maker = self.makers.get(op.operands[1])
            number = maker.attributes["value"] if maker is not None and maker.code is ops.CONST else None
            if op.code is ops.SHL:
                b = number or 0
            elif number is None or number != 1 << b:
                return {_NUMBER: 0}
        return {_NUMBER: max(0, min(_ANY, _COMBINED[op.code](a, b)))}

    def _exponent(self, number: Value, key: Key) -> int:
        """The exponent of an operand of the operation that makes `key`."""
        origins = self._now((number, None, key[2]), key)
        return origins.get(_NUMBER, 0 if _LENGTH in origins else _ANY)

    def users_location(self, location: Location, function: str) -> Location:
        """The place in the program: for one in a library function, the call that passes the least aligned address."""
        seen = set[str]()
        while location.is_ours and self.callers[function] and function not in seen:
            seen.add(function)
            function, call = min(self.callers[function], key=lambda item: self._least(item[1].operands))
            location = call.location
        return location

    def _least(self, values: Iterable[Value]) -> int:
        """The least exponent of addresses in shared memory; -1 if the array of one is unknown."""
        shared = (v for v in values if isinstance(v.type, Ref) and v.type.space is Space.SHARED)
        origins = [item for value in shared for item in self.origins_of(value).items()]
        return min((-1 if origin == _UNKNOWN else exponent for origin, exponent in origins), default=_ANY)


_COMBINED: dict[ops.OpDef, Callable[[int, int], int]] = {
    **dict.fromkeys((ops.ADD, ops.SUB, ops.OR, ops.XOR), min),
    ops.AND: max,
    **dict.fromkeys((ops.MUL, ops.SHL), operator.add),
    ops.QUOTIENT: operator.sub,
}
"""The exponent of a result from those of the operands. That of `shl` takes the count, that of `quotient` a power of two."""


def _exponent_of(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else _ANY


def _nothing_known(key: Key) -> Origins:
    value, index, _ = key
    type = value.type.elements[index] if isinstance(value.type, Tuple) and index is not None else value.type
    return {_UNKNOWN: 0} if isinstance(type, Ref) else {_NUMBER: 0}
