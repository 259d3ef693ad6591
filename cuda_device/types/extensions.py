"""What libraries add to device code: classes of the host that kernels take, and functions for types that are new.

    @register(Money, MoneyValue)               # launch(kernel, Money(…)) passes the struct MoneyValue
    def _(money):
        return MoneyValue(money.cents)

    @overload(len)                             # len(purse) in device code, where purse is a Purse
    def _(purse: Purse):
        return purse.coins.size

Overloads live on the struct classes, like methods, so a program depends on them as it depends on methods.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from cuda_device.types.host import REGISTERED, is_struct, model_of
from cuda_device.types.model import Struct, Type
from cuda_device.types.struct_classes import made_of, type_of_hint

F = TypeVar("F", bound=Callable[..., Any])


def register(cls: type, struct: type) -> Callable[[F], F]:
    """Makes kernels take objects of `cls`, and of its subclasses: a launch passes the `struct` that the decorated function makes.

    `struct` is a class made by `@device.struct`. The function gets the object and returns a `struct`, or a tuple or dict of its
    members, from which `struct.of` makes one; it runs at each launch. `cls` becomes a type hint of parameters and a type for
    `compile`, which stands for `struct`. A second registration of a class replaces the first. Raises `TypeError` where `cls` is
    no class or is a struct, and where `struct` is none.
    """
    if not isinstance(cls, type) or is_struct(cls):
        raise TypeError(f"register takes a class that is no struct, not {cls!r}")
    if not isinstance(struct, type) or not is_struct(struct):
        raise TypeError(f"{cls.__name__} becomes a class made by @device.struct, not {struct!r}")

    def decorate(convert: F) -> F:
        if not callable(convert):
            raise TypeError(f"@register decorates a function that takes a {cls.__name__}, not {convert!r}")
        REGISTERED[cls] = (struct, convert)
        return convert

    return decorate


def registered(value: object, name: str) -> Any:
    """The struct of an object whose class is registered; None for any other object. `name` is the argument's.

    Raises `TypeError` where the conversion gives something else.
    """
    for base in type(value).__mro__:
        if (found := REGISTERED.get(base)) is not None:
            struct, convert = found
            made = made_of(convert(value), model_of(struct), name)
            if type(made) is not struct:
                raise TypeError(f"the conversion of {base.__name__} gives {made!r}, not a {struct.__name__}")
            return made
    return None


def overload(entity: object) -> Callable[[F], F]:
    """Makes device code call the decorated function for `entity`, a builtin, operator or function, where its hints fit.

    At least one parameter has the hint of a struct class, or of a class that is registered: what `entity` does with the types
    that device code has stays as it is. A parameter with the hint of a number, vector or tuple takes what a struct's member of
    that type takes, `ArrayType(…)` an array of these elements and axes, one without a hint anything. Operators are those of the
    module `operator`: `@overload(operator.add)` is `a + b`. A struct's own methods come first, such as `__len__`. An overload
    for the same types replaces the former. The host does not know of overloads. Raises `TypeError` for a function without such
    a hint.
    """
    if not callable(entity):
        raise TypeError(f"overload takes a function, such as len or operator.add, not {entity!r}")

    def decorate(function: F) -> F:
        plain: Any = getattr(function, "underlying", function)
        if not isinstance(plain, FunctionType):
            raise TypeError(f"@overload decorates a Python function, not {function!r}")
        import inspect

        hints = inspect.get_annotations(plain, eval_str=True)
        names = plain.__code__.co_varnames[: plain.__code__.co_argcount]
        wanted = tuple(type_of_hint(hints[name]) if name in hints else None for name in names)
        hosts = {host_of(each) for each in wanted} - {None}
        if not hosts:
            raise TypeError(
                f"{plain.__qualname__} overloads a function for a new type: give a parameter the hint of a @device.struct class"
            )
        for host in hosts:
            others = [each for each in vars(host).get(key_of(entity), ()) if each[0] is not entity or each[2] != wanted]
            setattr(host, key_of(entity), (*others, (entity, plain, wanted)))
        return function

    return decorate


def key_of(entity: object) -> str:
    """The name of the attribute of struct classes that has the overloads of a function."""
    name = getattr(entity, "__qualname__", None) or getattr(entity, "__name__", type(entity).__name__)
    return f"overload of {name}"


def host_of(type: Type | None) -> Any:
    """The class that has the overloads of a struct: one for all alignments; None for other types."""
    if not isinstance(type, Struct) or type.host is None:
        return None
    host: Any = type.host
    return host._plain or host
