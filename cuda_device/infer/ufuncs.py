"""NumPy's universal functions on single numbers, and functions of `math` for integers: which function of Python each of them is.

    np.sqrt(x)   →   math.sqrt(x)          np.minimum(a, b)   →   a function of `library/standard`, in which NaN wins

Types are those of device code: `np.sqrt` of a float32 is a float32, of an int a builtin float.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from cuda_device.device import math as device_math
from cuda_device.errors import CompileError
from cuda_device.infer.fitting import LARGEST_BITS, too_large
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.host_calls import Special
from cuda_device.library import complex_functions, numbers, prelude, standard
from cuda_device.types.known import constant
from cuda_device.types.model import BOOL, INT, Number

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
    "floor": device_math.float_floor,
    "ceil": numbers.float_ceil,
    "trunc": device_math.float_trunc,
    "rint": device_math.float_round,
    "minimum": prelude.minimum,
    "maximum": prelude.maximum,
    "fmin": numbers.minimum_number,
    "fmax": numbers.maximum_number,
    "sign": numbers.sign,
    "square": numbers.square,
    "reciprocal": numbers.reciprocal,
    "logical_and": numbers.logical_and,
    "logical_or": numbers.logical_or,
    "logical_not": operator.not_,
    "divmod": divmod,
    "modf": math.modf,
    "frexp": math.frexp,
    "ldexp": math.ldexp,
    "spacing": numbers.spacing,
    "signbit": numbers.sign_bit,
    "logical_xor": numbers.logical_xor,
    "heaviside": numbers.heaviside,
    "logaddexp": numbers.add_exponentials,
    "logaddexp2": numbers.add_powers,
    "float_power": numbers.float_power,
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
    "invert": numbers.inverted,
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
if hasattr(np, "bitwise_count"):
    UFUNCS[np.bitwise_count] = numbers.bit_count
NUMPY_FUNCTIONS: dict[object, Callable[..., Any]] = {
    np.angle: complex_functions.angle,
    np.real: complex_functions.real,
    np.imag: complex_functions.imag,
    np.clip: numbers.clip,
    np.where: numbers.where,
    np.round: complex_functions.rounded,
    np.around: complex_functions.rounded,
    np.isclose: numbers.are_close,
    np.amax: standard.largest,
    np.amin: standard.smallest,
    np.size: standard.size_of,
    np.ndim: standard.axes_of,
    np.shape: standard.shape_of,
    **{getattr(np, name): function for name, function in standard.METHODS.items()},
}
"""By a function of NumPy that is not universal: what computes it in device code."""
OF_COMPLEX: dict[Callable[..., Any], Callable[..., Any]] = {
    **complex_functions.OF_MATH,
    numbers.sign: complex_functions.sign,
}
"""By what computes a universal function of real numbers: what computes it of complex ones, if that is something else."""


# Functions of `math` that take nothing but integers: of constants their results are exact, as those of operators are.
#
# math.factorial(25) % 1000003      a constant: what is between has 84 bits
# math.gcd(n, 12)                   a call of a function of ours


def call(function: Callable[..., int], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`math.gcd` and its like."""
    cells = [frame.scalar(cell) for cell in positional]
    for cell in cells:
        number = cell.known.type
        if isinstance(number, Number) and not (number.is_integer or number == BOOL):
            raise CompileError(
                f"math.{function.__name__} takes integers, not {cell.known}", help="convert it: int(…), or round(…)"
            )
    values = [cell.known.value for cell in cells if cell.known.type in (INT, BOOL)]
    constants = [int(value) for value in values if isinstance(value, int)]
    if len(constants) == len(cells) and not named:
        if _bits(function, constants) > LARGEST_BITS:
            raise too_large()
        try:
            return Cell(constant(function(*constants), frame.location))
        except (ValueError, TypeError):
            pass  # it is reported as of numbers of run time
    return frame.program.call(frame, numbers.REPLACEMENTS[function], positional, named)


def _bits(function: Callable[..., int], values: Sequence[int]) -> int:
    """No fewer bits than the result has."""
    sizes = [value.bit_length() for value in values]
    match (function, values):
        case (math.factorial, [n]) | (math.perm, [n]) | (math.perm, [_, n]):
            return n * sizes[0]
        case (math.comb, [n, k]):
            return min(k, n - k) * sizes[0]
        case _:
            return sum(sizes)


FUNCTIONS = (math.gcd, math.lcm, math.comb, math.perm, math.factorial, math.isqrt)
RULES: dict[object, Special] = {function: partial(call, function) for function in FUNCTIONS}
