"""The arguments of a launch, bound to the kernel's parameters as Python binds those of a call.

arguments_of(saxpy.underlying, (2.0, x), {"y": y}, stream)      # three of `arguments.Argument`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from cuda_device.device.expressions import const_parameters, constant_as
from cuda_device.device.parameters import defaults_of, parameter_names
from cuda_device.errors import LaunchError
from cuda_device.runtime.arguments import Argument, read
from cuda_device.runtime.streams import Stream

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


def bind(
    function: FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any], defaults: Mapping[str, Any]
) -> list[Any]:
    """A value for each parameter: by position, by name, or from `defaults`. Raises `LaunchError` where Python's `TypeError`."""
    names, positional, _ = parameters_of(function)
    shown = function.__qualname__
    if len(args) > positional:
        raise LaunchError(f"{shown} takes {positional} argument{'s' * (positional != 1)}, not {len(args)}")
    bound = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise LaunchError(f"{shown} has no parameter {name!r}")
        if name in bound or names.index(name) < function.__code__.co_posonlyargcount:
            raise LaunchError(f"{shown} got two values for its parameter {name!r}, or it cannot be named")
        bound[name] = value
    for name, value in defaults.items():
        bound.setdefault(name, value)
    missing = [name for name in names if name not in bound]
    if missing:
        raise LaunchError(f"{shown} lacks an argument for {', '.join(map(repr, missing))}")
    return [bound[name] for name in names]
