"""Dominators, compared with the definition on random graphs."""

import random

import pytest

from cuda_device.ir import ops
from cuda_device.ir.dominance import dominates, dominators
from cuda_device.ir.nodes import Block, Edge, Op


def graph(rng, count):
    """Blocks with up to three successors, never the first block; some may be unreachable."""
    blocks = [Block() for _ in range(count)]
    for block in blocks:
        targets = rng.choices(blocks[1:], k=rng.randrange(4)) if count > 1 else []
        block.ops.append(Op(ops.RETURN, successors=[Edge(target, []) for target in targets]))
    return blocks


def reached(first, without=None):
    """The blocks that are reachable without passing a block."""
    found, todo = set(), [first] if first is not without else []
    while todo:
        block = todo.pop()
        found.add(block)
        todo += [e.block for e in block.successors if e.block not in found and e.block is not without]
    return found


@pytest.mark.parametrize("seed", range(200))
def test_against_the_definition(seed):
    rng = random.Random(seed)
    blocks = graph(rng, rng.randrange(1, 12))
    nearest, every = dominators(blocks[0]), reached(blocks[0])
    assert nearest.keys() == every - {blocks[0]}
    for block in every:
        above = {each for each in every if each is block or block not in reached(blocks[0], each)}
        assert above == {each for each in blocks if dominates(each, block, nearest)}
        if block is not blocks[0]:
            last = max(above - {block}, key=lambda each: sum(dominates(other, each, nearest) for other in above))
            assert nearest[block] is last


def test_a_long_chain_takes_no_time():
    blocks = [Block() for _ in range(20000)]
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        block.ops.append(Op(ops.RETURN, successors=[Edge(following, [])] if following else []))
    above = dominators(blocks[0])
    assert dominates(blocks[0], blocks[-1], above) and not dominates(blocks[-1], blocks[0], above)
