"""The compiler's loops of compare-and-swap, with other threads that come between: `own` says how they are run."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from cuda_device.device import atomic_loops
from fuzz.own import Check


class _Cell:
    """An atomic of one thread, which others change now and then."""

    def __init__(self, choose: random.Random, value: Any) -> None:
        self.choose, self.value, self.before = choose, value, value

    def load(self, *_: object) -> Any:
        return self.value

    def cas(self, old: Any, new: Any, *_: object) -> Any:
        if self.choose.random() < 0.3:  # another thread was here
            self.value = np.float32(self.choose.choice((-2.0, 0.0, -0.0, 1.0, 5.0, math.nan)))
        found = self.value
        if found.tobytes() == old.tobytes():
            self.before, self.value = found, new
        return found


def _larger(function: Any) -> Callable[[Any, Any], Any]:
    """Of two zeros 0.0."""
    return lambda a, b: a + b if a == b == 0 else function(a, b)


def _smaller(function: Any) -> Callable[[Any, Any], Any]:
    """Of two zeros -0.0."""
    return lambda a, b: -(-a + -b) if a == b == 0 else function(a, b)


class _Waits(Exception):  # noqa: N818
    """What ends a loop that waits."""


def waiting(choose: random.Random) -> str | None:
    """A thread waits while the content is the same, and ever longer."""
    pauses: list[int] = []
    change = choose.randint(0, 9)

    def pause(nanoseconds: int) -> None:
        pauses.append(nanoseconds)
        if len(pauses) == change:
            cell.value = np.float32(-0.0)
        if len(pauses) > change:
            raise _Waits

    cell = _Cell(choose, np.float32(0.0 if change else 1.0))
    with (
        mock.patch.object(atomic_loops, "same_bits", lambda a, b: a.tobytes() == b.tobytes()),
        mock.patch.object(atomic_loops, "pause", pause),
    ):
        try:
            atomic_loops.wait(cell, np.float32(0.0), "acquire", "block")
        except _Waits:
            return "it waits for what is there"
    if pauses != [min(16 << k, 1024) for k in range(change)]:
        return f"its pauses are {pauses}"
    return None


def atomics(choose: random.Random) -> str | None:
    """Loops of compare-and-swap: what they leave is what the newest value and the operand make."""
    few = (-2.0, 0.0, -0.0, 1.0, 3.0, math.nan)
    rows: tuple[tuple[str, Any, Callable[[Any, Any], Any]], ...] = (
        ("exchange", atomic_loops.exchange, lambda a, b: b),
        ("max", atomic_loops.float_max, _larger(np.maximum)),
        ("min", atomic_loops.float_min, _smaller(np.minimum)),
        ("nanmax", atomic_loops.float_nanmax, _larger(np.fmax)),
        ("nanmin", atomic_loops.float_nanmin, _smaller(np.fmin)),
    )
    with mock.patch.object(atomic_loops, "same_bits", lambda a, b: a.tobytes() == b.tobytes()):
        for name, ours, theirs in rows:
            for _ in range(20):
                start, value = np.float32(choose.choice(few)), np.float32(choose.choice(few))
                cell = _Cell(choose, start)
                found = ours(cell, value, "relaxed", "block")
                expected = theirs(found, value)
                if repr(cell.value) != repr(expected):
                    return f"{name} of {found} and {value} leaves {cell.value}, not {expected}"
                if found.tobytes() != cell.before.tobytes():
                    return f"{name} returns {found}, but {cell.before} was there"
    return None


CHECKS: tuple[Check, ...] = (atomics, waiting)
