"""Texts: f-strings, `str(x)`, `"%d" % n`, `"{}".format(x)`, and what is put together of them.

A text of constants is a constant. One with values of run time is a bundle: pieces of text, and fields for its parts, which
`print` and exceptions can show. So it can be joined with others, and nothing else.

    f"x = {x:.3f}" + "\\n"        Text(("x = ", Field(".3f"), "\\n")) of x
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import Field, Keywords, Text
from cuda_device.ir.nodes import Op
from cuda_device.lazy_patterns import pattern
from cuda_device.types.known import Known, constant
from cuda_device.types.model import Bundle, Number, Static, Tuple

_CONVERSIONS: dict[str, Callable[[object], object]] = {"": lambda value: value, "s": str, "r": repr, "a": ascii}
# More characters than these are no text that somebody prints.
_LONGEST = 10_000


def is_constant(known: Known) -> bool:
    """Whether Python's own object stands for it while compiling."""
    if isinstance(known.type, Tuple):
        return all(map(is_constant, known.items))
    return known.constant and not isinstance(known.type, Bundle)


def _is_text(known: Known) -> bool:
    return isinstance(known.value, str if isinstance(known.type, Static) else Text)


# f-strings


def format_part(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """One part of an f-string: a constant, or a field of a text of run time."""
    spec = _spec(cells[1]) if len(cells) > 1 else ""
    return [field(frame, cells[0], spec, str(op.attributes["conversion"]))]


def _spec(cell: Cell) -> str:
    if not isinstance(cell.known.value, str):
        raise CompileError(
            "a format in device code is made of constants", help="write the width and the precision as numbers"
        )
    return cell.known.value


def field(frame: Frame, cell: Cell, spec: str = "", conversion: str = "") -> Cell:
    """A value as text, in a format."""
    value = cell.known
    if isinstance(value.value, Text):
        if spec and value.value.pieces == (Field(),):
            return field(frame, frame.field(cell, 0), spec, "s")
        if spec and value.value.pieces in _DIGITS:
            return field(frame, frame.field(cell, 0), _wide_digits(spec, value.value.pieces[0]))
        if spec or conversion in ("r", "a"):
            raise CompileError(f"{value} cannot be formatted", help="format what it is made of")
        return cell
    if not is_constant(value):
        is_repr = conversion in ("r", "a") and not spec
        shown = Field(_as_text(spec) if conversion else spec, is_repr, is_text=bool(conversion))
        return frame.bundle(Text((shown,)), [cell])
    try:
        text = format(_CONVERSIONS[conversion](value.python), spec)
    except (TypeError, ValueError) as error:
        raise CompileError(
            f"the f-string cannot format {value}: {error}", help="use a format that Python has for this type"
        ) from None
    return Cell(constant(text))


_DIGITS = tuple((Field(f"#{kind}"),) for kind in "xob")
"""What `hex`, `oct` and `bin` make."""


def _wide_digits(spec: str, digits: object) -> str:
    """The format of a number that shows these digits as that of a text says."""
    assert isinstance(digits, Field)
    width = re.search(r"\d*$", text := _as_text(spec))
    assert width is not None
    return f"{text[: width.start()]}#{width[0]}{digits.spec[1:]}"


_OF_TEXTS = pattern(r"(?:(?P<fill>.)?(?P<align>[<>^]))?(?P<width>\d+)?s?")


def _as_text(spec: str) -> str:
    """The format of a number that has become a text: on the left, if nothing else is said."""
    found = _OF_TEXTS.fullmatch(spec)
    if found is None:
        raise CompileError(f"{spec!r} is no format of texts", help="leave the conversion out: f'{x:8.3f}'")
    return f"{found['fill'] or ''}{found['align'] or '<'}{found['width']}" if found["width"] else ""


def make_string(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """An f-string."""
    return [joined(frame, cells)]


def joined(frame: Frame, cells: Sequence[Cell]) -> Cell:
    """Texts, one after the other."""
    if all(cell.known.constant and isinstance(cell.known.value, str) for cell in cells):
        return Cell(constant("".join(str(cell.known.value) for cell in cells)))
    pieces: list[str | Field] = []
    parts: list[Cell] = []
    for cell in cells:
        text = cell.known.value
        if isinstance(text, Text):
            pieces += text.pieces
            parts += frame.fields(cell)
        else:
            pieces.append(str(text))
    return frame.bundle(Text(tuple(pieces)), parts)


# Operators


def binary(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell | None:
    """`"a" + text`, `text * 3`, `"%d" % n`; None for anything else."""
    if sign == "+" and _is_text(a.known) and _is_text(b.known):
        return joined(frame, [a, b])
    if sign == "%" and isinstance(a.known.value, str) and isinstance(a.known.type, Static):
        return _percent(frame, a.known.value, b)
    for text, count in ((a, b), (b, a)):
        if sign == "*" and _is_text(text.known) and isinstance(count.known.value, int):
            return joined(frame, [text] * _times(text.known.value, count.known.value))
    return None


def _times(text: object, count: int) -> int:
    pieces = (text,) if isinstance(text, str) else text.pieces if isinstance(text, Text) else ()
    length = sum(len(piece) if isinstance(piece, str) else 1 for piece in pieces)
    if count * length > _LONGEST:
        raise CompileError(f"a text of {count * length} characters is too long", help="print it in parts")
    return max(count, 0)


_PERCENT = pattern(
    r"%(?:\((?P<key>[^)]*)\))?(?P<flags>[-+ #0]*)(?P<width>\d+)?(?:\.(?P<precision>\d+))?[hlL]?(?P<kind>[diuxXoeEfFgGsrac%])"
)
_MOST_COLUMNS = 200


def _percent(frame: Frame, template: str, value: Cell) -> Cell:
    """`"%d and %5.1f" % (n, x)`."""
    given = iter(frame.fields(value) if isinstance(value.known.type, Tuple) else [value])
    parts: list[Cell] = []
    end = 0
    for found in _PERCENT.finditer(template):
        parts.append(_between(template[end : found.start()]))
        end = found.end()
        if found["kind"] == "%":
            parts.append(Cell(constant("%")))
            continue
        cell = _keyed(frame, value, found["key"]) if found["key"] is not None else next(given, None)
        if cell is None:
            raise CompileError(f"there are not enough values for the format {template!r}", help="give one for each %")
        parts.append(_converted(frame, found, cell))
    parts.append(_between(template[end:]))
    keyed = isinstance(value.known.value, Keywords)
    if not keyed and next(given, None) is not None:
        raise CompileError(f"there are too many values for the format {template!r}", help="give one for each %")
    return joined(frame, parts)


def _between(text: str) -> Cell:
    if "%" in text:
        raise CompileError(f"{text!r} has a % that begins no format", help="write %% for the character, or an f-string")
    return Cell(constant(text))


def _keyed(frame: Frame, mapping: Cell, key: str) -> Cell:
    from cuda_device.infer import hosted  # which needs texts

    found = hosted.getitem(frame, mapping, Cell(constant(key)))
    if found is None:
        raise CompileError(f"%({key}) takes a dict, not {mapping.known}", help="write %d, or an f-string")
    return found


def _converted(frame: Frame, found: re.Match[str], cell: Cell) -> Cell:
    """One value, as `%` shows it."""
    width, kind = int(found["width"] or 0), found["kind"]
    if max(width, int(found["precision"] or 0)) > _MOST_COLUMNS:
        raise CompileError(f"the format {found[0]!r} is too wide", help=f"{_MOST_COLUMNS} columns are the most")
    if is_constant(cell.known):
        plain = re.sub(r"\(.*?\)", "", found[0], count=1) if found["key"] is not None else found[0]
        try:
            return Cell(constant(plain % (cell.known.python,)))
        except (TypeError, ValueError) as error:
            raise CompileError(f"{found[0]!r} cannot show {cell.known}: {error}", help="use another format") from None
    if kind == "c" or (found["precision"] and kind in "diuxXosra"):
        raise CompileError(f"{found[0]!r} takes constants in device code", help="use another format")
    if kind in "sra":
        return field(frame, cell, f"{'<' if '-' in found['flags'] else '>'}{width}" if width else "", kind)
    if kind in "diu" and isinstance(cell.known.type, Number) and cell.known.type.is_float:
        from cuda_device.infer.calls import call  # they need operators, which need texts

        cell = call(frame, frame.literal(int), [cell], {})
    return field(frame, cell, _python_spec(found))


def _python_spec(found: re.Match[str]) -> str:
    """The same in the words of `format`."""
    flags, kind = found["flags"], found["kind"]
    sign = "+" if "+" in flags else " " if " " in flags else ""
    left, zero = "-" in flags, "0" in flags and "-" not in flags
    precision = f".{found['precision']}" if found["precision"] else ""
    shown = "d" if kind in "iu" else kind
    width = found["width"] or ""
    return f"{'<' * (left and bool(width))}{sign}{'#' * ('#' in flags)}{'0' * zero}{width}{precision}{shown}"


# Methods of texts


def _format(template: str, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`"{} {x:.3f}".format(n, x=v)`."""
    import string  # which few programs need

    parts: list[Cell] = []
    count = 0
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise CompileError(f"{template!r} is no format: {error}", help="write {{ and }} for braces") from None
    for text, name, spec, conversion in pieces:
        parts.append(Cell(constant(text)))
        if name is None:
            continue
        cell = _found(frame, template, name or str(count), positional, named)
        count += not name
        wanted = Cell(constant(spec or ""))
        if spec and "{" in spec:
            wanted = _format(spec, frame, positional[count:], named)
            count += spec.count("{}")
        parts.append(field(frame, cell, _spec(wanted), conversion or ""))
    return joined(frame, parts)


def _found(frame: Frame, template: str, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """The value that a field names: `0`, `x`, `0.real`."""
    first, *attributes = name.split(".")
    cell = named.get(first)
    if first.isdigit() and int(first) < len(positional):
        cell = positional[int(first)]
    if cell is None:
        raise CompileError(f"there is no value {first!r} for the format {template!r}", help="give one for each {}")
    for attribute in attributes:
        from cuda_device.infer.functionals import get_attribute  # which needs texts

        cell = get_attribute(frame, [cell, Cell(constant(attribute))], {})
    return cell


def _join(separator: str, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`", ".join(texts)`."""
    from cuda_device.infer.generators import check_count, no_keywords
    from cuda_device.infer.kinds import sequences  # which need texts

    no_keywords("join", named)
    check_count("join", positional, 1, 1)
    items = sequences.items_of(frame, positional[0], "join")
    for cell in items:
        if not _is_text(cell.known):
            raise CompileError(f"join takes texts, not {cell.known}", help="make texts of the items: str(x)")
    between = Cell(constant(separator))
    return joined(frame, [each for cell in items for each in (between, cell)][1:])


METHODS: dict[str, Callable[..., Cell]] = {"format": _format, "join": _join}
"""Methods of constant texts that take values of run time."""


def _with_spec(frame: Frame, cell: Cell, spec: Cell | None = None) -> Cell:
    return field(frame, cell, "" if spec is None else _spec(spec))


FUNCTIONS: dict[Any, Callable[..., Cell]] = {
    str: field,
    repr: lambda frame, cell: field(frame, cell, conversion="r"),
    ascii: lambda frame, cell: field(frame, cell, conversion="a"),
    format: _with_spec,
    hex: lambda frame, cell: field(frame, cell, "#x"),
    oct: lambda frame, cell: field(frame, cell, "#o"),
    bin: lambda frame, cell: field(frame, cell, "#b"),
}
"""Builtins that make a text of a value of run time."""
