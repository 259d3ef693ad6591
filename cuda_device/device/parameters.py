"""The parameters of Python functions: their names, defaults and annotations.

def f(a, b=2, *rest, c, **more): …      parameter_names → a, b, c, rest, more
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any


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
        hints: Mapping[str, Any] = library.get_annotations(function, format=library.Format.FORWARDREF)
        return hints
