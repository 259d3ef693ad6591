"""What of things that exist while compiling only run time knows: where an iterator stands, which member of an enumeration it is.

    it = iter(t)                    an iterator of a tuple, at position 0, as its type says
    if x > 0: next(it)              Counting.TUPLE: its position is a number of run time
    s = State.A if x > 0 else b     Options(State): the number of the member

Joins make them of constants.
"""

from __future__ import annotations

import enum

from cuda_device.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListIterator:
    """An iterator of a list or dict that is known to stand at a position. Part: what it runs over."""

    position: int

    def __str__(self) -> str:
        return str(Counting.LIST)

    __repr__ = __str__


class Counting(enum.Enum):
    """Iterators of which only run time knows where they stand. Parts: what they run over, the position; of tuples, the length."""

    TUPLE = "an iterator of a tuple"
    LIST = "an iterator of a list"

    def __str__(self) -> str:
        return self.value

    __repr__ = __str__
