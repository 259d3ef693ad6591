"""Plants bugs in a copy of the compiler, one at a time, and runs the fuzzer and the tests on it: `tests/mutation/README.md`.

    python -m tests.mutation lines                       which lines each test runs: once, before all else
    python -m tests.mutation run --who tests             plants the bugs; goes on where it was stopped
    python -m tests.mutation run --who fuzzer --jobs 16  several at a time, each in a copy of its own
    python -m tests.mutation table                       the results, as a table

All is in one folder, `--folder`. Each result is a line of its `results.jsonl`, added when it is there; so a run that was stopped
(`--seconds` stops it) goes on with those that have none. For the fuzzer `lines --who fuzzer` is enough; `run` makes it, too.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import math
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from .noticing import Result, fuzzer, measure, measure_fuzzer, tests, without_lines
from .plan import Reach
from .sample import Mutant, all_places, drawn
from .workshop import Workshop

T = TypeVar("T")
PARTS = {"all": slice(None), "first": slice(1), "rest": slice(1, None)}


def main() -> int:
    """Does what the first argument says."""
    given = _arguments()
    given.folder.mkdir(parents=True, exist_ok=True)
    mutants = list(itertools.islice(drawn(given.seed, given.only), given.count))
    {"lines": _lines, "run": _run, "table": _table, "list": _list}[given.what](given, mutants)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("lines", "list", "run", "table"))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "cuda_device_mutation"))
    parser.add_argument("--count", type=int, default=100, help="how many bugs")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--only", default="", help="part of the names of the files")
    parser.add_argument("--who", choices=("tests", "fuzzer"), default="tests")
    parser.add_argument("--programs", type=int, default=2016, help="of the fuzzer")
    parser.add_argument(
        "--again",
        type=int,
        nargs="*",
        default=[],
        help="numbers of bugs to run though there is a result, and no others",
    )
    parser.add_argument("--part", choices=PARTS, default="all", help="of the tests: the likeliest ones, or the others")
    parser.add_argument(
        "--limit", type=float, default=math.inf, help="seconds of processor time for each part of the tests"
    )
    parser.add_argument("--files", nargs="*", default=[], help="test files, if not those of the plan")
    parser.add_argument("--share", type=int, nargs=2, default=(0, 1), help="K N: of every N bugs the one after K")
    parser.add_argument("--jobs", type=int, default=1, help="so many bugs at a time")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no bug is begun after so much time")
    parser.add_argument("--without", type=int, nargs="*", default=[], help="numbers of bugs to leave for later")
    return parser.parse_args()


def _lines(given: argparse.Namespace, _: list[Mutant]) -> None:
    folder = given.folder / "lines"
    folder.mkdir(exist_ok=True)
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    for file in without_lines(folder) if given.who == "tests" else ():
        todo.put(file)

    def job(name: str) -> None:
        workshop = Workshop(given.folder / name)
        for file in _until_empty(todo, math.inf):
            measure(workshop, folder, file)

    _at_once(given.jobs, job, "lines_copy")
    measure_fuzzer(Workshop(given.folder / "lines_copy_0"), folder, given.programs, given.jobs)


def _list(given: argparse.Namespace, mutants: list[Mutant]) -> None:
    print(f"{len(all_places(given.only))} places, seed {given.seed}")
    for number, mutant in enumerate(mutants, 1):
        print(f"{number:4} {mutant}")


def _run(given: argparse.Namespace, mutants: list[Mutant]) -> None:
    if given.who == "fuzzer":
        _lines(given, mutants)
    known, end = _results(given.folder / "results.jsonl"), time.monotonic() + given.seconds
    todo: queue.SimpleQueue[tuple[int, Mutant]] = queue.SimpleQueue()
    for number, mutant in enumerate(mutants, 1):
        wanted = number in given.again or ((given.seed, number, given.who) not in known and not given.again)
        if wanted and number not in given.without and number % given.share[1] == given.share[0]:
            todo.put((number, mutant))
    _at_once(
        given.jobs,
        functools.partial(_job, given, todo, end),
        f"copy_{given.who}_{given.share[0]}_of_{given.share[1]}",
    )
    _counts(given, mutants)


def _at_once(count: int, job: Callable[[str], None], name: str) -> None:
    """So many threads that each do a job, with a name of their own."""
    jobs = [threading.Thread(target=job, args=(f"{name}_{number}",)) for number in range(count)]
    for each in jobs:
        each.start()
    for each in jobs:
        each.join()


def _until_empty(todo: queue.SimpleQueue[T], end: float) -> Iterator[T]:
    """What there is to do, up to a time of `time.monotonic`."""
    with contextlib.suppress(queue.Empty):
        while time.monotonic() < end:
            yield todo.get_nowait()


def _job(given: argparse.Namespace, todo: queue.SimpleQueue[tuple[int, Mutant]], end: float, name: str) -> None:
    """Takes one bug after the other, until there is none, or no time."""
    reach, workshop = Reach.read(given.folder / "lines"), Workshop(given.folder / name)
    for number, mutant in _until_empty(todo, end):
        with workshop.mutated(mutant):
            if given.who == "fuzzer":
                result = fuzzer(workshop, mutant, reach, given.programs)
            else:
                result = tests(workshop, mutant, reach, PARTS[given.part], given.limit, tuple(given.files))
        record = {"seed": given.seed, "number": number, "who": given.who, "mutant": str(mutant), **result.record()}
        with _WRITING, (given.folder / "results.jsonl").open("a") as out:
            out.write(json.dumps(record) + "\n")
            print(f"{number:4} {given.who:7}{result} {mutant}", flush=True)


_WRITING = threading.Lock()


def _results(file: Path) -> dict[tuple[int, int, str], Result]:
    """The last result of each bug and each way to notice it."""
    records = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
    return {
        (record["seed"], record["number"], record["who"]): Result(record["noticed"], record["how"], record["seconds"])
        for record in records
    }


def _table(given: argparse.Namespace, mutants: list[Mutant]) -> None:
    known = _results(given.folder / "results.jsonl")
    print("| | File | Change | Fuzzer | Tests |\n| --: | --- | --- | --- | --- |")
    for number, mutant in enumerate(mutants, 1):
        change = mutant.change
        what = f"line {change.line}: `{_cell(change.before)}` → `{_cell(change.after)}`"
        who = [known.get((given.seed, number, each), Result(False, "not run", 0)) for each in ("fuzzer", "tests")]
        cells = [f"**no**: {_cell(each.how)}" if not each.noticed else _cell(each.how) for each in who]
        print(f"| {number} | {mutant.file} | {what} | {cells[0]} | {cells[1]} |")
    _counts(given, mutants)


def _counts(given: argparse.Namespace, mutants: list[Mutant]) -> None:
    known = _results(given.folder / "results.jsonl")
    for who in ("fuzzer", "tests"):
        results = [known[key] for n in range(1, len(mutants) + 1) if (key := (given.seed, n, who)) in known]
        print(f"{who}: {sum(result.noticed for result in results)} of {len(results)}")


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= 80 else f"{text[:77]}…"


if __name__ == "__main__":
    sys.exit(main())
