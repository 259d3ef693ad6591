"""Calls of builtins that need their own rules because they take iterators, types or functions.

enumerate(t)      →   a bundle that `for` can iterate over
sum(x)            →   a call of the library's loop over `x`
isinstance(x, T)  →   a constant
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from cuda_device.device import functions, inline_ptx, memory
from cuda_device.device.atomics import Atomic, interface_of
from cuda_device.device.rows import constant_of
from cuda_device.device.sync import WarpMask
from cuda_device.errors import CompileError
from cuda_device.infer import array_shapes, composites, loops, printing
from cuda_device.infer.calls import Special, call_row, converted, declared, fold
from cuda_device.infer.constants import FOLDS, LARGEST_BITS, UNARY, too_large
from cuda_device.infer.dependencies import MISSING, PASSING
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import complexes, vectors
from cuda_device.infer.meanings import Keywords, Named, NestedFunction, Partial, Raised, Text, Thing, is_list
from cuda_device.library import complex_functions, numbers, standard, table
from cuda_device.library.builtins import row_of_entity
from cuda_device.types.host import (
    Aligned,
    alignof,
    host_type_of,
    machine_representation,
    numpy_dtype,
    sizeof,
)
from cuda_device.types.known import Known, constant
from cuda_device.types.model import (
    BOOL,
    NONE,
    Bundle,
    NoneType,
    Number,
    Range,
    Ref,
    Static,
    Struct,
    Tuple,
    Vector,
)
from cuda_device.types.struct_classes import align, replace
from cuda_device.types.vector_classes import Dim3, host_vector

PURE: tuple[Any, ...] = (
    align, alignof, machine_representation, numpy_dtype, sizeof, str, repr, ascii, format, hex, oct, bin, callable, issubclass,
    ord, chr, hash, np.iinfo, np.finfo, np.dtype,
)  # fmt: skip
"""Builtins that are evaluated at compile time, with constants."""
_TEXTS = (str, repr, ascii, format, hex, oct, bin)


def _call_row(frame: Frame, entity: object, positional: Sequence[Cell]) -> Cell:
    """Calls an entity of the device tables that also has a rule of its own."""
    row = row_of_entity(entity)
    assert row is not None
    return call_row(row, frame, positional, {})


def while_compiling(function: Callable[..., Any]) -> Special:
    """The rule for a function that is called at compile time, with constants."""
    name = function.__name__

    def rule(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        owner = getattr(function, "__self__", function)
        otherwise = "print(f'…') shows run-time values" if any(owner is entity for entity in _TEXTS) else ""
        values = [constant_of(cell.known, f"each argument of {name}", otherwise) for cell in positional]
        keywords = {
            word: constant_of(cell.known, f"each argument of {name}", otherwise) for word, cell in named.items()
        }
        try:
            arguments = (*values, *keywords.items())
            result = frame.program.once(owner, name, arguments, lambda: function(*values, **keywords))
            if isinstance(result, str) and " at 0x" in result:  # the address of an object
                frame.program.depend(PASSING, name, MISSING)
            return frame.literal(result)
        except Exception as error:
            raise CompileError(
                f"{name} raised {type(error).__name__}: {error}",
                help="it would be called at compile time: call it on the host first",
            ) from None

    return rule


# Functions of `math` that take only integers. With constants, their results are exact, like those of operators.
#
# math.factorial(25) % 1000003      a constant, although the factorial has 84 bits
# math.gcd(n, 12)                   a call of a function of the library


def _of_integers(
    function: Callable[..., int], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]
) -> Cell:
    """The rule for these functions."""
    cells = [frame.scalar(cell) for cell in positional]
    for cell in cells:
        number = cell.known.type
        if isinstance(number, Number) and not (number.is_integer or number == BOOL):
            raise CompileError(
                f"math.{function.__name__} takes integers, not {cell.known}", help="convert it: int(…), or round(…)"
            )
    values = [cell.known.value for cell in cells if isinstance(cell.known.value, int)]
    if function in _PRODUCTS and values and len(values) == len(cells):
        factors = min(values[-1], values[0] - values[-1]) if function is math.comb else values[-1]
        if factors > LARGEST_BITS:
            raise too_large()
    folded = fold(frame, function, cells) if not named else None
    return folded or frame.program.call(frame, table.FUNCTIONS[function], positional, named)


_PRODUCTS = (math.factorial, math.perm, math.comb)
_OF_INTEGERS = (math.gcd, math.lcm, math.comb, math.perm, math.factorial, math.isqrt)


# Builtins that take iterators, types or functions. Each rule has the signature of the builtin, after the frame.


def _reduced(
    function: Callable[..., object], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]
) -> Cell:
    """The rule of a reduction, such as `sum`, whose first argument is an iterable."""
    items = [*map(frame.as_iterable, positional[:1]), *positional[1:]]
    return frame.program.call(frame, table.FUNCTIONS[function], items, named)


def _extreme(
    function: Callable[..., object], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]
) -> Cell:
    """The rule of `min` and `max`, which take an iterable or several arguments."""
    compared = (
        isinstance(cell.known.type, Tuple | Struct) or isinstance(cell.known.value, Named) or is_list(cell.known)
        for cell in positional
    )  # with `<`, as Python does
    if len(positional) != 1 and not named and not any(compared):
        return _call_row(frame, function, positional)
    name = function.__name__
    if len(positional) != 1 and "default" in named:
        raise CompileError(
            f"{name} takes default= only with a single argument", help=f"write {name}((a, b, …), default=c)"
        )
    items = frame.as_iterable(positional[0]) if len(positional) == 1 else frame.tuple(positional)
    if isinstance(items.known.type, Number):
        raise CompileError(
            f"{name} of one argument takes a tuple, a range or an array, not {items.known}",
            help=f"write {name}(a, b, …)",
        )
    if isinstance(items.known.type, Tuple) and not items.known.items and "default" not in named:
        raise CompileError(f"{name}() of an empty sequence has no value", help=f"write {name}(…, default=0)")
    return frame.program.call(frame, table.FUNCTIONS[function], [items], named)


def _next(frame: Frame, iterator: Cell, default: Cell | None = None, /) -> Cell:
    if iterator.known.identity is None or is_list(iterator.known):
        raise CompileError(f"next takes an iterator, not {iterator.known}", help="write next(iter(…)), or index it")
    if default is None:
        return frame.run(standard.next_of, iterator)
    return frame.run(standard.next_or, iterator, default)


def _filter(frame: Frame, function: Cell, iterable: Cell, /) -> Cell:
    chosen = frame.literal(bool) if function.known.value is None else function
    return frame.run(standard.chosen, chosen, frame.iterate(iterable))


def _map(frame: Frame, function: Cell, iterable: Cell, /, *iterables: Cell) -> Cell:
    """Lazy, as in Python."""
    return frame.run(standard.mapped, function, *map(frame.iterate, (iterable, *iterables)))


def _iter(frame: Frame, iterable: Cell, /) -> Cell:
    """`iter` of an iterator is the iterator itself."""
    iterator = frame.iterate(iterable)
    return iterator if iterator.known.identity is not None else frame.as_object(iterator)


def _getattr(frame: Frame, owner: Cell, name: Cell, /, *default: Cell) -> Cell:
    attribute = _attribute(frame, owner, name)
    if isinstance(attribute, Cell):
        return attribute
    if not default:
        raise attribute
    return default[0]


def _attribute(frame: Frame, owner: Cell, name: Cell) -> Cell | CompileError:
    if not isinstance(name.known.value, str):
        raise CompileError(f"the name of an attribute must be a string, not {name.known}", help="write it in quotes")
    try:
        return frame.member(owner, name.known.value)
    except CompileError as error:
        return error


def _list(frame: Frame, *iterable: Cell) -> Cell:
    return frame.new_list(frame.items_of(iterable[0], "list") if iterable else [])


def _enumerate(frame: Frame, iterable: Cell, start: Cell | None = None) -> Cell:
    number = start or Cell(constant(0))
    if not isinstance(number.known.type, Number) or not number.known.type.is_integer:
        raise CompileError(f"enumerate counts from an integer, not from {number.known}", help="convert it: int(…)")
    return frame.as_object(frame.bundle(Thing.ENUMERATE, [number, frame.iterate(iterable)]))


def _zip(frame: Frame, *iterables: Cell, strict: Cell | None = None) -> Cell:
    if strict is not None and not strict.known.constant:
        raise CompileError("zip takes strict=True or strict=False", help="write the constant True or False")
    cells = [frame.as_iterable(cell) for cell in iterables]
    if strict is not None and strict.known.value and len(cells) > 1:
        lengths = [_len(frame, cell) for cell in cells]
        if len({cell.known.value for cell in lengths if cell.known.constant}) > 1:
            raise CompileError("zip(strict=True) of different lengths", help="give them the same length")
        frame.run(standard.check_lengths, *lengths)
    return loops.zipped(frame, [frame.iterate(cell) for cell in cells])


# Types


def type_of(known: Known) -> object:
    """The Python type of a value, or None if it has no type that device code can name."""
    match known.type:
        case Number(mask=True):
            return WarpMask
        case Number() as number:
            return host_type_of(number)
        case Tuple():
            return tuple
        case NoneType():
            return type(None)
        case Range():
            return range
        case Vector() as vector:
            return host_vector(vector)
        case Struct() as struct:
            return struct.host
        case Ref(_, pointee):
            # An atomic in memory may be a whole object or an element of an array.
            return pointee.host if isinstance(pointee, Struct) else Atomic if interface_of(known.type) else None
        case Static():
            return type(known.value)
        case Bundle() if isinstance(known.value, Named):
            return known.value.cls
        case Bundle():
            return _CLASSES.get(known.value if isinstance(known.value, Thing) else type(known.value))
    return None


_CLASSES: dict[object, type] = {
    Thing.LIST: list, Thing.ENUMERATE: enumerate, Thing.ZIP: zip, NestedFunction: FunctionType, Keywords: dict
}  # fmt: skip


def _type(frame: Frame, value: Cell, /) -> Cell:
    cls = type_of(value.known)
    if cls is None:
        raise CompileError(
            f"{value.known} has no type that device code can name",
            help="use the type of an item: type(next(x))",
        )
    return frame.literal(cls)


def _isinstance(_: Frame, value: Cell, kinds: Cell, /) -> Cell:
    known = value.known
    classes_to_test: Any = kinds.known.python
    cls: Any = None if isinstance(known.type, Static) else type_of(known)
    classes = (cls, Dim3) if cls is Dim3.__base__ else (cls,)  # any uint32x3 is a Dim3
    try:
        if cls is None:
            return Cell(constant(isinstance(known.value, classes_to_test)))
        return Cell(constant(any(issubclass(base, classes_to_test) for base in classes)))
    except TypeError:
        raise CompileError(
            f"isinstance compares with types, not with {kinds.known}", help="name a type, or a tuple of types"
        ) from None


def _bool(frame: Frame, value: Cell | None = None, /) -> Cell:
    return Cell(constant(False)) if value is None else frame.truth(frame.as_tuple(value))


def _abs(frame: Frame, x: Cell, /) -> Cell:
    """`abs`, which applies to vectors element by element."""
    if isinstance(x.known.type, Vector):
        return vectors.elementwise(frame, lambda parts: _call_row(frame, abs, parts), [x])
    return _call_row(frame, abs, [x])


def _complex(frame: Frame, real: Cell | None = None, imag: Cell | None = None) -> Cell:
    parts = [real or Cell(constant(0)), imag] if imag is not None else [real] if real is not None else []
    return _call_row(frame, complex, parts)


def _round(frame: Frame, number: Cell, ndigits: Cell | None = None) -> Cell:
    type = number.known.type
    if ndigits is None or ndigits.known.type == NONE or not isinstance(type, Number) or type.is_complex:
        return _call_row(frame, round, [number])
    if not isinstance(ndigits.known.type, Number) or not (ndigits.known.type.is_integer or ndigits.known.type == BOOL):
        raise CompileError(f"the digits of round must be an integer, not {ndigits.known}", help="convert it: int(…)")
    value, count = number.known.value, ndigits.known.value
    if type.builtin and isinstance(value, int | float) and isinstance(count, int):
        return frame.literal(round(value, count))
    if type.is_integer:
        raise CompileError(
            f"round to a number of digits takes a float, not {number.known}",
            help="leave the digits out; for round(n, -2) write round(n / 100) * 100",
        )
    return frame.run(numbers.round_to, number, ndigits)


_SIZED = (np.ndarray, str, bytes, list, tuple, dict, set, frozenset, range, enum.EnumMeta)


def _len(frame: Frame, items: Cell, /) -> Cell:
    if isinstance(items.known.value, Text):
        raise CompileError(
            "the length of a string with run-time values is not known",
            help="it can only be printed; for a number, use n.bit_length() or n.bit_count(), or compute its digits with // and %",
        )
    if isinstance(items.known.type, Static) and isinstance(items.known.value, _SIZED):
        return while_compiling(len)(frame, [items], {})
    items = frame.as_iterable(items)
    if isinstance(items.known.type, Range):
        return frame.run(standard.length_of_range, *frame.fields(items))
    return _call_row(frame, len, [items])


def _exception(kind: type[BaseException], frame: Frame, /, *positional: Cell) -> Cell:
    """An exception object, which the program raises. In the library, a second argument is the help of the report."""
    help = ""
    if frame.location.is_ours and len(positional) == 2:
        *positional, advice = positional  # type: ignore[assignment]
        help = str(advice.known.value)
    message, numbers = printing.message_of(frame, positional, shows_repr=issubclass(kind, KeyError))
    return frame.bundle(Raised(kind.__name__, message, help), numbers)


def _call_partial(
    partial: functools.partial[Any], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]
) -> Cell:
    """Calls a `functools.partial` object of the host."""
    first = [frame.literal(value) for value in partial.args]
    keywords = {name: frame.literal(value) for name, value in partial.keywords.items()}
    return frame.call(frame.literal(partial.func), [*first, *positional], keywords | dict(named))


def _of_library(
    function: Callable[..., object], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]
) -> Cell:
    return frame.program.call(frame, function, positional, named)


def _of_cmath(
    function: Callable[..., object], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]
) -> Cell:
    folded = fold(frame, function, positional) if not named else None
    return folded or complexes.call(function, frame, positional, named)


def _of_numpy(
    function: Callable[..., Any], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]
) -> Cell:
    if any(map(complexes.is_complex, positional)):
        function = complex_functions.OF_NUMPY.get(function, function)
    return frame.call(Cell(constant(function)), positional, named)


def _hypot(frame: Frame, /, *coordinates: Cell) -> Cell:
    if len(coordinates) == 2:
        return _call_row(frame, math.hypot, coordinates)
    return frame.run(numbers.length_of, *coordinates)


def _ptx(
    frame: Frame,
    template: Cell,
    /,
    *operands: Cell,
    inout: Cell | None = None,
    result: Cell | None = None,
    host: Cell | None = None,
    volatile: Cell | None = None,
) -> Cell:
    """Inline PTX, for which the CPU calls the `host` function."""
    changed = [] if inout is None or inout.known.value is None else [frame.scalar(inout)]
    operands = tuple(map(frame.scalar, operands))
    text = constant_of(template.known, "the template of ptx")
    of_result, changes = (
        constant_of(cell.known, f"{name} of ptx") if cell is not None else otherwise
        for name, cell, otherwise in (("result", result, None), ("volatile", volatile, True))
    )
    if not isinstance(text, str):
        raise CompileError(f"the template of ptx must be a string, not {text!r}", help="write it in quotes")
    first = changed[0].known if changed else None
    typed = inline_ptx.typed(text, first, [cell.known for cell in operands], of_result, bool(changes))
    if not frame.program.on_cpu:
        return frame.intrinsic(inline_ptx.ROW, typed, [*changed, *operands])
    if host is None or host.known.value is None:
        raise CompileError(
            "this ptx has no host function for the CPU stream to call",
            help="write host=…, a function in Python that computes the same from the same operands",
        )
    return converted(
        frame, frame.call(host, [*changed, *operands], {}), typed.result.type, "the result of the host function"
    )


def _binary(sign: str, frame: Frame, a: Cell, b: Cell, /) -> Cell:
    return frame.operate(sign, a, b)


def _unary(sign: str, frame: Frame, a: Cell, /) -> Cell:
    return frame.operate(sign, a)


def _member(name: str, frame: Frame, a: Cell, /) -> Cell:
    """A function of NumPy that reads an attribute, such as `np.shape`."""
    return frame.member(a, name)


_DECLARED: dict[Any, Callable[..., Cell]] = {
    **{function: partial(_binary, sign) for sign, function in FOLDS.items()},
    **{function: partial(_unary, sign) for sign, function in UNARY.items()},
    **{getattr(np, name): partial(_member, name) for name in ("ndim", "shape", "size", "real", "imag")},
    abs: _abs,
    bool: _bool,
    complex: _complex,
    enumerate: _enumerate,
    filter: _filter,
    functions.func: lambda _, function, /: function,  # decorates a nested function, which is device code anyway
    functools.partial: lambda frame, function, /, *arguments, **keywords: frame.bundle(
        Partial(tuple(keywords)), [function, *arguments, *keywords.values()]
    ),
    getattr: _getattr,
    hasattr: lambda frame, owner, name, /: Cell(constant(isinstance(_attribute(frame, owner, name), Cell))),
    inline_ptx.ptx: _ptx,
    isinstance: _isinstance,
    iter: _iter,
    len: _len,
    list: _list,
    map: _map,
    memory.aligned: array_shapes.aligned,
    math.hypot: _hypot,
    next: _next,
    print: printing.print_,
    reversed: lambda frame, sequence, /: frame.as_object(loops.reversed_iterator(frame, sequence)),
    round: _round,
    tuple: lambda frame, *iterable: frame.as_tuple(_list(frame, *iterable)),
    type: _type,
    zip: _zip,
}
"""The rules of builtins, which have their signatures after the frame."""
BUILTINS: dict[object, Special] = {
    **{function: partial(_of_library, of_library) for function, of_library in table.FUNCTIONS.items()},
    **{function: while_compiling(function) for function in PURE},
    **{function: partial(_of_integers, function) for function in _OF_INTEGERS},
    **{function: partial(_reduced, function) for function in (sum, any, all, math.prod, math.fsum)},
    **{function: partial(_extreme, function) for function in (min, max)},
    **{function: partial(_of_cmath, function) for function in complex_functions.FUNCTIONS},
    **{function: partial(_of_numpy, of_numbers) for function, of_numbers in table.NUMPY.items()},
    **{function: declared(rule, function.__name__) for function, rule in _DECLARED.items()},
    replace: composites.replace,
}
"""The rules for calls of functions and classes of Python, NumPy and this package."""
_BY_IDENTITY = {id(entity): rule for entity, rule in BUILTINS.items()}


_ARRAY_METHODS = frozenset(("astype", "copy", "reshape", "view"))
"""The methods of host arrays that are called at compile time. Arrays have all but `copy` in device code, too."""


def rule_of(frame: Frame, entity: object) -> Special | None:
    """The rule for calls of an object of the host: its own, or that of its class. None for Python functions."""
    if (rule := _BY_IDENTITY.get(id(entity))) is not None:
        return rule
    if (row := row_of_entity(entity)) is not None:
        return partial(call_row, row)
    if isinstance(entity, FunctionType) and hasattr(entity, "registry") and hasattr(entity, "dispatch"):
        raise CompileError(
            "functools.singledispatch selects a function at run time, which device code cannot do",
            help="use isinstance, which is decided at compile time",
        )
    if isinstance(entity, enum.EnumMeta):
        return while_compiling(entity)
    if isinstance(entity, type) and issubclass(entity, tuple) and hasattr(entity, "_fields"):
        return partial(composites.make, entity)
    if isinstance(entity, type) and issubclass(entity, BaseException):
        return declared(partial(_exception, entity), entity.__name__)
    if isinstance(entity, functools.partial):
        return partial(_call_partial, entity)
    if isinstance(entity, BuiltinFunctionType) and isinstance(entity.__self__, np.ndarray):
        return while_compiling(entity) if entity.__name__ in _ARRAY_METHODS else None
    if isinstance(entity, MethodType):
        function, owner = frame.literal(entity.__func__), Cell(constant(entity.__self__))
        return lambda frame, positional, named: frame.call(function, [owner, *positional], named)
    if isinstance(entity, Aligned):
        return lambda frame, positional, named: frame.call(frame.literal(entity.type), positional, named)
    return None
