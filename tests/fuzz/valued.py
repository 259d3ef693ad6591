"""Values of rows of `surface`: expressions of operands that CPython has, many in one kernel, are what they are in CPython.

def k(n, p, x, z):              some of them constants, or all
    print((n, x, 2).count(1))
    print(range(2, 9, 3) == range(n))
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import random
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import cuda_device as device
from fuzz.cases import Case, defined, due, first_difference, printed
from fuzz.printing import OF_NUMPY, is_alike
from fuzz.surface import NAMES, Row, groups, recorded

AT_ONCE = 30
PARAMETERS = ("n", "p", "x", "z")
KINDS = frozenset("npxztlfrRokyjeETLDCFJBGVKQZqI")
NUMBERS = frozenset("nxzCFJ")
"""Operands that mean the same in CPython, and in NumPy."""
OTHERS = re.compile(
    r"\b(device|Spot|print|type|format|hash|__\w+__|class|popitem|NUMBER|keys|items|values|ARRAY|hasattr|callable|reciprocal|around|round|_asdict$)\b"
    r"|\b[amvg]\[|np\.(dtype|array|float16|u?int\d+|maximum|power|(floor_)?divide)|f'|%|\]\[n\]|range\(|(slice|itemgetter|attrgetter)\({"
)
"""What is shown in another way, or has an operand of a device in it."""


@functools.cache
def rows() -> tuple[tuple[Row, ...], ...]:
    """Rows that are expressions with a result, of operands that CPython has; in groups as `surface` has them."""
    found = ([row for row in group if _has_a_value(row)] for group in groups())
    return tuple(tuple(group) for group in found if group)


def _has_a_value(row: Row) -> bool:
    """Whether CPython has one, too; NumPy's functions are asked for those of numbers alone, which its bools are not."""
    kinds = NUMBERS if row.template.startswith("np.") else KINDS
    is_expression = "\n" not in row.template and not row.template.startswith("import")
    is_there = is_expression and kinds.issuperset(row.operands) and not OTHERS.search(row.template)
    return is_there and recorded()[row].startswith("→")


_LONG = re.compile(r" at 0x|\.\d{4}")
"""Numbers that are rounded, and objects."""


def plain(text: str) -> str:
    """Numbers without their types, which choices between several may change."""
    text = re.sub(r"\bTrue\b", "1", re.sub(r"\bFalse\b", "0", text))
    text = re.sub(r"\((-?[\d.]+)[+-]0j\)", r"\1", re.sub(r"(?<=\d)\.0\b", "", text))
    return re.sub(r"-?\b0j?(?![\d.])", "0", text)


class Valued(Case):
    """Some rows."""

    kind = "values"

    def __init__(self, number: int, parts: Sequence[Row] = ()) -> None:
        super().__init__(number)
        choose = random.Random(f"values {number}")
        self.given = {
            "n": choose.choice((0, 1, 2, 2, 3, 4, 5)), "p": choose.random() < 0.5,
            "x": choose.choice((1.5, 2.0, -0.75, 0.0, 2.5)),
            "z": complex(choose.choice((1.5, -0.5)), choose.choice((0.5, -2.0))),
        }  # fmt: skip
        share = choose.choice((0.0, 0.0, 0.5, 1.0))
        self.constants = [name for name in PARAMETERS if choose.random() < share]
        drawn = [choose.choice(group) for group in due(number, rows(), AT_ONCE)]
        self.parts = tuple(parts) or tuple(row for row in drawn if self.text(row) is not None)

    @functools.cached_property
    def names(self) -> dict[str, Any]:
        """What there is, anew."""
        return NAMES | {name: copy.copy(NAMES[name]) for name in ("LIST", "DICT")}

    def text(self, row: Row) -> str | None:
        """What CPython prints, if it is the same wherever there are numbers of 32 bits."""
        out = io.StringIO()
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings(), contextlib.redirect_stdout(out):
                warnings.simplefilter("ignore")
                exec(f"print({row.expression()})", self.names | self.given)
        except Exception:
            return None
        text = OF_NUMPY.sub(r"\1", out.getvalue())
        return text if is_alike(text) and not _LONG.search(text) else None

    def source(self) -> str:
        lines = [f"{name} = {self.given[name]!r}" for name in self.constants]
        lines += [f"print({row.expression()})" for row in self.parts]
        head = f"def k({', '.join(name for name in PARAMETERS if name not in self.constants)}):"
        return "\n".join([head, *(f"    {line}" for line in lines or ("pass",))]) + "\n"

    def attempt(self, stream: device.Stream) -> str | None:
        kernel = device.kernel(level=self.number % 2)(
            defined(self.source(), "k", self.names, f"<values {self.number}>")
        )
        given = [value for name, value in self.given.items() if name not in self.constants]

        def run() -> None:
            device.launch(kernel, *given, grid=1, block=1, stream=stream)

        return first_difference(plain(printed(run)), plain("".join(self.text(row) or "" for row in self.parts)))

    def smaller(self) -> Iterator[Case]:
        """Each row alone."""
        if len(self.parts) > 1:
            for row in self.parts:
                yield Valued(self.number, (row,))
