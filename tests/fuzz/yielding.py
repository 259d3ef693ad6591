"""Generators that share lists, dicts and variables with their callers, at any `yield`: who changes what, everybody sees.

    def v1(v2, v3):
        if n > 0:
            yield v2[0]
            v2[1] = 9
        yield 2
    v4 = [n, 1]
    for v5 in v1(v4, v4):
        print(v5, v4)

Which `yield` a generator stands at, only run time knows; so is whether it has changed something, and what its caller has.
"""

from __future__ import annotations

from typing import ClassVar

from fuzz.composed import Composed
from fuzz.printing import Statement

_MOST = 9
"""So many statements a body has at most."""


class Yielding(Composed):
    """A program of generators that change what they share."""

    kind: ClassVar[str] = "yielding"

    def _statements(self) -> tuple[Statement, ...]:
        self.count = 0
        self.generators: list[tuple[str, int]] = []
        lines = [self._generator() for _ in range(self.random.randint(1, 3))]
        self.shared = [self._shared() for _ in range(self.random.randint(1, 3))]
        made = [line for _, line in self.shared]
        uses = [self._use() for _ in range(self.random.randint(1, 3))]
        shown = ", ".join(name for name, _ in self.shared)
        return (*map(tuple, lines), tuple(made), *map(tuple, uses), (f"print({shown})",))

    def _shared(self) -> tuple[str, str]:
        """An object, and how it is made: a list of numbers, or a dict."""
        name, made = self._name(), [f"{self._number()}" for _ in range(3)]
        text = (
            f"[{', '.join(made)}]"
            if self.random.random() < 0.7
            else f"{{{', '.join(f'{i}: {v}' for i, v in enumerate(made))}}}"
        )
        return name, f"{name} = {text}"

    def _number(self, *names: str) -> str:
        return self.random.choice(("n", "m", "k", str(self.random.randint(-9, 9)), "n - m", *names, *names))

    def _condition(self, *names: str) -> str:
        low, high = self._number(*names), self._number(*names)
        return self.random.choice(
            ("p", "q", "not p", f"{low} {self.random.choice(('<', '>=', '==', '!='))} {high}", f"{low} % 2")
        )

    # What generators are made of

    def _generator(self) -> list[str]:
        name, count = self._name(), self.random.randint(1, 3)
        parameters = [self._name() for _ in range(count)]
        self.own = self._name()
        self.left = _MOST
        body = self._body(parameters, 2)
        if not any("yield" in line for line in body):
            body.append(f"yield {parameters[0]}[0]")
        lines = [
            f"def {name}({', '.join(parameters)}):",
            f"    {self.own} = {self._number()}",
            *(f"    {line}" for line in body),
        ]
        self.generators.append((name, count))
        return lines

    def _body(self, those: list[str], depth: int, inside: bool = False) -> list[str]:
        found: list[str] = []
        for _ in range(self.random.randint(1, 4)):
            if self.left > 0:
                self.left -= 1
                found += self._step(those, depth, inside)
        return found or ["yield 0"]

    def _step(self, those: list[str], depth: int, inside: bool) -> list[str]:
        choose, item = self.random, f"{self.random.choice(those)}[{self.random.randint(0, 2)}]"
        number = self._number(item, self.own, f"{choose.choice(those)}[{choose.randint(0, 2)}]")
        what = choose.random()
        if what < 0.3:
            return [f"yield {choose.choice((number, item, self.own, f'{number} + {item}'))}"]
        if what < 0.55:
            return [f"{item} {choose.choice(('=', '+=', '-='))} {number}"]
        if what < 0.63:
            return [f"{self.own} {choose.choice(('=', '+='))} {number}"]
        if what < 0.7 and self.generators:
            name, count = choose.choice(self.generators)
            given = ", ".join(choose.choice(those) for _ in range(count))
            if choose.random() < 0.5:
                return [f"yield from {name}({given})"]
            value = self._name()
            return [f"for {value} in {name}({given}):", f"    yield {value} - {item}", f"    {item} += 1"]
        if depth <= 0:
            return [choose.choice(("return", "yield 7"))] if inside and choose.random() < 0.3 else [f"yield {item}"]
        body = [f"    {line}" for line in self._body(those, depth - 1, True)]
        if what < 0.9:
            otherwise = [f"    {line}" for line in self._body(those, depth - 1, True)] if choose.random() < 0.4 else []
            return [f"if {self._condition(item)}:", *body, *(["else:", *otherwise] if otherwise else [])]
        value = self._name()
        return [f"for {value} in range({choose.choice(('2', '3', 'k'))}):", *body, f"    {item} -= {value}"]

    # What their callers do

    def _use(self) -> list[str]:
        name, count = self.random.choice(self.generators)
        names = [each for each, _ in self.shared]
        call = f"{name}({', '.join(self.random.choice(names) for _ in range(count))})"
        value, shown = self._name(), ", ".join(names)
        item = f"{self.random.choice(names)}[{self.random.randint(0, 2)}]"
        change = (
            [f"{item} {self.random.choice(('=', '+='))} {self._number(item)}"] if self.random.random() < 0.7 else []
        )
        if change and self.random.random() < 0.4:
            change = [f"if {self._condition(item)}:", f"    {change[0]}"]
        if self.random.random() < 0.3:
            change += [
                f"if {self._condition(item, value)}:",
                f"    {self.random.choice(('break', 'continue'))}",
                f"{item} -= 1",
            ]
        what = self.random.random()
        if what < 0.5:
            return [f"for {value} in {call}:", f"    print({value}, {shown})", *(f"    {line}" for line in change)]
        if what < 0.65:
            return [f"print([*map(abs, ({value} for {value} in (1, 2)))], sum({call}), {shown})"]
        if what < 0.75 and len(self.generators) > 1:
            other, number = self.random.choice(self.generators)
            given = ", ".join(self.random.choice(names) for _ in range(number))
            return [
                f"for {value}, {value}w in zip({call}, {other}({given})):",
                f"    print({value}, {value}w, {shown})",
            ]
        steps = [f"{value} = {call}"]
        for _ in range(self.random.randint(1, 4)):
            step = f"print(next({value}, -1), {shown})"
            steps += [f"if {self._condition(item)}:", f"    {step}"] if self.random.random() < 0.4 else [step]
            steps += (
                [line for line in change if "break" not in line and "continue" not in line][:1]
                if len(change) == 1
                else []
            )
        return [*steps, f"for {value}w in {value}:", f"    print({value}w, {shown})"]
