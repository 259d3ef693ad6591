"""f-strings: a constant, or with values of run time a bundle that `print`, `assert` and exceptions show.

f"x = {x:.3f}\\n"        Text(("x = ", TextField(".3f"), "\\n")) of x
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import Text, TextField
from cuda_device.ir.nodes import Op
from cuda_device.types.known import Known, constant
from cuda_device.types.model import Bundle, Tuple

_CONVERSIONS: dict[str, Callable[[object], object]] = {"": lambda value: value, "s": str, "r": repr, "a": ascii}


def _is_constant(known: Known) -> bool:
    """Whether Python's own object stands for it while compiling."""
    if isinstance(known.type, Tuple):
        return all(map(_is_constant, known.items))
    return known.constant and not isinstance(known.type, Bundle)


def format_part(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """One part of an f-string: a constant, or a field of a text of run time."""
    spec = cells[1].known.value if len(cells) > 1 else ""
    if not isinstance(spec, str):
        raise CompileError(
            "a format in device code is made of constants", help="write the width and the precision as numbers"
        )
    return [_field(frame, cells[0], spec, str(op.attributes["conversion"]))]


def _field(frame: Frame, cell: Cell, spec: str, conversion: str) -> Cell:
    """A value as text, in a format."""
    value = cell.known
    if isinstance(value.value, Text) and not (spec or conversion):
        return cell
    if not _is_constant(value):
        if isinstance(value.value, Text) or (spec and conversion):
            raise CompileError(f"{value.shown} cannot be formatted so", help="write one f-string: f'{n} {x:8.3f}'")
        return frame.bundle(Text((TextField(spec, conversion in ("r", "a")),)), [cell])
    try:
        text = format(_CONVERSIONS[conversion](value.python), spec)
    except (TypeError, ValueError) as error:
        raise CompileError(
            f"the f-string cannot format {value}: {error}", help="use a format that Python has for this type"
        ) from None
    return Cell(constant(text))


def make_string(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """An f-string: its parts, one after the other."""
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
