"""Compiles programs, many in one kernel, runs them, and compares with the reference.

Level 0 and level 3 of LLVM's optimiser, without contraction: each must give the reference's results, to the last bit.
"""

from __future__ import annotations

import cmath
import contextlib
import dataclasses
import functools
import linecache
import math
import operator
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import reference

import cuda_device as device
from cuda_device import compiler
from cuda_device.cpu.machine_code import compile_native
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.launch.launcher import CompiledKernel
from fuzz.care import BATCH, care, is_careful
from fuzz.cases import Case
from fuzz.generate import ARRAYS, BUILTIN_STORED, SLOTS, THREADS
from fuzz.machines import by_libnvvm, has_libnvvm, is_emulated
from fuzz.programs import BLOCKS, Open, Program, indented
from fuzz.tables import LISTS, STRUCTS, TABLES

LEVELS = (0, 3)
MODULES: dict[str, Any] = {
    "device": device, "math": math, "cmath": cmath, "np": np, "operator": operator, "functools": functools,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mismatch:
    """A program that is wrong: where, and what it gave."""

    program: Program | Case
    where: str
    slot: int = -1
    thread: int = -1
    found: object = None
    expected: object = None

    def __str__(self) -> str:
        shown = f"program {self.program.number}, {self.where}"
        if isinstance(self.program, Case):
            return f"{shown}\n{self.program.source()}"
        if self.slot >= 0:
            what = self.program.stores[self.slot]
            shown += f": thread {self.thread}: {what} ({what.type}) is {self.found!r}, not {self.expected!r}"
        return f"{shown}\n{source([self.program])}"


def source(programs: Sequence[Program]) -> str:
    """The text of a kernel `k` that runs them all. A program gets the arrays that it uses."""
    lines: list[str] = []
    calls = [
        "def k(a, o):",
        "    i = device.int32(device.thread_idx.x)",
        "    if device.block_idx.x + device.block_idx.y + device.block_idx.z == 0:",  # alike for all threads of a block
    ]
    for place, program in enumerate(programs):
        for function in program.functions:
            lines += function.lines()
        body = indented(program.body)
        for slot, store in enumerate(program.stores):
            k = ARRAYS.index(BUILTIN_STORED.get(store.type, store.type))
            body.append(f"    o{k}[at + {slot * THREADS} + i] = {store}")
        arrays = sorted(set(re.findall(r"\b([ao])(\d+)\b", "\n".join(body))))
        names = "".join(f", {array}{k}" for array, k in arrays)
        lines += [f"def program{program.number}(i, at{names}):", *body, "", ""]
        given = "".join(f", {array}[{k}]" for array, k in arrays)
        calls.append(f"        program{program.number}(i, {place * SLOTS * THREADS}{given})")
    return "\n".join([*lines, *calls]) + "\n"


@dataclasses.dataclass(frozen=True)
class Leg:
    """A way to run some programs, in words, too. `shares`: the IR is that of the first leg."""

    where: str
    kernel: device.Kernel
    stream: device.Stream
    shares: bool = False
    made: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    """Who makes the machine code."""

    @property
    def on_cpu(self) -> bool:
        """Whether it runs on the CPU."""
        return isinstance(self.stream, type(device.cpu_stream()))


def kernels(programs: Sequence[Program], *options: dict[str, Any]) -> list[device.Kernel]:
    """The kernel of some programs, with each of these options."""
    text = source(programs)
    file = f"<programs {programs[0].number} to {programs[-1].number}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {**MODULES, **STRUCTS, **TABLES, **LISTS}
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    return [device.kernel(**each)(scope["k"]) for each in options]


PLAIN = tuple({"level": level, "contract": False, "checked": False} for level in LEVELS)
CHECKED = {"contract": False, "checked": True}


def legs(programs: Sequence[Program], streams: Sequence[device.Stream]) -> Iterator[Leg]:
    """Both levels on each stream, and what NVIDIA's compiler makes where PTX is emulated.

    With care also, on the CPU, checked mode or the race detector, which must find nothing.
    """
    *made, checked, watched, linked = kernels(programs, *PLAIN, CHECKED, PLAIN[0], PLAIN[0])
    for level, kernel in zip(LEVELS, made, strict=True):
        for stream in streams:
            leg = Leg(f"stream, level {level}", kernel, stream)
            name = "CPU" if leg.on_cpu else "GPU"
            yield dataclasses.replace(leg, where=f"{name} {leg.where}", shares=level != LEVELS[0])
    for stream in streams:
        if is_emulated() and not Leg("", linked, stream).on_cpu and has_libnvvm():
            yield Leg("GPU stream, by libNVVM", linked, stream, shares=True, made=by_libnvvm)
    if is_careful(programs[0].number) and any(Leg("", checked, stream).on_cpu for stream in streams):
        if programs[0].number // BATCH % 2:
            yield Leg("CPU stream, checked", checked, device.cpu_stream())
        else:
            yield Leg("CPU stream, looking for races", watched, device.cpu_stream(races=True))


def share(first: device.Kernel, other: device.Kernel, on_cpu: bool) -> None:
    """Gives a kernel the IR of the same one for another level: only LLVM's part, and what follows, is done again."""
    for key, variant in first.variants.items():
        if variant.work.job.target.on_cpu != on_cpu:
            continue
        job = replace(variant.work.job, options=other.options.build)
        artifacts = {name: made for name, made in variant.work.artifacts.items() if name not in OF_A_LEVEL}
        old = variant.work
        work = compiler.Work(job, artifacts, {}, old.dependencies, old.program, make=old.make)
        if on_cpu:
            work.artifacts["native"] = compile_native(work["llvm"].text, level=min(job.options.level, 2))
        other.variants[key] = CompiledKernel(work, variant.packing, variant.described)


OF_A_LEVEL = ("native", "optimised", "ptx", "cubin")


def check(
    programs: Sequence[Program | Case], given: dict[str, list[Any]], streams: Sequence[device.Stream]
) -> Iterator[Mismatch]:
    """What is wrong with some programs."""
    for each in programs:
        if isinstance(each, Case):
            yield from tried(each, streams)
    others = [each for each in programs if isinstance(each, Program)]
    if others:
        yield from checked(others, given, streams)


def tried(case: Case, streams: Sequence[device.Stream]) -> Iterator[Mismatch]:
    """What is wrong with a case."""
    for stream in streams if case.everywhere else [device.cpu_stream()]:
        on_cpu = isinstance(stream, type(device.cpu_stream()))
        try:
            with care(case.number):
                wrong = case.attempt(stream)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong is not None:
            yield Mismatch(case, f"{'CPU' if on_cpu else 'GPU'} stream, {case.kind}: {wrong}")


def checked(
    programs: Sequence[Program], given: dict[str, list[Any]], streams: Sequence[device.Stream], linked: bool = False
) -> Iterator[Mismatch]:
    """What is wrong with programs of one kernel, in every way or as libNVVM makes it; if it cannot be compiled, one by one."""
    expected = [program.expected() for program in programs]
    arrays = tuple(np.array(given[type], reference.storage(type)) for type in ARRAYS)
    first = None
    for leg in legs(programs, streams):
        if linked and leg.made is not by_libnvvm:
            continue
        outputs = tuple(poisoned(len(programs) * SLOTS * THREADS, type) for type in ARRAYS)
        try:
            with care(programs[0].number):
                if leg.shares and first is not None:
                    share(first, leg.kernel, leg.on_cpu)
                with leg.made():
                    found = launch(leg.kernel, arrays, outputs, leg.stream, leg.on_cpu)
        except Exception as error:
            has_no_words = leg.made is by_libnvvm and "LTO-IR does not support" in str(error)
            if len(programs) > 1:
                for program in programs:
                    yield from checked([program], given, streams, linked=has_no_words)
            elif not has_no_words and not _loses(error):
                yield Mismatch(programs[0], f"{leg.where}: {type(error).__name__}: {error}")
            if has_no_words:
                continue
            return
        first = first or leg.kernel
        yield from compare(programs, expected, found, leg.where)


def _loses(error: Exception) -> bool:
    """Whether checked mode reports what other modes compute: ints that wrap, and what integers have no answer for."""
    return isinstance(error, device.KernelError) and bool(re.search(_LOSSES, str(error)))


_LOSSES = r"^the int -?\d+ does not fit|^an integer cannot be raised|^the count of a shift"


def launch(kernel: device.Kernel, arrays: Any, outputs: Any, stream: device.Stream, on_cpu: bool) -> Any:
    """Runs a kernel and returns what its output arrays hold."""
    if on_cpu:
        device.launch(kernel, arrays, outputs, grid=BLOCKS, block=THREADS, stream=stream, shared=16 * THREADS)
        if os.environ.get("CUDA_DEVICE_TEST_CUBINS") == "1":
            assemble(kernel)
        return outputs
    a = tuple(device.array(each, stream=stream) for each in arrays)
    o = tuple(device.array(each, stream=stream) for each in outputs)
    device.launch(kernel, a, o, grid=BLOCKS, block=THREADS, stream=stream, shared=16 * THREADS)
    device.synchronize(stream)
    return tuple(each.numpy() for each in o)


def assemble(kernel: device.Kernel) -> None:
    """Makes a cubin of a kernel's newest variant, as a launch on a GPU would."""
    job = next(reversed(kernel.variants.values())).work.job
    compiler.run(replace(job, target=compiler.Target(job.target.architecture)), "cubin")


def poisoned(length: int, type: str) -> Any:
    """An array that no program has written."""
    result = np.empty(length, reference.storage(type))
    result.view(np.uint8)[...] = 1 if type == "bool" else 0xA5
    return result


def compare(
    programs: Sequence[Program], expected: Sequence[Sequence[Sequence[Any]]], found: Any, where: str
) -> Iterator[Mismatch]:
    """The first slot of each program that is not what the reference says."""
    lists = [each.astype(np.float64).tolist() if reference.is_float(type) else each.tolist()
             for type, each in zip(ARRAYS, found, strict=True)]  # fmt: skip
    for place, program in enumerate(programs):
        wrong = next(_wrong(program, place, expected[place], lists, where), None)
        if wrong is not None:
            yield wrong


def _wrong(
    program: Program, place: int, expected: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]], where: str
) -> Iterator[Mismatch]:
    for slot, store in enumerate(program.stores):
        type = BUILTIN_STORED.get(store.type, store.type)
        base = (place * SLOTS + slot) * THREADS
        for thread in range(THREADS):
            got = found[ARRAYS.index(type)][base + thread]
            if not reference.same(type, got, expected[thread][slot]):
                yield Mismatch(program, where, slot, thread, got, expected[thread][slot])


# Making a program that fails small: without statements and parts of expressions, as long as it fails in the same way


def reduce(failed: Mismatch, given: dict[str, list[Any]], streams: Any, seconds: float = 60) -> Mismatch:
    """The smallest failure that is found in some time."""
    end = time.monotonic() + seconds
    kind = kind_of(failed)

    def fails(program: Program | Case) -> Mismatch | None:
        if isinstance(program, Case):
            return next((each for each in tried(program, streams) if kind_of(each) == kind), None)
        if not program.is_consistent():
            return None
        try:
            program.expected()
        except (Open, LookupError, TypeError, ValueError, OverflowError, AttributeError, AssertionError):
            return None
        return next((each for each in check([program], given, streams) if kind_of(each) == kind), None)

    return smallest(failed, fails, end)


def smallest(failed: Mismatch, fails: Callable[[Any], Mismatch | None], end: float) -> Mismatch:
    """Goes from failure to smaller failure until none is left, or the time is over."""
    going = True
    while going:
        going = False
        for less in failed.program.smaller():
            if time.monotonic() > end:
                return failed
            found = fails(less)
            if found is not None:
                failed, going = found, True
                break
    return failed


def kind_of(mismatch: Mismatch) -> str:
    """A wrong value, or the name of an error."""
    error = re.search(r"\w+(Error|Bug)(?=:)", mismatch.where)
    return error[0] if error and mismatch.slot < 0 else "value"
