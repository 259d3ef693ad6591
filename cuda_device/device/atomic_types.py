"""The names for atomics: the specification's `AtomicInterface`, whose methods only device code calls, and `Atomic`.

class lock:                                            in device code
    holder: device.Atomic(device.int32, align=16)      locks[0].holder.exch(1, "acquire", "device")
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cuda_device.device.atomic_accesses import check
from cuda_device.device.machine_functions import nanosleep
from cuda_device.errors import DeviceOnlyError
from cuda_device.types import model
from cuda_device.types.dtypes import element_of
from cuda_device.types.struct_classes import Aligned, check_alignment


class AtomicInterface:
    """A number, or another value of up to 16 bytes, that many threads access at once: usable in device code only.

    `atomic_ref` and `Atomic` make it. `load`, `store` and `wait` are for values of any type; `exch` and `cas` for those of up to
    8 bytes, of which they take and compare the bits, padding included; the rest is for numbers.

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


class Atomic(AtomicInterface, Aligned):
    """A number, or another value of up to 16 bytes, in memory of its own.

    On the host it is the type hint of a struct's member, which is aligned to its size, or to `align` bytes if that is more:

        @device.struct
        class lock:
            holder: device.Atomic(device.int32, align=16)

    Such a struct has identity: it lies in an array (`numpy_dtype(lock)` is the dtype of one on the host), is reached by
    reference (`locks[i].holder.add(1)`, `m = locks[i]`), and cannot be copied or returned. In device code `Atomic(dtype)` makes
    an atomic for the thread alone, which is 0 at first; to `isinstance`, what `atomic_ref` gives is an `Atomic`, too.
    Raises `TypeError` for what no atomic can hold, `ValueError` for a bad alignment. Specification: 'Atomics'.
    """

    def __init__(self, dtype: Any, align: int = 1) -> None:
        check_alignment(align)
        content = element_of(dtype)
        check(content)
        super().__init__(model.AtomicCell(content), align)
        self.dtype = dtype

    def __repr__(self) -> str:
        name = getattr(self.dtype, "__name__", self.dtype)
        return f"Atomic({name}, align={self.align})" if self.align > 1 else f"Atomic({name})"


def interface_of(type: model.Type) -> Any:
    """The class whose methods a value of this type has in device code, each an entity with a row; None for most types."""
    match type:
        case model.Ref(_, model.AtomicCell()):
            return AtomicInterface
    return None


# Atomic operations that Python itself can express, by compare-and-swap: compiled like any function that a user writes.
#
# Each takes the arguments of the method of `AtomicInterface` that it stands for; all of them were checked before.


def same_bits(a: Any, b: Any) -> bool:
    """Whether two numbers of one type have the same bits: a NaN is itself, and 0.0 is not -0.0."""
    raise DeviceOnlyError.of("same_bits")


def replace(atomic: Any, val: Any, choose: Callable[[Any, Any], Any], memory: str, scope: str) -> Any:
    """Replaces the content by `choose(content, val)` and returns what it was before."""
    old = atomic.load("relaxed", scope)
    while True:
        seen = atomic.cas(old, choose(old, val), memory, scope)
        if same_bits(seen, old):
            return old
        old = seen


def exchange(atomic: Any, val: Any, memory: str, scope: str) -> Any:
    """`exch` of what machines exchange in no instruction."""
    return replace(atomic, val, _second, memory, scope)


def float_max(atomic: Any, val: Any, memory: str, scope: str) -> Any:
    """`max` of floats."""
    return replace(atomic, val, _larger, memory, scope)


def float_min(atomic: Any, val: Any, memory: str, scope: str) -> Any:
    """`min` of floats."""
    return replace(atomic, val, _smaller, memory, scope)


def float_nanmax(atomic: Any, val: Any, memory: str, scope: str) -> Any:
    """`nanmax` of floats."""
    return replace(atomic, val, _larger_number, memory, scope)


def float_nanmin(atomic: Any, val: Any, memory: str, scope: str) -> Any:
    """`nanmin` of floats."""
    return replace(atomic, val, _smaller_number, memory, scope)


def wait(atomic: Any, old: Any, memory: str, scope: str) -> None:
    """`wait`: looks less and less often, up to about once in a microsecond."""
    nanoseconds = 16
    while same_bits(atomic.load(memory, scope), old):
        nanosleep(nanoseconds)
        if nanoseconds < 1024:
            nanoseconds *= 2


def _second(_: Any, b: Any) -> Any:
    return b


def _larger(a: Any, b: Any) -> Any:
    """The larger; a NaN if there is one; 0.0 before -0.0."""
    if a != a or b != b:
        return a if a != a else b
    if a == b:
        return b if math.copysign(1.0, a) < 0 else a
    return max(a, b)


def _smaller(a: Any, b: Any) -> Any:
    """The smaller; a NaN if there is one; -0.0 before 0.0."""
    if a != a or b != b:
        return a if a != a else b
    if a == b:
        return a if math.copysign(1.0, a) < 0 else b
    return min(a, b)


def _larger_number(a: Any, b: Any) -> Any:
    """As `_larger`, but a NaN only if both are."""
    if a != a or b != b:
        return b if a != a else a
    return _larger(a, b)


def _smaller_number(a: Any, b: Any) -> Any:
    """As `_smaller`, but a NaN only if both are."""
    if a != a or b != b:
        return b if a != a else a
    return _smaller(a, b)
