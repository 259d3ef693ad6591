"""What the type hints of a function's parameters name: types, and constant expressions.

def f(x, n: ConstExpr, m: ConstExpr[int]): …      const_parameters → {"n": None, "m": int}
def f(x: float32, y): …                           parameters_of(f).hints → {"x": Number(float32)}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from cuda_device.device.parameters import annotations_of, parameter_names
from cuda_device.errors import CallError
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types import model
from cuda_device.types.host import PYTHON, Aligned, becomes, convert_number, number_of, type_of_hint, unannotated
from cuda_device.types.known import Known, of_type
from cuda_device.types.layout import is_by_value

# Constant expressions


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


# The types of hints


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function, and the number of positional ones.

    `constants` are constant expressions by their type hints, and `hints` are the types that other type hints name.
    `is_plain` says that no argument has to be converted.
    """

    names: tuple[str, ...]
    positional: int
    constants: Mapping[str, Any]
    hints: Mapping[str, model.Type]
    is_plain: bool


_CONVERTED = model.Number, model.Pointer, model.Struct
"""The types of hints to which arguments are converted."""
# By function, with its code at that time
_parameters: WeakKeyDictionary[FunctionType, tuple[CodeType, Parameters]] = WeakKeyDictionary()


_SLICED = re.compile(r"['\"]?(\w+)\[([\s:1,]+)\]['\"]?")
"""The text of a type hint as numba writes arrays: `float32[:, ::1]`."""


def _refuse_sliced(name: str, hint: str) -> None:
    """Raises `CallError` for numba's notation of an array, which would otherwise be ignored."""
    if array := _SLICED.fullmatch(hint):
        written = f"ArrayType({array[1]}, {array[2].count(',') + 1})"
        raise CallError(
            f"the type hint of the parameter {name!r} is the text {hint!r}, which is not a type", f"write {written}"
        )


def parameters_of(function: FunctionType) -> Parameters:
    """The parameters of a function."""
    code = function.__code__
    compiled_from, parameters = _parameters.get(function, (None, None))
    if parameters is None or compiled_from is not code:
        evaluated = evaluated_hints(function)
        hints = {}
        for name, hint in evaluated.items():
            if isinstance(hint, str):
                _refuse_sliced(name, hint)
            with suppress(Exception):  # hints that are no types of device code are allowed
                if name != "return" and (type := type_named(hint)) is not None:
                    hints[name] = type
        constants = constants_among(evaluated)
        is_plain = not constants and not any(isinstance(type, _CONVERTED) for type in hints.values())
        parameters = Parameters(parameter_names(code), code.co_argcount, constants, hints, is_plain)
        _parameters[function] = code, parameters
    return parameters


def type_named(hint: Any) -> model.Type | None:
    """The type of device code that a hint denotes, or None."""
    if isinstance(hint, model.Type):
        return hint
    if hint is None or isinstance(hint, (type, Aligned, np.dtype)) or getattr(hint, "__origin__", None) is tuple:
        return type_of_hint(hint)
    return None


_HINT = "pass a number of that type, or correct the hint"


def number_as(value: Any, hint: model.Number, name: str) -> Any:
    """Converts a number to the type hint of the parameter `name`, by the rules for members of structs; None stays None.

    NumPy's numbers keep their type if the hint is a builtin type such as `int`. Raises `CallError` for other values.
    """
    if value is None:
        return None
    value = bool(value) if isinstance(value, np.bool_) else value
    says = f"but the parameter's type hint is {hint}"
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        raise CallError(f"the argument {name!r} is of type {type(value).__name__}, {says}", "pass a number")
    try:
        if isinstance(value, np.generic) and _keeps_format(number_of(type(value)), hint):
            return value
        with np.errstate(over="ignore"):  # a value that is too large for a float becomes infinite
            return convert_number(value, hint, name)
    except TypeError as error:
        if isinstance(error.__context__, OverflowError):
            text = f"the argument {name!r} is {value!r}, which does not fit the parameter's type hint {hint}"
            raise CallError(text, _HINT) from None
        raise CallError(f"the argument {name!r} is {value!r}, {says}", f"write {hint}(…)") from None


def type_as(source: model.Type, hint: model.Number | model.Pointer, name: str) -> model.Type:
    """The type of an argument of the type `source` with the type hint `hint`. Raises `CallError` if it does not fit."""
    if source == hint:
        return source
    if isinstance(hint, model.Number):
        if source == model.NONE or (isinstance(source, model.Number) and _keeps_format(source, hint)):
            return source
        if source == hint.machine or (isinstance(source, model.Number) and source.builtin and becomes(source, hint)):
            return hint
    text = f"the argument {name!r} is of type {source}, but the parameter's type hint is {hint}"
    raise CallError(text, _HINT if isinstance(hint, model.Number) else "pass that type, or correct the hint")


def _keeps_format(source: model.Number, hint: model.Number) -> bool:
    """Whether a NumPy number fits a builtin type such as `int`, but keeps its own format, which differs from the hint's."""
    return hint.builtin and not source.builtin and source != hint.machine and becomes(source, hint)


def with_hints(function: FunctionType, known: Sequence[Known]) -> tuple[Known, ...]:
    """The types of the arguments, with arrays read-only where the hint `ArrayType(…, readonly=True)` says so.

    Raises `CallError` if the dtype or number of axes differs from a hint. The layout of a hint is not compared, and neither are
    hints of structs, vectors and tuples.
    """
    parameters = parameters_of(function)
    pairs = zip(parameters.names, known, strict=True)
    return tuple([_with_hint(argument, parameters.hints.get(name), name) for name, argument in pairs])


def _with_hint(known: Known, hint: Any, name: str) -> Known:
    array = known.type
    if isinstance(hint, model.Ref) and (not is_by_value(array) or str(known) != str(of_type(hint))):
        text = f"the argument {name!r} is {known}, but the parameter's type hint is {of_type(hint)}"
        raise CallError(text, "pass an argument of that type, or correct the hint")
    if not isinstance(hint, model.Array) or isinstance(array, model.NoneType):
        return known
    if not isinstance(array, model.Array) or array.ndim != hint.ndim:
        help = "pass an array with as many axes, or correct the hint"
    elif isinstance(hint.dtype, model.Number) and array.dtype != hint.dtype:
        help = "convert the array, as with x.astype(…), or correct the hint"
    elif hint.readonly and not array.readonly:
        return replace(known, type=replace(array, readonly=True))
    else:
        return known
    raise CallError(f"the argument {name!r} is of type {array}, but the parameter's type hint is {hint}", help)
