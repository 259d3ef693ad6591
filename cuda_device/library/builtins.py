"""Python's builtins in device code: `abs`, `min`, `max`, `round`, `len`, `range`, and number types as constructors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from cuda_device.device import numeric, rows
from cuda_device.device.lowering import Lowering, Tree, number_in, value_of
from cuda_device.device.rows import Intrinsic, Typed, any_number_of, common_type, entered, number_of
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Value
from cuda_device.lazy_imports import import_lazily
from cuda_device.types import model
from cuda_device.types.host import ROWS as HOST_ROWS
from cuda_device.types.known import Known, between, constant, known_as, of_type, wrapped
from cuda_device.types.promote import promote
from cuda_device.types.vector_classes import Dim3, families

if TYPE_CHECKING:
    from cuda_device.library import complex_functions, numbers
else:
    import_lazily(globals(), "cuda_device.library", "complex_functions", "numbers")

T = TypeVar("T")


def _result_number(typed: Typed) -> model.Number:
    assert isinstance(typed.result.type, model.Number)
    return typed.result.type


# Number types as constructors


def _constructor(entity: type, name: str, number: model.Number) -> Intrinsic:
    def infer(arguments: Sequence[Known]) -> Typed:
        (argument,) = arguments
        if number == model.BOOL and any_number_of(argument, name).is_complex:
            return Typed(of_type(model.BOOL), instead=numbers.truth)
        source = number_of(argument, name)
        result = model.INDEX if number == model.INT and source == model.INDEX else number
        operand = source if argument.value is None or not argument.constant else _roomy(argument, source)
        return Typed(known_as(argument, result), ((0, operand),))

    def lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
        return build.convert(value_of(operands[0]), _result_number(typed))

    only_for = () if entity is bool else None
    return Intrinsic(entity, name, infer, lower, (1, 1), folds=True, only_for=only_for)


def _roomy(argument: Known, source: model.Number) -> model.Number:
    """The type in which a constant is passed to a constructor: an index if an int is too small."""
    if (
        source == model.INT
        and isinstance(argument.value, int)
        and not model.INT.low <= argument.value <= model.INT.high
    ):
        return model.INDEX
    return source


# abs, min, max, round


def _infer_abs(arguments: Sequence[Known]) -> Typed:
    type = any_number_of(arguments[0], "abs")
    if type.is_complex:
        return Typed(of_type(type.part, nonneg=True), instead=complex_functions.magnitude)
    type = model.INT if type == model.BOOL else type
    if isinstance(arguments[0].value, int):
        return Typed(wrapped(type, abs(arguments[0].value)))
    return Typed(of_type(type, nonneg=type.builtin or type.is_float), ((0, type),))


def _lower_abs(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    value, type = value_of(operands[0]), _result_number(typed)
    if type.is_float:
        return numeric.call_math(build, "fabs", value)
    if not type.signed:
        return value
    zero = build.number(type, 0)
    return build.select(build.compare("<", value, zero), build.sum(ops.SUB, zero, value), value)


def _extreme(entity: object, name: str, op: str) -> Intrinsic:
    """Python's `min` and `max`: a later argument is chosen only if it is strictly less or greater."""

    def infer(arguments: Sequence[Known]) -> Typed:
        if len(arguments) == 1:
            raise CompileError(f"{name} of one argument is not supported in device code", help=f"write {name}(a, b, …)")
        types = [number_of(argument, name) for argument in arguments]
        type = model.BOOL if all(kind == model.BOOL for kind in types) else common_type(types, name)
        known = [known_as(argument, type) for argument in arguments]
        extreme = max if op == ">" else min
        if type.is_integer and all(a.constant and a.value == b.value for a, b in zip(arguments, known, strict=True)):
            return Typed(Known(type, extreme(fact.value for fact in known)))  # type: ignore[type-var]
        if type.is_integer:
            result = between(type, *(extreme(ends) for ends in zip(*(fact.bounds for fact in known), strict=True)))
        else:
            result = of_type(type, (any if op == ">" else all)(fact.nonneg for fact in known))
        return Typed(result, tuple((i, type) for i in range(len(types))))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        def better(best: Value, other: Value) -> Value:
            return build.select(build.compare(op, other, best), other, best, name)

        return reduce(better, map(value_of, operands))

    return Intrinsic(entity, name, infer, lower, (1, 255), folds=True, only_for=())


def _infer_round(arguments: Sequence[Known]) -> Typed:
    type = number_of(arguments[0], "round")
    result = model.INT if type.is_float or type == model.BOOL else type
    return Typed(of_type(result, arguments[0].nonneg), ((0, type),))


def _lower_round(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    value = value_of(operands[0])
    rounded = numeric.call_math(build, "rint", value) if number_in(value).is_float else value
    return build.convert(rounded, _result_number(typed))


# len, range


def _infer_len(arguments: Sequence[Known]) -> Typed:
    (argument,) = arguments
    match argument.type:
        case model.Array(lengths=(length, *_)):
            return Typed(Known(model.INDEX, length))
        case model.Array(_, ndim) as array if ndim > 0:
            return Typed(
                of_type(model.INDEX, nonneg=True, high=model.SMALL if array.small else None), ((0, argument.type),)
            )
        case model.Tuple(elements):
            return Typed(constant(len(elements)))
        case model.Vector(_, size):
            return Typed(constant(size))
        case model.Subarray(_, shape):
            return Typed(constant(shape[0]))
    raise CompileError(f"{argument} has no length", help="len takes arrays, tuples, ranges and vectors")


def _lower_len(build: Lowering, operands: Sequence[Any], _: Typed) -> Tree:
    return build.convert(operands[0].extents[0], model.INDEX)


def _infer_range(arguments: Sequence[Known]) -> Typed:
    start, stop, step = _range_parts(arguments, constant)
    item: model.Number | None = model.INT
    for part in arguments:
        type = number_of(part, "range")
        if not (type.is_integer or type.kind is model.NumberKind.BOOL):
            raise CompileError(f"range takes integers, not {part}", help="divide with //, or convert it: int(…)")
        item = item and promote(item, type)
    if item is None:
        raise CompileError("range has no common type for its arguments", help="convert one of them")
    if step.constant and step.value == 0:
        raise CompileError("the step of a range cannot be 0", help="use a positive or a negative step")
    start, stop, step = (part if part.constant else known_as(part, item) for part in (start, stop, step))
    settings: tuple[object, ...] = ()
    if step.bounds[0] <= 0 <= step.bounds[1]:
        # The step may be 0. The range then begins beyond any stop, so that it is empty.
        settings = (beyond := max(stop.bounds[1], 0),)
        start = between(item, min(start.bounds[0], beyond), max(start.bounds[1], beyond))
    operands: tuple[tuple[int, model.Type], ...] = tuple((i, item) for i in range(len(arguments)))
    return Typed(Known(model.Range(item), items=(start, stop, step)), operands, settings)


def _range_parts(parts: Sequence[T], number: Callable[[int], T]) -> tuple[T, T, T]:
    """Start, stop and step; `number` makes those that are missing."""
    match parts:
        case [stop]:
            return number(0), stop, number(1)
        case [start, stop]:
            return start, stop, number(1)
        case [start, stop, step]:
            return start, stop, step
    raise AssertionError(parts)


def _lower_range(build: Lowering, operands: Sequence[Any], typed: Typed) -> Tree:
    """Checked mode reports a step of 0; otherwise the range is empty then."""
    assert isinstance(typed.result.type, model.Range)
    item = typed.result.type.item
    start, stop, step = _range_parts(operands, lambda value: build.number(item, value))
    if typed.settings and build.checked:
        build.check(build.truth(step), "the step of a range cannot be 0", help="give a step of 1 or more, or below 0")
    elif typed.settings:
        moves = build.truth(step)
        start = build.select(moves, start, build.number(item, typed.settings[0]))
        step = build.select(moves, step, build.number(item, 1))
    return start, stop, step


ROWS = entered(
    _constructor(int, "int", model.INT),
    _constructor(float, "float", model.FLOAT),
    _constructor(bool, "bool", model.BOOL),
    *(
        _constructor(row.scalar, "bool_" if row.number == model.BOOL else str(row.number), row.number)
        for row in HOST_ROWS
        if not row.number.is_complex
    ),
    Intrinsic(abs, "abs", _infer_abs, _lower_abs, (1, 1), folds=True, only_for=(model.Number,)),
    _extreme(min, "min", "<"),
    _extreme(max, "max", ">"),
    Intrinsic(round, "round", _infer_round, _lower_round, (1, 1), folds=True, only_for=()),
    Intrinsic(len, "len", _infer_len, _lower_len, (1, 1), only_for=(model.Array,)),
    Intrinsic(range, "range", _infer_range, _lower_range, (1, 3)),
)


# The constructors of vectors


def _taken_as(known: Known, target: model.Number, name: str) -> model.Number:
    """The type in which an argument is passed to a vector's constructor, which converts it to `target`."""
    number = number_of(known, name)
    if not known.constant:
        return number
    if target.is_float or (number == model.INT and isinstance(known.value, int)):
        return target
    return number


def _vector_row(cls: Any, name: str) -> Intrinsic:
    vector: model.Vector = cls.model

    def infer(arguments: Sequence[Known]) -> Typed:
        types = (_taken_as(argument, vector.dtype, name) for argument in arguments)
        return Typed(of_type(vector), tuple(enumerate(types)))

    def lower(build: Lowering, operands: Sequence[Tree], _: Typed) -> Tree:
        return tuple(build.convert(value_of(operand), vector.dtype) for operand in operands)

    return Intrinsic(cls, name, infer, lower, (vector.size, vector.size))


VECTOR_ROWS = entered(*(_vector_row(cls, name) for name, cls in (*families().items(), ("Dim3", Dim3))))


def row_of_entity(entity: object) -> Intrinsic | None:
    """The row of an entity, or None. The rows of Python's and NumPy's numbers and functions are here and in `device/numeric`."""
    return rows.BY_IDENTITY.get(id(entity))
