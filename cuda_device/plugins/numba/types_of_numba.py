"""What objects of numba's package are here: its number, record and vector types, and functions that it compiles for the host.

number_of(numba.float32)                 numpy.float32
meaning_of(numba.from_dtype(dtype))      dtype
"""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

import numpy as np

import cuda_device

_PACKAGES = ("numba", "numba_cuda")
VECTORS = {
    name: getattr(cuda_device, name) for name in dir(cuda_device) if re.fullmatch(r"[a-z]+[a-z0-9]*x[1-4]", name)
}
"""The classes of vectors by their names, such as `float32x4`."""


def _is_of_numba(value: Any) -> bool:
    """Whether this is a type of numba. Those of numbers are named like dtypes, and those of records have a `dtype`."""
    return type(value).__module__.partition(".")[0] in _PACKAGES


def number_of(value: Any) -> type[np.generic] | None:
    """Returns NumPy's scalar for a number type of numba; None for anything else."""
    if not _is_of_numba(value):
        return None
    try:
        number = np.dtype(str(value)).type
        cuda_device.numpy_dtype(number)
    except (TypeError, ValueError):
        return None
    return number


def meaning_of(value: Any) -> Any:
    """Returns what device code takes instead of an object: a NumPy scalar, a dtype, a vector class or a Python function.

    Any other object is its own meaning.
    """
    if isinstance(value, type):
        return VECTORS.get(value.__name__, value) if value.__module__ == "numba.cuda.stubs" else value
    if _is_of_numba(value) and isinstance(record := getattr(value, "dtype", None), np.dtype):
        return record
    function = getattr(value, "__dict__", {}).get("py_func")
    return function if isinstance(function, FunctionType) else number_of(value) or value
