"""Calls of what exists while compiling: pure builtins and methods of constants, enumerations, `operator.itemgetter` and its like.

"mean".upper()  WEIGHTS.sum()  Color(2)  ord("a")     are constants, if their arguments are
"""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, MethodType
from typing import Any

import numpy as np

from cuda_device.device.rows import constant_of
from cuda_device.device.table import entry
from cuda_device.errors import CompileError
from cuda_device.infer import composites, enumerations, named_tuples, texts
from cuda_device.infer.calls import call
from cuda_device.infer.dependencies import MISSING, PASSING
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.functionals import get_attribute
from cuda_device.infer.generators import check_count, no_keywords
from cuda_device.infer.meanings import Code, Method, Partial
from cuda_device.library import standard
from cuda_device.types.dtypes import alignof, machine_representation, numpy_dtype, sizeof
from cuda_device.types.known import constant
from cuda_device.types.model import Struct
from cuda_device.types.structs import align

Special = Callable[[Frame, Sequence[Cell], Mapping[str, Cell]], Cell]

PURE: tuple[Any, ...] = (
    align,
    alignof,
    machine_representation,
    numpy_dtype,
    sizeof,
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


def while_compiling(function: Callable[..., Any]) -> Special:
    """The rule for a function of constant expressions: its own result, which is one too."""
    name = function.__name__

    def rule(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        owner = getattr(function, "__self__", function)
        otherwise = "print and f-strings take values of run time" if isinstance(owner, str) or owner is str else ""
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
                help="it is called while compiling: call it on the host first",
            ) from None

    return rule


def _shown(function: Callable[..., Any], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`str(x)`, `format(x, "8.3f")` and the like: a constant, or a text of run time."""
    if named or all(texts.is_constant(cell.known) for cell in positional):
        return while_compiling(function)(frame, positional, named)
    check_count(function.__name__, positional, 1, 2 if function is format else 1)
    return texts.FUNCTIONS[function](frame, *positional)


def _item_getter(entity: Any, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls an `operator.itemgetter`, `attrgetter` or `methodcaller` that exists while compiling."""
    no_keywords(type(entity).__name__, named)
    check_count(type(entity).__name__, positional, 1, 1)
    if isinstance(entity, operator.methodcaller):
        return _call_method(frame, positional[0], *_parts_of(entity))
    parts = [_part(frame, entity, positional[0], each) for each in entity.__reduce__()[1]]
    return parts[0] if len(parts) == 1 else frame.tuple(parts)


def _parts_of(caller: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The name, arguments and keywords of an `operator.methodcaller`."""
    maker, arguments = caller.__reduce__()
    if isinstance(maker, functools.partial):
        return maker.args[0], arguments, maker.keywords
    return arguments[0], arguments[1:], {}


def _call_method(frame: Frame, owner: Cell, name: str, given: tuple[Any, ...], keywords: dict[str, Any]) -> Cell:
    method = get_attribute(frame, [owner, frame.literal(name)], {})
    named = {word: frame.literal(value) for word, value in keywords.items()}
    return call(frame, method, [frame.literal(value) for value in given], named)


def _part(frame: Frame, entity: object, owner: Cell, which: object) -> Cell:
    if isinstance(entity, operator.itemgetter):
        return frame.program.call(frame, standard.REPLACEMENTS[operator.getitem], [owner, frame.literal(which)], {})
    for name in str(which).split("."):
        owner = get_attribute(frame, [owner, frame.literal(name)], {})
    return owner


def _methodcaller(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    values = [constant_of(cell.known, "each argument of methodcaller") for cell in positional]
    keywords = {name: constant_of(cell.known, "each argument of methodcaller") for name, cell in named.items()}
    return Cell(constant(operator.methodcaller(*values, **keywords)))  # type: ignore[arg-type]


# Whose methods depend on nothing but their arguments, and change nothing.
_VALUES = (str, bytes, int, float, tuple, np.generic, np.dtype)
_CLASSES = (str, bytes, int, float)  # int.from_bytes, float.fromhex
_ARRAY_METHODS = frozenset(
    [
        "all",
        "any",
        "argmax",
        "argmin",
        "astype",
        "copy",
        "cumsum",
        "dot",
        "flatten",
        "item",
        "max",
        "mean",
        "min",
        "prod",
        "ravel",
        "reshape",
        "squeeze",
        "std",
        "sum",
        "swapaxes",
        "tobytes",
        "tolist",
        "transpose",
        "trace",
        "var",
        "view",
    ]
)


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
    if (
        isinstance(entity, BuiltinFunctionType)
        and isinstance(entity.__self__, str)
        and entity.__name__ in texts.METHODS
    ):
        return functools.partial(texts.METHODS[entity.__name__], entity.__self__)
    if isinstance(entity, enum.EnumMeta):
        return functools.partial(_member, entity)
    if _is_pure_method(entity):
        return while_compiling(entity)  # type: ignore[arg-type]
    if isinstance(entity, (operator.itemgetter, operator.attrgetter, operator.methodcaller)):
        return functools.partial(_item_getter, entity)
    if isinstance(entity, type) and issubclass(entity, tuple) and hasattr(entity, "_fields"):
        return functools.partial(named_tuples.make, entity)
    if isinstance(entity, MethodType) and entity.__name__ == "_make" and hasattr(entity.__self__, "_fields"):
        return functools.partial(named_tuples.make_of, entity.__self__)
    return entry(RULES, entity)


def _member(cls: Any, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`Color(2)`: a constant if the number is one."""
    is_constant = all(cell.known.constant for cell in (*positional, *named.values()))
    return (
        while_compiling(cls)
        if is_constant or issubclass(cls, enum.Flag)
        else functools.partial(enumerations.member, cls)
    )(frame, positional, named)


def _callable(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`callable(x)`: the type of a value of run time tells."""
    if len(positional) == 1 and not named and not positional[0].known.constant:
        known = positional[0].known
        has_method = isinstance(known.type, Struct) and composites.method_of(frame, known.type, "__call__") is not None
        return Cell(constant(has_method or isinstance(known.value, (Code, Partial, Method))))
    return while_compiling(callable)(frame, positional, named)


RULES: dict[object, Special] = {
    **{function: while_compiling(function) for function in PURE},
    callable: _callable,
    **{function: functools.partial(_shown, function) for function in texts.FUNCTIONS},
    operator.itemgetter: while_compiling(operator.itemgetter),
    operator.attrgetter: while_compiling(operator.attrgetter),
    operator.methodcaller: _methodcaller,
}
