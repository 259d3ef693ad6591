"""The tables of what device code can name: the rows of the device, and the functions of the library.

`infer/builtin_calls` makes the rules of calls from them.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable
from operator import attrgetter
from types import FunctionType
from typing import Any

import numpy as np

from cuda_device.device import entities, rows
from cuda_device.device.rows import Intrinsic
from cuda_device.library import complex_functions, numbers, prelude, standard


def all_rows() -> tuple[Intrinsic, ...]:
    """The rows of everything that device code can name."""
    for module in _OF_DEVICE:
        importlib.import_module(f"cuda_device.{module}")
    return tuple(sorted(rows.BY_NAME.values(), key=attrgetter("name")))


_OF_DEVICE = (
    "device.target",
    "device.positioning",
    "device.memory",
    "device.sync",
    "device.atomics",
    "device.machine_functions",
    "device.numeric",
    "device.inline_ptx",
    "device.packing",
    "library.builtins",
    "library.complex_functions",
    "library.copying",
)
"""The modules that enter rows."""


# Functions of Python and NumPy

FUNCTIONS = numbers.FUNCTIONS | standard.FUNCTIONS
"""By function of Python, the function that device code calls instead."""

_OF_MATH = (
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot",
    "fabs", "copysign", "fmod", "nextafter", "cbrt", "degrees", "radians", "isnan", "isinf", "isfinite", "gcd", "lcm",
    "modf", "frexp", "ldexp",
)  # fmt: skip
"""The functions of NumPy that `math` has under the same name."""
_OF_NUMPY: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in _OF_MATH},
    "arcsin": math.asin,
    "arccos": math.acos,
    "arctan": math.atan,
    "arctan2": math.atan2,
    "arcsinh": math.asinh,
    "arccosh": math.acosh,
    "arctanh": math.atanh,
    "rad2deg": math.degrees,
    "deg2rad": math.radians,
    "absolute": abs,
    "conjugate": complex_functions.conjugate,
    "rint": entities.float_round,
    "minimum": prelude.minimum,
    "maximum": prelude.maximum,
    "logical_not": operator.not_,
    "divmod": divmod,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "negative": operator.neg,
    "positive": operator.pos,
    "bitwise_count": numbers.bit_count,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "angle": complex_functions.angle,
    "clip": numbers.clip,
    "where": numbers.where,
    "round": complex_functions.rounded,
    "around": complex_functions.rounded,
    "isclose": numbers.are_close,
}
NUMPY: dict[Callable[..., Any], Callable[..., Any]] = {
    **numbers.OF_NUMPY,
    **{getattr(np, name): function for name, function in _OF_NUMPY.items() if hasattr(np, name)},
}
"""By function of NumPy, the function that device code calls for numbers: `np.sqrt(x)` is `math.sqrt(x)`.

The types are those of device code: `np.sqrt` of a float32 is a float32, and of an int a builtin float.
"""

_SHOWN = {function: entity for entity, function in reversed((FUNCTIONS | numbers.OF_NUMPY).items())}


def shown(function: FunctionType) -> str:
    """The name of a function in messages; a function of the library has the name of what it replaces."""
    entity = _SHOWN.get(function)
    if entity is None:
        return function.__qualname__
    module = str(getattr(entity, "__module__", "")).strip("_")
    name = str(getattr(entity, "__name__", function.__name__))
    return name if module in ("", "builtins") else f"{module}.{name}"
