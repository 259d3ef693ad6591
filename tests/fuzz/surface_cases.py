"""Some rows of `surface`, a case's share of them: what is recorded of each, and of constants what CPython says."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import cuda_device as device
from fuzz.cases import Case, due
from fuzz.surface import Row, groups, wrong

AT_ONCE = 200


class Surface(Case):
    """Some rows."""

    kind = "surface"

    def __init__(self, number: int, parts: Sequence[Row] = ()) -> None:
        super().__init__(number)
        choose = random.Random(f"surface {number}")
        self.parts = tuple(parts) or tuple(choose.choice(group) for group in due(number, groups(), AT_ONCE))

    def source(self) -> str:
        if len(self.parts) > 1:
            return f"# {len(self.parts)} rows of surface\n"
        return "".join(row.source() for row in self.parts)

    def attempt(self, stream: device.Stream) -> str | None:
        return next(filter(None, map(wrong, self.parts)), None)

    def smaller(self) -> Iterator[Case]:
        """Each row alone."""
        if len(self.parts) > 1:
            for row in self.parts:
                yield Surface(self.number, (row,))
