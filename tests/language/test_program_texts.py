"""The programs in folders called `programs` do what Python does, or are refused.

tests/program_texts.py describes their form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import program_texts
import pytest
from program_texts import Program

TESTS = Path(__file__).parents[1]
FILES = [
    file for folder in ("device", "ir", "language") for file in sorted((TESTS / folder / "programs").glob("*.txt"))
]
PROGRAMS = [program for file in FILES for program in program_texts.read(file)]
REFUSED = [program for program in PROGRAMS if program.types or program.message]
TYPED = [program for program in PROGRAMS if program.results]
RUN = [program for program in PROGRAMS if program not in REFUSED and (program.calls or program not in TYPED)]


@pytest.mark.parametrize("program", program_texts.parameters(RUN))
def test_runs(stream: Any, program: Program) -> None:
    program.run_cases(stream)


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("arrays of any shape share one kernel", 1), ("a kernel specialises on constant parameters", 1), ("recursion", 1),
     ("every way into a kernel and out", 2)],
)  # fmt: skip
def test_cases_launch_one_kernel_for_each_value_that_the_program_uses(stream: Any, name: str, kernels: int) -> None:
    (program,) = [program for program in PROGRAMS if program.name == name]
    program.run_cases(stream)
    program.run_cases(stream)
    assert len(program.kernels) == kernels


@pytest.mark.parametrize("program", program_texts.parameters(TYPED))
def test_has_type(program: Program) -> None:
    program.check_results()


@pytest.mark.parametrize("program", program_texts.parameters(REFUSED))
def test_is_refused(program: Program, update_golden: bool) -> None:
    message = program.check_refusal()
    if program_texts.is_message(program.message, message):
        return
    if update_golden:
        program_texts.update(program.path, program.name, message)
    else:
        assert message == program.message, str(program)
