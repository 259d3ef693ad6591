"""Indices behind comparisons: what a branch or a loop says of numbers, at its very bounds, and no more than that.

if n - k >= 2: found += x[n - k - 2]        with all small numbers, compared with CPython
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np

import cuda_device as device
from fuzz.cases import Case, defined

REACH = 6
SIZE = 7
SIGNS = ("<", "<=", ">", ">=", "==", "!=")
COMPARED = ("n", "k", "n + k", "n - k", "n + 1", "2 * n", "n - 3", "-n", "n // 2", "len(x) - n", "abs(n)", "min(n, k)")
BOUNDS = ("0", "1", "-1", "2", "3", "k", "-k", "k + 1", "len(x)", "len(x) - 1", "len(x) // 2", "m")
# `{a}` and `{b}` are what is compared, `{s}` a sign, `{c}` another comparison; `{x}` is an item whose index has to do with them.
BRANCHES = (
    "if {a} {s} {b}:\n    found += {x}\nelse:\n    found += {x}",
    "if {a} {s} {b}:\n    found += {x} + 2 * {x}",
    "if not {a} {s} {b}:\n    found += {x}",
    "found += {x} if {a} {s} {b} else {x}",
    "if {a} {s} {b} and {c}:\n    found += {x}\nelse:\n    found += {x}",
    "if {a} {s} {b} or {c}:\n    found += {x}\nelse:\n    found += {x}",
    "if {a} {s} {b}:\n    found += {x}\nelif {c}:\n    found += {x}\nelse:\n    found += {x}",
    "if {a} {s} {b}:\n    if {c}:\n        found += {x}\n    else:\n        found += {x}",
    "i = {a}\nwhile i {s} {b} and abs(i) < 9:\n    found += {i}\n    i += 1",
    "i = {a}\nwhile i {s} {b} and abs(i) < 9:\n    i -= 2\n    found += {i}",
    "for i in range({a}, {b}):\n    found += {i}",
    "for i in range({a}, {b}, 2):\n    if i {s} {b}:\n        found += {i}",
    "for i in range({a}, {b}, -1):\n    found += {i}",
    "for i in range({b}):\n    if i {s} {a}:\n        found += {i}",
    "found += {x} + {x}",
)
# Of a number of the loop, and what it is compared with.
COUNTED = (
    "i",
    "i - ({a})",
    "({a}) - i",
    "i - ({b})",
    "({b}) - i",
    "i + ({a})",
    "i - 1",
    "i + 1",
    "({b}) - 1 - i",
    "({a}) + 1 - i",
)
NEAR = tuple(
    f"({one}) - ({other}){by}" for one, other in (("{a}", "{b}"), ("{b}", "{a}")) for by in ("", " - 1", " - 2", " + 1")
)
OTHERS = (
    *("{a}", "({a}) - 1", "({b}) - 1", "({a}) + 1", "max({a}, {b}) - ({b})", "min({a}, {b})", "max({a}, 0)", "({a}) % len(x)"),
    *("({a}) + ({b})", "({a}) // 2", "2 * ({a}) - ({b})", "-1", "k - 1"),
)  # fmt: skip


class Behind(Case):
    """Some branches and loops, and what is at indices in them. `exact` numbers cannot overflow."""

    kind = "behind"

    def __init__(self, number: int, rows: tuple[str, ...] = ()) -> None:
        super().__init__(number)
        choose = random.Random(f"behind {number}")
        self.exact = choose.random() < 0.8
        self.rows = rows or tuple(_row(choose, sign) for sign in 2 * SIGNS)

    def source(self) -> str:
        lines = ["def f(x, n, k, m):", "    found = 0"]
        for row in self.rows:
            lines += [f"    {line}" for line in [*row.splitlines(), "found = found * 3 % 10007"]]
        return "\n".join([*lines, "    return found"]) + "\n"

    def smaller(self) -> Iterator[Case]:
        return (Behind(self.number, (row,)) for row in self.rows if len(self.rows) > 1)

    def attempt(self, stream: device.Stream) -> str | None:
        f = defined(self.source(), "f", {}, f"<behind {self.number}>")

        @device.kernel
        def counts(x, m, out):
            for row in range(out.shape[0]):
                for column in range(out.shape[1]):
                    out[row, column] = f(x, row - REACH, column - REACH, m)

        @device.kernel
        def reads(x, m, out):
            t = device.thread_idx.x
            n, k = out[t // WIDTH, t % WIDTH] // WIDTH - REACH, out[t // WIDTH, t % WIDTH] % WIDTH - REACH
            out[t // WIDTH, t % WIDTH] = f(x, n, k, m)

        out = np.arange(WIDTH**2, dtype=np.int32).reshape(WIDTH, WIDTH)
        x = (np.arange(31, 31 + 5 * SIZE, dtype=np.int32) ** 2)[2 * SIZE : 3 * SIZE]  # what is beside it differs
        kernel, block = (counts, 1) if self.exact else (reads, WIDTH**2)
        device.launch(kernel, x, SIZE // 2, out, grid=1, block=block, stream=device.cpu_stream())
        pairs = itertools.product(range(-REACH, REACH + 1), repeat=2)
        for pair, found in zip(pairs, out.ravel().tolist(), strict=True):
            expected = f(x.tolist(), *pair, SIZE // 2)
            if found != expected:
                return f"f(x, {pair[0]}, {pair[1]}, {SIZE // 2}) is {found}, not {expected}"
        return None


WIDTH = 2 * REACH + 1


def _row(choose: random.Random, sign: str) -> str:
    text = choose.choice((BRANCHES[0], choose.choice(BRANCHES)))
    a, b = choose.choice(COMPARED), choose.choice(BOUNDS)
    while "{x}" in text:
        text = text.replace("{x}", _items([*choose.sample(NEAR, 4), choose.choice(OTHERS)]), 1)
    while "{i}" in text:
        text = text.replace("{i}", _items(choose.sample(COUNTED, 3)), 1)
    other = f"{choose.choice(('n', 'k', 'n - k'))} {choose.choice(SIGNS)} {choose.choice(BOUNDS)}"
    return text.replace("{a}", a).replace("{b}", b).replace("{c}", other).replace("{s}", sign)


def _items(indices: list[str]) -> str:
    """What is at some indices, where there is something."""
    items = (f"{2**k} * (x[{index}] if -len(x) <= {index} < len(x) else 5)" for k, index in enumerate(indices))
    return f"({' + '.join(items)})"
