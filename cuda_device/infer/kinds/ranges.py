"""Ranges: items and slices, their parts, methods, and comparisons.

range(n)[2:]        a range
r[i]                computed by `library/standard`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda_device.infer import conditions, indexing
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.meanings import Method
from cuda_device.ir.nodes import Op
from cuda_device.library import standard
from cuda_device.types.known import constant

_PARTS = ("start", "stop", "step")


def _parts(frame: Frame, cell: Cell) -> list[Cell]:
    return [frame.field(cell, i) for i in range(3)]


def _length(frame: Frame, cell: Cell) -> Cell:
    return frame.program.call(frame, standard.length_of_range, _parts(frame, cell), {})


def _getitem(frame: Frame, _: Op, owner: Cell, index: Cell) -> Cell:
    """`r[i]` and `r[a:b]` of a range."""
    parts = _parts(frame, owner)
    pieces = indexing.slice_parts(frame, index)
    if pieces is None:
        indexing.values_of(frame, [index])
        length = _length(frame, owner)
        if index.known.constant and isinstance(length.known.value, int):
            indexing.position(index, int(length.known.value))
        conditions.place(frame, index, "a range", length)
        return frame.program.call(frame, standard.range_item, [index, parts[0], length, parts[2]], {})
    pieces[2] = Cell(constant(1)) if pieces[2].known.value is None else pieces[2]
    return frame.program.call(frame, standard.range_slice, [*pieces, *parts], {})


def _attribute(frame: Frame, _: Op, cell: Cell, name: str) -> Cell | None:
    if name in _PARTS:
        return frame.field(cell, _PARTS.index(name))
    return frame.bundle(Method(name), [cell]) if name in standard.RANGE_METHODS else None


def _method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    return frame.program.call(frame, standard.RANGE_METHODS[name], [owner, *positional], named)


def _truth(frame: Frame, cell: Cell) -> Cell:
    return frame.truth(_length(frame, cell))


KIND = Kind(
    rank=Rank.OTHER,
    getitem=_getitem,
    getattr=_attribute,
    names=lambda _: (*_PARTS, *standard.RANGE_METHODS),
    method=_method,
    truth=_truth,
)


def _slice_attribute(frame: Frame, _: Op, cell: Cell, name: str) -> Cell | None:
    return frame.field(cell, _PARTS.index(name)) if name in _PARTS else None


SLICE = Kind(rank=Rank.OTHER, getattr=_slice_attribute, names=lambda _: _PARTS)
