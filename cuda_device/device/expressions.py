"""`ConstExpr`: the type hint of parameters whose value must be known at compile time.

def scale(x, factor: device.ConstExpr[int]): …
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from cuda_device.device.parameters import annotations_of
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.dtypes import unannotated
from cuda_device.types.host import PYTHON, number_of
from cuda_device.types.struct_classes import convert


@dataclass(frozen=True, slots=True)
class _ConstExprOf:
    """What `ConstExpr[type]` makes."""

    type: Any

    def __repr__(self) -> str:
        return f"ConstExpr[{getattr(self.type, '__name__', self.type)}]"


class ConstExpr:
    """A type hint: the argument must be a constant expression. `ConstExpr[type]` also states its type.

    A kernel specialises on the value of such a parameter. Specification: 'Constant Expressions'.
    """

    def __class_getitem__(cls, type: Any) -> Any:
        return _ConstExprOf(type)


def const_parameters(function: FunctionType) -> dict[str, Any]:
    """The parameters that are annotated with `ConstExpr`, and the type that each must have (None: any).

    The annotations may be text (`from __future__ import annotations`).
    """
    found = {}
    for name, written in annotations_of(function).items():
        hint = unannotated(_evaluate(written, function) if isinstance(written, str) else written)
        if hint is ConstExpr or isinstance(hint, _ConstExprOf):
            found[name] = hint.type if isinstance(hint, _ConstExprOf) else None
    return found


def constant_as(value: object, type: Any) -> object:
    """A constant as the type that `ConstExpr[type]` asks for; what is no class asks for nothing.

    Builtin numbers become a number's type as members of structs do: of its own kind or a lower one, but a bool is no int. Raises
    `TypeError` for a constant of another type, or one that has no room.
    """
    is_bool = type is int and isinstance(value, bool)
    if not isinstance(type, _class) or (isinstance(value, type) and not is_bool):
        return value
    if is_bool or not (type in PYTHON or issubclass(type, np.generic)):
        raise TypeError(f"{value!r} is not of type {type.__name__}")
    try:
        return convert(value, number_of(type), "the constant")
    except OverflowError as error:
        raise TypeError(str(error)) from error


_class = type


def _evaluate(hint: str, function: FunctionType) -> object:
    try:
        return eval(hint, function.__globals__)
    except Exception:  # a hint that names local types still says ConstExpr
        return ConstExpr if "ConstExpr" in hint else None
