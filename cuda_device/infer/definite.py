"""Checked mode at the python level: a variable that some ways leave without a value gets a companion, which says if it has one.

Where control flow meets, the companion is one more parameter of the block, true or false on each way; inference folds those
that are the same on all ways. Before the first use in a block stands a check:

    ^3(%v):                                ^3(%v, %6):
      %5 = py.binary {op="+"} %v %v   →      py.defined {name="v"} %6
                                             %5 = py.binary {op="+"} %v %v
"""

from __future__ import annotations

from types import FunctionType

from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Op, Value
from cuda_device.library import registry

# What takes a variable as it is, with a value or without.
_NO_USE = (ops.PY_CELLS, ops.PY_STEP, ops.PY_AT, ops.PY_BOX, ops.PY_SET_BOX, ops.PY_SET_CELL)


def run(function: Function, source: FunctionType) -> Function:
    """The python-level `function` of `source` with companions and checks; the same one where none are needed."""
    if source.__module__ in registry.NAMES:  # where a variable has a value, or none is needed
        return function
    names = _open_parameters(function)
    return _Copy(names).function(function) if names else function


def _open_parameters(function: Function) -> dict[Value, str]:
    """The parameters of blocks that some way leaves without a value, with the names of their variables."""
    names = {op.result: str(op.attributes["name"]) for op in function.ops() if op.code is ops.PY_UNDEFINED}
    found: dict[Value, str] = {}
    changed = bool(names)
    while changed:
        changed = False
        for block in function.blocks:
            for edge in block.successors:
                for argument, param in zip(edge.arguments, edge.block.params, strict=True):
                    name = names.get(argument)
                    if name is not None and param not in names:
                        found[param] = names[param] = name
                        changed = True
    return found


class _Copy:
    """A copy of a function, since what `bytecode.to_ir` reads is shared. `names` are of the parameters with a companion."""

    def __init__(self, names: dict[Value, str]) -> None:
        self.names = names
        self.values: dict[Value, Value] = {}
        self.companions: dict[Value, Value] = {}
        self.blocks: dict[Block, Block] = {}
        self.undefined: set[Value] = set()

    def function(self, function: Function) -> Function:
        for block in function.blocks:
            params = [self.value(param) for param in block.params]
            self.companions |= {param: Value() for param in block.params if param in self.names}
            more = [self.companions[param] for param in block.params if param in self.names]
            self.blocks[block] = Block(params + more)
        self.undefined = {op.result for op in function.ops() if op.code is ops.PY_UNDEFINED}
        for block in function.blocks:
            self.block(block)
        blocks = [self.blocks[block] for block in function.blocks]
        copy = Function(function.name, blocks, function.level, shown=function.shown, location=function.location)
        copy.result, copy.effects = function.result, function.effects
        return copy

    def value(self, old: Value) -> Value:
        if old not in self.values:
            self.values[old] = Value(hint=old.hint)
        return self.values[old]

    def block(self, old: Block) -> None:
        new = self.blocks[old]
        asked: set[Value] = set()
        for op in old.ops:
            for operand in op.operands if op.code not in _NO_USE else ():
                if operand in self.names and operand not in asked:
                    asked.add(operand)
                    words: dict[str, object] = {"name": self.names[operand]}
                    new.ops.append(Op(ops.PY_DEFINED, [self.companions[operand]], [], words, [], op.location))
            edges = [self.edge(new, edge, op) for edge in op.successors]
            operands = [self.value(operand) for operand in op.operands]
            results = [self.value(result) for result in op.results]
            new.ops.append(Op(op.code, operands, results, dict(op.attributes), edges, op.location))

    def edge(self, block: Block, edge: Edge, op: Op) -> Edge:
        """The edge with the companions of its arguments; what is known of them is written to `block`."""
        arguments = [self.value(argument) for argument in edge.arguments]
        for argument, param in zip(edge.arguments, edge.block.params, strict=True):
            if param in self.names:
                companion = self.companions.get(argument)
                if companion is None:
                    companion = Value()
                    known: dict[str, object] = {"value": argument not in self.undefined}
                    block.ops.append(Op(ops.PY_CONST, [], [companion], known, [], op.location))
                arguments.append(companion)
        return Edge(self.blocks[edge.block], arguments)
