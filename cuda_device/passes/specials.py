"""Calls that are more than a row of the device tables: of what takes iterators, types, or functions.

enumerate(t)      →   a bundle that `for` knows
sum(… for …)      →   a call of the generator expression's code, read as a sum (see `bytecode/reductions`)
isinstance(x, T)  →   a constant
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from cuda_device.device import complex_functions, functions, standard
from cuda_device.device.rows import constant_of
from cuda_device.device.table import interface_of
from cuda_device.errors import CompileError
from cuda_device.passes import closures, complexes, sequences
from cuda_device.passes.calls import call, call_plain
from cuda_device.passes.frame import Cell, Frame
from cuda_device.passes.meanings import Code, Generator, Partial, Raised, Thing, means
from cuda_device.passes.ufuncs import NUMPY_FUNCTIONS, OF_COMPLEX, UFUNCS
from cuda_device.types.dtypes import alignof, sizeof
from cuda_device.types.host import host_type_of
from cuda_device.types.known import Known, constant
from cuda_device.types.model import Array, Bundle, NoneType, Number, Range, Ref, Static, Struct, Tuple, Vector

Special = Callable[[Frame, Sequence[Cell], Mapping[str, Cell]], Cell]


def _generator(known: Known) -> bool:
    return isinstance(known.type, Bundle) and isinstance(known.value, Generator)


def reduce(frame: Frame, generator: Cell, reduction: str, *begin: Cell) -> Cell:
    """What becomes of the values of a generator expression."""
    function, *arguments = frame.fields(generator)
    function = closures.close(frame, function)
    code = function.known.value
    assert isinstance(code, Code)
    return frame.program.enter(frame, code, [*arguments, *begin], closures.captured(frame, function), reduction)


def list_of(frame: Frame, cell: Cell) -> Cell:
    """A list of what a generator expression yields, or of the items of something."""
    if _generator(cell.known):
        return reduce(frame, cell, "list", frame.bundle(Thing.LIST, []))
    return frame.bundle(Thing.LIST, sequences.items_of(frame, cell, "list"))


def _no_keywords(name: str, named: Mapping[str, Cell]) -> None:
    if named:
        raise CompileError(f"{name} takes no keyword arguments in device code")


def _count(name: str, positional: Sequence[Cell], low: int, high: int) -> None:
    if not low <= len(positional) <= high:
        count = str(low) if low == high else f"{low} to {high}"
        raise CompileError(f"{name} takes {count} argument{'s' * (count != '1')}, not {len(positional)}")


def _reducing(function: object, name: str) -> Special:
    """`sum`, `any`, `all`, `min`, `max`."""

    def special(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        if positional and _generator(positional[0].known):
            if name == "sum":
                begin = [*positional[1:], *named.values()][:1] or [Cell(constant(0))]
                return reduce(frame, positional[0], name, *begin)
            _count(name, positional, 1, 1)
            _no_keywords(name, named)
            return reduce(frame, positional[0], name)
        positional = sequences.as_tuples(frame, positional)
        if function in standard.ONE_ARGUMENT:
            if len(positional) != 1:
                return call_plain(frame, constant(function), positional, named)
            if isinstance(positional[0].known.type, Number):
                raise CompileError(
                    f"{name} of one argument takes a tuple, a range or an array, not {positional[0].known}",
                    help=f"write {name}(a, b, …)",
                )
            return frame.program.call(frame, standard.ONE_ARGUMENT[function], positional, named)
        return frame.program.call(frame, standard.REPLACEMENTS[function], positional, named)

    return special


def _tuple(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    _no_keywords("tuple", named)
    _count("tuple", positional, 0, 1)
    return sequences.as_tuple(frame, list_of(frame, positional[0])) if positional else frame.tuple([])


def _list(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    _no_keywords("list", named)
    _count("list", positional, 0, 1)
    return list_of(frame, positional[0]) if positional else frame.bundle(Thing.LIST, [])


def _enumerate(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    start = [*positional[1:], *(cell for name, cell in named.items() if name == "start")]
    _count("enumerate", [*positional[:1], *start], 1, 2)
    number = start[0] if start else Cell(constant(0))
    if not isinstance(number.known.type, Number) or not number.known.type.is_integer:
        raise CompileError(f"enumerate counts from an integer, not from {number.known}")
    return frame.bundle(Thing.ENUMERATE, [number, positional[0]])


def _zip(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    if set(named) - {"strict"} or any(cell.known.value for cell in named.values()):
        raise CompileError("zip has no strict=True in device code", help="compare the lengths, and leave it out")
    return frame.bundle(Thing.ZIP, list(positional))


def _reversed(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    _no_keywords("reversed", named)
    _count("reversed", positional, 1, 1)
    cell = sequences.as_tuple(frame, positional[0])
    match cell.known.type:
        case Tuple() | Vector():
            return frame.tuple(sequences.items_of(frame, cell, "reversed")[::-1])
        case Range():
            return frame.program.call(frame, standard.reversed_range, [frame.field(cell, i) for i in range(3)], {})
        case Array(_, ndim) if ndim > 0:
            return frame.bundle(Thing.REVERSED_ARRAY, [cell])
    raise CompileError(f"reversed cannot take {cell.known}", help="give it a range, a tuple or an array")


# Types


def type_of(known: Known) -> object:
    """The Python type of a value; None if it has none that device code could compare with."""
    match known.type:
        case Number() as number:
            return host_type_of(number)
        case Tuple():
            return tuple
        case NoneType():
            return type(None)
        case Range():
            return range
        case Vector() as vector:
            from cuda_device.types.vectors import host_vector

            return host_vector(vector)
        case Struct() as struct:
            return struct.host
        case Ref(_, pointee):
            return pointee.host if isinstance(pointee, Struct) else interface_of(known.type)
        case Static():
            return type(known.value)
        case Bundle() if means(known, Thing.LIST):
            return list
        case Bundle() if isinstance(known.value, Code):
            return FunctionType
    return None


def _type(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    _no_keywords("type", named)
    _count("type", positional, 1, 1)
    found = type_of(positional[0].known)
    if found is None:
        raise CompileError(f"{positional[0].known} has no type that device code can name")
    return frame.literal(found)


def _isinstance(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    _no_keywords("isinstance", named)
    _count("isinstance", positional, 2, 2)
    value, kinds = positional
    wanted = _types(kinds.known.python) if kinds.known.constant else None
    if wanted is None:
        raise CompileError(
            f"isinstance compares with types, not with {kinds.known}", help="name a type, or a tuple of types"
        )
    if isinstance(value.known.type, Static):
        return Cell(constant(isinstance(value.known.value, wanted)))
    found = type_of(value.known)
    return Cell(constant(isinstance(found, type) and issubclass(found, wanted)))


def _types(given: object) -> tuple[type, ...] | None:
    """The types in what `isinstance` gets: one, a union, or a tuple of such; None if something else is there."""
    if isinstance(given, type):
        return (given,)
    parts = given if isinstance(given, tuple) else getattr(given, "__args__", None)
    if not isinstance(parts, tuple):
        return None
    found = [_types(part) for part in parts]
    return None if None in found else tuple(kind for part in found if part for kind in part)


def _bool(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    from cuda_device.passes.operators import truth_of

    _no_keywords("bool", named)
    _count("bool", positional, 0, 1)
    if not positional:
        return Cell(constant(False))
    cell = sequences.as_tuple(frame, positional[0])
    return truth_of(frame, cell)


def _partial(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    if not positional:
        raise CompileError("partial takes a function")
    return frame.bundle(Partial(tuple(named)), [*positional, *named.values()])


def _round(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    if len(positional) == 2 and not (positional[1].known.constant and positional[1].known.value is None):
        number, digits = positional
        if isinstance(number.known.type, Number) and number.known.type.is_integer:
            if not digits.known.constant or not isinstance(digits.known.value, int) or digits.known.value < 0:
                raise CompileError("round of an integer takes no negative digits in device code")
            return number
        if number.known.constant and digits.known.constant and number.known.type.builtin:  # type: ignore[union-attr]
            return frame.literal(round(number.known.value, digits.known.value))  # type: ignore[call-overload]
        return frame.program.call(frame, standard.round_to, positional, named)
    return call_plain(frame, constant(round), positional[:1], named)


def _len(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    cells = sequences.as_tuples(frame, positional)
    if len(cells) == 1 and isinstance(cells[0].known.type, Range):
        return frame.program.call(frame, standard.length_of_range, [frame.field(cells[0], i) for i in range(3)], named)
    return call_plain(frame, constant(len), cells, named)


def _exception(kind: type[BaseException], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """An exception that the program makes to raise it: its message is made of constants."""
    _no_keywords(kind.__name__, named)
    texts = [str(cell.known.python) if cell.known.constant else str(cell.known) for cell in positional]
    message = texts[0] if len(texts) == 1 else f"({', '.join(texts)})" if texts else ""
    return Cell(Known(Static(), Raised(kind.__name__, message)))


def _call_partial(
    partial: functools.partial[Any], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]
) -> Cell:
    """Calls a partial function of the host."""
    first = [frame.literal(value) for value in partial.args]
    given = {name: frame.literal(value) for name, value in partial.keywords.items()}
    return call(frame, frame.literal(partial.func), [*first, *positional], given | dict(named))


def _call_method(method: MethodType, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls a method of an object that exists while compiling."""
    return call(frame, frame.literal(method.__func__), [Cell(constant(method.__self__)), *positional], named)


def _func(_: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`@func` on a nested function, which is device code already."""
    _no_keywords("func", named)
    _count("func", positional, 1, 1)
    return positional[0]


def _ufunc(function: Callable[..., Any], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    _no_keywords("a NumPy function", named)
    if any(map(complexes.is_complex, positional)):
        function = OF_COMPLEX.get(function, function)
    return call(frame, Cell(constant(function)), positional, named)


def _while_compiling(function: Callable[..., Any]) -> Special:
    """The rule for a function of constant expressions: its own result, which is one too."""
    name = function.__name__

    def rule(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        _no_keywords(name, named)
        values = [constant_of(cell.known, f"each argument of {name}") for cell in positional]
        try:
            return frame.literal(function(*values))
        except Exception as error:
            raise CompileError(f"{name} raised {type(error).__name__}: {error}") from None

    return rule


_SPECIAL: dict[object, Special] = {
    **{function: functools.partial(complexes.call, function) for function in complex_functions.FUNCTIONS},
    **{function: functools.partial(_ufunc, of_numbers) for function, of_numbers in NUMPY_FUNCTIONS.items()},
    **{function: _while_compiling(function) for function in (alignof, sizeof, np.dtype, callable, issubclass, ord)},
    **{function: _reducing(function, function.__name__) for function in (sum, any, all, builtins.min, builtins.max)},
    tuple: _tuple,
    list: _list,
    enumerate: _enumerate,
    zip: _zip,
    reversed: _reversed,
    type: _type,
    isinstance: _isinstance,
    bool: _bool,
    round: _round,
    len: _len,
    functools.partial: _partial,
    functions.func: _func,
}


def find(entity: object) -> Special | None:
    """The rule for calls of an entity, or None."""
    if isinstance(entity, type) and issubclass(entity, BaseException):
        return functools.partial(_exception, entity)
    if isinstance(entity, functools.partial):
        return functools.partial(_call_partial, entity)
    if isinstance(entity, MethodType):
        return functools.partial(_call_method, entity)
    if isinstance(entity, np.ufunc) and entity in UFUNCS:
        return functools.partial(_ufunc, UFUNCS[entity])
    return _SPECIAL.get(entity) if isinstance(entity, Hashable) and not isinstance(entity, np.dtype) else None
