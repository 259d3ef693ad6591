"""What users spell as types: arrays, NumPy dtypes, sizes and alignments of hints, with CUDA C++'s layout to the byte.

numpy_dtype(float32x2)   dtype({'names': ['x', 'y'], 'formats': ['<f4', '<f4'], 'offsets': [0, 4], 'itemsize': 8})
sizeof(float32x2)        8
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from cuda_device.errors import ArgumentError
from cuda_device.types import host
from cuda_device.types.abi import representation
from cuda_device.types.host import check_element, dtype_of_type, element_of_dtype
from cuda_device.types.layout import align_of, has_arrays, machine, size_of
from cuda_device.types.model import Array, AtomicCell, Layout, Number, Pointer, Struct, Tuple, Type, Vector
from cuda_device.types.struct_classes import Aligned, alignment_of_hint, type_of_hint


def numpy_dtype(T: Any) -> np.dtype[Any]:  # noqa: N803
    """Returns the NumPy dtype with the CUDA C++ layout of a number, vector, struct or tuple type.

    The fields of a vector are named x, y, z and w; those of a tuple are named `_0`, `_1` and so on. Raises `TypeError` for
    other types.
    """
    return dtype_of_type(type_of_hint(T))


def sizeof(T: Any) -> int:  # noqa: N803
    """Returns the size of a value of `T` in bytes, like C++'s `sizeof`."""
    return size_of(_in_memory(type_of_hint(T)))


def alignof(T: Any) -> int:  # noqa: N803
    """Returns the alignment of `T` in bytes, like C++'s `alignof`; for `align(T, n)`, that of a member with this hint."""
    return max(alignment_of_hint(T), align_of(_in_memory(type_of_hint(T))))


def _in_memory(type: Type) -> Type:
    """What a type is in memory: arrays are descriptors there."""
    return representation(type) if has_arrays(type) else type


def machine_representation() -> str:
    """Returns the C++ ABI that determines the machine representation of CUDA C++: "itanium", or "msvc" on Windows.

    Specification: 'Machine Representation'.
    """
    return "msvc" if os.name == "nt" else "itanium"


def dtype_of(spelling: Any) -> np.dtype[Any]:
    """The dtype that a user means: of a type (`float32`, `float32x4`, a struct, `int`), a NumPy dtype, or a dtype's name.

    Raises `TypeError` for a type that device code does not have.
    """
    if isinstance(spelling, np.dtype) and spelling.fields is not None:
        element_of_dtype(spelling)
        return spelling
    return dtype_of_type(element_of(spelling))


def element_of(spelling: Any) -> Type:
    """The element type that a user means: a type hint, a dtype, or a dtype's name. Raises `TypeError` for anything else."""
    if isinstance(spelling, np.dtype):
        return element_of_dtype(spelling)
    if isinstance(spelling, Aligned):
        return element_of(spelling.type)
    try:
        type = type_of_hint(spelling) if spelling is not None else None
    except TypeError:
        if getattr(spelling, "__origin__", None) is tuple:
            raise
        type = None
    if isinstance(type, (Vector, Struct, Tuple, AtomicCell)):
        check_element(type)
        return type
    return element_of_dtype(host.dtype_of(spelling))


def ArrayType(dtype: Any, ndim: int, layout: str = "C", readonly: bool = False) -> Array:
    """The type of an array argument, for `compile` and annotations.

    `dtype` is a number type such as `float32`; `layout` is "C", "F" or "strided". Raises `TypeError` for a dtype that device
    code does not support, and an error that is both a `TypeError` and a `ValueError` for an unknown layout or a negative
    `ndim`.

    Elements are aligned as in NumPy and CUDA C++. Structs and tuples are also aligned to the largest power of two, up to 16
    bytes, that divides their size.
    """
    layouts = {each.value: each for each in Layout}
    if layout not in layouts:
        raise ArgumentError(f"layout={layout!r}: there are {', '.join(map(repr, layouts))}")
    if not isinstance(ndim, int) or isinstance(ndim, bool) or ndim < 0:
        raise ArgumentError(f"ndim={ndim!r}: give the number of axes")
    if not isinstance(readonly, (bool, np.bool_)):
        raise ArgumentError(f"readonly={readonly!r}: give True or False")
    return Array(element_of(dtype), ndim, layouts[layout], bool(readonly))


def pointer(T: Any = None, *, readonly: bool = False) -> Pointer:  # noqa: N803
    """The type of a pointer to values of `T`: C++'s `T*`, or `T const*` with `readonly`, or `void*` without `T`.

    It is a type hint for parameters and members of structs, and a type for `compile` and `extern`. At a launch, such a
    parameter takes an address (an int), or a contiguous array, to whose first element it then points. Device code supports
    `p[i]`, `p + n`, `p - n`, `p - q`, comparisons, `p.cast(T)`, `p.array(shape, strides=None)`, `p.address`, and `atomic_ref(p,
    i)`. Indices count elements; a negative index refers to an element before `p`. Bounds are unknown and not checked. Raises
    `TypeError` if `T` has no counterpart in CUDA C++.
    """
    if not isinstance(readonly, (bool, np.bool_)):
        raise ArgumentError(f"readonly={readonly!r}: give True or False")
    type = type_of_hint(T)
    if has_arrays(type):
        raise TypeError(f"{T!r} is an array, or has array members: point to its elements, as in pointer(float32)")
    representation(type)
    return Pointer(machine(type) if isinstance(type, Number) else type, bool(readonly))
