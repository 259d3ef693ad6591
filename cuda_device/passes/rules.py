"""One rule of type inference for each operation of the python level: what is known of the operands → of the results.

A rule gets the frame, the operation and its operands' cells, writes typed operations, and returns a cell for each
result. It raises `CompileError` without a place: the caller knows where it stands. Rules for names and calls are here,
those for operators in `operators`, for attributes, items and loops in `access`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence

from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.model import Op
from cuda_device.passes import access, operators
from cuda_device.passes.calls import call
from cuda_device.passes.frame import MISSING, Cell, Frame
from cuda_device.passes.remedies import CONSTRUCTS
from cuda_device.types.known import constant

Rule = Callable[[Frame, Op, Sequence[Cell]], Sequence[Cell]]


def _const(_: Frame, op: Op, __: Sequence[Cell]) -> Sequence[Cell]:
    return [Cell(constant(op.attributes["value"], op.location))]


def _global(frame: Frame, op: Op, _: Sequence[Cell]) -> Sequence[Cell]:
    name = str(op.attributes["name"])
    for owner in (frame.globals, vars(builtins)):
        if name in owner:
            frame.program.depend(owner, name, owner[name])
            return [frame.literal(owner[name])]
        frame.program.depend(owner, name, MISSING)
    raise CompileError(
        f"the name {name!r} is not defined", help="define it, or import it, before the kernel is launched"
    )


def _cell(frame: Frame, op: Op, _: Sequence[Cell]) -> Sequence[Cell]:
    name = str(op.attributes["name"])
    cell = frame.closure.get(name)
    if cell is None:
        raise CompileError(
            f"the variable {name!r} is captured by a nested function, which device code does not support yet",
            help="pass it to the nested function as an argument",
        )
    try:
        value = cell.cell_contents
    except ValueError:
        raise CompileError(f"the variable {name!r} of the enclosing function has no value yet") from None
    frame.program.depend(cell, name, value)
    return [frame.literal(value)]


def _unsupported(_: Frame, op: Op, __: Sequence[Cell]) -> Sequence[Cell]:
    what = str(op.attributes["what"])
    raise CompileError(f"{what} is not supported in device code", help=CONSTRUCTS.get(what, ""))


def _call(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    names = op.attributes.get("names", ())
    assert isinstance(names, tuple)
    function, *arguments = cells
    split = len(arguments) - len(names)
    return [call(frame, function, arguments[:split], dict(zip(names, arguments[split:], strict=True)))]


RULES: dict[ops.Opcode, Rule] = {
    ops.PY_CONST: _const,
    ops.PY_GLOBAL: _global,
    ops.PY_CELL: _cell,
    ops.PY_UNARY: operators.unary,
    ops.PY_BINARY: operators.binary,
    ops.PY_COMPARE: operators.compare,
    ops.PY_IS: operators.is_,
    ops.PY_TRUTH: operators.truth,
    ops.PY_GETATTR: access.getattr_,
    ops.PY_GETITEM: access.getitem,
    ops.PY_SETITEM: access.setitem,
    ops.PY_TUPLE: access.make_tuple,
    ops.PY_UNPACK: access.unpack,
    ops.PY_CALL: _call,
    ops.PY_ITER: access.iterate,
    ops.PY_NEXT: access.next_,
    ops.PY_UNSUPPORTED: _unsupported,
}
