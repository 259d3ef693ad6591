"""What device code says of all that a program can write with each kind of value is what is recorded, and what CPython says.

`pytest tests/test_surface.py --update-golden` records it.
"""

from __future__ import annotations

import pytest
from fuzz import surface

STRIDE = 12


def test_every_row_is_recorded(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--update-golden"):
        surface.RECORD.parent.mkdir(exist_ok=True)
        surface.RECORD.write_text(surface.written((row, surface.outcome(row)) for row in surface.every()), "utf-8")
        surface.recorded.cache_clear()
    assert set(surface.recorded()) == set(surface.every())


@pytest.mark.parametrize("first", range(0, STRIDE, 4))
def test_rows_give_what_is_recorded(first: int) -> None:
    assert [said for row in surface.every()[first::STRIDE] if (said := surface.wrong(row))] == []


def test_results_are_recorded_as_they_are_and_refusals_briefly() -> None:
    rows = surface.Row("{0} + {1}", "nx"), surface.Row("{0} + {1}", "xn"), surface.Row("{0}.foo", "n")
    text = surface.written((row, surface.outcome(row)) for row in rows)
    assert text.splitlines()[:2] == ["'{0} + {1}'", "  → float  of nx xn"]
    assert surface.outcome(rows[2]).startswith("int has no attribute 'foo' in device code | there are real")
    assert surface.brief(surface.outcome(rows[2])) in text


def test_a_result_that_is_not_pythons_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    row = surface.Row("{0} * 2", "C")
    assert surface.wrong(row) is None
    monkeypatch.setattr(surface, "outcome", lambda _: "→ int = 11")
    monkeypatch.setattr(surface, "recorded", lambda: {row: "→ int = 11"})
    assert "CPython" in (surface.wrong(row) or "")
