"""What of device code is written in Python: modules whose functions are compiled like a user's, and what they stand for."""

from __future__ import annotations

from types import FunctionType

from cuda_device.library import (
    array_functions,
    complex_functions,
    complex_numbers,
    copying,
    numbers,
    prelude,
    standard,
)

_MODULES = (
    array_functions,
    complex_functions,
    complex_numbers,
    copying,
    numbers,
    prelude,
    standard,
)
NAMES = frozenset(module.__name__ for module in _MODULES)
"""The names of these modules: in their functions, messages tell where the user called them."""
REPLACEMENTS = prelude.REPLACEMENTS | standard.REPLACEMENTS
"""By a function of Python, the one that device code runs instead."""


_SHOWN = {function: entity for entity, function in reversed(REPLACEMENTS.items())}


def shown(function: FunctionType) -> str:
    """The name of a function in messages: of one of ours, that of what it stands for."""
    entity = _SHOWN.get(function)
    if entity is None:
        return function.__qualname__
    module = str(getattr(entity, "__module__", "")).strip("_")
    name = str(getattr(entity, "__name__", function.__name__))
    return name if module in ("", "builtins") else f"{module}.{name}"
