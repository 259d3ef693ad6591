"""Lists: how an assignment to an item, and `append`, change them.

A list is an object that holds so many values, which are known while compiling, each a value of its own at run time. So what
changes its length is done while compiling, and an index of run time selects among all of its items, which then have one type.

    xs = [0] * 4           a list of four constants
    xs[i] = v              (v if i == 0 else xs[0], v if i == 1 else xs[1], …)
    xs.append(v)           a list of five values, under all names that it has
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import conditions
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.indexing import check_count, no_keywords
from cuda_device.infer.joins import join_all
from cuda_device.infer.kinds import sequences
from cuda_device.library import prelude
from cuda_device.types.known import Known, constant, identities
from cuda_device.types.model import Bundle, Static, is_index

# An index of run time selects among all items.
_MOST_SELECTED = 64
METHODS = ("append",)


def setitem(frame: Frame, owner: Cell, index: Cell, value: Cell) -> None:
    """`xs[i] = v`."""
    parts = frame.fields(owner)
    if sequences.constant_slice(frame, index) is not None:
        raise CompileError("a slice of a list cannot be assigned to", help="assign to its items one by one")
    if index.known.constant:
        parts[sequences.position(index, len(parts))] = value
    else:
        parts = _with_item(frame, parts, index, value)
    change(frame, owner, parts)


def _with_item(frame: Frame, parts: Sequence[Cell], index: Cell, value: Cell) -> list[Cell]:
    """The items where one of them is changed, by an index of run time."""
    if not is_index(index.known.type):
        raise CompileError(f"an index is an integer, not {index.known}", help="convert it: int(…)")
    if len(parts) > _MOST_SELECTED:
        raise CompileError(
            f"a list of {len(parts)} items is too long for an assignment by an index of run time: {_MOST_SELECTED} are the most",
            help="use local_array",
        )
    joined = join_all([cell.known.forget() for cell in (*parts, value)])
    no_type = not isinstance(joined, Known) or isinstance(joined.type, (Static, Bundle)) or any(identities(joined))
    if not isinstance(joined, Known) or no_type:
        raise CompileError(
            f"{value.known} and the items of the list have no common type, and which one is assigned to only run time knows",
            help="use a list of numbers of one type, or a constant index",
        )
    conditions.element(frame, index, len(parts), "list")
    items = [Cell(joined, frame.carry(cell, joined)) for cell in (*parts, value)]
    changed = frame.program.call(frame, prelude.with_element, [frame.tuple(items[:-1]), index, items[-1]], {})
    return frame.fields(changed)


def change(frame: Frame, owner: Cell, parts: Sequence[Cell] | Mapping[object, Cell]) -> Cell:
    """Gives a list or dict other items."""
    if owner.known.identity is None:
        raise CompileError(
            f"which {str(owner.known)[2:]} this is depends on the way that leads here: it cannot be changed",
            help="give each one a name of its own, or make a copy",
        )
    if len(parts) > _MOST_ITEMS:
        raise CompileError(
            f"{owner.known} of {len(parts)} items is too long for device code: {_MOST_ITEMS} are the most",
            help="use local_array",
        )
    return sequences.changed(frame, owner, parts)


_MOST_ITEMS = 1024


def call_method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`xs.append(v)`."""
    no_keywords(name, named)
    check_count(name, positional, 1, 1)
    change(frame, owner, [*frame.fields(owner), *positional])
    return Cell(constant(None))
