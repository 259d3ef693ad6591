"""How atomic operations become operations of the device level: one function for each, all of an `Access`.

Where nobody else looks (the scope is one thread, or the memory is the thread's own), plain loads and stores do.
"""

from __future__ import annotations

from collections.abc import Callable

from cuda_device.device import atomic_bits as bits
from cuda_device.device.lowering import Lowering, Tree, flatten
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.ir.ordering import Scope
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types.model import AtomicCell, Ref, Space, Type


@dataclass(frozen=True, slots=True)
class AtomicAccess:
    """What lowering works with: the reference, the type of what is there, the operands, order and scope."""

    build: Lowering
    reference: Value
    dtype: Type
    values: tuple[Tree, ...]
    order: str
    scope: str

    @property
    def alone(self) -> bool:
        """Whether nobody else looks: then plain accesses do."""
        assert isinstance(self.reference.type, Ref)
        return self.scope == Scope.THREAD or self.reference.type.space is Space.LOCAL

    def at(self, type: Type) -> Value:
        """The reference as one to something else."""
        assert isinstance(self.reference.type, Ref)
        return self.build.refer(self.reference, Ref(self.reference.type.space, type))

    def read(self) -> Tree:
        """A plain load."""
        return self.build.load(self.at(self.dtype), self.dtype)

    def write(self, value: Tree) -> None:
        """A plain store."""
        self.build.store(self.at(self.dtype), self.dtype, value)

    def operands(self) -> list[Value]:
        """The operands of an atomic operation of the device level."""
        packed = [bits.pack(self.build, self.dtype, value) for value in self.values]
        return [self.at(AtomicCell(bits.storage(self.dtype))), *packed]

    def op(self, code: ops.OpDef, **more: str) -> Tree:
        """The result of such an operation."""
        type = bits.storage(self.dtype)
        attributes = {"memory": self.order, "scope": self.scope, **more}
        return bits.unpack(
            self.build, self.dtype, self.build.op(code, type, *self.operands(), nonneg=False, **attributes)
        )


def load(access: AtomicAccess) -> Tree:
    """What is there."""
    return access.read() if access.alone else access.op(ops.ATOMIC_LOAD)


def store(access: AtomicAccess) -> Tree:
    """Sets it."""
    if access.alone:
        access.write(*access.values)
    else:
        access.build.effect(ops.ATOMIC_STORE, *access.operands(), memory=access.order, scope=access.scope)
    return ()


def cas(access: AtomicAccess) -> Tree:
    """Compare-and-swap."""
    if not access.alone:
        return access.op(ops.ATOMIC_CAS)
    build, (old, new) = access.build, access.values
    here = access.read()
    same = bits.equal(build, access.dtype, here, old)
    leaves = zip(flatten(new), flatten(here), strict=True)
    access.write(tuple(build.select(same, *pair) for pair in leaves))
    return here


Combine = Callable[[Lowering, Value, Value], Value]


def exchange(access: AtomicAccess) -> Tree:
    """Sets what is there, and gives what was."""
    if not access.alone:
        return access.op(ops.ATOMIC_UPDATE, operation="exch")
    here = access.read()
    access.write(*access.values)
    return here


def update(operation: str, combine: Combine) -> Callable[[AtomicAccess], Tree]:
    """A read-modify-write of a number; `combine` makes the new one where nobody else looks."""

    def lower(access: AtomicAccess) -> Tree:
        if not access.alone:
            return access.op(ops.ATOMIC_UPDATE, operation=operation)
        here, (value,) = access.read(), access.values
        assert isinstance(here, Value) and isinstance(value, Value)
        access.write(combine(access.build, here, value))
        return here

    return lower


def binary(code: ops.OpDef) -> Combine:
    """An operation of the device level."""
    return lambda build, a, b: build.binary(code, a, b)


def extreme(sign: str) -> Combine:
    """The larger or smaller of integers."""
    return lambda build, a, b: build.select(build.compare(sign, b, a), b, a)


def subtract(access: AtomicAccess) -> Tree:
    """The sum with the negative, which is the same."""
    build, (value,) = access.build, access.values
    assert isinstance(value, Value)
    return add(replace(access, values=(build.negative(value),)))


add = update("add", binary(ops.ADD))


def by_loop(_: AtomicAccess) -> Tree:
    """Of what machines have no instruction for."""
    raise AssertionError("a function of device/atomic_loops is called instead")
