"""How carefully programs are compiled: most of them as fast as what they show allows.

    with care(program.number):
        …                       compile

One batch in seven is verified after each stage, and has the machine code that users get. The others are not verified. Their
programs, which the kernel calls, are not made part of it; and instructions are selected in the simplest way that is right, in
half of the time (LLVM's fast selection is not: it loses results that are bfloat16). What our compiler gets wrong shows all the
same.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

from cuda_device.codegen import llvm
from cuda_device.cpu import native

BATCH = 12
ONE_IN = 7
"""Of so many batches one is compiled with care. Sorts of programs follow each other in groups of 96, 8 batches."""
_PROGRAM = re.compile(r"(define internal \S+ @device\.program\d+\(.*\) )(?=nounwind)")
_machine, _optimise, _parse = native._machine, native._optimise, native.parse


def is_careful(number: int) -> bool:
    """Whether the program of a number is compiled with care."""
    return number // BATCH % ONE_IN == 0


@contextlib.contextmanager
def care(number: int) -> Iterator[None]:
    """Compiles the program of a number, and those of its batch, as carefully as is its due."""
    with contextlib.ExitStack() as stack:
        if is_careful(number):
            stack.enter_context(mock.patch.dict(os.environ, {"CUDA_DEVICE_VERIFY": "1"}))
        else:
            stack.enter_context(mock.patch.multiple(native, _machine=_simple, _optimise=_optimised, parse=_parsed))
        yield


@functools.cache
def _simple_machine() -> llvm.Machine:
    llvm.load_llvm().SetCommandLine(b"fuzz", b"-fast-isel=false")
    return llvm.host_machine(*native.host(), 0)


def _simple(*_: Any) -> llvm.Machine:
    return _simple_machine()


def _optimised(module: Any, _: Any, level: int, ir: str) -> None:
    _optimise(module, _machine(level), level, ir)


def _parsed(text: str) -> Any:
    return _parse(re.sub(_PROGRAM, r"\1noinline ", text))
