"""`ArrayType`: how users spell the type of an array argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_device.errors import ArgumentError
from cuda_device.types.dtypes import element_of
from cuda_device.types.model import Array, Layout


def ArrayType(dtype: Any, ndim: int, layout: str = "C", readonly: bool = False) -> Array:
    """The type of an array argument, for `compile` and annotations.

    `dtype` is a number type such as `float32`; `layout` is "C", "F" or "strided". Raises `TypeError` for a dtype that device code
    does not have, and an error that is both `TypeError` and `ValueError` for another layout or a negative `ndim`.

    Elements are aligned as those of NumPy and CUDA C++ are, structs and tuples also to what divides their size, up to 16 bytes.
    """
    layouts = {each.value: each for each in Layout}
    if layout not in layouts:
        raise ArgumentError(f"layout={layout!r}: there are {', '.join(map(repr, layouts))}")
    if not isinstance(ndim, int) or isinstance(ndim, bool) or ndim < 0:
        raise ArgumentError(f"ndim={ndim!r}: give the number of axes")
    if not isinstance(readonly, (bool, np.bool_)):
        raise ArgumentError(f"readonly={readonly!r}: give True or False")
    return Array(element_of(dtype), ndim, layouts[layout], bool(readonly))
