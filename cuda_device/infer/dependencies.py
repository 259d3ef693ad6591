"""The globals, closures and attributes that a compilation read, and whether they are still unchanged.

    Dependency(function.__globals__, "N", 3).current()       whether N still refers to this 3

`contents.unchanged` combines the dependencies of a kernel into one fast check for its launches.
"""

from __future__ import annotations

from functools import partial
from operator import methodcaller
from types import BuiltinMethodType, CellType, MappingProxyType, MethodType
from typing import Any

import numpy as np

from cuda_device.lazy_dataclasses import dataclass

MISSING = object()
"""The value of a name that does not exist."""

PASSING = object()
"""The owner of values that differ in other processes, such as the address of an object."""

HOLDERS = (np.ndarray, list, tuple, set, dict, MappingProxyType, partial)
"""The types of objects that can change in place, or hold such objects."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A name that the program read while it was compiled: `owner` is a namespace, a module, a class or a cell.

    `value` is `MISSING` for a name that did not exist. `contents` are the `Content`s of `value` when it was read.
    """

    owner: object
    name: str
    value: object
    contents: tuple[Any, ...] = ()

    def current(self) -> bool:
        """Whether the name still means the same object, with the same contents."""
        return self.has_value() and all(map(methodcaller("current"), self.contents))

    @property
    def is_missing(self) -> bool:
        """Whether the name did not exist."""
        return self.value is MISSING

    def has_value(self) -> bool:
        """Whether the name still means the same object."""
        now = read(self.owner, self.name)
        # A class method is bound anew each time that it is read.
        return now is self.value or (isinstance(now, (MethodType, BuiltinMethodType)) and now == self.value)


def read(owner: object, name: str) -> object:
    """The current value of a name, or `MISSING`."""
    if isinstance(owner, dict):
        return owner.get(name, MISSING)
    if isinstance(owner, CellType):
        try:
            return owner.cell_contents
        except ValueError:  # the cell is empty
            return MISSING
    return getattr(owner, name, MISSING)
