"""Reads the logs of NVIDIA's assemblers for code that they accept: what they warn of, and the registers that they spill.

    read(["ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to …"]).warnings
    ("(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to …",)

ptxas and nvJitLink prefix each message with the name of the assembler and its kind; the driver with the kind alone. An advisory
is an `info` with a number: only these and warnings are kept, without the prefix.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from cuda_device.codegen.gpu.elf import AssemblerNotes

_WARNINGS = r"(?mi)^.*?(?:\bwarning *: *|\binfo *: *(?=\(C\d+\)))(\S.*?) *$"
_SPILLS = r"(\d+) bytes spill stores"


def read(logs: Sequence[str]) -> AssemblerNotes:
    """The notes in the last log, which may be about several functions, whose spills are added; see `Request.log`."""
    if not logs:
        return AssemblerNotes()
    first, spills = _spills(logs[0]), _spills(logs[-1])
    return AssemblerNotes(tuple(dict.fromkeys(re.findall(_WARNINGS, logs[-1]))), spills, bool(spills) and not first)


def _spills(log: str) -> int:
    return sum(map(int, re.findall(_SPILLS, log)))


def packed(notes: AssemblerNotes) -> bytes:
    """The notes as text without NUL, which is empty if there are none."""
    fields = notes.warnings, notes.spills, notes.on_purpose
    return repr(fields).encode() if any(fields) else b""


def unpacked(text: bytes) -> AssemblerNotes:
    """The notes of such a text. Raises any exception for other text."""
    return AssemblerNotes(*ast.literal_eval(text.decode())) if text else AssemblerNotes()
