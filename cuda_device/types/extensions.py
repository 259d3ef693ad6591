"""`register` and `overload`: how libraries let kernels take their classes and define functions for their types.

    @register(Money, MoneyValue)               # launch(kernel, Money(…)) passes the struct MoneyValue
    def _(money):
        return MoneyValue(money.cents)

    @overload(len)                             # len(purse) in device code, where purse is a Purse
    def _(purse: Purse):
        return purse.coins.size

Overloads are stored on the struct classes, like methods, so a program depends on them as it depends on methods.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from cuda_device.types.host import REGISTERED, host_of, is_struct, model_of, overloads_key, type_of_hint
from cuda_device.types.struct_classes import made_of

F = TypeVar("F", bound=Callable[..., Any])

_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_", "or_", "xor"),
    *("neg", "pos", "invert", "eq", "ne", "lt", "le", "gt", "ge", "getitem"),
)
"""The functions of the module `operator` that can be overloaded."""
_SYNTAX = (bool, iter, next, getattr, setattr, hasattr, delattr, isinstance, issubclass, type, super, id)
"""Builtins that device code treats as syntax or as classes, and does not call."""


def register(cls: type, struct: type) -> Callable[[F], F]:
    """Lets kernels take objects of `cls` and its subclasses: the decorated function converts them to `struct` at each launch.

    `struct` is a class made by `@device.struct`. The function takes the object and returns a `struct`, or a tuple or dict of
    its members, which `struct.of` converts. As a type hint of parameters and as a type for `compile`, `cls` stands for
    `struct`. A second registration of a class replaces the first. Raises `TypeError` if `cls` is not a class, is a struct, or
    is a class of Python, of NumPy or of this package, whose objects keep their meaning, and if `struct` is not a struct.
    """
    if not isinstance(cls, type) or is_struct(cls):
        raise TypeError(f"register takes a class that is not a struct, not {cls!r}")
    is_number = issubclass(cls, (int, float, complex, np.generic))
    if is_number or cls.__module__.partition(".")[0] in ("builtins", "numpy", "cuda_device"):
        raise TypeError(
            f"register takes a class of your own, not {cls.__name__}: device code gives its objects a meaning"
        )
    if not isinstance(struct, type) or not is_struct(struct):
        raise TypeError(f"{cls.__name__} becomes a class made by @device.struct, not {struct!r}")

    def decorate(convert: F) -> F:
        if not callable(convert):
            raise TypeError(f"@register decorates a function that takes a {cls.__name__}, not {convert!r}")
        REGISTERED[cls] = (struct, convert)
        return convert

    return decorate


def registered(value: object, name: str) -> Any:
    """Converts an object of a registered class to its struct. `name` is the name of the argument.

    Raises `TypeError` if the conversion returns something else.
    """
    base = next(base for base in type(value).__mro__ if base in REGISTERED)
    struct, convert = REGISTERED[base]
    instance = made_of(convert(value), model_of(struct), name)
    if type(instance) is not struct:
        raise TypeError(f"the conversion of {base.__name__} returns {instance!r}, not a {struct.__name__}")
    return instance


def overload(entity: object) -> Callable[[F], F]:
    """Makes device code call the decorated function for `entity` (a builtin, operator or function) if the hints match.

    At least one parameter must have a struct class or a registered class as its hint, so that `entity` keeps its meaning for
    the types that device code has. A parameter with a number, vector or tuple as its hint takes what a struct's member of that
    type takes; one with `ArrayType(…)` takes an array of these elements and axes; one without a hint takes anything. Operators
    are those of the module `operator`: `@overload(operator.add)` defines `a + b`, and `operator.getitem` defines `a[i]`. A
    struct's own methods, such as `__len__`, take precedence, and syntax without such an operator, such as `a[i] = b`, `a += b`,
    `b in a`, `if a` and `for b in a`, uses methods alone. A new overload replaces an earlier one for the same types. Overloads
    have no effect on the host. Raises `TypeError` for a function without such a hint.
    """
    if not callable(entity):
        raise TypeError(f"overload takes a function, such as len or operator.add, not {entity!r}")
    is_operator = getattr(entity, "__module__", None) == operator.add.__module__
    if entity in _SYNTAX or (is_operator and all(entity is not getattr(operator, name) for name in _OPERATORS)):
        raise TypeError(
            f"{getattr(entity, '__name__', entity)} cannot be overloaded: define the special method in the struct; of the module "
            f"operator there are {', '.join(_OPERATORS)}"
        )

    def decorate(function: F) -> F:
        plain: Any = getattr(function, "underlying", function)
        if not isinstance(plain, FunctionType):
            raise TypeError(f"@overload decorates a Python function, not {function!r}")
        import inspect

        hints = inspect.get_annotations(plain, eval_str=True)
        names = plain.__code__.co_varnames[: plain.__code__.co_argcount]
        types = tuple(type_of_hint(hints[name]) if name in hints else None for name in names)
        hosts = {host_of(type) for type in types} - {None}
        if not hosts:
            raise TypeError(
                f"{plain.__qualname__} overloads a function for a new type: give a parameter the hint of a @device.struct class"
            )
        for host in hosts:
            rows = vars(host).get(overloads_key(entity), ())
            others = [row for row in rows if row[0] is not entity or row[2] != types]
            setattr(host, overloads_key(entity), (*others, (entity, plain, types)))
        return function

    return decorate
