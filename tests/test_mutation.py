"""The changes that `python -m tests.mutation` makes: each is Python, is what it says, and leaves texts for people alone."""

import ast
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from mutation.mutants import places
from mutation.noticing import fuzzer
from mutation.plan import Reach, statement_of
from mutation.sample import Mutant, all_places, drawn
from mutation.workshop import Done

PACKAGE = Path(__file__).parent.parent / "cuda_device"
SOURCE = '''
"""A docstring with 1 < 2."""
TABLE = {"x": f, "y": g, "z": f}
SHAPE: "3 < 4" = (Kind.INT, Kind.FLOAT, 2.5)
def f(a: int, b=True) -> "x < y":
    """Not a < b."""
    if a < b and not b:
        a += 1
        g(a)
        raise ValueError(f"{a + 1}")
    while isinstance(a, (A, B, C)) or a is None:
        return (a * 2, b)
    return g(a, help="1 and 2")
'''


def changes(source, texts_are_code=False):
    return {
        (change.kind, change.before.strip(), change.after.strip())
        for place in places(source, texts_are_code)
        for change in place
    }


def test_the_changes_of_a_source():
    assert changes(SOURCE) == {
        ("operator", "<", "<="), ("operator", "<", ">"), ("operator", "and", "or"), ("operator", "not b", "(b)"),
        ("operator", "+=", "-="), ("operator", "*", "+"), ("operator", "or", "and"), ("operator", "is", "is not"),
        ("constant", "True", "False"), ("constant", "1", "2"), ("constant", "1", "0"), ("constant", "2", "3"),
        ("constant", "2", "1"), ("constant", "2.5", "3.5"), ("constant", "2.5", "5.0"), ("constant", '"x"', "'y'"),
        ("constant", '"y"', "'z'"), ("constant", '"z"', "'x'"), ("constant", "Kind.INT", "Kind.FLOAT"),
        ("constant", "Kind.FLOAT", "Kind.INT"),
        ("table", 'f, "y": g', 'g, "y": f'), ("table", 'g, "z": f', 'f, "z": g'), ("table", '"x": f,', ""),
        ("table", '"y": g,', ""), ("table", "Kind.INT, Kind.FLOAT", "Kind.FLOAT, Kind.INT"), ("table", "Kind.INT,", ""),
        ("table", "Kind.FLOAT,", ""), ("table", "A,", ""), ("table", "B,", ""),
        ("edge", "a < b and not b", "(not (a < b and not b))"), ("edge", "a < b and not b", "((a < b and not b) and False)"),
        ("edge", "a < b and not b", "((a < b and not b) or True)"), ("edge", "a += 1", "pass"), ("edge", "g(a)", "pass"),
        ("edge", "isinstance(a, (A, B, C)) or a is None", "(not (isinstance(a, (A, B, C)) or a is None))"),
        ("edge", "isinstance(a, (A, B, C)) or a is None", "((isinstance(a, (A, B, C)) or a is None) and False)"),
    }  # fmt: skip


def test_texts_that_are_code():
    source = 'v = f("  %v = icmp slt i32 %a, 1, align 4, add")\n'
    assert changes(source) == set()
    assert changes(source, texts_are_code=True) == {
        ("constant", "slt", "sle"), ("constant", "1", "2"), ("constant", "4", "5"), ("constant", "add", "sub"),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["passes/lower.py", "device/rows.py", "codegen/emitters.py", "bytecode/rows.py"])
def test_nearly_every_change_is_another_program(name):
    source = (PACKAGE / name).read_text()
    made = [change for place in places(source, name.startswith("codegen")) for change in place]
    assert len(made) > 50
    tree, tried, wrong = ast.dump(ast.parse(source)), made[:: len(made) // 40], 0
    for change in tried:
        try:
            changed = ast.parse(change.applied(source))
        except SyntaxError:
            wrong += 1
            continue
        wrong += ast.dump(changed) == tree
        assert ast.get_docstring(changed) == ast.get_docstring(ast.parse(source))
    assert wrong <= len(tried) // 20


def test_the_same_bugs_are_drawn_for_a_seed():
    first, again, others = (list(map(str, itertools.islice(drawn(seed, "device/r"), 9))) for seed in (1, 1, 2))
    assert first == again
    assert first != others


def test_bugs_are_planted_in_every_part_and_of_every_kind():
    found = all_places()
    assert {name.split("/")[0] for name, _ in found} == {"bytecode", "ir", "passes", "device", "codegen", "types"}
    assert {place[0].kind for _, place in found} == {"operator", "constant", "table", "edge"}
    assert not any(name.startswith("runtime") for name, _ in found)


def bug(file, before):
    """The first bug in a file that changes some text."""
    return next(Mutant(name, change) for name, place in all_places(file) for change in place if before in change.before)


def test_only_tests_that_come_to_a_bug_are_run_the_quickest_first():
    mutant = bug("passes/exits.py", "op.code is ops.CALL")
    line = mutant.change.line
    assert statement_of(mutant) == {line}
    tests = {
        "tests/test_math.py::slow": {"outcome": "passed", "seconds": 2.0, "lines": {mutant.file: [line]}},
        "tests/test_math.py::quick": {"outcome": "passed", "seconds": 1.0, "lines": {mutant.file: [line]}},
        "tests/test_math.py::near": {"outcome": "passed", "seconds": 0.1, "lines": {mutant.file: [line + 1]}},
        "tests/test_arrays.py::far": {"outcome": "passed", "seconds": 0.1, "lines": {mutant.file: [1]}},
    }
    plan = Reach(tests).plan(mutant)
    assert plan.files[0] == ("tests/test_math.py",)
    assert list(plan.order) == [f"tests/test_math.py::{name}" for name in ("quick", "slow")]
    assert not Reach(tests, fuzzer={mutant.file: [line + 1]}).fuzzer_comes_to(mutant)
    assert Reach(tests).fuzzer_comes_to(mutant), "where nothing is known it may come"
    assert Reach(tests, fuzzer={mutant.file: [line]}).fuzzer_comes_to(mutant)


def test_a_bug_in_a_table_is_for_every_test():
    mutant = bug("codegen/emitters.py", '"assert"')
    assert statement_of(mutant) is None
    assert Reach().fuzzer_comes_to(mutant)


@pytest.mark.parametrize(
    ("statuses", "noticed", "how"),
    [
        ([(1, "batch 0\nbatch 1\nprogram 7: it is 3, not 4"), (1, ""), (0, "")], True, "program 7: it is 3, not 4"),
        ([(-11, "batch 4"), (-11, "batch 4"), (0, "batch 4")], True, "signal 11"),
        ([(-11, "batch 4"), (0, "batch 4"), (0, "batch 5")], False, "9 programs, unreliable batches: [4]"),
        ([(1, "batch 4"), (1, "batch 4"), (1, "batch 4"), (0, "")], False, "9 programs, unreliable batches: [4]"),
        ([(1, "ImportError: x")], True, "importing: ImportError: x"),
        ([(0, "batch 0")], False, "9 programs"),
    ],
)
def test_the_fuzzer_notices_what_a_batch_shows_with_the_bug_alone(tmp_path, statuses, noticed, how):
    mutant = bug("passes/exits.py", "op.code is ops.CALL")
    changed, sources, starts = mutant.text(), [], []
    target = tmp_path / "cuda_device" / mutant.file
    target.parent.mkdir(parents=True)
    target.write_text(changed)

    class Copy:
        folder = tmp_path

        def python(self, *arguments):
            sources.append(target.read_text() == changed)
            starts.append(arguments[5:])
            return Done(*statuses[len(sources) - 1])

    result = fuzzer(Copy(), mutant, Reach(), 9)
    assert (result.noticed, result.how) == (noticed, how)
    assert len(sources) == len(statuses) and target.read_text() == changed
    assert [i for i, is_there in enumerate(sources) if not is_there] == [2] * (
        len(statuses) > 2 and statuses[1][0] != 0
    )
    if len(statuses) > 1:
        place = statuses[0][1].split("\n")[-2 if noticed and statuses[0][0] == 1 else 0].removeprefix("batch ")
        assert starts[:2] == [("0",), (place, "--last", place)]


def test_a_batch_runs_alone():
    arguments = ("-m", "tests.mutation.fuzzing", "--programs", "13", "--first", "1", "--last", "1")
    done = subprocess.run([sys.executable, *arguments], cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "batch 1\n"), done.stderr
