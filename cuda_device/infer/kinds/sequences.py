"""Rules of type inference for lists, what is unpacked, `in`, and dicts of keywords.

A list is an object that changes (see `lists`) and holds what a tuple holds: its length is known at every place.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import numpy as np

from cuda_device.errors import CompileError
from cuda_device.infer import hosted
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import subarrays
from cuda_device.infer.meanings import Keywords, Named, Thing, is_member, means
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.library import standard
from cuda_device.types.known import Known, constant, describe
from cuda_device.types.model import (
    BOOL,
    NONE,
    Array,
    Bundle,
    Number,
    Range,
    RangeIterator,
    Static,
    Struct,
    Subarray,
    Tuple,
    TupleIterator,
    Vector,
    is_index,
)


def as_tuple(frame: Frame, cell: Cell) -> Cell:
    """A list or named tuple as the tuple of its items; anything else as it is."""
    is_tuple = means(cell.known, Thing.LIST) or isinstance(cell.known.value, Named)
    return frame.tuple(frame.fields(cell)) if is_tuple else cell


def as_iterable(frame: Frame, cell: Cell) -> Cell:
    """What can be iterated over by its items, a list or an object of the host, as their tuple; anything else as it is."""
    return as_tuple(frame, hosted.as_items(frame, cell))


def as_tuples(frame: Frame, cells: Sequence[Cell]) -> list[Cell]:
    """Each list among the cells as a tuple."""
    return [as_tuple(frame, cell) for cell in cells]


def items_of(frame: Frame, cell: Cell, what: str) -> list[Cell]:
    """The items of something whose length is known."""
    cell = as_iterable(frame, cell)
    match cell.known.type:
        case Tuple():
            return frame.fields(cell)
        case Static() if isinstance(value := cell.known.value, np.ndarray) and value.ndim:
            return hosted.elements(frame, value)
        case Vector(_, size):
            return [frame.field(cell, i) for i in range(size)]
        case Subarray() as type:
            return subarrays.items(frame, cell, type)
        case Range() | RangeIterator() | Bundle() | Struct() | TupleIterator() if what != "in":
            return frame.items_of_iterator(cell)
    if isinstance(cell.known.type, Number) or cell.known.type == NONE:
        raise CompileError(f"{what} cannot take {cell.known}: it has no items", help="use a tuple, a range or an array")
    raise CompileError(f"{what} cannot take {cell.known}: its length is not known while compiling", help="use a tuple")


def list_of(frame: Frame, cell: Cell, what: str = "list") -> Cell:
    """A list of the items of something."""
    return frame.new_list(items_of(frame, cell, what))


def make_list(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`[x, y, …]`."""
    return [frame.new_list(cells)]


def changed(frame: Frame, cell: Cell, parts: Sequence[Cell] | Mapping[object, Cell]) -> Cell:
    """What becomes of a list or dict that gets these items."""
    if isinstance(parts, Mapping):
        after = frame.bundle(Keywords(tuple(parts)), list(parts.values()))
    else:
        after = frame.bundle(Thing.LIST, parts)
    return after if cell.known.identity is None else frame.change(cell.known.identity, after)


def append(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """One more item in a comprehension."""
    so_far, item = cells
    return [changed(frame, so_far, [*frame.fields(so_far), item])]


def extend(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`[*x, *y]`."""
    so_far, more = cells
    return [changed(frame, so_far, [*frame.fields(so_far), *items_of(frame, more, "a * in a list or tuple")])]


def tuple_of_list(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """The tuple that `(*x, y)` makes of a list."""
    return as_tuples(frame, cells)


def make_dict(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Keywords and their values."""
    names = op.attributes["keys"]
    assert isinstance(names, tuple)
    return [frame.as_object(frame.bundle(Keywords(names), cells))]


def map_add(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """One more key in a comprehension; a key that is there gets another value."""
    so_far, key, value = cells
    meaning = so_far.known.value
    assert isinstance(meaning, Keywords)
    if not key.known.constant:
        raise CompileError(f"the keys of a dict are constants, not {key.known}", help="use an array, or if and match")
    parts = dict(zip(meaning.names, frame.fields(so_far), strict=True)) | {hosted.key_of(key): value}
    return [changed(frame, so_far, parts)]


def merge(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`{**a, **b}`, or the keywords of a call with `**`."""
    return [frame.as_object(hosted.merge(frame, cells, bool(op.attributes["unique"])))]


def make_slice(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`start:stop:step`."""
    return [frame.bundle(slice, [*cells, Cell(constant(None))][:3])]


def constant_slice(frame: Frame, index: Cell) -> slice | None:
    """`1:` as an index of a tuple or list; None if it is no slice."""
    if not means(index.known, slice):
        return None
    bounds = [part.known.value for part in frame.fields(index)]
    known = [bound for bound in bounds if bound is None or isinstance(bound, int)]
    if not index.known.constant or len(known) < len(bounds):
        raise CompileError("a slice of a tuple has constant integers", help="index its elements in a loop")
    if known[2:] == [0]:
        raise CompileError("the step of a slice cannot be 0", help="use a positive or a negative step")
    return slice(*known)


def slice_tuple(frame: Frame, owner: Cell, index: Cell) -> Cell | None:
    """`t[1:]` of a tuple or list; None if that is not what is indexed."""
    is_list = means(owner.known, Thing.LIST)
    if not (is_list or isinstance(owner.known.type, Tuple) or isinstance(owner.known.value, Named)):
        return None
    bounds = constant_slice(frame, index)
    if bounds is None:
        return None
    parts = frame.fields(owner)[bounds]
    return frame.new_list(parts) if is_list else frame.tuple(parts)


def position(index: Cell, count: int) -> int:
    """A constant index of `count` elements, counted from the beginning."""
    if not index.known.constant or not isinstance(index.known.value, int):
        if not is_index(index.known.type):
            help = "take its .value" if is_member(index.known) else "convert it: int(…)"
            raise CompileError(f"an index is an integer, not {index.known}", help=help)
        raise CompileError(
            "the index of a tuple must be a constant integer", help="loop over the tuple with for, or use an array"
        )
    position = int(index.known.value)
    if not -count <= position < count:
        elements = f"{count} element{'s' * (count != 1)}"
        remedy = f"indices are from {-count} to {count - 1}" if count else "append to a list, or use local_array"
        raise CompileError(f"there is no index {position} in {elements}", help=remedy)
    return position % count


def unpack_star(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`a, *b, c = x`: what the star takes is a list."""
    items = items_of(frame, cells[0], "unpacking")
    before, after = int(str(op.attributes["before"])), int(str(op.attributes["after"]))
    if len(items) < before + after:
        values = f"{len(items)} value{'s' * (len(items) != 1)}"
        raise CompileError(f"{before + after} names or more for {values}", help="take away names")
    end = len(items) - after
    return [*items[:before], frame.new_list(items[before:end]), *items[end:]]


def contains(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x in y`: of strings, tuples, vectors and ranges."""
    item, container = cells
    inverted = bool(op.attributes["inverted"])
    found = _contains(frame, frame.scalar(item), container)
    return frame.unary(Op(ops.PY_UNARY, attributes={"op": "not"}), [found]) if inverted else [found]


def _contains(frame: Frame, item: Cell, container: Cell) -> Cell:
    value = container.known.value
    if isinstance(value, Keywords):
        return Cell(constant(hosted.position(value, item) is not None))
    if isinstance(container.known.type, Static) or isinstance(value, enum.Flag):
        method = hosted.method_of(value, "__contains__")
        if method is not None:
            return frame.truth(frame.program.call(frame, method, [container, item], {}))
        if isinstance(value, (str, bytes, set, frozenset, dict, enum.Flag, enum.EnumMeta)):
            return _contains_constant(frame, item, value)
    struct = container.known.type
    if isinstance(struct, Struct) and (method := frame.method_of(struct, "__contains__")) is not None:
        return frame.truth(frame.program.call(frame, method, [container, item], {}))
    container = hosted.as_array(frame, as_iterable(frame, container))
    if isinstance(container.known.type, Array) or _is_iterator(container.known):
        return frame.program.call(frame, standard.array_contains, [item, container], {})
    if isinstance(container.known.type, Range) and isinstance(item.known.type, Number):
        parts = [frame.field(container, i) for i in range(3)]
        return frame.program.call(frame, standard.range_contains, [item, *parts], {})
    result = Cell(constant(False))
    for other in items_of(frame, container, "in"):
        equal = _equal(frame, item, other)
        if equal.known.constant:
            if equal.known.value:
                return equal
            continue
        if result.known.constant:
            result = equal
        else:
            (result,) = frame.binary(Op(ops.PY_BINARY, attributes={"op": "|"}), [result, equal])
    return result


def _is_iterator(known: Known) -> bool:
    return known.identity is not None and not means(known, Thing.LIST)


def _contains_constant(frame: Frame, item: Cell, value: object) -> Cell:
    """`x in y` of an object of the host: its own answer, or a comparison with each of the numbers in a set."""
    if isinstance(value, (set, frozenset)) and not item.known.constant:
        return _contains(frame, item, frame.tuple([frame.literal(each) for each in sorted(value, key=repr)]))
    if isinstance(value, bytes) and isinstance(item.known.type, Number) and not item.known.constant:
        return _contains(frame, item, frame.tuple([frame.literal(each) for each in sorted(set(value))]))
    if isinstance(value, dict):
        return _contains_constant(frame, item, frozenset(value))
    try:
        return Cell(constant(item.known.python in value))  # type: ignore[operator]
    except TypeError:
        raise CompileError(
            f"{describe(value)} cannot contain {item.known}", help="look for something of the kind that it holds"
        ) from None


def _equal(frame: Frame, a: Cell, b: Cell) -> Cell:
    kinds = [isinstance(cell.known.type, Number) for cell in (a, b)]
    if kinds[0] != kinds[1] or NONE in (a.known.type, b.known.type):
        return Cell(constant(a.known.type == b.known.type))
    (result,) = frame.compare(Op(ops.PY_COMPARE, attributes={"op": "=="}), [a, b])
    assert result.known.type == BOOL
    return result


def is_sequence(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Whether a sequence pattern can match: a tuple, a list, a range."""
    known = as_tuple(frame, cells[0]).known
    is_host = isinstance(known.type, Static) and isinstance(known.value, (list, tuple, range))
    return [Cell(constant(is_host or isinstance(known.type, (Tuple, Range, Vector))))]
