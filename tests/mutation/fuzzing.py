"""The fuzzer, up to the first program that is wrong: `python -m tests.mutation.fuzzing --programs 2016`.

Every other batch runs on the CPU, the others on the machine that executes PTX. A batch that takes more than a minute of
processor time is killed: a compiler that does not end is wrong, too, and so is one that takes all of the memory. `--places 7 3`
runs these two batches, in this order. `--lines FILE` runs each batch in a process of its own, `--jobs` at a time, and writes what
`plan` says of it, as JSON: its seconds, what is wrong, and to which lines of the compiler it comes.
"""

from __future__ import annotations

import argparse
import dis
import gc
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import tests.fuzz  # noqa: F401 - it puts its folder on the path

from .noticing import BATCH

SORTS = (("alone", 12), ("cases", 24), ("together", 12), ("cases", 24))
"""Batches of each sort of programs, and of so many, take turns in this way: cases are quick, and find much."""
SECONDS, BYTES = 60, 6 << 30


def main() -> int:
    """Returns 1 if a program is wrong, after it has printed the program's number and what was wrong in one line."""
    options = argparse.ArgumentParser(prog="python -m tests.mutation.fuzzing")
    options.add_argument("--programs", type=int, default=2016)
    options.add_argument("--lines", type=Path)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--places", type=int, nargs="*", help="the batches to run")
    given = options.parse_args()
    if given.lines:
        _listen()
    from emulated_gpu import installed

    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    with installed():
        every = list(begins(given.programs))
        places = range(len(every)) if given.places is None else given.places
        if given.lines:
            given.lines.write_text(json.dumps(_measured(given.programs, every, places, given.jobs)))
            return 0
        wrong = _first_wrong(every, places)
        gc.collect()  # a real driver, if there is one, knows nothing of that machine's memory
    if wrong:
        print(wrong, flush=True)
    return int(bool(wrong))


Batch = tuple[int, int, int]


def begins(programs: int) -> Iterator[Batch]:
    """How many batches of its sort came before each, where it begins, and of how many programs it is."""
    from fuzz.generate import sort

    turns, ends = Counter[str](), Counter[str]()
    for name, most in itertools.cycle(SORTS):
        size = min(most, programs)
        if not size:
            return
        at = next(at for at in itertools.count(ends[name], most) if sort(at) == name)
        yield turns[name], at, size
        turns[name], ends[name], programs = turns[name] + 1, at + most, programs - size


def _first_wrong(every: Sequence[Batch], places: Sequence[int]) -> str:
    """The number of the first program that is wrong in these batches, and what is; an empty text if none is."""
    from fuzz.generate import inputs, program
    from fuzz.run import check

    import cuda_device as device

    streams = [device.cpu_stream()], [device.default_stream()]
    for place in places:
        print(f"{BATCH}{place}", flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # nobody handles its signal, which ends the process
        turn, begin, size = every[place]
        values = inputs(begin)
        programs = [program(begin + k, values) for k in range(size)]
        wrong = next(check(programs, values, streams[turn % 2]), None)
        if wrong is not None:
            return f"program {wrong.program.number}: {str(wrong).splitlines()[0]}"[:300]
    return ""


# What each batch comes to


def _listen() -> None:
    """From now on lines are noted, those of functions that are compiled and not run, too."""
    from . import lines

    read: Callable[..., Any] = dis.get_instructions

    def noted(code: CodeType, **options: Any) -> Any:
        lines.compiled(code)
        return read(code, **options)

    dis.get_instructions = noted


def _measured(programs: int, every: Sequence[Batch], places: Sequence[int], jobs: int) -> dict[str, Any]:
    """What importing and each batch come to. What one batch leaves behind, which would spare the next some, dies with it."""
    import fuzz.run  # noqa: F401 - importing is not the first batch's alone

    from . import lines

    imported, running, batches = lines.taken(), dict[int, int](), dict[int, Any]()
    with tempfile.TemporaryDirectory() as folder:
        for place in [*places, *[None] * jobs]:
            if running and (place is None or len(running) == jobs):
                process, status = os.wait()
                file = Path(folder, str(ended := running.pop(process)))
                ending = {"seconds": SECONDS, "wrong": f"status {os.waitstatus_to_exitcode(status)}", "lines": {}}
                batches[ended] = json.loads(file.read_text()) if file.exists() else ending
                print(ended, batches[ended]["seconds"], batches[ended]["wrong"], flush=True)
            if place is not None:
                process = os.fork()
                if not process:
                    _alone(every, place, Path(folder, str(place)))
                running[process] = place
    return {"programs": programs, "imported": imported, "batches": batches}


def _alone(every: Sequence[Batch], place: int, file: Path) -> None:
    """Runs a batch in a process that has begun for it, and ends that."""
    from . import lines

    start = time.process_time()
    try:
        wrong = _first_wrong(every, [place])
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    signal.setitimer(signal.ITIMER_PROF, 0)
    file.write_text(json.dumps({"seconds": time.process_time() - start, "wrong": wrong, "lines": lines.taken()}))
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
