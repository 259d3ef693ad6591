"""The fuzzer, up to the first program that is wrong: `python -m tests.mutation.fuzzing --programs 2016`.

Every other batch runs on the CPU, the others on the machine that executes PTX. A batch that takes more than a minute of
processor time is killed: a compiler that does not end is wrong, too, and so is one that takes all of the memory. `--lines FILE`
runs them all and writes which lines of the compiler ran, as JSON. `--first 7 --last 7` runs the batch of that place alone.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

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
    options.add_argument("--first", type=int, default=0, help="the place of the first batch")
    options.add_argument("--last", type=int, help="the place of the last batch")
    given = options.parse_args()
    if given.lines:
        from . import lines
    from ptx_machine.gpu import installed

    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    with installed():
        wrong = _first_wrong(given.programs, given.first, given.last)
        gc.collect()  # a real driver, if there is one, knows nothing of that machine's memory
    if wrong:
        print(wrong, flush=True)
        return 1
    if given.lines:
        given.lines.write_text(json.dumps(lines.taken()))
    return 0


def _first_wrong(count: int, first: int, last: int | None) -> str:
    """The number of the first program that is wrong in these batches, and what is; an empty text if none is."""
    from fuzz.generate import inputs, program
    from fuzz.run import check

    import cuda_device as device

    streams = [device.cpu_stream()], [device.default_stream()]
    for place, (turn, begin, size) in itertools.islice(
        enumerate(begins(count)), first, None if last is None else last + 1
    ):
        print(f"{BATCH}{place}", flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # nobody handles its signal, which ends the process
        values = inputs(begin)
        programs = [program(begin + k, values) for k in range(size)]
        wrong = next(check(programs, values, streams[turn % 2]), None)
        if wrong is not None:
            return f"program {wrong.program.number}: {str(wrong).splitlines()[0]}"[:300]
    return ""


def begins(programs: int) -> Iterator[tuple[int, int, int]]:
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


if __name__ == "__main__":
    sys.exit(main())
