"""Calls of functions that CUDA C++ defines, and what C++ sees of ours.

    norm(x[i], 2)      →      %3: float32 = extern {symbol="norm"} %1 %2

Arguments have the types that the stub's hints say, or are numbers that become them. Where there is no C++, on the CPU, the
stub's body is called instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType

from cuda_device.device.extern import Extern, fixed
from cuda_device.device.parameters import parameter_names
from cuda_device.errors import CompileError, Location
from cuda_device.infer import conditions
from cuda_device.infer.calls import bind, defaults_in
from cuda_device.infer.composites import check_member, composite
from cuda_device.infer.frame import Cell, Frame
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Prototype, Value
from cuda_device.types.abi import representation
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.layout import align_of, has_arrays, leaves
from cuda_device.types.model import NONE, Array, NoneType, Struct, Tuple, Type
from cuda_device.types.struct_classes import alike


def call(frame: Frame, function: Extern, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls a function of CUDA C++."""
    stub = function.underlying
    cells = bind(frame, stub, positional, named, defaults_in(frame, stub))
    names = parameter_names(stub.__code__)
    arguments = [
        _convert(frame, cell, wanted, f"the argument {name!r} of {stub.__name__}")
        for name, cell, wanted in zip(names, cells, function.parameters, strict=True)
    ]
    if frame.program.on_cpu:
        return _call_body(frame, function, arguments)
    frame.program.link(function)
    operands = [frame.materialise(cell, cell.known.type) for cell in arguments]
    result = Value(function.result)
    frame.build.append(Op(ops.EXTERN, operands, [result], {"symbol": function.symbol}, [], frame.location))
    known = of_type(function.result)
    return Cell(constant(None)) if function.result == NONE else Cell(known, result if leaves(known.type) else None)


def _call_body(frame: Frame, function: Extern, arguments: Sequence[Cell]) -> Cell:
    stub = function.underlying
    if not function.has_body:
        raise CompileError(
            f"{stub.__name__} is a function of CUDA C++, and its stub has no body that the CPU stream could run",
            help="let the body do the same in Python",
        )
    result = frame.program.call(frame, stub, arguments, {})
    wanted = fixed(function.result)
    converted = _convert(frame, result, wanted, f"the result of {stub.__name__}")
    if wanted == function.result:
        return converted
    return Cell(of_type(function.result), frame.materialise(converted, function.result))


def _convert(frame: Frame, cell: Cell, wanted: Type, what: str) -> Cell:
    """An argument as C++ wants it, which is no constant any more."""
    known = cell.known
    if isinstance(wanted, Array) and isinstance(known.type, Array):
        _check_array(frame, cell, known.type, wanted, what)
        return cell
    if isinstance(wanted, Tuple) and isinstance(known.type, Tuple) and len(wanted.elements) == len(known.items):
        parts = [
            _convert(frame, frame.field(cell, i), element, f"{what}[{i}]") for i, element in enumerate(wanted.elements)
        ]
        operands = [frame.materialise(part, part.known.type) for part in parts]
        made = of_type(Tuple(tuple(part.known.type for part in parts)))
        return frame.emit(ops.MAKE, made, *operands) if operands else cell
    if (
        isinstance(wanted, Struct)
        and isinstance(known.type, Struct)
        and has_arrays(wanted)
        and alike(wanted, known.type)
    ):
        members = [
            _convert(frame, frame.field(cell, i), f.type, f"{what}.{f.name}") for i, f in enumerate(wanted.fields)
        ]
        return composite(frame, wanted, members)
    check_member(known, wanted, what)
    if isinstance(wanted, NoneType):
        return cell
    return Cell(of_type(wanted), frame.materialise(cell, wanted))


def _check_array(frame: Frame, cell: Cell, given: Array, wanted: Array, what: str) -> None:
    """C++ takes arrays in any memory, with any strides that are whole elements."""
    if (given.dtype, given.ndim) != (wanted.dtype, wanted.ndim):
        raise CompileError(
            f"{what} is an array of {wanted.ndim} dimensions of {wanted.dtype}, not {given}",
            help="pass such an array, or change the declaration",
        )
    if given.readonly and not wanted.readonly:
        raise CompileError(
            f"{what} is an array that C++ may write to, and this one is read-only",
            help="write ArrayType(…, readonly=True) in the stub, where C++ has const elements",
        )
    if given.align and given.align < align_of(given.dtype):
        raise CompileError(
            f"{what}: the memory of this array is less aligned than C++ takes for granted",
            help="copy the array on the host, or make its dtype with align=True",
        )
    conditions.describable(frame, cell)


def prototype(source: FunctionType, arguments: Sequence[Known], result: Known | None, where: Location) -> Prototype:
    """What C++ sees of an interoperable function. What has no counterpart there is a `CompileError`."""
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


def _check_counterpart(known: Known, what: str, where: Location) -> None:
    try:
        representation(known.type)
    except TypeError:
        raise CompileError(
            f"{what} is {known}, which has no counterpart in CUDA C++",
            where,
            "numbers, vectors, structs, tuples, arrays and None have one",
        ) from None
