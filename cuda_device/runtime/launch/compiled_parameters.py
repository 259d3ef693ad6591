"""The parameters of compiled code as `Compiled` lists them and files store them, with values in Python notation.

Parameter("x", "array<float32, 1, C>", offset=8, size=16)
notation((np.int32(1), math.sin))                             "(1, math.sin)"
"""

from __future__ import annotations

import ast
import contextlib
from typing import Any, NamedTuple

import numpy as np


class Parameter(NamedTuple):
    """A parameter of a compiled kernel or function.

    `offset` and `size` are its position and size in bytes in the kernel's parameter memory. Both are 0 for the parameters of a
    function, and for a constant, whose value is `constant`. `default` is the default value. Values are in Python notation.
    """

    name: str
    type: str
    offset: int = 0
    size: int = 0
    constant: str | None = None
    default: str | None = None


def notation(value: Any) -> str:
    """A value in Python notation: NumPy's numbers as those of Python, and functions and types by their names."""
    if isinstance(value, tuple):
        return f"({', '.join(map(notation, value))}{',' * (len(value) == 1)})"
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, np.generic):
        return repr(value.item())
    return repr(int(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def literal_notation(value: Any) -> str | None:
    """The notation of a value that consists of Python's literals; None for others."""
    with contextlib.suppress(ValueError, SyntaxError):
        text = notation(value)
        value_of(text)
        return text
    return None


def value_of(text: str) -> Any:
    """The value of a literal in Python notation."""
    return float(text) if text in ("inf", "-inf", "nan") else ast.literal_eval(text)
