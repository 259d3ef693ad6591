"""Host objects that device code reads at compile time: arrays, lists, dicts, enumerations and objects with methods.

    WEIGHTS = np.array([1, 4, 1], np.float32)

    WEIGHTS[1], len(WEIGHTS), WEIGHTS.shape     constants
    WEIGHTS[i]                                  a load from constant memory, which holds the array as it is now

Lists and tuples of the host and the members of an enumeration become tuples. Dicts are looked up at compile time.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from cuda_device.device.memory import CONSTANT_ARRAY
from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.meanings import DictView, Keywords
from cuda_device.types.host import is_struct
from cuda_device.types.known import Known, constant, describe
from cuda_device.types.model import Bundle, Number, Static, Tuple
from cuda_device.types.vector_classes import VectorValue

# The maximum length of the resulting tuples, whose items are separate values.
_MOST_ITEMS = 1024


# Arrays


def is_array(known: Known) -> bool:
    """Whether a value is a NumPy array of the host."""
    return isinstance(known.type, Static) and isinstance(known.value, np.ndarray)


def as_array(frame: Frame, cell: Cell) -> Cell:
    """Converts a NumPy array of the host to an array in constant memory. Returns other values unchanged."""
    if not is_array(cell.known):
        return cell
    return frame.intrinsic(CONSTANT_ARRAY, frame.ask(CONSTANT_ARRAY, [cell]), [cell])


def table_of(frame: Frame, cell: Cell) -> Cell | None:
    """A long tuple of constant numbers of one type as an array in constant memory; None for other tuples."""
    return _table(frame, [cell.known.items], _FEW)


def table_of_rows(frame: Frame, cell: Cell) -> Cell | None:
    """A tuple of equally long tuples of constant numbers of one type as a 2-d array in constant memory; None for others."""
    return _table(frame, [row.items if isinstance(row.type, Tuple) else () for row in cell.known.items], _FEW * _FEW)


def _table(frame: Frame, rows: Sequence[Sequence[Known]], few: int) -> Cell | None:
    items = [item for row in rows for item in row]
    types = {item.type for item in items}
    if len(items) <= few or len({*map(len, rows)}) > 1 or len(types) > 1 or not all(item.constant for item in items):
        return None
    (type,) = types
    if not isinstance(type, Number) or (type.builtin and type.bits == 64):
        return None
    from cuda_device.types.host import dtype_of_element

    try:
        elements = np.array([item.value for item in items], dtype_of_element(type))
    except OverflowError:
        return None
    return as_array(frame, Cell(constant(elements if len(rows) == 1 else elements.reshape(len(rows), -1))))


# From tuples of at most this length, elements are selected in registers.
_FEW = 8


# Items


def as_items(frame: Frame, cell: Cell) -> Cell:
    """Converts an iterable object of the host, or a dict, to the tuple of its items. Returns other values unchanged."""
    known = cell.known
    if isinstance(known.type, Bundle) and isinstance(known.value, Keywords):
        return frame.tuple([frame.literal(key) for key in known.value.names])
    if isinstance(known.type, Bundle) and isinstance(known.value, DictView):
        return _viewed(frame, frame.field(cell, 0), known.value.name)
    if not isinstance(known.type, Static):
        return cell
    value = known.value
    is_class = isinstance(value, type) and issubclass(value, enum.Enum)
    if not is_class and not isinstance(value, (list, tuple, dict, str, bytes)):
        return cell
    items = list(value)  # type: ignore[call-overload]
    if len(items) > _MOST_ITEMS:
        raise CompileError(
            f"{describe(value)} of {len(items)} items is too long for device code",
            help=f"make a NumPy array of it; the limit is {_MOST_ITEMS}",
        )
    return frame.tuple([frame.literal(item) for item in items])


def _viewed(frame: Frame, cell: Cell, name: str) -> Cell:
    """The items of `d.items()`, `d.keys()` or `d.values()`."""
    keys = cell.known.value
    assert isinstance(keys, Keywords)
    parts = frame.fields(cell)
    shown = [frame.literal(key) for key in keys.names]
    if name == "items":
        return frame.tuple([frame.tuple(pair) for pair in zip(shown, parts, strict=True)])
    return frame.tuple(shown if name == "keys" else parts)


def as_sequence(frame: Frame, cell: Cell) -> Cell:
    """Converts a list, tuple or bytes of the host to a tuple. Returns other values unchanged."""
    is_sequence = isinstance(cell.known.type, Static) and isinstance(cell.known.value, (list, tuple, bytes))
    return as_items(frame, cell) if is_sequence else cell


def elements(frame: Frame, value: np.ndarray[Any, Any]) -> list[Cell]:
    """The elements or rows of an array of the host, which are the same objects on each call."""
    found = (frame.program.once(value, "[]", (i,), functools.partial(value.__getitem__, i)) for i in range(len(value)))
    return [frame.literal(each) for each in found]


def method_of(value: object, name: str) -> FunctionType | None:
    """A special method of the class of an object of the host, if it is a Python function."""
    found = getattr(type(value), name, None)
    return found if isinstance(found, FunctionType) and not isinstance(value, (enum.Enum, np.ndarray)) else None


# Dicts


def as_mapping(frame: Frame, cell: Cell) -> Cell:
    """Converts a dict of the host to a dict of constants. Returns other values unchanged."""
    value = cell.known.value
    if not isinstance(cell.known.type, Static) or not isinstance(value, dict):
        return cell
    return frame.bundle(Keywords(tuple(value)), [frame.literal(item) for item in value.values()])


def position(keys: Keywords, key: Cell) -> int | None:
    """The position of a key in a dict, or None. Raises `CompileError` if the key is not a constant."""
    wanted = key_of(key)
    return next((i for i, name in enumerate(keys.names) if name == wanted), None)


def key_of(key: Cell) -> object:
    """The Python object of a key. Raises `CompileError` if it is not a constant, or not hashable."""
    if not key.known.constant:
        raise CompileError(
            "the key of a dict must be a constant expression",
            help="dicts exist only at compile time: index an array or a tuple, or use if and match",
        )
    try:
        hash(key.known.python)
    except TypeError:
        can_be = False
    else:
        can_be = not _has_bundle(key.known)
    if not can_be:
        raise CompileError(
            f"{key.known} cannot be a key of a dict", help="keys can be numbers, strings, and tuples of these"
        )
    return key.known.python


def _has_bundle(known: Known) -> bool:
    """Whether a value is or contains a bundle, such as a list, a named tuple or a lambda."""
    return isinstance(known.type, Bundle) or any(map(_has_bundle, known.items))


def as_value(frame: Frame, cell: Cell) -> Cell:
    """Converts a vector or struct of the host, which a `ConstExpr` parameter may hold. Returns other values unchanged."""
    value = cell.known.value
    is_value = isinstance(cell.known.type, Static) and (isinstance(value, VectorValue) or is_struct(type(value)))
    return frame.literal(value) if is_value else cell
