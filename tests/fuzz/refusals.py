"""Programs that must be refused: what is wrong is said, of the very place, with a remedy, and never is it a bug of ours.

Of two sorts: `Refused` are the programs of `bad_programs`, somewhere else in a file and with other names, whose messages must be
those of the golden texts, but for these; `Broken` are programs of `printing` with one statement that device code has not.
"""

from __future__ import annotations

import random
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bad_programs
import ir_helpers

import cuda_device as device
from cuda_device import ArrayType, compiler
from cuda_device.types.architectures import parse
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.parse import parse as parse_type
from fuzz.breaks import BREAKS
from fuzz.cases import Case, defined, due, first_difference
from fuzz.grammar import Grammar
from fuzz.library import EXPRESSIONS
from fuzz.printing import NAMES, Printing, Statement, statement
from fuzz.pythonic_statements import PARTS, STATEMENTS

GOLDEN = Path(bad_programs.__file__).parent / "golden" / "test_errors"
TARGETS = ("sm_75", "sm_90", "sm_90a", "sm_100", "sm_120")
_OTHERWISE_ON_311 = ("dict_comprehension", "list_of_unknown_length", "call_of_open")
"""Until 3.12 a comprehension is a function of its own, and `open` has another name."""


def known(text: str) -> Known:
    """What is known of an argument: `float32`, `uint8[2]`, `readonly float32[1]`, `const 3`."""
    array = re.fullmatch(r"(readonly |strided )?(\w+)\[(\d)\]", text.strip())
    if array:
        word, dtype, ndim = array.groups()
        layout = "strided" if word == "strided " else "C"
        return of_type(ArrayType(dtype, int(ndim), layout, readonly=word == "readonly "))
    if text.strip().startswith("const "):
        return constant(eval(text.strip().removeprefix("const ")))
    return of_type(parse_type(text.strip()))


def refusal(function: Any, arguments: tuple[Known, ...], target: compiler.Target, **options: Any) -> Any:
    """The error of a kernel that cannot be compiled; None if it can."""
    job = compiler.Job(function.underlying, arguments, True, target, compiler.Options(**options))
    try:
        compiler.run(job, "llvm")
    except device.CompileError as error:
        return error
    return None


AROUND = (
    "{}",
    "{}",
    "if p:\n{}",
    "for w in range(k):\n{}",
    "def inner(a, b):\n{}\n    return a\ninner(n, x)",
    "def inner(a, b):\n{}\n    yield a\nfor w in inner(n, x):\n    print(w)",
)
"""Where a statement may be."""


class Refused(Case):
    """One of the bad programs."""

    kind = "refused"
    at_once = 8

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.random = random.Random(f"refused {number}")
        names = [name for name in bad_programs.PROGRAMS if sys.version_info >= (3, 12) or name not in _OTHERWISE_ON_311]
        (self.name,) = due(number, names, 1)
        self.types, self.text = bad_programs.PROGRAMS[self.name]
        self.above = self.random.randint(0, 30)
        self.on_cpu, self.target = self.random.random() < 0.3, self.random.choice(TARGETS)

    def source(self) -> str:
        return "# a line\n" * self.above + self.text

    def attempt(self, stream: device.Stream) -> str | None:
        kernel = ir_helpers.define(self.source(), file=f"{self.name}.py")
        target = compiler.Target(parse(self.target), self.on_cpu)
        error = refusal(kernel, tuple(map(known, self.types.split(";"))), target, checked=self.random.random() < 0.2)
        if error is None:
            return f"{self.name} is not refused"
        expected = (GOLDEN / f"{self.name}.txt").read_text(encoding="utf-8").rstrip("\n")
        found = re.sub(
            r"(\.py:|from line )(\d+)", self._earlier, re.sub(r"(?m)^( *)(\d+)(?= \| )", self._gutter, str(error))
        )
        if sys.version_info[:2] != (3, 12):
            found, expected = _without_columns(found), _without_columns(expected)
        difference = first_difference(found, expected)
        return difference and f"{self.name}: {difference}".replace("what it prints", "the message")

    def _earlier(self, found: re.Match[str]) -> str:
        return f"{found[1]}{int(found[2]) - self.above}"

    def _gutter(self, found: re.Match[str]) -> str:
        return f"{int(found[2]) - self.above:{len(found[0])}}"


def _without_columns(message: str) -> str:
    lines = [line for line in message.splitlines() if set(line.strip()) != {"^"}]
    return "\n".join(re.sub(r"(\.py:\d+):\d+", r"\1", line) for line in lines)


class Broken(Printing):
    """A good program with a statement that is none for a device: somewhere in it, perhaps in a branch or a function."""

    kind = "broken"
    at_once = 10
    everywhere = False

    def __init__(self, number: int, row: tuple[str, str, str] | None = None) -> None:
        self.break_row = row or due(number, BREAKS, 1)[0]
        super().__init__(number)

    def _statements(self) -> tuple[Statement, ...]:
        grammar = Grammar(EXPRESSIONS | PARTS, self.random)
        rows = [self.random.choice(STATEMENTS) for _ in range(self.random.randint(0, 2))]
        made = [statement(grammar, row) for row in rows]
        self.good = len(made)
        lines = statement(grammar, self.break_row[0])
        around = self.random.choice(AROUND)
        self.called = "inner(" in around
        indent = "    " * (around != "{}")
        broken = around.format("\n".join(indent + line for line in lines)).splitlines()
        self.line = (
            2 + sum(map(len, made)) + next(i for i, line in enumerate(broken) if line.strip() == lines[-1].strip())
        )
        return (*made, tuple(broken))

    def _expected(self) -> str | None:
        """The programs around it are good."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as of `"abc"["a"]`
                compile(self.source(), self.file, "exec", dont_inherit=True)
        except SyntaxError:
            return None
        whole, self.statements = self.statements, self.statements[: self.good]
        found = super()._expected()
        self.statements = whole
        return found

    def attempt(self, stream: device.Stream) -> str | None:
        kernel = device.kernel(defined(self.source(), "k", NAMES, self.file))
        types = ("int", "int", "int", "float", "float", "bool", "bool")
        target = compiler.Target(parse(self.random.choice(TARGETS)), self.random.random() < 0.5)
        error = refusal(kernel, tuple(map(known, types)), target)
        _, reason, remedy = self.break_row
        if error is None:
            return "it is not refused"
        if not re.search(reason, error.reason):
            return f"the reason is {error.reason!r}, not {reason!r}"
        if not re.search(remedy, error.help):
            return f"the help is {error.help!r}, not {remedy!r}"
        if (error.location.file, error.location.line) != (self.file, self.line):
            return f"it is refused at {error.location}, not in line {self.line}"
        outer = [(call.function.rpartition(".")[2], call.arguments) for call in error.chain][-1:]
        if self.called and outer != [("inner", "a: int, b: float")]:
            return f"it is refused in {error.chain}"
        return None

    def smaller(self) -> Iterator[Case]:
        return iter(())
