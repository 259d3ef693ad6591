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
from cuda_device.infer import composites, conditions, indexing
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.indexing import check_count, no_keywords
from cuda_device.infer.joins import join_all
from cuda_device.infer.meanings import Method, is_list
from cuda_device.ir.nodes import Op
from cuda_device.library import prelude, standard
from cuda_device.types.known import Known, constant, identities
from cuda_device.types.model import Bundle, Static, is_index

# An index of run time selects among all items.
_MOST_SELECTED = 64
METHODS = ("append",)


def _with_item(frame: Frame, parts: Sequence[Cell], index: Cell, value: Cell) -> list[Cell]:
    """The items where one of them is changed, by an index of run time."""
    if not is_index(index.known.type):
        raise CompileError(f"an index is an integer, not {index.known}", help="convert it: int(…)")
    if len(parts) > _MOST_SELECTED:
        raise CompileError(
            f"a list of {len(parts)} items is too long for an assignment by a run-time index: the limit is {_MOST_SELECTED}",
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


def _getitem(frame: Frame, op: Op, owner: Cell, index: Cell) -> Cell:
    parts = frame.fields(owner)
    bounds = indexing.constant_slice(frame, index)
    return frame.getitem(op, (frame.tuple(parts), index))[0] if bounds is None else frame.new_list(parts[bounds])


def _setitem(frame: Frame, _: Op, owner: Cell, index: Cell, value: Cell) -> Sequence[Cell]:
    """`xs[i] = v`."""
    parts = frame.fields(owner)
    if indexing.constant_slice(frame, index) is not None:
        raise CompileError("a slice of a list cannot be assigned to", help="assign to its items one by one")
    if index.known.constant:
        parts[indexing.position(index, len(parts))] = value
    else:
        parts = _with_item(frame, parts, index, value)
    composites.change(frame, owner, parts)
    return ()


def _attribute(frame: Frame, _: Op, cell: Cell, name: str) -> Cell | None:
    if name in standard.TUPLE_METHODS:
        return frame.bundle(Method(name), [frame.tuple(frame.fields(cell))])
    return frame.bundle(Method(name), [cell]) if name in METHODS else None


def _method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`xs.append(v)`."""
    no_keywords(name, named)
    check_count(name, positional, 1, 1)
    composites.change(frame, owner, [*frame.fields(owner), *positional])
    return Cell(constant(None))


def _items(frame: Frame, cell: Cell) -> list[Cell]:
    return frame.fields(cell)


def _truth(_: Frame, cell: Cell) -> Cell:
    return Cell(constant(bool(cell.known.items)))


def _binary(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell | None:
    """`xs + ys` and `xs * n`."""
    if sign == "+" and is_list(a.known) and is_list(b.known):
        return frame.new_list([*frame.fields(a), *frame.fields(b)])
    repeated = indexing.repeated(frame, a, b) if sign == "*" else None
    return None if repeated is None else frame.new_list(repeated)


# Operations that make lists


def make_list(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`[x, y, …]`."""
    return [frame.new_list(cells)]


def append(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """One more item in a comprehension."""
    so_far, item = cells
    return [composites.changed(frame, so_far, [*frame.fields(so_far), item])]


def extend(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`[*x, *y]`."""
    so_far, more = cells
    return [composites.changed(frame, so_far, [*frame.fields(so_far), *frame.items_of(more, "a * in a list or tuple")])]


KIND = Kind(
    rank=Rank.LIST,
    getitem=_getitem,
    setitem=_setitem,
    getattr=_attribute,
    names=lambda _: [*standard.TUPLE_METHODS, *METHODS],
    method=_method,
    items=_items,
    truth=_truth,
    binary=_binary,
)
