"""The functions of `own`, some of them at a time."""

from __future__ import annotations

import random

import cuda_device as device
from fuzz import own, own_atomics, own_exact, own_sequences, own_table
from fuzz.cases import Case, due

CHECKS = (
    *(*map(own.complex_check, own.COMPLEX), *own_table.CHECKS, *own_sequences.CHECKS),
    *(*own_atomics.CHECKS, *own_exact.CHECKS),
)
SHARE = 4
"""A case has one in so many of them."""


class Own(Case):
    """Thousands of calls of functions that the compiler has in Python."""

    kind = "own functions"

    def source(self) -> str:
        return f"# own functions, by the seed {self.number}\n"

    def attempt(self, stream: device.Stream) -> str | None:
        with own.in_c():
            for place, check in enumerate(due(self.number, CHECKS, len(CHECKS) // SHARE)):
                if wrong := check(random.Random(f"{self.number} {place}")):
                    return wrong
        return None
