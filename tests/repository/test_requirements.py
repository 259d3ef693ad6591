"""docs/requirements.md: each program breaks the rule above it, as the page says; `--update-golden` writes the errors.

A program is run with `device`, `np`, `math`, `x` (64 float32), `n` (64 int32) and `run(kernel, *args, block=1)`, which
launches on the CPU stream.
"""

from __future__ import annotations

import linecache
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import cuda_device as device

DOCUMENT = Path(__file__).parents[2] / "docs" / "requirements.md"
ERRORS: dict[str, type[Exception] | tuple[type[Exception], ...]] = {
    "while compiling": device.CompileError,
    "when a function or class is decorated, or an object is created": (TypeError, AttributeError),
    "when host code uses it": (device.DeviceOnlyError, AttributeError),
    "at launch": device.LaunchError,
    "in checked mode": device.KernelError,
}
ROW = re.compile(r"(?P<rule>.+\.\)?) Found (?P<how>.+):\n\n```python\n(?P<program>(?:.*\n)*?)# (?P<error>.+)\n```\n")


class Requirement(NamedTuple):
    """A row of the page: a rule, when a violation is found, a program that violates it, and its error."""

    rule: str
    how: str
    program: str
    error: str


REQUIREMENTS = [Requirement(*found) for found in ROW.findall(DOCUMENT.read_text())]
by_program = pytest.mark.parametrize("requirement", REQUIREMENTS, ids=range(len(REQUIREMENTS)))


def violate(program: str, file: str = "program.py") -> Exception | None:
    """Runs a program; the error that it ends with."""
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)

    def run(kernel: Any, *arguments: Any, block: int = 1) -> None:
        device.launch(kernel, *arguments, grid=1, block=block, stream=device.cpu_stream())

    scope = {
        "__name__": "program",
        "device": device,
        "np": np,
        "math": math,
        "x": np.ones(64, np.float32),
        "n": np.arange(64, dtype=np.int32),
        "run": run,
    }
    try:
        exec(compile(program, file, "exec", dont_inherit=True), scope)
    except Exception as error:
        return error
    return None


def shown(error: Exception | None) -> str:
    """What the page shows of an error."""
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


@by_program
def test_the_violation_is_found(requirement: Requirement, update_golden: bool) -> None:
    """The message says where; what device code does wrong is shown, with the line."""
    error = violate(requirement.program)
    assert isinstance(error, ERRORS[requirement.how]), repr(error)
    assert update_golden or shown(error) == requirement.error
    assert len(str(error).splitlines()[0]) > 15
    if requirement.how in ("while compiling", "in checked mode"):
        assert "program.py:" in str(error)
    if isinstance(error, device.CompileError):
        assert error.location.line > 0


@pytest.mark.parametrize("requirement", [r for r in REQUIREMENTS if r.how == "in checked mode"])
def test_checked_mode_is_what_finds_it(requirement: Requirement) -> None:
    """Compiling finds nothing, with checks or without: the programs are wrong when they run only."""
    program = requirement.program.replace("run(k", "compiled(k")
    scope: dict[str, Any] = {"device": device, "x": np.ones(64, np.float32), "n": np.arange(64, dtype=np.int32)}
    scope["compiled"] = lambda kernel, *arguments, **_: [
        device.compile(kernel, *arguments, output="ptx", checked=checked) for checked in (False, True)
    ]
    exec(program, scope)


def test_each_program_of_the_page_is_run(update_golden: bool) -> None:
    text = DOCUMENT.read_text()
    assert len(REQUIREMENTS) == text.count("```python\n") > 80
    if update_golden:
        DOCUMENT.write_text(ROW.sub(updated, text))


def updated(row: re.Match[str]) -> str:
    """A row of the page with the error that its program ends with."""
    return row[0].replace(f"# {row['error']}\n```", f"# {shown(violate(row['program']))}\n```")
