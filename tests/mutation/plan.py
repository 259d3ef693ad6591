"""Which tests may notice a bug, the likeliest and quickest first, from the lines that each test runs (`tests.mutation.lines`).

Only a test that comes to the function of a bug can notice it; where a bug is outside of functions, in a table, each can.
Tests that start other processes may come there unseen: they are the last ones.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutation.sample import PACKAGE, ROOT, Mutant

FIRST = 8  # files that are tried before the others are even imported


@dataclass(frozen=True, slots=True)
class Plan:
    """The test files in two parts, and the rank of each test."""

    files: tuple[tuple[str, ...], tuple[str, ...]]
    order: dict[str, int]


@dataclass(slots=True)
class Reach:
    """What each test, and the fuzzer, comes to."""

    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    fuzzer: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Reach:
        """From a folder of one file for each test file, and `fuzzer.json`."""
        reach = cls()
        for path in sorted(folder.glob("test_*.json")):
            reach.tests |= json.loads(path.read_text())["tests"]
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

    def fuzzer_comes_to(self, mutant: Mutant) -> bool:
        """Whether the fuzzer runs the function of a bug."""
        lines = function_of(mutant)
        return lines is None or not lines.isdisjoint(self.fuzzer.get(mutant.file, ()))

    def plan(self, mutant: Mutant) -> Plan:
        """The tests to run, in their order."""
        body, line = function_of(mutant), mutant.change.line
        ranks: dict[str, tuple[int, float]] = {}
        weights: dict[str, list[int]] = {}
        for name, record in self.tests.items():
            if record["outcome"] == "skipped":
                continue
            lines = record["lines"].get(mutant.file, ())
            comes = body is None or not body.isdisjoint(lines)
            weights.setdefault(name.split("::")[0], []).append(comes)
            if comes:
                ranks[name] = (int(line not in lines), record["seconds"])
        named = {file: _names(file, mutant.file) for file in weights}
        files = [file for file, comes in weights.items() if any(comes)]
        files.sort(key=lambda file: (-named[file], -sum(weights[file]) / len(weights[file])))
        others = [file for file in _with_processes() if file not in files]
        order = {name: rank for rank, name in enumerate(sorted(ranks, key=ranks.__getitem__))}
        return Plan((tuple(files[:FIRST]), (*files[FIRST:], *others)), order)


def function_of(mutant: Mutant) -> set[int] | None:
    """The lines of the innermost function around a bug; None if it is outside of all."""
    line, found = mutant.change.line, None
    for node in ast.walk(ast.parse((PACKAGE / mutant.file).read_text())):
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line <= (node.end_lineno or 0):
            found = set(range(node.body[0].lineno, (node.end_lineno or 0) + 1))  # outer ones come first
    return found


def _names(test_file: str, file: str) -> int:
    """Whether a test file is named for a file of the compiler, or at least imports it."""
    stem = Path(file).stem
    if re.search(rf"test_{stem}s?\.py", test_file):
        return 2
    return int(re.search(rf"\b{stem}\b", "\n".join(_imports(ROOT / test_file))) is not None)


def _imports(path: Path) -> Iterator[str]:
    return (line for line in path.read_text().splitlines() if re.match(r"\s*(from|import) ", line))


def _with_processes() -> list[str]:
    paths = sorted((ROOT / "tests").glob("test_*.py"))
    names = [f"tests/{path.name}" for path in paths if "sys.executable" in path.read_text()]
    return [name for name in names if name not in ("tests/test_fuzz.py", "tests/test_mutation.py")]
