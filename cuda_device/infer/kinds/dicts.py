"""Dicts: `dict(…)`, assignment to items, and methods that read.

A dict is an object, as a list is (see `lists`). Its keys are constants, and it gets no others.

    d = {"a": x}; d["a"] = 2       a dict of one value of run time
    for k, v in d.items(): …       a loop that is unrolled
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import hosted
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.indexing import check_count, no_keywords
from cuda_device.infer.kinds import lists
from cuda_device.infer.meanings import DictView, Keywords
from cuda_device.types.known import constant


def make(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`dict(mapping)`, `dict(pairs)`, `dict(a=1)`."""
    check_count("dict", positional, 0, 1)
    parts: dict[object, Cell] = {}
    for other in positional:
        mapping = hosted.as_mapping(frame, other)
        if isinstance(mapping.known.value, Keywords):
            parts |= _parts(frame, mapping)
        else:
            parts |= dict(_pair(frame, pair) for pair in frame.items_of(other, "dict"))
    for name, value in named.items():
        parts[name] = value
    return frame.as_object(frame.bundle(Keywords(tuple(parts)), list(parts.values())))


def _parts(frame: Frame, cell: Cell) -> dict[object, Cell]:
    keys = cell.known.value
    assert isinstance(keys, Keywords)
    return dict(zip(keys.names, frame.fields(cell), strict=True))


def _pair(frame: Frame, cell: Cell) -> tuple[object, Cell]:
    items = frame.items_of(cell, "dict")
    if len(items) != 2:
        raise CompileError(f"a dict is made of pairs, not of {cell.known}", help="write dict(((key, value), …))")
    return hosted.key_of(items[0]), items[1]


def setitem(frame: Frame, owner: Cell, index: Cell, value: Cell) -> None:
    """`d[k] = v` of a key that the dict has."""
    parts, key = _parts(frame, owner), hosted.key_of(index)
    if key not in parts:
        raise CompileError(
            f"the dict has no key {index.known}, and gets no new ones",
            help="write all keys where it is made: {k: 0, …}",
        )
    lists.change(frame, owner, parts | {key: value})


def call_method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`d.get(key, default)`, `d.items()` and the like."""
    method, low, high = METHODS[name]
    no_keywords(name, named)
    check_count(name, positional, low, high)
    return method(frame, owner, *positional)


def _get(frame: Frame, owner: Cell, key: Cell, default: Cell | None = None) -> Cell:
    return _parts(frame, owner).get(hosted.key_of(key), default or Cell(constant(None)))


def _view(name: str) -> Callable[[Frame, Cell], Cell]:
    return lambda frame, owner: frame.bundle(DictView(name), [owner])


METHODS: dict[str, tuple[Callable[..., Cell], int, int]] = {
    "get": (_get, 1, 2),
    "items": (_view("items"), 0, 0),
    "keys": (_view("keys"), 0, 0),
    "values": (_view("values"), 0, 0),
}
"""What each method does, and how many arguments it takes at least and at most."""
