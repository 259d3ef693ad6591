"""What mypy says of programs that use the package."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("mypy")

PROGRAM = """
import cuda_device as device
from cuda_device import float32

@device.struct
class Particle:
    mass: float32 = 1.0
    charge: device.int8 = -1
    spin: device.complex64 = 1j
    place: device.float32x2 = device.float32x2(0, 0)
    history: tuple[int, float32] = (1, 2.5)
    name: float32 = "no number"  # error: str

@device.struct
class Pair:
    a: float32
    b: int = 2

Pair(1.0)
Pair(float32(1), b=3)
Pair()  # error: Missing positional argument
Pair(1.0, 2.5)  # error: float

@device.kernel
def add(x, n: int):
    x[0] = n

def index():
    add[1, 32](device.zeros(3), 1)  # error: not indexable
    after: int = "no int"  # error: str

def call():
    add(device.zeros(3), 1)  # error: not callable
    after: int = "no int"  # error: str

device.launch(add, device.zeros(3), 1, grid=1, block=32)
shape: tuple[int, ...] = device.zeros(3).copy().reshape(3, 1).astype(float32).shape
"""


def test_mistakes_are_reported_and_others_are_not(tmp_path):
    program, root = tmp_path / "program.py", pathlib.Path(__file__).parents[2]
    program.write_text(PROGRAM)
    options = "--check-untyped-defs", "--follow-imports=silent", f"--cache-dir={tmp_path}", "--config-file="
    mypy = subprocess.run(
        [sys.executable, "-m", "mypy", *options, program.name],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(root)},
        capture_output=True,
        text=True,
    )
    found = {int(line): text for line, text in re.findall(r"^program.py:(\d+): error: (.*)", mypy.stdout, re.MULTILINE)}
    lines = dict(enumerate(PROGRAM.split("\n"), 1))
    assert [*found] == [number for number, line in lines.items() if "# error" in line], mypy.stdout + mypy.stderr
    for number, text in found.items():
        assert lines[number].partition("# error: ")[2] in text
