"""Random programs, each run by a reference in plain Python and by the compiled code, and compared to the last bit.

    python -m tests.fuzz --programs 200000 --seed 1        runs, reports what differs, and goes on where it was stopped

A program is a function of a thread's number and of arrays of every type. `generate` makes one, statement by statement, from
the tables of what there is (`expressions`, `calls`, `aggregates`, `functions`, `statements`, `together` of `warps` and
`atomics`; `sweep` are the rows that all programs together must reach), and computes what it must give with the rules of
`reference` while it does. `programs`, `control`, `places` and `threads` are what programs are made of. `run` compiles many of
them in one kernel, at both ends of the optimiser's levels, on the CPU stream and on a GPU where there is one; `reduce` makes
one that fails small. README.md says what was run.
"""

import sys
from pathlib import Path

TESTS = str(Path(__file__).parents[1])
PTX_MACHINE = str(Path(__file__).parents[2] / "ptx_machine" / "src")
sys.path[:0] = [folder for folder in (TESTS, PTX_MACHINE) if folder not in sys.path]
