"""Types of elements as NumPy's dtypes, and back.

dtype_of_type(float32x2 as a type)    dtype({'names': ['x', 'y'], 'formats': ['<f4', '<f4'], 'offsets': [0, 4], 'itemsize': 8})

A dtype that we made remembers its type, so arrays of it are arrays of that type. Any other structured dtype is an anonymous
struct with the same fields at the same places, also where C++ would lay them out otherwise (packed, overlapping, with gaps).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_device.lazy_dataclasses import replace
from cuda_device.types import host
from cuda_device.types.layout import has_arrays, placement
from cuda_device.types.model import AtomicCell, Field, NoneType, Number, Struct, Subarray, Tuple, Type, Vector

_KEY = "cuda_device"
ANONYMOUS = "anonymous"


def dtype_of_type(type: Type) -> np.dtype[Any]:
    """The dtype of an array whose elements are `type`. Raises `TypeError` for what cannot be an element."""
    check_element(type)
    match type:
        case Number():
            return host.dtype_of_element(type)
        case Vector() | Tuple() | Struct():
            members = members_of(type)
        case Subarray(dtype, shape):
            return np.dtype((dtype_of_type(dtype), shape))
        case NoneType():
            return np.dtype(np.uint64)
        case AtomicCell(dtype):
            return dtype_of_type(dtype)
        case _:
            raise TypeError(f"{type} is no element of an array")
    place = placement(type)
    parts = [dtype_of_type(member) for member in members.values()]
    description = {"names": list(members), "formats": parts, "offsets": list(place.offsets), "itemsize": place.size}
    return np.dtype(description, metadata={_KEY: type})  # type: ignore[call-overload,no-any-return]


def check_element(type: Type) -> None:
    """Raises `TypeError` for what is not an element of an array."""
    if has_arrays(type):
        name = f"{type.name} has array members" if isinstance(type, Struct) else f"{type} has arrays in it"
        raise TypeError(f"{name}, so it is an argument or a local value, not an element of an array")


def members_of(type: Type) -> dict[str, Type]:
    """The fields that a structured dtype of `type` has: x, y, z, w of a vector, _0, _1, … of a tuple; none of anything else."""
    match type:
        case Vector(dtype, size):
            return dict.fromkeys("xyzw"[:size], dtype)
        case Tuple(elements):
            return {f"_{i}": element for i, element in enumerate(elements)}
        case Struct(_, fields):
            return {field.name: field.type for field in fields}
    return {}


def element_of_dtype(dtype: np.dtype[Any]) -> Type:
    """The element type of an array of `dtype`. Raises `TypeError` for a dtype that device code does not have."""
    if dtype.subdtype is not None:
        return Subarray(element_of_dtype(dtype.subdtype[0]), dtype.subdtype[1])
    if dtype.fields is None:
        return host.element_of_dtype(dtype)
    metadata: Any = dtype.metadata or {}
    known = metadata.get(_KEY)
    if isinstance(known, (Struct, Vector, Tuple)):
        return known
    names = dtype.names or ()
    members = tuple(Field(name, element_of_dtype(dtype.fields[name][0])) for name in names)
    struct = Struct(ANONYMOUS, members)
    place = placement(struct)
    offsets = tuple(dtype.fields[name][1] for name in names)
    if (place.offsets, place.size) == (offsets, dtype.itemsize):
        return struct
    # The elements of an array are so far apart, and no number needs more than its own alignment.
    align = min(place.align, dtype.itemsize & -dtype.itemsize)
    fields = tuple(replace(field, offset=offset) for field, offset in zip(members, offsets, strict=True))
    return Struct(ANONYMOUS, fields, align, size=dtype.itemsize)
