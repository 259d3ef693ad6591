"""Converts between the types of the host (Python, NumPy) and those of the compiler: one table row for each number.

NumPy, DLPack and the CUDA Array Interface each have their own name for float32. `ROWS` lists these names, and every function
here and in `exchange_formats` looks them up in it, so a new number needs only one new row. A type that is not in the table raises
a `TypeError`, which names it as its library does.

    element_of_dtype(np.dtype("float32"))   FLOAT32
    number_of(int)                          INT          Python's numbers are builtin numbers
    type_of_hint(tuple[int, float32])       Tuple((INT, FLOAT32))
    dtype_of(int)                           dtype('int32')
    sizeof(float32x2)                       8

Vectors, tuples and structs are structured dtypes. A dtype that this package created remembers its type, so arrays of it are
arrays of that type. Any other structured dtype is an anonymous struct with the same fields at the same offsets, even if C++
would lay them out differently (packed, overlapping, with gaps).

    dtype_of_type(Vector(FLOAT32, 2))       dtype({'names': ['x', 'y'], …, 'offsets': [0, 4], 'itemsize': 8})
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from cuda_device.errors import ArgumentError, refused_if_deep
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types import model
from cuda_device.types.abi import representation
from cuda_device.types.layout import align_of, has_arrays, has_identity, placement, size_of
from cuda_device.types.model import Array, Pointer

V = TypeVar("V")


class Row:
    """One number in four vocabularies: `name` is the scalar type's in NumPy or ml_dtypes; `typestr` omits the byte order."""

    def __init__(self, number: model.Number, name: str, dlpack: tuple[int, int], typestr: str) -> None:
        self.number, self.name, self.dlpack, self.typestr = number, name, dlpack, typestr

    @property
    def scalar(self) -> type[np.generic]:
        """The scalar type. ml_dtypes is imported at first use: it takes as long as most of this package."""
        is_numpys = self.number.format == model.Format.IEEE
        scalar: type[np.generic] = getattr(np if is_numpys else importlib.import_module("ml_dtypes"), self.name)
        return scalar


ROWS = (
    Row(model.BOOL, "bool_", (6, 8), "b1"),
    Row(model.INT8, "int8", (0, 8), "i1"),
    Row(model.INT16, "int16", (0, 16), "i2"),
    Row(model.INT32, "int32", (0, 32), "i4"),
    Row(model.INT64, "int64", (0, 64), "i8"),
    Row(model.UINT8, "uint8", (1, 8), "u1"),
    Row(model.UINT16, "uint16", (1, 16), "u2"),
    Row(model.UINT32, "uint32", (1, 32), "u4"),
    Row(model.UINT64, "uint64", (1, 64), "u8"),
    Row(model.FLOAT16, "float16", (2, 16), "f2"),
    Row(model.FLOAT32, "float32", (2, 32), "f4"),
    Row(model.FLOAT64, "float64", (2, 64), "f8"),
    Row(model.COMPLEX64, "complex64", (5, 64), "c8"),
    Row(model.COMPLEX128, "complex128", (5, 128), "c16"),
    Row(model.BFLOAT16, "bfloat16", (4, 16), "V2"),
    # The array interface has no words for these: DLPack does. The typestrs are those of ml_dtypes' dtypes.
    Row(model.FLOAT8E4M3, "float8_e4m3fn", (10, 8), "V1"),
    Row(model.FLOAT8E5M2, "float8_e5m2", (12, 8), "f1"),
)

PYTHON = {bool: model.BOOL, int: model.INT, float: model.FLOAT, complex: model.COMPLEX}

_BY_NUMBER = {row.number: row for row in ROWS}
_BY_NAME = {row.name: row for row in ROWS}
_OF_ML_DTYPES = [row.name for row in ROWS if row.number.format != model.Format.IEEE]
# Platforms have two scalar types of one width (long and long long), which share a row.
_BY_DTYPE = {np.dtype(row.scalar): row for row in ROWS if row.name not in _OF_ML_DTYPES}
_BY_SCALAR = {t: _BY_DTYPE[np.dtype(t)] for t in {*np.sctypeDict.values()} if np.dtype(t) in _BY_DTYPE}
_SUPPORTED = ", ".join(row.name.rstrip("_") for row in ROWS)


def number_of(host_type: type[Any]) -> model.Number:
    """The number type of `host_type` in device code: fixed-format for NumPy's scalars, builtin for Python's numbers.

    Raises `TypeError` for any other type.
    """
    # np.float64 is a subclass of float, so NumPy's scalars come first.
    if issubclass(host_type, np.generic):
        row = _row_of_scalar(host_type)
        if row is None:
            raise unsupported(f"{host_type.__module__}.{host_type.__name__}")
        return row.number
    for python_type, number in PYTHON.items():
        if issubclass(host_type, python_type):
            return number
    raise unsupported(host_type.__name__)


def _row_of_scalar(scalar: type[np.generic]) -> Row | None:
    if scalar.__module__ == "ml_dtypes" and scalar.__name__ in _OF_ML_DTYPES:
        return _BY_NAME[scalar.__name__]
    return _BY_SCALAR.get(scalar)


def becomes(builtin: model.Number, target: model.Number) -> bool:
    """Whether a builtin number converts implicitly to `target`: to the same or a higher kind."""
    kind = model.NumberKind
    return builtin.kind <= target.kind or (builtin.kind is kind.INT and target.kind is kind.UINT)


def convert_number(value: Any, target: model.Number, name: str) -> Any:
    """Converts a builtin number of the same or a lower kind, or a NumPy number of the same format. Raises `TypeError`."""
    host = host_type_of(target)
    if isinstance(value, np.generic) and number_of(type(value)) == target.machine:
        return host(value)
    is_builtin = isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic)
    if not is_builtin or not becomes(number_of(type(value)), target):
        raise TypeError(f"{name} is of type {target}, not {value!r}: write {target}(…)")
    try:
        return host(value)
    except OverflowError:
        raise TypeError(f"{name} is of type {target}, which {value!r} does not fit") from None


def host_type_of(number: model.Number) -> type[Any]:
    """The host's type of `number`: NumPy's scalar type, or Python's `bool`, `int`, `float` or `complex` for a builtin number."""
    if number == model.INDEX:
        return int
    for python_type, builtin in PYTHON.items():
        if number == builtin:
            return python_type
    return row_of(number).scalar


def _number_of_dtype(dtype: np.dtype[Any]) -> model.Number:
    if not dtype.isnative:
        raise TypeError(f"the dtype {dtype.str!r} is not in native byte order: convert with .astype({dtype.name!r})")
    row = _row_of_scalar(dtype.type)
    if row is not None:
        return row.number
    raise unsupported(f"dtype {dtype}")


def dtype_of_element(element: model.Type) -> np.dtype[Any]:
    """The NumPy dtype for an element type; a builtin number has that of its width."""
    return np.dtype(row_of(element).scalar)


def _dtype_of_number(spelling: Any) -> np.dtype[Any]:
    """The dtype of a number for a NumPy dtype or its name. Raises `TypeError` for other types."""
    if isinstance(spelling, model.Type):
        return dtype_of_element(spelling)
    if isinstance(spelling, str) and spelling in _OF_ML_DTYPES:
        return np.dtype(_BY_NAME[spelling].scalar)
    if spelling is None:
        raise TypeError("None is not a dtype: write float32, or leave the dtype out")
    try:
        dtype: np.dtype[Any] = np.dtype(spelling)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{spelling!r} is not a dtype: give one of {_SUPPORTED}") from error
    _number_of_dtype(dtype)
    return dtype


def row_of(element: model.Type) -> Row:
    """The row of a number. Raises `TypeError` for other types."""
    row = _BY_NUMBER.get(element.machine) if isinstance(element, model.Number) else None
    if row is None:
        raise unsupported(str(element))
    return row


def unsupported(name: str) -> TypeError:
    """The error for a type that the table does not have, under the name that its library gives it."""
    return TypeError(f"{name} is not a type of device code: convert to one of {_SUPPORTED}")


# Elements with members


_KEY = "cuda_device"
ANONYMOUS = "anonymous"


def dtype_of_type(type: model.Type) -> np.dtype[Any]:
    """The dtype of an array whose elements are `type`. Raises `TypeError` for types that cannot be elements."""
    check_element(type)
    match type:
        case model.Number():
            return dtype_of_element(type)
        case model.Vector() | model.Tuple() | model.Struct():
            members = members_of(type)
        case model.Subarray(dtype, shape):
            return np.dtype((dtype_of_type(dtype), shape))
        case model.NoneType() | model.Pointer():
            return np.dtype(np.uint64)
        case model.AtomicCell(dtype):
            return dtype_of_type(dtype)
        case _:
            raise TypeError(f"{type} cannot be an element of an array")
    layout = placement(type)
    parts = [dtype_of_type(member) for member in members.values()]
    description = {"names": list(members), "formats": parts, "offsets": list(layout.offsets), "itemsize": layout.size}
    return np.dtype(description, metadata={_KEY: type})  # type: ignore[call-overload,no-any-return]


def check_element(type: model.Type) -> None:
    """Raises `TypeError` for types that cannot be array elements."""
    if has_arrays(type):
        name = f"{type.name} has array members" if isinstance(type, model.Struct) else f"{type} has arrays in it"
        raise TypeError(f"{name}, so it is an argument or a local value, not an element of an array")


def members_of(type: model.Type) -> dict[str, model.Type]:
    """The fields of the structured dtype of `type`: x, y, z, w for a vector, _0, _1, … for a tuple; empty for other types."""
    match type:
        case model.Vector(dtype, size):
            return dict.fromkeys("xyzw"[:size], dtype)
        case model.Tuple(elements):
            return {f"_{i}": element for i, element in enumerate(elements)}
        case model.Struct(_, fields):
            return {field.name: field.type for field in fields}
    return {}


def element_of_dtype(dtype: np.dtype[Any]) -> model.Type:
    """The element type for a dtype. Raises `TypeError` for a dtype that device code does not support."""
    if dtype.subdtype is not None:
        return model.Subarray(element_of_dtype(dtype.subdtype[0]), dtype.subdtype[1])
    if dtype.fields is None:
        return _number_of_dtype(dtype)
    metadata: Any = dtype.metadata or {}
    known = metadata.get(_KEY)
    if isinstance(known, (model.Struct, model.Vector, model.Tuple)):
        return known
    names = dtype.names or ()
    members = tuple(model.Field(name, element_of_dtype(dtype.fields[name][0])) for name in names)
    struct = model.Struct(ANONYMOUS, members)
    layout = placement(struct)
    offsets = tuple(dtype.fields[name][1] for name in names)
    if (layout.offsets, layout.size) == (offsets, dtype.itemsize):
        return struct
    # All elements have this alignment, and no number needs more than its own.
    align = min(layout.align, dtype.itemsize & -dtype.itemsize)
    fields = tuple(replace(field, offset=offset) for field, offset in zip(members, offsets, strict=True))
    return model.Struct(ANONYMOUS, fields, align, size=dtype.itemsize)


# Struct classes


MODEL = "__cuda_device_struct__"
"""The attribute of a struct class that holds its model type."""


REGISTERED: WeakKeyDictionary[type, tuple[Any, Callable[[Any], Any]]] = WeakKeyDictionary()
"""Maps a registered host class to the struct class that its objects become, and the conversion function."""


def is_struct(cls: type[Any]) -> bool:
    """Whether a class was made by `struct`."""
    return MODEL in vars(cls)


def model_of(cls: Any) -> model.Struct:
    """The model type of a struct class."""
    struct: model.Struct = vars(cls)[MODEL]
    return struct


def struct_model(cls: type) -> model.Struct | None:
    """The type of a struct class in device code, with its `fields`; None for another class."""
    struct: model.Struct | None = cls.__dict__.get(MODEL)
    return struct


def given_members(
    owner: str, names: Sequence[str], defaults: Mapping[str, object], args: Sequence[V], kwargs: Mapping[str, V]
) -> dict[str, V]:
    """Binds the arguments of a constructor to the members. Raises `TypeError`."""
    if len(args) > len(names):
        raise TypeError(f"{owner} has {len(names)} members, not {len(args)}")
    values = dict(zip(names, args, strict=False))
    for name in kwargs:
        if name not in names or name in values:
            problem = f"got two values for {name!r}" if name in values else f"has no member {name!r}"
            raise TypeError(f"{owner} {problem}")
    values |= kwargs
    if missing := [name for name in names if name not in values and name not in defaults]:
        raise TypeError(f"{owner} is missing a value for {', '.join(map(repr, missing))}")
    return values


def vector_of(cls: type[Any]) -> model.Vector | None:
    """The model type of a vector class; None for other classes."""
    vector = getattr(cls, "model", None)
    return vector if isinstance(vector, model.Vector) else None


def alike(a: model.Struct, b: model.Struct) -> bool:
    """Whether two types have the same class, except for alignments set by `align`."""
    return a == b or (a.host is not None and b.host is not None and a.host.underlying is b.host.underlying)


def overloads_key(entity: object) -> str:
    """The name of the attribute of struct classes that holds the overloads of a function."""
    name = getattr(entity, "__qualname__", None) or getattr(entity, "__name__", type(entity).__name__)
    return f"overload of {name}"


def host_of(type: model.Type | None) -> Any:
    """The class that holds the overloads of a struct, which is the same for all alignments; None for other types."""
    if not isinstance(type, model.Struct) or type.host is None:
        return None
    host: Any = type.host
    return host._plain or host


# Type hints


@dataclass(frozen=True)
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
    return next((entry for entry in hint.__metadata__ if isinstance(entry, model.Array)), hint.__origin__)


def alignment_of_hint(hint: Any) -> int:
    """The minimum alignment that a type hint sets with `align`, or 0."""
    hint = unannotated(hint)
    if not isinstance(hint, Aligned):
        return 0
    least = max(hint.align, alignment_of_hint(hint.type))
    return least if least > 1 else 0


def type_of_hint(hint: Any) -> model.Type:
    """The model type for a type hint. Raises `TypeError` for one that device code does not support."""
    hint = unannotated(hint)
    if isinstance(hint, Aligned):
        return type_of_hint(hint.type)
    if isinstance(hint, model.Type):
        return hint
    if hint is None or hint is type(None):
        return model.NONE
    if getattr(hint, "__origin__", None) is tuple:
        arguments = () if hint.__args__ == ((),) else hint.__args__
        tuple_type = model.Tuple(tuple(map(_type_of_element, arguments)))
        if has_identity(tuple_type):
            raise TypeError("an atomic can be a member of a struct, but not of a tuple")
        return tuple_type
    if isinstance(hint, np.dtype):
        return element_of_dtype(hint)
    if isinstance(hint, type):
        struct = hint.__dict__.get(MODEL)
        if isinstance(struct, model.Struct):
            return struct
        if hint in REGISTERED:
            return model_of(REGISTERED[hint][0])
        return vector_of(hint) or number_of(hint)
    raise TypeError(f"{hint!r} is not a type of device code")


def _type_of_element(hint: Any) -> model.Type:
    element, least = type_of_hint(hint), alignment_of_hint(hint)
    if least and not has_identity(element) and least > align_of(element):
        raise TypeError(
            f"{hint!r}: the elements of a tuple have the alignment of their types: make it a member of a struct"
        )
    return element


def numpy_dtype(T: Any) -> np.dtype[Any]:  # noqa: N803
    """Returns the NumPy dtype with the CUDA C++ layout of a number, vector, struct or tuple type.

    The fields of a vector are named x, y, z and w; those of a tuple are named `_0`, `_1` and so on. Raises `TypeError` for
    other types.
    """
    with refused_if_deep("the type is", TypeError):
        return dtype_of_type(type_of_hint(T))


def sizeof(T: Any) -> int:  # noqa: N803
    """Returns the size of a value of `T` in bytes, like C++'s `sizeof`."""
    with refused_if_deep("the type is", TypeError):
        return size_of(_in_memory(type_of_hint(T)))


def alignof(T: Any) -> int:  # noqa: N803
    """Returns the alignment of `T` in bytes, like C++'s `alignof`; for `align(T, n)`, that of a member with this hint."""
    with refused_if_deep("the type is", TypeError):
        return max(alignment_of_hint(T), align_of(_in_memory(type_of_hint(T))))


def _in_memory(type: model.Type) -> model.Type:
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


def element_of(spelling: Any) -> model.Type:
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
    if isinstance(type, model.Number):
        return type.machine
    if isinstance(type, (model.Vector, model.Struct, model.Tuple, model.AtomicCell)):
        check_element(type)
        return type
    return element_of_dtype(_dtype_of_number(spelling))


_LAYOUTS = {layout.value: layout for layout in model.Layout}


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
    return Pointer(type.machine if isinstance(type, model.Number) else type, bool(readonly))
