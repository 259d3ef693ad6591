"""Programs that print and are composed line by line: names, refusals that are right, and how they are made smaller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import cuda_device as device
from fuzz.printing import Printing


class Composed(Printing):
    """A program whose lines its kind composes. `count` are the names so far."""

    count: int
    by_run_time: ClassVar[re.Pattern[str] | None] = None
    """Reasons why a program is none for device code: what has to be known while compiling is not."""

    def _name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def attempt(self, stream: device.Stream) -> str | None:
        try:
            return super().attempt(stream)
        except device.CompileError as error:
            if self.by_run_time is not None and self.by_run_time.search(error.reason):
                return None
            raise

    def smaller(self) -> Iterator[Printing]:
        """Without one of the lines."""
        for i, each in enumerate(self.statements):
            for j in range(len(each)):
                shorter = (*each[:j], *each[j + 1 :])
                less = type(self)(self.number, (*self.statements[:i], shorter, *self.statements[i + 1 :]), self.given)
                if less.expected is not None:
                    yield less
