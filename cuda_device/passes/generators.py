"""Generator expressions: they run where they are used, and what uses them says what becomes of their values.

sum(x * x for x in t)   →   a call of the expression's code, read as a sum (see `bytecode/reductions`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda_device.errors import CompileError
from cuda_device.passes import closures, sequences
from cuda_device.passes.frame import Cell, Frame
from cuda_device.passes.meanings import Code, Generator, Thing
from cuda_device.types.known import Known
from cuda_device.types.model import Bundle


def is_generator(known: Known) -> bool:
    """Whether it is a generator expression before it runs."""
    return isinstance(known.type, Bundle) and isinstance(known.value, Generator)


def reduce(frame: Frame, generator: Cell, reduction: str, *begin: Cell) -> Cell:
    """What becomes of the values of a generator expression."""
    function, *arguments = frame.fields(generator)
    function = closures.close(frame, function)
    code = function.known.value
    assert isinstance(code, Code)
    return frame.program.enter(frame, code, [*arguments, *begin], closures.captured(frame, function), reduction)


def list_of(frame: Frame, cell: Cell) -> Cell:
    """A list of what a generator expression yields, or of the items of something."""
    if is_generator(cell.known):
        return reduce(frame, cell, "list", frame.bundle(Thing.LIST, []))
    return frame.bundle(Thing.LIST, sequences.items_of(frame, cell, "list"))


def listed(frame: Frame, cells: Sequence[Cell]) -> list[Cell]:
    """Arguments that can be iterated over: lists as tuples, generator expressions as tuples of what they yield."""
    return [
        sequences.as_tuple(
            frame, list_of(frame, cell) if is_generator(cell.known) else sequences.as_iterable(frame, cell)
        )
        for cell in cells
    ]


# How calls that are no rows of a table look at their arguments


def no_keywords(name: str, named: Mapping[str, Cell]) -> None:
    """Refuses keywords."""
    if named:
        raise CompileError(f"{name} takes no keyword arguments in device code")


def check_count(name: str, positional: Sequence[Cell], low: int, high: int) -> None:
    """Refuses too few or too many arguments."""
    if not low <= len(positional) <= high:
        count = str(low) if low == high else f"{low} to {high}"
        raise CompileError(f"{name} takes {count} argument{'s' * (count != '1')}, not {len(positional)}")
