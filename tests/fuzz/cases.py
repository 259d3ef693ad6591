"""Programs of which something else is expected than numbers: what they print, how they fail, what they are refused for.

    class Sum(Case):
        def source(self): return "def k(n):\\n    print(n + 1)\\n"
        def attempt(self, stream): …        what is wrong, in words; None if nothing is

`kinds` has all kinds; `run` tries the cases of a batch one by one.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import sys
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import cuda_device as device

T = TypeVar("T")


class Case(ABC):
    """One program, and what happens when it is compiled and run."""

    kind: ClassVar[str]
    everywhere: ClassVar[bool] = False
    """Whether it is tried on each stream, and not on the CPU alone."""

    def __init__(self, number: int) -> None:
        self.number = number

    @abstractmethod
    def source(self) -> str:
        """What people are shown if it fails."""

    @abstractmethod
    def attempt(self, stream: device.Stream) -> str | None:
        """Tries it, and says what is wrong."""

    def smaller(self) -> Iterator[Case]:
        """Cases with less in them."""
        return iter(())

    def constructs(self) -> Counter[str]:
        """As programs count what is in them."""
        return Counter({self.kind: 1})


def due(number: int, table: Sequence[T], count: int) -> list[T]:
    """The rows of a table whose turn it is with a number: numbers that follow each other, also in steps, come to all of them.

    Multiples of the golden ratio fill the interval from 0 to 1 as evenly as can be.
    """
    return [table[int((number * count + k) * _RATIO % 1 * len(table))] for k in range(count)]


_RATIO = (5**0.5 - 1) / 2


def defined(source: str, name: str, scope: Mapping[str, Any], file: str) -> Any:
    """A function of a source, whose lines errors can show."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = dict(scope)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of `1 is None`
        exec(compile(source, file, "exec", dont_inherit=True), names)
    return names[name]


def printed(run: Callable[[], object]) -> str:
    """What a function and its kernels print: those of a GPU do so behind Python's back."""
    sys.stdout.flush()
    before, shown = os.dup(1), io.StringIO()
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            with contextlib.redirect_stdout(shown):
                run()
        finally:
            os.dup2(before, 1)
            os.close(before)
        file.seek(0)
        return file.read().decode() + shown.getvalue()


def first_difference(found: str, expected: str) -> str | None:
    """The first line that is not as expected."""
    if found == expected:
        return None
    have, want = found.splitlines(), expected.splitlines()
    at = next((i for i, (a, b) in enumerate(zip(have, want, strict=False)) if a != b), min(len(have), len(want)))
    shown = [lines[at] if at < len(lines) else "(nothing)" for lines in (have, want)]
    return f"line {at + 1} of what it prints is {shown[0]!r}, not {shown[1]!r}"
