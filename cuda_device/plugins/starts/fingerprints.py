"""Fingerprints of host objects: bytes that are equal in another process if the compiler would see the same objects.

    fingerprint = Fingerprint()
    fingerprint.add(function)                     its code, defaults and annotations, but not the globals that it reads
    fingerprint.add(3.5)
    fingerprint.digest()

Functions, classes and other objects with an identity are numbered in the order in which they appear. When an object appears
again, only its number is added, so the fingerprint shows whether two names refer to the same object. Another process uses these
numbers to find the functions whose globals were read.

The objects that kernels usually read have fingerprints: numbers, strings, tuples, lists, dicts, arrays, functions, structs and
plain classes, modules, and objects that Python, NumPy, ml_dtypes or this package define. Anything else raises `Unfit`.
"""

from __future__ import annotations

import builtins
import enum
import functools
import os
import struct
import sys
import types
from collections.abc import Callable, Iterable
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from cuda_device import Func, Vector
from cuda_device.extend import (
    DeviceValue,
    const_parameters,
    disk,
    sha256,
    struct_model,
)


class Unfit(Exception):
    """An object has no fingerprint, or another process could not find a namespace."""


_COMMON = {"builtin": vars(builtins), "module": sys.modules}
"""The namespaces that every process has."""


class Fingerprint:
    """A fingerprint of the objects that were added, in their order."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._objects: list[object] = []
        self._numbers: dict[int, int] = {}
        self._owners: dict[int, tuple[str, int]] = {id(namespace): (kind, 0) for kind, namespace in _COMMON.items()}

    def copy(self) -> Fingerprint:
        """A copy, to which other objects can be added."""
        copied = Fingerprint()
        copied._parts, copied._objects = self._parts.copy(), self._objects.copy()
        copied._numbers, copied._owners = self._numbers.copy(), self._owners.copy()
        return copied

    def digest(self) -> bytes:
        """The SHA-256 hash of everything that was added."""
        return sha256(b"".join(self._parts)).digest()

    def add(self, value: object) -> None:
        """Adds an object. Raises `Unfit` if it has no fingerprint."""
        try:
            _FORMS.get(type(value), _other)(self, value)
        except RecursionError:
            raise Unfit("a deeply nested object") from None

    def tag(self, kind: str, *texts: object) -> None:
        """Adds a word with texts."""
        self.data(kind, *[str(text).encode("utf-8", "surrogatepass") for text in texts])

    def data(self, kind: str, *data: bytes) -> None:
        """Adds a word with bytes."""
        sizes = len(data[0]) if len(data) == 1 else ",".join([str(len(part)) for part in data])
        self._parts += (f"{kind}({sizes})".encode(), *data)

    def items(self, kind: str, values: Iterable[object]) -> None:
        """Adds several objects."""
        held = list(values)
        self.tag(kind, len(held))
        for value in held:
            self.add(value)

    def is_new(self, value: object) -> bool:
        """Numbers an object. If it has a number already, adds the number and returns False."""
        number = self._numbers.get(id(value))
        if number is not None:
            self.tag("again", number)
            return False
        number = self._numbers[id(value)] = len(self._objects)
        self._objects.append(value)
        self._owners.setdefault(id(value), ("attribute", number))
        if isinstance(value, FunctionType):
            self._owners.setdefault(id(value.__globals__), ("global", number))
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
                self._owners.setdefault(id(cell), (f"cell {name}", number))
        return True

    def path_of(self, owner: object) -> tuple[str, int]:
        """Describes how another process finds a namespace, a cell, or an object with attributes, or raises `Unfit`."""
        if id(owner) not in self._owners:
            raise Unfit("it cannot be reached from the function")
        return self._owners[id(owner)]

    def owner_at(self, kind: str, number: int) -> object:
        """The object that `path_of` described. Raises `Unfit` if it does not exist."""
        if kind in _COMMON:
            return _COMMON[kind]
        value = self._objects[number] if 0 <= number < len(self._objects) else None
        if kind == "attribute" and isinstance(value, (ModuleType, type, FunctionType)):
            return value
        if isinstance(value, FunctionType):
            cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            owner = value.__globals__ if kind == "global" else dict(cells).get(kind.removeprefix("cell "))
            if isinstance(owner, (dict, CellType)):
                return owner
        raise Unfit("there is no such object")


# Objects of libraries


def _folder(module: ModuleType) -> str:
    return os.path.dirname(str(module.__file__)) + os.sep


_OWN = __name__.partition(".")[0]
_LIBRARIES = (_folder(np), disk.ml_dtypes()[0])
_PACKAGES = ("site", "dist")
_PASSING = ("builtins:hash", "builtins:id")
"""Functions whose results differ between processes."""


@functools.cache
def _is_library(name: str) -> bool:
    """Whether a module is part of Python, NumPy, ml_dtypes or this package, whose versions determine its contents."""
    module = sys.modules.get(name)
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None) or ""
    if name.partition(".")[0] == _OWN or getattr(spec, "origin", None) in ("built-in", "frozen"):
        return True
    installed = any(f"{os.sep}{kind}-packages{os.sep}" in file for kind in _PACKAGES)
    return (file.startswith(_folder(os)) and not installed) or file.startswith(_LIBRARIES)


def name_of(value: object) -> str | None:
    """The full name of an object that a library defines, such as "math:floor"; None for other objects."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, np.ufunc):
        module, name = "numpy", value.__name__
    if not isinstance(module, str) or not isinstance(name, str) or not _is_library(module):
        return None
    attribute: object = sys.modules.get(module)
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    return f"{module}:{name}" if attribute is value else None


def _named(into: Fingerprint, value: object) -> bool:
    """Adds an object of a library by its name. Returns False for other objects."""
    name = name_of(value)
    if name is None:
        return False
    if name in _PASSING:
        raise Unfit(name)
    if into.is_new(value):
        into.tag("named", name)
    return True


# Functions and classes


def _function(into: Fingerprint, value: FunctionType) -> None:
    if _named(into, value) or not into.is_new(value):
        return
    into.tag("function", value.__module__, value.__qualname__, value.__name__, value.__doc__)
    into.items("parts", (value.__code__, value.__defaults__, value.__kwdefaults__, vars(value) or None))
    into.items("constants", (part for item in const_parameters(value).items() for part in item))


_CODE = (
    "co_name", "co_qualname", "co_filename", "co_firstlineno", "co_linetable", "co_code", "co_exceptiontable", "co_names",
    "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags",
    "co_consts",
)  # fmt: skip
"""The attributes of code that are part of a fingerprint. Reports of kernels contain lines."""

_WRAPPED = (
    "__module__", "__name__", "__qualname__", "__doc__", "__wrapped__", "__annotations__", "__type_params__", "__annotate__",
    "underlying", "options",
)  # fmt: skip
"""Attributes of a decorated function that come from the function that it wraps, or are added separately."""


def _func(into: Fingerprint, value: Func) -> None:
    if not into.is_new(value):
        return
    if value.options.link:
        raise Unfit("what is linked")
    more = {name: part for name, part in vars(value).items() if name not in _WRAPPED}
    attributes = {name: part for name, part in more.items() if vars(value.underlying).get(name) is not part}
    into.items("func", (value.underlying, value.options, attributes or None))


_OF_EACH_CLASS = frozenset(
    (
        "__dict__", "__weakref__", "__module__", "__qualname__", "__static_attributes__", "__firstlineno__", "__annotations__",
        "__annotate__", "__annotate_func__", "__annotations_cache__", "__classdictcell__", "__signature__",
    )
)  # fmt: skip
"""Attributes of classes that are not part of a fingerprint. The annotations of structs are in their model."""


def _class(into: Fingerprint, value: type) -> None:
    if _named(into, value):
        return
    if type(value) is not type:
        raise Unfit(f"the metaclass of {value.__name__}")
    if not into.is_new(value):
        return
    into.tag("class", value.__module__, value.__qualname__)
    into.items("bases", value.__bases__)
    for name, part in vars(value).items():
        if name not in _OF_EACH_CLASS:
            into.tag("part", name)
            into.add(part)


def _bound_to_class(into: Fingerprint, value: Any) -> None:
    into.items(type(value).__name__, (value.__func__,))


# Values


def _array(into: Fingerprint, value: np.ndarray[Any, Any]) -> None:
    if into.is_new(value):
        into.tag("array", value.shape, value.strides, value.flags.writeable)
        into.add(value.dtype)
        into.data("elements", value.tobytes())


def _dtype(into: Fingerprint, value: np.dtype[Any]) -> None:
    if value.hasobject or value.metadata:
        raise Unfit(str(value))
    into.tag("dtype", value.str, value.name, value.itemsize, value.alignment, value.isalignedstruct, value.shape)
    if value.subdtype is not None:
        into.add(value.subdtype[0])
    for name in value.names or ():
        assert value.fields is not None
        into.tag("field", name, value.fields[name][1])
        into.add(value.fields[name][0])


def _scalar(into: Fingerprint, value: np.generic) -> None:
    into.tag("scalar", f"{type(value).__module__}.{type(value).__name__}")
    into.add(value.dtype)
    into.data("element", value.tobytes())


def _pairs(value: dict[Any, Any]) -> list[object]:
    return [part for item in value.items() for part in item]


def _own_record(into: Fingerprint, value: Any) -> None:
    """A frozen data class of this package: types, options, knowledge of arguments."""
    cls = type(value)
    into.tag("record", cls.__module__, cls.__qualname__)
    for name in cls.__match_args__:
        into.add(getattr(value, name))


def _own_member(into: Fingerprint, value: enum.Enum) -> None:
    """A member of an enumeration of this package."""
    cls = type(value)
    into.tag("own member", cls.__module__, cls.__qualname__, value.name)


def _own_mark(into: Fingerprint, value: Any) -> None:
    """An object of this package without state, such as that for an unknown value."""
    into.tag("mark", type(value).__module__, type(value).__qualname__)


def _other(into: Fingerprint, value: Any) -> None:
    """Adds an object whose class is not in the table."""
    form = _own_form(type(value))
    if form is not None:
        _FORMS[type(value)] = form  # not for classes of users, which would then live forever
        form(into, value)
        return
    match value:
        case type():
            _class(into, value)
        case np.dtype():
            _dtype(into, value)
        case np.generic():
            _scalar(into, value)
        case Vector():
            into.items("vector", (type(value), *value))
        case DeviceValue():
            into.tag("device value", value)
        case _ if (model := struct_model(type(value))) is not None:
            into.items("struct", (type(value), *(getattr(value, field.name) for field in model.fields)))
        case _ if not _named(into, value):
            raise Unfit(f"an object of the class {type(value).__name__}")


def _own_form(cls: type) -> Callable[[Fingerprint, Any], None] | None:
    """How to add objects of this package: of data classes, enumerations, and without state; None for other classes."""
    if not cls.__module__.startswith(f"{_OWN}.") or issubclass(cls, DeviceValue):
        return None
    if issubclass(cls, enum.Enum):
        return _own_member
    if cls.__init__ is object.__init__:
        return _own_mark
    is_frozen = cls.__setattr__ is not object.__setattr__
    return _own_record if is_frozen and hasattr(cls, "__match_args__") else None


def _text(kind: str) -> Callable[[Fingerprint, Any], None]:
    return lambda into, value: into.tag(kind, value)


def _once(kind: str, parts: Callable[[Any], Iterable[object]]) -> Callable[[Fingerprint, Any], None]:
    """Adds the parts of an object with an identity when it appears first."""

    def add(into: Fingerprint, value: object) -> None:
        if into.is_new(value):
            into.items(kind, parts(value))

    return add


def _module(into: Fingerprint, value: ModuleType) -> None:
    """Adds the name of a module. Its attributes are added when they are read."""
    if into.is_new(value):
        into.tag("module", value.__name__)


_FORMS: dict[type, Callable[[Fingerprint, Any], None]] = {
    bool: _text("bool"),
    int: lambda into, value: into.tag("int", hex(value)),
    str: _text("str"),
    bytes: lambda into, value: into.data("bytes", value),
    type(None): _text("none"),
    type(...): _text("ellipsis"),
    float: lambda into, value: into.data("float", struct.pack("<d", value)),
    complex: lambda into, value: into.data("complex", struct.pack("<dd", value.real, value.imag)),
    slice: lambda into, value: into.items("slice", (value.start, value.stop, value.step)),
    range: lambda into, value: into.items("range", (value.start, value.stop, value.step)),
    tuple: lambda into, value: into.items("tuple", value),
    list: _once("list", list),
    dict: _once("dict", _pairs),
    types.MappingProxyType: lambda into, value: into.items("mapping", _pairs(value)),
    np.ndarray: _array,
    ModuleType: _module,
    FunctionType: _function,
    CodeType: _once("code", lambda value: [getattr(value, name) for name in _CODE]),
    Func: _func,
    staticmethod: _bound_to_class,
    classmethod: _bound_to_class,
    types.MemberDescriptorType: _text("slot"),
}
