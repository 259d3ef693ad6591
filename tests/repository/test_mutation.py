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
from mutation.sample import FOLDERS, Mutant, all_places, drawn
from mutation.workshop import Done

PACKAGE = Path(__file__).parents[2] / "cuda_device"
COME = "2 of 4 batches of 9 programs come there, wrong without a bug: [3]"
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


@pytest.mark.long
@pytest.mark.parametrize("name", ["lower.py", "device/rows.py", "codegen/emit/to_llvm.py", "bytecode/translate.py"])
def test_nearly_every_change_is_another_program(name):
    source = (PACKAGE / name).read_text()
    made = [change for place in places(source, name.startswith("codegen")) for change in place]
    assert len(made) > 50
    tree, tried, wrong = ast.dump(ast.parse(source)), made[:: len(made) // 20], 0
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


@pytest.mark.long
def test_bugs_are_planted_in_every_part_and_of_every_kind():
    found = all_places()
    assert {name.split("/")[0] for name, _ in found} <= {*FOLDERS}
    assert {place[0].kind for _, place in found} == {"operator", "constant", "table", "edge"}
    assert not any(name.startswith("runtime") for name, _ in found)


def bug(file, before):
    """The first bug in a file that changes some text."""
    return next(Mutant(name, change) for name, place in all_places(file) for change in place if before in change.before)


def test_only_tests_that_come_to_a_bug_are_run_the_quickest_first():
    mutant = bug("cpu/cpu_passes.py", "op.code is ops.CALL")
    line = mutant.change.line
    assert statement_of(mutant) == {line}
    tests = {
        "tests/language/test_math.py::slow": {"outcome": "passed", "seconds": 2.0, "lines": {mutant.file: [line]}},
        "tests/language/test_math.py::quick": {"outcome": "passed", "seconds": 1.0, "lines": {mutant.file: [line]}},
        "tests/language/test_math.py::near": {"outcome": "passed", "seconds": 0.1, "lines": {mutant.file: [line + 1]}},
        "tests/language/test_arrays.py::far": {"outcome": "passed", "seconds": 0.1, "lines": {mutant.file: [1]}},
    }
    plan = Reach(tests).plan(mutant)
    assert plan.files[0] == ("tests/language/test_math.py",)
    assert list(plan.order) == [f"tests/language/test_math.py::{name}" for name in ("quick", "slow")]


def batches(*records, imported=()):
    """What is known of the fuzzer's batches: the file, lines and seconds of each, and what is wrong with it."""
    fields = [{"lines": {file: lines}, "seconds": seconds, "wrong": wrong} for file, lines, seconds, wrong in records]
    return Reach(fuzzer={"imported": dict(imported), "batches": {str(at): each for at, each in enumerate(fields)}})


def test_only_batches_that_come_to_a_bug_are_run_first_those_that_do_most_near_it():
    mutant = bug("cpu/cpu_passes.py", "op.code is ops.CALL")
    file, line = mutant.file, mutant.change.line
    records = [
        (file, [line], 5.0, ""),
        (file, [line], 1.0, ""),
        (file, [line + 1], 1.0, ""),
        (file, [line], 1.0, "program 7: it is 3, not 4"),
        (file, [line - 1, line, line + 1], 1.0, ""),
        ("infer/engine.py", [line], 1.0, ""),
    ]
    assert batches(*records).batches(mutant) == [4, 1, 0]
    assert batches(*records).wrong_batches == [3]
    imported = batches(*records, imported={file: [line]})
    assert sorted(imported.batches(mutant)) == [0, 1, 2, 4, 5], "what importing runs is there for each"


def test_a_bug_in_a_table_is_for_every_test():
    mutant = bug("codegen/emit/to_llvm.py", '"assert"')
    assert statement_of(mutant) is None
    source = (PACKAGE / mutant.file).read_text().splitlines()
    (reader,) = [line for line, text in enumerate(source, 1) if "REPORTS[" in text]
    records = [(mutant.file, [1], 1.0, ""), (mutant.file, [reader], 1.0, "")]
    assert batches(*records).batches(mutant) == [1, 0]


@pytest.mark.parametrize(
    ("statuses", "noticed", "how"),
    [
        ([(1, "batch 2\nbatch 1\nprogram 7: it is 3, not 4"), (1, "")], True, "program 7: it is 3, not 4"),
        ([(-11, "batch 2"), (-11, "batch 2")], True, "signal 11"),
        ([(-11, "batch 2"), (0, "batch 2"), (0, "batch 1")], False, f"{COME}, unreliable: [2]"),
        ([(1, "ImportError: x")], True, "importing: ImportError: x"),
        ([(0, "batch 2\nbatch 1")], False, COME),
    ],
)
def test_the_fuzzer_notices_what_a_batch_shows_twice(statuses, noticed, how):
    mutant = bug("cpu/cpu_passes.py", "op.code is ops.CALL")
    starts = []

    class Copy:
        def python(self, *arguments):
            starts.append(arguments[5:])
            return Done(*statuses[len(starts) - 1])

    line = [mutant.change.line]
    records = [(mutant.file, [1], 1.0, ""), (mutant.file, line, 2.0, ""), (mutant.file, line, 1.0, "")]
    result = fuzzer(Copy(), mutant, batches(*records, (mutant.file, line, 1.0, "it is wrong")), 9)
    assert (result.noticed, result.how) == (noticed, how)
    place = "1" if "batch 1\nprogram" in statuses[0][1] else "2"
    assert starts == [("2", "1"), (place,), ("1",)][: len(statuses)]


def python(*arguments):
    """What a process of its own prints."""
    done = subprocess.run([sys.executable, *arguments], cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


needs_monitoring = pytest.mark.skipif(sys.version_info < (3, 12), reason="lines are told by sys.monitoring")


def test_a_batch_runs_alone():
    assert python("-m", "tests.mutation.fuzzing", "--programs", "13", "--places", "1") == "batch 1\n"


@pytest.mark.long
@needs_monitoring
def test_what_each_batch_comes_to_is_measured(tmp_path):
    python("-m", "tests.mutation.fuzzing", "--programs", "14", "--jobs", "2", "--lines", str(tmp_path / "fuzzer.json"))
    reach = Reach.read(tmp_path)
    assert {place: record["wrong"] for place, record in reach.fuzzer["batches"].items()} == {"0": "", "1": ""}
    assert sorted(reach.batches(bug("bytecode/to_ir.py", "reader.wanted <= kept"))) == [0, 1]
    assert reach.batches(bug("bytecode/to_ir.py", "code.co_flags & (_COROUTINE | _ASYNC_GENERATOR)"))
    assert reach.batches(bug("cache/disk.py", "self._complaints.add")) == []


COMPILED = """
import importlib
importlib.import_module("tests.mutation.fuzzing")._listen()
lines = importlib.import_module("tests.mutation.lines")
import cuda_device as device
@device.kernel
def k(n, out): out[0] = n ** n
lines.taken()
device.compile(k, device.int32, device.ArrayType(device.int32, 1), output="ir")
print(lines.taken())
"""


@needs_monitoring
def test_functions_that_are_compiled_count_as_run():
    noted = ast.literal_eval(python("-c", COMPILED))
    power, slices = bug("library/prelude.py", "exponent > 0"), bug("library/prelude.py", "step > 0")
    assert not statement_of(power).isdisjoint(noted[power.file])
    assert statement_of(slices).isdisjoint(noted[slices.file])
