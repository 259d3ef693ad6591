"""Rules of type inference for dicts: assignment to items, and methods that read.

A dict is a mutable object, like a list (see `kinds/tuples`). Its keys are constants, and no keys can be added.

    d = {"a": x}; d["a"] = 2       a dict with one run-time value
    for k, v in d.items(): …       a loop that is unrolled
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cuda_device.errors import CompileError
from cuda_device.infer import composites, hosted
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.meanings import DictView, Keywords
from cuda_device.ir.nodes import Op
from cuda_device.types.known import constant, shorten


def _dict(frame: Frame, parts: Mapping[Any, Cell]) -> Cell:
    return frame.as_object(frame.bundle(Keywords(tuple(parts)), list(parts.values())))


def _parts(frame: Frame, cell: Cell) -> dict[object, Cell]:
    keys: Any = cell.known.value
    return dict(zip(keys.names, frame.fields(cell), strict=True))


def _get(frame: Frame, owner: Cell, key: Cell, default: Cell | None = None, /) -> Cell:
    return _parts(frame, owner).get(hosted.key_of(key), default or Cell(constant(None)))


def _view(name: str, frame: Frame, owner: Cell, /) -> Cell:
    return frame.bundle(DictView(name), [owner])


def _getitem(frame: Frame, _: Op, owner: Cell, key: Cell) -> Cell:
    keys: Any = owner.known.value
    position = hosted.position(keys, key)
    if position is None:
        help = f"its keys are {shorten(', '.join(map(repr, keys.names)), 80)}" if keys.names else "it is empty"
        raise CompileError(f"the dict has no key {key.known}", help=help)
    return frame.field(owner, position)


def _setitem(frame: Frame, _: Op, owner: Cell, index: Cell, value: Cell) -> Sequence[Cell]:
    parts, key = _parts(frame, owner), hosted.key_of(index)
    if key not in parts:
        raise CompileError(
            f"the dict has no key {index.known}, and cannot get new ones",
            help="write all keys where it is made: {k: 0, …}",
        )
    composites.change(frame, owner, parts | {key: value})
    return ()


# Operations that make dicts


def make_dict(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """A dict literal."""
    return [_dict(frame, dict(zip(op.attributes["keys"], cells, strict=True)))]


def map_add(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Adds an item in a comprehension, or replaces the value of its key."""
    so_far, key, value = cells
    if not key.known.constant:
        raise CompileError(
            f"the keys of a dict must be constants, not {key.known}", help="use an array, or if and match"
        )
    return [composites.changed(frame, so_far, _parts(frame, so_far) | {hosted.key_of(key): value})]


def merge(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`{**a, **b}`, or the keywords of a call with `**`; for repeated keys the last value counts."""
    merged: dict[object, Cell] = {}
    for cell in cells:
        mapping = hosted.as_mapping(frame, cell)
        keys = mapping.known.value
        if not isinstance(keys, Keywords):
            raise CompileError(f"** takes a dict, not {cell.known}", help="write each argument separately")
        repeated = [name for name in keys.names if name in merged]
        if op.attributes["unique"] and repeated:
            raise CompileError(f"the call has two values for {repeated[0]!r}", help="leave one of them out")
        merged |= _parts(frame, mapping)
    return [_dict(frame, merged)]


KIND = Kind(
    rank=Rank.LIST,
    getitem=_getitem,
    setitem=_setitem,
    methods={"get": _get, **{name: partial(_view, name) for name in ("items", "keys", "values")}},
    truth=lambda _, cell: Cell(constant(bool(cell.known.items))),
)
