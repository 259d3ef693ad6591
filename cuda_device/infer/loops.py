"""Rules of type inference for iteration: `iter(x)`, one step of a `for` loop, and the items of sequences.

A `for` over a tuple has an iterator for each position, so it is unrolled. A `for` over a range or an array is a loop at run time.
`enumerate`, `zip` and `reversed` consist of the iterators of their arguments:

    for i, v in enumerate(t)      bundle(ENUMERATE, 0, bundle(ListIterator(0), t))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from cuda_device.bytecode.reader import mark
from cuda_device.bytecode.suspension import DONE, START, STEP, STEP_UNROLLED
from cuda_device.bytecode.to_ir import slots
from cuda_device.errors import CompileError
from cuda_device.infer.frame import CallContext, Cell, Frame, Kind, Rank
from cuda_device.infer.indexing import MOST_ITEMS
from cuda_device.infer.meanings import (
    DictView,
    Generator,
    ListIterator,
    Thing,
    class_of,
    code_of,
    is_container,
    is_list,
)
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.lazy_imports import import_lazily
from cuda_device.types import model
from cuda_device.types.known import (
    UNSET,
    Known,
    Unset,
    between,
    constant,
    identities,
    is_narrow,
    of_type,
    tuple_of,
)

if TYPE_CHECKING:
    from cuda_device.infer import closures, hosted, intervals, references
    from cuda_device.library import standard
else:
    import_lazily(globals(), "cuda_device.infer", "closures", "hosted", "intervals", "references")
    import_lazily(globals(), "cuda_device.library", "standard")


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
    frame.left = {}
    step = _step(frame, op, cells[0])
    if op.results:
        frame.exits[op.results[0]] = frame.left
    return [step.more, step.item, step.after]


def _step(frame: Frame, op: Op, cell: Cell) -> Iteration:
    """A step; `frame.left` gets the contents of objects on the path without an item."""
    cell = frame.now(cell)
    step = STEPS[_class_of(cell.known)](frame, op, cell)
    identity = cell.known.identity
    if identity is None:
        return step
    frame.left[identity] = frame.as_object(step.left, identity)
    return replace(step, after=frame.change(identity, step.after))


def _next_of_range(frame: Frame, op: Op, cell: Cell) -> Iteration:
    type = cell.known.type
    assert cell.value is not None and isinstance(type, model.RangeIterator)
    start, stop, step = cell.known.items
    if all(part.constant for part in cell.known.items) and not range(*(part.bounds[0] for part in cell.known.items)):
        return _end(cell)  # so that the loop's body need not have types, as `x.shape[i]` of an array without axes
    item = _item_of_range(type.item, start, stop, step)
    after = Known(type, items=(_rest_of_range(type.item, start, stop, step), stop, step))
    results = [Value(model.BOOL), Value(type.item, nonneg=item.nonneg), Value(type)]
    attributes: dict[str, object] = {"step": step.value} if step.constant else {"up": step.nonneg}
    if intervals.has_room(type.counts_in, stop, step):
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


def _next_of_list(frame: Frame, _: Op, cell: Cell) -> Iteration:
    assert isinstance(cell.known.value, ListIterator)
    owner, position = frame.field(cell, 0), cell.known.value.position
    items = owner if is_list(owner.known) else frame.as_iterable(owner)
    if position >= len(items.known.items):
        return _end(cell)
    return Iteration(
        Cell(constant(True)), frame.field(items, position), frame.bundle(ListIterator(position + 1), [owner]), cell
    )


def _next_of_enumerate(frame: Frame, op: Op, cell: Cell) -> Iteration:
    number, iterator = frame.fields(cell)
    step = _step(frame, op, iterator)
    following = frame.operate("+", number, Cell(constant(1)))
    if not _is_unrolled(step.after.known):
        # The number of a loop that is not unrolled is no constant.
        assert isinstance(following.known.type, model.Number)
        following = Cell(
            of_type(following.known.type, following.known.nonneg), frame.materialise(following, following.known.type)
        )
    counted = frame.bundle(Thing.ENUMERATE, [following, step.after])
    return Iteration(step.more, frame.tuple([number, step.item]), counted, cell)


def _is_unrolled(iterator: Known) -> bool:
    """Whether a loop over an iterator is unrolled: it goes through a tuple, a list or an unrolled generator."""
    match iterator.value:
        case ListIterator():
            return True
        case Generator() as generator:
            return generator.unrolled
        case Thing.ZIP | Thing.ENUMERATE:
            return any(map(_is_unrolled, iterator.items))
    return False


def _next_of_zip(frame: Frame, op: Op, cell: Cell) -> Iteration:
    more, items, parts = Cell(constant(True)), list[Cell](), list[Cell]()
    for part in frame.fields(cell):
        step = _step(frame, op, part)
        if step.more.known.constant and not step.more.known.value:
            # Earlier parts have moved on.
            frame.left.update({identity: frame.heap[identity] for identity in frame.left if identity in frame.heap})
            return _end(frame.now(cell))
        both = [condition for condition in (more, step.more) if not condition.known.constant]
        more = frame.operate("&", *both) if len(both) == 2 else (both or [more])[0]
        items.append(step.item)
        parts.append(step.after)
    after = frame.bundle(Thing.ZIP, [frame.now(part) for part in parts])
    return Iteration(more, frame.tuple(items), after, cell) if parts else _end(cell)


def zipped(frame: Frame, parts: Sequence[Cell]) -> Cell:
    """The iterator that steps through all of these together.

    A part is asked for its next item only if all before it had one. This shows in parts that other names share, so the library
    steps through them one by one, unless it is known at compile time which of the others have an item.
    """
    others = [part for part in parts if not isinstance(part.known.value, ListIterator)]
    has_generator = any(Generator in part.known.meanings for part in others)
    is_decided = len(others) < 2 and (others == parts[-1:] or not has_generator)
    if is_decided or all(part.known.identity is None for part in parts):
        return frame.as_object(frame.bundle(Thing.ZIP, parts))
    if len(others) < len(parts):
        raise CompileError(
            "zip cannot take a tuple or list beside these iterators, whose lengths are known only at run time",
            help="put the tuple first, before the only iterator: zip(t, it)",
        )
    parts = [part if part.known.identity is not None else frame.as_object(part) for part in parts]
    return frame.run(standard.zipped, *parts)


def _next_of_array(frame: Frame, _: Op, cell: Cell) -> Iteration:
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


# `iter(x)`, and all items of an iterable of known length


def iterate(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`iter(x)`."""
    iterator = iterator_over(frame, cells[0])
    return [_unrolled(frame, iterator) if op.attributes.get("unroll") else iterator]


def iterator_over(frame: Frame, cell: Cell) -> Cell:
    """An iterator over a range, tuple, vector, array, or a combination of these; an iterator is its own iterator."""
    if any(identities(cell.known)) and (is_container(cell.known) or isinstance(cell.known.value, DictView)):
        return frame.bundle(ListIterator(0), [cell])  # which reads the current items of the list
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
            number = model.INT if small else model.INDEX
            # A run-time index, which a loop can change.
            first = Cell(of_type(number, nonneg=True), frame.build.const(number, 0))
            return frame.bundle(Thing.ARRAY_ITERATOR, [cell, first, length])
        case _ if _is_stepped(known):
            return cell
    raise CompileError(f"cannot iterate over {known}", help="loop over range(…), a tuple or an array")


def _counter(item: model.Number, start: Known, stop: Known, step: Known) -> model.Number | None:
    """The type of a range's counter if it differs from the type of its items.

    The counter of indices that fit in 32 bits has 32 bits. The counter of a range from zero or more upwards is unsigned, so that
    one step beyond any stop fits.
    """
    if not item.signed or item.bits < 32:
        return None
    short = item.bits == 32 or all(map(is_narrow, (start, stop, step)))
    if step.value in (1, -1):
        return model.INT32 if short and item == model.INDEX else None
    if not (start.nonneg and step.nonneg) or (item == model.INDEX and not short):
        return None
    return model.UINT32 if short else model.UINT64


def reversed_iterator(frame: Frame, cell: Cell) -> Cell:
    """`reversed(x)`."""
    cell = hosted.as_array(frame, frame.as_iterable(cell))
    match cell.known.type:
        case model.Tuple() | model.Vector():
            return frame.bundle(ListIterator(0), [frame.tuple(frame.items_of(cell, "reversed")[::-1])])
        case model.Range():
            return iterator_over(frame, frame.run(standard.reversed_range, *frame.fields(cell)))
        case model.Array(_, ndim) if ndim > 0:
            return iterator_over(frame, frame.run(standard.backwards, cell))
    raise CompileError(f"reversed cannot take {cell.known}", help="give it a range, a tuple or an array")


# Generators: each value is a call of the generator's code, which continues after the last `yield` (see `bytecode/suspension`).
#
# for v in squares(n): …    →   more, v, state = step(state), until there is no more
# sum(x * x for x in t)     →   the library's loop over the generator


def is_generator_function(function: FunctionType) -> bool:
    """Whether a call of it makes a generator."""
    return bool(function.__code__.co_flags & inspect.CO_GENERATOR)


def generator(frame: Frame, function: Cell, source: FunctionType, cells: Sequence[Cell]) -> Cell:
    """The generator that a call creates, before its first step."""
    return frame.as_object(_suspended(frame, Generator(source.__code__), function, START, cells))


def _suspended(frame: Frame, meaning: Generator, function: Cell, position: int, arguments: Sequence[Cell]) -> Cell:
    names = slots(meaning.code)
    kept = [*arguments, *[Cell(UNSET)] * (len(names) - len(arguments))]
    kept[names.index(mark(position))] = Cell(constant(True))
    return frame.bundle(meaning, [function, Cell(constant(position)), *kept])


def _next_of_generator(frame: Frame, _: Op, cell: Cell) -> Iteration:
    meaning = cell.known.value
    assert isinstance(meaning, Generator)
    if _depth(cell.known, meaning.code) > _DEPTH:
        raise endless(meaning.code.co_qualname)
    function, *kept = frame.fields(cell)
    code = code_of(function.known)
    source = function.known.value if code is None else code.function
    assert isinstance(source, FunctionType)
    captured = closures.parts(frame, function)[1] if code is not None else {}
    others, frame.left = frame.left, {}
    context = CallContext(code, STEP_UNROLLED if meaning.unrolled else STEP)
    more, item, *after = frame.fields(frame.program.enter(frame, source, kept, context, captured))
    left, frame.left = frame.left, others | frame.left
    done = _suspended(frame, meaning, function, DONE, ())
    if not more.known.constant or more.known.value:
        return Iteration(more, item, frame.bundle(meaning, [function, *after]), done)
    for identity, contents in left.items():
        frame.change(identity, contents)
    return _end(done)


def stands_at(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Whether a generator is suspended at a position."""
    position, mark = cells
    if isinstance(mark.known.value, Unset):
        return [Cell(constant(False))]
    return [frame.operate("==", position, Cell(constant(op.attributes["position"])))]


STEPS: dict[object, Callable[[Frame, Op, Cell], Iteration]] = {
    model.RangeIterator: _next_of_range,
    ListIterator: _next_of_list,
    Thing.ENUMERATE: _next_of_enumerate,
    Thing.ZIP: _next_of_zip,
    Thing.ARRAY_ITERATOR: _next_of_array,
    Generator: _next_of_generator,
}
"""One step of each iterator, by its class."""


def _class_of(known: Known) -> object:
    return class_of(known) if isinstance(known.type, model.Bundle) else type(known.type)


# The nesting depth of generators of one code object: small in a chain of filters, unbounded in recursion.
_DEPTH = 6


def _depth(known: Known, code: CodeType) -> int:
    if Generator not in known.meanings:
        return 0
    here = isinstance(known.value, Generator) and known.value.code is code
    return here + max((_depth(item, code) for item in known.items), default=0)


def endless(name: str) -> CompileError:
    """The error of a generator whose state grows without bound."""
    return CompileError(
        f"the generator {name} iterates over itself, which needs a stack without bounds",
        help="make it a recursive function, or a loop with its own stack in a local_array",
    )


# Loops whose iterations are all known


def _unrolled(frame: Frame, iterator: Cell) -> Cell:
    """The same iterator object, in the form that unrolls its loop."""
    known = iterator.known
    if known.value is Thing.ENUMERATE:
        first, rest = frame.fields(iterator)
        other = frame.bundle(Thing.ENUMERATE, [first, _unrolled(frame, rest)])
    elif known.value is Thing.ZIP:
        other = frame.bundle(Thing.ZIP, [_unrolled(frame, part) for part in frame.fields(iterator)])
    else:
        other = _as_unrolled(frame, iterator)
    return other if known.identity is None or other.known == known else frame.change(known.identity, other)


def _as_unrolled(frame: Frame, iterator: Cell) -> Cell:
    known = iterator.known
    if isinstance(known.value, ListIterator):
        return iterator
    if isinstance(known.type, model.RangeIterator):
        return frame.bundle(ListIterator(0), [Cell(constants_of(known, known.type.item))])
    if isinstance(known.value, Generator):
        function, position, *kept = frame.fields(iterator)
        kept = [_kept_unrolled(frame, part) for part in kept]
        return frame.bundle(replace(known.value, unrolled=True), [function, position, *kept])
    raise _length_error()


def _kept_unrolled(frame: Frame, cell: Cell) -> Cell:
    """A value that a generator keeps, with the iterators in it in the form that unrolls their loops."""
    if _is_stepped(cell.known):
        return _unrolled(frame, cell)
    if isinstance(cell.known.type, model.Tuple) and any(map(_is_stepped, cell.known.items)):
        return frame.tuple([_kept_unrolled(frame, part) for part in frame.fields(cell)])
    return cell


def _is_stepped(known: Known) -> bool:
    return _class_of(known) in STEPS


def items_of(frame: Frame, cell: Cell) -> list[Cell]:
    """All items of an iterable whose length is known at compile time."""
    iterator = _unrolled(frame, iterator_over(frame, cell))
    items: list[Cell] = []
    while True:
        more, item, iterator = next_(frame, Op(ops.PY_NEXT, location=frame.location), [iterator])
        if not more.known.constant or len(items) > MOST_ITEMS:
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
    if len(numbers) > MOST_ITEMS:
        raise CompileError(
            f"a list or tuple of {len(numbers)} elements is too long for device code",
            help=f"use an array; the limit is {MOST_ITEMS}",
        )
    return tuple_of(tuple(Known(item, number) for number in numbers))


def _length_error() -> CompileError:
    return CompileError(
        f"the length of a list or tuple must be known at compile time, and at most {MOST_ITEMS}",
        help="loop over a tuple, or a range with constant bounds; or write to a local_array and count",
    )


# Ranges that no loop has begun

_PARTS = ("start", "stop", "step")
RANGE = Kind(
    rank=Rank.OTHER,
    getattr=lambda frame, _, cell, name: frame.field(cell, _PARTS.index(name)) if name in _PARTS else None,
    names=lambda _: _PARTS,
    truth=lambda frame, cell: frame.truth(frame.run(standard.length_of_range, *frame.fields(cell))),
)
