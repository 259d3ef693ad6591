"""What a branch on a comparison proves of the integers that it compares.

if 0 < i:            i is 1 at least,
    x[i - 1]         so the index is not negative, and costs what it costs in C

Blocks of the python level share no values. In the middle of `0 < i < n` the number that is compared with `n` is on the stack
and in the variable `i`, two parameters of one block: what is proved of one holds for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cuda_device.infer.frame import Cell, Pending
from cuda_device.infer.ranges import passed
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Op, Value
from cuda_device.types.known import Known

Proof = dict[Value, Known]

_OTHERWISE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


def twins(function: Function) -> dict[Value, tuple[Value, ...]]:
    """For parameters of a block that get the same value on every way into it, all of these."""
    entries: dict[Block, list[Edge]] = {}
    for block in function.blocks:
        for edge in block.successors:
            entries.setdefault(edge.block, []).append(edge)
    first: dict[Value, Value] = {}
    found: dict[Value, tuple[Value, ...]] = {}
    for block in function.blocks[1:]:
        edges = entries.get(block, [])
        groups: dict[tuple[Value, ...], list[Value]] = {}
        for param, arguments in zip(block.params, zip(*(edge.arguments for edge in edges), strict=True), strict=True):
            groups.setdefault(tuple(first.get(value, value) for value in arguments), []).append(param)
        for group in groups.values():
            first |= dict.fromkeys(group, group[0])
            found |= dict.fromkeys(group, tuple(group)) if len(group) > 1 else {}
    return found


def proofs(
    block: Block,
    condition: Value,
    cells: Mapping[Value, Cell | Pending],
    twins: Mapping[Value, tuple[Value, ...]] = MappingProxyType({}),
) -> tuple[Proof, Proof]:
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
        dict.fromkeys(twins.get(a, (a,)), passed(sign, first.known, second.known))
        | dict.fromkeys(twins.get(b, (b,)), passed(_SWAPPED[sign], second.known, first.known))
        for sign in signs
    )
    return yes, no


def _maker(block: Block, value: Value) -> Op | None:
    return next((op for op in reversed(block.ops) if value in op.results), None)
