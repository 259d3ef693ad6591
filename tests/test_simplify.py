"""`simplify`: parameters that always have one value are removed, and consecutive blocks are joined."""

from __future__ import annotations

import itertools
import random

import pytest
from ir_helpers import read, written

from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Module, Op, Value
from cuda_device.ir.ops import Level
from cuda_device.ir.simplify import reverse_postorder, simplify
from cuda_device.ir.text import show
from cuda_device.ir.verify import verify
from cuda_device.types.model import BOOL, INT32

CASES = {
    "a parameter with one value everywhere is that value": (
        """
        func @f -> int32 device {
        ^0(%n: int32, %c: bool):
          jump ^1(%n, %n)
        ^1(%m: int32, %i: int32):
          %j: int32 = add %i %m
          branch %c ^1(%m, %j) ^2(%m)
        ^2(%k: int32):
          return %k
        }
        """,
        """
        func @f -> int32 device {
        ^0(%0: int32, %1: bool):
          jump ^1(%0)
        ^1(%2: int32):
          %3: int32 = add %2 %0
          branch %1 ^1(%3) ^2()
        ^2():
          return %0
        }
        """,
    ),
    "blocks in a row become one": (
        """
        func @f -> int32 device {
        ^0(%n: int32):
          %a: int32 = add %n %n
          jump ^1(%a)
        ^1(%b: int32):
          %c: int32 = add %b %n
          jump ^2(%c, %b)
        ^2(%d: int32, %e: int32):
          %g: int32 = add %d %e
          return %g
        }
        """,
        """
        func @f -> int32 device {
        ^0(%0: int32):
          %1: int32 = add %0 %0
          %2: int32 = add %1 %0
          %3: int32 = add %2 %1
          return %3
        }
        """,
    ),
    "a loop that never changes a variable, nested in one that does": (
        """
        func @f -> none device {
        ^0(%n: int32, %c: bool):
          jump ^1(%n, %n)
        ^1(%a: int32, %k: int32):
          jump ^2(%a, %k)
        ^2(%b: int32, %l: int32):
          branch %c ^2(%b, %l) ^3(%b, %l)
        ^3(%d: int32, %m: int32):
          %e: int32 = add %d %m
          branch %c ^1(%e, %m) ^4()
        ^4():
          return
        }
        """,
        """
        func @f -> none device {
        ^0(%0: int32, %1: bool):
          jump ^1(%0)
        ^1(%2: int32):
          jump ^2()
        ^2():
          branch %1 ^2() ^3()
        ^3():
          %3: int32 = add %2 %0
          branch %1 ^1(%3) ^4()
        ^4():
          return
        }
        """,
    ),
    "variables that are exchanged stay": (
        """
        func @f -> int32 device {
        ^0(%a: int32, %b: int32, %c: bool):
          jump ^1(%a, %b)
        ^1(%x: int32, %y: int32):
          branch %c ^1(%y, %x) ^2()
        ^2():
          return %x
        }
        """,
        """
        func @f -> int32 device {
        ^0(%0: int32, %1: int32, %2: bool):
          jump ^1(%0, %1)
        ^1(%3: int32, %4: int32):
          branch %2 ^1(%4, %3) ^2()
        ^2():
          return %3
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_simplify(before: str, after: str) -> None:
    module = read(before)
    simplify(module.main)
    verify(module)
    assert show(module.main) == written(after)


@pytest.mark.parametrize("seed", range(60))
def test_random_functions_do_the_same_when_simplified(seed: int) -> None:
    source = random.Random(seed)
    function, inputs = _random_function(source), [[source.randrange(100) for _ in range(3)] for _ in range(5)]
    before = [_run(function, numbers) for numbers in inputs]
    size = sum(len(block.params) for block in function.blocks)
    simplify(function)
    verify(Module([function]))
    assert [_run(function, numbers) for numbers in inputs] == before
    assert sum(len(block.params) for block in function.blocks) <= size


def _random_function(source: random.Random) -> Function:
    """Blocks that add and branch at random, each of which uses only its own parameters."""
    blocks = [Block([Value(INT32) for _ in range(source.randint(1, 4))]) for _ in range(source.randint(2, 9))]
    blocks[0].params = [Value(INT32) for _ in range(3)]
    for block in blocks:
        numbers = list(block.params)
        for _ in range(source.randint(1, 2)):
            result = Value(INT32)
            block.ops.append(Op(ops.ADD, source.choices(numbers, k=2), [result]))
            numbers.append(result)
        edges = [_random_edge(source, blocks, block.params if source.random() < 0.6 else numbers) for _ in range(2)]
        kind = source.random()
        if kind < 0.2:
            block.ops.append(Op(ops.RETURN, [source.choice(numbers)]))
        elif kind < 0.5:
            block.ops.append(Op(ops.JUMP, successors=edges[:1]))
        else:
            condition = Value(BOOL)
            block.ops.append(Op(ops.COMPARE, source.choices(numbers, k=2), [condition], {"op": "<"}))
            block.ops.append(Op(ops.BRANCH, [condition], successors=edges))
    return Function("f", blocks, Level.DEVICE, INT32)


def _random_edge(source: random.Random, blocks: list[Block], numbers: list[Value]) -> Edge:
    target = source.choice(blocks[1:])
    return Edge(target, source.choices(numbers, k=len(target.params)))


def _run(function: Function, numbers: list[int]) -> tuple[int | None, list[int]]:
    """The result of the function, and the sums that it computes, at most a hundred."""
    block, values, sums = function.blocks[0], dict(zip(function.params, numbers, strict=True)), []
    while True:
        for op in block.ops:
            taken = [values[value] for value in op.operands]
            if op.code is ops.ADD:
                sums.append(sum(taken) % 1009)
                values[op.result] = sums[-1]
                if len(sums) == 100:
                    return None, sums
            elif op.code is ops.COMPARE:
                values[op.result] = taken[0] < taken[1]
            elif op.code is ops.RETURN:
                return taken[0], sums
        edge = block.successors[0 if block.terminator.code is ops.JUMP or values[block.terminator.operands[0]] else 1]
        given = [values[value] for value in edge.arguments]
        block = edge.block
        values.update(zip(block.params, given, strict=True))


def test_reverse_postorder() -> None:
    function = read(CASES["a loop that never changes a variable, nested in one that does"][0]).main
    order = reverse_postorder(function.blocks[0])
    assert order == function.blocks
    a, b = Block(), Block()
    a.ops = [Op(ops.JUMP, successors=[Edge(b, [])])]
    b.ops = [Op(ops.JUMP, successors=[Edge(b, [])])]
    assert reverse_postorder(a) == [a, b]


def test_a_long_chain_is_no_deep_recursion() -> None:
    blocks = [Block([Value(INT32)]) for _ in range(5000)]
    for block, following in itertools.pairwise(blocks):
        block.ops.append(Op(ops.JUMP, successors=[Edge(following, list(block.params))]))
    blocks[-1].ops.append(Op(ops.RETURN, list(blocks[-1].params)))
    function = Function("f", blocks, Level.DEVICE, INT32)
    simplify(function)
    assert len(function.blocks) == 1
    assert function.blocks[0].terminator.operands == function.params
