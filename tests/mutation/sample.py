"""Which bugs are planted: drawn by a seed from all places of the front end, the passes and codegen."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .mutants import Change, places

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "cuda_device"
FOLDERS = (
    "bytecode",
    "ir",
    "infer",
    "library",
    "lower",
    "optimise",
    "instrument",
    "device",
    "codegen",
    "cache",
    "types",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of a file, whose name is as in the package: `lower.py`."""

    file: str
    change: Change

    def text(self, package: Path = PACKAGE) -> str:
        """The changed file."""
        return self.change.applied((package / self.file).read_text())

    def __str__(self) -> str:
        return f"{self.file} {self.change}"


def all_places(only: str = "") -> list[tuple[str, tuple[Change, ...]]]:
    """Every place of every file whose name has `only` in it."""
    names = [
        path.relative_to(PACKAGE).as_posix() for folder in FOLDERS for path in sorted((PACKAGE / folder).rglob("*.py"))
    ]
    return [
        (name, place)
        for name in names
        if only in name
        for place in places((PACKAGE / name).read_text(), texts_are_code=name.startswith("codegen/"))
    ]


def drawn(seed: int, only: str = "") -> Iterator[Mutant]:
    """Bugs, without an end but that of the places. Each place is as likely as each other, and each change of one place."""
    rng = random.Random(seed)
    every = all_places(only)
    rng.shuffle(every)
    for name, changes in every:
        mutant = Mutant(name, rng.choice(changes))
        if _makes_a_difference(mutant):
            yield mutant


def _makes_a_difference(mutant: Mutant) -> bool:
    """Whether it is Python, and another program."""
    try:
        changed = ast.parse(mutant.text())
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse((PACKAGE / mutant.file).read_text()))
