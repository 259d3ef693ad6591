"""Rules of type inference for tuples, named tuples and lists: items, slices and members.

t[0]        the item
t[i]        one of the items, which must have the same type; many constants are loaded from constant memory
p.a         an item of a named tuple

A list is a mutable object whose length is known at compile time; each item is a separate run-time value. Operations that change
the length are therefore executed at compile time. A run-time index selects among all items, which must have the same type.

    xs = [0] * 4           a list of four constants
    xs[i] = v              (v if i == 0 else xs[0], v if i == 1 else xs[1], …)
    xs.append(v)           a list of five values, under all names of the list
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from cuda_device.errors import CompileError, not_constant
from cuda_device.infer import composites, conditions, hosted, indexing, references
from cuda_device.infer.frame import Cell, Frame, Kind, Rank, is_of, library
from cuda_device.infer.joins import join_all
from cuda_device.infer.meanings import Named, is_list
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import prelude, standard
from cuda_device.types.known import Known, Undefined, constant, identities, of_type
from cuda_device.types.model import Array, Bundle, Static, Tuple, is_index


def _getitem(frame: Frame, op: Op, owner: Cell, index: Cell) -> Cell:
    bounds = indexing.constant_slice(frame, index)
    if bounds is not None:
        return frame.tuple(frame.fields(owner)[bounds])
    if not isinstance(owner.type, Tuple):
        owner = frame.as_tuple(owner)
    assert is_of(owner, Tuple)
    if not index.known.constant and is_index(index.known.type):
        return _item(frame, op, owner, index)
    position = indexing.position(index, len(owner.type.elements))
    if owner.place is None or "part" not in op.attributes:
        return frame.field(owner, position)
    return references.read_item(frame, references.of_place(frame, owner.place), owner.type, position)


def _item(frame: Frame, op: Op, owner: Cell, index: Cell) -> Cell:
    """`t[i]` with a run-time index: the items must have one type. An item that is a list becomes a tuple."""
    parts = frame.fields(owner)
    classes = {part.known.value if isinstance(part.known.value, Named) else None for part in parts}
    if len(classes) == 1 and None not in classes:
        plain = frame.tuple([frame.tuple(frame.fields(part)) for part in parts])
        return frame.bundle(classes.pop(), frame.fields(_item(frame, op, plain, index)))
    if any(part.known.identity is not None for part in parts):
        raise not_constant(
            f"the index of {owner.known} must be a constant integer: its items are objects that change",
            help="make them tuples, or use local_array",
        )
    owner = frame.tuple([frame.as_tuple(hosted.as_sequence(frame, part)) for part in parts])
    table = hosted.table_of(frame, owner)
    if table is not None and is_of(table, Array) and table.type.ndim == 2:
        return frame.item(table, index)
    joined = join_all([item.forget() for item in owner.known.items] or [Undefined()])
    if not isinstance(joined, Known) or isinstance(joined.type, (Static, Bundle)):
        raise not_constant(
            f"the index of {owner.known} must be a constant integer: its items have no common type",
            help="loop over the tuple with for",
        )
    conditions.element(frame, index, len(owner.known.items), "tuple")
    if table is not None:
        assert table.value is not None
        return frame.emit(ops.PY_GETITEM, of_type(joined.type), table.value, *indexing.values_of(frame, [index]))
    frame.selected(op, len(parts))
    return frame.call(frame.literal(prelude.element), [owner, index], {})


def _setitem(frame: Frame, op: Op, owner: Cell, index: Cell, value: Cell) -> Sequence[Cell] | None:
    """The tuple after `t[0].x = 1`, which changes an item."""
    if "back" not in op.attributes:
        return None
    parts = frame.fields(owner)
    parts[indexing.position(index, len(parts))] = value
    return [frame.tuple(parts)]


def _binary(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell | None:
    """`t + u` and `t * n`, of tuples or of lists."""
    make = frame.new_list if is_list(a.known) or is_list(b.known) else frame.tuple
    if sign == "+" and is_list(a.known) == is_list(b.known) and _is_sequence(a) and _is_sequence(b):
        return make([*frame.fields(a), *frame.fields(b)])
    repeated = indexing.repeated(frame, a, b) if sign == "*" else None
    return None if repeated is None else make(repeated)


def _is_sequence(cell: Cell) -> bool:
    """Whether a value is a list, a tuple or a named tuple."""
    return isinstance(cell.known.value, Named) or isinstance(cell.known.type, Tuple) or is_list(cell.known)


KIND = Kind(
    rank=Rank.SEQUENCE,
    getitem=_getitem,
    setitem=_setitem,
    methods={name: library(function) for name, function in standard.TUPLE_METHODS.items()},
    items=Frame.fields,
    truth=lambda _, cell: Cell(constant(bool(cell.known.items))),
    binary=_binary,
)


# Named tuples


def _named_attribute(frame: Frame, _: Op, cell: Cell, name: str) -> Cell | None:
    """A member, or a constant of the class."""
    meaning: Any = cell.known.value
    if name in meaning.names:
        return frame.field(cell, meaning.names.index(name))
    if name in standard.TUPLE_METHODS:
        return None
    attribute = inspect.getattr_static(meaning.cls, name, None)
    if isinstance(attribute, property | FunctionType | classmethod):
        raise CompileError(
            f"{meaning} has no methods in device code", help="write a function that takes it, or use @struct"
        )
    if attribute is None:
        return None
    frame.program.depend(meaning.cls, name, attribute)
    return frame.literal(getattr(meaning.cls, name))


NAMED = replace(KIND, setitem=None, getattr=_named_attribute)


# Lists


_MOST_SELECTED = 64


def _with_item(frame: Frame, parts: Sequence[Cell], index: Cell, value: Cell) -> list[Cell]:
    """The items after an assignment by a run-time index."""
    indexing.check_index(index.known)
    if len(parts) > _MOST_SELECTED:
        raise not_constant(
            f"a list of {len(parts)} items is too long for an assignment by a run-time index: the limit is {_MOST_SELECTED}",
            help="loop over a range with constant bounds, which is unrolled, or over a tuple",
        )
    joined = join_all([cell.known.forget() for cell in (*parts, value)])
    if not isinstance(joined, Known) or isinstance(joined.type, (Static, Bundle)) or any(identities(joined)):
        raise not_constant(
            f"{value.known} and the items of the list have no common type, and the index is known only at run time",
            help="use a list of numbers of one type, or a constant index",
        )
    conditions.element(frame, index, len(parts), "list")
    items = [Cell(joined, frame.carry(cell, joined)) for cell in (*parts, value)]
    changed = frame.run(prelude.with_element, frame.tuple(items[:-1]), index, items[-1])
    return frame.fields(changed)


def _list_item(frame: Frame, op: Op, owner: Cell, index: Cell) -> Cell:
    parts = frame.fields(owner)
    bounds = indexing.constant_slice(frame, index)
    return frame.getitem(op, (frame.tuple(parts), index))[0] if bounds is None else frame.new_list(parts[bounds])


def _set_list_item(frame: Frame, op: Op, owner: Cell, index: Cell, value: Cell) -> Sequence[Cell]:
    parts = frame.fields(owner)
    if indexing.constant_slice(frame, index) is not None:
        raise CompileError("a slice of a list cannot be assigned to", help="assign to each item separately")
    if index.known.constant:
        parts[indexing.position(index, len(parts))] = value
    else:
        frame.selected(op, len(parts))
        parts = _with_item(frame, parts, index, value)
    composites.change(frame, owner, parts)
    return ()


def _append(frame: Frame, owner: Cell, item: Cell, /) -> Cell:
    composites.check_change(owner, len(owner.known.items) + 1)
    composites.extended(frame, owner, [item])
    return Cell(constant(None))


def _of_items(method: Callable[..., Cell]) -> Callable[..., Cell]:
    return lambda frame, owner, *given: method(frame, frame.tuple(frame.fields(owner)), *given)


# Operations that make lists


def append(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """One more item in a comprehension."""
    so_far, item = cells
    return [composites.extended(frame, so_far, [item])]


def extend(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`[*x, *y]`."""
    so_far, more = cells
    return [composites.extended(frame, so_far, frame.items_of(more, "a * in a list or tuple"))]


LIST = replace(
    KIND,
    rank=Rank.LIST,
    getitem=_list_item,
    setitem=_set_list_item,
    methods={name: _of_items(method) for name, method in KIND.methods.items()} | {"append": _append},
)
