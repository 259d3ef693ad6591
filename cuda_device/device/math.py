"""`math.*` in device code, in the precision of the argument; an integer argument counts as a float (see `to_float`).

`FUNCTIONS` names each function's lowering for each backend: `llvm.…` is an LLVM intrinsic, anything else the stem of a
libdevice (`__nv_sinf`, `__nv_sin`) or libm (`sinf`, `sin`) function. `sqrt` and `/` are correctly rounded on both, which
libdevice's own square root is not when LLVM folds its precision switch. To add a function of one float: one row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from cuda_device.device.lowering import Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed, number_of
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.known import Known, of_type
from cuda_device.types.model import BOOL, FLOAT32, FLOAT64, INT, Number
from cuda_device.types.promote import promote, to_float


@dataclass(frozen=True, slots=True)
class MathFunction:
    """A function of floats that each backend has by some name."""

    name: str
    arity: int
    gpu: str
    cpu: str
    entity: object = None


def _function(entity: Callable[..., object], arity: int = 1, stem: str = "") -> MathFunction:
    name = entity.__name__
    return MathFunction(name, arity, stem or name, stem or name, entity)


def _intrinsic(name: str, arity: int = 1, entity: object = None) -> MathFunction:
    return MathFunction(name, arity, f"llvm.{name}", f"llvm.{name}", entity)


def float_floor(x: Any) -> Any:
    """The floor of a float, as a float (`math.floor` is an int)."""
    return math.copysign(float(math.floor(x)), x) if math.isfinite(x) else x


def float_trunc(x: Any) -> Any:
    """The integral part of a float, as a float."""
    return math.copysign(float(math.trunc(x)), x) if math.isfinite(x) else x


def float_round(x: Any) -> Any:
    """A float's nearest integer, halves to even, as a float."""
    return math.copysign(float(round(x)), x) if math.isfinite(x) else x


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
    MathFunction("log", 1, "log", "log"),
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


def call(build: Lowering, name: str, *operands: Value) -> Value:
    """A row's function applied to operands of one float type; narrow ones compute in float32, as the hardware does."""
    (type, *_) = {operand.type for operand in operands}
    assert isinstance(type, Number) and type.is_float
    if type.bits < 32:
        # Of the sum of an 8-bit float's product float32 may lose what decides a tie.
        work = FLOAT64 if name == "fma" and type.is_float8 else FLOAT32
        wide = [build.convert(operand, work) for operand in operands]
        return build.convert(call(build, name, *wide), type)
    return build.op(ops.MATH, type, *operands, function=name)


def _float_type(arguments: Sequence[Known], name: str) -> Number:
    type = to_float(number_of(arguments[0], name))
    for argument in arguments[1:]:
        type = promote(type, to_float(number_of(argument, name))) or type
    return type


def _row(function: MathFunction) -> Intrinsic:
    entity = function.entity
    name = entity.__name__ if isinstance(entity, FunctionType) else f"math.{function.name}"

    def infer(arguments: Sequence[Known]) -> Typed:
        type = _float_type(arguments, name)
        if type.bits < 32 and function.entity is math.nextafter:
            raise CompileError(f"math.nextafter of {type} is not supported", help="write math.nextafter(float32(x), y)")
        return Typed(of_type(type), tuple((i, type) for i in range(function.arity)))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        return call(build, function.name, *map(_value, operands))

    return Intrinsic(function.entity, name, infer, lower, (function.arity, function.arity), folds=True)


def _value(tree: Tree) -> Value:
    assert isinstance(tree, Value)
    return tree


def _to_integer(entity: Callable[..., object], function: str) -> Intrinsic:
    """`math.floor` and its like: an int, as in Python; integers pass through."""
    name = f"math.{entity.__name__}"

    def infer(arguments: Sequence[Known]) -> Typed:
        type = number_of(arguments[0], name)
        if not type.is_float:
            return Typed(of_type(type, arguments[0].nonneg), ((0, type),))
        return Typed(of_type(INT), ((0, type),))

    def lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
        value = _value(operands[0])
        assert isinstance(value.type, Number) and isinstance(typed.result.type, Number)
        return build.convert(call(build, function, value), typed.result.type) if value.type.is_float else value

    return Intrinsic(entity, name, infer, lower, (1, 1), folds=True)


def _test(entity: Callable[..., object], test: Callable[[Lowering, Value], Value]) -> Intrinsic:
    """`math.isnan` and its like."""
    name = f"math.{entity.__name__}"

    def infer(arguments: Sequence[Known]) -> Typed:
        return Typed(of_type(BOOL), ((0, _float_type(arguments, name)),))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        return test(build, _value(operands[0]))

    return Intrinsic(entity, name, infer, lower, (1, 1), folds=True)


def _against_infinity(op: str) -> Callable[[Lowering, Value], Value]:
    def test(build: Lowering, value: Value) -> Value:
        assert isinstance(value.type, Number)
        if value.type.is_float8:  # which may have no infinity
            value = build.convert(value, FLOAT32)
        assert value.type is not None
        return build.compare(op, call(build, "fabs", value), build.number(value.type, math.inf))

    return test


def _scaled(entity: Callable[..., object], factor: float) -> Intrinsic:
    """`math.degrees` and `math.radians`."""
    name = f"math.{entity.__name__}"

    def infer(arguments: Sequence[Known]) -> Typed:
        type = _float_type(arguments, name)
        return Typed(of_type(type), ((0, type),))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        value = _value(operands[0])
        assert value.type is not None
        return build.sum(ops.MUL, value, build.number(value.type, factor))

    return Intrinsic(entity, name, infer, lower, (1, 1), folds=True)


def _infer_log(arguments: Sequence[Known]) -> Typed:
    type = _float_type(arguments, "math.log")
    return Typed(of_type(type), tuple((i, type) for i in range(len(arguments))))


def _lower_log(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
    logarithm, *base = [call(build, "log", _value(operand)) for operand in operands]
    return build.binary(ops.DIV, logarithm, base[0]) if base else logarithm


ROWS = (
    *(_row(function) for function in FUNCTIONS if function.entity is not None),
    Intrinsic(math.log, "math.log", _infer_log, _lower_log, (1, 2), folds=True),
    _to_integer(math.floor, "floor"),
    _to_integer(math.ceil, "ceil"),
    _to_integer(math.trunc, "trunc"),
    _test(math.isnan, lambda build, x: build.compare("!=", x, x)),
    _test(math.isinf, _against_infinity("==")),
    _test(math.isfinite, _against_infinity("<")),
    _scaled(math.degrees, 180 / math.pi),
    _scaled(math.radians, math.pi / 180),
)
