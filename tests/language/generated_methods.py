"""Programs made at random of structs whose methods change them, in an array and in variables.

    program = Methods(seed=7).program()
    program.device            the source of structs, of a kernel `k(points, out)` that uses them, for the device
    program.python            the same for CPython, with mutable objects and a copy wherever the device has a value

`points` has four elements at least. What the kernel computed is in `points` and `out`.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

RESULTS = 16
OUTER, INNER, VECTOR, NUMBER = "Outer", "Inner", "vector", "number"
HINTS = {INNER: {"a": "int32", "v": "int32x2"}, OUTER: {"x": "int32", "inner": "Inner", "n": "int32"}}
# What can be read of a value, and what can be written of one in memory, or of a variable.
READ = {
    OUTER: ["x", "n", "inner.a", "inner.v.x", "inner.v[1]"],
    INNER: ["a", "v.y", "v[0]"],
    VECTOR: ["x", "y"],
}
WRITTEN = {OUTER: READ[OUTER], INNER: ["a", "v.x", "v[0]", "v[-1]"], VECTOR: ["x"]}
OWN = {OUTER: ["x", "n"], INNER: ["a"], VECTOR: ["x", "y"]}

Names = list[tuple[str, str]]


@dataclass(frozen=True)
class Program:
    """One program, twice."""

    device: str
    python: str


class Methods:
    """Makes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.methods: dict[str, dict[str, list[str]]] = {INNER: {}, OUTER: {}}

    def program(self) -> Program:
        """Methods of both structs, those of the inner one first, and a kernel."""
        for kind in (INNER, OUTER):
            for name in ("first", "second", "third"):
                names = [(kind, "self"), (NUMBER, "d")]
                lines = self.block(names, self.random.randint(2, 6))
                self.methods[kind][name] = [*lines, f"return {self.number(names)}"]
        names = [
            (OUTER, "points[0]"),
            (OUTER, "points[i]"),
            (OUTER, "points[-1]"),
            (INNER, "points[1].inner"),
            (NUMBER, "i"),
        ]
        lines = self.block(names, 12)
        numbers = [name for kind, name in names if kind == NUMBER][-RESULTS:]
        lines += [f"out[{place}] = {name}" for place, name in enumerate(numbers)]
        return Program(self.device_source(lines), self.python_source(lines))

    def device_source(self, lines: list[str]) -> str:
        text = ""
        for kind, hints in HINTS.items():
            members = _indented(f"{name}: {hint}" for name, hint in hints.items())
            text += f"@device.struct\nclass {kind}:\n{members}{self.defs(kind)}"
        text += f"@device.kernel\ndef k(points, out):\n    i = int32(device.block_idx.x + 2)\n{_indented(lines)}"
        return re.sub(r"copy\(([^()]*)\)", r"\1", text)

    def python_source(self, lines: list[str]) -> str:
        text = ""
        for kind, hints in HINTS.items():
            text += f"class {kind}:\n    def __init__(self, {', '.join(hints)}):\n"
            text += _indented((f"self.{name} = {name}" for name in hints), "        ") + self.defs(kind)
        return f"{text}def k(points, out):\n    i = 2\n{_indented(lines)}"

    def defs(self, kind: str) -> str:
        found = self.methods[kind].items()
        return "".join(f"    def {name}(self, d):\n{_indented(lines, '        ')}" for name, lines in found)

    def new(self, names: Names, kind: str) -> str:
        """A variable that has not been there."""
        self.count += 1
        names.append((kind, f"v{self.count}"))
        return f"v{self.count}"

    def of(self, names: Names, *kinds: str, in_memory: bool = False) -> tuple[str, str] | None:
        """A name of one of these kinds, if there is one."""
        found = [(kind, name) for kind, name in names if kind in kinds and (not in_memory or _lies_in_memory(name))]
        return self.random.choice(found) if found else None

    def number(self, names: Names) -> str:
        """An expression."""
        kind, name = self.random.choice([*names, (NUMBER, str(self.random.randint(-5, 9)))])
        text = name if kind == NUMBER else f"{name}.{self.random.choice(READ[kind])}"
        if self.random.random() < 0.4:
            text = f"({text} {self.random.choice('+-')} {self.number(names)})"
        return f"int32({text})"

    def block(self, names: Names, count: int, depth: int = 0) -> list[str]:
        """So many statements; `names` get what they assign."""
        makers = [self.assign, self.assign, self.copy, self.call, self.call, self.replace_part, self.compute]
        if depth < 2:
            makers += [self.branch, self.loop]
        lines: list[str] = []
        for _ in range(count):
            lines += self.random.choice(makers)(names, depth)
        return lines or ["pass"]

    def assign(self, names: Names, _: int) -> list[str]:
        target = self.of(names, OUTER, INNER, VECTOR)
        if target is None:
            return []
        kind, name = target
        member = self.random.choice((WRITTEN if _lies_in_memory(name) else OWN)[kind])
        return [f"{name}.{member} {self.random.choice(['=', '+='])} {self.number(names)}"]

    def copy(self, names: Names, _: int) -> list[str]:
        source = self.of(names, OUTER, INNER)
        if source is None:
            return []
        kind, name = source
        part, what = self.random.choice(
            [("", kind), *([(".inner", INNER), (".inner.v", VECTOR)] if kind == OUTER else [])]
        )
        value = f"copy({name}{part})"
        return [f"{self.new(names, what)} = {value}"]

    def call(self, names: Names, _: int) -> list[str]:
        owner = self.of(names, OUTER, INNER, in_memory=True)
        if owner is None:
            return []
        kind, name = owner
        if kind == OUTER and self.random.random() < 0.4:
            kind, name = INNER, f"{name}.inner"
        if not self.methods[kind]:
            return []
        value = f"{name}.{self.random.choice([*self.methods[kind]])}({self.number(names)})"
        return [f"{self.new(names, NUMBER)} = {value}"]

    def replace_part(self, names: Names, _: int) -> list[str]:
        target, source = self.of(names, OUTER), self.of(names, INNER)
        return [f"{target[1]}.inner = copy({source[1]})"] if target and source else []

    def compute(self, names: Names, _: int) -> list[str]:
        value = self.number(names)
        return [f"{self.new(names, NUMBER)} = {value}"]

    def branch(self, names: Names, depth: int) -> list[str]:
        return [f"if {self.number(names)} % 2:", *_nested(self.block([*names], self.random.randint(1, 3), depth + 1))]

    def loop(self, names: Names, depth: int) -> list[str]:
        inside = [*names]
        head = f"for {self.new(inside, NUMBER)} in range({self.random.randint(1, 3)}):"
        return [head, *_nested(self.block(inside, self.random.randint(1, 3), depth + 1))]


def _lies_in_memory(name: str) -> bool:
    return name.startswith(("self", "points"))


def _nested(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _indented(lines, space="    ") -> str:
    return "".join(f"{space}{line}\n" for line in lines)
