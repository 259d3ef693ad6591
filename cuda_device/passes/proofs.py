"""What a branch on a comparison proves of the integers that it compares.

if 0 < i:            i is 1 at least,
    x[i - 1]         so the index is not negative, and costs what it costs in C
"""

from __future__ import annotations

from collections.abc import Mapping

from cuda_device.ir import ops
from cuda_device.ir.model import Block, Op, Value
from cuda_device.passes.frame import Cell, Pending
from cuda_device.types.known import Known
from cuda_device.types.ranges import passed

Proof = dict[Value, Known]

_OTHERWISE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


def proofs(block: Block, condition: Value, cells: Mapping[Value, Cell | Pending]) -> tuple[Proof, Proof]:
    """What is known of values of the block where its condition holds, and where it does not."""
    maker, holds = _maker(block, condition), True
    while maker is not None and (maker.code is ops.PY_TRUTH or maker.attributes.get("op") == "not"):
        holds ^= maker.code is ops.PY_UNARY
        maker = _maker(block, maker.operands[0])
    if maker is None or maker.code is not ops.PY_COMPARE or maker.attributes["op"] not in _SWAPPED:
        return {}, {}
    a, b = maker.operands
    first, second = cells[a], cells[b]
    if not (isinstance(first, Cell) and isinstance(second, Cell)):
        return {}, {}
    sign = str(maker.attributes["op"])
    signs = (sign, _OTHERWISE[sign]) if holds else (_OTHERWISE[sign], sign)
    yes, no = (
        {a: passed(sign, first.known, second.known), b: passed(_SWAPPED[sign], second.known, first.known)}
        for sign in signs
    )
    return yes, no


def _maker(block: Block, value: Value) -> Op | None:
    return next((op for op in reversed(block.ops) if value in op.results), None)
