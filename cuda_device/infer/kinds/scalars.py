"""Rules of type inference for numbers: arithmetic, comparisons, and the attributes of NumPy's scalars.

int8 < uint64                     exact, whatever their signs and widths
x.dtype, x.ndim, x.shape          float32, 0, ()            of a float32
x.astype(T, copy=False)           T(x)
x.view(uint32)                    the bits of x as a uint32
x.item()                          a builtin number
x[()], x.T, x.reshape(())         x
x[None]                           an array of it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any

from cuda_device.device.rows import type_argument
from cuda_device.errors import CompileError
from cuda_device.infer.constants import FOLDS, fit, only_integers, operation_type
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.infer.intervals import combine
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.lazy_imports import import_lazily
from cuda_device.types import model
from cuda_device.types.host import host_type_of
from cuda_device.types.known import Known, between, constant, is_narrow, known_as, of_type, wrapped
from cuda_device.types.layout import size_of
from cuda_device.types.promote import promote
from cuda_device.types.vector_classes import host_vector

if TYPE_CHECKING:
    from cuda_device.device import packing
    from cuda_device.infer import conditions
    from cuda_device.library import numbers, prelude
else:
    import_lazily(globals(), "cuda_device.infer", "conditions")
    import_lazily(globals(), "cuda_device.library", "numbers", "prelude")
    import_lazily(globals(), "cuda_device.device", "packing")


_CONSTANTS = ("dtype", "shape", "strides", "ndim", "ndims", "size", "itemsize", "nbytes")
_SAME = ("T", "real")
_OF_PYTHON = ("bit_count", "bit_length", "is_integer")
_NUMBERS_ALONE = ("real", "imag", "conjugate", "dtype")
"""The attributes of Python's numbers, and `dtype`, which device code adds to them."""


def _attribute(frame: Frame, _: Op, cell: Cell[model.Number], name: str) -> Cell | None:
    number, value = cell.type, cell.known.value
    if isinstance(value, IntEnum | IntFlag):
        return frame.literal(getattr(value, name, None))
    names = _names(cell.known)
    if name not in names:
        if name not in (*_CONSTANTS, *_SAME, *METHODS):
            return None
        raise CompileError(
            f"{cell.known} has no attribute {name!r} in device code: a Python number has only {', '.join(names)}",
            help=f"convert it to a fixed-width number first: {number.machine}(…).{name}",
        )
    if name in KIND.methods:
        return None
    if number.is_complex and name in ("real", "imag"):
        return frame.field(cell, ("real", "imag").index(name))
    if name == "imag":
        return Cell(of_type(number, True), frame.build.const(number, 0))
    size = size_of(number)
    constants = dict(zip(_CONSTANTS, (host_type_of(number), (), (), 0, 0, 1, size, size), strict=True))
    return cell if name in _SAME else frame.literal(constants[name])


def _names(known: Known) -> Sequence[str]:
    """The attributes of a number; builtin numbers have fewer."""
    number: Any = known.type
    of_python = _OF_PYTHON if number.is_integer else ("is_integer",)
    if number.builtin and number != model.BOOL:
        return (*_NUMBERS_ALONE, *of_python)
    return (*_CONSTANTS, *_SAME, "imag", *METHODS, *of_python)


def _getitem(frame: Frame, _: Op, owner: Cell[model.Number], index: Cell) -> Cell | None:
    """`x[()]` and `x[...]` are the number itself, and `x[None]` an array of it; None for any other index."""
    number = owner.type
    parts = index.known.items if isinstance(index.known.type, model.Tuple) else (index.known,)
    axes = [part for part in parts if part.type == model.NONE]
    others = [part for part in parts if part.type != model.NONE]
    if (
        (number.builtin and number != model.BOOL)
        or len(others) > 1
        or any(part.value is not Ellipsis for part in others)
    ):
        return None
    return frame.composite(model.Subarray(number, (1,) * len(axes)), [owner]) if axes else owner


def _astype(frame: Frame, owner: Cell[model.Number], dtype: Cell, *, copy: Cell | None = None) -> Cell:
    target = type_argument(dtype.known, "the dtype of astype")
    if not isinstance(target, model.Number):
        vector = host_vector(target) if isinstance(target, model.Vector) else None
        name = vector.__name__ if vector else getattr(target, "name", str(target))
        raise CompileError(f"{owner.known} cannot become a {name}", help=f"make one: {name}(…)")
    return frame.call(frame.literal(host_type_of(target)), [owner], {})


def _reshape(_: Frame, owner: Cell[model.Number], /, *shape: Cell) -> Cell:
    if shape and (len(shape) > 1 or not isinstance(shape[0].known.type, model.Tuple) or shape[0].known.items):
        raise CompileError(f"{owner.known} is a number: its only shape is ()", help="write x.reshape(())")
    return owner


def _item(frame: Frame, owner: Cell[model.Number], /) -> Cell:
    """The builtin number that can represent every value of the type; float64 and uint64 have none, and are unchanged."""
    number = owner.type
    kind = model.NumberKind.INT if number.is_integer else number.kind
    bits = number.bits + (number.kind is model.NumberKind.UINT)
    builtin = (other for other in model.BUILTIN_NUMBERS.values() if other.kind is kind and other.bits >= bits)
    target = next(builtin, number)
    return Cell(known_as(owner.known, target), frame.materialise(owner, target))


METHODS: dict[str, Callable[..., Cell]] = {
    "astype": _astype,
    "view": lambda frame, owner, dtype: frame.call(frame.literal(packing.reinterpret), [owner, dtype], {}),
    "reshape": _reshape,
    "conjugate": lambda _, owner, /: owner,
    "conj": lambda _, owner, /: owner,
    "item": _item,
}


# Operators


def _folded(sign: str, type: model.Number, a: Known, b: Known) -> Cell | None:
    """The result of an operator on constant integers, which wraps to `type`; None for other operands and undefined results."""
    x, y = a.value, b.value
    if not (type.is_integer and isinstance(x, int) and isinstance(y, int)):
        return None
    defined = {"//": y != 0, "%": y != 0, "<<": 0 <= y <= type.bits, ">>": y >= 0}.get(sign, True)
    return Cell(wrapped(type, FOLDS[sign](x, y))) if defined else None  # type: ignore[arg-type]


def _unary(frame: Frame, sign: str, cell: Cell[model.Number]) -> Cell:
    """`-x`, `+x`, `~x`."""
    type = model.INT if cell.type == model.BOOL else cell.type
    if sign == "~" and type.is_float:
        raise CompileError(f"~ takes an integer, not {cell.known}", help="convert it: int(…)")
    if sign == "+":
        return Cell(known_as(cell.known, type), frame.materialise(cell, type))
    known = of_type(type)
    if type.is_integer:
        # -x is 0 - x, and ~x is -1 - x.
        first, second = Known(type, -(sign == "~")), known_as(cell.known, type)
        if (folded := _folded("-", type, first, second)) is not None:
            return folded
        known = combine(sign, type, first, second)[0] if sign == "-" else known
    return frame.emit(ops.PY_UNARY, known, frame.materialise(cell, type), op=sign)


def _binary(frame: Frame, sign: str, a: Cell[model.Number], b: Cell[model.Number]) -> Cell:
    if sign in ("<<", ">>"):
        return _shift(frame, sign, a, b)
    type = operation_type(sign, a.known, b.known)
    if sign in ("/", "//", "%"):
        if not a.type.is_float and not b.type.is_float:
            conditions.divisor(frame, b)
        if sign != "/" and type.is_float:
            return _floor_division(frame, sign, a, b, type)
    if sign == "**":
        return _power(frame, a, b, type)
    return _arithmetic(frame, sign, type, a, b)


def _arithmetic(frame: Frame, sign: str, type: model.Number, a: Cell[model.Number], b: Cell[model.Number]) -> Cell:
    """An operator on numbers that are converted to `type`."""
    if not type.is_integer:
        nonneg = b.known.nonneg and (sign == "%" or (sign in "+*/|^&" and a.known.nonneg))
        operands = [frame.materialise(a, type), frame.materialise(b, type)]
        return frame.emit(ops.PY_BINARY, of_type(type, nonneg), *operands, op=sign)
    first, second = known_as(a.known, type), known_as(b.known, type)
    result, exact = combine(sign, type, first, second)
    short = _short(first, second, result) if type == model.INDEX else type
    operands = [frame.materialise(cell, short) for cell in (a, b)]
    if (folded := _folded(sign, type, first, second)) is not None:
        return folded
    # Builtin integers do not overflow in any case.
    says = {"exact": True} if exact and sign in "+-*" and not short.builtin else {}
    whole = frame.emit(ops.PY_BINARY, between(short, *result.bounds), *operands, op=sign, **says)
    return whole if short == type else frame.index(whole, result)


def _short(*known: Known) -> model.Number:
    """A type of 32 bits, in which GPUs compute faster, if it can represent all of these indices; otherwise the index type."""
    for short in (model.INT, model.UINT32):
        if all(short.low <= low and high <= short.high for low, high in (fact.bounds for fact in known)):
            return short
    return model.INDEX


def _shift(frame: Frame, sign: str, a: Cell[model.Number], b: Cell[model.Number]) -> Cell:
    type, count = a.type, b.type
    type = model.INT if type == model.BOOL else type
    if type.is_float or count.is_float:
        raise only_integers(sign, a.known, b.known)
    conditions.shift(frame, b)
    if (folded := _folded(sign, type, known_as(a.known, type), b.known)) is not None:
        return folded
    result = combine(sign, type, known_as(a.known, type), b.known)[0] if count.is_integer else of_type(type)
    operands = frame.materialise(a, type), frame.materialise(b, model.INT if count == model.BOOL else count)
    return frame.emit(ops.PY_BINARY, result, *operands, op=sign)


def _power(frame: Frame, a: Cell[model.Number], b: Cell[model.Number], type: model.Number) -> Cell:
    base, exponent = known_as(a.known, type).value, b.known.value
    if base == a.known.value and isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        return Cell(wrapped(type, pow(base, exponent, 1 << type.bits)))
    if b.known.constant and b.known.value == 2:
        factor = frame.materialise(a, type)
        return frame.emit(ops.PY_BINARY, of_type(type, type.builtin or type.is_float), factor, factor, op="*")
    if type.is_float:
        return frame.emit(ops.PY_BINARY, of_type(type), *(frame.materialise(cell, type) for cell in (a, b)), op="**")
    conditions.power(frame, a, b)
    base = Cell(of_type(type, a.known.nonneg), frame.materialise(a, type))
    return frame.run(prelude.integer_power, base, b)


def _floor_division(frame: Frame, sign: str, a: Cell[model.Number], b: Cell[model.Number], type: model.Number) -> Cell:
    """`//` and `%` of floats, which the library implements. Narrow floats compute in float32 and round once."""
    work = model.FLOAT32 if type.bits < 32 else type
    function = prelude.float_floor_divide if sign == "//" else prelude.float_modulo
    operands = [
        Cell(of_type(work), frame.materialise(Cell(of_type(type), frame.materialise(cell, type)), work))
        for cell in (a, b)
    ]
    result = frame.run(function, *operands)
    return Cell(of_type(type), frame.materialise(result, type))


def _compare(frame: Frame, sign: str, a: Cell[model.Number], b: Cell[model.Number]) -> Cell:
    """An exact comparison: a constant takes the other's type; if it is outside its range, the result is a constant."""
    if isinstance(a.known.value, int) and isinstance(b.known.value, int):
        return Cell(constant(bool(FOLDS[sign](a.known.value, b.known.value)), frame.location))
    x, y = a.type, b.type
    are_bools = x == model.BOOL and y == model.BOOL
    for number, cell, other in ((x, a, b), (y, b, a)):
        if not cell.known.constant or other.known.constant:
            continue
        theirs = y if cell is a else x
        if not number.is_float and not theirs.is_float and isinstance(cell.known.value, int):
            if not theirs.low <= cell.known.value <= theirs.high:
                inside = theirs.low  # all values of that type are on the same side of the constant
                sides = (cell.known.value, inside) if cell is a else (inside, cell.known.value)
                return Cell(constant(bool(FOLDS[sign](*sides)), frame.location))
            x = y = model.INT if theirs == model.BOOL else theirs
        elif (type := promote(number, theirs)) is not None:
            x = y = type
    if model.INDEX in (x, y) and is_narrow(a.known) and is_narrow(b.known):
        x = y = model.INT  # a GPU compares 32 bits
    if (x.is_float or y.is_float) and (type := promote(x, y)) is not None:
        x = y = type  # a builtin float is rounded to the other's type, as a constant is
        if a.known.constant and b.known.constant:
            values = (host_type_of(type)(fit(cell.known, type)) for cell in (a, b))
            return Cell(constant(bool(FOLDS[sign](*values)), frame.location))
    types = [model.BOOL] * 2 if are_bools else [model.INT if type == model.BOOL else type for type in (x, y)]
    operands = [frame.materialise(cell, type) for cell, type in zip((a, b), types, strict=True)]
    return frame.emit(ops.PY_COMPARE, of_type(model.BOOL), *operands, op=sign)


def _truth(frame: Frame, cell: Cell[model.Number]) -> Cell:
    if cell.type == model.BOOL:
        return cell
    return frame.emit(ops.PY_TRUTH, of_type(model.BOOL), frame.materialise(cell, cell.type))


def _of_library(name: str) -> Callable[..., Cell]:
    """The rule of a method that a function of the library computes."""
    return lambda frame, owner, *given, **named: frame.program.call(
        frame, numbers.METHODS[name], [owner, *given], named
    )


KIND = Kind(
    rank=Rank.NUMBER,
    getitem=_getitem,
    getattr=_attribute,
    names=_names,
    methods=METHODS | {name: _of_library(name) for name in _OF_PYTHON},
    truth=_truth,
    unary=_unary,
    binary=_binary,
    compare=_compare,
)
