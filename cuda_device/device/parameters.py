"""Reads the parameters of Python functions: their names, defaults and hints; `ConstExpr`, the hint of constants.

def f(a, b=2, *rest, c, **more): …      parameter_names → a, b, c, rest, more
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.host import PYTHON, convert_number, number_of, unannotated


def parameter_names(code: CodeType) -> tuple[str, ...]:
    """The names of a function's parameters: positional, then keyword-only ones, then those of `*args` and `**kwargs`."""
    more = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + more]


def defaults_of(function: FunctionType) -> dict[str, object]:
    """The default value of each parameter that has one."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    return dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)) | (function.__kwdefaults__ or {})


def annotations_of(function: FunctionType) -> Mapping[str, Any]:
    """The type hints of a function: objects or text.

    New versions of CPython evaluate hints lazily, and a hint may name something that only type checkers import.
    """
    try:
        return function.__annotations__
    except Exception:  # whatever a user's expression raises
        library = importlib.import_module("annotationlib")
        found: Mapping[str, Any] = library.get_annotations(function, format=library.Format.FORWARDREF)
        return found


@dataclass(frozen=True)
class _ConstExprOf:
    """The value of `ConstExpr[type]`."""

    type: Any

    def __repr__(self) -> str:
        return f"ConstExpr[{getattr(self.type, '__name__', self.type)}]"


class ConstExpr:
    """A type hint: the argument must be a constant expression. `ConstExpr[type]` also states its type.

    A kernel specialises on the value of such a parameter. Specification: 'Constant Expressions'.
    """

    def __class_getitem__(cls, type: Any) -> Any:
        return _ConstExprOf(type)


def evaluated_hints(function: FunctionType) -> dict[str, Any]:
    """The type hints of a function, without `Annotated`. Text (`from __future__ import annotations`) is evaluated.

    Text that cannot be evaluated, because it names local types, counts only if it contains `ConstExpr`.
    """
    found = {}
    for name, hint in annotations_of(function).items():
        if isinstance(hint, str):
            try:
                hint = eval(hint, function.__globals__)  # noqa: PLW2901
            except Exception:  # whatever a user's expression raises
                if "ConstExpr" not in hint:
                    continue
                hint = ConstExpr  # noqa: PLW2901
        found[name] = unannotated(hint)
    return found


def constants_among(hints: Mapping[str, Any]) -> dict[str, Any]:
    """The hints that are `ConstExpr`, as the types that they state (None: any)."""
    return {
        name: getattr(hint, "type", None)
        for name, hint in hints.items()
        if hint is ConstExpr or isinstance(hint, _ConstExprOf)
    }


def const_parameters(function: FunctionType) -> dict[str, Any]:
    """The parameters that are annotated with `ConstExpr`, with their types (None: any)."""
    return constants_among(evaluated_hints(function))


def constant_as(value: object, type: Any) -> object:
    """Converts a constant to the type of `ConstExpr[type]`, if that is a class.

    Builtin numbers convert to the type of a number as for members of structs, but a bool is not an int. Raises `TypeError` for a
    constant of another type, and for one that does not fit.
    """
    is_bool = type is int and isinstance(value, bool)
    if not isinstance(type, _class) or (isinstance(value, type) and not is_bool):
        return value
    if is_bool or not (type in PYTHON or issubclass(type, np.generic)):
        raise TypeError(f"{value!r} is not of type {type.__name__}")
    try:
        return convert_number(value, number_of(type), "the constant")
    except OverflowError as error:
        raise TypeError(str(error)) from error


_class = type
