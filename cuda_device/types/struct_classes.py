"""`@struct`: classes whose values exist on the host and in device code ('User-Defined Types' in the specification).

    @device.struct
    class point:
        x: device.float32
        y: device.float32 = 0.0

        @device.func
        def scaled(self, k):
            return point(self.x * k, self.y * k)

Structs are immutable values: `replace(p, x=1)` returns a new one. They have the layout of CUDA C++.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from types import FrameType
from typing import Any, ClassVar, TypeVar, dataclass_transform, overload

import numpy as np

from cuda_device.errors import refused_if_deep
from cuda_device.types.abi import representation
from cuda_device.types.host import (
    MODEL,
    Aligned,
    alignment_of_hint,
    alike,
    check_alignment,
    convert_number,
    given_members,
    model_of,
    type_of_hint,
)
from cuda_device.types.layout import has_arrays, has_identity, placement, pointee_of
from cuda_device.types.model import NONE, UINT64, Array, Field, Number, Pointer, Struct, Tuple, Type, Vector
from cuda_device.types.vector_classes import VectorValue, replaced

C = TypeVar("C", bound=type)


def align(t: Any, n: int) -> Any:
    """Returns a type like `t` that, as a member or argument, is aligned to at least `n` bytes, a power of two.

    For a struct this also changes the size, and such a struct may be an element of a tuple. A number in a tuple keeps the
    alignment of numbers. Raises `TypeError` if `t` is not a heterogeneous type, and `ValueError` for an invalid `n`.
    """
    check_alignment(n)
    model = type_of_hint(t)
    if isinstance(model, Struct) and model.host is not None:
        return _aligned(t._plain or t, n) if n > model.align else t
    if isinstance(t, Aligned):
        return Aligned(t.type, max(n, t.align))
    return Aligned(t, n)


_ALIGNED: dict[tuple[Any, int], Any] = {}


def _aligned(host: Any, n: int) -> Any:
    """The struct with another alignment, which is created only once, also if several threads ask for it."""
    aligned = _ALIGNED.get((host, n))
    if aligned is None:
        new = _make(host.underlying, n, host.__annotations__)
        new._plain = host
        aligned = _ALIGNED.setdefault((host, n), new)
    return aligned


@dataclass_transform()
@overload
def struct(cls: C, /) -> C: ...
@overload
def struct(*, align: int) -> Callable[[C], C]: ...
def struct(cls: C | None = None, /, *, align: int = 0) -> C | Callable[[C], C]:
    """Makes a class a heterogeneous struct, with a minimum alignment of `align` bytes.

    Each attribute has a type hint: a number, vector, struct or tuple, `align(…)` of one, `Atomic(…)`, or `ArrayType(…)`. A
    struct with an `Atomic` member can only live in arrays; a struct with an array as a member can only be an argument or a
    local value. Class attributes are default values. The result has `underlying`, the decorated class. Raises `TypeError` for
    anything else. Specification: 'User-Defined Types'.

    `T.of(…)` makes a struct from arrays of any library, numbers, and dicts or tuples for members that are structs, unless the
    class defines its own `of`; see `help(T.of)`.
    """
    if align != 0:
        check_alignment(align)
    if cls is not None and not isinstance(cls, type):
        raise TypeError(f"@struct decorates a class, not {cls!r}")
    return _make(cls, align) if cls is not None else lambda target: _make(target, align)


REACHES_OTHERS = "__reaches_others__"
"""The attribute of a struct through which a kernel reaches memory that is not freed in the order of its stream."""


def _make(cls: Any, alignment: int, evaluated: Mapping[str, Any] | None = None) -> Any:
    with refused_if_deep("the type is", TypeError):
        hints = _hints(cls) if evaluated is None else evaluated
        _check_class(cls, hints)
        fields = tuple(_field(cls, name, hint) for name, hint in hints.items())
    body = {
        k: v for k, v in vars(cls).items() if k not in hints and k not in ("__dict__", "__weakref__", "__annotations__")
    }
    defaults = {name: vars(cls)[name] for name in hints if name in vars(cls)}
    body |= {
        "__slots__": tuple(hints),
        "__match_args__": body.get("__match_args__", tuple(hints)),
        "__annotations__": dict(hints),
        "__init__": _initialise,
        "__init_subclass__": _refuse_subclass,
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        "__repr__": body.get("__repr__", _represent),
        "__reduce__": _reduce,
        "__replace__": replace,
        "__signature__": Signature(
            [
                Parameter(
                    name, Parameter.POSITIONAL_OR_KEYWORD, default=defaults.get(name, Parameter.empty), annotation=hint
                )
                for name, hint in hints.items()
            ]
        ),
        "underlying": cls,
        "_defaults": defaults,
        "_plain": None,
    }
    if "of" not in hints:
        body.setdefault("of", classmethod(of))
    if "__eq__" not in vars(cls):
        body |= {
            "__eq__": _equal,
            "__hash__": body.get("__hash__", None if any(has_arrays(f.type) for f in fields) else _hash),
        }
    if any(has_arrays(field.type) for field in fields) and any(has_identity(field.type) for field in fields):
        raise TypeError(f"{cls.__name__}: a struct cannot have both atomic members and array members: make two structs")
    host = type(cls.__name__, (), body)
    setattr(host, MODEL, Struct(cls.__name__, fields, alignment, host))
    return host


_GIVEN = ("__init__", "__new__", "__setattr__", "__delattr__", "__getattribute__", "__post_init__")
"""Methods that a struct cannot define."""


def _check_class(cls: Any, hints: Mapping[str, Any]) -> None:
    """Refuses bases and methods that the struct would not have."""
    if cls.__bases__ != (object,):
        raise TypeError(f"{cls.__name__}: a struct has no base classes")
    for name in _GIVEN:
        if name in vars(cls):
            raise TypeError(
                f"{cls.__name__}: a struct cannot define {name}, because it is created from its members: write a static method"
            )
    for name in ("underlying", "_defaults", "_plain", MODEL):
        if name in hints:
            raise TypeError(f"{cls.__name__}: a member cannot be called {name}")


def _refuse_subclass(cls: Any) -> None:
    raise TypeError(f"{cls.__name__}: a struct has no base classes and no subclasses: make it a member")


def _hints(cls: Any) -> dict[str, Any]:
    """The type hints in order. Text is evaluated in the scope that defines the class, which may be a function."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    around = frame.f_locals if frame is not None else {}
    namespace = {**vars(sys.modules.get(cls.__module__, sys)), **around, cls.__name__: cls}
    hints = {}
    for name, written in getattr(cls, "__annotations__", {}).items():
        hint = eval(written, namespace) if isinstance(written, str) else written
        if ClassVar not in (hint, getattr(hint, "__origin__", None)):  # class constants are not members
            hints[name] = hint
    return hints


def _field(cls: Any, name: str, hint: Any) -> Field:
    try:
        type = type_of_hint(hint)
        placement(representation(type))
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.{name}: {error}") from None
    if has_arrays(type) and name in vars(cls):
        raise TypeError(f"{cls.__name__}.{name}: an array member cannot have a default")
    if has_identity(type) and name in vars(cls):
        raise TypeError(f"{cls.__name__}.{name}: an atomic cannot have a default: set it in its array")
    return Field(name, type, alignment_of_hint(hint))


def _initialise(self: Any, /, *args: Any, **kwargs: Any) -> None:
    model = model_of(type(self))
    for name, value in _by_name(type(self), args, kwargs).items():
        target = model.fields[model.index(name)].type  # type: ignore[index]
        object.__setattr__(self, name, convert(value, target, f"{model.name}.{name}"))


def _by_name(cls: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor by the names of the members, in their order, with defaults."""
    model = model_of(cls)
    if has_identity(model):
        raise TypeError(
            f"{model.name} has atomic members, so it needs an array: numpy.zeros(n, cuda_device.numpy_dtype({model.name}))"
        )
    names = [field.name for field in model.fields]
    values = cls._defaults | given_members(model.name, names, cls._defaults, args, kwargs)
    return {name: values[name] for name in names}


def of(cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Creates a struct from arrays, numbers, and other structs, given by position or by name.

    An array member takes an array of any library, as `as_array` does: missing axes, of length 1, are inserted in front, and the
    dtype must be the member's. A struct member takes a struct, or a dict or tuple of its members. Other members take what they
    take in the constructor. Raises `TypeError` and `LaunchError` with the name of the member.

    If a member is given a `DeviceArrayGroup`, the result is a list with a struct for each rank, as `launch_group` takes it; a
    list given to another member has one item for each rank, too.
    """
    model = model_of(cls)
    values = _by_name(cls, args, kwargs)
    for value in values.values():
        if by_rank := getattr(type(value), "_by_rank", None):  # the arrays of a group
            return by_rank(value, functools.partial(of, cls), values)
    members = zip(model.fields, values.values(), strict=True)
    return cls(*(made_of(value, field.type, f"{model.name}.{field.name}") for field, value in members))


def made_of(value: Any, target: Type, name: str) -> Any:
    """Converts an array of any library, or a dict or tuple for a struct; returns other values unchanged."""
    match target:
        case Array():
            # It is defined above this module, so it is looked up in the package.
            as_array = sys.modules["cuda_device"].as_array
            return as_array(value, target.ndim, "left", "strided", target.dtype, readonly=target.readonly, name=name)
        case Struct(host=host) if isinstance(value, Mapping):
            return of(host, **value)
        case Struct(host=host) if isinstance(value, tuple):
            return of(host, *value)
    return value


def convert(value: Any, target: Type, name: str) -> Any:
    """Converts a builtin number of the same or a lower kind, or a number of the same format; other values must have the type."""
    if isinstance(target, Number):
        return convert_number(value, target, name)
    if isinstance(target, Tuple):
        if not isinstance(value, tuple) or len(value) != len(target.elements):
            raise TypeError(f"{name} is a tuple of {len(target.elements)} elements, not {value!r}")
        return tuple(convert(v, t, f"{name}[{i}]") for i, (v, t) in enumerate(zip(value, target.elements, strict=True)))
    if isinstance(target, Array):
        return _check_array(value, target, name)
    if isinstance(target, Pointer):
        return _check_pointer(value, name)
    if target == NONE and value is None:
        return None
    if isinstance(target, Vector) and isinstance(value, VectorValue) and value.model == target:
        return value
    actual = type(value).__dict__.get(MODEL)
    if isinstance(target, Struct) and isinstance(actual, Struct) and alike(actual, target):
        return value if actual == target else target.host(*_values(value))  # type: ignore[misc]
    vector = f"{target.dtype}x{target.size}" if isinstance(target, Vector) else ""
    raise TypeError(f"{name} is of type {vector or getattr(target, 'name', str(target))}, not {value!r}")


def as_type(value: Any, target: Type, name: str) -> Any:
    """Converts a host value to a type: an array of any library, a dict or tuple to a struct, and what `convert` converts.

    Raises `TypeError` and `LaunchError`, which call the value `name`.
    """
    return convert(made_of(value, target, name), target, name)


_PROTOCOLS = ("__dlpack__", "__cuda_array_interface__", "__array_interface__")


def _check_pointer(value: Any, name: str) -> Any:
    """Checks an address, or an array, which each launch converts to an address."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not 0 <= value <= UINT64.high:
            raise TypeError(
                f"{name} is a pointer, and {value} is not an address: addresses are unsigned ints of 64 bits"
            )
        return int(value)
    if isinstance(value, (type, np.generic)) or not any(hasattr(value, protocol) for protocol in _PROTOCOLS):
        raise TypeError(f"{name} is a pointer, not {value!r}: give an address, or an array that it points to")
    return value


def _check_array(value: Any, target: Array, name: str) -> Any:
    """Checks what an array of any library says of itself; a launch checks the rest."""
    says = f"{name} is an array of {target.ndim} dimensions of {getattr(target.dtype, 'name', target.dtype)}"
    if isinstance(value, (type, np.generic)) or not any(hasattr(value, protocol) for protocol in _PROTOCOLS):
        raise TypeError(f"{says}, not {value!r}: make one with numpy.array or cuda_device.array")
    ndim, dtype = getattr(value, "ndim", target.ndim), getattr(value, "dtype", None)
    if ndim != target.ndim or (isinstance(dtype, np.dtype) and type_of_hint(dtype) != pointee_of(target.dtype)):
        raise TypeError(f"{says}, not one of {ndim} of {dtype}")
    return value


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise TypeError(f"structs are immutable: write replace(…, {name}=…), which returns a new {type(self).__name__}")


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, field.name) for field in model_of(type(self)).fields)


def _represent(self: Any) -> str:
    model = model_of(type(self))
    members = (f"{field.name}={_text(value)}" for field, value in zip(model.fields, _values(self), strict=True))
    return f"{model.name}({', '.join(members)})"


def _text(value: Any) -> str:
    """A member without the types of its numbers, also of those in tuples."""
    if not isinstance(value, tuple):
        return str(value)
    return f"({', '.join(map(_text, value))}{',' * (len(value) == 1)})"


def _equal(self: Any, other: Any) -> Any:
    is_alike = getattr(type(other), "underlying", None) is self.underlying
    return _same(_values(self), _values(other)) if is_alike else NotImplemented


def _same(a: Any, b: Any) -> bool:
    """Whether two members are equal. Tuples are compared item by item, because their `==` treats an identical NaN as equal."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a is b or np.array_equal(a, b)
    if not isinstance(a, tuple):
        return bool(a == b)
    return all(map(_same, a, b))


def _hash(self: Any) -> int:
    return hash((self.underlying, _values(self)))


def _reduce(self: Any) -> tuple[Any, ...]:
    cls = type(self)
    if hasattr(cls, REACHES_OTHERS):
        raise TypeError("what a kernel takes of a group belongs to its process: pickle the arrays, g.local(rank)")
    if cls._plain is None:
        return cls, _values(self)
    return _remake, (cls._plain, model_of(cls).align, _values(self))


def _remake(cls: Any, n: int, values: tuple[Any, ...]) -> Any:
    """Unpickles a struct whose type was made by `align`, and so has no importable name."""
    return align(cls, n)(*values)


def replace(s: Any, /, **changes: Any) -> Any:
    """Returns a copy of a struct or vector with some members changed. Works on host and device.

    Raises `TypeError` for a member that does not exist.
    """
    if isinstance(s, VectorValue):
        return s.__replace__(**changes)
    if MODEL not in vars(type(s)):
        raise TypeError(f"replace takes a struct or a vector, not {s!r}")
    return replaced(s, [field.name for field in model_of(type(s)).fields], changes)
