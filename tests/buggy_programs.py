"""Kernels with a mistake that checked mode has to find: each is right where its last argument is 0, and wrong where it is 1.

Their texts are in buggy_programs.txt:

    === load_beside_a_row: block=8, thread=7
    i = device.tid(1)
    out[i] = m[0, i + bug]  # reports: index 8 is out of bounds for axis 1 of size 8

Every kernel gets `x`, the int32 numbers from 0 to 63, `m`, the same as 8 rows of 8, `out`, 64 int32, and `bug`. A text that
defines `k` is a whole program. Behind the name are the fields of `Program` that are others than usual.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ir_helpers import programs_in

HERE = "# reports: "


@dataclass(frozen=True)
class Program:
    """A program: what it reports, by which thread (None: the block), how it is launched, and whether a GPU can find it, too."""

    name: str
    function: Callable[..., Any]
    message: str
    thread: int | None = 0
    block: int = 1
    shared: int = 0
    on_gpu: bool = True


PROGRAMS = [
    Program(name, function, re.search(f"{HERE}(.+)", text)[1], **fields)  # type: ignore[index]
    for name, fields, text, function in programs_in(
        Path(__file__).with_name("buggy_programs.txt"), "def k(x, m, out, bug):"
    )
]
