"""Reads the arguments of calls of code that has been compiled for fixed types, without its Python function.

signature = CallSignature("saxpy", (Parameter("a", "float32"), Parameter("x", "array<float32, 1, C>")), 2)
signature.arguments((2, x), {}, stream)         Argument(float32), Argument(array<float32, 1, C>)
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from cuda_device.device.hints import parameters_of
from cuda_device.errors import CallError
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.runtime.gpu.streams import Stream
from cuda_device.runtime.launch.arguments import Argument, argument_of, bind, pointer_to, read
from cuda_device.runtime.launch.compiled_parameters import Parameter, notation, value_of
from cuda_device.types.abi import exchanged
from cuda_device.types.host import convert_number
from cuda_device.types.layout import without_classes
from cuda_device.types.model import Array, Number, Pointer, Space, Struct, Type
from cuda_device.types.type_text import parse_type

_AS_COMPILED: Any = object()
"""The argument of a constant parameter that a call omits."""


@dataclass(frozen=True)
class CallSignature:
    """The parameters that code was compiled for, of which `positional` can be passed by position.

    `space` is None for code that only Python calls; otherwise arrays come from C++ in this space, with any strides.
    """

    name: str
    parameters: tuple[Parameter, ...]
    positional: int
    space: Space | None = None

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """The types of the parameters, whose structs have no Python classes."""
        return tuple(parse_type(parameter.type) for parameter in self.parameters)

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any], stream: Stream) -> tuple[Argument, ...]:
        """Reads the arguments of a call that are no constants. Raises `LaunchError` for those of other types."""
        arguments = []
        values = bind(self.stub, args, kwargs, self._defaults)
        for parameter, type, value in zip(self.parameters, self.types, values, strict=True):
            if _is_constant(parameter):
                actual, expected = _constant(value, type, parameter), str(parameter.constant)
                fits = actual == expected
            else:
                arguments.append(self._argument(parameter.name, value, stream))
                actual, expected = f"of type {arguments[-1].known.type}", parameter.type
                fits = self._takes(type, arguments[-1].known.type)
            if not fits:
                raise CallError(
                    f"the argument {parameter.name!r} is {actual}, but the kernel was compiled for {expected}",
                    "pass what it was compiled for, or build the kernel for this argument as well",
                )
        return tuple(arguments)

    @cached_property
    def stub(self) -> Any:
        """A function with these parameters, of which numbers and pointers have type hints, for reading arguments."""
        names = [parameter.name for parameter in self.parameters]
        listed = [*names[: self.positional], *["*"] * (self.positional < len(names)), *names[self.positional :]]
        stub = eval(f"lambda {', '.join(listed)}: None", {})
        stub.__qualname__ = stub.__name__ = self.name
        pairs = zip(names, self.types, strict=True)
        stub.__annotations__ = {name: type for name, type in pairs if isinstance(type, (Number, Pointer))}
        return stub

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        """The values of parameters without an argument."""
        values = {
            parameter.name: value_of(parameter.default)
            for parameter in self.parameters
            if parameter.default is not None
        }
        values |= {parameter.name: None for parameter in self.parameters if parameter.type == "none"}
        return values | {parameter.name: _AS_COMPILED for parameter in self.parameters if _is_constant(parameter)}

    def _argument(self, name: str, value: Any, stream: Stream) -> Argument:
        """Reads an argument. A pointer to structs has the class of the array that it points to."""
        parameters = parameters_of(self.stub)
        hint = parameters.hints.get(name)
        if isinstance(hint, Pointer) and isinstance(hint.dtype, Struct) and not isinstance(value, (int, np.integer)):
            type = read(value, name, stream).known.type
            if isinstance(type, Array) and without_classes(type.dtype) == hint.dtype:
                return pointer_to(value, replace(hint, dtype=type.dtype), name, stream)
        return argument_of(parameters, name, value, stream)

    def _takes(self, type: Type, actual: Type) -> bool:
        """Whether a parameter takes an argument of a type: a read-only array may be any array."""
        plain = _plain(actual, self.space)
        if isinstance(plain, Array) and isinstance(type, Array) and type.readonly:
            plain = replace(plain, readonly=True)
        return plain == type


@lru_cache(maxsize=4096)
def _plain(type: Type, space: Space | None) -> Type:
    """The type of an argument as parameters have it: without classes, and for C++ with arrays in `space`."""
    return without_classes(type if space is None else exchanged(type, space))


def _is_constant(parameter: Parameter) -> bool:
    return parameter.constant is not None and parameter.type != "none"


def _constant(value: Any, type: Type, parameter: Parameter) -> str:
    """The notation of the argument of a constant parameter, which is a number of the type if it can be one."""
    if value is _AS_COMPILED:
        return str(parameter.constant)
    if isinstance(type, Number):
        with contextlib.suppress(TypeError, OverflowError):
            value = convert_number(value, type, parameter.name)
    return notation(value)
