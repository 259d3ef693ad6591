"""The arguments of a launch, bound to the kernel's parameters as Python binds those of a call.

arguments_of(saxpy.underlying, (2.0, x), {"y": y}, stream)      # three of `arguments.Argument`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from cuda_device.device.expressions import const_parameters, constant_as
from cuda_device.device.parameters import defaults_of, parameter_names
from cuda_device.errors import CallError, LaunchError
from cuda_device.runtime.arguments import Argument, read
from cuda_device.runtime.streams import Stream
from cuda_device.types import model
from cuda_device.types.known import Known
from cuda_device.types.structs import Aligned, type_of_hint, unannotated

Parameters = tuple[tuple[str, ...], int, dict[str, Any]]
# By function, with the code that it had. Functions that nobody else knows any more are not kept alive, nor what they refer to.
_parameters: WeakKeyDictionary[FunctionType, tuple[CodeType, Parameters]] = WeakKeyDictionary()


def parameters_of(function: FunctionType) -> Parameters:
    """The names of a function's parameters, how many may be positional, and which are constant expressions."""
    code = function.__code__
    known, found = _parameters.get(function, (None, None))
    if found is None or known is not code:
        found = parameter_names(code), code.co_argcount, const_parameters(function)
        _parameters[function] = code, found
    return found


def arguments_of(
    function: FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any], stream: Stream
) -> tuple[Argument, ...]:
    """The arguments of a call. Raises `LaunchError` for those that do not fit the parameters or cannot be passed."""
    names, positional, constants = parameters_of(function)
    if kwargs or len(args) != len(names) or positional != len(names):
        args = bind(function, args, kwargs, defaults_of(function))
    if constants:
        return tuple(argument_of(function, i, value, stream) for i, value in enumerate(args))
    return tuple([read(value, name, stream) for name, value in zip(names, args, strict=True)])


def argument_of(function: FunctionType, index: int, value: Any, stream: Stream) -> Argument:
    """The argument `value` of one parameter."""
    names, _, constants = parameters_of(function)
    name = names[index]
    if name in constants:
        try:
            value = constant_as(value, constants[name])
        except TypeError:
            wanted = constants[name].__name__
            raise LaunchError(f"the argument {name!r} is a constant {wanted}, not {value!r}") from None
    return read(value, name, stream, is_constant=name in constants)


def check_arrays(function: FunctionType, known: Sequence[Known]) -> None:
    """Raises `CallError` for an argument that is no array of the numbers and axes that a hint asks for, an `ArrayType(…)`.

    Other hints are for people, and for `compile`; layouts are those of the arguments.
    """
    names, _, _ = parameters_of(function)
    wanted = {name: hint for name, hint in hints_of(function).items() if isinstance(hint, model.Array)}
    for name, given in zip(names, (each.type for each in known), strict=True):
        hint = wanted.get(name)
        if hint is None or isinstance(given, model.NoneType):
            continue
        is_array = isinstance(given, model.Array) and given.ndim == hint.ndim
        others = {each.dtype for each in (given, hint) if isinstance(each, model.Array)}
        if not is_array or (isinstance(hint.dtype, model.Number) and len(others) > 1):
            raise CallError(f"the argument {name!r} is of type {given}, but the hint of the parameter says {hint}")


def bind(
    function: FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any], defaults: Mapping[str, Any]
) -> list[Any]:
    """A value for each parameter: by position, by name, or from `defaults`. Raises `CallError` where Python's `TypeError`."""
    names, positional, _ = parameters_of(function)
    shown = function.__qualname__
    if len(args) > positional:
        raise CallError(f"{shown} takes {positional} argument{'s' * (positional != 1)}, not {len(args)}")
    bound = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise CallError(f"{shown} has no parameter {name!r}")
        if name in bound or names.index(name) < function.__code__.co_posonlyargcount:
            raise CallError(f"{shown} got two values for its parameter {name!r}, or it cannot be named")
        bound[name] = value
    for name, value in defaults.items():
        bound.setdefault(name, value)
    missing = [name for name in names if name not in bound]
    if missing:
        raise CallError(f"{shown} lacks an argument for {', '.join(map(repr, missing))}")
    return [bound[name] for name in names]


def hints_of(function: FunctionType) -> dict[str, Any]:
    """The type hints that say what a parameter is in device code."""
    hints = {}
    for name, written in function.__annotations__.items():
        with suppress(Exception):  # text may name what is not there, and other hints are for people
            hint = unannotated(eval(written, function.__globals__) if isinstance(written, str) else written)
            if type_named(hint) is not None:
                hints[name] = hint
    return hints


def type_named(hint: Any) -> model.Type | None:
    """The type that a hint names; None if it is no type."""
    if isinstance(hint, model.Type):
        return hint
    if hint is None or isinstance(hint, (type, Aligned, np.dtype)) or getattr(hint, "__origin__", None) is tuple:
        return type_of_hint(hint)
    return None
