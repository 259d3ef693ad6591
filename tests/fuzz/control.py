"""Statements of control flow: branches, `match`, loops, and what leaves them.

If((condition,), (body, otherwise), joined=(("v3", "float32"),))
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reference import BUILTIN, EVERY, promote

from fuzz.programs import Open, Statement, Stop, Type, Variables, cast, holds, indented, run_all, uses


def joined(a: Type, b: Type) -> Type | None:
    """What a variable is that is `a` on one path and `b` on another; None if it is nothing."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = [joined(x, y) for x, y in zip(a, b, strict=True)]
        return None if None in parts else tuple(parts)
    if a == b or not (a in EVERY and b in EVERY):
        return a if a == b else None
    return promote(a, b)


def joined_all(types: Sequence[Type]) -> Type | None:
    """What a variable is after several ways: numbers of fixed format join, builtin ones join, and then both meet."""
    kinds = [[type for type in types if (type in (*BUILTIN, "complex")) is builtin] for builtin in (False, True)]
    return _reduced([_reduced(kind) for kind in kinds if kind])


def _reduced(types: Sequence[Type | None]) -> Type | None:
    return functools.reduce(lambda a, b: joined(a, b) if a and b else None, types)


@dataclass(eq=False)
class If(Statement):
    """`if` with as many conditions as expressions; the last body is `else`. `joined` are variables and what they are after it."""

    joined: tuple[tuple[str, Type], ...] = ()

    def lines(self) -> list[str]:
        lines = []
        for word, condition, body in zip(
            ["if", *["elif"] * len(self.expressions)], self.expressions, self.bodies, strict=False
        ):
            lines += [f"{word} {condition}:", *indented(body)]
        return [*lines, "else:", *indented(self.bodies[-1])] if self.bodies[-1] else lines

    def run(self, variables: Variables) -> None:
        run_all(self.bodies[self.chosen(variables)], variables)
        for name, type in self.joined:
            if name in variables:
                variables[name] = cast(type, variables[name])

    def chosen(self, variables: Variables) -> int:
        """Which of the bodies runs."""
        return next((i for i, x in enumerate(self.expressions) if x.value(variables)), -1)

    def holds(self, types: dict[str, Type]) -> bool:
        if not all(uses(x, types) for x in self.expressions):
            return False
        ways = [dict(types) for _ in self.bodies]
        if not all(holds(body, way) for body, way in zip(self.bodies, ways, strict=True)):
            return False
        for name, type in self.joined:
            found = [way.get(name) for way in ways]
            if None in found or joined_all(found) != type:
                return False
        types |= dict(self.joined)
        return True


@dataclass(eq=False)
class Match(If):
    """`match` on constants: `values` are the cases; expressions are what is matched."""

    values: tuple[tuple[int, ...], ...] = ()

    def lines(self) -> list[str]:
        cases = [f"    case {' | '.join(map(str, case))}:" for case in self.values]
        lines = [f"match {self.expressions[0]}:"]
        for case, body in zip([*cases, "    case _:"], self.bodies, strict=True):
            lines += [case, *("    " + line for line in indented(body))]
        return lines

    def chosen(self, variables: Variables) -> int:
        value = self.expressions[0].value(variables)
        return next((i for i, case in enumerate(self.values) if value in case), -1)


@dataclass(eq=False)
class Loop(Statement):
    """A `for` over a range (expressions are its arguments), over a tuple (the one expression), or a `while` that counts.

    `carried` are the variables that the body changes, with what they are in the loop and after it.
    """

    form: str = "range"
    counter: str = ""
    type: Type = "int"
    carried: tuple[tuple[str, Type], ...] = ()

    @property
    def kind(self) -> str:
        """What it is counted as."""
        return f"{self.form} loop{' with else' if len(self.bodies) > 1 else ''}"

    def lines(self) -> list[str]:
        listed = ", ".join(map(str, self.expressions))
        if self.form == "while":
            head = [f"{self.counter} = 0", f"while {self.counter} < {listed}:", f"    {self.counter} += 1"]
        elif self.form == "enumerate":
            head = [f"for {self.counter}, {self.counter}e in enumerate({listed}):"]
        else:
            head = [f"for {self.counter} in {_SEQUENCES[self.form].format(listed)}:"]
        lines = [*head, *indented(self.bodies[0])]
        return [*lines, "else:", *indented(self.bodies[1])] if len(self.bodies) > 1 else lines

    def run(self, variables: Variables) -> None:
        # A range's arguments are asked for once, before the ways of the loop meet; a condition is asked behind that.
        items = self.items(variables) if self.form != "while" else ()
        for name, type in self.carried:
            variables[name] = cast(type, variables[name])
        for item in items if self.form != "while" else self.items(variables):
            self.take(item, variables)
            try:
                run_all(self.bodies[0], variables)
            except Stop as stop:
                if stop.kind == "break":
                    break
                if stop.kind == "return":
                    raise
            finally:
                for name, type in self.carried:
                    variables[name] = cast(type, variables[name])
        else:
            for body in self.bodies[1:]:
                run_all(body, variables)

    def take(self, item: Any, variables: Variables) -> None:
        """Gives the loop's variables their values."""
        if self.form == "enumerate":
            variables[self.counter], variables[f"{self.counter}e"] = item
        else:
            variables[self.counter] = cast(self.type, item) if self.form in ("range", "while") else item

    def items(self, variables: Variables) -> Sequence[Any]:
        """What the loop runs over."""
        values = [x.value(variables) for x in self.expressions]
        if self.form == "enumerate":
            return list(enumerate(values[0]))
        if self.form in ("tuple", "reversed"):
            return list(values[0] if self.form == "tuple" else reversed(values[0]))
        if len(values) == 3 and values[2] == 0:
            raise Open
        found = range(1, int(values[0]) + 1) if self.form == "while" else range(*values)
        if max(found.start, found.stop, key=abs) > 1000 or len(found) > 40:
            raise Open
        return found

    def inside(self) -> dict[str, Type]:
        """The types of the variables that the head gives."""
        if self.form == "enumerate":
            return {self.counter: "int", f"{self.counter}e": self.type}
        return {self.counter: self.type}

    def holds(self, types: dict[str, Type]) -> bool:
        before = dict(types)
        types |= dict(self.carried)
        asked = types if self.form == "while" else before
        if not all(uses(x, asked) for x in self.expressions):
            return False
        return all(holds(body, types | self.inside()) for body in self.bodies)


_SEQUENCES = {"range": "range({})", "tuple": "{}", "reversed": "reversed({})"}


@dataclass(eq=False)
class Leave(Statement):
    """`if x: break` or `if x: continue`."""

    kind: str = "break"

    def lines(self) -> list[str]:
        return [f"if {self.expressions[0]}:", f"    {self.kind}"]

    def run(self, variables: Variables) -> None:
        if self.expressions[0].value(variables):
            raise Stop(self.kind)


@dataclass(eq=False)
class Assert(Statement):
    """`assert x`, where x is true for every thread."""

    def lines(self) -> list[str]:
        return [f"assert {self.expressions[0]}"]

    def run(self, variables: Variables) -> None:
        if not self.expressions[0].value(variables):
            raise Open
