"""docs/numbers.md: the widths of Python's numbers and the tables of promotion, made from the compiler's own.

`pytest tests/repository/test_numbers_document.py --update-golden` writes the tables; `reference` says independently what they
have to be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import reference

from cuda_device.types import model
from cuda_device.types.promote import divide, promote

DOCUMENT = Path(__file__).parents[2] / "docs" / "numbers.md"
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
FLOATS = "float8e4m3 float8e5m2 float16 bfloat16 float32 float64".split()
COMPLEXES = "complex64 complex128".split()
BUILTIN = {"bool": "`bool`", "int": "`int`", "index": "an index", "float": "`float`", "complex": "`complex`"}
FIXED = (*INTEGERS, *FLOATS, *COMPLEXES)

# The tables of the page: a heading, the operator, the rows and the columns.
TABLES: dict[str, tuple[str, Sequence[str], Sequence[str]]] = {
    "Two Python numbers": ("+", (*BUILTIN,), (*BUILTIN,)),
    "A Python number and a fixed-width integer": ("+", (*BUILTIN,), INTEGERS),
    "A Python number and a fixed-width float or complex number": ("+", (*BUILTIN,), (*FLOATS, *COMPLEXES)),
    "Two fixed-width integers": ("+", INTEGERS, INTEGERS),
    "Two fixed-width floats or complex numbers": ("+", (*FLOATS, *COMPLEXES), (*FLOATS, *COMPLEXES)),
    "A fixed-width integer and a fixed-width float or complex number": ("+", INTEGERS, (*FLOATS, *COMPLEXES)),
    "The quotient `/` of integers": ("/", ("int", *INTEGERS), ("int", *INTEGERS)),
}
PROMOTE: dict[str, Callable[[model.Number, model.Number], model.Number | None]] = {"+": promote, "/": divide}


def number(name: str) -> model.Number:
    return model.NUMBERS[name]


def result(operator: str, a: str, b: str) -> str:
    """The type of `a + b` or `a / b`, as the compiler has it; empty where that is an error."""
    found = PROMOTE[operator](number(a), number(b))
    return "" if found is None else str(found)


def table(operator: str, rows: Sequence[str], columns: Sequence[str]) -> str:
    def shown(name: str) -> str:
        return BUILTIN.get(name, name)

    lines = [["", *map(shown, columns)], ["---"] * (len(columns) + 1)]
    lines += [[f"**{shown(a)}**", *(shown(result(operator, a, b)) or "—" for b in columns)] for a in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def with_tables(text: str) -> str:
    """The page with its tables made anew: each stands below its heading."""
    for heading, rows in TABLES.items():
        pattern = rf"(### {re.escape(heading)}\n\n)(?:\|.*\n)*\n?"
        text, found = re.subn(pattern, lambda m, rows=rows: m[1] + table(*rows) + "\n", text)  # type: ignore[misc]
        assert found == 1, heading
    return text.rstrip() + "\n"


def test_the_tables_are_the_compilers(update_golden: bool) -> None:
    text = with_tables(DOCUMENT.read_text())
    if update_golden:
        DOCUMENT.write_text(text)
    assert DOCUMENT.read_text() == text, "pytest --update-golden tests/repository/test_numbers_document.py"


@pytest.mark.parametrize("heading", TABLES)
def test_the_tables_are_right(heading: str) -> None:
    operator, rows, columns = TABLES[heading]
    for a in rows:
        for b in columns:
            assert result(operator, a, b) == (reference.result_type(operator, a, b) or ""), (a, b)


def test_every_number_is_in_the_tables() -> None:
    assert set(FIXED) == set(model.FIXED_NUMBERS)
