"""How atomic operations become operations of the device level, and the bits of what atomics hold.

Where nobody else looks (the scope is one thread, or the memory is the thread's own), plain loads and stores do.
"""

from __future__ import annotations

from collections.abc import Callable

from cuda_device.device.lowering import Lowering, Tree, flatten, grow
from cuda_device.device.packing import from_bits, to_bits
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.ir.ops import Scope
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types.layout import accesses, has_identity, leaves, size_of
from cuda_device.types.model import UINT64, AtomicCell, Number, NumberKind, Ref, Space, Struct, Tuple, Type, Vector

# The bits of what atomics hold: machines access integers atomically, so any other value travels as one of its size.
#
#     vector<float16, 2>                        uint32
#     struct<pair, key: uint32, n: uint16>      uint64; padding is zero
#     complex128, vector<int32, 4>              vector<uint64, 2>: of 16 bytes there are loads and stores
#
# Real numbers are accessed as what they are.


WIDEST = 16
WIDEST_EXCHANGE = 8


def check(dtype: Type) -> None:
    """Raises `TypeError` for what no atomic can hold."""
    name = dtype.name if isinstance(dtype, Struct) else str(dtype)
    if has_identity(dtype):
        raise TypeError(f"{name} has atomic members, and cannot be the content of an atomic: name one of them")
    kind = isinstance(dtype, (Number, Vector, Struct, Tuple))
    if not kind or not all(isinstance(leaf, Number) for leaf in leaves(dtype)):
        raise TypeError(f"an atomic holds a number, vector, struct or tuple, not {name}")
    size = size_of(dtype)
    if size > WIDEST:
        raise TypeError(f"an atomic holds {WIDEST} bytes at most, but {name} has {size}")
    if size & (size - 1) or not leaves(dtype):
        raise TypeError(f"{name} has {size} bytes, but machines access 1, 2, 4, 8 or 16 at once")


def is_number(dtype: Type) -> bool:
    """Whether machines access it as what it is: a real number."""
    return isinstance(dtype, Number) and len(leaves(dtype)) == 1


def storage(dtype: Type) -> Type:
    """What an atomic of `dtype` is to a machine."""
    if is_number(dtype):
        return dtype
    size = size_of(dtype)
    return Vector(UINT64, 2) if size == WIDEST else Number(NumberKind.UINT, size * 8)


def pack(build: Lowering, dtype: Type, tree: Tree) -> Value:
    """A value as what it is to a machine."""
    if is_number(dtype):
        assert isinstance(tree, Value)
        return tree
    words = words_of(build, dtype, tree)
    return words[0] if len(words) == 1 else build.op(ops.MAKE, Vector(UINT64, 2), *words)


def words_of(build: Lowering, dtype: Type, tree: Tree) -> list[Value]:
    """The bits of a value as it lies in memory: one unsigned integer, or two of 64 bits."""
    word = Number(NumberKind.UINT, min(size_of(dtype), WIDEST_EXCHANGE) * 8)
    words: dict[int, Value] = {}
    for access, leaf in zip(accesses(dtype, align=1), flatten(tree), strict=True):
        index, offset = divmod(access.offset * 8, word.bits)
        part = build.convert(to_bits(build, leaf), word)
        if offset:
            part = build.op(ops.SHL, word, part, build.number(word, offset))
        words[index] = build.binary(ops.OR, words[index], part) if index in words else part
    return [words.get(i) or build.number(word, 0) for i in range(size_of(dtype) * 8 // word.bits)]


def unpack(build: Lowering, dtype: Type, value: Value) -> Tree:
    """The value of `dtype` that was packed so."""
    if is_number(dtype):
        return value
    word = UINT64 if isinstance(value.type, Vector) else value.type
    assert isinstance(word, Number)
    words = [value]
    if isinstance(value.type, Vector):
        words = [build.op(ops.FIELD, UINT64, value, index=i) for i in range(2)]
    parts = []
    for access, leaf in zip(accesses(dtype, align=1), leaves(dtype), strict=True):
        assert isinstance(leaf, Number)
        index, offset = divmod(access.offset * 8, word.bits)
        part = words[index]
        if offset:
            part = build.op(ops.SHR, word, part, build.number(word, offset))
        parts.append(from_bits(build, build.convert(part, Number(NumberKind.UINT, leaf.bits)), leaf))
    return grow(dtype, iter(parts))


def equal(build: Lowering, dtype: Type, a: Tree, b: Tree) -> Value:
    """Whether two values have the same bits."""
    pairs = zip(words_of(build, dtype, a), words_of(build, dtype, b), strict=True)
    first, *rest = (build.compare("==", x, y) for x, y in pairs)
    for each in rest:
        first = build.binary(ops.AND, first, each)
    return first


# How atomic operations become operations of the device level: one function for each, all of an `Access`.


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
        packed = [pack(self.build, self.dtype, value) for value in self.values]
        return [self.at(AtomicCell(storage(self.dtype))), *packed]

    def op(self, code: ops.OpDef, **more: str) -> Tree:
        """The result of such an operation."""
        type = storage(self.dtype)
        attributes = {"memory": self.order, "scope": self.scope, **more}
        return unpack(self.build, self.dtype, self.build.op(code, type, *self.operands(), nonneg=False, **attributes))


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
    same = equal(build, access.dtype, here, old)
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
    raise AssertionError("a function of device/atomic_types is called instead")
