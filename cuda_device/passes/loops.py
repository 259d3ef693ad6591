"""Rules of type inference for iteration: `iter(x)`, and one step of a `for`.

A `for` over a tuple has an iterator for each position, so its loop is unrolled; over a range or an array it is a loop.
`enumerate`, `zip` and `reversed` are made of the iterators of what they run over:

    for i, v in enumerate(t)      bundle(ENUMERATE_ITERATOR, 0, tuple_iterator<…, 0>)
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.device import standard
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.model import Op, Value
from cuda_device.passes import composites, hosted, references, subarrays
from cuda_device.passes.calls import call
from cuda_device.passes.frame import Cell, Frame, is_static
from cuda_device.passes.meanings import Generator, Thing
from cuda_device.passes.operators import binary
from cuda_device.passes.sequences import as_iterable
from cuda_device.types.known import Known, between, constant, is_narrow, iterator_of, of_type, tuple_of
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

# Longer loops are not unrolled: the code would be too large.
_MOST_UNROLLED = 1024


def iterate(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`iter(x)`."""
    iterator = iterator_over(frame, cells[0])
    return [_unrolled(frame, iterator) if op.attributes.get("unroll") else iterator]


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
            length = frame.field(_attribute(frame, cell, "shape"), 0)
            return frame.bundle(Thing.ARRAY_ITERATOR, [cell, _first_of_array(frame, cell), length])
        case Bundle():
            return _iterator_over_bundle(frame, cell)
        case RangeIterator() | TupleIterator():
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


def _iterator_over_bundle(frame: Frame, cell: Cell) -> Cell:
    meaning = cell.known.value
    parts = frame.fields(cell)
    match meaning:
        case Thing.ENUMERATE:
            return frame.bundle(Thing.ENUMERATE_ITERATOR, [parts[0], iterator_over(frame, parts[1])])
        case Thing.ZIP:
            return frame.bundle(Thing.ZIP_ITERATOR, [iterator_over(frame, part) for part in parts])
        case Thing.MAP:
            return frame.bundle(Thing.MAP_ITERATOR, [parts[0], iterator_over(frame, parts[1])])
        case Thing.REVERSED_ARRAY:
            length = frame.field(_attribute(frame, parts[0], "shape"), 0)
            return frame.bundle(Thing.REVERSED_ITERATOR, [parts[0], _first_of_array(frame, parts[0]), length])
        case (
            Thing.ENUMERATE_ITERATOR
            | Thing.ZIP_ITERATOR
            | Thing.MAP_ITERATOR
            | Thing.ARRAY_ITERATOR
            | Thing.REVERSED_ITERATOR
        ):
            return cell
        case Generator():
            raise CompileError(
                "a generator expression is for sum, any, all, min, max, next, tuple and such in device code",
                help="write the loop directly, or make a tuple of it",
            )
    raise CompileError(f"a for loop cannot run over {cell.known}", help="loop over range(…), a tuple or an array")


# Loops whose iterations are all known


def _unrolled(frame: Frame, iterator: Cell) -> Cell:
    """The same iterator, as one that unrolls its loop."""
    known = iterator.known
    match known.type:
        case TupleIterator():
            return iterator
        case RangeIterator(item):
            return Cell(iterator_of(constants_of(known, item)))
        case Bundle() if known.value in (Thing.ENUMERATE_ITERATOR, Thing.ZIP_ITERATOR, Thing.MAP_ITERATOR):
            first, *rest = frame.fields(iterator)
            if known.value is Thing.ZIP_ITERATOR:
                first = _unrolled(frame, first)
            return frame.bundle(known.value, [first, *(_unrolled(frame, part) for part in rest)])
    raise _length_error()


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


def next_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """One step of a `for`: is there an item, the item, and the iterator after it."""
    (cell,) = cells
    match cell.known.type:
        case TupleIterator() as type:
            return _next_of_tuple(frame, cell, type)
        case RangeIterator() as type:
            return _next_of_range(frame, op, cell, type)
    match cell.known.value:
        case Thing.ENUMERATE_ITERATOR:
            return _next_of_enumerate(frame, op, cell)
        case Thing.ZIP_ITERATOR:
            return _next_of_zip(frame, op, cell)
        case Thing.MAP_ITERATOR:
            return _next_of_map(frame, op, cell)
        case Thing.ARRAY_ITERATOR | Thing.REVERSED_ITERATOR:
            return _next_of_array(frame, cell)
    raise AssertionError(cell.known)


def _next_of_range(frame: Frame, op: Op, cell: Cell, type: RangeIterator) -> Sequence[Cell]:
    assert cell.value is not None
    start, stop, step = cell.known.items
    item = _item_of_range(type.item, start, stop, step)
    after = Known(type, items=(_rest_of_range(type.item, start, stop, step), stop, step))
    results = [Value(BOOL), Value(type.item, nonneg=item.nonneg), Value(type)]
    attributes: dict[str, object] = {"step": step.value} if step.constant else {"up": step.nonneg}
    frame.build.append(Op(ops.PY_NEXT, [cell.value], results, attributes, [], op.location))
    return [Cell(of_type(BOOL), results[0]), Cell(item, results[1]), Cell(after, results[2])]


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


def _next_of_tuple(frame: Frame, cell: Cell, type: TupleIterator) -> Sequence[Cell]:
    if type.position == len(type.items.elements):
        return [Cell(constant(False)), Cell(constant(None)), cell]
    after = iterator_of(tuple_of(cell.known.items), type.position + 1)
    parts = frame.fields(cell)
    value = None
    if not is_static(after):
        value = frame.build.op(ops.MAKE, after.type, *(frame.carry(part, part.known) for part in parts))
    return [Cell(constant(True)), parts[type.position], Cell(after, value)]


def _next_of_enumerate(frame: Frame, op: Op, cell: Cell) -> Sequence[Cell]:
    number, iterator = frame.fields(cell)
    more, item, after = next_(frame, op, [iterator])
    following = _arithmetic(frame, "+", number, Cell(constant(1)))
    if not isinstance(after.known.type, TupleIterator):
        # The number of a loop that is not unrolled is no constant.
        assert isinstance(following.known.type, Number)
        following = Cell(
            of_type(following.known.type, following.known.nonneg), frame.materialise(following, following.known.type)
        )
    return [more, frame.tuple([number, item]), frame.bundle(Thing.ENUMERATE_ITERATOR, [following, after])]


def _next_of_zip(frame: Frame, op: Op, cell: Cell) -> Sequence[Cell]:
    steps = [next_(frame, op, [part]) for part in frame.fields(cell)]
    if not steps or any(more.known.constant and not more.known.value for more, _, _ in steps):
        return [Cell(constant(False)), Cell(constant(None)), cell]
    all_more = steps[0][0]
    for more, _, _ in steps[1:]:
        if all_more.known.constant:
            all_more = more
        elif not more.known.constant:
            all_more = _arithmetic(frame, "&", all_more, more)
    after = frame.bundle(Thing.ZIP_ITERATOR, [step[2] for step in steps])
    return [all_more, frame.tuple([step[1] for step in steps]), after]


def _next_of_map(frame: Frame, op: Op, cell: Cell) -> Sequence[Cell]:
    function, iterator = frame.fields(cell)
    more, arguments, after = next_(frame, op, [iterator])
    item = arguments
    if not more.known.constant:
        item = call(frame, frame.literal(standard.call_if), [function, arguments, more], {})
    elif more.known.value:
        item = call(frame, function, frame.fields(arguments), {})
    return [more, item, frame.bundle(Thing.MAP_ITERATOR, [function, after])]


def _next_of_array(frame: Frame, cell: Cell) -> Sequence[Cell]:
    array, index, length = frame.fields(cell)
    number = index.known.type
    assert index.value is not None and isinstance(number, Number)
    more = frame.emit(ops.PY_COMPARE, of_type(BOOL), index.value, frame.materialise(length, number), op="<")
    backwards = cell.known.value is Thing.REVERSED_ITERATOR
    at = _arithmetic(frame, "-", _arithmetic(frame, "-", length, Cell(constant(1))), index) if backwards else index
    assert isinstance(array.known.type, Array)
    if array.known.type.ndim == 1 and has_identity(array.known.type.dtype):
        item = references.element(frame, array, [frame.materialise(at, INDEX)], behind=True)
    else:
        item = call(frame, frame.literal(standard.element_if), [array, at, more], {})
    after = frame.emit(ops.PY_BINARY, of_type(number, nonneg=True), index.value, frame.build.const(number, 1), op="+")
    assert isinstance(cell.known.value, Thing)
    return [more, item, frame.bundle(cell.known.value, [array, after, length])]


def _first_of_array(frame: Frame, array: Cell) -> Cell:
    """What an iterator over an array counts from: zero, which is no constant in a loop."""
    assert isinstance(array.known.type, Array)
    number = INT if array.known.type.small else INDEX
    return Cell(of_type(number, nonneg=True), frame.build.const(number, 0))


def _arithmetic(frame: Frame, sign: str, *cells: Cell) -> Cell:
    (result,) = binary(frame, Op(ops.PY_BINARY, attributes={"op": sign}, location=frame.location), cells)
    return result
