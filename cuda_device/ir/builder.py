"""Appends operations to a block: what passes use to write IR.

builder = Builder(block)
one = builder.const(INT32, 1)
builder.op(ADD, INT32, x, one, exact=False)
"""

from __future__ import annotations

from cuda_device.errors import NOWHERE, Location
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Op, Value
from cuda_device.ir.ops import OpDef
from cuda_device.types.model import Type


class Builder:
    """Writes at the end of `block`; every operation gets the builder's current `location`."""

    __slots__ = ("block", "location")

    def __init__(self, block: Block, location: Location = NOWHERE) -> None:
        self.block, self.location = block, location

    def append(self, op: Op) -> Op:
        """Appends an operation that was made elsewhere."""
        self.block.ops.append(op)
        return op

    def op(self, code: OpDef, type: Type | None, *operands: Value, nonneg: bool = False, **attributes: object) -> Value:
        """An operation with one result of `type`; returns the result."""
        result = Value(type, nonneg=nonneg)
        self.block.ops.append(Op(code, list(operands), [result], attributes, [], self.location))
        return result

    def effect(self, code: OpDef, *operands: Value, **attributes: object) -> None:
        """An operation without a result."""
        self.block.ops.append(Op(code, list(operands), [], attributes, [], self.location))

    def const(self, type: Type, value: object) -> Value:
        """The constant `value` of `type`."""
        nonneg = isinstance(value, (int, float)) and value >= 0
        return self.op(ops.CONST, type, nonneg=nonneg, value=value)

    def jump(self, block: Block, *arguments: Value) -> None:
        """Ends the block with a jump."""
        self._end(ops.JUMP, [], [Edge(block, list(arguments))])

    def branch(self, condition: Value, then: Edge, otherwise: Edge) -> None:
        """Ends the block with a branch."""
        self._end(ops.BRANCH, [condition], [then, otherwise])

    def return_(self, *value: Value) -> None:
        """Ends the block with a return of at most one value."""
        self._end(ops.RETURN, list(value), [])

    def unreachable(self) -> None:
        """Ends a block whose end is never reached."""
        self._end(ops.UNREACHABLE, [], [])

    def _end(self, code: OpDef, operands: list[Value], successors: list[Edge]) -> None:
        self.block.ops.append(Op(code, operands, [], {}, successors, self.location))
