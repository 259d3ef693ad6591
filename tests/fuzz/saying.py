"""Kernels of the tests, and programs of `promising`, as LLVM gets them: the laws of `said`."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import cuda_device as device
from cuda_device import compiler
from cuda_device.runtime.launch.compiling import job_of
from cuda_device.types.architectures import parse
from cuda_device.types.known import of_type, small
from cuda_device.types.parse import parse as parse_type
from fuzz import said
from fuzz.cases import Case, defined, due
from fuzz.collected import launched
from fuzz.launched import TARGETS
from fuzz.promising import NUMBERS, Promising

OURS = 3
"""One in so many is a program of `promising`."""
FASTMATH: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("afn", "ftz"),
    ("nnan", "nsz"),
    ("contract", "arcp"),
    ("reassoc", "ninf"),
)
ARRAYS = ("array<int32, 1, C>", "array<float32, 2, C>", "array<uint8, 1, C>", "array<uint16, 1, strided>", "bool")


class Saying(Case):
    """A kernel with some options."""

    kind = "said"
    at_once = 6

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.random = choose = random.Random(f"said {number}")
        self.row = None if number % OURS == 0 else due(number, launched(), 1)[0]
        self.program = Promising(number, rows=5)
        self.program.lanes = None
        self.on_cpu = choose.random() < 0.2
        self.options: dict[str, Any] = {
            "lineinfo": not self.on_cpu and choose.random() < 0.6, "checked": choose.random() < 0.3,
            "contract": choose.random() < 0.5, "fastmath": choose.choice(FASTMATH),
        }  # fmt: skip
        axes = [f"{name}.{axis}" for name in ("thread_idx", "block_idx", "block_dim", "grid_dim") for axis in "xyz"]
        self.reads = "".join(f"    x[device.{each} % len(x)] = 1\n" for each in choose.sample([*axes, "lane_id"], 5))
        self.facts = choose.random() < 0.5
        self.target = choose.choice(TARGETS)

    def source(self) -> str:
        way = f"{'CPU' if self.on_cpu else self.target}, {self.options}"
        return (
            f"# {way}\n{self.program.source()}{self.reads}"
            if self.row is None
            else f"# the kernel of {self.row.name}, for {way}\n"
        )

    def attempt(self, stream: device.Stream) -> str | None:
        job = self._job()
        text = compiler.run(job, "llvm")["llvm"].text
        found = said.wrong(text, job.options, self.on_cpu, self.row is None)
        if found is None and job.options.launch_facts:
            found = said.aliasing(text)
        return found

    def _job(self) -> compiler.Job:
        if self.row is not None:
            job = job_of(
                self.row.function, self.row.arguments, self.row.options.get("target") or self.target, self.options
            )
        else:
            function = defined(self.program.source() + self.reads, "k", {"device": device}, f"<said {self.number}>")
            options = compiler.Options(**self.options, launch_facts=self.facts and not self.on_cpu)
            known = [of_type(parse_type(each)) for each in (*ARRAYS, *(type.__name__ for type in NUMBERS.values()))]
            if options.launch_facts:
                known = [small(each) for each in known]
            target = compiler.Target(parse(self.target))
            job = compiler.Job(device.kernel(function).underlying, tuple(known), True, target, options)
        if self.on_cpu:
            return dataclasses.replace(job, target=compiler.Target(job.target.architecture, True))
        return job
