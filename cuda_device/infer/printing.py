"""`print` and strings in device code: constants become text, and run-time values become conversions of C's printf.

    print("x =", x, f"{y:.3f}")      →      print {format="x = %d %.3f\\n"} %x %y

A GPU prints with printf, and the CPU imitates printf, so the text is the same. A float without a format is printed with about as
many digits as its type is precise (4 for float16, 7 for float32, 15 for float64) and, as in Python, with a decimal point.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING

import numpy as np

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import Keywords, Method, Named, Text, TextField, is_list
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.lazy_imports import import_lazily
from cuda_device.library import prelude
from cuda_device.types import model
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.vector_classes import host_vector

if TYPE_CHECKING:
    from cuda_device.infer import references
else:
    import_lazily(globals(), "cuda_device.infer", "references")


_SPEC = re.compile(
    r"(?P<align>[<>])?(?P<sign>[-+ ])?(?P<alternate>#)?(?P<zero>0)?(?P<width>\d+)?"
    r"(?:\.(?P<precision>\d+))?(?P<kind>[dxXoeEfFgG])?"
)
FLOAT_KINDS = frozenset("eEfFgG")
# The buffer of printf is small.
_MOST_COLUMNS = 200


class Spec:
    """A format specification of an f-string. `sign` is "", "+" or " "; `kind` is a letter, or "" for Python's default."""

    def __init__(self, text: str) -> None:
        match = _SPEC.fullmatch(text)
        if match is None or (match["align"] and match["zero"]):
            raise CompileError(
                f"device code does not support the format {text!r}",
                help="it supports widths, signs, <, >, zeros and precisions with d, x, o, e, f, g: {n:5d}, {n:08x}, {x:8.3f}",
            )
        self.text, self.sign = text, (match["sign"] or "").replace("-", "")
        self.alternate, self.kind = match["alternate"] is not None, match["kind"] or ""
        self.flags = "-" if match["align"] == "<" else "0" if match["zero"] else ""
        self.width = int(match["width"] or 0)
        self.precision = int(match["precision"]) if match["precision"] else None
        if self.width > _MOST_COLUMNS or (self.precision or 0) > _MOST_COLUMNS:
            raise CompileError(
                f"the format {text!r} is too wide", help=f"the limit is {_MOST_COLUMNS} columns and digits"
            )

    def conversion(self, kind: str, precision: int | None = None) -> str:
        """The conversion specification of printf for a kind."""
        digits = self.precision if precision is None else precision
        point = "" if digits is None else f".{digits}"
        alternate = "#" * (self.alternate and kind in FLOAT_KINDS)
        return f"%{self.sign}{alternate}{self.flags}{self.width or ''}{point}{kind}"


def digits_of(number: model.Number) -> int:
    """The number of digits of a float without a precision, which is about the precision of its type."""
    if number.bits == 16:
        return 3 if number.format == model.Format.BFLOAT else 4
    return {8: 3, 32: 7, 64: 15}[number.bits]


# The maximum of CUDA's printf.
_MOST = 32


def print_(
    frame: Frame,
    *values: Cell,
    sep: Cell | None = None,
    end: Cell | None = None,
    flush: Cell | None = None,
) -> Cell:
    """`print(…, sep=" ", end="\\n")`."""
    separator, ending = _text("sep", sep, " "), _text("end", end, "\n")
    line = Line(frame)
    for i, cell in enumerate(values):
        if i:
            line.literal(separator)
        line.show(cell, is_repr=False)
    line.literal(ending)
    line.emit()
    return Cell(constant(None))


def _text(name: str, cell: Cell | None, default: str) -> str:
    value = None if cell is None else cell.known.value
    if cell is not None and not isinstance(value, str | None):
        raise CompileError(f"{name} of print must be a constant string, not {cell.known}", help="write it as a literal")
    return value if isinstance(value, str) else default


class Line:
    """One call of `print`: the format, the values, and the pairs of texts that bools select from."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.format = ""
        self.values: list[Value] = []
        self.choices: list[tuple[str, ...] | None] = []

    def emit(self) -> None:
        """Writes the operation."""
        if "\0" in self.format:
            raise CompileError("a string with the character 0 cannot be printed", help="leave it out")
        if len(self.values) > _MOST:
            raise CompileError(
                f"print takes at most {_MOST} numbers, not {len(self.values)}", help="print them in two calls"
            )
        if self.format:
            self.frame.build.effect(ops.PRINT, *self.values, format=self.format, choices=tuple(self.choices))

    def literal(self, text: str) -> None:
        """Appends a text."""
        self.format += text.replace("%", "%%")

    def convert(self, conversion: str, cell: Cell, type: model.Number) -> None:
        """Appends a number, which is passed in 64 bits."""
        self.format += conversion
        self.values.append(self.frame.materialise(cell, type))
        self.choices.append(None)

    def choose(self, condition: Cell, texts: tuple[str, str]) -> None:
        """Appends the first of two texts if a condition holds, or else the second one."""
        if condition.known.constant:
            self.literal(texts[0] if condition.known.value else texts[1])
            return
        self.format += "%s"
        self.values.append(self.frame.materialise(condition, model.BOOL))
        self.choices.append(texts)

    # Values, as Python shows them

    def show(self, cell: Cell, is_repr: bool = True) -> None:
        """Appends a value as `str` or `repr` show it."""
        cell = references.value_of(self.frame, cell)
        known = cell.known
        if isinstance(known.value, Text):
            if is_repr:
                raise CompileError(
                    "a string with run-time values must be printed by itself",
                    help="pass it to print as a separate argument",
                )
            self.pieces(known.value, self.frame.fields(cell))
        elif known.constant and not isinstance(known.type, model.Bundle | model.Tuple):
            self.literal(_constant(known, is_repr))
        elif isinstance(known.type, model.Number):
            self.formatted(cell, known.type, "")
        elif (shape := self.shape(cell)) is not None:
            self.listed(*shape)
        else:
            remedy = (
                "print its elements"
                if isinstance(known.type, model.Array)
                else "print numbers, and values that consist of numbers"
            )
            raise CompileError(f"{known} cannot be printed in device code", help=remedy)

    def shape(self, cell: Cell) -> tuple[str, Sequence[Cell], str, Sequence[str]] | None:
        """The opening bracket, the parts, the closing bracket and the labels of a value with parts; None for other values."""
        known, fields = cell.known, self.frame.fields
        if is_list(known):
            return "[", fields(cell), "]", ()
        match known.value:
            case Keywords(names):
                return "{", fields(cell), "}", [f"{name!r}: " for name in names]
            case Named(cls):
                return f"{cls.__name__}(", fields(cell), ")", [f"{name}=" for name in cls._fields]
        labels: Sequence[str] = ()
        match known.type:
            case model.Tuple():
                return "(", fields(cell), ",)" if len(known.items) == 1 else ")", ()
            case model.Vector() as vector:
                host = host_vector(vector)
                name = host.__name__ if host is not None else str(vector)
            case model.Struct(name, members):
                labels = [f"{member.name}=" for member in members]
            case model.Range():
                return "range(", fields(cell)[: 2 if known.items[2].value == 1 else 3], ")", ()
            case _:
                return None
        return f"{name}(", fields(cell), ")", labels

    def listed(self, begin: str, cells: Sequence[Cell], end: str, names: Sequence[str]) -> None:
        """Appends several values between brackets."""
        self.literal(begin)
        for i, cell in enumerate(cells):
            self.literal((", " if i else "") + (names[i] if names else ""))
            self.show(cell)
        self.literal(end)

    def pieces(self, text: Text, cells: Sequence[Cell]) -> None:
        """Appends an f-string."""
        rest = iter(cells)
        for piece in text.pieces:
            if isinstance(piece, str):
                self.literal(piece)
                continue
            cell = next(rest)
            if not piece.spec:
                self.show(cell, piece.is_repr)
            elif not isinstance(cell.known.type, model.Number):
                raise CompileError(f"{cell.known} cannot be formatted by {piece.spec!r}", help="format its parts")
            else:
                self.formatted(cell, cell.known.type, piece.spec)

    # Numbers

    def formatted(self, cell: Cell, type: model.Number, text: str) -> None:
        """Appends a run-time number in the format of an f-string."""
        spec = Spec(text)
        if type == model.BOOL and not text:
            self.choose(cell, ("True", "False"))
        elif type.is_complex:
            self.complex(cell, text)
        elif type.is_float or spec.kind in FLOAT_KINDS:
            self.float(cell, type, spec)
        elif spec.precision is not None:
            raise CompileError(
                "the format of an integer cannot have a precision", help="write {n:8d}, {n:08x} or the like"
            )
        elif spec.kind not in ("", "d"):
            self.digits(cell, type, spec)
        elif type != model.UINT64:
            self.convert(spec.conversion("d"), cell, model.INT64)
        elif spec.sign:  # in C only signed integers can show a plus
            raise CompileError("printf cannot print a sign for a uint64", help="leave the sign out of the format")
        else:
            self.convert(spec.conversion("u"), cell, type)

    def digits(self, cell: Cell, type: model.Number, spec: Spec) -> None:
        """Appends hexadecimal or octal digits. A mask has those of its 32 bits."""
        negative, magnitude = self.unsigned(cell, type)
        if negative.known.constant and not spec.alternate and not spec.sign:
            self.convert(spec.conversion(spec.kind), magnitude, model.UINT64)
            return
        if spec.width:
            form = f"{spec.kind} with a sign or a prefix, padded to a width,"
            raise CompileError(f"printf has no {form} for {cell.known}", help="make it unsigned, np.uint32(n): {n:08x}")
        self.choose(negative, ("-", spec.sign))
        self.literal(f"0{spec.kind}" * spec.alternate)
        self.convert(f"%{spec.kind}", magnitude, model.UINT64)

    def complex(self, cell: Cell, spec: str) -> None:
        """Appends a complex number in brackets."""
        if spec:
            raise CompileError("a complex number cannot be printed with a format", help="print .real and .imag")
        real, imaginary = self.frame.field(cell, 0), self.frame.field(cell, 1)
        number = imaginary.known.type
        assert isinstance(number, model.Number)
        digits = digits_of(number)
        self.literal("(")
        self.convert(f"%.{digits}g", real, model.FLOAT64)
        self.convert(f"%+.{digits}g", imaginary, model.FLOAT64)
        self.literal("j)")

    def float(self, cell: Cell, type: model.Number, spec: Spec) -> None:
        """Appends a float, or an integer in a format for floats.

        Without a kind, it is printed with the digits of its precision, and with `.0` if these show no fraction.
        """
        wide = Cell(of_type(model.FLOAT64), self.frame.materialise(cell, model.FLOAT64))
        if spec.kind in FLOAT_KINDS:
            self.convert(spec.conversion(spec.kind), wide, model.FLOAT64)
            return
        if spec.kind or spec.width or spec.alternate:
            raise CompileError(
                f"a float cannot be printed with the format {spec.text!r}",
                help="use a format for floats: {x:8.3f}, {x:.3e}, {x:10g}; int(x) makes it an integer",
            )
        digits = max(digits_of(type) if spec.precision is None else spec.precision, 1)
        powers = self.frame.tuple([Cell(Known(model.FLOAT64, math.pow(10, i + 1))) for i in range(digits)])
        whole = self.frame.run(prelude.looks_whole, wide, powers)
        self.convert(spec.conversion("g", digits), wide, model.FLOAT64)
        self.choose(whole, (".0", ""))

    def unsigned(self, cell: Cell, type: model.Number) -> tuple[Cell, Cell]:
        """Whether an integer is negative, and its magnitude, a uint64."""
        frame, negative = self.frame, Cell(constant(False))
        if type == model.MASK:
            cell = Cell(of_type(model.UINT32), frame.materialise(cell, model.UINT32))
        elif type.signed and not cell.known.nonneg:
            wide = Cell(of_type(model.INT64), frame.materialise(cell, model.INT64))
            cell, negative = frame.run(prelude.magnitude, wide), frame.operate("<", wide, Cell(constant(0)))
        return negative, Cell(of_type(model.UINT64), frame.materialise(cell, model.UINT64))


def _constant(known: Known, is_repr: bool) -> str:
    """A constant as Python shows it."""
    value = known.python
    shown = repr(value) if isinstance(value, list | dict) else ""  # of the host
    is_plain = isinstance(value, str | bytes | enum.Enum | type | EllipsisType) or (shown and " at 0x" not in shown)
    if isinstance(known.type, model.Static) and not is_plain:
        raise CompileError(
            f"{known} cannot be printed in device code", help="print numbers, and values that consist of numbers"
        )
    value = _rounded(known)
    return repr(value) if is_repr else str(value)


def _rounded(known: Known) -> object:
    """The value of a constant, rounded to the digits with which a run-time float of its type is printed."""
    type, value = known.type, known.python
    if isinstance(type, model.Number) and type.is_float and type.bits < 64 and not type.builtin:
        return float(f"{value:.{digits_of(type)}g}")
    return value


# f-strings are constants, or bundles with run-time values, which `print`, `assert` and exceptions show.
#
# f"x = {x:.3f}\\n"        Text(("x = ", TextField(".3f"), "\\n")) of x


_CONVERSIONS: dict[str, Callable[[object], object]] = {"": lambda value: value, "s": str, "r": repr, "a": ascii}


def _is_constant(known: Known) -> bool:
    """Whether the value is a Python object at compile time."""
    if isinstance(known.type, model.Tuple):
        return all(map(_is_constant, known.items))
    return known.constant and not isinstance(known.type, model.Bundle)


def format_part(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """A field of an f-string: a constant, or a part of a run-time string."""
    spec = cells[1].known.value if len(cells) > 1 else ""
    if not isinstance(spec, str):
        raise CompileError(
            "a format in device code must consist of constants", help="write the width and the precision as numbers"
        )
    return [_field(frame, cells[0], spec, str(op.attributes["conversion"]))]


def _field(frame: Frame, cell: Cell, spec: str, conversion: str) -> Cell:
    """Formats a value."""
    value = cell.known
    if isinstance(value.value, Text) and not (spec or conversion):
        return cell
    if not _is_constant(value):
        if isinstance(value.value, Text) or (spec and conversion):
            raise CompileError(
                f"{value.shown} cannot be formatted in this way", help="write one f-string: f'{n} {x:8.3f}'"
            )
        return frame.bundle(Text((TextField(spec, conversion in ("r", "a")),)), [cell])
    try:
        text = format(_CONVERSIONS[conversion](value.python if spec else _rounded(value)), spec)
    except (TypeError, ValueError) as error:
        raise CompileError(
            f"the f-string cannot format {value}: {error}", help="use a format that Python supports for this type"
        ) from None
    return Cell(constant(text))


def make_string(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Joins the parts of an f-string."""
    if all(cell.known.constant and isinstance(cell.known.value, str) for cell in cells):
        return [Cell(constant("".join(str(cell.known.value) for cell in cells)))]
    pieces: list[str | TextField] = []
    parts: list[Cell] = []
    for cell in cells:
        text = cell.known.value
        if isinstance(text, Text):
            pieces += text.pieces
            parts += frame.fields(cell)
        else:
            pieces.append(str(text))
    return [frame.bundle(Text(tuple(pieces)), parts)]


# The messages of exceptions: constant text with at most two run-time numbers.
#
#     raise IndexError(f"no row {i}")      →      report {message="IndexError: no row {0}"} %i
#     assert x > 0.5, x                    →      report {message="AssertionError: {0.float32}"} %bits_of_x
#
# The host gets each number in 64 bits, and formats the message in Python (see `runtime/gpu/report_message`).


_MOST_NUMBERS = 2


def message_of(frame: Frame, cells: Sequence[Cell], shows_repr: bool = False) -> tuple[str, list[Cell]]:
    """The message of an exception with these arguments, and the numbers that `{0}` and `{1}` in it stand for."""
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
    """Like a printed line, with Python's formats instead of those of printf."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.numbers: list[Cell] = []

    def argument(self, cell: Cell, is_repr: bool) -> None:
        """Appends an argument of the exception: its value, or its type if the message cannot show the value."""
        before, count = self.format, len(self.numbers)
        try:
            self.show(cell, is_repr)
        except CompileError:
            if isinstance(cell.known.value, Text):
                raise
            self.format = before
            del self.numbers[count:]
            self.literal(str(cell.known))

    def literal(self, text: str) -> None:
        """Appends a text."""
        self.format += text.replace("{", "{{").replace("}", "}}")

    def formatted(self, cell: Cell, type: model.Number, spec: str) -> None:
        """Appends a run-time number in a format."""
        if type.is_complex or len(self.numbers) == _MOST_NUMBERS or not _fits(spec, type):
            raise CompileError(
                f"the message of an exception can have at most {_MOST_NUMBERS} run-time numbers, in Python's formats, "
                "and constants",
                help="print the rest before: print(f'…')",
            )
        form = _form(type)
        shown = f":{spec}" if spec else "!s"  # without a format, as `str` shows it
        self.format += f"{{{len(self.numbers)}{form and f'.{form}'}{shown}}}"
        if type.is_float:
            wide = Cell(of_type(model.FLOAT64), self.frame.materialise(cell, model.FLOAT64))
            cell = self.frame.call(self.frame.bundle(Method("view"), [wide]), [self.frame.literal(np.int64)], {})
        self.numbers.append(Cell(of_type(model.INDEX), self.frame.materialise(cell, model.INDEX)))  # 64 bits


def _fits(spec: str, type: model.Number) -> bool:
    """Whether Python accepts a format for numbers of a type."""
    try:
        format(1.0 if type.is_float else True if type == model.BOOL else 1, spec)
    except ValueError:
        return False
    return "{" not in spec and "}" not in spec


def _form(type: model.Number) -> str:
    """How the host interprets the bits: the name of a property of `ReportedNumber`, or "" for an integer."""
    if type.is_float:
        return f"float{type.bits}" if type.builtin or str(type) in ("float16", "float32") else "float64"
    return str(type) if type in (model.BOOL, model.UINT64) else ""
