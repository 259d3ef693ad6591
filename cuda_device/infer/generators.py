"""Generators: each value is a call of the generator's code, which goes on behind the last `yield` (see `bytecode/suspension`).

for v in squares(n): …    →   more, v, state = step(state), until there is no more
sum(x * x for x in t)     →   the library's loop over the generator
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import CodeType, FunctionType

from cuda_device.bytecode.reader import mark
from cuda_device.bytecode.suspension import DONE, START, STEP, STEP_UNROLLED
from cuda_device.bytecode.to_ir import slots
from cuda_device.errors import CompileError
from cuda_device.infer import closures
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import Generator, code_of
from cuda_device.types.known import UNSET, Identity, Known, constant


def is_generator_function(function: FunctionType) -> bool:
    """Whether a call of it makes a generator."""
    return bool(function.__code__.co_flags & inspect.CO_GENERATOR)


def begin(frame: Frame, function: Cell, source: FunctionType, cells: Sequence[Cell]) -> Cell:
    """The generator that a call makes: nothing of it has run."""
    return frame.as_object(_standing(frame, Generator(source.__code__), function, START, cells))


def done(frame: Frame, generator: Cell) -> Cell:
    """The generator when it has no more values."""
    assert isinstance(generator.known.value, Generator)
    return _standing(frame, generator.known.value, frame.field(generator, 0), DONE, ())


def _standing(frame: Frame, meaning: Generator, function: Cell, position: int, arguments: Sequence[Cell]) -> Cell:
    names = slots(meaning.code)
    kept = [*arguments, *[Cell(UNSET)] * (len(names) - len(arguments))]
    kept[names.index(mark(position))] = Cell(constant(True))
    return frame.bundle(meaning, [function, Cell(constant(position)), *kept])


def step(frame: Frame, generator: Cell, left: dict[Identity, Cell]) -> tuple[Cell, Cell, Cell]:
    """Whether there is one more value, the value, and the generator behind it; `left` gets what objects are if there is none."""
    meaning = generator.known.value
    assert isinstance(meaning, Generator)
    if _depth(generator.known, meaning.code) > _DEPTH:
        raise endless(meaning.code.co_qualname)
    reading = STEP_UNROLLED if meaning.unrolled else STEP
    frame.left = {}
    more, item, *after = frame.fields(_run(frame, generator, frame.fields(generator)[1:], reading))
    left |= frame.left
    if more.known.constant and not more.known.value:
        for each, cell in frame.left.items():
            frame.change(each, cell)
    return more, item, frame.bundle(meaning, [frame.field(generator, 0), *after])


# Generators of one code that run through each other: in a chain of filters a few, in recursion without end.
_DEPTH = 6


def _depth(known: Known, code: CodeType) -> int:
    here = isinstance(known.value, Generator) and known.value.code is code
    return here + max((_depth(item, code) for item in known.items), default=0)


def endless(name: str) -> CompileError:
    """The error of a generator that takes ever more to keep."""
    return CompileError(
        f"the generator {name} runs through itself, which takes a stack without bounds",
        help="make it a recursive function, or a loop with a stack of its own in local_array",
    )


def _run(frame: Frame, generator: Cell, cells: Sequence[Cell], reading: str) -> Cell:
    """A call of a generator's code, read in some way."""
    function = frame.close(frame.field(generator, 0))
    closed = [frame.close(cell) for cell in cells]
    code = code_of(function.known)
    if code is None:
        return frame.program.step(frame, _source(frame, generator), closed, reading)
    return frame.program.enter(frame, code, closed, closures.captured(frame, function), reading)


def _source(frame: Frame, generator: Cell) -> FunctionType:
    function = frame.field(generator, 0).known
    code = code_of(function)
    source = function.value if code is None else code.function
    assert isinstance(source, FunctionType)
    return source


# How calls that are no rows of a table look at their arguments
