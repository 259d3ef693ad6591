"""What travels to a place where parts are expected that the value that comes has not.

    a generator at `yield` 1, where it keeps (xs, i)           →    at one of the two, of which each keeps what it needs
                              nothing for `yield` 2                 for `yield` 2 (xs,): the list that is kept for 1

An object that changes is in each part that may hold it, whichever of them counts: whoever has one of them has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cuda_device.errors import CompileError
from cuda_device.infer.joins import join
from cuda_device.infer.meanings import Resumed
from cuda_device.ir import ops
from cuda_device.types.known import Gaps, Identity, Known, Unset, identities, renamed
from cuda_device.types.model import Number

if TYPE_CHECKING:
    from cuda_device.infer.frame import Cell, Frame
    from cuda_device.ir.nodes import Value


def value_of(frame: Frame, known: Known, objects: Mapping[Identity, Cell]) -> Value:
    """What travels to a part that has no value here: zeros, and the `objects` in it that are in other parts."""
    found = objects.get(known.identity) if known.identity is not None else None
    if found is not None:
        if join(nameless(found.known), nameless(known)) != nameless(known):
            raise CompileError(
                f"a generator keeps {known} behind one `yield` that it has changed behind another, which is too much to follow",
                help="change it in the loop over the generator, or give the generator a copy: [*x]",
            )
        return frame.carry(found, known, objects)
    if any(True for item in known.items for _ in identities(item)):
        return frame.build.op(ops.MAKE, known.type, *(value_of(frame, item, objects) for item in known.items))
    return frame.build.const(known.type, 0 if isinstance(known.type, Number) else None)


def shared(known: Known, part: Cell, objects: Mapping[Identity, Cell] | None) -> Mapping[Identity, Cell] | None:
    """Those of the objects that may be in a part of a value: what a call gives has parts that nobody reads."""
    if not isinstance(known.value, Gaps) or not known.value.alone:
        return objects
    ended = isinstance(part.known.value, Resumed) and part.known.items[0].value is False
    return None if ended or isinstance(part.known.value, Unset) else objects


def objects_in(frame: Frame, cell: Cell, known: Known) -> dict[Identity, Cell]:
    """The objects in a value, by the names that they have in `known`."""
    found: dict[Identity, Cell] = {}
    if not isinstance(cell.known.value, Unset) and any(True for _ in identities(known)):
        for i, item in enumerate(known.items if len(known.items) == len(cell.known.items) else ()):
            found = objects_in(frame, frame.field(cell, i), item) | found
        if known.identity is not None:
            found[known.identity] = cell
    return found


def nameless(known: Known) -> Known:
    """What is known of a value, whichever objects are in it."""
    return renamed(known, dict.fromkeys(identities(known)))
