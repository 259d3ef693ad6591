"""What arrays, vectors and tuples are indexed with: the parts of an index, and the integers that they are.

x[i, j]      parts_of: i and j      values_of: two typed values, one for each axis
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import is_member
from cuda_device.ir.nodes import Value
from cuda_device.types.known import Known
from cuda_device.types.model import BOOL, INDEX, INT, Array, Bundle, Number, Static, Tuple, Vector, is_index


def parts_of(frame: Frame, index: Cell) -> list[Cell]:
    """`i` and `j` of `x[i, j]`, numbers in place of 0-d arrays."""
    parts = frame.fields(index) if isinstance(index.known.type, Tuple) else [index]
    return [frame.scalar(part) for part in parts]


def indices_of(frame: Frame, index: Cell) -> list[Value]:
    """What `x[index]` indexes with."""
    return values_of(frame, parts_of(frame, index))


def values_of(frame: Frame, parts: Sequence[Cell]) -> list[Value]:
    """Integers as indices: one for each axis."""
    values = []
    for part in parts:
        type = part.known.type
        if not is_index(type):
            raise CompileError(f"an index is an integer, not {part.known}", help=help_with(part.known))
        roomy = INDEX if part.known.constant and type == INT else INT if type == BOOL else type
        values.append(frame.materialise(part, roomy))
    return values


def help_with(index: Known) -> str:
    """What to do with an index that is none."""
    if is_member(index):
        return "take its .value"
    match index.type:
        case Number():
            return "convert it: int(…)"
        case Vector():
            return "take one of its elements: .x, .y, .z"
        case Static() if isinstance(index.value, str):
            return "only arrays of structs have members: x['name']"
        case Array() | Bundle() | Static():
            return "index with one integer after the other, in a loop"
    return ""


# Refusals of calls of builtins with arguments that they do not take.


def no_keywords(name: str, named: Mapping[str, Cell]) -> None:
    """Refuses keywords."""
    if named:
        raise CompileError(f"{name} takes no keyword arguments in device code", help="give the arguments by position")


def check_count(name: str, positional: Sequence[Cell], low: int, high: int) -> None:
    """Refuses too few or too many arguments."""
    if not low <= len(positional) <= high:
        count = str(low) if low == high else f"{low} to {high}"
        raise CompileError(
            f"{name} takes {count} argument{'s' * (count != '1')}, not {len(positional)}",
            help=f"give {name} what it takes in Python",
        )
