"""Objects that threads access at once: the specification's 'Atomics' and its fence.

count = device.atomic_ref(histogram, bin)
old = count.add(1, "relaxed", "device")

`_METHODS` has a row for each operation: the types that it takes, the memory orders that C++ allows it, and how it is done
where machines have no instruction for it. Read-modify-writes return what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from cuda_device.device import atomic_accesses as accesses
from cuda_device.device import atomic_loops as loops
from cuda_device.device.lowering import ArrayTree, Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed, constant_of
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.model import Value
from cuda_device.ir.ops import Effect
from cuda_device.ir.ordering import OF_LOADS, OF_STORES, OF_UPDATES, Order, Scope
from cuda_device.types import model
from cuda_device.types.dtypes import element_of
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.model import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INDEX,
    INT32,
    INT64,
    UINT32,
    UINT64,
    Array,
    Layout,
    Number,
    Ref,
    Space,
    Tuple,
    Type,
)


class AtomicInterface:
    """A number that many threads access at once, as `atomic_ref` and `Atomic` make it: usable in device code only.

    `memory` is a memory order of C++ ('relaxed', 'consume', 'acquire', 'release', 'acq_rel' or 'seq_cst'), `scope` says whose
    threads the operation synchronises with ('system', 'device', 'block' or 'thread'): constant expressions both. Operations that
    change the number return what it was before. Specification: 'Atomics'.
    """

    dtype: Any
    """The type of the number."""

    def load(self, memory: str = "seq_cst", scope: str = "system") -> Any:
        """The number."""
        raise DeviceOnlyError.of("AtomicInterface.load")

    def store(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> None:
        """Sets the number to `val`."""
        raise DeviceOnlyError.of("AtomicInterface.store")

    def exch(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Sets the number to `val`; returns the old one."""
        raise DeviceOnlyError.of("AtomicInterface.exch")

    def cas(self, old: Any, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Sets the number to `val` if its bits are those of `old`; returns the old one in any case."""
        raise DeviceOnlyError.of("AtomicInterface.cas")

    def add(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Adds `val`; integers wrap. A GPU may take a subnormal float32 in global memory for zero."""
        raise DeviceOnlyError.of("AtomicInterface.add")

    def sub(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Subtracts `val`, as `add` adds it."""
        raise DeviceOnlyError.of("AtomicInterface.sub")

    def and_(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Keeps the bits that `val` has, too: of 32- and 64-bit integers."""
        raise DeviceOnlyError.of("AtomicInterface.and_")

    def or_(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Sets the bits that `val` has: of 32- and 64-bit integers."""
        raise DeviceOnlyError.of("AtomicInterface.or_")

    def xor(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Turns the bits that `val` has: of 32- and 64-bit integers."""
        raise DeviceOnlyError.of("AtomicInterface.xor")

    def max(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Sets the number to the larger of itself and `val`; a NaN wins, and 0.0 is larger than -0.0."""
        raise DeviceOnlyError.of("AtomicInterface.max")

    def nanmax(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """As `max`, but a NaN loses against any number."""
        raise DeviceOnlyError.of("AtomicInterface.nanmax")

    def min(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Sets the number to the smaller of itself and `val`; a NaN wins, and -0.0 is smaller than 0.0."""
        raise DeviceOnlyError.of("AtomicInterface.min")

    def nanmin(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """As `min`, but a NaN loses against any number."""
        raise DeviceOnlyError.of("AtomicInterface.nanmin")

    def wait(self, old: Any, memory: str = "seq_cst", scope: str = "system") -> None:
        """Returns once the number's bits are not those of `old`; until then looks again and again, with pauses."""
        raise DeviceOnlyError.of("AtomicInterface.wait")

    def notify_one(self) -> None:
        """Tells a thread that waits to look again. They do so by themselves: this costs nothing."""
        raise DeviceOnlyError.of("AtomicInterface.notify_one")

    def notify_all(self) -> None:
        """Tells all threads that wait to look again. They do so by themselves: this costs nothing."""
        raise DeviceOnlyError.of("AtomicInterface.notify_all")


class Atomic(AtomicInterface):
    """A number that owns its memory: in device code `Atomic(dtype)` makes one for the thread alone, which is 0 at first.

    Specification: 'Atomics'.
    """

    def __init__(self, dtype: Any) -> None:
        raise DeviceOnlyError.of("Atomic")


def atomic_ref(array: Any, index: Any) -> AtomicInterface:
    """The element `array[index]` as an object that threads access atomically.

    `array` lies in global, shared or local memory and can be written; `index` is an integer or a tuple of integers, which count
    from the end where they are negative. Specification: 'Atomics'.
    """
    raise DeviceOnlyError.of("atomic_ref")


def threadfence(memory: str = "seq_cst", scope: str = "system") -> None:
    """Orders this thread's accesses before and after, as C++'s `atomic_thread_fence` with the order `memory` does.

    Parameters as those of `AtomicInterface`. Specification: 'Atomics'.
    """
    raise DeviceOnlyError.of("threadfence")


# Arguments

Choice = TypeVar("Choice", bound=StrEnum)


def _choice(known: Known, kind: type[Choice], name: str, allowed: Sequence[Choice], what: str) -> Choice:
    """A constant expression that is one of `allowed`."""
    value = constant_of(known, name)
    if value not in list(kind):
        raise CompileError(
            f"{name}={value!r}: there is no such {what.split(' of ')[0]}",
            help=f"write one of {', '.join(repr(str(each)) for each in kind)}",
        )
    if value not in allowed:
        choices = ", ".join(repr(str(each)) for each in allowed)
        raise CompileError(f"{name}={value!r} is no {what}", help=f"write one of {choices}")
    return kind(str(value))


def _ordering(memory: Known, scope: Known, allowed: Sequence[Order], operation: str) -> tuple[str, str]:
    order = _choice(memory, Order, "memory", allowed, f"memory order of {operation}")
    where = _choice(scope, Scope, "scope", tuple(Scope), "thread scope")
    return str(order), str(where)


def _atomic_type(known: Known, name: str) -> Number:
    """The type of the number that an atomic refers to."""
    match known.type:
        case Ref(_, model.Atomic(Number() as dtype)):
            return dtype
    raise CompileError(
        f"AtomicInterface.{name} is for atomics, not for {known}", help="make one: atomic_ref(array, index)"
    )


# Making them


def _infer_ref(arguments: Sequence[Known]) -> Typed:
    array, index = arguments
    type = array.type
    if not isinstance(type, Array):
        raise CompileError(f"atomic_ref takes an array, not {array}")
    if type.readonly:
        raise CompileError(f"the array is read-only: {type}", help="pass an array that can be written")
    if not isinstance(type.dtype, Number):
        raise CompileError(f"the elements of {type} are no numbers: atomics of them are not supported")
    indices = [item.type for item in index.items] if isinstance(index.type, Tuple) else [index.type]
    for each in indices:
        if not isinstance(each, Number) or not (each.is_integer or each == BOOL):
            raise CompileError(f"an index is an integer or a tuple of integers, not {index}")
    if len(indices) != type.ndim:
        raise CompileError(f"{type} has {type.ndim} axes, but there are {len(indices)} indices")
    wide: Type = Tuple((INDEX,) * len(indices)) if isinstance(index.type, Tuple) else INDEX
    result = Ref(type.space, model.Atomic(type.dtype))
    return Typed(of_type(result), ((0, type), (1, wide)), (type.layout.value,))


def _lower_ref(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    tree, index = operands
    (layout,) = typed.settings
    reference = typed.result.type
    assert isinstance(tree, ArrayTree) and isinstance(reference, Ref) and isinstance(reference.pointee, model.Atomic)
    array = Array(reference.pointee.dtype, len(tree.extents), Layout(layout), space=reference.space)
    indices = [value for value in (index if isinstance(index, tuple) else (index,)) if isinstance(value, Value)]
    return accesses.refer(build, build.address(tree, array, indices), reference)


def _infer_atomic(arguments: Sequence[Known]) -> Typed:
    try:
        dtype = element_of(constant_of(arguments[0], "dtype"))
    except TypeError as error:
        raise CompileError(f"dtype: {error}") from None
    if not isinstance(dtype, Number):
        raise CompileError(f"Atomic({dtype}) is not supported: it takes the type of a number")
    return Typed(of_type(Ref(Space.LOCAL, model.Atomic(dtype))))


def _lower_atomic(build: Lowering, _: Sequence[Tree], typed: Typed) -> Tree:
    reference = typed.result.type
    assert isinstance(reference, Ref) and isinstance(reference.pointee, model.Atomic)
    dtype = reference.pointee.dtype
    memory = build.op(ops.LOCAL, Ref(Space.LOCAL, dtype), count=1, align=dtype.bits // 8)
    build.effect(ops.STORE, memory, build.number(dtype, 0))
    return accesses.refer(build, memory, reference)


# Operations

INTEGERS = (INT32, UINT32, INT64, UINT64)
NUMBERS = (*INTEGERS, FLOAT32, FLOAT64)
_LOOK = Effect.READS | Effect.SPINS
_CHANGE = _LOOK | Effect.WRITES


@dataclass(frozen=True, slots=True)
class _Method:
    """A method of `AtomicInterface`.

    `values` is how many operands of the number's type it takes, `types` which numbers it is for (none: all). `floats`, `narrow`
    and `loop` are what is called instead for floats, for what has less than 32 bits, and for every number.
    """

    name: str
    lower: Callable[[accesses.Access], Tree]
    values: int = 1
    types: tuple[Number, ...] = ()
    orders: tuple[Order, ...] = OF_UPDATES
    effects: Effect = _CHANGE
    returns: bool = True
    floats: Callable[..., Any] | None = None
    narrow: Callable[..., Any] | None = None
    loop: Callable[..., Any] | None = None

    def instead(self, dtype: Number) -> Callable[..., Any] | None:
        """The Python function that does it for numbers of this type, or None."""
        return self.loop or (self.narrow if dtype.bits < 32 else self.floats if dtype.is_float else None)


_METHODS = (
    _Method("load", accesses.load, 0, orders=OF_LOADS, effects=_LOOK),
    _Method("store", accesses.store, orders=OF_STORES, returns=False),
    _Method("exch", accesses.update("exch", lambda _, __, b: b), narrow=loops.exchange),
    _Method("cas", accesses.cas, 2),
    _Method("add", accesses.add, types=NUMBERS),
    _Method("sub", accesses.subtract, types=NUMBERS),
    _Method("and_", accesses.update("and", accesses.binary(ops.AND)), types=INTEGERS),
    _Method("or_", accesses.update("or", accesses.binary(ops.OR)), types=INTEGERS),
    _Method("xor", accesses.update("xor", accesses.binary(ops.XOR)), types=INTEGERS),
    _Method("max", accesses.update("max", accesses.extreme(">")), types=NUMBERS, floats=loops.float_max),
    _Method("nanmax", accesses.update("max", accesses.extreme(">")), types=NUMBERS, floats=loops.float_nanmax),
    _Method("min", accesses.update("min", accesses.extreme("<")), types=NUMBERS, floats=loops.float_min),
    _Method("nanmin", accesses.update("min", accesses.extreme("<")), types=NUMBERS, floats=loops.float_nanmin),
    _Method("wait", accesses.by_loop, orders=OF_LOADS, effects=_LOOK, returns=False, loop=loops.wait),
)


def _method_row(method: _Method) -> Intrinsic:
    last = 1 + method.values

    def infer(arguments: Sequence[Known]) -> Typed:
        dtype = _atomic_type(arguments[0], method.name)
        if method.types and dtype not in method.types:
            raise CompileError(
                f"atomic {method.name} is not for {dtype}", help=f"it is for {', '.join(map(str, method.types))}"
            )
        for value in arguments[1:last]:
            if not isinstance(value.type, Number):
                raise CompileError(f"atomic {method.name} of a {dtype} takes a number, not {value}")
        memory, scope = arguments[last:]
        settings = _ordering(memory, scope, method.orders, f"atomic {method.name}")
        operands = ((0, arguments[0].type), *((i, dtype) for i in range(1, last)))
        result = of_type(dtype) if method.returns else constant(None)
        return Typed(result, operands, settings, instead=method.instead(dtype))

    def lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
        reference, *values = (operand for operand in operands if isinstance(operand, Value))
        assert isinstance(reference.type, Ref) and isinstance(reference.type.pointee, model.Atomic)
        order, scope = map(str, typed.settings)
        return method.lower(
            accesses.Access(build, reference, reference.type.pointee.dtype, tuple(values), order, scope)
        )

    entity = getattr(AtomicInterface, method.name)
    return Intrinsic(entity, f"AtomicInterface.{method.name}", infer, lower, effects=method.effects)


def _notify_row(name: str) -> Intrinsic:
    def infer(arguments: Sequence[Known]) -> Typed:
        _atomic_type(arguments[0], name)
        return Typed(constant(None))

    return Intrinsic(getattr(AtomicInterface, name), f"AtomicInterface.{name}", infer, lambda *_: ())


def _infer_fence(arguments: Sequence[Known]) -> Typed:
    memory, scope = arguments
    return Typed(constant(None), settings=_ordering(memory, scope, OF_UPDATES, "a fence"))


def _lower_fence(build: Lowering, _: Sequence[Tree], typed: Typed) -> Tree:
    order, scope = typed.settings
    if order != Order.RELAXED and scope != Scope.THREAD:
        build.effect(ops.FENCE, memory=order, scope=scope)
    return ()


# What the loops need


def _infer_same_bits(arguments: Sequence[Known]) -> Typed:
    type = arguments[0].type
    return Typed(of_type(BOOL), ((0, type), (1, type)))


def _lower_same_bits(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
    a, b = operands
    assert isinstance(a, Value) and isinstance(b, Value)
    return accesses.equal_bits(build, a, b)


def _lower_pause(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
    build.effect(ops.PAUSE, *(operand for operand in operands if isinstance(operand, Value)))
    build.effect(ops.YIELD, now=True)
    return ()


ROWS = (
    Intrinsic(atomic_ref, "atomic_ref", _infer_ref, _lower_ref),
    Intrinsic(Atomic, "Atomic", _infer_atomic, _lower_atomic, (1, 1), Effect.LOCAL | Effect.WRITES),
    *map(_method_row, _METHODS),
    *map(_notify_row, ("notify_one", "notify_all")),
    Intrinsic(threadfence, "threadfence", _infer_fence, _lower_fence, effects=ops.FENCE.effects),
    Intrinsic(loops.same_bits, "same_bits", _infer_same_bits, _lower_same_bits),
    Intrinsic(
        loops.pause,
        "pause",
        lambda _: Typed(constant(None), ((0, UINT32),)),
        _lower_pause,
        effects=ops.PAUSE.effects | ops.YIELD.effects,
    ),
)
