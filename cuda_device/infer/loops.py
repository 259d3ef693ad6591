"""Rules of type inference for iteration: `iter(x)`, and all items of what has a known length (a step of a `for` is in `steps`).

A `for` over a tuple has an iterator for each position, so its loop is unrolled; over a range or an array it is a loop.
`enumerate`, `zip` and `reversed` are made of the iterators of what they run over:

    for i, v in enumerate(t)      bundle(ENUMERATE, 0, tuple_iterator<…, 0>)
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import hosted, steps
from cuda_device.infer.frame import Cell, Frame, is_static
from cuda_device.infer.kinds import subarrays
from cuda_device.infer.meanings import DictView, Generator, ListIterator, Thing, is_container
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import standard
from cuda_device.types.known import Known, identities, is_narrow, iterator_of, of_type, tuple_of
from cuda_device.types.model import (
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
    if op.attributes.get("unroll"):
        return [_unrolled(frame, iterator)]
    return [_indexed(frame, iterator) if op.attributes.get("indexed") else iterator]


def iterator_over(frame: Frame, cell: Cell) -> Cell:
    """The iterator of a range, tuple, vector, array, or what is made of them; an iterator is its own."""
    if any(identities(cell.known)) and (is_container(cell.known) or isinstance(cell.known.value, DictView)):
        return frame.bundle(ListIterator(0), [cell])  # it sees what becomes of the list
    cell = hosted.as_array(frame, frame.as_iterable(cell))
    known = cell.known
    match known.type:
        case Range(item):
            assert cell.value is not None
            type = RangeIterator(item, _counter(item, *known.items))
            return frame.emit(ops.PY_ITER, Known(type, items=known.items), cell.value)
        case Tuple():
            return _iterator_over_tuple(frame, cell)
        case Struct() as struct if (method := frame.method_of(struct, "__iter__")) is not None:
            return iterator_over(frame, frame.program.call(frame, method, [cell], {}))
        case Vector(_, size):
            return _iterator_over_tuple(frame, frame.tuple([frame.field(cell, i) for i in range(size)]))
        case Subarray() as type:
            return _iterator_over_tuple(frame, frame.tuple(subarrays.items(frame, cell, type)))
        case Array(_, ndim) if ndim > 0:
            return _counting(frame, cell)
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

    (result,) = frame.getattr(Op(ops.PY_GETATTR, attributes={"name": name}), [cell])
    return result


def _iterator_over_tuple(frame: Frame, cell: Cell) -> Cell:
    known = iterator_of(cell.known)
    if is_static(known):
        return Cell(known)
    parts = [frame.carry(frame.field(cell, i), item) for i, item in enumerate(cell.known.items)]
    return frame.emit(ops.MAKE, known, *parts)


def _counting(frame: Frame, array: Cell) -> Cell:
    """An iterator of an array."""
    assert isinstance(array.known.type, Array)
    length = frame.field(_attribute(frame, array, "shape"), 0)
    return frame.bundle(Thing.ARRAY_ITERATOR, [array, _index(frame, INT if array.known.type.small else INDEX), length])


def _index(frame: Frame, number: Number, value: int = 0) -> Cell:
    """An index that is no constant in a loop."""
    return Cell(of_type(number, nonneg=True), frame.build.const(number, value))


def reversed_iterator(frame: Frame, cell: Cell) -> Cell:
    """`reversed(x)`."""
    cell = hosted.as_array(frame, frame.as_iterable(cell))
    match cell.known.type:
        case Tuple() | Vector():
            return _iterator_over_tuple(frame, frame.tuple(frame.items_of(cell, "reversed")[::-1]))
        case Range():
            parts = [frame.field(cell, i) for i in range(3)]
            return iterator_over(frame, frame.program.call(frame, standard.reversed_range, parts, {}))
        case Array(_, ndim) if ndim > 0:
            return iterator_over(frame, frame.program.call(frame, standard.backwards, [cell], {}))
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
        case Bundle() if isinstance(known.value, ListIterator):
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
    is_one = isinstance(known.value, Generator | ListIterator) or known.value in tuple(steps.STEPS)
    return isinstance(known.type, Bundle) and is_one


def _indexed(frame: Frame, iterator: Cell) -> Cell:
    """The same iterator, as one whose loop is one at run time; where a tuple's items have several types, it stays as it is."""
    return _same(frame, iterator, _as_indexed(frame, iterator))


def _as_indexed(frame: Frame, iterator: Cell) -> Cell:
    known = iterator.known
    match known.type:
        case TupleIterator(position=position):
            return _by_index(frame, iterator, frame.tuple(frame.fields(iterator)), position)
        case Bundle() if isinstance(known.value, ListIterator):
            return _by_index(frame, iterator, frame.field(iterator, 0), known.value.position)
        case Bundle() if known.value in (Thing.ENUMERATE, Thing.MAP):
            first, rest = frame.fields(iterator)
            return frame.bundle(known.value, [first, _indexed(frame, rest)])
        case Bundle() if known.value is Thing.ZIP:
            return frame.bundle(Thing.ZIP, [_indexed(frame, part) for part in frame.fields(iterator)])
    return iterator


def _by_index(frame: Frame, iterator: Cell, owner: Cell, position: int) -> Cell:
    if steps.common_number(frame.as_iterable(owner).known.items) is None:
        return iterator
    return frame.bundle(Thing.INDEXED_ITERATOR, [owner, _index(frame, INT, position)])


def items_of(frame: Frame, cell: Cell) -> list[Cell]:
    """All that a loop would run over; its length has to be known."""
    iterator = _unrolled(frame, iterator_over(frame, cell))
    items: list[Cell] = []
    while True:
        more, item, iterator = steps.next_(frame, Op(ops.PY_NEXT, location=frame.location), [iterator])
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
        help="loop over a tuple, or a range with constant bounds; or write to a local_array and count",
    )
