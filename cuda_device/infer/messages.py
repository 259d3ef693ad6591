"""The messages of exceptions: text that is known while compiling, with two numbers of run time at most.

    raise IndexError(f"no row {i}")      →      report {message="IndexError: no row {0}"} %i
    assert x > 0.5, x                    →      report {message="AssertionError: {0.float32}"} %bits_of_x

The numbers reach the host in 64 bits each, and there the message is put together, in Python (see `runtime.report`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuda_device.device.printf_formats import Spec
from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import Method, Raised, Text
from cuda_device.infer.printing import Line
from cuda_device.types.known import of_type
from cuda_device.types.model import BOOL, FLOAT64, INDEX, UINT64, Number

_MOST = 2


def message_of(frame: Frame, cells: Sequence[Cell], shows_repr: bool = False) -> tuple[str, list[Cell]]:
    """What Python shows of an exception with these arguments, and the numbers that `{0}` and `{1}` stand for."""
    message = _Message(frame)
    if len(cells) == 1:
        message.argument(cells[0], shows_repr)
    elif cells:
        message.literal("(")
        for i, cell in enumerate(cells):
            message.literal(", " if i else "")
            message.argument(cell, is_repr=True)
        message.literal(")")
    return message.format if message.numbers else message.format.format(), message.numbers


class _Message(Line):
    """As a line that is printed, but for Python's formats instead of printf's."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.numbers: list[Cell] = []

    def argument(self, cell: Cell, is_repr: bool) -> None:
        """An argument of the exception; if its value cannot be told, what it is."""
        before, count = self.format, len(self.numbers)
        try:
            if isinstance(cell.known.value, Raised) and not is_repr:
                self.exception(cell, cell.known.value)
            else:
                self.show(cell, is_repr)
        except CompileError:
            if isinstance(cell.known.value, Text):
                raise
            self.format = before
            del self.numbers[count:]
            self.literal(str(cell.known))

    def exception(self, cell: Cell, raised: Raised) -> None:
        """The message of an exception, which is the only argument: its numbers of run time keep their places."""
        numbers = self.frame.fields(cell)
        self.format += raised.message if numbers else raised.message.replace("{", "{{").replace("}", "}}")
        self.numbers += numbers

    def literal(self, text: str) -> None:
        """A text."""
        self.format += text.replace("{", "{{").replace("}", "}}")

    def number(self, cell: Cell, type: Number, _: Spec) -> None:
        """A number as Python shows it."""
        self.formatted(cell, type, "")

    def formatted(self, cell: Cell, type: Number, spec: str) -> None:
        """A number in a format."""
        if type.is_complex or len(self.numbers) == _MOST or not _fits(spec, type):
            raise CompileError(
                f"the message of an exception has {_MOST} numbers of run time at most, in formats of Python, and else constants",
                help="print the rest before: print(f'…')",
            )
        form = _form(type)
        shown = f":{spec}" if spec else "!s"  # without a format, as `str` shows it
        self.format += f"{{{len(self.numbers)}{form and f'.{form}'}{shown}}}"
        self.numbers.append(_as_word(self.frame, cell, type))


def _fits(spec: str, type: Number) -> bool:
    """Whether Python formats such numbers so."""
    try:
        format(1.0 if type.is_float else True if type == BOOL else 1, spec)
    except ValueError:
        return False
    return "{" not in spec and "}" not in spec


def _form(type: Number) -> str:
    """How the host reads the bits: the name of a property of its words, or nothing."""
    if type.is_float:
        return f"float{type.bits}" if type.builtin or str(type) in ("float16", "float32") else "float64"
    return str(type) if type in (BOOL, UINT64) else ""


def _as_word(frame: Frame, cell: Cell, type: Number) -> Cell:
    """A number as 64 bits."""
    if type.is_float:
        wide = Cell(of_type(FLOAT64), frame.materialise(cell, FLOAT64))
        cell = frame.call(frame.bundle(Method("view"), [wide]), [frame.literal(np.int64)], {})
    return Cell(of_type(INDEX), frame.materialise(cell, INDEX))
