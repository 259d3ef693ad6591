"""Calls that take functions, or names: `min(key=…)`, `functools.reduce`, `map`, `getattr`.

map(f, x)               →   a bundle that `for` knows; f is called when the loop comes to an item
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer.argument_counts import check_count, no_keywords
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import Thing, means
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.library import standard
from cuda_device.types.known import constant
from cuda_device.types.model import Number, Tuple


def extreme(frame: Frame, function: object, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`min` and `max` of what one argument holds, or with a `key`."""
    _check_keywords(name, named)
    if len(positional) != 1 and "default" in named:
        raise CompileError(f"{name} takes a default with one argument only", help=f"write {name}((a, b, …), default=c)")
    items = positional[0] if len(positional) == 1 else frame.tuple(positional)
    if isinstance(items.known.type, Number):
        raise CompileError(
            f"{name} of one argument takes a tuple, a range or an array, not {items.known}",
            help=f"write {name}(a, b, …)",
        )
    if isinstance(items.known.type, Tuple) and not items.known.items and "default" not in named:
        raise CompileError(f"{name}() of nothing has no value", help=f"write {name}(…, default=0)")
    return frame.program.call(frame, standard.ONE_ARGUMENT[function], [items], named)


def _check_keywords(name: str, named: Mapping[str, Cell]) -> None:
    for word in named:
        if word not in ("key", "default"):
            raise CompileError(f"{name} has no keyword parameter {word!r}", help="its keywords are key and default")


def _next(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`next(iterator)`, perhaps with a default."""
    no_keywords("next", named)
    check_count("next", positional, 1, 2)
    if positional[0].known.identity is None or means(positional[0].known, Thing.LIST):
        raise CompileError(
            f"next takes an iterator, not {positional[0].known}", help="write next(iter(…)), or index it"
        )
    function = standard.next_of if len(positional) == 1 else standard.next_or
    return frame.program.call(frame, function, positional, {})


def _filter(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`filter(function, items)`."""
    no_keywords("filter", named)
    check_count("filter", positional, 2, 2)
    function, items = positional
    if function.known.value is None:
        function = frame.literal(bool)
    return frame.program.call(frame, standard.chosen, [function, _as_iterator(frame, items)], {})


def _as_iterator(frame: Frame, cell: Cell) -> Cell:

    return frame.iterate(cell)


def _reduce(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`functools.reduce(function, items)`, perhaps with a first result."""
    no_keywords("reduce", named)
    check_count("reduce", positional, 2, 3)
    function, items, *begin = positional
    target = standard.reduce_from if begin else standard.reduce_all
    return frame.program.call(frame, target, [function, frame.as_iterable(items), *begin], {})


def _map(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`map(function, a, b, …)`: each item is computed when the loop comes to it."""
    no_keywords("map", named)
    check_count("map", positional, 2, 255)
    function, *items = positional
    both = frame.bundle(Thing.ZIP, [_as_iterator(frame, cell) for cell in items])
    return frame.as_object(frame.bundle(Thing.MAP, [function, both]))


def _iter(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`iter(x)`: an iterator, which is its own."""
    no_keywords("iter", named)
    check_count("iter", positional, 1, 1)
    iterator = _as_iterator(frame, positional[0])
    return iterator if iterator.known.identity is not None else frame.as_object(iterator)


def get_attribute(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`getattr(x, "name")`, perhaps with a default."""
    no_keywords("getattr", named)
    check_count("getattr", positional, 2, 3)
    found = _attribute(frame, *positional[:2])
    if isinstance(found, Cell):
        return found
    if len(positional) < 3:
        raise found
    return positional[2]


def _hasattr(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    no_keywords("hasattr", named)
    check_count("hasattr", positional, 2, 2)
    return Cell(constant(isinstance(_attribute(frame, *positional), Cell)))


def _attribute(frame: Frame, owner: Cell, name: Cell) -> Cell | CompileError:

    if not isinstance(name.known.value, str):
        raise CompileError(f"the name of an attribute is a string, not {name.known}", help="write it in quotes")
    try:
        (cell,) = frame.getattr(Op(ops.PY_GETATTR, attributes={"name": name.known.value}), [owner])
    except CompileError as error:
        return error
    return cell


def _slice(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`slice(stop)`, `slice(start, stop)`, `slice(start, stop, step)`."""
    no_keywords("slice", named)
    check_count("slice", positional, 1, 3)
    nothing = Cell(constant(None))
    parts = [nothing, *positional] if len(positional) == 1 else list(positional)
    return frame.bundle(slice, [*parts, nothing][:3])


RULES: dict[object, Callable[[Frame, Sequence[Cell], Mapping[str, Cell]], Cell]] = {
    functools.reduce: _reduce,
    map: _map,
    filter: _filter,
    next: _next,
    iter: _iter,
    getattr: get_attribute,
    hasattr: _hasattr,
    slice: _slice,
}
