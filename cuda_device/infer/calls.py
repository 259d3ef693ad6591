"""Calls of entities in the device tables, of Python functions, and of CUDA C++ functions; arguments are bound as in Python.

f(x, n=2)      →      %3: float32 = call {callee="f"} %1 %2
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from cuda_device.device.functions import Extern, fixed
from cuda_device.device.hints import constant_as
from cuda_device.device.parameters import defaults_of, parameter_names
from cuda_device.device.rows import Intrinsic, constant_of
from cuda_device.device.rows import bind_call as bind_to_signature
from cuda_device.errors import CompileError, Location
from cuda_device.infer.constants import fit
from cuda_device.infer.frame import CallContext, Cell, Frame
from cuda_device.infer.meanings import Keywords, Method, NestedFunction, Partial
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Prototype, Value
from cuda_device.lazy_imports import import_lazily
from cuda_device.types.abi import representation
from cuda_device.types.host import alike, host_type_of, number_of
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.layout import align_of, has_arrays, leaves
from cuda_device.types.model import NONE, Array, NoneType, Number, Struct, Tuple, Type

if TYPE_CHECKING:
    from cuda_device.device import inline_ptx
    from cuda_device.infer import closures, composites, conditions, loops, references, sealed_tuples
    from cuda_device.library import table
else:
    import_lazily(
        globals(), "cuda_device.infer", "closures", "composites", "conditions", "loops", "references", "sealed_tuples"
    )
    import_lazily(globals(), "cuda_device.library", "table")
    import_lazily(globals(), "cuda_device.device", "inline_ptx")


Special = Callable[[Frame, Sequence[Cell], Mapping[str, Cell]], Cell]


def declared(rule: Callable[..., Cell], shown: str, first: int = 1) -> Special:
    """Binds the arguments of a call to the signature of a rule, after the frame (and the owner of a method)."""

    def special(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        bound = bind_to_signature(rule, shown, (frame, *positional), named, first)
        return rule(*bound.args, **bound.kwargs)

    return special


def call_row(row: Intrinsic, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls an entity of the device tables."""
    if frame.policy is not None and frame.policy.references:
        positional = [references.value_of(frame, cell) for cell in positional]
    folded = fold(frame, row.entity, positional) if row.folds and not named else None
    if folded is not None:
        return folded
    arguments = row.bind(positional, named, frame.literal)
    if row.folds or isinstance(row.entity, type):
        arguments = [frame.scalar(cell) for cell in arguments]
    if row.predicates:
        assert isinstance(row.entity, FunctionType)
        names = parameter_names(row.entity.__code__)
        pairs = zip(names, arguments, strict=True)
        arguments = [_answer(frame, row, n, cell) if n in row.predicates else cell for n, cell in pairs]
    typed = sealed_tuples.ask(frame, row, arguments) if row.opens else frame.ask(row, arguments)
    instead = typed.instead or (row.on_cpu if frame.program.on_cpu else None)
    if instead is None:
        return frame.intrinsic(row, typed, arguments)
    if row.check is not None:
        frame.program.chosen.setdefault(row.check, set()).add(instead)
    for i, operand_type in typed.operands:
        arguments[i] = Cell(of_type(operand_type), frame.materialise(arguments[i], operand_type))
    return sealed_tuples.run(frame, row, instead, arguments)


def _answer(frame: Frame, row: Intrinsic, name: str, predicate: Cell) -> Cell:
    """Calls a predicate, and returns its truth value. A predicate may also be a bool."""
    is_answer = isinstance(predicate.known.type, Number)
    cell = predicate if is_answer else frame.call(predicate, (), {})
    if not isinstance(cell.known.type, Number):
        raise CompileError(
            f"{name} of {row.name} returns {cell.known}, not a bool", help="return a comparison, or bool(…)"
        )
    return frame.truth(cell)


def call_method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls a bound method."""
    kind = frame.kind(owner.known)
    if name in kind.methods:
        return declared(kind.methods[name], name, 2)(frame, [owner, *positional], named)
    assert kind.method is not None, owner.known
    return kind.method(frame, owner, name, positional, named)


def as_constant(frame: Frame, cell: Cell, label: str, type: Any) -> Cell:
    """Converts the argument of a parameter `ConstExpr[type]`. Raises `CompileError` if it is not such a constant."""
    value = cell.known.python if cell.known.constant else constant_of(cell.known, label)
    number = cell.known.type
    if isinstance(number, Number) and not number.builtin:
        value = host_type_of(number)(value)
    try:
        checked = constant_as(value, type)
    except TypeError:
        raise CompileError(
            f"{label} is of type {type.__name__}, not {value!r}", help=f"pass a constant {type.__name__}"
        ) from None
    return cell if checked is value else frame.literal(checked)


_ONLY_OF_FLOATS = (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
"""These constructors of ml_dtypes 0.6 crash with text that is not a number, and refuse ints of more than 64 bits."""


def fold(frame: Frame, entity: Any, cells: Sequence[Cell]) -> Cell | None:
    """Evaluates an entity on constant builtin numbers, or for types on text, as in `float("inf")`. Returns None if it cannot."""
    for cell in cells:
        number = cell.known.type
        is_text = isinstance(cell.known.value, str) and isinstance(entity, type)
        if not is_text and not (cell.known.constant and isinstance(number, Number) and number.builtin):
            return None
    values: list[Any] = [cell.known.value for cell in cells]
    try:
        if entity in _ONLY_OF_FLOATS:
            values = [float(value) if isinstance(value, (str, int)) else value for value in values]
        with np.errstate(all="ignore"):
            return frame.literal(entity(*values))
    except OverflowError:
        if frame.program.wraps and isinstance(entity, type) and isinstance(values[0], int):
            return Cell(Known(number_of(entity), fit(cells[0].known, number_of(entity), wraps=True)))
        if isinstance(entity, type):
            raise CompileError(
                f"the constant {values[0]} does not fit {entity.__name__}", help="use a wider type"
            ) from None
        return None
    except (ValueError, ArithmeticError, TypeError):
        return None


def call_bundle(frame: Frame, function: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls a bound method, a partial function or a nested function."""
    meaning = function.known.value
    if isinstance(meaning, Method):
        return call_method(frame, frame.field(function, 0), meaning.name, positional, named)
    if isinstance(meaning, Partial):
        target, *first = frame.fields(function)
        split = len(first) - len(meaning.names)
        keywords = dict(zip(meaning.names, first[split:], strict=True))
        return frame.call(target, [*first[:split], *positional], keywords | dict(named))
    if not isinstance(meaning, NestedFunction):
        raise CompileError(f"{meaning} cannot be called", help="call a function")
    defaults, captured = closures.parts(frame, function)
    cells = bind(frame, meaning.function, positional, named, defaults)
    if loops.is_generator_function(meaning.function):
        return loops.generator(frame, function, meaning.function, cells)
    return frame.program.enter(frame, meaning.function, cells, CallContext(meaning), captured)


def bind(
    frame: Frame,
    function: FunctionType,
    positional: Sequence[Cell],
    named: Mapping[str, Cell],
    defaults: Mapping[str, object],
) -> list[Cell]:
    """Binds arguments to the parameters of a Python function. Returns a cell for each parameter."""
    code = function.__code__
    if len(positional) == code.co_argcount and not (named or code.co_kwonlyargcount or code.co_flags & _OF_REST):
        return [*positional]  # most calls
    signature = _signature(code, tuple(defaults))
    is_method = code.co_varnames[:1] == ("self",)
    arguments = bind_to_signature(signature, table.shown(function), positional, named, is_method).arguments
    cells: list[Cell] = []
    # In the order of `parameter_names`, whose last ones are those of `*args` and `**kwargs`.
    for parameter in sorted(signature.parameters.values(), key=lambda parameter: parameter.kind in _REST):
        name = parameter.name
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            cells.append(frame.tuple(arguments.get(name, ())))
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            more = arguments.get(name, {})
            cells.append(frame.as_object(frame.bundle(Keywords(tuple(more)), list(more.values()))))
        else:
            cells.append(arguments[name] if name in arguments else _default(frame, function, defaults[name]))
    return cells


_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_OF_REST = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class _Optional:
    """The default of a parameter in messages."""

    def __repr__(self) -> str:
        return "…"


@lru_cache(maxsize=1024)
def _signature(code: CodeType, optional: tuple[str, ...]) -> inspect.Signature:
    """The signature of a function with this code; the parameters in `optional` have defaults."""
    plain = inspect.signature(FunctionType(code, {}, None, None, tuple(CellType() for _ in code.co_freevars)))
    return plain.replace(
        parameters=[
            parameter.replace(default=_Optional()) if parameter.name in optional else parameter
            for parameter in plain.parameters.values()
        ]
    )


def _default(frame: Frame, function: FunctionType, value: object) -> Cell:
    """The cell of a default value, which is an object of the host or, for nested functions, a cell."""
    if isinstance(value, Cell):
        return value
    for name in ("__defaults__", "__kwdefaults__"):
        frame.program.depend(function, name, getattr(function, name))
    return frame.literal(value)


# Calls of CUDA C++ functions, and the prototypes of interoperable functions.
#
#     norm(x[i], 2)      →      %3: float32 = extern {symbol="norm"} %1 %2
#
# Arguments must have the types of the stub's hints; numbers are converted. On the CPU, the body of the stub is called instead.


def call_extern(frame: Frame, function: Extern, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls a function of CUDA C++."""
    stub = function.underlying
    cells = bind(frame, stub, positional, named, defaults_of(stub))
    names = parameter_names(stub.__code__)
    arguments = [
        converted(frame, cell, type, f"the argument {name!r} of {stub.__name__}")
        for name, cell, type in zip(names, cells, function.parameters, strict=True)
    ]
    if frame.program.on_cpu:
        return _call_body(frame, function, arguments)
    if isinstance(function, inline_ptx.MachineInstruction):
        return frame.intrinsic(inline_ptx.ROW, function.typed, arguments)
    frame.program.link(function)
    operands = [frame.materialise(cell, cell.known.type) for cell in arguments]
    result = Value(function.result)
    frame.build.append(Op(ops.EXTERN, operands, [result], {"symbol": function.symbol}, [], frame.location))
    known = of_type(function.result)
    return Cell(constant(None)) if function.result == NONE else Cell(known, result if leaves(known.type) else None)


def _call_body(frame: Frame, function: Extern, arguments: Sequence[Cell]) -> Cell:
    stub = function.underlying
    if not function.has_body:
        described = (
            "an instruction of GPUs"
            if isinstance(function, inline_ptx.MachineInstruction)
            else "a function of CUDA C++"
        )
        raise CompileError(
            f"{stub.__name__} is {described}, and its stub has no body that the CPU stream could run",
            help="write the same computation in Python as its body",
        )
    result = frame.run(stub, *arguments)
    type = fixed(function.result)
    result = converted(frame, result, type, f"the result of {stub.__name__}")
    if type == function.result:
        return result
    return Cell(of_type(function.result), frame.materialise(result, function.result))


def converted(frame: Frame, cell: Cell, target: Type, label: str) -> Cell:
    """Converts an argument to the type of a parameter of C++ or PTX, or a result."""
    known = cell.known
    if isinstance(target, Array) and isinstance(known.type, Array):
        _check_array(frame, cell, known.type, target, label)
        return cell
    if isinstance(target, Tuple) and isinstance(known.type, Tuple) and len(target.elements) == len(known.items):
        parts = [
            converted(frame, frame.field(cell, i), element, f"{label}[{i}]")
            for i, element in enumerate(target.elements)
        ]
        operands = [frame.materialise(part, part.known.type) for part in parts]
        tuple_facts = of_type(Tuple(tuple(part.known.type for part in parts)))
        return frame.emit(ops.MAKE, tuple_facts, *operands) if operands else cell
    if (
        isinstance(target, Struct)
        and isinstance(known.type, Struct)
        and has_arrays(target)
        and alike(target, known.type)
    ):
        members = [
            converted(frame, frame.field(cell, i), f.type, f"{label}.{f.name}") for i, f in enumerate(target.fields)
        ]
        return composites.composite(frame, target, members)
    composites.check_member(known, target, label)
    if isinstance(target, NoneType):
        return cell
    return Cell(of_type(target), frame.materialise(cell, target))


def _check_array(frame: Frame, cell: Cell, array: Array, declared: Array, label: str) -> None:
    """Raises `CompileError` unless a C++ function can take an array: in any memory, with strides of whole elements."""
    if (array.dtype, array.ndim) != (declared.dtype, declared.ndim):
        raise CompileError(
            f"{label} is an array of {declared.ndim} dimensions of {declared.dtype}, not {array}",
            help="pass such an array, or change the declaration",
        )
    if array.readonly and not declared.readonly:
        raise CompileError(
            f"{label} is an array that C++ may write to, and this one is read-only",
            help="write ArrayType(…, readonly=True) in the stub, where C++ has const elements",
        )
    if array.align and array.align < align_of(array.dtype):
        raise CompileError(
            f"{label}: the memory of this array is less aligned than C++ requires",
            help="copy the array on the host, or make its dtype with align=True",
        )
    conditions.describable(frame, cell)


def prototype(source: FunctionType, arguments: Sequence[Known], result: Known | None, where: Location) -> Prototype:
    """The prototype of an interoperable function. Raises `CompileError` for types that have no counterpart in C++."""
    shown = source.__qualname__
    for name, known in zip(parameter_names(source.__code__), arguments, strict=True):
        _check_counterpart(known, f"the argument {name!r} of {shown}", where)
        if known.constant and leaves(known.type):
            raise CompileError(
                f"{shown} is interoperable, and its parameter {name!r} is a constant expression: C++ has no such parameter",
                where,
                "leave the type hint ConstExpr out, or make the value a global constant",
            )
    if result is not None:
        _check_counterpart(result, f"the result of {shown}", where)
    return Prototype(tuple(known.type for known in arguments), NONE if result is None else result.type)


def _check_counterpart(known: Known, label: str, where: Location) -> None:
    try:
        representation(known.type)
    except TypeError:
        raise CompileError(
            f"{label} is {known}, which has no counterpart in CUDA C++",
            where,
            "numbers, vectors, structs, tuples, arrays and None have one",
        ) from None
