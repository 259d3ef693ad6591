"""Divides the body of a kernel into a version without the checks that are known to hold, and one with all checks.

    ok = m >= n                            ok = m >= n
    for k in range(n):                     if ok:
        check ok or k < m         →            for k in range(n): …
        …                                  else:
                                               for k in range(n): check k < m; …

`optimise/early_checks` computes `ok`, which is the same for all threads of a block. Loops of the first version can be vectorised
(`uniform`). All reports of these checks come from the second version, where threads run one after the other.
"""

from __future__ import annotations

from cuda_device.ir import ops
from cuda_device.ir.dominance import Definitions, ends_with_check, renamed_blocks, reverse_postorder
from cuda_device.ir.nodes import Block, Builder, Edge, Function, Op


def divide(function: Function) -> set[Block]:
    """Divides the body of a kernel with such checks; returns the first block of the version without them."""
    values, entry = Definitions(function), function.blocks[0]
    checks = {block for block in function.blocks if _is_decided(block, values)}
    if not checks:
        return set()
    known = values.makers[next(iter(checks)).terminator.operands[0]].operands[0]
    last = entry.ops.index(values.makers[known]) + 1
    rest = Block([], entry.ops[last:])
    del entry.ops[last:]
    if entry in checks:
        checks = {*checks - {entry}, rest}
    body = [rest, *function.blocks[1:]]
    copies = renamed_blocks(body, {})
    for block in checks:
        end = copies[block].terminator
        copies[block].ops[-1] = Op(ops.JUMP, successors=end.successors[:1], location=end.location)
        block.terminator.operands = values.makers[block.terminator.operands[0]].operands[1:]
    build = Builder(entry, rest.ops[0].location)
    build.branch(known, Edge(copies[rest], []), Edge(rest, []))
    function.blocks = reverse_postorder(entry)
    return {copies[rest]}


def _is_decided(block: Block, values: Definitions) -> bool:
    maker = values.makers.get(block.terminator.operands[0]) if ends_with_check(block) else None
    return maker is not None and "early" in maker.attributes
