"""`ConstExpr`, the type hint of parameters whose value must be known while compiling: 'Constant Expressions'.

def scale(x, factor: device.ConstExpr[int]): …
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any


class _ConstExprOf:
    """What `ConstExpr[type]` makes."""

    def __init__(self, type: Any) -> None:
        self.type = type

    def __repr__(self) -> str:
        return f"ConstExpr[{getattr(self.type, '__name__', self.type)}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ConstExprOf) and other.type == self.type

    def __hash__(self) -> int:
        return hash(("ConstExpr", repr(self.type)))


class ConstExpr:
    """A type hint: the argument must be a constant expression. `ConstExpr[type]` says its type too.

    A kernel specialises on the value of such a parameter. Specification: 'Constant Expressions'.
    """

    def __class_getitem__(cls, type: Any) -> Any:
        return _ConstExprOf(type)


def parameter_names(code: CodeType) -> tuple[str, ...]:
    """The names of a function's parameters, keyword-only ones last."""
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def defaults_of(function: FunctionType) -> dict[str, object]:
    """The default value of each parameter that has one."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    return dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)) | (function.__kwdefaults__ or {})


def const_parameters(function: FunctionType) -> frozenset[str]:
    """The names of the parameters that are annotated with `ConstExpr`, also by `from __future__ import annotations`."""
    found = set()
    for name, written in function.__annotations__.items():
        hint = _evaluate(written, function) if isinstance(written, str) and "ConstExpr" in written else written
        if hint is ConstExpr or isinstance(hint, _ConstExprOf):
            found.add(name)
    return frozenset(found)


def _evaluate(hint: str, function: FunctionType) -> object:
    try:
        return eval(hint, function.__globals__)
    except Exception:  # a hint that names local types still says ConstExpr
        return ConstExpr
