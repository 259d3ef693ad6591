"""Other ways to make and keep a program: whatever way it goes, it stays the same program.

the IR of each stage, printed and read again       the same text
from the cache on disk                             what was printed before, without compiling
for any GPU, with any options                      an assembler of NVIDIA's takes the PTX, and its linker the LTO-IR
checked, while races are looked for                nothing is found, and the same is printed
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import Any
from unittest import mock

from ir_helpers import checked, job

import cuda_device as device
from cuda_device import compiler
from cuda_device.codegen.gpu import assemblers, cubin
from cuda_device.ir import text
from fuzz.cases import first_difference, printed
from fuzz.machines import has_libnvvm, ptx_of
from fuzz.printing import NAMES, Printing, defined

TYPES = (int, int, int, float, float, bool, bool)
TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_103", "sm_120")


class Ways(Printing):
    """A program that prints, made in one of these ways."""

    kind = "other ways"
    everywhere = False

    def attempt(self, stream: device.Stream) -> str | None:
        way = (self.read_again, self.taken_from_the_cache, self.assembled, self.watched)[self.number // 16 % 4]
        return way()

    def _kernel(self, **options: Any) -> Any:
        return device.kernel(**options)(defined(self.source(), "k", NAMES, self.file))

    def _job(self, on_cpu: bool, **options: Any) -> compiler.Job:
        return job(self._kernel(), *TYPES, target=self.random.choice(TARGETS), on_cpu=on_cpu, **options)

    def read_again(self) -> str | None:
        """The IR of each stage is what its text says."""
        on_cpu = self.random.random() < 0.5
        with mock.patch.dict(os.environ, {"CUDA_DEVICE_VERIFY": "1"}):
            work = compiler.run(self._job(on_cpu, checked=self.random.random() < 0.5), "llvm")
        for stage in ("python", "typed", "device", *(["inlined"] if on_cpu else [])):
            for function in work[stage].functions:
                objects: list[object] = []
                shown = text.show(function, objects)
                copy = text.parse(shown, objects)
                again = text.show(copy)
                if again != shown:
                    return (
                        f"the IR of the stage {stage} is another one when it is read: {first_difference(again, shown)}"
                    )
            if stage != "python":
                checked(work[stage])
        return None

    def taken_from_the_cache(self) -> str | None:
        """A second process would not compile it."""
        assert self.expected is not None
        stream = device.cpu_stream()
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"CUDA_DEVICE_CACHE": folder}):
            for _ in range(3):
                before = device.cache_info()
                wrong = first_difference(printed(lambda: self.launch(stream)), self.expected)
                if wrong is not None:
                    return wrong
            after = device.cache_info()
        return None if (after.hits - before.hits, after.misses - before.misses) == (1, 0) else "it is not in the cache"

    def assembled(self) -> str | None:
        """PTX is taken by the assembler, and LTO-IR by the linker."""
        choose = self.random
        options = {
            "lineinfo": choose.random() < 0.5, "checked": choose.random() < 0.3, "level": choose.choice((0, 1, 2, 3)),
            "contract": choose.random() < 0.5, **choose.choice(({}, {"max_registers": 64})),
            **choose.choice(({}, {"max_threads": 128})),
            "fastmath": choose.choice(((), ("afn", "ftz"), ("nnan", "nsz"))),
        }  # fmt: skip
        job = self._job(False, **options)
        ptx = compiler.run(job, "ptx")["ptx"]
        if wrong := facts(ptx, job, options, self.file, searches=bool(_SEARCHES.search(self.source()))):
            return wrong
        if any(each.available(job.target.architecture) for each in assemblers.ASSEMBLERS):
            with mock.patch.object(cubin, "ASSEMBLERS", assemblers.ASSEMBLERS):  # and not the one of the machine
                code = compiler.run(job, "cubin")["cubin"].code
            if not code.startswith(b"\x7fELF"):
                return "the cubin is none"
        if has_libnvvm() and not options["checked"]:
            made = compiler.run(job, "ltoir")["ltoir"]
            if ".entry k" not in ptx_of(made, job.target.architecture.name):
                return "the LTO-IR has no kernel"
        return None

    def watched(self) -> str | None:
        """Neither checks nor the race detector find anything."""
        assert self.expected is not None
        watching = self.random.random() < 0.5
        stream = device.cpu_stream(races=True) if watching else device.cpu_stream()
        return first_difference(printed(lambda: self.launch(stream, checked=not watching, level=1)), self.expected)


_SEARCHES = re.compile(r"ndex|v\d+ = \{|\}\[|pow\(.*, -|comb\(|perm\(|isqrt\(")
"""An index of an item, dicts with a name, keys of dicts, inverses of numbers, and functions that refuse negative numbers."""


def facts(ptx: str, job: compiler.Job, options: dict[str, Any], file: str, *, searches: bool) -> str | None:
    """What the options have to show in the PTX. What is not found by `index`, or as a key, a program always reports."""
    wanted = {
        rf"(?m)^\.target {job.target.architecture.name}\b": True,
        r"(?m)^\.visible \.entry k\(": True,
        r"(?m)^\s*\.loc\s": options["lineinfo"],
        rf'(?m)^\s*\.file\s+\d+ ".*{re.escape(file)}"': options["lineinfo"],
        r"(?m)^\.maxntid 128": "max_threads" in options,
        r"cuda_device_record": None if options["checked"] or searches else False,
        r"(?m)^\.version \d+\.\d+": True,
    }
    for pattern, there in wanted.items():
        if there is not None and bool(re.search(pattern, ptx)) != there:
            return f"the PTX has {'no ' if there else ''}{pattern!r} with {options}"
    return None
