"""The arguments of a launch, bound to the kernel's parameters as Python binds those of a call.

arguments_of(saxpy.underlying, (2.0, x), {"y": y}, stream)      # three of `arguments.Argument`
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from cuda_device.device.expressions import const_parameters, constant_as
from cuda_device.device.parameters import annotations_of, defaults_of, parameter_names
from cuda_device.errors import CallError, LaunchError
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.arrays.array_view import ArrayView
from cuda_device.runtime.gpu.streams import Stream
from cuda_device.runtime.launch.arguments import Argument, pointer_to, read
from cuda_device.types import model
from cuda_device.types.abi import Leaf, Packing, code_of, marks, representation
from cuda_device.types.host import number_of
from cuda_device.types.known import Known
from cuda_device.types.layout import accesses, align_of, leaves, machine, size_of
from cuda_device.types.model import Array, NoneType, Struct, Tuple, Type
from cuda_device.types.struct_classes import Aligned, becomes, convert, type_of_hint, unannotated


class Parameters(NamedTuple):
    """The parameters of a function, and how many of them may be positional.

    `constants` are those that are constant expressions, `numbers` those with the hint of a number or pointer: what hints say.
    """

    names: tuple[str, ...]
    positional: int
    constants: Mapping[str, Any]
    numbers: Mapping[str, model.Number | model.Pointer]


# By function, with the code that it had. Functions that nobody else knows any more are not kept alive, nor what they refer to.
_parameters: WeakKeyDictionary[FunctionType, tuple[CodeType, Parameters]] = WeakKeyDictionary()


def parameters_of(function: FunctionType) -> Parameters:
    """What the parameters of a function are called, and what their hints say of numbers."""
    code = function.__code__
    known, found = _parameters.get(function, (None, None))
    if found is None or known is not code:
        hinted = ((name, type_named(hint)) for name, hint in hints_of(function).items() if name != "return")
        numbers = {name: type for name, type in hinted if isinstance(type, (model.Number, model.Pointer))}
        found = Parameters(parameter_names(code), code.co_argcount, const_parameters(function), numbers)
        _parameters[function] = code, found
    return found


def arguments_of(
    function: FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any], stream: Stream
) -> tuple[Argument, ...]:
    """The arguments of a call. Raises `LaunchError` for those that do not fit the parameters or cannot be passed."""
    names, positional, constants, numbers = parameters_of(function)
    if kwargs or len(args) != len(names) or positional != len(names):
        args = bind(function, args, kwargs, defaults_of(function))
    if constants or numbers:
        return tuple(argument_of(function, i, value, stream) for i, value in enumerate(args))
    return tuple([read(value, name, stream) for name, value in zip(names, args, strict=True)])


def argument_of(function: FunctionType, index: int, value: Any, stream: Stream) -> Argument:
    """The argument `value` of one parameter."""
    names, _, constants, numbers = parameters_of(function)
    name = names[index]
    wanted = numbers.get(name)
    if isinstance(wanted, model.Pointer):
        return pointer_to(value, wanted, name, stream)
    if wanted is not None:
        value = number_as(value, wanted, name)
    elif name in constants:
        try:
            value = constant_as(value, constants[name])
        except TypeError:
            wanted = constants[name].__name__
            raise LaunchError(
                f"the argument {name!r} is a constant {wanted}, not {value!r}", f"pass {wanted}(…)"
            ) from None
    return read(value, name, stream, is_constant=name in constants)


_HINT = "pass a number of that type, or correct the hint"
_ARRAY_HINT = "pass an array with as many axes, or correct the hint"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def number_as(value: Any, wanted: model.Number, name: str) -> Any:
    """A number as the hint of the parameter `name` says, as members of structs become what theirs say; None stays None.

    So a hint decides of Python's numbers how wide they are, while NumPy's keep their type where the hint is `int`, say. Raises
    `CallError` for what is no such number.
    """
    if value is None:
        return None
    value = bool(value) if isinstance(value, np.bool_) else value
    says = f"but the hint of the parameter says {wanted}"
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        raise CallError(f"the argument {name!r} is of type {type(value).__name__}, {says}", "pass a number")
    try:
        if isinstance(value, np.generic) and _is_one(number_of(type(value)), wanted):
            return value
        with np.errstate(over="ignore"):  # what is too large for a float is infinite
            return convert(value, wanted, name)
    except OverflowError:
        raise CallError(f"the argument {name!r} is {value!r}, {says}, which has no room for it", _HINT) from None
    except TypeError:
        raise CallError(f"the argument {name!r} is {value!r}, {says}", f"write {wanted}(…)") from None


def type_as(given: model.Type, wanted: model.Number, name: str) -> model.Type:
    """The type of what `number_as` makes of a number of the type `given`. Raises `CallError` if it takes none."""
    if given == model.NONE:
        return given
    if isinstance(given, model.Number) and _is_one(given, wanted):
        return given
    fits = isinstance(given, model.Number) and given.builtin and becomes(given, wanted)
    if not fits and given not in (wanted, machine(wanted)):
        raise CallError(f"the argument {name!r} is of type {given}, but the hint of the parameter says {wanted}", _HINT)
    return wanted


def _is_one(given: model.Number, wanted: model.Number) -> bool:
    """Whether a number of fixed format is one of a builtin type, of another format than that has in device code."""
    return wanted.builtin and not given.builtin and given != machine(wanted) and becomes(given, wanted)


def check_arrays(function: FunctionType, known: Sequence[Known]) -> None:
    """Raises `CallError` for an argument that is not an array of the numbers and axes that a hint asks for, an `ArrayType(…)`.

    Layouts are those of the arguments. Hints of structs, vectors and tuples are for people, and for `compile`.
    """
    names = parameters_of(function).names
    wanted = {name: hint for name, hint in hints_of(function).items() if isinstance(hint, model.Array)}
    for name, given in zip(names, (each.type for each in known), strict=True):
        hint = wanted.get(name)
        if hint is None or isinstance(given, model.NoneType):
            continue
        is_array = isinstance(given, model.Array) and given.ndim == hint.ndim
        others = {each.dtype for each in (given, hint) if isinstance(each, model.Array)}
        if not is_array or (isinstance(hint.dtype, model.Number) and len(others) > 1):
            text = f"the argument {name!r} is of type {given}, but the hint of the parameter says {hint}"
            same = isinstance(given, model.Array) and given.ndim == hint.ndim
            raise CallError(text, "convert the array, as by x.astype(…), or correct the hint" if same else _ARRAY_HINT)


def bind(
    function: FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any], defaults: Mapping[str, Any]
) -> list[Any]:
    """A value for each parameter: by position, by name, or from `defaults`. Raises `CallError` where Python's `TypeError`."""
    names, positional, *_ = parameters_of(function)
    shown = function.__qualname__
    if len(args) > positional:
        raise CallError(
            f"{shown} takes {positional} argument{'s' * (positional != 1)}, not {len(args)}", f"pass {_listed(names)}"
        )
    bound = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise CallError(f"{shown} has no parameter {name!r}", f"its parameters are {_listed(names)}")
        if name in bound or names.index(name) < function.__code__.co_posonlyargcount:
            raise CallError(
                f"{shown} got two values for its parameter {name!r}, or it cannot be named", "pass it once, by position"
            )
        bound[name] = value
    for name, value in defaults.items():
        bound.setdefault(name, value)
    missing = [name for name in names if name not in bound]
    if missing:
        remedy = f"pass {_listed(names)}"
        if names[0] == "self":
            remedy = "write @staticmethod above @kernel: a kernel is not a method; pass self as an ordinary argument (a struct)"
        raise CallError(f"{shown} lacks an argument for {', '.join(map(repr, missing))}", remedy)
    return [bound[name] for name in names]


def hints_of(function: FunctionType) -> dict[str, Any]:
    """The type hints that say what a parameter is in device code."""
    hints = {}
    for name, written in annotations_of(function).items():
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


# Arguments of an interoperable kernel: each is one parameter with the bytes that CUDA C++ would pass.
#
#     describe(arguments, names)          arrays become descriptors: address, shape, strides in elements; None a null address
#     boundary_packing(types)             where the leaves lie in a buffer, one parameter behind the other
#
# `types/abi` says what the bytes are.


_NO_ALIGNMENT = 1


def describe(arguments: Sequence[Argument], names: Sequence[str]) -> list[Argument]:
    """The arguments with the leaves of their representations. Raises `LaunchError` for an array that has none."""
    described = []
    for argument, name in zip(arguments, names, strict=True):
        parts = _describe(argument.known.type, iter(argument.leaves), iter(argument.views), name)
        described.append(replace(argument, leaves=tuple(parts)))
    return described


def _describe(type: Type, values: Iterator[Leaf], views: Iterator[ArrayView], name: str) -> Iterator[Leaf]:
    match type:
        case NoneType():
            yield 0
        case model.Pointer():
            next(views)
            yield next(values)
        case Array():
            for _ in leaves(type):
                next(values)
            yield from _descriptor(next(views), name)
        case Tuple(elements):
            for i, element in enumerate(elements):
                yield from _describe(element, values, views, f"{name}[{i}]")
        case Struct(_, fields):
            for field in fields:
                yield from _describe(field.type, values, views, f"{name}.{field.name}")
        case _:
            for _ in leaves(type):
                yield next(values)


def _descriptor(view: ArrayView, name: str) -> Iterator[Leaf]:
    size = size_of(view.element)
    if any(stride % size for stride in view.strides):
        raise LaunchError(
            f"the argument {name!r}: its strides {view.strides} are no multiples of its elements' {size} bytes, which an "
            "interoperable kernel needs",
            "copy it (.copy())",
        )
    yield from (view.data, *view.shape, *(stride // size for stride in view.strides))


@lru_cache(maxsize=4096)
def boundary_packing(types: tuple[Type, ...]) -> Packing:
    """The packing of arguments of these types: an offset for each parameter."""
    found, codes, offsets, places, letters = [], [], [], [], []
    end = filled = 0
    for form in map(representation, types):
        start = -(-end // align_of(form)) * align_of(form)
        offsets.append(start)
        for access in accesses(form, _NO_ALIGNMENT):
            at, code = start + access.offset, code_of(access.type)
            codes.append(f"{at - filled}x{code}")
            places.append(at)
            letters.append(code)
            found.append(access.type)
            filled = at + struct.calcsize(f"={code}")
        end = start + size_of(form)
    codes.append(f"{end - filled}x")
    structure = struct.Struct("=" + "".join(codes))
    return Packing(structure, tuple(offsets), tuple(places), tuple(letters), *marks(found))
