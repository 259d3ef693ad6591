"""Sealed tuples: results that the program passes on, and reads when an entity has opened them (`specialised`, in `device`).

x = started(values)        a sealed tuple, a bundle with the meaning `Sealed`
x[0]                       refused: the values are not there yet
values = finished(0, x)    a tuple
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuda_device.device.rows import Intrinsic, Typed
from cuda_device.infer.frame import Cell, Frame
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.sealed import Sealed


def ask(frame: Frame, row: Intrinsic, arguments: Sequence[Cell]) -> Typed:
    """Asks a row that takes sealed tuples: it also learns how many this block has sealed since."""
    return frame.ask(row, [_dated(frame, cell) for cell in arguments])


def _dated(frame: Frame, cell: Cell) -> Cell:
    sealed, values = cell.known.value, frame.sealed_values
    if not isinstance(sealed, Sealed) or cell.value not in values:
        return cell
    newer = len(values) - 1 - values.index(cell.value)
    return Cell(replace(cell.known, value=replace(sealed, newer=newer)), cell.value)


def run(frame: Frame, row: Intrinsic, function: Callable[..., object], arguments: Sequence[Cell]) -> Cell:
    """Calls a function in place of an entity, which seals no tuple but its result."""
    if row.opens:
        sealed = [isinstance(cell.known.value, Sealed) for cell in arguments]
        arguments = [frame.tuple(frame.fields(c)) if s else c for c, s in zip(arguments, sealed, strict=True)]
    sealed_values, frame.sealed_values = frame.sealed_values, []
    result = frame.run(function, *arguments)
    frame.sealed_values = sealed_values
    if row.seals is not None:
        result = frame.bundle(row.seals, frame.fields(result))
        frame.sealed_values += [result.value] if result.value is not None else []
    return result
