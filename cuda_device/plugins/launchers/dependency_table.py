"""The names that the compiler looked up, and the contents of their values, which machine code checks before each launch.

    rows_of([Dependency(vars(module), "table", array, contents)])     module.table is array; the bytes at array's address
    table_of(rows)                                                    a table in memory, for `entry.unchanged`

The content of a list or an array is compared as bytes; that of a dict, or of an array that is not contiguous, by Python, which
also looks up the attributes that an object must not have.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Sequence
from types import CellType, ModuleType

import numpy as np

from cuda_device.extend import dataclass
from cuda_device.infer.contents import Content
from cuda_device.infer.dependencies import MISSING, PASSING, Dependency
from cuda_device.plugins.launchers.memory_layout import (
    ITEMS,
    LISTED,
    OCTETS,
    SIZE,
    Name,
    OwnedRecord,
    Owner,
    buffer,
    pack,
    word_at,
)


@dataclass(frozen=True)
class CheckRow:
    """A row of the table: its kind, the words that `Owner` describes, and the objects to which they refer."""

    kind: Owner
    owner: int
    name: int
    value: int
    keep: tuple[object, ...]


def table_of(rows: Sequence[CheckRow]) -> OwnedRecord:
    """Makes the table."""
    data = (pack(Name, kind=row.kind, owner=row.owner, name=row.name, value=row.value) for row in rows)
    return OwnedRecord(buffer(b"".join(data)), tuple(rows))


def rows_of(dependencies: Iterable[Dependency], contents: Iterable[Content]) -> list[CheckRow | None]:
    """The rows of names, and of the contents of their values and of others; None for names that do not have their value."""
    compared = [dependency for dependency in dependencies if dependency.owner is not PASSING]
    contents = (*contents, *(content for dependency in compared for content in dependency.contents))
    rows = [*map(_row, compared)]
    others = tuple(dependency for dependency, row in zip(compared, rows, strict=True) if row is None)
    quick = [row for row in rows if row is not None]
    by_python = [_row_by_python(others)] if others else []
    return [*quick, *by_python, *(row for content in contents for row in _rows_of_content(content))]


def _row(dependency: Dependency) -> CheckRow | None:
    owner, name, value = dependency.owner, dependency.name, dependency.value
    if type(owner) is dict:
        return _named(Owner.NAMESPACE, owner, name, value)
    if isinstance(owner, CellType):
        return _named(Owner.CELL, owner, name, value)
    if type(owner) is ModuleType and vars(owner).get(name, MISSING) is value:
        return _named(Owner.NAMESPACE, vars(owner), name, value)
    # Bound methods and computed attributes are new objects at each access.
    if value is not MISSING and getattr(owner, name, MISSING) is value:
        return _named(Owner.OBJECT, owner, name, value)
    return None


def _row_by_python(dependencies: tuple[Dependency, ...]) -> CheckRow | None:
    """The row of names that Python compares, most of which an object must not have, such as the overloads of a class."""
    absent = [(dependency.owner, dependency.name) for dependency in dependencies if dependency.is_missing]
    others = [dependency for dependency in dependencies if not dependency.is_missing]

    def current() -> bool:
        for owner, name in absent:  # `any` would take twice as long
            if hasattr(owner, name):
                return False
        return all(map(Dependency.has_value, others))

    return CheckRow(Owner.CALL, id(current), 0, id(True), (current,)) if current() else None


def environment(variable: str) -> CheckRow | None:
    """A variable of the environment, if `os.environ` keeps it in a dict as CPython's does."""
    data = getattr(os.environ, "_data", None)
    encode = getattr(os.environ, "encodekey", None)
    if type(data) is not dict or encode is None:
        return None
    key = encode(variable)
    return _named(Owner.NAMESPACE, data, key, data.get(key, MISSING))


def _named(kind: Owner, owner: object, name: object, value: object) -> CheckRow:
    return CheckRow(kind, id(owner), id(name), 0 if value is MISSING else id(value), (owner, name, value))


# Contents
#
# The bytes of a list or an array, and before them the words of the object that say where these bytes are.


def _rows_of_content(content: Content) -> Iterator[CheckRow]:
    owner, state = content.owner, content.state
    if type(owner) is list and content.current():
        yield _bytes_of(owner, SIZE, LISTED + 8)
        yield CheckRow(Owner.BYTES, word_at(id(owner) + LISTED), 8 * len(state), id(state) + ITEMS, (content,))
    elif isinstance(owner, np.ndarray) and content.current() and _is_in_one_piece(owner):
        data = state[0]
        yield _bytes_of(owner, _DATA, _FLAGS)
        yield _bytes_at(word_at(id(owner) + _DIMENSIONS), 2 * 8 * owner.ndim, owner)  # lengths and strides
        yield CheckRow(Owner.BYTES, owner.ctypes.data, len(data), id(data) + OCTETS, (content,))
    else:
        current = content.current
        yield CheckRow(Owner.CALL, id(current), 0, id(True), (current,))


_DATA, _NDIM, _DIMENSIONS, _STRIDES, _FLAGS = 16, 24, 32, 40, 64
"""The offsets of the fields of a NumPy array, which belong to its binary interface."""


def _is_in_one_piece(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bool:
    """Whether the elements of an array, and its lengths and strides, lie one after the other, at the known offsets."""
    here, ndim = id(array), array.ndim
    if not (array.flags.c_contiguous or array.flags.f_contiguous) or word_at(here + _DATA) != array.ctypes.data:
        return False
    if ctypes.c_int.from_address(here + _NDIM).value != ndim:
        return False
    axes = word_at(here + _DIMENSIONS)
    in_order = not ndim or word_at(here + _STRIDES) == axes + 8 * ndim
    return in_order and [word_at(axes + 8 * i) for i in range(ndim)] == list(array.shape)


def _bytes_of(owner: object, start: int, end: int) -> CheckRow:
    return _bytes_at(id(owner) + start, end - start, owner)


def _bytes_at(address: int, nbytes: int, owner: object) -> CheckRow:
    """The bytes at an address, which belong to `owner`, as they are now."""
    now = ctypes.string_at(address, nbytes)
    return CheckRow(Owner.BYTES, address, nbytes, id(now) + OCTETS, (owner, now))


def compare_bytes() -> int:
    """The address of C's `memcmp`."""
    library = ctypes.cdll.msvcrt if os.name == "nt" else ctypes.pythonapi
    return ctypes.cast(library.memcmp, ctypes.c_void_p).value or 0
