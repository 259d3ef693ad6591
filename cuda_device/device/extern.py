"""Functions that CUDA C++ defines and device code calls: 'Interoperable Functions' of the specification.

    @device.extern(link="norms.ptx")
    def norm(x: device.float32, y: device.float32) -> device.float32:
        return math.sqrt(x * x + y * y)

The hints say what C++ declares: `extern "C" __device__ float norm(float x, float y)`. The body is for where there is no
C++: on the host, and on the CPU stream. A body that is only `...` says that there is none.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, overload

from cuda_device.device.functions import links_of, reduced
from cuda_device.device.parameters import parameter_names
from cuda_device.errors import DeviceOnlyError
from cuda_device.types.abi import exchanged, representation
from cuda_device.types.layout import machine
from cuda_device.types.model import Number, Tuple, Type
from cuda_device.types.struct_classes import type_of_hint

# libdevice's names are LLVM's to know, and these two are PTX's.
_SYMBOL = re.compile(r"(?!__nv_|WARP_SZ$|_$)[A-Za-z_$][\w$]*", re.ASCII)


class Extern:
    """A function of CUDA C++ that device code can call. `underlying` is the decorated stub.

    `parameters` and `result` are its types; the result of a `void` function is the type of None. `link` is what defines it.
    """

    __name__: str
    __qualname__: str

    def __init__(self, underlying: FunctionType, symbol: str | None = None, link: Sequence[Any] = ()) -> None:
        functools.update_wrapper(self, underlying)
        self.underlying = underlying
        self.symbol = symbol or underlying.__name__
        self.link = tuple(link)
        if not _SYMBOL.fullmatch(self.symbol):
            raise TypeError(f"{self.symbol!r} cannot be the symbol of a function of CUDA C++")
        self.parameters, self.result = _types(underlying)

    @property
    def has_body(self) -> bool:
        """Whether the stub has a body that can replace the function on the host and on the CPU stream."""
        return self.underlying.__code__.co_code not in _EMPTY

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the body on the host. Raises `DeviceOnlyError` if there is none."""
        if not self.has_body:
            name = self.underlying.__name__
            raise DeviceOnlyError(f"{name} is a function of CUDA C++, and its stub has no body that the host could run")
        return self.underlying(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<C++ function {self.symbol}>"

    def __reduce__(self) -> Any:
        return reduced(self, self.underlying, self.symbol, self.link)

    def __setstate__(self, parts: tuple[Any, ...]) -> None:
        type(self).__init__(self, *parts)


def _types(stub: FunctionType) -> tuple[tuple[Type, ...], Type]:
    """The types that the hints of a stub name."""
    shown = stub.__qualname__
    if stub.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        raise TypeError(f"{shown} cannot take *args or **kwargs: name each parameter")
    hints = inspect.get_annotations(stub, eval_str=True)
    found = []
    for name in (*parameter_names(stub.__code__), "return"):
        if name not in hints:
            what = "type of its result (-> None for void)" if name == "return" else f"type of its parameter {name!r}"
            raise TypeError(f"{shown} lacks the {what}, which C++ has to know")
        try:
            type = exchanged(type_of_hint(hints[name]))
            representation(type)
        except TypeError as error:
            raise TypeError(f"{shown}, {name}: {error}") from None
        found.append(type)
    return tuple(map(fixed, found[:-1])), found[-1]


def fixed(type: Type) -> Type:
    """A type as C++ has it: its `int` is an int32, a parameter of which takes Python's int, too."""
    match type:
        case Number():
            return machine(type)
        case Tuple(elements):
            return Tuple(tuple(map(fixed, elements)))
    return type


def _nothing() -> None: ...


def _documented() -> None:
    """Does nothing, and has a docstring."""


# The bytecode of functions that do nothing: no name and no parameter of theirs is in it.
_EMPTY = (_nothing.__code__.co_code, _documented.__code__.co_code)


@overload
def extern(function: Callable[..., Any], /) -> Extern: ...
@overload
def extern(*, symbol: str | None = None, link: Any = ()) -> Callable[[Callable[..., Any]], Extern]: ...
def extern(function: Callable[..., Any] | None = None, /, *, symbol: str | None = None, link: Any = ()) -> Any:
    """Declares a function of CUDA C++ that device code can call: a stub with a type hint for each parameter and the result.

    `symbol` is its name for the linker, the stub's by default (`extern "C"`). `link` is what defines it, linked to every
    kernel that calls it: a file or bytes (LLVM bitcode, PTX, a cubin, LTO-IR, an object, a library), a file of C++,
    `cuda_source(…)`, what `device.compile` gave, or several of them. The stub's body takes the function's place on the host
    and on the CPU stream, unless it is `...`. Arguments are passed by value, arrays as
    `cuda::interoperable_array_descriptor`. Raises `TypeError` for a stub without hints, or with types that C++ does not have.
    Specification: 'Interoperable Functions'.
    """
    found = links_of(link, "@extern")

    def decorate(target: Callable[..., Any]) -> Extern:
        if not isinstance(target, FunctionType):
            raise TypeError(f"@extern decorates a stub, not {target!r}")
        return Extern(target, symbol, found)

    return decorate if function is None else decorate(function)
