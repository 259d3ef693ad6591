"""Programs of `printing` whose numbers are known while compiling, all or some: what is folded is what CPython computes.

def k(m, x, p):
    n, k, y, q = 3, 2, -0.75, True          or globals, or arguments of a function that the kernel calls
    v1 = [n, 2, m]
"""

from __future__ import annotations

import random
from typing import Any, ClassVar

from fuzz.printing import PARAMETERS, Printing

WAYS = ("assigned", "global", "called", "defaults", "assigned", "called")


class Folded(Printing):
    """A program."""

    kind: ClassVar[str] = "folded"
    everywhere = False

    def __init__(self, number: int, *others: Any) -> None:
        choose = random.Random(f"which of folded {number}")
        self.way = choose.choice(WAYS)
        share = choose.choice((1.0, 0.7, 0.5))
        self.constants = tuple(
            name for name in PARAMETERS if choose.random() < share and (name, self.way) != ("k", "global")
        )
        super().__init__(number, *others)

    def _values(self) -> dict[str, Any]:
        return {name: value for name, value in zip(PARAMETERS, self.given, strict=True) if name in self.constants}

    def parameters(self) -> tuple[str, ...]:
        """The others."""
        return tuple(name for name in PARAMETERS if name not in self.constants)

    def arguments(self) -> tuple[Any, ...]:
        return tuple(value for name, value in zip(PARAMETERS, self.given, strict=True) if name not in self.constants)

    def names(self, on_host: bool) -> dict[str, Any]:
        return super().names(on_host) | (self._values() if self.way == "global" else {})

    def source(self) -> str:
        body = [f"    {line}" for each in self.statements for line in each]
        head, given = f"def k({', '.join(self.parameters())}):", {name: repr(v) for name, v in self._values().items()}
        named = [f"{name}={value}" for name, value in given.items()]
        match self.way:
            case "called":
                inner = f"    def inner({', '.join(PARAMETERS)}):"
                if self.number % 2:
                    call = ", ".join(given.get(name, name) for name in PARAMETERS)
                else:
                    call = ", ".join([*(f"{name}={name}" for name in reversed(self.parameters())), *named])
                lines = [head, inner, *(f"    {line}" for line in body), f"    inner({call})"]
            case "defaults":
                inner = f"    def inner({', '.join([*self.parameters(), *named])}):"
                lines = [head, inner, *(f"    {line}" for line in body), f"    inner({', '.join(self.parameters())})"]
            case "assigned":
                lines = [head, *(f"    {name} = {value}" for name, value in given.items()), *body]
            case _:
                lines = [head, *body]
        return "\n".join(lines) + "\n"
