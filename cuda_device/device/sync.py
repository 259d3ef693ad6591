"""Barriers and warp operations: how the threads of a block or warp wait for each other and exchange values.

    device.syncthreads()
    many = device.syncthreads_count(lambda: x[i] > 0)

    total = x[i]
    for step in (16, 8, 4, 2, 1):
        total += device.shfl_xor_sync(0xFFFFFFFF, total, step)

All threads of a block must call the same barrier, except those that have returned. In a warp operation, a mask selects the lanes
that take part. Specification: 'Thread Block Synchronization' and 'Thread Warp Synchronization'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import numpy as np

from cuda_device.device.entities import Integer, device_value
from cuda_device.device.lowering import Lowering, Tree, value_of
from cuda_device.device.packing import MOST_BYTES, pack, unpack
from cuda_device.device.positioning import register_row
from cuda_device.device.rows import Intrinsic, Typed, entered, number_of
from cuda_device.device.target import needing, sm80
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.types.known import Known, constant, of_type, tuple_of
from cuda_device.types.layout import leaves, size_of
from cuda_device.types.model import BOOL, INT32, MASK, UINT32, Number, Type
from cuda_device.types.promote import signed

# Warp operations: the specification's 'Thread Warp Synchronization'.
#
# A mask selects the lanes that take part: bit i stands for lane i. Any integer is a mask of its lower 32 bits: `0xFFFFFFFF`, -1,
# an int32 or uint32 variable, a `WarpMask`. All lanes of a mask that have not returned must call the same operation with the
# same mask. Of these operations, only `syncwarp` orders memory accesses.


WARP_SIZE = 32
_ALL_BITS = (1 << WARP_SIZE) - 1

Predicate = Callable[[], Any] | bool | np.bool_
T = TypeVar("T")

warp_size: np.int32 = device_value("warp_size", "The number of threads in a warp, 32: an int32 constant expression.")
lane_id: np.int32 = device_value("lane_id", "The thread's index in its warp, from 0 to 31: int32.")


class WarpMask(np.int32):
    """Lanes of a warp: an int32 whose bit i stands for lane i.

    `WarpMask(m)` converts any integer to a mask of its lower 32 bits. `~m`, `m & n`, `m | n` and `m ^ n` are masks, and `m ==
    n` compares bits; the other operand may be a plain integer. In other arithmetic a mask is an int32. `m[i]` tells whether
    lane i is in the mask. Device code only. Specification: 'Thread Warp Synchronization'.
    """

    def __new__(cls, mask: Integer = 0, /) -> Self:
        """Raises `DeviceOnlyError`: masks are made in device code."""
        raise DeviceOnlyError.of("WarpMask")

    def __getitem__(self, i: Integer) -> bool:
        """Returns whether lane `i`, from 0 to 31, is in the mask."""
        raise DeviceOnlyError.of("WarpMask")

    def __setitem__(self, i: Integer, val: bool) -> None:
        """Adds lane `i`, from 0 to 31, to the mask, or removes it."""
        raise DeviceOnlyError.of("WarpMask")


def activemask() -> WarpMask:
    """Returns the lanes that execute this call together, a `WarpMask`.

    Which lanes these are after a branch depends on the hardware. To find lanes that must synchronise, use `ballot_sync`.
    Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("activemask")


def lanemask_lt() -> WarpMask:
    """Returns the lanes below the caller's, active or not, a `WarpMask`. Specification: 'Thread Warp Synchronization'."""
    raise DeviceOnlyError.of("lanemask_lt")


def syncwarp(mask: Integer) -> None:
    """Waits for all lanes of `mask`. Their earlier writes are then visible to all of them.

    Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("syncwarp")


def all_sync(mask: Integer, pred: Predicate) -> bool:
    """Returns whether `pred()` is true in all lanes of `mask`.

    `pred` is a function without parameters, or a bool. Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("all_sync")


def any_sync(mask: Integer, pred: Predicate) -> bool:
    """Returns whether `pred()` is true in any lane of `mask`.

    `pred` is a function without parameters, or a bool. Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("any_sync")


def eq_sync(mask: Integer, pred: Predicate) -> bool:
    """Returns whether `pred()` has the same value in all lanes of `mask`.

    `pred` is a function without parameters, or a bool. Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("eq_sync")


def ballot_sync(mask: Integer, pred: Predicate) -> WarpMask:
    """Returns the lanes of `mask` in which `pred()` is true, a `WarpMask`.

    `pred` is a function without parameters, or a bool. Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("ballot_sync")


def shfl_sync(mask: Integer, value: T, src_lane: Integer) -> T:
    """Returns the `value` of lane `src_lane`, from 0 to 31, which must be in `mask`.

    `value` is a number, or a vector, struct or tuple of numbers, of at most 8 bytes (16 as an extension). Specification:
    'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("shfl_sync")


def shfl_up_sync(mask: Integer, value: T, delta: Integer) -> T:
    """Returns the `value` of the lane `delta` lanes below the caller's, or the caller's own if there is no such lane.

    `delta` is from 0 to 31; otherwise like `shfl_sync`. Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("shfl_up_sync")


def shfl_down_sync(mask: Integer, value: T, delta: Integer) -> T:
    """Returns the `value` of the lane `delta` lanes above the caller's, or the caller's own if there is no such lane.

    `delta` is from 0 to 31; otherwise like `shfl_sync`. Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("shfl_down_sync")


def shfl_xor_sync(mask: Integer, value: T, flag: Integer) -> T:
    """Returns the `value` of the lane whose index is the exclusive or of the caller's index and `flag`.

    `flag` is from 0 to 31; otherwise like `shfl_sync`. Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("shfl_xor_sync")


def match_any_sync(mask: Integer, value: Any, flag: object = 0) -> WarpMask:
    """Returns the lanes of `mask` whose `value` has the same bits as the caller's, a `WarpMask`.

    `value` is as in `shfl_sync`; `flag` is not used. Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("match_any_sync")


def match_all_sync(mask: Integer, value: Any, flag: object = 0) -> tuple[WarpMask, bool]:
    """Returns (lanes, True) if `value` has the same bits in all lanes of `mask`, and otherwise (0, False).

    `lanes` is a `WarpMask` of the lanes of `mask` that have not returned. `value` is as in `shfl_sync`; `flag` is not used.
    Specification: 'Thread Warp Synchronization'.
    """
    raise DeviceOnlyError.of("match_all_sync")


def reduce_add_sync(mask: Integer, value: Integer) -> np.int32 | np.uint32:
    """Returns the sum of `value` over all lanes of `mask`, which wraps around: CUDA's `__reduce_add_sync`.

    `value` is an integer of at most 32 bits. The result is a uint32 if its type is unsigned, and otherwise an int32. This is a
    single instruction on sm_80 and later; older targets raise a `CompileError`. Device code only.
    """
    raise DeviceOnlyError.of("reduce_add_sync")


def reduce_min_sync(mask: Integer, value: Integer) -> np.int32 | np.uint32:
    """Returns the smallest `value` of the lanes of `mask` (CUDA's `__reduce_min_sync`), like `reduce_add_sync`."""
    raise DeviceOnlyError.of("reduce_min_sync")


def reduce_max_sync(mask: Integer, value: Integer) -> np.int32 | np.uint32:
    """Returns the largest `value` of the lanes of `mask` (CUDA's `__reduce_max_sync`), like `reduce_add_sync`."""
    raise DeviceOnlyError.of("reduce_max_sync")


def reduce_and_sync(mask: Integer, value: Integer) -> np.int32 | np.uint32:
    """Returns the bitwise and of `value` over the lanes of `mask` (CUDA's `__reduce_and_sync`), like `reduce_add_sync`."""
    raise DeviceOnlyError.of("reduce_and_sync")


def reduce_or_sync(mask: Integer, value: Integer) -> np.int32 | np.uint32:
    """Returns the bitwise or of `value` over the lanes of `mask` (CUDA's `__reduce_or_sync`), like `reduce_add_sync`."""
    raise DeviceOnlyError.of("reduce_or_sync")


def reduce_xor_sync(mask: Integer, value: Integer) -> np.int32 | np.uint32:
    """Returns the exclusive or of `value` over the lanes of `mask` (CUDA's `__reduce_xor_sync`), like `reduce_add_sync`."""
    raise DeviceOnlyError.of("reduce_xor_sync")


# Arguments


def _mask(known: Known) -> Type:
    """The type in which a mask is passed: `lower` takes its lower 32 bits."""
    number = known.type
    if not isinstance(number, Number) or not number.is_integer:
        raise CompileError(
            f"a mask must be an integer with one bit for each lane, not {known}", help="write 0xFFFFFFFF for all"
        )
    if not known.constant:
        return number
    assert isinstance(known.value, int)
    if not INT32.low <= known.value <= _ALL_BITS:
        raise CompileError(f"a mask has 32 bits, and {known.value:#x} does not fit", help="write 0xFFFFFFFF for all")
    return UINT32 if known.value > INT32.high else INT32


def _lane(known: Known, name: str) -> Type:
    number = known.type
    if not isinstance(number, Number) or not number.is_integer:
        raise CompileError(
            f"{name} must be an integer from 0 to {WARP_SIZE - 1}, not {known}", help="convert with int32(…)"
        )
    if known.constant and isinstance(known.value, int) and not 0 <= known.value < WARP_SIZE:
        raise CompileError(
            f"{name} must be an integer from 0 to {WARP_SIZE - 1}, not {known.value}",
            help=f"write {name} % {WARP_SIZE}, or another lane",
        )
    return INT32


def _check_value(known: Known) -> None:
    parts = leaves(known.type)
    try:
        size = size_of(known.type)
    except TypeError:
        size = 0
    if not size or not parts or not all(isinstance(part, Number) for part in parts):
        raise CompileError(
            f"lanes exchange numbers, and vectors, structs and tuples of numbers, not {known}",
            help="exchange single elements; pass whole arrays through shared memory",
        )
    if size > MOST_BYTES:
        raise CompileError(f"{known} has more than {MOST_BYTES} bytes", help="exchange its parts one by one")


# Rows


def _lower_mask(build: Lowering, tree: Tree) -> Value:
    mask = value_of(tree)
    if build.constant_of(mask) in (-1, 0xFFFFFFFF):
        return build.number(INT32, -1)
    return build.convert(mask, INT32)


# Checked mode


def _lower_own_mask(build: Lowering, tree: Tree) -> Value:
    """The mask of a warp operation, which checked mode requires to include the caller."""
    mask = _lower_mask(build, tree)
    if build.checked:
        lane = _own_lane(build)
        build.check(
            _has_lane(build, mask, lane),
            "the mask {0:#010x} does not include the lane {1}, which passes it",
            build.convert(mask, UINT32),
            lane,
            help="a lane that calls a warp operation must be in its own mask",
        )
    return mask


def _own_lane(build: Lowering) -> Value:
    return build.op(ops.REGISTER, INT32, nonneg=True, name="lane_id")


def _has_lane(build: Lowering, mask: Value, lane: Value) -> Value:
    """Returns whether a mask includes a lane from 0 to 31."""
    if build.constant_of(mask) == -1:
        return build.number(BOOL, True)
    bit = build.binary(ops.AND, build.binary(ops.SHR, mask, lane), build.number(INT32, 1))
    return build.truth(bit)


def _is_lane(build: Lowering, number: Value) -> Value:
    if build.constant_of(number) in range(WARP_SIZE):
        return build.number(BOOL, True)
    return build.compare("<", build.convert(number, UINT32), build.number(UINT32, WARP_SIZE))


def _check_shuffle(build: Lowering, mask: Value, number: Value, kind: str, name: str) -> None:
    """Checks that the number is from 0 to 31 and the source lane in the mask, unless it is beyond the edge of the warp."""
    build.check(
        _is_lane(build, number),
        f"{name} must be an integer from 0 to 31, not {{0}}",
        number,
        help="write it modulo 32: n & 31",
    )
    lane = _own_lane(build)
    source = number if kind == "idx" else build.binary(_STEPS[kind], lane, number)
    low = build.binary(ops.AND, source, build.number(INT32, WARP_SIZE - 1))
    holds = _has_lane(build, mask, low)
    if kind in ("up", "down") and build.constant_of(holds) is None:
        outside = build.binary(ops.XOR, _is_lane(build, source), build.number(BOOL, True))
        holds = build.binary(ops.OR, holds, outside)
    build.check(
        holds,
        "the lane {0} asks for the value of the lane {1}, which is not in the mask",
        lane,
        source,
        help="a shuffle can only read lanes that are in its mask",
    )


_STEPS = {"up": ops.SUB, "down": ops.ADD, "xor": ops.XOR}


def _infer_mask(arguments: Sequence[Known]) -> Typed:
    (known,) = arguments or (constant(0),)
    operand = _mask(known)
    if known.constant and isinstance(known.value, int):
        return Typed(Known(MASK, signed(known.value)))
    return Typed(of_type(MASK), ((0, operand),))


def _vote(entity: object, name: str, code: ops.OpDef, kind: str) -> Intrinsic:
    """An operation on a bool from each lane of a mask, or from each thread of the block."""
    counts = kind == "count"
    result, machine = (MASK, INT32) if kind == "ballot" else (INT32, INT32) if counts else (BOOL, BOOL)

    def infer(arguments: Sequence[Known]) -> Typed:
        masks = [(i, _mask(mask)) for i, mask in enumerate(arguments[:-1])]
        return Typed(of_type(result, nonneg=counts), (*masks, (len(masks), BOOL)))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        *masks, flag = operands
        lanes = (_lower_own_mask(build, mask) for mask in masks)
        return build.op(code, machine, *lanes, value_of(flag), nonneg=counts, kind=kind)

    return Intrinsic(entity, name, infer, lower, effects=code.effects, predicates=("pred",))


def _shuffle(entity: object, name: str, kind: str, lane_name: str) -> Intrinsic:
    def infer(arguments: Sequence[Known]) -> Typed:
        mask, value, lane = arguments
        _check_value(value)
        return Typed(value.forget(), ((0, _mask(mask)), (1, value.type), (2, _lane(lane, lane_name))))

    def lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
        mask, lane = _lower_own_mask(build, operands[0]), value_of(operands[2])
        if build.checked:
            _check_shuffle(build, mask, lane, kind, lane_name)
        words = pack(build, typed.result.type, operands[1])
        got = [build.op(ops.WARP_SHUFFLE, word.type, mask, word, lane, kind=kind) for word in words]
        return unpack(build, got, typed.result.type)

    return Intrinsic(entity, name, infer, lower, effects=ops.WARP_SHUFFLE.effects)


def _match(entity: object, name: str, kind: str) -> Intrinsic:
    """A value of two words matches where both words match, so the masks of the words are combined by `and`."""
    result = of_type(MASK) if kind == "any" else tuple_of((of_type(MASK), of_type(BOOL)))

    def infer(arguments: Sequence[Known]) -> Typed:
        mask, value, _ = arguments
        _check_value(value)
        return Typed(result, ((0, _mask(mask)), (1, value.type)), (value.type,))

    def lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
        mask, (type,) = _lower_own_mask(build, operands[0]), typed.settings
        masks = [build.op(ops.WARP_MATCH, INT32, mask, word, kind=kind) for word in pack(build, type, operands[1])]
        lanes = masks[0] if len(masks) == 1 else build.binary(ops.AND, *masks)
        return lanes if kind == "any" else (lanes, build.truth(lanes))

    return Intrinsic(entity, name, infer, lower, effects=ops.WARP_MATCH.effects)


def _waiting(entity: object, name: str, code: ops.OpDef) -> Intrinsic:
    """A barrier for the lanes of a mask or for the block."""

    def infer(arguments: Sequence[Known]) -> Typed:
        return Typed(constant(None), tuple((i, _mask(mask)) for i, mask in enumerate(arguments)))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        build.effect(code, *(_lower_own_mask(build, mask) for mask in operands))
        return ()

    return Intrinsic(entity, name, infer, lower, effects=code.effects)


def _warp_reduction(entity: Callable[..., Any], kind: str) -> Intrinsic:
    name = entity.__name__

    def infer(arguments: Sequence[Known]) -> Typed:
        mask, value = arguments
        number = number_of(value, name)
        if not number.is_integer or number.bits > 32:
            raise CompileError(f"{name} takes integers of 32 bits, not {value}", help="convert it: int32(…)")
        word = INT32 if number.signed else UINT32
        return Typed(of_type(word), ((0, _mask(mask)), (1, word)))

    def lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
        unsigned = "u" if typed.result.type == UINT32 and kind in ("min", "max") else ""
        mask, value = _lower_own_mask(build, operands[0]), value_of(operands[1])
        return build.op(ops.WARP_REDUCE, value.type, mask, value, kind=unsigned + kind)

    row = Intrinsic(entity, name, infer, lower, effects=ops.WARP_REDUCE.effects)
    return needing(sm80, "exchange values with shfl_xor_sync on other targets", row)


WARP_ROWS = entered(
    Intrinsic(
        warp_size,
        "warp_size",
        lambda _: Typed(Known(INT32, WARP_SIZE)),
        lambda build, *_: build.number(INT32, WARP_SIZE),
        is_value=True,
    ),
    register_row(lane_id, "lane_id"),
    register_row(lanemask_lt, "lanemask_lt", MASK, is_value=False),
    Intrinsic(WarpMask, "WarpMask", _infer_mask, lambda build, operands, _: _lower_mask(build, operands[0]), (0, 1)),
    Intrinsic(
        activemask,
        "activemask",
        lambda _: Typed(of_type(MASK)),
        lambda build, *_: build.op(ops.WARP_ACTIVE, INT32),
        effects=ops.WARP_ACTIVE.effects,
    ),
    _waiting(syncwarp, "syncwarp", ops.WARP_SYNC),
    _vote(all_sync, "all_sync", ops.WARP_VOTE, "all"),
    _vote(any_sync, "any_sync", ops.WARP_VOTE, "any"),
    _vote(eq_sync, "eq_sync", ops.WARP_VOTE, "eq"),
    _vote(ballot_sync, "ballot_sync", ops.WARP_VOTE, "ballot"),
    _shuffle(shfl_sync, "shfl_sync", "idx", "src_lane"),
    _shuffle(shfl_up_sync, "shfl_up_sync", "up", "delta"),
    _shuffle(shfl_down_sync, "shfl_down_sync", "down", "delta"),
    _shuffle(shfl_xor_sync, "shfl_xor_sync", "xor", "flag"),
    _match(match_any_sync, "match_any_sync", "any"),
    _match(match_all_sync, "match_all_sync", "all"),
    _warp_reduction(reduce_add_sync, "add"),
    _warp_reduction(reduce_min_sync, "min"),
    _warp_reduction(reduce_max_sync, "max"),
    _warp_reduction(reduce_and_sync, "and"),
    _warp_reduction(reduce_or_sync, "or"),
    _warp_reduction(reduce_xor_sync, "xor"),
)


# Barriers of a block: the specification's 'Thread Block Synchronization'.


def syncthreads() -> None:
    """Waits until all threads of the block have called it. Their earlier writes are then visible to all of them.

    Every thread of the block must call it, except those that have returned. Specification: 'Thread Block Synchronization'.
    """
    raise DeviceOnlyError.of("syncthreads")


def syncthreads_count(pred: Predicate) -> np.int32:
    """Synchronises like `syncthreads`, and returns the number of threads of the block in which `pred()` is true, an int32.

    `pred` is a function without parameters, called before the thread waits, or a bool. Specification: 'Thread Block
    Synchronization'.
    """
    raise DeviceOnlyError.of("syncthreads_count")


def syncthreads_and(pred: Predicate) -> bool:
    """Synchronises like `syncthreads`, and returns whether `pred()` is true in all threads of the block.

    `pred` is a function without parameters, called before the thread waits, or a bool. Specification: 'Thread Block
    Synchronization'.
    """
    raise DeviceOnlyError.of("syncthreads_and")


def syncthreads_or(pred: Predicate) -> bool:
    """Synchronises like `syncthreads`, and returns whether `pred()` is true in any thread of the block.

    `pred` is a function without parameters, called before the thread waits, or a bool. Specification: 'Thread Block
    Synchronization'.
    """
    raise DeviceOnlyError.of("syncthreads_or")


ROWS = entered(
    _waiting(syncthreads, "syncthreads", ops.BARRIER),
    _vote(syncthreads_count, "syncthreads_count", ops.BARRIER_REDUCE, "count"),
    _vote(syncthreads_and, "syncthreads_and", ops.BARRIER_REDUCE, "and"),
    _vote(syncthreads_or, "syncthreads_or", ops.BARRIER_REDUCE, "or"),
)
