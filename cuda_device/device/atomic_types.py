"""The public names for atomics: `AtomicInterface`, whose methods only device code can call, and `Atomic`.

class lock:                                            in device code
    holder: device.Atomic(device.int32, align=16)      locks[0].holder.exch(1, "acquire", "device")
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cuda_device.device.machine_functions import nanosleep
from cuda_device.errors import DeviceOnlyError
from cuda_device.types import model
from cuda_device.types.dtypes import Aligned, check_alignment, element_of
from cuda_device.types.layout import has_identity, leaves, size_of

WIDEST = 16
"""The most bytes that an atomic holds."""


def check(dtype: model.Type) -> None:
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
        check(content)
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


# Operations without an instruction, by compare-and-swap: compiled like a user's functions.
#
# They take the arguments of the methods of `AtomicInterface`, which have been checked.


def same_bits(a: Any, b: Any) -> bool:
    """Returns whether two numbers of one type have the same bits: equal NaNs match, 0.0 and -0.0 do not."""
    raise DeviceOnlyError.of("same_bits")


def wait(atomic: Any, old: Any, memory: str, scope: str) -> None:
    """`wait`: polls with pauses that grow up to about a microsecond."""
    nanoseconds = 16
    while same_bits(atomic.load(memory, scope), old):
        nanosleep(nanoseconds)
        if nanoseconds < 1024:
            nanoseconds *= 2


def _larger(a: Any, b: Any) -> Any:
    """Returns the larger number: NaN if there is one, and 0.0 rather than -0.0."""
    if a != a or b != b:
        return a if a != a else b
    if a == b:
        return b if math.copysign(1.0, a) < 0 else a
    return max(a, b)


def _smaller(a: Any, b: Any) -> Any:
    """Returns the smaller number: NaN if there is one, and -0.0 rather than 0.0."""
    if a != a or b != b:
        return a if a != a else b
    if a == b:
        return a if math.copysign(1.0, a) < 0 else b
    return min(a, b)


def _larger_number(a: Any, b: Any) -> Any:
    """Like `_larger`, but NaN only if both are."""
    if a != a or b != b:
        return b if a != a else a
    return _larger(a, b)


def _smaller_number(a: Any, b: Any) -> Any:
    """Like `_smaller`, but NaN only if both are."""
    if a != a or b != b:
        return b if a != a else a
    return _smaller(a, b)


def _by_cas(choose: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A method that replaces the content by `choose(content, val)` and returns the previous one, by compare-and-swap."""

    def method(atomic: Any, val: Any, memory: str, scope: str) -> Any:
        old = atomic.load("relaxed", scope)
        while True:
            seen = atomic.cas(old, choose(old, val), memory, scope)
            if same_bits(seen, old):
                return old
            old = seen

    return method


EXCHANGE = _by_cas(lambda _, val: val)
"""`exch` of values that are too narrow for an instruction."""
OF_FLOATS = {
    "max": _by_cas(_larger),
    "min": _by_cas(_smaller),
    "nanmax": _by_cas(_larger_number),
    "nanmin": _by_cas(_smaller_number),
}
"""Methods of floats, for which there is no instruction."""
