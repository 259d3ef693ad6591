"""What changes lists: assignment to items and slices, `del`, `+=`, and methods.

A list is an object that holds so many values, which are known while compiling, each a value of its own at run time. So what
changes its length is done while compiling, and an index of run time selects among all of its items, which then have one type.

    xs = [0] * 4           a list of four constants
    xs[i] = v              (v if i == 0 else xs[0], v if i == 1 else xs[1], …)
    xs.append(v)           a list of five values, under all names that it has
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import choices, conditions, enumerations
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.generators import check_count, no_keywords
from cuda_device.infer.joins import join_all
from cuda_device.infer.kinds import sequences
from cuda_device.infer.meanings import Keywords, Thing, is_list, means
from cuda_device.library import prelude
from cuda_device.types.known import Known, constant, identities
from cuda_device.types.model import Bundle, Static, is_index

# An index of run time selects among all items.
_MOST_SELECTED = 64


def setitem(frame: Frame, owner: Cell, index: Cell, value: Cell) -> None:
    """`xs[i] = v` and `xs[a:b] = vs`."""
    parts = choices.items(frame, owner)
    bounds = sequences.constant_slice(frame, index)
    if bounds is not None:
        _assign_slice(parts, bounds, sequences.items_of(frame, value, "an assignment to a slice"))
    elif index.known.constant:
        parts[sequences.position(index, len(parts))] = value
    else:
        parts = _with_item(frame, parts, index, value)
    change(frame, owner, parts)


def _assign_slice(parts: list[Cell], bounds: slice, items: list[Cell]) -> None:
    try:
        parts[bounds] = items
    except ValueError as error:
        raise CompileError(str(error), help="give each item one value") from None


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
    if not isinstance(joined, Known) or (no_type and not enumerations.is_option(joined)):
        raise CompileError(
            f"{value.known} and the items of the list have no common type, and which one is assigned to only run time knows",
            help="assign to its items: xs[i][:] = vs"
            if is_list(value.known) and all(is_list(cell.known) for cell in parts)
            else "use a list of numbers of one type, or a constant index",
        )
    conditions.element(frame, index, len(parts), "list")
    items = [Cell(joined, frame.carry(cell, joined)) for cell in (*parts, value)]
    changed = frame.program.call(frame, prelude.with_element, [frame.tuple(items[:-1]), index, items[-1]], {})
    return frame.fields(changed)


def delete(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`del xs[i]`, which is `operator.delitem(xs, i)`."""
    no_keywords("delitem", named)
    check_count("delitem", positional, 2, 2)
    owner, index = positional
    if isinstance(owner.known.value, Keywords):
        from cuda_device.infer.kinds import dicts  # they need lists

        dicts.delete(frame, owner, index)
        return Cell(constant(None))
    if not is_list(owner.known):
        raise CompileError(f"an item of {owner.known} cannot be deleted", help="arrays and tuples keep their size")
    parts = choices.items(frame, owner)
    bounds = sequences.constant_slice(frame, index)
    del parts[sequences.position(index, len(parts)) if bounds is None else bounds]
    change(frame, owner, parts)
    return Cell(constant(None))


def in_place(frame: Frame, sign: str, owner: Cell, other: Cell) -> Cell | None:
    """`xs += vs` and `xs *= n`, which change the list, and `d |= e`; None for anything else."""
    if sign == "|" and isinstance(owner.known.value, Keywords):
        from cuda_device.infer.kinds import dicts  # they need lists

        return dicts.update(frame, owner, [other], {})
    if not is_list(owner.known) or sign not in ("+", "*"):
        return None
    if sign == "+":
        return change(frame, owner, [*choices.items(frame, owner), *sequences.items_of(frame, other, "+=")])
    if not isinstance(other.known.value, int):
        return None
    return change(frame, owner, choices.items(frame, owner) * other.known.value)


def change(frame: Frame, owner: Cell, parts: Sequence[Cell] | Mapping[object, Cell]) -> Cell:
    """Gives a list or dict other items."""
    if means(owner.known, Thing.ONE_OF) and not isinstance(parts, Mapping):
        for each, items in choices.changes(frame, owner, parts):
            change(frame, each, items)
        return owner
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


# Methods


def call_method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`xs.append(v)` and the like."""
    method, low, high = METHODS[name]
    if name == "sort":
        return _sort(frame, owner, named)
    no_keywords(name, named)
    check_count(name, positional, low, high)
    return method(frame, owner, *positional) or Cell(constant(None))


def _append(frame: Frame, owner: Cell, value: Cell) -> None:
    change(frame, owner, [*choices.items(frame, owner), value])


def _extend(frame: Frame, owner: Cell, values: Cell) -> None:
    change(frame, owner, [*choices.items(frame, owner), *sequences.items_of(frame, values, "extend")])


def _insert(frame: Frame, owner: Cell, index: Cell, value: Cell) -> None:
    parts = choices.items(frame, owner)
    if not isinstance(index.known.value, int):
        raise CompileError(f"insert takes a constant index, not {index.known}", help="use local_array")
    parts.insert(index.known.value, value)
    change(frame, owner, parts)


def _pop(frame: Frame, owner: Cell, index: Cell | None = None) -> Cell:
    parts = choices.items(frame, owner)
    if not parts:
        raise CompileError("pop from an empty list", help="append something before")
    item = parts.pop(-1 if index is None else sequences.position(index, len(parts)))
    change(frame, owner, parts)
    return item


def _clear(frame: Frame, owner: Cell) -> None:
    change(frame, owner, [])


def _reverse(frame: Frame, owner: Cell) -> None:
    change(frame, owner, choices.items(frame, owner)[::-1])


def _copy(frame: Frame, owner: Cell) -> Cell:
    return frame.new_list(choices.items(frame, owner))


def _sort(frame: Frame, owner: Cell, named: Mapping[str, Cell]) -> Cell:
    from cuda_device.infer.functionals import sort  # it needs calls, too

    change(frame, owner, frame.fields(sort(frame, [choices.as_list(frame, owner)], named)))
    return Cell(constant(None))


METHODS: dict[str, tuple[Callable[..., Cell | None], int, int]] = {
    "append": (_append, 1, 1),
    "clear": (_clear, 0, 0),
    "copy": (_copy, 0, 0),
    "extend": (_extend, 1, 1),
    "insert": (_insert, 2, 2),
    "pop": (_pop, 0, 1),
    "reverse": (_reverse, 0, 0),
    "sort": (_sort, 0, 0),
}
"""What each method does, and how many arguments it takes at least and at most."""
