"""Calls that are evaluated at compile time: pure builtins, methods of constants, enumerations.

"mean".upper()  WEIGHTS.sum()  Color(2)  ord("a")     are constants, if their arguments are
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from cuda_device.device.rows import bind, constant_of
from cuda_device.errors import CompileError
from cuda_device.infer import composites
from cuda_device.infer.dependencies import MISSING, PASSING
from cuda_device.infer.frame import Cell, Frame
from cuda_device.library.table import entry
from cuda_device.types.dtypes import alignof, machine_representation, numpy_dtype, sizeof
from cuda_device.types.struct_classes import align

Special = Callable[[Frame, Sequence[Cell], Mapping[str, Cell]], Cell]


def declared(rule: Callable[..., Cell], shown: str, first: int = 1) -> Special:
    """A rule that gets the arguments of a call as its signature says, behind the frame (and the owner of a method)."""

    def special(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        bound = bind(rule, shown, (frame, *positional), named, first)
        return rule(*bound.args, **bound.kwargs)

    return special


PURE: tuple[Any, ...] = (
    align,
    alignof,
    machine_representation,
    numpy_dtype,
    sizeof,
    str,
    repr,
    ascii,
    format,
    hex,
    oct,
    bin,
    callable,
    issubclass,
    ord,
    chr,
    hash,
    np.iinfo,
    np.finfo,
    np.dtype,
)
"""What is called while compiling, with constants."""
_TEXTS = (str, repr, ascii, format, hex, oct, bin)


def while_compiling(function: Callable[..., Any]) -> Special:
    """The rule for a function of constant expressions: its own result, which is one too."""
    name = function.__name__

    def rule(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        owner = getattr(function, "__self__", function)
        otherwise = (
            "print(f'…') shows run-time values"
            if isinstance(owner, str) or any(owner is each for each in _TEXTS)
            else ""
        )
        values = [constant_of(cell.known, f"each argument of {name}", otherwise) for cell in positional]
        keywords = {
            word: constant_of(cell.known, f"each argument of {name}", otherwise) for word, cell in named.items()
        }
        try:
            given = (*values, *keywords.items())
            result = frame.program.once(owner, name, given, lambda: function(*values, **keywords))
            if isinstance(result, str) and " at 0x" in result:  # an object's address
                frame.program.depend(PASSING, name, MISSING)
            return frame.literal(result)
        except Exception as error:
            raise CompileError(
                f"{name} raised {type(error).__name__}: {error}",
                help="it would be called at compile time: call it on the host first",
            ) from None

    return rule


# Whose methods depend on nothing but their arguments, and change nothing.
_VALUES = (str, bytes, int, float, tuple, np.generic, np.dtype)
_CLASSES = (str, bytes, int, float)  # int.from_bytes, float.fromhex
_ARRAY_METHODS = frozenset((
    "all", "any", "argmax", "argmin", "astype", "copy", "cumsum", "dot", "flatten", "item", "max", "mean", "min", "prod", "ravel",
    "reshape", "squeeze", "std", "sum", "swapaxes", "tobytes", "tolist", "transpose", "trace", "var", "view",
))  # fmt: skip


def _is_pure_method(entity: object) -> bool:
    """Whether it is a method of a constant that can be called while compiling: `"ab".upper`, `WEIGHTS.sum`."""
    if not isinstance(entity, BuiltinFunctionType):
        return False
    owner = entity.__self__
    if isinstance(owner, type):
        return owner in _CLASSES
    return isinstance(owner, _VALUES) or (isinstance(owner, np.ndarray) and entity.__name__ in _ARRAY_METHODS)


def rule_for(entity: object) -> Special | None:
    """The rule for calls of an entity that exists while compiling, or None."""
    if isinstance(entity, enum.EnumMeta):
        return while_compiling(entity)
    if _is_pure_method(entity):
        return while_compiling(entity)  # type: ignore[arg-type]
    if isinstance(entity, type) and issubclass(entity, tuple) and hasattr(entity, "_fields"):
        return functools.partial(composites.make, entity)
    return entry(RULES, entity)


RULES: dict[object, Special] = {function: while_compiling(function) for function in PURE}
