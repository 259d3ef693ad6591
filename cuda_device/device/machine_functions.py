"""Functions that correspond to single GPU instructions: integer functions, counters and `nanosleep`.

    byte_perm(0x33221100, 0x77665544, 0x7531) == 0x77553311        mulhi(uint32(1 << 31), uint32(6)) == 3

A row of `FUNCTIONS` has the function, the GPU instruction, the types of the parameters and of the result, and a Python function
that computes the same result. The host runs this function, and for the CPU stream it is compiled like a user's function. Several
rows of one function are overloads, as in CUDA C++; the integer type to which the arguments promote selects one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy import int32, int64, uint32, uint64

from cuda_device.device.entities import Integer
from cuda_device.device.lowering import Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed, entered, number_of
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.host import host_type_of
from cuda_device.types.host import number_of as host_number_of
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.model import INT, INT32, INT64, UINT32, UINT64, Number
from cuda_device.types.promote import promote

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MachineFunction:
    """A row: the function, its GPU instruction, the types of its parameters and result, and the equivalent Python function.

    `instruction` is the name of an LLVM intrinsic, `llvm.…`, or PTX text in which `$0` is the result, and `$1` and so on are the
    operands.
    """

    function: Callable[..., Any]
    instruction: str
    parameters: tuple[Number, ...]
    result: Number
    body: Callable[..., Any]


def byte_perm(x: Integer, y: Integer, selector: Integer) -> uint32:
    """Returns four of the bytes of `x` and `y`, selected by the low hex digits of `selector`: CUDA's `__byte_perm`.

    Bytes 0 to 3 are those of `x`, the lowest first, and bytes 4 to 7 are those of `y`. The four lowest hexadecimal digits of
    `selector` select the bytes of the result, a uint32, from the lowest up. A digit of 8 or more gives eight copies of the sign
    bit of byte `digit - 8`. Works on host and device. Arguments become uint32. Raises `TypeError` (in device code
    `CompileError`) if an argument is not an integer.
    """
    return _on_host(byte_perm, x, y, selector)


def _byte_perm(x: Any, y: Any, selector: Any) -> Any:
    both = uint64(y) << uint64(32) | uint64(x)
    result = uint32(0)
    for i in range(4):
        digit = selector >> uint32(4 * i) & uint32(15)
        byte = uint32(both >> uint64(8 * (digit & uint32(7))) & uint64(255))
        if digit >= 8:
            byte = uint32(255) if byte >= 128 else uint32(0)
        result |= byte << uint32(8 * i)
    return result


def dp4a(a: Integer, b: Integer, c: Integer) -> int32 | uint32:
    """Returns `c` plus the dot product of the four bytes of `a` with those of `b`: CUDA's `__dp4a`.

    If the arguments promote to an unsigned type, they become uint32 and their bytes are unsigned; otherwise they become int32
    and their bytes are signed. The result has the same type, and wraps around. Works on host and device. Raises `TypeError` (in
    device code `CompileError`) if an argument is not an integer of at most 32 bits.
    """
    return _on_host(dp4a, a, b, c)


def _dp4a(a: Any, b: Any, c: Any) -> Any:
    for i in range(4):
        if type(c) is int32:
            c += (a << (24 - 8 * i) >> 24) * (b << (24 - 8 * i) >> 24)
        else:
            c += (a >> 8 * i & 255) * (b >> 8 * i & 255)
    return c


def funnelshift_l(lo: Integer, hi: Integer, shift: Integer) -> uint32:
    """Shifts the 64 bits of `hi` and `lo` left by `shift & 31` and returns the upper 32 bits: CUDA's `__funnelshift_l`.

    If `lo` and `hi` are equal, this is a rotation. Works on host and device. Arguments and result are uint32. Raises
    `TypeError` (in device code `CompileError`) if an argument is not an integer.
    """
    return _on_host(funnelshift_l, lo, hi, shift)


def funnelshift_lc(lo: Integer, hi: Integer, shift: Integer) -> uint32:
    """Like `funnelshift_l`, but shifts by `min(shift, 32)`: CUDA's `__funnelshift_lc`."""
    return _on_host(funnelshift_lc, lo, hi, shift)


def funnelshift_r(lo: Integer, hi: Integer, shift: Integer) -> uint32:
    """Shifts the 64 bits of `hi` and `lo` right by `shift & 31` and returns the lower 32 bits: CUDA's `__funnelshift_r`.

    Otherwise like `funnelshift_l`.
    """
    return _on_host(funnelshift_r, lo, hi, shift)


def funnelshift_rc(lo: Integer, hi: Integer, shift: Integer) -> uint32:
    """Like `funnelshift_r`, but shifts by `min(shift, 32)`: CUDA's `__funnelshift_rc`."""
    return _on_host(funnelshift_rc, lo, hi, shift)


def mulhi(x: Integer, y: Integer) -> int32 | uint32 | int64 | uint64:
    """Returns the upper half of the exact product `x * y`: CUDA's `__mulhi`, `__umulhi`, `__mul64hi` and `__umul64hi`.

    Both arguments are converted to the narrowest of int32, uint32, int64 and uint64 that holds their promoted type; the result
    has this type. Works on host and device. Raises `TypeError` (in device code `CompileError`) if an argument is not an
    integer, and if a uint64 is combined with a signed integer.
    """
    return _on_host(mulhi, x, y)


def _mulhi(x: Any, y: Any) -> Any:
    if type(x) is int32:
        return int32(int64(x) * int64(y) >> int64(32))
    if type(x) is uint32:
        return uint32(uint64(x) * uint64(y) >> uint64(32))
    a, b = uint64(x), uint64(y)
    low, half = uint64(0xFFFFFFFF), uint64(32)
    cross = (a >> half) * (b & low) + ((a & low) * (b & low) >> half)
    other = (a & low) * (b >> half) + (cross & low)
    upper = (a >> half) * (b >> half) + (cross >> half) + (other >> half)
    if type(x) is uint64:
        return upper
    return int64(upper) - (y if x < 0 else int64(0)) - (x if y < 0 else int64(0))


_WORDS, _SIGNED = (UINT32,) * 3, (INT32,) * 3


def _funnel_row(function: Callable[..., Any], direction: str, mode: str) -> MachineFunction:
    def body(lo: Any, hi: Any, shift: Any) -> Any:
        both, count = uint64(hi) << uint64(32) | uint64(lo), min(shift, uint32(32)) if mode == "clamp" else shift & 31
        left, right = both << uint64(count) >> uint64(32), both >> uint64(count) & uint64(0xFFFFFFFF)
        return uint32(left if direction == "l" else right)

    return MachineFunction(function, f"shf.{direction}.{mode}.b32 $0, $1, $2, $3;", _WORDS, UINT32, body)


FUNCTIONS = (
    MachineFunction(byte_perm, "llvm.nvvm.prmt", _WORDS, UINT32, _byte_perm),
    MachineFunction(dp4a, "llvm.nvvm.idp4a.s.s", _SIGNED, INT32, _dp4a),
    MachineFunction(dp4a, "llvm.nvvm.idp4a.u.u", _WORDS, UINT32, _dp4a),
    _funnel_row(funnelshift_l, "l", "wrap"),
    _funnel_row(funnelshift_lc, "l", "clamp"),
    _funnel_row(funnelshift_r, "r", "wrap"),
    _funnel_row(funnelshift_rc, "r", "clamp"),
    MachineFunction(mulhi, "llvm.nvvm.mulhi.i", (INT32, INT32), INT32, _mulhi),
    MachineFunction(mulhi, "llvm.nvvm.mulhi.ui", (UINT32, UINT32), UINT32, _mulhi),
    MachineFunction(mulhi, "llvm.nvvm.mulhi.ll", (INT64, INT64), INT64, _mulhi),
    MachineFunction(mulhi, "llvm.nvvm.mulhi.ull", (UINT64, UINT64), UINT64, _mulhi),
)

INTRINSICS = frozenset((*(row.instruction for row in FUNCTIONS), "llvm.nvvm.rsqrt.approx.f"))
"""The LLVM intrinsics in use, which every target has."""


def word_of(name: str, numbers: Sequence[Number]) -> Number:
    """Returns int32, uint32, int64 or uint64 for integers of these types. Raises `TypeError` if they do not promote."""
    common: Number | None = INT
    for number in numbers:
        common = common and promote(common, number)
    if common is None:
        raise TypeError(f"{name} has no common type for {', '.join(map(str, numbers))}")
    if common.signed:
        return INT64 if common.bits == 64 else INT32
    return UINT64 if common.bits == 64 else UINT32


def _overload(function: Callable[..., Any], numbers: Sequence[Number]) -> MachineFunction:
    """Returns the row for arguments of these types. Raises `TypeError` if there is none."""
    name, rows = function.__name__, [row for row in FUNCTIONS if row.function is function]
    for number in numbers:
        if not number.is_integer:
            raise TypeError(f"{name} takes integers, not {number}")
    if len(rows) == 1:
        return rows[0]
    word = word_of(name, numbers)
    for row in rows:
        if row.result == word:
            return row
    raise TypeError(f"{name} takes integers of 32 bits, not {', '.join(map(str, numbers))}")


def _on_host(function: Callable[..., T], *values: Any) -> T:
    """Evaluates a function on the host; the arguments are converted to the types of the parameters."""
    row = _overload(function, [host_number_of(type(value)) for value in values])
    with np.errstate(all="ignore"):
        words = (np.uint64(int(value) & 0xFFFFFFFFFFFFFFFF) for value in values)
        result: T = row.body(
            *(word.astype(host_type_of(type)) for word, type in zip(words, row.parameters, strict=True))
        )
        return result


def _row(function: Callable[..., Any]) -> Intrinsic:
    name = function.__name__
    body = next(row.body for row in FUNCTIONS if row.function is function)

    def infer(arguments: Sequence[Known]) -> Typed:
        try:
            row = _overload(function, [number_of(argument, name) for argument in arguments])
        except TypeError as error:
            raise CompileError(str(error), help="convert them: int32(…)") from None
        return Typed(of_type(row.result), tuple(enumerate(row.parameters)), (row.instruction,))

    def lower(build: Lowering, operands: Sequence[Any], typed: Typed) -> Tree:
        return build.op(ops.MACHINE, typed.result.type, *operands, instruction=typed.settings[0])

    return Intrinsic(function, name, infer, lower, on_cpu=body)


ROWS = entered(*map(_row, dict.fromkeys(row.function for row in FUNCTIONS)))


# Counters and pauses


def clock64() -> np.int64:
    """Returns a counter of the multiprocessor's clock cycles, an int64: CUDA's `clock64`.

    The difference between two values in one thread is the elapsed time. The compiler does not move memory accesses across a
    call. On the CPU stream and on the host, the counter is a monotonic clock in nanoseconds.
    """
    return np.int64(time.monotonic_ns())


def globaltimer() -> np.uint64:
    """Returns the time in nanoseconds, a uint64: PTX's `%globaltimer`. GPUs update it at most once per microsecond.

    On the CPU stream and on the host it is the time since 1970.
    """
    return np.uint64(time.time_ns())


def nanosleep(ns: Integer) -> None:
    """Suspends the thread for between 0 and `2 * ns` nanoseconds: CUDA's `__nanosleep`.

    `ns` becomes a uint32; a GPU sleeps for at most a millisecond. On the CPU stream, other threads run in the meantime. Works
    on host and device.
    """
    time.sleep(int(ns) * 1e-9)


def _timer(entity: Callable[[], object], type: Number) -> Intrinsic:
    name = entity.__name__

    def lower(build: Lowering, _: Sequence[Tree], __: Typed) -> Tree:
        return build.op(ops.TIMER, type, name=name)

    return Intrinsic(entity, name, lambda _: Typed(of_type(type)), lower, effects=ops.TIMER.effects)


def _infer_sleep(arguments: Sequence[Known]) -> Typed:
    if not number_of(arguments[0], "nanosleep").is_integer:
        raise CompileError(f"nanosleep takes an integer, not {arguments[0]}", help="convert it: int(…)")
    return Typed(constant(None), ((0, UINT32),))


def _lower_sleep(build: Lowering, operands: Sequence[Any], _: Typed) -> Tree:
    build.effect(ops.PAUSE, *operands)
    build.effect(ops.YIELD, now=True)
    return ()


TIMING_ROWS = entered(
    _timer(clock64, INT64),
    _timer(globaltimer, UINT64),
    Intrinsic(nanosleep, "nanosleep", _infer_sleep, _lower_sleep, effects=ops.PAUSE.effects | ops.YIELD.effects),
)
