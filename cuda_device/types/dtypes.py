"""Type hints and the types that they name, NumPy dtypes, and sizes and alignments as in CUDA C++.

numpy_dtype(float32x2)   dtype({'names': ['x', 'y'], 'formats': ['<f4', '<f4'], 'offsets': [0, 4], 'itemsize': 8})
sizeof(float32x2)        8
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from cuda_device.errors import ArgumentError
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types import host
from cuda_device.types.abi import representation
from cuda_device.types.host import (
    MODEL,
    REGISTERED,
    check_element,
    dtype_of_type,
    element_of_dtype,
    model_of,
    number_of,
)
from cuda_device.types.layout import align_of, has_arrays, has_identity, machine, size_of
from cuda_device.types.model import NONE, Array, AtomicCell, Layout, Number, Pointer, Struct, Tuple, Type, Vector
from cuda_device.types.vector_classes import VectorValue


@dataclass(frozen=True, slots=True)
class Aligned:
    """The result of `align(T, n)` for a type that is not a struct: a type hint for members. Calling it creates a `T`."""

    type: Any
    align: int

    def __call__(self, *args: Any) -> Any:
        """Creates a value of the type."""
        return self.type(*args)

    def __repr__(self) -> str:
        return f"align({getattr(self.type, '__name__', self.type)}, {self.align})"


MOST_ALIGNED = 1 << 16
"""The largest supported alignment in bytes, which is more than any access needs."""


def check_alignment(n: Any) -> None:
    """Raises `ArgumentError` unless `n` is a valid alignment."""
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MOST_ALIGNED or n & (n - 1):
        raise ArgumentError(f"an alignment must be a power of two up to {MOST_ALIGNED}, not {n!r}")


def unannotated(hint: Any) -> Any:
    """The hint without `Annotated`; of its metadata, an `ArrayType(…)` counts, which type checkers accept only there."""
    if not hasattr(hint, "__metadata__"):
        return hint
    return next((each for each in hint.__metadata__ if isinstance(each, Array)), hint.__origin__)


def alignment_of_hint(hint: Any) -> int:
    """The minimum alignment that a type hint sets with `align`, or 0."""
    hint = unannotated(hint)
    if not isinstance(hint, Aligned):
        return 0
    least = max(hint.align, alignment_of_hint(hint.type))
    return least if least > 1 else 0


def type_of_hint(hint: Any) -> Type:
    """The model type for a type hint. Raises `TypeError` for one that device code does not support."""
    hint = unannotated(hint)
    if isinstance(hint, Aligned):
        return type_of_hint(hint.type)
    if isinstance(hint, Type):
        return hint
    if hint is None or hint is type(None):
        return NONE
    if getattr(hint, "__origin__", None) is tuple:
        arguments = () if hint.__args__ == ((),) else hint.__args__
        made = Tuple(tuple(map(_type_of_element, arguments)))
        if has_identity(made):
            raise TypeError("an atomic can be a member of a struct, but not of a tuple")
        return made
    if isinstance(hint, np.dtype):
        return element_of_dtype(hint)
    if isinstance(hint, type):
        model = hint.__dict__.get(MODEL)
        if isinstance(model, Struct):
            return model
        if hint in REGISTERED:
            return model_of(REGISTERED[hint][0])
        if issubclass(hint, VectorValue) and hint is not VectorValue:
            return hint.model
        return number_of(hint)
    raise TypeError(f"{hint!r} is not a type of device code")


def _type_of_element(hint: Any) -> Type:
    found, least = type_of_hint(hint), alignment_of_hint(hint)
    if least and not has_identity(found) and least > align_of(found):
        raise TypeError(
            f"{hint!r}: the elements of a tuple have the alignment of their types: make it a member of a struct"
        )
    return found


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
    """The type in memory, where arrays are descriptors."""
    return representation(type) if has_arrays(type) else type


def machine_representation() -> str:
    """Returns the C++ ABI that determines the machine representation of CUDA C++: "itanium", or "msvc" on Windows.

    Specification: 'Machine Representation'.
    """
    return "msvc" if os.name == "nt" else "itanium"


def dtype_of(spelling: Any) -> np.dtype[Any]:
    """The dtype for a type (`float32`, `float32x4`, a struct, `int`), a NumPy dtype, or a dtype's name.

    Raises `TypeError` for a type that device code does not support.
    """
    if isinstance(spelling, np.dtype) and spelling.fields is not None:
        element_of_dtype(spelling)
        return spelling
    return dtype_of_type(element_of(spelling))


def element_of(spelling: Any) -> Type:
    """The element type for a type hint, a dtype, or a dtype's name. Raises `TypeError` for anything else."""
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
    if isinstance(type, Number):
        return machine(type)
    if isinstance(type, (Vector, Struct, Tuple, AtomicCell)):
        check_element(type)
        return type
    return element_of_dtype(host.dtype_of(spelling))


_LAYOUTS = {each.value: each for each in Layout}


def ArrayType(dtype: Any, ndim: int, layout: str = "C", readonly: bool = False) -> Array:
    """The type of an array argument, for `compile` and annotations.

    `dtype` is a number type such as `float32`; `layout` is "C", "F" or "strided". Raises `TypeError` for a dtype that device
    code does not support, and an error that is both a `TypeError` and a `ValueError` for an unknown layout or a negative
    `ndim`.

    Elements are aligned as in NumPy and CUDA C++. Structs and tuples are also aligned to the largest power of two, up to 16
    bytes, that divides their size.
    """
    if layout not in _LAYOUTS:
        raise ArgumentError(f"layout={layout!r}: choose one of {', '.join(map(repr, _LAYOUTS))}")
    if not isinstance(ndim, int) or isinstance(ndim, bool) or ndim < 0:
        raise ArgumentError(f"ndim={ndim!r}: give the number of axes")
    if not isinstance(readonly, (bool, np.bool_)):
        raise ArgumentError(f"readonly={readonly!r}: give True or False")
    return Array(element_of(dtype), ndim, _LAYOUTS[layout], bool(readonly))


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
        raise TypeError(f"{type} is an array, or has array members: point to its elements, as in pointer(float32)")
    representation(type)
    return Pointer(machine(type) if isinstance(type, Number) else type, bool(readonly))
