"""Programs of plain Python that print, in device code and in CPython: both print the same, or end in the same way.

def k(n, m, k, x, y, p, q):           the parameters are numbers of run time
    v1 = [n, 2, m]
    print(v1[::-1], f"{x:8.3f}")
    print(m // (n - 3))               in checked mode: what CPython raises here, device code reports here
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import operator
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

import cuda_device as device
from fuzz import library
from fuzz.cases import Case, defined, due, first_difference, printed
from fuzz.grammar import Grammar
from fuzz.library import EXPRESSIONS
from fuzz.pythonic_statements import FAULTS, PARTS, STATEMENTS


@device.struct
class Point:
    """A struct with a method, an operator and a default."""

    a: int
    b: float = 0.25

    @device.func
    def total(self) -> float:
        """Both."""
        return self.a + self.b

    @device.func
    def moved(self, by: int) -> Point:
        """Another one."""
        return Point(self.a + by, self.b)

    def __add__(self, other: Point) -> Point:
        return Point(self.a + other.a, self.b - other.b)


NAMES: dict[str, Any] = {
    "device": device, "Point": Point, "math": math, "functools": functools,
    "operator": operator, "np": np,
    "TABLE": (4, 7, -2, 0, 9), "WORDS": ("a", "bc", ""), "PAIRS": {"one": 1, "two": (2, 3)}, **library.NAMES,
}  # fmt: skip
PARAMETERS = ("n", "m", "k", "x", "y", "p", "q")
_NOT_ALIKE = re.compile(r"\d{7}|\d\.\d{6}|e-\d\d|nan|inf|np\.|(?<![\d.][+-])(?<![\d.])\d[\d.]*j")
"""Numbers that have more digits than float32, and that fewer would show otherwise; and complex ones without a real part."""
OF_NUMPY = re.compile(r"np\.(?:bool|u?int|float|complex|long|str)\w*\(([^(),]*)\)")
"""How NumPy shows its numbers."""
_WIDE = re.compile(r"W *\S+")
"""Behind this letter there may be more."""


def is_alike(text: str) -> bool:
    """Whether what CPython prints is what device code does."""
    return not _NOT_ALIKE.search(_WIDE.sub("", text))


SHOWN = library.shown(EXPRESSIONS | PARTS)
"""Each row of each table, in a statement that shows what it is."""

Statement = tuple[str, ...]


class _Numpy:
    """NumPy whose numbers are Python's, as they are in device code."""

    newaxis = None

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            found = getattr(np, name)(*given)
            return found.item() if isinstance(found, np.generic) else found

        return call


def statement(grammar: Grammar, row: str) -> Statement:
    """The lines of a statement. What it leaves behind is a leaf of the grammar from here on."""
    body, _, given = row.partition(";=")
    new: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return new.setdefault(found[1], grammar.fresh())

    def edited(found: re.Match[str]) -> str:
        row = grammar.random.choice(PARTS[found[1]])
        return re.sub(r"(?<!{){}", new["a"], row).replace("{{", "{").replace("}}", "}")

    body = re.sub(r"<(edit|change) a>", edited, re.sub(r"<new (\w)>", named, body))
    text = grammar.fill(body, 2)
    if given:
        symbol, _, leaf = re.sub(r"<new (\w)>", named, given).partition(" ")
        grammar.add(symbol, grammar.fill(leaf, 0))
    return tuple(text.splitlines())


class Printing(Case):
    """A program that prints."""

    kind: ClassVar[str] = "printing"
    everywhere = True

    def __init__(self, number: int, statements: Sequence[Statement] = (), given: tuple[Any, ...] = ()) -> None:
        super().__init__(number)
        self.random = random.Random(f"{self.kind} {number}")
        self.statements, self.given, self.raised = tuple(statements), given, ""
        self.tries = 0
        self.expected = self._expected() if statements else None
        while self.expected is None and not statements:
            self.given, self.statements = self._numbers(), self._statements()
            self.expected = self._expected()

    def _numbers(self) -> tuple[Any, ...]:
        choose = self.random
        n, m, k = choose.randint(-9, 12), choose.randint(-9, 12), choose.randint(1, 5)
        x, y = (choose.randint(-12, 12) / 4 for _ in range(2))
        return n, m, k, x, y, choose.random() < 0.5, choose.random() < 0.5

    def _statements(self) -> tuple[Statement, ...]:
        """Some at random, and those whose turn it is; the latter not all, if no program can be made of them."""
        self.tries += 1
        grammar = Grammar(EXPRESSIONS | PARTS, self.random)
        rows = [self.random.choice(STATEMENTS) for _ in range(self.random.randint(1, 3))]
        rows += [row for row in self.due() if self.random.random() < 8 / max(8, self.tries)]
        return tuple(statement(grammar, row) for row in rows)

    def due(self) -> list[str]:
        """The rows of the grammar whose turn it is."""
        return [*due(self.number, STATEMENTS, 5), *due(self.number, SHOWN, 8)]

    def source(self) -> str:
        """A function of the parameters."""
        lines = [f"    {line}" for each in self.statements for line in each]
        return "\n".join([f"def k({', '.join(self.parameters())}):", *lines]) + "\n"

    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters."""
        return PARAMETERS

    def names(self, on_host: bool) -> dict[str, Any]:
        """What the program finds outside of its functions."""
        return NAMES | {"np": _Numpy()} if on_host else NAMES

    def arguments(self) -> tuple[Any, ...]:
        """What they are, made anew."""
        return self.given

    def launched(self, stream: device.Stream) -> tuple[Any, ...]:
        """The same, where a kernel on a stream can use them."""
        return self.arguments()

    def _run(self, out: io.StringIO) -> None:
        """Runs it in CPython."""
        self.run_in_cpython(out, self.arguments())

    def run_in_cpython(self, out: io.StringIO, arguments: Sequence[Any]) -> None:
        """Calls it."""
        with contextlib.redirect_stdout(out):
            defined(self.source(), "k", self.names(on_host=True), self.file)(*arguments)

    def _expected(self) -> str | None:
        """What CPython prints; None if the program raises, or has numbers that are not the same in device code."""
        out = io.StringIO()
        try:
            self._run(out)
        except Exception:
            return None
        text = OF_NUMPY.sub(r"\1", out.getvalue())
        return text if is_alike(text) and len(text) <= 4000 else None

    @property
    def file(self) -> str:
        """What errors call it."""
        return f"<{self.kind} {self.number}>"

    def launch(self, stream: device.Stream, **options: Any) -> None:
        """Runs it in one thread."""
        kernel = device.kernel(**options)(defined(self.source(), "k", self.names(on_host=False), self.file))
        device.launch(kernel, *self.launched(stream), grid=1, block=1, stream=stream)
        device.synchronize(stream)

    def attempt(self, stream: device.Stream) -> str | None:
        level = self.number % 4 if self.number % 4 in (0, 3) else 2
        assert self.expected is not None
        return first_difference(printed(lambda: self.launch(stream, level=level)), self.expected)

    def smaller(self) -> Iterator[Case]:
        """Without one of the statements."""
        for i in range(len(self.statements)):
            less = type(self)(self.number, (*self.statements[:i], *self.statements[i + 1 :]), self.given)
            if less.expected is not None:
                yield less


class Failing(Printing):
    """A program that ends in the middle: in checked mode what CPython raises is reported, of the same line."""

    kind = "failing"
    everywhere = False

    def _statements(self) -> tuple[Statement, ...]:
        grammar = Grammar(EXPRESSIONS | PARTS, self.random)
        rows = [self.random.choice(STATEMENTS) for _ in range(self.random.randint(1, 3))]
        return tuple(statement(grammar, row) for row in (*rows, self.random.choice(FAULTS), "print('behind')"))

    def _expected(self) -> str | None:
        out = io.StringIO()
        try:
            self._run(out)
        except (AssertionError, ValueError, ZeroDivisionError, IndexError) as error:
            self.raised = _reported(error)
            place = error.__traceback__
            while place is not None:
                if place.tb_frame.f_code.co_filename == self.file:
                    self.line = place.tb_lineno
                place = place.tb_next
            text = out.getvalue()
            return text if is_alike(text) and self.raised else None
        except Exception:
            return None
        return None

    def attempt(self, stream: device.Stream) -> str | None:
        errors: list[device.KernelError] = []

        def run() -> None:
            try:
                self.launch(stream, checked=True, level=self.number % 4)
            except device.KernelError as error:
                errors.append(error)

        text = printed(run)
        assert self.expected is not None
        if not errors:
            return "nothing is reported"
        (error,) = errors
        if not re.search(self.raised, str(error)):
            return f"{str(error).splitlines()[0]!r} is reported, not {self.raised!r}"
        if (error.location.file, error.location.line) != (self.file, self.line):
            return f"it is reported at {error.location}, not in line {self.line}"
        if (error.thread, error.block) != ((0, 0, 0),) * 2:
            return f"it is reported of thread {error.thread} of block {error.block}"
        return first_difference(text, self.expected)


def _reported(error: Exception) -> str:
    """The pattern of what checked device code says where CPython raises this."""
    text = re.escape(str(error))
    match error:
        case ZeroDivisionError():
            return "division by zero|cannot be raised"
        case IndexError():
            return r"index -?\d+ is out of bounds"
        case AssertionError():
            return f"AssertionError: {text}$|assertion failed: {text}|{text}" if text else "assert"
    return f"^ValueError: {text}" if text else "ValueError"
