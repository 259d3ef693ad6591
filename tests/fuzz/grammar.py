"""Texts made of the rows of a grammar: a symbol in angle brackets stands for one of its rows, chosen at random.

    Grammar({"int": ["n", "(<int> + <int>)"]}).make("int", 3)        "(n + (n + n))"

`<int a>` is made once, and is the same text wherever it has this name in a row. Below some depth only rows without symbols of
the grammar are chosen. `<#3>` is a number of 0 to 2, `<new>` a name that nothing has yet.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

_HOLE = re.compile(r"<(?P<symbol>#\d+|[a-z]+)(?: (?P<name>\w+))?>")


def rows(text: str) -> list[str]:
    """The rows in a text, with two blanks or the end of a line between them."""
    return [row.replace("\\n", "\n") for row in re.split(r"\s*\n\s*|\s{2,}", text.strip())]


def statements(text: str) -> tuple[str, ...]:
    """The statements in a text, with an empty line between them."""
    return tuple(text.strip("\n").split("\n\n"))


class Grammar:
    """Makes texts."""

    def __init__(self, rows: Mapping[str, Sequence[str]], choose: random.Random) -> None:
        self.rows = {symbol: list(each) for symbol, each in rows.items()}
        self.leaves = {symbol: [row for row in each if self._is_leaf(row)] for symbol, each in self.rows.items()}
        self.random, self.count = choose, 0
        self.kept: dict[str, list[str]] = {}

    def _is_leaf(self, row: str) -> bool:
        return all(found["symbol"] not in self.rows for found in _HOLE.finditer(row))

    def add(self, symbol: str, text: str) -> None:
        """From here on there is one leaf more: a variable, say, which is chosen as often as all others together."""
        self.kept.setdefault(symbol, []).append(text)

    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return f"v{self.count}"

    def make(self, symbol: str, depth: int) -> str:
        """A text for a symbol."""
        rows = self.rows[symbol]
        if depth <= 0 and self.leaves[symbol]:
            rows = self.leaves[symbol]
        if symbol in self.kept and self.random.random() < (0.3 if depth > 0 else 0.5):
            return self.random.choice(self.kept[symbol])
        return self.fill(self.random.choice(rows), depth - 1)

    def fill(self, row: str, depth: int) -> str:
        """A row with texts in its holes."""
        named: dict[str, str] = {}

        def hole(found: re.Match[str]) -> str:
            symbol, name = found["symbol"], found["name"]
            if name and f"{symbol} {name}" in named:
                return named[f"{symbol} {name}"]
            if symbol.startswith("#"):
                text = str(self.random.randrange(int(symbol[1:])))
            elif symbol == "new":
                text = self.fresh()
            else:
                text = self.make(symbol, depth)
            if name:
                named[f"{symbol} {name}"] = text
            return text

        return _HOLE.sub(hole, row)
