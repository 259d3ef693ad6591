"""What of things that exist while compiling only run time knows: where an iterator stands, which member of an enumeration it is.

    it = iter(t)                    an iterator of a tuple, at position 0, as its type says
    if x > 0: next(it)              Counting.TUPLE: its position is a number of run time
    s = State.A if x > 0 else b     Options(State): the number of the member

Joins make them of constants.
"""

from __future__ import annotations

import enum
from typing import Any

from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.known import Known, bundle_of
from cuda_device.types.model import INT, Static


@dataclass(frozen=True, slots=True)
class ListIterator:
    """An iterator of a list or dict that is known to stand at a position. Part: what it runs over."""

    position: int

    def __str__(self) -> str:
        return str(Counting.LIST)

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Options:
    """One of the members of an enumeration, or what they have as an attribute. Part: the number of the member, from 0 up."""

    owner: type[enum.Enum]
    attribute: str = ""

    @property
    def objects(self) -> tuple[Any, ...]:
        """What it can be."""
        return tuple(getattr(each, self.attribute) if self.attribute else each for each in self.owner)

    def __str__(self) -> str:
        return f"{f'the {self.attribute} of ' if self.attribute else ''}a member of {self.owner.__name__}"

    __repr__ = __str__


class Counting(enum.Enum):
    """Iterators of which only run time knows where they stand. Parts: what they run over, the position; of tuples, the length."""

    TUPLE = "an iterator of a tuple"
    LIST = "an iterator of a list"

    def __str__(self) -> str:
        return self.value

    __repr__ = __str__


def as_option(known: Known) -> Known | None:
    """A member of an enumeration, which may be a constant, as one of all; None for anything else.

    Members that are integers are numbers, and flags can be more than their class lists.
    """
    value = known.value
    if isinstance(value, Options):
        return known
    if not isinstance(value, enum.Enum) or isinstance(value, enum.Flag | int) or not isinstance(known.type, Static):
        return None
    owner = type(value)
    place = next((i for i, each in enumerate(owner) if each is value), None)
    return None if place is None else bundle_of(Options(owner), (Known(INT, place),))
