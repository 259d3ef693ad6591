"""The data structures of the IR: values, operations, blocks, functions and modules; and a builder of operations.

Block parameters take the place of phis in SSA: every jump passes arguments. A block may also use values of dominating blocks.

    func @f(%n: int32) -> int32 {
    ^0(%n: int32):
      %1: int32 = const {value=1}
      %2: int32 = add {exact=false} %n %1
      return %2
    }
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import Any

from cuda_device.errors import NOWHERE, Location, Loss
from cuda_device.ir import ops
from cuda_device.ir.ops import Effect, Level, OpDef
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types.model import NONE, Number, Type


class Value:
    """A result of an operation or a parameter of a block. `type` is None at the python level.

    `nonneg` states that the number is never negative. `hint` is the name of the variable, for printing.
    """

    __slots__ = ("hint", "nonneg", "type")

    def __init__(self, type: Type | None = None, hint: str = "", nonneg: bool = False) -> None:
        self.type, self.hint = type, hint
        self.nonneg = nonneg or (isinstance(type, Number) and not type.signed)


@dataclass(slots=True, eq=False)
class Edge:
    """An edge from the end of a block to `block`, with an argument for each parameter of `block`."""

    block: Block = field(repr=False)  # the repr of a block would contain all blocks that it leads to
    arguments: list[Value]


@dataclass(slots=True, eq=False)
class Op:
    """One operation: a row of the table, its operands, results, attributes, successors and place in the source."""

    code: OpDef
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    successors: list[Edge] = field(default_factory=list)
    location: Location = NOWHERE

    @property
    def result(self) -> Value:
        """The only result."""
        (result,) = self.results
        return result


@dataclass(slots=True, eq=False)
class Block:
    """Operations without branches between them; only the last one is a terminator."""

    params: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    @property
    def terminator(self) -> Op:
        """The operation that ends the block."""
        return self.ops[-1]

    @property
    def successors(self) -> list[Edge]:
        """The edges that leave the block."""
        return self.ops[-1].successors if self.ops else []


@dataclass(frozen=True, slots=True)
class Prototype:
    """An interoperable function as CUDA C++ sees it: the types of all parameters, and of the result (None: `void`)."""

    arguments: tuple[Type, ...]
    result: Type


_BLOCKS, _OPS, _CODE = attrgetter("blocks"), attrgetter("ops"), attrgetter("code")


@dataclass(slots=True, eq=False)
class Function:
    """A function at one level: `blocks[0]` is the entry and its parameters are the function's."""

    name: str
    blocks: list[Block]
    level: Level
    result: Type = NONE
    kernel: bool = False
    interop: bool = False
    """Whether CUDA C++ calls the function by its name."""
    signature: tuple[Type, ...] = ()
    """The types of the source function's parameters."""
    shown: str = ""
    """The name in messages."""
    location: Location = NOWHERE
    effects: Effect = Effect.PURE
    prototype: Prototype | None = None
    """How C++ will see a typed function."""
    in_place: bool = False
    """Whether its blocks may replace its calls: a step of a generator, or a comprehension."""
    family: str = ""
    """Common to specialisations that differ only in constants: they share their shared arrays."""
    falling: set[Value] = field(default_factory=set)
    """Counters that go down. They are `nonneg` only in the bodies of their loops."""

    @property
    def params(self) -> list[Value]:
        """The function's parameters."""
        return self.blocks[0].params

    def ops(self) -> list[Op]:
        """A new list of all operations, block by block."""
        return list(chain.from_iterable(map(_OPS, self.blocks)))


@dataclass(slots=True, eq=False)
class Module:
    """A kernel or function, which comes first, and the functions that it calls.

    `links` are the inputs that define external functions; `losses` lists where promotion loses digits in a typed module.
    """

    functions: list[Function]
    links: tuple[object, ...] = ()
    losses: tuple[Loss, ...] = ()

    @property
    def main(self) -> Function:
        """The kernel or function that is compiled."""
        return self.functions[0]

    def ops(self) -> list[Op]:
        """A new list of the operations of all functions."""
        return list(chain.from_iterable(map(_OPS, chain.from_iterable(map(_BLOCKS, self.functions)))))

    def by_code(self) -> dict[OpDef, list[Op]]:
        """The operations of all functions by their codes."""
        by_code: dict[OpDef, list[Op]] = {}
        for op in self.ops():
            by_code.setdefault(op.code, []).append(op)
        return by_code

    def codes(self) -> set[OpDef]:
        """The codes of all operations."""
        return set(map(_CODE, self.ops()))

    def has(self, *codes: OpDef) -> bool:
        """Whether any operation has one of the codes."""
        return not self.codes().isdisjoint(codes)

    def __getitem__(self, name: str) -> Function:
        return next(function for function in self.functions if function.name == name)


@dataclass(slots=True, eq=False)
class Builder:
    """Appends operations to `block`; each gets the builder's current `location`."""

    block: Block
    location: Location = NOWHERE

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

    def _end(self, code: OpDef, operands: list[Value], successors: list[Edge]) -> None:
        self.block.ops.append(Op(code, operands, [], {}, successors, self.location))
