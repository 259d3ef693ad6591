"""The table of kinds, and the operations that look up the rules of a kind.

Rules and kinds reach both through their frame.

x[i]        getitem(…): the rule of the kind of x, or an error that says what can be indexed
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuda_device.device import packing
from cuda_device.errors import CompileError
from cuda_device.infer import builtin_calls, calls, closures, composites, hosted, loops, operators, remedies, sequences
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.kinds import (
    arrays,
    complexes,
    dicts,
    host_objects,
    masks,
    pointers,
    ranges,
    scalars,
    structs,
    subarrays,
    tuples,
    vectors,
)
from cuda_device.infer.meanings import Keywords, Method, Named, Text, Thing, use_of
from cuda_device.ir.nodes import Op
from cuda_device.types import model
from cuda_device.types.known import Known, constant

_NUMBER, _MASK, _COMPLEX = scalars.KIND, masks.kind(scalars.KIND), complexes.kind(scalars.KIND)
_OTHER = Kind(Rank.OTHER)
KINDS: dict[object, Kind] = {
    model.Array: arrays.KIND,
    model.Vector: vectors.KIND,
    model.Struct: structs.KIND,
    model.Ref: structs.REFERENCE,
    model.Pointer: pointers.KIND,
    model.Subarray: subarrays.KIND,
    model.Tuple: tuples.KIND,
    Named: tuples.NAMED,
    Thing.LIST: tuples.LIST,
    Keywords: dicts.KIND,
    model.Range: ranges.KIND,
    model.Static: host_objects.KIND,
}
"""By the class of a type; of bundles by the class of the meaning, or by the meaning itself."""


def kind_of(_: Frame, known: Known) -> Kind:
    """What can be done with a value."""
    type = known.type
    if isinstance(type, model.Number):
        return _MASK if type.mask else _COMPLEX if type.is_complex else _NUMBER
    if isinstance(type, model.Bundle):
        meaning = known.value
        return KINDS.get(meaning if isinstance(meaning, Thing) or meaning is slice else meaning.__class__, _OTHER)
    return KINDS.get(type.__class__, _OTHER)


def getitem(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x[i]`."""
    owner, index = cells
    if isinstance(index.known.value, Named):
        index = frame.as_tuple(index)
    rule = frame.kind(owner.known).getitem
    found = rule(frame, op, owner, index) if rule else None
    if found is None:
        raise CompileError(f"{owner.known.shown} cannot be indexed in device code", help=_help_with_items(owner.known))
    return [found]


def _help_with_items(known: Known) -> str:
    if isinstance(known.type, model.Number | model.NoneType):
        return "index an array, a tuple or a vector"
    if isinstance(known.type, model.Struct):
        return "name one of its members"
    if isinstance(known.type, model.Range):
        return "compute the number: start + i * step; reversed(range(…)) goes backwards"
    if isinstance(known.value, Text):
        return "strings with run-time values can be joined with other strings, printed, and raised"
    if isinstance(known.value, str):
        return "index a string by a constant, or pass the kernel an array of its bytes: np.frombuffer(text.encode(), np.uint8)"
    return use_of(known) or ("pass it to the kernel as an argument" if isinstance(known.type, model.Static) else "")


def setitem(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x[i] = v`."""
    owner, index, value = cells
    if isinstance(index.known.value, Named):
        index = frame.as_tuple(index)
    rule = frame.kind(owner.known).setitem
    found = rule(frame, op, owner, index, value) if rule else None
    if found is not None:
        return found
    known = owner.known
    if isinstance(known.type, model.Number | model.NoneType):
        raise CompileError(f"{known} has no elements to assign to", help="pass an array to the kernel")
    if isinstance(known.value, list | dict):
        raise CompileError(
            f"{known} on the host cannot be changed in device code",
            help="change a copy, made by list(…) or dict(…), or an array that the kernel takes as an argument",
        )
    is_array = hosted.is_array(known)
    remedy = "pass it to the kernel as an argument" if is_array else "make a new one, or use local_array"
    raise CompileError(f"{known} cannot be changed in device code", help=remedy)


def getattr_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x.name`."""
    (cell,) = cells
    name = str(op.attributes["name"])
    found = attribute(frame, op, cell, name)
    if found is None:
        raise CompileError(
            f"{cell.known} has no attribute {name!r} in device code",
            help=_help_with_attributes(frame, cell.known, name),
        )
    return [found]


def attribute(frame: Frame, op: Op, cell: Cell, name: str) -> Cell | None:
    """`x.name`, or None if the kind of x has nothing of that name."""
    if name == "__class__":
        return frame.call(Cell(constant(type)), [cell], {})
    kind = frame.kind(cell.known)
    found = kind.getattr(frame, op, cell, name) if kind.getattr else None
    return frame.bundle(Method(name), [cell]) if found is None and name in kind.methods else found


def _help_with_attributes(frame: Frame, known: Known, name: str) -> str:
    """What a value has instead."""
    if isinstance(known.value, Named):
        return f"its members are {', '.join(known.value.names)}"
    if isinstance(known.value, Text):
        return "a string with run-time values can be printed"
    if isinstance(known.type, model.Number) and callable(getattr(math, name, None)):
        return f"write math.{name}(…)"
    if isinstance(known.type, model.Vector) and (
        remedy := remedies.of_swizzle(name, known.type.dtype, known.type.size)
    ):
        return remedy
    kind = frame.kind(known)
    names = kind.names(known) if kind.names else [*kind.methods]
    if not names:
        return use_of(known)
    close = remedies.nearest(name, names)
    return f"did you mean {close[0]}?" if close else f"it has {', '.join(names)}"


def setattr_(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x.name = v`."""
    owner, value = cells
    name = str(op.attributes["name"])
    rule = frame.kind(owner.known).setattr
    found = rule(frame, op, owner, name, value) if rule else None
    if found is None:
        raise CompileError(
            f"the attribute {name!r} of {owner.known} cannot be assigned to",
            help=remedies.of_swizzle(name, owner.known.type.dtype, owner.known.type.size, is_assigned=True)
            if isinstance(owner.known.type, model.Vector)
            else "you can assign to members of structs, and to x, y, z, w of vectors",
        )
    return found


class RuleFrame(Frame):
    """A frame that does to a value what its kind says."""

    kind = kind_of
    call = calls.call
    call_plain = calls.call_plain
    special = builtin_calls.special
    getattr = getattr_
    attribute = attribute
    getitem = getitem
    store = arrays.store
    assign = arrays.assign
    binary = operators.binary
    unary = operators.unary
    compare = operators.compare
    truth = operators.truth_of
    iterate = loops.iterator_over
    items_of_iterator = loops.items_of
    as_iterable = sequences.as_iterable
    as_tuple = sequences.as_tuple
    items_of = sequences.items_of
    scalar = composites.scalar
    method_of = composites.method_of
    close = closures.close
    subarray = subarrays.made_of
    as_array_type = arrays.as_type
    record_constant = structs.constant_of
    type_argument = staticmethod(packing.type_argument)
