"""Rules for all sequences: items, unpacking, `in`, and the creation and mutation of lists and dicts.

A list is a mutable object (see `kinds/tuples`) with the contents of a tuple: its length is known everywhere in the program.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import Keywords, Thing, means
from cuda_device.ir.nodes import Op
from cuda_device.lazy_imports import import_lazily
from cuda_device.types import model
from cuda_device.types.known import constant, describe

if TYPE_CHECKING:
    from cuda_device.infer import hosted
    from cuda_device.library import standard
    from cuda_device.types import sealed
else:
    import_lazily(globals(), "cuda_device.infer", "hosted")
    import_lazily(globals(), "cuda_device.library", "standard")
    import_lazily(globals(), "cuda_device.types", "sealed")


def as_iterable(frame: Frame, cell: Cell) -> Cell:
    """Converts a list or an iterable object of the host to a tuple. Returns other values unchanged."""
    return frame.as_tuple(hosted.as_items(frame, cell))


def items_of(frame: Frame, cell: Cell, consumer: str) -> list[Cell]:
    """The items of a value of known length. Otherwise it is an error, which says that the `consumer` needs them."""
    cell = as_iterable(frame, cell)
    rule = frame.kind(cell.known).items
    items = rule(frame, cell) if rule else None
    if items is not None:
        return items
    match cell.known.type:
        case model.Range() | model.RangeIterator() | model.Bundle() | model.Struct() if consumer != "in":
            return frame.items_of_iterator(cell)
    if isinstance(cell.known.type, model.Number) or cell.known.type == model.NONE:
        raise CompileError(
            f"{consumer} cannot take {cell.known}: it has no items", help="use a tuple, a range or an array"
        )
    raise CompileError(
        f"{consumer} cannot take {cell.known}: its length is not known at compile time", help="use a tuple"
    )


def unpack_star(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`a, *b, c = x`, where `b` is a list."""
    items = items_of(frame, cells[0], "unpacking")
    before, after = int(str(op.attributes["before"])), int(str(op.attributes["after"]))
    if len(items) < before + after:
        values = f"{len(items)} value{'s' * (len(items) != 1)}"
        raise CompileError(f"cannot unpack {values} into {before + after} or more names", help="remove names")
    end = len(items) - after
    return [*items[:before], frame.new_list(items[before:end]), *items[end:]]


def contains(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x in y` for strings, tuples, vectors, ranges, arrays and iterators; the library has the loop over the last two."""
    item, container = cells
    is_inside = _contains(frame, frame.scalar(item), container)
    return [frame.operate("not", is_inside) if op.attributes["inverted"] else is_inside]


def _contains(frame: Frame, item: Cell, container: Cell) -> Cell:
    value = container.known.value
    if isinstance(value, Keywords):
        return Cell(constant(hosted.position(value, item) is not None))
    if isinstance(value, (str, bytes, set, frozenset, dict, enum.Flag, enum.EnumMeta)):
        return _contains_constant(frame, item, value)
    struct = container.known.type
    if isinstance(struct, model.Struct) and (method := frame.method_of(struct, "__contains__")) is not None:
        return frame.truth(frame.run(method, container, item))
    container = hosted.as_array(frame, as_iterable(frame, container))
    is_iterator = container.known.identity is not None and not means(container.known, Thing.LIST)
    if isinstance(container.known.type, model.Array) or is_iterator:
        return frame.run(standard.array_contains, item, container)
    if isinstance(container.known.type, model.Range) and isinstance(item.known.type, model.Number):
        return frame.run(standard.range_contains, item, *frame.fields(container))
    result = Cell(constant(False))
    for other in items_of(frame, container, "in"):
        equal = _equal(frame, item, other)
        if equal.known.constant:
            if equal.known.value:
                return equal
            continue
        result = equal if result.known.constant else frame.operate("|", result, equal)
    return result


def _contains_constant(frame: Frame, item: Cell, value: object) -> Cell:
    """`x in y` of an object of the host: evaluated by Python, or a comparison of a run-time `x` with each item of a set."""
    if isinstance(value, (set, frozenset)) and not item.known.constant:
        return _contains(frame, item, frame.tuple([frame.literal(member) for member in sorted(value, key=repr)]))
    if isinstance(value, bytes) and isinstance(item.known.type, model.Number) and not item.known.constant:
        return _contains(frame, item, frame.tuple([frame.literal(member) for member in sorted(set(value))]))
    if isinstance(value, dict):
        return _contains_constant(frame, item, frozenset(value))
    try:
        return Cell(constant(item.known.python in value))  # type: ignore[operator]
    except TypeError:
        raise CompileError(
            f"{describe(value)} cannot contain {item.known}", help="look for a value of the kind that it contains"
        ) from None


def _equal(frame: Frame, a: Cell, b: Cell) -> Cell:
    kinds = [isinstance(cell.known.type, model.Number) for cell in (a, b)]
    if kinds[0] != kinds[1] or model.NONE in (a.known.type, b.known.type):
        return Cell(constant(a.known.type == b.known.type))
    result = frame.operate("==", a, b)
    assert result.known.type == model.BOOL
    return result


def is_sequence(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Whether a sequence pattern can match: a tuple, a list, a range."""
    known = frame.as_tuple(cells[0]).known
    if isinstance(known.value, sealed.Sealed):
        raise CompileError(f"{known} cannot be matched", help=known.value.use)
    is_host = isinstance(known.type, model.Static) and isinstance(known.value, (list, tuple, range))
    return [Cell(constant(is_host or isinstance(known.type, (model.Tuple, model.Range, model.Vector))))]
