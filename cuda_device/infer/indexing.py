"""Indices of arrays, vectors and tuples, and slices.

x[i, j]      parts_of: i and j      values_of: two typed values, one for each axis
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.errors import CompileError, not_constant
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import is_member, means
from cuda_device.ir.nodes import Value
from cuda_device.types.known import Known, constant
from cuda_device.types.model import BOOL, INDEX, INT, Array, Number, Static, Struct, Tuple, Vector, is_index


def parts_of(frame: Frame, index: Cell) -> list[Cell]:
    """The parts of an index: `i` and `j` of `x[i, j]`. The numbers in 0-d arrays are read."""
    parts = frame.fields(index) if isinstance(index.known.type, Tuple) else [index]
    return [frame.scalar(part) if isinstance(part.known.type, Array) else part for part in parts]


def indices_of(frame: Frame, index: Cell) -> list[Value]:
    """The typed values of the index of `x[index]`."""
    return values_of(frame, parts_of(frame, index))


def values_of(frame: Frame, parts: Sequence[Cell]) -> list[Value]:
    """The typed values of integers that are indices, one for each axis."""
    values = []
    for part in parts:
        type = part.known.type
        if not is_index(type):
            raise _refused(part.known)
        roomy = INDEX if type == INT and part.known.constant else INT if type == BOOL else type
        values.append(frame.materialise(part, roomy))
    return values


def check_index(known: Known) -> None:
    """Raises `CompileError` for an index that is not an integer."""
    if not is_index(known.type):
        raise _refused(known)


def _refused(index: Known) -> CompileError:
    return CompileError(f"an index must be an integer, not {index}", help=help_with(index))


def help_with(index: Known) -> str:
    """The help for an index of the wrong type."""
    if is_member(index):
        return "use its .value"
    match index.type:
        case Number():
            return "divide with //, or convert it: int(…)"
        case Vector():
            return "use one of its elements: .x, .y, .z"
        case Static() if isinstance(index.value, str):
            return "only arrays of structs have members: x['name']"
        case Struct():
            return "use one of its members"
    return "index with one integer at a time, in a loop"


def position(index: Cell, count: int) -> int:
    """The position, counted from the beginning, of a constant index into `count` elements."""
    if not index.known.constant or not isinstance(index.known.value, int):
        check_index(index.known)
        raise not_constant(
            "the index of a tuple must be a constant integer", help="loop over the tuple with for, or use an array"
        )
    position = int(index.known.value)
    if not -count <= position < count:
        elements = f"{count} element{'s' * (count != 1)}"
        remedy = f"indices are from {-count} to {count - 1}" if count else "append to a list, or use local_array"
        raise CompileError(f"index {position} is out of range for {elements}", help=remedy)
    return position % count


def constant_slice(frame: Frame, index: Cell) -> slice | None:
    """The slice that is an index of a tuple or list, or None if it is not a slice."""
    if not means(index.known, slice):
        return None
    bounds = [part.known.value for part in frame.fields(index)]
    known = [bound for bound in bounds if bound is None or isinstance(bound, int)]
    if not index.known.constant or len(known) < len(bounds):
        raise not_constant("the bounds of a tuple's slice must be constant integers", "index its elements in a loop")
    if known[2:] == [0]:
        raise CompileError("the step of a slice cannot be 0", help="use a positive or a negative step")
    return slice(*known)


def slice_parts(frame: Frame, cell: Cell) -> list[Cell] | None:
    """Start, stop and step of a slice, or None if it is not a slice."""
    known = cell.known
    if isinstance(known.type, Static) and isinstance(known.value, slice):
        return [frame.literal(part) for part in (known.value.start, known.value.stop, known.value.step)]
    return [*frame.fields(cell), Cell(constant(None))][:3] if means(known, slice) else None


# Repetition

MOST_ITEMS = 1024
"""The maximum length of tuples and lists, whose items are separate values, so that loops over them are unrolled."""


def repeated(frame: Frame, a: Cell, b: Cell) -> list[Cell] | None:
    """The items of `t * n` or `n * t`, where `t` is a tuple or list; None for other operands."""
    cell, count = (b, a) if isinstance(a.known.type, Number) else (a, b)
    if not isinstance(frame.as_tuple(cell).known.type, Tuple) or not isinstance(count.known.type, Number):
        return None
    if not count.known.constant or not isinstance(count.known.value, int):
        raise CompileError(
            f"the length of {cell.known} * {count.known} is not known at compile time",
            help="repeat a tuple a constant number of times, or use local_array",
        )
    parts = frame.fields(cell)
    if len(parts) * count.known.value > MOST_ITEMS:
        raise CompileError(
            f"a tuple of {len(parts) * count.known.value} elements is too long for device code: the limit is {MOST_ITEMS}",
            help="use local_array",
        )
    return parts * count.known.value
