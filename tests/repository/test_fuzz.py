"""Generated programs give what the rules say, at both ends of the optimiser's levels; `python -m tests.fuzz` runs more."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import HAS_GPU, long
from fuzz.cases import Case
from fuzz.generate import inputs, program
from fuzz.programs import Assign, Expression, Open, Program, Statement, variable
from fuzz.run import Mismatch, check, smallest, source
from fuzz.sweep import ALONE, TOGETHER
from processes import TESTS, python

import cuda_device as device

BATCH, BATCHES, CHUNKS = 12, 8, 31
PROGRAMS = BATCH * BATCHES * CHUNKS
LONG = [pytest.param(i, BATCHES, 1, marks=long(i, 16)) for i in range(CHUNKS)]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that nobody runs twice need no cache, and the compiler's own checks have tests of their own."""
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "0")
    monkeypatch.setenv("CUDA_DEVICE_VERIFY", "0")


def streams() -> list[device.Stream]:
    """The CPU stream, and a GPU's if there is one."""
    return [device.cpu_stream(), *([device.default_stream()] if HAS_GPU else [])]


def batch(begin: int) -> tuple[dict[str, list[Any]], list[Program | Case]]:
    """Some programs, and what they read."""
    given = inputs(begin)
    return given, [program(begin + k, given) for k in range(BATCH)]


@pytest.mark.parametrize("chunk, batches, one_in", [(0, 1, 3), (1, 1, 3), (2, 1, 3), *LONG])
def test_programs_give_what_the_rules_say(chunk: int, batches: int, one_in: int) -> None:
    """Each time some of each sort: of one thread, of cases, and of threads that meet."""
    wrong: list[Mismatch] = []
    for number in range(batches):
        given, programs = batch((chunk * BATCHES + number) * BATCH)
        wrong += check(programs[chunk % one_in :: one_in], given, streams())
    assert not wrong, "\n".join(map(str, wrong[:3]))


# What programs reach


@pytest.mark.long
def test_the_programs_reach_every_row() -> None:
    """Every operator and function with every type and pair of types that can meet, alone and of threads together."""
    reached: set[tuple[Any, ...]] = set()
    for begin in range(0, PROGRAMS, BATCH):
        for made in batch(begin)[1]:
            reached |= made.rows if isinstance(made, Program) else set()
    assert [row for row in (*ALONE, *TOGETHER) if row not in reached] == []
    assert len(ALONE) > 8000 and len(TOGETHER) > 600


def test_a_program_is_the_same_for_its_number() -> None:
    for begin in (0, 96, 192):
        (_, first), (_, again) = batch(begin), batch(begin)
        assert list(map(shown, first)) == list(map(shown, again))


def shown(made: Program | Case) -> str:
    """The text of a program."""
    return source([made]) if isinstance(made, Program) else made.source()


# The fuzzer itself


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
        if not candidate.is_consistent() or not any(store.name == "wrong" for store in candidate.stores):
            return None
        return Mismatch(candidate, "CPU stream, level 0", 0)

    small = smallest(Mismatch(two(4), "CPU stream, level 0", 1), fails, float("inf"))
    assert len(small.program.body) == 1
    assert [store.name for store in small.program.stores] == ["wrong"]


def test_a_program_without_one_of_its_statements_is_no_program() -> None:
    whole = two(3)
    assert whole.is_consistent()
    assert not dataclasses.replace(whole, body=whole.body[1:]).is_consistent()


def holds(made: Program) -> bool:
    """Whether a program is one, of which the reference knows the results."""
    try:
        return made.is_consistent() and bool(made.expected())
    except (Open, LookupError, TypeError, ValueError, OverflowError, AttributeError, AssertionError):
        return False


def test_what_is_smaller_is_a_program_or_known_to_be_none() -> None:
    """What makes a failure small compares with the reference again, which must be right about every program that it takes."""
    tried = 0
    for number in (3, 195):
        given = inputs(number)
        made = program(number, given)
        assert isinstance(made, Program) and holds(made)
        smaller = list(itertools.islice(filter(holds, list(made.smaller())[::7]), 5))
        tried += len(smaller)
        for less in smaller:
            assert list(check([less], given, [device.cpu_stream()])) == []
    assert tried > 5


def run_fuzzer(*options: str, status: int = 0) -> str:
    """What the command prints."""
    return python("-m", "tests.fuzz", "--seed", 3, "--batch", 2, *options, status=status, cwd=TESTS.parent).stdout


@pytest.mark.long
def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    for programs in ("2", "4"):
        shown = run_fuzzer("--state", str(state), "--programs", programs)
        found = json.loads(state.read_text())
        assert (found["done"], found["failures"], found["begun"]) == (int(programs), [], -1)
        assert f"{programs} programs of seed 3 from 0 on, 0 failures" in shown and "assign" in shown


@pytest.mark.long
def test_what_ended_the_process_is_a_failure(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"done": 2, "failures": [], "seconds": 1.0, "begun": 2, "constructs": {}}))
    shown = run_fuzzer("--programs", "4", "--state", str(state), status=1)
    assert "the batch at 2 ended the process" in shown
    assert json.loads(state.read_text())["failures"] == [3 * 10**9 + 2]


@pytest.mark.long
def test_several_processes_share_a_run() -> None:
    shown = run_fuzzer("--programs", "98", "--jobs", "2", "--seconds", "0.1")
    assert "programs of seed 3 from 0 on, 0 failures" in shown.splitlines()[-1]
