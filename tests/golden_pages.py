"""Golden texts, several in one file: a page of them is what a person reads, a text is what one test compares.

    === saxpy
    func @saxpy(...) { ... }
    === scale
    ...
    === scale (3.11)
    ...

Where one release of Python gives another text than the others, it stands beside theirs. `conftest.golden` compares a text with
the one on its page. `--update-golden` writes it there: to this release's own text where there is one, else to the one of all;
`--update-golden --apart` makes an own text of those that differ.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

Golden = Callable[..., None]
"""The fixture `golden`: it takes a name, a text, and the page if it is not the one of the test's module."""
GOLDEN = Path(__file__).parent / "golden"
RELEASE = f"{sys.version_info.major}.{sys.version_info.minor}"
RECORDED = ("3.11", "3.12")
"""The releases for which texts have been written: others may differ in positions within a line and in the order of blocks."""
recorded = pytest.mark.skipif(
    RELEASE not in RECORDED, reason=f"golden texts are those of CPython {' and '.join(RECORDED)}"
)
_HEAD = "=== "


def path_of(page: str) -> Path:
    """The file of a page: `test_errors/constants` is tests/golden/test_errors/constants.txt."""
    return GOLDEN / f"{page}.txt"


def read(page: str) -> dict[str, str]:
    """The texts on a page by their names; none where there is no such page."""
    path = path_of(page)
    return texts_in(path) if path.exists() else {}


def texts_in(path: Path) -> dict[str, str]:
    """The texts in a file by their names."""
    texts: dict[str, str] = {}
    name = ""
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith(_HEAD):
            name = line.removeprefix(_HEAD).strip()
            assert name not in texts, f"{path}: two texts are called {name}"
            texts[name] = ""
        else:
            texts[name] += line
    return texts


def text_of(page: str, name: str) -> str:
    """The text of this release of Python, or else of all; empty where there is none."""
    texts = read(page)
    return texts.get(f"{name} ({RELEASE})", texts.get(name, ""))


def update(page: str, name: str, text: str, apart: bool = False) -> None:
    """Writes one text to its page; other processes may write others to the same page meanwhile.

    Where it differs from the text of all releases, `apart` makes it the text of this one.
    """
    assert text.endswith("\n") and f"\n{_HEAD}" not in f"\n{text}", f"{name} cannot be told from what follows it"
    own = f"{name} ({RELEASE})"
    with _locked():
        before = read(page)
        after = {**before, own if own in before or (apart and name in before) else name: text}
        if after.get(own) == after[name]:
            del after[own]
        if after != before:
            _write(page, after)


def _write(page: str, texts: Mapping[str, str]) -> None:
    path = path_of(page)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{_HEAD}{name}\n{texts[name]}" for name in sorted(texts)), encoding="utf-8")


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Holds the lock of all pages: one process writes at a time."""
    file = os.open(GOLDEN, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
