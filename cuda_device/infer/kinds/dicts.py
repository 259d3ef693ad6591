"""Dicts: `dict(…)`, assignment to items, `del`, and methods.

A dict is an object, as a list is (see `lists`). Its keys are constants, and known at each place of the program.

    d = {"a": x}; d["b"] = 2       a dict of two values of run time
    for k, v in d.items(): …       a loop that is unrolled
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import hosted, lookups
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.generators import check_count, no_keywords
from cuda_device.infer.kinds import lists, sequences
from cuda_device.infer.meanings import Keywords, View
from cuda_device.types.known import constant


def make(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`dict(mapping)`, `dict(pairs)`, `dict(a=1)`."""
    check_count("dict", positional, 0, 1)
    return update(frame, frame.as_object(frame.bundle(Keywords(()), [])), positional, named)


def _parts(frame: Frame, cell: Cell) -> dict[object, Cell]:
    keys = cell.known.value
    assert isinstance(keys, Keywords)
    return dict(zip(keys.names, frame.fields(cell), strict=True))


def setitem(frame: Frame, owner: Cell, index: Cell, value: Cell) -> None:
    """`d[k] = v`; a key that only run time knows is one of those that there are."""
    if not index.known.constant:
        after = lookups.changed(frame, owner, index, value)
        lists.change(frame, owner, dict(zip(_parts(frame, owner), after, strict=True)))
        return
    lists.change(frame, owner, _parts(frame, owner) | {hosted.key_of(index): value})


def delete(frame: Frame, owner: Cell, index: Cell) -> None:
    """`del d[k]`."""
    _pop(frame, owner, index)


def update(frame: Frame, owner: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`d.update(other, a=1)`: the dict after it."""
    more: dict[object, Cell] = {}
    for other in positional:
        mapping = hosted.as_mapping(frame, other)
        if isinstance(mapping.known.value, Keywords):
            more |= _parts(frame, mapping)
            continue
        for pair in sequences.items_of(frame, other, "dict"):
            key, value = _pair(frame, pair)
            more[key] = value
    return lists.change(frame, owner, _parts(frame, owner) | more | dict(named))


def _pair(frame: Frame, cell: Cell) -> tuple[object, Cell]:
    items = sequences.items_of(frame, cell, "dict")
    if len(items) != 2:
        raise CompileError(f"a dict is made of pairs, not of {cell.known}", help="write dict(((key, value), …))")
    return hosted.key_of(items[0]), items[1]


def call_method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`d.get(key, default)`, `d.items()` and the like."""
    method, low, high = METHODS[name]
    if method is not _update:
        no_keywords(name, named)
    check_count(name, positional, low, high)
    return method(frame, owner, *positional, **named) or Cell(constant(None))


def _get(frame: Frame, owner: Cell, key: Cell, default: Cell | None = None) -> Cell | None:
    if not key.known.constant:
        return lookups.item(frame, owner, key, default or Cell(constant(None)))
    return frame.field(owner, place) if (place := _place(owner, key)) is not None else default


def _place(owner: Cell, key: Cell) -> int | None:
    keys = owner.known.value
    assert isinstance(keys, Keywords)
    return hosted.position(keys, key)


def _pop(frame: Frame, owner: Cell, key: Cell, default: Cell | None = None) -> Cell:
    item = default if _place(owner, key) is None and default is not None else hosted.getitem(frame, owner, key)
    assert item is not None
    lists.change(frame, owner, {name: part for name, part in _parts(frame, owner).items() if name != key.known.python})
    return item


def _setdefault(frame: Frame, owner: Cell, key: Cell, default: Cell | None = None) -> Cell:
    found = _get(frame, owner, key)
    if found is None:
        found = default or Cell(constant(None))
        setitem(frame, owner, key, found)
    return found


def _clear(frame: Frame, owner: Cell) -> None:
    lists.change(frame, owner, {})


def _copy(frame: Frame, owner: Cell) -> Cell:
    return make(frame, [owner], {})


def _update(frame: Frame, owner: Cell, /, *positional: Cell, **named: Cell) -> None:
    update(frame, owner, positional, named)


def _view(name: str) -> Callable[[Frame, Cell], Cell]:
    return lambda frame, owner: frame.bundle(View(name), [owner])


METHODS: dict[str, tuple[Callable[..., Cell | None], int, int]] = {
    "clear": (_clear, 0, 0),
    "copy": (_copy, 0, 0),
    "get": (_get, 1, 2),
    "items": (_view("items"), 0, 0),
    "keys": (_view("keys"), 0, 0),
    "pop": (_pop, 1, 2),
    "setdefault": (_setdefault, 1, 2),
    "update": (_update, 0, 1),
    "values": (_view("values"), 0, 0),
}
"""What each method does, and how many arguments it takes at least and at most."""
