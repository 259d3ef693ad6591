"""Functions of `math` that take nothing but integers: of constants their results are exact, as those of operators are.

math.factorial(25) % 1000003      a constant: what is between has 84 bits
math.gcd(n, 12)                   a call of a function of ours
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cuda_device.errors import CompileError
from cuda_device.infer.fitting import LARGEST_BITS, too_large
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.host_calls import Special
from cuda_device.library import standard
from cuda_device.types.known import constant
from cuda_device.types.model import BOOL, INT, Number


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
    return frame.program.call(frame, standard.REPLACEMENTS[function], positional, named)


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
