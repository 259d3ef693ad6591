"""Rules of type inference for iteration: `iter(x)`, and one step of a `for`.

A `for` over a tuple has an iterator for each position, so its loop is unrolled; over a range or an array it is a loop.
`enumerate`, `zip` and `reversed` are made of the iterators of what they run over:

    for i, v in enumerate(t)      bundle(ENUMERATE, 0, tuple_iterator<…, 0>)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuda_device.device import standard
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.model import Op, Value
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.passes import closures, composites, generators, hosted, references, sequences, subarrays
from cuda_device.passes.calls import call
from cuda_device.passes.frame import Cell, Frame, is_static
from cuda_device.passes.meanings import Generator, Thing
from cuda_device.passes.operators import binary
from cuda_device.passes.sequences import as_iterable
from cuda_device.types.joins import join_all
from cuda_device.types.known import (
    Conflict,
    Identity,
    Known,
    between,
    constant,
    is_narrow,
    iterator_of,
    of_type,
    state_of,
    tuple_of,
)
from cuda_device.types.known import part as part_of
from cuda_device.types.layout import has_identity
from cuda_device.types.model import (
    BOOL,
    INDEX,
    INT,
    INT32,
    UINT32,
    UINT64,
    Array,
    Bundle,
    Number,
    Range,
    RangeIterator,
    Struct,
    Subarray,
    Tuple,
    TupleIterator,
    Vector,
)
from cuda_device.types.ranges import has_room

# Longer loops are not unrolled: the code would be too large.
_MOST_UNROLLED = 1024


def iterate(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`iter(x)`."""
    iterator = iterator_over(frame, cells[0])
    if op.attributes.get("unroll"):
        return [_unrolled(frame, iterator)]
    return [_indexed(frame, iterator) if op.attributes.get("indexed") else iterator]


def iterator_over(frame: Frame, cell: Cell) -> Cell:
    """The iterator of a range, tuple, vector, array, or what is made of them; an iterator is its own."""
    cell = hosted.as_array(frame, as_iterable(frame, cell))
    known = cell.known
    match known.type:
        case Range(item):
            assert cell.value is not None
            type = RangeIterator(item, _counter(item, *known.items))
            return frame.emit(ops.PY_ITER, Known(type, items=known.items), cell.value)
        case Tuple():
            return _iterator_over_tuple(frame, cell)
        case Struct() as struct if (method := composites.method_of(frame, struct, "__iter__")) is not None:
            return iterator_over(frame, frame.program.call(frame, method, [cell], {}))
        case Vector(_, size):
            return _iterator_over_tuple(frame, frame.tuple([frame.field(cell, i) for i in range(size)]))
        case Subarray() as type:
            return _iterator_over_tuple(frame, frame.tuple(subarrays.items(frame, cell, type)))
        case Array(_, ndim) if ndim > 0:
            return _counting(frame, Thing.ARRAY_ITERATOR, cell)
        case RangeIterator() | TupleIterator():
            return cell
        case Bundle() if _is_stepped(known):
            return cell
    raise CompileError(f"a for loop cannot run over {known}", help="loop over range(…), a tuple or an array")


def _counter(item: Number, start: Known, stop: Known, step: Known) -> Number | None:
    """The type that a range counts in, where another than its items' does as well.

    Indices that 32 bits hold are counted in 32 bits. A range that goes up from zero or above is counted in unsigned numbers:
    they have room for one step beyond any stop.
    """
    if not item.signed or item.bits < 32:
        return None
    short = item.bits == 32 or all(map(is_narrow, (start, stop, step)))
    if step.value in (1, -1):
        return INT32 if short and item == INDEX else None
    if not (start.nonneg and step.nonneg) or (item == INDEX and not short):
        return None
    return UINT32 if short else UINT64


def _attribute(frame: Frame, cell: Cell, name: str) -> Cell:
    from cuda_device.passes.access import getattr_

    (result,) = getattr_(frame, Op(ops.PY_GETATTR, attributes={"name": name}), [cell])
    return result


def _iterator_over_tuple(frame: Frame, cell: Cell) -> Cell:
    known = iterator_of(cell.known)
    if is_static(known):
        return Cell(known)
    parts = [frame.carry(frame.field(cell, i), item) for i, item in enumerate(cell.known.items)]
    return frame.emit(ops.MAKE, known, *parts)


def _counting(frame: Frame, kind: Thing, items: Cell) -> Cell:
    """An iterator that counts: of an array, forwards or backwards, or of a tuple whose items have one type."""
    length = frame.field(_attribute(frame, items, "shape"), 0) if isinstance(items.known.type, Array) else None
    is_small = not isinstance(items.known.type, Array) or items.known.type.small
    number = INT if is_small else INDEX
    start = Cell(of_type(number, nonneg=True), frame.build.const(number, 0))  # which is no constant in a loop
    return frame.bundle(kind, [items, start, length or Cell(constant(len(items.known.items)))])


def reversed_iterator(frame: Frame, cell: Cell) -> Cell:
    """`reversed(x)`."""
    cell = hosted.as_array(frame, as_iterable(frame, cell))
    match cell.known.type:
        case Tuple() | Vector():
            return _iterator_over_tuple(frame, frame.tuple(sequences.items_of(frame, cell, "reversed")[::-1]))
        case Range():
            parts = [frame.field(cell, i) for i in range(3)]
            return iterator_over(frame, frame.program.call(frame, standard.reversed_range, parts, {}))
        case Array(_, ndim) if ndim > 0:
            return _counting(frame, Thing.REVERSED_ITERATOR, cell)
    raise CompileError(f"reversed cannot take {cell.known}", help="give it a range, a tuple or an array")


# Loops whose iterations are all known


def _unrolled(frame: Frame, iterator: Cell) -> Cell:
    """The same iterator, as one that unrolls its loop."""
    return _same(frame, iterator, _as_unrolled(frame, iterator))


def _same(frame: Frame, iterator: Cell, other: Cell) -> Cell:
    """Another form of an iterator, which is the same object."""
    identity = iterator.known.identity
    return other if identity is None or other.known == iterator.known else frame.change(identity, other)


def _as_unrolled(frame: Frame, iterator: Cell) -> Cell:
    known = iterator.known
    match known.type:
        case TupleIterator():
            return iterator
        case RangeIterator(item):
            return Cell(iterator_of(constants_of(known, item)))
        case Bundle() if known.value in (Thing.ENUMERATE, Thing.MAP):
            first, rest = frame.fields(iterator)
            return frame.bundle(known.value, [first, _unrolled(frame, rest)])
        case Bundle() if known.value is Thing.ZIP:
            return frame.bundle(Thing.ZIP, [_unrolled(frame, part) for part in frame.fields(iterator)])
        case Bundle() if isinstance(known.value, Generator):
            function, position, *kept = frame.fields(iterator)
            kept = [_unrolled(frame, part) if _is_iterator(part.known) else part for part in kept]
            return frame.bundle(replace(known.value, unrolled=True), [function, position, *kept])
    raise _length_error()


def _is_iterator(known: Known) -> bool:
    return isinstance(known.type, (TupleIterator, RangeIterator)) or _is_stepped(known)


def _is_stepped(known: Known) -> bool:
    return isinstance(known.type, Bundle) and (isinstance(known.value, Generator) or known.value in tuple(_STEPS))


def _indexed(frame: Frame, iterator: Cell) -> Cell:
    """The same iterator, as one whose loop is one at run time; where a tuple's items have several types, it stays as it is."""
    return _same(frame, iterator, _as_indexed(frame, iterator))


def _as_indexed(frame: Frame, iterator: Cell) -> Cell:
    known = iterator.known
    match known.type:
        case TupleIterator() as type:
            items = frame.fields(iterator)[type.position :]
            joined = join_all([item.known.forget() for item in items])
            if isinstance(joined, Known) and isinstance(joined.type, Number) and not joined.constant:
                values = (Cell(joined, frame.materialise(item, joined.type)) for item in items)
                return _counting(frame, Thing.TUPLE_ITERATOR, frame.tuple([*values]))
        case Bundle() if known.value in (Thing.ENUMERATE, Thing.MAP):
            first, rest = frame.fields(iterator)
            return frame.bundle(known.value, [first, _indexed(frame, rest)])
        case Bundle() if known.value is Thing.ZIP:
            return frame.bundle(Thing.ZIP, [_indexed(frame, part) for part in frame.fields(iterator)])
    return iterator


def items_of(frame: Frame, cell: Cell) -> list[Cell]:
    """All that a loop would run over; its length has to be known."""
    iterator = _unrolled(frame, iterator_over(frame, cell))
    items: list[Cell] = []
    while True:
        more, item, iterator = next_(frame, Op(ops.PY_NEXT, location=frame.location), [iterator])
        if not more.known.constant:
            raise _length_error()
        if not more.known.value:
            return items
        items.append(item)


def constants_of(known: Known, item: Number) -> Known:
    """The numbers of a range whose bounds are constants, as a tuple."""
    bounds = [part.value for part in known.items if isinstance(part.value, int)]
    if len(bounds) < 3:
        raise _length_error()
    numbers = range(*bounds)
    if len(numbers) > _MOST_UNROLLED:
        raise CompileError(
            f"a list or tuple of {len(numbers)} elements is too long for device code",
            help=f"use an array; {_MOST_UNROLLED} are the most",
        )
    return tuple_of(tuple(Known(item, number) for number in numbers))


def _length_error() -> CompileError:
    return CompileError(
        "the length of a list or tuple must be known while compiling",
        help="loop over a tuple, or a range with constant bounds; or write into an array",
    )


# Steps


@dataclass(frozen=True, slots=True)
class Step:
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


def _step(frame: Frame, op: Op, cell: Cell, exits: dict[Identity, Cell]) -> Step:
    """A step; `exits` get what objects are where there is no item."""
    cell = frame.now(cell)
    step = _rule(cell.known)(frame, op, cell, exits)
    identity = cell.known.identity
    if identity is None:
        return step
    exits[identity] = frame.as_object(step.left, identity)
    return replace(step, after=frame.change(identity, step.after))


def _rule(known: Known) -> StepRule:
    if isinstance(known.type, TupleIterator):
        return _next_of_tuple
    if isinstance(known.type, RangeIterator):
        return _next_of_range
    if isinstance(known.value, Generator):
        return _next_of_generator
    assert isinstance(known.value, Thing), known
    return _STEPS[known.value]


def _next_of_range(frame: Frame, op: Op, cell: Cell, _: dict[Identity, Cell]) -> Step:
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
    return Step(Cell(of_type(BOOL), results[0]), Cell(item, results[1]), Cell(after, results[2]), cell)


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


def _end(cell: Cell) -> Step:
    """The step of an iterator that has no more items."""
    return Step(Cell(constant(False)), Cell(constant(None)), cell, cell)


def _next_of_tuple(frame: Frame, _: Op, cell: Cell, __: dict[Identity, Cell]) -> Step:
    type = cell.known.type
    assert isinstance(type, TupleIterator)
    if type.position == len(type.items.elements):
        return _end(cell)
    after = iterator_of(tuple_of(cell.known.items), type.position + 1)
    parts = frame.fields(cell)
    value = None
    if not is_static(after):
        value = frame.build.op(ops.MAKE, after.type, *(frame.carry(part, part.known) for part in parts))
    return Step(Cell(constant(True)), parts[type.position], Cell(after, value), cell)


def _next_of_generator(frame: Frame, _: Op, cell: Cell, exits: dict[Identity, Cell]) -> Step:
    more, item, after = generators.step(frame, cell, exits)
    done = generators.done(frame, cell)
    return _end(done) if more.known.constant and not more.known.value else Step(more, item, after, done)


def _next_of_enumerate(frame: Frame, op: Op, cell: Cell, exits: dict[Identity, Cell]) -> Step:
    number, iterator = frame.fields(cell)
    step = _step(frame, op, iterator, exits)
    following = _arithmetic(frame, "+", number, Cell(constant(1)))
    if not isinstance(step.after.known.type, TupleIterator):
        # The number of a loop that is not unrolled is no constant.
        assert isinstance(following.known.type, Number)
        following = Cell(
            of_type(following.known.type, following.known.nonneg), frame.materialise(following, following.known.type)
        )
    after = frame.bundle(Thing.ENUMERATE, [following, step.after])
    return Step(step.more, frame.tuple([number, step.item]), after, cell)


def _next_of_zip(frame: Frame, op: Op, cell: Cell, exits: dict[Identity, Cell]) -> Step:
    """A part is asked for its next item if all before it had one."""
    parts = frame.fields(cell)
    more = Cell(constant(bool(parts)))
    items: list[Cell] = []
    for position, part in enumerate(parts):
        before = frame.now(part)
        identity = before.known.identity
        if more.known.constant or identity is None or _is_unrolled(before.known):
            step = _step(frame, op, before, exits)
            if step.more.known.constant and not step.more.known.value:
                return _end(frame.now(cell))
            if identity is not None and not more.known.constant:
                # Whether it was asked is not known while compiling, and how far it is must be.
                exits[identity] = Cell(part_of(Conflict(before.known, step.after.known)))
            both = [each for each in (more, step.more) if not each.known.constant]
            more = _arithmetic(frame, "&", *both) if len(both) == 2 else (both or [more])[0]
            items.append(step.item)
            parts[position] = step.after
        else:
            one = frame.program.call(frame, standard.next_if, [before, more], {})
            more, item, _ = generators.step(frame, one, exits)
            items.append(item)
        if identity is not None and position + 1 < len(parts):
            _keep_first(frame, more, identity, exits)
    after = frame.bundle(Thing.ZIP, [frame.now(part) for part in parts])
    return Step(more, frame.tuple(items), after, cell)


def _keep_first(frame: Frame, more: Cell, identity: Identity, exits: dict[Identity, Cell]) -> None:
    """Where a later part of a zip has no item, an earlier one has given its own."""
    after, left = frame.latest[identity], exits.get(identity, frame.latest[identity])
    if more.known.constant:
        exits[identity] = after
    elif not any(isinstance(state_of(cell.known), Conflict) for cell in (after, left)):
        parts = [frame.bundle(None, [cell]) for cell in (after, left)]
        exits[identity] = frame.field(frame.program.call(frame, standard.one_of, [more, *parts], {}), 0)


def _is_unrolled(known: Known) -> bool:
    """Whether how far an iterator is must be known while compiling."""
    return isinstance(known.type, TupleIterator) or any(map(_is_unrolled, known.items))


def _next_of_map(frame: Frame, op: Op, cell: Cell, exits: dict[Identity, Cell]) -> Step:
    function, iterator = frame.fields(cell)
    step = _step(frame, op, iterator, exits)
    closed = closures.close(frame, function)
    item = step.item
    if not step.more.known.constant:
        item = call(frame, frame.literal(standard.call_if), [closed, step.item, step.more], {})
    elif step.more.known.value:
        item = call(frame, closed, frame.fields(step.item), {})
    return Step(step.more, item, frame.bundle(Thing.MAP, [function, step.after]), cell)


def _next_of_array(frame: Frame, _: Op, cell: Cell, __: dict[Identity, Cell]) -> Step:
    array, index, length = frame.fields(cell)
    number = index.known.type
    assert index.value is not None and isinstance(number, Number)
    more = frame.emit(ops.PY_COMPARE, of_type(BOOL), index.value, frame.materialise(length, number), op="<")
    backwards = cell.known.value is Thing.REVERSED_ITERATOR
    at = _arithmetic(frame, "-", _arithmetic(frame, "-", length, Cell(constant(1))), index) if backwards else index
    if isinstance(array.known.type, Array) and array.known.type.ndim == 1 and has_identity(array.known.type.dtype):
        item = references.element(frame, array, [frame.materialise(at, INDEX)], behind=True)
    else:
        item = call(frame, frame.literal(standard.element_if), [array, at, more], {})
    after = frame.emit(ops.PY_BINARY, of_type(number, nonneg=True), index.value, frame.build.const(number, 1), op="+")
    assert isinstance(cell.known.value, Thing)
    return Step(more, item, frame.bundle(cell.known.value, [array, after, length]), cell)


StepRule = Callable[[Frame, Op, Cell, dict[Identity, Cell]], Step]

_STEPS: dict[object, StepRule] = {
    Thing.ENUMERATE: _next_of_enumerate,
    Thing.ZIP: _next_of_zip,
    Thing.MAP: _next_of_map,
    Thing.ARRAY_ITERATOR: _next_of_array,
    Thing.TUPLE_ITERATOR: _next_of_array,
    Thing.REVERSED_ITERATOR: _next_of_array,
}


def _arithmetic(frame: Frame, sign: str, *cells: Cell) -> Cell:
    (result,) = binary(frame, Op(ops.PY_BINARY, attributes={"op": sign}, location=frame.location), cells)
    return result
