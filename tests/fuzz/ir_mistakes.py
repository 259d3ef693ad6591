"""Ways to make IR wrong, one operation, value or edge at a time, each with the complaint of the verifier that is due.

    mistake = an_operand_less(random, function, block, op)
    with mistake.made:                              "add has 2 operands, not 1", under that operation
        …

What may stand where is written here once more: as patterns of signatures (`add(T, T) -> T`), and dominance by what can be reached
without a block.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Edge, Function, Op, Value
from cuda_device.ir.ops import Effect, Level
from cuda_device.types import model

NUMBER = r"(?:bool|u?int\d+|b?float\d+\w*|int|index|float)"
WHOLE = r"(?:u?int\d+|int|index)"
REAL = r"(?:b?float\d+\w*|float)"
REFERENCE = r"ref<[^;]*>"
SIGNATURES = {
    "add|sub|mul": [rf"({NUMBER}); \1 -> \1"],
    "div": [rf"({REAL}); \1 -> \1"],
    "neg": [rf"({REAL}) -> \1"],
    "quotient|remainder|shl|shr": [rf"({WHOLE}); \1 -> \1"],
    "and|or|xor": [rf"((?!b?float){NUMBER}); \1 -> \1"],
    "convert": [rf"{NUMBER} -> {NUMBER}"],
    "compare": [rf"({NUMBER}); \1 -> bool"],
    "select": [r"bool; ([^;]+); \1 -> \1"],
    "load": [r"ref<\w+, ([^;]+)> -> \1"],
    "store": [r"ref<\w+, ([^;]+)>; \1 -> "],
    "element": [rf"({REFERENCE}); {WHOLE} -> \1"],
    "address": [rf"{REFERENCE} -> uint64"],
    "bytes": [rf"ref<(\w+), [^;]+>; {WHOLE} -> ref<\1, [^;]+>"],
    "atomic.load": [r"ref<\w+, atomic<(.+)>> -> \1"],
    "atomic.store": [r"ref<\w+, atomic<(.+)>>; \1 -> "],
    "atomic.update": [r"ref<\w+, atomic<(.+)>>; \1 -> \1"],
    "atomic.cas": [r"ref<\w+, atomic<(.+)>>; \1; \1 -> \1"],
    "barrier.reduce": ["bool -> int32", "bool -> bool"],
    "warp.vote": ["int32; bool -> int32", "int32; bool -> bool"],
    "warp.shuffle": [r"int32; (uint32|uint64); int32 -> \1"],
    "warp.match": ["int32; uint(32|64) -> int32"],
    "warp.sync": ["int32 -> "],
    "warp.active": [" -> int32"],
}  # fmt: skip
"""Patterns of the types that operations of the device level take and give."""
PATTERNS = {name: patterns for names, patterns in SIGNATURES.items() for name in names.split("|")}
OTHER_TYPES: tuple[model.Type, ...] = (
    model.BOOL, model.INT32, model.UINT32, model.INT64, model.UINT64, model.FLOAT32, model.FLOAT64, model.Tuple(()),
)  # fmt: skip


class Mistake(NamedTuple):
    """A change of IR that is undone on leaving, and a pattern of the complaint; None if nothing is wrong with it."""

    made: contextlib.AbstractContextManager[object]
    complaint: str | None
    culprit: Op | None


Maker = Callable[[random.Random, Function, Block, Op], Mistake | None]


@contextlib.contextmanager
def assigned(owner: Any, name: str, value: object) -> Iterator[None]:
    """An attribute is another one meanwhile."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def spliced(items: list[Any], at: int, count: int, new: list[Any]) -> Iterator[None]:
    """Some items of a list are others meanwhile."""
    before = list(items)
    items[at : at + count] = new
    try:
        yield
    finally:
        items[:] = before


def an_operand_less(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    if op.code.operands == ops.MANY or not op.operands:
        return None
    have = len(op.operands)
    return Mistake(
        spliced(op.operands, choose.randrange(have), 1, []),
        rf"{re.escape(op.code.name)} has {have} operands, not {have - 1}",
        op,
    )


def a_result_more(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    if op.code.results == ops.MANY:
        return None
    have = len(op.results)
    type = None if function.level is Level.PYTHON else model.INT32
    return Mistake(
        spliced(op.results, have, 0, [Value(type)]),
        rf"{re.escape(op.code.name)} has {have} results, not {have + 1}",
        op,
    )


def a_successor_more(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    have = len(op.successors)
    return Mistake(
        spliced(op.successors, have, 0, [Edge(function.blocks[-1], [])]),
        rf"{re.escape(op.code.name)} has {have} successors, not {have + 1}",
        op,
    )


def an_unknown_attribute(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    return Mistake(
        mock.patch.dict(op.attributes, {"colour": 3}), rf"{re.escape(op.code.name)} has no attribute 'colour'", op
    )


def an_attribute_less(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    needed = [name for name in op.attributes if name not in op.code.optional]
    if not needed:
        return None
    name = choose.choice(needed)
    left = {key: value for key, value in op.attributes.items() if key != name}
    return Mistake(assigned(op, "attributes", left), rf"{re.escape(op.code.name)} lacks the attribute '{name}'", op)


def no_terminator(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    last = block.ops[-2] if len(block.ops) > 1 else None
    return Mistake(spliced(block.ops, len(block.ops) - 1, 1, []), "the block does not end with a terminator", last)


def a_terminator_within(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    early = Op(ops.UNREACHABLE)
    at = choose.randrange(len(block.ops))
    return Mistake(spliced(block.ops, at, 0, [early]), "a terminator within the block", early)


def of_another_level(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    alike = [
        row
        for row in vars(ops).values()
        if isinstance(row, ops.OpDef)
        and function.level not in row.levels
        and (Effect.TERMINATES in row.effects) == (op is block.terminator)
        and (row.operands, row.results, row.successors) == (op.code.operands, op.code.results, op.code.successors)
        and set(row.attributes) <= set(op.attributes) <= {*row.attributes, *row.optional}
    ]
    if not alike:
        return None
    row = choose.choice(alike)
    return Mistake(assigned(op, "code", row), rf"{re.escape(row.name)} is not legal at this level", op)


def a_type_too_many_or_few(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    values = [*(block.params if block is not function.blocks[0] else ()), *op.results]
    if not values:
        return None
    untyped = function.level is Level.PYTHON
    return (
        Mistake(
            assigned(choose.choice(values), "type", model.INT32 if untyped else None),
            "a value with a type" if untyped else "a value without a type",
            None,
        )
        if untyped or function.level is Level.TYPED
        else None
    )


def defined_twice(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    if not op.results:
        return None
    earlier = [*block.params]
    for each in block.ops:
        if each is op:
            break
        earlier += each.results
    if not earlier:
        return None
    value = choose.choice(earlier)
    return Mistake(spliced(op.results, 0, 1, [value]), "a value is defined twice", op)


def used_from_elsewhere(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    """A value of another block is there if every way to this one leads through that one (at the python level: never)."""
    if not op.operands or op.code is ops.CALL:
        return None
    at, other = choose.randrange(len(op.operands)), choose.choice(function.blocks)
    values = [*other.params, *(value for each in other.ops for value in each.results)]
    values = [value for value in values if value.type == op.operands[at].type]
    if not values or block is other or not _reached(function, block):
        return None
    right = function.level is not Level.PYTHON and not _reached(function, block, without=other)
    return Mistake(
        spliced(op.operands, at, 1, [choose.choice(values)]),
        None if right else "a value is used before it is defined",
        op,
    )


def used_before(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    later = [value for each in block.ops[block.ops.index(op) :] for value in each.results]
    if not op.operands or not later:
        return None
    at = choose.randrange(len(op.operands))
    return Mistake(spliced(op.operands, at, 1, [choose.choice(later)]), "a value is used before it is defined", op)


def from_nowhere(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    edges = [edge for edge in op.successors if edge.arguments]
    if edges and choose.random() < 0.5:
        edge = choose.choice(edges)
        at = choose.randrange(len(edge.arguments))
        new = Value(edge.arguments[at].type)
        return Mistake(spliced(edge.arguments, at, 1, [new]), "a value is used before it is defined", op)
    if not op.operands:
        return None
    at = choose.randrange(len(op.operands))
    new = Value(op.operands[at].type)
    return Mistake(spliced(op.operands, at, 1, [new]), "a value is used before it is defined", op)


def _reached(function: Function, block: Block, without: Block | None = None) -> bool:
    """Whether a way leads from the entry to a block, perhaps past another one."""
    todo, seen = [function.blocks[0]], set()
    while todo:
        each = todo.pop()
        if each in seen or each is without:
            continue
        if each is block:
            return True
        seen.add(each)
        todo += [edge.block for edge in each.successors]
    return False


def a_wrong_edge(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    op = block.terminator
    if not op.successors:
        return None
    edge = choose.choice(op.successors)
    given, params = len(edge.arguments), edge.block.params
    match choose.randrange(5):
        case 0:
            return Mistake(assigned(edge, "block", Block([], [Op(ops.UNREACHABLE)])), "a jump out of the function", op)
        case 1:
            return Mistake(assigned(edge, "block", function.blocks[0]), "a jump to the entry block", op)
        case 2 if given:
            return Mistake(spliced(edge.arguments, 0, 1, []), rf"{given - 1} arguments for {given} parameters", op)
        case 3 if function.level is not Level.PYTHON and given:
            at = choose.randrange(given)
            type = choose.choice([each for each in OTHER_TYPES if each != params[at].type])
            complaint = f"an argument of {type} for a parameter of {params[at].type}"
            return Mistake(spliced(edge.arguments, at, 1, [Value(type)]), re.escape(complaint), op)
        case 4 if function.level is not Level.PYTHON and op.operands:
            type = choose.choice([each for each in OTHER_TYPES if each != model.BOOL])
            return Mistake(spliced(op.operands, 0, 1, [Value(type)]), re.escape(f"a branch on {type}"), op)
    return None


def another_type(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    """Other types of what an operation takes and gives, which its signature has or has not."""
    ruled = [each for each in function.ops() if each.code.name in PATTERNS]
    if function.level is not Level.DEVICE or not ruled:
        return None
    name = choose.choice(sorted({each.code.name for each in ruled}))
    op = choose.choice([each for each in ruled if each.code.name == name])
    values = choose.choice([each for each in (op.operands, op.results) if each])
    at = choose.randrange(len(values))
    types = [*OTHER_TYPES, *(value.type for each in ruled for value in (*each.operands, *each.results))]
    type = choose.choice(types)
    operands = [value.type for value in op.operands]
    results = [value.type for value in op.results]
    (operands if values is op.operands else results)[at] = type
    signature = f"{'; '.join(map(str, operands))} -> {'; '.join(map(str, results))}"
    if any(re.fullmatch(pattern, signature) for pattern in PATTERNS[op.code.name]):
        return None
    complaint = f"{op.code.name} cannot take ({', '.join(map(str, operands))}) to {', '.join(map(str, results))}"
    return Mistake(spliced(values, at, 1, [Value(type)]), re.escape(complaint), op)


def a_wrong_call(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    calls = [each for each in function.ops() if each.code is ops.CALL]
    if not calls or function.level is Level.PYTHON:
        return None
    op = choose.choice(calls)
    name = op.attributes["callee"]
    match choose.randrange(3):
        case 0:
            return Mistake(mock.patch.dict(op.attributes, {"callee": "nobody"}), "no function is called nobody", op)
        case 1 if op.operands:
            return Mistake(spliced(op.operands, 0, 1, []), rf"the arguments are not those of {name}", op)
        case 2 if op.results and op.result.type not in (model.NONE, model.Tuple(())):
            return Mistake(spliced(op.results, 0, 1, [Value(model.NONE)]), rf"the result is not that of {name}", op)
    return None


def a_wrong_return(choose: random.Random, function: Function, block: Block, op: Op) -> Mistake | None:
    returns = [each for each in function.ops() if each.code is ops.RETURN]
    if not returns or function.level is Level.PYTHON:
        return None
    op = choose.choice(returns)
    if op.operands:
        return Mistake(assigned(op, "operands", []), rf"returns nothing, not {re.escape(str(function.result))}", op)
    given = Value(model.INT32)
    return Mistake(assigned(op, "operands", [given]), rf"returns int32, not {re.escape(str(function.result))}", op)


MAKERS: tuple[Maker, ...] = (
    an_operand_less, a_result_more, a_successor_more, an_unknown_attribute, an_attribute_less, no_terminator,
    a_terminator_within, of_another_level, a_type_too_many_or_few, defined_twice, used_from_elsewhere, used_before,
    from_nowhere, a_wrong_edge, a_wrong_edge, *[another_type] * 8, a_wrong_call, a_wrong_return,
)  # fmt: skip
