"""Rules of type inference for host objects: functions, classes, modules, strings, arrays, lists and enumerations.

    WEIGHTS[1], WEIGHTS.shape, module.name      constants
    WEIGHTS[i]                                  a load from constant memory

Attributes are those that Python's own `getattr` finds.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from cuda_device.errors import CompileError
from cuda_device.infer import hosted, remedies
from cuda_device.infer.dependencies import MISSING
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.meanings import means
from cuda_device.infer.remedies import ON_THE_HOST
from cuda_device.ir.nodes import Op
from cuda_device.types.known import Known, describe
from cuda_device.types.model import Tuple


def _getitem(frame: Frame, op: Op, owner: Cell, index: Cell) -> Cell | None:
    value: Any = owner.known.value
    if isinstance(value, dict):
        return frame.getitem(op, (hosted.as_mapping(frame, owner), index))[0]
    method = hosted.method_of(value, "__getitem__")
    if method is not None:
        return frame.run(method, owner, index)
    if index.known.constant and isinstance(value, (np.ndarray, list, tuple, str, bytes, range)):
        return _item(frame, value, index.known)
    if index.known.constant and isinstance(value, type):
        return _item_of_class(frame, value, index.known.python)
    inside = hosted.as_array(frame, hosted.as_sequence(frame, owner))
    return None if inside is owner else frame.getitem(op, (inside, index))[0]


def _item(frame: Frame, value: Any, index: Known) -> Cell:
    """`x[i]` with a constant index."""
    place: Any = _index_of(index)
    try:
        return frame.literal(frame.program.once(value, "[]", (place,), lambda: value[place]))
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
            f"{describe(owner)} cannot be indexed: {type(error).__name__}: {error}", help=ON_THE_HOST
        ) from None


_OF_DTYPES = ("itemsize", "kind", "name", "type")
"""Attributes of `x.dtype` on the host; in device code `x.dtype` is the class of the elements."""


def _attribute(frame: Frame, op: Op, cell: Cell, name: str) -> Cell:
    """The attribute that Python's `getattr` finds, or a method of a dict that device code supports."""
    owner = cell.known.value
    if isinstance(owner, dict) and (method := frame.attribute(op, hosted.as_mapping(frame, cell), name)) is not None:
        return method
    is_dtype = name in _OF_DTYPES and isinstance(owner, type) and issubclass(owner, np.generic)
    can_change = isinstance(owner, (ModuleType, type)) and not is_dtype
    try:
        value = getattr(np.dtype(owner) if is_dtype else owner, name)  # type: ignore[call-overload]
        if isinstance(value, np.ndarray):
            value = frame.program.once(owner, name, (), lambda: value)
    except AttributeError:
        if can_change:  # for `hasattr`
            frame.program.depend(owner, name, MISSING)
        remedy = remedies.of_attribute(describe(owner), name)
        if not remedy:
            close = remedies.nearest(name, dir(owner), 0.65)
            remedy = (
                f"did you mean {close[0]}?" if close else "correct the name, or define it before the kernel is launched"
            )
        raise CompileError(f"{describe(owner)} has no attribute {name!r}", help=remedy) from None
    except Exception as error:
        raise CompileError(
            f"reading {name!r} of {describe(owner)} raised {type(error).__name__}: {error}", help=ON_THE_HOST
        ) from error
    if can_change:
        frame.program.depend(owner, name, value)
    return frame.literal(value)


def _items(frame: Frame, cell: Cell) -> list[Cell] | None:
    value = cell.known.value
    return hosted.elements(frame, value) if isinstance(value, np.ndarray) and value.ndim else None


KIND = Kind(rank=Rank.OTHER, getitem=_getitem, getattr=_attribute, items=_items)
