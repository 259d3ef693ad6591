"""Atomic operations that Python itself can express, by compare-and-swap: compiled like any function that a user writes.

Each takes the arguments of the method of `AtomicInterface` that it stands for; all of them were checked before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cuda_device.errors import DeviceOnlyError


def same_bits(a: Any, b: Any) -> bool:
    """Whether two numbers of one type have the same bits: a NaN is itself, and 0.0 is not -0.0."""
    raise DeviceOnlyError.of("same_bits")


def pause(nanoseconds: Any) -> None:
    """Waits for about so long, and leaves the processor to others."""
    raise DeviceOnlyError.of("pause")


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
        pause(nanoseconds)
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
