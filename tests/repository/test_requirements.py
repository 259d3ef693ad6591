"""Each requirement on programs is checked, and `docs/requirements.md` says how."""

from __future__ import annotations

import linecache
import math
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from requirements import ERRORS, REQUIREMENTS, How, Requirement

import cuda_device as device

DOCUMENT = Path(__file__).parents[2] / "docs" / "requirements.md"
by_program = pytest.mark.parametrize(
    "requirement", REQUIREMENTS, ids=[f"{r.section.replace(' ', '_')}-{i}" for i, r in enumerate(REQUIREMENTS)]
)

HEAD = """\
# Requirements on programs

The specification of `cuda.device` has rules that programs must follow. This page lists each rule, in our own words, with a
program that breaks it and the resulting error. The tests run every program and generate this page (`pytest
tests/repository/test_requirements.py --update-golden`).

In the programs, `x` is an array of 64 float32, `n` an array of int32 with the numbers from 0 to 63, and `run(kernel, ...)`
launches the kernel with one block on `device.cpu_stream()`. "Found in checked mode" means that the running kernel reports the
error. Checked mode is the default on CPU streams; on a GPU, `@kernel(checked=True)` turns it on.

One rule is not checked: the array of an `atomic_ref` must live as long as the reference is used. In device code this always
holds, because a launch keeps its arguments alive.
"""


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


@by_program
def test_the_violation_is_found(requirement: Requirement) -> None:
    error = violate(requirement.program)
    assert isinstance(error, ERRORS[requirement.how]), repr(error)


@by_program
def test_the_message_helps(requirement: Requirement) -> None:
    """It says where; what device code does wrong is shown, with the line."""
    error = violate(requirement.program)
    text = str(error)
    assert len(text.splitlines()[0]) > 15
    if requirement.how in (How.COMPILING, How.CHECKED):
        assert "program.py:" in text
    if requirement.how is How.COMPILING:
        assert isinstance(error, device.CompileError)
        assert error.location.line > 0


@pytest.mark.parametrize("requirement", [r for r in REQUIREMENTS if r.how is How.CHECKED])
def test_checked_mode_is_what_finds_it(requirement: Requirement) -> None:
    """Compiling finds nothing, with checks or without: the programs are wrong when they run only."""
    program = requirement.program.replace("run(k", "compiled(k")
    scope: dict[str, Any] = {"device": device, "x": np.ones(64, np.float32), "n": np.arange(64, dtype=np.int32)}
    scope["compiled"] = lambda kernel, *arguments, **_: [
        device.compile(kernel, *arguments, output="ptx", checked=checked) for checked in (False, True)
    ]
    exec(program, scope)


def document() -> str:
    """The page."""
    text = HEAD
    for title, rows in groupby(REQUIREMENTS, lambda r: r.section):
        text += f"\n## {title}\n"
        for row in rows:
            error = violate(row.program)
            shown = str(error).splitlines()[0]
            name = type(error).__name__
            text += f"\n{row.rule} Found {row.how}:\n\n```python\n{row.program}# {name}: {shown}\n```\n"
    return text


def test_the_page_is_up_to_date(update_golden: bool) -> None:
    if update_golden:
        DOCUMENT.write_text(document())
    assert DOCUMENT.read_text() == document()


def test_the_page_copies_no_sentence() -> None:
    """Each rule is a sentence of ours; here: that none is empty, and none stands twice for one section and program."""
    assert len({(r.section, r.rule, r.program) for r in REQUIREMENTS}) == len(REQUIREMENTS)
    assert all(r.rule.endswith((".", ".)")) for r in REQUIREMENTS)
