"""The vector types as constructors in device code: the specification's 'Vectors'.

v = device.float32x4(1, 2, 3, x[i])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda_device.device.lowering import Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed, number_of
from cuda_device.ir.nodes import Value
from cuda_device.types.known import Known, of_type
from cuda_device.types.model import INT, Number, Type, Vector
from cuda_device.types.vectors import FAMILIES, Dim3


def _handed_over(known: Known, target: Number, what: str) -> Number:
    """The type in which an argument goes to a constructor, which converts it to `target`: a constant loses nothing on the way."""
    number = number_of(known, what)
    if not known.constant:
        return number
    if target.is_float or (number == INT and isinstance(known.value, int)):
        return target
    return number


def _row(cls: Any, name: str) -> Intrinsic:
    model: Vector = cls.model

    def infer(arguments: Sequence[Known]) -> Typed:
        operands: list[tuple[int, Type]] = [
            (i, _handed_over(argument, model.dtype, name)) for i, argument in enumerate(arguments)
        ]
        return Typed(of_type(model), tuple(operands))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        parts = []
        for operand in operands:
            assert isinstance(operand, Value)
            parts.append(build.convert(operand, model.dtype))
        return tuple(parts)

    return Intrinsic(cls, name, infer, lower, (model.size, model.size))


ROWS = tuple(_row(cls, name) for name, cls in (*FAMILIES.items(), ("Dim3", Dim3)))
