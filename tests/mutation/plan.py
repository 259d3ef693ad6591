"""Which tests and which batches of the fuzzer may notice a bug, the likeliest and quickest first, from the lines that each runs.

Only what comes to the statement of a bug can notice it (`tests.mutation.lines` writes down what does). Each test can where the
statement is outside of functions, in a table, and where it is in `device/`, much of which is not run but compiled. Tests that
start other processes may come there unseen: they are the last ones. Of the fuzzer's batches it is known what they compile.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .sample import PACKAGE, ROOT, Mutant

FIRST = 8  # files that are tried before the others are even imported


@dataclass(frozen=True, slots=True)
class Plan:
    """The test files in two parts, and the rank of each test."""

    files: tuple[tuple[str, ...], tuple[str, ...]]
    order: dict[str, int]


@dataclass(slots=True)
class Reach:
    """What each test, importing each test file, and the fuzzer come to."""

    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    imported: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    fuzzer: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Reach:
        """From a folder of one file for each test file, and `fuzzer.json`."""
        reach = cls()
        for path in sorted(folder.glob("test_*.json")):
            found = json.loads(path.read_text())
            reach.tests |= found["tests"]
            reach.imported[f"tests/{path.stem}.py"] = found["imported"]
        if (folder / "fuzzer.json").exists():
            reach.fuzzer = json.loads((folder / "fuzzer.json").read_text())
        return reach

    @property
    def seconds(self) -> dict[str, float]:
        """The usual time of each test."""
        return {name: record.get("seconds", 0.0) for name, record in self.tests.items()}

    @property
    def broken(self) -> list[str]:
        """The tests that fail without a bug."""
        return [name for name, record in self.tests.items() if record["outcome"] == "failed"]

    @property
    def wrong_batches(self) -> list[int]:
        """The batches of the fuzzer that are wrong without a bug."""
        return [int(place) for place, record in self.fuzzer["batches"].items() if record["wrong"]]

    def batches(self, mutant: Mutant) -> list[int]:
        """The batches of the fuzzer that run, or compile, the statement of a bug, first those that do most near it in a second.

        Each comes to what is outside of functions, and to what importing runs.
        """
        statement, ranks = statement_of(mutant), dict[int, float]()
        if statement is not None and not statement.isdisjoint(self.fuzzer["imported"].get(mutant.file, ())):
            statement = None
        near = _near(mutant)
        for place, record in self.fuzzer["batches"].items():
            lines = {file: set(numbers) for file, numbers in record["lines"].items()}
            comes = statement is None or not statement.isdisjoint(lines.get(mutant.file, ()))
            if comes and not record["wrong"]:
                shares = sum(_share(which, lines) for which in near)
                ranks[int(place)] = (shares + 0.1) / (record["seconds"] + 0.5)
        return sorted(ranks, key=lambda place: -ranks[place])

    def plan(self, mutant: Mutant) -> Plan:
        """The tests to run, in their order."""
        statement = statement_of(mutant)
        ranks: dict[str, tuple[bool, float]] = {}
        comers: Counter[str] = Counter()
        tests = {name: record for name, record in self.tests.items() if record["outcome"] != "skipped"}
        for name, record in tests.items():
            file = name.split("::")[0]
            lines = (*record["lines"].get(mutant.file, ()), *self.imported.get(file, {}).get(mutant.file, ()))
            comes = statement is None or not statement.isdisjoint(lines)
            comers[file] += comes
            if comes or _is_compiled(mutant):
                ranks[name] = (not comes, record["seconds"])
        sizes = Counter(name.split("::")[0] for name in tests)
        likeness = _likeness(mutant, list(sizes))
        files = list(dict.fromkeys(name.split("::")[0] for name in ranks))
        files.sort(key=lambda file: -(likeness[file] + comers[file] / sizes[file]))
        others = [file for file in _with_processes() if file not in files]
        order = {name: rank for rank, name in enumerate(sorted(ranks, key=ranks.__getitem__))}
        return Plan((tuple(files[:FIRST]), (*files[FIRST:], *others)), order)


def _is_compiled(mutant: Mutant) -> bool:
    return mutant.file.startswith("device/")


def statement_of(mutant: Mutant) -> set[int] | None:
    """The lines of the statement that a bug is in, without those of the statements in it; None outside of functions."""
    line, inside, found = mutant.change.line, False, set()
    for node in ast.walk(ast.parse((PACKAGE / mutant.file).read_text())):  # outer ones come first
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            if inside:
                found = _own_lines(node)
            inside = inside or (isinstance(node, ast.FunctionDef) and line >= node.body[0].lineno)
    return found if inside else None


Lines = dict[str, set[int]]


def _near(mutant: Mutant) -> list[Lines]:
    """What is near a bug: the functions that it is in; or, outside of functions, what the names of its table and its line are.

    These are functions of the same file, or lines of any file that have the name.
    """
    source = (PACKAGE / mutant.file).read_text()
    tree, line = ast.parse(source), mutant.change.line
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    around = [each for each in functions if each.body[0].lineno <= line <= (each.end_lineno or 0)]
    if around:
        return [{mutant.file: _body(each)} for each in around]
    tables = [node for node in tree.body if node.lineno <= line <= (node.end_lineno or 0)]
    lines = source.splitlines()
    words = set(re.findall(r"[^\W\d]\w{2,}", " ".join(lines[each.lineno - 1].split("=")[0] for each in tables)))
    words |= set(re.findall(r"[^\W\d]\w{2,}", lines[line - 1]))
    defined = {each.name: {mutant.file: _body(each)} for each in functions if each.name in words}
    used: dict[str, Lines] = {word: defaultdict(set) for word in sorted(words - defined.keys())}
    for path in PACKAGE.rglob("*.py"):
        for number, text in enumerate(path.read_text().splitlines(), 1):
            for word in words.intersection(re.findall(r"\w+", text)) - defined.keys():
                used[word][path.relative_to(PACKAGE).as_posix()].add(number)
    return [*defined.values(), *used.values()]


def _body(function: ast.FunctionDef) -> set[int]:
    return set(range(function.body[0].lineno, (function.end_lineno or 0) + 1))


def _share(which: Lines, lines: Lines) -> float:
    """How much of some lines is among others."""
    return sum(len(numbers & lines.get(file, set())) for file, numbers in which.items()) / max(
        1, sum(map(len, which.values()))
    )


def _own_lines(statement: ast.stmt) -> set[int]:
    lines = set(range(statement.lineno, (statement.end_lineno or 0) + 1))
    for child in ast.walk(statement):
        if isinstance(child, ast.stmt) and child is not statement:
            lines -= set(range(child.lineno, (child.end_lineno or 0) + 1))
    return lines


def _likeness(mutant: Mutant, test_files: Sequence[str]) -> dict[str, float]:
    """How much each test file is about a bug: it is named for the bug's file, or has rare words of the bug's statement."""
    source = (PACKAGE / mutant.file).read_text()
    lines = statement_of(mutant) or {mutant.change.line}
    near = "\n".join(line for number, line in enumerate(source.splitlines(), 1) if number in lines)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and not lines.isdisjoint(range(node.lineno, (node.end_lineno or 0) + 1)):
            near += f" {node.name} {' '.join(re.findall(r'`(.*?)`', ast.get_docstring(node) or ''))}"
    texts = {file: set(re.findall(r"\w{3,}", (ROOT / file).read_text())) for file in test_files}
    common = Counter(word for words in texts.values() for word in words)
    stem = Path(mutant.file).stem
    found = {}
    for file, words in texts.items():
        rare = sum(1 / common[word] for word in set(re.findall(r"\w{3,}", near)) & words)
        found[file] = 2.0 * bool(re.search(rf"test_{stem}s?\.py", file)) + (stem in words) / 2 + min(2.0, 3 * rare)
    return found


def _with_processes() -> list[str]:
    paths = sorted((ROOT / "tests").glob("test_*.py"))
    names = [f"tests/{path.name}" for path in paths if "sys.executable" in path.read_text()]
    return [
        name for name in names if name not in ("tests/repository/test_fuzz.py", "tests/repository/test_mutation.py")
    ]
