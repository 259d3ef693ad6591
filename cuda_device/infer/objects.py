"""Mutable objects (lists, dicts, iterators, shared variables): their identities and contents in blocks, joins and calls.

A value has the identity of its object, which is its allocation site, and the contents that the object had when the value was
created. `Frame.heap` has the contents of each object that has changed in the current block, and operands are read through it. At
the end of a block all variables are updated, so the heap of the next block is empty at first. A function that takes objects also
returns their contents.

    a = iter(x)              a has the identity 1
    b = a                    so has b
    next(a)                  heap[1] is the iterator after its first item
    next(b)                  b is read as heap[1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard

from cuda_device.infer.frame import Cell, Frame, objects_in
from cuda_device.infer.meanings import Generator, ListIterator, Resumed, Returned, is_container
from cuda_device.lazy_dataclasses import replace
from cuda_device.lazy_imports import import_lazily
from cuda_device.types.known import (
    UNSET,
    Gaps,
    Identity,
    Known,
    State,
    Undefined,
    bundle_of,
    identities,
    part,
    renamed,
    state_of,
)
from cuda_device.types.model import Array, Bundle, Number

if TYPE_CHECKING:
    from cuda_device.infer import closures, joins
else:
    import_lazily(globals(), "cuda_device.infer", "closures", "joins")


_Path = tuple[object, ...]
"""The path to an object: the number of a variable or the identity of an object, and then the numbers of parts."""


def rename_previous_iteration(state: Known, site: tuple[int, ...]) -> State:
    """The state at the beginning of a block, in which objects that an earlier iteration of the block made are renamed.

    This is recency abstraction: the name of an allocation site denotes only its newest object.
    """
    at_site = (identity for identity in identities(state) if identity.site[:-1] == site)
    older = {identity: replace(identity, age=identity.age + 1) for identity in at_site}
    return renamed(state, older) if older else state


def join_identities(incoming: list[list[State]], key: tuple[int, ...], count: int) -> list[list[State]]:
    """Joins the identities of objects on all edges into a block.

    Different objects that are joined in one variable, or in one part of it, become a single object if nothing else refers to
    them. Lists and dicts to which something else refers lose their identity: they can be read, but no longer changed. The first
    `count` states are those of variables, the others those of objects among the function's arguments.
    """
    objects_at: dict[_Path, set[Identity | None]] = {}
    paths: dict[Identity, set[_Path]] = {}
    for states in incoming:
        for column, state in enumerate(states):
            for path, identity in _objects_by_path(state, (column,)) if may_hold(state) and state.meanings else ():
                if column >= count and path == (column,):
                    continue
                objects_at.setdefault(path, set()).add(identity)
                if identity is not None:
                    paths.setdefault(identity, set()).add(path)
    merged: dict[Identity, Identity] = {}
    frozen: dict[Identity, None] = {}
    for path, objects in objects_at.items():
        named = [identity for identity in objects if identity is not None]
        if len(objects) == len(named) > 1 and all(len(paths[identity]) == 1 for identity in named):
            merged |= dict.fromkeys(named, Identity((*key, "met", *path, 0)))
        elif len(objects) > 1:
            frozen |= dict.fromkeys(named)
    if frozen:
        incoming = [[*(_with_names(state, frozen, is_container) for state in a[:count]), *a[count:]] for a in incoming]
    if not merged:
        return incoming
    incoming = [
        [*(_with_names(state, merged) for state in a[:count]), *(_of_argument(state, merged) for state in a[count:])]
        for a in incoming
    ]
    return join_identities(incoming, key, count)  # their parts may now be joined as well


def may_hold(state: State) -> TypeGuard[Known]:
    """Whether a value may contain mutable objects. Numbers and arrays do not."""
    return isinstance(state, Known) and not isinstance(state.type, (Number, Array))


def _with_names(
    state: State, names: Mapping[Identity, Identity | None], only: Callable[[Known], bool] = lambda _: True
) -> State:
    return renamed(state, names, only) if isinstance(state, Known) else state


def _of_argument(state: State, names: Mapping[Identity, Identity]) -> State:
    """The state of an object that was an argument: undefined if it was merged with another one."""
    if isinstance(state, Known) and state.identity in names:
        return Undefined(
            why=f"the contents of {state} are not known, because a variable may refer to it or to another object"
        )
    return _with_names(state, names)


def _objects_by_path(known: Known, path: _Path) -> Iterator[tuple[_Path, Identity | None]]:
    """The mutable objects in a value, and their paths. Lists and dicts without identity yield None."""
    if known.identity is not None or is_container(known):
        yield path, known.identity
    if known.identity is not None:
        path = (known.identity,)
    for number, item in enumerate(known.items):
        if isinstance(item.type, Bundle) or (item.items and item.meanings):
            yield from _objects_by_path(item, (*path, number))


def from_callee(frame: Frame, cell: Cell, names: dict[Identity, Identity]) -> Cell:
    """The result of a call: the callee's arguments are renamed to `names`, and objects that it made get new identities."""
    for identity in identities(cell.known):
        if identity not in names:
            names[identity] = frame.new_identity()
    return Cell(renamed(cell.known, names), cell.value)


def objects_among(frame: Frame, cells: Iterable[Cell]) -> dict[Identity, Cell]:
    """The objects in `cells`, by their identities."""
    by_identity: dict[Identity, Cell] = {}
    for cell in cells:
        if may_hold(cell.known):
            by_identity = objects_in(frame, cell, cell.known) | by_identity
    return by_identity


def objects_on_edge(frame: Frame, pairs: Sequence[tuple[Cell, State]]) -> dict[Identity, Cell] | None:
    """The objects on an edge, by their identities in its target, if a value there has gaps that they fill."""
    bundles = [state for _, state in pairs if isinstance(state, Known) and state.items]
    if not any(issubclass(meaning, Gaps) for state in bundles for meaning in state.meanings):
        return None
    by_identity: dict[Identity, Cell] = {}
    for cell, state in pairs:
        if isinstance(state, Known):
            by_identity |= objects_in(frame, cell, state)
    return by_identity


def return_value(frame: Frame, cell: Cell, objects: Sequence[Identity]) -> Cell:
    """The returned value, with the contents of the objects among the arguments.

    A step of a generator has two slots for each: one if there was a value, and one if there was none.
    """
    now = [closures.close(frame, frame.now(frame.heap[identity])) for identity in objects]
    if isinstance(cell.known.value, Resumed):
        nothing = [Cell(UNSET)] * len(now)
        now = [*now, *nothing] if cell.known.items[0].value else [*nothing, *now]
    return frame.bundle(Returned(), [cell, *now])


def return_states(known: Sequence[Known], has_objects: bool) -> list[list[State]]:
    """The states at each return: that of the value, and those of the objects."""
    states: list[list[State]] = [[k.items[0], *map(state_of, k.items[1:])] if has_objects else [k] for k in known]
    return join_identities(states, (), 1) if len(states) > 1 else states


def return_state(result: State, states: Sequence[Sequence[State]], is_step: bool) -> State:
    """The joined `result` of all returns, with the contents of the objects: two sets if it is a step of a generator."""
    if not isinstance(result, Known):
        return result
    columns = zip(*(state[1:] for state in states), strict=True)
    contents = [part(joins.join_all(column)) for column in columns]
    there = len(contents) // 2 if is_step else len(contents)
    return bundle_of(
        Returned(), (*joins.join_objects([result, *contents[:there]]), *joins.join_objects(contents[there:]))
    )


# The position of a generator that may stand at more than one `yield`; DONE is -1.
_ANYWHERE = -2


def positions(states: Sequence[State]) -> list[int]:
    """The positions of generators, and of the iterators that unroll their loops."""
    return [position for state in states if isinstance(state, Known) and state.items for position in _positions(state)]


def _positions(known: Known) -> Iterator[int]:
    if not isinstance(known.type, Bundle) or known.meanings.isdisjoint((ListIterator, Generator)):
        return
    if isinstance(known.value, ListIterator):
        yield known.value.position
    if isinstance(known.value, Generator):
        position = known.items[1]
        yield int(str(position.value)) if position.constant else _ANYWHERE
    for item in known.items:
        yield from _positions(item)
