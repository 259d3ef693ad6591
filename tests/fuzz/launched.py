"""Kernels of the tests, for other machines than there: what holds of all that can be compiled, whatever it means.

For any GPU and for the CPU, checked or not, they are compiled, the IR of each stage is well formed, and its text is read as it
was printed.
"""

from __future__ import annotations

import dataclasses
import random

import cuda_device as device
from cuda_device import compiler
from cuda_device.runtime.launch.compiling import job_of
from fuzz.cases import Case, due
from fuzz.collected import Launch, launched
from fuzz.reading import reread

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
OPTIONS = ("checked", "fastmath", "level", "contract", "lineinfo")


class Launched(Case):
    """A kernel, and one of the ways."""

    kind = "launched"
    at_once = 16

    def __init__(self, number: int, row: Launch | None = None) -> None:
        super().__init__(number)
        self.random = random.Random(f"launched {number}")
        self.row = row or due(number, launched(), 1)[0]
        self.on_cpu, self.checked = self.random.random() < 0.4, self.random.random() < 0.25
        self.target = self.row.options.get("target") or self.random.choice(TARGETS)

    def source(self) -> str:
        way = f"{'CPU' if self.on_cpu else self.target}{', checked' * self.checked}"
        return f"# the kernel of {self.row.name}, for {way}\n"

    def attempt(self, stream: device.Stream) -> str | None:
        options = {name: value for name, value in self.row.options.items() if name in OPTIONS}
        options |= {"checked": True} if self.checked else {}
        job = job_of(self.row.function, self.row.arguments, self.target, options)
        if self.on_cpu:
            job = dataclasses.replace(job, target=compiler.Target(job.target.architecture, True))
        last = "inlined" if self.on_cpu else "device"
        work = compiler.run(job, last)
        for stage in ("python", "typed", last):
            for function in work[stage].functions:
                if wrong := reread(function):
                    return wrong
        return None
