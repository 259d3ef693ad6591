"""What the compiler knows of types and values (`models`, `bounds`, `joined`), and values of the host (`host_values`)."""

from __future__ import annotations

import random

import cuda_device as device
from fuzz import bounds, host_values, joined, models
from fuzz.cases import Case

TIMES = 12


class Modelled(Case):
    """Each check, some times."""

    kind = "types"

    def source(self) -> str:
        return f"# types, by the seed {self.number}\n"

    def attempt(self, stream: device.Stream) -> str | None:
        choose = random.Random(f"types {self.number}")
        checks = (*models.CHECKS, *bounds.CHECKS, *joined.CHECKS, *host_values.CHECKS) * TIMES
        return next(filter(None, (check(choose) for check in checks)), None)
