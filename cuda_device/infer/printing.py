"""`print` in device code: what is known while compiling becomes text, the rest conversions of C's printf.

    print("x =", x, f"{y:.3f}")      →      print {format="x = %d %.3f\\n"} %x %y

A GPU prints with printf, and the CPU as printf would, so the text is the same. A float without a format is printed with the
digits that are about as good as the number (4 for float16, 7 for float32, 15 for float64) and, as in Python, a point.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType

from cuda_device.device.printf_formats import Spec, digits_of, parse
from cuda_device.errors import CompileError
from cuda_device.infer import printed_complexes
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import complexes, references
from cuda_device.infer.meanings import Keywords, Named, Text, Thing, means
from cuda_device.infer.varying import Options
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import prelude
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.model import (
    BOOL,
    FLOAT64,
    INT64,
    MASK,
    UINT32,
    UINT64,
    Array,
    Bundle,
    Number,
    Range,
    Static,
    Struct,
    Tuple,
    Vector,
)
from cuda_device.types.vectors import host_vector

# CUDA's printf takes no more.
_MOST = 32
_BASES = {"x": 16, "X": 16, "o": 8, "b": 2}
_TOGETHER = 4
_TEXTS = ("", *(format(bits, f"0{count}b") for count in range(1, _TOGETHER + 1) for bits in range(1 << count)))
"""All texts of up to four zeros and ones."""
_FLOAT_KINDS = tuple("eEfFgG%")


def print_(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`print(…, sep=" ", end="\\n")`."""
    for name in named:
        if name not in ("sep", "end", "file", "flush"):
            raise CompileError(f"print has no keyword {name!r}", help="there are sep, end, file and flush")
    if "file" in named and named["file"].known.value not in (None, sys.stdout):
        raise CompileError("print in device code writes to the standard output", help="leave file=… out")
    separator, end = _text(named, "sep", " "), _text(named, "end", "\n")
    if printed_complexes.print_one_of(frame, positional, separator, end):
        return Cell(constant(None))
    line = Line(frame)
    for i, cell in enumerate(positional):
        if i:
            line.literal(separator)
        line.show(cell, is_repr=False)
    line.literal(end)
    line.emit()
    return Cell(constant(None))


def _text(named: Mapping[str, Cell], name: str, default: str) -> str:
    value = named[name].known.value if name in named else None
    if not isinstance(value, str | None):
        raise CompileError(
            f"{name} of print is a constant string, not {named[name].known}", help="write it as a literal"
        )
    return default if value is None else value


class Line:
    """One call of `print`: the format, the values, and for bools the two texts."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.format = ""
        self.values: list[Value] = []
        self.choices: list[tuple[str, ...] | None] = []

    def emit(self) -> None:
        """Writes the operation."""
        if "\0" in self.format:
            raise CompileError("a text with the character 0 cannot be printed", help="leave it out")
        if len(self.values) > _MOST:
            raise CompileError(
                f"print takes {_MOST} numbers at most, not {len(self.values)}", help="print them in two calls"
            )
        if self.format:
            self.frame.build.effect(ops.PRINT, *self.values, format=self.format, choices=tuple(self.choices))

    def literal(self, text: str) -> None:
        """A text."""
        self.format += text.replace("%", "%%")

    def convert(self, conversion: str, cell: Cell, type: Number) -> None:
        """A number, as 64 bits."""
        self.format += conversion
        self.values.append(self.frame.materialise(cell, type))
        self.choices.append(None)

    def choose(self, condition: Cell, texts: tuple[str, str]) -> None:
        """One of two texts."""
        if condition.known.constant:
            self.literal(texts[0] if condition.known.value else texts[1])
            return
        self.format += "%s"
        self.values.append(self.frame.materialise(condition, BOOL))
        self.choices.append(texts)

    def select(self, number: Cell, texts: Sequence[str]) -> None:
        """One of several texts, by its number."""
        if len(texts) == 2:  # of which a condition chooses
            self.choose(self.ask(prelude.is_equal, number, Cell(constant(0))), (texts[0], texts[1]))
            return
        self.format += "%s"
        self.values.append(self.frame.materialise(number, INT64))
        self.choices.append(tuple(texts))

    # What Python shows

    def show(self, cell: Cell, is_repr: bool = True) -> None:
        """A value, as `str` or `repr` show it."""
        cell = references.value_of(self.frame, cell)
        known, field = cell.known, self.frame.field
        if isinstance(known.value, Text):
            (self.quoted if is_repr else self.pieces)(known.value, self.frame.fields(cell))
        elif known.constant and not isinstance(known.type, Bundle | Tuple):
            self.literal(_constant(known, is_repr))
        elif isinstance(known.type, Number):
            self.number(cell, known.type, Spec())
        elif isinstance(known.type, Tuple) or means(known, Thing.LIST):
            begin, end = "[]" if means(known, Thing.LIST) else "()"
            end = f",{end}" if begin == "(" and len(known.items) == 1 else end
            self.listed(begin, self.frame.fields(cell), end)
        elif isinstance(known.value, Keywords):
            names = [f"{name!r}: " for name in known.value.names]
            self.listed("{", self.frame.fields(cell), "}", names)
        elif printed_complexes.is_decided(known):
            self.parts_of_complex(self.frame.fields(cell))
        elif isinstance(known.value, Options):
            self.select(field(cell, 0), [repr(each) if is_repr else str(each) for each in known.value.objects])
        elif isinstance(known.value, Named):
            names = [f"{name}=" for name in known.value.names]
            self.listed(f"{known.value.cls.__name__}(", self.frame.fields(cell), ")", names)
        elif isinstance(known.type, Vector):
            parts = [field(cell, i) for i in range(known.type.size)]
            self.listed(f"{_name(known.type)}(", parts, ")")
        elif isinstance(known.type, Struct):
            names = [f"{member.name}=" for member in known.type.fields]
            self.listed(f"{known.type.name}(", [field(cell, i) for i in range(len(names))], ")", names)
        elif isinstance(known.type, Range):
            parts = [field(cell, i) for i in range(3)]
            self.listed("range(", parts[: 2 if parts[2].known.value == 1 else 3], ")")
        else:
            what = "print its elements" if isinstance(known.type, Array) else "print numbers, and what is made of them"
            raise CompileError(f"{known} cannot be printed in device code", help=what)

    def listed(self, begin: str, cells: Sequence[Cell], end: str, names: Sequence[str] = ()) -> None:
        """Several values between brackets."""
        self.literal(begin)
        for i, cell in enumerate(cells):
            self.literal((", " if i else "") + (names[i] if names else ""))
            self.show(cell)
        self.literal(end)

    def pieces(self, text: Text, cells: Sequence[Cell]) -> None:
        """An f-string."""
        rest = iter(cells)
        for piece in text.pieces:
            if isinstance(piece, str):
                self.literal(piece)
                continue
            cell = next(rest)
            if not piece.spec:
                self.show(cell, piece.is_repr)
            elif piece.is_text and cell.known.type == BOOL:
                self.choose(cell, (format("True", piece.spec), format("False", piece.spec)))
            elif piece.is_repr or not isinstance(cell.known.type, Number):
                raise CompileError(f"{cell.known} cannot be formatted by {piece.spec!r}", help="format its parts")
            else:
                self.formatted(cell, cell.known.type, piece.spec)

    def quoted(self, text: Text, cells: Sequence[Cell]) -> None:
        """A text as `repr` shows it: between quotes that are none of its own, or escaped."""
        before, self.format = self.format, ""
        self.pieces(text, cells)
        self.format = before + repr(self.format)

    # Numbers

    def formatted(self, cell: Cell, type: Number, spec: str) -> None:
        """A number, in the format that an f-string gives it."""
        self.number(cell, type, parse(spec))

    def integer(self, cell: Cell, type: Number, spec: Spec) -> None:
        """An integer in decimals."""
        if type != UINT64:
            self.convert(spec.conversion("d"), cell, INT64)
            return
        if spec.sign and (not spec.width or set(spec.flags) & {"0", "-"}):
            # In C only signed numbers have a sign. It stands before all else, unless blanks do.
            self.literal(spec.sign)
            spec = replace(spec, sign="", width=max(spec.width - 1, 0))
        self.convert(spec.conversion("u"), cell, UINT64)

    def number(self, cell: Cell, type: Number, spec: Spec) -> None:
        """A number of run time."""
        if type == BOOL and spec.plain:
            self.choose(cell, ("True", "False"))
        elif type.is_complex:
            self.complex(cell, type, spec)
        elif type.is_float or spec.kind in _FLOAT_KINDS:
            self.float(cell, type, spec)
        elif spec.kind in ("", "d") and spec.precision is None:
            self.integer(cell, type, spec)
        elif spec.kind in _BASES and spec.precision is None:
            self.digits(cell, type, spec)
        else:
            raise CompileError(
                f"an integer cannot be printed by the format of kind {spec.kind!r}",
                help="there are d, x, X, o, b and those of floats",
            )

    def complex(self, cell: Cell, type: Number, spec: Spec) -> None:
        """Both parts, as Python shows them unless the real one is zero."""
        if not spec.plain:
            raise CompileError("a complex number cannot be printed with a format", help="print .real and .imag")
        self.parts_of_complex(complexes.parts(self.frame, cell))

    def parts_of_complex(self, parts: Sequence[Cell]) -> None:
        """The real and the imaginary part between brackets, or the imaginary part alone."""
        *real, imaginary = parts
        number = imaginary.known.type
        assert isinstance(number, Number)
        digits = digits_of(number)
        if real:
            self.literal("(")
            self.convert(f"%.{digits}g", real[0], FLOAT64)
        self.convert(f"%{'+' if real else ''}.{digits}g", imaginary, FLOAT64)
        self.literal("j)" if real else "j")

    def float(self, cell: Cell, type: Number, spec: Spec) -> None:
        """A float, or an integer as one."""
        if spec.kind and spec.kind not in _FLOAT_KINDS:
            raise CompileError(
                f"a float cannot be printed by the format of kind {spec.kind!r}",
                help=f"there are {', '.join(_FLOAT_KINDS)}; int(…) makes it an integer",
            )
        wide = Cell(of_type(FLOAT64), self.frame.materialise(cell, FLOAT64))
        if spec.kind == "%":
            if spec.flags or spec.width:
                raise CompileError("the format % takes no width in device code", help="write {100 * x:8.2f}%")
            hundred = Cell(Known(FLOAT64, 100.0))
            self.convert(
                spec.conversion("f", 6 if spec.precision is None else None), self.product(wide, hundred), FLOAT64
            )
            self.literal("%")
        elif spec.kind or spec.alternate:
            digits = digits_of(type) if not spec.kind and spec.precision is None else spec.precision
            flags = Spec("#" * spec.alternate + spec.flags, spec.sign, False, spec.width, digits)
            self.convert(flags.conversion(spec.kind.replace("F", "f") or "g"), wide, FLOAT64)
        else:
            self.shortest(wide, max(digits_of(type) if spec.precision is None else spec.precision, 1), spec)

    def shortest(self, wide: Cell, digits: int, spec: Spec) -> None:
        """A float64 with the digits that say something, so many at most; one that looks whole gets a point."""
        powers = self.frame.tuple([Cell(Known(FLOAT64, math.pow(10, i + 1))) for i in range(digits)])
        whole = self.ask(prelude.looks_whole, wide, powers)
        if not spec.width:
            self.convert(spec.conversion("g", digits), wide, FLOAT64)
            self.choose(whole, (".0", ""))
            return
        width, left = Cell(constant(spec.width)), "-" in spec.flags
        columns = self.ask(prelude.before_point, width, whole, Cell(constant(left)))
        self.convert(f"%{spec.sign}{spec.flags}*.{digits}g", columns, INT64)
        self.convert("", wide, FLOAT64)
        self.choose(whole, (".0", ""))
        if left:
            self.blanks(self.ask(prelude.behind_point, wide, width, whole, Cell(constant(bool(spec.sign)))))

    def ask(self, function: Callable[..., object], *cells: Cell) -> Cell:
        """What a function of ours makes of values."""
        return self.frame.program.call(self.frame, function, cells, {})

    def product(self, a: Cell, b: Cell) -> Cell:
        """a * b of float64."""
        values = [self.frame.materialise(cell, FLOAT64) for cell in (a, b)]
        return self.frame.emit(ops.PY_BINARY, of_type(FLOAT64), *values, op="*")

    def digits(self, cell: Cell, type: Number, spec: Spec) -> None:
        """Hexadecimal, octal or binary digits, behind a sign. Of a mask they are those of its 32 bits."""
        negative, magnitude = self.unsigned(cell, type)
        prefix = f"0{spec.kind}" if spec.alternate else ""
        is_signed = bool(spec.sign) or not (negative.known.constant and not negative.known.value)
        left, zero = "-" in spec.flags, "0" in spec.flags
        width = Cell(constant(max(spec.width - len(prefix) - bool(spec.sign), 0)))
        behind = Cell(constant(False)) if spec.sign else negative
        blanks = (magnitude, behind, width, Cell(constant(_BASES[spec.kind])))
        if spec.width and not (left or zero):
            self.blanks(self.ask(prelude.columns_left, *blanks))
        if is_signed:
            self.choose(negative, ("-", spec.sign))
        self.literal(prefix)
        columns = self.ask(prelude.without_sign, width, behind) if zero else Cell(constant(0))
        if spec.kind == "b":
            most = int(str(width.known.value)) if zero else 0
            self.binary(magnitude, type.bits, columns, most)
        elif columns.known.value == 0:
            self.convert(f"%{spec.kind}", magnitude, UINT64)
        else:
            self.convert(f"%0*{spec.kind}", columns, INT64)
            self.convert("", magnitude, UINT64)
        if spec.width and left:
            self.blanks(self.ask(prelude.columns_left, *blanks))

    def binary(self, magnitude: Cell, bits: int, columns: Cell, most: int) -> None:
        """Binary digits, `columns` at least, which are `most` or, behind a sign, one less. Printf has none: they are texts."""
        if most > bits:
            self.literal("0" * (most - 1 - bits))
            self.choose(self.ask(prelude.is_beyond, columns, Cell(constant(most - 1))), ("0", ""))
        for first in reversed(range(0, bits, _TOGETHER)):
            place, together = Cell(constant(first)), Cell(constant(_TOGETHER))
            self.select(self.ask(prelude.binary_digits, magnitude, columns, place, together), _TEXTS)

    def unsigned(self, cell: Cell, type: Number) -> tuple[Cell, Cell]:
        """Whether an integer is negative, and its magnitude, a uint64."""
        frame = self.frame
        if type == MASK:
            low = Cell(of_type(UINT32), frame.materialise(cell, UINT32))
            return Cell(constant(False)), Cell(of_type(UINT64), frame.materialise(low, UINT64))
        if not type.signed or cell.known.nonneg:
            return Cell(constant(False)), Cell(of_type(UINT64), frame.materialise(cell, UINT64))
        wide = Cell(of_type(INT64), frame.materialise(cell, INT64))
        magnitude = self.ask(prelude.magnitude, wide)
        return self.ask(prelude.is_negative, wide), Cell(of_type(UINT64), frame.materialise(magnitude, UINT64))

    def blanks(self, columns: Cell) -> None:
        """So many spaces."""
        self.convert("%*s", columns, INT64)
        self.values.append(self.frame.build.const(BOOL, True))
        self.choices.append(("", ""))


def _name(vector: Vector) -> str:
    """What the host calls vectors of this type."""
    host = host_vector(vector)
    return host.__name__ if host is not None else str(vector)


def _constant(known: Known, is_repr: bool) -> str:
    """A constant as Python shows it."""
    value = known.python
    shown = repr(value) if isinstance(value, list | dict) else ""  # of the host
    is_plain = isinstance(value, str | bytes | enum.Enum | type | EllipsisType) or (shown and " at 0x" not in shown)
    if isinstance(known.type, Static) and not is_plain:
        raise CompileError(f"{known} cannot be printed in device code", help="print numbers, and what is made of them")
    return repr(value) if is_repr else str(value)
