"""Rules of type inference for complex numbers: operators, `.conjugate()`, and `cmath`.

Operators become operations on the parts:

    complex64 * complex64   →   four products, a difference, a sum and a `make`
    complex64 * float32     →   two products and a `make`

A real operand stays real, as in C (Annex G) and in CPython 3.14: `z * x` is `(z.real * x, z.imag * x)`, so that zeros keep their
signs and infinities do not become NaN. Products use the textbook formula, like those of NumPy and cuComplex. Division and powers
are functions of `library/complex_functions`.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

from cuda_device.device.rows import any_number_of, number_of
from cuda_device.errors import CompileError
from cuda_device.infer.constants import operation_type
from cuda_device.infer.frame import Cell, Frame, Kind, Rank
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import complex_functions
from cuda_device.library.complex_functions import FUNCTIONS
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.model import BOOL, Number
from cuda_device.types.promote import promote, to_complex, to_float

_POWERS = 100
"""Powers with constant integer exponents up to this size are computed by multiplication."""


def is_complex(cell: Cell) -> bool:
    """Whether a value is a complex number."""
    return isinstance(cell.known.type, Number) and cell.known.type.is_complex


def _parts(frame: Frame, cell: Cell[Number]) -> tuple[Cell, Cell]:
    """The real and the imaginary part, which is 0 for a real number."""
    if is_complex(cell):
        return frame.field(cell, 0), frame.field(cell, 1)
    return cell, Cell(constant(0))


def _parts_as(frame: Frame, cell: Cell[Number], type: Number) -> tuple[Cell, Cell]:
    """The parts of a number with the type of the parts of `type`."""
    real, imaginary = (Cell(of_type(type.part), frame.materialise(part, type.part)) for part in _parts(frame, cell))
    return real, imaginary


def _operands(frame: Frame, cell: Cell[Number], part: Number) -> list[Value]:
    """The parts of an operand as floats of one type: one for a real operand, two for a complex one."""
    cells = _parts(frame, cell) if is_complex(cell) else (cell,)
    return [frame.materialise(cell_of_part, part) for cell_of_part in cells]


def _make(frame: Frame, type: Number, real: Value, imaginary: Value) -> Cell:
    return frame.emit(ops.MAKE, of_type(type), real, imaginary)


def _op(frame: Frame, part: Number, sign: str, *operands: Value) -> Value:
    """A binary or unary operator on parts of one type."""
    code = ops.PY_BINARY if len(operands) == 2 else ops.PY_UNARY
    return frame.build.op(code, part, *operands, op=sign)


def _unary(frame: Frame, sign: str, cell: Cell[Number]) -> Cell:
    """`-z` and `+z`."""
    type = cell.type
    if sign == "~":
        raise CompileError(f"~ takes an integer, not {cell.known}", help="write z.conjugate() for the conjugate")
    if sign == "+":
        return cell
    write = partial(_op, frame, type.part)
    return _make(frame, type, *(write("-", value) for value in _operands(frame, cell, type.part)))


def _binary(frame: Frame, sign: str, a: Cell[Number], b: Cell[Number]) -> Cell:
    type = operation_type("+", a.known, b.known)
    match sign:
        case "+" | "-":
            return _sum(frame, sign, a, b, type)
        case "*":
            return _product(frame, a, b, type)
        case "/":
            return _quotient(frame, a, b, type)
        case "**":
            return _power(frame, a, b, type)
    rounds = sign in ("//", "%")
    operands = "real numbers" if rounds else "integers"
    remedy = "divide with /, and round the parts" if rounds else "convert a part: int(z.real)"
    raise CompileError(f"the operator {sign} takes {operands}, not {a.known} and {b.known}", help=remedy)


def _sum(frame: Frame, sign: str, a: Cell[Number], b: Cell[Number], type: Number) -> Cell:
    write = partial(_op, frame, type.part)
    match _operands(frame, a, type.part), _operands(frame, b, type.part):
        case [x, y], [u, v]:
            return _make(frame, type, write(sign, x, u), write(sign, y, v))
        case [x, y], [u]:
            return _make(frame, type, write(sign, x, u), y)
        case [x], [u, v]:
            return _make(frame, type, write(sign, x, u), v if sign == "+" else write("-", v))
    raise AssertionError


def _product(frame: Frame, a: Cell[Number], b: Cell[Number], type: Number) -> Cell:
    write = partial(_op, frame, type.part)
    match _operands(frame, a, type.part), _operands(frame, b, type.part):
        case [x, y], [u, v]:
            real = write("-", write("*", x, u), write("*", y, v))
            if a.value is not None and a.value is b.value:
                # Equal to the sum of two products, but it can fuse with a later addition.
                two = frame.build.const(type.part, 2.0)
                return _make(frame, type, real, write("*", write("*", x, v), two))
            return _make(frame, type, real, write("+", write("*", x, v), write("*", y, u)))
        case ([x, y], [u]) | ([u], [x, y]):
            return _make(frame, type, write("*", x, u), write("*", y, u))
    raise AssertionError


def _quotient(frame: Frame, a: Cell[Number], b: Cell[Number], type: Number) -> Cell:
    if is_complex(b):
        return _call(frame, complex_functions.quotient, a, b, type)
    write = partial(_op, frame, type.part)
    (x, y), (u,) = _operands(frame, a, type.part), _operands(frame, b, type.part)
    return _make(frame, type, write("/", x, u), write("/", y, u))


def _power(frame: Frame, a: Cell[Number], b: Cell[Number], type: Number) -> Cell:
    """A power; integer exponents, and constants with integer values, make products."""
    base: Cell[Number] = Cell(of_type(type), frame.materialise(a, type))
    exponent = _small_integer(b.known)
    if exponent is not None:
        b = Cell(constant(exponent))
    if exponent == 2:
        return _product(frame, base, base, type)
    if isinstance(b.known.type, Number) and b.known.type.is_integer:
        return frame.run(complex_functions.integer_power, base, b)
    return _call(frame, complex_functions.power, a, b, type)


def _small_integer(known: Known) -> int | None:
    """The value of a constant if it is an integer that is not too large."""
    if not known.constant or not isinstance(known.value, (int, float, complex)):
        return None
    value = complex(known.value)
    if value.imag != 0 or not value.real.is_integer() or abs(value.real) > _POWERS:
        return None
    return int(value.real)


def _call(frame: Frame, function: Callable[..., object], a: Cell[Number], b: Cell[Number], type: Number) -> Cell:
    """Calls a function of two complex numbers of one type."""
    operands = [Cell(of_type(type), frame.materialise(cell, type)) for cell in (a, b)]
    return frame.run(function, *operands)


def _conjugate(frame: Frame, cell: Cell[Number], /) -> Cell:
    """`z.conjugate()` of a complex number."""
    type = cell.type
    if isinstance(cell.known.value, complex):
        return Cell(replace(cell.known, value=cell.known.value.conjugate()))
    real, imaginary = _operands(frame, cell, type.part)
    return _make(frame, type, real, _op(frame, type.part, "-", imaginary))


def call(function: Callable[..., object], frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls a function of `cmath`."""
    name = f"cmath.{function.__name__}"
    if function is cmath.rect:
        types = [to_float(number_of(cell.known, name)) for cell in positional]
    else:
        types = [to_complex(any_number_of(cell.known, name)) for cell in positional]
    cells = [frame.convert(cell, reduce(lambda a, b: promote(a, b) or a, types)) for cell in positional]
    return frame.program.call(frame, FUNCTIONS[function], cells, named)


def _compare(frame: Frame, sign: str, a: Cell[Number], b: Cell[Number]) -> Cell:
    """`==` and `!=`."""
    if sign not in ("==", "!="):
        raise CompileError(
            f"{a.known} {sign} {b.known}: complex numbers have no order", help="compare their abs(…), or .real"
        )
    x, y = a.type, b.type
    type = to_complex(promote(x, y) or x)
    pairs = zip(_parts_as(frame, a, type), _parts_as(frame, b, type), strict=True)
    return frame.all_equal(sign, list(pairs))


def _truth(frame: Frame, cell: Cell[Number]) -> Cell:
    parts = [frame.materialise(frame.truth(part), BOOL) for part in _parts(frame, cell)]
    return frame.emit(ops.PY_BINARY, of_type(BOOL), *parts, op="|")


def kind(number: Kind) -> Kind:
    """The kind of complex numbers, which extends that of numbers."""
    return replace(
        number,
        rank=Rank.COMPLEX,
        methods={**number.methods, "conjugate": _conjugate, "conj": _conjugate},
        truth=_truth,
        unary=_unary,
        binary=_binary,
        compare=_compare,
    )
