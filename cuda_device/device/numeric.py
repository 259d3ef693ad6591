"""Functions of numbers: `math.*` in device code, and 'Numeric Intrinsics' of the specification on host and device.

    popc(uint8(0xF0)) == 4        brev(uint8(1)) == 128        clz(int64(1)) == 63        ffs(8) == 4
    fma(x, y, z)                  x * y + z, rounded once

On the host, the functions accept NumPy scalars and Python numbers, and compute the same results as in device code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import ml_dtypes
import numpy as np

from cuda_device.device.entities import Integer, Real, float_floor, float_round, float_trunc
from cuda_device.device.lowering import Lowering, Tree, number_in
from cuda_device.device.rows import Intrinsic, Typed, common_type, entered, number_of
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types.host import number_of as host_number_of
from cuda_device.types.known import Known, of_type
from cuda_device.types.model import BOOL, FLOAT32, FLOAT64, INT, INT32, UINT32, UINT64, Number, NumberKind
from cuda_device.types.promote import to_float

# `math.*` in device code, in the precision of the argument; an integer argument counts as a float (see `to_float`).
#
# `FUNCTIONS` names each function's lowering: `llvm.…` is an LLVM intrinsic, anything else the stem of a function of libdevice
# (`__nv_sinf`, `__nv_sin`) and libm (`sinf`, `sin`). `sqrt` and `/` are correctly rounded on both, which libdevice's own square
# root is not when LLVM folds its precision switch. To add a function of one float: one row.


@dataclass(frozen=True, slots=True)
class MathFunction:
    """A function of floats, and its name in LLVM or the libraries."""

    name: str
    arity: int
    symbol: str
    entity: object = None


def _function(entity: Callable[..., object], arity: int = 1, stem: str = "") -> MathFunction:
    name = entity.__name__
    return MathFunction(name, arity, stem or name, entity)


def _intrinsic(name: str, arity: int = 1, entity: object = None) -> MathFunction:
    return MathFunction(name, arity, f"llvm.{name}", entity)


FUNCTIONS = (
    *map(_function, (math.acos, math.acosh, math.asin, math.asinh, math.atan, math.atanh, math.cos, math.cosh)),
    *map(_function, (math.erf, math.erfc, math.exp, math.expm1, math.lgamma, math.log10, math.log1p, math.log2)),
    *map(_function, (math.sin, math.sinh, math.tan, math.tanh, math.cbrt, math.exp2)),
    _function(math.gamma, stem="tgamma"),
    _function(math.atan2, 2),
    _function(math.pow, 2),
    _function(math.fmod, 2),
    _function(math.hypot, 2),
    _function(math.remainder, 2),
    _function(math.nextafter, 2),
    MathFunction("log", 1, "log"),
    _intrinsic("sqrt", 1, math.sqrt),
    _intrinsic("fabs", 1, math.fabs),
    _intrinsic("copysign", 2, math.copysign),
    _intrinsic("floor", 1, float_floor),
    _intrinsic("ceil"),
    _intrinsic("trunc", 1, float_trunc),
    _intrinsic("rint", 1, float_round),
    _intrinsic("fma", 3),
)
BY_NAME = {function.name: function for function in FUNCTIONS}


def call_math(build: Lowering, name: str, *operands: Value) -> Value:
    """Calls a function for operands of one float type. Narrow formats compute in float32, like the hardware."""
    type = number_in(operands[0])
    if type.bits < 32:
        # In float32, the rounding of an 8-bit fma could lose the bits that decide a tie.
        work = FLOAT64 if name == "fma" and type.is_float8 else FLOAT32
        wide = [build.convert(operand, work) for operand in operands]
        return build.convert(call_math(build, name, *wide), type)
    return build.op(ops.MATH, type, *operands, function=name)


Write = Callable[..., Value]
"""Writes the operations of a function: gets the builder and the operands."""


def _row(
    entity: Callable[..., object],
    name: str,
    write: Write,
    arity: tuple[int, int] = (1, 1),
    result: Number | None = None,
    only_floats: bool = False,
    on_cpu: Callable[..., object] | None = None,
) -> Intrinsic:
    """A function of floats in the type to which they promote; integers count as floats unless it takes `only_floats`.

    `result` is another type for the result.
    """

    def infer(arguments: Sequence[Known]) -> Typed:
        types = [number_of(argument, name) for argument in arguments]
        for number, argument in zip(types, arguments, strict=True):
            if only_floats and not number.is_float:
                raise CompileError(f"{name} takes floating point numbers, not {argument}", help="convert it: float(…)")
        type = common_type([to_float(number) for number in types], name)
        if type.bits < 32 and entity is math.nextafter:
            raise CompileError(f"math.nextafter of {type} is not supported", help="write math.nextafter(float32(x), y)")
        return Typed(of_type(result or type), tuple((i, type) for i in range(len(types))))

    def lower(build: Lowering, operands: Sequence[Any], _: Typed) -> Tree:
        return write(build, *operands)

    return Intrinsic(entity, name, infer, lower, arity, folds=True, on_cpu=on_cpu)


def _math_row(function: MathFunction) -> Intrinsic:
    entity = function.entity
    name = entity.__name__ if isinstance(entity, FunctionType) else f"math.{function.name}"
    assert callable(entity)

    def write(build: Lowering, *operands: Value) -> Value:
        return call_math(build, function.name, *operands)

    row = _row(entity, name, write, (function.arity, function.arity))
    return replace(row, only_for=()) if entity is math.hypot else row  # which takes any number of coordinates


def _to_integer(entity: Callable[..., object], function: str) -> Intrinsic:
    """`math.floor` and the like: an int, as in Python; integers are unchanged."""
    name = f"math.{entity.__name__}"

    def infer(arguments: Sequence[Known]) -> Typed:
        type = number_of(arguments[0], name)
        if not type.is_float:
            return Typed(of_type(type, arguments[0].nonneg), ((0, type),))
        return Typed(of_type(INT), ((0, type),))

    def lower(build: Lowering, operands: Sequence[Any], _: Typed) -> Tree:
        (value,) = operands
        return build.convert(call_math(build, function, value), INT) if number_in(value).is_float else value

    return Intrinsic(entity, name, infer, lower, (1, 1), folds=True)


def _against_infinity(op: str) -> Write:
    def write(build: Lowering, value: Value) -> Value:
        if number_in(value).is_float8:  # which may have no infinity
            value = build.convert(value, FLOAT32)
        return build.compare(op, call_math(build, "fabs", value), build.number(number_in(value), math.inf))

    return write


def _times(factor: float) -> Write:
    def write(build: Lowering, value: Value) -> Value:
        return build.sum(ops.MUL, value, build.number(number_in(value), factor))

    return write


def _log(build: Lowering, *operands: Value) -> Value:
    logarithm, *base = [call_math(build, "log", operand) for operand in operands]
    return build.binary(ops.DIV, logarithm, base[0]) if base else logarithm


# Functions of a number's bits, `cbrt` and `fma`: the specification's 'Numeric Intrinsics', on host and device.


def popc(x: Integer) -> np.int32:
    """Returns the number of set bits of an integer, an int32.

    A Python int counts as 32 bits, in two's complement if it is negative. Works on host and device. Raises `TypeError` (in
    device code `CompileError`) if `x` is not an integer, and `OverflowError` for a Python int of more than 32 bits.
    Specification: 'Numeric Intrinsics'.
    """
    bits, _ = _bits(x, "popc")
    return np.int32(bits.bit_count())


def brev(x: Integer) -> Any:
    """Returns `x` with its bits in reverse order, in the type of `x`. A Python int counts as 32 bits.

    Works on host and device. Errors are those of `popc`. Specification: 'Numeric Intrinsics'.
    """
    bits, number = _bits(x, "brev")
    reverse = int(f"{bits:0{number.bits}b}"[::-1], 2)
    value = reverse - (1 << number.bits) if reverse > number.high else reverse
    return value if type(x) is int else type(x)(value)


def clz(x: Integer) -> np.int32:
    """Returns the number of leading zero bits of an integer, an int32; for 0, this is its width in bits.

    A Python int counts as 32 bits. Works on host and device. Errors are those of `popc`. Specification: 'Numeric Intrinsics'.
    """
    bits, number = _bits(x, "clz")
    return np.int32(number.bits - bits.bit_length())


def ffs(x: Integer) -> np.int32:
    """Returns the position of the least significant set bit, counted from 1, an int32; for 0, returns 0.

    A Python int counts as 32 bits. Works on host and device. Errors are those of `popc`. Specification: 'Numeric Intrinsics'.
    """
    bits, _ = _bits(x, "ffs")
    return np.int32((bits & -bits).bit_length())


def cbrt(a: Real) -> Any:
    """Returns the real cube root of a floating-point number, in its precision.

    The error is at most 1 unit in the last place, and 4 for float64 on a CPU stream. Works on host and device. Raises
    `TypeError` (in device code `CompileError`) if `a` is not a float. Specification: 'Numeric Intrinsics'.
    """
    _check_floats("cbrt", a)
    return type(a)(np.cbrt(np.longdouble(a)))  # np.cbrt(27.0) is not 3


def rsqrt(a: Real) -> Any:
    """Returns `1 / sqrt(a)` of a floating-point number, in its precision: CUDA's `rsqrt`.

    The error is at most 2 units in the last place. The result is infinity for 0, and NaN for a negative number. Works on host
    and device. Raises `TypeError` (in device code `CompileError`) if an argument is not a float.
    """
    _check_floats("rsqrt", a)
    with np.errstate(all="ignore"):
        return type(a)(1 / np.sqrt(np.float64(a)))


def fma(a: Real, b: Real, c: Real) -> Any:
    """Returns `a * b + c` of floating-point numbers, rounded once, in the type to which they promote.

    Works on host and device; on the host, Python floats are doubles. Raises `TypeError` (in device code `CompileError`) for
    other arguments. Specification: 'Numeric Intrinsics'.
    """
    _check_floats("fma", a, b, c)
    typed = [x for x in (a, b, c) if isinstance(x, np.generic)]
    dtype = np.result_type(*(x.dtype for x in typed)) if typed else np.dtype(np.float64)
    with np.errstate(all="ignore"):
        x, y, z = (float(dtype.type(operand)) for operand in (a, b, c))
        result = _fma(x, y, z, ml_dtypes.finfo(dtype))  # type: ignore[no-untyped-call]
        return dtype.type(result) if typed else result


def _bits(x: Any, name: str) -> tuple[int, Number]:
    """Returns the bits of an integer as a non-negative number, and its type."""
    try:
        number = host_number_of(type(x))
    except TypeError:
        number = None
    if number is None or not number.is_integer:
        raise TypeError(f"{name} takes an integer, not {x!r}")
    value = int(x)
    if not number.low <= value <= number.high:
        wide = "int64" if -(1 << 63) <= value < 1 << 63 else "uint64"
        raise OverflowError(f"a Python int has 32 bits in device code, and {value} does not fit: write {wide}({value})")
    return value & ((1 << number.bits) - 1), number


def _check_floats(name: str, *values: Any) -> None:
    for value in values:
        number = host_number_of(type(value)) if isinstance(value, np.generic) else None
        if not (number.is_float if number else isinstance(value, float)):
            raise TypeError(f"{name} takes floating point numbers, not {value!r}")


def _fma(a: float, b: float, c: float, format: Any) -> float:
    """Computes `a * b + c` exactly and rounds it once to a format. The operands are exact doubles."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c) or a == 0 or b == 0:
        return math.copysign(0.0, a) * math.copysign(1.0, b) + c
    from fractions import Fraction  # slow to import, and rarely needed

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    # The exponents of the leading bit and of the last bit that the format represents.
    top = exact.numerator.bit_length() - exact.denominator.bit_length()
    top -= abs(exact) < Fraction(2) ** top
    last = max(top, int(format.minexp)) - int(format.nmant)
    try:
        rounded = math.ldexp(round(exact / Fraction(2) ** last), last)
    except OverflowError:
        rounded = math.inf
    return math.copysign(rounded, -1 if exact < 0 else 1)  # `rounded` may be 0 or infinity


# In device code


def _bit_row(entity: Callable[[Any], Any], write: Write, counts: bool = True) -> Intrinsic:
    """A function of the bits of an integer. Its result is an int32 if it `counts`, else it has the operand's type.

    `write` gets the bits as a uint32 or uint64, for which machines have instructions, and their number.
    """
    name = entity.__name__

    def infer(arguments: Sequence[Known]) -> Typed:
        type = number_of(arguments[0], name)
        if not type.is_integer:
            raise CompileError(f"{name} takes an integer, not {arguments[0]}", help="convert it: int(…)")
        return Typed(of_type(INT32, True) if counts else of_type(type), ((0, type),))

    def lower(build: Lowering, operands: Sequence[Any], _: Typed) -> Tree:
        (operand,) = operands
        number = number_in(operand)
        bits = build.convert(operand, Number(NumberKind.UINT, number.bits))
        result = write(build, build.convert(bits, UINT64 if number.bits == 64 else UINT32), number.bits)
        return build.convert(result, INT32 if counts else number)

    return Intrinsic(entity, name, infer, lower, folds=True)


def _bitwise(build: Lowering, function: str, x: Value) -> Value:
    return build.op(ops.BITWISE, x.type, x, function=function)


def _reverse(build: Lowering, x: Value, bits: int) -> Value:
    """The bits of a narrow number end up at the top."""
    return build.shift(ops.SHR, _bitwise(build, "bitreverse", x), x, number_in(x).bits - bits)


def _leading_zeros(build: Lowering, x: Value, bits: int) -> Value:
    """Does not count the zeros with which a narrow number was extended."""
    extended = build.number(number_in(x), number_in(x).bits - bits)
    return build.sum(ops.SUB, _bitwise(build, "ctlz", x), extended, exact=True)


def _first_set(build: Lowering, x: Value, _: int) -> Value:
    """The number of trailing zeros plus 1, or 0 if no bit is set."""
    position = build.sum(ops.ADD, _bitwise(build, "cttz", x), build.number(number_in(x), 1), exact=True)
    return build.select(build.truth(x), position, build.number(number_in(x), 0))


def _rsqrt(build: Lowering, value: Value) -> Value:
    """An approximation with an error of 1 unit in the last place in float32; for float64, a quotient."""
    if value.type == FLOAT64:
        return build.binary(ops.DIV, build.number(FLOAT64, 1.0), call_math(build, "sqrt", value))
    root = build.op(ops.MACHINE, FLOAT32, build.convert(value, FLOAT32), instruction="llvm.nvvm.rsqrt.approx.f")
    return build.convert(root, number_in(value))


def _fma_of_values(build: Lowering, *values: Value) -> Value:
    """Machines also have it for 16 bits; in float32 the result would be rounded twice."""
    if number_in(values[0]).is_float8:
        return call_math(build, "fma", *values)
    return build.op(ops.MATH, values[0].type, *values, function="fma")


ROWS = entered(
    *(_math_row(function) for function in FUNCTIONS if function.entity is not None),
    _row(math.log, "math.log", _log, (1, 2)),
    _to_integer(math.floor, "floor"),
    _to_integer(math.ceil, "ceil"),
    _to_integer(math.trunc, "trunc"),
    _row(math.isnan, "math.isnan", lambda build, x: build.compare("!=", x, x), result=BOOL),
    _row(math.isinf, "math.isinf", _against_infinity("=="), result=BOOL),
    _row(math.isfinite, "math.isfinite", _against_infinity("<"), result=BOOL),
    _row(math.degrees, "math.degrees", _times(180 / math.pi)),
    _row(math.radians, "math.radians", _times(math.pi / 180)),
    _bit_row(popc, lambda build, x, _: _bitwise(build, "ctpop", x)),
    _bit_row(brev, _reverse, counts=False),
    _bit_row(clz, _leading_zeros),
    _bit_row(ffs, _first_set),
    _row(cbrt, "cbrt", lambda build, value: call_math(build, "cbrt", value), only_floats=True),
    _row(fma, "fma", _fma_of_values, only_floats=True),
    _row(rsqrt, "rsqrt", _rsqrt, only_floats=True, on_cpu=lambda a: 1 / math.sqrt(a)),
)
