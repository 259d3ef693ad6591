"""Parameters that must be constant expressions: `ConstExpr`, which parameters have this hint, and the type that it states.

def f(x, n: ConstExpr, m: ConstExpr[int]): …      const_parameters → {"n": None, "m": int}
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np

from cuda_device.device.parameters import annotations_of
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.host import PYTHON, convert_number, number_of, unannotated


@dataclass(frozen=True)
class _ConstExprOf:
    """The value of `ConstExpr[type]`."""

    type: Any

    def __repr__(self) -> str:
        return f"ConstExpr[{getattr(self.type, '__name__', self.type)}]"


class ConstExpr:
    """A type hint: the argument must be a constant expression. `ConstExpr[type]` also states its type.

    A kernel specialises on the value of such a parameter. Specification: 'Constant Expressions'.
    """

    def __class_getitem__(cls, type: Any) -> Any:
        return _ConstExprOf(type)


def evaluated_hints(function: FunctionType) -> dict[str, Any]:
    """The type hints of a function, without `Annotated`. Text (`from __future__ import annotations`) is evaluated.

    Text that cannot be evaluated, because it names local types, stays text, unless it contains `ConstExpr`.
    """
    hints = {}
    for name, hint in annotations_of(function).items():
        if isinstance(hint, str):
            try:
                hint = eval(hint, function.__globals__)  # noqa: PLW2901
            except Exception:  # whatever a user's expression raises
                if "ConstExpr" in hint:
                    hint = ConstExpr  # noqa: PLW2901
        hints[name] = unannotated(hint)
    return hints


def constants_among(hints: Mapping[str, Any]) -> dict[str, Any]:
    """The hints that are `ConstExpr`, as the types that they state (None: any)."""
    return {
        name: getattr(hint, "type", None)
        for name, hint in hints.items()
        if hint is ConstExpr or isinstance(hint, _ConstExprOf)
    }


def const_parameters(function: FunctionType) -> dict[str, Any]:
    """The parameters that are annotated with `ConstExpr`, with their types (None: any)."""
    return constants_among(evaluated_hints(function))


def constant_as(value: object, type: Any) -> object:
    """Converts a constant to the type of `ConstExpr[type]`, if that is a class.

    Builtin numbers convert to the type of a number as for members of structs, but a bool is not an int. Raises `TypeError` for a
    constant of another type, and for one that does not fit.
    """
    is_bool = type is int and isinstance(value, bool)
    if not isinstance(type, _class) or (isinstance(value, type) and not is_bool):
        return value
    if is_bool or not (type in PYTHON or issubclass(type, np.generic)):
        raise TypeError(f"{value!r} is not of type {type.__name__}")
    return convert_number(value, number_of(type), "the constant")


_class = type
