"""Rules of type inference for one step of a `for`: is there an item, the item, and the iterator after it.

for v in zip(x, t)     the steps of an iterator of an array and of one of a tuple, which unrolls the loop
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import generators
from cuda_device.infer.frame import Cell, Frame, is_static
from cuda_device.infer.joins import join, join_all
from cuda_device.infer.kinds import references
from cuda_device.infer.meanings import Generator, ListIterator, Thing
from cuda_device.infer.ranges import has_room
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.library import standard
from cuda_device.types.known import (
    Conflict,
    Identity,
    Known,
    between,
    constant,
    nameless,
    of_type,
    state_of,
)
from cuda_device.types.known import part as part_of
from cuda_device.types.layout import has_identity
from cuda_device.types.model import (
    BOOL,
    INDEX,
    Array,
    Number,
    RangeIterator,
    TupleIterator,
)


@dataclass(frozen=True, slots=True)
class Iteration:
    """One step of an iterator: is there an item, the item, the iterator after it, and what is left if there is none."""

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
    """A step; `exits` get what objects are where there is no item."""
    cell = frame.now(cell)
    step = _rule(cell.known)(frame, op, cell, exits)
    identity = cell.known.identity
    if identity is None:
        return step
    exits[identity] = frame.as_object(step.left, identity)
    return replace(step, after=frame.change(identity, step.after))


def _rule(known: Known) -> IterationRule:
    if isinstance(known.type, TupleIterator):
        return _next_of_tuple
    if isinstance(known.type, RangeIterator):
        return _next_of_range
    if isinstance(known.value, Generator):
        return _next_of_generator
    if isinstance(known.value, ListIterator):
        return _next_of_list
    assert isinstance(known.value, Thing), known
    return STEPS[known.value]


def _next_of_range(frame: Frame, op: Op, cell: Cell, _: dict[Identity, Cell]) -> Iteration:
    type = cell.known.type
    assert cell.value is not None and isinstance(type, RangeIterator)
    start, stop, step = cell.known.items
    item = _item_of_range(type.item, start, stop, step)
    after = Known(type, items=(_rest_of_range(type.item, start, stop, step), stop, step))
    results = [Value(BOOL), Value(type.item, nonneg=item.nonneg), Value(type)]
    attributes: dict[str, object] = {"step": step.value} if step.constant else {"up": step.nonneg}
    if has_room(type.counts_in, stop, step):
        attributes["roomy"] = True
    frame.build.append(Op(ops.PY_NEXT, [cell.value], results, attributes, [], op.location))
    return Iteration(Cell(of_type(BOOL), results[0]), Cell(item, results[1]), Cell(after, results[2]), cell)


def _item_of_range(item: Number, start: Known, stop: Known, step: Known) -> Known:
    """What is known of the items of a range. A step that is never negative goes up: one of zero is an error."""
    (start_low, start_high), (stop_low, stop_high) = start.bounds, stop.bounds
    up, down = between(item, start_low, stop_high - 1), between(item, stop_low + 1, start_high)
    if step.nonneg:
        return up
    return down if step.bounds[1] < 0 else between(item, min(start_low, stop_low + 1), max(start_high, stop_high - 1))


def _rest_of_range(item: Number, start: Known, stop: Known, step: Known) -> Known:
    """What is known of where a range goes on, which may be behind its last item."""
    (start_low, start_high), (stop_low, stop_high) = start.bounds, stop.bounds
    low = start_low if step.nonneg else min(start_low, stop_low)
    return between(item, low, start_high if step.bounds[1] < 0 else max(start_high, stop_high))


def _end(cell: Cell) -> Iteration:
    """The step of an iterator that has no more items."""
    return Iteration(Cell(constant(False)), Cell(constant(None)), cell, cell)


def _next_of_tuple(frame: Frame, _: Op, cell: Cell, __: dict[Identity, Cell]) -> Iteration:
    type = cell.known.type
    assert isinstance(type, TupleIterator)
    if type.position == len(type.items.elements):
        return _end(cell)
    after = Known(TupleIterator(type.items, type.position + 1), items=cell.known.items)
    if is_static(after):
        return Iteration(Cell(constant(True)), frame.field(cell, type.position), Cell(after), cell)
    parts = frame.fields(cell)
    value = frame.build.op(ops.MAKE, after.type, *(frame.carry(part, part.known) for part in parts))
    return Iteration(Cell(constant(True)), parts[type.position], Cell(after, value), cell)


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
    """A step through a tuple or list by an index of run time. It sees what the items of the list are now."""
    owner, index = frame.fields(cell)
    items = frame.fields(frame.as_iterable(owner))
    joined = common_number([item.known for item in items])
    if joined is None:
        raise CompileError(
            "how far a list has been gone through is known at run time alone, and its items are no numbers of one type",
            help="loop over it in a function that is no generator, or make it a list of numbers",
        )
    values = frame.tuple([Cell(joined, frame.materialise(item, joined.type)) for item in items])
    now = frame.bundle(Thing.ARRAY_ITERATOR, [values, index, Cell(constant(len(items)))])
    step = _next_of_array(frame, op, now, exits)
    return replace(step, after=frame.bundle(Thing.INDEXED_ITERATOR, [owner, frame.field(step.after, 1)]), left=cell)


def common_number(items: Sequence[Known]) -> Known | None:
    """What holds of all items of a tuple or list if they are numbers of one type, to be told apart at run time; or None."""
    joined = join_all([item.forget() for item in items]) if items else None
    return joined if isinstance(joined, Known) and isinstance(joined.type, Number) and not joined.constant else None


def _next_of_generator(frame: Frame, _: Op, cell: Cell, exits: dict[Identity, Cell]) -> Iteration:
    more, item, after = generators.step(frame, cell, exits)
    done = generators.done(frame, cell)
    return _end(done) if more.known.constant and not more.known.value else Iteration(more, item, after, done)


def _next_of_enumerate(frame: Frame, op: Op, cell: Cell, exits: dict[Identity, Cell]) -> Iteration:
    number, iterator = frame.fields(cell)
    step = _step(frame, op, iterator, exits)
    following = _arithmetic(frame, "+", number, Cell(constant(1)))
    if not _stands(step.after.known):
        # The number of a loop that is not unrolled is no constant.
        assert isinstance(following.known.type, Number)
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
                # Whether it was asked is not known while compiling, and how far it is must be.
                here[identity] = Cell(part_of(Conflict(before.known, step.after.known)))
            both = [each for each in (asked, step.more) if not each.known.constant]
            more = _arithmetic(frame, "&", *both) if len(both) == 2 else (both or [asked])[0]
            items.append(step.item)
            parts[position] = step.after
        else:
            one = frame.program.call(frame, standard.next_if, [before, asked], {})
            more, item, _ = generators.step(frame, one, here)
            items.append(item)
        _add_exits(frame, asked, exits, here)
    after = frame.bundle(Thing.ZIP, [frame.now(part) for part in parts])
    return Iteration(more, frame.tuple(items), after, cell)


def _add_exits(frame: Frame, asked: Cell, exits: dict[Identity, Cell], here: Mapping[Identity, Cell]) -> None:
    """What objects are where a part of a zip has no item (`here`), or where one before had none, so that it was not `asked`."""
    for identity, left in exits.items():
        exits[identity] = _one_of(frame, asked, here.get(identity, frame.latest[identity]), left)
    for identity, left in here.items():
        exits.setdefault(identity, left)


def _one_of(frame: Frame, first: Cell, cell: Cell, other: Cell) -> Cell:
    """What an object is that has become two things."""
    if first.known.constant:
        return cell if first.known.value else other
    joined = join(state_of(cell.known), state_of(other.known))
    if not isinstance(joined, Known):
        return Cell(part_of(joined))
    parts = [frame.bundle(None, [Cell(nameless(each.known), each.value)]) for each in (cell, other)]
    found = frame.field(frame.program.call(frame, standard.one_of, [first, *parts], {}), 0)
    return Cell(_named_as(found.known, joined), found.value)


def _named_as(known: Known, other: Known) -> Known:
    """The same, in which the objects are those of another of that type."""
    items = tuple(_named_as(*each) for each in zip(known.items, other.items, strict=True))
    return replace(known, identity=other.identity, items=items)


def _is_unrolled(known: Known) -> bool:
    """Whether how far an iterator is must be known while compiling."""
    return _stands(known) or any(map(_is_unrolled, known.items))


def _stands(known: Known) -> bool:
    """Whether it is an iterator of a tuple or list, which is known to stand at one of the items."""
    if isinstance(known.value, Generator):
        return known.value.unrolled
    return isinstance(known.type, TupleIterator) or isinstance(known.value, ListIterator)


def _next_of_map(frame: Frame, op: Op, cell: Cell, exits: dict[Identity, Cell]) -> Iteration:
    function, iterator = frame.fields(cell)
    step = _step(frame, op, iterator, exits)
    closed = frame.close(function)
    item = step.item
    if not step.more.known.constant:
        item = frame.call(frame.literal(standard.call_if), [closed, step.item, step.more], {})
    elif step.more.known.value:
        item = frame.call(closed, frame.fields(step.item), {})
    return Iteration(step.more, item, frame.bundle(Thing.MAP, [function, step.after]), cell)


def _next_of_array(frame: Frame, _: Op, cell: Cell, __: dict[Identity, Cell]) -> Iteration:
    array, index, length = frame.fields(cell)
    number = index.known.type
    assert index.value is not None and isinstance(number, Number)
    more = frame.emit(ops.PY_COMPARE, of_type(BOOL), index.value, frame.materialise(length, number), op="<")
    if isinstance(array.known.type, Array) and array.known.type.ndim == 1 and has_identity(array.known.type.dtype):
        item = references.element(frame, array, [frame.materialise(index, INDEX)], behind=True)
    else:
        item = frame.call(frame.literal(standard.element_if), [array, index, more], {})
    after = frame.emit(ops.PY_BINARY, of_type(number, nonneg=True), index.value, frame.build.const(number, 1), op="+")
    return Iteration(more, item, frame.bundle(Thing.ARRAY_ITERATOR, [array, after, length]), cell)


IterationRule = Callable[[Frame, Op, Cell, dict[Identity, Cell]], Iteration]

STEPS: dict[object, IterationRule] = {
    Thing.ENUMERATE: _next_of_enumerate,
    Thing.ZIP: _next_of_zip,
    Thing.MAP: _next_of_map,
    Thing.ARRAY_ITERATOR: _next_of_array,
    Thing.INDEXED_ITERATOR: _next_of_indexed,
}


def _arithmetic(frame: Frame, sign: str, *cells: Cell) -> Cell:
    (result,) = frame.binary(Op(ops.PY_BINARY, attributes={"op": sign}, location=frame.location), cells)
    return result
