"""Reads the arguments of a launch: binds them to parameters, determines their types, and packs their values.

    read(x, "x", stream)    →   Argument(Known(array<float32, 1, C>), (address, length), (view,))
    arguments_of(saxpy.underlying, (2.0, x), {"y": y}, stream)      three of them

The leaves are the numbers of which an argument consists. They are packed like a C structure. Kernels on the CPU stream read this
structure, and the driver gets the address of each leaf.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from cuda_device.device.hints import Parameters, constant_as, number_as, parameters_of
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import CallError, LaunchError
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.runtime.arrays.array_interface import OWN_VIEW, check_memory, named_view, no_element
from cuda_device.runtime.arrays.array_view import ArrayView, Device
from cuda_device.runtime.gpu.streams import GpuStream, Stream
from cuda_device.types import model
from cuda_device.types.argument_packing import Leaf
from cuda_device.types.host import (
    REGISTERED,
    element_of_dtype,
    is_struct,
    model_of,
    number_of,
    vector_of,
)
from cuda_device.types.known import Known, constant, literal, of_type, tuple_of
from cuda_device.types.layout import (
    align_of,
    has_arrays,
    has_identity,
    has_pointers,
    leaves,
    size_of,
    with_arrays,
)

if TYPE_CHECKING:
    from cuda_device.runtime.launch.by_value import ByValue


@dataclass(slots=True, eq=False)
class Argument:
    """One argument: what the compiler knows about it, its leaves, and its arrays, which must outlive the launch."""

    known: Known
    leaves: tuple[Leaf, ...] = ()
    views: tuple[ArrayView, ...] = ()


def read(value: Any, name: str, stream: Stream, *, is_constant: bool = False) -> Argument:
    """Reads the argument `value` of the parameter `name`. Raises `LaunchError` if a kernel on `stream` cannot take it."""
    if is_constant:
        return _constant(value, name)
    return (_READERS.get(type(value)) or _reader_of(type(value)))(value, name, stream)


OWN_BYTES = "_cuda_device_bytes_"
"""The method of objects that kernels take as bytes (`by_value`)."""


def _reader_of(cls: type[Any]) -> _Reader:
    """The function that reads the objects of a class which `_READERS` does not have."""
    if hasattr(cls, OWN_VIEW):
        return _READERS.setdefault(cls, _array)
    if hasattr(cls, OWN_BYTES):
        return _READERS.setdefault(cls, _by_value)
    if issubclass(cls, (int, float, complex, np.generic)):
        return _number
    if REGISTERED and any(base in REGISTERED for base in cls.__mro__):
        return _registered
    if vector_of(cls) is not None:
        return _vector
    if is_struct(cls):
        return _struct
    if issubclass(cls, tuple):
        return _tuple
    return _dataclass if hasattr(cls, "__dataclass_fields__") and not hasattr(cls, "__dlpack__") else _array


def _vector(value: Any, *_: Any) -> Argument:
    vector = vector_of(type(value))
    assert vector is not None
    return Argument(of_type(vector), tuple(item.item() for item in value))


def _tuple(value: tuple[Any, ...], name: str, stream: Stream) -> Argument:
    parts = [read(item, f"{name}[{i}]", stream) for i, item in enumerate(value)]
    known = tuple_of(tuple(part.known for part in parts))
    if hasattr(value, "_fields"):
        from cuda_device.infer.meanings import Named  # few launches need it

        known = replace(known, value=Named(type(value)))
    return _joined(known, parts)


def _joined(known: Known, parts: Sequence[Argument]) -> Argument:
    """One argument that consists of `parts`."""
    leaves = tuple(leaf for part in parts for leaf in part.leaves)
    return Argument(known, leaves, tuple(view for part in parts for view in part.views))


def _registered(value: object, name: str, stream: Stream) -> Argument:
    """Reads the struct to which an object of a registered class is converted."""
    from cuda_device.types.extensions import registered

    try:
        struct = registered(value, name)
    except LaunchError as error:
        raise type(error)(f"the argument {name!r}: {error.reason}", error.help) from None
    except RecursionError:  # of a tuple that is nested too deeply
        raise
    except Exception as error:
        raise LaunchError(
            f"the argument {name!r}: an object of the class {type(value).__name__} has no conversion to device code: "
            f"{type(error).__name__}: {error}",
            "correct the function that @device.register decorates, or the object",
        ) from error
    return _struct(struct, name, stream)


def _by_value(value: ByValue, name: str, stream: Stream) -> Argument:
    """Reads the bytes of an argument, and the array into which they point."""
    views = _array(value._array, name, stream).views
    if views[0].data != value._address:
        raise LaunchError(
            f"the argument {name!r}: the array of the {type(value).__name__} has moved since it was made",
            "make it again",
        )
    return Argument(value._known, (value._cuda_device_bytes_(isinstance(stream, GpuStream)),), views)


# NumPy's flags of an array.
_DENSE, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
_PLAIN = _DENSE | _ALIGNED
# C-contiguous arrays of NumPy's own numbers, by dtype, number of axes, and flags: their `Known`, and whether they are read-only.
_KNOWN_OF_NUMPY: dict[tuple[np.dtype[Any], int, int], tuple[Known, bool]] = {}
# The first field of NumPy's arrays in C, behind the header of an object, is the address of the elements.
_HEADER = object.__basicsize__
_address_at = ctypes.c_void_p.from_address


def _numpy(array: np.ndarray[Any, Any], name: str, stream: Stream) -> Argument:
    """Same as `_array`, in a fraction of the time for most arrays."""
    known_and_readonly = _KNOWN_OF_NUMPY.get((array.dtype, array.ndim, array.flags.num))
    if known_and_readonly is None or isinstance(stream, GpuStream):
        argument = _array(array, name, stream)
        flags, dtype = array.flags.num, array.dtype
        # Complex numbers need a larger alignment than in NumPy, and other dtypes are not compared by identity.
        if flags & _PLAIN == _PLAIN and dtype.isbuiltin == 1 and dtype.kind in "biuf":
            _KNOWN_OF_NUMPY[dtype, array.ndim, flags] = argument.known, not flags & _WRITEABLE
        return argument
    known, readonly = known_and_readonly
    shape, nbytes = array.shape, array.nbytes
    # `array.ctypes.data` takes a microsecond.
    address = (_address_at(id(array) + _HEADER).value or 0) if nbytes else 0
    element = known.type.dtype  # type: ignore[union-attr]
    view = ArrayView(address, shape, array.strides, element, readonly, Device.HOST, 0, array)
    view.span = address, address + nbytes
    return Argument(known, (address, *shape), (view,))


def pointer_to(value: object, hint: model.Pointer, name: str, stream: Stream) -> Argument:
    """Reads the pointer `value` of the parameter `name`: an address, or a contiguous array.

    The argument has one view, like that of an array. The view of an address has no elements, because their number is unknown.
    """
    void = isinstance(hint.dtype, model.NoneType)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        address, least = int(value), 1 if void else align_of(hint.dtype)
        if not 0 <= address <= model.UINT64.high:
            raise LaunchError(
                f"the argument {name!r} is {address}, which is not an address", "pass an int from 0 to 2**64 - 1"
            )
        if address % least:
            raise LaunchError(
                f"the argument {name!r} is the address {address:#x}, which is not a multiple of {least}, as {hint} requires",
                "pass the address of an element, or declare pointer(uint8)",
            )
        return Argument(of_type(hint), (address,), (ArrayView(address, (0,), (1,), model.UINT8, hint.readonly),))
    if value is None or isinstance(value, (bool, float, complex, np.generic, tuple)):
        shown = "None" if value is None else f"of type {type(value).__name__}"
        raise LaunchError(
            f"the argument {name!r} is {shown}, but the parameter's type hint is {hint}",
            "pass an address, 0 for a null pointer, or an array that it points to",
        )
    (view,) = _array(value, name, stream).views
    if not void and view.element != hint.dtype:
        raise LaunchError(
            f"the argument {name!r} is an array of {view.element}, but the parameter's type hint is {hint}",
            "pass x.view(…) of it, or its address; or declare pointer(), and cast it in the kernel",
        )
    if view.readonly and not hint.readonly:
        raise LaunchError(
            f"the argument {name!r} is a read-only array, but the parameter's type hint is {hint}",
            "declare pointer(T, readonly=True), or pass an array that can be written",
        )
    if view.layout is model.Layout.STRIDED or view.shortfall:
        how = "not contiguous" if view.layout is model.Layout.STRIDED else "less aligned than its elements are in C++"
        raise LaunchError(f"the argument {name!r} is an array that is {how}", "copy it (.copy()), or pass its address")
    return Argument(of_type(hint), (view.data,), (view,))


def _member(value: object, type: model.Type, name: str, stream: Stream) -> Argument:
    """Reads a member of a struct, in which ints can be pointers."""
    if isinstance(type, model.Pointer):
        return pointer_to(value, type, name, stream)
    if isinstance(type, model.Tuple) and has_pointers(type):
        assert isinstance(value, tuple)
        pairs = zip(value, type.elements, strict=True)
        parts = [_member(item, element, f"{name}[{i}]", stream) for i, (item, element) in enumerate(pairs)]
        return _joined(of_type(type), parts)
    return read(value, name, stream)


def _struct(value: object, name: str, stream: Stream) -> Argument:
    """Reads the members of a struct. Array members have the layout of the arrays that are passed."""
    kind = model_of(type(value))
    parts = [_member(getattr(value, f.name), f.type, f"{name}.{f.name}", stream) for f in kind.fields]
    if not has_arrays(kind):
        return _joined(of_type(kind), parts)
    for field, part in zip(kind.fields, parts, strict=True):
        actual, declared = part.known.type, field.type
        if not isinstance(declared, model.Array):
            continue
        if not (isinstance(actual, model.Array) and (actual.dtype, actual.ndim) == (declared.dtype, declared.ndim)):
            raise LaunchError(
                f"the argument {name!r}: {kind.name}.{field.name} is of type {actual}, not {declared}", _CORRECT
            )
    return _joined(_struct_known(kind, tuple(part.known.type for part in parts)), parts)


@lru_cache(maxsize=4096)
def _struct_known(kind: model.Struct, members: tuple[model.Type, ...]) -> Known:
    pairs = zip(kind.fields, members, strict=True)
    return of_type(replace(kind, fields=tuple(replace(a, type=with_arrays(a.type, b)) for a, b in pairs)))


def _dataclass(value: object, name: str, stream: Stream) -> Argument:
    """Reads a dataclass of the standard library as a struct without methods."""
    kind = type(value)
    names = tuple(kind.__dataclass_fields__)  # type: ignore[attr-defined]
    parts = [read(getattr(value, member), f"{name}.{member}", stream) for member in names]
    return _joined(_record_known(kind.__name__, names, tuple(part.known.type for part in parts)), parts)


@lru_cache(maxsize=4096)
def _record_known(name: str, names: tuple[str, ...], members: tuple[model.Type, ...]) -> Known:
    return of_type(
        model.Struct(name, tuple(model.Field(member, type) for member, type in zip(names, members, strict=True)))
    )


def _record(value: np.void, name: str) -> Argument:
    """Reads an element of a structured NumPy array."""
    try:
        element = element_of_dtype(value.dtype)
    except TypeError as error:
        raise no_element(error, f"the argument {name!r}") from None
    if has_pointers(element):
        raise LaunchError(
            f"the argument {name!r} has pointers, and an element of an array holds only their addresses",
            "pass a struct of the class, or the array that contains it",
        )
    if has_identity(element):
        raise LaunchError(
            f"the argument {name!r} has atomic members, so it cannot be copied", "pass the array that contains it"
        )
    return Argument(of_type(element), tuple(_numbers_of(value)))


def _numbers_of(value: Any) -> Iterator[Leaf]:
    """The numbers of an element, in order."""
    if isinstance(value, np.void):
        for field in value.dtype.names or ():
            yield from _numbers_of(value[field])
    elif isinstance(value, np.ndarray):
        for item in value.reshape(-1):
            yield from _numbers_of(item)
    else:
        item = value.item()
        yield from (item.real, item.imag) if isinstance(item, complex) else (item,)


def _constant(value: object, name: str) -> Argument:
    try:
        return Argument(literal(value))
    except TypeError as error:
        remedy = "pass a number, a string, a function, a type, or a tuple of these"
        raise LaunchError(f"the argument {name!r}: {error}", remedy) from None


def _number(value: object, name: str, *_: Any) -> Argument:
    try:
        number = number_of(type(value))
    except TypeError as error:
        if isinstance(value, np.void) and value.dtype.names:
            return _record(value, name)
        raise no_element(error, f"the argument {name!r}") from None
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, complex):
        return Argument(_known(number), (plain.real, plain.imag))
    plain = plain if number.format == model.Format.IEEE else float(plain)  # type: ignore[arg-type]
    assert isinstance(plain, (bool, int, float))
    if number == model.INT and not model.INT.low <= plain <= model.INT.high:
        raise LaunchError(f"the argument {name!r} is {plain}, and a Python int is 32 bits wide", _remedy(int(plain)))
    return Argument(_known(number), (plain,))


@lru_cache(maxsize=256)
def _known(number: model.Number) -> Known:
    """`Known` for a number: the same object for the same type, because launches compare it by identity."""
    return of_type(number)


@lru_cache(maxsize=256)
def _known_of(scalar: type[Any]) -> Known:
    return _known(number_of(scalar))


_A_BOOL, _AN_INT, _A_FLOAT = map(_known, (model.BOOL, model.INT, model.FLOAT))


def _int(value: int, name: str, _: Stream) -> Argument:
    return Argument(_AN_INT, (value,)) if -0x80000000 <= value <= 0x7FFFFFFF else _number(value, name)


def _scalar(value: Any, *_: Any) -> Argument:
    return Argument(_known_of(type(value)), (value.item(),))  # type: ignore[arg-type]


_Reader = Callable[[Any, str, Stream], Argument]
# Readers by class, of the most frequent ones
_READERS: dict[type[Any], _Reader] = {
    bool: lambda value, *_: Argument(_A_BOOL, (value,)),
    int: _int,
    float: lambda value, *_: Argument(_A_FLOAT, (value,)),
    **dict.fromkeys([np.dtype(code).type for code in "?bhilBHILfd"], _scalar),
    **dict.fromkeys([complex, *(np.dtype(code).type for code in "FD")], _number),
    np.ndarray: _numpy,
    tuple: _tuple,
    type(None): lambda *_: Argument(constant(None)),
}


def _remedy(value: int) -> str:
    for name, low, high in (("int64", -(1 << 63), 1 << 63), ("uint64", 0, 1 << 64)):
        if low <= value < high:
            return f"pass {name}({value})"
    return "pass it in parts: no integer type of device code is that wide"


_CORRECT = "pass an array of the hint's type and axes, or correct the hint of the member"
_TAKEN = (
    "pass numbers, tuples, None, or arrays with __dlpack__ or __cuda_array_interface__; "
    "@device.register makes structs of other objects"
)


def _taken(value: object) -> str:
    """The help for an object that cannot be an argument: what to pass instead."""
    if said := getattr(type(value), "__launch_help__", None):
        return str(said)
    if isinstance(value, (list, set)):
        if any(map(_is_array, value)):
            return "pass a tuple of arrays"
        return "pass a tuple or an array: numpy.array(…) for a CPU stream, device.array(…) for any stream"
    if isinstance(value, (bytes, bytearray)):
        return "pass an array of its bytes: numpy.frombuffer(…, numpy.uint8)"
    if isinstance(value, memoryview) or type(value).__module__ == "array":
        return "pass an array that shares its memory: numpy.asarray(…)"
    if isinstance(value, dict):
        return "pass its values separately, or as a typing.NamedTuple or a dataclass"
    if isinstance(type(value).__init__, FunctionType):
        name = type(value).__name__
        return (
            f"decorate {name} with @struct, or make it a dataclass: its members are then those with type hints; "
            f"or write @device.register({name}, …) above a function that makes a struct of it"
        )
    return _TAKEN


def _is_array(value: object) -> bool:
    """Whether a value has a protocol of arrays."""
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


_CONSTANT = "give the parameter the type hint ConstExpr, and the kernel is compiled for each value"


def _array(value: object, name: str, stream: Stream) -> Argument:
    # Asking our own arrays is quicker than looking for the reader of their type.
    is_own = hasattr(type(value), OWN_VIEW)
    view = value._cuda_device_view_() if is_own else named_view(value, f"the argument {name!r}", stream.consumer)  # type: ignore[attr-defined]
    if view is None:
        is_constant = isinstance(value, str | Enum | range) or callable(value)  # functions, types
        raise LaunchError(
            f"the argument {name!r} is of type {type(value).__name__}, which device code cannot take",
            _CONSTANT if is_constant else _taken(value),
        )
    ordinal = stream.ordinal if isinstance(stream, GpuStream) else None
    if view.passed is not None and view.passed[0] == ordinal:
        _, known, leaves = view.passed
        return Argument(known, leaves, (view,))
    check_memory(view, f"the argument {name!r}", stream)
    layout = view.layout
    strides = view.strides if layout is model.Layout.STRIDED else ()
    known = _array_known(view.element, view.ndim, layout, view.readonly, view.shortfall)
    leaves = (view.data, *view.shape, *strides)
    view.passed = ordinal, known, leaves
    return Argument(known, leaves, (view,))


@lru_cache(maxsize=4096)
def _array_known(element: model.Type, ndim: int, layout: model.Layout, readonly: bool, align: int) -> Known:
    """`Known` for an array: the same object for the same type, because launches compare it by identity."""
    return of_type(model.Array(element, ndim, layout, readonly, align=align))


def arguments_of(
    function: FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any], stream: Stream
) -> tuple[Argument, ...]:
    """Reads the arguments of a call. Raises `LaunchError` if they do not fit the parameters or cannot be passed."""
    parameters = parameters_of(function)
    count = len(parameters.names)
    if kwargs or len(args) != count or parameters.positional != count:
        args = bind(function, args, kwargs, defaults_of(function))
    return read_all(parameters, args, stream)


def read_all(parameters: Parameters, values: Sequence[Any], stream: Stream) -> tuple[Argument, ...]:
    """Reads one argument for each parameter."""
    pairs = zip(parameters.names, values, strict=True)
    if parameters.is_plain:
        return tuple([_READERS.get(type(value), read)(value, name, stream) for name, value in pairs])
    return tuple([argument_of(parameters, name, value, stream) for name, value in pairs])


def argument_of(parameters: Parameters, name: str, value: Any, stream: Stream) -> Argument:
    """Reads the argument `value` of the parameter `name`."""
    constants, hint = parameters.constants, parameters.hints.get(name)
    if isinstance(hint, model.Pointer):
        return pointer_to(value, hint, name, stream)
    if isinstance(hint, model.Number):
        value = number_as(value, hint, name)
    elif isinstance(hint, model.Struct):
        value = as_struct(value, hint, name)
    elif name in constants:
        try:
            value = constant_as(value, constants[name])
        except TypeError:
            kind = constants[name].__name__
            raise CallError(f"the argument {name!r} is a constant {kind}, not {value!r}", f"pass {kind}(…)") from None
    return read(value, name, stream, is_constant=name in constants)


def as_struct(value: Any, hint: model.Struct, name: str) -> Any:
    """Converts a tuple or dict to the struct of the type hint of the parameter `name`; returns other values unchanged."""
    if not isinstance(value, (tuple, dict)):
        return value
    from cuda_device.types.struct_classes import as_type  # which few launches need

    try:
        return as_type(value, hint, name)
    except LaunchError:
        raise
    except TypeError as error:
        remedy = f"pass a {hint.name}, or a tuple or dict of its members"
        raise CallError(f"the argument {name!r}: {error}", remedy) from None


_OF_LAUNCH = ("grid", "block", "threads", "shared", "stream", "cluster", "dependent")
"""The parameters of `launch`."""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def bind(
    function: FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any], defaults: Mapping[str, Any]
) -> list[Any]:
    """A value for each parameter: by position, by name, or from `defaults`. Raises `CallError` for arguments that do not fit."""
    parameters = parameters_of(function)
    names, positional = parameters.names, parameters.positional
    shown = function.__qualname__
    if len(args) > positional:
        raise CallError(
            f"{shown} takes {positional} argument{'s' * (positional != 1)}, not {len(args)}", f"pass {_listed(names)}"
        )
    bound = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            reason = f"{shown} has no parameter {name!r}"
            raise CallError(reason, f"its parameters are {_listed(names)}; launch has {_listed(_OF_LAUNCH)}")
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
        raise CallError(f"{shown} is missing an argument for {', '.join(map(repr, missing))}", remedy)
    return [bound[name] for name in names]


# Arguments of interoperable kernels: the bytes that CUDA C++ passes for each parameter (see `types/abi`). An array is passed as
# its descriptor (address, shape, strides in elements), and None as a null pointer.


def describe(arguments: Sequence[Argument], names: Sequence[str]) -> list[Argument]:
    """The arguments with the leaves of their representations. Raises `LaunchError` for arrays without one."""
    described = []
    for argument, name in zip(arguments, names, strict=True):
        parts = _describe(argument.known.type, iter(argument.leaves), iter(argument.views), name)
        described.append(replace(argument, leaves=tuple(parts)))
    return described


def _describe(type: model.Type, values: Iterator[Leaf], views: Iterator[ArrayView], name: str) -> Iterator[Leaf]:
    match type:
        case model.NoneType():
            yield 0
        case model.Pointer():
            next(views)
            yield next(values)
        case model.Array():
            for _ in leaves(type):
                next(values)
            yield from _descriptor(next(views), name)
        case model.Tuple(elements):
            for i, element in enumerate(elements):
                yield from _describe(element, values, views, f"{name}[{i}]")
        case model.Struct(_, fields):
            for field in fields:
                yield from _describe(field.type, values, views, f"{name}.{field.name}")
        case _:
            for _ in leaves(type):
                yield next(values)


def _descriptor(view: ArrayView, name: str) -> Iterator[Leaf]:
    size = size_of(view.element)
    if any(stride % size for stride in view.strides):
        raise LaunchError(
            f"the argument {name!r}: its strides {view.strides} are not multiples of its elements' {size} bytes, which an "
            "interoperable kernel needs",
            "copy it (.copy())",
        )
    yield from (view.data, *view.shape, *(stride // size for stride in view.strides))
