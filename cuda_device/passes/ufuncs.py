"""NumPy's universal functions on single numbers: which function of Python each of them is.

    np.sqrt(x)   →   math.sqrt(x)          np.minimum(a, b)   →   a function of `device/standard`, in which NaN wins

Types are those of device code: `np.sqrt` of a float32 is a float32, of an int a builtin float.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from cuda_device.device import complex_functions, prelude, standard

_SAME_NAME = (
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot",
    "fabs", "copysign", "fmod", "nextafter", "cbrt", "degrees", "radians", "isnan", "isinf", "isfinite", "gcd", "lcm",
)  # fmt: skip
_NAMES: dict[str, Callable[..., Any]] = {
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
    "floor": prelude.float_floor,
    "ceil": standard.float_ceil,
    "trunc": prelude.float_trunc,
    "rint": prelude.float_round,
    "minimum": standard.minimum,
    "maximum": standard.maximum,
    "fmin": standard.minimum_number,
    "fmax": standard.maximum_number,
    "sign": standard.sign,
    "square": standard.square,
    "reciprocal": standard.reciprocal,
    "logical_and": standard.logical_and,
    "logical_or": standard.logical_or,
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
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "invert": operator.invert,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    getattr(np, name): function
    for name, function in ({name: getattr(math, name) for name in _SAME_NAME} | _NAMES).items()
}
"""By the universal function: what computes it in device code."""
NUMPY_FUNCTIONS: dict[object, Callable[..., Any]] = {
    np.angle: complex_functions.angle,
    np.real: complex_functions.real,
    np.imag: complex_functions.imag,
}
"""By a function of NumPy that is not universal, but for numbers too: what computes it in device code."""
OF_COMPLEX: dict[Callable[..., Any], Callable[..., Any]] = {
    **complex_functions.OF_MATH,
    standard.sign: complex_functions.sign,
}
"""By what computes a universal function of real numbers: what computes it of complex ones, if that is something else."""
