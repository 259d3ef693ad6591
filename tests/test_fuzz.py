"""Generated programs give what the rules say, at both ends of the optimiser's levels; `python -m tests.fuzz` runs more."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzz.generate import SWEEP, THREADS, inputs, program
from fuzz.programs import Assign, Expression, Program, Statement, variable
from fuzz.reduce import is_consistent, smallest
from fuzz.run import Mismatch, check

import cuda_device as device
from cuda_device.runtime import driver

BATCH, BATCHES, CHUNKS = 24, 4, 21
PROGRAMS = BATCH * BATCHES * CHUNKS


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that nobody runs twice need no cache, and the compiler's own checks have tests of their own."""
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "0")
    monkeypatch.setenv("CUDA_DEVICE_VERIFY", "0")


def streams() -> list[device.Stream]:
    """The CPU stream, and a GPU's if there is one."""
    return [device.cpu_stream(), *([device.default_stream()] if driver.available() else [])]


def batch(begin: int) -> tuple[dict[str, list[Any]], list[Program]]:
    """Some programs, and what they read."""
    given = inputs(begin)
    return given, [program(begin + k, given) for k in range(BATCH)]


def test_there_are_enough_programs() -> None:
    assert PROGRAMS >= 2000


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_programs_give_what_the_rules_say(chunk: int) -> None:
    wrong: list[Mismatch] = []
    for number in range(BATCHES):
        given, programs = batch((chunk * BATCHES + number) * BATCH)
        wrong += check(programs, given, streams())
    assert not wrong, "\n".join(map(str, wrong[:3]))


def test_the_programs_reach_every_row() -> None:
    """Every operator and function of a number with every type, and every pair of types that can meet."""
    reached: set[tuple[str, ...]] = set()
    for begin in range(0, PROGRAMS, BATCH):
        for made in batch(begin)[1]:
            reached |= made.rows
    assert [row for row in SWEEP if row not in reached] == []
    assert len(SWEEP) > 4000


def test_a_program_is_the_same_for_its_number() -> None:
    _, first = batch(240)
    _, again = batch(240)
    assert [p.body[0].lines() for p in first] == [p.body[0].lines() for p in again]


def two(expected: int) -> Program:
    """A program with a statement that is wrong, if `expected` is not 3, and others."""
    x = variable("i", "int32")
    others: list[Statement] = [
        Assign((Expression("int32", "({} + {})", (x, x), lambda a, b: 2 * a),), (), (f"w{k}",), ("int32",))
        for k in range(3)
    ]
    three = Expression("int32", "({} * 0 + 3)", (x,), lambda a: expected)
    wrong = Assign((three,), (), ("wrong",), ("int32",))
    return Program(0, (*others[:2], wrong, others[2]), (variable("w0", "int32"), variable("wrong", "int32")))


def test_what_is_wrong_is_found() -> None:
    given = inputs(0)
    assert list(check([two(3)], given, streams())) == []
    found = list(check([two(4)], given, streams()))
    assert [(each.slot, each.found, each.expected) for each in found[:1]] == [(1, 3, 4)]
    assert "wrong (int32) is 3, not 4" in str(found[0])


def test_what_fails_is_made_small() -> None:
    def fails(candidate: Program) -> Mismatch | None:
        if not is_consistent(candidate) or not any(store.name == "wrong" for store in candidate.stores):
            return None
        return Mismatch(candidate, "CPU stream, level 0", 0)

    small = smallest(Mismatch(two(4), "CPU stream, level 0", 1), fails, float("inf"))
    assert len(small.program.body) == 1
    assert [store.name for store in small.program.stores] == ["wrong"]


def test_a_program_without_one_of_its_statements_is_no_program() -> None:
    whole = two(3)
    assert is_consistent(whole)
    assert not is_consistent(dataclasses.replace(whole, body=whole.body[1:]))


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    command = [sys.executable, "-m", "tests.fuzz", "--seed", "3", "--batch", "2", "--state", str(state), "--programs"]
    for programs in ("2", "4"):
        done = subprocess.run(
            [*command, programs], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(state.read_text()) == {"done": int(programs), "failures": []}


def test_threads_see_different_inputs() -> None:
    assert THREADS > 1
    assert all(len(set(map(str, values))) > 1 for values in inputs(7).values())
