"""Rules of type inference for iteration: `iter(x)`, one step of a `for` loop, and the items of sequences.

A `for` over a tuple has an iterator for each position, so it is unrolled. A `for` over a range or an array is a loop at run time.
`enumerate`, `zip` and `reversed` consist of the iterators of their arguments:

    for i, v in enumerate(t)      bundle(ENUMERATE, 0, bundle(ListIterator(0), t))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import closures, hosted, references
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.intervals import has_room
from cuda_device.infer.joins import join, join_all
from cuda_device.infer.meanings import DictView, Generator, ListIterator, Thing, is_container
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.library import standard
from cuda_device.types import model
from cuda_device.types.known import (
    Conflict,
    Identity,
    Known,
    between,
    constant,
    identities,
    is_narrow,
    nameless,
    of_type,
    state_of,
    tuple_of,
)
from cuda_device.types.known import part as part_of

# One step of a `for`
#
# for v in zip(x, t)     the steps of an iterator of an array and of one of a tuple, which unrolls the loop


@dataclass(frozen=True, slots=True)
class Iteration:
    """One step of an iterator: whether there is an item, the item, the iterator after it, and the iterator if there is none."""

    more: Cell
    item: Cell
    after: Cell
    left: Cell


def next_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """One step of a `for`: is there an item, the item, and the iterator after it."""
    exits: dict[Identity, Cell] = {}
    step = _step(frame, op, cells[0], exits)
    if op.results:
        frame.exits[op.results[0]] = exits
    return [step.more, step.item, step.after]


def _step(frame: Frame, op: Op, cell: Cell, exits: dict[Identity, Cell]) -> Iteration:
    """A step; `exits` gets the contents of objects on the path without an item."""
    cell = frame.now(cell)
    step = _rule(cell.known)(frame, op, cell, exits)
    identity = cell.known.identity
    if identity is None:
        return step
    exits[identity] = frame.as_object(step.left, identity)
    return replace(step, after=frame.change(identity, step.after))


def _rule(known: Known) -> IterationRule:
    if isinstance(known.type, model.RangeIterator):
        return _next_of_range
    if isinstance(known.value, Generator):
        return _next_of_generator
    if isinstance(known.value, ListIterator):
        return _next_of_list
    assert isinstance(known.value, Thing), known
    return STEPS[known.value]


def _next_of_range(frame: Frame, op: Op, cell: Cell, _: dict[Identity, Cell]) -> Iteration:
    type = cell.known.type
    assert cell.value is not None and isinstance(type, model.RangeIterator)
    start, stop, step = cell.known.items
    item = _item_of_range(type.item, start, stop, step)
    after = Known(type, items=(_rest_of_range(type.item, start, stop, step), stop, step))
    results = [Value(model.BOOL), Value(type.item, nonneg=item.nonneg), Value(type)]
    attributes: dict[str, object] = {"step": step.value} if step.constant else {"up": step.nonneg}
    if has_room(type.counts_in, stop, step):
        attributes["roomy"] = True
    frame.build.append(Op(ops.PY_NEXT, [cell.value], results, attributes, [], op.location))
    return Iteration(Cell(of_type(model.BOOL), results[0]), Cell(item, results[1]), Cell(after, results[2]), cell)


def _item_of_range(item: model.Number, start: Known, stop: Known, step: Known) -> Known:
    """The bounds of the items of a range. A non-negative step counts up, because a step of zero is an error."""
    (start_low, start_high), (stop_low, stop_high) = start.bounds, stop.bounds
    up, down = between(item, start_low, stop_high - 1), between(item, stop_low + 1, start_high)
    if step.nonneg:
        return up
    return down if step.bounds[1] < 0 else between(item, min(start_low, stop_low + 1), max(start_high, stop_high - 1))


def _rest_of_range(item: model.Number, start: Known, stop: Known, step: Known) -> Known:
    """The bounds of the next start of a range, which may lie beyond its last item."""
    (start_low, start_high), (stop_low, stop_high) = start.bounds, stop.bounds
    low = start_low if step.nonneg else min(start_low, stop_low)
    return between(item, low, start_high if step.bounds[1] < 0 else max(start_high, stop_high))


def _end(cell: Cell) -> Iteration:
    """The step of an iterator that has no more items."""
    return Iteration(Cell(constant(False)), Cell(constant(None)), cell, cell)


def _next_of_list(frame: Frame, _: Op, cell: Cell, __: dict[Identity, Cell]) -> Iteration:
    assert isinstance(cell.known.value, ListIterator)
    owner, place = frame.field(cell, 0), cell.known.value.position
    items = frame.as_iterable(owner)
    if place >= len(items.known.items):
        return _end(cell)
    return Iteration(
        Cell(constant(True)), frame.field(items, place), frame.bundle(ListIterator(place + 1), [owner]), cell
    )


def _next_of_indexed(frame: Frame, op: Op, cell: Cell, exits: dict[Identity, Cell]) -> Iteration:
    """A step through a tuple or list by a run-time index, which reads the current items of a list."""
    owner, index = frame.fields(cell)
    items = frame.fields(frame.as_iterable(owner))
    joined = common_number([item.known for item in items])
    if joined is None:
        raise CompileError(
            "the position in a list is known only at run time, and the items are not numbers of one type",
            help="loop over it in a function that is not a generator, or make it a list of numbers",
        )
    values = frame.tuple([Cell(joined, frame.materialise(item, joined.type)) for item in items])
    now = frame.bundle(Thing.ARRAY_ITERATOR, [values, index, Cell(constant(len(items)))])
    step = _next_of_array(frame, op, now, exits)
    return replace(step, after=frame.bundle(Thing.INDEXED_ITERATOR, [owner, frame.field(step.after, 1)]), left=cell)


def common_number(items: Sequence[Known]) -> Known | None:
    """The joined facts about the items of a tuple or list if they are numbers of one type, or None."""
    joined = join_all([item.forget() for item in items]) if items else None
    return (
        joined if isinstance(joined, Known) and isinstance(joined.type, model.Number) and not joined.constant else None
    )


def _next_of_generator(frame: Frame, _: Op, cell: Cell, exits: dict[Identity, Cell]) -> Iteration:
    more, item, after = closures.step(frame, cell, exits)
    done = closures.done(frame, cell)
    return _end(done) if more.known.constant and not more.known.value else Iteration(more, item, after, done)


def _next_of_enumerate(frame: Frame, op: Op, cell: Cell, exits: dict[Identity, Cell]) -> Iteration:
    number, iterator = frame.fields(cell)
    step = _step(frame, op, iterator, exits)
    following = frame.operate("+", number, Cell(constant(1)))
    if not _stands(step.after.known):
        # The number of a loop that is not unrolled is no constant.
        assert isinstance(following.known.type, model.Number)
        following = Cell(
            of_type(following.known.type, following.known.nonneg), frame.materialise(following, following.known.type)
        )
    after = frame.bundle(Thing.ENUMERATE, [following, step.after])
    return Iteration(step.more, frame.tuple([number, step.item]), after, cell)


def _next_of_zip(frame: Frame, op: Op, cell: Cell, exits: dict[Identity, Cell]) -> Iteration:
    """A part is asked for its next item if all before it had one."""
    parts = frame.fields(cell)
    more = Cell(constant(bool(parts)))
    items: list[Cell] = []
    for position, part in enumerate(parts):
        asked, here = more, dict[Identity, Cell]()
        before = frame.now(part)
        identity = before.known.identity
        if asked.known.constant or identity is None or _is_unrolled(before.known):
            step = _step(frame, op, before, here)
            if step.more.known.constant and not step.more.known.value:
                _add_exits(frame, asked, exits, here)
                return _end(frame.now(cell))
            if identity is not None and not asked.known.constant:
                # Whether it was asked is not known at compile time, and how far it is must be.
                here[identity] = Cell(part_of(Conflict(before.known, step.after.known)))
            both = [each for each in (asked, step.more) if not each.known.constant]
            more = frame.operate("&", *both) if len(both) == 2 else (both or [asked])[0]
            items.append(step.item)
            parts[position] = step.after
        else:
            one = frame.run(standard.next_if, before, asked)
            more, item, _ = closures.step(frame, one, here)
            items.append(item)
        _add_exits(frame, asked, exits, here)
    after = frame.bundle(Thing.ZIP, [frame.now(part) for part in parts])
    return Iteration(more, frame.tuple(items), after, cell)


def _add_exits(frame: Frame, asked: Cell, exits: dict[Identity, Cell], here: Mapping[Identity, Cell]) -> None:
    """Adds the objects on the path where a part of a zip has no item (`here`), or was not `asked` after an earlier part ended."""
    for identity, left in exits.items():
        exits[identity] = _one_of(frame, asked, here.get(identity, frame.heap[identity]), left)
    for identity, left in here.items():
        exits.setdefault(identity, left)


def _one_of(frame: Frame, first: Cell, cell: Cell, other: Cell) -> Cell:
    """An object that has different contents on two paths: selects them by `first`."""
    if first.known.constant:
        return cell if first.known.value else other
    joined = join(state_of(cell.known), state_of(other.known))
    if not isinstance(joined, Known):
        return Cell(part_of(joined))
    parts = [frame.bundle(None, [Cell(nameless(each.known), each.value)]) for each in (cell, other)]
    found = frame.field(frame.run(standard.one_of, first, *parts), 0)
    return Cell(_named_as(found.known, joined), found.value)


def _named_as(known: Known, other: Known) -> Known:
    """The same facts, with the identities of `other`."""
    items = tuple(_named_as(*each) for each in zip(known.items, other.items, strict=True))
    return replace(known, identity=other.identity, items=items)


def _is_unrolled(known: Known) -> bool:
    """Whether the position of an iterator must be known at compile time."""
    return _stands(known) or any(map(_is_unrolled, known.items))


def _stands(known: Known) -> bool:
    """Whether it is an iterator over a tuple or list whose position is known at compile time."""
    if isinstance(known.value, Generator):
        return known.value.unrolled
    return isinstance(known.value, ListIterator)


def _next_of_array(frame: Frame, _: Op, cell: Cell, __: dict[Identity, Cell]) -> Iteration:
    array, index, length = frame.fields(cell)
    number = index.known.type
    assert index.value is not None and isinstance(number, model.Number)
    more = frame.emit(ops.PY_COMPARE, of_type(model.BOOL), index.value, frame.materialise(length, number), op="<")
    if (
        isinstance(array.known.type, model.Array)
        and array.known.type.ndim == 1
        and references.are_referred_to(frame, array.known.type.dtype)
    ):
        item = references.element(frame, array, [frame.materialise(index, model.INDEX)], behind=True)
    else:
        item = frame.call(frame.literal(standard.element_if), [array, index, more], {})
    after = frame.emit(ops.PY_BINARY, of_type(number, nonneg=True), index.value, frame.build.const(number, 1), op="+")
    return Iteration(more, item, frame.bundle(Thing.ARRAY_ITERATOR, [array, after, length]), cell)


IterationRule = Callable[[Frame, Op, Cell, dict[Identity, Cell]], Iteration]

STEPS: dict[object, IterationRule] = {
    Thing.ENUMERATE: _next_of_enumerate,
    Thing.ZIP: _next_of_zip,
    Thing.ARRAY_ITERATOR: _next_of_array,
    Thing.INDEXED_ITERATOR: _next_of_indexed,
}


# `iter(x)`, and all items of an iterable of known length

# Longer loops are not unrolled: the code would be too large.
_MOST_UNROLLED = 1024


def iterate(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`iter(x)`."""
    iterator = iterator_over(frame, cells[0])
    if op.attributes.get("unroll"):
        return [_unrolled(frame, iterator)]
    return [_another_form(frame, iterator, _as_indexed) if op.attributes.get("indexed") else iterator]


def iterator_over(frame: Frame, cell: Cell) -> Cell:
    """An iterator over a range, tuple, vector, array, or a combination of these; an iterator is its own iterator."""
    if any(identities(cell.known)) and (is_container(cell.known) or isinstance(cell.known.value, DictView)):
        return frame.bundle(ListIterator(0), [cell])  # it sees what becomes of the list
    cell = hosted.as_array(frame, frame.as_iterable(cell))
    known = cell.known
    match known.type:
        case model.Range(item):
            assert cell.value is not None
            type = model.RangeIterator(item, _counter(item, *known.items))
            return frame.emit(ops.PY_ITER, Known(type, items=known.items), cell.value)
        case model.Tuple():
            return frame.bundle(ListIterator(0), [cell])
        case model.Struct() as struct if (method := frame.method_of(struct, "__iter__")) is not None:
            return iterator_over(frame, frame.run(method, cell))
        case model.Vector() | model.Subarray():
            return frame.bundle(ListIterator(0), [frame.tuple(frame.items_of(cell, "iter"))])
        case model.Array(_, ndim, small=small) if ndim > 0:
            length = frame.field(frame.member(cell, "shape"), 0)
            first = _index(frame, model.INT if small else model.INDEX)
            return frame.bundle(Thing.ARRAY_ITERATOR, [cell, first, length])
        case _ if _is_stepped(known):
            return cell
    raise CompileError(f"cannot iterate over {known}", help="loop over range(…), a tuple or an array")


def _counter(item: model.Number, start: Known, stop: Known, step: Known) -> model.Number | None:
    """The type that a range counts in, where another than its items' does as well.

    Indices that 32 bits hold are counted in 32 bits. A range that goes up from zero or above is counted in unsigned numbers:
    they have room for one step beyond any stop.
    """
    if not item.signed or item.bits < 32:
        return None
    short = item.bits == 32 or all(map(is_narrow, (start, stop, step)))
    if step.value in (1, -1):
        return model.INT32 if short and item == model.INDEX else None
    if not (start.nonneg and step.nonneg) or (item == model.INDEX and not short):
        return None
    return model.UINT32 if short else model.UINT64


def _index(frame: Frame, number: model.Number, value: int = 0) -> Cell:
    """A run-time index, which a loop can change."""
    return Cell(of_type(number, nonneg=True), frame.build.const(number, value))


def reversed_iterator(frame: Frame, cell: Cell) -> Cell:
    """`reversed(x)`."""
    cell = hosted.as_array(frame, frame.as_iterable(cell))
    match cell.known.type:
        case model.Tuple() | model.Vector():
            return frame.bundle(ListIterator(0), [frame.tuple(frame.items_of(cell, "reversed")[::-1])])
        case model.Range():
            parts = [frame.field(cell, i) for i in range(3)]
            return iterator_over(frame, frame.run(standard.reversed_range, *parts))
        case model.Array(_, ndim) if ndim > 0:
            return iterator_over(frame, frame.run(standard.backwards, cell))
    raise CompileError(f"reversed cannot take {cell.known}", help="give it a range, a tuple or an array")


# Loops whose iterations are all known


def _unrolled(frame: Frame, iterator: Cell) -> Cell:
    """The iterator in the form that unrolls its loop."""
    return _another_form(frame, iterator, _as_unrolled)


def _another_form(frame: Frame, iterator: Cell, change: Callable[[Frame, Cell], Cell]) -> Cell:
    """The same iterator object, with the iterators that it contains in another form."""
    known = iterator.known
    if known.value is Thing.ENUMERATE:
        first, rest = frame.fields(iterator)
        other = frame.bundle(Thing.ENUMERATE, [first, _another_form(frame, rest, change)])
    elif known.value is Thing.ZIP:
        other = frame.bundle(Thing.ZIP, [_another_form(frame, part, change) for part in frame.fields(iterator)])
    else:
        other = change(frame, iterator)
    return other if known.identity is None or other.known == known else frame.change(known.identity, other)


def _as_unrolled(frame: Frame, iterator: Cell) -> Cell:
    known = iterator.known
    if isinstance(known.value, ListIterator):
        return iterator
    if isinstance(known.type, model.RangeIterator):
        return frame.bundle(ListIterator(0), [Cell(constants_of(known, known.type.item))])
    if isinstance(known.value, Generator):
        function, position, *kept = frame.fields(iterator)
        kept = [_unrolled(frame, part) if _is_stepped(part.known) else part for part in kept]
        return frame.bundle(replace(known.value, unrolled=True), [function, position, *kept])
    raise _length_error()


def _as_indexed(frame: Frame, iterator: Cell) -> Cell:
    position = iterator.known.value
    if not isinstance(position, ListIterator):
        return iterator
    owner = frame.field(iterator, 0)
    if common_number(frame.as_iterable(owner).known.items) is None:
        return iterator
    return frame.bundle(Thing.INDEXED_ITERATOR, [owner, _index(frame, model.INT, position.position)])


def _is_stepped(known: Known) -> bool:
    is_one = isinstance(known.value, Generator | ListIterator) or known.value in tuple(STEPS)
    return isinstance(known.type, model.RangeIterator) or (isinstance(known.type, model.Bundle) and is_one)


def items_of(frame: Frame, cell: Cell) -> list[Cell]:
    """All items of an iterable whose length is known at compile time."""
    iterator = _unrolled(frame, iterator_over(frame, cell))
    items: list[Cell] = []
    while True:
        more, item, iterator = next_(frame, Op(ops.PY_NEXT, location=frame.location), [iterator])
        if not more.known.constant:
            raise _length_error()
        if not more.known.value:
            return items
        items.append(item)


def constants_of(known: Known, item: model.Number) -> Known:
    """The numbers of a range whose bounds are constants, as a tuple."""
    bounds = [part.value for part in known.items if isinstance(part.value, int)]
    if len(bounds) < 3:
        raise _length_error()
    numbers = range(*bounds)
    if len(numbers) > _MOST_UNROLLED:
        raise CompileError(
            f"a list or tuple of {len(numbers)} elements is too long for device code",
            help=f"use an array; the limit is {_MOST_UNROLLED}",
        )
    return tuple_of(tuple(Known(item, number) for number in numbers))


def _length_error() -> CompileError:
    return CompileError(
        "the length of a list or tuple must be known at compile time",
        help="loop over a tuple, or a range with constant bounds; or write to a local_array and count",
    )


# Ranges that no loop has begun

_PARTS = ("start", "stop", "step")
RANGE = Kind(
    rank=Rank.OTHER,
    getattr=lambda frame, _, cell, name: frame.field(cell, _PARTS.index(name)) if name in _PARTS else None,
    names=lambda _: _PARTS,
    truth=lambda frame, cell: frame.truth(
        frame.run(standard.length_of_range, *(frame.field(cell, i) for i in range(3)))
    ),
)
