"""Lists and dicts in lists, dicts, tuples and variables: one object under several names, changed by any of them, anywhere.

    v1 = [n, 2, m]
    v2 = [v1, [1, k, 0]]
    def v3(v4, v5):
        v4[0], v5[1] = v5[2], v4[0]
        return v5
    v6 = v3(v2[1], v1)
    v2[n % 2][0] += 1

Numbers stay small, so that no type has too few bits for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from fuzz.composed import Composed
from fuzz.printing import Statement

_BY_RUN_TIME = re.compile(
    r"on one way here and .* on another|no common type|on the way that leads here|cannot hold itself|would depend on run time|"
    "`is` compares with None"
)
"""Which list something is has to be known while compiling: not every program of these is one for device code."""


@dataclass
class Scope:
    """What can be named: numbers, lists of three numbers, what holds two such lists, functions of two lists."""

    numbers: list[str] = field(default_factory=lambda: ["n", "m", "k"])
    rows: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def copy(self) -> Scope:
        """One that can grow."""
        return Scope(self.numbers[:], self.rows[:], self.tables[:], self.functions[:])


class Aliasing(Composed):
    """A program of objects that have several names."""

    kind: ClassVar[str] = "aliasing"
    by_run_time = _BY_RUN_TIME

    def _statements(self) -> tuple[Statement, ...]:
        self.count, self.left = 0, self.random.randint(10, 25)
        scope = Scope()
        found = [self._new_row(scope), self._new_row(scope), self._new_table(scope), self._new_function(scope)]
        while self.left > 0:
            found.append(self._statement(scope, 2, True))
        return (*map(tuple, found), *((f"print({each})",) for each in [*scope.numbers[3:], *scope.rows, *scope.tables]))

    # Expressions

    def _place(self) -> str:
        return self.random.choice(("0", "1", "2", "-1", "n % 3", "m % 2"))

    def _number(self, scope: Scope, depth: int = 2) -> str:
        choose, what = self.random, self.random.random()
        if depth <= 0 or what < 0.25:
            return choose.choice((*scope.numbers, str(choose.randint(0, 9))))
        if what < 0.6:
            return f"{self._row(scope, 1)}[{self._place()}]"
        if what < 0.7:
            return f"({self._number(scope, depth - 1)} {choose.choice('+-')} {self._number(scope, depth - 1)})"
        row = self._row(scope, 1)
        if what < 0.8:
            return choose.choice(
                (f"sum({row})", f"max({row})", f"len({row})", f"{row}.count({self._number(scope, 0)})")
            )
        if what < 0.9 and scope.tables:
            table = choose.choice(scope.tables)
            return choose.choice((f"sum(w[1] for w in {self._rows_of(table)})", f"{table}[n % 2][{self._place()}]"))
        return f"({self._number(scope, 0)} if {self._condition(scope)} else {self._number(scope, depth - 1)})"

    def _condition(self, scope: Scope) -> str:
        compared = f"{self._number(scope, 1)} {self.random.choice(('<', '==', '>='))} {self._number(scope, 0)}"
        return self.random.choice(("p", "not q", compared, compared, f"{self._row(scope, 0)} is {self._row(scope, 0)}"))

    def _row(self, scope: Scope, depth: int = 2) -> str:
        """An object that is a list of three numbers."""
        choose, what = self.random, self.random.random()
        if scope.rows and (depth <= 0 or what < 0.5):
            return choose.choice(scope.rows)
        if scope.tables and what < 0.85:
            return f"{choose.choice(scope.tables)}[{choose.choice('01')}]"
        if scope.functions and depth > 1:
            return f"{choose.choice(scope.functions)}({self._row(scope, 1)}, {self._row(scope, 1)})"
        return choose.choice(scope.rows) if scope.rows else f"[{self._number(scope, 0)}, 2, 3]"

    def _rows_of(self, table: str) -> str:
        return f"{table}.values()" if table.endswith("d") else table

    def _fresh_row(self, scope: Scope) -> str:
        choose, row = self.random, self._row(scope, 1)
        items = ", ".join(self._number(scope, 1) for _ in range(3))
        made = (f"{row}[:]", f"{row}.copy()", f"list({row})", f"[*{row}]", f"[w + 1 for w in {row}]", f"{row}[::-1]")
        return choose.choice((*made, *[f"[{items}]"] * 4))

    # Statements

    def _new_row(self, scope: Scope) -> list[str]:
        name, text = self._name(), self._fresh_row(scope)
        scope.rows.append(name)
        return [f"{name} = {text}"]

    def _new_table(self, scope: Scope) -> list[str]:
        name = self._name()
        first, second = (
            self._row(scope, 1) if self.random.random() < 0.6 else self._fresh_row(scope) for _ in range(2)
        )
        what = self.random.random()
        if what < 0.25:
            name += "d"
            scope.tables.append(name)
            return [f"{name} = {{0: {first}, 1: {second}}}"]
        if what < 0.5:
            name += "t"
        scope.tables.append(name)
        return [f"{name} = ({first}, {second})" if what < 0.5 else f"{name} = [{first}, {second}]"]

    def _new_function(self, scope: Scope) -> list[str]:
        name, inside = self._name(), scope.copy()
        a, b = self._name(), self._name()
        if self.random.random() < 0.6:
            inside = Scope(["n", "m", "k"], [], [], [])
        inside.rows += [a, b]
        body = [line for _ in range(self.random.randint(1, 3)) for line in self._statement(inside, 1, True)]
        scope.functions.append(name)
        return [f"def {name}({a}, {b}):", *(f"    {line}" for line in body), f"    return {self.random.choice((a, b))}"]

    def _statement(self, scope: Scope, depth: int, straight: bool) -> list[str]:
        self.left -= 1
        choose, what = self.random, self.random.random()
        row = self._row(scope)
        if what < 0.25:
            return [f"{row}[{self._place()}] {choose.choice(('=', '+=', '-='))} ({self._number(scope)}) % 50"]
        if what < 0.3:
            return [
                f"{row}[0], {self._row(scope, 1)}[{self._place()}] = {self._number(scope, 1)}, {self._number(scope, 1)}"
            ]
        if what < 0.35:
            part = f"{row}[1:] = [{self._number(scope, 0)}, 5]"
            return [choose.choice((f"{row}.reverse()", f"{row}[:] = {self._fresh_row(scope)}", part))]
        if what < 0.42 and scope.tables:
            table = choose.choice(scope.tables)
            return [
                f"{table}[{choose.choice(('n % 2', 'm % 2', '0'))}][{self._place()}] += {self._number(scope, 1)} % 50"
            ]
        if what < 0.5 and scope.functions:
            return [f"{choose.choice(scope.functions)}({row}, {self._row(scope, 1)})"]
        if what < 0.58 and straight:
            return self._new_row(scope)
        if what < 0.66 and straight:
            name = self._name()
            text = self._row(scope)
            scope.rows.append(name)
            return [f"{name} = {text}"]
        changing = [each for each in scope.tables if not each.endswith("t")]
        if what < 0.7 and straight and changing:
            table = choose.choice(changing)
            if choose.random() < 0.5:
                return [f"{table}[{choose.choice('01')}] = {row}"]
            return [f"{table}[0], {table}[1] = {table}[1], {table}[0]"]
        if what < 0.76 and straight:
            return self._new_table(scope)
        if what < 0.82:
            shown = ", ".join(scope.rows[-2:] + scope.tables[-1:])
            return [f"print({self._number(scope)}, {shown})"]
        if depth <= 0:
            return [f"{row}[1] -= 1"]
        if what < 0.86 and straight:
            return self._new_function(scope)
        inside = scope.copy()
        if what < 0.93:
            body = [line for _ in range(2) for line in self._statement(inside, depth - 1, False)]
            otherwise = self._statement(inside, depth - 1, False) if choose.random() < 0.4 else []
            ending = ["else:", *(f"    {line}" for line in otherwise)] if otherwise else []
            return [f"if {self._condition(scope)}:", *(f"    {line}" for line in body), *ending]
        name = self._name()
        if scope.tables and choose.random() < 0.4:
            inside.rows.append(name)
            over = self._rows_of(choose.choice(scope.tables))
        else:
            inside.numbers.append(name)
            over = choose.choice(("range(2)", "range(k)", row, f"[w for w in {row}]"))
        body = [line for _ in range(choose.randint(1, 2)) for line in self._statement(inside, depth - 1, False)]
        return [f"for {name} in {over}:", *(f"    {line}" for line in body)]
