"""Tuples and named tuples: items by constant indices and by those of run time, slices, and their members.

t[0]        the item
t[i]        one of the items, which then have one type: a load from constant memory where they are many constants
p.a         an item of a named tuple
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType

from cuda_device.errors import CompileError
from cuda_device.infer import conditions, hosted, indexing, references
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.joins import join
from cuda_device.infer.meanings import Method, Named
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import prelude, standard
from cuda_device.types.known import Known, State, Undefined, constant, of_type
from cuda_device.types.model import Array, Bundle, Static, Tuple, is_index


def _getitem(frame: Frame, op: Op, owner: Cell, index: Cell) -> Cell:
    bounds = indexing.constant_slice(frame, index)
    if bounds is not None:
        return frame.tuple(frame.fields(owner)[bounds])
    items = owner.known.type
    if not isinstance(items, Tuple):
        owner = frame.as_tuple(owner)
        items = owner.known.type
        assert isinstance(items, Tuple)
    if not index.known.constant and is_index(index.known.type):
        return _item(frame, owner, index)
    place = indexing.position(index, len(items.elements))
    if owner.place is None or "part" not in op.attributes:
        return frame.field(owner, place)
    return references.read_item(frame, references.of_place(frame, owner.place), items, place)


def _item(frame: Frame, owner: Cell, index: Cell) -> Cell:
    """`t[i]` of a tuple with an index that only run time knows: its items must have one type. Of lists it is a tuple."""
    parts = frame.fields(owner)
    classes = {part.known.value if isinstance(part.known.value, Named) else None for part in parts}
    if len(classes) == 1 and None not in classes:  # a named tuple stays one
        plain = frame.tuple([frame.tuple(frame.fields(part)) for part in parts])
        return frame.bundle(classes.pop(), frame.fields(_item(frame, plain, index)))
    if any(part.known.identity is not None for part in parts):
        raise CompileError(
            f"the index of {owner.known} must be a constant integer: its items are objects that change",
            help="make them tuples, or use local_array",
        )
    owner = frame.tuple([frame.as_tuple(hosted.as_sequence(frame, part)) for part in parts])
    rows = hosted.table_of_rows(frame, owner)
    if rows is not None and isinstance(rows.known.type, Array):
        return frame.getitem(Op(ops.PY_GETITEM), (rows, index))[0]
    joined: State = Undefined()
    for item in owner.known.items:
        joined = join(joined, item.forget())
    no_type = not isinstance(joined, Known) or isinstance(joined.type, (Static, Bundle))
    if not isinstance(joined, Known) or no_type:
        raise CompileError(
            f"the index of {owner.known} must be a constant integer: its items have no common type",
            help="loop over the tuple with for",
        )
    conditions.element(frame, index, len(owner.known.items), "tuple")
    table = hosted.table_of(frame, owner)
    if table is not None:
        assert table.value is not None
        return frame.emit(ops.PY_GETITEM, of_type(joined.type), table.value, *indexing.values_of(frame, [index]))
    return frame.call(frame.literal(prelude.element), [owner, index], {})


def _setitem(frame: Frame, op: Op, owner: Cell, index: Cell, value: Cell) -> Sequence[Cell] | None:
    """What becomes of a tuple of which an item was changed: `t[0].x = 1`."""
    if "back" not in op.attributes:
        return None
    parts = frame.fields(owner)
    parts[indexing.position(index, len(parts))] = value
    return [frame.tuple(parts)]


def _attribute(frame: Frame, _: Op, cell: Cell, name: str) -> Cell | None:
    return frame.bundle(Method(name), [cell]) if name in standard.TUPLE_METHODS else None


def _method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    return frame.program.call(frame, standard.TUPLE_METHODS[name], [owner, *positional], named)


def _items(frame: Frame, cell: Cell) -> list[Cell]:
    return frame.fields(cell)


def _truth(_: Frame, cell: Cell) -> Cell:
    return Cell(constant(bool(cell.known.items)))


def _binary(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell | None:
    """`t + u` and `t * n`."""
    if sign == "+" and _is_tuple(a) and _is_tuple(b):
        return frame.tuple([*frame.fields(a), *frame.fields(b)])
    repeated = indexing.repeated(frame, a, b) if sign == "*" else None
    return None if repeated is None else frame.tuple(repeated)


def _is_tuple(cell: Cell) -> bool:
    """Whether it is a tuple, perhaps a named one."""
    return isinstance(cell.known.value, Named) or isinstance(cell.known.type, Tuple)


KIND = Kind(
    rank=Rank.SEQUENCE,
    getitem=_getitem,
    setitem=_setitem,
    getattr=_attribute,
    names=lambda _: [*standard.TUPLE_METHODS],
    method=_method,
    items=_items,
    truth=_truth,
    binary=_binary,
)


# Named tuples


def _named_attribute(frame: Frame, _: Op, cell: Cell, name: str) -> Cell | None:
    """A member, or a constant of the class."""
    meaning = cell.known.value
    assert isinstance(meaning, Named)
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


NAMED = replace(KIND, setitem=None, getattr=_named_attribute)
