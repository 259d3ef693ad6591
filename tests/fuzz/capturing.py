"""Functions in functions, in lists and in calls, that share variables: who assigns to one, everybody sees.

    def v1(v2):
        nonlocal v3
        v3 = (v2 + n) % 100
        return lambda w: (w + v3) % 100
    v4 = [abs, v1(m)]
    for v5 in range(3):
        v4[0] = itself(lambda w: (w - v5) % 100)
        v3 = (v3 + v4[1](k)) % 100

Functions only call what was made before them, so that they end; numbers stay small, so that no type has too few bits for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from fuzz.composed import Composed
from fuzz.printing import Statement

_HEAD = """\
def itself(f):
    return f
def call(f, w):
    return f(w)
def call_all(those, w):
    return sum(f(w) for f in those)
def put(those, f):
    those[0] = f
    return those[1]
def set_item(those, place, value):
    those[place] = value
    return those[0]"""
_BY_RUN_TIME = re.compile(
    r"on one way here and .* on another|no common type|on the way that leads here|cannot hold itself"
)
"""Which function something is has to be known while compiling: not every program of these is one for device code."""


@dataclass
class Scope:
    """What a function can name: numbers of its own and of others, lists of numbers, functions of a number, lists of such."""

    own: list[str] = field(default_factory=list)
    outer: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=lambda: ["abs"])
    tables: list[str] = field(default_factory=list)
    makers: list[str] = field(default_factory=list)

    def inner(self) -> Scope:
        """That of a function inside."""
        outer = [*self.own, *self.outer]
        return Scope([], outer, [*self.lists], [*self.functions], [*self.tables], [*self.makers])


class Capturing(Composed):
    """A program of functions that share variables."""

    kind: ClassVar[str] = "capturing"
    by_run_time = _BY_RUN_TIME

    def _statements(self) -> tuple[Statement, ...]:
        self.count, self.left = 0, self.random.randint(12, 30)
        scope, found = Scope(["n", "m", "k"]), []
        for _ in range(3):
            found.append(tuple(self._new_number(scope)))
        found += [tuple(self._new_list(scope)), tuple(self._new_function(scope, 2)), tuple(self._new_table(scope))]
        while self.left > 0:
            found.append(tuple(self._statement(scope, 2, True)))
        shown = [
            *scope.own,
            *scope.lists,
            *(f"{f}(3)" for f in scope.functions[-3:]),
            *(f"{t}[1](2)" for t in scope.tables),
        ]
        return (tuple(_HEAD.splitlines()), *found, (f"print({', '.join(shown)})",))

    # Expressions

    def _number(self, scope: Scope, depth: int = 2) -> str:
        choose = self.random
        what = choose.random()
        numbers = [*scope.own, *scope.own, *scope.outer]
        if depth <= 0 or what < 0.35:
            return choose.choice(numbers) if numbers and choose.random() < 0.8 else str(choose.randint(0, 9))
        if what < 0.5:
            return f"({self._number(scope, depth - 1)} {choose.choice('+-')} {self._number(scope, depth - 1)})"
        if what < 0.6 and scope.lists:
            return f"{choose.choice(scope.lists)}[{choose.randint(0, 2)}]"
        if what < 0.66:
            return f"({self._number(scope, 0)} if {self._condition(scope)} else {self._number(scope, depth - 1)})"
        argument = self._number(scope, depth - 1)
        if what < 0.82:
            return f"{choose.choice(scope.functions)}({argument})"
        if what < 0.92 and scope.tables:
            place = choose.choice(("0", "1", "n % 2", "-1"))
            return f"{choose.choice(scope.tables)}[{place}]({argument})"
        if scope.tables and choose.random() < 0.4:
            return f"call_all({choose.choice(scope.tables)}, {argument})"
        return f"call({self._function(scope)}, {argument})"

    def _condition(self, scope: Scope) -> str:
        compared = f"{self._number(scope, 1)} {self.random.choice(('<', '==', '>='))} {self._number(scope, 0)}"
        return self.random.choice(("p", "not q", compared, compared))

    def _function(self, scope: Scope) -> str:
        """Something that is a function of a number."""
        choose, what = self.random, self.random.random()
        if what < 0.3:
            return choose.choice(scope.functions)
        if what < 0.4 and scope.tables:
            return f"{choose.choice(scope.tables)}[{choose.choice(('0', '1', '-1'))}]"
        if what < 0.55 and scope.makers:
            return f"{choose.choice(scope.makers)}({self._number(scope, 1)})"
        if what < 0.65:
            return f"itself({self._function(scope)})"
        inside = scope.inner()
        inside.own = ["w"]
        return f"(lambda w: ({self._number(inside)}) % 100)"

    # Statements

    def _new_number(self, scope: Scope) -> list[str]:
        name, value = self._name(), self._number(scope, 1)
        scope.own.append(name)
        return [f"{name} = ({value}) % 100"]

    def _new_list(self, scope: Scope) -> list[str]:
        name, items = self._name(), [self._number(scope, 0) for _ in range(3)]
        scope.lists.append(name)
        return [f"{name} = [{', '.join(items)}]"]

    def _new_function(self, scope: Scope, depth: int) -> list[str]:
        name = self._name()
        if self.random.random() < 0.3:
            text = self._function(scope)
            scope.functions.append(name)
            return [f"{name} = {text}"]
        inside, parameter = scope.inner(), self._name()
        inside.own = [parameter]
        lines, shared = [f"def {name}({parameter}):"], [each for each in inside.outer if each not in ("n", "m", "k")]
        if shared and self.random.random() < 0.6:
            taken = self.random.sample(shared, min(len(shared), 2))
            inside.own += taken
            inside.outer = [each for each in inside.outer if each not in taken]
            lines.append(f"    nonlocal {', '.join(taken)}")
        for _ in range(self.random.randint(0, 3)):
            lines += [f"    {line}" for line in self._statement(inside, depth - 1, True)]
        if self.random.random() < 0.3:
            lines.append(f"    return {self._function(inside)}")
            scope.makers.append(name)
        else:
            lines.append(f"    return ({self._number(inside)}) % 100")
            scope.functions.append(name)
        return lines

    def _new_table(self, scope: Scope) -> list[str]:
        name, items = self._name(), [self._function(scope) for _ in range(2)]
        scope.tables.append(name)
        return [f"{name} = [{', '.join(items)}]"]

    def _statement(self, scope: Scope, depth: int, straight: bool) -> list[str]:
        self.left -= 1
        choose, what = self.random, self.random.random()
        numbers = [each for each in scope.own if each not in ("n", "m", "k")]
        if what < 0.25 and numbers:
            return [f"{choose.choice(numbers)} = ({self._number(scope)}) % 100"]
        if what < 0.35 and scope.lists:
            name, place = choose.choice(scope.lists), choose.randint(0, 2)
            if choose.random() < 0.3:
                return [f"set_item({name}, {place}, {self._number(scope, 1)})"]
            return [f"{name}[{place}] = ({self._number(scope)}) % 100"]
        if what < 0.42 and scope.functions[1:]:
            return [f"{choose.choice(scope.functions[1:])}({self._number(scope, 1)})"]
        if what < 0.5 and scope.tables and straight:
            table = choose.choice(scope.tables)
            if choose.random() < 0.3:
                return [f"put({table}, {self._function(scope)})"]
            return [f"{table}[{choose.randint(0, 1)}] = {self._function(scope)}"]
        if what < 0.58 and straight:
            return self._new_number(scope) if choose.random() < 0.7 else self._new_list(scope)
        if depth <= 0:
            return [f"print({self._number(scope)})"]
        if what < 0.75 and straight:
            return self._new_function(scope, depth) if choose.random() < 0.75 else self._new_table(scope)
        inside = Scope(scope.own[:], scope.outer, scope.lists, scope.functions[:], scope.tables, scope.makers[:])
        if what < 0.87:
            body = [line for _ in range(2) for line in self._statement(inside, depth - 1, False)]
            return [f"if {self._condition(scope)}:", *(f"    {line}" for line in body)]
        name = self._name()
        inside.own.append(name)
        body = [line for _ in range(choose.randint(1, 2)) for line in self._statement(inside, depth - 1, False)]
        if choose.random() < 0.5:
            body += self._new_function(inside, 1)
            body.append(f"print({inside.functions[-1]}({name}))")
        over = choose.choice(
            (f"range({choose.choice(('2', 'k', '3'))})", "(1, n, 3)", choose.choice(scope.lists or ["(2, m)"]))
        )
        return [f"for {name} in {over}:", *(f"    {line}" for line in body)]
