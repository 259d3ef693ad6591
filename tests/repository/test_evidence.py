"""docs/evidence.md: what has run on a GPU, from the record of `python -m tests.gpu.evidence`; `--update-golden` writes it.

For each entity of the programming model the table counts the test functions that use it, by what their source text names, and
that passed on a GPU according to the record.
"""

import ast
import functools
import importlib.util
import inspect
import re
import sys
import textwrap
import time
from pathlib import Path

import pytest
from processes import python
from test_reference import REFERENCE, chapter_of, family

import cuda_device as device

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "evidence.md"
CHAPTERS = (
    "Target specialisation", "Thread positioning", "Memory", "Atomics", "Thread block synchronisation",
    "Thread warp synchronisation", "Numeric intrinsics",
)  # fmt: skip
METHODS = [f"AtomicInterface.{name}" for name in dir(device.AtomicInterface) if not name.startswith("_")]
INTRODUCTION = """\
# What has run on a GPU

`python -m tests.gpu.evidence` runs the pieces of the first table on a machine with a GPU, each in less than eight minutes, and
keeps a record in `tests/gpu/evidence.json`, from which this page is made. Entries marked 'none' have not run on a GPU.
"""


def load():
    spec = importlib.util.spec_from_file_location("evidence", TESTS / "gpu" / "evidence.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["evidence"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


evidence = load()


# Which tests use what


@functools.cache
def uses(path):
    """The words in the source of each test function of a module, with those of the module's own functions that it names."""
    text = path.read_text()
    lines = [re.sub(r"#.*|\bdef \w+\([^)]*\)|\b\w+(?==[^=])", "", line) for line in text.splitlines()]
    words = {}
    for node in ast.parse(text).body:
        targets = getattr(node, "targets", [getattr(node, "target", node)])
        names = [getattr(target, "name", getattr(target, "id", None)) for target in targets]
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        found = set(re.findall(r"\w+", "\n".join(lines[first - 1 : node.end_lineno])))
        code = ast.unparse(node) if "with_name" in found or "glob" in found else ""
        places = [path.with_name(name) for name in re.findall(r"with_name\('(\w+(?:\.txt)?)'\)", code)]
        texts = [file for place in places for file in ([place] if place.is_file() else place.glob("*.txt"))]
        for pattern in re.findall(r"\bglob\('([\w*/]+\.txt)'\)", code):
            texts += TESTS.glob(pattern)
        for file in texts:  # programs that are texts
            found |= set(re.findall(r"\w+", file.read_text()))
        words |= {name: found | words.get(name, set()) for name in names if name}
    return {name: closure(name, words) for name in words if name.startswith("test_")}


def closure(name, words):
    reached, todo = set(), {name}
    while todo:
        reached |= todo
        todo = {word for each in todo for word in words.get(each, ())} - reached
    return reached


@functools.cache
def rows():
    """Chapter, entity, and the test functions that use it: as pytest's XML names them."""
    used = [
        (f"{'.'.join(path.relative_to(TESTS.parent).with_suffix('').parts)}::{name}", words)
        for path in sorted(TESTS.rglob("test_*.py"))
        for name, words in uses(path).items()
    ]
    names = sorted((name for name in device.__all__ if chapter_of(name) in CHAPTERS), key=str.lower)
    found = {}
    for entity in [*names, *METHODS]:
        chapter = "Atomics" if "." in entity else chapter_of(entity)
        tests = {test for test, words in used if entity.rpartition(".")[2] in words and is_about(entity, words)}
        found.setdefault((chapter, family(entity)[0]), set()).update(tests)
    return sorted(found.items(), key=lambda row: CHAPTERS.index(row[0][0]))


def is_about(entity, words):
    """Whether a word that many things have, such as `add`, is an atomic's."""
    return "." not in entity or {"atomic_ref", "Atomic"} & words


# The document


def document(record):
    lines = [INTRODUCTION, "| piece | what it runs | result | GPU, driver, capability | commit | seconds |"]
    lines += ["|" + "---|" * 6]
    for piece in evidence.pieces():
        entry = record.get(piece.name)
        cells = [entry[key] for key in ("status", "gpu", "commit", "seconds")] if entry else ["not run", "", "", ""]
        lines.append(f"| `{piece.name}` | {piece.what} | {' | '.join(map(str, cells))} |")
    passed = passed_on_gpu(record)
    lines += ["", "| entity | tests that use it and passed on a GPU |", "|---|---|"]
    for (_, entity), tests in rows():
        lines.append(f"| `{entity}` | {len(tests & passed) or 'none'} |")
    return "\n".join(lines) + "\n"


def is_documented(entity):
    """Whether docs/reference.md has it, or, for a method, whether `help` says something."""
    owner, _, method = entity.partition(".")
    if method:
        return "yes" if inspect.getdoc(getattr(device.AtomicInterface, method)) else "no"
    said = re.search(rf"^\| `{re.escape(owner)}[`(:]", REFERENCE.read_text(), re.M)
    return "yes" if said else "no"


def passed_on_gpu(record):
    """The test functions of which a case passed, and none failed."""
    counts = {}
    for entry in record.values():
        for name, (passed, failed, _) in entry.get("tests", {}).items():
            before = counts.get(name, (0, 0))
            counts[name] = before[0] + passed, before[1] + failed
    return {name for name, (passed, failed) in counts.items() if passed and not failed}


def test_the_document_is_what_the_record_says(update_golden):
    text = document(evidence.read_record())
    if update_golden:
        DOCUMENT.write_text(text)
    assert DOCUMENT.read_text() == text, "pytest --update-golden tests/repository/test_evidence.py"


def test_every_entity_is_documented_and_tested():
    untested = [entity for (_, entity), tests in rows() if not tests]
    assert not untested
    assert all(is_documented(entity) == "yes" for (_, entity), _ in rows())


# The record


def test_pieces_run_every_test_once_and_name_files_that_exist():
    pieces = evidence.pieces()
    assert len({piece.name for piece in pieces}) == len(pieces)
    files = [
        word for piece in pieces if piece.name.startswith("tests-") for word in piece.words if word.endswith(".py")
    ]
    assert sorted(files) == sorted(evidence.test_files())
    named = [word for piece in pieces for word in piece.words if re.match(r"(tests|examples|benchmarks)/", word)]
    assert named and all((TESTS.parent / word).exists() for word in named)
    assert evidence.SECONDS <= 480


RESULTS = """
    import pytest

    @pytest.mark.parametrize("stream", ["cpu", "gpu"])
    def test_passes(stream):
        pass

    @pytest.mark.parametrize("n", [1, 2])
    @pytest.mark.parametrize("stream", ["cpu", "gpu"])
    def test_fails(stream, n):
        assert n == 1

    def test_that_needs_no_gpu():
        pass

    @pytest.mark.parametrize("stream", ["gpu"])
    def test_is_skipped(stream):
        pytest.skip("no GPU")
"""


def piece(tmp_path, text, *words):
    path = tmp_path / "test_made_up.py"
    path.write_text(textwrap.dedent(text))
    command = (sys.executable, "-m", "pytest", "-q", "-k", "gpu", "-p", "no:cacheprovider", str(path), *words)
    return evidence.Piece("made-up", "made up", command, tests=True)


@pytest.mark.long
def test_results_are_kept_test_by_test(tmp_path):
    entry = evidence.run(piece(tmp_path, RESULTS))
    assert entry["status"] == "failed"
    counts = {name.rpartition("::")[2]: found for name, found in entry["tests"].items()}
    assert counts == {"test_passes": [1, 0, 0], "test_fails": [1, 1, 0]}
    assert passed_on_gpu({"made-up": entry}) == {name for name in entry["tests"] if "passes" in name}


@pytest.mark.long
def test_skipped_tests_are_no_evidence(tmp_path):
    entry = evidence.run(piece(tmp_path, RESULTS, "-k", "is_skipped"))
    assert (entry["status"], entry["tests"]) == ("failed", {})


@pytest.mark.long
def test_what_takes_too_long_is_stopped_with_all_that_it_started():
    words = (sys.executable, "-c", "import subprocess, sys; print(7, flush=True); subprocess.run(['sleep', '100'])")
    start = time.monotonic()
    entry = evidence.run(evidence.Piece("slow", "slow", words), seconds=2)
    assert (entry["status"], entry["end"]) == ("stopped", ["7"])
    assert time.monotonic() - start < 20


def test_without_a_gpu_nothing_is_recorded(tmp_path, monkeypatch):
    if evidence.RECORD.exists():
        before = evidence.RECORD.read_text()
    script = (
        "from fake_driver import no_gpu; from tests.gpu import evidence\nwith no_gpu(): evidence.main(['programs'])"
    )
    done = python("-c", script, cwd=TESTS.parent, status=1)
    assert done.stdout == ""
    assert "nothing is recorded" in done.stderr
    assert not evidence.RECORD.exists() or evidence.RECORD.read_text() == before


@pytest.mark.parametrize("status", ["passed", "failed", "stopped"])
def test_the_document_says_what_the_record_says(status):
    ((_, entity), tests) = rows()[-1]
    results = {name: [1, int(status == "failed"), 0] for name in tests}
    entry = {"status": status, "gpu": "G", "commit": "abc", "seconds": 1.5, "tests": results}
    text = document({"tests-1": entry})
    assert f"| {status} | G | abc | 1.5 |" in text
    assert text.count("| not run |") == len(evidence.pieces()) - 1
    assert f"| `{entity}` | {'none' if status == 'failed' else len(tests)} |" in text
