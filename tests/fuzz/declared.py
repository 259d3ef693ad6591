"""Structs of any members: declared at random, made, changed, compared, matched, kept in memory and printed, as on the host.

@device.struct
class S1:
    a: device.int8
    b: S0 = S0(1)
    …
def k(n, m, k, x, y, p, q):
    v1 = S1(a=n, b=S0(m))
    print(v1, device.replace(v1, a=2).total())
"""

from __future__ import annotations

from typing import Any

import cuda_device as device
from fuzz.grammar import Grammar
from fuzz.printing import Printing, Statement

WHOLE = (
    "int",
    "device.int8",
    "device.uint8",
    "device.int16",
    "device.uint16",
    "device.int32",
    "device.int64",
    "device.uint64",
)
REAL = ("float", "device.float64", "device.float32", "device.float16")
OTHERS = ("bool", "device.int32x2", "device.float32x3", "tuple[int, float]", "tuple[device.int8, bool]")
MEMBERS = "abcdef"
VALUES = {
    "whole": ["n", "m", "k", "3", "(n + 2)", "7", "(m - k)", "abs(n)"],
    "positive": ["k", "3", "7", "abs(m)", "(k + 2)", "100"],
    "part": ["x", "y", "0.5", "(x + 1)", "-2.25", "(n / 4)"],
    "flag": ["p", "q", "True", "(n > m)"],
}
ACTIONS = (
    "print({s})",
    "print({s}.total(), {s}.first, {s} == {s}, {s} != {other})",
    "print({s} == {other}, ({s},))",
    "{s} = device.replace({s}, {name}={value})\nprint({s}.{name})",
    "print({kind}({values}).total())",
    "print(device.sizeof({kind}), device.alignof({kind}))",
    (
        "few = Memory(3, {kind})\nfew[0], few[2] = {s}, {other}\nfew[1] = few[k * 0]\nprint(few[1])"
        "\nprint(few[2].{name}, few[0].total())"
    ),
    "match {s}:\n    case {kind}({name}=found):\n        print(found)",
    "{s} = {s} if p else {other}\nprint({s})",
    "def f(s, by=2):\n    return s.total() * by, s\nprint(f({s}), f({other}, by=3)[1].{name})",
    "print(f'{{{s}.first}} {{{s}.total():.2f}}', {s}.scale)",
    "print({s}.with_first({first}).{name})",
)


def _in_memory(count: int, kind: Any) -> Any:
    """Elements on the host."""
    return [None] * count


class Declared(Printing):
    """A program with some structs."""

    kind = "structs"

    def _statements(self) -> tuple[Statement, ...]:
        choose, grammar = self.random, Grammar(VALUES, self.random)
        self.declared: dict[str, list[str]] = {}
        self.head: list[str] = []
        for number in range(choose.randint(1, 3)):
            types = [
                choose.choice((*WHOLE, *REAL, *OTHERS, *[*self.declared][:1])) for _ in range(choose.randint(1, 2))
            ]
            types.insert(0, choose.choice((*WHOLE, *REAL)))
            self._declare(f"S{number}", types, grammar)
        statements: list[Statement] = []
        for name in self.declared:
            statements.append((f"{name.lower()} = {self._made(name, grammar)}",))
        for _ in range(choose.randint(3, 6)):
            kind = choose.choice([*self.declared])
            place = choose.randrange(len(self.declared[kind]))
            text = choose.choice(ACTIONS).format(
                s=kind.lower(),
                kind=kind,
                name=MEMBERS[place],
                value=self._value(self.declared[kind][place], grammar),
                first=self._value(self.declared[kind][0], grammar),
                values=", ".join(self._value(each, grammar) for each in self.declared[kind]),
                other=self._made(kind, grammar),
            )
            statements.append(tuple(text.splitlines()))
        return tuple(statements)

    def _declare(self, name: str, types: list[str], grammar: Grammar) -> None:
        lines = ["@device.struct", f"class {name}:"]
        defaults = False
        for place, each in enumerate(types):
            defaults = defaults or (place > 0 and self.random.random() < 0.2)
            lines.append(f"    {MEMBERS[place]}: {each}" + (f" = {self._constant(each)}" if defaults else ""))
        numbers = [f"self.{MEMBERS[place]}" for place, each in enumerate(types) if each in WHOLE + REAL]
        lines += [
            "    scale = 3",
            "    @device.func", "    def total(self):", f"        return {' + '.join(f'int({each})' for each in numbers)}",
            "    @property", "    def first(self):", "        return self.a",
            "    @device.func", "    def with_first(self, value):", "        return device.replace(self, a=value)",
        ]  # fmt: skip
        self.head += lines
        self.declared[name] = types

    def _made(self, name: str, grammar: Grammar) -> str:
        values = [self._value(each, grammar) for each in self.declared[name]]
        if self.random.random() < 0.4:
            pairs = [f"{MEMBERS[place]}={value}" for place, value in enumerate(values)]
            self.random.shuffle(pairs)
            return f"{name}({', '.join(pairs)})"
        return f"{name}({', '.join(values)})"

    def _value(self, type: str, grammar: Grammar) -> str:
        if type in self.declared:
            return self._made(type, grammar)
        if type in WHOLE:
            whole = grammar.make("positive" if "uint" in type else "whole", 0)
            return whole if type == "int" else f"{type}({whole})"
        if type in REAL:
            return grammar.make("part", 0) if type == "float" else f"{type}({grammar.make('part', 0)})"
        return {
            "bool": lambda: grammar.make("flag", 0),
            "device.int32x2": lambda: f"device.int32x2({grammar.make('whole', 0)}, {grammar.make('whole', 0)})",
            "device.float32x3": lambda: f"device.float32x3({grammar.make('part', 0)}, 1, {grammar.make('part', 0)})",
            "tuple[int, float]": lambda: f"({grammar.make('whole', 0)}, {grammar.make('part', 0)})",
            "tuple[device.int8, bool]": lambda: f"(device.int8({grammar.make('whole', 0)}), {grammar.make('flag', 0)})",
        }[type]()

    def _constant(self, type: str) -> str:
        """A default."""
        return self._value(
            type, Grammar({"whole": ["5"], "positive": ["6"], "part": ["0.75"], "flag": ["True"]}, self.random)
        )

    def source(self) -> str:
        return "\n".join(self.head) + "\n" + super().source()

    def names(self, on_host: bool) -> dict[str, Any]:
        return super().names(on_host) | {"Memory": _in_memory if on_host else device.local_array}
