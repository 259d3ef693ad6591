"""What an object of the host looks like to the compiler, as bytes that another process makes of an object like it.

    fingerprint = Fingerprint()
    fingerprint.add(function)                     its code, defaults and annotations; not what it has yet to read
    fingerprint.add(3.5)
    fingerprint.digest()                          another one, if anything differs

Functions, classes and other objects that are themselves and no others are numbered as they appear, and are numbers from then
on: whether two names stand for one object shows. By these numbers other processes find whose globals a name was read from.

Only what is listed here has a fingerprint, and that says all that the compiler could see of it. Anything else raises `Unfit`:
objects of the user's classes, whose attributes may be the results of code, open files, locks.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import struct
import types
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from cuda_device.cache.libraries import name_of
from cuda_device.cache.numbered import Numbered, Unfit
from cuda_device.device.entities import DeviceValue
from cuda_device.device.expressions import const_parameters
from cuda_device.device.functions import Func
from cuda_device.lazy_dataclasses import fields_of, is_frozen
from cuda_device.types.known import UNKNOWN
from cuda_device.types.structs import is_struct, model_of
from cuda_device.types.vectors import VectorValue


class Fingerprint(Numbered):
    """The objects that were added, in their order."""

    def add(self, value: object) -> None:
        """Adds an object. Raises `Unfit` for one that has no fingerprint."""
        _FORMS.get(type(value), _other)(self, value)


_PASSING = ("builtins:hash", "builtins:id")
"""Functions whose results another process does not get."""


def _named(into: Fingerprint, value: object) -> bool:
    """Adds what has a name in a library, and tells whether it has one."""
    name = name_of(value)
    if name is None:
        return False
    if name in _PASSING:
        raise Unfit(name)
    if into.is_new(value):
        into.tag("named", name)
    return True


# Functions


def _function(into: Fingerprint, value: FunctionType) -> None:
    if _named(into, value) or not into.is_new(value):
        return
    into.tag("function", value.__module__, value.__qualname__, value.__name__, value.__doc__)
    into.add(value.__code__)
    into.add(value.__defaults__)
    into.add(value.__kwdefaults__)
    constants = const_parameters(value)
    into.items("constants", (part for item in constants.items() for part in item))
    into.add(vars(value) or None)


_CODE = (
    "co_name", "co_qualname", "co_filename", "co_firstlineno", "co_linetable", "co_code", "co_exceptiontable", "co_names",
    "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags",
    "co_consts",
)  # fmt: skip
"""Lines are among it: what a kernel reports names them."""


def _code(into: Fingerprint, value: CodeType) -> None:
    if into.is_new(value):
        into.items("code", (getattr(value, name) for name in _CODE))


_WRAPPED = {
    "__module__",
    "__name__",
    "__qualname__",
    "__doc__",
    "__wrapped__",
    "__annotations__",
    "__type_params__",
    "__annotate__",
}


def _func(into: Fingerprint, value: Func) -> None:
    if not into.is_new(value):
        return
    if value.options.link:
        raise Unfit("what is linked")
    into.tag("func")
    into.add(value.underlying)
    into.add(value.options)
    more = {k: v for k, v in vars(value).items() if k not in _WRAPPED and k not in ("underlying", "options")}
    into.add({k: v for k, v in more.items() if vars(value.underlying).get(k) is not v} or None)


def _builtin(into: Fingerprint, value: Any) -> None:
    """A function of C, or a method of a constant: `"ab".upper`."""
    owner = value.__self__
    if (owner is None or isinstance(owner, ModuleType)) and _named(into, value):
        return
    if owner is None or isinstance(owner, ModuleType):
        raise Unfit(str(value))
    into.tag("method", value.__name__)
    into.add(owner)


def _method(into: Fingerprint, value: types.MethodType) -> None:
    into.tag("bound")
    into.add(value.__func__)
    into.add(value.__self__)


def _partial(into: Fingerprint, value: functools.partial[Any]) -> None:
    if into.is_new(value):
        into.items("partial", (value.func, value.args, value.keywords, vars(value) or None))


def _reduced(into: Fingerprint, value: Any) -> None:
    """`operator.itemgetter` and its like."""
    if into.is_new(value):
        maker, *rest = value.__reduce__()
        given = (maker.args, maker.keywords) if isinstance(maker, functools.partial) else None
        into.items(type(value).__name__, (given, *rest))


def _wrapped(into: Fingerprint, value: Any) -> None:
    if into.is_new(value):
        into.items(type(value).__name__, (value.__func__, sorted(vars(value).keys() - _WRAPPED)))


def _property(into: Fingerprint, value: property) -> None:
    if into.is_new(value):
        into.items("property", (value.fget, value.fset, value.fdel))


def _descriptor(into: Fingerprint, value: Any) -> None:
    into.tag("descriptor", value.__name__)
    into.add(value.__objclass__)


# Classes


_NEITHER_HERE_NOR_THERE = frozenset(
    (
        "__dict__", "__weakref__", "__module__", "__qualname__", "__static_attributes__", "__firstlineno__", "__annotations__",
        "__annotate__", "__annotate_func__", "__annotations_cache__", "__classdictcell__", "__signature__",
    )
)  # fmt: skip
"""What classes have beside what their text says; hints of structs are in their model."""

_OF_ENUM = frozenset(
    (
        "_member_map_", "_member_names_", "_value2member_map_", "_use_args_", "_member_type_", "_value_repr_",
        "_unhashable_values_", "_unhashable_values_map_", "_hashable_values_", "_boundary_", "_flag_mask_", "_singles_mask_",
        "_all_bits_", "_inverted_", "_ignore_", "_order_", "_sort_order_",
    )
)  # fmt: skip
"""What enumerations keep beside: it follows from the members."""


def _class(into: Fingerprint, value: type) -> None:
    if type(value) not in (type, enum.EnumMeta):
        raise Unfit(f"the metaclass of {value.__name__}")
    if _named(into, value) or not into.is_new(value):
        return
    into.tag("class", value.__module__, value.__qualname__)
    into.items("bases", value.__bases__)
    parts = {name: part for name, part in vars(value).items() if name not in _NEITHER_HERE_NOR_THERE}
    if isinstance(value, enum.EnumMeta):
        _enumeration(into, value, parts)
        return
    for name, part in parts.items():
        into.tag("part", name)
        into.add(part)


def _is_of_library(part: Any) -> bool:
    """Whether a part of a class is a function of a library, or of one of its classes."""
    function = getattr(part, "__func__", part)
    owner = function.__self__ if isinstance(function, types.BuiltinFunctionType) else None
    return name_of(owner or getattr(function, "__objclass__", function)) is not None


def _enumeration(into: Fingerprint, value: Any, parts: dict[str, object]) -> None:
    """The members, and methods of Python's. A method or property of the user's own is code that would run on the host."""
    for name, part in parts.items():
        if name in value.__members__ or name in _OF_ENUM:
            continue
        if not isinstance(part, (str, type(None))) and not _is_of_library(part):
            raise Unfit(f"{name} of {value.__name__}")
        into.tag("part", name)
        into.add(part)
    for name, member in value.__members__.items():
        into.tag("member", name, member.name)
        into.add(member.value)


# Values


def _array(into: Fingerprint, value: np.ndarray[Any, Any]) -> None:
    if not into.is_new(value):
        return
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


def _dict(into: Fingerprint, value: dict[Any, Any]) -> None:
    if into.is_new(value):
        into.items("dict", (part for item in value.items() for part in item))


def _list(into: Fingerprint, value: list[Any]) -> None:
    if into.is_new(value):
        into.items("list", value)


def _set(into: Fingerprint, value: frozenset[Any]) -> None:
    """Sets have no order: each item by itself has a fingerprint."""
    digests = []
    for item in value:
        if not isinstance(item, (bool, int, float, str, bytes, type(None))):
            raise Unfit("a set of objects")
        alone = Fingerprint()
        alone.add(item)
        digests.append(alone.digest())
    into.data(type(value).__name__, *sorted(digests))


def _record(into: Fingerprint, value: Any) -> None:
    """One of our frozen dataclasses: types, options, what is known of arguments."""
    cls = type(value)
    into.tag("record", cls.__module__, cls.__qualname__)
    for name in fields_of(cls):
        into.add(getattr(value, name))


def _own_member(into: Fingerprint, value: enum.Enum) -> None:
    """A member of an enumeration of ours, of which a version says the rest."""
    cls = type(value)
    into.tag("own member", cls.__module__, cls.__qualname__, value.name)


def _float(into: Fingerprint, value: float) -> None:
    into.data("float", struct.pack("<d", value))


def _complex(into: Fingerprint, value: complex) -> None:
    into.data("complex", struct.pack("<dd", value.real, value.imag))


def _module(into: Fingerprint, value: ModuleType) -> None:
    """What it has is read name by name."""
    if into.is_new(value):
        into.tag("module", value.__name__)


def _other(into: Fingerprint, value: Any) -> None:
    """What is known by its base class."""
    own = _own_form(type(value))
    if own is not None:
        _FORMS[type(value)] = own  # not for classes of the user: these would never go
        own(into, value)
        return
    match value:
        case type():
            _class(into, value)
        case np.dtype():
            _dtype(into, value)
        case np.generic():
            _scalar(into, value)
        case enum.Enum():
            into.items("member", (type(value), value.name, value.value))
        case VectorValue():
            into.items("vector", (type(value), *value))
        case DeviceValue():
            into.tag("device value", value)
        case tuple() if hasattr(value, "_fields"):
            into.items("named tuple", (type(value), *value))
        case _ if is_struct(type(value)):
            names = [field.name for field in model_of(type(value)).fields]
            into.items("struct", (type(value), *(getattr(value, name) for name in names)))
        case _ if not _named(into, value):
            raise Unfit(f"an object of the class {type(value).__name__}")


def _own_form(cls: type) -> Callable[[Fingerprint, Any], None] | None:
    """How objects of our records and enumerations are added; None for any other class."""
    if not cls.__module__.startswith("cuda_device.") or issubclass(cls, DeviceValue):
        return None
    if issubclass(cls, enum.Enum):
        return _own_member
    return _record if is_frozen(cls) else None


def _simple(kind: str) -> Callable[[Fingerprint, Any], None]:
    return lambda into, value: into.tag(kind, value)


def _parts(kind: str, *names: str) -> Callable[[Fingerprint, Any], None]:
    return lambda into, value: into.items(kind, (getattr(value, name) for name in names))


_FORMS: dict[type, Callable[[Fingerprint, Any], None]] = {
    bool: _simple("bool"),
    int: lambda into, value: into.tag("int", hex(value)),
    str: _simple("str"),
    bytes: lambda into, value: into.data("bytes", value),
    type(None): _simple("none"),
    type(UNKNOWN): _simple("unknown"),
    type(...): _simple("ellipsis"),
    type(NotImplemented): _simple("not implemented"),
    float: _float,
    complex: _complex,
    tuple: lambda into, value: into.items("tuple", value),
    list: _list,
    dict: _dict,
    types.MappingProxyType: lambda into, value: _dict(into, dict(value)),
    set: _set,
    frozenset: _set,
    range: _parts("range", "start", "stop", "step"),
    slice: _parts("slice", "start", "stop", "step"),
    types.GenericAlias: _parts("generic", "__origin__", "__args__"),
    types.UnionType: _parts("union", "__args__"),
    np.ndarray: _array,
    ModuleType: _module,
    FunctionType: _function,
    CodeType: _code,
    Func: _func,
    types.BuiltinFunctionType: _builtin,
    types.MethodType: _method,
    types.MethodDescriptorType: _descriptor,
    types.WrapperDescriptorType: _descriptor,
    types.ClassMethodDescriptorType: _descriptor,
    types.MemberDescriptorType: _simple("slot"),
    types.GetSetDescriptorType: _descriptor,
    functools.partial: _partial,
    operator.itemgetter: _reduced,
    operator.attrgetter: _reduced,
    operator.methodcaller: _reduced,
    type(vars(inspect.FullArgSpec)["args"]): _reduced,  # what gets an item of a named tuple by its name
    staticmethod: _wrapped,
    classmethod: _wrapped,
    property: _property,
}
