"""Replacements for `dataclass`, `field` and `replace` that generate each method when it is first used.

    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 0

The standard library generates and compiles up to six functions when a class is created, whether they are used or not. For the
130 classes of this package, that took half of the time from the import to the first launch. Here a method is generated at its
first access, and is then the same as the standard library's. A module with such classes needs
`from __future__ import annotations`, because type hints are not evaluated.
"""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "field", "fields_of", "is_frozen", "replace"]

_ABSENT: Any = object()


class _Field:
    """How a field differs from one that is only named."""

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


class _Later:
    """A method that is written at its first access, and takes this object's place."""

    def __init__(self, write: Callable[[type, str], Any]) -> None:
        self.write = write

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name

    def __get__(self, obj: Any, kind: type | None = None) -> Any:
        method = self.write(self.owner, self.name)
        setattr(self.owner, self.name, method)
        return method.__get__(obj, kind)


class _StandardFields:
    """What the functions of the standard library want to know of a data class."""

    def __get__(self, obj: Any, kind: type) -> Any:
        import dataclasses

        body: dict[str, Any] = {"__annotations__": dict.fromkeys(fields_of(kind), object)}
        for name, given in fields_of(kind).items():
            settings = {key: value for key, value in vars(given).items() if value is not _ABSENT}
            body[name] = dataclasses.field(**settings)
        twin: Any = dataclasses.dataclass(kw_only=True)(type(kind.__name__, (), body))
        return twin.__dataclass_fields__


def fields_of(cls: type) -> Mapping[str, _Field]:
    """The fields of a data class, those of its bases first."""
    found: Mapping[str, _Field] = cls.__lazy_fields__  # type: ignore[attr-defined]
    return found


def is_frozen(cls: type) -> bool:
    """Whether a class is a data class whose objects never change."""
    return cls.__setattr__ is _refuse


def _dataclass(cls: type | None = None, /, **options: bool) -> Any:
    """Makes a data class of `cls`. Options: frozen, slots, eq, order; else as in the standard library."""
    return _made(cls, **options) if cls is not None else lambda cls: _made(cls, **options)


def _made(cls: type, *, frozen: bool = False, slots: bool = False, eq: bool = True, order: bool = False) -> type:
    own = {name: _own_field(cls, name) for name in vars(cls).get("__annotations__", ()) if _is_field(cls, name)}
    inherited = [getattr(base, "__lazy_fields__", {}) for base in reversed(cls.__mro__[1:])]
    fields = {name: given for found in (*inherited, own) for name, given in found.items()}
    writers = {"__init__": _frozen_init if frozen else _init, "__repr__": _repr}
    writers |= dict.fromkeys([*["__eq__"] * eq, *(_ORDERS if order else ())], _compare)
    writers |= {"__hash__": _hash} if eq and frozen else {}
    methods: dict[str, Any] = {name: _Later(write) for name, write in writers.items()}
    methods |= {"__hash__": None} if eq and not frozen else {}
    methods |= {"__setattr__": _refuse, "__delattr__": _refuse} if frozen else {}
    methods |= {"__getstate__": _state, "__setstate__": _restore} if frozen and slots else {}
    methods |= {"__lazy_fields__": fields, "__dataclass_fields__": _StandardFields(), "__replace__": _replace}
    methods["__match_args__"] = tuple(name for name, described in fields.items() if described.init)
    # A class that has an `__eq__` only has a `__hash__` of None.
    more = {name: method for name, method in methods.items() if vars(cls).get(name) is None}
    return _with_slots(cls, own, more) if slots else _completed(cls, own, more)


def _is_field(cls: type, name: str) -> bool:
    return not str(vars(cls)["__annotations__"][name]).startswith("ClassVar")


def _own_field(cls: type, name: str) -> _Field:
    given = vars(cls).get(name, _ABSENT)
    return given if isinstance(given, _Field) else _Field(default=given)


def _completed(cls: type, own: Mapping[str, _Field], more: Mapping[str, Any]) -> type:
    """The class with methods, where a field that was described has its default, if it has one."""
    for name, given in own.items():
        if given.default is not _ABSENT:
            setattr(cls, name, given.default)
        elif name in vars(cls):
            delattr(cls, name)
    for name, method in more.items():
        setattr(cls, name, method)
        if isinstance(method, _Later):
            method.__set_name__(cls, name)
    return cls


def _with_slots(cls: type, own: Mapping[str, _Field], more: Mapping[str, Any]) -> type:
    """The class once more, with a slot for each field, and with methods."""
    dropped = {*own, "__dict__", "__weakref__"}
    body = {name: value for name, value in vars(cls).items() if name not in dropped} | dict(more)
    body["__slots__"] = tuple(own)
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


# Methods, as text. Most differ in the names of fields only: with `_0`, `_1`, … for these, a text is compiled once.


def _function(cls: type, name: str, parameters: Iterable[str], body: Iterable[str], names: Mapping[str, Any]) -> Any:
    """A method; `names` are the objects that it uses beside Python's own."""
    code = _compiled(f"def {name}({', '.join(parameters)}):\n " + "\n ".join(body))
    fields = {f"_{number}": field for number, field in enumerate(fields_of(cls))}
    code = code.replace(
        co_varnames=tuple([fields.get(name, name) for name in code.co_varnames]),
        co_names=tuple([fields.get(name, name) for name in code.co_names]),
        co_consts=tuple([fields.get(each, each) if type(each) is str else each for each in code.co_consts]),
        co_qualname=f"{cls.__qualname__}.{name}",
    )
    function = FunctionType(code, dict(names), name)
    function.__module__ = cls.__module__
    return function


@functools.cache
def _compiled(text: str) -> CodeType:
    """The code of the function in a text."""
    (code,) = (part for part in compile(text, "<data class>", "exec").co_consts if isinstance(part, CodeType))
    return code


def _init(cls: type, name: str, assignment: str = "self.{0} = {1}") -> Any:
    names: dict[str, Any] = {"_set": object.__setattr__, "_ABSENT": _ABSENT}
    names |= {f"_set_{number}": slot.__set__ for number, slot in enumerate(_slots(cls))}
    parameters, body, defaults = ["self"], [], []
    for number, given in enumerate(fields_of(cls).values()):
        field, value, default = f"_{number}", f"_{number}", f"_default_{number}"
        if given.default_factory is not _ABSENT:
            names[default] = given.default_factory
            value = f"{default}() if {field} is _ABSENT else {field}" if given.init else f"{default}()"
            defaults += [_ABSENT] * given.init
        elif given.default is not _ABSENT:
            names[default] = given.default
            value = field if given.init else default
            defaults += [given.default] * given.init
        elif defaults:
            raise TypeError(f"a field without a default follows one that has one, in {cls.__qualname__}")
        parameters += [field] * (given.init or value == field)
        body.append(assignment.format(field, value))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    function = _function(cls, name, parameters, body or ["pass"], names)
    function.__defaults__ = tuple(defaults) or None
    return function


def _frozen_init(cls: type, name: str) -> Any:
    # A slot is written in half the time that it takes to find it by its name.
    return _init(cls, name, "_set{0}(self, {1})" if _slots(cls) else "_set(self, '{0}', {1})")


def _slots(cls: type) -> list[Any]:
    """The descriptors of the fields, if each of them has a slot."""
    found = [getattr(cls, name, None) for name in fields_of(cls)]
    return found if all(isinstance(slot, MemberDescriptorType) for slot in found) else []


def _repr(cls: type, name: str) -> Any:
    parts = [
        f"{field}={{self._{number}!r}}" for number, (field, given) in enumerate(fields_of(cls).items()) if given.repr
    ]
    shown = ", ".join(parts)
    function = _function(cls, name, ["self"], [f"return f'{{type(self).__qualname__}}({shown})'"], {})
    return reprlib.recursive_repr()(function)


def _tuple(cls: type, of: str) -> str:
    return f"({''.join(f'{of}._{i}, ' for i, given in enumerate(fields_of(cls).values()) if given.compare)})"


def _compare(cls: type, name: str) -> Any:
    sign = _ORDERS.get(name, "==")
    values = f"{_tuple(cls, 'self')} {sign} {_tuple(cls, 'other')}"
    if sign == "==":  # most objects that are compared are one
        values = f"self is other or {values}"
    body = [f"return {values} if other.__class__ is self.__class__ else NotImplemented"]
    return _function(cls, name, ["self", "other"], body, {})


def _hash(cls: type, name: str) -> Any:
    return _function(cls, name, ["self"], [f"return hash({_tuple(cls, 'self')})"], {})


_ORDERS = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


# Methods that all classes share


def _refuse(self: Any, name: str, *value: Any) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in fields_of(type(self))]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(fields_of(type(self)), state, strict=True):
        object.__setattr__(self, name, value)


def _replace(obj: Any, /, **changes: Any) -> Any:
    """A new object, with some fields changed."""
    cls = type(obj)
    return cls(**{name: getattr(obj, name) for name in cls.__match_args__} | changes)


if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:
    dataclass, field, replace = _dataclass, _Field, _replace
