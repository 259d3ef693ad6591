"""Companions of variables: functions with them mean what they meant, and say where a variable has no value."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from ir_helpers import checked, operations, underlying
from ir_interpreter import NoValue, Unsupported, run_ir
from test_to_ir import RUNNABLE, outcome, programs

import cuda_device as device
from cuda_device import ArrayType, float32, kernel
from cuda_device.bytecode.to_ir import read
from cuda_device.library import standard


def changed(function: Any) -> Any:
    plain = underlying(function)
    return read(plain.__code__, companions=True)


def run(function: Any, *arguments: Any) -> Any:
    return run_ir(changed(function), function, *arguments)


@pytest.mark.parametrize(("function", "calls"), RUNNABLE, ids=[f.__name__ for f, _ in RUNNABLE])
def test_programs_mean_the_same(function: Any, calls: Any) -> None:
    for arguments in calls:
        try:
            found = outcome(run, function, copy.deepcopy(arguments))
        except (Unsupported, device.CompileError):
            continue
        expected = outcome(programs.native, function, copy.deepcopy(arguments))
        assert (UnboundLocalError if found is NoValue else found) == expected


def branch(flag):
    if flag:
        x = 1
    return x


def branch_in_loop(flag):
    total = 0
    for i in range(3):
        if i == flag:
            x = 10
        if i > 0:
            total += x
    return total


def deleted(flag):
    x = 1
    if flag:
        del x
    return x


def swapped(flag):
    if flag:
        a = b = 1
    for _ in range(2):
        a, b = b, a
    return a


def behind_a_loop(n):
    for i in range(n):
        last = i
    return last + i


def taken_twice(flag):
    if flag:
        x = 1
    y = x + x
    return y + x


OPEN = [
    (branch, [(True, 1), (False, None)]),
    (branch_in_loop, [(0, 20), (1, 20), (2, None), (3, None)]),
    (deleted, [(False, 1), (True, None)]),
    (swapped, [(True, 1), (False, None)]),
    (behind_a_loop, [(0, None), (3, 4)]),
    (taken_twice, [(True, 3), (False, None)]),
]


@pytest.mark.parametrize(("function", "calls"), OPEN, ids=[f.__name__ for f, _ in OPEN])
def test_what_has_no_value_is_found(function: Any, calls: Any) -> None:
    checked(changed(function))
    for argument, expected in calls:
        if expected is None:
            with pytest.raises(NoValue):
                run(function, argument)
        else:
            assert run(function, argument) == expected == function(argument)


def test_the_variable_is_named() -> None:
    names = [op.attributes["name"] for op in operations(checked(changed(behind_a_loop)), "py.defined")]
    assert set(names) == {"last", "i"}


def test_one_check_in_a_block_is_enough() -> None:
    assert len(operations(checked(changed(taken_twice)), "py.defined")) == 1


def test_the_ir_that_others_share_is_left_alone() -> None:
    before = [len(block.params) for block in read(branch.__code__).blocks]
    changed(branch)
    assert before == [len(block.params) for block in read(branch.__code__).blocks]


def test_what_always_has_its_values_is_the_same() -> None:
    def plain(x):
        for i in range(3):
            x += i
        return x

    assert not operations(checked(changed(plain)), "py.defined")
    assert [len(block.params) for block in changed(plain).blocks] == [
        len(b.params) for b in read(plain.__code__).blocks
    ]


@kernel
def over_elements(x: ArrayType(float32, 1), n: int):
    for v in x:
        if n:
            w = v
        x[0] = w


def test_our_own_functions_are_not_asked() -> None:
    """Those that leave a variable open do not care; the check is of the user's variable alone."""
    assert changed(standard.element_if) is not read(standard.element_if.__code__)
    text = str(device.compile(over_elements, output="ir", checked=True).code)
    assert "element_if" in text
    assert re.findall(r"the variable '(\w+)'", text) == ["w"]
