"""Who notices a bug, and by what: a batch of the fuzzer's programs, or a test, that fails twice with it and passes without."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .order import LIMIT
from .plan import Plan, Reach
from .sample import ROOT, Mutant
from .workshop import Done, Workshop

PYTEST = ("-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist")
BATCH = "batch "
"""Before the place of a batch of the fuzzer, on the line that it prints where the batch begins."""
MOST_UNRELIABLE = 5
PASSED = (0, 5, LIMIT)  # also where there was no test, or no more time
# The fuzzer counts for itself; the tool is not the compiler.
NOT_RUN = ("test_fuzz.py", "test_mutation.py")


@dataclass(frozen=True, slots=True)
class Result:
    """Whether a bug was noticed, and by which program or test."""

    noticed: bool
    how: str
    seconds: float

    def record(self) -> dict[str, object]:
        """For a file."""
        return {"noticed": self.noticed, "how": self.how, "seconds": round(self.seconds)}

    def __str__(self) -> str:
        return f"{'noticed' if self.noticed else 'MISSED '} {self.seconds:4.0f} s  {self.how}: "


def fuzzer(workshop: Workshop, mutant: Mutant, reach: Reach, programs: int) -> Result:
    """Runs the fuzzer's batches that come to the bug's statement, the most promising first.

    A batch fails by a program that is wrong, and no less by ending the process, or by never ending. Without the bug it
    passed, when its lines were measured.
    """
    places, unreliable = reach.batches(mutant), list[int]()
    start, todo = time.monotonic(), places
    while todo:
        done = _fuzz(workshop, programs, todo)
        if done.status == 0:
            break
        place = _last_batch(done)
        if place is None:
            return Result(True, f"importing: {_why(done)}", time.monotonic() - start)
        if _fuzz(workshop, programs, [place]).status != 0:
            return Result(True, _why(done), time.monotonic() - start)
        unreliable.append(place)
        todo = todo[todo.index(place) + 1 :]
    how = f"{len(places)} of {len(reach.fuzzer['batches'])} batches of {programs} programs come there"
    for which, left_out in (("wrong without a bug", reach.wrong_batches), ("unreliable", unreliable)):
        how += f", {which}: {left_out}" * bool(left_out)
    return Result(False, how, time.monotonic() - start)


def _fuzz(workshop: Workshop, programs: int, places: Sequence[int]) -> Done:
    given = ("--programs", str(programs), "--places", *map(str, places))
    return workshop.python("-m", "tests.mutation.fuzzing", *given)


def _last_batch(done: Done) -> int | None:
    """The place of the batch that was running at the end; None if there was none yet."""
    places = [line.removeprefix(BATCH) for line in done.output.splitlines() if line.startswith(BATCH)]
    return int(places[-1]) if places else None


def tests(
    workshop: Workshop, mutant: Mutant, reach: Reach, parts: slice, limit: float, given: tuple[str, ...]
) -> Result:
    """Runs the tests that can notice the bug, of some parts of the plan or of the `given` files, up to the first that does."""
    start, done = time.monotonic(), Done(0, "")
    plan = reach.plan(mutant)
    if given:
        plan = Plan((given, ()), plan.order)
    without = list(reach.broken)
    for files in filter(None, plan.files[parts]):
        while True:
            order = {"order": plan.order, "seconds": reach.seconds, "without": without, "limit": limit}
            done = _run(workshop, files, order)
            if done.status in PASSED:
                break
            failed = _failed(workshop, done)
            if failed is None:
                return Result(True, f"importing: {_why(done)}", time.monotonic() - start)
            if _run(workshop, [failed], order).status not in PASSED and _passes_without(
                workshop, mutant, failed, order
            ):
                return Result(True, failed.removeprefix("tests/"), time.monotonic() - start)
            without.append(failed)
            if len(without) - len(reach.broken) > MOST_UNRELIABLE:
                return Result(False, f"unreliable: {without[-MOST_UNRELIABLE:]}", time.monotonic() - start)
    count = sum(map(len, plan.files[parts]))
    how = f"{count} of {sum(map(len, plan.files))} files{', as far as time allowed' * (done.status == LIMIT)}"
    return Result(False, how, time.monotonic() - start)


def _run(workshop: Workshop, which: list[str] | tuple[str, ...], order: dict[str, object]) -> Done:
    plan, running = workshop.folder / "order.json", workshop.folder / "running.txt"
    plan.write_text(json.dumps(order))
    running.write_text("")
    options = ("--order", str(plan), "--running", str(running), "--basetemp", str(workshop.folder / "temporary"))
    return workshop.python(*PYTEST, "-p", "tests.mutation.order", *options, *which)


def _failed(workshop: Workshop, done: Done) -> str | None:
    """The test that failed, or that was running when the process died; None if there was none yet."""
    running = (workshop.folder / "running.txt").read_text()
    return running or None


def _passes_without(workshop: Workshop, mutant: Mutant, test: str, order: dict[str, object]) -> bool:
    with _without(workshop, mutant):
        return _run(workshop, [test], order).status == 0


@contextlib.contextmanager
def _without(workshop: Workshop, mutant: Mutant) -> Iterator[None]:
    """The bug is not there meanwhile."""
    target = workshop.folder / "cuda_device" / mutant.file
    changed = target.read_text()
    target.write_text((ROOT / "cuda_device" / mutant.file).read_text())
    try:
        yield
    finally:
        target.write_text(changed)


def _why(done: Done) -> str:
    if done.stuck:
        return "stuck"
    if done.status < 0:
        return f"signal {-done.status}"
    lines = [line.strip() for line in done.output.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"(E\s+)?(program \d+:|\w[\w.]*(Error|Bug|Exception)\b)", line)]
    return (telling or lines or ["?"])[-1][:160]


def measure(workshop: Workshop, folder: Path, which: str) -> None:
    """Writes which lines a test file comes to, and which of its tests fail without a bug."""
    options = (
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.mutation.lines",
        "--lines",
        str(folder / f"{Path(which).stem}.json"),
    )
    workshop.python(*PYTEST[:3], *options, which)


def measure_fuzzer(workshop: Workshop, folder: Path, programs: int, jobs: int) -> None:
    """Writes which lines each batch of the fuzzer comes to, and which are wrong without a bug; if that is not known."""
    file, sources = folder / "fuzzer.json", _sources()
    known = json.loads(file.read_text()) if file.exists() else {}
    if (known.get("programs"), known.get("sources")) != (programs, sources):
        given = ("--programs", str(programs), "--lines", str(file), "--jobs", str(jobs))
        done = workshop.python("-m", "tests.mutation.fuzzing", *given)
        assert done.status == 0, done.output
        file.write_text(json.dumps(json.loads(file.read_text()) | {"sources": sources}))


def _sources() -> str:
    """A hash of the compiler and of the fuzzer."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in ("cuda_device", "tests") for path in (ROOT / folder).rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def without_lines(folder: Path) -> list[str]:
    """The test files of which it is not known to which lines they come, the largest first."""
    files = sorted((ROOT / "tests").glob("test_*.py"), key=lambda path: -path.stat().st_size)
    return [
        f"tests/{path.name}"
        for path in files
        if path.name not in NOT_RUN and not (folder / f"{path.stem}.json").exists()
    ]
