"""Generator expressions: they run where they are used, and what uses them says what becomes of their values.

sum(x * x for x in t)   →   a call of the expression's code, read as a sum (see `bytecode/reductions`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.instructions import Opcode
from cuda_device.errors import CompileError
from cuda_device.passes import closures, sequences
from cuda_device.passes.frame import Cell, Frame
from cuda_device.passes.meanings import Code, Generator, Thing
from cuda_device.types.known import Known
from cuda_device.types.model import Bundle


def is_generator(known: Known) -> bool:
    """Whether it is a generator expression before it runs."""
    return isinstance(known.type, Bundle) and isinstance(known.value, Generator)


def check_argument(function: FunctionType, name: str) -> None:
    """Refuses a generator expression for a parameter that is read more than once: Python's would be used up, ours begin again."""
    instructions = decode(function.__code__)
    reads = [i for i, one in enumerate(instructions) if one.opcode in _READS and one.argument == name]
    again = any(
        (one.target or 0) <= i < j for i in reads for j, one in enumerate(instructions) if one.target is not None
    )
    if len(reads) > 1 or again:
        raise CompileError(
            f"{function.__qualname__} uses the generator expression {name!r} more than once", help="give it a tuple"
        )


_READS = (Opcode.LOAD, Opcode.LOAD_CELL, Opcode.CLOSURE)


def reduce(frame: Frame, generator: Cell, reduction: str, *begin: Cell) -> Cell:
    """What becomes of the values of a generator expression."""
    function, *arguments = frame.fields(generator)
    function = closures.close(frame, function)
    code = function.known.value
    assert isinstance(code, Code)
    return frame.program.enter(frame, code, [*arguments, *begin], closures.captured(frame, function), reduction)


def of_function(frame: Frame, function: Callable[..., Any], captured: Sequence[Cell], iterator: Cell) -> Cell:
    """The generator expression in a `function` of ours, which captures its first parameters."""
    assert isinstance(function, FunctionType)
    (code,) = (inner for inner in function.__code__.co_consts if isinstance(inner, CodeType))
    names = code.co_freevars
    meaning = Code(closures.template(code, function.__globals__), (), names, names, (None,) * len(names), open=False)
    return frame.bundle(Generator(), [frame.bundle(meaning, captured), iterator])


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
        raise CompileError(f"{name} takes no keyword arguments in device code", help="give the arguments by position")


def check_count(name: str, positional: Sequence[Cell], low: int, high: int) -> None:
    """Refuses too few or too many arguments."""
    if not low <= len(positional) <= high:
        count = str(low) if low == high else f"{low} to {high}"
        raise CompileError(
            f"{name} takes {count} argument{'s' * (count != '1')}, not {len(positional)}",
            help=f"give {name} what it takes in Python",
        )
