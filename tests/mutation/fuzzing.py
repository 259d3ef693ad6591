"""The fuzzer, up to the first program that is wrong: `python -m tests.mutation.fuzzing --programs 2016`.

Every other batch runs on the CPU, the others on the machine that executes PTX. A batch that takes more than a minute of
processor time is killed: a compiler that does not end is wrong, too, and so is one that takes all of the memory. `--lines FILE`
runs them all and writes which lines of the compiler ran, as JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys
from pathlib import Path

import tests.fuzz  # noqa: F401 - it puts its folder on the path

BATCH = 24
BATCHES, STRIDE = 60, 13
"""Of so many batches, and then of so many others, those first that are of every sort."""
SECONDS, BYTES = 60, 6 << 30


def main() -> int:
    """Returns 1 if a program is wrong, after it has printed the program's number and what was wrong in one line."""
    options = argparse.ArgumentParser(prog="python -m tests.mutation.fuzzing")
    options.add_argument("--programs", type=int, default=2016)
    options.add_argument("--lines", type=Path)
    given = options.parse_args()
    if given.lines:
        from . import lines
    from fuzz.generate import inputs, program
    from fuzz.run import check
    from ptx_machine.gpu import installed

    import cuda_device as device

    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    with installed():
        streams = [device.cpu_stream()], [device.default_stream()]
        for batch in range(-(-given.programs // BATCH)):
            turns, place = divmod(batch, BATCHES)
            begin = BATCH * (turns * BATCHES + place * STRIDE % BATCHES)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # nobody handles its signal, which ends the process
            values = inputs(begin)
            programs = [program(begin + k, values) for k in range(min(BATCH, given.programs - batch * BATCH))]
            wrong = next(check(programs, values, streams[batch % 2]), None)
            if wrong is not None:
                print(f"program {wrong.program.number}: {str(wrong).splitlines()[0]}"[:300], flush=True)
                return 1
    if given.lines:
        given.lines.write_text(json.dumps(lines.taken()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
