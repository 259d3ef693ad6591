"""Loop-invariant parts of sums.

invariants.split(index, loop)       [(%k, 1)], [(%i, 1)] for %k + %i, where the loop changes %i alone
total(build, terms)                 the sum of such parts in 64 bits
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.device.lowering import Lowering
from cuda_device.ir import ops
from cuda_device.ir.natural_loops import Loop
from cuda_device.ir.nodes import Block, Value
from cuda_device.ir.uses import Definitions, Term
from cuda_device.types.model import INT64


class Invariants:
    """What the loops of a function leave alone."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self._found: dict[Loop, set[Value]] = {}

    def split(self, value: Value, loop: Loop) -> tuple[list[Term], list[Term]]:
        """The parts of a sum that a loop leaves alone, and the others."""
        if loop not in self._found:
            self._found[loop] = _invariants(
                [block for block in self.definitions.function.blocks if block in loop.blocks]
            )
        still, moving = list[Term](), list[Term]()
        for term in self.definitions.terms(value):
            is_invariant = self.definitions.homes[term[0]] not in loop.blocks or term[0] in self._found[loop]
            (still if is_invariant else moving).append(term)
        return still, moving


def _invariants(blocks: list[Block]) -> set[Value]:
    """What operations of a loop make of what is made before it, alone. Its blocks are in reverse postorder."""
    moving = {param for block in blocks for param in block.params}
    found = set[Value]()
    for block in blocks:
        for op in block.ops:
            if op.code.effects is ops.Effect.PURE and moving.isdisjoint(op.operands):
                found.update(op.results)
            else:
                moving.update(op.results)
    return found


def total(build: Lowering, terms: Sequence[Term]) -> Value:
    """A sum in 64 bits, where it is the same in any order."""
    found: Value | None = None
    for value, sign in terms:
        wide = build.convert(value, INT64)
        found = (
            wide
            if found is None and sign > 0
            else build.sum(ops.ADD if sign > 0 else ops.SUB, found or build.number(INT64, 0), wide)
        )
    return found or build.number(INT64, 0)
