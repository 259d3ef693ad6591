"""Joins facts where control flow joins: the strongest fact about a value that holds on every edge.

Known(INT, 0)      ⊔ Known(FLOAT32)   = Known(FLOAT32)       acc = 0, later acc += x[i]
Known(STATIC, sin) ⊔ Known(STATIC, cos) = Conflict           an error if the variable is used later
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TypeVar

from cuda_device.lazy_dataclasses import replace
from cuda_device.types import model
from cuda_device.types.known import (
    FAILED,
    UNKNOWN,
    Conflict,
    Gaps,
    Identity,
    Known,
    State,
    Undefined,
    between,
    known_as,
    objects,
    of_type,
    part,
    state_of,
    tuple_of,
)
from cuda_device.types.layout import has_arrays, known_alignment, parts, rebuilt, shortfall
from cuda_device.types.promote import join_numbers

S = TypeVar("S", bound=State)


def join(a: State, b: State) -> State:
    """The state of a variable that is `a` on one edge and `b` on another."""
    if a is FAILED or b is FAILED:
        return b if a is FAILED else a
    if isinstance(a, Known) and isinstance(b, Known):
        joined = a if a == b else _join_known(a, b)
        return Conflict(a, b) if joined is None else joined
    match a, b:
        case (Undefined(why=why) as lost, _) | (_, Undefined(why=why) as lost) if why:
            return lost
        case (Undefined(), other) | (other, Undefined()):
            return other
        case (Conflict() as conflict, other) | (other, Conflict() as conflict):
            return _settle(conflict, other)
    raise AssertionError


def join_all(states: Sequence[State]) -> State:
    """Joins the states on many edges: first numbers of fixed formats and builtin numbers separately, then the two results.

    So the order of the edges does not matter: int8, a length and a float are a float32, whichever comes first.
    """
    first = states[0]
    if all(state is first or state == first for state in states):
        return first
    kinds: tuple[list[State], list[State]] = [], []
    for state in states:
        number = state.type if isinstance(state, Known) else None
        kinds[isinstance(number, model.Number) and number.builtin].append(state)
    joined = reduce(join, (reduce(join, kind) for kind in kinds if kind))
    # Error messages show a conflict in program order.
    told = reduce(join, states) if isinstance(joined, Conflict) else joined
    return told if isinstance(told, Conflict) else joined


def join_objects(states: Sequence[S]) -> list[S | Known]:
    """The same states, with one set of contents for each object: the join of its contents in all states."""
    contents: dict[Identity, Known] = {}
    for state in states:
        for known in objects(state) if isinstance(state, Known) else ():
            assert known.identity is not None
            before = contents.setdefault(known.identity, known)
            if before == known:
                continue
            joined = _join_known(before, known)
            loses = joined is None or _conflicts(joined) > max(_conflicts(before), _conflicts(known))
            contents[known.identity] = before if joined is None or loses else joined
    return [_with_contents(state, contents) for state in states] if contents else list(states)


def _with_contents(state: S, contents: Mapping[Identity, Known]) -> S | Known:
    if not isinstance(state, Known) or not objects(state):
        return state
    whole = contents[state.identity] if state.identity is not None else state
    if whole != state and _join_known(whole, state) != whole:
        whole = state  # it is of another type here
    items = tuple(_with_contents(item, contents) for item in whole.items)
    if not isinstance(whole.type, (model.Tuple, model.Bundle)):
        return whole
    return replace(whole, type=type(whole.type)(tuple(item.type for item in items)), items=items)


def _conflicts(known: Known) -> int:
    """The number of parts of a value that are in conflict."""
    return isinstance(state_of(known), Conflict) + sum(map(_conflicts, known.items))


def _settle(conflict: Conflict, other: State) -> State:
    """Joins a conflict and a third state, which may resolve it: int64 and uint64 conflict, but not if a float joins them."""
    if isinstance(other, Known):
        # Joining each of the two with the third first makes the result independent of their order.
        sides = [side if side == other else _join_known(side, other) for side in (conflict.first, conflict.second)]
        known = [side for side in sides if side is not None]
        whole = _join_known(*known) if len(known) == 2 else None
        if whole is not None:
            return whole
    return conflict


def _join_known(a: Known, b: Known) -> Known | None:
    if a is b:
        return a
    if a.identity != b.identity:
        return None
    joined = _join_same(a, b)
    return joined if joined is None or joined.identity == a.identity else replace(joined, identity=a.identity)


def _join_same(a: Known, b: Known) -> Known | None:
    """Joins two values with the same identity, or without one."""
    if isinstance(a.type, model.Number) and isinstance(b.type, model.Number):
        return _join_numbers(a, b, join_numbers(a.type, b.type))
    if isinstance(a.type, model.Tuple) and isinstance(b.type, model.Tuple) and len(a.items) == len(b.items):
        items = [_join_known(x, y) for x, y in zip(a.items, b.items, strict=True)]
        known = tuple(item for item in items if item is not None)
        return tuple_of(known) if len(known) == len(items) else None
    if isinstance(a.type, model.Bundle) or isinstance(b.type, model.Bundle):
        return _join_bundles(a, b)
    if isinstance(a.type, (model.Range, model.RangeIterator)) and type(a.type) is type(b.type):
        parts = [_join_known(x, y) for x, y in zip(a.items, b.items, strict=True)]
        number = join_numbers(a.type.item, b.type.item)
        if number is None or None in parts:
            return None
        joined_type = a.type if a.type == b.type else type(a.type)(number)
        return Known(joined_type, items=tuple(part for part in parts if part is not None))
    if a.type == b.type and (not isinstance(a.type, model.Static) or a.value is b.value):
        return a if a.high == b.high else replace(a, low=None, high=None)
    covering = _with_joined_arrays(a.type, b.type) if a.type != b.type else None
    if covering is not None:
        return of_type(covering)
    for reference, value in ((a.type, b), (b.type, a)):
        if (
            isinstance(reference, model.Ref)
            and isinstance(value.type, model.Struct)
            and reference.pointee == value.type
        ):
            return value  # the edge with the reference reads its value
    return None


def _with_joined_arrays(a: model.Type, b: model.Type) -> model.Type | None:
    """The type that covers two types, which may differ in the arrays that they consist of, or None."""
    if a == b:
        return a
    if isinstance(a, model.Array) and isinstance(b, model.Array):
        return _join_arrays(a, b)
    if not (isinstance(a, model.Struct) and isinstance(b, model.Struct) and has_arrays(a)):
        return None
    members = [_with_joined_arrays(x, y) for x, y in zip(parts(a), parts(b), strict=False)]
    types = [member for member in members if member is not None]
    if len(types) < len(b.fields):
        return None
    joined = rebuilt(a, types)
    return joined if joined == rebuilt(b, types) else None


def _join_arrays(a: model.Array, b: model.Array) -> model.Array | None:
    """The most precise array type that covers both layouts, alignments and access modes, or None."""
    if (a.dtype, a.ndim, a.space) != (b.dtype, b.ndim, b.space):
        return None
    align = shortfall(a.dtype, min(known_alignment(a), known_alignment(b)))
    layout = a.layout if a.layout is b.layout else model.Layout.STRIDED
    lengths = a.lengths if a.lengths == b.lengths else ()
    return model.Array(a.dtype, a.ndim, layout, a.readonly or b.readonly, a.space, align, a.small and b.small, lengths)


def _join_numbers(a: Known, b: Known, number: model.Number | None) -> Known | None:
    """The facts about two numbers that are converted to `number`."""
    if number is None or not (_fits(a, number) and _fits(b, number)):
        return None
    if a.value is not UNKNOWN and a.constant_identity() == b.constant_identity():
        return Known(number, a.value, where=a.where)
    first, second = known_as(a, number), known_as(b, number)
    if not number.is_integer:
        return Known(number, low=0 if first.low == second.low == 0 else None, where=a.where)
    (low, high), (other_low, other_high) = first.bounds, second.bounds
    return between(number, min(low, other_low), max(high, other_high), a.where)


def _join_bundles(a: Known, b: Known) -> Known | None:
    for adopted in filter(None, (getattr(known.value, "adopted", None) for known in (a, b))):
        a, b = adopted(a), adopted(b)  # sealed tuples
    if type(a.type) is not type(b.type) or a.value != b.value or len(a.items) != len(b.items):
        return None
    strict = a.value.strict if isinstance(a.value, Gaps) else len(a.items)
    items: list[Known] = []
    for position, (x, y) in enumerate(zip(a.items, b.items, strict=True)):
        joined = _join_known(x, y) if position < strict else part(join(state_of(x), state_of(y)))
        if joined is None:
            return None
        items.append(joined)
    if isinstance(a.value, Gaps):
        items = join_objects(items)
    return replace(a, type=model.Bundle(tuple(item.type for item in items)), items=tuple(items))


def _fits(known: Known, number: model.Number) -> bool:
    """Whether a constant integer fits the type that it joins."""
    if known.value is UNKNOWN or not number.is_integer or not isinstance(known.value, int):
        return True
    return number.low <= known.value <= number.high or number.builtin
