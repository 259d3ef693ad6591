"""Complex numbers as rows of the device table: their constructors, and what makes one of its parts.

complex(x, y)      complex64(z)      complex128(1, 2)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuda_device.device.lowering import Lowering, Tree, flatten
from cuda_device.device.rows import Intrinsic, Typed, any_number_of
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.library.complex_numbers import complex_of
from cuda_device.types.known import Known, of_type
from cuda_device.types.model import COMPLEX, COMPLEX64, COMPLEX128, Number
from cuda_device.types.promote import promote, to_complex


def _constructor(entity: type, name: str, number: Number) -> Intrinsic:
    """`complex(a, b)` is `a + b * 1j`, also where a or b are complex."""

    def infer(arguments: Sequence[Known]) -> Typed:
        if not arguments:
            return Typed(Known(number, 0j))
        types = [any_number_of(argument, name) for argument in arguments]
        handed = (_handed_over(known, type, number) for known, type in zip(arguments, types, strict=True))
        return Typed(of_type(number), tuple(enumerate(handed)))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        first, *second = (build.convert_tree(operand, number) for operand in operands)
        if not second:
            return first
        (a, b), (c, d) = tuple(flatten(first)), tuple(flatten(second[0]))
        # A real operand's other part is the constant 0, which must not touch signed zeros and infinities.
        real = a if _is_real(operands[1]) else build.sum(ops.SUB, a, d)
        return real, c if _is_real(operands[0]) else build.sum(ops.ADD, b, c)

    return Intrinsic(entity, name, infer, lower, (0, 2), folds=True)


def _handed_over(known: Known, type: Number, target: Number) -> Number:
    """The type in which an argument goes to a constructor: a constant loses nothing on the way."""
    if not known.constant:
        return type
    return target if type.is_complex else target.part


def _is_real(operand: Tree) -> bool:
    return len(tuple(flatten(operand))) == 1


def _infer_complex_of(arguments: Sequence[Known]) -> Typed:
    real, imaginary = (any_number_of(argument, "complex") for argument in arguments)
    type = promote(to_complex(real), to_complex(imaginary))
    if type is None or real.is_complex or imaginary.is_complex:
        raise CompileError(
            "the parts of a complex number are floats", help="write complex(x, y) with real numbers x and y"
        )
    return Typed(of_type(type), ((0, type.part), (1, type.part)))


def _lower_complex_of(_: Lowering, operands: Sequence[Tree], __: Typed) -> Tree:
    return tuple(operands)


ROWS = (
    _constructor(complex, "complex", COMPLEX),
    _constructor(np.complex64, "complex64", COMPLEX64),
    _constructor(np.complex128, "complex128", COMPLEX128),
    Intrinsic(complex_of, "complex_of", _infer_complex_of, _lower_complex_of),
)
