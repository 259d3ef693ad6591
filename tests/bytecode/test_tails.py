"""Choices that are returned: their types join as in the source, whatever CPython makes of the `return`."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from ir_helpers import define, operations, stage

import cuda_device as device
from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.scopes import merge

MOST = 2**31 - 1

# Each is a function of a condition, an int32 and an int64. An int32 has no room for what is computed of the first one.
JOINED = {
    "sum": "return (x if c else y) + one",
    "argument": "return plus(x if c else y, one)",
    "argument_of_two_choices": "return plus(x if c else y, one if c else one)",
    "keyword": "return plus(a=x if c else y, b=one)",
    "in_a_lambda": "return (lambda c: plus(x if c else y, one))(c)",
    "in_three_ways": "return (x if c else y if c else one) + one",
    "on_one_way_of_two": "if y < 0:\n    return y\nreturn (x if c else y) + one",
    "in_a_loop": "for i in range(3):\n    if i == 1:\n        return (x if c else y) + one\nreturn y",
    "of_two_equal_returns": "if y < 0:\n    return (x if c else y) + one\nelse:\n    return (x if c else y) + one",
    "and_or": "return (c and x or y) + one",
}


@pytest.mark.parametrize("name", JOINED)
def test_the_types_of_a_choice_join(stream, name):
    lines = JOINED[name].replace("\n", "\n    ")
    function = define(f"def plus(a, b):\n    return a + b\ndef f(c, x, y, one):\n    {lines}\n", "f")

    @device.kernel
    def kernel(c, x, y, out):
        out[0] = function(c[0], x[0], y[0], np.int32(1))
        out[1] = function(not c[0], x[0], y[0], np.int32(1))

    out = stream.empty(2, np.int64)
    given = (np.array([True]), np.array([MOST], np.int32), np.array([5], np.int64))
    stream.launch(kernel, *map(stream.array, given), out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [function(c, MOST, 5, 1) for c in (True, False)]
    assert stream.numpy(out)[0] == MOST + 1


def returns(function):
    return operations(stage("python", function, bool, int, int), "return")


def test_a_return_is_there_once():
    def chosen(c, x, y):
        return abs(x if c else y)

    def separate(c, x, y):
        if c:
            return abs(x)
        return abs(y)

    def one_after_the_other(c, x, y):
        if c:
            return x  # noqa: E701
        else:
            return x  # noqa: E701

    assert [len(returns(f)) for f in (chosen, separate, one_after_the_other)] == [1, 2, 2]


def test_what_is_merged_is_what_it_was():
    """Every way through the instructions does the same as before."""

    def example(c, d, x, y):
        for i in range(4):
            if c:
                return max(x if d else y, i)
        if d:
            raise ValueError(x if c else y)
        return (x, y if c else x) if d else (x or y, [v for v in (x, y)] if c else d)

    before = decode(example.__code__)
    after = merge(before)
    assert ways(after) == ways(before)
    assert (len(after) < len(before)) == (sys.version_info >= (3, 12))
    assert merge(after) == after


def ways(instructions):
    """What is done on each way, with its places in the source, without jumps; each loop is entered twice at most."""
    found, todo = set(), [(0, (), ())]
    while todo:
        index, seen, done = todo.pop()
        instruction = instructions[index]
        if seen.count(index) > 2:
            continue
        seen = (*seen, index)
        place = (instruction.location.line, instruction.location.column)
        if instruction.opcode.name != "JUMP":
            done = (*done, (instruction.opcode.name, str(instruction.argument), place))
        following = [] if instruction.opcode.name in ("JUMP", "RETURN", "RAISE") else [index + 1]
        following += [] if instruction.target is None else [instruction.target]
        if not following:
            found.add(done)
        todo += [(each, seen, done) for each in following]
    return found


def test_without_columns_nothing_is_known_to_be_a_copy():
    code = (lambda c, x, y: abs(x if c else y)).__code__.replace(co_linetable=b"")
    assert merge(decode(code)) == decode(code)
