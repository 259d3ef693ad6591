"""The device table: the rows of everything that device code can name, and the modules of the library."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from cuda_device import hooks
from cuda_device.device import (
    atomics,
    inline_ptx,
    machine_functions,
    memory,
    numeric,
    packing,
    positioning,
    sync,
    target,
)
from cuda_device.device.rows import Intrinsic
from cuda_device.library import barriers, builtins, complex_functions, copying, numbers, prelude, standard

T = TypeVar("T")
ALL: tuple[Intrinsic, ...] = (
    *target.ROWS,
    *positioning.ROWS,
    *memory.ROWS,
    *sync.ROWS,
    *atomics.ROWS,
    *sync.WARP_ROWS,
    *machine_functions.TIMING_ROWS,
    *numeric.ROWS,
    *machine_functions.ROWS,
    inline_ptx.ROW,
    *builtins.ROWS,
    *builtins.COMPLEX_ROWS,
    *builtins.VECTOR_ROWS,
    *packing.ROWS,
    *copying.ROWS,
)
BY_NAME = {row.name: row for row in ALL}
# By identity: some entities compare equal to others (np.float32 == np.dtype("float32")), some do not hash.
_BY_IDENTITY = {id(row.entity): row for row in ALL}


def row_of_entity(entity: object) -> Intrinsic | None:
    """The row of an entity, or None."""
    row = _BY_IDENTITY.get(id(entity))
    return row if row is not None and row.entity is entity else None


def entry_of(entries: Mapping[Any, T], entity: object) -> T | None:
    """Looks an entity up in a mapping. Returns None for unhashable objects, and for dtypes, which compare equal to classes."""
    try:
        return None if isinstance(entity, np.dtype) else entries.get(entity)
    except Exception:  # of a user's own `__hash__`
        return None


# The library: modules whose functions are compiled like a user's

_MODULES = (barriers, complex_functions, copying, numbers, prelude, standard)
NAMES = frozenset((*(module.__name__ for module in _MODULES), *(f"cuda_device.{name}" for name in hooks.LIBRARIES)))
"""The names of these modules. Messages about their code show the place where the user called it."""
REPLACEMENTS = prelude.REPLACEMENTS | numbers.REPLACEMENTS | standard.REPLACEMENTS
"""By function of Python, the function that device code calls instead."""


_OF_NUMPY = {getattr(np, name): function for name, function in numbers.OF_NUMPY.items()}
_SHOWN = {function: entity for entity, function in reversed((REPLACEMENTS | standard.ONE_ARGUMENT | _OF_NUMPY).items())}


def shown(function: FunctionType) -> str:
    """The name of a function in messages; a function of the library has the name of what it replaces."""
    entity = _SHOWN.get(function)
    if entity is None:
        return function.__qualname__
    module = str(getattr(entity, "__module__", "")).strip("_")
    name = str(getattr(entity, "__name__", function.__name__))
    return name if module in ("", "builtins") else f"{module}.{name}"
