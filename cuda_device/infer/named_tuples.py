"""Named tuples: how they are made, and their members.

class Pair(NamedTuple): …        Pair(x, b=2)          bundle(Pair, x, 2)
                                 p.a                   a part
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import Method, Named
from cuda_device.library import standard


def make(cls: Any, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Makes a named tuple: `Point(x, y=2)`."""
    usage = f"its members are {', '.join(cls._fields)}"
    given = dict(zip(cls._fields, positional, strict=False))
    wrong = [name for name in named if name not in cls._fields or name in given]
    if wrong or len(positional) > len(cls._fields):
        what = f"cannot take {wrong[0]!r}" if wrong else f"has {len(cls._fields)} members, not {len(positional)}"
        raise CompileError(f"{cls.__name__} {what}", help=usage)
    given |= named
    given |= {name: frame.literal(value) for name, value in cls._field_defaults.items() if name not in given}
    missing = [name for name in cls._fields if name not in given]
    if missing:
        raise CompileError(f"{cls.__name__} lacks a value for {', '.join(map(repr, missing))}", help=usage)
    return frame.bundle(Named(cls), [given[name] for name in cls._fields])


def attribute(frame: Frame, cell: Cell, meaning: Named, name: str) -> Cell | None:
    """A member, or a constant of the class. None if there is nothing of that name."""
    if name in meaning.names:
        return frame.field(cell, meaning.names.index(name))
    if name in standard.TUPLE_METHODS:
        return frame.bundle(Method(name), [cell])
    found = inspect.getattr_static(meaning.cls, name, None)
    if isinstance(found, property | FunctionType | classmethod):
        raise CompileError(
            f"{meaning} has no methods in device code", help="write a function that takes it, or use @struct"
        )
    if found is None:
        return None
    frame.program.depend(meaning.cls, name, found)
    return frame.literal(getattr(meaning.cls, name))
