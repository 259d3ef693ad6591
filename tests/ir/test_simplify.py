"""`simplify`: parameters that always have one value are removed, and consecutive blocks are joined."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ir_helpers import checked, read, text_of, written

from cuda_device.ir.simplify import reverse_postorder, simplify

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
    assert text_of(checked(module)) == written(after)


@pytest.mark.parametrize("seed", range(60))
def test_random_functions_do_the_same_when_simplified(seed: int) -> None:
    source = random.Random(seed)
    function, inputs = _random_function(source), [[source.randrange(100) for _ in range(3)] for _ in range(5)]
    before = [_run(function, numbers) for numbers in inputs]
    size = sum(len(block.params) for block in function.blocks)
    simplify(function)
    checked(function)
    assert [_run(function, numbers) for numbers in inputs] == before
    assert sum(len(block.params) for block in function.blocks) <= size


def _random_function(source: random.Random) -> Any:
    """Blocks that add and branch at random, each of which uses only its own parameters."""
    counts = [3, *(source.randint(1, 4) for _ in range(source.randint(1, 8)))]
    return read(
        f"func @f -> int32 device {{\n{''.join(_random_block(source, i, counts) for i in range(len(counts)))}}}"
    ).main


def _random_block(source: random.Random, number: int, counts: list[int]) -> str:
    parameters = [f"%p{number}x{i}" for i in range(counts[number])]
    numbers, lines = list(parameters), [f"^{number}({', '.join(f'{name}: int32' for name in parameters)}):"]
    for i in range(source.randint(1, 2)):
        lines.append(f"  %s{number}x{i}: int32 = add {' '.join(source.choices(numbers, k=2))}")
        numbers.append(f"%s{number}x{i}")
    edges = [_random_edge(source, counts, parameters if source.random() < 0.6 else numbers) for _ in range(2)]
    kind = source.random()
    if kind < 0.2:
        lines.append(f"  return {source.choice(numbers)}")
    elif kind < 0.5:
        lines.append(f"  jump {edges[0]}")
    else:
        lines.append(f'  %c{number}: bool = compare {{op="<"}} {" ".join(source.choices(numbers, k=2))}')
        lines.append(f"  branch %c{number} {' '.join(edges)}")
    return "\n".join([*lines, ""])


def _random_edge(source: random.Random, counts: list[int], numbers: list[str]) -> str:
    target = source.randrange(1, len(counts))
    return f"^{target}({', '.join(source.choices(numbers, k=counts[target]))})"


def _run(function: Any, numbers: list[int]) -> tuple[int | None, list[int]]:
    """The result of the function, and the sums that it computes, at most a hundred."""
    block, values, sums = function.blocks[0], dict(zip(function.params, numbers, strict=True)), []
    while True:
        for op in block.ops:
            taken = [values[value] for value in op.operands]
            if op.code.name == "add":
                sums.append(sum(taken) % 1009)
                values[op.result] = sums[-1]
                if len(sums) == 100:
                    return None, sums
            elif op.code.name == "compare":
                values[op.result] = taken[0] < taken[1]
            elif op.code.name == "return":
                return taken[0], sums
        edge = block.successors[
            0 if block.terminator.code.name == "jump" or values[block.terminator.operands[0]] else 1
        ]
        given = [values[value] for value in edge.arguments]
        block = edge.block
        values.update(zip(block.params, given, strict=True))


def test_reverse_postorder() -> None:
    function = read(CASES["a loop that never changes a variable, nested in one that does"][0]).main
    order = reverse_postorder(function.blocks[0])
    assert order == function.blocks
    endless = read("func @f -> none device {\n^0():\n  jump ^1()\n^1():\n  jump ^1()\n}").main.blocks
    assert reverse_postorder(endless[0]) == endless


def test_a_long_chain_is_no_deep_recursion() -> None:
    chain = "".join(f"^{i}(%{i}: int32):\n  jump ^{i + 1}(%{i})\n" for i in range(4999))
    function = read(f"func @f -> int32 device {{\n{chain}^4999(%4999: int32):\n  return %4999\n}}").main
    simplify(function)
    assert len(function.blocks) == 1
    assert function.blocks[0].terminator.operands == function.params
