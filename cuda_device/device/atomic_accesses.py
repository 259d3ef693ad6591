"""How atomic operations become operations of the device level: one function for each, all of an `Access`.

Where nobody else looks (the scope is one thread, or the memory is the thread's own), plain loads and stores do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cuda_device.device.lowering import Lowering, Tree
from cuda_device.ir import ops
from cuda_device.ir.model import Value
from cuda_device.ir.ordering import Scope
from cuda_device.types.model import INT64, Kind, Number, Ref, Space


def refer(build: Lowering, address: Value, reference: Ref) -> Value:
    """The same address as a reference to something else."""
    return build.op(ops.BYTES, reference, address, build.const(INT64, 0))


def equal_bits(build: Lowering, a: Value, b: Value) -> Value:
    """Whether two numbers of one type have the same bits."""
    if isinstance(a.type, Number) and a.type.is_float:
        bits = Number(Kind.UINT, a.type.bits)
        a, b = build.op(ops.BITS, bits, a), build.op(ops.BITS, bits, b)
    return build.compare("==", a, b)


@dataclass(frozen=True, slots=True)
class Access:
    """What lowering works with: the reference, the type of the number, the operands, order and scope."""

    build: Lowering
    reference: Value
    dtype: Number
    values: tuple[Value, ...]
    order: str
    scope: str

    @property
    def alone(self) -> bool:
        """Whether nobody else looks: then plain accesses do."""
        assert isinstance(self.reference.type, Ref)
        return self.scope == Scope.THREAD or self.reference.type.space is Space.LOCAL

    def plain(self) -> Value:
        """The reference for plain accesses."""
        assert isinstance(self.reference.type, Ref)
        return refer(self.build, self.reference, Ref(self.reference.type.space, self.dtype))

    def op(self, code: ops.Opcode, **more: str) -> Value:
        """An atomic operation of the device level."""
        operands = (self.reference, *self.values)
        return self.build.op(code, self.dtype, *operands, nonneg=False, memory=self.order, scope=self.scope, **more)


def load(access: Access) -> Tree:
    """The number."""
    if access.alone:
        return access.build.op(ops.LOAD, access.dtype, access.plain())
    return access.op(ops.ATOMIC_LOAD)


def store(access: Access) -> Tree:
    """Sets the number."""
    if access.alone:
        access.build.effect(ops.STORE, access.plain(), *access.values)
    else:
        operands = (access.reference, *access.values)
        access.build.effect(ops.ATOMIC_STORE, *operands, memory=access.order, scope=access.scope)
    return ()


def cas(access: Access) -> Tree:
    """Compare-and-swap."""
    if not access.alone:
        return access.op(ops.ATOMIC_CAS)
    build, (old, new) = access.build, access.values
    here = build.op(ops.LOAD, access.dtype, access.plain())
    build.effect(ops.STORE, access.plain(), build.select(equal_bits(build, here, old), new, here))
    return here


Combine = Callable[[Lowering, Value, Value], Value]


def update(operation: str, combine: Combine) -> Callable[[Access], Tree]:
    """A read-modify-write; `combine` makes the new number where nobody else looks."""

    def lower(access: Access) -> Tree:
        if not access.alone:
            return access.op(ops.ATOMIC_UPDATE, operation=operation)
        build = access.build
        here = build.op(ops.LOAD, access.dtype, access.plain())
        build.effect(ops.STORE, access.plain(), combine(build, here, *access.values))
        return here

    return lower


def binary(code: ops.Opcode) -> Combine:
    """An operation of the device level."""
    return lambda build, a, b: build.binary(code, a, b)


def extreme(sign: str) -> Combine:
    """The larger or smaller of integers."""
    return lambda build, a, b: build.select(build.compare(sign, b, a), b, a)


def subtract(access: Access) -> Tree:
    """The sum with the negative, which is the same."""
    build, (value,) = access.build, access.values
    return add(replace(access, values=(build.negative(value),)))


add = update("add", binary(ops.ADD))


def by_loop(_: Access) -> Tree:
    """Of what machines have no instruction for."""
    raise AssertionError("a function of device/atomic_loops is called instead")
