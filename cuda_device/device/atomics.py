"""Atomic operations and fences ('Atomics' in the specification).

count = device.atomic_ref(histogram, bin)              class lock:
old = count.add(1, "relaxed", "device")                    holder: device.Atomic(device.int32, align=16)

An atomic is an element of an array, a member of a struct, or an `Atomic(dtype)` that belongs to one thread.

`_METHODS` has a row for each operation: the types that it supports, the memory orders that C++ allows for it, and its
implementation for machines without an instruction for it. Read-modify-write operations return the previous value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np

from cuda_device.device.lowering import Lowering, Tree, address_of, grow, value_of
from cuda_device.device.packing import pack, unpack
from cuda_device.device.rows import Intrinsic, Typed, constant_of, entered, index_type
from cuda_device.errors import ArgumentError, CompileError, DeviceOnlyError, UnalignedError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.ir.ops import OF_LOADS, OF_STORES, OF_UPDATES, Effect, Order, Scope
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types import model
from cuda_device.types.host import Aligned, check_alignment, element_of
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.layout import align_of, has_identity, leaves, size_of, usual_alignment

WIDEST = 16
"""The most bytes that an atomic holds."""


def check_content(dtype: model.Type) -> None:
    """Raises `TypeError` for a type that no atomic can hold."""
    name = dtype.name if isinstance(dtype, model.Struct) else str(dtype)
    if has_identity(dtype):
        raise TypeError(f"{name} has atomic members, so it cannot be the content of an atomic: name one of its members")
    kind = isinstance(dtype, (model.Number, model.Vector, model.Struct, model.Tuple))
    if not kind or not all(isinstance(leaf, model.Number) for leaf in leaves(dtype)):
        raise TypeError(f"an atomic holds a number, vector, struct or tuple, not {name}")
    size = size_of(dtype)
    if size > WIDEST:
        raise TypeError(f"an atomic holds at most {WIDEST} bytes, but {name} has {size}")
    if size & (size - 1) or not leaves(dtype):
        raise TypeError(f"{name} has {size} bytes, but machines access 1, 2, 4, 8 or 16 at once")


class AtomicInterface:
    """A number, or another value of up to 16 bytes, that several threads may access at once. Device code only.

    `atomic_ref` and `Atomic` create these objects. `load`, `store` and `wait` work on values of any type. `exch` and `cas` work
    on values of up to 8 bytes, and exchange and compare their bits, including padding. The other methods are for numbers.

    `memory` is a memory order of C++: 'relaxed', 'consume', 'acquire', 'release', 'acq_rel' or 'seq_cst'. `scope` is the set
    of threads with which the operation synchronises: 'system', 'device', 'block' or 'thread'. Both must be constant
    expressions. Methods that change the value return the previous one. Specification: 'Atomics'.
    """

    dtype: Any
    """The type of the number."""

    def load(self, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Returns the value."""
        raise DeviceOnlyError.of("AtomicInterface.load")

    def store(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> None:
        """Sets the value to `val`."""
        raise DeviceOnlyError.of("AtomicInterface.store")

    def exch(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Sets the value to `val` and returns the previous one."""
        raise DeviceOnlyError.of("AtomicInterface.exch")

    def cas(self, old: Any, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Sets the value to `val` if its bits equal those of `old`. Returns the previous value in either case."""
        raise DeviceOnlyError.of("AtomicInterface.cas")

    def add(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Adds `val`; integers wrap. A GPU may treat a subnormal float32 in global memory as zero."""
        raise DeviceOnlyError.of("AtomicInterface.add")

    def sub(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Subtracts `val`; otherwise like `add`."""
        raise DeviceOnlyError.of("AtomicInterface.sub")

    def and_(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Replaces the value by its bitwise and with `val`. For integers of 32 and 64 bits."""
        raise DeviceOnlyError.of("AtomicInterface.and_")

    def or_(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Replaces the value by its bitwise or with `val`. For integers of 32 and 64 bits."""
        raise DeviceOnlyError.of("AtomicInterface.or_")

    def xor(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Replaces the value by its bitwise exclusive or with `val`. For integers of 32 and 64 bits."""
        raise DeviceOnlyError.of("AtomicInterface.xor")

    def max(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Replaces the value by the larger of itself and `val`. NaN propagates, and 0.0 is larger than -0.0."""
        raise DeviceOnlyError.of("AtomicInterface.max")

    def nanmax(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Like `max`, but ignores NaN: the result is NaN only if both are."""
        raise DeviceOnlyError.of("AtomicInterface.nanmax")

    def min(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Replaces the value by the smaller of itself and `val`. NaN propagates, and -0.0 is smaller than 0.0."""
        raise DeviceOnlyError.of("AtomicInterface.min")

    def nanmin(self, val: Any, memory: str = "seq_cst", scope: str = "system") -> Any:
        """Like `min`, but ignores NaN: the result is NaN only if both are."""
        raise DeviceOnlyError.of("AtomicInterface.nanmin")

    def wait(self, old: Any, memory: str = "seq_cst", scope: str = "system") -> None:
        """Blocks until the bits of the value differ from those of `old`. Polls, with increasing pauses."""
        raise DeviceOnlyError.of("AtomicInterface.wait")

    def notify_one(self) -> None:
        """Does nothing: threads in `wait` poll. Present for compatibility with C++."""
        raise DeviceOnlyError.of("AtomicInterface.notify_one")

    def notify_all(self) -> None:
        """Does nothing: threads in `wait` poll. Present for compatibility with C++."""
        raise DeviceOnlyError.of("AtomicInterface.notify_all")


class Atomic(AtomicInterface, Aligned):
    """An atomic number, or another atomic value of up to 16 bytes, as a struct member or a local object.

    On the host, use it as the type hint of a struct's member. The member is aligned to its size, or to `align` bytes if that is
    more:

        @device.struct
        class lock:
            holder: device.Atomic(device.int32, align=16)

    A struct with such a member has identity. It lives in an array (`numpy_dtype(lock)` is the dtype of one on the host), is
    accessed by reference (`locks[i].holder.add(1)`, `m = locks[i]`), and cannot be copied or returned. In device code,
    `Atomic(dtype)` creates an atomic that belongs to one thread and starts at 0. `atomic_ref` also returns an instance of
    `Atomic`. Raises `TypeError` for a type that no atomic can hold, and `ValueError` for an invalid alignment. Specification:
    'Atomics'.
    """

    def __init__(self, dtype: Any, align: int = 1) -> None:
        check_alignment(align)
        content = element_of(dtype)
        check_content(content)
        super().__init__(model.AtomicCell(content), align)
        object.__setattr__(self, "dtype", dtype)

    def __repr__(self) -> str:
        name = getattr(self.dtype, "__name__", self.dtype)
        return f"Atomic({name}, align={self.align})" if self.align > 1 else f"Atomic({name})"


def interface_of(type: model.Type) -> Any:
    """Returns the class whose methods, each an entity with a row, values of this type have in device code, or None."""
    match type:
        case model.Ref(_, model.AtomicCell()):
            return AtomicInterface
    return None


# Machines access real numbers atomically. Any other value is converted to an integer of its size.
#
#     vector<float16, 2>                        uint32
#     struct<pair, key: uint32, n: uint16>      uint64; padding is zero
#     complex128, vector<int32, 4>              vector<uint64, 2>: of 16 bytes there are loads and stores


WIDEST_EXCHANGE = 8


def _is_number(dtype: model.Type) -> bool:
    """Returns whether a type is a real number, which machines access directly."""
    return isinstance(dtype, model.Number) and len(leaves(dtype)) == 1


def _storage(dtype: model.Type) -> model.Type:
    """The type with which a machine accesses an atomic of `dtype`."""
    if _is_number(dtype):
        return dtype
    return model.Vector(model.UINT64, 2) if size_of(dtype) == WIDEST else _word(dtype)


def _word(dtype: model.Type) -> model.Number:
    """The unsigned integers, one or two, that have the bits of an atomic of `dtype`."""
    return model.Number(model.NumberKind.UINT, min(size_of(dtype), WIDEST_EXCHANGE) * 8)


def _stored(build: Lowering, dtype: model.Type, tree: Tree) -> Value:
    """Converts a value to its type of `_storage`."""
    if _is_number(dtype):
        return value_of(tree)
    words = pack(build, dtype, tree, _word(dtype))
    return words[0] if len(words) == 1 else build.op(ops.MAKE, _storage(dtype), *words)


def _restored(build: Lowering, dtype: model.Type, value: Value) -> Tree:
    """The inverse of `_stored`."""
    if _is_number(dtype):
        return value
    words = [value]
    if isinstance(value.type, model.Vector):
        words = [build.op(ops.FIELD, model.UINT64, value, index=i) for i in range(2)]
    return unpack(build, words, dtype)


def atomic_ref(array: Any, index: Any) -> AtomicInterface:
    """Returns an `AtomicInterface` for atomic access to the element `array[index]`.

    `array` is a writable array in global, shared or local memory. Its elements have 1, 2, 4, 8 or 16 bytes and are aligned to
    their size. `index` is an integer or a tuple of integers; negative ones count from the end. Specification: 'Atomics'.
    """
    raise DeviceOnlyError.of("atomic_ref")


def threadfence(memory: str = "seq_cst", scope: str = "system") -> None:
    """Orders this thread's memory accesses before and after the call, like C++'s `atomic_thread_fence`.

    The parameters are those of the methods of `AtomicInterface`. Specification: 'Atomics'.
    """
    raise DeviceOnlyError.of("threadfence")


# Arguments

Choice = TypeVar("Choice", bound=StrEnum)


def _choice(known: Known, kind: type[Choice], name: str, allowed: Sequence[Choice], description: str) -> Choice:
    """Returns the value of a constant expression that must be one of `allowed`."""
    value = constant_of(known, name)
    if not isinstance(value, str) or value not in list(kind):
        raise CompileError(
            f"{name}={value!r} is not a {description.split(' for ')[0]}",
            help=f"write one of {', '.join(repr(str(choice)) for choice in kind)}",
        )
    if value not in allowed:
        choices = ", ".join(repr(str(choice)) for choice in allowed)
        raise CompileError(f"{name}={value!r} is not a {description}", help=f"write one of {choices}")
    return kind(str(value))


def _ordering(memory: Known, scope: Known, allowed: Sequence[Order], operation: str) -> tuple[str, str]:
    order = _choice(memory, Order, "memory", allowed, f"memory order for {operation}")
    where = _choice(scope, Scope, "scope", tuple(Scope), "thread scope")
    return str(order), str(where)


def _atomic_type(known: Known, name: str) -> model.Type:
    """The type of an atomic's value."""
    match known.type:
        case model.Ref(_, model.AtomicCell(), True):
            raise CompileError("the array is read-only", help="pass an array that can be written")
        case model.Ref(_, model.AtomicCell(dtype), _, align):
            _check_alignment(known, align, dtype)
            return dtype
    raise CompileError(
        f"AtomicInterface.{name} works on an atomic, not on {known}", help="make one: atomic_ref(array, index)"
    )


# `atomic_ref` and `Atomic`


def _infer_ref(arguments: Sequence[Known]) -> Typed:
    array, index = arguments
    type = array.type
    if isinstance(type, model.Pointer):
        return Typed(array, instead=_ref_behind)
    if not isinstance(type, model.Array):
        raise CompileError(
            f"atomic_ref takes an array, not {array}",
            help="write atomic_ref(x, i) for the element i of an array x",
        )
    if type.readonly:
        raise CompileError(f"the array is read-only: {type}", help="pass an array that can be written")
    content = type.dtype.dtype if isinstance(type.dtype, model.AtomicCell) else type.dtype
    _check_content(content)
    _check_alignment(array, type.align, content)
    result = model.Ref(type.space, model.AtomicCell(content))
    operands = ((0, type), (1, index_type(type, index, "atomic_ref")))
    return Typed(of_type(result), operands, (type,))


def _ref_behind(p: Any, index: Any) -> Any:
    """`atomic_ref` of a pointer."""
    return atomic_ref((p + index).array(1), 0)


def _lower_ref(build: Lowering, operands: Sequence[Any], typed: Typed) -> Tree:
    tree, index = operands
    (array,), reference = typed.settings, typed.result.type
    assert isinstance(reference, model.Ref)
    indices = index if isinstance(index, tuple) else (index,)
    return build.refer(address_of(build, tree, array, indices), reference)


def _check_alignment(known: Known, align: int, content: model.Type) -> None:
    if align:
        raise UnalignedError(
            f"{known} is aligned to {align} byte{'s' * (align > 1)}: atomics need {usual_alignment(content)}",
            help="copy the array (.copy()), or give its fields that alignment: align=True, align(T, n)",
        )


def _check_content(dtype: model.Type) -> None:
    try:
        check_content(dtype)
    except TypeError as error:
        raise CompileError(str(error), help="use a smaller type") from None


def _infer_atomic(arguments: Sequence[Known]) -> Typed:
    align = constant_of(arguments[1], "align")
    try:
        check_alignment(align)
        dtype = element_of(constant_of(arguments[0], "dtype"))
    except TypeError as error:
        reason = str(error) if isinstance(error, ArgumentError) else f"dtype: {error}"
        raise CompileError(reason, help="write Atomic(int32), for example, or Atomic(int32, align=16)") from None
    _check_content(dtype)
    return Typed(of_type(model.Ref(model.Space.LOCAL, model.AtomicCell(dtype))), settings=(align,))


def _lower_atomic(build: Lowering, _: Sequence[Tree], typed: Typed) -> Tree:
    reference = typed.result.type
    assert isinstance(reference, model.Ref) and isinstance(reference.pointee, model.AtomicCell)
    dtype, align = reference.pointee.dtype, *typed.settings
    memory = build.op(ops.LOCAL, model.Ref(model.Space.LOCAL, dtype), count=1, align=max(align, align_of(dtype)))
    build.store(memory, dtype, grow(dtype, (build.number(leaf, 0) for leaf in leaves(dtype))))
    return build.refer(memory, reference)


# Operations without an instruction, by compare-and-swap. They are compiled like users' functions, and take the arguments of the
# methods of `AtomicInterface`, which have been checked.


def same_bits(a: Any, b: Any) -> bool:
    """Returns whether two numbers of one type have the same bits: equal NaNs match, 0.0 and -0.0 do not."""
    raise DeviceOnlyError.of("same_bits")


def _infer_same_bits(arguments: Sequence[Known]) -> Typed:
    type = arguments[0].type
    return Typed(of_type(model.BOOL), ((0, type), (1, type)), (type,))


def _lower_same_bits(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    (dtype,) = typed.settings
    pairs = zip(*(pack(build, dtype, operand, _word(dtype)) for operand in operands), strict=True)
    first, *rest = (build.compare("==", x, y) for x, y in pairs)
    for equal in rest:
        first = build.binary(ops.AND, first, equal)
    return first


def await_change(atomic: Any, old: Any, nanoseconds: Any = None, state: str = "an atomic that does not change") -> None:
    """Pauses for some nanoseconds; on the CPU until the value of an atomic differs from `old`, or for a shorter time.

    The loop that calls it tests the value. Without `nanoseconds`, a GPU does nothing. A report of a deadlock describes the value
    with the format `state` (`instrument.outline.ReportPlace`).
    """
    raise DeviceOnlyError.of("await_change")


def _infer_await(arguments: Sequence[Known]) -> Typed:
    atomic, _, nanoseconds, state = arguments
    pause = () if nanoseconds.constant and nanoseconds.python is None else ((2, model.UINT32),)
    dtype = _atomic_type(atomic, "wait")
    return Typed(constant(None), ((0, atomic.type), (1, dtype), *pause), (dtype, constant_of(state, "state")))


def _lower_await(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    (reference, old, *pause), (dtype, state) = operands, typed.settings
    assert isinstance(reference, Value) and isinstance(reference.type, model.Ref)
    for nanoseconds in pause:
        build.effect(ops.PAUSE, value_of(nanoseconds))
    if size_of(dtype) > WIDEST_EXCHANGE or reference.type.space is model.Space.LOCAL:
        build.effect(ops.YIELD, now=True)
        return ()
    (word,) = pack(build, dtype, old, _word(dtype))
    plain = build.refer(reference, model.Ref(reference.type.space, model.AtomicCell(_word(dtype))))
    build.effect(ops.AWAIT, plain, word, state=state)
    return ()


def wait(atomic: Any, old: Any, memory: str, scope: str) -> None:
    """`wait`: polls with pauses that grow up to about a microsecond."""
    nanoseconds = 16
    while same_bits(atomic.load(memory, scope), old):
        await_change(atomic, old, nanoseconds)
        if nanoseconds < 1024:
            nanoseconds *= 2


def _larger(a: Any, b: Any) -> Any:
    """Returns the larger number: NaN if there is one, and 0.0 rather than -0.0."""
    if isinstance(a, np.integer):
        return max(a, b)
    if a != a or b != b:
        return a if a != a else b
    if a == b:
        return b if math.copysign(1.0, a) < 0 else a
    return max(a, b)


def _larger_number(a: Any, b: Any) -> Any:
    """Like `_larger`, but NaN only if both are."""
    if a != a or b != b:
        return b if a != a else a
    return _larger(a, b)


def _smaller(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, np.integer) else -_larger(-a, -b)


def _smaller_number(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, np.integer) else -_larger_number(-a, -b)


def by_cas(choose: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A method that replaces the content by `choose(content, val)` and returns the previous one, by compare-and-swap."""

    def method(atomic: Any, val: Any, memory: str, scope: str) -> Any:
        old = atomic.load("relaxed", scope)
        while True:
            seen = atomic.cas(old, choose(old, val), memory, scope)
            if same_bits(seen, old):
                return old
            old = seen

    return method


def _cas_alone(atomic: Any, old: Any, val: Any, memory: str, scope: str) -> Any:
    current = atomic.load("relaxed", scope)
    if same_bits(current, old):
        atomic.store(val, "relaxed", scope)
    return current


# Operations

INTEGERS = (model.INT32, model.UINT32, model.INT64, model.UINT64)
NUMBERS = (*INTEGERS, model.FLOAT32, model.FLOAT64)
_LOOK = Effect.READS | Effect.SPINS
_CHANGE = _LOOK | Effect.WRITES


@dataclass(frozen=True, slots=True)
class _Method:
    """A method of `AtomicInterface`."""

    name: str
    code: ops.OpDef = ops.ATOMIC_UPDATE
    values: int = 1
    """The number of operands of the atomic's type."""
    types: tuple[model.Number, ...] = ()
    """The supported numbers; if empty, all values of up to `most` bytes."""
    most: int = WIDEST_EXCHANGE
    orders: tuple[Order, ...] = OF_UPDATES
    effects: Effect = _CHANGE
    returns: bool = True
    operation: str = ""
    """That of `ops.ATOMIC_UPDATE`."""
    loop: Callable[..., Any] | None = None
    """The Python function that is called for types that `needs_loop` selects, or if no other thread accesses the atomic."""
    needs_loop: Callable[[model.Type], bool] = lambda _: True

    def check(self, dtype: model.Type) -> None:
        """Raises `CompileError` for a type that the operation does not support."""
        if self.types and dtype not in self.types:
            raise CompileError(
                f"atomic {self.name} does not support {dtype}", help=f"it supports {', '.join(map(str, self.types))}"
            )
        if size_of(dtype) > self.most:
            raise CompileError(
                f"atomic {self.name} supports values of up to {self.most} bytes, but {dtype} has {size_of(dtype)}",
                help="load and store support 16 bytes; protect other operations with a lock",
            )


def _update(
    name: str,
    choose: Callable[[Any, Any], Any],
    types: tuple[model.Number, ...] = NUMBERS,
    needs_loop: Callable[[model.Type], bool] = lambda _: False,
) -> _Method:
    """A method that replaces the content by `choose(content, val)`."""
    operation = name.removeprefix("nan").rstrip("_")
    return _Method(name, types=types, operation=operation, loop=by_cas(choose), needs_loop=needs_loop)


def _is_float(dtype: model.Type) -> bool:
    return isinstance(dtype, model.Number) and dtype.is_float


_LOAD = _Method("load", ops.ATOMIC_LOAD, 0, most=WIDEST, orders=OF_LOADS, effects=_LOOK)
_METHODS = (
    _LOAD,
    replace(_LOAD, name="wait", values=1, returns=False, loop=wait),
    _Method("store", ops.ATOMIC_STORE, most=WIDEST, orders=OF_STORES, returns=False),
    _Method("cas", ops.ATOMIC_CAS, 2, loop=_cas_alone, needs_loop=lambda _: False),
    _update("exch", lambda _, val: val, (), lambda dtype: size_of(dtype) < 4),
    _update("add", lambda a, b: a + b),
    _update("sub", lambda a, b: a - b),
    _update("and_", lambda a, b: a & b, INTEGERS),
    _update("or_", lambda a, b: a | b, INTEGERS),
    _update("xor", lambda a, b: a ^ b, INTEGERS),
    _update("max", _larger, needs_loop=_is_float),
    _update("nanmax", _larger_number, needs_loop=_is_float),
    _update("min", _smaller, needs_loop=_is_float),
    _update("nanmin", _smaller_number, needs_loop=_is_float),
)


def _method_row(method: _Method) -> Intrinsic:
    last = 1 + method.values

    def infer(arguments: Sequence[Known]) -> Typed:
        dtype = _atomic_type(arguments[0], method.name)
        method.check(dtype)
        for value in arguments[1:last]:
            if not _becomes(value.type, dtype):
                operand = "a number" if isinstance(dtype, model.Number) else "one"
                raise CompileError(
                    f"atomic {method.name} of {dtype} takes {operand}, not {value}",
                    help=f"give it a value of type {dtype}",
                )
        memory, scope = arguments[last:]
        settings = _ordering(memory, scope, method.orders, f"atomic {method.name}")
        operands = ((0, arguments[0].type), *((i, dtype) for i in range(1, last)))
        result = of_type(dtype) if method.returns else constant(None)
        calls = method.needs_loop(dtype) or _is_alone(arguments[0].type, settings[1])
        return Typed(result, operands, settings, instead=method.loop if calls else None)

    def lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
        reference, *values = operands
        assert isinstance(reference, Value) and isinstance(reference.type, model.Ref)
        assert isinstance(reference.type.pointee, model.AtomicCell)
        (order, scope), dtype = typed.settings, reference.type.pointee.dtype
        if _is_alone(reference.type, scope):
            plain = build.refer(reference, model.Ref(reference.type.space, dtype))
            if method.returns:
                return build.load(plain, dtype)
            build.store(plain, dtype, values[0])
            return ()
        operation = {"operation": method.operation} if method.operation else {}
        if method.operation == "sub":
            operation, values = {"operation": "add"}, [build.negative(value_of(values[0]))]
        cell = model.AtomicCell(_storage(dtype))
        packed = [_stored(build, dtype, value) for value in values]
        plain = build.refer(reference, model.Ref(reference.type.space, cell))
        attributes = {"memory": order, "scope": scope, **operation}
        if not method.returns:
            build.effect(method.code, plain, *packed, **attributes)
            return ()
        return _restored(build, dtype, build.op(method.code, cell.dtype, plain, *packed, **attributes))

    entity = getattr(AtomicInterface, method.name)
    return Intrinsic(entity, f"AtomicInterface.{method.name}", infer, lower, effects=method.effects)


def _is_alone(reference: model.Type, scope: object) -> bool:
    """Whether no other thread accesses the atomic, so that plain accesses suffice."""
    return scope == Scope.THREAD or (isinstance(reference, model.Ref) and reference.space is model.Space.LOCAL)


def _becomes(type: model.Type, dtype: model.Type) -> bool:
    """Returns whether a value converts to the atomic's type: numbers to any number, tuples element by element."""
    if isinstance(type, model.Tuple) and isinstance(dtype, model.Tuple) and len(type.elements) == len(dtype.elements):
        return all(map(_becomes, type.elements, dtype.elements))
    return type == dtype or (isinstance(type, model.Number) and isinstance(dtype, model.Number))


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


ROWS = entered(
    Intrinsic(atomic_ref, "atomic_ref", _infer_ref, _lower_ref),
    Intrinsic(Atomic, "Atomic", _infer_atomic, _lower_atomic, effects=Effect.LOCAL | Effect.WRITES, named=True),
    *map(_method_row, _METHODS),
    *map(_notify_row, ("notify_one", "notify_all")),
    Intrinsic(threadfence, "threadfence", _infer_fence, _lower_fence, effects=ops.FENCE.effects),
    Intrinsic(same_bits, "same_bits", _infer_same_bits, _lower_same_bits),
    Intrinsic(await_change, "await_change", _infer_await, _lower_await, effects=ops.PAUSE.effects | ops.AWAIT.effects),
)
