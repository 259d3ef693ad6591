"""What the rules of type inference work with: cells, and a frame that writes typed operations for one block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Protocol

from cuda_device.device.rows import Intrinsic, Typed
from cuda_device.device.table import find
from cuda_device.errors import CompileError, Location
from cuda_device.ir import ops
from cuda_device.ir.builder import Builder
from cuda_device.ir.model import Block, Op, Value
from cuda_device.ir.ops import Effect
from cuda_device.types.known import Conflict, Known, State, Undefined, nonneg_as, show, tuple_of
from cuda_device.types.layout import leaves
from cuda_device.types.model import INDEX, INT, Number, Static, Tuple, TupleIterator, Type, Vector


@dataclass(slots=True)
class Cell:
    """What is known of a value of the python level, and the typed value that holds the rest at run time, if any."""

    known: Known
    value: Value | None = None


@dataclass(slots=True)
class Pending:
    """A variable whose state may still be undefined or in conflict: an error only where it is used."""

    state: State
    value: Value | None = None


MISSING = object()
"""Stands for the value of a name that is not there."""


class Waits(Exception):
    """The block at hand calls a function that has to be inferred first; then the block is visited again."""


class NeverReturns(Exception):
    """A call that has no way back, as far as is known by now: the rest of its block is not reached."""


def is_static(known: Known) -> bool:
    """Whether nothing is left for run time: a constant, a function, None, an empty tuple."""
    return known.constant or not leaves(known.type)


class Program(Protocol):
    """What a frame asks of the inference of the whole program."""

    def literal(self, value: object, where: Location) -> Known:
        """What is known of a Python object that exists while compiling."""

    def depend(self, owner: object, name: str, value: object) -> None:
        """Records that the program read `name` of `owner`: a later launch checks that it is still `value`."""

    def call(self, frame: Frame, function: object, arguments: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
        """Calls a Python function. Raises `NeverReturns` if it does not return, as far as is known by now (recursion)."""


class Frame:
    """Writes the typed operations of one block; `build.location` is the place of the operation at hand."""

    def __init__(self, program: Program, function: FunctionType) -> None:
        self.program = program
        self.globals = function.__globals__
        self.closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self.build = Builder(Block())

    @property
    def location(self) -> Location:
        """Where the program stands."""
        return self.build.location

    def literal(self, value: object) -> Cell:
        """A Python object; an entity that is a value in device code is read here."""
        row = find(value)
        if row is not None and row.is_value:
            return self.intrinsic(row, row.infer(()), ())
        return Cell(self.program.literal(value, self.location))

    def emit(self, code: ops.Opcode, known: Known, *operands: Value, **attributes: object) -> Cell:
        """A typed operation with one result."""
        return Cell(known, self.build.op(code, known.type, *operands, nonneg=known.nonneg, **attributes))

    def intrinsic(self, row: Intrinsic, typed: Typed, arguments: Sequence[Cell]) -> Cell:
        """A use of a row of the device tables; nothing is written where the answer is known and nothing is done."""
        if is_static(typed.result) and row.effects is Effect.PURE:
            return Cell(typed.result)
        operands = [self.materialise(arguments[i], type) for i, type in typed.operands]
        result = Value(typed.result.type, nonneg=typed.result.nonneg)
        attributes: dict[str, object] = {"name": row.name}
        if typed.settings:
            attributes["settings"] = typed.settings
        self.build.append(Op(ops.INTRINSIC, operands, [result], attributes, [], self.location))
        return Cell(typed.result, None if is_static(typed.result) else result)

    def field(self, cell: Cell, index: int) -> Cell:
        """One element of a tuple or vector."""
        known = cell.known
        if isinstance(known.type, Vector):
            assert cell.value is not None
            element = Known(known.type.dtype, nonneg=not known.type.dtype.signed)
            return self.emit(ops.FIELD, element, cell.value, index=index)
        item = known.items[index]
        if is_static(item):
            return Cell(item)
        assert cell.value is not None
        return self.emit(ops.FIELD, item, cell.value, index=index)

    def tuple(self, cells: Sequence[Cell]) -> Cell:
        """A tuple of cells."""
        known = replace(tuple_of(tuple(cell.known for cell in cells)), where=self.location)
        if is_static(known):
            return Cell(known)
        return self.emit(ops.MAKE, known, *(self.materialise(cell, cell.known.type) for cell in cells))

    def materialise(self, cell: Cell, type: Type) -> Value:
        """The cell's value at run time, as `type`: a number converts, a constant is written down."""
        known = cell.known
        match type:
            case Number():
                return self._number(cell, type)
            case Tuple(elements) | TupleIterator(Tuple(elements)):
                if cell.value is not None and cell.value.type == type:
                    return cell.value
                items = [self.materialise(self.field(cell, i), element) for i, element in enumerate(elements)]
                return self.build.op(ops.MAKE, type, *items)
            case _ if cell.value is not None:
                assert cell.value.type == type, (str(cell.value.type), str(type))
                return cell.value
            case _:
                assert isinstance(type, Static) or known.value is None, str(known)
                return self.build.const(type, None)

    def _number(self, cell: Cell, type: Number) -> Value:
        if cell.known.constant:
            return self.build.const(type, fit(cell.known, type))
        assert cell.value is not None and isinstance(cell.value.type, Number), str(cell.known)
        if cell.value.type == type:
            return cell.value
        return self.build.op(ops.CONVERT, type, cell.value, nonneg=nonneg_as(cell.known, type))


def fit(known: Known, type: Number) -> bool | int | float:
    """The constant as a value of `type`; a `CompileError` if it has no room there."""
    value = known.value
    assert isinstance(value, (bool, int, float)), known
    if type.is_float:
        return _fit_float(value, type)
    if isinstance(value, float):
        raise CompileError(f"{value} is not an integer", help=f"write {type}({value})")
    if type.kind == 0:
        return bool(value)
    if not type.low <= value <= type.high:
        raise CompileError(f"{type} has no room for the constant {show(value)}", help=room_for(int(value), type))
    return int(value)


_LARGEST = {16: 65520.0, 32: 2.0**128 - 2.0**103, 64: math.inf}
"""By bits: the least positive number that rounds to infinity."""


def _fit_float(value: bool | float, type: Number) -> float:
    exact = None
    with suppress(OverflowError):
        exact = float(value)
    if exact is None or (math.isfinite(exact) and abs(exact) >= _LARGEST[type.bits]):
        raise CompileError(f"{type} has no room for the constant {show(value)}", help="write math.inf for infinity")
    return exact


def room_for(value: int, type: Number) -> str:
    """The remedy for a constant that does not fit."""
    if type in (INT, INDEX):
        wide = "int64" if -(1 << 63) <= value < 1 << 63 else "uint64" if 0 <= value < 1 << 64 else ""
        return (
            f"a Python int is 32 bits wide in device code: write {wide}({value})"
            if wide
            else "no integer type is that wide"
        )
    wider = ", or a wider type" if type.bits < 64 else ""
    return f"use a constant from {type.low} to {type.high}{wider}"


def settle(pending: Pending | Cell, what: str) -> Cell:
    """A value that is about to be used: an error if it is undefined or in conflict."""
    if isinstance(pending, Cell):
        return pending
    match pending.state:
        case Known() as known:
            return Cell(known, pending.value)
        case Undefined(name):
            raise CompileError(f"the variable {name or what!r} is used before it has a value")
        case Conflict(first, second):
            places = "".join(f"; it is {k} from line {k.where.line}" for k in (first, second) if k.where.line > 0)
            name = f"the variable {what!r}" if what else "the value"
            raise CompileError(
                f"{name} is {first} on one way here and {second} on another{places}",
                help="give it one type on every way, or two names",
            )
