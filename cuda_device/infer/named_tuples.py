"""Named tuples: their members, and the methods and properties of their classes.

class Pair(NamedTuple): …        Pair(x, b=2)          bundle(Pair, x, 2)
                                 p.a, p.norm()         a part; a call of Pair.norm
p._replace(a=3), p._asdict(), Pair._make(items)
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.generators import check_count, no_keywords
from cuda_device.infer.kinds import sequences
from cuda_device.infer.meanings import Keywords, Method, Named
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


def make_of(cls: Any, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`Point._make(items)`."""
    no_keywords("_make", named)
    check_count("_make", positional, 1, 1)
    return make(cls, frame, sequences.items_of(frame, positional[0], "_make"), {})


def attribute(frame: Frame, cell: Cell, meaning: Named, name: str) -> Cell | None:
    """A member, or what the class has: a method, a property, a constant. None if there is nothing of that name."""
    if name in meaning.names:
        return frame.field(cell, meaning.names.index(name))
    if name in ("_replace", "_asdict", *standard.TUPLE_METHODS):
        return frame.bundle(Method(name), [cell])
    found = inspect.getattr_static(meaning.cls, name, None)
    if found is None:
        return None
    if isinstance(found, property):
        return frame.program.call(frame, found.fget, [cell], {})
    if isinstance(found, FunctionType):
        return frame.bundle(Method(name), [cell])
    frame.program.depend(meaning.cls, name, found)
    return frame.literal(getattr(meaning.cls, name))


def call_method(
    frame: Frame, owner: Cell, meaning: Named, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]
) -> Cell:
    """`p._replace(a=3)`, `p._asdict()`, and the methods that the class has."""
    if name not in ("_replace", "_asdict"):
        return frame.program.call(frame, getattr(meaning.cls, name), [owner, *positional], named)
    check_count(name, positional, 0, 0)
    parts = dict(zip(meaning.names, frame.fields(owner), strict=True))
    if name == "_replace":
        return make(meaning.cls, frame, (), parts | dict(named))
    no_keywords(name, named)
    return frame.bundle(Keywords(meaning.names), list(parts.values()))
