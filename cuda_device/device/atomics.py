"""Objects that threads access at once: the specification's 'Atomics' and its fence.

count = device.atomic_ref(histogram, bin)
old = count.add(1, "relaxed", "device")

An array's element, a member of a struct (`device.Atomic(device.int32)` as its type hint), or a thread's own `Atomic(dtype)`.

`_METHODS` has a row for each operation: the types that it takes, the memory orders that C++ allows it, and how it is done
where machines have no instruction for it. Read-modify-writes return what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar, cast

from cuda_device.device import atomic_accesses as accesses
from cuda_device.device import atomic_accesses as bits
from cuda_device.device import atomic_types as loops
from cuda_device.device.atomic_types import Atomic, AtomicInterface
from cuda_device.device.lowering import ArrayTree, Lowering, Tree, address_of, grow
from cuda_device.device.rows import Intrinsic, Typed, constant_of
from cuda_device.errors import ArgumentError, CompileError, DeviceOnlyError, UnalignedError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.ir.ops import OF_LOADS, OF_STORES, OF_UPDATES, Effect, Order, Scope
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types import model
from cuda_device.types.dtypes import element_of
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.layout import align_of, leaves, size_of, usual_alignment
from cuda_device.types.struct_classes import check_alignment


def atomic_ref(array: Any, index: Any) -> AtomicInterface:
    """Refers to the element `array[index]` for atomic access: an `AtomicInterface`.

    `array` is a writable array in global, shared or local memory. Its elements have 1, 2, 4, 8 or 16 bytes and are aligned to
    their size. `index` is an integer or a tuple of integers; negative ones count from the end. Specification: 'Atomics'.
    """
    raise DeviceOnlyError.of("atomic_ref")


def threadfence(memory: str = "seq_cst", scope: str = "system") -> None:
    """Orders this thread's memory accesses before and after it, as C++'s `atomic_thread_fence` does.

    The parameters are those of the methods of `AtomicInterface`. Specification: 'Atomics'.
    """
    raise DeviceOnlyError.of("threadfence")


# Arguments

Choice = TypeVar("Choice", bound=StrEnum)


def _choice(known: Known, kind: type[Choice], name: str, allowed: Sequence[Choice], what: str) -> Choice:
    """A constant expression that is one of `allowed`."""
    value = constant_of(known, name)
    if not isinstance(value, str) or value not in list(kind):
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


def _atomic_type(known: Known, name: str) -> model.Type:
    """The type of what an atomic refers to."""
    match known.type:
        case model.Ref(_, model.AtomicCell(), True):
            raise CompileError("the array is read-only", help="pass an array that can be written")
        case model.Ref(_, model.AtomicCell(dtype), _, align):
            _check_alignment(known, align, dtype)
            return dtype
    raise CompileError(
        f"AtomicInterface.{name} is for atomics, not for {known}", help="make one: atomic_ref(array, index)"
    )


# Making them


def _infer_ref(arguments: Sequence[Known]) -> Typed:
    array, index = arguments
    type = array.type
    if isinstance(type, model.Pointer):
        return Typed(array, instead=_ref_behind)
    if not isinstance(type, model.Array):
        raise CompileError(
            f"atomic_ref takes an array, not {array}",
            help="write atomic_ref(x, i), of an element that x has",
        )
    if type.readonly:
        raise CompileError(f"the array is read-only: {type}", help="pass an array that can be written")
    content = type.dtype.dtype if isinstance(type.dtype, model.AtomicCell) else type.dtype
    _check_content(content)
    _check_alignment(array, type.align, content)
    indices = [item.type for item in index.items] if isinstance(index.type, model.Tuple) else [index.type]
    for each in indices:
        if not model.is_index(each):
            raise CompileError(
                f"an index is an integer or a tuple of integers, not {index}",
                help="write atomic_ref(x, i), or atomic_ref(x, (i, j))",
            )
    if len(indices) != type.ndim:
        raise CompileError(
            f"{type} has {type.ndim} axes, but there are {len(indices)} indices", help="give each axis one index"
        )
    wide: model.Type = (
        model.Tuple((model.INDEX,) * len(indices)) if isinstance(index.type, model.Tuple) else model.INDEX
    )
    result = model.Ref(type.space, model.AtomicCell(content))
    return Typed(of_type(result), ((0, type), (1, wide)), (type.layout.value, type.small))


def _ref_behind(p: Any, index: Any) -> Any:
    """`atomic_ref` of a pointer."""
    return atomic_ref((p + index).array(1), 0)


def _lower_ref(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    tree, index = operands
    layout, small = typed.settings
    reference = typed.result.type
    assert (
        isinstance(tree, ArrayTree)
        and isinstance(reference, model.Ref)
        and isinstance(reference.pointee, model.AtomicCell)
    )
    array = model.Array(
        reference.pointee.dtype, len(tree.extents), model.Layout(str(layout)), space=reference.space, small=bool(small)
    )
    indices = [value for value in (index if isinstance(index, tuple) else (index,)) if isinstance(value, Value)]
    return build.refer(address_of(build, tree, array, indices), reference)


def _check_alignment(known: Known, align: int, content: model.Type) -> None:
    if align:
        raise UnalignedError(
            f"{known} is aligned to {align} byte{'s' * (align > 1)}: atomics need {usual_alignment(content)}",
            help="copy the array (.copy()), or give its fields that alignment: align=True, align(T, n)",
        )


def _check_content(dtype: model.Type) -> None:
    try:
        bits.check(dtype)
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
    (align,) = typed.settings
    assert isinstance(align, int)
    dtype = reference.pointee.dtype
    memory = build.op(ops.LOCAL, model.Ref(model.Space.LOCAL, dtype), count=1, align=max(align, align_of(dtype)))
    build.store(memory, dtype, grow(dtype, (build.number(leaf, 0) for leaf in leaves(dtype))))
    return build.refer(memory, reference)


# Operations

INTEGERS = (model.INT32, model.UINT32, model.INT64, model.UINT64)
NUMBERS = (*INTEGERS, model.FLOAT32, model.FLOAT64)
_LOOK = Effect.READS | Effect.SPINS
_CHANGE = _LOOK | Effect.WRITES


@dataclass(frozen=True, slots=True)
class _Method:
    """A method of `AtomicInterface`.

    `values` is how many operands of the atomic's type it takes, `types` which numbers it is for (none: values of all types of up
    to `most` bytes). `floats`, `narrow` and `loop` are what is called instead for floats, for what has less than 32 bits, and for
    everything.
    """

    name: str
    lower: Callable[[accesses.AtomicAccess], Tree]
    values: int = 1
    types: tuple[model.Number, ...] = ()
    most: int = bits.WIDEST_EXCHANGE
    orders: tuple[Order, ...] = OF_UPDATES
    effects: Effect = _CHANGE
    returns: bool = True
    floats: Callable[..., Any] | None = None
    narrow: Callable[..., Any] | None = None
    loop: Callable[..., Any] | None = None

    def check(self, dtype: model.Type) -> None:
        """Refuses what the operation is not for."""
        if self.types and dtype not in self.types:
            raise CompileError(
                f"atomic {self.name} is not for {dtype}", help=f"it is for {', '.join(map(str, self.types))}"
            )
        if size_of(dtype) > self.most:
            raise CompileError(
                f"atomic {self.name} is for values of up to {self.most} bytes, but {dtype} has {size_of(dtype)}",
                help="load and store are for 16 bytes; guard larger changes with a lock",
            )

    def instead(self, dtype: model.Type) -> Callable[..., Any] | None:
        """The Python function that does it for values of this type, or None."""
        if self.narrow is not None and size_of(dtype) < 4:
            return self.narrow
        return self.loop or (self.floats if isinstance(dtype, model.Number) and dtype.is_float else None)


_METHODS = (
    _Method("load", accesses.load, 0, most=bits.WIDEST, orders=OF_LOADS, effects=_LOOK),
    _Method("store", accesses.store, most=bits.WIDEST, orders=OF_STORES, returns=False),
    _Method("exch", accesses.exchange, narrow=loops.exchange),
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
    _Method("wait", accesses.by_loop, most=bits.WIDEST, orders=OF_LOADS, effects=_LOOK, returns=False, loop=loops.wait),
)


def _method_row(method: _Method) -> Intrinsic:
    last = 1 + method.values

    def infer(arguments: Sequence[Known]) -> Typed:
        dtype = _atomic_type(arguments[0], method.name)
        method.check(dtype)
        for value in arguments[1:last]:
            if not _becomes(value.type, dtype):
                what = "a number" if isinstance(dtype, model.Number) else "one"
                raise CompileError(
                    f"atomic {method.name} of {dtype} takes {what}, not {value}",
                    help=f"give it a value of type {dtype}",
                )
        memory, scope = arguments[last:]
        settings = _ordering(memory, scope, method.orders, f"atomic {method.name}")
        operands = ((0, arguments[0].type), *((i, dtype) for i in range(1, last)))
        result = of_type(dtype) if method.returns else constant(None)
        return Typed(result, operands, settings, instead=method.instead(dtype))

    def lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
        reference, *values = operands
        assert isinstance(reference, Value) and isinstance(reference.type, model.Ref)
        assert isinstance(reference.type.pointee, model.AtomicCell)
        order, scope = map(str, typed.settings)
        return method.lower(
            accesses.AtomicAccess(build, reference, reference.type.pointee.dtype, tuple(values), order, scope)
        )

    entity = getattr(AtomicInterface, method.name)
    return Intrinsic(entity, f"AtomicInterface.{method.name}", infer, lower, effects=method.effects)


def _becomes(given: model.Type, dtype: model.Type) -> bool:
    """Whether a value may become one of the atomic's type: a number any number, tuples element by element."""
    if isinstance(given, model.Tuple) and isinstance(dtype, model.Tuple) and len(given.elements) == len(dtype.elements):
        return all(map(_becomes, given.elements, dtype.elements))
    return given == dtype or (isinstance(given, model.Number) and isinstance(dtype, model.Number))


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
    return Typed(of_type(model.BOOL), ((0, type), (1, type)), (type,))


def _lower_same_bits(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    a, b = operands
    (dtype,) = typed.settings
    return bits.equal(build, cast(model.Type, dtype), a, b)


ROWS = (
    Intrinsic(atomic_ref, "atomic_ref", _infer_ref, _lower_ref),
    Intrinsic(Atomic, "Atomic", _infer_atomic, _lower_atomic, effects=Effect.LOCAL | Effect.WRITES, named=True),
    *map(_method_row, _METHODS),
    *map(_notify_row, ("notify_one", "notify_all")),
    Intrinsic(threadfence, "threadfence", _infer_fence, _lower_fence, effects=ops.FENCE.effects),
    Intrinsic(loops.same_bits, "same_bits", _infer_same_bits, _lower_same_bits),
)
