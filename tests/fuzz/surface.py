"""What device code says of each thing that a program can write with each kind of value: the type, the constant, or the refusal.

    {0} + {1}  of  n, x       → float
    {0}.upper  of  n          int has no attribute 'upper' in device code | there are real, imag, …

A row is a template and the operands in its holes. There are some 29,000, of a millisecond each, since nothing but types is
inferred. What each gives is recorded in tests/golden/test_surface (`pytest tests/test_surface.py --update-golden`): a result as
it is, a refusal as a few digits of a hash of its reason and its remedy. The fuzzer compares some hundred rows in each case.
"""

from __future__ import annotations

import ast
import cmath
import copy
import enum
import functools
import hashlib
import math
import operator
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cuda_device as device
from cuda_device.device.target import selector
from cuda_device.errors import CompileError
from cuda_device.infer.engine import Inference
from cuda_device.types.known import Known, of_type
from cuda_device.types.parse import parse
from fuzz.cases import defined
from fuzz.surface_templates import FUNCTIONS, METHODS, PAIRS, TABLES


@device.struct
class Spot:
    """A struct with a default, a constant, a method, a property and operators."""

    a: int
    b: float = 0.5
    width = 3

    def total(self, more: int = 1) -> float:
        """Both."""
        return self.a + self.b * more

    @property
    def first(self) -> int:
        """One."""
        return self.a

    def __add__(self, other: Any) -> Any:
        return self.a + 1

    def __lt__(self, other: Any) -> Any:
        return self.a < 2

    def __len__(self) -> int:
        return 2


class Pair(NamedTuple):
    """Two."""

    first: Any
    second: Any = 7


class Color(enum.Enum):
    """Names of numbers."""

    RED = 1
    BLUE = 4


class Bits(enum.IntFlag):
    """Numbers that are joined."""

    LOW = 1
    HIGH = 8


TABLE = np.dtype([("a", "i4"), ("row", "f4", (3,)), ("grid", "i2", (2, 2)), ("v", "c8")])
PARAMETERS: dict[str, Any] = {
    "n": "int", "p": "bool", "x": "float", "z": "complex", "u": "uint8", "w": "int64", "h": "float16", "d": "float64",
    "c": "complex64", "v": "vector<int32, 2>", "g": "vector<float32, 3>", "a": "array<float32, 1, C>",
    "m": "array<int16, 2, strided>", "i": "index", "b": device.ArrayType(TABLE, 1),
}  # fmt: skip
NAMES: dict[str, Any] = {
    "device": device, "np": np, "math": math, "cmath": cmath, "operator": operator, "functools": functools, "Spot": Spot,
    "Pair": Pair, "Color": Color, "Bits": Bits, "TABLE": (4, 7, -2), "LIST": [3, 1.5, 8], "DICT": {"a": 1, "b": 2.5},
    "ARRAY": np.arange(6, dtype=np.int16).reshape(2, 3), "NUMBER": np.float32(1.5), "RECORDS": np.zeros(2, TABLE),
}  # fmt: skip
OPERANDS = {name: name for name in PARAMETERS} | {
    "t": "(n, x, 2)", "l": "[n, 5, n]", "f": "{'a': n, 1: x}", "r": "range(n)", "R": "range(2, 9, 3)", "o": "None",
    "k": "'abc'", "y": "b'ab'", "j": "Pair(n, x)", "e": "Color.RED", "E": "Color(n)", "q": "f'{n} a'", "s": "Spot(n, x)",
    "I": "iter((n, 2))", "T": "TABLE", "L": "LIST", "D": "DICT", "A": "ARRAY", "N": "NUMBER", "C": "5", "F": "2.5", "J": "(1+2j)",
    "B": "True", "S": "slice(1, n)", "M": "cmath", "O": "Spot", "P": "int", "U": "device.uint8", "W": "(lambda w: w)",
    "X": "device.atomic_ref(a, 0)", "G": "Bits.LOW", "V": "{}", "K": "[]", "Q": "(w + n for w in (1, 2))",
    "Y": "device.local_array(3, Spot)[n]", "Z": "(n, (x, n))", "H": "{1, 4}",
    "1": "b[0]['row']", "2": "b[n]['grid']", "3": "b['row']", "4": "device.local_array((2, 3), device.complex64)", "5": "RECORDS",
    "6": "RECORDS[0]['row']", "7": "b[n]", "8": "device.local_array(2, Spot)", "9": "device.shared_array(4, device.float32x2)",
}  # fmt: skip
ALL = "".join(OPERANDS)
MIXED = "npxzuwvatlkCs"
"""Those that are tried in pairs."""
FEW = "npxzuhdvCJtkA"
"""Those that functions of numbers get."""


class Row(NamedTuple):
    """A template, and the names of its operands."""

    template: str
    operands: str

    def expression(self) -> str:
        """With the operands in their places."""
        return self.template.format(*(OPERANDS[name] for name in self.operands))

    def source(self) -> str:
        """A function that gives what the row says."""
        text = self.expression()
        lines = text.splitlines() if "\n" in text or text.startswith("import") else [f"return {text}"]
        return "\n".join([f"def k({', '.join(self.parameters())}):", *(f"    {line}" for line in lines)]) + "\n"

    def parameters(self) -> list[str]:
        """Those that it reads."""
        words = set(re.findall(r"\b\w\b", self.expression()))
        return [name for name in PARAMETERS if name in words]


_NOT_THESE = (("Color({0})", "5"), ("Bits({0})", "5"))
"""What versions of CPython raise in other ways."""


@functools.cache
def every() -> tuple[Row, ...]:
    """All rows, always in the same order."""
    return tuple(dict.fromkeys(_rows()))


def _rows() -> Iterator[Row]:
    for table in TABLES.values():
        yield from (Row(template, name) for template in table for name in ALL if (template, name) not in _NOT_THESE)
    for names, templates in METHODS.items():
        yield from (Row(template, name) for template in templates for name in names)
    for module, functions in FUNCTIONS.items():
        yield from (Row(f"{module}.{function}({{0}})", name) for function in functions.split() for name in FEW)
    yield from (Row(template, a + b) for template in PAIRS for a in MIXED for b in MIXED)


# What they give


@functools.cache
def _type(name: str) -> Known:
    type = PARAMETERS[name]
    return of_type(parse(type) if isinstance(type, str) else type)


def outcome(row: Row) -> str:
    """What device code says: the type and what is known, or the refusal."""
    source, file = row.source(), "<surface>"
    try:
        function = defined(source, "k", NAMES, file)
    except SyntaxError:
        return "no Python"
    program = Inference(selector("sm_90"), False, False)
    try:
        main = program.specialise(function, tuple(map(_type, row.parameters())))
        program.infer(main)
        if main.error is not None:
            raise main.error
    except CompileError as error:
        place = error.location
        if place.file != file or not 2 <= place.line <= source.count("\n"):
            return f"it is refused in {Path(place.file).name}: {error.reason}"
        return _shown(f"{error.reason} | {error.help or 'no help'}")
    return f"→ {_known(main.result)}"


def _known(known: Any) -> str:
    """A type, and what is known of a value."""
    if not isinstance(known, Known):
        return "nothing"
    if known.constant:
        return _shown(f"{known.type} = {known.python!r}")
    items = ", ".join(map(_known, known.items))
    bounds = f" {known.low}..{known.high}" if (known.low, known.high) != (None, None) else ""
    return f"{known.type}{bounds}{f' ({items})' if items else ''}"


_PASSING = re.compile(r" at 0x[0-9a-f]+| from '[^']*\.so'| \(built-in\)|(?<= raised )(\w+): .*?(?= \|)")


def _shown(text: str) -> str:
    """Without what is another each time, or with another Python."""
    return _PASSING.sub(lambda found: found[1] or "", text.replace("\n", " "))


# The record and CPython

_NOT_ALIKE = re.compile(r"NUMBER|RECORDS|print|True|Bits|float(16|8)\w*\(")
"""What device code has in another way than CPython."""

RECORD = Path(__file__).parents[1] / "golden" / "test_surface" / "rows.txt"


@functools.cache
def groups() -> tuple[tuple[Row, ...], ...]:
    """The rows of each template that have one outcome."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in every():
        found.setdefault((row.template, recorded()[row]), []).append(row)
    return tuple(map(tuple, found.values()))


def written(outcomes: Iterable[tuple[Row, str]]) -> str:
    """The record of what rows give: of each template a line for each outcome."""
    found: dict[str, dict[str, list[str]]] = {}
    for row, said in outcomes:
        found.setdefault(row.template, {}).setdefault(brief(said), []).append(row.operands)
    lines = []
    for template, outcomes_of in found.items():
        lines.append(repr(template))
        lines += [f"  {said}  of {' '.join(operands)}" for said, operands in outcomes_of.items()]
    return "\n".join(lines) + "\n"


def brief(said: str) -> str:
    """An outcome as it is recorded."""
    return said if said.startswith("→") else hashlib.sha256(said.encode()).hexdigest()[:5]


@functools.cache
def recorded() -> dict[Row, str]:
    """What is recorded of each row."""
    found, template = {}, ""
    for line in RECORD.read_text(encoding="utf-8").splitlines():
        if not line.startswith("  "):
            template = ast.literal_eval(line)
            continue
        said, _, operands = line[2:].rpartition("  of ")
        found |= {Row(template, each): said for each in operands.split(" ")}
    return found


def wrong(row: Row) -> str | None:
    """What is not as recorded, or of constants not as CPython has it."""
    said = outcome(row)
    if brief(said) != recorded()[row] and not (sys.version_info < (3, 12) and _is_otherwise(row, said)):
        return f"{row.expression()!r} gives {said!r} ({brief(said)}), not {recorded()[row]!r}"
    expected = of_cpython(row)
    if expected is not None and re.match(r"→ \w+ = ", said) and said.partition(" = ")[2] != expected:
        return f"{row.expression()!r} gives {said!r}, and in CPython {expected}"
    return None


def _is_otherwise(row: Row, said: str) -> bool:
    """Whether CPython 3.11 is why a row is not as recorded: f-strings with quotes, bounds that loops have, methods of int."""
    same = _BOUNDS.sub("", said) == _BOUNDS.sub("", recorded()[row])
    return same or said == "no Python" or row.template.startswith("{0}.is_integer")


_BOUNDS = re.compile(r" -?\w+\.\.-?\w+")


def of_cpython(row: Row) -> str | None:
    """What an expression of constants is, if it is a number or a text."""
    text = row.expression()
    if row.parameters() or "\n" in text or _NOT_ALIKE.search(text):
        return None
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = eval(text, NAMES | {name: copy.copy(NAMES[name]) for name in ("LIST", "DICT")})
    except Exception:
        return None
    return _shown(repr(value)) if type(value) in (bool, int, float, complex, str) else None
