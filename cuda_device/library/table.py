"""The tables of what device code can name: the rows of the device, and the functions of the library.

`infer/builtin_calls` makes the rules of calls from them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from cuda_device import hooks
from cuda_device.device import (
    atomics,
    entities,
    inline_ptx,
    machine_functions,
    memory,
    numeric,
    packing,
    positioning,
    sync,
    target,
)
from cuda_device.device.rows import Intrinsic
from cuda_device.library import barriers, builtins, complex_functions, copying, numbers, prelude, standard

ALL: tuple[Intrinsic, ...] = (
    *target.ROWS,
    *positioning.ROWS,
    *memory.ROWS,
    *sync.ROWS,
    *atomics.ROWS,
    *sync.WARP_ROWS,
    *machine_functions.TIMING_ROWS,
    *numeric.ROWS,
    *machine_functions.ROWS,
    inline_ptx.ROW,
    *builtins.ROWS,
    *builtins.COMPLEX_ROWS,
    *builtins.VECTOR_ROWS,
    *packing.ROWS,
    *copying.ROWS,
)
BY_NAME = {row.name: row for row in ALL}
# By identity: some entities compare equal to others (np.float32 == np.dtype("float32")), some do not hash.
_BY_IDENTITY = {id(row.entity): row for row in ALL}


def row_of_entity(entity: object) -> Intrinsic | None:
    """The row of an entity, or None."""
    return _BY_IDENTITY.get(id(entity))


# The library: modules whose functions are compiled like a user's

_MODULES = (barriers, complex_functions, copying, numbers, prelude, standard)
NAMES = frozenset((*(module.__name__ for module in _MODULES), *(f"cuda_device.{name}" for name in hooks.LIBRARIES)))
"""The names of these modules. Messages about their code show the place where the user called it."""
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
    "floor": entities.float_floor,
    "trunc": entities.float_trunc,
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
