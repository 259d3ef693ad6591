"""What is around the compiler: what users set, files, LLVM and NVIDIA's tools, each in modules of its own."""

from __future__ import annotations

import random

import cuda_device as device
from fuzz import approximate, asked, files, loaded, released, rewritten, settings, tools
from fuzz.cases import Case

TIMES = 6
"""How often a check of settings, which are quick, is made for each of the others."""


class Surroundings(Case):
    """Each check, some times."""

    kind = "surroundings"

    def source(self) -> str:
        return f"# surroundings, by the seed {self.number}\n"

    def attempt(self, stream: device.Stream) -> str | None:
        choose = random.Random(f"surroundings {self.number}")
        checks = [*settings.CHECKS * TIMES]
        for module in (approximate, files, loaded, released, rewritten, tools, asked):
            checks += module.CHECKS
        return next(filter(None, (check(choose) for check in checks)), None)
