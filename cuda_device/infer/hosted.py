"""Host objects that device code reads at compile time: functions, classes, modules, strings, arrays, lists and enumerations.

    WEIGHTS = np.array([1, 4, 1], np.float32)

    WEIGHTS[1], len(WEIGHTS), WEIGHTS.shape     constants
    WEIGHTS[i]                                  a load from constant memory, which holds the array as it is now

Lists and tuples of the host and the members of an enumeration become tuples, and ranges those of device code. Dicts are looked up
at compile time. Attributes are those that Python's own `getattr` finds. `contents` notices later changes.
"""

from __future__ import annotations

import enum
import functools
import inspect
from types import MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from cuda_device.errors import CompileError, not_constant
from cuda_device.infer.dependencies import MISSING
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.indexing import MOST_ITEMS
from cuda_device.infer.meanings import DictView, Keywords, Method, means
from cuda_device.ir.nodes import Op
from cuda_device.lazy_imports import import_lazily
from cuda_device.types.host import dtype_of_element
from cuda_device.types.known import Known, constant, describe, walk
from cuda_device.types.model import Bundle, Number, Static, Tuple

if TYPE_CHECKING:
    from cuda_device.infer import remedies
else:
    import_lazily(globals(), "cuda_device.infer", "remedies")


# Arrays


def is_array(known: Known) -> bool:
    """Whether a value is a NumPy array of the host."""
    return isinstance(known.type, Static) and isinstance(known.value, np.ndarray)


def as_array(frame: Frame, cell: Cell) -> Cell:
    """Converts a NumPy array of the host to an array in constant memory. Returns other values unchanged."""
    if not is_array(cell.known):
        return cell
    return frame.constant_array(cell)


def table_of(frame: Frame, cell: Cell) -> Cell | None:
    """A long tuple of constant numbers of one type, or of equally long such tuples, as an array in constant memory, or None."""
    rows = [item.items for item in cell.known.items if isinstance(item.type, Tuple)]
    has_rows = bool(rows) and len(rows) == len(cell.known.items) and len({*map(len, rows)}) == 1
    items = [item for row in rows for item in row] if has_rows else cell.known.items
    types = {item.type for item in items}
    few = _FEW * _FEW if has_rows else _FEW
    if len(items) <= few or len(types) > 1 or not all(item.constant for item in items):
        return None
    (type,) = types
    if not isinstance(type, Number) or (type.builtin and type.bits == 64):
        return None
    try:
        elements = np.array([item.value for item in items], dtype_of_element(type))
    except OverflowError:
        return None
    return as_array(frame, Cell(constant(elements.reshape(len(rows), -1) if has_rows else elements)))


# From tuples of at most this length, elements are selected in registers.
_FEW = 8


# Items


def as_items(frame: Frame, cell: Cell) -> Cell:
    """Converts an iterable object of the host, or a dict, to the tuple of its items or a range. Returns others unchanged."""
    known = cell.known
    if isinstance(known.type, Bundle) and isinstance(known.value, Keywords):
        return frame.tuple([frame.literal(key) for key in known.value.names])
    if isinstance(known.type, Bundle) and isinstance(known.value, DictView):
        return _viewed(frame, frame.field(cell, 0), known.value.name)
    if not isinstance(known.type, Static):
        return cell
    value = known.value
    if isinstance(value, range):
        row, bounds = frame.program.row(range), [*map(frame.literal, (value.start, value.stop, value.step))]
        assert row is not None
        return frame.intrinsic(row, frame.ask(row, bounds), bounds)
    is_class = isinstance(value, type) and issubclass(value, enum.Enum)
    if not is_class and not isinstance(value, (list, tuple, dict, str, bytes)):
        return cell
    items = list(value)  # type: ignore[call-overload]
    if len(items) > MOST_ITEMS:
        raise CompileError(
            f"{describe(value)} of {len(items)} items is too long for device code",
            help=f"make a NumPy array of it; the limit is {MOST_ITEMS}",
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
    items = (frame.program.once(value, "[]", (i,), functools.partial(value.__getitem__, i)) for i in range(len(value)))
    return [frame.literal(item) for item in items]


# Dicts


def as_mapping(frame: Frame, cell: Cell) -> Cell:
    """Converts a dict of the host to a dict of constants. Returns other values unchanged."""
    value = cell.known.value
    if not isinstance(cell.known.type, Static) or not isinstance(value, dict):
        return cell
    return frame.bundle(Keywords(tuple(value)), [frame.literal(item) for item in value.values()])


def position(keys: Keywords, key: Cell) -> int | None:
    """The position of a key in a dict, or None. Raises `CompileError` if the key is not a constant."""
    value = key_of(key)
    return next((i for i, name in enumerate(keys.names) if name == value), None)


def key_of(key: Cell) -> object:
    """The Python object of a key. Raises `CompileError` if it is not a constant, or not hashable."""
    if not key.known.constant:
        raise not_constant(
            "the key of a dict must be a constant expression",
            help="dicts exist only at compile time: index an array or a tuple, or use if and match",
        )
    try:
        hash(key.known.python)
    except TypeError:
        can_be = False
    else:
        # A bundle is a list, a named tuple, a lambda or the like.
        can_be = not any(isinstance(part.type, Bundle) for part in walk(key.known))
    if not can_be:
        raise CompileError(
            f"{key.known} cannot be a key of a dict", help="keys can be numbers, strings, and tuples of these"
        )
    return key.known.python


# The kind of all host objects


def _getitem(frame: Frame, op: Op, owner: Cell, index: Cell) -> Cell | None:
    value: Any = owner.known.value
    if isinstance(value, dict):
        return frame.getitem(op, (as_mapping(frame, owner), index))[0]
    if index.known.constant and isinstance(value, (np.ndarray, list, tuple, str, bytes, range)):
        return _item(frame, value, index.known)
    if index.known.constant and isinstance(value, type):
        return _item_of_class(frame, value, index.known.python)
    inside = as_items(frame, owner) if isinstance(value, range) else as_array(frame, as_sequence(frame, owner))
    return None if inside is owner else frame.getitem(op, (inside, index))[0]


def _item(frame: Frame, value: Any, index: Known) -> Cell:
    """`x[i]` with a constant index."""
    position: Any = _index_of(index)
    try:
        return frame.literal(frame.program.once(value, "[]", (position,), lambda: value[position]))
    except CompileError:
        raise
    except Exception as error:
        shape = f"its shape is {value.shape}" if isinstance(value, np.ndarray) else f"it has {len(value)} items"
        raise CompileError(
            f"{describe(value)} cannot be indexed: {type(error).__name__}: {error}", help=shape
        ) from None


def _index_of(known: Known) -> object:
    """The Python value of a constant index, which may contain slices."""
    if means(known, slice):
        return slice(*(_index_of(item) for item in known.items))
    if isinstance(known.type, Tuple):
        return tuple(map(_index_of, known.items))
    return known.python


def _item_of_class(frame: Frame, owner: type, index: object) -> Cell:
    """`tuple[int, float32]`, or a member of an enumeration by its name."""
    try:
        return frame.literal(owner[index])  # type: ignore[index]
    except Exception as error:
        raise CompileError(
            f"{describe(owner)} cannot be indexed: {type(error).__name__}: {error}", help=remedies.ON_THE_HOST
        ) from None


_OF_DTYPES = ("itemsize", "kind", "name", "type")
"""Attributes of `x.dtype` on the host; in device code `x.dtype` is the class of the elements."""


def _attribute(frame: Frame, _: Op, cell: Cell, name: str) -> Cell:
    """The attribute that Python's `getattr` finds, or a method of a dict that device code supports."""
    owner = cell.known.value
    if isinstance(owner, dict) and name in frame.kind((mapping := as_mapping(frame, cell)).known).methods:
        return frame.bundle(Method(name), [mapping])
    is_dtype = name in _OF_DTYPES and isinstance(owner, type) and issubclass(owner, np.generic)
    can_change = not is_dtype and (isinstance(owner, (ModuleType, type)) or name in getattr(owner, "__dict__", ()))
    try:
        value = getattr(np.dtype(owner) if is_dtype else owner, name)  # type: ignore[call-overload]
        if isinstance(value, np.ndarray):
            value = frame.program.once(owner, name, (), lambda: value)
    except AttributeError as error:
        if can_change:  # for `hasattr`
            frame.program.depend(owner, name, MISSING)
        remedy = remedies.of_attribute(describe(owner), name)
        if not remedy:
            close = remedies.nearest(name, dir(owner), 0.65)
            remedy = f"did you mean {close[0]}?" if close else "correct the name, or define it before the launch"
        says_why = isinstance(owner, ModuleType) and hasattr(type(owner), "__getattr__")  # as bindings do
        reason = str(error) if says_why else f"{describe(owner)} has no attribute {name!r}"
        raise CompileError(reason, help=remedy) from None
    except Exception as error:
        raise CompileError(
            f"reading {name!r} of {describe(owner)} raised {type(error).__name__}: {error}", help=remedies.ON_THE_HOST
        ) from error
    if can_change or _has_attribute_of_class(owner, name, value):
        frame.program.depend(owner, name, value)
    return frame.literal(value)


def _has_attribute_of_class(owner: object, name: str, value: object) -> bool:
    """Whether an attribute of an object of a Python class is an attribute, a slot or a property of the class.

    A property that returns another object each time is not compared at launches.
    """
    is_of_python = bool(type(owner).__flags__ & _HEAP_TYPE)
    static = inspect.getattr_static(type(owner), name, None) if is_of_python else None
    is_read = static is value or isinstance(static, (property, MemberDescriptorType))
    return static is not None and is_read and getattr(owner, name) is value


_HEAP_TYPE = 1 << 9
"""CPython's flag of classes that are created at run time."""


def _items(frame: Frame, cell: Cell) -> list[Cell] | None:
    value = cell.known.value
    return elements(frame, value) if isinstance(value, np.ndarray) and value.ndim else None


KIND = Kind(rank=Rank.OTHER, getitem=_getitem, getattr=_attribute, items=_items)
