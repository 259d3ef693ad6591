"""The state of the lowering of one function: what each typed value has become at the device level.

lowerer.trees[%x]               the leaves of an array: its address, extents and strides
lowerer.define(op, tree)        gives the operation's result its tree
"""

from __future__ import annotations

from cuda_device.device.lowering import ArrayTree, Lowering, Sums, Tree, grow
from cuda_device.ir.nodes import Block, Function, Op, Value
from cuda_device.types.layout import leaves
from cuda_device.types.model import Array, Number


class Lowerer:
    """Lowers one function: `trees` maps typed values to what they have become."""

    def __init__(self, source: Function, checked: bool) -> None:
        self.source, self.checked = source, checked
        self.trees: dict[Value, Tree] = {}
        self.blocks = {id(block): Block() for block in source.blocks}
        self.constants: dict[Value, object] = {}
        self.falling: set[Value] = set()
        """See `Function.falling`."""
        self.sums = Sums()
        self.build = Lowering(Block(), checked, self.sums)

    def parameter(self, block: Block, param: Value) -> Tree:
        """Gives a block the leaves of a parameter; returns their tree."""
        assert param.type is not None
        parts = [Value(leaf, param.hint) for leaf in leaves(param.type)]
        if isinstance(param.type, Number):
            parts[0].nonneg = param.nonneg
        if isinstance(param.type, Array):
            for extent in parts[1 : 1 + param.type.ndim]:
                extent.nonneg = True
        block.params += parts
        return grow(param.type, iter(parts))

    def value(self, value: Value) -> Value:
        """The tree of a number."""
        tree = self.trees[value]
        assert isinstance(tree, Value)
        return tree

    def array(self, value: Value) -> tuple[ArrayTree, Array]:
        """The tree of an array."""
        tree = self.trees[value]
        assert isinstance(tree, ArrayTree) and isinstance(value.type, Array)
        return tree, value.type

    def define(self, op: Op, tree: Tree) -> None:
        """Gives the operation's only result its tree, which keeps what inference knew."""
        result = op.result
        if isinstance(tree, Value) and result.nonneg and not tree.nonneg:
            tree.nonneg = True
        self.trees[result] = tree
