"""Calls: of entities in the device tables, and of Python functions, whose parameters are bound as Python binds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType

import numpy as np

from cuda_device.device.expressions import defaults_of, parameter_names
from cuda_device.device.rows import Intrinsic
from cuda_device.device.table import find
from cuda_device.errors import CompileError
from cuda_device.passes.frame import Cell, Frame
from cuda_device.types.model import Number, Static


def call(frame: Frame, function: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls whatever `function` is known to be."""
    known = function.known
    if not isinstance(known.type, Static):
        raise CompileError(f"{known} cannot be called")
    row = find(known.value)
    if row is None:
        return frame.program.call(frame, known.value, positional, named)
    folded = _fold(frame, row, positional) if row.folds and not named else None
    if folded is not None:
        return folded
    arguments = row.bind(positional, named, frame.literal)
    return frame.intrinsic(row, row.infer([cell.known for cell in arguments]), arguments)


def _fold(frame: Frame, row: Intrinsic, cells: Sequence[Cell]) -> Cell | None:
    """The result of calling the entity itself on constant builtin numbers."""
    for cell in cells:
        number = cell.known.type
        if not (cell.known.constant and isinstance(number, Number) and number.builtin):
            return None
    values = [cell.known.value for cell in cells]
    assert callable(row.entity)
    try:
        with np.errstate(all="ignore"):
            return frame.literal(row.entity(*values))
    except OverflowError as error:
        if isinstance(row.entity, type):
            raise CompileError(f"{row.name} has no room for the constant {values[0]}") from error
        return None
    except (ValueError, ArithmeticError, TypeError):
        return None


def bind(frame: Frame, function: FunctionType, positional: Sequence[Cell], named: Mapping[str, Cell]) -> list[Cell]:
    """A cell for each parameter of a Python function; defaults are constants."""
    code = function.__code__
    names = parameter_names(code)
    shown = function.__qualname__
    usage = f"its parameters are {', '.join(names)}" if names else "it has no parameters"
    if len(positional) > code.co_argcount:
        raise CompileError(
            f"{shown} takes {code.co_argcount} argument{'s' * (code.co_argcount != 1)}, not {len(positional)}",
            help=usage,
        )
    bound = dict(zip(names, positional, strict=False))
    for name, cell in named.items():
        if name in bound:
            raise CompileError(f"{shown} got two values for its parameter {name!r}", help=usage)
        if name not in names or names.index(name) < code.co_posonlyargcount:
            raise CompileError(f"{shown} has no keyword parameter {name!r}", help=usage)
        bound[name] = cell
    defaults = defaults_of(function)
    missing = [name for name in names if name not in bound and name not in defaults]
    if missing:
        raise CompileError(f"{shown} lacks an argument for {', '.join(map(repr, missing))}", help=usage)
    return [bound[name] if name in bound else frame.literal(defaults[name]) for name in names]
