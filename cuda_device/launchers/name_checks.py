"""The names that a kernel read while it was compiled, in the form in which machine code checks them before each launch."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from types import CellType, ModuleType
from typing import Any

from cuda_device.infer.dependencies import MISSING, PASSING, Dependency
from cuda_device.launchers.memory_layout import NAME, Owner, buffer, pack
from cuda_device.lazy_dataclasses import dataclass

Row = tuple[Owner, object, object, object]
"""In what, of which name, what was found: `MISSING` for nothing."""


@dataclass(frozen=True)
class Names:
    """A table of `count` names in memory, and what it speaks of."""

    table: Any
    count: int
    keep: tuple[Row, ...]

    @property
    def address(self) -> int:
        """Where the table is."""
        return ctypes.addressof(self.table)


def table_of(rows: Sequence[Row]) -> Names:
    """The table in memory."""
    data = b"".join(
        pack(
            NAME,
            kind=kind,
            owner=id(owner),
            name=id(name),
            value=0 if value is MISSING else id(value),
        )
        for kind, owner, name, value in rows
    )
    return Names(buffer(data), len(rows), tuple(rows))


def rows_of(dependencies: Sequence[Dependency]) -> list[Row | None]:
    """The names that a program read; None for one that only Python can compare."""
    return [_row(dependency) for dependency in dependencies if dependency.owner is not PASSING]


def _row(dependency: Dependency) -> Row | None:
    owner, name, value = dependency.owner, dependency.name, dependency.value
    if type(owner) is dict:
        return Owner.NAMESPACE, owner, name, value
    if isinstance(owner, CellType):
        return Owner.CELL, owner, name, value
    if type(owner) is ModuleType and vars(owner).get(name, MISSING) is value:
        return Owner.NAMESPACE, vars(owner), name, value
    # What is bound anew at each look, or made by the look, is another object each time.
    if value is not MISSING and getattr(owner, name, MISSING) is value:
        return Owner.OBJECT, owner, name, value
    return None


def environment(variable: str) -> Row | None:
    """A variable of the environment, if it is where CPython keeps it: an object in a dictionary."""
    data = getattr(os.environ, "_data", None)
    encode = getattr(os.environ, "encodekey", None)
    if type(data) is not dict or encode is None:
        return None
    key = encode(variable)
    return Owner.NAMESPACE, data, key, data.get(key, MISSING)
